//! Runs a test's body in a process of its own, for tests that die, set limits or count mappings.

use std::process::{Command, Output};

use sinew_test_kit::full_test_name;

const CHILD: &str = "SINEW_TEST_IN_CHILD";

/// Starts this test binary again with only `test` of `module` (its `module_path!()`) in it, runs `body` there,
/// and answers how that process ended.
pub(crate) fn run_in_child(module: &str, test: &str, body: fn()) -> Output {
    let test = full_test_name(module, test);
    if std::env::var_os(CHILD).is_some_and(|name| *name == *test) {
        body();
        std::process::exit(0);
    }
    let program = std::env::current_exe().expect("a running program has a path");
    let output = Command::new(program)
        .args([&test, "--exact", "--nocapture", "--test-threads=1"])
        .env(CHILD, &test)
        .output()
        .expect("the test binary starts again");
    let stdout = String::from_utf8_lossy(&output.stdout);
    assert!(stdout.contains("running 1 test"), "no test is called {test}: {stdout}");
    output
}

/// As [`run_in_child`], for a body that has to succeed.
#[allow(dead_code, reason = "not every test file has such a test")]
pub(crate) fn pass_in_child(module: &str, test: &str, body: fn()) {
    let output = run_in_child(module, test, body);
    assert!(output.status.success(), "{}: {}", output.status, String::from_utf8_lossy(&output.stderr));
}

//! Reading what the tools print: test results, models, build artifacts and benchmark figures.

/// The tests of one or more test programs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Tests {
    pub(crate) programs: usize,
    pub(crate) passed: usize,
    pub(crate) failed: usize,
    pub(crate) ignored: usize,
}

impl Tests {
    /// Adds up every `test result:` line.
    pub(crate) fn count<'a>(lines: impl Iterator<Item = &'a str>) -> Tests {
        let mut tests = Tests::default();
        for line in lines {
            let Some((_, counts)) = line.split_once("test result: ") else { continue };
            tests.programs += 1;
            for part in counts.split([';', '.']) {
                let mut words = part.split_whitespace();
                let (Some(number), Some(what)) = (words.next(), words.next()) else { continue };
                let Ok(number) = number.parse::<usize>() else { continue };
                match what {
                    "passed" => tests.passed += number,
                    "failed" => tests.failed += number,
                    "ignored" => tests.ignored += number,
                    _ => {}
                }
            }
        }
        tests
    }
}

impl std::ops::AddAssign for Tests {
    fn add_assign(&mut self, other: Tests) {
        self.programs += other.programs;
        self.passed += other.passed;
        self.failed += other.failed;
        self.ignored += other.ignored;
    }
}

impl std::fmt::Display for Tests {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Tests { passed, failed, ignored, .. } = self;
        write!(f, "{passed} tests passed")?;
        if *failed > 0 {
            write!(f, ", {failed} failed")?;
        }
        if *ignored > 0 {
            write!(f, ", {ignored} ignored")?;
        }
        Ok(())
    }
}

/// The name of the test that a line reports as ended, however it ended.
///
/// With one test thread and uncaptured output the verdict can follow on a later line; such a test is not
/// recognised here.
pub(crate) fn ended_test(line: &str) -> Option<&str> {
    let (name, verdict) = verdict(line)?;
    ["ok", "FAILED", "ignored"].iter().any(|end| verdict.starts_with(end)).then_some(name)
}

/// The name of a test and how it ended, of a line `test <name> ... <verdict>`.
fn verdict(line: &str) -> Option<(&str, &str)> {
    let (name, verdict) = line.strip_prefix("test ")?.split_once(" ... ")?;
    // A test that must panic is listed as `name` and reported as `name - should panic`.
    let suffixes = [" - should panic", " - compile fail", " - compile"];
    Some((suffixes.iter().find_map(|suffix| name.strip_suffix(suffix)).unwrap_or(name), verdict))
}

/// The names of the tests that failed, and the targets that cargo reports as failed: a program that
/// crashes reports no test.
///
/// Tests are reported by a line `test <name> ... FAILED`, or, if the test's own output separates the
/// two, only in the list between the last `failures:` of a program and its `test result:`.
pub(crate) fn failures<'a>(lines: impl Iterator<Item = &'a str>) -> Vec<String> {
    let mut failures: Vec<String> = Vec::new();
    let mut add = |name: String| {
        if !failures.contains(&name) {
            failures.push(name);
        }
    };
    let mut listed = Vec::new();
    for line in lines {
        if let Some((name, "FAILED")) = verdict(line) {
            add(name.to_owned());
        } else if line == "failures:" {
            listed.clear();
        } else if let Some(name) = line.strip_prefix("    ") {
            listed.push(name);
        } else if line.starts_with("test result: FAILED") {
            listed.drain(..).for_each(|name| add(name.to_owned()));
        } else if let Some((_, target)) = line.split_once(" failed, to rerun pass ") {
            add(format!("target {target}"));
        }
    }
    failures
}

/// Whether `line` of cargo's standard error says that a test program starts.
pub(crate) fn starts_program(line: &str) -> bool {
    ["     Running ", "   Doc-tests "].iter().any(|start| line.starts_with(start))
}

/// The output of the test programs that failed, without the lines of tests that passed.
///
/// Cargo runs one program after another and names it on standard error; a program's standard output starts with
/// the number of its tests. If the two streams disagree on the number of programs, the output is not divided.
pub(crate) fn output_of_failed_programs(stdout: &[String], stderr: &[String]) -> Vec<String> {
    let errors = sections(stderr, starts_program);
    let outputs = sections(stdout, |line| {
        line.strip_prefix("running ").is_some_and(|rest| rest.ends_with(" tests") || rest.ends_with(" test"))
    });
    let noteworthy = |line: &&String| !(line.starts_with("test ") && line.ends_with(" ... ok"));
    if errors.len() != outputs.len() {
        return stderr.iter().chain(stdout).filter(noteworthy).cloned().collect();
    }
    let mut failed = Vec::new();
    for (errors, outputs) in errors.iter().zip(outputs) {
        if !outputs.iter().any(|line| line.starts_with("test result: ok")) {
            failed.extend(errors.iter().chain(outputs).filter(noteworthy).cloned());
        }
    }
    failed
}

/// Divides `lines` at those that start a section; what is before the first one is left out.
fn sections(lines: &[String], starts: impl Fn(&str) -> bool) -> Vec<&[String]> {
    let mut at: Vec<usize> = (0..lines.len()).filter(|&line| starts(&lines[line])).collect();
    at.push(lines.len());
    at.windows(2).map(|ends| &lines[ends[0]..ends[1]]).collect()
}

/// The tests that a test program lists with `--list`.
pub(crate) fn listed_tests<'a>(lines: impl Iterator<Item = &'a str>) -> Vec<&'a str> {
    lines.filter_map(|line| line.strip_suffix(": test")).collect()
}

/// The `MODEL <name> executions <n>` lines. A model's line may follow the name of its test on one line.
pub(crate) fn models<'a>(lines: impl Iterator<Item = &'a str>) -> Vec<(&'a str, u64)> {
    lines
        .filter_map(|line| {
            let mut words = line[line.find("MODEL ")?..].split_whitespace().skip(1);
            let (name, word, executions) = (words.next()?, words.next()?, words.next()?);
            (word == "executions").then_some((name, executions.parse().ok()?))
        })
        .collect()
}

/// One `RESULT <peer> <bench> <metric> <value>` line.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Figure {
    pub(crate) peer: String,
    pub(crate) bench: String,
    pub(crate) metric: String,
    pub(crate) value: f64,
}

impl Figure {
    /// Reads a `RESULT` line; an error if it is one and not in that form, nothing if it is none.
    pub(crate) fn read(line: &str) -> Option<Result<Figure, String>> {
        let rest = line.strip_prefix("RESULT ")?;
        let words: Vec<&str> = rest.split(' ').collect();
        let figure = match words[..] {
            [peer, bench, metric, value] => value
                .parse()
                .ok()
                .filter(|value: &f64| value.is_finite())
                .map(|value| Figure { peer: peer.into(), bench: bench.into(), metric: metric.into(), value }),
            _ => None,
        };
        Some(figure.ok_or_else(|| format!("not `RESULT <peer> <bench> <metric> <value>`: {line}")))
    }
}

/// A target of this workspace that cargo reports as built (`--message-format=json-render-diagnostics`).
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Artifact<'a> {
    pub(crate) package: &'a str,
    /// The program, where the target is one.
    pub(crate) executable: Option<&'a str>,
    /// True for documentation.
    pub(crate) is_documentation: bool,
}

/// Cargo's messages about targets of this workspace; those about dependencies are left out.
pub(crate) fn artifacts<'a>(lines: impl Iterator<Item = &'a str>) -> Vec<Artifact<'a>> {
    lines
        .filter(|line| line.starts_with("{\"reason\":\"compiler-artifact\""))
        .filter_map(|line| {
            let package = field(line, "package_id").filter(|id| id.starts_with("path+file:"))?;
            let is_documentation = line.contains("/index.html\"");
            Some(Artifact { package, executable: field(line, "executable"), is_documentation })
        })
        .collect()
}

/// The text value of a field in one of cargo's JSON lines. Cargo escapes only quotes and backslashes in
/// the fields that are read here, and neither occurs in a path that cargo builds from.
fn field<'a>(line: &'a str, name: &str) -> Option<&'a str> {
    let key = format!("\"{name}\":\"");
    let from = line.find(&key)? + key.len();
    line[from..].split('"').next()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn test_results_add_up_over_programs() {
        let output = "running 2 tests\n\
            test result: ok. 2 passed; 0 failed; 1 ignored; 0 measured; 0 filtered out; finished in 0.00s\n\
            test result: FAILED. 3 passed; 1 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.10s";
        let tests = Tests::count(output.lines());
        assert_eq!(tests, Tests { programs: 2, passed: 5, failed: 1, ignored: 1 });
        assert_eq!(tests.to_string(), "5 tests passed, 1 failed, 1 ignored");
        assert_eq!(Tests::count("no tests here".lines()), Tests::default());
    }

    #[test]
    fn ended_tests_are_recognised_and_running_ones_are_not() {
        assert_eq!(ended_test("test a::b ... ok"), Some("a::b"));
        assert_eq!(ended_test("test a::b - should panic ... ok"), Some("a::b"));
        assert_eq!(ended_test("test a ... FAILED"), Some("a"));
        assert_eq!(ended_test("test a ... ignored, too slow"), Some("a"));
        assert_eq!(ended_test("test a has been running for over 60 seconds"), None);
        assert_eq!(ended_test("test a ... MODEL x executions 3"), None);
    }

    #[test]
    fn failed_tests_are_named_once_in_whichever_way_their_program_reports_them() {
        let output = "\
test a ... ok
test b - should panic ... FAILED
test c ... printed by c
FAILED
test crates/x/src/lib.rs - f (line 5) - compile fail ... FAILED

failures:

---- b stdout ----
failures:
    printed by b

failures:
    b
    c
    crates/x/src/lib.rs - f (line 5)

test result: FAILED. 1 passed; 3 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.00s
    printed later
test result: ok. 1 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.00s";
        assert_eq!(failures(output.lines()), ["b", "crates/x/src/lib.rs - f (line 5)", "c"]);
        assert!(failures("test a ... ok\ntest result: ok. 1 passed".lines()).is_empty());
    }

    #[test]
    fn a_target_that_crashes_is_named_with_the_tests_that_failed_before() {
        let output = "test a ... FAILED\n\
            error: test failed, to rerun pass `-p x --test y`\n\n\
            Caused by:\n  process didn't exit successfully: `y` (signal: 6, SIGABRT: process abort signal)\n\
            error: doctest failed, to rerun pass `-p x --doc`\n\
            error: 2 targets failed:\n    `-p x --test y`\n    `-p x --doc`";
        assert_eq!(failures(output.lines()), ["a", "target `-p x --test y`", "target `-p x --doc`"]);
    }

    #[test]
    fn only_the_output_of_failed_programs_is_repeated() {
        let own = |text: &str| -> Vec<String> { text.lines().map(str::to_owned).collect() };
        let stderr = own(
            "   Compiling x\n     Running tests/a.rs (a)\nnoise of a\n     Running tests/b.rs (b)\nnoise of b\n\
             error: test failed, to rerun pass `-p x --test b`",
        );
        let a = "running 1 test\ntest c ... ok\n\ntest result: ok. 1 passed; 0 failed\n";
        let b = "running 2 tests\ntest d ... ok\ntest e ... FAILED\ntest result: FAILED. 1 passed; 1 failed";
        let failed = output_of_failed_programs(&own(&format!("{a}{b}")), &stderr);
        assert_eq!(
            failed,
            own(
                "     Running tests/b.rs (b)\nnoise of b\nerror: test failed, to rerun pass `-p x --test b`\n\
                 running 2 tests\ntest e ... FAILED\ntest result: FAILED. 1 passed; 1 failed"
            )
        );
        let crashed = output_of_failed_programs(&own(a), &stderr);
        assert!(crashed.iter().any(|line| line == "noise of b"), "{crashed:?}");
    }

    #[test]
    fn the_list_of_tests_leaves_out_what_is_none() {
        let output = "a::b: test\nbig: benchmark\n\n1 test, 1 benchmark";
        assert_eq!(listed_tests(output.lines()), ["a::b"]);
    }

    #[test]
    fn models_are_found_alone_on_a_line_and_after_a_tests_name() {
        let output = "MODEL a executions 12\ntest t ... MODEL b executions 3\nMODEL c\nok";
        assert_eq!(models(output.lines()), [("a", 12), ("b", 3)]);
    }

    #[test]
    fn a_figure_has_four_words_after_result() {
        let figure = Figure::read("RESULT sinew fiber_yield ns_per_roundtrip 12.5").unwrap().unwrap();
        assert_eq!((figure.peer.as_str(), figure.value), ("sinew", 12.5));
        assert!(Figure::read("RESULT sinew fiber_yield 12.5").unwrap().is_err());
        assert!(Figure::read("RESULT sinew fiber_yield ns NaN").unwrap().is_err());
        assert!(Figure::read("warming up").is_none());
    }

    #[test]
    fn artifacts_of_dependencies_are_left_out() {
        let ours = r#"{"reason":"compiler-artifact","package_id":"path+file:///w/crates/a#0.1.0","filenames":["/w/x"],"executable":"/w/x","fresh":true}"#;
        let doc = r#"{"reason":"compiler-artifact","package_id":"path+file:///w/crates/a#0.1.0","filenames":["/w/target/doc/a/index.html"],"executable":null,"fresh":true}"#;
        let theirs =
            r#"{"reason":"compiler-artifact","package_id":"registry+https://x#libc@0.2","executable":null}"#;
        let package = "path+file:///w/crates/a#0.1.0";
        assert_eq!(
            artifacts([ours, doc, theirs].into_iter()),
            [
                Artifact { package, executable: Some("/w/x"), is_documentation: false },
                Artifact { package, executable: None, is_documentation: true },
            ]
        );
    }
}

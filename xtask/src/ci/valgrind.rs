//! The tests of the crates that switch stacks, under valgrind's memcheck.
//!
//! They are built with `--cfg valgrind`, which makes sinew-fiber tell valgrind of its stacks (its
//! `memory/valgrind.rs`). Then every read below a stack pointer, of a stack that was given back or of what
//! nobody wrote is an error, on fibers as on threads. One error fails the step; nothing is suppressed.
//!
//! Processes that a test starts are checked as well. A test whose child dies of a signal on purpose sees that
//! signal under valgrind too.

use std::num::NonZero;
use std::process::Command;
use std::sync::Mutex;
use std::thread;
use std::time::Duration;

use super::{Broken, Ran};
use crate::process::{self, End, Finished, Show};
use crate::programs::{self, Program};
use crate::report::{Tests, failures};
use crate::workspace;

const CHECKED: [&str; 4] = ["sinew-fiber", "sinew-sched", "sinew-chan", "sinew-io"];

/// The tests that cannot pass under valgrind, by their full names, and why.
const EXCLUDED: [(&str, &str); 18] = [
    ("memory_limits::without_memory_a_new_fiber_is_an_error_and_the_process_goes_on", LIMITS_VALGRIND),
    ("memory_limits::without_memory_protect_raises_an_error_that_can_be_caught", LIMITS_VALGRIND),
    ("stack_limits::an_address_space_limit_is_an_error_and_the_process_goes_on", LIMITS_VALGRIND),
    (
        "memory::slab::tests::protected_guards_end_in_an_error_that_leaves_malloc_its_mappings",
        "valgrind has room for fewer mappings than the kernel and gives up first",
    ),
    (
        "net_descriptors::a_listener_without_descriptors_waits_and_says_so_once_in_a_while",
        "valgrind looks at the limit of descriptors after it has accepted a connection, which it closes then",
    ),
    ("memory_limits::fifty_thousand_suspended_fibers_live_at_once_and_all_go_on", MANY_STACKS),
    ("stack_limits::two_hundred_thousand_stacks_fit_or_the_limit_of_mappings_is_named", MANY_STACKS),
    (
        "overflow::tests::handlers_that_were_there_before_get_the_faults_that_are_not_ours",
        "its child writes to address 64 on purpose and then exits with a status of its own, which valgrind \
         replaces by the one for errors",
    ),
    (
        "process::a_program_that_is_not_there_is_an_error",
        "valgrind makes a fork of what shares memory with its parent, where a child that has found no program says so",
    ),
    ("a_task_that_computes_is_reported_with_its_name_and_where_it_is", SHORT_NAMES),
    ("a_task_that_does_nothing_but_switch_fibers_is_reported", SHORT_NAMES),
    ("there_is_one_report_for_a_place_however_many_tasks_stall_there", SHORT_NAMES),
    ("a_task_that_computes_alone_is_not_reported_and_one_with_a_task_behind_it_is_once", SHORT_NAMES),
    ("memory::sys::tests::probing_a_guard_leaves_no_descriptor_and_no_mapping_behind", ITS_OWN_MEMORY),
    ("page_tables_go_back_with_the_last_stack_of_their_slab", ITS_OWN_MEMORY),
    ("a_process_whose_idle_stacks_were_given_back_is_left_alone", ITS_OWN_MEMORY),
    ("stacks_of_tasks_that_ended_go_back_to_the_system_by_themselves", ITS_OWN_MEMORY),
    ("trim_gives_the_stacks_of_ended_tasks_back_at_once", ITS_OWN_MEMORY),
];

const ITS_OWN_MEMORY: &str = "valgrind's own memory and mappings count as those of the process";

const SHORT_NAMES: &str =
    "what is built for valgrind has names of functions without paths, by which the place of a stall is told";
const LIMITS_VALGRIND: &str =
    "a limit on addresses is one on valgrind's own memory, without which it gives up";
const MANY_STACKS: &str = "valgrind looks for a stack in a list, so very many take minutes";

/// What valgrind exits with if it found an error; the tests themselves exit with 101 at most.
const FOUND_ERRORS: i32 = 122;

/// No test program takes this long, even on a busy machine; one that does hangs.
const PROGRAM_LIMIT: Duration = Duration::from_secs(1800);

pub(super) fn check() -> Result<Ran, Broken> {
    match process::run(Command::new("valgrind").arg("--version"), Show::Everything) {
        Ok(finished) if finished.end.is_success() => {}
        _ => {
            return Err("valgrind is missing: install it (Debian: `apt-get install valgrind`)"
                .to_owned()
                .into());
        }
    }
    let programs = programs::build(&CHECKED, "valgrind", |command| {
        command.env("RUSTFLAGS", "--cfg valgrind").env_remove("CARGO_ENCODED_RUSTFLAGS");
        command.env("CARGO_TARGET_DIR", workspace::root().join("target").join("valgrind"));
    })?;
    let mut names = Vec::new();
    for program in &programs {
        names.extend(program.tests()?);
    }
    if let Some(gone) = unknown(&names) {
        return Err(format!("no test is called {gone}: exclude it under its new name, or not at all").into());
    }

    let mut tests = Tests::default();
    let mut broken = Vec::new();
    let mut failed_tests = Vec::new();
    for (program, finished) in run_all(&programs) {
        let finished = finished?;
        tests += Tests::count(finished.lines());
        if !finished.end.is_success() {
            broken.push(format!("{} ({})", program.name(), said(&finished.end)));
            failed_tests.extend(failures(finished.lines()));
        }
    }
    if !broken.is_empty() {
        let remedy = format!("mend what valgrind or the tests report above: {}", broken.join(", "));
        return Err(Broken { remedy, tests, failures: failed_tests });
    }
    println!("not run:");
    EXCLUDED.iter().for_each(|(test, reason)| println!("  {test}: {reason}"));
    let what = format!("{tests} in {} programs, {} excluded", tests.programs, EXCLUDED.len());
    Ok(Ran { amount: tests.passed, what, tests })
}

/// Runs the programs, as many at once as there are CPUs: valgrind runs one thread of a program at a time. What a program
/// printed is shown when it has failed.
fn run_all(programs: &[Program]) -> Vec<(&Program, Result<Finished, String>)> {
    let (left, done) = (Mutex::new(programs.iter()), Mutex::new(Vec::new()));
    let at_once = thread::available_parallelism().map_or(1, NonZero::get);
    thread::scope(|scope| {
        for _ in 0..at_once {
            scope.spawn(|| {
                while let Some(program) = { left.lock().expect("no runner panics").next() } {
                    let mut command = under_valgrind(program);
                    let finished = process::run_within(&mut command, Show::Nothing, PROGRAM_LIMIT, |_, _| {});
                    let mut done = done.lock().expect("no runner panics");
                    println!("-- {}", program.name());
                    let passed = finished.as_ref().is_ok_and(|finished| finished.end.is_success());
                    let shown = finished.iter().flat_map(Finished::lines);
                    shown
                        .filter(|line| !passed || line.starts_with("test result: "))
                        .for_each(|line| println!("{line}"));
                    done.push((program, finished));
                }
            });
        }
    });
    done.into_inner().expect("no runner panics")
}

/// The first excluded test that is not among `names`.
fn unknown(names: &[String]) -> Option<&'static str> {
    EXCLUDED.iter().map(|(test, _)| *test).find(|test| !names.iter().any(|name| name == test))
}

fn under_valgrind(program: &Program) -> Command {
    let mut command = Command::new("valgrind");
    command.args(["--quiet", "--trace-children=yes", "--num-callers=30"]);
    // One thread runs at a time. By default it is any of them, for as long as it likes, and one that spins until another
    // has done something may spin for minutes.
    command.arg("--fair-sched=yes");
    command.arg(format!("--error-exitcode={FOUND_ERRORS}"));
    // Stacks are kept for as long as the process lives, and a search through all of their addresses takes
    // minutes.
    command.arg("--leak-check=no");
    command.arg(&program.path).arg("--exact");
    EXCLUDED.iter().for_each(|(test, _)| {
        command.args(["--skip", test]);
    });
    // Fewer random programs, the same each time. Looking up the names of a backtrace takes seconds.
    command.env("PROPTEST_CASES", "300").env("PROPTEST_RNG_SEED", "1").env("RUST_BACKTRACE", "0");
    // Stress is for optimised builds at full speed: here each path is taken some times.
    command.env("SINEW_STRESS", "0.05");
    program.under(command)
}

fn said(end: &End) -> String {
    match end {
        End::Exited(Some(FOUND_ERRORS)) => "valgrind found errors".to_owned(),
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_excluded_test_that_no_program_has_is_named() {
        let mut names: Vec<String> = EXCLUDED.iter().map(|(test, _)| (*test).to_owned()).collect();
        assert_eq!(unknown(&names), None);
        let gone = names.remove(3);
        assert_eq!(unknown(&names), Some(gone.as_str()));
    }
}

//! A deadlock that is certain: nobody is left in the process, not even a test harness, so this program is its own.

#![allow(clippy::exit, reason = "a process in which all wait has to be ended by the one who noticed")]

#[path = "support/deadlock.rs"]
mod deadlock;

fn main() {
    deadlock::is_certain(
        "two_tasks_that_wait_for_each_other_are_certain_to_be_deadlocked",
        |builder| builder,
        || (),
        |found| {
            println!("not certain:\n{found}");
            std::process::exit(1);
        },
    )
}

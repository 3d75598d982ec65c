//! A deadlock that becomes certain when the last thread for blocking calls has ended.

#![allow(clippy::exit, reason = "a process in which all wait has to be ended by the one who noticed")]

#[path = "support/deadlock.rs"]
mod deadlock;

use std::time::Duration;

use sinew_io::blocking;

fn main() {
    deadlock::is_certain(
        "a_deadlock_that_becomes_certain_is_reported",
        |builder| builder.blocking_keep_alive(Duration::from_secs(3)),
        || blocking(|| ()).unwrap(),
        |_| (), // not yet: a thread for blocking calls is there, and goes
    )
}

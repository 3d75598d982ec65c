//! What dumps show of a runtime, and what is reported of one in which all tasks wait.
#![cfg(not(any(loom, shuttle)))]

mod dump;
mod dump_backtraces;
mod dump_waits;
mod sysmon_deadlocks;

use sinew_test_kit::runtimes as support;

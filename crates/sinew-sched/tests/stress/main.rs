//! Everything under load: nothing is lost, nothing counts twice, and nobody waits for ever.
#![cfg(not(any(loom, shuttle)))]

mod stress;
mod stress_recycled;
mod stress_scopes;
mod stress_shutdown;
mod stress_timers;
mod stress_wakeups;

use sinew_test_kit::runtimes as support;

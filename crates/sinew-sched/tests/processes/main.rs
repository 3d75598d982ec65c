//! Programs that are started, and this one started as a child, with signals and streams of its own.
#![cfg(not(any(loom, shuttle)))]

mod dump_signal;
mod reports_lost;

use sinew_test_kit::runtimes as support;

//! Programs that are started, and this one started as a child.
#![cfg(not(any(loom, shuttle)))]

mod process;

use sinew_test_kit::runtimes as support;

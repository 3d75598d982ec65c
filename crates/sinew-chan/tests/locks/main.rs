//! Locks and other waits: who is let in, who is next, and who gives up.
#![cfg(not(any(loom, shuttle)))]

mod countdowns;
mod locks_exclude;
mod locks_fair;
mod locks_given_up;
mod locks_together;

use sinew_test_kit::runtimes as support;

//! Tasks: where and when they run, what becomes of them, and who is told.
#![cfg(not(any(loom, shuttle)))]

#[path = "../support/children.rs"]
mod children;
mod current_thread;
mod ends;
mod fairness;
mod futures;
mod migrating;
mod scopes;
mod scopes_cut_short;
mod supervisors;
mod tasks;
mod timeouts;
mod turns;

use sinew_test_kit::runtimes as support;

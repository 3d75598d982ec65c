//! Channels and selects: what is sent is received, by whom, in which order, and how it ends.
#![cfg(not(any(loom, shuttle)))]

mod chan_basics;
mod chan_broadcast;
mod chan_ends;
mod chan_fair;
mod chan_given_up;
mod chan_hostile;
mod chan_oneshot;
mod chan_ordered;
mod chan_ordered_given_up;
mod chan_pool;
mod chan_pool_hooks;
mod chan_weighted;
#[path = "../support/channels.rs"]
mod channels;
mod select_cases;

use sinew_test_kit::runtimes as support;

//! Channels and selects under load: nothing is lost, nothing counts twice, and nobody waits for ever.
#![cfg(not(any(loom, shuttle)))]

#[path = "../support/channels.rs"]
mod channels;
#[path = "../support/ledger.rs"]
mod ledger;
mod stress_chan;
mod stress_chan_ends;
mod stress_chan_given_up;
mod stress_chan_others;
mod stress_channels;
mod stress_select;

use sinew_test_kit::runtimes as support;

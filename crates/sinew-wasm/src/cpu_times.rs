//! The CPU times of the guests of an engine, for onlookers.
//!
//! A guest is listed when a tick first hits it: most guests never are, and take no memory here.

use std::collections::HashMap;
use std::time::Duration;

use sinew_kernel::ActorId;
use sinew_sync::Mutex;

#[derive(Default)]
pub(crate) struct CpuTimes(Mutex<HashMap<ActorId, Duration>>);

impl CpuTimes {
    /// Notes the CPU time that a guest has used so far.
    pub(crate) fn set(&self, guest: ActorId, time: Duration) {
        self.0.lock().insert(guest, time);
    }

    /// Forgets a guest that has ended.
    pub(crate) fn forget(&self, guest: ActorId) {
        self.0.lock().remove(&guest);
    }

    pub(crate) fn get(&self, guest: ActorId) -> Option<Duration> {
        self.0.lock().get(&guest).copied()
    }
}

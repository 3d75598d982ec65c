//! Level-triggered epoll: a set of watched numbers, a ready list and the waits for it.
//!
//! # State
//!
//! All of it is under one lock: the watches by number, the ready list, and the flags of the waits that found nothing. The
//! ready list holds *candidates*: numbers that may be ready. It is a sorted set, so that a number is in it once and
//! records come out in ascending order. A number that is ready is in the list, except while a notification is on its way;
//! a number in the list need not be ready. A wait looks at candidates only, so its cost does not grow with the number of
//! watches.
//!
//! # Protocol
//!
//! - *Notify*: an object changes its state, releases its lock and calls its watchers. The epoll takes its lock, adds the
//!   number to the ready list if the watch is interested, takes out the flags of all waits, releases the lock and raises
//!   them.
//! - *Wait*: resets its flag, takes the lock, looks whether the call has to end (the epfd was closed, the waits were
//!   interrupted), and asks candidates for their masks, one by one. A candidate that is ready is reported and stays in the
//!   list: the next wait asks it again. One that is not leaves the list. If nothing is ready, the wait adds its flag and
//!   releases the lock. Woken, it begins again; a false alarm is harmless.
//! - *Ctl*: holds the lock of the table and then that of the epoll. A new or changed watch is registered with the object
//!   first and made a candidate then, and the waits are woken.
//! - *Close of a watched number*: the number is marked as closed and its watchers are notified, as for any transition. A
//!   wait that finds a candidate closed reports `HUP` and drops the watch, so that it is reported once.
//! - *Close of an epfd*: the number is marked as closed, and then the waits are woken. Each looks at the number that it was
//!   called with, and returns `EBADF` if that is closed. With the last number of an epoll its watches are dropped.
//!
//! # Why no wake-up is lost
//!
//! Let an object become ready, and then notify. If a wait asks for the mask after the change, it sees it. If it asked
//! before, the notification takes the lock after the wait has released it: the number has left the list, so it is added
//! again, and the flag that the wait has added meanwhile is raised. A close and an interruption are stores that come
//! before the epoll's lock is taken to wake the waits: a wait that adds its flag later sees the store. The flag is reset
//! before the lock is taken, so that it stays raised if it is raised after the look.
//!
//! Lock order: table, epoll, object. A notification takes the lock of an epoll and so starts without that of an object
//! ([`lock`](crate::lock)); registrations and watches that end are dropped after the lock is released, since an object
//! may be dropped with them.
//!
//! Models, in `epoll/tests.rs`: `epoll_notify_wakes`, `epoll_close_of_a_number_is_reported_once`,
//! `epoll_close_ends_the_wait`, `epoll_ctl_against_notify`, `epoll_two_epolls_three_fds`, `epoll_wait_dropped`,
//! `epoll_delete_against_add`, `read_against_write_and_close`, `interrupt_ends_the_wait`. `MODELS.md` says what each catches.

mod ready_list;
mod wait;

use std::fmt;
use std::sync::{Arc, Weak};

use sinew_core::Errno;

use crate::bits::Events;
use crate::lock::{Rank, Ranked};
use crate::metrics::Metrics;
use crate::number::{Number, Registered};
use crate::object::FdObject;
use crate::wake_flag::WakeFlag;
use crate::watchers::{Key, Watch, Watchers};
use ready_list::{Entry, State};

/// A record of an epoll wait: a number, and what it is ready for.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct EpollEvent {
    /// The number that is ready.
    pub fd: i32,
    /// What it is ready for.
    pub events: Events,
}

impl EpollEvent {
    /// The length of an encoded record in bytes.
    pub const ENCODED_LEN: usize = 8;

    /// Returns the record as the guest ABI has it: two little-endian `i32`.
    pub fn to_bytes(self) -> [u8; EpollEvent::ENCODED_LEN] {
        let [a, b, c, d] = self.fd.to_le_bytes();
        let [e, f, g, h] = self.events.bits().to_le_bytes();
        [a, b, c, d, e, f, g, h]
    }
}

/// An operation of [`FdTable::epoll_ctl`](crate::FdTable::epoll_ctl).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum EpollOp {
    /// Watches a number.
    Add = 1,
    /// Changes the events that a watched number is reported for.
    Modify = 2,
    /// Watches a number no more.
    Delete = 3,
}

impl EpollOp {
    /// Returns the operation with this number of the guest ABI.
    pub const fn from_number(number: i32) -> Option<EpollOp> {
        match number {
            1 => Some(EpollOp::Add),
            2 => Some(EpollOp::Modify),
            3 => Some(EpollOp::Delete),
            _ => None,
        }
    }
}

/// An epoll: the object behind an epfd. Tables create it and work with it; see
/// [`FdTable::epoll_create`](crate::FdTable::epoll_create).
pub struct Epoll {
    state: Ranked<State>,
    /// Always empty: an epoll cannot be watched.
    watchers: Watchers,
    this: Weak<Epoll>,
}

impl Epoll {
    pub(crate) fn new() -> Arc<Epoll> {
        Arc::new_cyclic(|this| Epoll {
            state: Ranked::new(Rank::Epoll, State::default()),
            watchers: Watchers::new(),
            this: this.clone(),
        })
    }

    /// Watches `number` as `fd`. Called under the lock of the table, by which the number is open; the waits are woken
    /// without it.
    pub(crate) fn add(&self, fd: i32, number: &Arc<Number>, interest: Events) -> Result<Waits, Errno> {
        let mut state = self.state.lock();
        debug_assert!(!state.closed, "an epoll with an open number");
        if state.watches(fd) {
            return Err(Errno::EEXIST);
        }
        let key = Key { fd, registration: state.next_registration() };
        let registered = Registered::reserving(number.clone(), self.this.clone(), key);
        state.insert(fd, Entry { registered, interest });
        Ok(state.take_waits())
    }

    /// Changes what `fd` is reported for. The waits are woken without the lock of the table.
    pub(crate) fn modify(&self, fd: i32, interest: Events) -> Result<Waits, Errno> {
        let mut state = self.state.lock();
        if !state.modify(fd, interest) {
            return Err(Errno::ENOENT);
        }
        Ok(state.take_waits())
    }

    /// Watches `fd` no more.
    pub(crate) fn delete(&self, fd: i32) -> Result<(), Errno> {
        let entry = self.state.lock().remove(fd);
        entry.map(drop).ok_or(Errno::ENOENT)
    }

    /// Has every wait look again whether it has to end.
    pub(crate) fn wake_waits(&self) {
        let woken = self.state.lock().take_waits();
        woken.wake();
    }
}

/// Waits that were taken out of an epoll, to be woken without any lock.
#[must_use = "waits that are not woken sleep for ever"]
pub(crate) struct Waits(Vec<Arc<WakeFlag>>);

impl Waits {
    pub(crate) fn wake(self) {
        self.0.into_iter().for_each(|flag| flag.raise());
    }
}

impl Watch for Epoll {
    fn notify(&self, key: Key, events: Events) {
        let woken = {
            let mut state = self.state.lock();
            if !state.add_candidate(key, events) {
                return;
            }
            state.take_waits()
        };
        woken.wake();
    }
}

impl FdObject for Epoll {
    fn kind(&self) -> &'static str {
        "Epoll"
    }

    fn watchers(&self) -> &Watchers {
        &self.watchers
    }

    /// An epoll cannot be watched, so it is never ready for anything; closed, it has hung up.
    fn poll_mask(&self) -> Events {
        if self.state.lock().closed { Events::HUP } else { Events::NONE }
    }

    fn close(&self) {
        let entries = self.state.lock().close();
        drop(entries);
    }

    /// The queue is the ready list, its limit the number of watches; a record is one that a wait reported.
    fn metrics(&self) -> Metrics {
        self.state.lock().metrics()
    }

    fn is_pollable(&self) -> bool {
        false
    }

    fn is_sendable(&self) -> bool {
        false
    }
}

impl fmt::Debug for Epoll {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Epoll").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;

//! The state of an epoll under its lock: watches, ready list, and the flags of waits.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use crate::bits::Events;
use crate::metrics::Metrics;
use crate::number::Registered;
use crate::wake_flag::WakeFlag;
use crate::watchers::Key;

use super::{EpollEvent, Waits};

/// A watch.
#[derive(Debug)]
pub(super) struct Entry {
    pub(super) registered: Registered,
    pub(super) interest: Events,
}

impl Entry {
    fn reported(&self) -> Events {
        self.interest | Events::ALWAYS
    }
}

#[derive(Default, Debug)]
pub(super) struct State {
    pub(super) closed: bool,
    entries: HashMap<i32, Entry>,
    /// The candidates.
    ready: BTreeSet<i32>,
    /// The highest number that the last wait reported, if its buffer was full: the next wait begins after it.
    cursor: Option<i32>,
    waits: Vec<Arc<WakeFlag>>,
    registrations: u64,
    reported: u64,
    wakeups: u64,
}

impl State {
    pub(super) fn next_registration(&mut self) -> u64 {
        self.registrations += 1;
        self.registrations
    }

    pub(super) fn watches(&self, fd: i32) -> bool {
        self.entries.contains_key(&fd)
    }

    /// Adds a watch, as a candidate.
    pub(super) fn insert(&mut self, fd: i32, entry: Entry) {
        self.entries.insert(fd, entry);
        self.ready.insert(fd);
    }

    /// Changes a watch, and makes it a candidate. Returns false if there is none.
    pub(super) fn modify(&mut self, fd: i32, interest: Events) -> bool {
        let Some(entry) = self.entries.get_mut(&fd) else { return false };
        entry.interest = interest;
        self.ready.insert(fd);
        true
    }

    /// Takes a watch out. The caller drops it without the lock.
    pub(super) fn remove(&mut self, fd: i32) -> Option<Entry> {
        self.ready.remove(&fd);
        self.entries.remove(&fd)
    }

    /// Makes a number a candidate if its watch reports one of `events`. Returns true if it became one.
    pub(super) fn add_candidate(&mut self, key: Key, events: Events) -> bool {
        self.entries.get(&key.fd).is_some_and(|entry| entry.reported().intersects(events))
            && self.ready.insert(key.fd)
    }

    /// Marks the epoll as closed, and takes out the watches.
    pub(super) fn close(&mut self) -> HashMap<i32, Entry> {
        self.closed = true;
        self.ready.clear();
        std::mem::take(&mut self.entries)
    }

    pub(super) fn add_wait(&mut self, flag: &Arc<WakeFlag>) {
        self.waits.push(flag.clone());
    }

    /// Takes out a flag that was not raised.
    pub(super) fn remove_wait(&mut self, flag: &Arc<WakeFlag>) {
        self.waits.retain(|other| !Arc::ptr_eq(other, flag));
    }

    pub(super) fn take_waits(&mut self) -> Waits {
        self.wakeups += self.waits.len() as u64;
        Waits(std::mem::take(&mut self.waits))
    }

    /// Fills `events` with numbers that are ready, in ascending order, and returns how many. If more are ready than
    /// fit, the next call begins after the highest number of this one, so none starves.
    ///
    /// Watches of closed numbers go to `ended` when they are reported. The caller drops them without the lock.
    pub(super) fn collect(&mut self, events: &mut [EpollEvent], ended: &mut Vec<Entry>) -> usize {
        let mut count = 0;
        let above = self.cursor.and_then(|cursor| cursor.checked_add(1)).unwrap_or(0);
        for range in [above..=i32::MAX, 0..=above.saturating_sub(1)] {
            let mut rest = range;
            while count < events.len() && !rest.is_empty() {
                let Some(&fd) = self.ready.range(rest.clone()).next() else { break };
                rest = fd.saturating_add(1)..=*rest.end();
                if let Some(found) = self.examine(fd, ended) {
                    events[count] = EpollEvent { fd, events: found };
                    count += 1;
                }
            }
            if above == 0 {
                break;
            }
        }
        let events = &mut events[..count];
        events.sort_unstable_by_key(|event| event.fd);
        self.reported += count as u64;
        count
    }

    /// Notes where the next [`collect`](State::collect) begins, from what the last one reported.
    pub(super) fn set_cursor(&mut self, reported: &[EpollEvent], capacity: usize) {
        self.cursor = (reported.len() == capacity).then(|| reported.last().map(|event| event.fd)).flatten();
    }

    /// Asks a candidate for its mask. It stays a candidate if it is ready.
    fn examine(&mut self, fd: i32, ended: &mut Vec<Entry>) -> Option<Events> {
        self.ready.remove(&fd);
        let entry = self.entries.get(&fd)?;
        let number = &entry.registered.number;
        let mask = number.object.poll_mask();
        // In this order: an object that was closed with its number has `HUP` set, which must count as the only report.
        let closed = number.is_closed();
        let mask = if closed { Events::HUP } else { mask };
        let found = mask & entry.reported();
        if found.is_empty() {
            return None;
        }
        if closed {
            ended.extend(self.entries.remove(&fd));
        } else {
            self.ready.insert(fd);
        }
        Some(found)
    }

    pub(super) fn metrics(&self) -> Metrics {
        Metrics {
            bytes_in: self.reported * EpollEvent::ENCODED_LEN as u64,
            records_in: self.reported,
            queue_depth: self.ready.len() as u64,
            queue_limit: self.entries.len() as u64,
            wakeups: self.wakeups,
            ..Metrics::default()
        }
    }
}

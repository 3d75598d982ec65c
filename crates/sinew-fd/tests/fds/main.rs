//! Behaviour of file descriptors: the table, epoll, the kinds, control, and all of it under load.
#![cfg(not(any(loom, shuttle)))]

mod control;
mod epoll_closes;
mod epoll_rules;
mod epoll_waits;
mod files;
mod files_confined;
mod kinds;
mod original_faults;
mod reads_and_writes;
mod select;
mod stdio;
mod stress_epoll;
mod table;
mod timers;
mod toy_kind;

use std::sync::Arc;
use std::time::Duration;

use sinew_fd::{EpollEvent, Errno, EventCounter, Events, FdTable, Flags};

/// Returns what a wait that does not block reports.
fn poll(table: &FdTable, epfd: i32) -> Vec<(i32, Events)> {
    wait(table, epfd, Some(Duration::ZERO)).unwrap()
}

/// Returns what a wait reports.
fn wait(table: &FdTable, epfd: i32, timeout: Option<Duration>) -> Result<Vec<(i32, Events)>, Errno> {
    let mut events = [EpollEvent::default(); 64];
    let count = table.epoll_wait(epfd, &mut events, timeout)?;
    Ok(events[..count].iter().map(|event| (event.fd, event.events)).collect())
}

/// Opens an event counter with this value.
fn counter(table: &FdTable, value: u64) -> (i32, Arc<EventCounter>) {
    let counter = EventCounter::new(value);
    (table.open(counter.clone(), Flags::NONE).unwrap(), counter)
}

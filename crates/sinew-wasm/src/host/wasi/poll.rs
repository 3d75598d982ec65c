//! Waiting for clocks and file descriptors at once.

use std::pin::Pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use sinew_core::{Errno, Instant};
use sinew_fd::{Events, FdTable};
use sinew_sched::Sleep;

use super::clocks::{Clock, monotonic_instant, unix_time};
use super::layout;
use super::{Guest, Outcome, blocking_call, can_block, table};
use crate::host::HostCall;
use crate::host::access::Access;
use crate::host::waiting::{POLL, wait};

pub(in crate::host) const CALLS: &[HostCall] = &[
    // poll_oneoff(subscriptions*, events*, count, count*): waits until one of the clocks has come to its time, or one of the
    // file descriptors is ready, and gives an event for each that is. What is wrong with one subscription is the error
    // of its event: EBADF, EINVAL for a clock, ENOTSUP for a clock of CPU time.
    // EINVAL for no subscription and for more than 256, EFAULT, ECANCELED; EDEADLK if it has to wait without a stack.
    blocking_call!(poll_oneoff(subscriptions: i32, events: i32, count: i32, reported: i32)),
];

/// The subscriptions of one call at most.
const MOST_SUBSCRIPTIONS: usize = 256;

/// The bytes of a subscription.
const SUBSCRIPTION: usize = 48;

/// The types of subscriptions and their events.
const CLOCK: u8 = 0;
const FD_READ: u8 = 1;
const FD_WRITE: u8 = 2;

/// The flag of a clock whose timeout is a time and not a duration.
const ABSOLUTE: u16 = 1;

/// What the guest is told of a subscription.
pub(super) struct Event {
    pub(super) userdata: u64,
    pub(super) error: Option<Errno>,
    pub(super) subscription_type: u8,
    /// Bytes that can be read or written at least.
    pub(super) available: u64,
    pub(super) hung_up: bool,
}

struct Subscription {
    userdata: u64,
    subscription_type: u8,
    awaited: Outcome<Awaited>,
}

#[derive(Clone, Copy)]
enum Awaited {
    Deadline(Instant),
    Readiness(i32, Events),
}

async fn poll_oneoff(
    caller: &mut Guest<'_>,
    subscriptions: i32,
    events: i32,
    count: i32,
    reported: i32,
) -> Outcome {
    let count = count.cast_unsigned() as usize;
    if count == 0 || count > MOST_SUBSCRIPTIONS {
        return Err(Errno::EINVAL);
    }
    let subscriptions = caller.range(subscriptions, count * SUBSCRIPTION)?;
    let events = caller.range(events, count * layout::EVENT)?;
    let reported = caller.out(reported, 4)?;
    let now = sinew_sched::now();
    let records = caller.contents(subscriptions).chunks_exact(SUBSCRIPTION);
    let subscriptions: Vec<Subscription> =
        records.map(|record| Subscription::of(record, now)).collect::<Outcome<_>>()?;
    let table = table(caller);
    let happened = loop {
        let now = sinew_sched::now();
        let happened: Vec<Event> = subscriptions.iter().filter_map(|it| it.event(&table, now)).collect();
        if !happened.is_empty() {
            break happened;
        }
        if !can_block(caller) {
            return Err(Errno::EDEADLK);
        }
        wait_for_one(caller, &table, &subscriptions).await?;
    };
    let bytes: Vec<u8> = happened.iter().flat_map(layout::event).collect();
    caller.fill(events, &bytes);
    caller.put(reported, &(happened.len() as u32).to_le_bytes());
    Ok(())
}

/// Waits until an event of one of the subscriptions may have happened.
async fn wait_for_one(
    caller: &mut Guest<'_>,
    table: &Arc<FdTable>,
    subscriptions: &[Subscription],
) -> Outcome {
    let mut deadline = None;
    let mut readiness = Vec::new();
    for awaited in subscriptions.iter().flat_map(|subscription| &subscription.awaited) {
        match *awaited {
            Awaited::Deadline(at) => deadline = Some(deadline.map_or(at, |earlier: Instant| earlier.min(at))),
            Awaited::Readiness(fd, events) => readiness.push(Box::pin(table.ready_async(fd, events, None))),
        }
    }
    let mut sleep = deadline.map(|deadline| Box::pin(Sleep::until(deadline)));
    let first = std::future::poll_fn(|context| {
        for ready in &mut readiness {
            if let Poll::Ready(ready) = ready.as_mut().poll(context) {
                return Poll::Ready(ready.map(drop));
            }
        }
        match sleep.as_mut().map(Pin::as_mut) {
            Some(sleep) => sleep.poll(context).map(Ok),
            None => Poll::Pending,
        }
    });
    wait(caller, POLL, first).await
}

impl Subscription {
    /// Reads a record. `EINVAL` if it is of no known type.
    fn of(record: &[u8], now: Instant) -> Outcome<Subscription> {
        let word = |at: usize| [record[at], record[at + 1], record[at + 2], record[at + 3]];
        let long = |at: usize| u64::from(u32::from_le_bytes(word(at))) | u64::from(u32::from_le_bytes(word(at + 4))) << 32;
        let subscription_type = record[8];
        let number = i32::from_le_bytes(word(16));
        let awaited = match subscription_type {
            CLOCK => {
                let is_absolute = u16::from_le_bytes([record[40], record[41]]) & ABSOLUTE != 0;
                deadline(number, long(24), is_absolute, now).map(Awaited::Deadline)
            }
            FD_READ => Ok(Awaited::Readiness(number, Events::IN)),
            FD_WRITE => Ok(Awaited::Readiness(number, Events::OUT)),
            _ => return Err(Errno::EINVAL),
        };
        Ok(Subscription { userdata: long(0), subscription_type, awaited })
    }

    /// Returns its event if that has happened.
    fn event(&self, table: &FdTable, now: Instant) -> Option<Event> {
        let ready = match self.awaited {
            Err(errno) => Err(errno),
            Ok(Awaited::Deadline(deadline)) if deadline > now => return None,
            Ok(Awaited::Deadline(_)) => Ok(Events::NONE),
            Ok(Awaited::Readiness(fd, events)) => match readiness(table, fd, events) {
                Ok(Events::NONE) => return None,
                ready => ready,
            },
        };
        let events = ready.unwrap_or_default();
        let hung_up = events.intersects(Events::HUP);
        Some(Event {
            userdata: self.userdata,
            error: ready.err(),
            subscription_type: self.subscription_type,
            available: u64::from(events.intersects(Events::IN | Events::OUT) && !hung_up),
            hung_up,
        })
    }
}

/// Returns what a file descriptor is ready for. `EBADF` if it is unknown, or never becomes ready.
fn readiness(table: &FdTable, fd: i32, events: Events) -> Outcome<Events> {
    let object = table.object(fd)?;
    let ready = object.poll_mask() & (events | Events::ALWAYS);
    if ready.is_empty() && !object.is_pollable() { Err(Errno::EBADF) } else { Ok(ready) }
}

/// Returns when a clock has come to its time.
fn deadline(clock: i32, timeout: u64, is_absolute: bool, now: Instant) -> Outcome<Instant> {
    match (Clock::of(clock)?, is_absolute) {
        (Clock::Cpu, _) => Err(Errno::EOPNOTSUPP),
        (_, false) => Ok(now + Duration::from_nanos(timeout)),
        (Clock::Monotonic, true) => Ok(monotonic_instant(timeout)),
        (Clock::Realtime, true) => Ok(now + Duration::from_nanos(timeout.saturating_sub(unix_time()))),
    }
}

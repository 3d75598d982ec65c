//! Things that happen at a time: one queue per node, and one task that waits for the first of them.
//!
//! A timer of an actor's has its place in the queue written in its [`Schedule`], under the queue's lock. One that is periodic goes
//! back into the queue under the same lock under which it comes out: so whoever stops it finds it, unless it is over.

use std::collections::BTreeMap;
use std::time::Duration;

use sinew_core::{ActorId, Instant};
use sinew_sched::turn::{After, Turn, Waker, wait_until};
use sinew_sched::{JoinHandle, Raised, WaitKind};
use sinew_sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use sinew_sync::{Arc, Mutex};

use crate::node::Inner;
use crate::stop;

/// Things that happen before other tasks have a turn.
const BATCH: usize = 256;

/// What happens.
pub(crate) enum Fire {
    /// An actor was asked to stop, and may not have done so.
    Step(ActorId, stop::Step),
    /// An actor has asked to be told.
    Tick(ActorId, u64),
    /// A timer of an actor's expires.
    Timer(Arc<dyn Expire>),
}

/// A timer of an actor's, as the queue sees it.
pub(crate) trait Expire: Send + Sync {
    fn schedule(&self) -> &Schedule;

    /// It expires, as often as its schedule says.
    fn expire(self: Arc<Self>);

    /// Its actor is not told of it any more. Drops what that would have been told.
    fn cancel(&self);
}

/// When a timer expires.
pub(crate) struct Schedule {
    /// Nanoseconds; zero for once.
    period: u64,
    /// Its place in the queue.
    at: AtomicU64,
    number: AtomicU64,
    /// How often it expires at once, this time.
    times: AtomicU64,
}

impl Schedule {
    /// With a period that is not zero, or none for once.
    pub(crate) fn new(period: Option<Duration>) -> Schedule {
        let period = period.map_or(0, |period| u64::try_from(period.as_nanos()).unwrap_or(u64::MAX));
        let (at, number, times) = (AtomicU64::new(0), AtomicU64::new(0), AtomicU64::new(1));
        Schedule { period, at, number, times }
    }

    pub(crate) fn is_periodic(&self) -> bool {
        self.period > 0
    }

    /// How often it expires at once, this time: more than once if the clock was late. For the clock.
    pub(crate) fn times(&self) -> u64 {
        self.times.load(Ordering::Relaxed)
    }

    fn place(&self) -> (Instant, u64) {
        (Instant::from_nanos(self.at.load(Ordering::Relaxed)), self.number.load(Ordering::Relaxed))
    }

    fn set_place(&self, (at, number): (Instant, u64)) {
        self.at.store(at.as_nanos(), Ordering::Relaxed);
        self.number.store(number, Ordering::Relaxed);
    }

    /// It was due at `at`: when next, and how often it has been since.
    fn next(&self, at: Instant, now: Instant) -> Option<Instant> {
        let late = now.as_nanos().saturating_sub(at.as_nanos());
        let times = late.checked_div(self.period)? + 1;
        self.times.store(times, Ordering::Relaxed);
        Some(Instant::from_nanos(at.as_nanos().saturating_add(self.period.saturating_mul(times))))
    }
}

pub(crate) struct Timers {
    queue: Mutex<Queue>,
    /// The first of them has changed.
    changed: AtomicBool,
    ids: AtomicU32,
}

#[derive(Default)]
struct Queue {
    fires: BTreeMap<(Instant, u64), Fire>,
    next: u64,
    waker: Option<Waker>,
}

impl Timers {
    pub(crate) fn new() -> Timers {
        Timers {
            queue: Mutex::new(Queue::default()),
            changed: AtomicBool::new(false),
            ids: AtomicU32::new(1),
        }
    }

    /// Starts the task that waits.
    pub(crate) fn start(node: &'static Inner) -> JoinHandle<()> {
        node.handle.spawn_turn(|waker| {
            node.timers.queue.lock().waker = Some(waker);
            Clock(node)
        })
    }

    /// Has something happen at a time.
    pub(crate) fn at(&self, at: Instant, fire: Fire) -> (Instant, u64) {
        self.put(at, fire, |_| ())
    }

    /// The next number of a timer.
    pub(crate) fn next_id(&self) -> u32 {
        self.ids.fetch_add(1, Ordering::Relaxed)
    }

    /// Has a timer expire at a time.
    pub(crate) fn start_timer(&self, at: Instant, timer: Arc<dyn Expire>) {
        self.put(at, Fire::Timer(timer.clone()), |place| timer.schedule().set_place(place));
    }

    /// Takes a timer out. None if it is over.
    pub(crate) fn stop_timer(&self, schedule: &Schedule) -> Option<Fire> {
        let mut queue = self.queue.lock();
        queue.fires.remove(&schedule.place())
    }

    fn put(&self, at: Instant, fire: Fire, place: impl FnOnce((Instant, u64))) -> (Instant, u64) {
        let mut queue = self.queue.lock();
        let key = (at, queue.next);
        queue.next += 1;
        place(key);
        let first = queue.fires.first_key_value().is_none_or(|(first, _)| key < *first);
        queue.fires.insert(key, fire);
        let waker = queue.waker.filter(|_| first);
        drop(queue);
        if let Some(waker) = waker {
            self.changed.store(true, Ordering::Release);
            waker.wake();
        }
        key
    }

    /// Takes back what was to happen. None if it has.
    pub(crate) fn cancel(&self, key: (Instant, u64)) -> Option<Fire> {
        self.queue.lock().fires.remove(&key)
    }

    pub(crate) fn len(&self) -> usize {
        self.queue.lock().fires.len()
    }

    fn first(&self) -> Option<Instant> {
        self.queue.lock().fires.first_key_value().map(|((at, _), _)| *at)
    }

    fn pop(&self, now: Instant) -> Option<(Instant, Fire)> {
        let mut queue = self.queue.lock();
        let first = queue.fires.first_entry().filter(|first| first.key().0 <= now)?;
        let ((at, number), fire) = first.remove_entry();
        if let Fire::Timer(timer) = &fire
            && let Some(next) = timer.schedule().next(at, now)
        {
            timer.schedule().set_place((next, number));
            queue.fires.insert((next, number), Fire::Timer(timer.clone()));
        }
        Some((at, fire))
    }
}

/// The task that waits.
struct Clock(&'static Inner);

impl Turn for Clock {
    fn turn(&self) -> After {
        let timers = &self.0.timers;
        loop {
            let now = self.0.handle.now();
            for _ in 0..BATCH {
                let Some((at, fire)) = timers.pop(now) else { break };
                self.0.fire(at, fire);
            }
            if timers.first().is_some_and(|first| first <= now) {
                return After::Again; // there are many: others have a turn
            }
            let changed = || timers.changed.load(Ordering::Acquire);
            let first = timers.first();
            let kind = if first.is_some() { WaitKind::Sleep } else { WaitKind::Mailbox };
            if wait_until(changed, first, kind).is_err() {
                return After::Ended; // the runtime ends
            }
            timers.changed.store(false, Ordering::Relaxed);
        }
    }

    fn ended(&self, _: Option<Raised>) {}
}

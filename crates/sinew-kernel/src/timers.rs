//! Things that happen at a time: one queue per node. The [clock](crate::clock) takes out what is
//! due.
//!
//! A timer of an actor's has its place in the queue written in its [`Schedule`], under the queue's
//! lock. One that is periodic goes back into the queue under the same lock under which it comes
//! out: so whoever stops it finds it, unless it is over.
//!
//! Actors that were asked to stop have a queue of their own: they all may take as long as their
//! node says, so who was asked last comes last. Most end at once, and nobody takes them out then;
//! when there are many, those that have ended are swept out. So is what else was to happen to
//! actors that have ended, but for their timers, which are freed at their end.
//!
//! Models: `timer_cancelled_or_rung`, `clock_sleeps_or_is_woken`.

use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::num::NonZeroU32;
use std::task::Waker;
use std::time::Duration;

use sinew_core::{ActorId, Instant};
use sinew_sync::atomic::{AtomicU32, AtomicU64, Ordering};
use sinew_sync::{Arc, Mutex};

use crate::patience::Step;
use crate::table::{Identified, Table};

/// Entries of a queue at which those of actors that have ended are swept out for the first time.
const SWEEP: usize = 1024;

/// What happens.
pub(crate) enum Fire {
    /// An actor was asked to stop, and may not have done so.
    Step(ActorId, Step),
    /// An actor has asked to be told.
    Tick(ActorId, u64),
    /// A timer of an actor's expires.
    Timer(Arc<dyn Expire>),
}

/// A timer of an actor. No two timers of an actor that are set have the same one, and none is used again within 2^32 timers of the
/// node.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct TimerId(NonZeroU32);

impl TimerId {
    /// The timer with this number, as in [`Kind::TIMER`](sinew_core::Kind::TIMER) messages. Zero is none.
    pub fn new(number: u32) -> Option<TimerId> {
        NonZeroU32::new(number).map(TimerId)
    }

    /// Its number, which is not zero.
    pub fn as_u32(self) -> u32 {
        self.0.get()
    }
}

impl fmt::Display for TimerId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
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
    ids: AtomicU32,
}

#[derive(Default)]
struct Queue {
    fires: BTreeMap<(Instant, u64), Fire>,
    /// How many of them were left by the last sweep.
    fires_left: usize,
    next: u64,
    /// Who was asked to stop, and when it is cancelled if it has not.
    asked: VecDeque<(Instant, ActorId)>,
    /// How many of them were left by the last sweep.
    asked_left: usize,
    /// Wakes the task that waits.
    waker: Option<Waker>,
}

impl Timers {
    pub(crate) fn new() -> Timers {
        Timers { queue: Mutex::new(Queue::default()), ids: AtomicU32::new(1) }
    }

    /// Has something happen to an actor at a time.
    pub(crate) fn at<C: Identified + ?Sized>(
        &self,
        actors: &Table<C>,
        at: Instant,
        fire: Fire,
    ) -> (Instant, u64) {
        {
            let mut queue = self.queue.lock();
            if queue.fires.len() >= SWEEP.max(queue.fires_left * 2) {
                queue.sweep_fires(actors);
            }
        }
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

    /// Takes a timer out, and has nobody told of it.
    pub(crate) fn end(&self, timer: &dyn Expire) {
        let mut queue = self.queue.lock();
        let fire = queue.fires.remove(&timer.schedule().place()); // which is written under the lock
        drop(queue);
        drop(fire); // without the lock
        timer.cancel();
    }

    fn put(&self, at: Instant, fire: Fire, place: impl FnOnce((Instant, u64))) -> (Instant, u64) {
        let mut queue = self.queue.lock();
        let key = (at, queue.next);
        queue.next += 1;
        place(key);
        let waker = queue.waker_for(at);
        queue.fires.insert(key, fire);
        drop(queue);
        if let Some(waker) = waker {
            waker.wake();
        }
        key
    }

    /// Has an actor that was just asked to stop cancelled at a time: that of the last one, if that is later.
    pub(crate) fn cancel_late<C: Identified + ?Sized>(&self, actors: &Table<C>, at: Instant, actor: ActorId) {
        let mut queue = self.queue.lock();
        if queue.asked.len() >= SWEEP.max(queue.asked_left * 2) {
            queue.sweep_asked(actors);
        }
        // Others may have looked at the clock later. Behind them it is not the first.
        let (at, waker) = match queue.asked.back() {
            Some((last, _)) => (at.max(*last), None),
            None => (at, queue.waker_for(at)),
        };
        queue.asked.push_back((at, actor));
        drop(queue);
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    /// Takes back what was to happen. None if it has.
    pub(crate) fn cancel(&self, key: (Instant, u64)) -> Option<Fire> {
        self.queue.lock().fires.remove(&key)
    }

    pub(crate) fn len<C: Identified + ?Sized>(&self, actors: &Table<C>) -> usize {
        let mut queue = self.queue.lock();
        queue.sweep_fires(actors);
        queue.sweep_asked(actors);
        queue.fires.len() + queue.asked.len()
    }

    /// Gives memory back, of a node whose actors have ended.
    pub(crate) fn shrink<C: Identified + ?Sized>(&self, actors: &Table<C>) {
        let mut queue = self.queue.lock();
        queue.sweep_fires(actors);
        queue.sweep_asked(actors);
        if queue.fires.is_empty() {
            queue.fires = BTreeMap::new(); // which keeps a node while it is empty
        }
        queue.asked.shrink_to_fit();
        let waker = queue.waker.take();
        drop(queue);
        drop(waker); // without the lock
    }

    /// When the first of them is, for a task that is woken when that changes.
    pub(crate) fn first(&self, waker: &Waker) -> Option<Instant> {
        let mut queue = self.queue.lock();
        queue.waker = Some(waker.clone());
        queue.first()
    }

    pub(crate) fn pop(&self, now: Instant) -> Option<Fire> {
        let mut queue = self.queue.lock();
        let first = queue.first();
        if let Some((_, actor)) = queue.asked.pop_front_if(|(at, _)| *at <= now && Some(*at) == first) {
            return Some(Fire::Step(actor, Step::Cancel));
        }
        let first = queue.fires.first_entry().filter(|first| first.key().0 <= now)?;
        let ((at, number), fire) = first.remove_entry();
        if let Fire::Timer(timer) = &fire
            && let Some(next) = timer.schedule().next(at, now)
        {
            timer.schedule().set_place((next, number));
            queue.fires.insert((next, number), Fire::Timer(timer.clone()));
        }
        Some(fire)
    }
}

impl Queue {
    /// Takes out who was asked to stop and has ended.
    fn sweep_asked<C: Identified + ?Sized>(&mut self, actors: &Table<C>) {
        self.asked.retain(|(_, actor)| actors.has(*actor));
        self.asked_left = self.asked.len();
    }

    /// Takes out what was to happen to actors that have ended.
    fn sweep_fires<C: Identified + ?Sized>(&mut self, actors: &Table<C>) {
        self.fires.retain(|_, fire| match fire {
            Fire::Step(actor, _) | Fire::Tick(actor, _) => actors.has(*actor),
            Fire::Timer(_) => true,
        });
        self.fires_left = self.fires.len();
    }

    /// When the first of them is.
    fn first(&self) -> Option<Instant> {
        let asked = self.asked.front().map(|(at, _)| *at);
        let fire = self.fires.first_key_value().map(|((at, _), _)| *at);
        asked.into_iter().chain(fire).min()
    }

    /// Whom to wake for something at this time, which is about to be put in.
    fn waker_for(&mut self, at: Instant) -> Option<Waker> {
        if self.first().is_none_or(|first| at < first) { self.waker.take() } else { None }
    }
}

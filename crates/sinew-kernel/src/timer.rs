//! Timers of actors.
//!
//! A timer is in the node's queue ([`crate::timers`]) until its time comes, and in its actor's [`Owned`](crate::services::Owned) until
//! it is over. Only the actor's own task sets and cancels it, and whoever ends the actor cancels what is left.
//!
//! # Expirations
//!
//! `due` counts how often it has expired since the actor was last told, with a bit that says that there is a
//! [notice](crate::notice) in the lane, or being handled. Whoever sets that bit puts the notice there: the clock, when it
//! counts and finds the bit clear, or the actor, when it has handled one and finds a count. A third bit, once
//! set, stays: the timer is cancelled, and whoever comes to its notice finds nothing.
//!
//! Models: `timer_against_end`, `timer_cancelled_or_rung`, `timer_counts_all`.

use std::time::Duration;

use sinew_core::payload::{SystemPayload, Timer as Expired};
use sinew_core::{ActorId, Kind};
use sinew_sync::atomic::{AtomicU64, Ordering};
use sinew_sync::{Arc, Mutex};

use crate::cell::{AnyCell, Cell, Lane, Phase};
use crate::ctx::Ctx;
use crate::event::Event;
use crate::message::{Message, Payload};
use crate::notice::{Notice, TypedNotice};
use crate::services::{Handled, Owner};
use crate::shared::Inner;
use crate::timers::{Expire, Schedule, TimerId};

/// Why a timer was not set.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum TimerError {
    /// It would expire again and again at the same time.
    #[error("a periodic timer needs a period above zero")]
    NoPeriod,
    /// The actor has ended: it was killed and given up, and runs on.
    #[error("the actor has ended, so it cannot set timers")]
    Ended,
}

/// It is cancelled.
const CANCELLED: u64 = 1 << 63;
/// There is a notice in the lane, or being handled.
const NOTICE: u64 = 1 << 62;
/// How often it has expired.
const COUNT: u64 = NOTICE - 1;

/// A timer that tells its actor what `W` makes.
struct Timer<W> {
    id: TimerId,
    node: &'static Inner,
    owner: ActorId,
    schedule: Schedule,
    due: AtomicU64,
    what: W,
}

impl<W> Timer<W> {
    fn change(&self, change: impl Fn(u64) -> u64) -> u64 {
        let changed = self.due.fetch_update(Ordering::AcqRel, Ordering::Acquire, |due| Some(change(due)));
        changed.unwrap_or_else(|due| due)
    }

    /// It has expired. True if the caller has to put a notice into the lane.
    fn count(&self) -> bool {
        let times = self.schedule.times();
        let before =
            self.change(|due| (due & COUNT).saturating_add(times).min(COUNT) | due & !COUNT | NOTICE);
        before & (NOTICE | CANCELLED) == 0
    }

    /// The actor has come to the notice: how often it has expired, if it is to be told.
    fn take(&self, owner: &dyn Owner) -> Option<u64> {
        let before = self.change(|due| due & !COUNT);
        if before & CANCELLED != 0 {
            return None;
        }
        if !self.schedule.is_periodic() {
            drop(owner.services(|owned| owned.timers.remove(&self.id)));
        }
        Some(before & COUNT)
    }

    /// The actor has handled what it was told. True if the caller has to put another notice into the lane.
    fn settle(&self) -> bool {
        let before = self.change(|due| if due & COUNT == 0 { due & !NOTICE } else { due });
        before & COUNT != 0 && before & CANCELLED == 0
    }

    fn is_cancelled(&self) -> bool {
        self.due.load(Ordering::Acquire) & CANCELLED != 0
    }
}

/// Tells by a message of the system.
struct Raw;

impl Timer<Raw> {
    fn tell(self: Arc<Self>) {
        if let Some(cell) = self.node.table.get(self.owner) {
            let _ = cell.push_event(Event::Notice(self)); // it may have ended
        }
    }
}

impl Expire for Timer<Raw> {
    fn schedule(&self) -> &Schedule {
        &self.schedule
    }

    fn expire(self: Arc<Self>) {
        if self.count() {
            self.tell();
        }
    }

    fn cancel(&self) {
        self.due.fetch_or(CANCELLED, Ordering::AcqRel);
    }
}

impl Handled for Timer<Raw> {
    fn handled(self: Arc<Self>) {
        if self.settle() {
            self.tell();
        }
    }
}

impl Notice for Timer<Raw> {
    fn message(&self, owner: &dyn Owner) -> Option<Message> {
        let expired = Expired { id: self.id.as_u32(), expirations: self.take(owner)? };
        Some(Message::new(self.owner, Kind::TIMER, Payload::copy(&expired.encode())))
    }
}

/// Tells by a message of the actor's own type, which this makes. It is taken out while it runs, since it may be any code.
type Make<M> = Mutex<Option<Box<dyn FnMut() -> Option<M> + Send>>>;

impl<M: Send + 'static> Timer<Make<M>> {
    fn tell(self: Arc<Self>) {
        let cell = self.node.table.get(self.owner).map(AnyCell::as_any);
        if let Some(Ok(cell)) = cell.map(Arc::downcast::<Cell<M>>) {
            let _ = cell.push_lane(Lane::Typed(self)); // it may have ended
        }
    }
}

impl<M: Send + 'static> Expire for Timer<Make<M>> {
    fn schedule(&self) -> &Schedule {
        &self.schedule
    }

    fn expire(self: Arc<Self>) {
        if self.count() {
            self.tell();
        }
    }

    fn cancel(&self) {
        self.due.fetch_or(CANCELLED, Ordering::AcqRel);
        let make = self.what.lock().take();
        drop(make);
    }
}

impl<M: Send + 'static> Handled for Timer<Make<M>> {
    fn handled(self: Arc<Self>) {
        if self.settle() {
            self.tell();
        }
    }
}

impl<M: Send + 'static> TypedNotice<M> for Timer<Make<M>> {
    fn message(&self, owner: &dyn Owner) -> Option<M> {
        self.take(owner)?;
        let mut make = self.what.lock().take()?;
        let message = make();
        if self.schedule.is_periodic() && !self.is_cancelled() {
            *self.what.lock() = Some(make);
        }
        message
    }
}

/// # Timers
///
/// Timers go by the clock of the node's runtime. They go through the lane of the system: a full mailbox does not stop them. They
/// are gone when the actor ends.
///
/// ```
/// use std::time::Duration;
///
/// use sinew_kernel::{Actor, Ctx, Flow, Node};
///
/// struct Countdown(u32);
///
/// impl Actor for Countdown {
///     type Msg = &'static str;
///
///     fn started(&mut self, ctx: &mut Ctx<Self::Msg>) -> Flow {
///         ctx.send_every(Duration::from_millis(1), || "tick").unwrap();
///         Flow::Continue
///     }
///
///     fn handle(&mut self, _: &'static str, _: &mut Ctx<Self::Msg>) -> Flow {
///         self.0 -= 1;
///         if self.0 == 0 { Flow::Stop } else { Flow::Continue }
///     }
/// }
///
/// let node = Node::new();
/// node.spawn(Countdown(3)).unwrap().join().unwrap();
/// ```
impl<M: Send + 'static> Ctx<'_, M> {
    /// Has this actor told by a [`Kind::TIMER`] message when `after` has passed, and, if it is `periodic`, again each time that it
    /// has passed once more. The message carries the timer's number, and how often it has expired: an actor that has not
    /// handled one yet does not get another, but one that counts all that it missed. Zero, for one that is not
    /// periodic, is at once.
    ///
    /// # Errors
    ///
    /// If the period is zero.
    pub fn set_timer(&self, after: Duration, periodic: bool) -> Result<TimerId, TimerError> {
        self.start_timer(after, periodic, Raw)
    }

    /// Sends a message to this actor when `after` has passed.
    ///
    /// # Errors
    ///
    /// Only if this actor has ended.
    pub fn send_after(&self, after: Duration, message: M) -> Result<TimerId, TimerError> {
        let mut message = Some(message);
        let make: Make<M> = Mutex::new(Some(Box::new(move || message.take())));
        self.start_timer(after, false, make)
    }

    /// Sends this actor what `make` makes, each time that `period` has passed. It is made when the actor comes to it, by the actor. One
    /// that has not handled the last one does not get another.
    ///
    /// # Errors
    ///
    /// If the period is zero.
    pub fn send_every(
        &self,
        period: Duration,
        mut make: impl FnMut() -> M + Send + 'static,
    ) -> Result<TimerId, TimerError> {
        let make: Make<M> = Mutex::new(Some(Box::new(move || Some(make()))));
        self.start_timer(period, true, make)
    }

    /// Cancels a timer of this actor's: it is not told of it any more, even if it has expired. False if it has been told, or if the
    /// timer is not this actor's.
    pub fn cancel_timer(&self, timer: TimerId) -> bool {
        let timer = self.cell.lock().life.more.as_mut().and_then(|more| more.services.timers.remove(&timer));
        timer.map(|timer| self.cell.head.node.timers.end(&*timer)).is_some()
    }

    fn start_timer<W>(&self, after: Duration, periodic: bool, what: W) -> Result<TimerId, TimerError>
    where
        Timer<W>: Expire + 'static,
    {
        if periodic && after.is_zero() {
            return Err(TimerError::NoPeriod);
        }
        let head = &self.cell.head;
        let (node, owner) = (head.node, head.id);
        let id = self.next_id();
        let schedule = Schedule::new(periodic.then_some(after));
        let timer = Arc::new(Timer { id, node, owner, schedule, due: AtomicU64::new(0), what });
        // First into the queue: who ends the actor takes out what it has.
        node.timers.start_timer(node.handle.now() + after, timer.clone());
        let refused = {
            let mut state = self.cell.lock();
            if state.life.phase < Phase::Leaving {
                state.life.more().services.timers.insert(id, timer.clone());
                false
            } else {
                true
            }
        };
        if refused {
            node.timers.end(&*timer);
            return Err(TimerError::Ended);
        }
        Ok(id)
    }

    /// An id that no timer of this actor has.
    fn next_id(&self) -> TimerId {
        let head = &self.cell.head;
        loop {
            let Some(id) = TimerId::new(head.node.timers.next_id()) else { continue };
            let state = self.cell.lock();
            let more = state.life.more.as_ref();
            if !more.is_some_and(|more| more.services.timers.contains_key(&id)) {
                return id;
            }
        }
    }
}

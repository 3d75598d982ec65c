//! What others share of an actor: its id, its mailbox and its life, under one lock.
//!
//! # Life
//!
//! ```text
//! starting ──(`started` returns)──> running ──(it stops, fails, is stopped)──> ending ──(published)──> dead
//! ```
//!
//! From *ending* on the mailbox is closed and the reason is known. The step to *dead* is made once, by the actor's own task at
//! its end, or by whoever gives up waiting for it ([zombies](crate::stop)): it takes out everything that others have
//! to be told, and whoever made it tells them. So there is one exit whatever races.

use std::any::Any;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::panic::Location;

use sinew_core::{ActorId, ExitReason};
use sinew_sched::JoinHandle;
use sinew_sched::chan::oneshot;
use sinew_sched::turn::Waker;
use sinew_sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};
use sinew_sync::{Arc, ShortGuard, ShortLock};

use crate::error::{SendError, Unsent};
use crate::event::Event;
use crate::mailbox::{Admitted, Answer, Mail, Put, Taken};
use crate::message::Message;
use crate::node::Inner;

/// What is the same for all types of messages.
pub(crate) struct Head {
    pub(crate) id: ActorId,
    pub(crate) node: &'static Inner,
    waker: Waker,
    /// Messages and events that it has begun to handle; only the actor writes it.
    begun: AtomicU64,
    /// There is something in the lane, or somebody waits for room. Set and cleared under the lock.
    flags: AtomicU8,
    /// The turn that runs has blocked; only the actor writes it.
    blocked: AtomicBool,
    /// It failed in the middle of a message.
    failed: AtomicBool,
}

/// There is something in the system's lane.
pub(crate) const LANE: u8 = 1;
/// Senders wait for room.
pub(crate) const WAITING: u8 = 2;

/// An actor whose messages are of type `M`.
pub(crate) struct Cell<M> {
    pub(crate) head: Head,
    state: ShortLock<State<M>>,
}

pub(crate) struct State<M> {
    pub(crate) mail: Mail<Entry<M>, Lane<M>>,
    pub(crate) life: Life,
}

/// Where an actor is in its life.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Debug)]
pub(crate) enum Phase {
    Starting,
    Running,
    Ending,
    Dead,
}

pub(crate) struct Life {
    pub(crate) phase: Phase,
    /// Why it ends, from the phase on in which it does; if that is a reason with texts, they are with what few have.
    code: u8,
    /// Its task, until it is dead.
    pub(crate) task: Option<JoinHandle<()>>,
    /// What few actors have.
    pub(crate) more: Option<Box<More>>,
}

/// What an actor has to do with others. Made when it is needed.
#[derive(Default)]
pub(crate) struct More {
    /// Why it ends, if there are texts to that.
    reason: Option<ExitReason>,
    pub(crate) name: Option<Box<str>>,
    pub(crate) parent: Option<ActorId>,
    pub(crate) children: BTreeSet<ActorId>,
    pub(crate) links: BTreeSet<ActorId>,
    /// Who is told of its end, by the number of the monitor.
    pub(crate) monitors: BTreeMap<u64, ActorId>,
    /// Whom it monitors, by the number of the monitor.
    pub(crate) monitored: BTreeMap<u64, ActorId>,
    /// Whoever waits for its end.
    pub(crate) waits: Vec<oneshot::Sender<ExitReason>>,
    /// Exits of those who are linked to it are events, and do not end it.
    pub(crate) traps: bool,
    /// Its parent is told when it has started.
    pub(crate) announces: bool,
    pub(crate) patience: crate::stop::Patience,
    /// What else has to be undone at its end.
    pub(crate) services: crate::services::Owned,
    pub(crate) spawned_at: Option<&'static Location<'static>>,
    pub(crate) restarts: u32,
    /// What the one failed with whose place it has taken.
    pub(crate) last_error: Option<ExitReason>,
}

impl Life {
    pub(crate) fn more(&mut self) -> &mut More {
        self.more.get_or_insert_default()
    }

    /// Why it ends or has ended.
    pub(crate) fn reason(&self) -> ExitReason {
        let texts = self.more.as_ref().and_then(|more| more.reason.clone());
        texts.or_else(|| ExitReason::from_code(self.code)).unwrap_or(ExitReason::Normal)
    }

    fn set_reason(&mut self, reason: ExitReason) {
        self.code = reason.code();
        if let ExitReason::Error(_) | ExitReason::Limit(_) = reason {
            self.more().reason = Some(reason);
        }
    }
}

/// A message in the queue.
pub(crate) enum Entry<M> {
    Typed(M),
    /// One that was sent by id, to an actor whose messages are of another type.
    Raw(Box<Message>),
}

/// Something in the lane.
pub(crate) enum Lane<M> {
    Event(Event),
    /// A message of the actor's own, from a timer.
    Typed(M),
}

impl<M: Send + 'static> Cell<M> {
    pub(crate) fn new(
        id: ActorId,
        node: &'static Inner,
        waker: Waker,
        mail: Mail<Entry<M>, Lane<M>>,
    ) -> Cell<M> {
        let life = Life { phase: Phase::Starting, code: 0, task: None, more: None };
        let head = Head {
            id,
            node,
            waker,
            begun: AtomicU64::new(0),
            flags: AtomicU8::new(0),
            blocked: AtomicBool::new(false),
            failed: AtomicBool::new(false),
        };
        Cell { head, state: ShortLock::new(State { mail, life }) }
    }

    pub(crate) fn lock(&self) -> ShortGuard<'_, State<M>> {
        self.state.lock()
    }

    /// Puts a message into the mailbox, if it is to be there by now.
    #[inline(always)]
    pub(crate) fn try_put(&self, entry: Entry<M>) -> Result<(), (Entry<M>, Unsent)> {
        let mut state = self.lock();
        if !state.mail.has_room() {
            drop(state);
            return self.put_if_possible(entry);
        }
        let wake = state.mail.push(entry);
        drop(state);
        if wake {
            self.head.waker.wake();
        }
        Ok(())
    }

    #[cold]
    fn put_if_possible(&self, entry: Entry<M>) -> Result<(), (Entry<M>, Unsent)> {
        let put = self.lock().mail.put(entry, || self.head.begun());
        match put {
            Put::In(wake) => {
                if wake {
                    self.head.waker.wake();
                }
                Ok(())
            }
            put => self.not_put(put),
        }
    }

    #[cold]
    fn not_put(&self, put: Put<Entry<M>>) -> Result<(), (Entry<M>, Unsent)> {
        match put {
            Put::In(_) => Ok(()),
            Put::Instead(oldest, wake) => {
                if wake {
                    self.head.waker.wake();
                }
                self.head.node.dead_letters.overflow(&self.head, oldest.into_letter());
                Ok(())
            }
            Put::Dropped(entry) => {
                self.head.node.dead_letters.overflow(&self.head, entry.into_letter());
                Ok(())
            }
            Put::Full(entry) => Err((entry, Unsent::Full)),
            Put::Closed(entry) => Err((entry, Unsent::Stopped(self.reason()))),
        }
    }

    pub(crate) fn set_flag(&self, flag: u8) {
        self.head.flags.fetch_or(flag, Ordering::Relaxed);
    }

    /// The flags are as the mail says. Called under the lock.
    pub(crate) fn set_flags(&self, mail: &Mail<Entry<M>, Lane<M>>) {
        let lane = if mail.has_events() { LANE } else { 0 };
        let waiting = if mail.has_waiting() { WAITING } else { 0 };
        if self.head.flags.load(Ordering::Relaxed) != lane | waiting {
            self.head.flags.store(lane | waiting, Ordering::Relaxed);
        }
    }

    /// The next message, if that is all there is to say; see [`Mail::pop`]. Only the actor's task asks.
    #[inline(always)]
    pub(crate) fn pop(&self, more: impl FnOnce() -> bool, last: &mut bool) -> Option<Entry<M>> {
        self.lock().mail.pop(more, last)
    }

    /// What there is for the actor; only its task asks.
    pub(crate) fn take(&self, batch: &mut VecDeque<Entry<M>>, more: bool) -> Taken<Entry<M>, Lane<M>> {
        let mut state = self.lock();
        let (taken, admitted) = state.mail.take(self.head.begun(), batch, more);
        let spare = if let Taken::Nothing = taken { state.mail.spare() } else { VecDeque::new() };
        self.set_flags(&state.mail);
        drop(state);
        drop(spare);
        admitted.tell();
        taken
    }

    /// The flags say that there is something to do before the next message: an event, or senders to let in, if that is
    /// worth it by now.
    #[cold]
    pub(crate) fn attend(&self) -> Option<Lane<M>> {
        let mut state = self.lock();
        let event = state.mail.take_event();
        let begun = self.head.begun();
        let admitted = state.mail.is_half_free(begun).then(|| state.mail.admit(begun));
        self.set_flags(&state.mail);
        drop(state);
        admitted.into_iter().for_each(Admitted::tell);
        event
    }

    /// The turn that runs is about to block.
    pub(crate) fn blocks(&self) {
        let mut state = self.lock();
        state.mail.stay_awake();
        let admitted = state.mail.admit(self.head.begun());
        self.set_flags(&state.mail);
        drop(state);
        admitted.tell();
    }

    /// Why it ends or has ended.
    pub(crate) fn reason(&self) -> ExitReason {
        self.lock().life.reason()
    }
}

impl<M> Entry<M> {
    /// What is said of it as a dead letter.
    pub(crate) fn into_letter(self) -> crate::dead::Letter
    where
        M: Send + 'static,
    {
        match self {
            Entry::Typed(message) => crate::dead::Letter::of(message),
            Entry::Raw(message) => crate::dead::Letter::raw(*message),
        }
    }
}

impl Head {
    pub(crate) fn begun(&self) -> u32 {
        self.begun.load(Ordering::Relaxed) as u32
    }

    pub(crate) fn handled(&self) -> u64 {
        self.begun.load(Ordering::Relaxed)
    }

    /// The actor begins to handle something.
    #[inline]
    pub(crate) fn begin(&self) {
        self.begun.store(self.begun.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
    }

    /// What it has begun to handle failed.
    #[cold]
    pub(crate) fn fail(&self) {
        self.failed.store(true, Ordering::Relaxed);
    }

    pub(crate) fn has_failed(&self) -> bool {
        self.failed.load(Ordering::Relaxed)
    }

    #[inline]
    pub(crate) fn flags(&self) -> u8 {
        self.flags.load(Ordering::Relaxed)
    }

    /// Says whether the turn that runs has blocked.
    #[inline]
    pub(crate) fn set_blocked(&self, blocked: bool) {
        self.blocked.store(blocked, Ordering::Relaxed);
    }

    #[inline]
    pub(crate) fn has_blocked(&self) -> bool {
        self.blocked.load(Ordering::Relaxed)
    }

    pub(crate) fn wake(&self) {
        self.waker.wake();
    }

    pub(crate) fn task(&self) -> sinew_sched::TaskId {
        self.waker.task()
    }
}

/// An actor, whatever the type of its messages.
pub(crate) trait AnyCell: Send + Sync {
    fn head(&self) -> &Head;

    /// Puts a message that was sent by id into the mailbox.
    fn deliver(&self, message: Message) -> Result<(), SendError<Message>>;

    /// Puts an event into the lane. It is given back if the actor ends.
    fn push_event(&self, event: Event) -> Result<(), Event>;

    /// Does something with its life, under its lock: `what` runs no foreign code, and takes no other lock.
    fn with_life(&self, what: &mut dyn FnMut(&mut Life));

    /// Closes the mailbox for this reason, if it is open: from now on the actor ends. False if it did already.
    fn close(&self, reason: ExitReason) -> bool;

    /// The last step of its life: whoever makes it gets what is to be told to whom. It ends for the reason for which it was closed,
    /// if it was. What was left in its mailbox is a dead letter.
    fn bury(&self, reason: ExitReason) -> Option<Buried>;

    /// Its [`ActorRef`](crate::ActorRef), whatever the type of its messages.
    fn any_ref(self: Arc<Self>) -> Box<dyn Any>;

    /// For onlookers.
    fn see(&self) -> Seen;
}

/// What is told of an actor that has ended, and to whom.
pub(crate) struct Buried {
    pub(crate) reason: ExitReason,
    pub(crate) more: Option<Box<More>>,
}

/// What an onlooker sees of an actor.
#[derive(Clone)]
pub(crate) struct Seen {
    pub(crate) queued: usize,
    pub(crate) capacity: u32,
    pub(crate) high_water: u32,
    pub(crate) dropped: u32,
    pub(crate) phase: Phase,
    /// Senders wait for room.
    pub(crate) waiting: bool,
    pub(crate) handled: u64,
    pub(crate) bytes: usize,
    pub(crate) name: Option<Box<str>>,
    pub(crate) parent: Option<ActorId>,
    pub(crate) restarts: u32,
    pub(crate) last_error: Option<ExitReason>,
    pub(crate) spawned_at: Option<&'static Location<'static>>,
}

impl dyn AnyCell + '_ {
    /// [`AnyCell::with_life`] with a result.
    pub(crate) fn life<T>(&self, what: impl FnOnce(&mut Life) -> T) -> T {
        let (mut what, mut result) = (Some(what), None);
        self.with_life(&mut |life| result = what.take().map(|what| what(life)));
        result.expect("it is called once")
    }
}

impl<M: Send + 'static> AnyCell for Cell<M> {
    fn head(&self) -> &Head {
        &self.head
    }

    fn deliver(&self, message: Message) -> Result<(), SendError<Message>> {
        let entry = match typed::<M>(message) {
            Ok(message) => Entry::Typed(message),
            Err(message) => Entry::Raw(Box::new(message)),
        };
        self.try_put(entry).map_err(|(entry, why)| SendError::new(untyped(entry, self.head.id), why))
    }

    fn push_event(&self, event: Event) -> Result<(), Event> {
        let mut state = self.lock();
        let put = state.mail.put_event(Lane::Event(event));
        if put.is_ok() {
            self.set_flag(LANE);
        }
        drop(state);
        match put {
            Ok(wake) => {
                if wake {
                    self.head.waker.wake();
                }
                Ok(())
            }
            Err(Lane::Event(event)) => Err(event),
            Err(Lane::Typed(_)) => unreachable!("it was an event"),
        }
    }

    fn with_life(&self, what: &mut dyn FnMut(&mut Life)) {
        what(&mut self.lock().life);
    }

    fn close(&self, reason: ExitReason) -> bool {
        let mut state = self.lock();
        if state.life.phase >= Phase::Ending {
            return false;
        }
        state.life.phase = Phase::Ending;
        state.life.set_reason(reason);
        let waiting = state.mail.close();
        self.set_flags(&state.mail);
        drop(state);
        self.refuse(waiting);
        true
    }

    fn bury(&self, reason: ExitReason) -> Option<Buried> {
        let mut state = self.lock();
        if state.life.phase == Phase::Dead {
            return None;
        }
        if state.life.phase < Phase::Ending {
            state.life.set_reason(reason);
        }
        state.life.phase = Phase::Dead;
        let reason = state.life.reason();
        let more = state.life.more.take();
        state.life.set_reason(reason.clone()); // for those who ask later
        let waiting = state.mail.close();
        let (queue, lane) = state.mail.drain();
        let task = state.life.task.take();
        self.set_flags(&state.mail);
        drop(state);
        self.head.node.books.close(self.head.handled(), self.head.has_failed());
        self.refuse(waiting);
        let dead = &self.head.node.dead_letters;
        queue.into_iter().for_each(|entry| dead.unhandled(&self.head, entry.into_letter(), &reason));
        drop(lane);
        drop(task);
        Some(Buried { reason, more })
    }

    fn any_ref(self: Arc<Self>) -> Box<dyn Any> {
        Box::new(crate::actor_ref::ActorRef(self))
    }

    fn see(&self) -> Seen {
        let state = self.lock();
        let handled = self.head.handled();
        let more = state.life.more.as_deref();
        let own = size_of::<Self>() + more.map_or(0, |_| size_of::<More>());
        Seen {
            queued: state.mail.len(handled as u32),
            capacity: state.mail.capacity(),
            high_water: state.mail.high_water,
            dropped: state.mail.dropped,
            phase: state.life.phase,
            waiting: state.mail.has_waiting(),
            handled,
            bytes: own + state.mail.bytes(),
            name: more.and_then(|more| more.name.clone()),
            parent: more.and_then(|more| more.parent),
            restarts: more.map_or(0, |more| more.restarts),
            last_error: more.and_then(|more| more.last_error.clone()),
            spawned_at: more.and_then(|more| more.spawned_at),
        }
    }
}

impl<M: Send + 'static> Cell<M> {
    /// The mailbox is closed: those who wait for room get their messages back.
    fn refuse(&self, waiting: Vec<(Entry<M>, Answer<Entry<M>>)>) {
        for (entry, sender) in waiting {
            let _ = sender.send(Some(entry)); // whoever waits stays until it is told
        }
    }
}

/// The message as one of the actor's own type, if it carries one, or is one.
fn typed<M: 'static>(message: Message) -> Result<M, Message> {
    let mut whole = Some(message);
    if let Some(same) = (&mut whole as &mut dyn Any).downcast_mut::<Option<M>>() {
        return Ok(same.take().expect("it is there"));
    }
    let Message { source, dest, kind, payload } = whole.expect("it is there");
    payload.downcast::<M>().map_err(|payload| Message { source, dest, kind, payload })
}

/// The other way round, for a message that comes back.
fn untyped<M: Send + 'static>(entry: Entry<M>, dest: ActorId) -> Message {
    match entry {
        Entry::Raw(message) => *message,
        Entry::Typed(message) => {
            let mut message = Some(message);
            if let Some(same) = (&mut message as &mut dyn Any).downcast_mut::<Option<Message>>() {
                return same.take().expect("it is there");
            }
            let payload = crate::message::Payload::value(message.expect("it is there"));
            Message::new(dest, sinew_core::Kind(0), payload)
        }
    }
}

const _: () = assert!(sinew_sync::MODEL || size_of::<Cell<u64>>() <= 152, "with its counts it is 168 bytes");

//! What others share of an actor: its id, its mailbox and its life, under one lock.
//!
//! # Life
//!
//! ```text
//! starting ──(`started` returns)──> running ──(it stops, fails, is stopped)──> ending ──(over)──> leaving ──(freed)──> dead
//! ```
//!
//! From *ending* on the mailbox is closed and the reason is known. The step to *leaving* is made
//! once, whatever races: the thread that makes it takes out everything that the actor has of the
//! node, and frees it. [`end`](crate::end) has the phases of the end, and what is done in each.
//!
//! Models: `end_is_seen_when_all_is_done`, `end_is_seen_when_the_id_is_unknown`,
//! `end_against_spawn`, `kill_against_spawn`, `send_against_stop_and_lookup`.

mod any;
mod burial;
mod entry;
mod head;

use std::any::{Any, TypeId};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::mem;
use std::panic::Location;

use sinew_chan::chan::oneshot;
use sinew_core::{ActorId, ExitReason};
use sinew_sched::turn::{self, Marked, Waker};
use sinew_sched::{CancelLevel, JoinHandle};
use sinew_sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};
use sinew_sync::{Arc, ShortGuard, ShortLock};

use crate::error::{SendError, Unsent};
use crate::event::Event;
use crate::mailbox::{Admitted, Mail, Put, Refused, Stop, Taken};
use crate::message::Message;
use crate::patience::Patience;
use crate::services::{Handled, Owned};
use crate::shared::Inner;
pub(crate) use any::{AnyCell, Seen};
pub(crate) use burial::{Burial, Buried, Children, Leftovers};
pub(crate) use entry::{Entry, Lane};
use entry::{typed, untyped};
pub(crate) use head::{BURIED, Head, LANE, OWES, WAITING};

/// An actor whose messages are of type `M`. What senders write comes first.
#[repr(C)]
pub(crate) struct Cell<M> {
    state: ShortLock<State<M>>,
    pub(crate) head: Head,
}

#[repr(C)]
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
    Leaving,
    Dead,
}

pub(crate) struct Life {
    pub(crate) phase: Phase,
    /// Why it ends, from the phase on in which it does, or from when it drains; if that is a reason with texts, they are with what
    /// few have.
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
    /// It waits at its end, and is told when its last child has ended.
    pub(crate) childless: Option<oneshot::Sender<()>>,
    pub(crate) links: BTreeSet<ActorId>,
    /// Who is told of its end, by the number of the monitor.
    pub(crate) monitors: BTreeMap<u64, ActorId>,
    /// Whom it monitors, by the number of the monitor.
    pub(crate) monitored: BTreeMap<u64, ActorId>,
    /// Callers that wait for its end, by their tickets: one whose time is up is taken out without a look at the others.
    pub(crate) waits: BTreeMap<u64, oneshot::Sender<ExitReason>>,
    /// Exits of those who are linked to it are events, and do not end it.
    pub(crate) traps: bool,
    /// Its parent is told when it has started.
    pub(crate) announces: bool,
    pub(crate) patience: Patience,
    /// Who wants to hear that it has come to its next message.
    pub(crate) goes_on: Vec<oneshot::Sender<()>>,
    /// What else has to be undone at its end.
    pub(crate) services: Owned,
    pub(crate) spawned_at: Option<&'static Location<'static>>,
    pub(crate) restarts: u32,
    /// It was cancelled.
    pub(crate) cancelled: bool,
    /// It was killed.
    pub(crate) killed: bool,
    /// Its spawn was refused: nobody ever knew of it.
    pub(crate) refused: bool,
    /// What the one failed with whose place it has taken.
    pub(crate) last_error: Option<ExitReason>,
}

impl Life {
    pub(crate) fn more(&mut self) -> &mut More {
        self.more.get_or_insert_default()
    }

    /// A child has ended. Whoever waits until there are none is to be told so.
    #[must_use]
    pub(crate) fn lose(&mut self, child: ActorId) -> Option<oneshot::Sender<()>> {
        let more = self.more.as_mut()?;
        more.children.remove(&child);
        if more.children.is_empty() { more.childless.take() } else { None }
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
        } else if let Some(more) = &mut self.more {
            more.reason = None;
        }
    }
}

impl<M: Send + 'static> Cell<M> {
    /// One that has no id yet.
    pub(crate) fn new(node: &'static Inner, waker: Waker, mail: Mail<Entry<M>, Lane<M>>) -> Cell<M> {
        let life = Life { phase: Phase::Starting, code: 0, task: None, more: None };
        let head = Head {
            id: ActorId::NOBODY,
            node,
            waker,
            begun: AtomicU64::new(0),
            flags: AtomicU8::new(0),
            blocked: AtomicBool::new(false),
            failed: AtomicBool::new(false),
            begins: AtomicBool::new(true),
        };
        Cell { head, state: ShortLock::new(State { mail, life }) }
    }

    /// It has this task, by which it is ended if need be.
    pub(crate) fn set_task(&self, task: JoinHandle<()>) {
        let mut state = self.lock();
        if state.life.phase < Phase::Leaving {
            let (cancelled, killed) =
                state.life.more.as_ref().map_or((false, false), |more| (more.cancelled, more.killed));
            let killed =
                killed || state.life.phase == Phase::Ending && state.life.reason() == ExitReason::Killed;
            let level =
                if killed { Some(CancelLevel::Kill) } else { cancelled.then_some(CancelLevel::Cancel) };
            let marked = level.map(|level| turn::mark(&task, level));
            state.life.task = Some(task);
            drop(state);
            marked.into_iter().for_each(Marked::tell); // takes other locks
        } else {
            drop(state);
            drop(task);
        }
    }

    pub(crate) fn lock(&self) -> ShortGuard<'_, State<M>> {
        self.state.lock()
    }

    /// A message as it lies in the mailbox. It is counted there if it is one of bytes; one of the system's kinds is refused.
    #[inline]
    pub(crate) fn entry(&self, message: M) -> Result<Entry<M>, SendError<M>> {
        let mut message = message;
        if let Some(raw) = (&mut message as &mut dyn Any).downcast_mut::<Message>() {
            let kind = raw.kind;
            if kind.is_system() {
                return Err(SendError::new(message, Unsent::SystemKind(kind)));
            }
            raw.dest = self.head.id;
        }
        if self.counts_bytes() { self.counted(message) } else { Ok(Entry::Typed(message)) }
    }

    /// True if messages are of bytes, and the node counts them.
    #[inline(always)]
    fn counts_bytes(&self) -> bool {
        TypeId::of::<M>() == TypeId::of::<Message>() && self.head.node.budget.is_limited()
    }

    #[cold]
    fn counted(&self, message: M) -> Result<Entry<M>, SendError<M>> {
        let own = |message| typed::<M>(message).expect("the actor's messages are of this type");
        match self.head.node.budget.charge(untyped(Entry::Typed(message), self.head.id)) {
            Ok(queued) => Ok(Entry::queued(queued)),
            Err((message, why)) => Err(SendError::new(own(message), why)),
        }
    }

    /// Puts a message into the mailbox, if there is certainly room and nothing to count. Else it comes back.
    #[inline(always)]
    pub(crate) fn put_at_once(&self, message: M) -> Result<(), M> {
        if TypeId::of::<M>() == TypeId::of::<Message>() {
            return Err(message); // it has to be addressed, and may be counted
        }
        let mut state = self.lock();
        if !state.mail.has_room() {
            return Err(message);
        }
        let wake = state.mail.push(Entry::Typed(message));
        drop(state);
        if wake {
            self.head.waker.wake();
        }
        Ok(())
    }

    /// Puts a message into the mailbox, as far as its policy goes. True if the sender should give way to others.
    ///
    /// A sender that is refused may try again until there is room, and one whose messages are dropped is never held up: both give
    /// way here once in a while, or the actor would not get to run on a worker that has it next.
    pub(crate) fn try_put(&self, entry: Entry<M>) -> Result<bool, (Entry<M>, Unsent)> {
        let put = self.lock().mail.put(entry, || self.head.begun());
        let (wake, many, dropped) = match put {
            Put::In { wake, many } => (wake, many, None),
            Put::Instead(oldest, wake) => (wake, false, Some(oldest)),
            Put::Dropped(entry) => (false, false, Some(entry)),
            Put::Full(entry) => {
                turn::charge();
                return Err((entry, Unsent::Full));
            }
            Put::Closed(entry) => {
                turn::charge();
                return Err((entry, Unsent::Stopped(self.reason())));
            }
        };
        if wake {
            self.head.waker.wake();
        }
        if let Some(entry) = dropped {
            self.head.node.dead_letters.overflow(self.head.id, entry.letter());
            self.head.discard(entry);
            turn::charge();
        }
        Ok(many)
    }

    /// Lets nothing more in, and has the actor end when it has handled what is in its mailbox.
    pub(crate) fn drain(&self) {
        let mut state = self.lock();
        if state.life.phase >= Phase::Ending {
            return;
        }
        state.life.set_reason(ExitReason::Shutdown);
        let refused = state.mail.close();
        let wake = state.mail.put_stop(Stop::Drain) == Ok(true);
        self.set_flags(&state.mail);
        drop(state);
        self.give_back(refused);
        if wake {
            self.head.waker.wake();
        }
    }

    /// Gives their messages back to senders whose mailbox was closed.
    fn give_back(&self, refused: Option<Refused<Entry<M>>>) {
        let unwound = refused.map(Refused::tell).unwrap_or_default();
        if !unwound.is_empty() {
            self.head.discard_elsewhere(unwound);
        }
    }

    /// Called under the lock.
    pub(crate) fn set_flag(&self, flag: u8) {
        self.head.flags.store(self.head.flags() | flag, Ordering::Relaxed);
    }

    /// The flags are as the mail says. Called under the lock.
    pub(crate) fn set_flags(&self, mail: &Mail<Entry<M>, Lane<M>>) {
        let lane = if mail.has_events() { LANE } else { 0 };
        let waiting = if mail.has_waiting() { WAITING } else { 0 };
        let flags = self.head.flags.load(Ordering::Relaxed);
        let now = lane | waiting | flags & (OWES | BURIED);
        if flags != now {
            self.head.flags.store(now, Ordering::Relaxed);
        }
    }

    /// The actor has handled what a service told it. The service is told so by [`settle`](Cell::settle).
    pub(crate) fn owe(&self, handled: Arc<dyn Handled>) {
        let mut state = self.lock();
        state.life.more().services.handled.push(handled);
        self.set_flag(OWES);
    }

    /// Tells when the actor has come to its next message, or would if there were one; it is closed when the actor ends. None if it
    /// ends by now.
    pub(crate) fn goes_on(&self) -> Option<oneshot::Receiver<()>> {
        let (sender, receiver) = oneshot::channel();
        let mut state = self.lock();
        if state.life.phase >= Phase::Ending {
            return None;
        }
        state.life.more().goes_on.push(sender);
        self.set_flag(OWES);
        drop(state);
        self.head.wake(); // it may be idle
        Some(receiver)
    }

    /// The actor has come to a message of the queue, or to its end: services may tell it something again. Not before, or one that
    /// always has something to tell would keep messages waiting. Only the actor's task does this.
    pub(crate) fn settle(&self) {
        if self.head.flags() & OWES == 0 {
            return;
        }
        let (handled, goes_on) = {
            let mut state = self.lock();
            self.head.flags.store(self.head.flags() & !OWES, Ordering::Relaxed);
            let more = state.life.more();
            (mem::take(&mut more.services.handled), mem::take(&mut more.goes_on))
        };
        handled.into_iter().for_each(Handled::handled);
        for waiting in goes_on {
            let _ = waiting.send(()); // it may wait no more
        }
    }

    /// The next message, if that is all there is to say; see [`Mail::pop`]. Only the actor's task asks.
    #[inline(always)]
    pub(crate) fn next(&self, more: impl FnOnce() -> bool, last: &mut bool) -> Option<Entry<M>> {
        if self.head.flags() & OWES != 0 { None } else { self.lock().mail.pop(more, last) }
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
        let admits = state.mail.has_waiting() && state.mail.is_half_free(begun);
        let admitted = admits.then(|| state.mail.admit(begun));
        self.set_flags(&state.mail);
        drop(state);
        admitted.into_iter().for_each(Admitted::tell);
        event
    }

    /// The turn that runs is about to block, and looks at its end whether there is more.
    pub(crate) fn blocks(&self) {
        let mut state = self.lock();
        state.mail.stay_awake();
        self.let_in(state);
    }

    /// Lets those in who wait, as far as there is room.
    pub(crate) fn lets_in(&self) {
        self.let_in(self.lock());
    }

    fn let_in(&self, mut state: ShortGuard<'_, State<M>>) {
        let admitted = state.mail.admit(self.head.begun());
        self.set_flags(&state.mail);
        drop(state);
        admitted.tell();
    }

    /// Puts back what was taken and not begun. If there is no actor any more, it becomes dead letters.
    #[cold]
    pub(crate) fn put_back(&self, mut taken: VecDeque<Entry<M>>) {
        let put_back = self.lock().mail.put_back(&mut taken);
        if !put_back {
            let reason = self.reason();
            for entry in taken {
                self.head.node.dead_letters.unhandled(self.head.id, entry.letter(), &reason);
                self.head.discard(entry);
            }
        }
    }

    /// Why it ends or has ended.
    pub(crate) fn reason(&self) -> ExitReason {
        self.lock().life.reason()
    }

    pub(crate) fn was_killed(&self) -> bool {
        self.lock().life.more.as_ref().is_some_and(|more| more.killed)
    }

    /// Why it was asked to stop: what it ends for if it is cancelled before it gets to that.
    pub(crate) fn asked(&self) -> Option<ExitReason> {
        let state = self.lock();
        if state.life.phase >= Phase::Ending {
            return Some(state.life.reason());
        }
        if state.mail.asked().is_some() {
            return Some(ExitReason::Shutdown);
        }
        state.mail.events().find_map(|event| match event {
            Lane::Event(Event::Stop { reason, .. }) => Some(reason.clone()),
            _ => None,
        })
    }
}

impl<M: Send + 'static> Cell<M> {
    /// Puts something into the lane. It is given back if the actor ends.
    pub(crate) fn push_lane(&self, lane: Lane<M>) -> Result<(), Lane<M>> {
        let mut state = self.lock();
        let put = match lane {
            Lane::Event(Event::Kill) => state.mail.put_event_first(lane),
            lane => state.mail.put_event(lane),
        };
        if put.is_ok() {
            self.set_flag(LANE);
        }
        drop(state);
        if put? {
            self.head.waker.wake();
        }
        Ok(())
    }
}

const _: () = assert!(sinew_sync::MODEL || size_of::<Cell<u64>>() <= 152, "with its counts it is 168 bytes");
const _: () = {
    let begun = std::mem::offset_of!(Cell<u64>, head) + std::mem::offset_of!(Head, begun);
    assert!(sinew_sync::MODEL || begun >= size_of::<Mail<Entry<u64>, Lane<u64>>>() + 8 + 64);
};

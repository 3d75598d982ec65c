//! A mailbox: what was sent to an actor and has not begun to be handled.
//!
//! # Two lanes
//!
//! What others send is in a queue of exact capacity, with a [`Policy`] for when it is full. What the system sends (exits, timers,
//! stop requests) is in a lane of its own, which never refuses and goes first.
//!
//! # One lock, and batches
//!
//! All of it is under the actor's lock, held for a few instructions and never while foreign code runs: what is to be dropped or
//! woken is handed out. The actor takes more than one message at a time if it can, so that a sender on another
//! processor and the actor do not pass the lock back and forth for each. What it has taken and not begun still counts:
//! `begun`, which only the actor writes, says how far it is. A sender looks at that only if the mailbox seems full.
//!
//! # Who wakes the actor
//!
//! `asleep` says that the actor has seen an empty mailbox and has to be woken for what comes: whoever puts something in
//! clears it, and wakes the actor, once. The actor sets it under the lock when it takes the last message, before it handles
//! that: a wake-up meanwhile is not lost, since the task's state word keeps it until the turn is over. A turn that blocks
//! uses such wake-ups up, so it looks again at its end. And it clears `asleep` before it blocks ([`Mail::stay_awake`]), or each
//! would have the blocked call look round in vain.
//!
//! # Senders that wait
//!
//! A sender that waits for room leaves its message here, with a ticket. The actor moves messages of those who wait into the
//! queue, first come first served, when half of the mailbox is free, when it has nothing else, and before a turn blocks: so
//! nobody waits for room that there is while nobody works. A sender that gives up takes its message back, if it is
//! still there. Nobody passes those who wait.
//!
//! Models: `mailbox_wakes_its_actor`, `mailbox_wakes_its_actor_in_batches`, `mailbox_wakes_its_actor_for_events`,
//! `mailbox_of_one_forgets_no_sender`, `mailbox_of_two_forgets_no_sender`, `mailbox_of_two_lets_nobody_pass`,
//! `mailbox_sender_against_death`, `end_against_senders`, `end_against_put_back`.

mod waiting;

use std::collections::VecDeque;
use std::mem;

pub(crate) use waiting::{Admitted, Answer, Refused, Ticket};
use waiting::{Line, Waiting};

/// What becomes of a message for a mailbox that is full.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Policy {
    /// The sender waits for room. It must not be the actor itself, nor be inside the poll of a future.
    #[default]
    Park,
    /// The sender gets it back.
    Refuse,
    /// The oldest message in the mailbox makes room for it; that one becomes a dead letter.
    DropOldest,
    /// It becomes a dead letter.
    DropNewest,
}

/// The messages in a mailbox.
pub(crate) struct Mail<M, E> {
    queue: VecDeque<M>,
    /// What there mostly is none of.
    rest: Option<Box<Rest<M, E>>>,
    /// Messages that the actor has taken, and how many it had begun by then.
    taken: u32,
    taken_at: u32,
    capacity: u32,
    /// How many messages there may be, up to the capacity, before whoever sends one more gives way to others ([`GRANT`]).
    granted: u32,
    /// The most messages there ever were.
    pub(crate) high_water: u32,
    pub(crate) dropped: u32,
    pub(crate) policy: Policy,
    asleep: bool,
    /// Nothing more gets into the queue.
    closed: bool,
    door: Door,
}

/// The door of the system's lane.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Door {
    Open,
    /// The first in the lane is a plain request to end. It is noted here, so that to end an actor takes no memory.
    Asked(Stop),
    /// Nothing more gets into either lane.
    Sealed,
}

/// A plain request to end.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Stop {
    /// After the message that the actor is at.
    Now,
    /// After those that are in the mailbox.
    Drain,
}

/// The system's lane, and senders that wait. It is there if one of them is not empty.
struct Rest<M, E> {
    lane: VecDeque<E>,
    waiting: Line<M>,
}

/// What became of a message.
pub(crate) enum Put<M> {
    /// It is in.
    In {
        /// The actor has to be woken.
        wake: bool,
        /// The sender should give way to others.
        many: bool,
    },
    /// It is in, the oldest is out, and the actor has to be woken if true.
    Instead(M, bool),
    /// It is out, as the policy has it.
    Dropped(M),
    /// There is no room.
    Full(M),
    /// The mailbox is closed.
    Closed(M),
}

/// What there is for the actor.
pub(crate) enum Taken<M, E> {
    Event(E),
    /// The one message, and whether there is nothing behind it.
    One(M, bool),
    /// There are more, in the batch.
    Batch,
    Nothing,
    /// Nothing, and nothing will come: the mailbox is closed.
    End,
}

/// Messages that are sent between two looks of the actor before a sender gives way. One that fills a large mailbox at a stretch
/// would keep its worker from all others meanwhile.
const GRANT: u32 = 32;

/// Messages that a mailbox keeps room for when it is empty.
const KEEP: usize = 64;

impl<M, E: From<Stop>> Mail<M, E> {
    pub(crate) fn new(capacity: u32, policy: Policy) -> Mail<M, E> {
        Mail {
            queue: VecDeque::new(),
            rest: None,
            taken: 0,
            taken_at: 0,
            capacity,
            granted: capacity.min(GRANT),
            high_water: 0,
            dropped: 0,
            policy,
            asleep: false,
            closed: false,
            door: Door::Open,
        }
    }

    /// How many messages there are that the actor has not begun.
    #[inline]
    pub(crate) fn len(&self, begun: u32) -> usize {
        let done = begun.wrapping_sub(self.taken_at).min(self.taken);
        self.queue.len() + (self.taken - done) as usize
    }

    pub(crate) fn capacity(&self) -> u32 {
        self.capacity
    }

    /// Memory for what is in it, used or kept for more. What messages have elsewhere is not known.
    pub(crate) fn bytes(&self) -> usize {
        let rest = self.rest.as_ref().map_or(0, |rest| {
            let (lane, waiting) = (rest.lane.capacity(), rest.waiting.len());
            size_of::<Rest<M, E>>()
                + lane * size_of::<E>()
                + waiting * (size_of::<Ticket>() + size_of::<Waiting<M>>())
        });
        (self.queue.capacity() + self.taken as usize) * size_of::<M>() + rest
    }

    /// True if there is certainly room, and nobody waits for it.
    #[inline(always)]
    pub(crate) fn has_room(&self) -> bool {
        !self.closed
            && self.rest.is_none()
            && self.queue.len() + (self.taken as usize) < self.granted as usize
    }

    /// Puts a message in, as far as the policy goes. `begun` is read if it matters.
    pub(crate) fn put(&mut self, message: M, begun: impl Fn() -> u32) -> Put<M> {
        if self.closed {
            return Put::Closed(message);
        }
        // Nobody passes those who wait.
        if self.has_waiting()
            || self.queue.len() + self.taken as usize >= self.capacity as usize
                && self.len(begun()) >= self.capacity as usize
        {
            return self.overflow(message);
        }
        let many =
            self.granted < self.capacity && self.queue.len() + self.taken as usize >= self.granted as usize;
        if many {
            self.grant();
        }
        Put::In { wake: self.push(message), many }
    }

    /// So many more messages may come before a sender gives way.
    fn grant(&mut self) {
        let seen = (self.queue.len() as u32).saturating_add(self.taken);
        self.granted = seen.saturating_add(GRANT).min(self.capacity);
    }

    /// Puts a message in, for which there is room. True if the actor has to be woken.
    #[inline(always)]
    pub(crate) fn push(&mut self, message: M) -> bool {
        // Two branches: a message that nothing can fail for stays in registers.
        if self.queue.len() < self.queue.capacity() {
            self.queue.push_back(message);
        } else {
            self.push_growing(message);
        }
        let seen = self.queue.len() as u32 + self.taken;
        if seen > self.high_water {
            self.high_water = seen.min(self.capacity);
        }
        mem::take(&mut self.asleep)
    }

    #[cold]
    fn push_growing(&mut self, message: M) {
        self.queue.push_back(message);
    }

    #[cold]
    fn overflow(&mut self, message: M) -> Put<M> {
        match self.policy {
            Policy::Park | Policy::Refuse => Put::Full(message),
            Policy::DropNewest => {
                self.dropped = self.dropped.saturating_add(1);
                Put::Dropped(message)
            }
            // Nothing is taken in batches with this policy, so the oldest is in the queue.
            Policy::DropOldest => {
                self.dropped = self.dropped.saturating_add(1);
                let oldest = self.queue.pop_front().expect("a mailbox that is full has a message");
                Put::Instead(oldest, self.push(message))
            }
        }
    }

    /// Leaves a message of a sender that waits for room, behind all others: its ticket is the newest.
    pub(crate) fn wait(&mut self, ticket: Ticket, message: M, admitted: Answer<M>) {
        let earlier = self.rest().waiting.insert(ticket, Waiting { message, admitted });
        debug_assert!(earlier.is_none(), "a ticket is one sender's");
    }

    /// Takes back the message of a sender that waits no longer, with its answer, which is dropped when the lock is free. None if
    /// it was let in, or the mailbox is closed.
    pub(crate) fn withdraw(&mut self, ticket: Ticket) -> Option<(M, Answer<M>)> {
        let withdrawn = self.rest.as_mut()?.waiting.remove(&ticket)?;
        self.tidy();
        Some((withdrawn.message, withdrawn.admitted))
    }

    pub(crate) fn has_waiting(&self) -> bool {
        self.rest.as_ref().is_some_and(|rest| !rest.waiting.is_empty())
    }

    fn rest(&mut self) -> &mut Rest<M, E> {
        self.rest.get_or_insert_with(|| Box::new(Rest { lane: VecDeque::new(), waiting: Line::new() }))
    }

    /// Something was taken out of the rest.
    fn tidy(&mut self) {
        if self.rest.as_ref().is_some_and(|rest| rest.lane.is_empty() && rest.waiting.is_empty()) {
            self.rest = None;
        }
    }

    /// Lets those in who wait, as far as there is room.
    pub(crate) fn admit(&mut self, begun: u32) -> Admitted<M> {
        let mut admitted = Admitted(Vec::new());
        let mut room = (self.capacity as usize).saturating_sub(self.len(begun));
        while room > 0
            && let Some(rest) = &mut self.rest
            && let Some((_, first)) = rest.waiting.pop_first()
        {
            room -= 1;
            self.queue.push_back(first.message);
            admitted.0.push(first.admitted);
        }
        self.grant();
        self.tidy();
        admitted
    }

    /// Puts something into the lane. True if the actor has to be woken. It comes back if there is no actor any more.
    pub(crate) fn put_event(&mut self, event: E) -> Result<bool, E> {
        if self.door == Door::Sealed {
            return Err(event);
        }
        self.rest().lane.push_back(event);
        Ok(mem::take(&mut self.asleep))
    }

    /// Like [`put_event`](Mail::put_event), before all others.
    pub(crate) fn put_event_first(&mut self, event: E) -> Result<bool, E> {
        match self.door {
            Door::Sealed => return Err(event),
            Door::Asked(stop) => self.rest().lane.push_front(stop.into()),
            Door::Open => (),
        }
        self.door = Door::Open;
        self.rest().lane.push_front(event);
        Ok(mem::take(&mut self.asleep))
    }

    /// Like [`put_event`](Mail::put_event), for a plain request to end.
    pub(crate) fn put_stop(&mut self, stop: Stop) -> Result<bool, Stop> {
        match self.door {
            Door::Sealed => return Err(stop),
            Door::Open if !self.has_events() => self.door = Door::Asked(stop),
            _ => self.rest().lane.push_back(stop.into()),
        }
        Ok(mem::take(&mut self.asleep))
    }

    /// The plain request to end that is the first in the lane.
    pub(crate) fn asked(&self) -> Option<Stop> {
        if let Door::Asked(stop) = self.door { Some(stop) } else { None }
    }

    /// What else is in the lane.
    pub(crate) fn events(&self) -> impl Iterator<Item = &E> {
        self.rest.iter().flat_map(|rest| rest.lane.iter())
    }

    pub(crate) fn has_events(&self) -> bool {
        self.asked().is_some() || self.rest.as_ref().is_some_and(|rest| !rest.lane.is_empty())
    }

    /// The next message, if that is all there is to say: no events, nobody who waits, and one message or no `more` wanted. Says
    /// whether there is nothing behind it. As for [`take`](Mail::take).
    #[inline(always)]
    pub(crate) fn pop(&mut self, more: impl FnOnce() -> bool, last: &mut bool) -> Option<M> {
        let len = self.queue.len();
        if self.rest.is_some() || self.closed || self.door != Door::Open || (len != 1 && more()) {
            return None;
        }
        let message = self.queue.pop_front()?;
        self.taken = 0;
        self.asleep = len == 1;
        *last = len == 1;
        if len == 1 {
            self.granted = self.granted.min(GRANT);
        }
        Some(message)
    }

    /// What there is for the actor, which has begun all that it took. `batch` is empty, and filled if `more` than one message
    /// may be taken.
    pub(crate) fn take(
        &mut self,
        begun: u32,
        batch: &mut VecDeque<M>,
        more: bool,
    ) -> (Taken<M, E>, Admitted<M>) {
        self.taken = 0;
        let admits = self.rest.is_some() && self.is_half_free(begun);
        let mut admitted = if admits { self.admit(begun) } else { Admitted(Vec::new()) };
        if let Some(event) = self.take_event() {
            return (Taken::Event(event), admitted);
        }
        if more && self.queue.len() > 1 && self.policy != Policy::DropOldest {
            mem::swap(&mut self.queue, batch);
            (self.taken, self.taken_at) = (batch.len() as u32, begun);
            self.grant();
            return (Taken::Batch, admitted);
        }
        let taken = match self.queue.pop_front() {
            Some(message) => {
                // Where there is room for one only, those who wait had to wait for this one. Nobody else would wake the actor.
                if self.queue.is_empty() && self.rest.is_some() {
                    admitted.0.append(&mut self.admit(begun).0);
                }
                self.asleep = self.queue.is_empty();
                Taken::One(message, self.asleep && !self.closed)
            }
            None if self.closed => {
                self.asleep = true; // a process may wait for events
                Taken::End
            }
            None => {
                self.asleep = true;
                Taken::Nothing
            }
        };
        (taken, admitted)
    }

    /// The next event in the lane.
    #[inline]
    pub(crate) fn take_event(&mut self) -> Option<E> {
        if let Some(stop) = self.asked() {
            self.door = Door::Open;
            return Some(stop.into());
        }
        let event = self.rest.as_mut()?.lane.pop_front();
        self.tidy();
        event
    }

    /// True if half of the mailbox is free.
    pub(crate) fn is_half_free(&self, begun: u32) -> bool {
        self.len(begun) * 2 <= self.capacity as usize
    }

    /// True if whoever puts something in has to wake the actor.
    pub(crate) fn is_asleep(&self) -> bool {
        self.asleep
    }

    /// The actor looks for itself whether there is more: nobody has to wake it.
    pub(crate) fn stay_awake(&mut self) {
        self.asleep = false;
    }

    /// Puts back what was taken and not begun, in front of what came meanwhile. What is left in `batch` is to be dropped:
    /// memory, or messages if there is no actor any more; then it is false.
    pub(crate) fn put_back(&mut self, batch: &mut VecDeque<M>) -> bool {
        self.taken = 0;
        if self.door == Door::Sealed {
            return false;
        }
        if batch.is_empty() {
            if self.queue.capacity() == 0 && batch.capacity() <= KEEP {
                mem::swap(&mut self.queue, batch);
            }
        } else {
            batch.append(&mut self.queue);
            mem::swap(&mut self.queue, batch);
        }
        true
    }

    /// Memory of the queue that is not worth keeping while it is empty.
    pub(crate) fn spare(&mut self) -> VecDeque<M> {
        if self.queue.is_empty() && self.queue.capacity() > KEEP {
            mem::take(&mut self.queue)
        } else {
            VecDeque::new()
        }
    }

    /// Closes the mailbox: nothing more gets in. What is in is left to the actor; those who wait, if there are any, get theirs
    /// back.
    pub(crate) fn close(&mut self) -> Option<Refused<M>> {
        self.closed = true;
        let waiting = mem::take(&mut self.rest.as_mut()?.waiting);
        self.tidy();
        Some(Refused(waiting))
    }

    /// True if there is nothing in it, in either lane, and nobody waits for room.
    pub(crate) fn is_empty(&self) -> bool {
        self.queue.is_empty() && self.rest.is_none()
    }

    /// Takes everything out, for good. None if there is nothing, not even memory.
    pub(crate) fn drain(&mut self) -> Option<(VecDeque<M>, VecDeque<E>)> {
        (self.closed, self.door) = (true, Door::Sealed);
        self.taken = 0;
        if self.queue.capacity() == 0 && self.rest.is_none() {
            return None;
        }
        let rest = self.rest.take();
        Some((mem::take(&mut self.queue), rest.map(|rest| rest.lane).unwrap_or_default()))
    }
}

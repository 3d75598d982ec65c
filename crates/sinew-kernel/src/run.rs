//! How an actor runs: its turns on the scheduler.
//!
//! A turn handles what is in the system's lane, then one message; more of them as long as no other
//! task of the worker is ready, up to [`BATCH`]. So a flooded actor lets every other that is ready
//! have a turn after each of its messages.
//!
//! When its turns are over, the task closes the mailbox, runs the `stopping` hook, drops the state,
//! and leaves the rest of the [end](crate::end) to [`bury`](end::bury).

use std::cell::RefCell;
use std::collections::VecDeque;
use std::mem;

use sinew_core::ExitReason;
use sinew_sched::Raised;
use sinew_sched::turn::{self, After, Turn, others_wait};
use sinew_sync::Arc;

use crate::actor::{Body, Flow};
use crate::cell::{AnyCell, BURIED, Cell, Entry, Head, LANE, Lane, OWES};
use crate::ctx::Ctx;
use crate::end;
use crate::event::Event;
use crate::mailbox::Taken;
use crate::start;

/// Messages that an actor handles in one turn at most.
const BATCH: u32 = 64;

pub(crate) struct Run<B: Body> {
    cell: Arc<Cell<B::Msg>>,
    /// None if it must not start, or was dropped.
    body: RefCell<Option<B>>,
}

impl<B: Body> Run<B> {
    pub(crate) fn new(cell: Arc<Cell<B::Msg>>, body: Option<B>) -> Run<B> {
        Run { cell, body: RefCell::new(body) }
    }

    #[cold]
    fn start(&self, body: &mut B, ctx: &mut Ctx<'_, B::Msg>) -> Flow {
        let flow = body.started(ctx);
        // One that gives a reason not to go on has not started.
        if !matches!(flow, Flow::Exit(_)) && !B::STARTS_LATER {
            start::started(&*self.cell);
        }
        flow
    }

    #[inline(always)]
    fn message(&self, entry: Entry<B::Msg>, body: &mut B, ctx: &mut Ctx<'_, B::Msg>) -> Flow {
        self.cell.head.begin();
        let failing = Failing(&self.cell.head);
        let flow = match entry {
            Entry::Typed(message) => body.message(message, ctx),
            entry => self.opened(entry, body, ctx),
        };
        mem::forget(failing);
        flow
    }

    #[inline(never)]
    fn opened(&self, entry: Entry<B::Msg>, body: &mut B, ctx: &mut Ctx<'_, B::Msg>) -> Flow {
        match entry.open() {
            Ok(message) => body.message(message, ctx),
            Err(message) => body.raw(message, ctx),
        }
    }

    #[cold]
    fn event(&self, lane: Lane<B::Msg>, body: &mut B, ctx: &mut Ctx<'_, B::Msg>) -> Flow {
        match lane {
            Lane::Typed(notice) => {
                let Some(message) = notice.message(&*self.cell) else { return Flow::Continue };
                let flow = body.message(message, ctx);
                self.cell.owe(notice);
                flow
            }
            Lane::Event(Event::Notice(notice)) => {
                let Some(message) = notice.message(&*self.cell) else { return Flow::Continue };
                let flow = body.raw(message, ctx);
                self.cell.owe(notice);
                flow
            }
            Lane::Event(Event::Exit(exit)) => body.exit_of(exit, ctx),
            Lane::Event(Event::Started(child)) => body.child_started(child, ctx),
            Lane::Event(Event::Tick(ticket)) => body.tick(ticket, ctx),
            Lane::Event(Event::Stop { reason, drain }) => body.stop(reason, drain, ctx),
            Lane::Event(Event::Kill) => Flow::Exit(ExitReason::Killed),
        }
    }

    /// It ends for this reason, unless it does for another already.
    #[cold]
    fn leave(&self, flow: Flow) -> After {
        let reason = match flow {
            Flow::Exit(reason) => reason,
            Flow::Stop | Flow::Continue => ExitReason::Normal,
        };
        self.cell.close(reason);
        After::Ended
    }
}

/// What a turn has taken and not begun. It goes back if the turn ends, in whatever way.
struct Batch<'a, M: Send + 'static> {
    cell: &'a Cell<M>,
    queue: VecDeque<Entry<M>>,
    /// How many are left of it when half of it is done.
    half: usize,
}

impl<M: Send + 'static> Drop for Batch<'_, M> {
    #[inline]
    fn drop(&mut self) {
        if self.queue.capacity() > 0 {
            self.cell.put_back(std::mem::take(&mut self.queue));
        }
    }
}

/// Dropped only if a message's handler unwinds, and notes that.
struct Failing<'a>(&'a Head);

impl Drop for Failing<'_> {
    #[cold]
    fn drop(&mut self) {
        self.0.fail();
    }
}

impl<M: Send + 'static> Batch<'_, M> {
    /// The next message, if there are no events to see to first. Says whether it is known that there is nothing behind it.
    #[inline(always)]
    fn next(&mut self, last: &mut bool) -> Option<Entry<M>> {
        if self.queue.is_empty() {
            return self.cell.next(|| !others_wait(), last);
        }
        let flags = self.cell.head.flags();
        // Senders that wait are let in half way: not one at a time.
        if flags & (OWES | LANE | BURIED) != 0 || flags != 0 && self.queue.len() == self.half {
            return None;
        }
        self.queue.pop_front()
    }

    /// What there is, if it is not a message that is next for sure.
    #[cold]
    fn attend(&mut self) -> Taken<Entry<M>, Lane<M>> {
        if self.cell.head.flags() & BURIED != 0 {
            return Taken::End; // it was given up in the middle of a batch
        }
        if let Some(event) = self.cell.attend() {
            return Taken::Event(event);
        }
        let taken = loop {
            if let Some(entry) = self.queue.pop_front() {
                break Taken::One(entry, false);
            }
            match self.cell.take(&mut self.queue, !others_wait()) {
                Taken::Batch => self.half = self.queue.len() / 2,
                taken => break taken,
            }
        };
        if !matches!(taken, Taken::Event(_)) {
            self.cell.settle();
        }
        taken
    }
}

impl<B: Body> Run<B> {
    /// The rest of a turn in which there is more to say than that there is one message: up to `most` messages.
    #[inline(never)]
    fn turn_with_more(&self, most: u32, body: &mut B, ctx: &mut Ctx<'_, B::Msg>) -> After {
        let mut batch = Batch { cell: &self.cell, queue: VecDeque::new(), half: 0 };
        for _ in 0..most {
            let mut last = false;
            let flow = if let Some(entry) = batch.next(&mut last) {
                self.message(entry, body, ctx)
            } else {
                match batch.attend() {
                    Taken::One(entry, is_last) => {
                        last = is_last;
                        self.message(entry, body, ctx)
                    }
                    Taken::Event(event) => self.event(event, body, ctx),
                    Taken::Nothing => return After::Idle,
                    Taken::End if self.cell.awaits_saves() => return After::Idle,
                    Taken::End => return After::Ended,
                    Taken::Batch => continue,
                }
            };
            if let Some(after) = self.after(flow, last) {
                return after;
            }
        }
        After::Again
    }

    /// Whether the turn ends with a message that came to `flow`, and was the `last` as far as is known.
    #[inline(always)]
    fn after(&self, flow: Flow, last: bool) -> Option<After> {
        if !matches!(flow, Flow::Continue) {
            return Some(self.leave(flow));
        }
        // Whoever has put something in behind the last message has woken us, and the task's state word knows; unless this
        // turn has blocked, which uses that up.
        if last && !self.cell.head.has_blocked() {
            return Some(After::Idle);
        }
        others_wait().then_some(After::Again)
    }
}

impl<B: Body> Turn for Run<B> {
    fn turn(&self) -> After {
        let mut body = self.body.borrow_mut();
        let mut ctx = Ctx::new(&self.cell);
        self.cell.head.set_blocked(false);
        let Some(body) = &mut *body else { return After::Ended };
        if self.cell.head.starts() {
            if self.cell.head.flags() & BURIED != 0 {
                return After::Ended; // it was given up before it ran
            }
            let flow = self.start(body, &mut ctx);
            if !matches!(flow, Flow::Continue) {
                return self.leave(flow);
            }
        }
        for done in 0..BATCH {
            let mut last = false;
            let Some(entry) = self.cell.next(|| !others_wait(), &mut last) else {
                return self.turn_with_more(BATCH - done, body, &mut ctx);
            };
            let flow = self.message(entry, body, &mut ctx);
            if let Some(after) = self.after(flow, last) {
                return after;
            }
        }
        After::Again
    }

    fn blocks(&self) {
        self.cell.head.set_blocked(true);
        self.cell.blocks();
    }

    fn type_name() -> &'static str {
        B::type_name()
    }

    fn tag(&self) -> u64 {
        self.cell.head.id.as_u64()
    }

    fn ended(&self, raised: Option<Raised>) {
        let graceful = raised.is_none_or(|raised| {
            let (reason, was_asked) = end::reason_of(&self.cell, raised);
            self.cell.close(reason);
            was_asked
        });
        let (reason, killed) = {
            let life = &self.cell.lock().life;
            (life.reason(), life.more.as_ref().is_some_and(|more| more.killed))
        };
        let mut body = self.body.borrow_mut();
        // One that has not started does not stop.
        if graceful
            && !killed
            && !turn::is_killed()
            && !self.cell.head.starts()
            && let Some(body) = &mut *body
        {
            let hook = || body.stopping(&reason, &mut Ctx::new(&self.cell));
            self.cell.head.contain("the `stopping` hook", hook);
        }
        if mem::needs_drop::<B>() {
            self.cell.head.contain("the destructor", || *body = None);
        }
        end::bury(&*self.cell, &reason);
    }
}

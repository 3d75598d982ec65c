//! How an actor runs: its turns on the scheduler.
//!
//! A turn handles what is in the system's lane, then one message; more of them as long as no other task of the worker is ready, up
//! to [`BATCH`]. So a flooded actor lets every other that is ready have a turn after each of its messages.
//!
//! # The end
//!
//! Whatever ends an actor, this order holds, and each step is made once:
//!
//! 1. its mailbox is closed: senders are told the reason;
//! 2. its `stopping` hook runs, unless it failed or was killed;
//! 3. its state is dropped;
//! 4. its names, groups, timers and watches are freed;
//! 5. its children are stopped;
//! 6. what was left in its mailbox becomes dead letters, and questions in it are answered with the reason;
//! 7. those who are linked to it, monitor it, wait for it, and its parent, are told;
//! 8. its id is unknown.

use std::cell::RefCell;
use std::collections::VecDeque;

use sinew_core::ExitReason;
use sinew_sched::Raised;
use sinew_sched::turn::{After, Turn, others_wait};
use sinew_sync::Arc;

use crate::actor::{Body, Flow};
use crate::cell::{AnyCell, Cell, Entry, Lane};
use crate::ctx::Ctx;
use crate::end;
use crate::event::Event;
use crate::failure;
use crate::mailbox::Taken;

/// Messages that an actor handles in one turn at most.
const BATCH: u32 = 64;

pub(crate) struct Run<B: Body> {
    cell: Arc<Cell<B::Msg>>,
    body: RefCell<Stage<B>>,
}

enum Stage<B> {
    New(B),
    Started(B),
    /// It must not start, or has ended.
    None,
}

impl<B: Body> Run<B> {
    pub(crate) fn new(cell: Arc<Cell<B::Msg>>, body: Option<B>) -> Run<B> {
        Run { cell, body: RefCell::new(body.map_or(Stage::None, Stage::New)) }
    }

    #[cold]
    fn start(&self, body: &mut B, ctx: &mut Ctx<'_, B::Msg>) -> Flow {
        let flow = body.started(ctx);
        end::started(&*self.cell);
        flow
    }

    #[inline(always)]
    fn message(&self, entry: Entry<B::Msg>, body: &mut B, ctx: &mut Ctx<'_, B::Msg>) -> Flow {
        self.cell.head.begin();
        match entry {
            Entry::Typed(message) => body.message(message, ctx),
            entry => self.opened(entry, body, ctx),
        }
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
            Lane::Event(Event::Stop { reason, drain: true }) => {
                self.cell.close(reason);
                Flow::Continue
            }
            Lane::Event(Event::Stop { reason, drain: false }) => Flow::Exit(reason),
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
}

impl<M: Send + 'static> Drop for Batch<'_, M> {
    #[inline]
    fn drop(&mut self) {
        if self.queue.capacity() > 0 {
            self.put_back();
        }
    }
}

impl<M: Send + 'static> Batch<'_, M> {
    /// The next message, if there are no events to see to first. Says whether it is known that there is nothing behind it.
    #[inline(always)]
    fn next(&mut self, last: &mut bool) -> Option<Entry<M>> {
        if self.cell.head.flags() != 0 {
            return None;
        }
        if !self.queue.is_empty() {
            return self.queue.pop_front();
        }
        self.cell.pop(|| !others_wait(), last)
    }

    /// What there is, if it is not a message that is next for sure.
    #[cold]
    fn attend(&mut self) -> Taken<Entry<M>, Lane<M>> {
        if let Some(event) = self.cell.attend() {
            return Taken::Event(event);
        }
        let taken = loop {
            if let Some(entry) = self.queue.pop_front() {
                break Taken::One(entry, false);
            }
            match self.cell.take(&mut self.queue, !others_wait()) {
                Taken::Batch => (),
                taken => break taken,
            }
        };
        if !matches!(taken, Taken::Event(_)) {
            self.cell.settle();
        }
        taken
    }

    #[cold]
    fn put_back(&mut self) {
        let mut queue = std::mem::take(&mut self.queue);
        let put_back = self.cell.lock().mail.put_back(&mut queue);
        if !put_back {
            let (head, reason) = (&self.cell.head, self.cell.reason());
            queue
                .into_iter()
                .for_each(|entry| head.node.dead_letters.unhandled(head, entry.into_letter(), &reason));
        }
    }
}

impl<B: Body> Turn for Run<B> {
    fn turn(&self) -> After {
        let mut stage = self.body.borrow_mut();
        let mut ctx = Ctx::new(&self.cell);
        self.cell.head.set_blocked(false);
        if let Stage::Started(_) = &*stage {
        } else if let Stage::New(body) = std::mem::replace(&mut *stage, Stage::None) {
            *stage = Stage::Started(body);
            let Stage::Started(body) = &mut *stage else { unreachable!("it was put there just now") };
            let flow = self.start(body, &mut ctx);
            if !matches!(flow, Flow::Continue) {
                return self.leave(flow);
            }
        }
        let Stage::Started(body) = &mut *stage else { return After::Ended };
        let mut batch = Batch { cell: &self.cell, queue: VecDeque::new() };
        for _ in 0..BATCH {
            let mut last = false;
            let flow = if let Some(entry) = batch.next(&mut last) {
                self.message(entry, body, &mut ctx)
            } else {
                match batch.attend() {
                    Taken::One(entry, is_last) => {
                        last = is_last;
                        self.message(entry, body, &mut ctx)
                    }
                    Taken::Event(event) => self.event(event, body, &mut ctx),
                    Taken::Nothing => return After::Idle,
                    Taken::End => return After::Ended,
                    Taken::Batch => continue,
                }
            };
            if !matches!(flow, Flow::Continue) {
                return self.leave(flow);
            }
            // Whoever has put something in behind the last message has woken us, and the task's state word knows; unless this
            // turn has blocked, which uses that up.
            if last && !self.cell.head.has_blocked() {
                return After::Idle;
            }
            if others_wait() {
                break;
            }
        }
        After::Again
    }

    fn blocks(&self) {
        self.cell.head.set_blocked(true);
        self.cell.blocks();
    }

    fn ended(&self, raised: Option<Raised>) {
        let failed = raised.map(failure::reason);
        let graceful = failed.is_none();
        if let Some(reason) = failed {
            self.cell.close(reason);
        }
        let reason = self.cell.reason();
        let stage = self.body.replace(Stage::None);
        let started = matches!(stage, Stage::Started(_));
        if let Stage::New(mut body) | Stage::Started(mut body) = stage {
            if graceful && started {
                let hook = || body.stopping(&reason, &mut Ctx::new(&self.cell));
                failure::contain("the `stopping` hook", &self.cell.head, hook);
            }
            failure::contain("the destructor", &self.cell.head, || drop(body));
        }
        end::bury(&*self.cell, reason);
    }
}

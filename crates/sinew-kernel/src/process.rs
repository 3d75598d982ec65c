//! Processes: actors that receive their messages where they like.
//!
//! A process is one turn that goes on until its body returns. So it holds a stack, and stays on one worker once it has waited;
//! in exchange it may wait for a message anywhere in its code, and for the one that it wants.

use std::any::type_name;
use std::cell::{Cell as StdCell, RefCell};
use std::collections::VecDeque;
use std::time::Duration;

use sinew_core::{ExitReason, Instant};
use sinew_fiber::Refused;
use sinew_fiber::raw::ready_to_await;
use sinew_sched::turn::{self, After, Turn, wait_until};
use sinew_sched::{Raised, WaitError, WaitKind};
use sinew_sync::Arc;

use crate::actor::Flow;
use crate::cell::{AnyCell, BURIED, Cell, Entry, Lane, OWES};
use crate::ctx::Ctx;
use crate::end;
use crate::event::{Event, Exit};
use crate::limits::Queued;
use crate::mailbox::Taken;
use crate::message::Message;
use crate::services::Handled;
use crate::start;

/// What a process has of itself: what every actor has, and its messages.
///
/// ```
/// use sinew_kernel::{Flow, Node, Process};
///
/// let node = Node::new();
/// let adder = node.actor().spawn_process(|own: &mut Process<u32>| {
///     let (one, other) = (own.recv().unwrap(), own.recv().unwrap());
///     assert_eq!(one.message().unwrap() + other.message().unwrap(), 42);
///     Flow::Stop
/// });
/// let adder = adder.unwrap();
/// adder.tell(40).unwrap();
/// adder.tell(2).unwrap();
/// adder.join().unwrap();
/// ```
pub struct Process<'a, M: Send + 'static> {
    ctx: Ctx<'a, M>,
    /// What has come and was not wanted, oldest first.
    kept: VecDeque<Item<M>>,
    /// It has received a message, and not come for the next.
    at_message: &'a StdCell<bool>,
}

/// What has come, and from where.
type Item<M> = (Received<M>, Origin);

enum Origin {
    Queue,
    /// A service, which is told when it has been handled.
    Service(Arc<dyn Handled>),
    System,
}

/// What a process receives.
#[derive(Debug)]
pub enum Received<M> {
    /// A message.
    Message(M),
    /// A message that came by id and is not of its type, or one of the system.
    Raw(Message),
    /// An actor has ended that it has to do with.
    Exit(Exit),
    /// It is asked to stop. If it is drained, this comes after the messages that are in its mailbox.
    Stop(ExitReason),
}

impl<M> Received<M> {
    /// The message, if it is one of its type.
    pub fn message(self) -> Option<M> {
        match self {
            Received::Message(message) => Some(message),
            _ => None,
        }
    }
}

impl<'a, M: Send + 'static> Process<'a, M> {
    /// What every actor has of itself.
    pub fn ctx(&mut self) -> &mut Ctx<'a, M> {
        &mut self.ctx
    }

    /// Waits for what comes next.
    ///
    /// # Errors
    ///
    /// Refused if the process was cancelled, or where nothing may wait.
    pub fn recv(&mut self) -> Result<Received<M>, Refused> {
        let received = self.recv_first(None, |_| true)?;
        Ok(received.expect("there is no deadline"))
    }

    /// Like [`recv`](Process::recv), but waits at most `timeout`.
    ///
    /// # Errors
    ///
    /// As for [`recv`](Process::recv), and [`WaitError::Timeout`].
    pub fn recv_timeout(&mut self, timeout: Duration) -> Result<Received<M>, WaitError> {
        self.recv_where_timeout(|_| true, timeout)
    }

    /// Waits for the first that is `wanted`. What comes before stays, in its order.
    ///
    /// # Errors
    ///
    /// As for [`recv`](Process::recv).
    pub fn recv_where(&mut self, wanted: impl FnMut(&Received<M>) -> bool) -> Result<Received<M>, Refused> {
        let received = self.recv_first(None, wanted)?;
        Ok(received.expect("there is no deadline"))
    }

    /// Like [`recv_where`](Process::recv_where), but waits at most `timeout`.
    ///
    /// # Errors
    ///
    /// As for [`recv`](Process::recv), and [`WaitError::Timeout`].
    pub fn recv_where_timeout(
        &mut self,
        wanted: impl FnMut(&Received<M>) -> bool,
        timeout: Duration,
    ) -> Result<Received<M>, WaitError> {
        self.recv_first(Some(sinew_sched::now() + timeout), wanted)?.ok_or(WaitError::Timeout)
    }

    fn recv_first(
        &mut self,
        deadline: Option<Instant>,
        mut wanted: impl FnMut(&Received<M>) -> bool,
    ) -> Result<Option<Received<M>>, Refused> {
        self.at_message.set(false); // it has done what it had received
        let mut found = match self.kept.iter().position(|(received, _)| wanted(received)) {
            Some(at) => self.kept.remove(at),
            None => None,
        };
        while found.is_none() {
            let Some(item) = self.next(deadline)? else { return Ok(None) };
            self.kept.push_back(item); // it is not lost if `wanted` unwinds
            found = self.kept.pop_back_if(|(received, _)| wanted(received));
        }
        Ok(found.map(|(received, origin)| {
            match origin {
                Origin::Queue => {
                    self.ctx.cell.settle();
                    self.ctx.cell.head.begin();
                    self.at_message.set(true);
                }
                Origin::Service(told) => self.ctx.cell.owe(told), // it is handled when the next is received
                Origin::System => (),
            }
            received
        }))
    }

    /// What comes next.
    fn next(&mut self, deadline: Option<Instant>) -> Result<Option<Item<M>>, Refused> {
        let cell = self.ctx.cell;
        ready_to_await()?; // one that always finds a message can be ended as well
        turn::charge(); // and does not keep its worker
        loop {
            let item = match cell.take(&mut VecDeque::new(), false) {
                Taken::One(entry, _) => {
                    cell.settle();
                    (entry.open().map_or_else(Received::Raw, Received::Message), Origin::Queue)
                }
                Taken::Event(Lane::Typed(notice)) => match notice.message(&**cell) {
                    Some(message) => (Received::Message(message), Origin::Service(notice)),
                    None => continue,
                },
                Taken::Event(Lane::Event(event)) => match event {
                    Event::Notice(notice) => match notice.message(&**cell) {
                        Some(message) => (Received::Raw(message), Origin::Service(notice)),
                        None => continue,
                    },
                    Event::Exit(exit) => (Received::Exit(exit), Origin::System),
                    // It is told when it has received what is in its mailbox.
                    Event::Stop { reason, drain: true } => {
                        cell.close(reason);
                        continue;
                    }
                    Event::Stop { reason, drain: false } => (Received::Stop(reason), Origin::System),
                    // One that was killed is ended where it waits.
                    Event::Kill | Event::Started(_) | Event::Tick(_) => continue,
                },
                // It is about to be told.
                Taken::End if cell.was_killed() => {
                    wait_until(|| false, None, WaitKind::Turn)?;
                    continue;
                }
                Taken::End if !self.kept.iter().any(|(kept, _)| matches!(kept, Received::Stop(_))) => {
                    (Received::Stop(cell.reason()), Origin::System)
                }
                // Or it does not want to stop, and waits for something else.
                Taken::Nothing | Taken::End => {
                    cell.settle();
                    if !wait_until(|| cell.has_mail(), deadline, WaitKind::Turn)? {
                        return Ok(None);
                    }
                    continue;
                }
                Taken::Batch => unreachable!("one at a time was asked for"),
            };
            return Ok(Some(item));
        }
    }
}

/// Messages that were kept were not handled: they go back, to become dead letters with the rest.
impl<M: Send + 'static> Drop for Process<'_, M> {
    fn drop(&mut self) {
        if self.kept.is_empty() {
            return;
        }
        let head = &self.ctx.cell.head;
        let kept = self.kept.drain(..).filter_map(|item| match item {
            (Received::Message(message), Origin::Queue) => Some(Entry::Typed(message)),
            (Received::Raw(message), Origin::Queue) => Some(Entry::Raw(Box::new(Queued::uncounted(message)))),
            (received, _) => {
                head.discard(received);
                None
            }
        });
        self.ctx.cell.put_back(kept.collect());
    }
}

impl<M: Send + 'static> Cell<M> {
    /// True if a process that waits for messages has been told that there is one, or somebody waits for it to come to the next.
    fn has_mail(&self) -> bool {
        let is_asleep = self.lock().mail.is_asleep();
        !is_asleep || self.head.flags() & OWES != 0
    }
}

/// A process as it runs.
pub(crate) struct ProcessRun<M, F> {
    cell: Arc<Cell<M>>,
    body: RefCell<Option<F>>,
    flow: StdCell<Flow>,
    at_message: StdCell<bool>,
}

impl<M, F> ProcessRun<M, F> {
    pub(crate) fn new(cell: Arc<Cell<M>>, body: Option<F>) -> ProcessRun<M, F> {
        let (flow, at_message) = (StdCell::new(Flow::Continue), StdCell::new(false));
        ProcessRun { cell, body: RefCell::new(body), flow, at_message }
    }
}

impl<M, F> Turn for ProcessRun<M, F>
where
    M: Send + 'static,
    F: FnOnce(&mut Process<'_, M>) -> Flow + Send + 'static,
{
    fn turn(&self) -> After {
        let buried = self.cell.head.flags() & BURIED != 0; // it was given up before it ran
        if let Some(body) = self.body.take().filter(|_| !buried) {
            start::started(&*self.cell);
            let at_message = &self.at_message;
            let mut process = Process { ctx: Ctx::new(&self.cell), kept: VecDeque::new(), at_message };
            self.flow.set(body(&mut process));
        }
        After::Ended
    }

    fn blocks(&self) {
        self.cell.lets_in();
    }

    fn type_name() -> &'static str {
        type_name::<F>()
    }

    fn tag(&self) -> u64 {
        self.cell.head.id.as_u64()
    }

    fn ended(&self, raised: Option<Raised>) {
        let head = &self.cell.head;
        if raised.is_some() && self.at_message.get() {
            head.fail();
        }
        let reason = match (raised, self.flow.take()) {
            (Some(raised), _) => end::reason_of(&self.cell, raised).0,
            (None, Flow::Exit(reason)) => reason,
            (None, _) => ExitReason::Normal,
        };
        self.cell.close(reason.clone());
        let body = self.body.take();
        self.cell.head.contain("the destructor", || drop(body));
        end::bury(&*self.cell, &reason);
    }
}

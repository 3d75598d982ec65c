//! Actors that are futures: the form in which crates above run code that is not native, such as
//! WASM guests.
//!
//! The whole life of such an actor is one future, which receives its messages from an [`Inbox`]
//! wherever it likes. It is polled in the actor's turns, so it owns no stack, and its next turn may
//! be on any worker.
//!
//! # What wakes it
//!
//! While the future waits in [`Inbox::recv`], the mailbox is *asleep*: the next sender wakes the
//! actor. While it waits for anything else, the mailbox stays *awake*, so messages pile up without
//! waking it; it looks for them itself when it receives again. A turn in which the future was
//! pending says which of the two it is (`is_receiving`), and [`PolledRun::turn`] sets the mailbox
//! accordingly before the task parks. A wake-up between the two is kept by the task's state word.
//!
//! # How it ends
//!
//! The future returns, or it is dropped: when the actor is killed or cancelled, and when it is asked
//! to stop and waits in `recv`. A request to stop that arrives while it waits for something else is
//! seen at its next `recv`, or ends in a cancel, as with every actor.

use std::any::type_name;
use std::cell::{Cell as StdCell, RefCell};
use std::collections::VecDeque;
use std::pin::Pin;
use std::task::Poll;

use sinew_core::{ActorId, ExitReason};
use sinew_fiber::raw::polling;
use sinew_sched::Raised;
use sinew_sched::turn::{self, After, Turn, others_wait};
use sinew_sync::Arc;
use sinew_sync::atomic::{AtomicBool, AtomicU8, Ordering};

use crate::actor::Flow;
use crate::cell::{AnyCell, BURIED, Cell, Lane};
use crate::ctx::Ctx;
use crate::end;
use crate::event::Event;
use crate::mailbox::Taken;
use crate::message::Message;
use crate::start;

/// Messages that such an actor receives in one turn at most.
const BATCH: u8 = 64;

/// The messages of an actor that is a future, and what every actor has of itself.
///
/// Only the actor's own future receives from it.
#[derive(Clone)]
pub struct Inbox(Arc<Shared>);

struct Shared {
    cell: Arc<Cell<Message>>,
    /// Messages received in this turn.
    received: AtomicU8,
    /// The future waits for a message, and for nothing else.
    is_receiving: AtomicBool,
    /// The future gave way to other tasks that are ready.
    gives_way: AtomicBool,
    /// The actor was asked to stop, and waits for a message: its future is not polled again.
    ends: AtomicBool,
    /// A message was received, and the next was not asked for.
    is_at_message: AtomicBool,
}

impl Inbox {
    fn new(cell: Arc<Cell<Message>>) -> Inbox {
        let no = || AtomicBool::new(false);
        Inbox(Arc::new(Shared {
            cell,
            received: AtomicU8::new(0),
            is_receiving: no(),
            gives_way: no(),
            ends: no(),
            is_at_message: no(),
        }))
    }

    /// Returns the actor's id.
    pub fn id(&self) -> ActorId {
        self.0.cell.head.id
    }

    /// Returns what every actor has of itself.
    pub fn ctx(&self) -> Ctx<'_, Message> {
        Ctx::new(&self.0.cell)
    }

    /// Says that the actor has started. Its supervisor waits for that.
    pub fn started(&self) {
        start::started(&*self.0.cell);
    }

    /// Waits for the next message. Messages of the system, such as exits and timers, arrive as bytes.
    ///
    /// It does not return when the actor is to stop: then the future is dropped here. It is woken by the
    /// waker of the actor, whatever the context that it is polled with.
    pub fn recv(&self) -> impl Future<Output = Message> + Send + '_ {
        std::future::poll_fn(|_| self.poll_recv())
    }

    /// Takes the next message, or has the actor woken for it.
    #[inline]
    pub fn poll_recv(&self) -> Poll<Message> {
        let shared = &*self.0;
        shared.is_at_message.store(false, Ordering::Relaxed);
        let received = shared.received.load(Ordering::Relaxed);
        if received > 0 && (received == BATCH || others_wait()) {
            shared.gives_way.store(true, Ordering::Relaxed);
            return Poll::Pending;
        }
        shared.received.store(received + 1, Ordering::Relaxed);
        let message = match shared.cell.next(|| false, &mut false) {
            Some(entry) => entry.open().unwrap_or_else(|message| message),
            None => match self.take() {
                Some(message) => return Poll::Ready(message),
                None => return Poll::Pending,
            },
        };
        shared.begin();
        Poll::Ready(message)
    }

    /// Returns true if a `recv` has found that the actor is to end: whatever polls it must stay pending.
    pub fn ends(&self) -> bool {
        self.0.ends.load(Ordering::Relaxed)
    }

    /// Takes what there is when more than a message may have come. `None` if there is nothing.
    #[inline(never)]
    fn take(&self) -> Option<Message> {
        let shared = &*self.0;
        let cell = &shared.cell;
        loop {
            let event = match cell.take(&mut VecDeque::new(), false) {
                Taken::One(entry, _) => {
                    cell.settle();
                    shared.begin();
                    return Some(entry.open().unwrap_or_else(|message| message));
                }
                Taken::Event(Lane::Typed(notice)) => match notice.message(&**cell) {
                    Some(message) => {
                        cell.owe(notice);
                        return Some(message);
                    }
                    None => continue,
                },
                Taken::Event(Lane::Event(event)) => event,
                Taken::Nothing => {
                    cell.settle();
                    shared.is_receiving.store(true, Ordering::Relaxed);
                    turn::announce_idle();
                    return None;
                }
                Taken::End => {
                    shared.ends.store(true, Ordering::Relaxed);
                    return None;
                }
                Taken::Batch => unreachable!("one at a time was asked for"),
            };
            match event {
                Event::Notice(notice) => {
                    if let Some(message) = notice.message(&**cell) {
                        cell.owe(notice);
                        return Some(message);
                    }
                }
                Event::Exit(exit) => return Some(exit.to_message(cell.head.id)),
                Event::Stop { reason, drain } => {
                    cell.close(reason);
                    if !drain {
                        shared.ends.store(true, Ordering::Relaxed);
                        return None;
                    }
                }
                Event::Kill => {
                    shared.ends.store(true, Ordering::Relaxed);
                    return None;
                }
                Event::Started(_) | Event::Tick(_) => (),
            }
        }
    }
}

impl Shared {
    fn begin(&self) {
        self.cell.head.begin();
        self.is_at_message.store(true, Ordering::Relaxed);
    }
}

/// Such an actor as it runs.
pub(crate) struct PolledRun<F> {
    inbox: Inbox,
    future: RefCell<Option<Pin<Box<F>>>>,
    flow: StdCell<Flow>,
}

impl<F> PolledRun<F> {
    /// The actor of `cell`, with the future that `make` returns; none if its spawn was refused.
    pub(crate) fn new(
        cell: Arc<Cell<Message>>,
        refused: bool,
        make: impl FnOnce(Inbox) -> F,
    ) -> PolledRun<F> {
        let inbox = Inbox::new(cell);
        let future = (!refused).then(|| Box::pin(make(inbox.clone())));
        PolledRun { inbox, future: RefCell::new(future), flow: StdCell::new(Flow::Continue) }
    }
}

impl<F: Future<Output = Flow> + Send + 'static> Turn for PolledRun<F> {
    fn turn(&self) -> After {
        let shared = &*self.inbox.0;
        if shared.cell.head.flags() & BURIED != 0 {
            return After::Ended; // it was given up before it ran
        }
        let mut future = self.future.borrow_mut();
        let Some(future) = &mut *future else { return After::Ended };
        shared.received.store(0, Ordering::Relaxed);
        shared.is_receiving.store(false, Ordering::Relaxed);
        shared.gives_way.store(false, Ordering::Relaxed);
        if let Poll::Ready(flow) = turn::poll(future.as_mut()) {
            self.flow.set(flow);
            return After::Ended;
        }
        if shared.ends.load(Ordering::Relaxed) {
            return After::Ended;
        }
        if shared.gives_way.load(Ordering::Relaxed) {
            return After::Again;
        }
        if !shared.is_receiving.load(Ordering::Relaxed) {
            shared.cell.blocks();
        }
        After::Pending
    }

    fn type_name() -> &'static str {
        type_name::<F>()
    }

    fn tag(&self) -> u64 {
        self.inbox.id().as_u64()
    }

    fn ended(&self, raised: Option<Raised>) {
        let shared = &*self.inbox.0;
        let cell = &shared.cell;
        let has_raised = raised.is_some();
        let reason = match (raised, self.flow.take()) {
            (Some(raised), _) => end::reason_of(cell, raised).0,
            (None, Flow::Exit(reason)) => reason,
            (None, _) => ExitReason::Normal,
        };
        if shared.is_at_message.load(Ordering::Relaxed)
            && (has_raised || matches!(reason, ExitReason::Error(_) | ExitReason::Limit(_)))
        {
            cell.head.fail();
        }
        cell.close(reason.clone());
        let future = self.future.take();
        cell.head.contain("the destructor", || polling(|| drop(future))); // as it was polled
        end::bury(&**cell, &reason);
    }
}

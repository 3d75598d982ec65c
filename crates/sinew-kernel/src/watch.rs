//! Watches of descriptors: an actor is told when one is ready.
//!
//! Each watch has a future of its own, polled by a task that needs no stack, and goes round:
//!
//! ```text
//! waiting ──(the descriptor is ready)──> ready ──(the actor comes to the notice)──> handling ──(it has handled it)──> waiting
//! ```
//!
//! It is level-triggered: waiting is over at once if the descriptor is still ready. And an actor is not told again before it
//! has handled the last [notice](crate::notice), so a descriptor that is ready all the time cannot fill its lane.
//!
//! A watch that is taken back is over at once: the wait for the descriptor is undone before [`Ctx::unwatch_fd`] returns, so
//! that the descriptor may be closed then, and its number used by others. All of it is under the watch's lock; the actor's is
//! not taken under that.

use std::io;
use std::os::fd::{AsRawFd, RawFd};
use std::pin::Pin;
use std::task::{Context, Poll, Waker};

use sinew_chan::chan::Async;
use sinew_core::payload::{FdEvent, SystemPayload};
use sinew_core::{ActorId, Kind};
use sinew_io::fd::{self, DescriptorReady, Interest};
use sinew_sync::{Arc, Mutex};

use crate::cell::Phase;
use crate::ctx::Ctx;
use crate::event::Event;
use crate::message::{Message, Payload};
use crate::notice::Notice;
use crate::services::{Handled, Owner, Watched};
use crate::shared::Inner;

/// Why a descriptor is not watched.
#[derive(Debug, thiserror::Error)]
pub enum WatchError {
    /// There is no such descriptor.
    #[error("there is no descriptor {0}: watch one that is open")]
    NoDescriptor(RawFd),
    /// The system does not say whether it is ready.
    #[error("descriptor {0} cannot be watched: {1}")]
    System(RawFd, #[source] io::Error),
    /// The actor has ended: it was killed and given up, and runs on.
    #[error("the actor has ended, so it cannot watch descriptors")]
    Ended,
}

/// A descriptor that is watched for an actor.
pub(crate) struct Watch {
    node: &'static Inner,
    owner: ActorId,
    fd: RawFd,
    interest: Interest,
    state: Mutex<State>,
}

struct State {
    step: Step,
    /// Wakes the task that polls.
    waker: Option<Waker>,
}

enum Step {
    Waiting(Pin<Box<Async<DescriptorReady>>>),
    /// For these, of `poll`'s bits; and whether it is over then.
    Ready(u32, bool),
    Handling,
    /// It is taken back, or cannot go on.
    Over,
}

fn wait(fd: RawFd, interest: Interest) -> Step {
    Step::Waiting(Box::pin(fd::wait_async(&fd, interest)))
}

impl Watch {
    /// Ready when the watch is over.
    fn poll(self: &Arc<Self>, context: &Context<'_>) -> Poll<()> {
        let mut state = self.state.lock();
        let ready = match &mut state.step {
            Step::Waiting(wait) => wait.as_mut().poll(&mut Context::from_waker(context.waker())),
            Step::Ready(..) | Step::Handling => Poll::Pending,
            Step::Over => return Poll::Ready(()),
        };
        state.waker = Some(context.waker().clone());
        let Poll::Ready(ready) = ready else { return Poll::Pending };
        let (bits, last) = match ready {
            Ok(ready) => (ready.bits(), false),
            Err(error) if is_closed(&error) => (libc::POLLNVAL as u32, true),
            Err(_) => (libc::POLLERR as u32, true),
        };
        state.step = Step::Ready(bits, last);
        drop(state);
        if let Some(cell) = self.node.table.get(self.owner) {
            let _ = cell.push_event(Event::Notice(self.clone())); // it may have ended
        }
        if last { Poll::Ready(()) } else { Poll::Pending }
    }
}

impl Watched for Watch {
    fn end(&self) {
        let mut state = self.state.lock();
        let step = std::mem::replace(&mut state.step, Step::Over);
        let waker = state.waker.take();
        drop(state);
        drop(step);
        waker.into_iter().for_each(Waker::wake);
    }
}

impl Notice for Watch {
    fn message(&self, owner: &dyn Owner) -> Option<Message> {
        let mut state = self.state.lock();
        let Step::Ready(bits, last) = state.step else { return None };
        state.step = if last { Step::Over } else { Step::Handling };
        drop(state);
        if last {
            drop(owner.services(|owned| owned.watches.remove(&self.fd)));
        }
        let event = FdEvent { fd: self.fd, events: bits };
        Some(Message::new(self.owner, Kind::FD_EVENT, Payload::copy(&event.encode())))
    }
}

impl Handled for Watch {
    fn handled(self: Arc<Self>) {
        let mut state = self.state.lock();
        if let Step::Handling = state.step {
            state.step = wait(self.fd, self.interest);
            let waker = state.waker.take();
            drop(state);
            waker.into_iter().for_each(Waker::wake);
        }
    }
}

/// There is no such descriptor, or not any more.
fn is_closed(error: &io::Error) -> bool {
    error.raw_os_error() == Some(libc::EBADF)
}

/// The task of a watch.
struct Watching(Arc<Watch>);

impl Future for Watching {
    type Output = ();

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        self.0.poll(context)
    }
}

/// # Descriptors
///
/// An actor may wait for a descriptor where it stands ([`fd::wait`]), or watch any number of them and be told of each in a message.
/// Watches are gone when the actor ends.
///
/// ```
/// use std::io::{PipeReader, Read, Write, pipe};
///
/// use sinew_kernel::{Actor, Ctx, Flow, Interest, Kind, Message, Node};
///
/// struct Reader(PipeReader);
///
/// impl Actor for Reader {
///     type Msg = ();
///
///     fn started(&mut self, ctx: &mut Ctx<()>) -> Flow {
///         ctx.watch_fd(&self.0, Interest::READ).unwrap();
///         Flow::Continue
///     }
///
///     fn handle(&mut self, (): (), _: &mut Ctx<()>) -> Flow {
///         Flow::Continue
///     }
///
///     fn raw(&mut self, message: Message, _: &mut Ctx<()>) -> Flow {
///         assert_eq!(message.kind, Kind::FD_EVENT);
///         let mut bytes = [0; 64];
///         match self.0.read(&mut bytes).unwrap() {
///             0 => Flow::Stop, // the end
///             _ => Flow::Continue,
///         }
///     }
/// }
///
/// let node = Node::new();
/// let (reader, mut writer) = pipe().unwrap();
/// let reader = node.spawn(Reader(reader)).unwrap();
/// writer.write_all(b"hello").unwrap();
/// drop(writer);
/// reader.join().unwrap();
/// ```
impl<M: Send + 'static> Ctx<'_, M> {
    /// Has this actor told by a [`Kind::FD_EVENT`] message whenever `fd` is ready for `interest`: the message carries the
    /// descriptor's number, and what it is ready for as `poll`'s bits, which include hang-ups and errors. It is told again
    /// for as long as the descriptor is ready, but not before it has handled the last message. A file is always ready.
    ///
    /// An actor has one watch of a descriptor: another one of the same takes its place. Take a watch back before
    /// the descriptor is closed, or close it by [`fd::close`]: then the last message says `POLLNVAL`, and the watch is over.
    ///
    /// # Errors
    ///
    /// If there is no such descriptor.
    pub fn watch_fd(&self, fd: &impl AsRawFd, interest: Interest) -> Result<(), WatchError> {
        let (fd, head) = (fd.as_raw_fd(), &self.cell.head);
        match fd::look(&fd, interest) {
            Err(error) if is_closed(&error) => return Err(WatchError::NoDescriptor(fd)),
            Err(error) => return Err(WatchError::System(fd, error)),
            Ok(_) => (),
        }
        let state = Mutex::new(State { step: wait(fd, interest), waker: None });
        let watch = Arc::new(Watch { node: head.node, owner: head.id, fd, interest, state });
        let replaced = {
            let mut state = self.cell.lock();
            if state.life.phase < Phase::Leaving {
                Ok(state.life.more().services.watches.insert(fd, watch.clone()))
            } else {
                Err(WatchError::Ended)
            }
        };
        replaced?.into_iter().for_each(|replaced| replaced.end());
        head.node.handle.spawn_future(Watching(watch)).detach();
        Ok(())
    }

    /// Takes back this actor's watch of `fd`: it is not told of it any more, even if it is ready. False if it has none.
    pub fn unwatch_fd(&self, fd: &impl AsRawFd) -> bool {
        let fd = fd.as_raw_fd();
        let watch = self.cell.lock().life.more.as_mut().and_then(|more| more.services.watches.remove(&fd));
        watch.map(|watch| watch.end()).is_some()
    }
}

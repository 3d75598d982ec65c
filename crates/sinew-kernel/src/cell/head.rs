//! What is the same of all actors, whatever the type of their messages: who it is, and what is
//! known of it without its lock.

use sinew_core::ActorId;
use sinew_fiber::raw::catch;
use sinew_sched::turn::Waker;
use sinew_sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};

use crate::failure::discard_raised;
use crate::shared::Inner;

/// What is the same for all types of messages.
#[repr(C)]
pub(crate) struct Head {
    pub(super) waker: Waker,
    /// There is something in the lane, or somebody waits for room. Set and cleared under the lock.
    pub(super) flags: AtomicU8,
    /// The turn that runs has blocked; only the actor writes it.
    pub(super) blocked: AtomicBool,
    /// It failed in the middle of a message.
    pub(super) failed: AtomicBool,
    /// It has not run; only the actor writes it.
    pub(super) begins: AtomicBool,
    pub(crate) id: ActorId,
    pub(crate) node: &'static Inner,
    /// Messages that it has begun to handle; only the actor writes it, for each. So it is on
    /// another cache line than what senders write.
    pub(super) begun: AtomicU64,
}

/// There is something in the system's lane.
pub(crate) const LANE: u8 = 1;
/// Senders wait for room.
pub(crate) const WAITING: u8 = 2;
/// Services are to be told that what they told was handled.
pub(crate) const OWES: u8 = 4;
/// The actor's end was published.
pub(crate) const BURIED: u8 = 8;

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

    /// True the first time that the actor asks: it has not run before.
    #[inline]
    pub(crate) fn starts(&self) -> bool {
        let begins = self.begins.load(Ordering::Relaxed);
        if begins {
            self.begins.store(false, Ordering::Relaxed);
        }
        begins
    }

    /// What it has begun to handle failed.
    #[cold]
    pub(crate) fn fail(&self) {
        self.failed.store(true, Ordering::Relaxed);
    }

    /// It failed in the middle of a message, and the books do not know.
    pub(crate) fn has_failed(&self) -> bool {
        self.failed.load(Ordering::Relaxed)
    }

    /// Says once that it failed in the middle of a message: for the books.
    pub(crate) fn take_failed(&self) -> bool {
        self.has_failed() && self.failed.swap(false, Ordering::Relaxed)
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

    /// Runs code of the actor's. A failure that escapes the code is reported, and goes no further.
    pub(crate) fn contain(&self, what: &str, code: impl FnOnce()) {
        contain(self.node, self.id, what, code);
    }

    /// Drops a message. A destructor that fails hurts nobody else.
    pub(crate) fn discard<T>(&self, message: T) {
        discard(self.node, self.id, message);
    }

    /// Drops messages by a task of their own, where their destructors would hold up others.
    #[cold]
    pub(crate) fn discard_elsewhere<T: Send + 'static>(&self, messages: Vec<T>) {
        let (node, id) = (self.node, self.id);
        let all = move || messages.into_iter().for_each(|message| discard(node, id, message));
        node.handle.spawn(all).detach();
    }

    pub(crate) fn task(&self) -> sinew_sched::TaskId {
        self.waker.task()
    }
}

#[cold]
fn discard<T>(node: &Inner, actor: ActorId, message: T) {
    contain(node, actor, "the destructor of a message", || drop(message));
}

fn contain(node: &Inner, actor: ActorId, what: &str, code: impl FnOnce()) {
    let Err(raised) = catch(code) else { return };
    if !raised.is_cancelled() {
        let text = catch(|| format!("{what} of actor {actor} failed: {raised:#}"));
        text.map_or_else(discard_raised, |text| node.complain(&text));
    }
    discard_raised(raised);
}

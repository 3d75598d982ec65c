//! Things that happen at a time: one queue per node, and one task that waits for the first of them.

use std::collections::BTreeMap;

use sinew_core::{ActorId, Instant};
use sinew_sched::turn::{After, Turn, Waker, wait_until};
use sinew_sched::{JoinHandle, Raised, WaitKind};
use sinew_sync::Mutex;
use sinew_sync::atomic::{AtomicBool, Ordering};

use crate::node::Inner;
use crate::stop;

/// What happens.
pub(crate) enum Fire {
    /// An actor was asked to stop, and may not have done so.
    Step(ActorId, stop::Step),
    /// An actor has asked to be told.
    Tick(ActorId, u64),
}

pub(crate) struct Timers {
    queue: Mutex<Queue>,
    /// The first of them has changed.
    changed: AtomicBool,
}

#[derive(Default)]
struct Queue {
    fires: BTreeMap<(Instant, u64), Fire>,
    next: u64,
    waker: Option<Waker>,
}

impl Timers {
    pub(crate) fn new() -> Timers {
        Timers { queue: Mutex::new(Queue::default()), changed: AtomicBool::new(false) }
    }

    /// Starts the task that waits.
    pub(crate) fn start(node: &'static Inner) -> JoinHandle<()> {
        node.handle.spawn_turn(|waker| {
            node.timers.queue.lock().waker = Some(waker);
            Clock(node)
        })
    }

    /// Has something happen at a time.
    pub(crate) fn at(&self, at: Instant, fire: Fire) -> (Instant, u64) {
        let mut queue = self.queue.lock();
        let key = (at, queue.next);
        queue.next += 1;
        let first = queue.fires.first_key_value().is_none_or(|(first, _)| key < *first);
        queue.fires.insert(key, fire);
        let waker = queue.waker.filter(|_| first);
        drop(queue);
        if let Some(waker) = waker {
            self.changed.store(true, Ordering::Release);
            waker.wake();
        }
        key
    }

    /// Takes back what was to happen. None if it has.
    pub(crate) fn cancel(&self, key: (Instant, u64)) -> Option<Fire> {
        self.queue.lock().fires.remove(&key)
    }

    pub(crate) fn len(&self) -> usize {
        self.queue.lock().fires.len()
    }

    fn first(&self) -> Option<Instant> {
        self.queue.lock().fires.first_key_value().map(|((at, _), _)| *at)
    }

    fn pop(&self, now: Instant) -> Option<(Instant, Fire)> {
        let mut queue = self.queue.lock();
        let first = queue.fires.first_entry().filter(|first| first.key().0 <= now)?;
        let ((at, _), fire) = first.remove_entry();
        Some((at, fire))
    }
}

/// The task that waits.
struct Clock(&'static Inner);

impl Turn for Clock {
    fn turn(&self) -> After {
        let timers = &self.0.timers;
        loop {
            while let Some((at, fire)) = timers.pop(self.0.handle.now()) {
                self.0.fire(at, fire);
            }
            let changed = || timers.changed.load(Ordering::Acquire);
            let first = timers.first();
            let kind = if first.is_some() { WaitKind::Sleep } else { WaitKind::Mailbox };
            if wait_until(changed, first, kind).is_err() {
                return After::Ended; // the runtime ends
            }
            timers.changed.store(false, Ordering::Relaxed);
        }
    }

    fn ended(&self, _: Option<Raised>) {}
}

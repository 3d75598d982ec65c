//! Telling whoever has subscribed, without waiting for anybody.

use sinew_sched::chan::{self, Receiver, Sender, Unsent};
use sinew_sync::Mutex;
use sinew_sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// Items that a subscriber may be behind.
const CAPACITY: usize = 1024;

/// Subscribers of items of one kind. One that is behind by more than it can hold loses the newest, which is counted.
pub(crate) struct Bus<T> {
    any: AtomicBool,
    lost: AtomicU64,
    subscribers: Mutex<Vec<Sender<T>>>,
}

impl<T> Default for Bus<T> {
    fn default() -> Bus<T> {
        Bus { any: AtomicBool::new(false), lost: AtomicU64::new(0), subscribers: Mutex::new(Vec::new()) }
    }
}

impl<T: Clone> Bus<T> {
    pub(crate) fn subscribe(&self) -> Receiver<T> {
        let (sender, receiver) = chan::bounded(CAPACITY);
        let mut subscribers = self.subscribers.lock();
        subscribers.push(sender);
        self.any.store(true, Ordering::Relaxed);
        receiver
    }

    /// Items that subscribers have lost.
    pub(crate) fn lost(&self) -> u64 {
        self.lost.load(Ordering::Relaxed)
    }

    /// Tells what `make` makes, if there is anybody.
    #[inline]
    pub(crate) fn tell(&self, make: impl FnOnce() -> T) {
        if self.any.load(Ordering::Relaxed) {
            self.tell_all(make());
        }
    }

    #[cold]
    fn tell_all(&self, item: T) {
        let mut subscribers = self.subscribers.lock();
        subscribers.retain(|subscriber| match subscriber.try_send(item.clone()) {
            Ok(()) => true,
            Err(error) => {
                let full = matches!(error.why, Unsent::Full);
                if full {
                    self.lost.fetch_add(1, Ordering::Relaxed);
                }
                full
            }
        });
        self.any.store(!subscribers.is_empty(), Ordering::Relaxed);
    }
}

//! Telling whoever has subscribed, without waiting for anybody.
//!
//! # Foreign code
//!
//! An item may wake a subscriber that waits on another executor, and its waker is anybody's code: it may subscribe, look a name up,
//! or send something that is told. So it runs under no lock of the node. An item is told in two steps:
//!
//! 1. [`Bus::put`] puts it into the channels of all subscribers, under the lock of the bus and whatever lock decides its place among
//!    others. So subscribers get items in the order of that lock, and one that subscribes under it gets just those that come after.
//!    The receivers that wait are given the item, and not woken.
//! 2. [`Told`] has whom to wake, and does so when it goes, which is when the locks are free. Items that others put meanwhile are
//!    behind this one, however late its receiver is woken: so no order is lost.
//!
//! A subscriber that has gone, or has ended its channel, is taken out of the bus by whoever finds that, and is dropped in the second
//! step too: the last sender of a channel wakes whoever still waits there, and drops the error that it may have been ended with.
//!
//! [`Bus::tell`] does both steps, for who holds no lock.
//!
//! Models: `bus_wakes_whom_it_tells`, `bus_tells_in_the_order_of_the_lock`, `bus_wakes_under_no_lock`, `bus_lets_go_under_no_lock`,
//! `name_is_told_once`.

use std::mem;

use sinew_chan::chan::{self, Receiver, Sender, Unsent, Wakeups};
use sinew_fiber::raw::catch;
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

impl<T: Clone + Send + 'static> Bus<T> {
    pub(crate) fn subscribe(&self) -> Receiver<T> {
        let (sender, receiver) = chan::bounded(CAPACITY);
        let mut subscribers = self.subscribers.lock();
        subscribers.push(sender);
        self.any.store(true, Ordering::Relaxed);
        receiver
    }

    /// Lets go of all subscribers: each gets what is in its channel, and then its end.
    pub(crate) fn close(&self) {
        let subscribers = mem::take(&mut *self.subscribers.lock());
        let gone = subscribers.into_iter().map(|subscriber| Box::new(subscriber) as Box<dyn Send>).collect();
        drop(Told { wakeups: Wakeups::default(), gone });
    }

    /// Items that subscribers have lost.
    pub(crate) fn lost(&self) -> u64 {
        self.lost.load(Ordering::Relaxed)
    }

    /// Tells what `make` makes, if there is anybody. Not under a lock.
    #[inline]
    pub(crate) fn tell(&self, make: impl FnOnce() -> T) {
        if self.any.load(Ordering::Relaxed) {
            self.put_all(make(), &mut Told::default());
        }
    }

    /// Tells what `make` makes, if there is anybody, for who holds a lock: `told` was made before that was taken, and so goes after
    /// it.
    pub(crate) fn put(&self, make: impl FnOnce() -> T, told: &mut Told) {
        if self.any.load(Ordering::Relaxed) {
            self.put_all(make(), told);
        }
    }

    #[cold]
    fn put_all(&self, item: T, told: &mut Told) {
        let mut subscribers = self.subscribers.lock();
        let gone = subscribers.extract_if(.., |subscriber| {
            match subscriber.try_send_quietly(item.clone(), &mut told.wakeups) {
                Ok(()) => false,
                Err(error) => {
                    let full = matches!(error.why, Unsent::Full);
                    if full {
                        self.lost.fetch_add(1, Ordering::Relaxed);
                    }
                    !full
                }
            }
        });
        told.gone.extend(gone.map(|subscriber| Box::new(subscriber) as Box<dyn Send>));
        self.any.store(!subscribers.is_empty(), Ordering::Relaxed);
    }
}

/// What is left to do when something was told, and is done when this goes: it calls foreign code, which no lock is held for.
#[derive(Default)]
#[must_use = "it goes when the locks are free"]
pub(crate) struct Told {
    wakeups: Wakeups,
    /// Subscribers that are none any more.
    gone: Vec<Box<dyn Send>>,
}

impl Drop for Told {
    fn drop(&mut self) {
        drop(mem::take(&mut self.wakeups));
        for subscriber in mem::take(&mut self.gone) {
            // Whoever tells has nothing to do with what a destructor of a subscriber's raises, nor with that of what was raised.
            mem::forget(catch(|| drop(subscriber)).err());
        }
    }
}

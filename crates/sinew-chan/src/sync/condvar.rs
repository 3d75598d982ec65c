//! Waiting until something that a mutex guards has changed.
//!
//! A waiter puts its node into the queue, which has a lock of its own, before it gives the mutex back. So whoever
//! changes what the mutex guards, having taken it later, finds the node.
//!
//! `waiting` is how many nodes are in the queue: written under its lock, and read without by a notifier that hopes to
//! have nothing to do. That is no race for whoever had the mutex: it took it after the waiter gave it back, and sees what
//! the waiter had written.
//!
//! A notification for one ends with a waiter that has the mutex again. A waiter that was told and then cannot take it,
//! because it is cancelled or killed, notifies the next ([`Notified`]). One that gives up at the same moment finds under
//! the lock of the queue that it was told, and goes on as one that was. A notification for all has no such duty: those
//! who waited were all told.
//!
//! A node has the number of the last notification for all that it was too late for, so that those who come while one is
//! under way are not told by it.
//!
//! Models: `condvar_notification_is_not_missed`, `condvar_notify_against_withdrawal`,
//! `condvar_notification_is_handed_on`, `condvar_notify_all`, `condvar_withdrawal_is_counted`.

use std::fmt;
use std::mem;
use std::time::Duration;

use sinew_core::Instant;
use sinew_fiber::Refused;
use sinew_sched::raw::{Awaited, Node, Queue, Waiter, Waiting, What, tell_each};
use sinew_sched::{WaitKind, now};
use sinew_sync::atomic::{AtomicUsize, Ordering};
use sinew_sync::{Mutex as Inner, const_unless_model};

use super::mutex::MutexGuard;

/// What a node is told: that it is the one.
const ONE: u8 = 1;
/// What a node is told: that all are told.
const ALL: u8 = 2;

/// Lets tasks and threads wait until what a [`Mutex`](super::Mutex) guards has changed.
///
/// ```
/// use std::sync::Arc;
///
/// use sinew_chan::sync::{Condvar, Mutex};
/// use sinew_sched::{Runtime, spawn};
///
/// let runtime = Runtime::new();
/// runtime.run(|| {
///     let pair = Arc::new((Mutex::new(false), Condvar::new()));
///     let other = pair.clone();
///     let waiter = spawn(move || {
///         let (ready, changed) = &*other;
///         drop(changed.wait_while(ready.lock().unwrap(), |ready| !*ready).unwrap());
///     });
///     let (ready, changed) = &*pair;
///     *ready.lock().unwrap() = true;
///     changed.notify_one();
///     waiter.join().unwrap();
/// }).unwrap();
/// ```
///
/// # Errors of a wait
///
/// A wait that fails, because its task is cancelled or must not block, has given the mutex back and does not take it
/// again: the guard is gone. A notification that has reached it is handed on to the next who waits.
pub struct Condvar {
    waiting: AtomicUsize,
    queue: Inner<Nodes>,
}

struct Nodes {
    queue: Queue,
    /// How many notifications for all there were.
    rounds: usize,
}

impl Condvar {
    const_unless_model! {
        /// A condition that nobody waits for.
        pub const fn new() -> Condvar {
            Condvar {
                waiting: AtomicUsize::new(0),
                queue: Inner::new(Nodes { queue: Queue::new(), rounds: 0 }),
            }
        }
    }

    /// Gives the mutex back, waits for a notification, and takes the mutex again. Somebody else may have taken it in
    /// between: look again whether what was waited for is so, or use [`wait_while`](Condvar::wait_while).
    ///
    /// # Errors
    ///
    /// If the task is cancelled, or must not block here; the mutex is not locked then.
    pub fn wait<'a, T: ?Sized>(&self, guard: MutexGuard<'a, T>) -> Result<MutexGuard<'a, T>, Refused> {
        Ok(self.wait_or(guard, None)?.0)
    }

    /// [`wait_timeout`](Self::wait_timeout), until `deadline` on the clock of [`now`].
    #[cfg(test)]
    pub(crate) fn wait_until<'a, T: ?Sized>(
        &self,
        guard: MutexGuard<'a, T>,
        deadline: Instant,
    ) -> Result<(MutexGuard<'a, T>, WaitTimeoutResult), Refused> {
        self.wait_or(guard, Some(deadline))
    }

    /// Like [`wait`](Condvar::wait), but waits at most `timeout`. As in std, a timeout is no error: the guard comes back, and
    /// the result says whether the timeout has passed.
    ///
    /// # Errors
    ///
    /// As for [`wait`](Condvar::wait).
    pub fn wait_timeout<'a, T: ?Sized>(
        &self,
        guard: MutexGuard<'a, T>,
        timeout: Duration,
    ) -> Result<(MutexGuard<'a, T>, WaitTimeoutResult), Refused> {
        self.wait_or(guard, Some(now() + timeout))
    }

    /// Waits as long as `condition` is true of the value.
    ///
    /// # Errors
    ///
    /// As for [`wait`](Condvar::wait).
    pub fn wait_while<'a, T: ?Sized>(
        &self,
        mut guard: MutexGuard<'a, T>,
        mut condition: impl FnMut(&mut T) -> bool,
    ) -> Result<MutexGuard<'a, T>, Refused> {
        while condition(&mut guard) {
            guard = self.wait(guard)?;
        }
        Ok(guard)
    }

    /// Waits as long as `condition` is true of the value, but at most `timeout`. If the result says that the timeout has
    /// passed, the condition is still true.
    ///
    /// # Errors
    ///
    /// As for [`wait`](Condvar::wait).
    pub fn wait_timeout_while<'a, T: ?Sized>(
        &self,
        mut guard: MutexGuard<'a, T>,
        timeout: Duration,
        mut condition: impl FnMut(&mut T) -> bool,
    ) -> Result<(MutexGuard<'a, T>, WaitTimeoutResult), Refused> {
        let deadline = now() + timeout;
        let mut timed_out = false;
        loop {
            if !condition(&mut guard) {
                return Ok((guard, WaitTimeoutResult(false)));
            }
            if timed_out {
                return Ok((guard, WaitTimeoutResult(true)));
            }
            let waited = self.wait_or(guard, Some(deadline))?;
            (guard, timed_out) = (waited.0, waited.1.timed_out());
        }
    }

    /// Wakes the one who has waited longest, if anybody waits.
    #[inline]
    pub fn notify_one(&self) {
        if self.waiting.load(Ordering::Relaxed) > 0 {
            self.tell_one();
        }
    }

    /// Wakes all who wait.
    #[inline]
    pub fn notify_all(&self) {
        if self.waiting.load(Ordering::Relaxed) > 0 {
            self.tell_all();
        }
    }

    #[cold]
    fn tell_one(&self) {
        let mut nodes = self.queue.lock();
        let told = self.tell(&mut nodes, ONE);
        drop(nodes);
        if let Some(waiter) = told {
            waiter.wake();
        }
    }

    #[cold]
    fn tell_all(&self) {
        let mut nodes = self.queue.lock();
        let round = nodes.rounds;
        nodes.rounds = round.wrapping_add(1);
        drop(nodes);
        tell_each(
            || self.queue.lock(),
            |nodes| {
                // Another notification for all may be under way, and have told, or tell, the same nodes.
                let waited =
                    nodes.queue.first_wants().is_some_and(|since| round.wrapping_sub(since) as isize >= 0);
                if waited { self.tell(nodes, ALL) } else { None }
            },
        );
    }

    fn tell(&self, nodes: &mut Nodes, what: u8) -> Option<Waiter> {
        let waiter = nodes.queue.tell(what)?;
        self.waiting.fetch_sub(1, Ordering::Relaxed);
        Some(waiter)
    }

    fn wait_or<'a, T: ?Sized>(
        &self,
        guard: MutexGuard<'a, T>,
        deadline: Option<Instant>,
    ) -> Result<(MutexGuard<'a, T>, WaitTimeoutResult), Refused> {
        let mutex = MutexGuard::mutex(&guard);
        let mut nodes = self.queue.lock();
        let node = Node::new(nodes.rounds);
        // SAFETY: the node is new, and `Waiting` does not let it go before it was told or removed.
        unsafe { nodes.queue.push(&node) };
        self.waiting.fetch_add(1, Ordering::Relaxed);
        drop(nodes);
        // SAFETY: the node was pushed into this queue above.
        let waiting = unsafe { Waiting::new(self, &node) };
        drop(guard);
        if waiting.wait(deadline, What::at(WaitKind::Condvar, self))? {
            let notified = Notified { condvar: self, node: &node };
            let guard = mutex.lock()?;
            mem::forget(notified);
            Ok((guard, WaitTimeoutResult(false)))
        } else {
            Ok((mutex.lock()?, WaitTimeoutResult(true)))
        }
    }
}

impl Awaited for Condvar {
    unsafe fn withdraw(&self, node: &Node) -> bool {
        let mut nodes = self.queue.lock();
        // SAFETY: the caller promises that the node was pushed into this queue.
        let removed = unsafe { nodes.queue.remove(node) };
        if removed {
            self.waiting.fetch_sub(1, Ordering::Relaxed);
        }
        removed
    }

    unsafe fn hand_on(&self, node: &Node) {
        if node.told() == ONE {
            self.notify_one();
        }
    }
}

/// A notification that was received, on behalf of a waiter that has not taken the mutex yet.
struct Notified<'a> {
    condvar: &'a Condvar,
    node: &'a Node,
}

impl Drop for Notified<'_> {
    fn drop(&mut self) {
        // SAFETY: the node was in the queue of this condvar and was told, and its waiter has not used that.
        unsafe { self.condvar.hand_on(self.node) };
    }
}

impl Default for Condvar {
    fn default() -> Condvar {
        Condvar::new()
    }
}

impl fmt::Debug for Condvar {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Condvar").field("waiting", &self.waiting.load(Ordering::Relaxed)).finish()
    }
}

/// Whether a wait ended because its time had passed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct WaitTimeoutResult(bool);

impl WaitTimeoutResult {
    /// True if the wait ended without a notification.
    pub fn timed_out(self) -> bool {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use sinew_sync::{Arc, model, model_bounded, thread};

    use super::*;
    use crate::sync::Mutex;

    const PAST: Instant = Instant::from_nanos(0);

    type Pair = Arc<(Mutex<usize>, Condvar)>;

    fn pair() -> Pair {
        Arc::new((Mutex::new(0), Condvar::new()))
    }

    fn spawn(pair: &Pair, body: impl FnOnce(&Pair) + 'static + Send) -> thread::JoinHandle<()> {
        let pair = pair.clone();
        thread::spawn(move || body(&pair))
    }

    /// Also with a notifier that has given the mutex back before it notifies.
    #[test]
    fn a_waiter_does_not_miss_what_changes_after_it_looked() {
        model("condvar_notification_is_not_missed", || {
            let pair = pair();
            let waiter = spawn(&pair, |pair| {
                let value = pair.1.wait_while(pair.0.lock().unwrap(), |value| *value == 0);
                assert_eq!(*value.unwrap(), 1);
            });
            let notifier = spawn(&pair, |pair| {
                *pair.0.lock().unwrap() += 1;
                pair.1.notify_one();
            });
            waiter.join().unwrap();
            notifier.join().unwrap();
            assert_eq!(pair.1.waiting.load(Ordering::Relaxed), 0);
        });
    }

    /// Starts a waiter, and behind it a second one, and then notifies one: whatever the first one makes of it, the second
    /// one must end.
    fn first_and_second(first: fn(&Condvar, &Node)) {
        let pair = pair();
        let enqueue = |condvar: &Condvar, node: &Node| {
            // SAFETY: the node is new, and the threads below keep it until it was told or removed.
            unsafe { condvar.queue.lock().queue.push(node) };
            condvar.waiting.fetch_add(1, Ordering::Relaxed);
        };
        let thread = spawn(&pair, move |pair| {
            let node = Node::new(0);
            enqueue(&pair.1, &node);
            // Nobody joins these: they would have to be waited for by a thread that is woken.
            spawn(pair, move |pair| {
                let node = Node::new(0);
                enqueue(&pair.1, &node);
                spawn(pair, |pair| pair.1.notify_one());
                // SAFETY: it was put into this queue just now.
                let waiting = unsafe { Waiting::new(&pair.1, &node) };
                assert!(waiting.wait(None, What::of(WaitKind::Condvar)).unwrap());
            });
            first(&pair.1, &node);
        });
        drop(thread);
    }

    #[test]
    fn a_notification_that_reaches_one_who_gives_up_is_not_lost() {
        model_bounded("condvar_notify_against_withdrawal", 4, || {
            first_and_second(|condvar, node| {
                // SAFETY: `first_and_second` has put it into this queue.
                let waiting = unsafe { Waiting::new(condvar, node) };
                if waiting.wait(Some(PAST), What::of(WaitKind::Condvar)).unwrap() {
                    // It cannot take the mutex again.
                    drop(Notified { condvar, node });
                }
            });
        });
    }

    #[test]
    fn a_notification_that_reaches_one_who_unwinds_is_not_lost() {
        model("condvar_notification_is_handed_on", || {
            // SAFETY: `first_and_second` has put it into this queue.
            first_and_second(|condvar, node| drop(unsafe { Waiting::new(condvar, node) }));
        });
    }

    #[test]
    fn all_who_wait_are_told() {
        model("condvar_notify_all", || {
            let pair = pair();
            let waiter = spawn(&pair, |pair| {
                drop(pair.1.wait_while(pair.0.lock().unwrap(), |value| *value == 0).unwrap());
            });
            let notifier = spawn(&pair, |pair| {
                *pair.0.lock().unwrap() += 1;
                pair.1.notify_all();
            });
            waiter.join().unwrap();
            notifier.join().unwrap();
            assert_eq!(pair.1.waiting.load(Ordering::Relaxed), 0);
        });
    }

    #[test]
    fn who_gives_up_is_not_counted_any_more() {
        model("condvar_withdrawal_is_counted", || {
            let pair = pair();
            let gives_up = spawn(&pair, |pair| _ = pair.1.wait_until(pair.0.lock().unwrap(), PAST).unwrap());
            pair.1.notify_one();
            gives_up.join().unwrap();
            assert_eq!(pair.1.waiting.load(Ordering::Relaxed), 0);
        });
    }
}

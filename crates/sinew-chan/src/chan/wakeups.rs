//! Wake-ups that are put off.

use std::fmt;
use std::mem;

use sinew_sched::raw::Waiter;

/// Those who are woken when this goes. A waker may be anybody's code, so whoever sends under a lock keeps this until the lock is
/// free: see [`Sender::try_send_quietly`](super::Sender::try_send_quietly).
#[derive(Default)]
#[must_use = "whoever was told has to be woken"]
pub struct Wakeups(Vec<Waiter>);

impl Wakeups {
    pub(super) fn add(&mut self, waiter: Waiter) {
        self.0.push(waiter);
    }
}

impl Drop for Wakeups {
    fn drop(&mut self) {
        mem::take(&mut self.0).into_iter().for_each(Waiter::wake);
    }
}

impl fmt::Debug for Wakeups {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Wakeups").field("len", &self.0.len()).finish()
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use std::task::{Context, Poll, Wake, Waker};

    use sinew_sync::Arc;
    use sinew_sync::atomic::{AtomicBool, Ordering};

    use super::*;
    use crate::chan::{Unsent, bounded, rendezvous, weighted};

    struct Flag(AtomicBool);

    impl Wake for Flag {
        fn wake(self: Arc<Self>) {
            self.0.store(true, Ordering::Relaxed);
        }
    }

    #[test]
    fn whoever_is_sent_something_quietly_has_it_and_is_woken_later() {
        for (sender, receiver) in [bounded(1), rendezvous(), weighted(1, |_| 1)] {
            let flag = Arc::new(Flag(AtomicBool::new(false)));
            let mut receives = Box::pin(receiver.recv_async());
            let waker = Waker::from(flag.clone());
            assert!(receives.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
            let mut wakeups = Wakeups::default();
            sender.try_send_quietly(1, &mut wakeups).unwrap();
            assert!(!flag.0.load(Ordering::Relaxed));
            drop(wakeups);
            assert!(flag.0.load(Ordering::Relaxed));
            let received = receives.as_mut().poll(&mut Context::from_waker(Waker::noop()));
            assert!(matches!(received, Poll::Ready(Ok(1))));
        }
    }

    #[test]
    fn what_cannot_be_sent_quietly_comes_back() {
        let (sender, receiver) = bounded(1);
        let mut wakeups = Wakeups::default();
        sender.try_send_quietly(1, &mut wakeups).unwrap();
        let full = sender.try_send_quietly(2, &mut wakeups).unwrap_err();
        assert!(matches!((full.item, full.why), (2, Unsent::Full)));
        drop(receiver);
        let closed = sender.try_send_quietly(3, &mut wakeups).unwrap_err();
        assert!(matches!((closed.item, closed.why), (3, Unsent::Closed)));
    }
}

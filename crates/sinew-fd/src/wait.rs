//! Waiting for one number: until an operation on it succeeds, as a blocking call and as a future.
//!
//! The operation is attempted first. If it fails with `EAGAIN`, a watch is registered with the number and its object,
//! and from then on each round resets the flag, looks whether the wait has to end, attempts the operation, and waits for
//! the flag: see [`WakeFlag`] for why no transition is lost. What wakes it is the
//! notification and not the mask, so an operation that fails with `EAGAIN` although the mask says otherwise (a write
//! that is larger than the room) does not spin.

use std::future::poll_fn;
use std::pin::pin;
use std::sync::{Arc, Weak};
use std::task::{Poll, ready};
use std::time::Duration;

use sinew_core::Errno;
use sinew_sched::raw::{self, What};
use sinew_sched::{WaitKind, now, sleep_async};

use crate::bits::Events;
use crate::errno::{begin_call, errno_of_refusal};
use crate::number::{Number, Registered};
use crate::wake_flag::WakeFlag;
use crate::watchers::{Key, Watch};

/// Waits for readable numbers, for dumps.
pub(crate) const READ: WaitKind = WaitKind::label(8);
/// Waits for writable numbers.
pub(crate) const WRITE: WaitKind = WaitKind::label(9);
/// Waits on epolls.
pub(crate) const EPOLL: WaitKind = WaitKind::label(10);

/// Says what the labels mean.
pub(crate) fn register_labels() {
    READ.register("fd readable", "fd");
    WRITE.register("fd writable", "fd");
    EPOLL.register("epoll wait", "epfd");
}

/// Returns what a wait for `events` of `fd` is, for dumps.
pub(crate) fn what(fd: i32, events: Events) -> What {
    let kind = if events.contains(Events::OUT) { WRITE } else { READ };
    What::tagged(kind, fd.cast_unsigned())
}

/// The watch of one wait.
#[derive(Debug)]
struct ReadyWatch {
    flag: WakeFlag,
    events: Events,
}

impl Watch for ReadyWatch {
    fn notify(&self, _: Key, events: Events) {
        if self.events.intersects(events) {
            self.flag.raise();
        }
    }
}

/// One number to wait for.
pub(crate) struct NumberWait<'a, S> {
    number: &'a Arc<Number>,
    stop: S,
    watch: Option<(Arc<ReadyWatch>, Registered)>,
    events: Events,
    what: What,
}

impl<'a, S: Fn() -> Result<(), Errno>> NumberWait<'a, S> {
    /// Creates a wait for `events` of a number, which ends early when `stop` returns an error.
    pub(crate) fn new(number: &'a Arc<Number>, events: Events, what: What, stop: S) -> NumberWait<'a, S> {
        NumberWait { number, stop, watch: None, events: events | Events::ALWAYS, what }
    }

    /// Attempts the operation. `None` if it has to wait; then its watch is registered and its flag tells when.
    fn attempt<T>(&mut self, operation: &mut impl FnMut() -> Result<T, Errno>) -> Result<Option<T>, Errno> {
        if self.watch.is_none() {
            match operation() {
                Err(Errno::EAGAIN) => (),
                outcome => return outcome.map(Some),
            }
            let watch = Arc::new(ReadyWatch { flag: WakeFlag::new(), events: self.events });
            let weak: Weak<dyn Watch> = Arc::downgrade(&(watch.clone() as Arc<dyn Watch>));
            self.watch = Some((watch, Registered::new(self.number.clone(), weak)));
        }
        self.flag().reset();
        (self.stop)()?;
        match operation() {
            Err(Errno::EAGAIN) => Ok(None),
            outcome => outcome.map(Some),
        }
    }

    fn flag(&self) -> &WakeFlag {
        &self.watch.as_ref().expect("a wait that has to wait has a watch").0.flag
    }

    /// Waits until the operation does not fail with `EAGAIN`. Returns `None` on timeout.
    pub(crate) fn block<T>(
        mut self,
        timeout: Option<Duration>,
        mut operation: impl FnMut() -> Result<T, Errno>,
    ) -> Result<Option<T>, Errno> {
        begin_call()?;
        let mut deadline = None;
        loop {
            if let Some(outcome) = self.attempt(&mut operation)? {
                return Ok(Some(outcome));
            }
            if timeout == Some(Duration::ZERO) {
                return Ok(None);
            }
            let until = *deadline.get_or_insert_with(|| timeout.map(|timeout| now() + timeout));
            let raised = self.flag().wait(until, self.what).map_err(|refused| errno_of_refusal(&refused))?;
            if !raised {
                return self.attempt(&mut operation);
            }
        }
    }

    /// [`block`](NumberWait::block) as a future. Dropped before it is ready, it has done nothing.
    pub(crate) async fn run<T>(
        mut self,
        timeout: Option<Duration>,
        mut operation: impl FnMut() -> Result<T, Errno>,
    ) -> Result<Option<T>, Errno> {
        let polls = timeout == Some(Duration::ZERO);
        let mut sleep = pin!(timeout.filter(|_| !polls).map(sleep_async));
        poll_fn(|context| {
            ready!(raw::poll_charge(context));
            loop {
                if let Some(outcome) = self.attempt(&mut operation)? {
                    return Poll::Ready(Ok(Some(outcome)));
                }
                let late =
                    polls || sleep.as_mut().as_pin_mut().is_some_and(|sleep| sleep.poll(context).is_ready());
                if late {
                    return Poll::Ready(Ok(None));
                }
                ready!(self.flag().poll(context, self.what));
            }
        })
        .await
    }
}

//! Waits on an epoll: as a blocking call and as a future.

use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Poll, ready};
use std::time::Duration;

use sinew_core::Errno;
use sinew_sched::raw::{self, What};
use sinew_sched::{now, sleep_async};

use crate::errno::{begin_call, errno_of_refusal};
use crate::wake_flag::WakeFlag;

use super::{Epoll, EpollEvent};

/// A wait of one caller, with its flag once it has found nothing.
struct EpollWait<'a, S> {
    epoll: &'a Epoll,
    /// Returns an error if the wait has to end without an event. Asked under the lock of the epoll, so it only reads.
    stop: S,
    flag: Option<Arc<WakeFlag>>,
}

impl<S: Fn() -> Result<(), Errno>> EpollWait<'_, S> {
    /// Returns the number of records if there are any. Else adds the flag to the epoll, if `waits`.
    fn attempt(&mut self, events: &mut [EpollEvent], waits: bool) -> Result<Option<usize>, Errno> {
        if let Some(flag) = &self.flag {
            flag.reset();
        }
        let mut ended = Vec::new();
        let outcome = {
            let mut state = self.epoll.state.lock();
            (self.stop)()?;
            let count = state.collect(events, &mut ended);
            if count > 0 {
                state.set_cursor(&events[..count], events.len());
                Some(count)
            } else {
                if waits {
                    let flag = self.flag.get_or_insert_with(|| Arc::new(WakeFlag::new()));
                    state.remove_wait(flag); // a future that is polled again is in there already
                    state.add_wait(flag);
                }
                None
            }
        };
        drop(ended);
        Ok(outcome)
    }
}

impl<S> Drop for EpollWait<'_, S> {
    fn drop(&mut self) {
        if let Some(flag) = &self.flag {
            self.epoll.state.lock().remove_wait(flag);
        }
    }
}

impl Epoll {
    /// Waits until a watched number is ready; `None` waits for ever. Returns 0 on timeout.
    pub(crate) fn wait(
        &self,
        events: &mut [EpollEvent],
        timeout: Option<Duration>,
        what: What,
        stop: impl Fn() -> Result<(), Errno>,
    ) -> Result<usize, Errno> {
        let mut wait = EpollWait { epoll: self, stop, flag: None };
        let polls = timeout == Some(Duration::ZERO);
        begin_call()?;
        if let Some(count) = wait.attempt(events, !polls)? {
            return Ok(count);
        }
        if polls {
            return Ok(0);
        }
        let deadline = timeout.map(|timeout| now() + timeout);
        loop {
            let flag = wait.flag.as_ref().expect("an attempt that found nothing left its flag");
            let raised = flag.wait(deadline, what).map_err(|refused| errno_of_refusal(&refused))?;
            if let Some(count) = wait.attempt(events, raised)? {
                return Ok(count);
            }
            if !raised {
                return Ok(0);
            }
        }
    }

    /// [`wait`](Epoll::wait) as a future. Dropped before it is ready, it has taken nothing.
    pub(crate) async fn wait_async(
        &self,
        events: &mut [EpollEvent],
        timeout: Option<Duration>,
        what: What,
        stop: impl Fn() -> Result<(), Errno>,
    ) -> Result<usize, Errno> {
        let mut wait = EpollWait { epoll: self, stop, flag: None };
        let polls = timeout == Some(Duration::ZERO);
        let mut sleep = pin!(timeout.filter(|_| !polls).map(sleep_async));
        poll_fn(|context| {
            ready!(raw::poll_charge(context));
            loop {
                if let Some(count) = wait.attempt(events, !polls)? {
                    return Poll::Ready(Ok(count));
                }
                if polls {
                    return Poll::Ready(Ok(0));
                }
                if sleep.as_mut().as_pin_mut().is_some_and(|sleep| sleep.poll(context).is_ready()) {
                    return Poll::Ready(Ok(0));
                }
                let flag = wait.flag.as_ref().expect("an attempt that found nothing left its flag");
                ready!(flag.poll(context, what));
            }
        })
        .await
    }
}

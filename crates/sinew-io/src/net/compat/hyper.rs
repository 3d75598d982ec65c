//! What hyper 1 needs of a runtime: streams, timers, and a place for futures.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};

use hyper::rt::{Executor, Read, ReadBufCursor, Timer, Write};
use sinew_sched::raw::system_now;
use sinew_sched::{Sleep, now, spawn_future};
use sinew_sync::statics::OnceLock;

use crate::net::Stream;

/// A stream for hyper, whose connections are futures: [spawn](sinew_sched::spawn_future) them.
#[derive(Debug)]
pub struct HyperIo<S>(pub S);

impl<S: Stream + Unpin> Read for HyperIo<S> {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        mut buffer: ReadBufCursor<'_>,
    ) -> Poll<io::Result<()>> {
        // SAFETY: bytes are received into it, and nothing is made uninitialised.
        let read = ready!(self.0.poll_read(context, unsafe { buffer.as_mut() }))?;
        // SAFETY: so many were received.
        unsafe { buffer.advance(read) };
        Poll::Ready(Ok(()))
    }
}

impl<S: Stream + Unpin> Write for HyperIo<S> {
    fn poll_write(self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.0.poll_write(context, bytes)
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(self.0.shutdown_write())
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.0.poll_write_vectored(context, slices)
    }
}

/// The timers of the runtime that polls: also those of a [`ManualClock`](sinew_sched::ManualClock).
#[derive(Clone, Copy, Default, Debug)]
pub struct HyperTimer;

/// When our clocks were at zero.
fn zero() -> Instant {
    static ZERO: OnceLock<Instant> = OnceLock::new();
    *ZERO.get_or_init(|| {
        let since = Duration::from_nanos(system_now().as_nanos());
        Instant::now().checked_sub(since).expect("the process has begun to count after the system")
    })
}

impl Timer for HyperTimer {
    fn sleep(&self, duration: Duration) -> Pin<Box<dyn hyper::rt::Sleep>> {
        HyperSleep::until(now() + duration)
    }

    fn sleep_until(&self, deadline: Instant) -> Pin<Box<dyn hyper::rt::Sleep>> {
        let nanos = deadline.saturating_duration_since(zero()).as_nanos();
        let deadline = sinew_core::Instant::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX));
        HyperSleep::until(deadline)
    }

    fn now(&self) -> Instant {
        zero() + Duration::from_nanos(now().as_nanos())
    }
}

/// A [`Sleep`] as hyper has it.
struct HyperSleep(Sleep);

impl HyperSleep {
    fn until(deadline: sinew_core::Instant) -> Pin<Box<dyn hyper::rt::Sleep>> {
        Box::pin(HyperSleep(Sleep::until(deadline)))
    }
}

impl Future for HyperSleep {
    type Output = ();

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        // SAFETY: the sleep is a part of this, which is pinned, and is never moved out of it.
        unsafe { self.map_unchecked_mut(|this| &mut this.0) }.poll(context)
    }
}

impl hyper::rt::Sleep for HyperSleep {}

/// Spawns the futures that hyper wants to run beside its connections, as [`spawn_future`] does: so it is for tasks.
#[derive(Clone, Copy, Default, Debug)]
pub struct HyperExecutor;

impl<F> Executor<F> for HyperExecutor
where
    F: Future<Output: Send + 'static> + Send + 'static,
{
    fn execute(&self, future: F) {
        spawn_future(future).detach();
    }
}

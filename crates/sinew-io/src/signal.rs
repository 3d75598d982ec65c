//! Signals of the system, such as Ctrl-C, for tasks, threads and futures.
//!
//! ```no_run
//! use sinew_io::net::TcpListener;
//! use sinew_io::signal;
//! use sinew_sched::{Runtime, spawn};
//!
//! let runtime = Runtime::new();
//! runtime.run(|| {
//!     let listener = TcpListener::bind("127.0.0.1:8080")?;
//!     spawn(move || for stream in listener.incoming() { /* serve it */ }).detach();
//!     signal::ctrl_c() // other tasks run meanwhile
//! }).unwrap()?;
//! runtime.shutdown(std::time::Duration::from_secs(5));
//! # Ok::<(), std::io::Error>(())
//! ```
//!
//! [`Signals`] listens to any of them, also with a limit, in futures and in a [`select!`](sinew_chan::select!):
//!
//! ```
//! use std::time::Duration;
//!
//! use sinew_io::process::Command;
//! use sinew_chan::select::{recv, sleep};
//! use sinew_io::signal::{SIGHUP, SIGTERM, Signals};
//! use sinew_chan::select;
//! use sinew_sched::Runtime;
//!
//! Runtime::new().run(|| {
//!     let signals = Signals::new([SIGTERM, SIGHUP])?;
//!     Command::new("kill").args(["-HUP", &std::process::id().to_string()]).status()?;
//!     let what = select! {
//!         signal = recv(&signals) => if signal == SIGHUP { "reload" } else { "end" },
//!         _ = sleep(Duration::from_secs(60)) => "go on",
//!     };
//!     assert_eq!(what.unwrap(), "reload");
//!     Ok::<(), std::io::Error>(())
//! }).unwrap()?;
//! # Ok::<(), std::io::Error>(())
//! ```
//!
//! # What to know
//!
//! - **From the first listener on, the signal does not do any more what it does by itself**, such as end the process; also
//!   when all of its listeners are gone. Who listens to SIGINT has to end the process, or Ctrl-C does nothing.
//! - Every listener is told of every signal that comes after it was made, whichever runtime it is used on.
//! - Signals of one kind that come before the first of them was received are one, as in the system. Signals of
//!   different kinds never displace each other.
//! - Signals that cannot be handled, or that say that a thread cannot go on (SIGSEGV and the like), are errors of
//!   [`Signals::new`], and so are those that have a handler of somebody else.
//!   [`dump_on_signal`](sinew_sched::Builder::dump_on_signal) and [`Sysmon`](sinew_sched::Sysmon) are compatible: a signal can
//!   be theirs and be listened to.
//!
//! # How it works
//!
//! `os_signal.rs` of sinew-sched has the way from the system to a `Listener`. That has a channel with room for each of its
//! signals once, and a word with a bit for each that is in the channel. Whoever tells of a signal sets the bit, and sends the
//! signal if the bit was not set; whoever has received it clears the bit. So a place in the channel is free for each bit that
//! is not set, and a signal that finds its bit set comes before the receiver of the earlier one goes on, who sees what was
//! done before it. Model: `signal_merged_or_received`.

use std::fmt;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use sinew_chan::chan::{self, Receiver, RecvCase, Sender, Unsent};
use sinew_chan::select::{self, Source};
use sinew_core::Instant;
use sinew_fiber::Refused;
use sinew_sched::os_signal;
use sinew_sched::raw::{Async, Attempt, Awaited, Case, Enrolled, Node, What, attempt_or_block, refused_io};
use sinew_sched::{WaitError, now};
use sinew_sync::atomic::{AtomicU64, Ordering};

pub use libc::{
    SIGALRM, SIGCHLD, SIGCONT, SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGTSTP, SIGUSR1, SIGUSR2, SIGWINCH,
};

/// Waits for the next Ctrl-C, that is SIGINT: suspends the running task, or blocks the thread.
///
/// **From the first call on, Ctrl-C does not end the process any more**, also while nobody waits for it. One that comes
/// between two calls is lost; [`Signals`] has those, and the forms for futures and for a [`select!`](sinew_chan::select!).
///
/// # Errors
///
/// As for [`Signals::new`]; if the task is cancelled, or must not block here.
pub fn ctrl_c() -> io::Result<()> {
    Signals::new([SIGINT])?.recv().map(drop).map_err(refused_io)
}

/// Listens to signals of the system: see the [module](self).
pub struct Signals {
    listener: Arc<Listener>,
    receiver: Receiver<i32>,
}

impl Signals {
    /// Listens to these signals, by their numbers.
    ///
    /// # Errors
    ///
    /// If one of them cannot be handled, or has a handler that is not Sinew's; if there are none; if the system has no
    /// descriptor or thread left.
    pub fn new(signals: impl IntoIterator<Item = i32>) -> io::Result<Signals> {
        let numbers: Vec<i32> = signals.into_iter().collect();
        if numbers.is_empty() {
            let why = "nobody can listen to no signals: name one, such as SIGTERM";
            return Err(io::Error::new(io::ErrorKind::InvalidInput, why));
        }
        let mut bits = 0;
        for signal in &numbers {
            bits |= os_signal::bit(*signal).ok_or_else(|| os_signal::no_signal(*signal))?;
        }
        let signals = Signals::unheard(bits);
        os_signal::listen(&numbers, &signals.told())?;
        Ok(signals)
    }

    /// A listener to these that nobody tells yet.
    fn unheard(signals: u64) -> Signals {
        let (sender, receiver) = chan::bounded(signals.count_ones() as usize);
        Signals { listener: Arc::new(Listener { signals, inside: AtomicU64::new(0), sender }), receiver }
    }

    /// Waits for the next signal, and returns its number.
    ///
    /// # Errors
    ///
    /// If it has to wait and the task is cancelled, or must not block here.
    pub fn recv(&self) -> Result<i32, Refused> {
        let recv = self.operation();
        attempt_or_block(&recv, None)?;
        Ok(recv.output())
    }

    /// Like [`recv`](Signals::recv), but waits at most `timeout`.
    ///
    /// # Errors
    ///
    /// As for [`recv`](Signals::recv), and [`WaitError::Timeout`].
    pub fn recv_timeout(&self, timeout: Duration) -> Result<i32, WaitError> {
        self.recv_until(now() + timeout)
    }

    /// [`recv_timeout`](Self::recv_timeout), until `deadline` on the clock of [`now`].
    pub(crate) fn recv_until(&self, deadline: Instant) -> Result<i32, WaitError> {
        let recv = self.operation();
        if attempt_or_block(&recv, Some(deadline))? { Ok(recv.output()) } else { Err(WaitError::Timeout) }
    }

    /// The next signal, if one has come.
    pub fn try_recv(&self) -> Option<i32> {
        let recv = self.operation();
        recv.attempt().then(|| recv.output())
    }

    /// A future of the next signal, for any executor. Dropped before it is ready it has received nothing.
    pub fn recv_async(&self) -> Async<RecvSignal<'_>> {
        Async::new(self.operation())
    }

    /// Returns the listener, as the one that is told of signals.
    fn told(&self) -> Arc<dyn os_signal::Listener> {
        self.listener.clone()
    }

    fn operation(&self) -> RecvSignal<'_> {
        RecvSignal { listener: &self.listener, recv: select::recv(&self.receiver) }
    }
}

impl Drop for Signals {
    fn drop(&mut self) {
        os_signal::forget(&self.told());
    }
}

impl fmt::Debug for Signals {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let numbers = (1..=64).filter(|signal| self.listener.listens_to(*signal));
        f.debug_struct("Signals").field("numbers", &numbers.collect::<Vec<i32>>()).finish_non_exhaustive()
    }
}

impl<'a> Source for &'a Signals {
    type Case = RecvSignal<'a>;

    fn into_case(self) -> RecvSignal<'a> {
        self.operation()
    }
}

/// Who is told of signals.
struct Listener {
    /// Those that it wants to be told of.
    signals: u64,
    /// Those that are in the channel, or were just received.
    inside: AtomicU64,
    sender: Sender<i32>,
}

impl Listener {
    fn listens_to(&self, signal: i32) -> bool {
        os_signal::bit(signal).is_some_and(|bit| self.signals & bit != 0)
    }

    /// The signal was received.
    fn received(&self, signal: i32) {
        let bit = os_signal::bit(signal).unwrap_or(0);
        self.inside.fetch_and(!bit, Ordering::AcqRel);
    }
}

impl os_signal::Listener for Listener {
    fn tell(&self, signal: i32) {
        let bit = os_signal::bit(signal).map_or(0, |bit| self.signals & bit);
        if bit != 0 && self.inside.fetch_or(bit, Ordering::AcqRel) & bit == 0 {
            let unsent = self.sender.try_send(signal).map_err(|unsent| unsent.why).err();
            // Whoever listens may be gone this moment.
            debug_assert!(!matches!(unsent, Some(Unsent::Full)), "there is room for each signal once");
        }
    }
}

/// The next signal: see [`Signals::recv_async`] and [`select::recv`].
#[derive(Debug)]
pub struct RecvSignal<'a> {
    listener: &'a Listener,
    recv: RecvCase<'a, i32>,
}

impl fmt::Debug for Listener {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Listener").finish_non_exhaustive()
    }
}

impl Awaited for RecvSignal<'_> {
    unsafe fn withdraw(&self, node: &Node) -> bool {
        // SAFETY: the caller promises it of this, and so of the wait within.
        unsafe { self.recv.withdraw(node) }
    }

    unsafe fn hand_on(&self, node: &Node) {
        // SAFETY: as in `withdraw`.
        unsafe { self.recv.hand_on(node) };
    }
}

impl Attempt for RecvSignal<'_> {
    fn attempt(&self) -> bool {
        self.recv.attempt()
    }

    unsafe fn enroll(&self, node: &Node) -> Enrolled {
        // SAFETY: as in `withdraw`; what is within stays where this does.
        unsafe { self.recv.enroll(node) }
    }

    unsafe fn settle(&self, node: &Node) -> bool {
        // SAFETY: as in `withdraw`.
        unsafe { self.recv.settle(node) }
    }

    unsafe fn under_lock(&self, change: &mut dyn FnMut()) {
        // SAFETY: as in `withdraw`.
        unsafe { self.recv.under_lock(change) };
    }

    fn what(&self) -> What {
        self.recv.what()
    }
}

impl Case for RecvSignal<'_> {
    type Output = i32;

    fn output(self) -> i32 {
        let signal = self.recv.output().expect("the listener has a sender, and nobody closes it");
        self.listener.received(signal);
        signal
    }
}

#[cfg(test)]
mod tests;

//! How a signal of the system gets from its handler to those who listen.
//!
//! A signal handler may do next to nothing: ours sets the bit of its signal in a word (`ARRIVED`) and rings a bell. A
//! thread of ours, one for the process, waits for the bell, forgets that it was rung, takes the bits, and tells the
//! listeners of each. It is the bit before the ring, and the bell before the bits, so no signal is missed; signals
//! of one kind that come meanwhile are one, as they are in the system.
//!
//! The handler runs on the thread's alternate stack, if there is one, as workers have: the stack of a task may be too
//! small. The alternate one may have room for one handler only, so no other signal is handled meanwhile. It and the thread stay for as long as the process lives; a signal that nobody listens to any more does nothing.
//!
//! Sysmon has a handler of its own for one signal (`sysmon/capture.rs`), since that has to run on the thread that it
//! asks. It passes signals that are not its own on to `note`, and is known by its address (`accept_handler`), so that
//! signal can be listened to as well.
//!
//! Which handler a signal gets depends on the one that it has, so the two steps, reading that one and setting another, must
//! not mix with those of another thread: a listener that has read the default action just before sysmon sets its handler
//! would replace that handler, and no worker would answer sysmon any more. So the handlers of the process are behind one
//! lock, `Handlers`, whose methods are the only calls of `sigaction` for a signal that can be listened to. The lock is
//! taken before that of the listeners.

use std::ffi::c_int;
use std::io;
use std::ptr;
use std::sync::Arc;

use sinew_sync::statics::{AtomicU64, AtomicUsize, Mutex, MutexGuard, OnceLock, Ordering};
use sinew_sync::thread;

use crate::bell::Bell;
use crate::cpu;

/// Signals by which the system tells a thread that it cannot go on: whoever returns from them is told again.
const FAULTS: [c_int; 5] = [libc::SIGSEGV, libc::SIGBUS, libc::SIGFPE, libc::SIGILL, libc::SIGTRAP];

/// The flag that has a handler run on the thread's alternate stack. Not under valgrind, which takes an alternate stack
/// that lies near the thread's own for a part of it.
pub(crate) const ALTERNATE_STACK: c_int = if cfg!(valgrind) { 0 } else { libc::SA_ONSTACK };

/// The signals that have come and that the thread has not seen.
static ARRIVED: AtomicU64 = AtomicU64::new(0);

/// There before the first handler is set.
static BELL: OnceLock<Bell> = OnceLock::new();

/// Receives the signals of the process.
pub trait Listener: Send + Sync {
    /// The signal has arrived. Called by a thread of the process for signals; it must not block.
    fn tell(&self, signal: c_int);
}

/// Address of the other handler of ours, which passes signals on to [`note`]; 0, which is `SIG_DFL`, if there is none. It
/// guards no data.
static ACCEPTED: AtomicUsize = AtomicUsize::new(0);

/// Accepts signals whose handler is at `address`: it calls [`note`].
pub(crate) fn accept_handler(address: usize) {
    ACCEPTED.store(address, Ordering::Relaxed);
}

/// Returns true if there is a handler at `address` that passes signals on.
fn is_accepted(address: usize) -> bool {
    address != libc::SIG_DFL && address == ACCEPTED.load(Ordering::Relaxed)
}

/// The signal handlers of the process, locked: nobody else in this crate reads or sets one meanwhile.
pub(crate) struct Handlers(#[allow(dead_code, reason = "held")] MutexGuard<'static, ()>);

impl Handlers {
    pub(crate) fn lock() -> Handlers {
        static HANDLERS: Mutex<()> = Mutex::new(());
        Handlers(HANDLERS.lock().unwrap_or_else(|poisoned| poisoned.into_inner()))
    }

    /// Returns what handles `signal`.
    pub(crate) fn action(&self, signal: c_int) -> io::Result<libc::sigaction> {
        // SAFETY: all zeros are a valid action.
        let mut action = unsafe { std::mem::zeroed() };
        // SAFETY: the system writes the one that there is to a live variable.
        match unsafe { libc::sigaction(signal, ptr::null(), &raw mut action) } {
            0 => Ok(action),
            _ => Err(no_signal(signal)),
        }
    }

    /// Has `handler` handle `signal`, with all other signals blocked meanwhile.
    ///
    /// # Safety
    ///
    /// The handler is a function that is async-signal-safe and has the signature that `flags` promise.
    pub(crate) unsafe fn set(&self, signal: c_int, handler: usize, flags: c_int) -> io::Result<()> {
        // SAFETY: all zeros are a valid action.
        let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
        action.sa_sigaction = handler;
        action.sa_flags = flags | libc::SA_RESTART | ALTERNATE_STACK;
        // SAFETY: the set is ours.
        unsafe { libc::sigfillset(&raw mut action.sa_mask) };
        // SAFETY: the caller's promise.
        match unsafe { libc::sigaction(signal, &raw const action, ptr::null_mut()) } {
            0 => Ok(()),
            _ => Err(io::Error::last_os_error()),
        }
    }
}

static LISTENERS: Mutex<Vec<Arc<dyn Listener>>> = Mutex::new(Vec::new());

fn listeners() -> MutexGuard<'static, Vec<Arc<dyn Listener>>> {
    LISTENERS.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}

/// The bit of a signal, if there may be such a signal.
pub fn bit(signal: c_int) -> Option<u64> {
    let number = u32::try_from(signal).ok()?.checked_sub(1)?;
    1u64.checked_shl(number)
}

/// Has `listener` told of these signals, all of which have bits. If one of them is an error, none is changed.
pub fn listen(signals: &[c_int], listener: &Arc<dyn Listener>) -> io::Result<()> {
    let handlers = Handlers::lock();
    signals.iter().try_for_each(|signal| check(&handlers, *signal))?;
    let mut listeners = listeners();
    if BELL.get().is_none() {
        let bell = Bell::new()?;
        let tell = || {
            cpu::unbind();
            tell_listeners(BELL.wait()) // it is set by whoever has started this thread
        };
        thread::Builder::new().name("sinew-signals".to_owned()).spawn(tell)?;
        BELL.get_or_init(|| bell);
    }
    signals.iter().try_for_each(|signal| install(&handlers, *signal))?;
    listeners.push(listener.clone());
    Ok(())
}

/// Tells `listener` nothing any more.
pub fn forget(listener: &Arc<dyn Listener>) {
    listeners().retain(|other| !Arc::ptr_eq(other, listener));
}

fn tell_listeners(bell: &Bell) {
    loop {
        // It fails if there is no memory for it at the moment; then the bits are looked at again and again.
        let _ = bell.wait();
        bell.clear();
        let arrived = ARRIVED.swap(0, Ordering::AcqRel);
        let signals = (1..=64).filter(|signal| bit(*signal).is_some_and(|bit| arrived & bit != 0));
        let listeners = listeners().clone(); // a wake-up may be anybody's code, which no lock is held for
        for signal in signals {
            listeners.iter().for_each(|listener| listener.tell(signal));
        }
    }
}

/// Why a signal cannot be listened to, if it cannot.
fn check(handlers: &Handlers, signal: c_int) -> io::Result<()> {
    if FAULTS.contains(&signal) {
        let why = format!(
            "signal {signal} says that a thread cannot go on: take another, such as {}",
            libc::SIGUSR1
        );
        return Err(io::Error::new(io::ErrorKind::InvalidInput, why));
    }
    if [libc::SIGKILL, libc::SIGSTOP].contains(&signal) {
        let why = format!(
            "signal {signal} cannot be handled by any program: take another, such as {}",
            libc::SIGTERM
        );
        return Err(io::Error::new(io::ErrorKind::InvalidInput, why));
    }
    let before = handlers.action(signal)?.sa_sigaction;
    if ![libc::SIG_DFL, libc::SIG_IGN, address()].contains(&before) && !is_accepted(before) {
        let why = format!("signal {signal} has a handler already: take another, or take that one away");
        return Err(io::Error::new(io::ErrorKind::AlreadyExists, why));
    }
    Ok(())
}

/// Sets the handler of a signal that was checked. Sysmon's hands on what it gets.
fn install(handlers: &Handlers, signal: c_int) -> io::Result<()> {
    if is_accepted(handlers.action(signal)?.sa_sigaction) {
        return Ok(());
    }
    // SAFETY: `on_signal` is async-signal-safe, and takes one argument, as a handler without further flags does.
    unsafe { handlers.set(signal, address(), 0) }
        .map_err(|error| io::Error::new(error.kind(), format!("signal {signal} cannot be handled: {error}")))
}

pub fn no_signal(signal: c_int) -> io::Error {
    let why = format!("there is no signal {signal} that a program could handle: take one of the system's");
    io::Error::new(io::ErrorKind::InvalidInput, why)
}

/// Our handler, as the system knows it.
pub(crate) fn address() -> usize {
    on_signal as *const () as usize
}

/// Async-signal-safe, as `note` is; `errno` is as it was.
extern "C" fn on_signal(signal: c_int) {
    // SAFETY: the thread's own.
    let errno = unsafe { *libc::__errno_location() };
    note(signal);
    // SAFETY: as above.
    unsafe { *libc::__errno_location() = errno };
}

/// A signal has come. Async-signal-safe: some atomics, and a `write`, which may change `errno`.
pub(crate) fn note(signal: c_int) {
    if let (Some(bell), Some(bit)) = (BELL.get(), bit(signal)) {
        ARRIVED.fetch_or(bit, Ordering::AcqRel);
        bell.ring();
    }
}

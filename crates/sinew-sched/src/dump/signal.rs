//! Dumps that a signal asks for.
//!
//! A signal handler may do next to nothing, so ours writes the number of the signal into a pipe, and a thread of ours, one
//! for the process, reads it there and prints dumps of the runtimes that want them for that signal. The pipe never blocks
//! who writes: when it is full there are dumps enough on their way. It runs on the thread's alternate stack, if there is
//! one, as workers have: the stack of a task may be too small.
//!
//! The pipe and the handlers stay when the runtimes have ended: a signal then does nothing.

use std::ffi::c_int;
use std::io::{self, Write};
use std::ptr;

use sinew_sync::statics::{AtomicI32, Mutex, Ordering};
use sinew_sync::thread;

use super::Backtraces;
use crate::shared::Shared;

/// Tasks that have backtraces in a dump that a signal asks for.
const MOST_TRACED: usize = 100;

/// Signals by which the system tells a thread that it cannot go on: whoever returns from them is told again.
const FAULTS: [c_int; 5] = [libc::SIGSEGV, libc::SIGBUS, libc::SIGFPE, libc::SIGILL, libc::SIGTRAP];

/// Where the handler writes; -1 before there is a pipe.
static PIPE: AtomicI32 = AtomicI32::new(-1);

/// Who wants dumps, for which signal.
static LISTENERS: Mutex<Vec<(c_int, &'static Shared)>> = Mutex::new(Vec::new());

/// Has `signal` print dumps of the runtime.
pub(crate) fn listen(signal: c_int, shared: &'static Shared) -> io::Result<()> {
    if FAULTS.contains(&signal) {
        let why = format!(
            "signal {signal} says that a thread cannot go on: take another for dumps, such as SIGUSR1"
        );
        return Err(io::Error::new(io::ErrorKind::InvalidInput, why));
    }
    let mut listeners = LISTENERS.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    if PIPE.load(Ordering::Acquire) < 0 {
        start()?;
    }
    install(signal)?;
    listeners.push((signal, shared));
    Ok(())
}

/// The runtime has ended.
pub(crate) fn forget(shared: &Shared) {
    let mut listeners = LISTENERS.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    listeners.retain(|(_, listener)| !ptr::eq(*listener, shared));
}

/// Makes the pipe, and the thread that reads it.
fn start() -> io::Result<()> {
    let mut ends = [0; 2];
    // SAFETY: there is room for two.
    if unsafe { libc::pipe2(ends.as_mut_ptr(), libc::O_CLOEXEC) } != 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: it was just opened.
    unsafe { libc::fcntl(ends[1], libc::F_SETFL, libc::O_NONBLOCK) };
    thread::Builder::new().name("sinew-dump".to_owned()).spawn(move || print_dumps(ends[0]))?;
    PIPE.store(ends[1], Ordering::Release);
    Ok(())
}

fn install(signal: c_int) -> io::Result<()> {
    let ours = on_signal as *const () as usize;
    // SAFETY: all zeros are a valid sigaction, and the handler does only what one may.
    unsafe {
        let (mut action, mut before): (libc::sigaction, libc::sigaction) =
            (std::mem::zeroed(), std::mem::zeroed());
        if libc::sigaction(signal, ptr::null(), &raw mut before) != 0 {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, format!("there is no signal {signal}")));
        }
        if ![libc::SIG_DFL, libc::SIG_IGN, ours].contains(&before.sa_sigaction) {
            let why = format!("signal {signal} has a handler already: take another for dumps");
            return Err(io::Error::new(io::ErrorKind::AlreadyExists, why));
        }
        action.sa_sigaction = ours;
        action.sa_flags = libc::SA_RESTART | libc::SA_ONSTACK;
        if libc::sigaction(signal, &raw const action, ptr::null_mut()) != 0 {
            let error = io::Error::last_os_error();
            return Err(io::Error::new(error.kind(), format!("signal {signal} cannot be handled: {error}")));
        }
    }
    Ok(())
}

/// Async-signal-safe: a load, a `write`, and errno as it was.
extern "C" fn on_signal(signal: c_int) {
    let byte = signal as u8;
    // SAFETY: one byte is there; errno is the thread's own.
    unsafe {
        let errno = *libc::__errno_location();
        libc::write(PIPE.load(Ordering::Relaxed), (&raw const byte).cast(), 1);
        *libc::__errno_location() = errno;
    }
}

fn print_dumps(pipe: c_int) {
    loop {
        let mut byte = 0u8;
        // SAFETY: there is room for one byte.
        if unsafe { libc::read(pipe, (&raw mut byte).cast(), 1) } != 1 {
            continue; // interrupted: the other end is never closed
        }
        let listeners = LISTENERS.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).clone();
        for (_, shared) in listeners.iter().filter(|(signal, _)| *signal == c_int::from(byte)) {
            let dump = shared.dump_with(Backtraces::UpTo(MOST_TRACED), None);
            let _ = write!(io::stderr(), "{dump}"); // there is nobody to tell
        }
    }
}

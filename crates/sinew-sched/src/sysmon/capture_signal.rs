//! The signal by which sysmon has a worker's thread walk its own stack: see [`crate::capture`].

use std::ffi::{c_int, c_void};

use sinew_sync::statics::OnceLock;

use crate::capture::Capture;
use crate::os_signal::{self, Handlers};
use crate::worker;

/// The signals that there may be.
const SIGNALS: usize = 65;

/// What handled each signal that we have taken over before.
static PREVIOUS: [OnceLock<libc::sigaction>; SIGNALS] = [const { OnceLock::new() }; SIGNALS];
/// Why our handler could not be set, for each signal for which that was tried.
static REFUSED: [OnceLock<Option<String>>; SIGNALS] = [const { OnceLock::new() }; SIGNALS];

/// Sets the handler of `signal` for the process, once, and has the unwinder initialise what it needs.
pub(super) fn install(signal: c_int) -> std::io::Result<()> {
    let index = usize::try_from(signal).ok().filter(|index| (1..SIGNALS).contains(index));
    let Some(index) = index else {
        let text = format!("{signal} is no signal that sysmon could send: choose one from 1 to 64");
        return Err(std::io::Error::new(std::io::ErrorKind::InvalidInput, text));
    };
    let refused = REFUSED[index].get_or_init(|| {
        let handlers = Handlers::lock();
        if let Ok(action) = handlers.action(signal) {
            PREVIOUS[index].get_or_init(|| action);
        }
        os_signal::accept_handler(address());
        // SAFETY: `on_signal` does what `capture` says of it, and has the signature that the flag promises.
        let set = unsafe { handlers.set(signal, address(), libc::SA_SIGINFO) };
        set.err()
            .map(|error| format!("signal {signal} cannot be handled, choose another for sysmon: {error}"))
    });
    Capture::new().walk(0);
    match refused {
        None => Ok(()),
        Some(text) => Err(std::io::Error::new(std::io::ErrorKind::InvalidInput, text.as_str())),
    }
}

/// Our handler, as the system knows it.
fn address() -> usize {
    on_signal as *const () as usize
}

extern "C" fn on_signal(signal: c_int, info: *mut libc::siginfo_t, context: *mut c_void) {
    // SAFETY: the thread's own.
    let errno = unsafe { *libc::__errno_location() };
    // SAFETY: the kernel passes the registers of who was interrupted.
    let registers = unsafe { &(*context.cast::<libc::ucontext_t>()).uc_mcontext.gregs };
    let address = registers[libc::REG_RIP as usize] as usize;
    if !worker::current().is_some_and(|worker| worker.answer_sysmon(address)) {
        chain(signal, info, context);
    }
    // SAFETY: as above.
    unsafe { *libc::__errno_location() = errno };
}

/// Hands a signal that was not for us to whoever handled it before, and to those who listen to it.
fn chain(signal: c_int, info: *mut libc::siginfo_t, context: *mut c_void) {
    let previous = usize::try_from(signal).ok().and_then(|index| PREVIOUS.get(index)?.get());
    if previous.is_none_or(|action| action.sa_sigaction != os_signal::address()) {
        os_signal::note(signal); // otherwise the one before does
    }
    match previous {
        None => (),
        // SIGURG is ignored by default. Somebody who chose a signal that would end the process has it ignored, too.
        Some(action) if [libc::SIG_DFL, libc::SIG_IGN].contains(&action.sa_sigaction) => (),
        Some(action) if action.sa_flags & libc::SA_SIGINFO != 0 => {
            // SAFETY: whoever set that flag stored a function of three arguments.
            let handler: extern "C" fn(c_int, *mut libc::siginfo_t, *mut c_void) =
                unsafe { std::mem::transmute(action.sa_sigaction) };
            handler(signal, info, context);
        }
        Some(action) => {
            // SAFETY: without the flag it is a function of one argument.
            let handler: extern "C" fn(c_int) = unsafe { std::mem::transmute(action.sa_sigaction) };
            handler(signal);
        }
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use std::fs;
    use std::sync::{Arc, mpsc};
    use std::thread;

    use super::*;
    use crate::os_signal::Listener;

    struct Deaf;

    impl Listener for Deaf {
        fn tell(&self, _: c_int) {}
    }

    /// Starts `change` while the handlers are locked, waits until its thread sleeps, and lets it go on. Fails if it does
    /// not wait for the lock.
    fn waits_for_the_lock(change: impl FnOnce() -> std::io::Result<()> + Send + 'static) {
        let handlers = Handlers::lock();
        let (tells, told) = mpsc::channel();
        let changes = thread::spawn(move || {
            // SAFETY: it asks who calls.
            tells.send(unsafe { libc::gettid() }).unwrap();
            change()
        });
        let stat = format!("/proc/self/task/{}/stat", told.recv().unwrap());
        let sleeps = |stat: String| stat.rsplit_once(')').is_some_and(|(_, state)| state.starts_with(" S"));
        while !fs::read_to_string(&stat).is_ok_and(sleeps) {
            assert!(!changes.is_finished(), "it has changed a handler that another thread is changing");
            thread::yield_now();
        }
        drop(handlers);
        changes.join().unwrap().unwrap();
    }

    /// A listener that has read the handler of sysmon's signal sets its own before sysmon sets its, or not at all.
    #[test]
    fn sysmon_and_listeners_do_not_change_a_handler_at_the_same_time() {
        let signal = libc::SIGRTMIN() + 5; // no other test uses it
        let listener: Arc<dyn Listener> = Arc::new(Deaf);
        let listens = listener.clone();
        waits_for_the_lock(move || install(signal));
        waits_for_the_lock(move || os_signal::listen(&[signal], &listens));
        os_signal::forget(&listener);
        let handler = Handlers::lock().action(signal).unwrap().sa_sigaction;
        assert_eq!(handler, address(), "sysmon's handler passes the signal on to listeners");
    }
}

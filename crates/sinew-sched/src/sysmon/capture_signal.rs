//! The signal by which sysmon has a worker's thread walk its own stack: see [`crate::capture`].

use std::ffi::{c_int, c_void};

use sinew_sync::statics::OnceLock;

use crate::capture::Capture;
use crate::os_signal;
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
        // SAFETY: all zeros is a valid action; the system writes the one that there is to a live variable.
        let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
        // SAFETY: as above.
        unsafe { libc::sigaction(signal, std::ptr::null(), &raw mut action) };
        PREVIOUS[index].get_or_init(|| action);
        os_signal::accept_handler(address());
        action.sa_sigaction = address();
        action.sa_flags = libc::SA_SIGINFO | libc::SA_RESTART | os_signal::ALTERNATE_STACK;
        // No other handler on top of this one: the alternate stack may be small.
        // SAFETY: the set is ours.
        unsafe { libc::sigfillset(&raw mut action.sa_mask) };
        // SAFETY: the handler has the signature that its flags promise.
        let set = unsafe { libc::sigaction(signal, &raw const action, std::ptr::null_mut()) } == 0;
        let error = std::io::Error::last_os_error();
        (!set).then(|| format!("signal {signal} cannot be handled, choose another for sysmon: {error}"))
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

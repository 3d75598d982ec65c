//! Names the fiber that ran off its stack, before the process dies of it.
//!
//! A fiber that touches its guard raises SIGSEGV (SIGBUS on some systems), and without a handler of ours
//! the process would end without a word: std's knows the stacks of threads only.
//!
//! # Protocol
//!
//! [`install`] runs once. It first stores whom to ask ([`Describe`]) and what handled each signal before,
//! and only then sets the handler, so the handler finds both from its first call; it reads them from cells
//! that are written once, without a lock. It asks whether the faulting address is in the guard of the fiber
//! that runs on this thread. If so, it writes one line and aborts. If not, the fault is somebody else's and
//! goes where it would have gone without us: to the previous handler, or to the default action.
//!
//! The handler runs on the thread's alternate stack, as the fiber's own is used up. Threads of std have one;
//! [`prepare_thread`] gives one to those that do not (threads made by C code), or whose is too small.
//!
//! Everything that the handler calls is async-signal-safe: `write`, `abort`, `sigaction`, `raise`, and a
//! [`Describe`] that reads const-initialised thread-locals, as does the function that tells what
//! the running code is part of ([`tag_overflows_by`]). Nothing in it allocates, locks or panics.
//!
//! There is no model: the only thing shared is written once before it can be read.

use std::cell::Cell;
use std::mem;
use std::ptr::{self, NonNull};

use sinew_sync::statics::{Once, OnceLock};

use crate::memory::sys;

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests;

/// The fiber that ran off its stack.
pub(crate) struct Overflowed {
    /// It is a task, on the stack of its root.
    pub(crate) is_task: bool,
    /// Its name, UTF-8, or null. Readable until the process ends.
    pub(crate) name: *const u8,
    /// Bytes of the name.
    pub(crate) name_length: usize,
    /// Its number.
    pub(crate) id: u64,
    /// Usable bytes of its stack.
    pub(crate) size: usize,
    /// What it is part of, if that is known.
    pub(crate) tag: Option<OverflowTag>,
}

/// Says which fiber runs on the calling thread, if the address is in the guard of its stack. It is called
/// from a signal handler, so it has to be async-signal-safe.
pub(crate) type Describe = fn(address: usize) -> Option<Overflowed>;

/// The signals that a guard raises.
const SIGNALS: [libc::c_int; 2] = [libc::SIGSEGV, libc::SIGBUS];

struct Installed {
    describe: Describe,
    previous: [libc::sigaction; SIGNALS.len()],
}

static INSTALLED: OnceLock<Installed> = OnceLock::new();

/// What running code is part of, as a crate above says it: `of {word} {high}.{low}`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct OverflowTag {
    /// The kind of thing, such as "actor".
    pub word: &'static str,
    /// The first number of its id.
    pub high: u32,
    /// The second number of its id.
    pub low: u32,
}

/// Tells what the code on the calling thread is part of.
static TAGS: OnceLock<fn() -> Option<OverflowTag>> = OnceLock::new();

/// Asks `current` what the code on the calling thread is part of, when it overflows its stack. The first function that is
/// set stays. It is called from a signal handler: it must not block, allocate or panic.
pub fn tag_overflows_by(current: fn() -> Option<OverflowTag>) {
    TAGS.get_or_init(|| current);
}

/// Returns what the code on the calling thread is part of, as far as that is known.
pub(crate) fn current_tag() -> Option<OverflowTag> {
    TAGS.get().and_then(|current| current())
}

/// Sets the handler for the whole process, once; later calls do nothing. Whoever returns from it finds the
/// handler set.
pub(crate) fn install(describe: Describe) {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let installed =
            INSTALLED.get_or_init(|| Installed { describe, previous: SIGNALS.map(current_action) });
        for (signal, previous) in SIGNALS.into_iter().zip(&installed.previous) {
            // The previous handler's mask stays, so that it runs under it when it is chained to.
            let mut action = *previous;
            action.sa_sigaction = on_fault as *const () as usize;
            action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK;
            set_action(signal, &action);
        }
    });
}

thread_local! {
    static PREPARED: Cell<bool> = const { Cell::new(false) };
    static OWN: AlternateStack = const { AlternateStack(Cell::new(None)) };
}

/// Makes sure that the calling thread has an alternate stack for the handler. Cheap when it is known to.
///
/// Without memory for one, the thread goes on; an overflow on it then ends the process without a message.
pub(crate) fn prepare_thread() {
    if PREPARED.replace(true) {
        return;
    }
    let current = current_alternate_stack();
    if current.ss_flags & libc::SS_DISABLE == 0 && current.ss_size >= signal_frame() + LEAST_ROOM {
        return;
    }
    // A thread that is ending has freed its own and gets no second one.
    let _ = OWN.try_with(AlternateStack::enable);
}

/// The handler.
extern "C" fn on_fault(signal: libc::c_int, info: *mut libc::siginfo_t, context: *mut libc::c_void) {
    let Some(installed) = INSTALLED.get() else { return };
    // SAFETY: the kernel passes a valid record to a handler set with SA_SIGINFO.
    let information = unsafe { &*info };
    let by_fault = information.si_code > 0;
    if by_fault {
        // SAFETY: a positive code says that the kernel raised SIGSEGV or SIGBUS for an address.
        let address = unsafe { information.si_addr() }.addr();
        if let Some(overflowed) = (installed.describe)(address) {
            report(&overflowed);
        }
    }
    let index = if signal == SIGNALS[0] { 0 } else { 1 };
    chain(&installed.previous[index], signal, info, context, by_fault);
}

/// Does what would have been done without our handler.
fn chain(
    previous: &libc::sigaction,
    signal: libc::c_int,
    info: *mut libc::siginfo_t,
    context: *mut libc::c_void,
    by_fault: bool,
) {
    match previous.sa_sigaction {
        // The kernel does not let a fault be ignored, only a signal that somebody sent.
        libc::SIG_IGN if !by_fault => {}
        libc::SIG_DFL | libc::SIG_IGN => {
            // SAFETY: all zeros is the default action with an empty mask and no flags.
            let default: libc::sigaction = unsafe { mem::zeroed() };
            set_action(signal, &default);
            if !by_fault {
                // The signal is blocked while its handler runs, so this one arrives on return. After a
                // fault, the instruction runs again on return and faults again.
                // SAFETY: raise touches no memory of ours.
                unsafe { libc::raise(signal) };
            }
        }
        handler if previous.sa_flags & libc::SA_SIGINFO != 0 => {
            type WithInfo = extern "C" fn(libc::c_int, *mut libc::siginfo_t, *mut libc::c_void);
            // SAFETY: whoever set SA_SIGINFO stored a function of three arguments, and the two special
            // values are excluded above.
            let handler: WithInfo = unsafe { mem::transmute(handler) };
            handler(signal, info, context);
        }
        handler => {
            // SAFETY: without SA_SIGINFO it is a function of one argument.
            let handler: extern "C" fn(libc::c_int) = unsafe { mem::transmute(handler) };
            handler(signal);
        }
    }
}

/// Writes the message and aborts.
fn report(overflowed: &Overflowed) -> ! {
    let line = Line::about(overflowed);
    // SAFETY: the bytes are initialised and `length` of them exist; abort does not return.
    unsafe {
        libc::write(libc::STDERR_FILENO, line.bytes.as_ptr().cast(), line.length);
        libc::abort()
    }
}

/// Longest part of a name that is printed.
const NAME_SHOWN: usize = 128;

/// A line of text that grows in place and drops what does not fit.
struct Line {
    bytes: [u8; 400],
    length: usize,
}

impl Line {
    fn about(overflowed: &Overflowed) -> Line {
        let mut line = Line { bytes: [0; 400], length: 0 };
        line.push(if overflowed.is_task { b"sinew: task " } else { b"sinew: fiber " });
        if overflowed.name.is_null() {
            line.push(b"#");
            line.push_number(overflowed.id);
        } else {
            line.push(b"\"");
            for index in 0..overflowed.name_length.min(NAME_SHOWN) {
                // SAFETY: a name that is not null is readable for its length.
                let byte = unsafe { overflowed.name.add(index).read() };
                line.push(&[if byte < b' ' || byte == b'"' { b'?' } else { byte }]);
            }
            line.push(b"\" (#");
            line.push_number(overflowed.id);
            line.push(b")");
        }
        if let Some(tag) = overflowed.tag {
            line.push(b" of ");
            line.push(tag.word.as_bytes());
            line.push(b" ");
            line.push_number(tag.high.into());
            line.push(b".");
            line.push_number(tag.low.into());
        }
        line.push(b" overflowed its stack of ");
        let (number, unit): (usize, &[u8]) = match overflowed.size {
            size if size % (1 << 20) == 0 => (size >> 20, b" MiB"),
            size => (size >> 10, b" KiB"),
        };
        line.push_number(number as u64);
        line.push(unit);
        line.push(b": give it a larger one (Fiber::builder().stack(..); tasks, actors: Runtime::builder().stack(..)), or box what is large\n");
        line
    }

    fn push(&mut self, text: &[u8]) {
        for (place, byte) in self.bytes.iter_mut().skip(self.length).zip(text) {
            *place = *byte;
            self.length += 1;
        }
    }

    fn push_number(&mut self, mut number: u64) {
        let mut digits = [0u8; 20];
        let mut first = digits.len();
        for place in digits.iter_mut().rev() {
            *place = b'0' + (number % 10) as u8;
            first -= 1;
            number /= 10;
            if number == 0 {
                break;
            }
        }
        self.push(digits.get(first..).unwrap_or_default());
    }
}

/// An alternate stack that we made, for as long as its thread lives.
struct AlternateStack(Cell<Option<(NonNull<u8>, usize)>>);

/// What our handlers need beyond the kernel's own frame: a scheduler's may walk the stack that it interrupted.
const LEAST_ROOM: usize = 16 << 10;

/// What the handlers that it chains to may need as well.
const AMPLE_ROOM: usize = 32 << 10;

/// Bytes of the frame that the kernel pushes for a handler: all registers, so it depends on the processor.
fn signal_frame() -> usize {
    // SAFETY: getauxval reads a table that the kernel filled before the program began.
    let bytes = unsafe { libc::getauxval(libc::AT_MINSIGSTKSZ) } as usize;
    bytes.max(libc::MINSIGSTKSZ)
}

impl AlternateStack {
    fn enable(&self) {
        let page = sys::page_size();
        let usable = (signal_frame() + AMPLE_ROOM).next_multiple_of(page);
        let Ok(start) = sys::reserve(page + usable) else { return };
        // SAFETY: the page is the first of a mapping made just above, which holds nothing yet. Without this
        // guard (at the limit of mappings) the stack works all the same.
        let _ = unsafe { sys::protect(start, page) };
        // SAFETY: the mapping is longer than one page.
        let limit = unsafe { start.add(page) };
        let stack = libc::stack_t { ss_sp: limit.as_ptr().cast(), ss_flags: 0, ss_size: usable };
        // SAFETY: the memory is mapped, used by nothing else, and freed only after it is disabled.
        unsafe { libc::sigaltstack(&stack, ptr::null_mut()) };
        self.0.set(Some((start, page + usable)));
    }
}

impl Drop for AlternateStack {
    fn drop(&mut self) {
        let Some((start, bytes)) = self.0.take() else { return };
        let current = current_alternate_stack().ss_sp.addr();
        if (start.addr().get()..start.addr().get() + bytes).contains(&current) {
            let disabled =
                libc::stack_t { ss_sp: ptr::null_mut(), ss_flags: libc::SS_DISABLE, ss_size: bytes };
            // SAFETY: disabling touches no memory; destructors of thread-locals do not run in a handler.
            unsafe { libc::sigaltstack(&disabled, ptr::null_mut()) };
        }
        // SAFETY: the mapping is ours, and no longer the alternate stack of this thread, the only one that
        // ever used it.
        unsafe { sys::release(start, bytes) };
    }
}

fn current_alternate_stack() -> libc::stack_t {
    let mut current = libc::stack_t { ss_sp: ptr::null_mut(), ss_flags: libc::SS_DISABLE, ss_size: 0 };
    // SAFETY: the kernel writes one stack_t to a live variable.
    unsafe { libc::sigaltstack(ptr::null(), &mut current) };
    current
}

fn current_action(signal: libc::c_int) -> libc::sigaction {
    // SAFETY: all zeros is a valid sigaction, and the kernel writes one to a live variable.
    unsafe {
        let mut action = mem::zeroed();
        libc::sigaction(signal, ptr::null(), &mut action);
        action
    }
}

fn set_action(signal: libc::c_int, action: &libc::sigaction) {
    // SAFETY: the action is the default one, one that was set before, or `on_fault`, which has the
    // signature that its flags promise.
    unsafe { libc::sigaction(signal, action, ptr::null_mut()) };
}

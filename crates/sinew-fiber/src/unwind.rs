//! Terminal signals on their way out: what a stack is unwound with, and how it is read at the end.
//!
//! A terminal signal is a [`Raised`] that travels as the payload of an unwind, started by
//! `std::panic::resume_unwind`, so destructors run and no panic hook prints. Bodies and roots catch it at
//! their first frame. A panic that user code starts arrives at the same place and becomes an error signal
//! whose value is a [`Panic`]; its place is only known to the process's panic hook, so we chain one in front
//! that notes the place in the record of the running fiber and prints nothing for it, unless the process is
//! about to abort.

use std::any::Any;
use std::fmt;
use std::panic::{self, AssertUnwindSafe, PanicHookInfo};

use sinew_core::Signal;
use sinew_sync::statics::Once;

use crate::record::{Record, Scope};
use crate::thread;
use crate::trace::Trace;
use crate::value::Value;

/// A signal that was raised: which one, with what, and where.
///
/// This is what [`protect`](crate::protect) returns, what an iteration yields for an error that nobody
/// caught, and the payload with which a stack is unwound.
pub struct Raised {
    /// The signal.
    pub signal: Signal,
    /// What was raised with it.
    pub value: Value,
    /// Where it was raised.
    pub trace: Option<Box<Trace>>,
}

impl Raised {
    /// True if this is the error with which a cancelled or dropped body is ended, or a wait that was refused because its
    /// task is cancelled.
    pub fn is_cancelled(&self) -> bool {
        self.value.is::<crate::Cancelled>()
            || self
                .value
                .downcast_ref::<crate::Refused>()
                .is_some_and(|refused| refused.reason() == crate::Reason::Cancelled)
    }
}

impl std::error::Error for Raised {}

impl fmt::Display for Raised {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {:?}", self.signal, self.value)?;
        match &self.trace {
            Some(trace) if f.alternate() => write!(f, "\n{trace}"),
            _ => Ok(()),
        }
    }
}

/// The message with its trace: it is what `unwrap` and `main` print.
impl fmt::Debug for Raised {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self:#}")
    }
}

/// The value of the error signal that a panic becomes.
pub struct Panic {
    /// What the panic said.
    pub message: String,
    /// Where it was, as `file:line:column`; none if another panic hook replaced ours.
    pub location: Option<String>,
    /// The payload, as `std::panic::catch_unwind` gives it.
    pub payload: Box<dyn Any + Send>,
}

impl fmt::Debug for Panic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.location {
            Some(location) => write!(f, "panicked at {location}: {}", self.message),
            None => write!(f, "panicked: {}", self.message),
        }
    }
}

/// What the panic hook noted for the fiber that panicked.
pub(crate) struct PanicSite {
    message: String,
    trace: Box<Trace>,
}

/// Puts our hook in front of the one that is there. Once per process, and false if it is not yet: std lets
/// nobody change the hook on a thread that unwinds.
pub(crate) fn install_hook() -> bool {
    static INSTALLED: Once = Once::new();
    if !INSTALLED.is_completed() && std::thread::panicking() {
        return false;
    }
    INSTALLED.call_once(|| {
        let previous = panic::take_hook();
        panic::set_hook(Box::new(move |info| {
            if !note(info) {
                previous(info);
            }
        }));
    });
    true
}

/// Notes where the running fiber panicked; false if no fiber is running.
fn note(info: &PanicHookInfo<'_>) -> bool {
    // SAFETY: the running fiber's record is valid while it runs, and it runs: this is its stack.
    let Some(record) = (unsafe { thread::running().as_ref() }) else { return false };
    record.unwinding.set(true);
    if record.of_thread.get() {
        return false;
    }
    if is_about_to_abort(info) {
        tell_last_words(record);
        return false;
    }
    if let Some(location) = info.location() {
        let trace = Trace::capture_panic(record, location);
        let message = message_of(info.payload());
        record.panic_site.set(Some(Box::new(PanicSite { message, trace })));
    }
    true
}

/// True for the panic by which std says that an unwind cannot go on and that the process will abort.
fn is_about_to_abort(info: &PanicHookInfo<'_>) -> bool {
    let reasons = ["panic in a destructor during cleanup", "panic in a function that cannot unwind"];
    info.payload_as_str().is_some_and(|message| reasons.contains(&message))
}

/// Prints the panic that was noted instead of printed, because nobody will be able to catch it any more.
fn tell_last_words(record: &Record) {
    let label = record.label();
    match record.panic_site.take() {
        Some(site) => {
            eprintln!(
                "the last panic in fiber {label}, which cannot unwind: {}\n{}",
                site.message, site.trace
            );
        }
        None => eprintln!("a signal in fiber {label} cannot unwind"),
    }
}

fn message_of(payload: &(dyn Any + Send)) -> String {
    if let Some(text) = payload.downcast_ref::<&'static str>() {
        (*text).to_owned()
    } else if let Some(text) = payload.downcast_ref::<String>() {
        text.clone()
    } else {
        String::from("a payload that is no text")
    }
}

/// What the unwind that ended `record` carried.
#[cold]
pub(crate) fn classify(record: &Record, payload: Box<dyn Any + Send>) -> Raised {
    record.unwinding.set(false);
    let payload = match payload.downcast::<Raised>() {
        Ok(mut raised) => {
            // The fields are public, and anybody may unwind with one. A fiber that unwound has ended, whatever
            // the payload says: with a resumable status it would be continued on a stack that is gone.
            if !raised.signal.is_terminal() {
                raised.signal = Signal::Error;
            }
            return *raised;
        }
        Err(payload) => payload,
    };
    let message = message_of(&*payload);
    // An older panic that the body caught itself may have left its site behind.
    let site = record.panic_site.take().filter(|site| site.message == message);
    let (location, trace) = match site {
        Some(site) => (Some(site.trace.raised_at()), Some(site.trace)),
        None => (None, None),
    };
    Raised { signal: Signal::Error, value: Value::new(Panic { message, location, payload }), trace }
}

/// Runs `body` and returns what it unwinds with, if it does: the fiber is not unwinding any more then, unless it was
/// before. What [`re_raise`] raises again.
///
/// # Errors
///
/// The terminal signal or panic that ended `body`.
pub fn catch<T>(body: impl FnOnce() -> T) -> Result<T, Raised> {
    let me = thread::slot().get();
    let unwinding = me.unwinding.get();
    panic::catch_unwind(AssertUnwindSafe(body)).map_err(|payload| {
        let raised = classify(me, payload);
        me.unwinding.set(unwinding); // we may be in a destructor: the unwind around us goes on
        raised
    })
}

/// Goes on unwinding with what [`catch`] returned. On a thread's own root a panic goes on as itself: it was told already.
#[track_caller]
pub fn re_raise(raised: Raised) -> ! {
    let me = thread::slot().get();
    if me.of_thread.get() && raised.value.is::<Panic>() {
        let panic = raised.value.downcast::<Panic>().expect("it is one");
        me.unwinding.set(true);
        panic::resume_unwind(panic.payload);
    }
    unwind(me, raised)
}

/// Unwinds the running fiber, `record`, with `raised`. On a thread's own root, where nobody could catch it,
/// this is an ordinary panic that says what was raised.
///
/// Inlined into whoever raises: each frame of ours would be one more to unwind.
#[inline(always)]
#[track_caller]
pub(crate) fn unwind(record: &Record, raised: Raised) -> ! {
    panic::resume_unwind(payload(record, raised))
}

#[cold]
#[inline(never)]
#[track_caller]
fn payload(record: &Record, raised: Raised) -> Box<dyn Any + Send> {
    if record.of_thread.get() && !record.own.get().any(Scope::FFI) {
        panic!(
            "uncaught {raised:#}\n  nobody caught it: add {} to the mask of the fiber, or call it inside `protect`",
            if raised.signal == Signal::Error { "Mask::ERROR" } else { "Mask::TERMINATION" }
        );
    }
    record.unwinding.set(true);
    Box::new(raised)
}

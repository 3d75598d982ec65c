//! Attributes panics and stack overflows to the fiber that runs.
//!
//! The place of a panic is only known to the process's panic hook, so we chain one in front that
//! notes the place in the record of the running fiber and prints nothing for it, unless the process
//! is about to abort. The signal handler of overflows ([`crate::overflow`]) asks
//! [`describe_overflow`] whose guard was touched.
//!
//! Both are called in the middle of anything: they find the running fiber by [`thread::running`],
//! which touches one thread-local without initialiser or destructor.

use std::cell::Cell;
use std::panic::{self, PanicHookInfo};
use std::ptr;

use sinew_sync::statics::Once;

use crate::overflow::{self, Overflowed};
use crate::record::{Home, Record};
use crate::report::report;
use crate::thread;
use crate::unwind::{PanicSite, message_of};

thread_local! {
    static PREPARED: Cell<bool> = const { Cell::new(false) };
}

/// Makes sure that panics and overflows in a fiber of this thread are told as its own.
#[inline]
pub(crate) fn prepare() {
    if !PREPARED.with(Cell::get) {
        prepare_first();
    }
}

#[cold]
fn prepare_first() {
    overflow::install(describe_overflow);
    overflow::prepare_thread();
    let installed = install_hook();
    PREPARED.with(|prepared| prepared.set(installed));
}

/// Tells the signal handler whose guard lies at `address`: that of the running fiber, or of one that a root
/// runs on, or nobody's.
fn describe_overflow(address: usize) -> Option<Overflowed> {
    let mut running = thread::running();
    // SAFETY: the running fiber's record is valid while it runs, and it lies at the end of the stack that
    // did not overflow; a root outlives its run, and what runs below it outlives the root's.
    while let Some(record) = unsafe { running.as_ref() } {
        let Home::Stack(stack) = &record.home else {
            running = record.runs_on.get();
            continue;
        };
        if !stack.guard().contains(&address) {
            return None;
        }
        // SAFETY: only this thread writes the name, and it is here. The process ends before it could be dropped.
        let name = unsafe { (*record.name.as_ptr()).as_deref() };
        let (name, name_length) = name.map_or((ptr::null(), 0), |name| (name.as_ptr(), name.len()));
        return Some(Overflowed {
            is_task: record.is_root(),
            name,
            name_length,
            id: record.id.get(),
            size: stack.size(),
            tag: overflow::current_tag(),
        });
    }
    None
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
        let trace = record.capture_panic(location);
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
            report(format_args!(
                "the last panic in fiber {label}, which cannot unwind: {}\n{}",
                site.message, site.trace
            ));
        }
        None => report(format_args!("a signal in fiber {label} cannot unwind")),
    }
}

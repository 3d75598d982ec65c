//! What the library says on standard error, for people: nothing that it prints panics, and what is lost is counted.
//!
//! Standard error may be a pipe that nobody reads any more, or a file on a full disk, and reports come from destructors that
//! run while a stack unwinds and from threads that must go on. `eprintln!` would panic there. So whatever Sinew prints goes
//! through [`report`], or through [`write_stderr`] where the caller counts its losses itself.
//!
//! A report is made into one text and handed to the system by one call, so that reports of several threads do not mix. (The
//! system takes what is left of it by further calls if it takes a part only, as it may with a pipe that is almost full.) No
//! lock is held meanwhile, neither ours nor std's: if standard error is a pipe that is full and not read, the calling thread
//! waits, as that of any program does, and others go on. On a descriptor that does not block, a report that does not fit is
//! lost.
//!
//! The count is a statistic of its own, ordered with nothing.

use std::fmt::{self, Write as _};
use std::fs::File;
use std::io::{self, Write as _};
use std::mem::ManuallyDrop;
use std::os::fd::FromRawFd;

use sinew_sync::statics::{AtomicU64, Ordering};

use crate::terminal::catch;

static LOST: AtomicU64 = AtomicU64::new(0);

/// Returns how many reports of Sinew this process has lost, because standard error did not take them: a pipe that nobody
/// reads, a full disk. Nothing else is done about it.
pub fn lost_reports() -> u64 {
    LOST.load(Ordering::Relaxed)
}

/// Prints a report to standard error, with a line break at its end. Never panics; counts the report as lost if standard error
/// does not take all of it.
///
/// What is reported may be a value of the user's: if its text cannot be made, because that panics or fails, the report says so.
pub fn report(text: fmt::Arguments<'_>) {
    let mut line = String::new();
    let made = catch(|| line.write_fmt(text));
    if !matches!(made, Ok(Ok(()))) {
        line.push_str(" (the rest of this text could not be made)");
    }
    std::mem::forget(made.err()); // what was raised may raise again when it is dropped
    if !line.ends_with('\n') {
        line.push('\n');
    }
    if write_stderr(line.as_bytes()).is_err() {
        LOST.fetch_add(1, Ordering::Relaxed);
    }
}

/// Writes all of `bytes` to standard error, by one call if the system takes them at once.
///
/// # Errors
///
/// What the system says if it does not take all of them.
pub fn write_stderr(bytes: &[u8]) -> io::Result<()> {
    // SAFETY: the descriptor is not closed here.
    let stderr = ManuallyDrop::new(unsafe { File::from_raw_fd(libc::STDERR_FILENO) });
    (&*stderr).write_all(bytes)
}

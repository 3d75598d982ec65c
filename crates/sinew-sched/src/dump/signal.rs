//! Dumps that a signal asks for.
//!
//! For each signal that some runtime wants dumps for, a thread of ours listens to it, as anybody could ([`Signals`]), and
//! prints dumps of the runtimes that want them. It stays when those have ended: a signal then does nothing.

use std::io::{self, Write};
use std::ptr;

use sinew_sync::statics::{Mutex, MutexGuard};
use sinew_sync::thread;

use super::Backtraces;
use crate::shared::Shared;
use crate::signal::Signals;

/// Tasks that have backtraces in a dump that a signal asks for.
const MOST_TRACED: usize = 100;

struct Wanted {
    /// The signals that have threads.
    signals: Vec<i32>,
    /// Who wants dumps, for which signal.
    by: Vec<(i32, &'static Shared)>,
}

fn wanted() -> MutexGuard<'static, Wanted> {
    static WANTED: Mutex<Wanted> = Mutex::new(Wanted { signals: Vec::new(), by: Vec::new() });
    WANTED.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}

/// Has `signal` print dumps of the runtime.
pub(crate) fn listen(signal: i32, shared: &'static Shared) -> io::Result<()> {
    let mut wanted = wanted();
    if !wanted.signals.contains(&signal) {
        let signals = Signals::new([signal])?;
        thread::Builder::new().name("sinew-dump".to_owned()).spawn(move || print_dumps(&signals))?;
        wanted.signals.push(signal);
    }
    wanted.by.push((signal, shared));
    Ok(())
}

/// The runtime has ended.
pub(crate) fn forget(shared: &Shared) {
    wanted().by.retain(|(_, by)| !ptr::eq(*by, shared));
}

fn print_dumps(signals: &Signals) {
    while let Ok(signal) = signals.recv() {
        let by = wanted().by.clone();
        for (_, shared) in by.iter().filter(|(wanted, _)| *wanted == signal) {
            let dump = shared.dump_with(Backtraces::UpTo(MOST_TRACED), None);
            let _ = write!(io::stderr(), "{dump}"); // there is nobody to tell
        }
    }
}

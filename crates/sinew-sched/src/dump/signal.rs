//! Dumps that a signal asks for.
//!
//! One thread of the process prints them. The listener of a signal notes the runtimes that want a dump for it, and
//! unparks that thread, since printing may block and the thread that tells listeners must not. The thread stays when the
//! runtimes have ended: a signal then does nothing.

use std::io;
use std::mem;
use std::sync::Arc;

use sinew_fiber::raw::report;
use sinew_sync::statics::{Mutex, MutexGuard};
use sinew_sync::thread::{self, Thread};

use super::Backtraces;
use crate::cpu;
use crate::os_signal::{self, Listener};
use crate::shared::{RuntimeId, SharedRef};

/// Tasks that have backtraces in a dump that a signal asks for.
const MAX_TRACED: usize = 100;

struct Wanted {
    /// The signals that are listened to.
    signals: Vec<i32>,
    /// Runtimes that want dumps, and for which signal.
    by: Vec<(i32, RuntimeId)>,
    /// Runtimes whose dumps are to be printed.
    due: Vec<RuntimeId>,
    /// The thread that prints was started.
    has_printer: bool,
    /// That thread, once it runs. It looks at `due` after it has set this.
    printer: Option<Thread>,
}

impl Wanted {
    /// Forgets runtimes that have ended. Returns the others, to be dropped without the lock: the last reference to a
    /// runtime frees it, which wakes futures of other executors.
    #[must_use = "dropping it may run foreign code: drop the lock first"]
    fn forget_ended(&mut self) -> Vec<SharedRef> {
        let mut alive = Vec::new();
        self.by.retain(|(_, runtime)| match runtime.upgrade() {
            Some(shared) => {
                alive.push(shared);
                true
            }
            None => false,
        });
        alive
    }
}

fn wanted() -> MutexGuard<'static, Wanted> {
    static WANTED: Mutex<Wanted> = Mutex::new(Wanted {
        signals: Vec::new(),
        by: Vec::new(),
        due: Vec::new(),
        has_printer: false,
        printer: None,
    });
    WANTED.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}

/// Prints dumps of the runtime when `signal` arrives.
pub(crate) fn listen(signal: i32, runtime: RuntimeId) -> io::Result<()> {
    let mut wanted = wanted();
    if !wanted.has_printer {
        thread::Builder::new().name("sinew-dump".to_owned()).spawn(print_dumps)?;
        wanted.has_printer = true;
    }
    if !wanted.signals.contains(&signal) {
        let listener: Arc<dyn Listener> = Arc::new(DumpListener(signal));
        os_signal::listen(&[signal], &listener)?;
        wanted.signals.push(signal);
    }
    let alive = wanted.forget_ended();
    wanted.by.push((signal, runtime));
    drop(wanted);
    drop(alive);
    Ok(())
}

/// Listens to this signal.
struct DumpListener(i32);

impl Listener for DumpListener {
    fn tell(&self, signal: i32) {
        if signal != self.0 {
            return;
        }
        let mut wanted = wanted();
        let alive = wanted.forget_ended();
        let by: Vec<RuntimeId> =
            wanted.by.iter().filter(|(by, _)| *by == signal).map(|(_, by)| *by).collect();
        wanted.due.extend(by);
        wanted.printer.iter().for_each(Thread::unpark);
        drop(wanted);
        drop(alive);
    }
}

fn print_dumps() {
    cpu::unbind();
    wanted().printer = Some(thread::current());
    loop {
        let due = mem::take(&mut wanted().due);
        for shared in due.iter().filter_map(|runtime| runtime.upgrade()) {
            let dump = shared.dump_with(Backtraces::UpTo(MAX_TRACED), None);
            report(format_args!("{dump}"));
        }
        if due.is_empty() {
            thread::park();
        }
    }
}

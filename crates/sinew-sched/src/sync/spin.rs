//! A short wait on the processor, before a long one in a queue.

use sinew_sync::statics::OnceLock;
use sinew_sync::{available_parallelism, hint};

use crate::worker;

/// How often it is tried; the pauses in between double. Some microseconds in all.
const ROUNDS: u32 = 6;

/// Tries some times, with growing pauses. Not at all where nobody could make it true meanwhile: on the only processor,
/// or on the only worker of a runtime.
pub(super) fn spin(mut tried: impl FnMut() -> bool) -> bool {
    let pauses = |round: u32| (0..1 << round).for_each(|_| hint::spin_loop());
    others_run()
        && (0..ROUNDS).any(|round| {
            pauses(round);
            tried()
        })
}

fn others_run() -> bool {
    static SEVERAL: OnceLock<bool> = OnceLock::new();
    let workers = worker::current().map(|worker| worker.shared.inboxes.len());
    workers != Some(1) && *SEVERAL.get_or_init(|| available_parallelism() > 1)
}

//! A short wait on the processor, before a long one in a queue.

use sinew_sched::raw;
use sinew_sync::hint;

/// How long the pauses between the tries are, in all one to four microseconds. Long ones, because each try takes the
/// lock's cache line from whoever uses it: with short ones two workers that want a lock all the time use it half as
/// often.
const PAUSES: [u32; 2] = [32, 64];

/// Tries some times, with growing pauses. Not at all where nobody could make it true meanwhile: on the only processor,
/// or on the only worker of a runtime.
pub(super) fn spin(mut tried: impl FnMut() -> bool) -> bool {
    let pause = |times: u32| (0..times).for_each(|_| hint::spin_loop());
    others_run()
        && PAUSES.into_iter().any(|times| {
            pause(times);
            tried()
        })
}

fn others_run() -> bool {
    raw::workers() != Some(1) && raw::parallelism() > 1
}

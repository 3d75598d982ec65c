//! Stopping or ending as another fiber did.

use sinew_core::Signal;

use super::Fiber;
use crate::outside::{reach_root, take_interrupts};
use crate::raised::Raised;
use crate::refused::{Operation, Reason, Refused};
use crate::suspend::suspend;
use crate::switch::switch;
use crate::terminal::unwind;
use crate::thread;
use crate::value::{IntoValue, Value};
use crate::way::{Decision, decide};

/// Re-raises the signal that `fiber` stopped with from the running fiber, with `value` and with the trace of
/// the first raise.
///
/// - `fiber` ended with an error or user0 to user4: the running fiber ends the same way.
/// - `fiber` returned: the running fiber returns `value`, as with [`signal`](crate::signal) and [`Signal::Ok`].
/// - `fiber` is paused: the running fiber stops the same way; resuming it resumes `fiber` first, and what
///   `fiber` then stops with is the result here.
///
/// # Errors
///
/// Refused if `fiber` is new or running, or is the child of another, or if the signal is refused; and, if `fiber`
/// returned, on a root that is no task, where no fiber is that could return.
#[track_caller]
pub fn propagate(value: impl IntoValue, fiber: &Fiber) -> Result<Value, Refused> {
    let value = value.into_value();
    let me = thread::slot().get();
    take_interrupts(me);
    let record = fiber.record();
    let status = record.status();
    let refused = |reason| Err(record.refuse(Operation::Propagate, reason));
    let Some(signal) = status.signal() else { return refused(Reason::Status) };
    if signal == Signal::Ok && me.is_root() && !me.runs_tasks() {
        return refused(Reason::Status);
    }
    if signal.is_terminal() {
        if fiber.belongs_elsewhere(me) {
            return refused(Reason::OtherTask);
        }
        unwind(me, Raised { signal, value, trace: record.trace.take() });
    }
    fiber.admit(me, Operation::Propagate)?;
    // No interrupt is taken from here on: while `me` is stopped for one, anything may happen to `fiber`.
    match decide(me, signal, None)? {
        Decision::Suspend(top) => {
            // `me` stops as if `fiber`, which it resumed, had just raised the signal.
            let leaf = record.leaf();
            let _unread = leaf.value.replace(Some(value));
            top.leaf.set(leaf);
            fiber.link(me);
            for below in record.descendants() {
                below.hang_below(below.parent().expect("`me` is the first one's"));
            }
            let slot = thread::slot();
            slot.set(top.parent.get());
            // SAFETY: as in `suspend`; `record` is linked below `me`, so whoever stops it next goes on at
            // `record.resumer`, which is here.
            unsafe { switch(record.resumer.as_ptr(), top.resumer.get()) };
            fiber.unlink(me);
            let _ = fiber.stopped(me);
            Ok(fiber.take_value())
        }
        // `fiber` is not lost with it: it stays as it was, for whoever else has it.
        Decision::Abandon(ended) => suspend(thread::slot(), me, ended, signal, value),
        Decision::Root(root) => {
            let value = reach_root(me, root, signal, value, None)?;
            let _ = fiber.resume(value)?;
            Ok(fiber.take_value())
        }
    }
}

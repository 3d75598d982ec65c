//! Stopping the fibers from the one that raised a signal up to the one whose resumer catches it.
//!
//! The signal is the status of every fiber from the raiser to that one, and one switch leads from the
//! raiser to the resumer.
//!
//! [`suspend`] is inlined into the frame that raises: a function of ours that is entered before a
//! switch and returns after it would have its return address mispredicted.

use sinew_core::Signal;

use crate::quarantine;
use crate::record::{Delivery, Record, Scope};
use crate::refused::{Reason, Refused};
use crate::switch::switch;
use crate::terminal::raise;
use crate::thread::{self, Slot};
use crate::value::Value;

/// Stops the fibers from `me`, which runs, up to `top`, and goes on in the resumer of `top`. Returns when
/// `me` is continued.
#[inline(always)]
#[track_caller]
pub(crate) fn suspend(
    slot: Slot,
    me: &Record,
    top: &Record,
    signal: Signal,
    value: Value,
) -> Result<Value, Refused> {
    me.own_status.set(signal.into());
    if !std::ptr::eq(me, top) {
        top.leaf.set(me);
    }
    me.put(value);
    slot.set(top.parent.get());
    // SAFETY: `top` runs or waits below its parent, so its parent is suspended at `top.resumer` in
    // `Fiber::enter` or `propagate`, whose frame stays until `top` stops; nobody else knows that pointer.
    // `me.sp` is read by whoever continues `me`, and the record outlives that.
    unsafe { switch(me.sp.as_ptr(), top.resumer.get()) };
    match me.delivery.get() {
        Delivery::Value => Ok(me.value.take().expect("a continued fiber got a value")),
        other => continued_to_end(me, signal, other),
    }
}

#[cold]
#[track_caller]
fn continued_to_end(me: &Record, signal: Signal, delivery: Delivery) -> Result<Value, Refused> {
    me.delivery.set(Delivery::Value);
    let value = me.value.take().expect("a continued fiber got a value");
    if delivery == Delivery::Ending {
        return Err(me.refuse_signal(signal, Reason::Ending));
    }
    raise(Signal::Error, value)
}

/// Leaves the running fiber for ever, if it is in the chain of one that is being dropped: that one is quarantined, and
/// whoever drops it goes on. For code that must not return because others borrow from its stack.
///
/// Returns false if there is no such fiber; and if one of those that would be left is unwinding, because then the
/// thread would be unwinding for ever.
pub fn abandon() -> bool {
    let me = thread::slot().get();
    for record in me.ancestors() {
        if record.is_unwinding() {
            return false;
        }
        if record.own.get().any(Scope::ENDING) {
            quarantine::give_up(record);
            let _ = suspend(thread::slot(), me, record, Signal::Await, Value::UNIT);
            unreachable!("a quarantined fiber is not continued");
        }
    }
    false
}

//! The end of a fiber that its owner gives up.
//!
//! A stack that has started ends by running to its end. If the owner drops a suspended fiber, it is therefore
//! resumed with an error that it raises at once, and again for each signal that it raises on the way, until it
//! ends; a body that goes on and on is quarantined: its record and stack are never touched again.

use sinew_core::{Signal, Status};

use super::Fiber;
use crate::control::Cancelled;
use crate::quarantine;
use crate::raised::Raised;
use crate::record::{Delivery, Record, Scope};
use crate::thread;
use crate::value::Value;

impl Fiber {
    /// Ends the fiber as dropping it does, and says how it ended: `Err` if with anything but a return or the
    /// error [`Cancelled`] that ends it.
    ///
    /// # Errors
    ///
    /// The signal that it ended with instead, for example the panic of a destructor.
    pub fn end(self) -> Result<(), Raised> {
        self.end_now();
        match self.take_raised() {
            Raised { signal: Signal::Ok, .. } => Ok(()),
            raised if raised.is_cancelled() => Ok(()),
            raised => Err(raised),
        }
    }

    /// Ends a new fiber with the error `value` and drops its body.
    #[cold]
    #[inline(never)]
    pub(super) fn end_unstarted(&self, value: Value) {
        let record = self.record();
        record.own_status.set(Status::Error);
        record.value.set(Some(value));
        if let Some((body, drop_body)) = record.body.take() {
            // SAFETY: the body of a fiber that never ran, taken so that nobody drops or runs it again.
            unsafe { drop_body(body) };
        }
    }

    #[cold]
    fn end_now(&self) {
        let record = self.record();
        match record.status() {
            status if status.is_terminal() => return,
            Status::New => return self.end_unstarted(Value::new(Cancelled)),
            _ if record.quarantined.get() => return,
            // Its resumer borrows the handle that is being dropped: only leaks get here.
            _ if !record.parent.get().is_null() => return quarantine::give_up(record),
            _ => (),
        }
        let slot = thread::slot();
        let me = slot.get();
        record.own.set(record.own.get().and(Scope::ENDING));
        let leaf = record.leaf();
        self.adopt_chain(me);
        let shielded = leaf.is_shielded_within(record);
        leaf.delivery.set(if shielded { Delivery::Ending } else { Delivery::Error });
        let _unread = leaf.value.replace(Some(Value::new(Cancelled)));
        self.enter(slot, me, leaf);
    }
}

impl Drop for Fiber {
    #[inline]
    fn drop(&mut self) {
        /// Gives the owner's reference up, also if what a body that never ran had captured panics when it is
        /// dropped.
        struct Owned(*const Record);
        impl Drop for Owned {
            #[inline]
            fn drop(&mut self) {
                // SAFETY: the owner's reference keeps the record.
                let record = unsafe { &*self.0 };
                if record.status().is_terminal() || record.quarantined.get() {
                    // SAFETY: the owner's reference. The body has ended, or the record is quarantined, which
                    // holds a reference for ever.
                    unsafe { Record::release(self.0) };
                }
            }
        }
        let owned = Owned(self.record);
        if !self.status().is_terminal() {
            self.end_now();
        }
        drop(owned);
    }
}

//! What tests about ends share: a log, and guards that act when they are dropped.
#![allow(dead_code, reason = "not every test file uses all of it")]

use std::cell::RefCell;
use std::rc::Rc;

/// What happened, in order.
#[derive(Clone, Default)]
pub(crate) struct Log(Rc<RefCell<Vec<String>>>);

impl Log {
    pub(crate) fn new() -> Log {
        Log::default()
    }

    pub(crate) fn note(&self, text: impl Into<String>) {
        self.0.borrow_mut().push(text.into());
    }

    /// Notes `text` when dropped.
    pub(crate) fn guard(&self, text: &'static str) -> OnDrop<impl FnMut() + 'static> {
        let log = self.clone();
        OnDrop(move || log.note(text))
    }

    /// What was noted since the last call.
    pub(crate) fn take(&self) -> Vec<String> {
        self.0.take()
    }
}

/// Calls its function when dropped.
pub(crate) struct OnDrop<F: FnMut()>(pub(crate) F);

impl<F: FnMut()> Drop for OnDrop<F> {
    fn drop(&mut self) {
        (self.0)();
    }
}

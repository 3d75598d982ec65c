//! The outcome of a change, reported to a caller that does not wait for it.

use super::disk::Failure;
use super::writer::Answer;

/// Reports an outcome once: that of the commit, or that the store is closed if the writer thread
/// ends without an answer.
///
/// `tell` runs on the writer thread, so it must not be user code: see `save.rs`.
pub(super) struct Report(Option<Box<dyn FnOnce(Answer) + Send>>);

impl Report {
    pub(super) fn new(tell: impl FnOnce(Answer) + Send + 'static) -> Report {
        Report(Some(Box::new(tell)))
    }

    pub(super) fn tell(mut self, answer: Answer) {
        if let Some(tell) = self.0.take() {
            tell(answer);
        }
    }

    /// Drops the report; nothing is reported.
    pub(super) fn withdraw(mut self) {
        self.0 = None;
    }
}

impl Drop for Report {
    fn drop(&mut self) {
        if let Some(tell) = self.0.take() {
            tell(Err(Failure::Closed));
        }
    }
}

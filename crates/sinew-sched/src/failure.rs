//! A failure of a supervised task, which its supervisor sees or its joiner does; if neither does, it is reported.
//!
//! The supervisor sees it by receiving its event, the joiner by taking the outcome. Each that cannot do so any more gives
//! the failure up: the event, when its queue is closed, and the handle, when it is dropped without a join. Both do so
//! once and under one lock, so the second of them knows that it is the second, and reports. The event has the value and
//! the trace, so an event that gives up first leaves what is to be reported.
//!
//! Model: `events_failure_is_reported_once`.

use std::fmt;

use sinew_fiber::raw::report;
use sinew_sync::{Arc, Mutex};

/// Prints a failure that nobody sees otherwise.
pub(crate) fn report_failure(task: impl fmt::Display, failure: impl fmt::Display) {
    report(format_args!("task {task} failed, and nobody joins it: {failure}"));
}

/// What the event of a failure and the outcome of its task share.
pub(crate) struct Failure(Mutex<GivenUp>);

/// Which of the two has given the failure up first.
enum GivenUp {
    Neither,
    /// The event, which leaves its text.
    Event(String),
    Handle,
}

impl Failure {
    pub(crate) fn new() -> Failure {
        Failure(Mutex::new(GivenUp::Neither))
    }

    /// The supervisor does not receive the event any more, which says `text`. Returns what the caller has to report.
    pub(crate) fn unread(&self, text: String) -> Option<String> {
        let mut given_up = self.0.lock();
        match *given_up {
            GivenUp::Handle => Some(text),
            _ => {
                *given_up = GivenUp::Event(text);
                None
            }
        }
    }

    /// Nobody joins the task any more. Returns what the caller has to report.
    fn unjoined(&self) -> Option<String> {
        match std::mem::replace(&mut *self.0.lock(), GivenUp::Handle) {
            GivenUp::Event(text) => Some(text),
            _ => None,
        }
    }
}

impl fmt::Debug for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Failure")
    }
}

/// The outcome of a supervised task that raised something, for its joiner: the text, since the supervisor has the value.
#[derive(Debug, thiserror::Error)]
#[error("{text}")]
pub struct SupervisedError {
    text: String,
    failure: Option<Arc<Failure>>,
}

impl SupervisedError {
    pub(crate) fn new(text: String, failure: Option<Arc<Failure>>) -> SupervisedError {
        SupervisedError { text, failure }
    }

    /// The outcome of `task` is dropped, and was not taken by a joiner: reports it if the supervisor did not see it either.
    pub(crate) fn goes_unjoined(&self, task: impl fmt::Display) {
        let text = self.failure.as_ref().and_then(|failure| failure.unjoined());
        text.into_iter().for_each(|text| report_failure(&task, text));
    }
}

#[cfg(test)]
mod tests {
    use sinew_sync::{model, thread};

    use super::*;

    /// A queue that is closed against a handle that is dropped: one of them reports the failure.
    #[test]
    fn a_failure_that_nobody_sees_is_reported_once() {
        model("events_failure_is_reported_once", || {
            let failure = Arc::new(Failure::new());
            let supervisor = {
                let failure = failure.clone();
                thread::spawn(move || failure.unread("text".to_owned()))
            };
            let reports = [failure.unjoined(), supervisor.join().unwrap()];
            let reported: Vec<_> = reports.into_iter().flatten().collect();
            assert_eq!(reported, ["text"]);
        });
    }
}

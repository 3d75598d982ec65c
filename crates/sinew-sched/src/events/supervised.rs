//! A task with a supervisor: the hook that stops it, and how it tells of its end and of anything else.
//!
//! Code that runs in the task finds its supervisor through the hook of its root, whatever the depth of fibers; a future is
//! polled with such a hook as well.

use std::any::Any;
use std::borrow::Cow;

use sinew_core::{Mask, Signal};
use sinew_fiber::raw::{Remote, is_shielded, polling, with_hook};
use sinew_fiber::{CancelLevel, Cancelled, Hook, IntoValue, Raised, Trace, Value};
use sinew_sync::Arc;

use super::{Answer, Event, EventSender, Place, Stopped};
use crate::core::{Core, park_on_await};
use crate::failure::{Failure, SupervisedError};
use crate::notes::What;
use crate::reach;
use crate::task::TaskRef;
use crate::task_id::TaskId;
use crate::wait_kind::WaitKind;
use crate::worker;

/// Which signals stop a task that has a supervisor, besides those that end it.
pub(crate) const STOPPING: Mask =
    Mask::YIELD.union(Mask::of(Signal::User5)).union(Mask::of(Signal::User6)).union(Mask::of(Signal::User7));

/// The hook of a task with a supervisor.
pub(crate) struct Supervised {
    pub(crate) events: EventSender,
    pub(crate) task: TaskId,
    pub(crate) name: Option<Cow<'static, str>>,
    /// Which signals stop the task.
    pub(crate) stops: Mask,
}

impl Supervised {
    /// Tells how the task on `core` ended. What it raised goes to the supervisor; whoever joins gets its text.
    ///
    /// The text, and the destructor of what nobody receives, are foreign code: it runs as part of the task, and may
    /// raise, but not block.
    pub(crate) fn ended<T>(self, core: &Core, outcome: Result<T, Raised>) -> Result<T, Raised> {
        let task = self.task.slot();
        let (unread, outcome) = match outcome {
            Ok(result) => (self.push(Signal::Ok, Value::UNIT, None), Ok(result)),
            Err(raised) if raised.value.is::<Cancelled>() => {
                let joined = Raised { signal: raised.signal, value: Value::new(Cancelled), trace: None };
                (self.push(raised.signal, raised.value, raised.trace), Err(joined))
            }
            Err(raised) => {
                let shown = core.run(task, || polling(|| format!("{:?}", raised.value)));
                let text = shown.unwrap_or_else(|again| {
                    std::mem::forget(again); // the first error is the one that is told
                    "a value that cannot be shown".to_owned()
                });
                let (unread, joined) = self.raised(raised, text);
                (unread, Err(joined))
            }
        };
        let drop_unread = || {
            if let Some(mut event) = unread {
                event.goes_unread();
            }
            drop(self);
        };
        if let Err(raised) = core.run(task, || polling(drop_unread)) {
            std::mem::forget(raised); // there is nobody to tell
        }
        outcome
    }

    /// Tells what the task ended with; returns what whoever joins gets, and the event if nobody can receive it.
    pub(crate) fn raised(&self, raised: Raised, text: String) -> (Option<Event>, Raised) {
        // A cancelled task has not failed.
        let failure = (!raised.is_cancelled()).then(|| Arc::new(Failure::new()));
        let Raised { signal, value, trace } = raised;
        let event = Event { failure: failure.clone(), ..self.event(signal, value, trace) };
        let told = Value::error(SupervisedError::new(text, failure));
        (self.events.push(event), Raised { signal, value: told, trace: None })
    }

    #[must_use = "its destructor is run by the caller"]
    fn push(&self, signal: Signal, value: Value, trace: Option<Box<Trace>>) -> Option<Event> {
        self.events.push(self.event(signal, value, trace))
    }

    fn event(&self, signal: Signal, value: Value, trace: Option<Box<Trace>>) -> Event {
        let (task, name) = (self.task, self.name.clone());
        Event { task, name, signal, value, trace, stopped: None, failure: None }
    }
}

impl Hook for Supervised {
    fn remote(&self) -> Option<(&'static dyn Remote, u64)> {
        reach::remote()
    }

    fn tripped(&self) -> Option<Value> {
        reach::tripped_now()
    }

    fn as_any(&self) -> Option<&dyn Any> {
        Some(self)
    }

    fn stop(&self, signal: Signal, payload: Value) -> Value {
        if !self.stops.contains(signal) {
            return park_on_await(signal);
        }
        let (task, place) = (TaskRef::of(self.task), Arc::new(Place::new()));
        let stopped = Some(Stopped { task, place: place.clone() });
        drop(self.events.push(Event { stopped, ..self.event(signal, payload, None) }));
        loop {
            let word = &task.task.word;
            let ends = !is_shielded() && (word.level().is_some() || reach::tripped(self.task).is_some());
            match place.take(ends) {
                Some(Answer::Given(value)) => return value,
                Some(Answer::Never) => {
                    word.cancel(CancelLevel::Cancel); // inside a shield the task goes on, with nothing
                    return Value::UNIT;
                }
                _ if ends => return Value::UNIT, // whoever called us unwinds
                _ => worker::park_for(What::of(WaitKind::Answer)),
            }
        }
    }
}

/// Where the running task tells its supervisor, if it has one.
pub(crate) fn supervisor_of_running_task() -> Option<EventSender> {
    with_hook(|supervised: &Supervised| supervised.events.clone())
}

/// Tells the supervisor of the running task something, and goes on: the supervisor receives an [`Event`] that
/// [is a message](Event::is_message), with `value`. Never waits, so it may be called anywhere in the task, in fibers and
/// futures too.
///
/// The queue has no bound: a task that tells more than its supervisor receives fills the memory. Use a
/// channel with a capacity for a stream of values.
///
/// ```
/// use sinew_fiber::Signal;
/// use sinew_sched::{Events, Runtime, task, tell_supervisor};
///
/// Runtime::new().run(|| {
///     let events = Events::new();
///     let work = task().supervisor(&events).spawn(|| {
///         tell_supervisor("half done").unwrap();
///         42
///     });
///     let message = events.recv().unwrap();
///     assert!(message.is_message() && message.task == work.id());
///     assert_eq!(message.value.downcast::<&str>().unwrap(), "half done");
///     assert_eq!(events.recv().unwrap().signal, Signal::Ok);
///     assert_eq!(work.join().unwrap(), 42);
/// }).unwrap();
/// ```
///
/// # Errors
///
/// If the caller runs in no task, or in one without a supervisor, or if the supervisor's [`Events`](crate::Events) is
/// gone. The error has the value.
pub fn tell_supervisor(value: impl IntoValue) -> Result<(), TellError> {
    let mut item = Some(value.into_value());
    let told = with_hook(|supervised: &Supervised| {
        supervised.push(Signal::Yield, item.take().expect("it is told once"), None)
    });
    match told {
        Some(None) => Ok(()),
        Some(Some(unread)) => Err(TellError::SupervisorGone { item: unread.value }),
        None => Err(TellError::NoSupervisor { item: item.expect("nobody took it") }),
    }
}

/// Why a supervisor was not told.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TellError {
    /// The caller runs in no task that has a supervisor.
    #[error(
        "no supervisor to tell: start the task with `TaskBuilder::supervisor`, or with `inherit_supervisor` from a task that has one"
    )]
    NoSupervisor {
        /// What was to be told.
        item: Value,
    },
    /// The supervisor's [`Events`](crate::Events), and all its clones, were dropped.
    #[error("the supervisor is gone: nobody would receive the event, since its `Events` was dropped")]
    SupervisorGone {
        /// What was to be told.
        item: Value,
    },
}

//! What a supervisor is told: an event for each of its tasks that ended or stopped.
//!
//! An event is pushed by the task itself, before its slot is anybody else's; the queue has no bound, so pushing never
//! blocks and nothing is dropped. An event of a task that stopped holds the way to continue it: a place for one value,
//! which the task looks at after every wake-up. It names the task by its id, so one that is used late, or never, does
//! nothing to the slot's next task.

use std::borrow::Cow;
use std::collections::VecDeque;
use std::fmt;
use std::time::Duration;

use sinew_core::{Instant, Mask, Signal};
use sinew_fiber::raw::{Remote, is_shielded, polling};
use sinew_fiber::{Hook, IntoValue, Level, Raised, Refused, Trace, Value};
use sinew_sync::{Arc, Mutex};

use crate::clock::now;
use crate::core::{Core, park_on_await};
use crate::reach;
use crate::slots::TaskId;
use crate::task::TaskRef;
use crate::wait::{Awaited, Node, Queue, TOLD, Waiter, Waiting};
use crate::worker;

/// Which signals stop a task that has a supervisor, besides those that end it.
pub(crate) const STOPPING: Mask =
    Mask::YIELD.union(Mask::of(Signal::User5)).union(Mask::of(Signal::User6)).union(Mask::of(Signal::User7));

/// Where the tasks of a supervisor tell how they fare: see [`TaskBuilder::supervisor`](crate::TaskBuilder::supervisor).
///
/// ```
/// use sinew_sched::{Events, Runtime, task};
/// use sinew_fiber::Signal;
///
/// let events = Events::new();
/// Runtime::new().run(move || {
///     let worker = task().name("worker").supervisor(&events).spawn(|| panic!("no luck"));
///     let event = events.recv().unwrap();
///     assert_eq!((event.task, event.signal), (worker.id(), Signal::Error));
///     assert!(format!("{:?}", event.value).contains("no luck"));
/// }).unwrap();
/// ```
#[derive(Clone)]
pub struct Events {
    shared: Arc<Mutex<State>>,
}

struct State {
    events: VecDeque<Event>,
    waiters: Queue,
}

/// What happened to a task.
#[derive(Debug)]
#[non_exhaustive]
pub struct Event {
    /// The task.
    pub task: TaskId,
    /// Its name, if it has one.
    pub name: Option<Cow<'static, str>>,
    /// [`Signal::Ok`] if it returned; a terminal signal if it ended with that, as it does with the error that a panic or a
    /// cancel is; else the signal that it stopped on.
    pub signal: Signal,
    /// What it raised the signal with; a result goes to whoever joins.
    pub value: Value,
    /// Where it was raised.
    pub trace: Option<Box<Trace>>,
    stopped: Option<Stopped>,
}

impl Event {
    /// True if the task has stopped and can be continued. If the event is dropped instead, the task is cancelled: nobody
    /// else could continue it.
    pub fn is_stopped(&self) -> bool {
        self.stopped.is_some()
    }

    /// Continues a task that has stopped: `value` is what its signal returns. False if it has not stopped, or has been
    /// ended since.
    pub fn resume(mut self, value: impl IntoValue) -> bool {
        match self.stopped.take() {
            Some(stopped) => stopped.resume(value.into_value()),
            None => false,
        }
    }
}

/// A task that waits for its supervisor.
struct Stopped {
    task: TaskId,
    answer: Arc<Mutex<Answer>>,
}

enum Answer {
    /// The task waits for it.
    Awaited,
    Given(Value),
    /// The event was dropped.
    Never,
    /// The task does not wait any more.
    TooLate,
}

impl Stopped {
    fn resume(self, value: Value) -> bool {
        self.give(Answer::Given(value))
    }

    fn give(&self, answer: Answer) -> bool {
        let unwanted = {
            let mut place = self.answer.lock();
            match &*place {
                Answer::Awaited => std::mem::replace(&mut *place, answer),
                _ => answer,
            }
        };
        let given = matches!(unwanted, Answer::Awaited);
        if given {
            worker::unpark(TaskRef::of(self.task));
        }
        given
    }
}

impl Drop for Stopped {
    fn drop(&mut self) {
        self.give(Answer::Never);
    }
}

impl fmt::Debug for Stopped {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Stopped({})", self.task)
    }
}

impl Events {
    /// An empty queue.
    #[allow(clippy::new_without_default, reason = "a queue is told from another by who has it")]
    pub fn new() -> Events {
        let state = State { events: VecDeque::new(), waiters: Queue::new() };
        Events { shared: Arc::new(Mutex::new(state)) }
    }

    /// Waits for the next event.
    ///
    /// # Errors
    ///
    /// If the waiting task is cancelled, or must not block here.
    pub fn recv(&self) -> Result<Event, Refused> {
        self.recv_by(None).map(|event| event.expect("there is no deadline"))
    }

    /// Waits for the next event up to `timeout`; none if there was none.
    ///
    /// # Errors
    ///
    /// As for [`recv`](Events::recv).
    pub fn recv_timeout(&self, timeout: Duration) -> Result<Option<Event>, Refused> {
        self.recv_by(Some(now() + timeout))
    }

    /// The next event, if there is one.
    pub fn try_recv(&self) -> Option<Event> {
        self.shared.lock().events.pop_front()
    }

    /// How many events wait.
    pub fn len(&self) -> usize {
        self.shared.lock().events.len()
    }

    /// True if no event waits.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn recv_by(&self, deadline: Option<Instant>) -> Result<Option<Event>, Refused> {
        loop {
            let node = Node::new(0);
            {
                let mut state = self.shared.lock();
                if let Some(event) = state.events.pop_front() {
                    return Ok(Some(event));
                }
                // SAFETY: `Waiting` takes it out before it goes.
                unsafe { state.waiters.push(&node) };
            }
            if !Waiting::new(self, &node).wait(deadline)? {
                return Ok(None);
            }
        }
    }

    fn push(&self, event: Event) {
        let waiter = {
            let mut state = self.shared.lock();
            state.events.push_back(event);
            state.waiters.tell(TOLD)
        };
        waiter.into_iter().for_each(Waiter::wake);
    }
}

impl Awaited for Events {
    fn withdraw(&self, node: &Node) -> bool {
        // SAFETY: it was pushed into this queue.
        unsafe { self.shared.lock().waiters.remove(node) }
    }

    /// One that was told and does not look leaves the event to another.
    fn hand_on(&self, _: &Node) {
        let waiter = {
            let mut state = self.shared.lock();
            if state.events.is_empty() { None } else { state.waiters.tell(TOLD) }
        };
        waiter.into_iter().for_each(Waiter::wake);
    }
}

impl fmt::Debug for Events {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Events").field("waiting", &self.len()).finish()
    }
}

/// The hook of a task with a supervisor.
pub(crate) struct Supervised {
    pub(crate) events: Events,
    pub(crate) task: TaskId,
    pub(crate) name: Option<Cow<'static, str>>,
}

impl Supervised {
    /// Tells how the task on `core` ended. What it raised goes to the supervisor; whoever joins gets its text.
    ///
    /// The text, and the destructors of all events if nobody else has the queue any more, are foreign code: it runs as
    /// part of the task, and may raise, but not block.
    pub(crate) fn ended<T>(self, core: &Core, outcome: Result<T, Raised>) -> Result<T, Raised> {
        let task = self.task.slot();
        let outcome = match outcome {
            Ok(result) => {
                self.push(Signal::Ok, Value::UNIT, None, None);
                Ok(result)
            }
            Err(raised) => {
                let shown = core.run(task, || polling(|| format!("{:?}", raised.value)));
                let text = shown.unwrap_or_else(|again| {
                    std::mem::forget(again); // the first error is the one that is told
                    "a value that cannot be shown".to_owned()
                });
                Err(self.raised(raised, text))
            }
        };
        if let Err(raised) = core.run(task, || polling(|| drop(self))) {
            std::mem::forget(raised); // there is nobody to tell
        }
        outcome
    }

    /// Tells what the task ended with; returns what whoever joins gets.
    pub(crate) fn raised(&self, Raised { signal, value, trace }: Raised, text: String) -> Raised {
        self.push(signal, value, trace, None);
        Raised { signal, value: Value::error(Told(text)), trace: None }
    }

    fn push(&self, signal: Signal, value: Value, trace: Option<Box<Trace>>, stopped: Option<Stopped>) {
        let (task, name) = (self.task, self.name.clone());
        self.events.push(Event { task, name, signal, value, trace, stopped });
    }
}

impl Hook for Supervised {
    fn remote(&self) -> Option<(&'static dyn Remote, u64)> {
        reach::remote()
    }

    fn tripped(&self) -> Option<Value> {
        reach::tripped_now()
    }

    fn stop(&self, signal: Signal, payload: Value) -> Value {
        if !STOPPING.contains(signal) {
            return park_on_await(signal);
        }
        let answer = Arc::new(Mutex::new(Answer::Awaited));
        let stopped = Stopped { task: self.task, answer: answer.clone() };
        self.push(signal, payload, None, Some(stopped));
        let word = &self.task.slot().word;
        loop {
            match std::mem::replace(&mut *answer.lock(), Answer::Awaited) {
                Answer::Given(value) => return value,
                Answer::Never => word.cancel(Level::Cancel),
                Answer::Awaited | Answer::TooLate => (),
            }
            // Whoever called us unwinds.
            if !is_shielded() && (word.level().is_some() || reach::tripped(self.task).is_some()) {
                *answer.lock() = Answer::TooLate;
                return Value::UNIT;
            }
            worker::park();
        }
    }
}

/// What whoever joins a supervised task finds of what the task raised: the text, since the supervisor has the value.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct Told(pub(crate) String);

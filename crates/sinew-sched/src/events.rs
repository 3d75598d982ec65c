//! What a supervisor is told: an event for each of its tasks that ended or stopped.
//!
//! An event is pushed by the task itself, before its slot is anybody else's; the queue has no bound, so pushing never
//! blocks and nothing is dropped. An event of a task that stopped holds the way to continue it: a place for one value,
//! which the task looks at after every wake-up. It names the task by its id, so one that is used late, or never, does
//! nothing to the slot's next task.
//!
//! A task that tells its supervisor something and goes on pushes an event that holds no such way.
//!
//! The queue is closed when its last receiver goes. Failures in it that were not received, and those that come later,
//! have no supervisor that would see them: see [`failure`].
//!
//! Models: `events_answer_or_too_late`, `events_push_or_wait`, `events_hand_on`,
//! `events_taken_by_another`.

mod supervised;

use std::borrow::Cow;
use std::cell::RefCell;
use std::collections::VecDeque;
use std::fmt;
use std::time::Duration;

use sinew_core::{Instant, Signal};
use sinew_fiber::raw::{catch, polling};
use sinew_fiber::{IntoValue, Raised, Refused, Trace, Value};
use sinew_sync::{Arc, Mutex};

use crate::case::{Attempt, Case, Enrolled, attempt_or_block};
use crate::clock::now;
use crate::failure::{Failure, report_failure};
use crate::notes::What;
use crate::task::TaskRef;
use crate::task_id::TaskId;
use crate::wait::{Awaited, Node, Queue, TOLD, Waiter};
use crate::wait_error::WaitError;
use crate::wait_kind::WaitKind;
use crate::worker;
pub(crate) use supervised::{STOPPING, Supervised, supervisor_of_running_task};
pub use supervised::{TellError, tell_supervisor};

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
    queue: Arc<Shared>,
    /// Shared by all who can receive.
    _open: Arc<Open>,
}

/// Closes the queue when the last receiver goes: its tasks tell nobody then, those that have stopped are cancelled, and
/// failures that were not received are left to the joiners.
struct Open(Arc<Shared>);

impl Drop for Open {
    fn drop(&mut self) {
        let mut unread = {
            let mut state = self.0.0.lock();
            state.closed = true;
            std::mem::take(&mut state.events)
        };
        unread.iter_mut().for_each(Event::goes_unread); // all of them: a destructor may panic
        drop(unread); // their destructors are the user's code
    }
}

struct Shared(Mutex<State>);

struct State {
    events: VecDeque<Event>,
    closed: bool,
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
    /// cancel is; [`Signal::Yield`] if it has [told something](Event::is_message) and goes on; else the signal that it
    /// stopped on.
    pub signal: Signal,
    /// What it raised the signal with, or told; a result goes to whoever joins.
    pub value: Value,
    /// Where it was raised.
    pub trace: Option<Box<Trace>>,
    stopped: Option<Stopped>,
    /// Of a task that has failed.
    failure: Option<Arc<Failure>>,
}

impl Event {
    /// True if the task has stopped and can be continued. If the event is dropped instead, the task is cancelled: nobody
    /// else could continue it.
    pub fn is_stopped(&self) -> bool {
        self.stopped.is_some()
    }

    /// True if the task has told this by [`tell_supervisor`], and goes on: it has neither ended nor stopped.
    pub fn is_message(&self) -> bool {
        !self.signal.is_terminal() && self.stopped.is_none()
    }

    /// Takes the value out, and leaves `()` in its place.
    pub fn take_value(&mut self) -> Value {
        std::mem::replace(&mut self.value, Value::UNIT)
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
    task: TaskRef,
    place: Arc<Place>,
}

/// Where the supervisor puts its answer. Whoever comes second, answer or task that does not wait any more, sees the first.
struct Place(Mutex<Answer>);

enum Answer {
    Awaited,
    Given(Value),
    /// The event was dropped.
    Never,
    /// The task does not wait any more.
    TooLate,
}

impl Place {
    fn new() -> Place {
        Place(Mutex::new(Answer::Awaited))
    }

    /// Puts an answer in. False if nobody waits for it.
    fn give(&self, answer: Answer) -> bool {
        let mut place = self.0.lock();
        let awaited = matches!(*place, Answer::Awaited);
        let unwanted = if awaited { std::mem::replace(&mut *place, answer) } else { answer };
        drop(place);
        drop(unwanted); // a value's destructor is the user's code
        awaited
    }

    /// Takes the answer, if there is one; one that comes later is too late if the task gives up.
    fn take(&self, gives_up: bool) -> Option<Answer> {
        let mut place = self.0.lock();
        match *place {
            Answer::Awaited if !gives_up => None,
            _ => Some(std::mem::replace(&mut *place, Answer::TooLate)),
        }
    }
}

impl Stopped {
    fn resume(self, value: Value) -> bool {
        self.give(Answer::Given(value))
    }

    fn give(&self, answer: Answer) -> bool {
        let given = self.place.give(answer);
        if given {
            worker::unpark(self.task);
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
        f.write_str("Stopped")
    }
}

impl Events {
    /// Returns the receive of the next event, as a case of a select.
    #[doc(hidden)]
    pub fn operation(&self) -> RecvEvent<'_> {
        RecvEvent::new(self)
    }

    /// An empty queue.
    #[allow(clippy::new_without_default, reason = "a queue is told from another by who has it")]
    pub fn new() -> Events {
        let state = State { events: VecDeque::new(), closed: false, waiters: Queue::new() };
        let queue = Arc::new(Shared(Mutex::new(state)));
        Events { _open: Arc::new(Open(queue.clone())), queue }
    }

    /// For a task, which does not keep the queue open.
    pub(crate) fn sender(&self) -> EventSender {
        EventSender(self.queue.clone())
    }

    /// Waits for the next event.
    ///
    /// # Errors
    ///
    /// If the waiting task is cancelled, or must not block here.
    pub fn recv(&self) -> Result<Event, Refused> {
        self.recv_by(None).map(|event| event.expect("there is no deadline"))
    }

    /// Like [`recv`](Events::recv), but waits at most `timeout`.
    ///
    /// # Errors
    ///
    /// As for [`recv`](Events::recv), and [`WaitError::Timeout`].
    pub fn recv_timeout(&self, timeout: Duration) -> Result<Event, WaitError> {
        self.recv_by(Some(now() + timeout))?.ok_or(WaitError::Timeout)
    }

    /// The next event, if there is one.
    pub fn try_recv(&self) -> Option<Event> {
        self.queue.0.lock().events.pop_front()
    }

    /// How many events wait.
    pub fn len(&self) -> usize {
        self.queue.0.lock().events.len()
    }

    /// True if no event waits.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn recv_by(&self, deadline: Option<Instant>) -> Result<Option<Event>, Refused> {
        let recv = RecvEvent::new(self);
        Ok(if attempt_or_block(&recv, deadline)? { Some(recv.output()) } else { None })
    }
}

/// The next event: see `select::recv`.
#[derive(Debug)]
pub struct RecvEvent<'a> {
    events: &'a Events,
    event: RefCell<Option<Event>>,
}

impl<'a> RecvEvent<'a> {
    fn new(events: &'a Events) -> RecvEvent<'a> {
        RecvEvent { events, event: RefCell::new(None) }
    }
}

impl Awaited for RecvEvent<'_> {
    unsafe fn withdraw(&self, node: &Node) -> bool {
        // SAFETY: the caller promises that the node was pushed into this queue.
        unsafe { self.events.queue.0.lock().waiters.remove(node) }
    }

    /// One that was told and does not look leaves the event to another.
    unsafe fn hand_on(&self, _: &Node) {
        let waiter = {
            let mut state = self.events.queue.0.lock();
            if state.events.is_empty() { None } else { state.waiters.tell(TOLD) }
        };
        waiter.into_iter().for_each(Waiter::wake);
    }
}

impl Attempt for RecvEvent<'_> {
    fn attempt(&self) -> bool {
        let event = self.events.try_recv();
        let received = event.is_some();
        *self.event.borrow_mut() = event;
        received
    }

    unsafe fn enroll(&self, node: &Node) -> Enrolled {
        let mut state = self.events.queue.0.lock();
        if !state.events.is_empty() {
            return Enrolled::Again;
        }
        // SAFETY: the caller promises that the node is new, and stays until it was told or withdrawn.
        unsafe { state.waiters.push(node) };
        Enrolled::Queued
    }

    fn what(&self) -> What {
        What::at(WaitKind::Event, &self.events.queue.0)
    }

    /// Whoever is told may look; another may have been faster.
    unsafe fn settle(&self, _: &Node) -> bool {
        self.attempt()
    }

    unsafe fn under_lock(&self, change: &mut dyn FnMut()) {
        let _state = self.events.queue.0.lock();
        change();
    }
}

impl Case for RecvEvent<'_> {
    type Output = Event;

    fn output(self) -> Event {
        self.event.into_inner().expect("an event that was received")
    }
}

/// Where a task tells its supervisor.
#[derive(Clone)]
pub(crate) struct EventSender(Arc<Shared>);

impl EventSender {
    /// Never waits, and loses nothing. Gives the event back if nobody can receive it: its destructor is foreign code.
    #[must_use = "its destructor is run by the caller"]
    fn push(&self, event: Event) -> Option<Event> {
        let mut state = self.0.0.lock();
        if state.closed {
            return Some(event);
        }
        state.events.push_back(event);
        let waiter = state.waiters.tell(TOLD);
        drop(state);
        waiter.into_iter().for_each(Waiter::wake);
        None
    }
}

impl fmt::Debug for Events {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Events").field("waiting", &self.len()).finish()
    }
}

impl Event {
    /// The event is about to be dropped, and was not received. A value that panics when it is shown has no text.
    pub(super) fn goes_unread(&mut self) {
        let Some(failure) = self.failure.take() else { return };
        let raised = Raised { signal: self.signal, value: self.take_value(), trace: self.trace.take() };
        let shown = catch(|| polling(|| format!("{raised:#}")));
        self.value = raised.value; // it goes with the event
        let text = shown.unwrap_or_else(|again| {
            std::mem::forget(again); // what it holds may panic when it is dropped
            format!("{}: a value that cannot be shown", self.signal)
        });
        failure.unread(text).into_iter().for_each(|text| report_failure(self.task, text));
    }
}

#[cfg(test)]
mod tests {
    use sinew_sync::{model, model_bounded, thread};

    use super::*;
    use crate::case::Async;
    use crate::wait::Waiting;
    use sinew_test_kit::drive;

    fn event() -> Event {
        let task = TaskId::new(0, 0);
        let (signal, value) = (Signal::Ok, Value::UNIT);
        Event { task, name: None, signal, value, trace: None, stopped: None, failure: None }
    }

    /// A supervisor that answers against a task that gives up: the answer was given exactly if the task has it.
    #[test]
    fn an_answer_is_taken_or_too_late() {
        model("events_answer_or_too_late", || {
            let place = Arc::new(Place::new());
            let supervisor = {
                let place = place.clone();
                thread::spawn(move || place.give(Answer::Given(Value::UNIT)))
            };
            let taken = matches!(place.take(true), Some(Answer::Given(_)));
            assert_eq!(supervisor.join().unwrap(), taken);
        });
    }

    #[test]
    fn whoever_waits_for_an_event_gets_it() {
        model("events_push_or_wait", || {
            let events = Events::new();
            let receiver = {
                let events = events.clone();
                thread::spawn(move || events.recv().unwrap().signal)
            };
            assert!(events.sender().push(event()).is_none());
            assert_eq!(receiver.join().unwrap(), Signal::Ok);
            assert!(events.is_empty());
        });
    }

    /// A receiver that was told and unwinds, against another that waits: the event is not lost.
    #[test]
    fn a_receiver_that_unwinds_hands_the_event_on() {
        model("events_hand_on", || {
            let events = Events::new();
            let node = Node::new(0);
            // SAFETY: taken out below, before it goes.
            unsafe { events.queue.0.lock().waiters.push(&node) };
            let receiver = {
                let events = events.clone();
                thread::spawn(move || drop(events.recv().unwrap()))
            };
            assert!(events.sender().push(event()).is_none());
            // SAFETY: it was pushed into the queue of these events above.
            unsafe { drop(Waiting::new(&RecvEvent::new(&events), &node)) }; // as an unwind does
            receiver.join().unwrap();
            assert!(events.is_empty());
        });
    }

    /// A receiver that was told finds that another has taken the event, and waits on.
    #[test]
    fn a_receiver_whose_event_was_taken_gets_the_next() {
        let receives: [fn(&Events); 2] =
            [|events| drop(events.recv().unwrap()), |events| drop(drive(Async::new(RecvEvent::new(events))))];
        for receive in receives {
            model_bounded("events_taken_by_another", 4, move || {
                let events = Events::new();
                let receiver = {
                    let events = events.clone();
                    thread::spawn(move || receive(&events))
                };
                assert!(events.sender().push(event()).is_none());
                if events.try_recv().is_some() {
                    assert!(events.sender().push(event()).is_none());
                }
                receiver.join().unwrap();
                assert!(events.is_empty());
            });
        }
    }
}

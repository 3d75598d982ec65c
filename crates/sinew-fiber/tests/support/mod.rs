//! What the families of fiber tests share: fibers in a given status, and a log of what happened when.
#![allow(dead_code, reason = "not every family needs all of it")]

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use sinew_fiber::{Fiber, Hook, Mask, Signal, Status, Value, signal};

/// Catches all thirteen.
pub(crate) const EVERYTHING: Mask = Mask::ALL.union(Mask::INTERRUPT).union(Mask::AWAIT);

pub(crate) const RESUMABLE: [Status; 7] = [
    Status::Pending,
    Status::Debug,
    Status::User5,
    Status::User6,
    Status::User7,
    Status::Interrupted,
    Status::Suspended,
];

/// The statuses of fibers that ended otherwise than by a return.
pub(crate) const FAILED: [Status; 6] =
    [Status::Error, Status::User0, Status::User1, Status::User2, Status::User3, Status::User4];

pub(crate) fn ended() -> impl Iterator<Item = Status> {
    [Status::Dead].into_iter().chain(FAILED)
}

/// A fiber in `status`, named after it. If it has stopped, its value is "stopped"; if it can go on, it returns
/// what it is resumed with.
pub(crate) fn fiber_in(status: Status) -> Fiber {
    let fiber = Fiber::builder()
        .name(status.name())
        .mask(EVERYTHING)
        .build(move |first| match status.signal() {
            Some(stop) => signal(stop, "stopped").unwrap(),
            None => first,
        })
        .unwrap();
    if let Some(stop) = status.signal() {
        assert_eq!(fiber.resume(()).unwrap(), stop);
    }
    assert_eq!(fiber.status(), status);
    fiber
}

/// Takes the fiber's value, which has to be a `T`.
pub(crate) fn taken<T: Send + 'static>(fiber: &Fiber) -> T {
    fiber.take_value().downcast().unwrap()
}

/// The text that the fiber has as its last value.
pub(crate) fn last_text(fiber: &Fiber) -> Option<&'static str> {
    fiber.last_value(|value| value.and_then(|value| value.downcast_ref::<&'static str>()).copied())
}

/// What happened, in order.
#[derive(Clone, Default)]
pub(crate) struct Log(Rc<RefCell<Vec<&'static str>>>);

impl Log {
    pub(crate) fn note(&self, what: &'static str) {
        self.0.borrow_mut().push(what);
    }

    /// Notes `what` when dropped.
    pub(crate) fn on_drop(&self, what: &'static str) -> impl Drop + use<> {
        struct Noted(Log, &'static str);
        impl Drop for Noted {
            fn drop(&mut self) {
                self.0.note(self.1);
            }
        }
        Noted(self.clone(), what)
    }

    pub(crate) fn entries(&self) -> Vec<&'static str> {
        self.0.borrow().clone()
    }
}

/// A hook that remembers the last signal that reached the root, how many did, and answers with 42.
#[derive(Default)]
pub(crate) struct CountingHook {
    pub(crate) stops: Cell<u32>,
    pub(crate) last: Cell<Option<(Signal, Value)>>,
}

impl Hook for CountingHook {
    fn stop(&self, signal: Signal, payload: Value) -> Value {
        self.stops.set(self.stops.get() + 1);
        self.last.set(Some((signal, payload)));
        Value::new(42u32)
    }
}

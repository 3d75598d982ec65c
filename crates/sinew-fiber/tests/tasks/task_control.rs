//! The handle of a task reaches it through its scheduler.

use std::sync::Mutex;

use sinew_fiber::raw::{Remote, Word};
use sinew_fiber::{CancelLevel, Fiber, Hook, Signal, Value, control, defer, yield_};

use crate::support::CountingHook;
use crate::task_support::Tasks;

/// A scheduler that notes what it is asked.
struct Noted(Mutex<Vec<String>>);

impl Remote for Noted {
    fn interrupt(&self, id: u64) {
        self.0.lock().unwrap().push(format!("interrupt {id}"));
    }

    fn cancel(&self, id: u64, level: CancelLevel) {
        self.0.lock().unwrap().push(format!("{level:?} {id}"));
    }

    fn level(&self, id: u64) -> Option<CancelLevel> {
        (id == 3).then_some(CancelLevel::Kill)
    }
}

/// The hook of the task `id` of a scheduler.
struct Reached(&'static Noted, u64);

impl Hook for Reached {
    fn stop(&self, _: Signal, _: Value) -> Value {
        Value::UNIT
    }

    fn remote(&self) -> Option<(&'static dyn Remote, u64)> {
        Some((self.0, self.1))
    }
}

#[test]
fn whatever_is_asked_through_the_handle_is_asked_of_the_task() {
    static SCHEDULER: Noted = Noted(Mutex::new(Vec::new()));
    let (tasks, word) = (Tasks::new(), Word::new());
    let handle = tasks.run(&word, &Reached(&SCHEDULER, 3), || {
        let fiber = Fiber::new(|_| Value::new(control())).unwrap();
        assert_eq!(fiber.resume(()).unwrap(), Signal::Ok);
        fiber.take_value().downcast::<sinew_fiber::Control>().unwrap()
    });
    let handle = handle.unwrap();
    std::thread::spawn(move || {
        let other = handle.clone();
        handle.interrupt();
        other.cancel();
        other.kill();
        assert_eq!(handle.level(), Some(CancelLevel::Kill));
        assert_eq!(format!("{handle:?}"), "Control { level: Some(Kill), .. }");
    })
    .join()
    .unwrap();
    assert_eq!(*SCHEDULER.0.lock().unwrap(), ["interrupt 3", "Cancel 3", "Kill 3"]);
    assert!(word.is_quiet(), "it is the scheduler that sets the word");
}

#[test]
fn a_fiber_that_another_task_drops_gets_the_handle_of_that_task() {
    static SCHEDULER: Noted = Noted(Mutex::new(Vec::new()));
    let (tasks, word) = (Tasks::new(), Word::new());
    let left = tasks.run(&word, &Reached(&SCHEDULER, 1), || {
        let fiber = Fiber::new(|_| defer(|| control().interrupt(), || drop(yield_(())))).unwrap();
        assert_eq!(fiber.resume(()).unwrap(), Signal::Yield);
        fiber
    });
    let left = left.unwrap();
    Tasks::new().run(&word, &Reached(&SCHEDULER, 2), || drop(left)).unwrap();
    assert_eq!(*SCHEDULER.0.lock().unwrap(), ["interrupt 2"]);
}

#[test]
fn the_handle_of_a_task_that_nobody_reaches_does_nothing() {
    let (tasks, word) = (Tasks::new(), Word::new());
    let handle = tasks.run(&word, &CountingHook::default(), control).unwrap();
    for handle in [handle, tasks.root().control()] {
        handle.interrupt();
        handle.cancel();
        handle.kill();
        assert_eq!(handle.level(), None);
    }
    assert!(word.is_quiet());
}

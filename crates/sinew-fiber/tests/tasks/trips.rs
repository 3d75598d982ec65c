//! A trip: the scheduler makes a task unwind with a value of its own choice, out of whatever it waits in.

use std::cell::Cell;
use std::rc::Rc;

use sinew_fiber::raw::{Word, await_for};
use sinew_fiber::{
    CancelLevel, Fiber, Hook, Mask, Reason, Signal, Value, await_, checkpoint, debug, protect, shield, signal,
};

use crate::task_support::Tasks;

/// Has a number to unwind with, or none, and counts how often it was asked and stopped.
struct Trips<'a> {
    word: &'a Word,
    number: Cell<Option<u32>>,
    asked: Cell<u32>,
    stops: Cell<u32>,
    trips_in_stop: Cell<bool>,
}

impl<'a> Trips<'a> {
    fn with(word: &'a Word, number: Option<u32>) -> Trips<'a> {
        let (asked, stops, trips_in_stop) = (Cell::new(0), Cell::new(0), Cell::new(false));
        Trips { word, number: Cell::new(number), asked, stops, trips_in_stop }
    }
}

impl Hook for Trips<'_> {
    fn stop(&self, _: Signal, _: Value) -> Value {
        self.stops.set(self.stops.get() + 1);
        if self.trips_in_stop.get() {
            self.word.trip();
        }
        Value::UNIT
    }

    fn tripped(&self) -> Option<Value> {
        self.asked.set(self.asked.get() + 1);
        self.number.get().map(Value::new)
    }
}

const CALLS: [fn(); 5] = [
    || drop(await_(())),
    || drop(await_for(None)),
    checkpoint,
    || drop(signal(Signal::Interrupt, ())),
    || drop(debug(())),
];

#[test]
fn every_blocking_call_and_checkpoint_unwinds_with_what_the_hook_says() {
    let tasks = Tasks::new();
    for call in CALLS {
        let word = Word::new();
        let hook = Trips::with(&word, Some(5));
        word.trip();
        let raised = tasks.run(&word, &hook, call).unwrap_err();
        assert_eq!((raised.signal, raised.value.downcast::<u32>().unwrap()), (Signal::Error, 5));
        assert_eq!((hook.asked.get(), hook.stops.get()), (1, 0), "before anything has happened");
        // As seen from a fiber, whose stack it unwinds as any error does.
        let caught = tasks.run(&word, &hook, || {
            let fiber = Fiber::builder().mask(Mask::ERROR).build(move |_| call()).unwrap();
            let stop = fiber.resume(()).unwrap();
            (stop.signal(), stop.get::<u32>().unwrap())
        });
        assert_eq!(caught.unwrap(), (Signal::Error, 5));
    }
}

#[test]
fn a_task_that_is_tripped_while_it_waits_unwinds_when_it_goes_on() {
    for call in CALLS.into_iter().filter(|call| !std::ptr::fn_addr_eq(*call, checkpoint as fn())) {
        let word = Word::new();
        let hook = Trips::with(&word, Some(6));
        hook.trips_in_stop.set(true);
        let raised = Tasks::new().run(&word, &hook, call).unwrap_err();
        assert_eq!(raised.value.downcast::<u32>().unwrap(), 6);
        assert_eq!((hook.asked.get(), hook.stops.get()), (1, 1));
    }
}

#[test]
fn a_kill_is_stronger_and_asks_no_hook() {
    let word = Word::new();
    let hook = Trips::with(&word, Some(5));
    word.trip();
    word.cancel(CancelLevel::Kill);
    for call in CALLS {
        assert!(Tasks::new().run(&word, &hook, call).unwrap_err().is_cancelled());
    }
    assert_eq!(hook.asked.get(), 0);
}

#[test]
fn a_trip_is_stronger_than_a_cancel_and_without_a_value_the_cancel_counts() {
    let word = Word::new();
    let hook = Trips::with(&word, Some(5));
    word.trip();
    word.cancel(CancelLevel::Cancel);
    let tasks = Tasks::new();
    for call in CALLS {
        let raised = tasks.run(&word, &hook, call).unwrap_err();
        assert_eq!(raised.value.downcast::<u32>().unwrap(), 5);
    }
    hook.number.set(None);
    let reason = tasks.run(&word, &hook, || await_(()).unwrap_err().reason()).unwrap();
    assert_eq!(reason, Reason::Cancelled);
    assert!(tasks.run(&word, &hook, checkpoint).unwrap_err().is_cancelled());
}

#[test]
fn a_trip_that_is_not_for_this_place_or_was_cleared_lets_the_task_go_on() {
    let word = Word::new();
    let hook = Trips::with(&word, None);
    word.trip();
    let tasks = Tasks::new();
    for call in CALLS {
        tasks.run(&word, &hook, call).unwrap();
    }
    assert_eq!(
        (hook.asked.get(), hook.stops.get()),
        (9, 4),
        "before and after each stop, and at the checkpoint"
    );
    hook.number.set(Some(5));
    word.clear_trip();
    assert!(word.is_quiet());
    for call in CALLS {
        tasks.run(&word, &hook, call).unwrap();
    }
    assert_eq!(hook.asked.get(), 9);
}

#[test]
fn a_shield_defers_it() {
    let word = Word::new();
    let hook = Trips::with(&word, Some(5));
    let task = || {
        word.trip();
        shield(|| {
            await_(()).unwrap();
            checkpoint();
        });
        assert_eq!(hook.asked.get(), 0);
        assert!(protect(checkpoint).is_err());
    };
    Tasks::new().run(&word, &hook, task).unwrap();
}

#[test]
fn a_destructor_of_an_unwind_is_not_disturbed() {
    struct Checks(Rc<Cell<bool>>);
    impl Drop for Checks {
        fn drop(&mut self) {
            checkpoint();
            self.0.set(true);
        }
    }
    let word = Word::new();
    let hook = Trips::with(&word, Some(5));
    word.trip();
    let checked = Rc::new(Cell::new(false));
    let checks = Checks(checked.clone());
    let raised = Tasks::new().run(&word, &hook, move || {
        let _checks = checks;
        checkpoint();
    });
    assert!(raised.is_err() && checked.get());
    assert_eq!(hook.asked.get(), 1);
}

#[test]
fn interrupts_count_on() {
    let word = Word::new();
    let hook = Trips::with(&word, None);
    word.trip();
    word.interrupt();
    word.interrupt();
    Tasks::new().run(&word, &hook, checkpoint).unwrap();
    assert_eq!(hook.stops.get(), 2);
}

//! Signals that are raised by a root itself, outside all fibers, or that stop at it.

use std::cell::RefCell;

use sinew_fiber::{Hook, Mask, Root, Signal, Value, await_, control, run_as_root, signal, yield_};

/// Answers with the number of signals before, and notes each.
#[derive(Default)]
struct Answer(RefCell<Vec<Signal>>);

impl Hook for Answer {
    fn stop(&self, signal: Signal, _: Value) -> Value {
        self.0.borrow_mut().push(signal);
        Value::new(self.0.borrow().len())
    }
}

#[test]
fn a_root_that_yields_by_itself_reaches_its_hook() {
    let answer = Answer::default();
    let mut root = Root::new("task", Mask::YIELD | Mask::of(Signal::User5));
    let result = run_as_root(&mut root, Some(&answer), || {
        let first = yield_(()).unwrap().downcast::<usize>().unwrap();
        let second = signal(Signal::User5, ()).unwrap().downcast::<usize>().unwrap();
        (first, second)
    });
    assert_eq!(result.unwrap(), (1, 2));
    assert_eq!(*answer.0.borrow(), [Signal::Yield, Signal::User5]);
}

#[test]
fn an_await_stops_for_an_interrupt_first() {
    let answer = Answer::default();
    let mut root = Root::new("task", Mask::NONE);
    let result = run_as_root(&mut root, Some(&answer), || {
        control().interrupt();
        await_(()).unwrap().downcast::<usize>().unwrap()
    });
    assert_eq!(result.unwrap(), 2);
    assert_eq!(*answer.0.borrow(), [Signal::Interrupt, Signal::Await]);
}

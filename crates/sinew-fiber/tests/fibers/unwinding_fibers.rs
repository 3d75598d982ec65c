//! A fiber that is being unwound is never suspended; one that its destructor resumes may be.

use std::cell::RefCell;
use std::rc::Rc;

use sinew_fiber::{
    Fiber, Hook, Mask, Reason, Refused, Root, Signal, Value, await_, checkpoint, control, error, propagate,
    run_as_root, signal, yield_,
};

/// Calls what it holds when it is dropped.
struct OnDrop<F: FnMut()>(F);

impl<F: FnMut()> Drop for OnDrop<F> {
    fn drop(&mut self) {
        (self.0)();
    }
}

type Reasons = Rc<RefCell<Vec<Option<Reason>>>>;

/// Unwinds a fiber with `mask`. A destructor on its stack runs `body` in a fiber that catches terminal
/// signals and those in `caught`, and is told why the signal of `body` was refused, if it was.
fn raise_in_destructor(
    mask: Mask,
    caught: Mask,
    body: impl Fn() -> Result<Value, Refused> + Copy + 'static,
) -> (Signal, Option<Reason>) {
    let reasons = Reasons::default();
    let to = reasons.clone();
    let outer = Fiber::builder().mask(mask | Mask::ERROR).build(move |_| {
        let _guard = OnDrop(move || {
            let to = to.clone();
            let inner = Fiber::builder().mask(caught | Mask::TERMINATION);
            let inner =
                inner.build(move |_| to.borrow_mut().push(body().err().map(|refused| refused.reason())));
            let inner = inner.unwrap();
            while !inner.resume(()).unwrap().signal().is_terminal() {}
        });
        error("unwind");
    });
    let signal = outer.unwrap().resume(()).unwrap().signal();
    let reasons = reasons.borrow();
    assert_eq!(reasons.len(), 1);
    (signal, reasons[0])
}

fn stopped_fiber(signal_of_it: Signal) -> Fiber {
    let mask = Mask::ALL | Mask::AWAIT;
    let fiber = Fiber::builder().mask(mask).build(move |_| signal(signal_of_it, ()).map(drop).unwrap());
    let fiber = fiber.unwrap();
    assert_eq!(fiber.resume(()).unwrap(), signal_of_it);
    fiber
}

#[test]
fn a_signal_that_would_stop_an_unwinding_fiber_is_refused_also_from_below_it() {
    let refused = (Signal::Error, Some(Reason::Unwinding));
    let yields = || yield_(());
    let awaits = || await_(());
    let propagates = || propagate((), &stopped_fiber(Signal::Yield));
    assert_eq!(raise_in_destructor(Mask::YIELD, Mask::NONE, yields), refused);
    assert_eq!(raise_in_destructor(Mask::AWAIT, Mask::NONE, awaits), refused);
    assert_eq!(raise_in_destructor(Mask::YIELD, Mask::NONE, propagates), refused);
}

#[test]
fn a_fiber_that_a_destructor_resumes_stops_for_the_destructor() {
    let stopped = (Signal::Error, None);
    let yields = || yield_(());
    let awaits = || await_(());
    let propagates = || propagate((), &stopped_fiber(Signal::Yield));
    assert_eq!(raise_in_destructor(Mask::NONE, Mask::YIELD, yields), stopped);
    assert_eq!(raise_in_destructor(Mask::NONE, Mask::AWAIT, awaits), stopped);
    assert_eq!(raise_in_destructor(Mask::NONE, Mask::YIELD, propagates), stopped);
}

#[test]
fn a_hook_is_not_called_while_the_task_unwinds() {
    struct Never;
    impl Hook for Never {
        fn stop(&self, signal: Signal, _: Value) -> Value {
            panic!("{signal} reached the hook during an unwind")
        }
    }
    let mut root = Root::new("task", Mask::YIELD);
    let result = run_as_root(&mut root, Some(&Never), || {
        let yields = || yield_(());
        let debugs = || signal(Signal::Debug, ());
        let refused = (Signal::Error, Some(Reason::Unwinding));
        assert_eq!(raise_in_destructor(Mask::NONE, Mask::NONE, yields), refused);
        assert_eq!(raise_in_destructor(Mask::NONE, Mask::NONE, debugs), refused);
    });
    result.unwrap();
}

#[test]
fn an_await_does_not_block_a_thread_that_unwinds() {
    std::thread::current().unpark(); // if it blocks, it does not block for ever
    let refused = (Signal::Error, Some(Reason::Unwinding));
    assert_eq!(raise_in_destructor(Mask::NONE, Mask::NONE, || await_(())), refused);
}

#[test]
fn an_interrupt_stops_a_fiber_for_the_destructor_that_resumed_it_and_not_the_unwinding_one() {
    let stops = Rc::new(RefCell::new(Vec::new()));
    let to = stops.clone();
    let outer = Fiber::builder().mask(Mask::ERROR | Mask::INTERRUPT).build(move |_| {
        let _guard = OnDrop(move || {
            control().interrupt();
            checkpoint(); // here it would stop the unwind
            let inner = Fiber::builder().mask(Mask::INTERRUPT).build(|_| checkpoint()).unwrap();
            to.borrow_mut().extend([(); 2].map(|()| inner.resume(()).ok().map(|stop| stop.signal())));
        });
        error("unwind");
    });
    assert_eq!(outer.unwrap().resume(()).unwrap(), Signal::Error);
    assert_eq!(*stops.borrow(), [Some(Signal::Interrupt), Some(Signal::Ok)]);
}

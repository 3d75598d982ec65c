//! A root: what its body ends with is returned, and what reaches it is its hook's.

use std::cell::{Cell, RefCell};

use sinew_fiber::{
    Cancelled, Fiber, FiberRef, Generator, Hook, Mask, Panic, Reason, Root, Signal, Status, Value, await_,
    current, debug, error, protect, root, run_as_root, signal, yield_,
};

use crate::stack_support::run_in_child;

/// Notes the signals that reach it and answers with their payload, a number, plus one.
#[derive(Default)]
struct PlusOne(RefCell<Vec<Signal>>);

impl Hook for PlusOne {
    fn stop(&self, signal: Signal, payload: Value) -> Value {
        self.0.borrow_mut().push(signal);
        Value::new(payload.downcast::<u32>().unwrap() + 1)
    }
}

/// Runs `body` at the bottom of a chain of `depth` fibers that catch nothing.
fn at_depth<T: 'static>(depth: usize, body: impl FnOnce() -> T + 'static) -> T {
    if depth == 0 {
        return body();
    }
    let result = std::rc::Rc::new(Cell::new(None));
    let out = result.clone();
    let fiber = Fiber::builder().mask(Mask::NONE).build(move |_| out.set(Some(at_depth(depth - 1, body))));
    assert_eq!(fiber.unwrap().resume(()).unwrap(), Signal::Ok);
    result.take().unwrap()
}

const MASKED: [Signal; 4] = [Signal::Yield, Signal::User5, Signal::User6, Signal::User7];

#[test]
fn a_signal_in_the_mask_of_a_root_goes_to_its_hook_from_any_depth() {
    for signal_raised in MASKED {
        for depth in [0, 1, 10] {
            let hook = PlusOne::default();
            let mut task = Root::new("task", Mask::of(signal_raised));
            let answer = run_as_root(&mut task, Some(&hook), || {
                at_depth(depth, move || signal(signal_raised, 41u32).unwrap().downcast::<u32>().unwrap())
            });
            assert_eq!(answer.unwrap(), 42);
            assert_eq!(*hook.0.borrow(), [signal_raised]);
        }
    }
}

#[test]
fn a_signal_that_is_not_in_the_mask_of_the_root_is_refused() {
    for signal_raised in MASKED {
        let others = MASKED.into_iter().filter(|other| *other != signal_raised);
        let mask = others.fold(Mask::NONE, |mask, other| mask | Mask::of(other));
        for depth in [0, 10] {
            let hook = PlusOne::default();
            let mut task = Root::new("task", mask);
            let refused = run_as_root(&mut task, Some(&hook), || {
                at_depth(depth, move || signal(signal_raised, 1u32).unwrap_err())
            });
            assert_eq!(refused.unwrap().reason(), Reason::Uncaught);
            assert!(hook.0.borrow().is_empty());
        }
    }
}

#[test]
fn without_a_hook_the_mask_of_a_root_catches_nothing() {
    let mut task = Root::new("task", Mask::ALL);
    for depth in [0, 10] {
        let refused = run_as_root(&mut task, None, || at_depth(depth, || yield_(()).unwrap_err()));
        assert_eq!(refused.unwrap().reason(), Reason::Uncaught);
    }
}

#[test]
fn debug_and_interrupt_reach_the_hook_without_being_in_the_mask() {
    let hook = PlusOne::default();
    run_as_root(&mut Root::new("task", Mask::NONE), Some(&hook), || {
        assert_eq!(debug(1u32).unwrap().downcast::<u32>().unwrap(), 2);
        assert_eq!(at_depth(3, || signal(Signal::Interrupt, 2u32).unwrap()).downcast::<u32>().unwrap(), 3);
    })
    .unwrap();
    assert_eq!(*hook.0.borrow(), [Signal::Debug, Signal::Interrupt]);
}

#[test]
fn the_result_of_the_body_is_returned_and_so_is_what_ended_it() {
    let mut task = Root::new("task", Mask::NONE);
    assert_eq!(run_as_root(&mut task, None, || 5).unwrap(), 5);
    assert_eq!(task.status(), Status::Dead);

    let raised = run_as_root(&mut task, None, || -> u32 { error("failed") }).unwrap_err();
    assert_eq!(raised.value.downcast::<&str>().unwrap(), "failed");
    assert_eq!(raised.trace.unwrap().links()[0].name.as_deref(), Some("task"));
    assert_eq!(task.status(), Status::Error);

    let raised = run_as_root(&mut task, None, || signal(Signal::User1, 3u32).map(drop)).unwrap_err();
    assert_eq!((raised.signal, raised.value.downcast::<u32>().unwrap()), (Signal::User1, 3));
    assert_eq!(task.status(), Status::User1);

    let raised = run_as_root(&mut task, None, || at_depth(3, || -> u32 { error("deep") })).unwrap_err();
    assert_eq!(raised.value.downcast::<&str>().unwrap(), "deep");
    assert_eq!(raised.trace.unwrap().links().len(), 4);
    assert_eq!(format!("{task:?}").split(", ").nth(1), Some("error)"));
}

#[test]
fn a_root_is_used_again_after_a_failed_run() {
    let mut task = Root::new("task", Mask::NONE);
    let hook = PlusOne::default();
    for round in 0..10u32 {
        run_as_root(&mut task, Some(&hook), || -> () { panic!("round {round}") }).unwrap_err();
        let answer = run_as_root(&mut task, Some(&hook), || {
            assert_eq!(root().status(), Status::Alive);
            at_depth(2, move || await_(round).unwrap().downcast::<u32>().unwrap())
        });
        assert_eq!(answer.unwrap(), round + 1);
        assert!(!std::thread::panicking());
    }
}

#[test]
fn a_panic_in_the_body_is_an_error_that_prints_nothing() {
    const TEST: &str = "a_panic_in_the_body_is_an_error_that_prints_nothing";
    let output = run_in_child(module_path!(), TEST, || {
        let mut task = Root::new("task", Mask::NONE);
        let place = std::hint::black_box("body");
        let raised = run_as_root(&mut task, None, || -> () { panic!("in the {place}") }).unwrap_err();
        assert_eq!(raised.signal, Signal::Error);
        let panic = raised.value.downcast::<Panic>().unwrap();
        assert_eq!(panic.message, "in the body");
        assert!(panic.location.unwrap().starts_with(file!()));
        assert_eq!(panic.payload.downcast_ref(), Some(&String::from("in the body")));
        eprintln!("all is well");
    });
    assert_eq!(String::from_utf8_lossy(&output.stderr), "all is well\n");
    assert!(output.status.success());
}

#[test]
fn roots_nest_and_what_is_inside_does_not_reach_what_is_outside() {
    let outer_hook = PlusOne::default();
    let mut outer = Root::new("outer", Mask::YIELD);
    run_as_root(&mut outer, Some(&outer_hook), || {
        let fiber = Fiber::builder().name("between").build(|_| {
            let between = current();
            let inner_hook = PlusOne::default();
            let mut inner = Root::new("inner", Mask::NONE);
            run_as_root(&mut inner, Some(&inner_hook), || {
                assert_eq!(current().name().as_deref(), Some("inner"));
                assert_eq!(root(), current());
                assert_eq!(await_(1u32).unwrap().downcast::<u32>().unwrap(), 2);
                assert_eq!(yield_(()).unwrap_err().reason(), Reason::Uncaught);
            })
            .unwrap();
            assert_eq!(*inner_hook.0.borrow(), [Signal::Await]);
            assert_eq!(current(), between);
            run_as_root(&mut inner, None, || -> () { error(Cancelled) }).unwrap_err();
            assert_eq!(current(), between);
            yield_(7u32).unwrap();
        });
        let fiber = fiber.unwrap();
        assert_eq!(fiber.resume(()).unwrap(), Signal::Yield);
        assert_eq!(fiber.take_value().downcast::<u32>().unwrap(), 7);
        assert_eq!(fiber.resume(()).unwrap(), Signal::Ok);
        assert_eq!(root().name().as_deref(), Some("outer"));
    })
    .unwrap();
    assert!(outer_hook.0.borrow().is_empty());
}

#[test]
fn a_panic_in_the_hook_ends_the_fiber_that_raised_the_signal() {
    struct Panics;
    impl Hook for Panics {
        fn stop(&self, _: Signal, _: Value) -> Value {
            panic!("no more of this");
        }
    }
    run_as_root(&mut Root::new("task", Mask::NONE), Some(&Panics), || {
        let raised = protect(|| await_(()).map(drop)).unwrap_err();
        assert!(raised.to_string().contains("no more of this"));
        assert_eq!(current(), root());
    })
    .unwrap();
}

/// Runs one step of another task, on the same stack, whenever its own waits.
struct Alternates<'a> {
    other: RefCell<Root>,
    steps: RefCell<Generator<u32>>,
    seen: RefCell<Vec<(u32, FiberRef)>>,
    answered: &'a Cell<u32>,
}

impl Hook for Alternates<'_> {
    fn stop(&self, signal: Signal, payload: Value) -> Value {
        assert_eq!(signal, Signal::Await);
        let (stopped, other_root) = (current(), &mut *self.other.borrow_mut());
        let step = run_as_root(other_root, None, || {
            assert_eq!(current().name().as_deref(), Some("other"));
            self.steps.borrow_mut().next().unwrap()
        });
        self.seen.borrow_mut().push((step.unwrap(), stopped));
        self.answered.set(self.answered.get() + 1);
        payload
    }
}

#[test]
fn a_hook_runs_another_task_meanwhile_and_each_finds_itself_running() {
    const STEPS: u32 = 50;
    let mut other = Root::new("other", Mask::NONE);
    let steps = run_as_root(&mut other, None, || {
        Generator::with(Fiber::builder().name("steps"), |out| {
            let me = current();
            for step in 0..STEPS {
                assert_eq!((current(), root().name()), (me.clone(), Some("other".into())));
                out.yield_(step);
            }
        })
    });
    let answered = Cell::new(0);
    let hook = Alternates {
        other: RefCell::new(other),
        steps: RefCell::new(steps.unwrap().unwrap()),
        seen: RefCell::default(),
        answered: &answered,
    };
    run_as_root(&mut Root::new("first", Mask::NONE), Some(&hook), || {
        for step in 0..STEPS {
            at_depth(step as usize % 5, move || {
                let me = current();
                assert_eq!(await_(step).unwrap().downcast::<u32>().unwrap(), step);
                assert_eq!((current(), root().name()), (me, Some("first".into())));
            });
        }
    })
    .unwrap();
    assert_eq!(answered.get(), STEPS);
    let steps: Vec<u32> = hook.seen.borrow().iter().map(|(step, _)| *step).collect();
    assert_eq!(steps, (0..STEPS).collect::<Vec<_>>());
}

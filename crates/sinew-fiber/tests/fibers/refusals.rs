//! What an operation that cannot be done answers: a Rust error that says all, and nothing else happens.

use std::cell::RefCell;
use std::rc::Rc;

use sinew_fiber::{
    Fiber, Mask, Operation, Reason, Refused, Root, Signal, StackSize, Status, Stop, Value, await_, control,
    error, ffi_scope, propagate, protect, run_as_root, shield, yield_,
};

use crate::support::{EVERYTHING, ended, fiber_in, last_text, taken};

const YIELD: Operation = Operation::Signal(Signal::Yield);

/// Checks what the refusal says, as fields and as text.
#[track_caller]
fn assert_says(refused: &Refused, operation: Operation, fiber: &str, status: Status, reason: Reason) {
    let text = refused.to_string();
    assert_eq!(
        (refused.operation(), refused.status(), refused.reason()),
        (operation, status, reason),
        "{text}"
    );
    let (name, number) = refused.fiber().split_once('#').unwrap();
    assert_eq!(name, fiber);
    number.parse::<u64>().unwrap();
    let what = match operation {
        Operation::Signal(Signal::Await) => format!("cannot wait in {fiber}#{number}: "),
        _ => format!("cannot {operation} fiber {fiber}#{number} (its status is {status}): "),
    };
    let why = match reason {
        Reason::Status if status == Status::New => "it has not run yet; resume it first",
        Reason::Status if status == Status::Dead => "it has returned; make a new fiber",
        Reason::Status => "it has ended; make a new fiber",
        Reason::Linked => "it stopped together with the fiber that resumed it; resume that one",
        Reason::OtherTask => "it was first resumed by another task, or under another root; resume it there",
        Reason::TooDeep => "the chain would be deeper than 1024 fibers",
        Reason::Shielded => "it is inside a shield; try again later",
        Reason::Uncaught => {
            "no fiber around it catches the signal; add it to the mask of one (a mask that is given replaces the \
             default, which is yield)"
        }
        Reason::Unwinding => "the thread is unwinding; a destructor must not suspend",
        Reason::FfiScope => {
            "the signal would cross an ffi_scope; raise it after the foreign call has returned"
        }
        Reason::Ending => "it is being dropped; nobody will resume it again",
        Reason::Cancelled => "its task is cancelled; hand this error on with `?`",
        other => panic!("{other:?} has no text here"),
    };
    assert_eq!(text, format!("{what}{why}"));
    assert_eq!(text, format!("{refused:?}"), "`unwrap` prints the message");
}

fn running(name: &'static str, mask: Mask, body: impl FnOnce() + 'static) {
    let fiber = Fiber::builder().name(name).mask(mask).build(move |_| body()).unwrap();
    assert_eq!(fiber.resume(()).unwrap(), Signal::Ok);
}

#[test]
fn a_refused_resume_or_cancel_of_an_ended_fiber_says_what_was_refused_and_why() {
    for status in ended() {
        let fiber = fiber_in(status);
        let refused = fiber.resume(()).unwrap_err();
        assert_says(&refused, Operation::Resume, status.name(), status, Reason::Status);
        let refused = fiber.cancel(()).unwrap_err();
        assert_says(&refused, Operation::Cancel, status.name(), status, Reason::Status);
    }
}

#[test]
fn a_refused_propagate_from_a_new_fiber_says_what_was_refused_and_why() {
    let refused = propagate((), &fiber_in(Status::New)).unwrap_err();
    assert_says(&refused, Operation::Propagate, "new", Status::New, Reason::Status);
    assert!(refused.to_string().starts_with("cannot propagate from fiber new#"), "{refused}");
}

#[test]
fn a_refused_operation_on_a_fiber_that_is_stopped_below_another_says_so() {
    let inner =
        Rc::new(Fiber::builder().name("inner").mask(Mask::NONE).build(|_| yield_(1u32).unwrap()).unwrap());
    let below = inner.clone();
    let outer = Fiber::new(move |_| below.resume(()).unwrap() == Signal::Ok).unwrap();
    assert_eq!(outer.resume(()).unwrap(), Signal::Yield);
    let says = |refused: Refused, operation| {
        assert_says(&refused, operation, "inner", Status::Pending, Reason::Linked);
    };
    says(inner.resume(()).unwrap_err(), Operation::Resume);
    says(inner.cancel(()).unwrap_err(), Operation::Cancel);
    says(propagate((), &inner).unwrap_err(), Operation::Propagate);
}

#[test]
fn a_refused_operation_on_a_fiber_of_another_task_says_so() {
    let fiber = fiber_in(Status::Pending);
    let mut root = Root::new("other", Mask::NONE);
    run_as_root(&mut root, None, || {
        let says = |refused: Refused, operation| {
            assert_says(&refused, operation, "pending", Status::Pending, Reason::OtherTask);
        };
        says(fiber.resume(()).unwrap_err(), Operation::Resume);
        says(fiber.cancel(()).unwrap_err(), Operation::Cancel);
        says(propagate((), &fiber).unwrap_err(), Operation::Propagate);
    })
    .unwrap();
}

#[test]
fn a_refused_resume_at_the_depth_limit_says_so() {
    fn descend(levels: u16) -> bool {
        let name = if levels == 0 { "one too many" } else { "level" };
        let fiber = Fiber::builder().name(name).stack(StackSize::KiB64);
        let fiber = fiber.build(move |_| descend(levels.saturating_sub(1))).unwrap();
        match fiber.resume(()) {
            Ok(_) => taken::<bool>(&fiber),
            Err(refused) => {
                assert_says(&refused, Operation::Resume, "one too many", Status::New, Reason::TooDeep);
                true
            }
        }
    }
    assert!(descend(sinew_fiber::MAX_DEPTH));
}

#[test]
fn a_refused_cancel_of_a_shielded_fiber_says_so() {
    let fiber = Fiber::builder().name("shielded").build(|_| shield(|| yield_(()).unwrap())).unwrap();
    assert_eq!(fiber.resume(()).unwrap(), Signal::Yield);
    let refused = fiber.cancel(()).unwrap_err();
    assert_says(&refused, Operation::Cancel, "shielded", Status::Pending, Reason::Shielded);
}

#[test]
fn a_refused_signal_names_itself_and_the_fiber_that_raised_it() {
    running("lonely", Mask::NONE, || {
        assert_says(&yield_(()).unwrap_err(), YIELD, "lonely", Status::Alive, Reason::Uncaught);
        let refused = sinew_fiber::signal(Signal::User6, ()).unwrap_err();
        assert_says(&refused, Operation::Signal(Signal::User6), "lonely", Status::Alive, Reason::Uncaught);
        assert!(refused.to_string().starts_with("cannot signal user6 from fiber lonely#"), "{refused}");
    });
    running("callback", Mask::YIELD, || {
        let refused = ffi_scope(|| yield_(()).unwrap_err()).unwrap();
        assert_says(&refused, YIELD, "callback", Status::Alive, Reason::FfiScope);
    });
}

#[test]
fn a_refused_yield_of_a_destructor_during_an_unwind_says_so() {
    struct YieldsInDrop(Rc<RefCell<Option<Refused>>>);
    impl Drop for YieldsInDrop {
        fn drop(&mut self) {
            *self.0.borrow_mut() = yield_(()).err();
        }
    }
    let seen = Rc::new(RefCell::new(None));
    let guard = YieldsInDrop(seen.clone());
    let fiber = Fiber::builder().name("unwinding").mask(EVERYTHING).build(move |_| {
        let _guard = guard;
        error("boom")
    });
    assert_eq!(fiber.unwrap().resume(()).unwrap(), Signal::Error);
    let refused = seen.take().unwrap();
    assert_says(&refused, YIELD, "unwinding", Status::Alive, Reason::Unwinding);
}

#[test]
fn a_refused_yield_of_a_shielded_fiber_that_is_being_dropped_says_so() {
    let seen = Rc::new(RefCell::new(None));
    let to = seen.clone();
    let fiber = Fiber::builder().name("dropped").build(move |_| {
        shield(|| *to.borrow_mut() = yield_(()).err());
    });
    let fiber = fiber.unwrap();
    assert_eq!(fiber.resume(()).unwrap(), Signal::Yield);
    drop(fiber);
    assert_says(&seen.take().unwrap(), YIELD, "dropped", Status::Alive, Reason::Ending);
}

#[test]
fn a_refused_await_of_a_cancelled_task_says_so() {
    let mut root = Root::new("task", Mask::NONE);
    run_as_root(&mut root, None, || {
        control().cancel();
        let await_operation = Operation::Signal(Signal::Await);
        assert_says(&await_(()).unwrap_err(), await_operation, "task", Status::Alive, Reason::Cancelled);
    })
    .unwrap();
}

#[test]
fn a_fiber_without_a_name_is_named_by_its_number() {
    let fiber = Fiber::new(|_| ()).unwrap();
    assert_eq!(fiber.resume(()).unwrap(), Signal::Ok);
    let refused = fiber.resume(()).unwrap_err();
    assert_eq!(refused.fiber(), format!("#{}", fiber.view().id()));
}

#[test]
fn a_refusal_leaves_status_and_value_of_the_fiber_as_they_were() {
    for status in ended() {
        let fiber = fiber_in(status);
        let _ = (fiber.resume("other").unwrap_err(), fiber.cancel("other").unwrap_err());
        assert_eq!((fiber.status(), last_text(&fiber)), (status, Some("stopped")));
    }
    let fiber = fiber_in(Status::New);
    propagate("other", &fiber).unwrap_err();
    assert_eq!(fiber.resume("argument").unwrap(), Signal::Ok, "still new");
    assert_eq!(taken::<&str>(&fiber), "argument");
}

/// Were a refusal a signal, the mask of the refused fiber would filter it, and it could become a value.
#[test]
fn a_refusal_is_no_signal_neither_of_the_refused_fiber_nor_of_the_caller() {
    let fiber = fiber_in(Status::Error);
    assert!(fiber.mask().contains(Signal::Error));
    let result: Result<Result<Stop<'_>, Refused>, _> = protect(|| fiber.resume(()));
    let _ = result.expect("nothing was raised").unwrap_err();

    let caller = Fiber::builder().mask(EVERYTHING).build(move |_| fiber.cancel(()).is_err()).unwrap();
    assert_eq!(caller.resume(()).unwrap(), Signal::Ok);
    assert!(taken::<bool>(&caller));
}

#[test]
fn a_refused_signal_lets_its_raiser_go_on() {
    let fiber = Fiber::builder().mask(Mask::NONE).build(|_| match yield_(1u32) {
        Ok(_) => Value::new("yielded"),
        Err(_) => Value::new("went on"),
    });
    let fiber = fiber.unwrap();
    assert_eq!(fiber.resume(()).unwrap(), Signal::Ok);
    assert_eq!(taken::<&str>(&fiber), "went on");
}

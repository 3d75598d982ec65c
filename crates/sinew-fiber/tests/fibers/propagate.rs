//! Re-raising the signal of a fiber from the one that caught it.

use std::rc::Rc;

use sinew_fiber::{
    Fiber, Mask, Operation, Reason, Root, Signal, Status, await_, debug, error, propagate, run_as_root,
    yield_,
};

use crate::support::{CountingHook, EVERYTHING, FAILED, Log, RESUMABLE, fiber_in, last_text, taken};

/// A fiber that propagates from `inner` with the value "again" and returns what comes of it.
fn propagating(mask: Mask, inner: &Rc<Fiber>) -> Fiber {
    let inner = inner.clone();
    Fiber::builder().name("caller").mask(mask).build(move |_| propagate("again", &inner).unwrap()).unwrap()
}

#[test]
fn propagating_from_a_failed_fiber_ends_the_caller_the_same_way_with_the_given_value() {
    for status in FAILED {
        let log = Log::default();
        let (inner, guard) = (fiber_in(status), log.on_drop("destructor"));
        let caller = Fiber::builder().mask(EVERYTHING).build(move |_| {
            let _guard = guard;
            propagate("again", &inner).unwrap()
        });
        let caller = caller.unwrap();
        assert_eq!(caller.resume(()).unwrap(), status.signal().unwrap());
        assert_eq!((caller.status(), taken::<&str>(&caller)), (status, "again"));
        assert_eq!(log.entries(), ["destructor"]);
    }
}

#[test]
fn propagating_from_a_dead_fiber_makes_the_caller_return_the_value() {
    let log = Log::default();
    let (inner, guard) = (fiber_in(Status::Dead), log.on_drop("destructor"));
    let caller = Fiber::builder().mask(Mask::NONE).build(move |_| -> u32 {
        let _guard = guard;
        propagate("again", &inner).unwrap();
        unreachable!("the caller has returned")
    });
    let caller = caller.unwrap();
    assert_eq!(caller.resume(()).unwrap(), Signal::Ok);
    assert_eq!((caller.status(), taken::<&str>(&caller)), (Status::Dead, "again"));
    assert_eq!(log.entries(), ["destructor"]);
}

#[test]
fn propagating_from_a_paused_fiber_pauses_the_caller_the_same_way_until_both_go_on() {
    for status in RESUMABLE {
        let inner = Rc::new(fiber_in(status));
        let caller = propagating(EVERYTHING, &inner);
        assert_eq!(caller.resume(()).unwrap(), status.signal().unwrap());
        assert_eq!((caller.status(), inner.status()), (status, status));
        assert_eq!((last_text(&caller), last_text(&inner)), (Some("again"), Some("again")));
        assert_eq!(caller.lineage(), [caller.view(), inner.view()]);

        assert_eq!(caller.resume("for the innermost").unwrap(), Signal::Ok);
        assert_eq!(taken::<&str>(&caller), "for the innermost");
        assert_eq!(inner.status(), Status::Dead);
    }
}

#[test]
fn a_caught_stop_of_the_propagated_fiber_is_the_result_of_propagate() {
    let inner = Rc::new(Fiber::new(|_| (yield_(1u32).unwrap(), yield_(2u32).unwrap()).1).unwrap());
    assert_eq!(inner.resume(()).unwrap(), Signal::Yield);
    let caller = propagating(EVERYTHING, &inner);
    assert_eq!(caller.resume(()).unwrap(), Signal::Yield);
    assert_eq!(caller.resume(()).unwrap(), Signal::Ok, "the second yield is caught by the caller");
    assert_eq!(taken::<u32>(&caller), 2);
    assert_eq!(inner.resume(3u32).unwrap(), Signal::Ok, "and the inner fiber is free again");
}

#[test]
fn an_uncaught_error_of_the_propagated_fiber_ends_the_caller() {
    let inner = Fiber::new(|_| {
        yield_(()).unwrap();
        error("late")
    });
    let inner = Rc::new(inner.unwrap());
    assert_eq!(inner.resume(()).unwrap(), Signal::Yield);
    let caller = propagating(EVERYTHING, &inner);
    assert_eq!(caller.resume(()).unwrap(), Signal::Yield);
    assert_eq!(caller.resume(()).unwrap(), Signal::Error);
    assert_eq!((taken::<&str>(&caller), inner.status()), ("late", Status::Error));
}

#[test]
fn propagating_from_the_outermost_of_a_stopped_chain_continues_its_innermost() {
    let middle = Fiber::new(|_| {
        let innermost =
            Fiber::builder().name("innermost").mask(Mask::NONE).build(|_| yield_("up").unwrap()).unwrap();
        assert_eq!(innermost.resume(()).unwrap(), Signal::Ok);
        taken::<u32>(&innermost) + 1
    });
    let middle = Rc::new(middle.unwrap());
    assert_eq!(middle.resume(()).unwrap(), Signal::Yield);
    let caller = propagating(Mask::YIELD, &middle);
    assert_eq!(caller.resume(()).unwrap(), Signal::Yield);
    assert_eq!(caller.lineage().len(), 3);
    assert_eq!(caller.lineage()[2].name().as_deref(), Some("innermost"));
    assert_eq!(caller.resume(1u32).unwrap(), Signal::Ok);
    assert_eq!(taken::<u32>(&caller), 2);
}

#[test]
fn propagating_from_a_new_or_running_fiber_is_refused() {
    let refused = propagate((), &fiber_in(Status::New)).unwrap_err();
    assert_eq!(
        (refused.operation(), refused.status(), refused.reason()),
        (Operation::Propagate, Status::New, Reason::Status)
    );
    let caller = Rc::<Fiber>::new_cyclic(|me| {
        let me = me.clone();
        let body = move |_| propagate((), &me.upgrade().unwrap()).unwrap_err().status() == Status::Alive;
        Fiber::new(body).unwrap()
    });
    assert_eq!(caller.resume(()).unwrap(), Signal::Ok);
    assert!(taken::<bool>(&caller));
}

#[test]
fn a_fiber_that_is_stopped_below_one_caller_cannot_be_propagated_by_a_second() {
    let inner = Rc::new(fiber_in(Status::Pending));
    let first = propagating(EVERYTHING, &inner);
    assert_eq!(first.resume(()).unwrap(), Signal::Yield);
    let refused = propagate((), &inner).unwrap_err();
    assert_eq!((refused.reason(), refused.status()), (Reason::Linked, Status::Pending));
    assert_eq!(first.resume("still fine").unwrap(), Signal::Ok);
    assert_eq!(taken::<&str>(&first), "still fine");
}

#[test]
fn propagating_a_pause_that_nobody_catches_is_refused_and_leaves_the_fiber_paused() {
    let inner = fiber_in(Status::Pending);
    let refused = propagate("again", &inner).unwrap_err();
    assert_eq!(refused.reason(), Reason::Uncaught);
    assert_eq!((inner.status(), last_text(&inner)), (Status::Pending, Some("stopped")));
    assert_eq!(inner.resume("on").unwrap(), Signal::Ok);
}

#[test]
fn a_root_has_nowhere_to_return_to_so_propagating_from_a_dead_fiber_is_refused_there() {
    let refused = propagate((), &fiber_in(Status::Dead)).unwrap_err();
    assert_eq!((refused.reason(), refused.status()), (Reason::Status, Status::Dead));
}

#[test]
fn propagating_a_breakpoint_that_nobody_catches_asks_the_hook_and_continues_the_fiber() {
    let hook = CountingHook::default();
    let mut root = Root::new("root", Mask::NONE);
    let result = run_as_root(&mut root, Some(&hook), || {
        let inner = Fiber::builder().mask(Mask::DEBUG).build(|_| debug("stopped").unwrap()).unwrap();
        assert_eq!(inner.resume(()).unwrap(), Signal::Debug);
        propagate("again", &inner).unwrap().downcast::<u32>().unwrap()
    });
    assert_eq!(result.unwrap(), 42, "the hook's answer went to the fiber, which returned it");
    let (signal, payload) = hook.last.take().unwrap();
    assert_eq!((signal, payload.downcast::<&str>().unwrap()), (Signal::Debug, "again"));
}

#[test]
fn propagate_twice_keeps_the_trace_of_the_first_raise() {
    let raised_at = line!() + 1;
    let innermost = Fiber::builder().name("innermost").mask(Mask::ERROR).build(|_| error("boom")).unwrap();
    let middle = Fiber::builder().name("middle").mask(Mask::ERROR).build(move |_| {
        assert_eq!(innermost.resume(()).unwrap(), Signal::Error);
        propagate(innermost.take_value(), &innermost).unwrap()
    });
    let middle = middle.unwrap();
    let outer = Fiber::builder().name("outer").mask(Mask::ERROR).build(move |_| {
        assert_eq!(middle.resume(()).unwrap(), Signal::Error);
        propagate(middle.take_value(), &middle).unwrap()
    });
    let outer = outer.unwrap();
    assert_eq!(outer.resume(()).unwrap(), Signal::Error);
    let raised = outer.take_raised();
    assert_eq!(raised.value.downcast::<&str>().unwrap(), "boom");
    let trace = raised.trace.unwrap();
    assert!(trace.raised_at().contains(&format!("propagate.rs:{raised_at}:")), "{}", trace.raised_at());
    let names: Vec<_> = trace.links().iter().take(3).map(|link| link.name.as_deref().unwrap()).collect();
    assert_eq!(names, ["innermost", "middle", "outer"]);
}

#[test]
fn a_fiber_that_was_first_resumed_further_up_can_be_propagated_and_continued_from_deeper_down() {
    let inner = Rc::new(Fiber::new(|_| yield_(1u32).unwrap()).unwrap());
    assert_eq!(inner.resume(()).unwrap(), Signal::Yield);
    let outer = Fiber::new(move |_| {
        let catcher = Fiber::new(move |_| {
            let caller = propagating(Mask::NONE, &inner);
            assert_eq!(caller.resume(()).unwrap(), Signal::Ok);
            caller.take_value()
        });
        let catcher = catcher.unwrap();
        assert_eq!(catcher.resume(()).unwrap(), Signal::Yield);
        assert_eq!(catcher.resume(7u32).unwrap(), Signal::Ok);
        catcher.take_value()
    });
    let outer = outer.unwrap();
    assert_eq!(outer.resume(()).unwrap(), Signal::Ok);
    assert_eq!(taken::<u32>(&outer), 7);
}

#[test]
fn a_propagated_fiber_obeys_the_masks_above_its_new_place() {
    let hook = CountingHook::default();
    let mut root = Root::new("root", Mask::NONE);
    let result = run_as_root(&mut root, Some(&hook), || {
        let inner = Fiber::new(|_| {
            yield_(()).unwrap();
            await_("caught on the way up").unwrap()
        });
        let inner = Rc::new(inner.unwrap());
        assert_eq!(inner.resume(()).unwrap(), Signal::Yield);
        let caller = propagating(Mask::YIELD | Mask::AWAIT, &inner);
        assert_eq!(caller.resume(()).unwrap(), Signal::Yield);
        assert_eq!(caller.resume(()).unwrap(), Signal::Await);
        last_text(&caller)
    });
    assert_eq!(result.unwrap(), Some("caught on the way up"));
    assert_eq!(hook.stops.get(), 0);
}

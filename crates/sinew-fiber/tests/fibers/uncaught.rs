//! Signals that no fiber on the way catches: refused, handed to the root's hook, or passed over.

use sinew_fiber::{
    Fiber, Hook, Mask, Reason, Root, Signal, Value, await_, debug, run_as_root, signal, yield_,
};

use crate::support::{CountingHook, taken};

const NEEDS_A_CATCHER: [Signal; 4] = [Signal::Yield, Signal::User5, Signal::User6, Signal::User7];

/// Raises `stop` two fibers deep in a task whose root has `mask`; none of the fibers catches anything.
fn raise_below(mask: Mask, hook: Option<&dyn Hook>, stop: Signal) -> Result<u32, Reason> {
    let mut root = Root::new("task", mask);
    let outcome = run_as_root(&mut root, hook, || {
        let outer = Fiber::builder().mask(Mask::NONE).build(move |_| {
            let inner = Fiber::builder().mask(Mask::NONE);
            let inner = inner.build(move |_| match signal(stop, "payload") {
                Ok(answer) => answer,
                Err(refused) => Value::new(refused.reason()),
            });
            let inner = inner.unwrap();
            assert_eq!(inner.resume(()).unwrap(), Signal::Ok);
            inner.take_value()
        });
        let outer = outer.unwrap();
        assert_eq!(outer.resume(()).unwrap(), Signal::Ok);
        outer.take_value()
    });
    outcome.unwrap().downcast::<u32>().map_err(|other| other.value.downcast::<Reason>().unwrap())
}

#[test]
fn a_pause_that_nobody_catches_is_refused_where_it_is_raised() {
    for stop in NEEDS_A_CATCHER {
        assert_eq!(raise_below(Mask::NONE, None, stop), Err(Reason::Uncaught));
        assert_eq!(signal(stop, ()).unwrap_err().reason(), Reason::Uncaught, "outside all fibers");
    }
}

#[test]
fn a_pause_in_the_mask_of_a_root_with_a_hook_is_handed_to_the_hook() {
    for stop in NEEDS_A_CATCHER {
        let hook = CountingHook::default();
        assert_eq!(raise_below(Mask::of(stop), Some(&hook), stop), Ok(42));
        let (seen, payload) = hook.last.take().unwrap();
        assert_eq!((seen, payload.downcast::<&str>().unwrap()), (stop, "payload"));
        assert_eq!(hook.stops.get(), 1);
    }
}

#[test]
fn a_pause_that_is_not_in_the_root_s_mask_is_refused_although_there_is_a_hook() {
    for stop in NEEDS_A_CATCHER {
        let hook = CountingHook::default();
        assert_eq!(raise_below(Mask::NONE, Some(&hook), stop), Err(Reason::Uncaught));
        assert_eq!(hook.stops.get(), 0);
    }
}

#[test]
fn a_root_s_mask_without_a_hook_catches_nothing() {
    for stop in NEEDS_A_CATCHER {
        assert_eq!(raise_below(Mask::ALL, None, stop), Err(Reason::Uncaught));
    }
}

#[test]
fn await_interrupt_and_debug_reach_the_hook_whatever_the_root_s_mask() {
    for stop in [Signal::Await, Signal::Interrupt, Signal::Debug] {
        let hook = CountingHook::default();
        assert_eq!(raise_below(Mask::NONE, Some(&hook), stop), Ok(42));
        assert_eq!(hook.last.take().unwrap().0, stop);
    }
}

#[test]
fn debug_and_interrupt_go_on_at_once_if_there_is_no_hook_either() {
    let fiber = Fiber::builder().mask(Mask::NONE).build(|_| {
        debug("nobody looks").unwrap();
        signal(Signal::Interrupt, ()).unwrap();
        "went on"
    });
    let fiber = fiber.unwrap();
    assert_eq!(fiber.resume(()).unwrap(), Signal::Ok);
    assert_eq!(taken::<&str>(&fiber), "went on");
}

#[test]
fn a_fiber_on_the_way_that_catches_it_comes_before_the_hook() {
    let hook = CountingHook::default();
    let mut root = Root::new("task", Mask::ALL);
    run_as_root(&mut root, Some(&hook), || {
        let fiber = Fiber::new(|_| {
            yield_("for the resumer").unwrap();
            await_("for the hook").unwrap()
        });
        let fiber = fiber.unwrap();
        assert_eq!(fiber.resume(()).unwrap(), Signal::Yield);
        assert_eq!((taken::<&str>(&fiber), hook.stops.get()), ("for the resumer", 0));
        assert_eq!(fiber.resume(()).unwrap(), Signal::Ok);
        assert_eq!((taken::<u32>(&fiber), hook.stops.get()), (42, 1));
    })
    .unwrap();
}

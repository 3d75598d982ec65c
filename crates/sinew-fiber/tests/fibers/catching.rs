//! `protect`, `try_` and `prompt`: what they catch, what passes through, and what their bodies may borrow.

use std::cell::Cell;

use sinew_fiber::{
    Fiber, Mask, Panic, Root, Signal, Status, Value, defer, edefer, error, prompt, propagate, protect,
    return_to, run_as_root, signal, try_, with, with_bindings, yield_,
};

use crate::support::{EVERYTHING, FAILED, RESUMABLE, fiber_in, last_text, taken};

#[test]
fn protect_and_try_give_the_result_of_a_body_that_returns() {
    assert_eq!(protect(|| 42).unwrap(), 42);
    assert_eq!(try_(|| 42, |_| unreachable!("nothing was raised")), 42);
}

#[test]
fn protect_and_try_catch_an_error() {
    let raised = protect(|| error("boom")).unwrap_err();
    assert_eq!((raised.signal, raised.value.downcast::<&str>().unwrap()), (Signal::Error, "boom"));
    assert_eq!(try_(|| error("boom"), |raised| raised.value.downcast::<&str>().unwrap()), "boom");
}

#[test]
fn protect_and_try_catch_a_panic() {
    let raised = protect(|| panic!("boom")).unwrap_err();
    assert_eq!(raised.value.downcast::<Panic>().unwrap().message, "boom");
    let message = try_(|| panic!("boom"), |raised| raised.value.downcast::<Panic>().unwrap().message);
    assert_eq!(message, "boom");
}

#[test]
fn protect_and_try_let_every_other_end_pass() {
    for status in FAILED.into_iter().skip(1) {
        let stop = status.signal().unwrap();
        let bodies: [Box<dyn FnOnce() -> Value>; 2] = [
            Box::new(move || protect(|| signal(stop, "past").unwrap()).unwrap()),
            Box::new(move || try_(|| signal(stop, "past").unwrap(), |_| unreachable!("not an error"))),
        ];
        for body in bodies {
            let fiber = Fiber::builder().mask(EVERYTHING).build(move |_| body()).unwrap();
            assert_eq!(fiber.resume(()).unwrap(), stop);
            assert_eq!(taken::<&str>(&fiber), "past");
        }
    }
}

/// What makes the running fiber return "early" from any depth.
fn returns_early() -> [fn() -> Value; 2] {
    [|| signal(Signal::Ok, "early").unwrap(), || propagate("early", &fiber_in(Status::Dead)).unwrap()]
}

#[test]
fn raising_ok_inside_protect_and_its_like_returns_from_the_fiber_around_them() {
    for early in returns_early() {
        let bodies: [Box<dyn FnOnce() -> Value>; 6] = [
            Box::new(move || protect(early).unwrap()),
            Box::new(move || try_(early, |_| unreachable!("a return is no error"))),
            Box::new(move || protect(|| try_(early, |_| unreachable!("a return is no error"))).unwrap()),
            Box::new(move || prompt(|_| early())),
            Box::new(move || with(1, |_| (), |_| early())),
            Box::new(move || with_bindings([], early)),
        ];
        for body in bodies {
            let fiber = Fiber::builder().mask(EVERYTHING).build(move |_| {
                body();
                unreachable!("the fiber has returned")
            });
            let fiber = fiber.unwrap();
            assert_eq!(fiber.resume(()).unwrap(), Signal::Ok);
            assert_eq!((fiber.status(), taken::<&str>(&fiber)), (Status::Dead, "early"));
        }
    }
}

#[test]
fn raising_ok_is_a_return_for_cleanups_defer_runs_and_edefer_does_not() {
    for early in returns_early() {
        let fiber = Fiber::builder().mask(EVERYTHING).build(move |_| {
            edefer(
                || error("edefer cleans up after a failure only"),
                || defer(|| yield_("defer").map(drop).unwrap(), early),
            )
        });
        let fiber = fiber.unwrap();
        assert_eq!(fiber.resume(()).unwrap(), Signal::Yield);
        assert_eq!(last_text(&fiber), Some("defer"));
        assert_eq!(fiber.resume(()).unwrap(), Signal::Ok);
        assert_eq!(taken::<&str>(&fiber), "early");
    }
}

#[test]
fn ok_that_passes_through_protect_reaches_a_root_as_itself() {
    let mut root = Root::new("root", Mask::NONE);
    for early in returns_early() {
        let raised = run_as_root(&mut root, None, || protect(early).unwrap()).unwrap_err();
        assert_eq!((raised.signal, raised.value.downcast::<&str>().unwrap()), (Signal::Ok, "early"));
        assert_eq!(root.status(), Status::Dead);
    }
}

#[test]
fn every_pause_passes_through_protect_try_defer_and_prompt_and_the_answer_comes_back_in() {
    for status in RESUMABLE {
        let stop = status.signal().unwrap();
        let fiber = Fiber::builder().mask(EVERYTHING).build(move |_| {
            let paused = || signal(stop, "paused").unwrap();
            let through = || prompt(|_| defer(|| (), || protect(paused).unwrap()));
            try_(through, |raised| error(raised.value))
        });
        let fiber = fiber.unwrap();
        assert_eq!(fiber.resume(()).unwrap(), stop);
        assert_eq!(last_text(&fiber), Some("paused"));
        assert_eq!(fiber.resume("answer").unwrap(), Signal::Ok);
        assert_eq!(taken::<&str>(&fiber), "answer");
    }
}

#[test]
fn an_error_in_the_catch_of_try_is_not_caught_by_it() {
    let raised = protect(|| try_(|| error("first"), |_| error("second"))).unwrap_err();
    assert_eq!(raised.value.downcast::<&str>().unwrap(), "second");
}

#[test]
fn bodies_borrow_and_change_what_is_around_them_and_return_what_is_not_static() {
    let mut log = Vec::new();
    let text = String::from("borrowed");
    let part: &str = protect(|| {
        log.push(1);
        &text[..3]
    })
    .unwrap();
    let part = try_(|| error(()), |_| part);
    prompt(|_| log.push(2));
    assert_eq!((part, log), ("bor", vec![1, 2]));
}

#[test]
fn the_result_of_a_protected_body_need_not_be_send() {
    let shared = protect(|| std::rc::Rc::new(Cell::new(1))).unwrap();
    assert_eq!(shared.get(), 1);
}

#[test]
fn a_prompt_returns_its_body_s_result_if_nobody_returns_to_it() {
    assert_eq!(prompt(|_| "result"), "result");
}

#[test]
fn return_to_leaves_any_depth_at_once_and_runs_destructors_and_cleanups_on_the_way() {
    let unwound = Cell::new(0);
    struct Counts<'a>(&'a Cell<u32>);
    impl Drop for Counts<'_> {
        fn drop(&mut self) {
            self.0.set(self.0.get() + 1);
        }
    }
    let found = prompt(|here| {
        let _outer = Counts(&unwound);
        defer(
            || unwound.set(unwound.get() + 10),
            || {
                let _inner = Counts(&unwound);
                protect(|| -> u32 { return_to(here, 7) }).unwrap()
            },
        )
    });
    assert_eq!((found, unwound.get()), (7, 12));
}

#[test]
fn return_to_an_outer_prompt_passes_through_the_inner_ones() {
    let result = prompt(|outer| {
        let inner: &str = prompt(|_| prompt(|_| return_to(outer, "outer")));
        unreachable!("the inner prompts do not return {inner}")
    });
    assert_eq!(result, "outer");
}

#[test]
fn return_to_the_inner_of_two_prompts_stops_there() {
    let result = prompt(|outer| {
        let inner = prompt(|inner| return_to(inner, 1));
        return_to(outer, inner + 1)
    });
    assert_eq!(result, 2);
}

#[test]
fn a_return_to_in_a_cleanup_takes_the_place_of_the_one_on_the_way() {
    let same = prompt(|here| defer(|| return_to(here, "cleanup"), || return_to(here, "body")));
    assert_eq!(same, "cleanup");
    let outer = prompt(|outer| {
        prompt(|inner| defer(|| return_to(outer, "cleanup"), || return_to(inner, "body")));
        "the inner prompt returned"
    });
    assert_eq!(outer, "cleanup");
    let inner = prompt(|outer| {
        let inner = prompt(|inner| defer(|| return_to(inner, "cleanup"), || return_to(outer, "body")));
        assert_eq!(inner, "cleanup");
        "went on"
    });
    assert_eq!(inner, "went on");
}

#[test]
fn a_return_to_that_a_cleanup_overtook_leaves_nothing_behind() {
    let result = prompt(|outer| {
        // The return to `outer` is overtaken by an error, which is caught below it.
        let caught = protect(|| defer(|| error("overtakes"), || return_to(outer, "overtaken")));
        assert_eq!(caught.unwrap_err().value.downcast::<&str>().unwrap(), "overtakes");
        "the body's own"
    });
    assert_eq!(result, "the body's own");
}

#[test]
fn errors_and_other_user_signals_pass_through_a_prompt_and_so_does_a_foreign_user0() {
    assert!(protect(|| prompt(|_| -> u32 { error("boom") })).is_err());
    let fiber = Fiber::builder().mask(Mask::USER);
    let fiber = fiber.build(|_| prompt(|_| signal(Signal::User0, "foreign").unwrap())).unwrap();
    assert_eq!(fiber.resume(()).unwrap(), Signal::User0);
    assert_eq!(taken::<&str>(&fiber), "foreign");
}

#[test]
fn recursion_through_prompts_returns_to_the_very_call_that_is_meant() {
    fn search(depth: u32, up: Option<&sinew_fiber::Prompt<u32>>) -> u32 {
        prompt(|here| match (depth, up) {
            (0, Some(up)) => return_to(up, 100),
            (0, None) => return_to(here, 0),
            _ => search(depth - 1, Some(here)) + 1,
        })
    }
    assert_eq!(search(0, None), 0);
    assert_eq!(search(1, None), 100, "the call that made it returned instead of adding");
    assert_eq!(search(3, None), 102);
}

#[test]
fn pausing_inside_a_prompt_and_returning_to_it_afterwards_works() {
    let fiber = Fiber::new(|_| {
        prompt(|here| {
            let answer = yield_("question").unwrap().downcast::<u32>().unwrap();
            protect(|| return_to(here, answer * 2)).unwrap()
        })
    });
    let fiber = fiber.unwrap();
    assert_eq!(fiber.resume(()).unwrap(), Signal::Yield);
    assert_eq!(fiber.resume(21u32).unwrap(), Signal::Ok);
    assert_eq!(taken::<u32>(&fiber), 42);
}

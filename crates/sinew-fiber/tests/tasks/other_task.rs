//! A fiber belongs to the root under which it was first resumed.

use std::cell::RefCell;
use std::rc::Rc;

use sinew_fiber::{Fiber, Mask, Reason, Root, Signal, Status, current, propagate, root, run_as_root, yield_};

use crate::support::{FAILED, RESUMABLE, fiber_in, last_text, taken};

/// Runs `body` as a task of its own.
fn task<T>(body: impl FnOnce() -> T) -> T {
    run_as_root(&mut Root::new("task", Mask::NONE), None, body).unwrap()
}

#[test]
fn a_stopped_fiber_of_another_task_is_refused_and_left_as_it_was() {
    for status in RESUMABLE {
        let fiber = task(|| fiber_in(status));
        let check = || {
            let reasons = [
                fiber.resume(()).unwrap_err().reason(),
                fiber.cancel(()).unwrap_err().reason(),
                propagate((), &fiber).unwrap_err().reason(),
            ];
            assert_eq!(reasons, [Reason::OtherTask; 3]);
            assert_eq!((fiber.status(), last_text(&fiber)), (status, Some("stopped")));
        };
        task(check);
        check(); // the thread's own root is another one too
    }
}

#[test]
fn an_ended_fiber_of_another_task_cannot_be_propagated() {
    for status in FAILED {
        let fiber = fiber_in(status);
        let refused = task(|| propagate((), &fiber).unwrap_err());
        assert_eq!((refused.reason(), refused.status()), (Reason::OtherTask, status));
    }
    let dead = fiber_in(Status::Dead);
    let refused = task(|| {
        let caller =
            Fiber::new(move |_| propagate((), &dead).unwrap_err().reason() == Reason::OtherTask).unwrap();
        assert_eq!(caller.resume(()).unwrap(), Signal::Ok);
        taken::<bool>(&caller)
    });
    assert!(refused);
}

#[test]
fn a_new_fiber_may_be_started_by_another_task_than_made_it_and_is_that_one_s_from_then_on() {
    let fiber = Fiber::new(|_| yield_(root().name().unwrap().into_owned()).unwrap()).unwrap();
    let mut adopter = Root::new("adopter", Mask::NONE);
    run_as_root(&mut adopter, None, || {
        assert_eq!(fiber.resume(()).unwrap(), Signal::Yield);
        assert_eq!(taken::<String>(&fiber), "adopter");
    })
    .unwrap();
    assert_eq!(fiber.resume(()).unwrap_err().reason(), Reason::OtherTask);
    run_as_root(&mut adopter, None, || {
        assert_eq!(fiber.resume("back home").unwrap(), Signal::Ok);
        assert_eq!(taken::<&str>(&fiber), "back home");
    })
    .unwrap();
}

#[test]
fn a_fiber_is_refused_inside_a_task_that_runs_in_the_middle_of_its_own() {
    let seen = Rc::new(RefCell::new(None));
    let to = seen.clone();
    let fiber = Rc::new(fiber_in(Status::Pending));
    let inner = fiber.clone();
    let outer = Fiber::new(move |_| {
        *to.borrow_mut() = Some(task(|| inner.resume(()).unwrap_err().reason()));
        assert_eq!(inner.resume(()).unwrap(), Signal::Ok, "and goes on in its own");
    });
    assert_eq!(outer.unwrap().resume(()).unwrap(), Signal::Ok);
    assert_eq!(seen.take(), Some(Reason::OtherTask));
}

#[test]
fn all_fibers_of_a_task_have_the_same_root_and_the_running_one_is_current() {
    let here = root();
    assert_eq!(current(), here, "outside all fibers");
    task(|| {
        let task_root = root();
        assert_ne!(task_root, here);
        assert_eq!((task_root.name().as_deref(), task_root.status()), (Some("task"), Status::Alive));
        let same = |view: sinew_fiber::FiberRef, id: u64| view.id() == id;
        let id = task_root.id();
        let outer = Fiber::builder().name("outer").build(move |_| {
            let inner = Fiber::builder().name("inner").build(move |_| {
                assert_eq!(current().name().as_deref(), Some("inner"));
                same(root(), id)
            });
            let inner = inner.unwrap();
            assert_eq!(inner.resume(()).unwrap(), Signal::Ok);
            assert_eq!(current().name().as_deref(), Some("outer"));
            same(root(), id) && taken::<bool>(&inner)
        });
        let outer = outer.unwrap();
        assert_eq!(outer.resume(()).unwrap(), Signal::Ok);
        assert!(taken::<bool>(&outer));
        assert_eq!(current(), task_root);
    });
    assert_eq!(root(), here);
}

#[test]
fn a_root_shows_how_its_last_run_ended() {
    let mut root = Root::new("task", Mask::NONE);
    run_as_root(&mut root, None, || ()).unwrap();
    assert_eq!(root.status(), Status::Dead);
    let raised = run_as_root(&mut root, None, || sinew_fiber::error("boom")).unwrap_err();
    assert_eq!((raised.signal, root.status()), (Signal::Error, Status::Error));
    let raised = run_as_root(&mut root, None, || panic!("boom")).unwrap_err();
    assert_eq!((raised.signal, root.status()), (Signal::Error, Status::Error));
    run_as_root(&mut root, None, || ()).unwrap();
    assert_eq!(root.status(), Status::Dead);
}

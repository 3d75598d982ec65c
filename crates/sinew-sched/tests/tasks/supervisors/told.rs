//! Supervisors that tasks inherit, and what tasks tell them without stopping.

use sinew_fiber::{Fiber, Mask, Root, Signal, error, protect, run_as_root};
use sinew_sched::{Events, TaskId, TellError, scope, spawn, spawn_future, task, tell_supervisor};

use super::runtime;

#[test]
fn a_task_that_inherits_its_supervisor_tells_it_how_it_ends() {
    runtime(2)
        .run(|| {
            let events = Events::new();
            let next = || {
                let event = events.recv().unwrap();
                (event.name.unwrap().into_owned(), event.signal)
            };
            let parent = task().name("parent").supervisor(&events).spawn(|| {
                let child = task().name("child").inherit_supervisor().spawn(|| {
                    let grandchild = task().name("grandchild").inherit_supervisor();
                    assert!(grandchild.spawn(|| error("deep")).join().map(|(): ()| ()).is_err());
                });
                child.join().unwrap();
                let future = task()
                    .name("future")
                    .inherit_supervisor()
                    .spawn_future(async { task().name("of a future").inherit_supervisor().spawn(|| ()) });
                future.join().unwrap().join().unwrap();
                scope(|scope| {
                    scope.task().name("of a scope").inherit_supervisor().spawn(|| ()).join().unwrap();
                })
                .unwrap();
                // Of its own accord no task inherits one.
                let alone = spawn(|| error("to its joiner")).join().map(|(): ()| ()).unwrap_err();
                assert_eq!(alone.value.downcast::<&str>().unwrap(), "to its joiner");
            });
            assert_eq!(next(), ("grandchild".to_owned(), Signal::Error));
            assert_eq!(next(), ("child".to_owned(), Signal::Ok));
            let mut futures = [next(), next()]; // either may end first
            futures.sort_by_key(|(name, _)| name.clone());
            assert_eq!(futures, ["future", "of a future"].map(|name| (name.to_owned(), Signal::Ok)));
            assert_eq!(next(), ("of a scope".to_owned(), Signal::Ok));
            assert_eq!(next(), ("parent".to_owned(), Signal::Ok));
            parent.join().unwrap();
            assert!(events.is_empty());

            // There is none to inherit.
            let alone = task().inherit_supervisor().spawn(|| error("to its joiner"));
            assert!(alone.join().map(|(): ()| ()).unwrap_err().value.is::<&str>());
        })
        .unwrap();
    let outside = runtime(1).task().inherit_supervisor().spawn(|| error("to its joiner"));
    assert!(outside.join().map(|(): ()| ()).unwrap_err().value.is::<&str>());
}

#[test]
fn a_task_tells_its_supervisor_something_and_goes_on() {
    /// Tells when it is dropped.
    struct Tells(&'static str);
    impl Drop for Tells {
        fn drop(&mut self) {
            tell_supervisor(self.0).unwrap();
        }
    }
    for workers in [1, 2, 8] {
        runtime(workers)
            .run(|| {
                let events = Events::new();
                let message = |task: TaskId| {
                    let event = events.recv().unwrap();
                    assert_eq!((event.task, event.signal), (task, Signal::Yield));
                    assert!(event.is_message() && !event.is_stopped());
                    event.value.downcast::<&str>().unwrap()
                };
                let end = |task: TaskId| {
                    let event = events.recv().unwrap();
                    assert!(event.task == task && !event.is_message());
                    event.signal
                };
                let telling = task().supervisor(&events).spawn(|| {
                    tell_supervisor("first").unwrap();
                    let _last = Tells("last");
                    let fiber = Fiber::new(|_| tell_supervisor("in a fiber").unwrap()).unwrap();
                    assert_eq!(fiber.resume(()).unwrap(), Signal::Ok);
                    protect(|| tell_supervisor("protected").unwrap()).unwrap();
                });
                let texts = [(); 4].map(|()| message(telling.id()));
                assert_eq!(texts, ["first", "in a fiber", "protected", "last"]);
                assert_eq!(end(telling.id()), Signal::Ok);
                telling.join().unwrap();

                let pending = task().supervisor(&events).spawn_future(async {
                    let _last = Tells("dropped");
                    tell_supervisor("polled").unwrap();
                    std::future::pending::<()>().await;
                });
                assert_eq!(message(pending.id()), "polled");
                pending.cancel();
                assert_eq!(message(pending.id()), "dropped");
                assert_eq!(end(pending.id()), Signal::Error);
            })
            .unwrap();
    }
}

#[test]
fn telling_a_supervisor_that_is_not_there_is_an_error_with_what_was_to_be_told() {
    fn no_supervisor() {
        match tell_supervisor("nobody").unwrap_err() {
            TellError::NoSupervisor { item } => assert_eq!(item.downcast::<&str>().unwrap(), "nobody"),
            other => panic!("{other}"),
        }
    }
    no_supervisor();
    runtime(1)
        .run(|| {
            no_supervisor();
            task().name("with options").spawn(no_supervisor).join().unwrap();
            spawn_future(async { no_supervisor() }).join().unwrap();

            let events = Events::new();
            let own_root = task().supervisor(&events).spawn(|| {
                run_as_root(&mut Root::new("another root", Mask::NONE), None, no_supervisor).unwrap();
            });
            own_root.join().unwrap();
            // There is one worker, so it runs when its supervisor is gone.
            let told = task().supervisor(&events).spawn(|| tell_supervisor("too late").unwrap_err());
            drop(events);
            match told.join().unwrap() {
                TellError::SupervisorGone { item } => {
                    assert_eq!(item.downcast::<&str>().unwrap(), "too late");
                }
                other => panic!("{other}"),
            }
        })
        .unwrap();
}

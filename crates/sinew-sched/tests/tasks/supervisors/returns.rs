//! A task that raises `ok`: a return for its supervisor and for its joiner.

use sinew_fiber::{Fiber, Signal, Value, propagate, protect, signal};
use sinew_sched::{Events, JoinHandle, scope, spawn, spawn_future, task};

use super::runtime;

#[test]
fn a_task_that_raises_ok_has_returned_for_its_supervisor_and_for_its_joiner() {
    runtime(2)
        .run(|| {
            let events = Events::new();
            let returned = |handle: JoinHandle<u32>| {
                assert_eq!(events.recv().unwrap().signal, Signal::Ok);
                handle.join().unwrap()
            };
            let five = || drop(signal(Signal::Ok, 5u32));
            let early = move || -> u32 {
                five();
                unreachable!("the task has returned")
            };
            assert_eq!(returned(task().supervisor(&events).spawn(early)), 5);
            assert_eq!(returned(task().supervisor(&events).spawn_local(early)), 5);
            assert_eq!(returned(task().supervisor(&events).spawn_future(async move { early() })), 5);
            assert_eq!(returned(task().supervisor(&events).spawn(move || protect(early).unwrap())), 5);
            let propagates = || -> u32 {
                let dead = Fiber::new(|_| 1u32).unwrap();
                assert_eq!(dead.resume(()).unwrap(), Signal::Ok);
                drop(propagate(5u32, &dead));
                unreachable!("the task has returned")
            };
            assert_eq!(returned(task().supervisor(&events).spawn(propagates)), 5);
            assert_eq!(spawn(early).join().unwrap(), 5, "without a supervisor");
            assert_eq!(spawn_future(async move { early() }).join().unwrap(), 5);
            let value = spawn(|| -> Value { signal(Signal::Ok, "any value").unwrap() }).join().unwrap();
            assert_eq!(value.downcast::<&str>().unwrap(), "any value");
        })
        .unwrap();
}

#[test]
fn a_task_that_raises_ok_with_what_its_body_cannot_return_has_failed_for_both() {
    runtime(2)
        .run(|| {
            let events = Events::new();
            let wrong = task().supervisor(&events).spawn(|| -> u32 {
                drop(signal(Signal::Ok, "text"));
                unreachable!("the task has ended")
            });
            let event = events.recv().unwrap();
            assert_eq!(event.signal, Signal::Error);
            let shown = format!("{:?}", event.value);
            assert!(shown.contains("&str") && shown.contains("u32"), "{shown}");
            let told = wrong.join().unwrap_err();
            assert_eq!(told.signal, Signal::Error);
            assert!(told.to_string().contains(&shown), "{told}");

            let child = scope(|scope| {
                scope.spawn(|| drop(signal(Signal::Ok, ())));
            });
            let failed = child.unwrap_err();
            assert_eq!(failed.signal, Signal::Error);
            assert!(failed.to_string().contains("scope"), "{failed}");
        })
        .unwrap();
}

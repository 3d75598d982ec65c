//! Scopes: children that borrow, what they give or how they fail, and closers.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use sinew_fiber::{Fiber, Mask, Panic, Reason, Refused, Signal, error, yield_};
use sinew_sched::{Runtime, Scope, block_on, scope, sleep, spawn, yield_now};

use crate::children::{Borrowed, LONG, child, with_runtimes};

#[test]
fn children_borrow_and_the_scope_waits_for_all_of_them() {
    with_runtimes(|pinned| {
        let mut numbers = vec![0u64; 100];
        let sum = scope(|scope| {
            for (at, number) in numbers.iter_mut().enumerate() {
                drop(child(scope, pinned, move || {
                    yield_now();
                    *number = at as u64;
                }));
            }
            7
        });
        assert_eq!(sum.unwrap(), 7);
        assert_eq!(numbers.iter().sum::<u64>(), 4950);
    });
}

#[test]
fn results_that_borrow_are_joined_or_dropped_inside_the_scope() {
    with_runtimes(|pinned| {
        let text = String::from("one two three");
        let longest = scope(|scope| {
            let words: Vec<_> =
                text.split(' ').map(|word| child(scope, pinned, move || (word.len(), word))).collect();
            drop(child(scope, pinned, || text.as_str()));
            words.into_iter().map(|word| word.join().unwrap()).max().unwrap().1
        });
        assert_eq!(longest.unwrap(), "three");
    });
}

#[test]
fn children_start_children_in_the_same_scope() {
    with_runtimes(|pinned| {
        let count = AtomicUsize::new(0);
        fn tree<'scope>(
            scope: &'scope Scope<'scope, '_>,
            count: &'scope AtomicUsize,
            depth: u32,
            pinned: bool,
        ) {
            count.fetch_add(1, Ordering::Relaxed);
            if depth > 0 {
                for _ in 0..3 {
                    drop(child(scope, pinned, move || tree(scope, count, depth - 1, pinned)));
                }
            }
        }
        scope(|scope| tree(scope, &count, 5, pinned)).unwrap();
        assert_eq!(count.load(Ordering::Relaxed), 364);
    });
}

#[test]
fn the_first_failure_cancels_the_siblings_and_the_body_and_is_the_scope_s() {
    with_runtimes(|pinned| {
        let borrowed = Borrowed::new();
        let outcome = scope(|scope| {
            for _ in 0..5 {
                drop(child(scope, pinned, || borrowed.use_it(usize::MAX)));
            }
            drop(child(scope, pinned, || {
                borrowed.wait_for_users(5);
                error("the first")
            }));
            sleep(LONG); // unwinds
            unreachable!()
        });
        yield_now(); // would unwind if anything were left of the scope
        let failure: sinew_fiber::Raised = Result::<(), _>::unwrap_err(outcome);
        assert!(failure.trace.as_ref().unwrap().raised_at().contains("scopes.rs"));
        assert_eq!(failure.value.downcast::<&str>().unwrap(), "the first");
    });
}

#[test]
fn a_panic_of_a_child_propagates_with_its_message_and_place() {
    with_runtimes(|pinned| {
        let failure = scope(|scope| drop(child(scope, pinned, || panic!("in a child")))).unwrap_err();
        assert_eq!(failure.signal, Signal::Error);
        assert!(failure.trace.is_some());
        let panic = failure.value.downcast::<Panic>().unwrap();
        assert_eq!(panic.message, "in a child");
        assert!(panic.location.unwrap().contains("scopes.rs"));
    });
}

#[test]
fn a_scope_that_keeps_going_lets_the_others_finish() {
    with_runtimes(|pinned| {
        let finished = AtomicUsize::new(0);
        let outcome = scope(|scope| {
            scope.keep_going();
            for n in 0..10 {
                let finished = &finished;
                drop(child(scope, pinned, move || {
                    yield_now();
                    if n == 3 {
                        error("only this one");
                    }
                    yield_now();
                    finished.fetch_add(1, Ordering::Relaxed);
                }));
            }
            yield_now();
            "the body too"
        });
        assert_eq!(outcome.unwrap_err().value.downcast::<&str>().unwrap(), "only this one");
        assert_eq!(finished.load(Ordering::Relaxed), 9);
    });
}

#[test]
fn a_failure_that_was_joined_is_not_reported_again() {
    with_runtimes(|pinned| {
        let outcome = scope(|scope| {
            scope.keep_going();
            let failure = child(scope, pinned, || error("told")).join().map(|(): ()| ()).unwrap_err();
            failure.value.downcast::<&str>().unwrap()
        });
        assert_eq!(outcome.unwrap(), "told");
    });
}

#[test]
fn a_failure_that_the_body_waits_for_is_told_once_by_the_join_or_by_the_scope() {
    with_runtimes(|pinned| {
        let outcome = scope(|scope| {
            let failing = child(scope, pinned, || {
                yield_now();
                error("awaited")
            });
            failing.join().map(|(): ()| ())
        });
        let failure = match outcome {
            Ok(joined) => joined.unwrap_err(),
            Err(raised) => raised,
        };
        assert_eq!(failure.value.downcast::<&str>().unwrap(), "awaited");
    });
}

#[test]
fn a_failure_whose_handle_is_dropped_after_the_end_is_the_scope_s() {
    with_runtimes(|pinned| {
        let outcome = scope(|scope| {
            scope.keep_going();
            let failed = child(scope, pinned, || error("dropped"));
            while !failed.is_finished() {
                yield_now();
            }
            drop(failed);
            1
        });
        assert_eq!(outcome.unwrap_err().value.downcast::<&str>().unwrap(), "dropped");
    });
}

#[test]
fn a_panic_of_the_body_cancels_the_children_and_goes_on_after_they_have_ended() {
    with_runtimes(|pinned| {
        let outcome = sinew_fiber::protect(|| {
            let borrowed = Borrowed::new();
            let _ = scope(|scope| {
                for _ in 0..3 {
                    drop(child(scope, pinned, || borrowed.use_it(usize::MAX)));
                }
                borrowed.wait_for_users(3);
                panic!("in the body");
            });
        });
        assert_eq!(outcome.unwrap_err().value.downcast::<Panic>().unwrap().message, "in the body");
    });
}

#[test]
fn closers_run_after_the_children_in_reverse_order_however_the_scope_ends() {
    with_runtimes(|pinned| {
        for fails in [false, true] {
            let log = Mutex::new(Vec::new());
            let outcome = scope(|scope| {
                for n in 0..3 {
                    let log = &log;
                    scope.on_exit(move || {
                        yield_now();
                        log.lock().unwrap().push(n);
                    });
                }
                drop(child(scope, pinned, || {
                    yield_now();
                    log.lock().unwrap().push(10);
                }));
                if fails {
                    drop(child(scope, pinned, || {
                        while log.lock().unwrap().is_empty() {
                            yield_now();
                        }
                        error("fails")
                    }));
                }
            });
            assert_eq!(outcome.is_err(), fails);
            assert_eq!(*log.lock().unwrap(), [10, 2, 1, 0]);
        }
    });
}

#[test]
fn a_child_that_is_cancelled_alone_is_no_failure() {
    with_runtimes(|pinned| {
        let outcome = scope(|scope| {
            let sleeper = child(scope, pinned, || sleep(LONG));
            sleeper.cancel();
            drop(sleeper);
            let other = child(scope, pinned, || {
                yield_now();
                3
            });
            other.join().unwrap()
        });
        assert_eq!(outcome.unwrap(), 3);
    });
}

#[test]
fn a_scope_is_refused_inside_a_poll_and_while_unwinding() {
    with_runtimes(|_| {
        let inside =
            block_on(async { scope(|_| ()).unwrap_err().value.downcast::<Refused>().unwrap().reason() });
        assert_eq!(inside.unwrap(), Reason::InsidePoll);

        struct Scoped(Arc<Mutex<Option<Reason>>>);
        impl Drop for Scoped {
            fn drop(&mut self) {
                let refused = scope(|_| ()).unwrap_err().value.downcast::<Refused>().unwrap();
                *self.0.lock().unwrap() = Some(refused.reason());
            }
        }
        let reason = Arc::new(Mutex::new(None));
        let seen = reason.clone();
        let _ = spawn(move || {
            let _scoped = Scoped(seen);
            panic!("unwinds");
        })
        .join()
        .map(|(): ()| ())
        .unwrap_err();
        assert_eq!(*reason.lock().unwrap(), Some(Reason::Unwinding));
    });
}

#[test]
fn only_await_crosses_an_open_scope() {
    with_runtimes(|_| {
        let fiber = Fiber::builder()
            .mask(Mask::YIELD | Mask::ERROR)
            .build(|_| scope(|_| yield_(()).unwrap_err().reason()).unwrap() == Reason::OpenScope)
            .unwrap();
        assert_eq!(fiber.resume(()).unwrap(), Signal::Ok);
        assert!(fiber.take_value().downcast::<bool>().unwrap());
    });
}

#[test]
fn scopes_that_start_and_end_all_the_time_on_many_workers_never_hang() {
    for workers in [1, 2, 8] {
        let runtime = Runtime::builder().workers(workers).build().unwrap();
        let tasks: Vec<_> = (0..16)
            .map(|_| {
                runtime.spawn(|| {
                    let mut total = 0;
                    for n in 0..200u64 {
                        let sum = AtomicUsize::new(0);
                        scope(|scope| {
                            for _ in 0..4 {
                                drop(scope.spawn(|| sum.fetch_add(n as usize, Ordering::Relaxed)));
                            }
                        })
                        .unwrap();
                        total += sum.into_inner();
                    }
                    total
                })
            })
            .collect();
        for task in tasks {
            assert_eq!(task.join().unwrap(), 4 * 19_900);
        }
    }
}

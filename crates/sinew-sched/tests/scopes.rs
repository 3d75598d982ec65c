//! Scopes: children that borrow, and every way in which a scope can end.
#![cfg(not(any(loom, shuttle)))]

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use sinew_fiber::{Fiber, Mask, Panic, Reason, Refused, Signal, defer, error, shield, yield_};
use sinew_sched::sync::Semaphore;
use sinew_sched::{
    Elapsed, ManualClock, Runtime, Scope, ScopedJoinHandle, block_on, scope, sleep, spawn, timeout, yield_now,
};

const LONG: Duration = Duration::from_secs(1000);

/// Runs `test` as a task with one worker, two, and more than there are cores; children are pinned or not.
fn with_runtimes(test: fn(bool)) {
    for workers in [1, 2, 8] {
        for pinned in [false, true] {
            let runtime = Runtime::builder().workers(workers).build().unwrap();
            runtime.run(move || test(pinned)).unwrap();
            assert_eq!(runtime.shutdown(Duration::from_secs(60)).left, 0);
        }
    }
}

fn child<'scope, T: Send + 'scope>(
    scope: &'scope Scope<'scope, '_>,
    pinned: bool,
    body: impl FnOnce() -> T + Send + 'scope,
) -> ScopedJoinHandle<'scope, T> {
    let task = scope.task();
    if pinned { task.pinned().spawn(body) } else { task.spawn(body) }
}

struct OnDrop<F: Fn()>(F);

impl<F: Fn()> Drop for OnDrop<F> {
    fn drop(&mut self) {
        (self.0)();
    }
}

/// Something that must be whole for as long as any child uses it.
struct Borrowed {
    whole: AtomicBool,
    users: AtomicUsize,
}

impl Borrowed {
    fn new() -> Borrowed {
        Borrowed { whole: AtomicBool::new(true), users: AtomicUsize::new(0) }
    }

    /// Uses it until the task is cancelled, or so often.
    fn use_it(&self, times: usize) {
        struct Use<'a>(&'a Borrowed);
        impl Drop for Use<'_> {
            fn drop(&mut self) {
                assert!(self.0.whole.load(Ordering::SeqCst), "used after it was gone");
                self.0.users.fetch_sub(1, Ordering::SeqCst);
            }
        }
        self.users.fetch_add(1, Ordering::SeqCst);
        let _use = Use(self);
        for _ in 0..times {
            yield_now();
            assert!(self.whole.load(Ordering::SeqCst), "used after it was gone");
        }
    }

    fn wait_for_users(&self, users: usize) {
        while self.users.load(Ordering::SeqCst) < users {
            yield_now();
        }
    }
}

impl Drop for Borrowed {
    fn drop(&mut self) {
        self.whole.store(false, Ordering::SeqCst);
        assert_eq!(self.users.load(Ordering::SeqCst), 0, "a child still uses it");
    }
}

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
fn cancel_and_kill_of_the_parent_reach_the_children_and_the_scope_still_waits() {
    for workers in [1, 2, 8] {
        for pinned in [false, true] {
            for kill in [false, true] {
                let runtime = Runtime::builder().workers(workers).build().unwrap();
                let users = Arc::new(AtomicUsize::new(0));
                let seen = users.clone();
                let parent = runtime.spawn(move || {
                    let borrowed = Borrowed::new();
                    let outcome = scope(|scope| {
                        for _ in 0..4 {
                            drop(child(scope, pinned, || {
                                seen.fetch_add(1, Ordering::SeqCst);
                                shield(|| borrowed.use_it(50));
                                borrowed.use_it(usize::MAX);
                            }));
                        }
                    });
                    outcome.is_err()
                });
                while users.load(Ordering::SeqCst) < 4 {
                    std::thread::yield_now();
                }
                if kill {
                    parent.kill();
                    assert!(parent.join().unwrap_err().is_cancelled());
                } else {
                    parent.cancel();
                    assert!(parent.join().unwrap(), "the scope was cut short");
                }
                assert_eq!(runtime.shutdown(Duration::from_secs(60)).left, 0);
            }
        }
    }
}

#[test]
fn a_scope_that_opens_too_late_for_a_cancel_or_a_kill_passes_it_on() {
    #[derive(Clone, Copy, PartialEq, Debug)]
    enum By {
        Cancel,
        Kill,
        /// Of a scope around it, as a deadline does it.
        Scope,
    }
    for by in [By::Cancel, By::Kill, By::Scope] {
        let runtime = Runtime::builder().workers(2).build().unwrap();
        let (told, tells) = std::sync::mpsc::channel();
        let refused = Arc::new(AtomicUsize::new(0));
        let refusals = refused.clone();
        let parent = runtime.spawn(move || {
            tells.recv().unwrap(); // on the thread: nothing that a cancel would reach
            let (gate, ended) = (Semaphore::new(0), AtomicUsize::new(0));
            let waits = || {
                let _end = OnDrop(|| {
                    ended.fetch_add(1, Ordering::SeqCst);
                });
                // A cancel refuses the wait, a kill unwinds it.
                assert_eq!(gate.acquire(1).unwrap_err().reason(), Reason::Cancelled);
                refusals.fetch_add(1, Ordering::SeqCst);
            };
            let opens = || {
                let _ = scope(|scope| {
                    (0..4).for_each(|_| drop(scope.spawn(waits)));
                    // Computes, and never looks whether it has to end.
                    while ended.load(Ordering::SeqCst) < 4 {
                        std::thread::yield_now();
                    }
                });
            };
            let _ = scope(|outer| {
                if by == By::Scope {
                    outer.cancel();
                }
                opens();
            });
        });
        match by {
            By::Cancel => parent.cancel(),
            By::Kill => parent.kill(),
            By::Scope => (),
        }
        told.send(()).unwrap();
        let _ = parent.join();
        assert_eq!(refused.load(Ordering::SeqCst), if by == By::Kill { 0 } else { 4 }, "{by:?}");
    }
}

#[test]
fn a_scope_in_a_shield_runs_its_children_to_their_ends_although_its_task_is_over() {
    with_runtimes(|pinned| {
        let cleaned = Arc::new(AtomicUsize::new(0));
        let cleans = cleaned.clone();
        let cancelled = spawn(move || {
            let cleanup = || {
                let outcome = scope(|scope| {
                    for _ in 0..3 {
                        drop(child(scope, pinned, || {
                            yield_now();
                            cleans.fetch_add(1, Ordering::SeqCst);
                        }));
                    }
                });
                assert!(outcome.is_ok());
            };
            defer(cleanup, || sleep(LONG));
        });
        cancelled.cancel();
        assert!(cancelled.join().unwrap_err().is_cancelled());
        assert_eq!(cleaned.load(Ordering::SeqCst), 3);
    });
}

#[test]
fn a_cancel_reaches_grandchildren_while_their_parents_compute() {
    let runtime = Runtime::builder().workers(4).build().unwrap();
    let (ready, ended) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let (started, done) = (ready.clone(), ended.clone());
    let parent = runtime.spawn(move || {
        let (started, done) = (&started, &done);
        let _ = scope(|outer| {
            drop(outer.spawn(|| {
                let _ = scope(|inner| {
                    drop(inner.spawn(|| {
                        struct End<'a>(&'a AtomicUsize);
                        impl Drop for End<'_> {
                            fn drop(&mut self) {
                                self.0.store(1, Ordering::SeqCst);
                            }
                        }
                        let _end = End(done);
                        started.store(1, Ordering::SeqCst);
                        sleep(LONG);
                    }));
                    // Computes, and never looks whether it is cancelled, until the grandchild has ended.
                    while done.load(Ordering::SeqCst) == 0 {
                        std::thread::yield_now();
                    }
                });
            }));
            while done.load(Ordering::SeqCst) == 0 {
                std::thread::yield_now();
            }
        });
    });
    while ready.load(Ordering::SeqCst) == 0 {
        std::thread::yield_now();
    }
    parent.cancel();
    let _ = parent.join();
    assert_eq!(ended.load(Ordering::SeqCst), 1);
}

#[test]
fn a_deadline_around_a_scope_ends_its_children_and_one_inside_leaves_them_alone() {
    let test = |pinned| {
        let ended = AtomicUsize::new(0);
        let sleeps = || {
            let _end = OnDrop(|| {
                ended.fetch_add(1, Ordering::SeqCst);
            });
            sleep(LONG);
        };
        let outcome = timeout(Duration::from_secs(2), || {
            scope(|scope| {
                drop(child(scope, pinned, sleeps));
                drop(child(scope, pinned, sleeps));
            })
        });
        assert_eq!(outcome.unwrap_err(), Elapsed);
        assert_eq!(ended.load(Ordering::SeqCst), 2);

        let inside = scope(|scope| {
            let outside = child(scope, pinned, || {
                sleep(LONG);
                5
            });
            assert_eq!(timeout(Duration::from_secs(2), || sleep(LONG)), Err(Elapsed));
            outside.join().unwrap()
        });
        assert_eq!(inside.unwrap(), 5);
    };
    for workers in [1, 2, 8] {
        for pinned in [false, true] {
            let clock = ManualClock::new();
            let runtime = Runtime::builder().workers(workers).manual_clock(&clock).build().unwrap();
            runtime.run(move || test(pinned)).unwrap();
        }
    }
}

#[test]
fn scope_cancel_ends_the_body_and_the_children() {
    with_runtimes(|pinned| {
        let outcome = scope(|scope| {
            drop(child(scope, pinned, || sleep(LONG)));
            drop(child(scope, pinned, || scope.cancel()));
            sleep(LONG);
        });
        assert!(outcome.unwrap_err().is_cancelled());
    });
}

#[test]
fn dropping_the_fiber_around_a_scope_ends_the_children_first() {
    with_runtimes(|pinned| {
        let ended = Arc::new(AtomicUsize::new(0));
        let count = ended.clone();
        let fiber = Fiber::builder()
            .mask(Mask::YIELD | Mask::AWAIT)
            .build(move |_| {
                let _end = OnDrop(|| {
                    count.fetch_add(1, Ordering::SeqCst);
                });
                let borrowed = Borrowed::new(); // and looks, when it goes, whether anybody uses it
                let _ = scope(|scope| {
                    drop(child(scope, pinned, || borrowed.use_it(usize::MAX)));
                    borrowed.wait_for_users(1);
                    sleep(LONG);
                });
            })
            .unwrap();
        assert_eq!(fiber.resume(()).unwrap(), Signal::Await, "it sleeps, and its await is caught");
        drop(fiber);
        assert_eq!(ended.load(Ordering::SeqCst), 1);
    });
}

#[test]
fn dropping_the_fiber_around_a_scope_while_unwinding_keeps_what_the_children_borrow() {
    with_runtimes(|pinned| {
        let (stop, used) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
        let (stopped, uses) = (stop.clone(), used.clone());
        let outcome = sinew_fiber::protect(move || {
            let fiber = Fiber::builder()
                .mask(Mask::YIELD | Mask::AWAIT)
                .build(move |_| {
                    let numbers = [7u64; 64];
                    let _ = scope(|scope| {
                        drop(child(scope, pinned, || {
                            shield(|| {
                                while !stopped.load(Ordering::SeqCst) {
                                    assert_eq!(numbers, [7; 64]);
                                    yield_now();
                                }
                            });
                            assert_eq!(numbers, [7; 64]);
                            uses.store(1, Ordering::SeqCst);
                        }));
                        sleep(LONG);
                    });
                })
                .unwrap();
            assert_eq!(fiber.resume(()).unwrap(), Signal::Await);
            panic!("unwinds through the fiber");
        });
        assert_eq!(
            outcome.unwrap_err().value.downcast::<Panic>().unwrap().message,
            "unwinds through the fiber"
        );
        let mut clobber = [0u64; 512];
        std::hint::black_box(&mut clobber);
        stop.store(true, Ordering::SeqCst);
        while used.load(Ordering::SeqCst) == 0 {
            yield_now();
        }
    });
}

#[test]
fn shutdown_ends_a_scope_with_its_children() {
    for workers in [1, 2, 8] {
        for pinned in [false, true] {
            let runtime = Runtime::builder().workers(workers).build().unwrap();
            let ready = Arc::new(AtomicUsize::new(0));
            let started = ready.clone();
            drop(runtime.spawn(move || {
                let borrowed = Borrowed::new();
                let _ = scope(|scope| {
                    for _ in 0..3 {
                        drop(child(scope, pinned, || {
                            started.fetch_add(1, Ordering::SeqCst);
                            borrowed.use_it(usize::MAX);
                        }));
                    }
                });
            }));
            while ready.load(Ordering::SeqCst) < 3 {
                std::thread::yield_now();
            }
            assert_eq!(runtime.shutdown(Duration::from_secs(60)).left, 0);
        }
    }
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

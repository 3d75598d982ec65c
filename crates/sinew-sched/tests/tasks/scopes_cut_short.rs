//! Scopes that are cut short: by cancels, kills, deadlines, dropped fibers and shutdown.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use sinew_chan::sync::Semaphore;
use sinew_fiber::{Fiber, Mask, Panic, Reason, Signal, defer, shield};
use sinew_sched::{Elapsed, ManualClock, Runtime, scope, sleep, spawn, timeout, yield_now};

use crate::children::{Borrowed, LONG, child, with_runtimes};

struct OnDrop<F: Fn()>(F);

impl<F: Fn()> Drop for OnDrop<F> {
    fn drop(&mut self) {
        (self.0)();
    }
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
fn a_scope_that_was_cancelled_says_so_whether_or_not_a_child_is_live() {
    with_runtimes(|pinned| {
        let without_children = scope(|scope| scope.cancel());
        assert!(without_children.unwrap_err().is_cancelled());

        let after_its_child = scope(|scope| {
            child(scope, pinned, || ()).join().unwrap();
            scope.cancel();
        });
        assert!(after_its_child.unwrap_err().is_cancelled());

        let by_a_child_that_returns = scope(|scope| drop(child(scope, pinned, || scope.cancel())));
        assert!(by_a_child_that_returns.unwrap_err().is_cancelled());

        let by_a_closer = scope(|scope| scope.on_exit(|| scope.cancel()));
        assert!(by_a_closer.unwrap_err().is_cancelled());
    });
}

#[test]
fn a_cancelled_scope_reports_the_failure_of_a_child_first() {
    with_runtimes(|pinned| {
        let outcome = scope(|scope| {
            scope.cancel();
            drop(child(scope, pinned, || sinew_fiber::error("failed")));
        });
        assert_eq!(outcome.unwrap_err().value.downcast::<&str>().unwrap(), "failed");
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

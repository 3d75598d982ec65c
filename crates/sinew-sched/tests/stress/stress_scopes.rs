//! Scopes under load: nobody waits for ever, nothing is touched after its end, and every child is accounted for.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use sinew_chan::chan;
use sinew_fiber::{Value, error};
use sinew_sched::{Scope, scope, sleep, spawn, yield_now};

use crate::support::{SEED, Tally, next, rounds, spin_until, with_runtimes};

/// On the stack of whoever opens a scope, and wrong as soon as that has gone on.
struct Guard {
    whole: AtomicBool,
    users: AtomicUsize,
}

impl Guard {
    fn new() -> Guard {
        Guard { whole: AtomicBool::new(true), users: AtomicUsize::new(0) }
    }

    fn touch(&self) {
        assert!(self.whole.load(Ordering::Relaxed), "a child outlived its scope");
        self.users.fetch_add(1, Ordering::Relaxed);
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        self.whole.store(false, Ordering::Relaxed);
    }
}

#[test]
fn scopes_that_start_and_wait_all_the_time_in_16_tasks_never_hang() {
    with_runtimes(|runtime| {
        let children = Arc::new(AtomicUsize::new(0));
        let tasks: Vec<_> = (0..16)
            .map(|_| {
                let children = children.clone();
                runtime.spawn(move || {
                    for _ in 0..rounds(80) {
                        let guard = Guard::new();
                        scope(|scope| (0..4).for_each(|_| drop(scope.spawn(|| guard.touch())))).unwrap();
                        children.fetch_add(guard.users.load(Ordering::Relaxed), Ordering::Relaxed);
                    }
                })
            })
            .collect();
        tasks.into_iter().for_each(|task| task.join().unwrap());
        assert_eq!(children.load(Ordering::Relaxed), 16 * 4 * rounds(80));
    });
}

#[test]
fn children_that_spawn_into_their_own_scope_at_the_same_time_are_all_waited_for() {
    /// A tree of children of one scope, each of which spawns the next ones.
    fn grow<'scope>(scope: &'scope Scope<'scope, '_>, guard: &'scope Guard, depth: u32) {
        guard.touch();
        if depth > 0 {
            (0..4).for_each(|_| drop(scope.spawn(move || grow(scope, guard, depth - 1))));
        }
    }
    with_runtimes(|runtime| {
        for _ in 0..rounds(3) {
            let grown = runtime.run(|| {
                let guard = Guard::new();
                scope(|scope| grow(scope, &guard, 5)).unwrap();
                guard.users.load(Ordering::Relaxed)
            });
            assert_eq!(grown.unwrap(), (0..=5).map(|depth| 4usize.pow(depth)).sum());
        }
    });
}

#[test]
fn children_of_a_scope_that_is_cancelled_meanwhile_all_end_and_let_go_of_everything() {
    with_runtimes(|runtime| {
        let (captured, results) = (Tally::new(), Tally::new());
        let (kept, made) = (captured.clone(), results.clone());
        let past = Arc::new(AtomicUsize::new(0));
        let got_past = past.clone();
        runtime
            .run(move || {
                let mut seed = SEED;
                for n in 0..rounds(60) {
                    let before = next(&mut seed) % 12;
                    let outcome = scope(|scope| {
                        for child in 0..12 {
                            let (capture, made) = (kept.value(child), made.clone());
                            let (cancelled, past) = (child >= before, &got_past);
                            drop(scope.spawn(move || {
                                yield_now();
                                past.fetch_add(usize::from(cancelled), Ordering::Relaxed);
                                made.value(capture.number())
                            }));
                            if child + 1 == before {
                                scope.cancel();
                            }
                        }
                        if before == 0 {
                            scope.cancel();
                        }
                        n
                    });
                    assert!(outcome.unwrap_err().is_cancelled(), "a scope that was cut short says so");
                }
            })
            .unwrap();
        // Everything has been let go of when the scope ends, not some time later.
        captured.assert_even(12 * rounds(60));
        results.assert_even(results.made());
    });
}

/// The child returns what its send returned, so that nothing but the scope says that it was cut short.
#[test]
fn a_scope_whose_cancel_refused_the_send_of_a_child_is_never_ok() {
    with_runtimes(|runtime| {
        runtime
            .run(|| {
                for _ in 0..rounds(500) {
                    let (sender, _receiver) = chan::bounded(1);
                    sender.send(0).unwrap();
                    let outcome = scope(|scope| {
                        drop(scope.spawn(|| sender.send(1).map_err(|unsent| unsent.why)));
                        drop(scope.spawn(|| scope.cancel()));
                    });
                    assert!(outcome.unwrap_err().is_cancelled());
                }
            })
            .unwrap();
    });
}

#[test]
fn a_child_of_a_cancelled_scope_gets_no_further_than_its_first_blocking_call() {
    with_runtimes(|runtime| {
        let captured = Tally::new();
        let past = Arc::new(AtomicUsize::new(0));
        let (kept, got_past) = (captured.clone(), past.clone());
        runtime
            .run(move || {
                for n in 0..rounds(100) as u64 {
                    let outcome = scope(|scope| {
                        scope.cancel();
                        for child in 0..4 {
                            let (capture, past) = (kept.value(child), &got_past);
                            let body = move || {
                                let _capture = capture;
                                match (n + child) % 3 {
                                    0 => sleep(Duration::from_secs(3600)),
                                    1 => yield_now(),
                                    _ => error(spawn(|| ()).join().unwrap_err().value),
                                }
                                past.fetch_add(1, Ordering::Relaxed);
                            };
                            drop(scope.spawn(body));
                        }
                    });
                    assert!(outcome.is_err());
                }
            })
            .unwrap();
        assert_eq!(past.load(Ordering::Relaxed), 0);
        captured.assert_even(4 * rounds(100));
    });
}

#[test]
fn trees_of_scopes_that_are_cancelled_at_any_time_leave_nothing_behind() {
    /// A scope in each of which two children have one of their own.
    fn tree(depth: u32, live: &AtomicUsize) {
        struct Live<'a>(&'a AtomicUsize);
        impl Drop for Live<'_> {
            fn drop(&mut self) {
                self.0.fetch_sub(1, Ordering::SeqCst);
            }
        }
        live.fetch_add(1, Ordering::SeqCst);
        let _live = Live(live);
        if depth == 0 {
            return sleep(Duration::from_secs(3600));
        }
        let outcome = scope(|scope| {
            (0..2).for_each(|_| drop(scope.spawn(|| tree(depth - 1, live))));
        });
        outcome.unwrap_or_else(|raised| error(raised.value));
    }
    with_runtimes(|runtime| {
        let live = Arc::new(AtomicUsize::new(0));
        let mut seed = SEED;
        for n in 0..rounds(30) {
            let seen = live.clone();
            let root = runtime.spawn(move || tree(4, &seen));
            for _ in 0..next(&mut seed) % 200 {
                std::hint::spin_loop();
            }
            if n % 4 == 0 {
                spin_until(|| live.load(Ordering::SeqCst) == 31);
            }
            if n % 2 == 0 {
                root.cancel()
            } else {
                root.kill()
            }
            assert!(root.join().unwrap_err().is_cancelled());
            assert_eq!(live.load(Ordering::SeqCst), 0, "a descendant outlived the scopes around it");
        }
    });
}

#[test]
fn closers_run_once_and_after_the_last_child() {
    with_runtimes(|runtime| {
        let tasks: Vec<_> = (0..8u64)
            .map(|task| {
                runtime.spawn(move || {
                    let mut seed = SEED + task;
                    for _ in 0..rounds(40) {
                        let (live, closed) = (AtomicUsize::new(6), AtomicUsize::new(0));
                        let fails = next(&mut seed) % 12;
                        let outcome = scope(|scope| {
                            scope.on_exit(|| {
                                assert_eq!(live.load(Ordering::SeqCst), 0, "closed before a child had ended");
                                closed.fetch_add(1, Ordering::SeqCst);
                            });
                            for child in 0..6 {
                                let live = &live;
                                drop(scope.spawn(move || {
                                    struct Ends<'a>(&'a AtomicUsize);
                                    impl Drop for Ends<'_> {
                                        fn drop(&mut self) {
                                            self.0.fetch_sub(1, Ordering::SeqCst);
                                        }
                                    }
                                    let _ends = Ends(live);
                                    yield_now();
                                    if child == fails {
                                        error("no luck");
                                    }
                                }));
                            }
                        });
                        assert_eq!(outcome.is_err(), fails < 6);
                        assert_eq!(closed.load(Ordering::SeqCst), 1);
                    }
                })
            })
            .collect();
        tasks.into_iter().for_each(|task| task.join().unwrap());
    });
}

/// What a child fails with: its destructor blocks, and then panics if it is told to.
#[derive(Debug)]
struct Payload {
    dropped: Arc<AtomicUsize>,
    panics: bool,
}

impl Drop for Payload {
    fn drop(&mut self) {
        yield_now();
        sleep(Duration::from_micros(20));
        self.dropped.fetch_add(1, Ordering::SeqCst);
        assert!(!self.panics, "in a destructor");
    }
}

#[test]
fn failures_that_nobody_wants_may_block_and_panic_when_they_are_dropped() {
    with_runtimes(|runtime| {
        for panics in [false, true] {
            let dropped = Arc::new(AtomicUsize::new(0));
            let count = dropped.clone();
            let kept = runtime.run(move || {
                let mut kept = 0;
                for _ in 0..rounds(20) {
                    // A handle that is dropped later drops the failure itself, in the body, which would unwind.
                    let handles_are_gone = AtomicBool::new(false);
                    let outcome = scope(|scope| {
                        scope.keep_going();
                        for _ in 0..4 {
                            let (dropped, go) = (count.clone(), &handles_are_gone);
                            drop(scope.spawn(move || {
                                while !go.load(Ordering::Relaxed) {
                                    yield_now();
                                }
                                error(Value::new(Payload { dropped, panics }))
                            }));
                        }
                        handles_are_gone.store(true, Ordering::Relaxed);
                    });
                    let mut raised = outcome.unwrap_err();
                    let value = std::mem::replace(&mut raised.value, Value::UNIT);
                    let mut payload = value.downcast::<Payload>().unwrap();
                    payload.panics = false;
                    kept += 1;
                }
                kept
            });
            assert_eq!(kept.unwrap(), rounds(20));
            spin_until(|| dropped.load(Ordering::SeqCst) == 4 * rounds(20));
        }
    });
}

/// The handle is dropped at about the time at which the child ends.
#[test]
fn a_child_that_fails_while_its_handle_is_dropped_is_told_to_its_scope() {
    with_runtimes(|runtime| {
        let told = runtime.run(|| {
            let mut seed = SEED;
            let fails = |spins: u64| {
                scope(|scope| {
                    scope.keep_going();
                    let handle = scope.spawn(|| {
                        error(Value::new(7u32));
                    });
                    yield_now();
                    (0..spins).take_while(|_| !handle.is_finished()).for_each(|_| std::hint::spin_loop());
                    drop(handle);
                })
            };
            (0..rounds(2000)).filter(|_| fails(next(&mut seed) % 4000).is_err()).count()
        });
        assert_eq!(told.unwrap(), rounds(2000));
    });
}

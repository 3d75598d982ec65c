//! Deadlines around code, and ticks.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use sinew_fiber::{Fiber, Mask, Reason, Signal, checkpoint, shield, yield_};
use sinew_sched::{
    Elapsed, Instant, ManualClock, Runtime, deadline, interval, now, sleep, spawn, timeout, yield_now,
};

const LONG: Duration = Duration::from_secs(1000);

/// Runs `test` as a task of runtimes whose clock jumps, so that no time passes.
fn with_clocks(test: fn()) {
    for workers in [1, 2, 8] {
        let clock = ManualClock::new();
        let runtime = Runtime::builder().workers(workers).manual_clock(&clock).build().unwrap();
        runtime.run(test).unwrap();
        assert_eq!(runtime.shutdown(Duration::from_secs(60)).left, 0);
    }
}

#[test]
fn a_body_that_is_done_in_time_returns_its_result_and_disarms_the_deadline() {
    with_clocks(|| {
        let result = timeout(Duration::from_secs(2), || {
            sleep(Duration::from_secs(1));
            5
        });
        assert_eq!(result, Ok(5));
        sleep(Duration::from_secs(10)); // the deadline passes, and nothing happens
    });
}

#[test]
fn a_body_that_blocks_too_long_unwinds_and_cleans_up() {
    with_clocks(|| {
        struct Count<'a>(&'a AtomicUsize);
        impl Drop for Count<'_> {
            fn drop(&mut self) {
                self.0.fetch_add(1, Ordering::Relaxed);
            }
        }
        let dropped = AtomicUsize::new(0);
        let start = now();
        let outcome = timeout(Duration::from_secs(1), || {
            let _count = Count(&dropped);
            sleep(LONG);
        });
        assert_eq!(outcome, Err(Elapsed));
        assert_eq!(dropped.load(Ordering::Relaxed), 1);
        assert!((now() - start) < Duration::from_millis(1001));
        sleep(Duration::from_secs(1)); // afterwards the task is as before
        assert_eq!(spawn(|| 1).join().unwrap(), 1);
    });
}

#[test]
fn join_and_other_waits_that_can_fail_unwind_as_well() {
    with_clocks(|| {
        let sleeper = spawn(|| sleep(LONG));
        let outcome = timeout(Duration::from_secs(1), move || sleeper.join().is_ok());
        assert_eq!(outcome, Err(Elapsed));
    });
}

#[test]
fn the_outermost_deadline_that_has_passed_is_the_one_that_is_told() {
    with_clocks(|| {
        let inner_first = timeout(Duration::from_secs(10), || {
            let inner = timeout(Duration::from_secs(1), || sleep(LONG));
            sleep(Duration::from_secs(1));
            inner
        });
        assert_eq!(inner_first, Ok(Err(Elapsed)));
        let outer_first =
            timeout(Duration::from_secs(1), || timeout(Duration::from_secs(10), || sleep(LONG)));
        assert_eq!(outer_first, Err(Elapsed));
        for (outer, inner) in [(1, 1), (1, 2), (2, 1)]
            .map(|(outer, inner)| (Duration::from_secs(outer), Duration::from_secs(inner)))
        {
            let both_pass = || shield(|| sleep(Duration::from_secs(5)));
            let both = timeout(outer, || {
                timeout(inner, || {
                    both_pass();
                    checkpoint();
                })
            });
            assert_eq!(both, Err(Elapsed));
        }
        sleep(Duration::from_secs(1));
    });
}

#[test]
fn a_deadline_in_the_past_ends_the_first_blocking_call() {
    with_clocks(|| {
        sleep(Duration::from_secs(1));
        let outcome = deadline(Instant::from_nanos(0), || {
            for _ in 0..1_000_000 {
                yield_now();
            }
        });
        assert_eq!(outcome, Err(Elapsed));
        assert_eq!(deadline(Instant::from_nanos(0), || 3), Ok(3), "code that does not block is not stopped");
    });
}

#[test]
fn a_shield_inside_defers_the_deadline() {
    with_clocks(|| {
        let start = now();
        let outcome = timeout(Duration::from_secs(1), || {
            shield(|| sleep(Duration::from_secs(5)));
            checkpoint();
            unreachable!()
        });
        assert_eq!(outcome, Err::<(), _>(Elapsed));
        assert!(now() - start >= Duration::from_secs(5));
    });
}

#[test]
fn a_body_that_swallows_the_unwind_is_unwound_again() {
    with_clocks(|| {
        let mut swallowed = 0;
        let outcome = timeout(Duration::from_secs(1), || {
            for _ in 0..3 {
                assert!(sinew_fiber::protect(|| sleep(LONG)).is_err());
                swallowed += 1;
            }
            sleep(LONG);
        });
        assert_eq!(outcome, Err(Elapsed));
        assert_eq!(swallowed, 3);
    });
}

#[test]
fn cancel_kill_panic_and_errors_pass_through_a_timeout() {
    with_clocks(|| {
        let started = Arc::new(AtomicUsize::new(0));
        let starts = started.clone();
        let cancelled = spawn(move || {
            timeout(LONG, || {
                starts.store(1, Ordering::Release);
                sleep(LONG);
            })
        });
        while started.load(Ordering::Acquire) == 0 {
            yield_now();
        }
        cancelled.cancel();
        assert!(cancelled.join().unwrap_err().is_cancelled());
        let panicked =
            spawn(|| timeout(LONG, || panic!("inside"))).join().map(|_: Result<(), _>| ()).unwrap_err();
        assert!(panicked.to_string().contains("inside"));
        let raised = sinew_fiber::protect(|| timeout(LONG, || sinew_fiber::error(7u32))).unwrap_err();
        assert_eq!(raised.value.downcast::<u32>().unwrap(), 7);
    });
}

#[test]
fn a_timeout_in_a_fiber_is_the_fiber_s_and_no_yield_crosses_it() {
    with_clocks(|| {
        let fiber = Fiber::builder()
            .mask(Mask::YIELD | Mask::ERROR)
            .build(|_| {
                let refused = timeout(LONG, || yield_(()).unwrap_err().reason());
                assert_eq!(refused, Ok(Reason::OpenScope));
                timeout(Duration::from_secs(1), || sleep(LONG)) == Err(Elapsed)
            })
            .unwrap();
        assert_eq!(fiber.resume(()).unwrap(), Signal::Ok);
        assert!(fiber.take_value().downcast::<bool>().unwrap());
    });
}

#[test]
fn ticks_come_at_the_period_and_missed_ones_are_skipped() {
    with_clocks(|| {
        let start = now();
        let mut ticks = interval(Duration::from_secs(1));
        let due: Vec<_> = (0..3).map(|_| ticks.tick() - start).collect();
        assert_eq!(due, [1, 2, 3].map(Duration::from_secs));
        sleep(Duration::from_millis(2500));
        let due: Vec<_> = (0..3).map(|_| ticks.tick() - start).collect();
        assert_eq!(due, [4, 6, 7].map(Duration::from_secs), "5 had passed");
        assert_eq!(ticks.period(), Duration::from_secs(1));
        let mut fast = interval(Duration::ZERO);
        fast.tick();
        fast.tick();
    });
}

#[test]
fn thousands_of_timeouts_that_race_with_their_ends_leave_every_task_whole() {
    for workers in [1, 2, 8] {
        let runtime = Runtime::builder().workers(workers).build().unwrap();
        let tasks: Vec<_> = (0..20u64)
            .map(|n| {
                runtime.spawn(move || {
                    let limit = Duration::from_micros(300);
                    for m in 0..50 {
                        let (start, takes) = (now(), Duration::from_micros(200 + 20 * ((n + m) % 10)));
                        let least = match timeout(limit, || sleep(takes)) {
                            Ok(()) => takes,
                            Err(Elapsed) => limit,
                        };
                        assert!(now() - start >= least, "it has ended early");
                        yield_now(); // would unwind if anything were left of the timeout
                    }
                })
            })
            .collect();
        tasks.into_iter().for_each(|task| task.join().unwrap());
    }
}

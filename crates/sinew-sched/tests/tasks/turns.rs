//! Bodies that run in turns: woken, idle, blocked in the middle, cancelled, ended.

use std::cell::Cell;
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use sinew_chan::chan::oneshot;
use sinew_sched::turn::{self, After, Turn, Waker};
use sinew_sched::{ManualClock, Raised, Runtime, WaitKind, sleep, yield_now};

use crate::support::{spin_until, with_runtime, with_runtimes};

/// What the turns of a [`Body`] have done.
#[derive(Default)]
struct Seen {
    turns: AtomicUsize,
    blocked: AtomicUsize,
    ended: AtomicUsize,
    raised: AtomicBool,
}

struct Body<F> {
    seen: Arc<Seen>,
    turn: F,
}

impl<F: Fn(usize) -> After + Send + 'static> Turn for Body<F> {
    fn turn(&self) -> After {
        let turn = self.seen.turns.fetch_add(1, Ordering::AcqRel);
        (self.turn)(turn)
    }

    fn blocks(&self) {
        self.seen.blocked.fetch_add(1, Ordering::AcqRel);
    }

    fn ended(&self, raised: Option<Raised>) {
        self.seen.raised.store(raised.is_some(), Ordering::Release);
        self.seen.ended.fetch_add(1, Ordering::AcqRel);
    }
}

fn seen() -> (Arc<Seen>, Arc<Seen>) {
    let seen = Arc::new(Seen::default());
    (seen.clone(), seen)
}

#[test]
fn a_body_whose_making_panics_leaves_no_task_behind() {
    let runtime = Runtime::builder().workers(2).build().unwrap();
    let handle = runtime.handle();
    let make = move || drop(handle.spawn_turn(|_| -> Body<fn(usize) -> After> { panic!("no body") }));
    assert!(std::panic::catch_unwind(make).is_err());
    assert!(runtime.spawn(make).join().is_err());
    assert_eq!(runtime.shutdown(Duration::from_secs(60)).left, 0);
}

#[test]
fn a_body_runs_a_turn_when_it_starts_and_whenever_it_is_woken() {
    with_runtimes(|runtime| {
        let (seen, body) = seen();
        let mut waker = None;
        let task = runtime.handle().spawn_turn(|own| {
            waker = Some(own);
            Body { seen: body, turn: |turn| if turn < 100 { After::Idle } else { After::Ended } }
        });
        for turn in 1..=100 {
            spin_until(|| seen.turns.load(Ordering::Acquire) == turn);
            waker.unwrap().wake();
        }
        task.join().unwrap();
        assert_eq!(seen.turns.load(Ordering::Acquire), 101);
        assert_eq!(seen.ended.load(Ordering::Acquire), 1);
        assert!(!seen.raised.load(Ordering::Acquire));
    });
}

#[test]
fn no_wake_up_is_lost_whoever_wakes() {
    with_runtimes(|runtime| {
        const WAKERS: usize = 4;
        const EACH: usize = 2_000;
        let pending = Arc::new(AtomicUsize::new(0));
        let done = Arc::new(AtomicUsize::new(0));
        let (mut waker, (seen, body)) = (None, seen());
        let (left, count) = (pending.clone(), done.clone());
        let task = runtime.handle().spawn_turn(|own| {
            waker = Some(own);
            let turn = move |_| {
                let taken = left.swap(0, Ordering::AcqRel);
                match count.fetch_add(taken, Ordering::AcqRel) + taken {
                    all if all == WAKERS * EACH => After::Ended,
                    _ => After::Idle,
                }
            };
            Body { seen: body, turn }
        });
        let waker: Waker = waker.unwrap();
        let wake = move |pending: &AtomicUsize| {
            for n in 0..EACH {
                pending.fetch_add(1, Ordering::AcqRel);
                waker.wake();
                if n % 64 == 0 {
                    std::thread::yield_now();
                }
            }
        };
        let tasks: Vec<_> = (0..WAKERS / 2)
            .map(|_| {
                let pending = pending.clone();
                runtime.spawn(move || wake(&pending))
            })
            .collect();
        std::thread::scope(|threads| {
            (0..WAKERS / 2).for_each(|_| drop(threads.spawn(|| wake(&pending))));
        });
        tasks.into_iter().for_each(|task| task.join().unwrap());
        task.join().unwrap();
        assert_eq!(done.load(Ordering::Acquire), WAKERS * EACH);
        assert_eq!(seen.ended.load(Ordering::Acquire), 1);
    });
}

#[test]
fn a_turn_may_block_and_says_so_first() {
    with_runtimes(|runtime| {
        let (seen, body) = seen();
        let turn = |turn| {
            sleep(Duration::from_millis(1));
            yield_now();
            if turn < 3 { After::Again } else { After::Ended }
        };
        runtime.handle().spawn_turn(|_| Body { seen: body, turn }).join().unwrap();
        assert_eq!(seen.turns.load(Ordering::Acquire), 4);
        assert!(seen.blocked.load(Ordering::Acquire) >= 4);
    });
}

#[test]
fn a_turn_waits_for_its_own_waker_and_no_longer_than_its_deadline() {
    let clock = ManualClock::new();
    with_runtime(Runtime::builder().workers(2).manual_clock(&clock), |runtime| {
        let told = Arc::new(AtomicBool::new(false));
        let (answer, (_, body)) = (told.clone(), seen());
        let mut waker = None;
        let task = runtime.handle().spawn_turn(|own| {
            waker = Some(own);
            let turn = move |_| {
                let deadline = sinew_sched::now() + Duration::from_secs(60);
                let in_time = turn::wait_until(|| false, Some(deadline), WaitKind::Turn).unwrap();
                assert!(!in_time);
                assert!(turn::wait_until(|| answer.load(Ordering::Acquire), None, WaitKind::Turn).unwrap());
                After::Ended
            };
            Body { seen: body, turn }
        });
        told.store(true, Ordering::Release);
        waker.unwrap().wake();
        task.join().unwrap();
        assert!(clock.now().as_nanos() >= 60_000_000_000);
    });
}

#[test]
fn what_escapes_a_turn_ends_the_body_and_is_told_to_it() {
    with_runtimes(|runtime| {
        let (seen, body) = seen();
        let turn = |_| -> After { panic!("no turn") };
        runtime.handle().spawn_turn(|_| Body { seen: body, turn }).join().unwrap();
        assert!(seen.raised.load(Ordering::Acquire));
        assert_eq!(seen.ended.load(Ordering::Acquire), 1);
    });
}

#[test]
fn an_idle_body_that_is_cancelled_has_no_more_turns() {
    with_runtimes(|runtime| {
        let (seen, body) = seen();
        let task = runtime.handle().spawn_turn(|_| Body { seen: body, turn: |_| After::Idle });
        spin_until(|| seen.turns.load(Ordering::Acquire) == 1);
        task.cancel();
        task.join().unwrap();
        assert_eq!(seen.turns.load(Ordering::Acquire), 1);
        assert!(seen.raised.load(Ordering::Acquire));
    });
}

#[test]
fn a_shutdown_ends_idle_and_blocked_bodies_alike() {
    for workers in [1, 2, 8] {
        let runtime = Runtime::builder().workers(workers).build().unwrap();
        let (seen, body) = seen();
        for blocks in [false, true] {
            let body = body.clone();
            let turn = move |_| {
                if blocks {
                    sleep(Duration::from_secs(3600));
                }
                After::Idle
            };
            runtime.handle().spawn_turn(|_| Body { seen: body, turn }).detach();
        }
        spin_until(|| seen.turns.load(Ordering::Acquire) == 2);
        let report = runtime.shutdown(Duration::from_secs(60));
        assert_eq!(report.left, 0);
        assert_eq!(seen.ended.load(Ordering::Acquire), 2);
    }
}

#[test]
fn a_destructor_of_a_body_may_block_and_panic() {
    struct Drops(Cell<u32>, Arc<AtomicBool>);
    impl Turn for Drops {
        fn turn(&self) -> After {
            self.0.set(self.0.get() + 1);
            if self.0.get() < 3 { After::Again } else { After::Ended }
        }

        fn ended(&self, _: Option<Raised>) {}
    }
    impl Drop for Drops {
        fn drop(&mut self) {
            sleep(Duration::from_millis(1));
            self.1.store(true, Ordering::Release);
            panic!("a destructor");
        }
    }
    with_runtimes(|runtime| {
        let dropped = Arc::new(AtomicBool::new(false));
        let body = Drops(Cell::new(0), dropped.clone());
        runtime.handle().spawn_turn(|_| body).join().unwrap();
        assert!(dropped.load(Ordering::Acquire));
    });
}

/// Says its tag wherever its code runs, and what it is called while it goes.
struct Tagged(u64, Arc<[AtomicUsize; 3]>);

impl Turn for Tagged {
    fn turn(&self) -> After {
        self.1[0].store(turn::current_tag() as usize, Ordering::Release);
        After::Ended
    }

    fn tag(&self) -> u64 {
        self.0
    }

    fn ended(&self, _: Option<Raised>) {
        self.1[1].store(turn::current_tag() as usize, Ordering::Release);
    }
}

impl Drop for Tagged {
    fn drop(&mut self) {
        yield_now(); // a body that is being dropped is not told that it blocks
        self.1[2].store(turn::current_tag() as usize, Ordering::Release);
    }
}

#[test]
fn code_knows_whose_turn_it_runs_in_until_the_body_is_dropped() {
    with_runtimes(|runtime| {
        let seen: Arc<[AtomicUsize; 3]> = Arc::new(std::array::from_fn(|_| AtomicUsize::new(99)));
        let body = seen.clone();
        runtime.handle().spawn_turn(|_| Tagged(7, body)).join().unwrap();
        assert_eq!(seen.each_ref().map(|seen| seen.load(Ordering::Acquire)), [7, 7, 0]);
        assert_eq!(runtime.run(turn::current_tag).unwrap(), 0, "a task that does not run in turns");
    });
    assert_eq!(turn::current_tag(), 0, "no task at all");
}

#[test]
fn whoever_names_turns_is_asked_for_what_has_no_name_of_its_own() {
    with_runtimes(|runtime| {
        let handle = runtime.handle();
        let idle = |turn| if turn == 0 { After::Idle } else { After::Ended };
        let [one, other] = [(); 2].map(|()| handle.spawn_turn(|_| Body { seen: Arc::default(), turn: idle }));
        let (key, mut gate) = oneshot::channel::<()>();
        let thunk = handle.task().name("thunk").spawn(move || gate.recv().is_err());
        handle.name_turns_by({
            let (one, thunk) = (one.id(), thunk.id());
            move |tasks| {
                assert!([one, thunk].iter().all(|task| tasks.contains(task)));
                HashMap::from([(one, "the one".to_owned()), (thunk, "not so".to_owned())])
            }
        });
        let dump = runtime.dump();
        let name = |id| dump.tasks.iter().find(|task| task.id == id).unwrap().name.as_deref();
        let names = [name(one.id()), name(other.id()), name(thunk.id())];
        assert_eq!(names, [Some("the one"), None, Some("thunk")]);
        drop(key);
        [one, other].iter().for_each(|turns| turns.cancel());
    });
}

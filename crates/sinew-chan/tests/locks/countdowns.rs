//! Waits that last for some time, counted from when their worker next looks at the clock.

use std::cell::RefCell;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use sinew_chan::chan::{RecvError, oneshot};
use sinew_chan::sync::WaitGroup;
use sinew_fiber::{Fiber, Mask, Signal};
use sinew_sched::raw::{Limit, What};
use sinew_sched::{JoinHandle, ManualClock, Runtime, WaitKind, now, spawn, task, yield_now};

use crate::support::{self, current_thread, with_runtimes};

const SHORT: Duration = Duration::from_millis(5);
const LONG: Duration = Duration::from_secs(3600);

fn wait(receiver: &mut oneshot::Receiver<u64>, timeout: Duration) -> Received {
    receiver.recv_as(Some(Limit::within(timeout)), What::of(WaitKind::Event))
}

/// Waits in vain, and not too short.
fn wait_in_vain() {
    let (_sender, mut receiver) = oneshot::channel();
    let start = now();
    assert!(matches!(wait(&mut receiver, SHORT), Err(RecvError::Timeout)));
    assert!(now() - start >= SHORT, "it is early");
}

#[test]
fn nobody_gives_up_too_soon() {
    with_runtimes(|runtime| {
        runtime
            .run(|| {
                let waits: Vec<_> = (0..10).map(|_| spawn(wait_in_vain)).collect();
                wait_in_vain();
                // SAFETY: its code knows nothing of its thread.
                unsafe { task().spawn_migrating(wait_in_vain) }.join().unwrap();
                waits.into_iter().for_each(|task| task.join().unwrap());
            })
            .unwrap();
    });
    thread::spawn(wait_in_vain).join().unwrap();
}

#[test]
fn a_worker_that_never_rests_ends_waits_as_well() {
    with_runtimes(|runtime| {
        runtime
            .run(|| {
                let over = Arc::new(AtomicBool::new(false));
                let waits = spawn({
                    let over = over.clone();
                    move || {
                        wait_in_vain();
                        over.store(true, Ordering::Relaxed);
                    }
                });
                while !over.load(Ordering::Relaxed) {
                    yield_now();
                }
                waits.join().unwrap();
            })
            .unwrap();
    });
}

#[test]
fn a_wait_that_is_over_in_whatever_way_leaves_those_beside_it_alone() {
    with_runtimes(|runtime| {
        runtime
            .run(|| {
                for _ in 0..support::rounds(20) {
                    let all_wait = WaitGroup::new();
                    let waits: Vec<_> = (0..8u64)
                        .map(|n| {
                            let (sender, mut receiver) = oneshot::channel();
                            let timeout = if n % 4 == 0 { SHORT / 5 } else { LONG };
                            let waits = all_wait.add();
                            let task = spawn(move || {
                                drop(waits);
                                wait(&mut receiver, timeout)
                            });
                            (n, sender, task)
                        })
                        .collect();
                    all_wait.wait().unwrap();
                    // From the middle of the list, which the newest is at the head of, and from both of its ends.
                    let (first, second): (Vec<_>, Vec<_>) = waits.into_iter().partition(|(n, ..)| n % 3 == 0);
                    second.into_iter().chain(first).for_each(end);
                }
            })
            .unwrap();
    });
}

type Received = Result<u64, RecvError>;

fn end((n, sender, task): (u64, oneshot::Sender<u64>, JoinHandle<Received>)) {
    match n % 4 {
        0 => {
            assert!(matches!(task.join().unwrap(), Err(RecvError::Timeout)));
            drop(sender);
        }
        1 => {
            sender.send(n).unwrap();
            assert_eq!(task.join().unwrap().unwrap(), n);
        }
        2 => {
            task.cancel();
            assert!(matches!(task.join(), Ok(Err(RecvError::Refused(_))) | Err(_)));
        }
        _ => {
            task.kill();
            assert!(task.join().is_err());
        }
    }
}

#[test]
fn a_fiber_that_is_dropped_in_the_middle_of_a_wait_takes_it_along() {
    with_runtimes(|runtime| {
        runtime
            .run(|| {
                let (_sender, mut receiver) = oneshot::channel();
                let fiber =
                    Fiber::builder().mask(Mask::AWAIT).build(move |_| drop(wait(&mut receiver, LONG)));
                let fiber = fiber.unwrap();
                assert_eq!(fiber.resume(()).unwrap(), Signal::Await);
                let beside = spawn(wait_in_vain);
                drop(fiber);
                wait_in_vain();
                beside.join().unwrap();
            })
            .unwrap();
    });
}

#[test]
fn a_fiber_may_be_in_the_middle_of_a_wait_when_its_worker_goes() {
    thread_local! {
        static KEPT: RefCell<Vec<(Fiber, oneshot::Sender<u64>)>> = const { RefCell::new(Vec::new()) };
    }
    with_runtimes(|runtime| {
        let keeps = |sender, mut receiver| {
            let fiber = Fiber::builder().mask(Mask::AWAIT).build(move |_| drop(wait(&mut receiver, LONG)));
            let fiber = fiber.unwrap();
            assert_eq!(fiber.resume(()).unwrap(), Signal::Await);
            KEPT.with_borrow_mut(|kept| kept.push((fiber, sender)));
        };
        runtime
            .run(move || {
                for _ in 0..3 {
                    let (sender, receiver) = oneshot::channel();
                    keeps(sender, receiver);
                }
            })
            .unwrap();
    });
}

#[test]
fn a_dump_says_until_when_once_the_worker_has_looked() {
    let runtime = current_thread();
    let (answer, mut receiver) = oneshot::channel();
    let start = runtime.handle().now();
    let task = runtime.spawn(move || wait(&mut receiver, LONG).unwrap());
    runtime.run_until_idle();
    let wait = runtime.handle().dump_task(task.id()).unwrap().wait.unwrap();
    let deadline = wait.deadline.unwrap();
    assert!(deadline >= start + LONG && deadline <= runtime.handle().now() + LONG);
    answer.send(7).unwrap();
    runtime.run_until_idle();
    assert_eq!(task.join().unwrap(), 7);
}

#[test]
fn a_clock_that_is_moved_is_counted_on_from_when_the_limit_was_said() {
    let clock = ManualClock::new();
    let runtime = Runtime::builder().manual_clock(&clock).build_current_thread().unwrap();
    let moves = clock.clone();
    let task = runtime.spawn(move || {
        let (_sender, mut receiver) = oneshot::channel::<u64>();
        let limit = Limit::within(LONG);
        moves.advance(LONG);
        receiver.recv_as(Some(limit), What::of(WaitKind::Event))
    });
    runtime.run_until_idle();
    assert!(task.is_finished(), "its time was up");
    assert!(matches!(task.join().unwrap(), Err(RecvError::Timeout)));
}

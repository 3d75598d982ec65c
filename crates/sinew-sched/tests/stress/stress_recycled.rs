//! Slots are used again, and what was meant for a task that has ended never reaches a later one in its slot.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use sinew_fiber::{Control, Fiber, Mask, Signal, checkpoint, control, yield_};
use sinew_sched::{Event, Events, Runtime, sleep, spawn, timeout, yield_now};

use crate::support::{Over, SEED, Tally, next, rounds, spin_until, with_runtimes};

/// Eight times `each` tasks that nobody cancels, which touch everything that a cancel would be noticed by.
fn innocent(runtime: &Runtime, each: usize) {
    let ran = Arc::new(AtomicUsize::new(0));
    let tasks: Vec<_> = (0..8)
        .map(|_| {
            let ran = ran.clone();
            runtime.spawn(move || {
                for n in 0..each {
                    let ran = ran.clone();
                    let task = spawn(move || {
                        checkpoint();
                        match n % 3 {
                            0 => yield_now(),
                            1 => sleep(Duration::from_micros(1)),
                            _ => spawn(|| ()).join().unwrap(),
                        }
                        let interrupted =
                            Fiber::builder().mask(Mask::INTERRUPT).build(|_| checkpoint()).unwrap();
                        assert_eq!(interrupted.resume(()).unwrap(), Signal::Ok, "nobody has interrupted it");
                        ran.fetch_add(1, Ordering::Relaxed);
                    });
                    task.join().expect("nobody has cancelled it");
                }
            })
        })
        .collect();
    tasks.into_iter().for_each(|task| task.join().expect("nobody has cancelled it"));
    assert_eq!(ran.load(Ordering::Relaxed), 8 * each);
}

#[test]
fn controls_of_tasks_that_have_ended_reach_no_later_task() {
    with_runtimes(|runtime| {
        let stale: Vec<Control> = (0..128).map(|_| runtime.run(control).unwrap()).collect();
        let over = AtomicBool::new(false);
        std::thread::scope(|threads| {
            let _over = Over(&over);
            threads.spawn(|| {
                while !over.load(Ordering::Relaxed) {
                    for (n, control) in stale.iter().enumerate() {
                        match n % 3 {
                            0 => control.cancel(),
                            1 => control.kill(),
                            _ => control.interrupt(),
                        }
                        assert_eq!(control.level(), None);
                    }
                    std::thread::yield_now();
                }
            });
            innocent(runtime, rounds(20));
        });
    });
}

#[test]
fn a_control_that_races_with_the_end_of_its_task_hits_that_task_or_nobody() {
    with_runtimes(|runtime| {
        /// One task's control, and whether somebody has used it.
        struct Aim {
            control: Control,
            used: AtomicBool,
        }
        let aims: Arc<Mutex<Vec<Arc<Aim>>>> = Arc::default();
        let over = AtomicBool::new(false);
        std::thread::scope(|threads| {
            let _over = Over(&over);
            for _ in 0..2 {
                threads.spawn(|| {
                    let mut seed = SEED;
                    while !over.load(Ordering::Relaxed) {
                        let aim = aims.lock().unwrap().pop();
                        let Some(aim) = aim else {
                            std::thread::yield_now();
                            continue;
                        };
                        aim.used.store(true, Ordering::SeqCst);
                        if next(&mut seed).is_multiple_of(2) {
                            aim.control.cancel()
                        } else {
                            aim.control.kill()
                        }
                    }
                });
            }
            let tasks: Vec<_> = (0..8)
                .map(|_| {
                    let aims = aims.clone();
                    runtime.spawn(move || {
                        for n in 0..rounds(80) {
                            let (aims, own) = (aims.clone(), Arc::new(Mutex::new(None)));
                            let aim = own.clone();
                            let task = spawn(move || {
                                let new = Arc::new(Aim { control: control(), used: AtomicBool::new(false) });
                                *own.lock().unwrap() = Some(new.clone());
                                aims.lock().unwrap().push(new);
                                for _ in 0..n % 4 {
                                    yield_now();
                                }
                            });
                            if let Err(raised) = task.join() {
                                assert!(raised.is_cancelled(), "{raised:?}");
                                let aim = aim.lock().unwrap().take().expect("nobody has cancelled it");
                                assert!(aim.used.load(Ordering::SeqCst), "hit by what was meant for another");
                            }
                        }
                    })
                })
                .collect();
            tasks.into_iter().for_each(|task| task.join().unwrap());
        });
    });
}

#[test]
fn a_control_that_a_result_hands_out_when_it_is_dropped_ends_with_its_task() {
    /// A result that nobody takes, and which lets others reach the task that drops it.
    struct HandsOut(Arc<Mutex<Vec<Control>>>);
    impl Drop for HandsOut {
        fn drop(&mut self) {
            self.0.lock().unwrap().push(control());
        }
    }
    with_runtimes(|runtime| {
        let controls: Arc<Mutex<Vec<Control>>> = Arc::default();
        for _ in 0..rounds(40) {
            let (go, out) = (Arc::new(AtomicBool::new(false)), controls.clone());
            let detached = go.clone();
            drop(runtime.spawn(move || {
                while !detached.load(Ordering::Acquire) {
                    yield_now();
                }
                HandsOut(out)
            }));
            go.store(true, Ordering::Release);
        }
        spin_until(|| controls.lock().unwrap().len() == rounds(40));
        let over = AtomicBool::new(false);
        std::thread::scope(|threads| {
            let _over = Over(&over);
            threads.spawn(|| {
                while !over.load(Ordering::Relaxed) {
                    controls.lock().unwrap().iter().for_each(Control::kill);
                    std::thread::yield_now();
                }
            });
            innocent(runtime, 20);
        });
    });
}

#[test]
fn handles_that_cancel_and_kill_while_their_task_ends_hit_nobody_else() {
    with_runtimes(|runtime| {
        let (captured, tasks) = (Tally::new(), rounds(60));
        let shooters: Vec<_> = (0..4u64)
            .map(|shooter| {
                let captured = captured.clone();
                runtime.spawn(move || {
                    let mut seed = SEED + shooter;
                    for n in 0..tasks as u64 {
                        let capture = captured.value(n);
                        let yields = next(&mut seed) % 3;
                        let task = spawn(move || {
                            (0..yields).for_each(|_| yield_now());
                            capture.number()
                        });
                        (0..next(&mut seed) % 3).for_each(|_| yield_now());
                        if n % 2 == 0 {
                            task.cancel()
                        } else {
                            task.kill()
                        }
                        match task.join() {
                            Ok(number) => assert_eq!(number, n),
                            Err(raised) => assert!(raised.is_cancelled(), "{raised:?}"),
                        }
                    }
                })
            })
            .collect();
        innocent(runtime, rounds(10));
        shooters.into_iter().for_each(|task| task.join().unwrap());
        captured.assert_even(4 * tasks);
    });
}

#[test]
fn an_event_that_is_answered_after_its_task_was_ended_continues_nobody() {
    with_runtimes(|runtime| {
        let kept: Arc<Mutex<Vec<Event>>> = Arc::default();
        let late = kept.clone();
        runtime
            .run(move || {
                let events = Events::new();
                for _ in 0..rounds(40) {
                    let task = sinew_sched::task().supervisor(&events).spawn(|| drop(yield_(1u32)));
                    let event = events.recv().unwrap();
                    assert_eq!((event.task, event.signal), (task.id(), Signal::Yield));
                    task.kill();
                    assert!(task.join().is_err());
                    assert_eq!(events.recv().unwrap().task, event.task, "its end");
                    late.lock().unwrap().push(event);
                }
            })
            .unwrap();
        std::thread::scope(|threads| {
            threads.spawn(|| {
                while let Some(event) = { kept.lock().unwrap().pop() } {
                    assert!(!event.resume(2u32), "the task has ended");
                }
            });
            innocent(runtime, rounds(10));
        });
    });
}

#[test]
fn deadlines_and_sleeps_of_tasks_that_were_cancelled_cut_no_later_one_short() {
    with_runtimes(|runtime| {
        runtime
            .run(|| {
                let mut seed = SEED;
                for _ in 0..rounds(60) {
                    let short = Duration::from_micros(next(&mut seed) % 80);
                    let first = spawn(move || timeout(short, || sleep(2 * short)));
                    yield_now();
                    first.cancel();
                    // Whatever is left of the deadline would ring in here.
                    let second = spawn(move || {
                        let start = sinew_sched::now();
                        sleep(Duration::from_micros(120));
                        sinew_sched::now() - start
                    });
                    drop(first);
                    assert!(second.join().expect("nobody has cancelled it") >= Duration::from_micros(120));
                }
            })
            .unwrap();
    });
}

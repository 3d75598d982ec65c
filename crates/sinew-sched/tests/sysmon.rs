//! What goes on while a worker is stuck. A program of its own, because a test waits until no thread of the process gets up.

use std::io::{Read, Write};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::time::Duration;

use sinew_chan::chan::oneshot;
use sinew_sched::{
    Builder, Events, JoinHandle, ManualClock, Runtime, Sysmon, now, sleep, sleep_async, spawn, spawn_future,
    task, yield_now,
};
use sinew_test_kit::runtimes as support;
use support::{rounds, sleeps, spin_until, wait_for_ticks, with_runtime};

/// A runtime whose sysmon is quick, so that tests are.
fn quick(workers: usize, temporary: usize) -> Builder {
    let (tick, stuck) = (Duration::from_micros(200), Duration::from_millis(1));
    let sysmon = Sysmon::new().tick(tick).stuck_after(stuck).scale_interval(stuck).idle_timeout(stuck);
    Runtime::builder().workers(workers).sysmon(sysmon.temporary_workers(temporary))
}

/// Something that keeps a worker until it is let go.
#[derive(Clone, Default)]
struct Gate(Arc<AtomicBool>);

impl Gate {
    fn is_open(&self) -> bool {
        self.0.load(Ordering::Acquire)
    }

    fn open(&self) {
        self.0.store(true, Ordering::Release);
    }

    /// Blocks the thread, not the task.
    fn spin(&self) {
        spin_until(|| self.is_open());
    }
}

/// Has a task of `runtime` keep its worker until the gate is open. It has begun.
fn keep_a_worker(runtime: &Runtime, gate: &Gate) -> JoinHandle<()> {
    let (begun, spins) = (Gate::default(), gate.clone());
    let begins = begun.clone();
    let stuck = runtime.spawn(move || {
        begins.open();
        spins.spin();
    });
    begun.spin();
    stuck
}

/// How many workers there are at the moment.
fn worker_count(runtime: &Runtime) -> usize {
    runtime.dump().workers.len()
}

/// Everything that may move: tasks from outside and from a task, futures that sleep, futures that wake each other.
fn movable_work_is_done(runtime: &Runtime) {
    let from_outside: Vec<_> = (0..20).map(|n| runtime.spawn(move || n)).collect();
    let futures: Vec<_> = (0..20u64)
        .map(|n| {
            runtime.spawn_future(async move {
                sleep_async(Duration::from_millis(n % 3)).await;
                let (sender, mut receiver) = oneshot::channel();
                spawn_future(async move { sender.send(n).unwrap() }).detach();
                receiver.recv_async().await.unwrap()
            })
        })
        .collect();
    let parent = runtime.spawn(|| {
        let children: Vec<_> = (0..20u64)
            .map(|n| {
                spawn(move || {
                    sleep(Duration::from_millis(n % 3));
                    yield_now();
                    n
                })
            })
            .collect();
        children.into_iter().map(|child| child.join().unwrap()).sum::<u64>()
    });
    assert_eq!(from_outside.into_iter().map(|task| task.join().unwrap()).sum::<u64>(), 190);
    assert_eq!(futures.into_iter().map(|task| task.join().unwrap()).sum::<u64>(), 190);
    assert_eq!(parent.join().unwrap(), 190);
}

/// Keeps all workers of a runtime by `stick`, which says when it has begun, and does all movable work meanwhile.
fn while_all_are_stuck(workers: usize, stick: impl Fn() + Clone + Send + 'static, let_go: impl FnOnce()) {
    with_runtime(quick(workers, 2), |runtime| {
        let begun = Arc::new(AtomicUsize::new(0));
        let stuck: Vec<_> = (0..workers)
            .map(|_| {
                let (begun, stick) = (begun.clone(), stick.clone());
                runtime.spawn(move || {
                    begun.fetch_add(1, Ordering::AcqRel);
                    stick();
                })
            })
            .collect();
        spin_until(|| begun.load(Ordering::Acquire) == workers);
        movable_work_is_done(runtime);
        assert!(stuck.iter().all(|task| !task.is_finished()));
        let_go();
        stuck.into_iter().for_each(|task| task.join().unwrap());
    });
}

#[test]
fn everything_that_may_move_goes_on_while_all_workers_compute() {
    for workers in [1, 2] {
        let gate = Gate::default();
        let spins = gate.clone();
        while_all_are_stuck(workers, move || spins.spin(), || gate.open());
    }
}

#[test]
fn everything_that_may_move_goes_on_while_all_workers_are_in_a_system_call() {
    let (reader, mut writer) = std::io::pipe().unwrap();
    let reader = Arc::new(reader);
    let read = move || {
        (&*reader).read_exact(&mut [0]).unwrap();
    };
    while_all_are_stuck(2, read, move || writer.write_all(&[1, 2]).unwrap());
}

#[test]
fn everything_that_may_move_goes_on_while_all_workers_wait_for_a_lock_of_std() {
    let lock = Arc::new(Mutex::new(()));
    let held = lock.lock().unwrap();
    let wanted = lock.clone();
    while_all_are_stuck(2, move || drop(wanted.lock().unwrap()), move || drop(held));
}

/// The tasks that a worker spawned before it got stuck are in its own queue, and those that it was handed in its inbox.
#[test]
fn what_is_in_the_queues_of_a_stuck_worker_is_taken_by_others() {
    with_runtime(quick(1, 1), |runtime| {
        let sum = runtime.run(|| {
            let (sender, receiver) = mpsc::channel();
            for n in 0..100u64 {
                let sender = sender.clone();
                drop(match n % 2 {
                    0 => spawn(move || sender.send(n).unwrap()),
                    _ => spawn_future(async move { sender.send(n).unwrap() }),
                });
            }
            drop(sender);
            receiver.iter().sum::<u64>() // blocks the thread
        });
        assert_eq!(sum.unwrap(), 4950);
    });
}

#[test]
fn timers_of_a_stuck_worker_ring() {
    with_runtime(quick(1, 1), |runtime| {
        let stuck = runtime.spawn(|| {
            let here = std::thread::current().id();
            let mut after = Duration::from_millis(20);
            loop {
                let (polled, gate) = (Arc::new(Mutex::new(None)), Gate::default());
                let (polls, opens) = (polled.clone(), gate.clone());
                let sleeper = spawn_future(async move {
                    *polls.lock().unwrap() = Some(std::thread::current().id());
                    sleep_async(after).await;
                    opens.open();
                });
                while polled.lock().unwrap().is_none() {
                    yield_now(); // lets it set its timer
                }
                let is_here = *polled.lock().unwrap() == Some(here);
                let is_in_time = !gate.is_open();
                gate.spin();
                sleeper.join().unwrap();
                if is_here && is_in_time {
                    break;
                }
                after = 2 * after.min(Duration::from_secs(1)); // the machine is busy
            }
        });
        stuck.join().unwrap();
    });
}

/// A body that has blocked stays where it is: on a temporary worker too, which then stays for it.
#[test]
fn bodies_that_have_blocked_on_a_temporary_worker_end_there() {
    with_runtime(quick(1, 2), |runtime| {
        for round in 0..rounds(10) {
            let gate = Gate::default();
            let stuck = keep_a_worker(runtime, &gate);
            let questions = Events::new();
            let bodies: Vec<_> = (0..8)
                .map(|_| {
                    let asks = runtime.task().supervisor(&questions);
                    asks.spawn(move || {
                        let thread = std::thread::current().id();
                        let name = std::thread::current().name().unwrap().to_owned();
                        // Later a temporary worker that is still there may be the one that is stuck.
                        assert!(round > 0 || name.starts_with("sinew-temporary"), "{name}");
                        sinew_fiber::yield_(()).unwrap();
                        sleep(Duration::from_millis(1));
                        assert_eq!(std::thread::current().id(), thread);
                    })
                })
                .collect();
            let asked: Vec<_> = (0..8).map(|_| questions.recv().unwrap()).collect();
            // The bodies have blocked. Their worker serves them long after the other one is free.
            gate.open();
            stuck.join().unwrap();
            assert_eq!(runtime.run(|| 1).unwrap(), 1);
            asked.into_iter().for_each(|question| assert!(question.resume(())));
            bodies.into_iter().for_each(|body| body.join().unwrap());
        }
    });
}

#[test]
fn temporary_workers_leave() {
    with_runtime(quick(1, 2), |runtime| {
        let gate = Gate::default();
        // The second keeps a temporary one.
        let stuck = [keep_a_worker(runtime, &gate), keep_a_worker(runtime, &gate)];
        movable_work_is_done(runtime);
        assert!(worker_count(runtime) > 1, "{}", runtime.dump());
        gate.open();
        stuck.into_iter().for_each(|task| task.join().unwrap());
        spin_until(|| worker_count(runtime) == 1);
    });
}

#[test]
fn there_are_no_more_temporary_workers_than_are_allowed() {
    for most in [0, 1, 3] {
        with_runtime(quick(1, most), |runtime| {
            let gate = Gate::default();
            let begun = Arc::new(AtomicUsize::new(0));
            let stuck: Vec<_> = (0..8)
                .map(|_| {
                    let (spins, begun) = (gate.clone(), begun.clone());
                    runtime.spawn(move || {
                        begun.fetch_add(1, Ordering::AcqRel);
                        spins.spin();
                    })
                })
                .collect();
            spin_until(|| begun.load(Ordering::Acquire) == 1 + most);
            wait_for_ticks(100); // at each of which one too many could be started
            assert_eq!((begun.load(Ordering::Acquire), worker_count(runtime)), (1 + most, 1 + most));
            gate.open();
            stuck.into_iter().for_each(|task| task.join().unwrap());
        });
    }
}

/// Workers get stuck for a moment all the time, and temporary ones come and go: every task runs once.
#[test]
fn nothing_is_lost_while_temporary_workers_come_and_go() {
    for (workers, temporary) in [(1, 1), (1, 3), (2, 2)] {
        with_runtime(quick(workers, temporary), |runtime| {
            let ran = Arc::new(AtomicUsize::new(0));
            let mut expected = 0;
            for round in 0..rounds(40) {
                let mut tasks = Vec::new();
                for n in 0..24 {
                    let ran = ran.clone();
                    tasks.push(match n % 4 {
                        0 => runtime.spawn(move || {
                            let end = std::time::Instant::now() + Duration::from_millis(2);
                            spin_until(|| std::time::Instant::now() >= end);
                            ran.fetch_add(1, Ordering::AcqRel);
                        }),
                        1 => runtime.spawn_future(async move {
                            sleep_async(Duration::from_micros(500)).await;
                            ran.fetch_add(1, Ordering::AcqRel);
                        }),
                        2 => runtime.spawn(move || {
                            let child = spawn(yield_now);
                            sleep(Duration::from_micros(300));
                            child.join().unwrap();
                            task().pinned().spawn(yield_now).join().unwrap();
                            ran.fetch_add(1, Ordering::AcqRel);
                        }),
                        // SAFETY: it has nothing that belongs to a thread across its blocking calls.
                        _ => unsafe {
                            runtime.task().spawn_migrating(move || {
                                yield_now();
                                sleep(Duration::from_micros(400));
                                ran.fetch_add(1, Ordering::AcqRel);
                            })
                        },
                    });
                    expected += 1;
                }
                tasks.into_iter().for_each(|task| task.join().unwrap());
                if round % 3 == 0 {
                    spin_until(|| worker_count(runtime) == workers); // temporary workers leave
                }
            }
            assert_eq!(ran.load(Ordering::Acquire), expected);
        });
    }
}

#[test]
fn without_sysmon_an_idle_worker_takes_what_a_stuck_one_has() {
    with_runtime(Runtime::builder().workers(2).sysmon(Sysmon::off()), |runtime| {
        let gate = Gate::default();
        let stuck = keep_a_worker(runtime, &gate);
        movable_work_is_done(runtime);
        gate.open();
        stuck.join().unwrap();
    });
}

/// The clock stands still as long as a body runs, however many workers come and go for what waits behind it.
#[test]
fn a_manual_clock_does_not_notice_temporary_workers() {
    for _ in 0..rounds(10) {
        let clock = ManualClock::new();
        with_runtime(quick(1, 2).manual_clock(&clock), |runtime| {
            let gate = Gate::default();
            let stuck = keep_a_worker(runtime, &gate);
            let before = clock.now();
            let sleeper = runtime.spawn(|| {
                let start = now();
                sleep(Duration::from_secs(60));
                (now() - start).as_secs()
            });
            assert_eq!(runtime.run(|| 42).unwrap(), 42);
            assert_eq!(clock.now(), before, "it has moved although a body runs");
            gate.open();
            stuck.join().unwrap();
            assert_eq!(sleeper.join().unwrap(), 60);
        });
    }
}

/// Also after temporary workers were there. If anybody got up at a tick, of which there are hundreds in a pause, two counts
/// would never be the same five times in a row: then the watchdog barks. A machine that is so busy that nobody gets a
/// processor in five pauses lets this pass, and none makes it fail.
#[test]
fn nobody_gets_up_while_there_is_nothing_to_do() {
    with_runtime(quick(2, 2), |runtime| {
        let gate = Gate::default();
        let stuck = [keep_a_worker(runtime, &gate), keep_a_worker(runtime, &gate)];
        movable_work_is_done(runtime);
        gate.open();
        stuck.into_iter().for_each(|task| task.join().unwrap());
        let nobody_gets_up = || {
            let before = sleeps("sinew-");
            std::thread::sleep(Duration::from_millis(100));
            before.is_some() && before == sleeps("sinew-")
        };
        spin_until(|| (0..5).all(|_| nobody_gets_up()));
    });
}

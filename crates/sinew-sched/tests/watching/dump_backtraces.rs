//! A dump has backtraces of tasks that are parked, taken by their workers, and nothing notices.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use sinew_chan::chan;
use sinew_chan::sync::Semaphore;
use sinew_fiber::{Fiber, Mask, Status, Value, yield_};
use sinew_sched::{
    Backtraces, Dump, Events, Runtime, Sysmon, TaskDump, TaskId, TaskState, WorkerState, spawn, task,
    yield_now,
};

#[inline(never)]
fn waits_for_ever(gate: &Semaphore) {
    gate.acquire(1).unwrap().forget();
    std::hint::black_box(());
}

#[inline(never)]
fn calls_what_waits(gate: &Semaphore) {
    waits_for_ever(gate);
    std::hint::black_box(());
}

fn find(dump: &Dump, id: TaskId) -> &TaskDump {
    dump.tasks.iter().find(|task| task.id == id).unwrap_or_else(|| panic!("{id} is missing in\n{dump}"))
}

/// Where the first frame is that names this function.
fn place(task: &TaskDump, function: &str) -> usize {
    let named = task.backtrace.iter().position(|frame| frame.contains(function));
    named.unwrap_or_else(|| panic!("{function} is missing in {:#?}", task.backtrace))
}

/// A dump that all workers have answered for: on a busy machine they may be late.
fn answered(dump: impl Fn() -> Dump) -> Dump {
    loop {
        let dump = dump();
        if dump.unanswered.is_empty() {
            return dump;
        }
    }
}

/// Waits until so many tasks are parked.
fn wait_until_parked(runtime: &Runtime, tasks: usize) {
    while runtime.dump().tasks.iter().filter(|task| task.state == TaskState::Parked).count() < tasks {
        std::thread::yield_now();
    }
}

#[test]
fn a_parked_task_shows_the_functions_that_it_waits_in() {
    let runtime = Runtime::builder().workers(2).build().unwrap();
    let gate = Arc::new(Semaphore::new(0));
    let waits = gate.clone();
    let task = runtime.spawn(move || calls_what_waits(&waits));
    wait_until_parked(&runtime, 1);
    let dump = answered(|| runtime.dump_with(Backtraces::UpTo(10)));
    let shown = find(&dump, task.id());
    assert!(place(shown, "waits_for_ever") < place(shown, "calls_what_waits"), "{dump}");
    let at = &shown.backtrace[place(shown, "calls_what_waits")];
    // Names are there in any build. Lines take debug information, which optimised builds do not have.
    assert!(!cfg!(debug_assertions) || at.contains("dump_backtraces.rs:"), "{at}");
    assert!(dump.to_string().contains("waits_for_ever") && dump.to_json().contains("waits_for_ever"));
    gate.add_permits(1);
    task.join().unwrap();
}

#[test]
fn a_task_shows_the_fibers_that_it_waits_in_and_their_stacks() {
    let runtime = Runtime::builder().build_current_thread().unwrap();
    let gate = Arc::new(Semaphore::new(0));
    let waits = gate.clone();
    let task = runtime.spawn(move || {
        let outer = Fiber::new(move |_: Value| {
            let inner = Fiber::new(move |_: Value| calls_what_waits(&waits)).unwrap();
            let _ = inner.resume(()).unwrap();
        });
        let _ = outer.unwrap().resume(()).unwrap();
    });
    runtime.run_until_idle();
    let dump = runtime.dump_with(Backtraces::UpTo(1));
    let shown = find(&dump, task.id());
    assert_eq!(shown.fibers.len(), 2, "{dump}");
    assert!(shown.fibers.iter().all(|fiber| fiber.created_at.contains("dump_backtraces.rs")), "{dump}");
    assert!(shown.fibers.iter().all(|fiber| fiber.status == Status::Alive), "{dump}");
    let first = format!("    in fiber #{}, alive, created at ", shown.fibers[0].id);
    assert!(dump.to_string().contains(&first), "{dump}");
    assert_eq!(dump.to_json().matches("\"status\":\"alive\"").count(), 2, "{dump}");
    let bottoms = shown.backtrace.iter().filter(|frame| frame.contains("first_frame")).count();
    assert_eq!(bottoms, 3, "the stacks of both fibers and of the task are shown: {:#?}", shown.backtrace);
    place(shown, "calls_what_waits");
    gate.add_permits(1);
    runtime.run_until_idle();
    task.join().unwrap();
}

#[test]
fn a_task_that_stopped_for_its_supervisor_shows_the_fibers_that_it_is_in() {
    let runtime = Runtime::builder().build_current_thread().unwrap();
    let events = Events::new();
    let task = runtime.task().supervisor(&events).spawn(|| {
        let outer = Fiber::builder().name("outer").mask(Mask::ERROR).build(|_| {
            let inner =
                Fiber::builder().name("inner").mask(Mask::ERROR).build(|_| drop(yield_("deep"))).unwrap();
            let _ = inner.resume(()).unwrap();
        });
        let _ = outer.unwrap().resume(()).unwrap();
    });
    runtime.run_until_idle();
    let dump = runtime.dump_with(Backtraces::UpTo(1));
    let fibers = &find(&dump, task.id()).fibers;
    let shown: Vec<_> = fibers.iter().map(|fiber| (fiber.name.as_deref(), fiber.status)).collect();
    assert_eq!(shown, [(Some("outer"), Status::Alive), (Some("inner"), Status::Alive)], "{dump}");
    task.cancel();
    runtime.run_until_idle();
}

#[test]
fn so_many_tasks_have_a_backtrace_and_no_more() {
    let runtime = Runtime::builder().workers(2).build().unwrap();
    let gate = Arc::new(Semaphore::new(0));
    for _ in 0..20 {
        let gate = gate.clone();
        runtime.spawn(move || waits_for_ever(&gate)).detach();
    }
    wait_until_parked(&runtime, 20);
    let traced = |dump: Dump| dump.tasks.iter().filter(|task| !task.backtrace.is_empty()).count();
    assert_eq!(traced(answered(|| runtime.dump_with(Backtraces::UpTo(7)))), 7);
    assert_eq!(traced(answered(|| runtime.dump_with(Backtraces::UpTo(100)))), 20);
    assert_eq!(traced(runtime.dump_with(Backtraces::None)), 0);
    gate.add_permits(20);
}

#[test]
fn a_worker_that_is_stuck_is_named_with_its_task() {
    let runtime = Runtime::builder().workers(2).build().unwrap();
    let (begun, stop) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)));
    let (begins, stops) = (begun.clone(), stop.clone());
    let stuck = runtime.task().name("stuck").spawn(move || {
        begins.store(true, Ordering::Release);
        while !stops.load(Ordering::Acquire) {
            std::hint::spin_loop();
        }
    });
    while !begun.load(Ordering::Acquire) {
        std::thread::yield_now();
    }
    let dump = runtime.dump_with(Backtraces::UpTo(10));
    let worker = find(&dump, stuck.id()).worker.unwrap();
    assert!(dump.unanswered.contains(&worker), "{dump}");
    assert_eq!(dump.workers[worker].state, WorkerState::Running(stuck.id()), "{dump}");
    stop.store(true, Ordering::Release);
    stuck.join().unwrap();
}

#[test]
fn the_stacks_of_a_stuck_worker_are_left_alone_by_the_others() {
    let runtime = Runtime::builder().workers(2).sysmon(Sysmon::off()).build().unwrap();
    let gate = Arc::new(Semaphore::new(0));
    let (begun, stop) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)));
    let (waits, begins, stops) = (gate.clone(), begun.clone(), stop.clone());
    let stuck = runtime.spawn(move || {
        let parked = task().name("behind").pinned().spawn(move || calls_what_waits(&waits));
        yield_now(); // it runs, and parks
        begins.store(true, Ordering::Release);
        while !stops.load(Ordering::Acquire) {
            std::hint::spin_loop();
        }
        parked
    });
    while !begun.load(Ordering::Acquire) {
        std::thread::yield_now();
    }
    // The other worker may be late as well, but not always.
    let dumps = std::iter::repeat_with(|| runtime.dump_with(Backtraces::UpTo(10))).take(20);
    let dump = dumps.into_iter().find(|dump| dump.unanswered.len() == 1).expect("the other one answers");
    let worker = find(&dump, stuck.id()).worker;
    let shown = dump.tasks.iter().find(|task| task.name.as_deref() == Some("behind")).expect("it is parked");
    assert_eq!((shown.state, shown.worker), (TaskState::Parked, worker), "{dump}");
    assert!(shown.backtrace.is_empty(), "{dump}");
    stop.store(true, Ordering::Release);
    gate.add_permits(1);
    stuck.join().unwrap().join().unwrap();
}

#[test]
fn a_task_that_migrates_belongs_to_no_worker_and_has_no_backtrace() {
    let runtime = Runtime::builder().build_current_thread().unwrap();
    let gate = Arc::new(Semaphore::new(0));
    let waits = gate.clone();
    let (sender, receiver) = chan::bounded::<()>(1);
    // SAFETY: it holds nothing that belongs to a thread.
    let migrates = unsafe { runtime.task().spawn_migrating(move || calls_what_waits(&waits)) };
    let future = runtime.spawn_future(async move { receiver.recv_async().await.unwrap() });
    runtime.run_until_idle();
    let dump = runtime.dump_with(Backtraces::UpTo(10));
    for id in [migrates.id(), future.id()] {
        let shown = find(&dump, id);
        assert_eq!((shown.state, shown.worker), (TaskState::Parked, None), "{dump}");
        assert!(shown.backtrace.is_empty(), "{dump}");
        assert!(shown.spawned_at.unwrap().file().ends_with("dump_backtraces.rs"), "{dump}");
    }
    gate.add_permits(1);
    sender.try_send(()).unwrap();
    assert_eq!(runtime.dump().workers[0].ready, 0, "what is ready may go on anywhere");
    runtime.run_until_idle();
    migrates.join().unwrap();
    future.join().unwrap();
}

#[test]
fn a_task_may_ask_for_the_others_of_its_own_worker() {
    let runtime = Arc::new(Runtime::builder().workers(1).build().unwrap());
    let gate = Arc::new(Semaphore::new(0));
    let waits = gate.clone();
    let task = runtime.spawn(move || calls_what_waits(&waits));
    wait_until_parked(&runtime, 1);
    let asks = runtime.clone();
    let dump = runtime.run(move || asks.dump_with(Backtraces::UpTo(10))).unwrap();
    assert_eq!(dump.unanswered, Vec::<usize>::new(), "{dump}");
    place(find(&dump, task.id()), "calls_what_waits");
    gate.add_permits(1);
    task.join().unwrap();
}

/// Tasks that wait, yield, migrate and end, while backtraces are taken all the time: all of them come to their ends.
fn backtraces_of_a_busy_runtime(workers: usize) {
    let runtime = Runtime::builder().workers(workers).build().unwrap();
    let rounds = Arc::new(AtomicUsize::new(0));
    let gate = Arc::new(Semaphore::new(1));
    let busy: Vec<_> = (0..8)
        .map(|n: u32| {
            let (gate, rounds) = (gate.clone(), rounds.clone());
            let body = move || {
                while rounds.load(Ordering::Acquire) < 20 {
                    drop(gate.acquire(1).unwrap());
                    yield_now();
                    spawn(yield_now).join().unwrap();
                    let _ = sinew_sched::block_on(sinew_sched::sleep_async(Duration::from_micros(10)));
                }
            };
            match n {
                0 => runtime.spawn_future(async {
                    for _ in 0..100 {
                        sinew_sched::sleep_async(Duration::from_micros(10)).await;
                    }
                }),
                // SAFETY: it holds nothing that belongs to a thread.
                1 => unsafe { runtime.task().spawn_migrating(body) },
                _ => runtime.spawn(body),
            }
        })
        .collect();
    for _ in 0..20 {
        let dump = runtime.dump_with(Backtraces::UpTo(4));
        assert_eq!(dump.workers.len(), workers);
        rounds.fetch_add(1, Ordering::Release);
    }
    busy.into_iter().for_each(|task| task.join().unwrap());
    assert_eq!(runtime.shutdown(Duration::from_secs(60)).left, 0);
}

#[test]
fn backtraces_of_a_busy_worker_change_nothing() {
    backtraces_of_a_busy_runtime(1);
}

#[test]
fn backtraces_of_eight_busy_workers_change_nothing() {
    backtraces_of_a_busy_runtime(8);
}

#[test]
fn a_task_that_first_yields_while_its_worker_is_asked_runs_once() {
    let runtime = Arc::new(Runtime::builder().workers(1).build().unwrap());
    let gate = Arc::new(Semaphore::new(0));
    let waits = gate.clone();
    let parked = runtime.spawn(move || calls_what_waits(&waits));
    wait_until_parked(&runtime, 1);
    let (over, asks) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
    let asker = {
        let (runtime, over, asks) = (runtime.clone(), over.clone(), asks.clone());
        std::thread::spawn(move || {
            while !over.load(Ordering::Acquire) {
                asks.fetch_add(1, Ordering::Release);
                runtime.dump_with(Backtraces::UpTo(4));
            }
        })
    };
    let runs = Arc::new(AtomicUsize::new(0));
    for round in 1..=50 {
        let (runs, asks) = (runs.clone(), asks.clone());
        let body = move || {
            // The worker is asked while this runs: mostly, since whoever asks says so a moment before.
            let before = asks.load(Ordering::Acquire);
            while asks.load(Ordering::Acquire) == before {
                std::thread::yield_now();
            }
            (0..10_000).for_each(|_| std::hint::spin_loop());
            yield_now();
            runs.fetch_add(1, Ordering::Relaxed) + 1
        };
        assert_eq!(runtime.task().name("yields").spawn(body).join().unwrap(), round);
    }
    over.store(true, Ordering::Release);
    asker.join().unwrap();
    gate.add_permits(1);
    parked.join().unwrap();
}

#[test]
fn two_tasks_that_wake_each_other_all_the_time_do_not_keep_their_worker_from_answering() {
    let runtime = Runtime::builder().workers(1).build().unwrap();
    let gate = Arc::new(Semaphore::new(0));
    let waits = gate.clone();
    let parked = runtime.spawn(move || calls_what_waits(&waits));
    wait_until_parked(&runtime, 1);
    let ((ping, pings), (pong, pongs)) = (chan::rendezvous(), chan::rendezvous());
    let over = Arc::new(AtomicBool::new(false));
    let ends = over.clone();
    let tasks = [
        runtime.spawn(move || while ping.send(()).is_ok() && pongs.recv().is_ok() {}),
        runtime.spawn(move || {
            while !ends.load(Ordering::Acquire) && pings.recv().is_ok() && pong.send(()).is_ok() {}
        }),
    ];
    // It may be late, but not always: it changes tasks many times in the time that it has.
    let dumps = std::iter::repeat_with(|| runtime.dump_with(Backtraces::UpTo(10))).take(20);
    let dump = dumps.into_iter().find(|dump| dump.unanswered.is_empty()).expect("it answers");
    place(find(&dump, parked.id()), "calls_what_waits");
    over.store(true, Ordering::Release);
    tasks.into_iter().for_each(|task| task.join().unwrap());
    gate.add_permits(1);
    parked.join().unwrap();
}

/// Two threads and a task ask all the time, while tasks park, run, end and are in fibers, and a worker is stuck. Each dump is
/// whole, and everything comes to its end.
fn asked_by_many_while_a_worker_is_stuck(workers: usize) {
    let runtime = Arc::new(Runtime::builder().workers(workers).build().unwrap());
    let (begun, stop) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)));
    let (begins, stops) = (begun.clone(), stop.clone());
    let stuck = runtime.task().name("stuck").spawn(move || {
        begins.store(true, Ordering::Release);
        while !stops.load(Ordering::Acquire) {
            std::hint::spin_loop();
        }
    });
    while !begun.load(Ordering::Acquire) {
        std::thread::yield_now();
    }
    let gate = Arc::new(Semaphore::new(1));
    let busy: Vec<_> = (0..8)
        .map(|_| {
            let (gate, stop) = (gate.clone(), stop.clone());
            runtime.spawn(move || {
                while !stop.load(Ordering::Acquire) {
                    drop(gate.acquire(1).unwrap());
                    spawn(yield_now).join().unwrap();
                    let fiber = Fiber::new(|_: Value| spawn(yield_now).join().unwrap()).unwrap();
                    let _ = fiber.resume(()).unwrap();
                }
            })
        })
        .collect();
    let id = stuck.id();
    let ask = |runtime: Arc<Runtime>| {
        move || {
            for _ in 0..3 {
                let dump = runtime.dump_with(Backtraces::UpTo(20));
                let worker = find(&dump, id).worker.expect("it runs");
                assert!(dump.unanswered.contains(&worker), "{dump}");
                let traced = dump.tasks.iter().filter(|task| !task.backtrace.is_empty());
                assert!(traced.clone().count() <= 20 && traced.clone().all(|task| task.id != id), "{dump}");
                assert!(dump.to_json().ends_with("]}"));
            }
        }
    };
    let threads = [std::thread::spawn(ask(runtime.clone())), std::thread::spawn(ask(runtime.clone()))];
    // Nobody promises when it begins: while the worker is stuck, or afterwards.
    let asks = runtime.clone();
    let by_a_task =
        runtime.spawn(move || (0..3).all(|_| !asks.dump_with(Backtraces::UpTo(20)).tasks.is_empty()));
    threads.into_iter().for_each(|thread| thread.join().unwrap());
    stop.store(true, Ordering::Release);
    stuck.join().unwrap();
    busy.into_iter().for_each(|task| task.join().unwrap());
    assert!(by_a_task.join().unwrap());
    let runtime = Arc::into_inner(runtime).expect("nobody asks any more");
    assert_eq!(runtime.shutdown(Duration::from_secs(60)).left, 0);
}

#[test]
fn many_ask_while_the_only_worker_is_stuck() {
    asked_by_many_while_a_worker_is_stuck(1);
}

#[test]
fn many_ask_while_one_of_eight_workers_is_stuck() {
    asked_by_many_while_a_worker_is_stuck(8);
}

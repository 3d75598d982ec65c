//! A runtime on the caller's thread, and the manual clock.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use sinew_chan::chan::oneshot;
use sinew_fiber::current;
use sinew_sched::{
    CurrentThread, ManualClock, Runtime, now, sleep, sleep_async, sleep_until, spawn, task, yield_now,
};

fn current_thread() -> CurrentThread {
    Runtime::builder().build_current_thread().unwrap()
}

#[test]
fn nothing_runs_between_steps_and_one_step_is_one_turn() {
    let runtime = current_thread();
    let log = Arc::new(Mutex::new(Vec::new()));
    for name in ["a", "b"] {
        let log = log.clone();
        runtime
            .spawn(move || {
                for n in 0..2 {
                    log.lock().unwrap().push((name, n));
                    yield_now();
                }
            })
            .detach();
    }
    assert_eq!(log.lock().unwrap().len(), 0);
    let mut seen = 0;
    for _ in 0..6 {
        // Two turns of each that log, and one that returns.
        assert!(runtime.step());
        let logged = log.lock().unwrap().len();
        assert!(logged <= seen + 1, "one turn, one entry");
        seen = logged;
    }
    assert_eq!(seen, 4);
    assert!(!runtime.step());
    assert_eq!(runtime.run_until_idle(), 0);
}

#[test]
fn run_until_idle_runs_what_is_ready_and_leaves_what_sleeps() {
    let clock = ManualClock::new();
    let runtime = Runtime::builder().manual_clock(&clock).build_current_thread().unwrap();
    let tasks: Vec<_> = (1..=3u64).map(|n| runtime.spawn(move || sleep(Duration::from_secs(n)))).collect();
    assert!(runtime.run_until_idle() >= 3);
    for n in 0..3 {
        assert_eq!(tasks.iter().filter(|task| task.is_finished()).count(), n);
        clock.advance(Duration::from_secs(1) + Duration::from_millis(1));
        runtime.run_until_idle();
    }
    assert!(tasks.iter().all(|task| task.is_finished()));
}

#[test]
fn run_drives_everything_until_its_own_task_has_ended() {
    let runtime = current_thread();
    let other = runtime.spawn_future(async {
        sleep_async(Duration::from_millis(1)).await;
        5
    });
    let sum = runtime.run(move || other.join().unwrap() + spawn(|| 2).join().unwrap()).unwrap();
    assert_eq!(sum, 7);
    assert!(runtime.run(|| -> u32 { panic!("no") }).is_err());
}

#[test]
fn a_task_from_another_thread_wakes_a_run_that_waits() {
    let runtime = current_thread();
    for _ in 0..100 {
        let (waits, waiting) = std::sync::mpsc::channel();
        let (sender, mut receiver) = oneshot::channel();
        let builder = runtime.task();
        let other = std::thread::spawn(move || {
            waiting.recv().unwrap();
            builder.spawn(move || sender.send(3).unwrap()).join().unwrap();
        });
        let received = runtime.run(move || {
            waits.send(()).unwrap();
            receiver.recv().unwrap()
        });
        assert_eq!(received.unwrap(), 3);
        runtime.run_until_idle();
        other.join().unwrap();
    }
}

#[test]
fn local_tasks_hold_what_must_not_leave_the_thread() {
    let runtime = Runtime::builder().workers(4).build().unwrap();
    let shared = runtime
        .run(|| {
            let count = Rc::new(Cell::new(0));
            let thread = std::thread::current().id();
            let tasks: Vec<_> = (0..100)
                .map(|_| {
                    let count = count.clone();
                    task().spawn_local(move || {
                        assert_eq!(std::thread::current().id(), thread);
                        yield_now();
                        assert_eq!(std::thread::current().id(), thread);
                        count.set(count.get() + 1);
                    })
                })
                .collect();
            // The others take what they can get, oldest first, and this one is the youngest.
            let taken = Arc::new(AtomicUsize::new(0));
            let takes = taken.clone();
            let other = spawn(move || takes.store(1, Ordering::Release));
            while taken.load(Ordering::Acquire) == 0 {
                std::thread::yield_now();
            }
            assert_eq!(count.get(), 0, "they run here, when this task waits");
            tasks.into_iter().for_each(|task| task.join().unwrap());
            other.join().unwrap();
            count.get()
        })
        .unwrap();
    assert_eq!(shared, 100);
}

#[test]
fn shutdown_of_a_current_thread_ends_what_waits_and_reports_what_does_not() {
    let runtime = current_thread();
    let dropped = Arc::new(AtomicUsize::new(0));
    struct Count(Arc<AtomicUsize>);
    impl Drop for Count {
        fn drop(&mut self) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }
    for n in 0..10 {
        let count = Count(dropped.clone());
        if n % 2 == 0 {
            runtime.spawn(move || (count, sleep(Duration::from_secs(1000)))).detach();
        } else {
            runtime.spawn_future(async move { (count, std::future::pending::<()>().await) }).detach();
        }
    }
    runtime.run_until_idle();
    assert_eq!(runtime.shutdown(Duration::from_secs(60)).left, 0);
    assert_eq!(dropped.load(Ordering::Relaxed), 10);

    let runtime = current_thread();
    runtime
        .task()
        .name("stubborn")
        .spawn(|| sinew_fiber::shield(|| sleep(Duration::from_secs(1000))))
        .detach();
    runtime.run_until_idle();
    let report = runtime.shutdown(Duration::from_millis(1));
    assert_eq!(report.left, 1);
    assert_eq!(report.tasks[0].1.as_deref(), Some("stubborn"));
}

#[test]
fn a_runtime_inside_a_task_of_another_runs_on_that_task_s_stack() {
    let outer = Runtime::builder().workers(2).build().unwrap();
    let answer = outer
        .run(|| {
            let before = task().name("x").spawn(|| 1);
            let inner = Runtime::builder().build_current_thread().unwrap();
            let me = current();
            let value = inner.run(|| spawn(|| 40).join().unwrap()).unwrap();
            assert_eq!(current(), me, "what runs here is the task again");
            drop(inner);
            value + before.join().unwrap() + spawn(|| 1).join().unwrap()
        })
        .unwrap();
    assert_eq!(answer, 42);
}

#[test]
fn a_step_from_inside_a_task_of_the_same_runtime_is_refused() {
    thread_local! {
        static RUNTIME: RefCell<Option<Rc<CurrentThread>>> = const { RefCell::new(None) };
    }
    let runtime = Rc::new(current_thread());
    RUNTIME.with(|place| *place.borrow_mut() = Some(runtime.clone()));
    let error = runtime
        .run(|| {
            let runtime = RUNTIME.with(|place| place.borrow().clone().unwrap());
            runtime.step()
        })
        .unwrap_err();
    assert!(error.to_string().contains("own tasks"), "{error}");
    RUNTIME.with(|place| *place.borrow_mut() = None);
}

#[test]
fn a_manual_clock_jumps_to_the_next_deadline_when_everything_is_idle() {
    for workers in [1, 2, 8] {
        let clock = ManualClock::new();
        let runtime = Runtime::builder().workers(workers).manual_clock(&clock).build().unwrap();
        let order = Arc::new(Mutex::new(Vec::new()));
        let tasks: Vec<_> = (0..50u64)
            .map(|n| {
                let order = order.clone();
                let seconds = n * 7919 % 50;
                clock.hold(true); // until all have been spawned
                runtime.spawn(move || {
                    let deadline = sinew_sched::Instant::from_nanos(0) + Duration::from_secs(seconds);
                    sleep_until(deadline);
                    assert!(now() - deadline < Duration::from_millis(1), "late by {:?}", now() - deadline);
                    order.lock().unwrap().push(seconds);
                })
            })
            .collect();
        clock.hold(false);
        tasks.into_iter().for_each(|task| task.join().unwrap());
        assert!(order.lock().unwrap().is_sorted());
        assert!(clock.now().as_nanos() < Duration::from_secs(50).as_nanos() as u64);
    }
}

#[test]
fn a_manual_clock_that_is_held_moves_only_by_hand() {
    let clock = ManualClock::new();
    clock.hold(true);
    let runtime = Runtime::builder().workers(2).manual_clock(&clock).build().unwrap();
    let start = || {
        runtime.spawn(|| {
            let start = now();
            sleep(Duration::from_secs(10));
            now() - start
        })
    };
    let wait_until_all_sleep = || {
        let dump = || runtime.dump().to_string();
        while dump().matches(": asleep,").count() < 2 || !dump().to_string().contains("parked") {
            std::thread::yield_now();
        }
    };
    let task = start();
    clock.advance(Duration::from_secs(5));
    for _ in 0..100 {
        runtime.run(yield_now).unwrap(); // and then everybody is idle
    }
    wait_until_all_sleep();
    assert_eq!(clock.now().as_nanos(), 5_000_000_000);
    assert!(!task.is_finished());
    clock.advance(Duration::from_secs(20));
    assert!(task.join().unwrap() >= Duration::from_secs(10));
    let task = start();
    wait_until_all_sleep();
    assert_eq!(clock.now().as_nanos(), 25_000_000_000);
    clock.hold(false);
    assert!(task.join().unwrap() >= Duration::from_secs(10));
}

#[test]
fn timers_have_a_resolution_of_less_than_a_millisecond() {
    let clock = ManualClock::new();
    let runtime = Runtime::builder().workers(1).manual_clock(&clock).build().unwrap();
    let latest = runtime
        .run(|| {
            (1..2000u64)
                .map(|n| {
                    let duration = Duration::from_nanos(n * 100_003);
                    let start = now();
                    sleep(duration);
                    (now() - start).checked_sub(duration).expect("never early")
                })
                .max()
                .unwrap()
        })
        .unwrap();
    assert!(latest < Duration::from_millis(1), "{latest:?}");
}

//! What is reported of tasks that keep their workers. A program of its own, because stalls are told by times so short that
//! other tests of the process would cause some.

use std::io::{Read, Write};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::time::{Duration, Instant};

use sinew_chan::chan::oneshot;
use sinew_fiber::Generator;
use sinew_sched::{Builder, Diagnostic, Runtime, Stall, Sysmon, TaskState, task, yield_now};
use sinew_test_kit::runtimes as support;
use support::{Watchdog, wait_for_ticks, with_runtime};

/// A runtime that reports stalls soon, and what it reports.
fn reporting(workers: usize, settings: impl FnOnce(Sysmon) -> Sysmon) -> (Builder, mpsc::Receiver<Stall>) {
    let (sender, receiver) = mpsc::channel();
    let (tick, threshold) = (Duration::from_micros(500), Duration::from_millis(5));
    let sysmon = Sysmon::new().tick(tick).stuck_after(threshold).stall_threshold(threshold);
    let sysmon = sysmon.patience(Duration::from_secs(60));
    let sysmon = settings(sysmon).on_diagnostic(move |found| {
        if let Diagnostic::Stall(stall) = found {
            let _ = sender.send(stall.clone());
        }
    });
    (Runtime::builder().workers(workers).sysmon(sysmon), receiver)
}

#[inline(never)]
fn computes_for_long(over: &AtomicBool) -> u64 {
    let mut sum = 0u64;
    while !over.load(Ordering::Acquire) {
        sum = std::hint::black_box(sum.wrapping_mul(31).wrapping_add(1));
    }
    sum
}

#[inline(never)]
fn reads_for_long(reader: &mut impl Read) -> u8 {
    let mut byte = [0];
    reader.read_exact(&mut byte).unwrap();
    byte[0]
}

/// Calls `body` while a task that has to run on the same worker is ready.
fn with_a_task_behind<T>(body: impl FnOnce() -> T) -> T {
    let behind = task().pinned().spawn(|| ());
    let result = body();
    behind.join().unwrap();
    result
}

fn names(stall: &Stall, function: &str) -> bool {
    stall.backtrace.iter().any(|frame| frame.function.as_deref().is_some_and(|name| name.contains(function)))
}

#[test]
fn a_task_that_computes_is_reported_with_its_name_and_where_it_is() {
    let (builder, reports) = reporting(2, |sysmon| sysmon);
    with_runtime(builder, |runtime| {
        let over = Arc::new(AtomicBool::new(false));
        let until = over.clone();
        let task =
            runtime.task().name("cruncher").spawn(move || with_a_task_behind(|| computes_for_long(&until)));
        let stall = reports.recv().unwrap();
        over.store(true, Ordering::Release);
        assert_eq!((stall.task, stall.name.as_deref()), (task.id(), Some("cruncher")), "{stall}");
        assert!(stall.ran_for >= Duration::from_millis(5));
        assert!(stall.site.as_ref().is_some_and(|site| site.contains("computes_for_long")), "{stall}");
        assert!(names(&stall, "computes_for_long"), "{stall}");
        assert!(names(&stall, "core_main"), "it is walked to the bottom: {stall}");
        assert!(stall.to_string().contains("\"cruncher\" has kept worker"), "{stall}");
        task.join().unwrap();
    });
}

/// Sysmon looks often enough to report each of them, and does report one with a task behind it.
#[test]
fn a_task_that_computes_alone_is_not_reported_and_one_with_a_task_behind_it_is_once() {
    for workers in [1, 2] {
        let (builder, reports) = reporting(workers, |sysmon| sysmon);
        with_runtime(builder, |runtime| {
            let over = Arc::new(AtomicBool::new(false));
            let until = over.clone();
            let alone = runtime.task().name("alone").spawn(move || computes_for_long(&until));
            wait_for_ticks(100); // ten of which are the threshold
            if workers > 1 {
                // What an idle worker takes does not wait.
                (0..20).for_each(|n| assert_eq!(runtime.run(move || n).unwrap(), n));
            }
            over.store(true, Ordering::Release);
            alone.join().unwrap();

            let (over, next) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)));
            let (until, until_next) = (over.clone(), next.clone());
            let task = runtime.task().name("in the way").spawn(move || {
                with_a_task_behind(|| computes_for_long(&until));
                with_a_task_behind(|| computes_for_long(&until_next));
            });
            let mut of_task = reports.iter().inspect(|stall| assert_eq!(stall.task, task.id(), "{stall}"));
            let stall = of_task.find(|stall| names(stall, "computes_for_long")).unwrap();
            assert!(stall.to_string().contains("others wait behind it"), "{stall}");
            wait_for_ticks(100);
            over.store(true, Ordering::Release);
            wait_for_ticks(100);
            next.store(true, Ordering::Release);
            task.join().unwrap();
            let again = reports.try_iter().find(|stall| names(stall, "computes_for_long"));
            assert!(again.is_none(), "{again:?}");
        });
    }
}

/// A body that others wake goes to its worker's inbox.
#[test]
fn a_task_that_keeps_a_woken_body_waiting_is_reported() {
    let (builder, reports) = reporting(1, |sysmon| sysmon.temporary_workers(0));
    with_runtime(builder, |runtime| {
        let (wake, mut woken) = oneshot::channel();
        let body = runtime.spawn(move || woken.recv().unwrap());
        support::spin_until(|| runtime.dump().tasks.iter().any(|task| task.state == TaskState::Parked));
        let over = Arc::new(AtomicBool::new(false));
        let until = over.clone();
        let task = runtime.task().name("in the way").spawn(move || computes_for_long(&until));
        wait_for_ticks(100);
        assert!(reports.try_recv().is_err(), "nobody waits for the worker");
        wake.send(7).unwrap();
        let stall = reports.recv().unwrap();
        assert_eq!(stall.task, task.id(), "{stall}");
        over.store(true, Ordering::Release);
        task.join().unwrap();
        assert_eq!(body.join().unwrap(), 7);
    });
}

#[test]
fn a_task_behind_which_work_waits_that_no_other_worker_takes_is_reported() {
    let (builder, reports) = reporting(1, |sysmon| sysmon.temporary_workers(0));
    with_runtime(builder, |runtime| {
        let over = Arc::new(AtomicBool::new(false));
        let until = over.clone();
        let task = runtime.task().name("in the way").spawn(move || computes_for_long(&until));
        let behind = runtime.spawn(|| 7);
        let stall = reports.recv().unwrap();
        assert_eq!(stall.task, task.id(), "{stall}");
        over.store(true, Ordering::Release);
        task.join().unwrap();
        assert_eq!(behind.join().unwrap(), 7);
    });
}

/// The system call goes on when it was interrupted, with what it was waiting for.
#[test]
fn a_task_in_a_system_call_is_reported_and_does_not_notice() {
    let (builder, reports) = reporting(1, |sysmon| sysmon);
    with_runtime(builder, |runtime| {
        let (mut reader, mut writer) = std::io::pipe().unwrap();
        let task = runtime.spawn(move || with_a_task_behind(|| reads_for_long(&mut reader)));
        let stall = reports.recv().unwrap();
        writer.write_all(&[7]).unwrap();
        assert!(names(&stall, "reads_for_long"), "{stall}");
        assert_eq!(task.join().unwrap(), 7);
    });
}

/// A task that switches between fibers all the time is interrupted in the middle of a switch now and then: its stack is
/// walked when it can be.
#[test]
fn a_task_that_does_nothing_but_switch_fibers_is_reported() {
    let (builder, reports) = reporting(1, |sysmon| sysmon);
    with_runtime(builder, |runtime| {
        for round in 0..support::rounds(20) {
            let over = Arc::new(AtomicBool::new(false));
            let until = over.clone();
            let task = runtime.spawn(move || {
                let numbers = Generator::new(|out| {
                    for n in 0u64.. {
                        out.yield_(n)
                    }
                })
                .unwrap();
                with_a_task_behind(|| numbers.take_while(|_| !until.load(Ordering::Acquire)).count())
            });
            // The first is told, and maybe others, which are interrupted elsewhere.
            if round == 0 {
                let stall = reports.recv().unwrap();
                assert!(!stall.backtrace.is_empty(), "{stall}");
            } else {
                wait_for_ticks(20);
                // One without a backtrace may be of a task before, which went on before it could answer.
                let of_this = reports.try_iter().filter(|stall| stall.task == task.id());
                of_this.for_each(|stall| assert!(!stall.backtrace.is_empty(), "{stall}"));
            }
            assert!(!task.is_finished());
            over.store(true, Ordering::Release);
            task.join().unwrap();
        }
    });
}

#[test]
fn there_is_one_report_for_a_place_however_many_tasks_stall_there() {
    let (builder, reports) = reporting(1, |sysmon| sysmon.temporary_workers(0));
    with_runtime(builder, |runtime| {
        let stalls = |runtime: &Runtime, function: fn(&AtomicBool) -> u64| {
            let over = Arc::new(AtomicBool::new(false));
            let until = over.clone();
            let task = runtime.spawn(move || with_a_task_behind(|| function(&until)));
            (task, over)
        };
        #[inline(never)]
        fn computes_elsewhere(over: &AtomicBool) -> u64 {
            let mut sum = 1u64;
            while !over.load(Ordering::Acquire) {
                sum = std::hint::black_box(sum.rotate_left(3) ^ 5);
            }
            sum
        }
        let (first, over) = stalls(runtime, computes_for_long);
        assert!(reports.iter().any(|stall| names(&stall, "computes_for_long")));
        over.store(true, Ordering::Release);
        first.join().unwrap();
        // The second one stalls at the same place for as long; then one elsewhere, which comes next in the channel.
        let (second, over) = stalls(runtime, computes_for_long);
        wait_for_ticks(60); // ten of which are the threshold
        let again = reports.try_iter().find(|stall| names(stall, "computes_for_long"));
        assert!(again.is_none(), "{again:?}");
        over.store(true, Ordering::Release);
        second.join().unwrap();
        let (third, over) = stalls(runtime, computes_elsewhere);
        let mut next = reports.iter().inspect(|stall| assert!(!names(stall, "computes_for_long"), "{stall}"));
        // One without a backtrace is of a task that went on before its thread, on a slow machine, could answer.
        assert!(next.any(|stall| names(&stall, "computes_elsewhere")));
        over.store(true, Ordering::Release);
        third.join().unwrap();
    });
}

/// A worker is busy for long, but no task of it for as long as the threshold. On a machine so slow that a turn does take
/// as long, there may be a report.
#[test]
fn a_busy_worker_that_changes_tasks_is_not_reported() {
    let threshold = Duration::from_secs(1);
    let (builder, reports) = reporting(1, |sysmon| sysmon.stall_threshold(threshold));
    with_runtime(builder, |runtime| {
        let longest_turn = runtime.run(move || {
            let start = Instant::now();
            // When the last turn began, and the longest so far.
            let turns = Arc::new(Mutex::new((start, Duration::ZERO)));
            let turn = move |turns: &Mutex<(Instant, Duration)>| {
                let (now, mut turns) = (Instant::now(), turns.lock().unwrap());
                *turns = (now, turns.1.max(now - turns.0));
                now - start
            };
            let other_turns = turns.clone();
            let other = task().pinned().spawn(move || {
                while turn(&other_turns) < threshold * 3 / 2 {
                    yield_now();
                }
            });
            while turn(&turns) < threshold * 3 / 2 {
                yield_now();
            }
            other.join().unwrap();
            turn(&turns);
            turns.lock().unwrap().1
        });
        assert!(reports.try_recv().is_err() || longest_turn.unwrap() >= threshold);
    });
}

#[test]
fn without_a_signal_there_is_a_report_without_a_backtrace() {
    let (builder, reports) = reporting(1, |sysmon| sysmon.signal(None));
    with_runtime(builder, |runtime| {
        let over = Arc::new(AtomicBool::new(false));
        let until = over.clone();
        let task =
            runtime.task().name("silent").spawn(move || with_a_task_behind(|| computes_for_long(&until)));
        let stall = reports.recv().unwrap();
        over.store(true, Ordering::Release);
        assert_eq!((stall.task, stall.name.as_deref()), (task.id(), Some("silent")));
        assert!(stall.backtrace.is_empty() && stall.site.is_none());
        task.join().unwrap();
    });
}

#[test]
fn a_hook_that_panics_does_not_end_sysmon() {
    let calls = Arc::new(AtomicUsize::new(0));
    let (counts, millisecond) = (calls.clone(), Duration::from_millis(1));
    let sysmon = Sysmon::new().tick(millisecond).stuck_after(millisecond).stall_threshold(millisecond);
    let sysmon = sysmon.signal(None).on_diagnostic(move |_| {
        counts.fetch_add(1, Ordering::AcqRel);
        panic!("a hook that panics");
    });
    with_runtime(Runtime::builder().workers(1).sysmon(sysmon), |runtime| {
        for count in 1..4 {
            let reported = calls.clone();
            let task = runtime.task().name(format!("task {count}"));
            let stalls = move || support::spin_until(|| reported.load(Ordering::Acquire) == count);
            task.spawn(move || with_a_task_behind(stalls)).join().unwrap();
        }
    });
}

#[test]
fn a_signal_that_cannot_be_handled_is_refused() {
    let _watchdog = Watchdog::new("a signal".to_owned());
    for signal in [0, libc::SIGKILL, -1, 65, libc::SIGKILL, libc::SIGSTOP] {
        let error = Runtime::builder().sysmon(Sysmon::new().signal(Some(signal))).build().unwrap_err();
        assert_eq!(error.kind(), std::io::ErrorKind::InvalidInput);
        assert!(error.to_string().contains(&signal.to_string()), "{error}");
    }
}

//! What a runtime used goes back: its own memory when it is gone, that of its stacks when they are idle. A program of its own,
//! because its allocator counts all that the process uses.
#![cfg(not(any(loom, shuttle)))]

use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};

use sinew_chan::sync::Semaphore;
use sinew_io::blocking;
use sinew_sched::{Runtime, Sleep, Sysmon, sleep, sleep_async, spawn, trim, yield_now};
use sinew_test_kit::{CountingAllocator, full_test_name};

#[global_allocator]
static ALLOCATOR: CountingAllocator = CountingAllocator::new();

/// True in a process that runs nothing but this test, since each counts the memory and the threads of its process. Otherwise
/// has run the test in one.
fn is_alone(test: &str) -> bool {
    const ALONE: &str = "SINEW_TEST_ALONE";
    if std::env::var_os(ALONE).is_some() {
        return true;
    }
    let mut run = std::process::Command::new(std::env::current_exe().unwrap());
    let output = run
        .args(["--exact", &full_test_name(module_path!(), test), "--test-threads=1"])
        .env(ALONE, "1")
        .output()
        .unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    assert!(output.status.success(), "{}{}", text(&output.stdout), text(&output.stderr));
    false
}

/// A field of `/proc/self/status`, in KiB.
fn status(field: &str) -> usize {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix(field)?.strip_prefix(':')).unwrap();
    line.split_whitespace().next().unwrap().parse().unwrap()
}

/// Waits until `is_so`, for as long as a slow machine may need.
#[track_caller]
fn wait_until(what: &str, mut is_so: impl FnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(60);
    while !is_so() {
        assert!(Instant::now() < deadline, "still not so: {what}");
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Mappings of the process.
fn mappings() -> usize {
    std::fs::read_to_string("/proc/self/maps").unwrap().lines().count()
}

/// Threads of the process.
fn threads() -> usize {
    std::fs::read_dir("/proc/self/task").unwrap().count()
}

/// Runs `one` so often, and some times before that, so that what is allocated once is; fails if bytes are left, or
/// threads, or mappings.
#[track_caller]
fn leaves_nothing(times: usize, mut one: impl FnMut()) {
    let before_threads = threads();
    // One after the other: what is handed on to later runtimes is as much as all have that are there at once.
    let mut one = || {
        one();
        wait_until("the threads have ended", || threads() <= before_threads);
    };
    (0..100).for_each(|_| one());
    let (bytes, resident) = (ALLOCATOR.in_use(), status("VmRSS"));
    let mapped = mappings();
    (0..times).for_each(|_| one());
    // Lists that are kept for later runtimes may have doubled.
    let tolerated = 64 << 10;
    wait_until("all bytes are freed", || {
        let left = ALLOCATOR.in_use() - bytes;
        assert!(left < 200 * times as isize, "{} bytes are left of each runtime", left / times as isize);
        left < tolerated
    });
    if cfg!(valgrind) {
        return; // Its own memory and mappings count as those of the process.
    }
    let more = status("VmRSS").saturating_sub(resident);
    assert!(more < 4 << 10, "{more} KiB more are resident after {times} runtimes");
    let more = mappings().saturating_sub(mapped);
    assert!(more < times / 4, "{more} more mappings after {times} runtimes: stacks of threads or of signals");
}

fn use_a_little() {
    let tasks: Vec<_> = (0..4).map(|_| spawn(yield_now)).collect();
    tasks.into_iter().for_each(|task| task.join().unwrap());
}

#[test]
fn a_runtime_with_one_worker_leaves_nothing_behind() {
    if !is_alone("a_runtime_with_one_worker_leaves_nothing_behind") {
        return;
    }
    leaves_nothing(1000, || {
        Runtime::builder().workers(1).build().unwrap().run(use_a_little).unwrap();
    });
}

#[test]
fn a_runtime_with_eight_workers_leaves_nothing_behind() {
    if !is_alone("a_runtime_with_eight_workers_leaves_nothing_behind") {
        return;
    }
    leaves_nothing(500, || {
        Runtime::builder().workers(8).build().unwrap().run(use_a_little).unwrap();
    });
}

#[test]
fn a_runtime_that_is_dropped_by_its_own_task_leaves_nothing_behind() {
    if !is_alone("a_runtime_that_is_dropped_by_its_own_task_leaves_nothing_behind") {
        return;
    }
    leaves_nothing(1000, || {
        let runtime = Runtime::builder().workers(1).build().unwrap();
        let handle = runtime.handle();
        let task = handle.spawn(move || drop(runtime));
        let _ = task.join();
    });
}

#[test]
fn a_runtime_on_the_calling_thread_leaves_nothing_behind() {
    if !is_alone("a_runtime_on_the_calling_thread_leaves_nothing_behind") {
        return;
    }
    leaves_nothing(1000, || {
        let runtime = Runtime::builder().build_current_thread().unwrap();
        runtime.run(use_a_little).unwrap();
    });
}

#[test]
fn a_runtime_with_blocking_calls_and_sockets_leaves_nothing_behind() {
    if !is_alone("a_runtime_with_blocking_calls_and_sockets_leaves_nothing_behind") {
        return;
    }
    leaves_nothing(300, || {
        let runtime = Runtime::builder().workers(2).build().unwrap();
        runtime
            .run(|| {
                let listener = sinew_io::net::TcpListener::bind("127.0.0.1:0").unwrap();
                let address = listener.local_addr().unwrap();
                let accept = spawn(move || drop(listener.accept().unwrap()));
                drop(sinew_io::net::TcpStream::connect(address).unwrap());
                accept.join().unwrap();
                blocking(|| ()).unwrap();
            })
            .unwrap();
    });
}

#[test]
fn handles_that_outlive_their_runtime_are_harmless_and_leave_nothing_behind() {
    if !is_alone("handles_that_outlive_their_runtime_are_harmless_and_leave_nothing_behind") {
        return;
    }
    leaves_nothing(500, || {
        let runtime = Runtime::builder().workers(2).build().unwrap();
        let handle = runtime.handle();
        let builder = runtime.task();
        let dumper = runtime.dumper();
        let done = runtime.spawn(|| vec![1, 2, 3]);
        let (sender, wakers) = mpsc::channel();
        let waits = runtime.spawn_future(async move {
            std::future::poll_fn(|context| {
                sender.send(context.waker().clone()).unwrap();
                std::task::Poll::<()>::Pending
            })
            .await;
        });
        let waker = wakers.recv().unwrap();
        let (sender, sleeps) = mpsc::channel();
        let polls_once = runtime.spawn_future(async move {
            let mut slept: std::pin::Pin<Box<Sleep>> = Box::pin(sleep_async(Duration::from_secs(3600)));
            let polled = std::future::poll_fn(|context| std::task::Poll::Ready(slept.as_mut().poll(context)));
            assert!(polled.await.is_pending());
            sender.send(slept).unwrap();
        });
        let mut slept = sleeps.recv().unwrap();
        polls_once.join().unwrap();
        drop(runtime);

        waker.wake();
        assert!(waits.join().unwrap_err().is_cancelled());
        assert_eq!(dumper().active, 0);
        drop(dumper);
        assert_eq!(done.join().unwrap(), [1, 2, 3]);
        assert!(handle.spawn(|| ()).join().unwrap_err().is_cancelled());
        assert!(handle.spawn_future(async {}).join().unwrap_err().is_cancelled());
        assert!(builder.name("late").spawn(|| ()).join().unwrap_err().is_cancelled());
        assert_eq!(handle.dump().workers.len(), 0, "there is nothing left to look at");
        let polled = std::future::poll_fn(|context| std::task::Poll::Ready(slept.as_mut().poll(context)));
        assert!(sinew_sched::block_on(polled).unwrap().is_pending(), "its time has not come");
        drop(slept);
    });
}

#[test]
fn threads_that_wake_tasks_until_the_end_never_touch_a_runtime_that_is_gone() {
    if !is_alone("threads_that_wake_tasks_until_the_end_never_touch_a_runtime_that_is_gone") {
        return;
    }
    leaves_nothing(300, || {
        let runtime = Runtime::builder().workers(2).build().unwrap();
        let (sender, mut receiver) = sinew_chan::chan::oneshot::channel();
        let task = runtime.spawn(move || receiver.recv().unwrap());
        let waker = std::thread::spawn(move || sender.send(7).unwrap());
        assert_eq!(task.join().unwrap(), 7);
        drop(runtime);
        waker.join().unwrap();
    });
}

#[test]
fn sleeping_tasks_leave_their_timers_to_later_runtimes() {
    if !is_alone("sleeping_tasks_leave_their_timers_to_later_runtimes") {
        return;
    }
    leaves_nothing(300, || {
        let runtime = Runtime::builder().workers(1).build().unwrap();
        runtime.run(|| sleep(Duration::from_micros(1))).unwrap();
        runtime.spawn(|| sleep(Duration::from_secs(3600))).detach();
    });
}

/// Tasks that are parked at once, and the least that their stacks take, in KiB.
const PARKED: usize = 4000;
const PEAK: usize = PARKED * 4;

/// What may be resident beyond what was before the peak, in KiB: slots of tasks, lists, the heap.
const TOLERATED: usize = PEAK / 4;

/// Parks so many tasks at once, and lets them end. Returns what was resident before, in KiB.
fn park_many(runtime: &Runtime) -> usize {
    runtime.run(use_a_little).unwrap();
    let before = status("RssAnon");
    let gate = Arc::new(Semaphore::new(0));
    let tasks: Vec<_> = (0..PARKED)
        .map(|_| {
            let gate = gate.clone();
            runtime.spawn(move || gate.acquire(1).unwrap().forget())
        })
        .collect();
    wait_until("all are parked", || status("RssAnon") >= before + PEAK);
    gate.add_permits(PARKED);
    tasks.into_iter().for_each(|task| task.join().unwrap());
    before
}

#[test]
fn stacks_of_tasks_that_ended_go_back_to_the_system_by_themselves() {
    if !is_alone("stacks_of_tasks_that_ended_go_back_to_the_system_by_themselves") {
        return;
    }
    let runtime = Runtime::builder().workers(2).stack_idle_time(Duration::from_millis(50)).build().unwrap();
    let before = park_many(&runtime);
    wait_until("the stacks are given back", || status("RssAnon") < before + TOLERATED);
    assert_eq!(runtime.run(|| 42).unwrap(), 42, "the next tasks find new ones");
}

#[test]
fn a_process_whose_idle_stacks_were_given_back_is_left_alone() {
    if !is_alone("a_process_whose_idle_stacks_were_given_back_is_left_alone") {
        return;
    }
    let idle_time = Duration::from_millis(10);
    let runtime = Runtime::builder().workers(2).stack_idle_time(idle_time).build().unwrap();
    let before = park_many(&runtime);
    wait_until("the stacks are given back", || status("RssAnon") < before + TOLERATED);
    let switches = || {
        let tasks = std::fs::read_dir("/proc/self/task").unwrap();
        let of_sinew = tasks.filter_map(|task| {
            let path = task.unwrap().path();
            let name = std::fs::read_to_string(path.join("comm")).ok()?;
            let status = std::fs::read_to_string(path.join("status")).ok()?;
            let line = status.lines().find_map(|line| line.strip_prefix("voluntary_ctxt_switches:"))?;
            name.starts_with("sinew-").then(|| line.trim().parse::<u64>().unwrap())
        });
        of_sinew.sum::<u64>()
    };
    wait_until("nobody gets up any more", || {
        let before = switches();
        std::thread::sleep(20 * idle_time);
        switches() == before
    });
}

#[test]
fn stacks_are_kept_if_the_idle_time_has_no_end() {
    if !is_alone("stacks_are_kept_if_the_idle_time_has_no_end") {
        return;
    }
    let runtime = Runtime::builder().workers(2).stack_idle_time(Duration::MAX).build().unwrap();
    let before = park_many(&runtime);
    assert!(status("RssAnon") >= before + PEAK / 2);
}

#[test]
fn trim_gives_the_stacks_of_ended_tasks_back_at_once() {
    if !is_alone("trim_gives_the_stacks_of_ended_tasks_back_at_once") {
        return;
    }
    let runtime = Runtime::builder().workers(2).sysmon(Sysmon::off()).build().unwrap();
    let before = park_many(&runtime);
    let bytes = trim();
    assert!(bytes >> 10 > PEAK / 2, "{bytes} bytes by the first call");
    wait_until("workers have given back what they had for themselves", || {
        status("RssAnon") < before + TOLERATED / 2
    });
}

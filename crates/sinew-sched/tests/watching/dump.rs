//! A dump says what a runtime is doing, also one that does nothing any more.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use sinew_chan::chan;
use sinew_chan::sync::Semaphore;
use sinew_fiber::shield;
use sinew_sched::{Runtime, Sysmon, WaitKind, sleep, spawn, task, yield_now};

/// Waits until the dump says all of this. The workers take a moment to lie down.
fn wait_for(dump: impl Fn() -> String, parts: &[&str]) -> String {
    loop {
        let text = dump();
        if parts.iter().all(|part| text.contains(part)) {
            return text;
        }
        std::thread::yield_now();
    }
}

#[test]
fn a_dump_shows_workers_that_sleep_and_a_task_that_is_parked() {
    let runtime = Runtime::builder().workers(2).build().unwrap();
    let task = runtime.task().name("a sleeper").spawn(|| sleep(Duration::from_secs(3600)));
    let line = format!("task {} \"a sleeper\": parked, not joined yet", task.id());
    let text = wait_for(
        || runtime.dump().to_string(),
        &[&line, "worker 0: asleep, inbox empty, 0 new, 0 woken", "worker 1: asleep", "next timer in 3"],
    );
    assert!(
        text.starts_with("runtime: 2 workers, 1 tasks, 1 spawned from outside, open\ninjector: 0 queued\n"),
        "{text}"
    );
    task.cancel();
    assert!(task.join().unwrap_err().is_cancelled());
    wait_for(|| runtime.dump().to_string(), &["0 tasks,", "ended 1"]);
}

#[test]
fn a_dump_is_made_while_every_worker_spins_and_work_waits_behind_them() {
    let runtime = Runtime::builder().workers(2).sysmon(Sysmon::off()).build().unwrap();
    let (go, spinning) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let spinners: Vec<_> = (0..2)
        .map(|_| {
            let (go, spinning) = (go.clone(), spinning.clone());
            runtime.task().name("spinner").spawn(move || {
                spinning.fetch_add(1, Ordering::AcqRel);
                while spinning.load(Ordering::Acquire) < 2 {
                    std::hint::spin_loop(); // nobody is left who could take what is spawned now
                }
                let behind = spawn(|| ());
                spinning.fetch_add(1, Ordering::AcqRel);
                while go.load(Ordering::Acquire) == 0 {
                    std::hint::spin_loop();
                }
                behind.join().unwrap();
            })
        })
        .collect();
    while spinning.load(Ordering::Acquire) < 4 {
        std::thread::yield_now();
    }
    let waiting = runtime.spawn(|| ());
    let text = runtime.dump().to_string();
    assert_eq!(text.matches("\"spinner\": running on worker").count(), 2, "{text}");
    let queues = "inbox empty, 1 new, 0 woken, 0 handed, 0 ready, spawned 1, ended 0";
    let busy = text.lines().filter(|line| line.contains(": awake") && line.contains(queues)).count();
    assert_eq!(busy, 2, "{text}");
    assert!(text.contains("injector: 1 queued"), "{text}");
    assert!(text.contains(&format!("task {}: ready, not joined yet", waiting.id())), "{text}");
    go.store(1, Ordering::Release);
    spinners.into_iter().for_each(|task| task.join().unwrap());
    waiting.join().unwrap();
}

#[test]
fn a_dump_shows_who_is_joined_detached_cancelled_and_killed() {
    let runtime = Runtime::builder().workers(1).build().unwrap();
    let dump = runtime.dumper();
    runtime
        .run(move || {
            let gate = Arc::new(Semaphore::new(0));
            let waits = || {
                let gate = gate.clone();
                spawn(move || shield(|| gate.acquire(1).unwrap().forget()))
            };
            let (cancelled, killed, joined) = (waits(), waits(), waits());
            let lines = [
                format!("task {}: parked, cancelled, not joined yet", cancelled.id()),
                format!("task {}: parked, killed, not joined yet", killed.id()),
                format!("task {}: parked, joined", joined.id()),
                "parked, detached".to_owned(),
                "running on worker 0, ".to_owned(),
                "1 ended tasks whose result nobody has taken".to_owned(),
            ];
            let joiner = spawn(move || joined.join().unwrap());
            drop(waits());
            let ended = spawn(|| 7);
            cancelled.cancel();
            killed.kill();
            // They run when this task waits, and are shown as they are when it goes on.
            wait_for(
                || {
                    yield_now();
                    dump().to_string()
                },
                &lines.each_ref().map(String::as_str),
            );
            gate.add_permits(4);
            cancelled.join().unwrap();
            killed.join().unwrap();
            joiner.join().unwrap();
            assert_eq!(ended.join().unwrap(), 7);
        })
        .unwrap();
}

#[test]
fn a_dump_shows_some_hundred_tasks_and_counts_the_rest() {
    let runtime = Runtime::builder().workers(1).build_current_thread().unwrap();
    let tasks: Vec<_> = (0..300).map(|_| runtime.spawn(|| ())).collect();
    let text = runtime.dump().to_string();
    assert_eq!(text.lines().filter(|line| line.starts_with("task ")).count(), 200);
    assert!(text.contains("and 100 more tasks"), "{text}");
    let dump = runtime.dumper();
    runtime.run_until_idle();
    let text = std::thread::spawn(dump).join().unwrap().to_string();
    assert!(text.contains("300 ended tasks whose result nobody has taken"), "{text}");
    tasks.into_iter().for_each(|task| task.join().unwrap());
}

/// Tasks spawn, wait for three things in turns and end, while a thread makes dumps: what a dump says about a task is about
/// one wait of it, so kinds and objects fit together.
fn dumps_while_tasks_come_and_go(workers: usize) {
    // Without sysmon no worker gets a stand-in when the machine is slow, so the number of workers is known.
    let runtime = Runtime::builder().workers(workers).sysmon(Sysmon::off()).build().unwrap();
    let over = Arc::new(AtomicUsize::new(0));
    let looker = {
        let (dump, over) = (runtime.dumper(), over.clone());
        std::thread::spawn(move || {
            let mut objects: HashMap<usize, WaitKind> = HashMap::new();
            while over.load(Ordering::Acquire) == 0 {
                let dump = dump();
                assert_eq!(dump.workers.len(), workers);
                for wait in dump.tasks.iter().filter_map(|task| task.wait.as_ref()) {
                    match (wait.kind, wait.object) {
                        (WaitKind::Join, None) => assert!(wait.task.is_some()),
                        (WaitKind::Semaphore | WaitKind::RecvBounded, Some(object)) => {
                            assert_eq!(*objects.entry(object).or_insert(wait.kind), wait.kind, "{dump}");
                        }
                        _ => panic!("{wait:?} is of no wait of any task:\n{dump}"),
                    }
                }
                assert!(dump.to_json().ends_with("]}"));
            }
            assert!(objects.len() <= 2, "there are two things to wait for: {objects:?}");
            dump
        })
    };
    let gate = Arc::new(Semaphore::new(1));
    runtime
        .run(move || {
            let (sender, receiver) = chan::bounded::<u64>(4);
            for n in 0..500u64 {
                let tasks: Vec<_> = (0..4)
                    .map(|_| {
                        let (gate, receiver) = (gate.clone(), receiver.clone());
                        spawn(move || {
                            let permit = gate.acquire(1).unwrap();
                            yield_now();
                            drop(permit);
                            receiver.recv().unwrap()
                        })
                    })
                    .collect();
                (0..4).for_each(|_| sender.try_send(n).unwrap());
                tasks.into_iter().for_each(|task| assert_eq!(task.join().unwrap(), n));
            }
        })
        .unwrap();
    assert_eq!(runtime.shutdown(Duration::from_secs(60)).left, 0);
    over.store(1, Ordering::Release);
    let text = looker.join().unwrap()().to_string();
    assert!(text.contains("0 tasks,") && text.contains("stopping"), "{text}");
}

#[test]
fn dumps_are_whole_while_tasks_come_and_go_on_one_worker() {
    dumps_while_tasks_come_and_go(1);
}

#[test]
fn dumps_are_whole_while_tasks_come_and_go_on_eight_workers() {
    dumps_while_tasks_come_and_go(8);
}

#[test]
fn counters_count_what_tasks_do() {
    let runtime = Runtime::builder().build_current_thread().unwrap();
    let dump = runtime.dumper();
    let before = dump().workers[0].counters;
    let gate = Arc::new(Semaphore::new(0));
    let waits = gate.clone();
    let tasks = runtime.run(move || {
        let waits = || {
            let gate = waits.clone();
            spawn(move || gate.acquire(1).unwrap().forget())
        };
        (0..100).map(|_| waits()).collect::<Vec<_>>()
    });
    runtime.run_until_idle();
    runtime
        .run(move || {
            gate.add_permits(100);
            tasks.unwrap().into_iter().for_each(|task| task.join().unwrap());
        })
        .unwrap();
    let after = dump().workers[0].counters;
    assert_eq!((after.spawns - before.spawns, after.ends - before.ends), (100, 102));
    assert_eq!(after.parks - before.parks, 101, "each at the gate, and one join");
    assert_eq!(after.wakes - before.wakes, 101);
    assert!(after.turns - before.turns >= 200 && after.longest_queue >= 100 - 61 - 1, "{after:?}");
}

#[test]
fn counters_count_what_is_taken_from_other_threads() {
    let runtime = Runtime::builder().workers(1).build().unwrap();
    // One turn in 61 takes such a task without a search, and does not count it.
    (0..10).for_each(|_| runtime.spawn(|| ()).join().unwrap());
    let counters = runtime.counters()[0];
    assert!((1..=10).contains(&counters.steals), "{counters:?}");
}

#[test]
fn a_worker_that_a_lock_of_std_holds_up_is_shown() {
    let runtime = Runtime::builder().workers(2).build().unwrap();
    let (waits, lock) = (Arc::new(AtomicBool::new(false)), Arc::new(std::sync::Mutex::new(())));
    let waiting = waits.clone();
    runtime
        .spawn(move || {
            let mine = lock.clone();
            let holder = move || {
                let _held = mine.lock().unwrap();
                sleep(Duration::from_secs(1000)); // suspended, with the lock
            };
            task().name("holder").pinned().spawn(holder).detach();
            yield_now();
            waiting.store(true, Ordering::Release);
            drop(lock.lock()); // blocks the only worker that could continue the holder
        })
        .detach();
    while !waits.load(Ordering::Acquire) || !runtime.dump().to_string().contains("has not changed tasks") {
        std::thread::yield_now();
    }
    assert!(runtime.dump().to_string().contains("\"holder\": parked"), "{}", runtime.dump());
    std::mem::forget(runtime); // it can never end
}

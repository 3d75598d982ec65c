use sinew_sync::{Arc, model};

use super::*;
use crate::clock::ManualClock;
use crate::reach::Frame;
use crate::timers::{Alarm, Ring};

fn shared() -> Arc<Shared> {
    Arc::new(Shared::new(&[Queues::new()], 0, StackSize::KiB16, Clock::System, true))
}

/// A worker that sleeps when it finds nothing, and a push to its inbox: it always gets the task.
#[test]
fn a_worker_never_sleeps_through_a_push_to_its_inbox() {
    model("shared_push_or_sleep", || {
        let shared = shared();
        let task: &'static Task = Box::leak(Box::new(Task::new(0)));
        let worker = {
            let shared = shared.clone();
            thread::spawn(move || {
                let mut received = 0;
                while !shared.inboxes[0].drain(|_| received += 1) {
                    shared.sleep(0, None);
                }
                received
            })
        };
        shared.push_to(0, task);
        assert_eq!(worker.join().unwrap(), 1);
        assert_eq!(sleepers(shared.beds.load(Ordering::Relaxed)), 0, "nobody is left in bed");
    });
}

/// The same for a task that any worker may take.
#[test]
fn a_worker_never_sleeps_through_a_task_that_is_injected() {
    model("shared_inject_or_sleep", || {
        let shared = shared();
        let task: &'static Task = Box::leak(Box::new(Task::new(0)));
        let worker = {
            let shared = shared.clone();
            thread::spawn(move || {
                while shared.injector.steal().success().is_none() {
                    shared.sleep(0, None);
                }
            })
        };
        shared.inject(task);
        worker.join().unwrap();
    });
}

/// The same for a request for a dump: the worker sees it, and what is asked.
#[test]
fn a_worker_never_sleeps_through_a_request() {
    model("shared_ask_or_sleep", || {
        let shared = shared();
        let worker = {
            let shared = shared.clone();
            thread::spawn(move || {
                while !shared.inboxes[0].watch.is_asked() {
                    shared.sleep(0, None);
                }
                shared.inboxes[0].watch.answers();
                shared.inboxes[0].requests.lock().len()
            })
        };
        shared.inboxes[0].requests.lock().push(Arc::new(Request::new(1, 1)));
        shared.ask_all();
        assert_eq!(worker.join().unwrap(), 1);
    });
}

/// A worker lies down while another, which was idle, has found something: it is woken, or sees that somebody works.
#[test]
fn somebody_looks_after_a_worker_that_goes_to_work() {
    model("shared_work_or_sleep", || {
        let queues = [Queues::new(), Queues::new()];
        let shared = Arc::new(Shared::new(&queues, 0, StackSize::KiB16, Clock::System, true));
        shared.inboxes[1].idle.store(true, Ordering::Relaxed);
        let worker = {
            let shared = shared.clone();
            thread::spawn(move || {
                shared.lie_down(&shared.inboxes[0], PARKED);
                shared.another_works(0)
            })
        };
        shared.goes_to_work(1);
        shared.wake_one();
        assert!(worker.join().unwrap() || !shared.inboxes[0].is_asleep());
    });
}

#[test]
fn workers_that_are_up_to_look_do_not_keep_each_other_up() {
    model("shared_lookers_sleep", || {
        let queues = [Queues::new(), Queues::new()];
        let shared = Shared::new(&queues, 0, StackSize::KiB16, Clock::System, true);
        shared.lie_down(&shared.inboxes[0], PARKED);
        assert!(shared.another_works(0), "the other has not lain down yet");
        shared.get_up(&shared.inboxes[0]);
        shared.lie_down(&shared.inboxes[1], PARKED);
        assert!(!shared.another_works(1), "the other only looks");
        shared.get_up(&shared.inboxes[1]);
        assert!(shared.goes_to_work(1));
        assert!(shared.another_works(0));
    });
}

/// Worker 1 gets up for what `prepare` has for it, does it by `work`, and lies down again with a timer, while worker 0,
/// which has a later one, lies down: a manual clock jumps to the earlier one.
fn a_clock_waits_for_a_worker_that_gets_up(name: &str, prepare: fn(&Shared), work: fn(&Shared)) {
    model(name, move || {
        let (clock, queues) = (ManualClock::new(), [Queues::new(), Queues::new()]);
        clock.advance(Duration::from_secs(1));
        let shared = Shared::new(&queues, 0, StackSize::KiB16, Clock::Manual(clock.clone()), true);
        let shared = Arc::new(shared);
        set_timer(&shared, 0, 3600);
        prepare(&shared);
        shared.lie_down(&shared.inboxes[1], PARKED);
        let other = {
            let (shared, clock) = (shared.clone(), clock.clone());
            thread::spawn(move || {
                shared.get_up(&shared.inboxes[1]);
                work(&shared);
                set_timer(&shared, 1, 60);
                assert_eq!(clock.now().as_nanos(), SECOND, "it has jumped while a worker is up");
                shared.clock_jumps(shared.lie_down(&shared.inboxes[1], PARKED), None);
            })
        };
        shared.clock_jumps(shared.lie_down(&shared.inboxes[0], PARKED), None);
        other.join().unwrap();
        let next = shared.inboxes[1].timers.next();
        assert_eq!(Some(clock.now()), next, "it has jumped too far, or not at all");
    });
}

const SECOND: u64 = 1_000_000_000;

fn set_timer(shared: &Shared, worker: usize, second: u64) {
    let alarm: &'static Alarm = Box::leak(Box::new(Alarm::new(Ring::Trip(Frame::of_nobody()))));
    // SAFETY: it stays where it is for ever.
    unsafe { shared.inboxes[worker].timers.set(alarm, Instant::from_nanos(second * SECOND)) };
}

#[test]
fn a_manual_clock_waits_for_a_worker_that_gets_up_for_a_task() {
    let push = |shared: &Shared| shared.inboxes[1].push(Box::leak(Box::new(Task::new(0))));
    let take = |shared: &Shared| assert!(shared.inboxes[1].drain(|_| ()));
    a_clock_waits_for_a_worker_that_gets_up("shared_clock_or_task", push, take);
}

#[test]
fn a_manual_clock_waits_for_a_worker_that_gets_up_for_a_timer() {
    let set = |shared: &Shared| set_timer(shared, 1, 0);
    let ring = |shared: &Shared| shared.inboxes[1].timers.expire(&shared.clock);
    a_clock_waits_for_a_worker_that_gets_up("shared_clock_or_timer", set, ring);
}

/// The caller of a blocking call, which has ended, is woken: the clock is held until it has seen that.
#[test]
fn a_manual_clock_waits_for_a_caller_that_has_not_seen_its_call_end() {
    let push = |shared: &Shared| {
        shared.blocking.hold();
        shared.inboxes[1].push(Box::leak(Box::new(Task::new(0))));
    };
    let take = |shared: &Shared| {
        assert!(shared.inboxes[1].drain(|_| ()));
        shared.blocking.release();
    };
    a_clock_waits_for_a_worker_that_gets_up("shared_clock_or_call", push, take);
}

/// The same, while the call has not ended.
#[test]
fn a_manual_clock_does_not_move_while_a_caller_waits() {
    model("shared_clock_is_held_by_a_call", || {
        let (clock, queues) = (ManualClock::new(), [Queues::new(), Queues::new()]);
        let shared = Shared::new(&queues, 0, StackSize::KiB16, Clock::Manual(clock.clone()), true);
        let shared = Arc::new(shared);
        set_timer(&shared, 0, 3600);
        let other = {
            let shared = shared.clone();
            thread::spawn(move || {
                shared.blocking.hold();
                shared.clock_jumps(shared.lie_down(&shared.inboxes[1], PARKED), None)
            })
        };
        let jumped = shared.clock_jumps(shared.lie_down(&shared.inboxes[0], PARKED), None);
        assert!(!other.join().unwrap() && !jumped, "it has jumped while somebody waits for a call");
    });
}

/// Two workers end the last two tasks of a runtime that stops, and look whether there are more: one sees that all
/// have ended, and tells the other.
#[test]
fn of_two_workers_that_end_the_last_tasks_one_sees_it() {
    model("shared_last_end_is_seen", || {
        let queues = [Queues::new(), Queues::new()];
        let shared = Arc::new(Shared::new(&queues, 0, StackSize::KiB16, Clock::System, true));
        shared.spawned_outside.store(2, Ordering::Relaxed);
        shared.stopping.store(true, Ordering::Relaxed);
        let ends = |shared: &Shared, worker: usize| {
            shared.inboxes[worker].own.ended.store(1, Ordering::Release);
            shared.tell_idle()
        };
        let other = {
            let shared = shared.clone();
            thread::spawn(move || ends(&shared, 1))
        };
        let seen = ends(&shared, 0);
        assert!(other.join().unwrap() || seen);
    });
}

/// A thread spawns on a runtime that ends: its task is run, or the thread is told that nobody would.
#[test]
fn a_task_from_outside_is_run_or_refused() {
    model("shared_late_spawn_or_end", || {
        let shared = shared();
        let task: &'static Task = Box::leak(Box::new(Task::new(0)));
        shared.stopping.store(true, Ordering::Relaxed);
        let worker = {
            let shared = shared.clone();
            thread::spawn(move || {
                let mut ran = 0;
                loop {
                    while shared.injector.steal().success().is_some() {
                        ran += 1;
                        shared.inboxes[0].own.ended.store(ran, Ordering::Release);
                    }
                    if shared.tell_idle() {
                        return ran;
                    }
                    shared.sleep(0, None);
                }
            })
        };
        let counted = shared.count_outside();
        if counted {
            shared.inject(task);
        }
        assert_eq!(worker.join().unwrap(), u64::from(counted));
    });
}

#[test]
fn an_inbox_hands_its_tasks_on_once_each_and_oldest_first() {
    model("shared_inbox_order", || {
        let shared = shared();
        let tasks: [&'static Task; 3] = std::array::from_fn(|_| &*Box::leak(Box::new(Task::new(0))));
        let other = {
            let shared = shared.clone();
            thread::spawn(move || shared.inboxes[0].push(tasks[2]))
        };
        shared.inboxes[0].push(tasks[0]);
        shared.inboxes[0].push(tasks[1]);
        let mut seen: Vec<*const Task> = Vec::new();
        shared.inboxes[0].drain(|task| seen.push(task));
        other.join().unwrap();
        shared.inboxes[0].drain(|task| seen.push(task));
        assert_eq!(seen.len(), 3);
        let at = |task: &Task| seen.iter().position(|seen| ptr::eq(*seen, task)).unwrap();
        assert!(at(tasks[0]) < at(tasks[1]), "the order of one pusher is kept");
        at(tasks[2]);
    });
}

use std::ptr;

use sinew_core::Instant;
use sinew_sync::{Arc, model, thread};

use super::*;
use crate::backtrace_request::BacktraceRequest;
use crate::clock::ManualClock;
use crate::reach::Frame;
use crate::timers::{Alarm, Ring};

fn shared() -> Arc<Shared> {
    Arc::new(Shared::new(&[Queues::new()], 0, StackSize::KiB16, Clock::System, true))
}

fn task() -> &'static Task {
    Box::leak(Box::new(Task::new(0)))
}

/// A worker that sleeps when it finds nothing, and a push to its inbox: it always gets the task, and sees what was
/// written before.
#[test]
fn a_worker_never_sleeps_through_a_push_to_its_inbox() {
    model("shared_push_or_sleep", || {
        let shared = shared();
        let written = Arc::new(AtomicBool::new(false));
        let worker = {
            let (shared, written) = (shared.clone(), written.clone());
            thread::spawn(move || {
                let mut received = 0;
                while !shared.inboxes[0].drain(|_| received += 1) {
                    shared.sleep(0, None);
                }
                (received, written.load(Ordering::Relaxed))
            })
        };
        written.store(true, Ordering::Relaxed);
        shared.push_to(0, task());
        assert_eq!(worker.join().unwrap(), (1, true));
        assert_eq!(sleepers(shared.beds.load(Ordering::Relaxed)), 0, "nobody is left in bed");
    });
}

/// The same for a task that any worker may take.
#[test]
fn a_worker_never_sleeps_through_a_task_that_is_injected() {
    model("shared_inject_or_sleep", || {
        let shared = shared();
        let worker = {
            let shared = shared.clone();
            thread::spawn(move || {
                while shared.injector.steal().success().is_none() {
                    shared.sleep(0, None);
                }
            })
        };
        shared.inject(task());
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
        shared.inboxes[0].requests.lock().push(Arc::new(BacktraceRequest::new(vec![0], 1)));
        shared.ask_all();
        assert_eq!(worker.join().unwrap(), 1);
    });
}

/// The same for a task in a queue of another worker that it may steal from.
#[test]
fn a_worker_never_sleeps_through_what_it_can_steal() {
    let pushes: [fn(&Queues); 2] = [|queues| queues.new.push(task()), |queues| queues.woken.push(task())];
    for push in pushes {
        model("shared_backlog_or_sleep", move || {
            let queues = [Queues::new(), Queues::new()];
            let shared = Arc::new(Shared::new(&queues, 0, StackSize::KiB16, Clock::System, true));
            let [own, others] = queues;
            let worker = {
                let shared = shared.clone();
                thread::spawn(move || {
                    while shared.steal(0, &own).is_none() {
                        shared.sleep(0, None);
                    }
                })
            };
            push(&others);
            shared.wake_one();
            worker.join().unwrap();
        });
    }
}

#[test]
fn a_worker_never_sleeps_through_the_end() {
    model("shared_stop_or_sleep", || {
        let shared = shared();
        let worker = {
            let shared = shared.clone();
            thread::spawn(move || {
                while !shared.tell_idle() {
                    shared.sleep(0, None);
                }
            })
        };
        shared.stop();
        worker.join().unwrap();
    });
}

#[test]
fn a_worker_never_sleeps_through_a_move_of_its_clock() {
    model("shared_clock_moves_or_sleep", || {
        let clock = ManualClock::new();
        clock.hold(true);
        let shared = Shared::new(&[Queues::new()], 0, StackSize::KiB16, Clock::Manual(clock.clone()), true);
        let shared = Arc::new(shared);
        let worker = {
            let (shared, alarm) = (shared.clone(), Instant::from_nanos(SECOND));
            thread::spawn(move || {
                while shared.clock.now() < alarm {
                    shared.sleep(0, Some(alarm));
                }
            })
        };
        clock.advance(Duration::from_secs(1));
        shared.wake_all(); // as a clock does for the runtimes that it drives
        worker.join().unwrap();
    });
}

/// Two who each have work for somebody wake one worker each, and none that has got up by itself.
#[test]
fn every_wake_up_is_for_one_who_sleeps() {
    model("shared_two_wake_two", || {
        let queues = [Queues::new(), Queues::new(), Queues::new()];
        let shared = Arc::new(Shared::new(&queues, 0, StackSize::KiB16, Clock::System, true));
        shared.inboxes.iter().for_each(|inbox| _ = shared.lie_down(inbox, PARKED));
        shared.get_up(&shared.inboxes[0]);
        let other = {
            let shared = shared.clone();
            thread::spawn(move || shared.wake_one())
        };
        shared.wake_one();
        other.join().unwrap();
        assert!(!shared.inboxes.iter().any(Inbox::is_asleep));
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
///
/// `between` is all that the two touch between lying down and the jump. Loom lets another thread go first where both
/// touch the same thing, and remembers only who touched it last: of a thread that looks before it takes, that is its own
/// look, so without this the worker would get up before that moment or after it, never there.
fn a_clock_waits_for_a_worker_that_gets_up(name: &str, prepare: fn(&Shared), work: fn(&Shared)) {
    model(name, move || {
        let (clock, queues) = (ManualClock::new(), [Queues::new(), Queues::new()]);
        clock.advance(Duration::from_secs(1));
        let shared = Shared::new(&queues, 0, StackSize::KiB16, Clock::Manual(clock.clone()), true);
        let shared = Arc::new(shared);
        set_timer(&shared, 0, 3600);
        prepare(&shared);
        shared.lie_down(&shared.inboxes[1], PARKED);
        let between = Arc::new(AtomicBool::new(false));
        let other = {
            let (shared, clock, between) = (shared.clone(), clock.clone(), between.clone());
            thread::spawn(move || {
                between.store(true, Ordering::Relaxed);
                shared.get_up(&shared.inboxes[1]);
                work(&shared);
                set_timer(&shared, 1, 60);
                assert_eq!(clock.now().as_nanos(), SECOND, "it has jumped while a worker is up");
                shared.clock_jumps(shared.lie_down(&shared.inboxes[1], PARKED), None);
            })
        };
        let beds = shared.lie_down(&shared.inboxes[0], PARKED);
        between.load(Ordering::Relaxed);
        shared.clock_jumps(beds, None);
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
    let push = |shared: &Shared| shared.inboxes[1].push(task());
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

/// A task that ends when it has spawned another: at no moment there is none.
#[test]
fn a_runtime_does_not_end_between_a_task_and_its_child() {
    model("shared_child_or_end", || {
        let shared = shared();
        shared.spawned_outside.store(1, Ordering::Relaxed);
        let worker = {
            let shared = shared.clone();
            thread::spawn(move || {
                let own = &shared.inboxes[0].own;
                own.spawned.store(1, Ordering::Release);
                own.ended.store(1, Ordering::Release);
            })
        };
        assert!(!shared.try_end());
        worker.join().unwrap();
    });
}

/// Who waits for the end sees that the last task has ended, or is told so.
#[test]
fn whoever_shuts_a_runtime_down_is_told_of_the_last_end() {
    model("shared_close_or_end", || {
        let shared = shared();
        shared.spawned_outside.store(1, Ordering::Relaxed);
        let worker = {
            let shared = shared.clone();
            thread::spawn(move || {
                shared.inboxes[0].own.ended.store(1, Ordering::Release);
                shared.tell_idle();
            })
        };
        shared.close();
        assert!(shared.drain(CancelLevel::Cancel, Duration::from_secs(3600)));
        worker.join().unwrap();
    });
}

/// A thread spawns on a runtime that ends: its task is run, or the thread is told that nobody would.
#[test]
fn a_task_from_outside_is_run_or_refused() {
    model("shared_late_spawn_or_end", || {
        let shared = shared();
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
            shared.inject(task());
        }
        assert_eq!(worker.join().unwrap(), u64::from(counted));
    });
}

#[test]
fn an_inbox_hands_its_tasks_on_once_each_and_oldest_first() {
    model("shared_inbox_order", || {
        let shared = shared();
        let tasks = [task(), task(), task()];
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

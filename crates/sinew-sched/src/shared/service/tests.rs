use sinew_core::Instant;
use sinew_fiber::StackSize;
use sinew_sync::{Arc, model};

use super::*;
use crate::clock::{Clock, ManualClock};
use crate::reach::Frame;
use crate::shared::{PARKED, UP};
use crate::task::Task;
use crate::timers::{Alarm, Ring};
use crate::worker::Queues;

/// What one worker and `temporary` others share.
fn shared(temporary: usize, clock: Clock) -> Arc<Shared> {
    let queues: Vec<Queues> = (0..=temporary).map(|_| Queues::new()).collect();
    Arc::new(Shared::new(&queues, temporary, StackSize::KiB16, clock, true))
}

fn task() -> &'static Task {
    Box::leak(Box::new(Task::new(0)))
}

/// Worker 1 gets up by itself, finds nothing, and does as `leave` says, while a task comes from outside, and the waker
/// may pick worker 1: it sees the task, or worker 2, which sleeps, is woken. Worker 0 is stuck.
fn a_task_is_not_left_to_a_worker_that_leaves(name: &str, leave: fn(&Shared) -> bool) {
    model(name, move || {
        let shared = shared(2, Clock::System);
        shared.start_service(1);
        shared.start_service(2);
        shared.lie_down(&shared.inboxes[1], PARKED);
        shared.lie_down(&shared.inboxes[2], PARKED);
        let leaving = {
            let shared = shared.clone();
            thread::spawn(move || {
                shared.inboxes[1].bed.store(UP, Ordering::Relaxed);
                shared.beds.fetch_add(GOT_UP - 1, Ordering::Relaxed);
                leave(&shared)
            })
        };
        shared.inject(task());
        let has_left = leaving.join().unwrap();
        assert!(!has_left || !shared.inboxes[2].is_asleep(), "nobody looks after the task");
    });
}

#[test]
fn a_worker_that_leaves_sees_the_task_that_it_was_woken_for() {
    a_task_is_not_left_to_a_worker_that_leaves("service_end_or_inject", |shared| shared.end_service(1));
}

#[test]
fn a_worker_that_takes_nothing_any_more_sees_the_task_that_it_was_woken_for() {
    a_task_is_not_left_to_a_worker_that_leaves("service_own_or_inject", |shared| shared.serve_own(1));
}

/// A worker that serves its own sleeps while it is called back for a task that it did not take: it gets it.
#[test]
fn a_worker_that_is_called_back_takes_from_others() {
    model("service_call_back", || {
        let shared = shared(1, Clock::System);
        shared.start_service(1);
        assert!(shared.serve_own(1));
        let worker = {
            let shared = shared.clone();
            thread::spawn(move || {
                while !shared.inboxes[1].takes_all() || shared.injector.steal().success().is_none() {
                    shared.sleep(1, None);
                }
            })
        };
        shared.inject(task());
        shared.call_back(1);
        worker.join().unwrap();
    });
}

const SECOND: u64 = 1_000_000_000;

fn set_timer(shared: &Shared, worker: usize, second: u64) {
    let alarm: &'static Alarm = Box::leak(Box::new(Alarm::new(Ring::Trip(Frame::of_nobody()))));
    // SAFETY: it stays where it is for ever.
    unsafe { shared.inboxes[worker].timers.set(alarm, Instant::from_nanos(second * SECOND)) };
}

/// A temporary worker leaves while the other worker gets up, sets a timer and lies down: the clock does not jump while
/// that one is up, and jumps in the end.
#[test]
fn a_manual_clock_jumps_when_the_last_who_was_up_has_left() {
    model("service_end_or_clock", || {
        let clock = ManualClock::new();
        let shared = shared(1, Clock::Manual(clock.clone()));
        shared.start_service(1);
        shared.inboxes[0].push(task());
        shared.lie_down(&shared.inboxes[0], PARKED);
        let other = {
            let (shared, clock) = (shared.clone(), clock.clone());
            thread::spawn(move || {
                shared.get_up(&shared.inboxes[0]);
                assert!(shared.inboxes[0].drain(|_| ()));
                set_timer(&shared, 0, 60);
                assert_eq!(clock.now().as_nanos(), 0, "it has jumped while a worker is up");
                shared.clock_jumps(shared.lie_down(&shared.inboxes[0], PARKED), None);
            })
        };
        assert!(shared.end_service(1));
        other.join().unwrap();
        assert_eq!(Some(clock.now()), shared.inboxes[0].timers.next());
    });
}

/// The last worker lies down while sysmon may have a task in its hands, which it took from that worker: the clock does not
/// jump before the task has run, and jumps in the end if there was none.
#[test]
fn a_manual_clock_waits_for_sysmon() {
    model("service_sysmon_or_clock", || {
        let clock = ManualClock::new();
        let shared = shared(0, Clock::Manual(clock.clone()));
        set_timer(&shared, 0, 60);
        shared.inboxes[0].push(task());
        let worker = {
            let shared = shared.clone();
            thread::spawn(move || {
                shared.inboxes[0].drain(|_| ());
                let beds = shared.lie_down(&shared.inboxes[0], PARKED);
                if !shared.has_movable() {
                    shared.clock_jumps(beds, None);
                }
            })
        };
        let mut rescued = None;
        shared.act_as_sysmon(|| {
            shared.inboxes[0].drain(|task| rescued = Some(task));
            rescued.into_iter().for_each(|task| shared.injector.push(task));
        });
        worker.join().unwrap();
        match rescued {
            Some(_) => assert_eq!(clock.now().as_nanos(), 0, "it has jumped although there is a task"),
            None => assert_eq!(Some(clock.now()), shared.inboxes[0].timers.next(), "nobody has moved it"),
        }
    });
}

/// Sysmon goes to sleep while a worker gets up: it is woken, or sees that somebody is up.
#[test]
fn sysmon_does_not_sleep_while_a_worker_is_up() {
    model("service_sysmon_or_get_up", || {
        let shared = shared(0, Clock::System);
        shared.lie_down(&shared.inboxes[0], PARKED);
        let sysmon = {
            let shared = shared.clone();
            thread::spawn(move || shared.sleep_as_sysmon(None))
        };
        shared.get_up(&shared.inboxes[0]);
        sysmon.join().unwrap();
    });
}

/// The last worker finds that sysmon serves the reactor, and lies down when sysmon has done that and has looked for somebody
/// to wake: sysmon does not sleep before it has woken that worker, which serves the reactor then.
#[cfg(not(any(loom, shuttle)))] // a reactor is the system's
#[test]
fn sysmon_does_not_sleep_while_nobody_serves_the_reactor() {
    use crate::shared::SERVING;
    let (shared, second) = (shared(0, Clock::System), Some(Duration::from_secs(1)));
    let (worker, reactor) = (&shared.inboxes[0], shared.reactor().unwrap());
    let sysmon = reactor.serve();
    let bed = if reactor.serve().is_some() { SERVING } else { PARKED };
    drop(sysmon);
    shared.wake_one();
    shared.lie_down(worker, bed);
    assert_eq!(shared.sleep_as_sysmon(second), Slept::NotAtAll);
    assert!(!worker.is_asleep());

    shared.get_up(worker);
    let _worker = reactor.serve().expect("nobody serves it");
    shared.lie_down(worker, SERVING);
    assert_eq!(shared.sleep_as_sysmon(Some(Duration::from_millis(1))), Slept::AllTheTime);
    assert!(worker.is_asleep());
}

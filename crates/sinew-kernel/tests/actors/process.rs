//! Processes (`docs/semantics.md`, R).

use std::sync::mpsc;
use std::time::Duration;

use sinew_kernel::{DeadLetterReason, ExitReason, Flow, Node, Policy, Process, Received, Unsent};
use sinew_sched::{ManualClock, Runtime, Sysmon, WaitError, now, sleep};

use crate::kit::{self, Watchdog, local, with_nodes};

// R1
#[test]
fn a_process_receives_where_it_likes_and_ends_when_its_body_returns() {
    with_nodes(|node| {
        let process = node.actor().spawn_process(|own: &mut Process<u64>| {
            let sum: u64 = (0..10).map(|_| own.recv().unwrap().message().unwrap()).sum();
            Flow::Exit(ExitReason::Limit(sum.to_string().into()))
        });
        let process = process.unwrap();
        (0..10).for_each(|n| process.tell(n).unwrap());
        assert_eq!(process.join().unwrap(), ExitReason::Limit("45".into()));
    });
}

// R2
#[test]
fn what_is_not_wanted_stays_in_its_order() {
    with_nodes(|node| {
        let process = node.actor().spawn_process(|own: &mut Process<u64>| {
            let even = |received: &Received<u64>| matches!(received, Received::Message(n) if n % 2 == 0);
            let mut order = Vec::new();
            (0..5).for_each(|_| order.extend(own.recv_where(even).unwrap().message()));
            (0..5).for_each(|_| order.extend(own.recv().unwrap().message()));
            assert_eq!(order, [0, 2, 4, 6, 8, 1, 3, 5, 7, 9]);
            Flow::Stop
        });
        let process = process.unwrap();
        (0..10).for_each(|n| process.tell(n).unwrap());
        assert_eq!(process.join().unwrap(), ExitReason::Normal);
    });
}

// R2
#[test]
fn what_is_left_aside_counts_against_no_capacity() {
    let (node, _clock) = local();
    let (seen, order) = mpsc::channel();
    let process =
        node.actor().mailbox(2).policy(Policy::Refuse).spawn_process(move |own: &mut Process<u64>| {
            let last = |received: &Received<u64>| matches!(received, Received::Message(99));
            seen.send(own.recv_where(last).unwrap().message()).unwrap();
            (0..10).for_each(|_| seen.send(own.recv().unwrap().message()).unwrap());
            Flow::Stop
        });
    let process = process.unwrap();
    for pair in 0..5 {
        process.tell(2 * pair).unwrap();
        process.tell(2 * pair + 1).unwrap();
        assert!(matches!(process.tell(77).unwrap_err().why, Unsent::Full), "it holds two");
        node.run_until_idle();
    }
    process.tell(99).unwrap();
    node.run_until_idle();
    assert_eq!(process.join().unwrap(), ExitReason::Normal);
    let expected = [99, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9].map(Some);
    assert_eq!(order.try_iter().collect::<Vec<_>>(), expected);
    assert_eq!(node.dead_letter_count(), 0);
}

// R3
#[test]
fn a_receive_with_a_timeout_ends_without_a_message() {
    let clock = ManualClock::new();
    let node = Node::builder().runtime(Runtime::builder().manual_clock(&clock)).build().unwrap();
    let process = node.actor().spawn_process(|own: &mut Process<u64>| {
        let start = now();
        assert!(matches!(own.recv_timeout(Duration::from_secs(3600)), Err(WaitError::Timeout)));
        assert!(now() - start >= Duration::from_secs(3600));
        let wanted = |received: &Received<u64>| matches!(received, Received::Message(7));
        own.ctx().me().try_tell(1).unwrap();
        assert!(matches!(own.recv_where_timeout(wanted, Duration::from_secs(3600)), Err(WaitError::Timeout)));
        assert!(now() - start >= Duration::from_secs(7200));
        assert_eq!(own.recv().unwrap().message(), Some(1));
        Flow::Stop
    });
    assert_eq!(process.unwrap().join().unwrap(), ExitReason::Normal);
}

// R4
#[test]
fn messages_that_a_process_left_aside_are_dead_letters_when_it_ends() {
    let (node, _clock) = local();
    let letters = node.dead_letters();
    let process = node.actor().spawn_process(|own: &mut Process<u64>| {
        let last = |received: &Received<u64>| matches!(received, Received::Message(9));
        own.recv_where(last).unwrap();
        panic!("with nine left aside");
    });
    let process = process.unwrap();
    (0..12).for_each(|n| process.tell(n).unwrap());
    node.run_until_idle();
    assert_eq!(node.dead_letter_count(), 11);
    let letters: Vec<_> = letters.try_iter().collect();
    assert_eq!(letters.len(), 11);
    assert!(
        letters.iter().all(|letter| matches!(letter.reason, DeadLetterReason::Ended(ExitReason::Error(_))))
    );
}

// R5
#[test]
fn a_process_is_asked_to_stop_and_may_finish() {
    with_nodes(|node| {
        let (waits, is_waiting) = mpsc::channel();
        let process = node.actor().spawn_process(move |own: &mut Process<u64>| {
            waits.send(()).unwrap();
            match own.recv().unwrap() {
                Received::Stop(reason) => Flow::Exit(reason),
                other => panic!("{other:?}"),
            }
        });
        let process = process.unwrap();
        is_waiting.recv().unwrap();
        process.stop();
        assert_eq!(process.join().unwrap(), ExitReason::Shutdown);
    });
}

// R6
#[test]
fn a_process_that_always_finds_a_message_can_be_killed() {
    with_nodes(|node| {
        let _watchdog = Watchdog::new("a process that spins on its mailbox".to_owned());
        let process = node.actor().spawn_process(|own: &mut Process<u64>| {
            loop {
                // It never takes a stop for an answer, and after a drain there is always one.
                if let Ok(Received::Message(n)) = own.recv() {
                    own.ctx().me().try_tell(n).ok();
                }
            }
        });
        let process = process.unwrap();
        (0..10).for_each(|n| process.tell(n).unwrap());
        process.drain();
        process.kill();
        process.join().unwrap();
        spin_until_none(node);
        assert!(node.zombies().is_empty());
    });
}

fn spin_until_none(node: &Node) {
    kit::spin_until(|| node.actor_count() == 0);
}

/// Says when it is dropped.
struct Noted(mpsc::Sender<&'static str>);

impl Drop for Noted {
    fn drop(&mut self) {
        self.0.send("unwound").unwrap();
    }
}

/// A process that waits for a message, and notes how that ends.
fn waiting(notes: mpsc::Sender<&'static str>) -> impl FnOnce(&mut Process<u64>) -> Flow + Send + 'static {
    move |own: &mut Process<u64>| {
        let noted = Noted(notes);
        noted.0.send("waits").unwrap();
        let _ = own.recv();
        noted.0.send("went on").unwrap();
        Flow::Stop
    }
}

// R7
#[test]
fn a_killed_process_unwinds_where_it_waits() {
    let (node, clock) = local();
    clock.hold(true); // or it would be given up in the end
    let (notes, noted) = mpsc::channel();
    let process = node.actor().spawn_process(waiting(notes)).unwrap();
    node.run_until_idle();
    assert_eq!(noted.try_iter().collect::<Vec<_>>(), ["waits"]);
    process.kill();
    node.run_until_idle();
    assert!(process.is_dead());
    assert_eq!(process.join().unwrap(), ExitReason::Killed);
    assert_eq!(noted.try_iter().collect::<Vec<_>>(), ["unwound"]);
}

// R7
#[test]
fn a_kill_against_a_process_that_begins_to_wait_unwinds_it_all_the_same() {
    for workers in [1, 2, 8] {
        let _watchdog = Watchdog::new(format!("{workers} workers"));
        // None is given up, however long it takes.
        let node = Node::builder().runtime(Runtime::builder().workers(workers)).stop_timeout(Duration::MAX);
        let node = node.build().unwrap();
        for round in 0..kit::rounds(1_000) {
            let (notes, noted) = mpsc::channel();
            let process = node.actor().spawn_process(waiting(notes)).unwrap();
            (0..round % 50).for_each(|_| std::thread::yield_now());
            process.kill();
            assert_eq!(process.join().unwrap(), ExitReason::Killed);
            // One that was killed before it ran has nothing to unwind.
            let noted: Vec<_> = noted.try_iter().collect();
            assert!(noted.is_empty() || noted == ["waits", "unwound"], "{noted:?}");
        }
    }
}

#[test]
fn a_message_that_a_process_was_looking_at_when_it_failed_is_a_dead_letter() {
    with_nodes(|node| {
        let looks = |own: &mut Process<u32>| {
            let _ = own.recv_where(|_| panic!("on purpose"));
            Flow::Stop
        };
        let process = node.actor().spawn_process(looks).unwrap();
        process.tell(1).unwrap();
        assert!(matches!(process.join(), Ok(ExitReason::Error(_))));
        assert_eq!(node.dead_letter_count(), 1);
    });
}

#[test]
fn a_process_that_is_ended_has_failed_the_message_that_it_was_at() {
    for at_message in [false, true] {
        let (node, _clock) = local();
        let process = node.actor().spawn_process(move |own: &mut Process<u32>| {
            own.recv().unwrap();
            if at_message {
                sleep(Duration::from_secs(3600));
            }
            let _ = own.recv();
            Flow::Stop
        });
        let process = process.unwrap();
        process.tell(1).unwrap();
        node.run_until_idle();
        process.kill();
        node.run_until_idle();
        assert_eq!(process.join().unwrap(), ExitReason::Killed);
        let totals = node.snapshot().totals;
        let expected = if at_message { (0, 1) } else { (1, 0) };
        assert_eq!((totals.handled, totals.failed), expected, "at a message: {at_message}");
    }
}

// R8
#[test]
fn a_process_that_is_drained_receives_its_messages_before_it_is_asked_to_stop() {
    let (node, _clock) = local();
    let (sender, received) = mpsc::channel();
    let process = node.actor().spawn_process(move |own: &mut Process<u32>| {
        loop {
            match own.recv().unwrap() {
                Received::Message(message) => sender.send(message).unwrap(),
                Received::Stop(reason) => return Flow::Exit(reason),
                other => panic!("{other:?}"),
            }
        }
    });
    let process = process.unwrap();
    (0..3).for_each(|n| process.tell(n).unwrap());
    process.drain();
    node.run_until_idle();
    assert_eq!(process.join().unwrap(), ExitReason::Shutdown);
    assert_eq!(received.iter().collect::<Vec<_>>(), [0, 1, 2]);
    assert_eq!(node.dead_letter_count(), 0);
}

// R9
#[test]
fn a_process_that_is_drained_may_wait_for_something_else() {
    let (node, clock) = local();
    let process = node.actor().spawn_process(|own: &mut Process<u32>| {
        let raw = |received: &Received<u32>| matches!(received, Received::Raw(_));
        assert!(matches!(own.recv_where_timeout(raw, Duration::from_secs(5)), Err(WaitError::Timeout)));
        own.ctx().set_timer(Duration::from_secs(5), false).unwrap();
        assert!(own.recv_where(raw).is_ok());
        let Ok(Received::Stop(reason)) = own.recv() else { panic!("it was asked to stop") };
        Flow::Exit(reason)
    });
    let process = process.unwrap();
    node.run_until_idle();
    process.drain();
    for _ in 0..2 {
        node.run_until_idle();
        assert!(!process.is_dead());
        clock.advance(Duration::from_secs(6));
    }
    node.run_until_idle();
    assert_eq!(process.join().unwrap(), ExitReason::Shutdown);
}

// R10
#[test]
fn a_process_with_a_standing_backlog_shares_its_worker() {
    let runtime = Runtime::builder().workers(1).sysmon(Sysmon::off());
    let node = Node::builder().runtime(runtime).build().unwrap();
    let _watchdog = Watchdog::new("a process with a standing backlog".to_owned());
    let process = node.actor().spawn_process(|own: &mut Process<u64>| {
        while let Received::Message(0) = own.recv().unwrap() {
            own.ctx().me().try_tell(0).unwrap(); // so there is always another
        }
        Flow::Stop
    });
    let process = process.unwrap();
    process.tell(0).unwrap();
    // Only a task of the same worker tells it to end.
    let teller = process.clone();
    node.run(move || teller.tell(1).unwrap()).unwrap();
    assert_eq!(process.join().unwrap(), ExitReason::Normal);
}

//! Mailboxes: capacity, policies, and senders that wait (`docs/semantics.md`, O and D).

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use sinew_kernel::{
    ActorRef, DeadLetterReason, ExitReason, Flow, Kind, Node, Policy, Process, Unsent, waits,
};
use sinew_sched::{Reason, TaskDump, sleep, spawn_future, yield_now};

use crate::kit::{self, Hooked, Watchdog, Work, block, keeper, local, number, spin_until, wait, with_nodes};

const CAPACITIES: [u32; 4] = [1, 2, 7, 1024];

/// An actor that is blocked by its first message, with an empty mailbox.
fn blocked(node: &Node, capacity: u32, policy: Policy) -> (ActorRef<Work>, kit::Numbers, kit::Key) {
    let (actor, numbers) = keeper();
    let actor = node.actor().mailbox(capacity).policy(policy).spawn(actor).unwrap();
    let key = block(&actor);
    (actor, numbers, key)
}

fn fill(actor: &ActorRef<Work>, capacity: u32) {
    (0..u64::from(capacity)).for_each(|n| actor.try_tell(Work::Number(n)).unwrap());
}

/// Waits until so many tasks wait for room in a mailbox.
fn until_waiting(node: &Node, count: usize) {
    let waits = |task: &&TaskDump| task.wait.as_ref().is_some_and(|wait| wait.kind == waits::SEND);
    spin_until(|| node.handle().dump().tasks.iter().filter(waits).count() == count);
}

/// Has the actor handle what it has.
fn finish(actor: &ActorRef<Work>, key: kit::Key) {
    key.open();
    actor.drain();
    assert_eq!(actor.join().unwrap(), ExitReason::Shutdown);
}

// O1, O2
#[test]
fn a_full_mailbox_that_refuses_gives_the_message_back() {
    with_nodes(|node| {
        for capacity in CAPACITIES {
            let (actor, numbers, key) = blocked(node, capacity, Policy::Refuse);
            fill(&actor, capacity);
            let error = actor.tell(Work::Number(99_999)).unwrap_err();
            assert!(matches!(error.why, Unsent::Full), "{error}");
            assert_eq!(number(error.item), 99_999);
            finish(&actor, key);
            assert_eq!(*numbers.lock().unwrap(), (0..u64::from(capacity)).collect::<Vec<_>>());
        }
        assert_eq!(node.dead_letter_count(), 0);
    });
}

// O4
#[test]
fn a_full_mailbox_that_drops_the_newest_keeps_what_it_has() {
    with_nodes(|node| {
        for capacity in CAPACITIES {
            let before = node.dead_letter_count();
            let letters = node.dead_letters();
            let (actor, numbers, key) = blocked(node, capacity, Policy::DropNewest);
            fill(&actor, capacity);
            actor.tell(Work::Number(99_998)).unwrap();
            actor.tell(Work::Number(99_999)).unwrap();
            assert_eq!(node.dead_letter_count(), before + 2);
            assert_eq!(letters.try_recv().unwrap().unwrap().reason, DeadLetterReason::Overflow);
            finish(&actor, key);
            assert_eq!(*numbers.lock().unwrap(), (0..u64::from(capacity)).collect::<Vec<_>>());
        }
    });
}

// O5
#[test]
fn a_full_mailbox_that_drops_the_oldest_keeps_the_latest() {
    with_nodes(|node| {
        for capacity in CAPACITIES {
            let before = node.dead_letter_count();
            let (actor, numbers, key) = blocked(node, capacity, Policy::DropOldest);
            let all = 3 * u64::from(capacity) + 1;
            (0..all).for_each(|n| actor.tell(Work::Number(n)).unwrap());
            let dropped = all - u64::from(capacity);
            assert_eq!(node.dead_letter_count(), before + dropped);
            finish(&actor, key);
            assert_eq!(*numbers.lock().unwrap(), (dropped..all).collect::<Vec<_>>());
        }
    });
}

// O1, O3
#[test]
fn a_full_mailbox_that_parks_has_its_senders_wait_and_loses_nothing() {
    with_nodes(|node| {
        for capacity in CAPACITIES {
            let (actor, numbers, key) = blocked(node, capacity, Policy::Park);
            fill(&actor, capacity);
            let error = actor.try_tell(Work::Number(99_999)).unwrap_err();
            assert!(matches!(error.why, Unsent::Full), "{error}");
            let senders: Vec<_> = (0..4)
                .map(|sender| {
                    let actor = actor.clone();
                    node.handle().spawn(move || {
                        (0..100).for_each(|n| actor.tell(Work::Number(100_000 + 1_000 * sender + n)).unwrap())
                    })
                })
                .collect();
            until_waiting(node, 4);
            key.open();
            senders.into_iter().for_each(|sender| sender.join().unwrap());
            actor.drain();
            actor.join().unwrap();
            let numbers = numbers.lock().unwrap();
            assert_eq!(numbers.len(), capacity as usize + 400);
            for sender in 0..4 {
                let of = 100_000 + 1_000 * sender;
                let own: Vec<u64> =
                    numbers.iter().copied().filter(|n| (of..of + 1_000).contains(n)).collect();
                assert_eq!(own, (of..of + 100).collect::<Vec<_>>(), "in order");
            }
        }
        assert_eq!(node.dead_letter_count(), 0);
    });
}

// O1
#[test]
fn the_capacity_is_exact_in_the_middle_of_a_batch() {
    with_nodes(|node| {
        for policy in [Policy::Refuse, Policy::Park, Policy::DropNewest] {
            let (actor, numbers, key) = blocked(node, 7, policy);
            let (work, second_key, entered) = wait();
            actor.try_tell(Work::Number(0)).unwrap();
            actor.try_tell(Work::Number(1)).unwrap();
            actor.try_tell(work).unwrap();
            (2..6).for_each(|n| actor.try_tell(Work::Number(n)).unwrap());
            key.open();
            entered.recv().unwrap();
            // Four are left of the seven, whether they were taken or not.
            let before = node.dead_letter_count();
            let room = (6..20).filter(|n| actor.try_tell(Work::Number(*n)).is_ok()).count();
            let dropped = (node.dead_letter_count() - before) as usize;
            assert_eq!(room - dropped, 3, "{policy:?}");
            finish(&actor, second_key);
            assert_eq!(*numbers.lock().unwrap(), (0..9).collect::<Vec<_>>());
        }
    });
}

// O6
#[test]
fn senders_that_wait_are_let_in_first_come_first_served_and_nobody_passes_them() {
    for capacity in [1, 2, 7] {
        let (node, _clock) = local();
        let (actor, numbers) = keeper();
        let actor = node.actor().mailbox(capacity).spawn(actor).unwrap();
        let (work, key, _entered) = wait();
        actor.try_tell(work).unwrap();
        node.run_until_idle();
        fill(&actor, capacity);
        let mut senders = Vec::new();
        for n in 0..20 {
            let actor = actor.clone();
            senders.push(node.runtime().spawn(move || actor.tell(Work::Number(1_000 + n)).unwrap()));
            node.run_until_idle();
        }
        key.open();
        let (mut passed, mut late) = (0, None);
        while node.step() {
            if late.is_none() && numbers.lock().unwrap().len() >= 2 {
                let actor = actor.clone();
                late = Some(node.runtime().spawn(move || actor.tell(Work::Number(1_020)).unwrap()));
            }
            // There may be room now and then, but it is for those who wait.
            let waiting = senders.iter().any(|sender| !sender.is_finished());
            let handled = numbers.lock().unwrap().len();
            if waiting && handled < 20 && actor.try_tell(Work::Number(9_999)).is_ok() {
                passed += 1;
            }
        }
        let numbers = numbers.lock().unwrap();
        let waited: Vec<u64> = numbers.iter().copied().filter(|n| (1_000..2_000).contains(n)).collect();
        assert_eq!(waited, (1_000..=1_020).collect::<Vec<_>>());
        if passed > 0 {
            let first = numbers.iter().position(|n| *n == 9_999).unwrap();
            assert!(numbers[first..].iter().all(|n| *n == 9_999), "passed those who wait: {numbers:?}");
        }
    }
}

// O7
#[test]
fn a_sender_that_waits_gets_room_when_the_actor_has_nothing_else_to_do() {
    for capacity in [1, 2, 7] {
        let (node, _clock) = local();
        let (actor, numbers) = keeper();
        let actor = node.actor().mailbox(capacity).spawn(actor).unwrap();
        fill(&actor, capacity); // it has not run
        let senders: Vec<_> = (0..5)
            .map(|n| {
                let actor = actor.clone();
                node.runtime().spawn(move || actor.tell(Work::Number(1_000 + n)).unwrap())
            })
            .collect();
        node.run_until_idle();
        assert!(senders.iter().all(|sender| sender.is_finished()), "capacity {capacity}");
        assert_eq!(numbers.lock().unwrap().len(), capacity as usize + 5);
    }
}

// O7
#[test]
fn a_sender_that_waits_gets_the_room_that_there_is_while_the_actor_is_blocked() {
    for capacity in [1, 2, 7] {
        let (node, _clock) = local();
        let (actor, _) = keeper();
        let actor = node.actor().mailbox(capacity).spawn(actor).unwrap();
        let (work, first_key, _entered) = wait();
        actor.try_tell(work).unwrap();
        node.run_until_idle();
        let (work, key, _entered) = wait();
        actor.try_tell(work).unwrap();
        (1..u64::from(capacity)).for_each(|n| actor.try_tell(Work::Number(n)).unwrap());
        let to = actor.clone();
        let sender = node.runtime().spawn(move || to.tell(Work::Number(1_000)).unwrap());
        node.run_until_idle();
        assert!(!sender.is_finished(), "there is no room");
        first_key.open();
        node.run_until_idle();
        assert!(sender.is_finished(), "one of those that were there is being handled, so there is room");
        key.open();
        node.run_until_idle();
    }
}

// O7
#[test]
fn a_process_that_blocks_elsewhere_lets_those_in_who_wait() {
    let (node, _clock) = local();
    let (first_key, first) = kit::gate();
    let (key, gate) = kit::gate();
    let process = node.actor().mailbox(1).spawn_process(move |own: &mut Process<u64>| {
        assert!(first.pass());
        assert_eq!(own.recv().unwrap().message(), Some(1));
        assert!(gate.pass());
        assert_eq!(own.recv().unwrap().message(), Some(2));
        Flow::Stop
    });
    let process = process.unwrap();
    process.try_tell(1).unwrap();
    let to = process.clone();
    let sender = node.runtime().spawn(move || to.tell(2).unwrap());
    node.run_until_idle();
    assert!(!sender.is_finished());
    first_key.open();
    node.run_until_idle();
    assert!(sender.is_finished(), "there is room for one");
    key.open();
    node.run_until_idle();
    assert!(process.is_dead());
}

// O8
#[test]
fn a_sender_that_is_cancelled_gets_its_message_back_and_leaves_the_others_in_order() {
    let (node, _clock) = local();
    let (actor, numbers) = keeper();
    let actor = node.actor().mailbox(1).spawn(actor).unwrap();
    let (work, key, _entered) = wait();
    actor.try_tell(work).unwrap();
    node.run_until_idle();
    fill(&actor, 1);
    let senders: Vec<_> = (0..5)
        .map(|n| {
            let actor = actor.clone();
            let sender = node.runtime().spawn(move || {
                actor.tell(Work::Number(1_000 + n)).map_err(|error| (number(error.item), error.why))
            });
            node.run_until_idle();
            sender
        })
        .collect();
    senders[2].cancel();
    node.run_until_idle();
    key.open();
    node.run_until_idle();
    let outcomes: Vec<_> = senders.into_iter().map(|sender| sender.join().unwrap()).collect();
    for (n, outcome) in outcomes.into_iter().enumerate() {
        match outcome {
            Ok(()) => assert_ne!(n, 2),
            Err((message, Unsent::Refused(refused))) => {
                assert_eq!((message, refused.reason()), (1_002, Reason::Cancelled));
            }
            Err((_, why)) => panic!("{why}"),
        }
    }
    assert_eq!(*numbers.lock().unwrap(), [0, 1_000, 1_001, 1_003, 1_004]);
}

// O8
#[test]
fn a_sender_whose_time_is_up_gets_its_message_back() {
    let (node, clock) = local();
    let (actor, numbers) = keeper();
    let actor = node.actor().mailbox(1).spawn(actor).unwrap();
    let (work, key, _entered) = wait();
    actor.try_tell(work).unwrap();
    node.run_until_idle();
    fill(&actor, 1);
    let to = actor.clone();
    let sender = node.runtime().spawn(move || {
        let error = to.tell_timeout(Work::Number(7), Duration::from_secs(1)).unwrap_err();
        assert!(matches!(error.why, Unsent::Timeout(_)), "{error}");
        number(error.item)
    });
    node.run_until_idle();
    assert!(!sender.is_finished());
    clock.advance(Duration::from_secs(2));
    node.run_until_idle();
    assert_eq!(sender.join().unwrap(), 7);
    key.open();
    node.run_until_idle();
    assert_eq!(*numbers.lock().unwrap(), [0]);
}

// O9
#[test]
fn senders_that_wait_get_their_messages_back_when_the_actor_dies() {
    with_nodes(|node| {
        for end in 0..3 {
            let (actor, _, key) = blocked(node, 2, Policy::Park);
            fill(&actor, 2);
            let senders: Vec<_> = (0..8)
                .map(|n| {
                    let actor = actor.clone();
                    node.handle().spawn(move || {
                        let error = actor.tell(Work::Number(n)).unwrap_err();
                        assert_eq!(number(error.item), n);
                        error.why
                    })
                })
                .collect();
            until_waiting(node, 8);
            let reason = match end {
                0 => {
                    actor.stop();
                    key.open();
                    ExitReason::Shutdown
                }
                1 => {
                    actor.drain();
                    key.open();
                    ExitReason::Shutdown
                }
                _ => {
                    actor.kill();
                    ExitReason::Killed
                }
            };
            for sender in senders {
                match sender.join().unwrap() {
                    Unsent::Stopped(why) => assert_eq!(why, reason),
                    why => panic!("{why}"),
                }
            }
            assert_eq!(actor.join().unwrap(), reason);
        }
    });
}

// O10
#[test]
fn an_actor_does_not_wait_for_room_in_its_own_mailbox() {
    with_nodes(|node| {
        let (actor, numbers) = keeper();
        let actor = node.actor().mailbox(1).spawn(actor).unwrap();
        let (told, has_told) = std::sync::mpsc::channel();
        let body = move |ctx: &mut sinew_kernel::Ctx<Work>| {
            ctx.me().tell(Work::Number(1)).unwrap();
            let error = ctx.me().tell(Work::Number(2)).unwrap_err();
            told.send((number(error.item), error.why)).unwrap();
            Flow::Continue
        };
        actor.tell(Work::Do(Box::new(body))).unwrap();
        assert!(matches!(has_told.recv().unwrap(), (2, Unsent::ToItself)));
        actor.drain();
        assert_eq!(actor.join().unwrap(), ExitReason::Shutdown);
        assert_eq!(*numbers.lock().unwrap(), [1]);
    });
}

// O11
#[test]
fn nobody_waits_for_room_inside_the_poll_of_a_future() {
    with_nodes(|node| {
        let (actor, _, key) = blocked(node, 1, Policy::Park);
        fill(&actor, 1);
        let to = actor.clone();
        let polled = node.run(move || {
            spawn_future(async move {
                let error = to.tell(Work::Number(3)).unwrap_err();
                assert_eq!(number(error.item), 3);
                error.why
            })
            .join()
            .unwrap()
        });
        let why = polled.unwrap();
        assert!(matches!(&why, Unsent::Refused(refused) if refused.reason() == Reason::InsidePoll), "{why}");
        finish(&actor, key);
    });
}

// O3, O7: many senders, a mailbox of one.
#[test]
fn a_mailbox_of_one_passes_everything_on() {
    with_nodes(|node| {
        let sum = Arc::new(AtomicU64::new(0));
        let total = sum.clone();
        let actor = node.actor().mailbox(1).spawn(Hooked::new(move |n: u64, _| {
            total.fetch_add(n, Ordering::Relaxed);
            if n.is_multiple_of(16) {
                yield_now();
            }
            Flow::Continue
        }));
        let actor = actor.unwrap();
        let each = kit::rounds(20_000) as u64;
        let senders: Vec<_> = (0..6)
            .map(|_| {
                let actor = actor.clone();
                node.handle().spawn(move || (1..=each).for_each(|n| actor.tell(n).unwrap()))
            })
            .collect();
        senders.into_iter().for_each(|sender| sender.join().unwrap());
        actor.drain();
        actor.join().unwrap();
        assert_eq!(sum.load(Ordering::Relaxed), 6 * each * (each + 1) / 2);
    });
}

// D2, O8: the moment at which a sender gives up against the moment at which it is let in.
#[test]
fn a_message_is_either_handled_or_given_back_whatever_races() {
    with_nodes(|node| {
        let handled = kit::Numbers::default();
        let numbers = handled.clone();
        let actor = node.actor().mailbox(2).spawn(Hooked::new(move |n: u64, _| {
            numbers.lock().unwrap().push(n);
            Flow::Continue
        }));
        let actor = actor.unwrap();
        let each = kit::rounds(2_000) as u64;
        let senders: Vec<_> = (0..6)
            .map(|sender| {
                let actor = actor.clone();
                node.handle().spawn(move || {
                    let accepted = |n: &u64| match actor.tell_timeout(*n, Duration::from_nanos(1)) {
                        Ok(()) => true,
                        Err(error) => {
                            assert_eq!(error.item, *n);
                            false
                        }
                    };
                    (sender * each..(sender + 1) * each).filter(accepted).collect::<Vec<_>>()
                })
            })
            .collect();
        let sent: Vec<u64> = senders.into_iter().flat_map(|sender| sender.join().unwrap()).collect();
        actor.drain();
        actor.join().unwrap();
        let mut handled = std::mem::take(&mut *handled.lock().unwrap());
        handled.sort_unstable();
        assert_eq!(handled, sent, "each once");
        assert_eq!(node.dead_letter_count(), 0);
    });
}

// D6
#[test]
fn dead_letters_are_counted_one_by_one_and_told_to_subscribers() {
    let (node, _clock) = local();
    let subscribers = [node.dead_letters(), node.dead_letters()];
    let (actor, numbers) = keeper();
    let actor = node.actor().spawn(actor).unwrap();
    node.run_until_idle();
    (0..10).for_each(|n| actor.tell(Work::Number(n)).unwrap());
    actor.stop(); // which goes first
    node.run_until_idle();
    assert_eq!(*numbers.lock().unwrap(), []);
    assert_eq!(node.dead_letter_count(), 10);
    for letters in subscribers {
        let told: Vec<_> = letters.try_iter().map(|letter| (letter.dest, letter.reason)).collect();
        assert_eq!(told, vec![(actor.id(), DeadLetterReason::Ended(ExitReason::Shutdown)); 10]);
    }
}

// The watchdog is there for the stress of the others; time is the system's here.
#[test]
fn senders_from_plain_threads_wait_as_well() {
    let _watchdog = Watchdog::new("threads".to_owned());
    let node = Node::new();
    let (actor, numbers, key) = blocked(&node, 1, Policy::Park);
    let threads: Vec<_> = (0..4)
        .map(|n| {
            let actor = actor.clone();
            std::thread::spawn(move || actor.tell(Work::Number(n)).unwrap())
        })
        .collect();
    key.open();
    threads.into_iter().for_each(|thread| thread.join().unwrap());
    spin_until(|| numbers.lock().unwrap().len() == 4);
    node.run(|| sleep(Duration::ZERO)).unwrap();
}

// O14
#[test]
fn a_stream_counts_what_is_accepted_and_what_is_refused() {
    with_nodes(|node| {
        for capacity in CAPACITIES {
            let room = u64::from(capacity);
            let (actor, numbers, key) = blocked(node, capacity, Policy::Refuse);
            let sent = actor.stream((0..room + 5).map(Work::Number)).join().unwrap();
            assert_eq!((sent.accepted as u64, sent.refused), (room, 5));
            finish(&actor, key);
            assert_eq!(*numbers.lock().unwrap(), (0..room).collect::<Vec<_>>());
            let sent = actor.stream((0..5).map(Work::Number)).join().unwrap();
            assert_eq!((sent.accepted, sent.refused), (0, 1), "it ends with the actor");

            let (actor, numbers, key) = blocked(node, capacity, Policy::Park);
            let stream = actor.stream((0..room + 5).map(Work::Number));
            key.open();
            let sent = stream.join().unwrap();
            assert_eq!((sent.accepted as u64, sent.refused), (room + 5, 0));
            actor.drain();
            assert_eq!(actor.join().unwrap(), ExitReason::Shutdown);
            assert_eq!(*numbers.lock().unwrap(), (0..room + 5).collect::<Vec<_>>());
        }
    });
}

// O15
#[test]
fn a_task_that_fills_a_large_mailbox_lets_others_run_meanwhile() {
    let (node, _clock) = local();
    let (actor, numbers) = keeper();
    let actor = node.actor().mailbox(1024).spawn(actor).unwrap();
    let (work, key, _entered) = wait();
    actor.try_tell(work).unwrap();
    node.run_until_idle();
    let sent = Arc::new(AtomicU64::new(0));
    let (counts, to) = (sent.clone(), actor.clone());
    let looks = node.runtime().spawn(move || {
        let mut seen = vec![0];
        while seen[seen.len() - 1] < 1000 {
            yield_now();
            seen.push(sent.load(Ordering::Relaxed));
        }
        seen.dedup();
        seen
    });
    let sends = node.runtime().spawn(move || {
        for n in 0..1000 {
            to.tell(Work::Number(n)).unwrap();
            counts.fetch_add(1, Ordering::Relaxed);
        }
    });
    node.run_until_idle();
    sends.join().unwrap();
    let seen = looks.join().unwrap();
    assert!(seen.windows(2).all(|seen| seen[1] - seen[0] <= 32), "it gives way in time: {seen:?}");
    assert!(seen.len() <= 1000 / 32 + 3, "and not for each: {seen:?}");
    key.open();
    node.run_until_idle();
    assert_eq!(*numbers.lock().unwrap(), (0..1000).collect::<Vec<_>>());
}

// D8
#[test]
fn a_dead_letter_of_bytes_says_who_sent_it_and_of_what_kind_it_was() {
    let (node, _clock) = local();
    let letters = node.dead_letters();
    let full = node.actor().mailbox(1).policy(Policy::DropNewest);
    let to = full.spawn_raw((), |(), _, _| Flow::Continue).unwrap().id();
    let sender = Hooked::<()>::new(move |(), ctx| {
        ctx.send(to, Kind(7), &b"one"[..]).unwrap();
        ctx.send(to, Kind(8), &b"two"[..]).unwrap();
        Flow::Continue
    });
    let sender = node.spawn(sender).unwrap();
    sender.tell(()).unwrap();
    node.run_until_idle();
    let letter = letters.recv().unwrap();
    assert_eq!((letter.source, letter.dest, letter.kind), (sender.id(), to, Some(Kind(8))));
    assert_eq!(letter.reason, DeadLetterReason::Overflow);
}

//! Questions and answers (`docs/semantics.md`, A).

use std::sync::{Arc, Mutex, mpsc};
use std::time::Duration;

use sinew_chan::chan;
use sinew_kernel::{ActorRef, AskError, ExitReason, Flow, Node, Policy, Process, Received, Reply, Unsent};
use sinew_sched::{ManualClock, Reason, Runtime, now, spawn, spawn_future};

use crate::kit::{self, Hooked, local, with_nodes};

enum Ask {
    Echo(u64, Reply<u64>),
    Panic(Reply<u64>),
    Forget(Reply<u64>),
    Keep(Reply<u64>),
    HandOn(ActorRef<Ask>, Reply<u64>),
    /// Asks the first of these about the rest; of none it knows.
    Of(Vec<ActorRef<Ask>>, Reply<Result<u64, AskError>>),
    Stop(Reply<u64>),
}

fn oracle() -> Hooked<Ask> {
    let mut kept = Vec::new();
    Hooked::new(move |ask, _| {
        match ask {
            Ask::Echo(n, reply) => reply.send(n),
            Ask::Panic(_reply) => panic!("asked to"),
            Ask::Forget(reply) => drop(reply),
            Ask::Keep(reply) => kept.push(reply),
            Ask::HandOn(to, reply) => to.tell(Ask::Panic(reply)).unwrap(),
            Ask::Of(mut path, reply) if !path.is_empty() => {
                let next = path.remove(0);
                let answer = next.ask_timeout(|reply| Ask::Of(path, reply), Duration::from_secs(3));
                reply.send(answer.and_then(|inner| inner));
            }
            Ask::Of(_, reply) => reply.send(Ok(1)),
            Ask::Stop(reply) => {
                kept.push(reply);
                return Flow::Stop;
            }
        }
        Flow::Continue
    })
}

/// Asks without a time-out: what is answered at once needs none.
fn ask<T: Send + 'static>(
    actor: &ActorRef<Ask>,
    question: impl FnOnce(Reply<T>) -> Ask,
) -> Result<T, AskError> {
    actor.ask_timeout(question, Duration::MAX)
}

fn failed(error: &AskError) -> bool {
    matches!(error, AskError::Stopped(ExitReason::Error(failure)) if failure.message == "asked to")
}

// A1
#[test]
fn a_question_is_answered() {
    with_nodes(|node| {
        let oracle = node.spawn(oracle()).unwrap();
        let asked = oracle.clone();
        let sum = node
            .run(move || (0..1_000).map(|n| asked.ask(|reply| Ask::Echo(n, reply)).unwrap()).sum::<u64>());
        assert_eq!(sum.unwrap(), 499_500);
        assert_eq!(oracle.ask(|reply| Ask::Echo(7, reply)).unwrap(), 7, "from a plain thread");
    });
}

// A2
#[test]
fn whoever_asks_a_dead_actor_gets_its_reason_at_once() {
    with_nodes(|node| {
        let oracle = node.spawn(oracle()).unwrap();
        oracle.kill();
        oracle.join().unwrap();
        let error = ask(&oracle, |reply| Ask::Echo(1, reply)).unwrap_err();
        assert!(matches!(error, AskError::Stopped(ExitReason::Killed)), "{error}");
    });
}

// A3
#[test]
fn whoever_asks_one_that_fails_gets_the_failure_at_once() {
    with_nodes(|node| {
        for _ in 0..20 {
            let oracle = node.spawn(oracle()).unwrap();
            let error = ask(&oracle, Ask::Panic).unwrap_err();
            assert!(failed(&error), "{error}");
        }
    });
}

// A3
#[test]
fn whoever_waits_behind_the_question_that_fails_gets_the_failure_as_well() {
    with_nodes(|node| {
        let oracle = node.spawn(oracle()).unwrap();
        let askers: Vec<_> = (0..20)
            .map(|_| {
                let oracle = oracle.clone();
                node.handle().spawn(move || ask(&oracle, Ask::Panic).unwrap_err())
            })
            .collect();
        for asker in askers {
            let error = asker.join().unwrap();
            assert!(failed(&error), "{error}");
        }
    });
}

// A4
#[test]
fn a_question_that_is_kept_until_the_actor_ends_is_answered_with_the_reason() {
    with_nodes(|node| {
        let oracle = node.spawn(oracle()).unwrap();
        let asked = oracle.clone();
        let asker = node.handle().spawn(move || ask(&asked, Ask::Keep).unwrap_err());
        let error = ask(&oracle, Ask::Stop).unwrap_err();
        assert!(matches!(error, AskError::Stopped(ExitReason::Normal)), "{error}");
        let error = asker.join().unwrap();
        assert!(matches!(error, AskError::Stopped(ExitReason::Normal)), "{error}");
    });
}

// A4
#[test]
fn questions_in_the_mailbox_of_one_that_is_stopped_are_answered_with_the_reason() {
    let (node, _clock) = local();
    let oracle = node.spawn(oracle()).unwrap();
    let askers: Vec<_> = (0..5)
        .map(|_| {
            let oracle = oracle.clone();
            node.runtime().spawn(move || ask(&oracle, Ask::Keep).unwrap_err())
        })
        .collect();
    oracle.kill();
    node.run_until_idle();
    for asker in askers {
        let error = asker.join().unwrap();
        assert!(matches!(error, AskError::Stopped(ExitReason::Killed)), "{error}");
    }
}

// A5
#[test]
fn a_question_that_is_dropped_is_answered_at_once() {
    with_nodes(|node| {
        let oracle = node.spawn(oracle()).unwrap();
        let error = ask(&oracle, Ask::Forget).unwrap_err();
        assert!(matches!(error, AskError::NoReply), "{error}");
        assert!(!oracle.is_dead());
    });
}

// A6
#[test]
fn a_question_that_was_handed_on_to_one_that_fails_says_nothing_about_the_first() {
    with_nodes(|node| {
        let (first, second) = (node.spawn(oracle()).unwrap(), node.spawn(oracle()).unwrap());
        let to = second.clone();
        let error = ask(&first, |reply| Ask::HandOn(to, reply)).unwrap_err();
        assert!(matches!(error, AskError::NoReply), "{error}");
        assert!(!first.is_dead());
        second.join().unwrap();
    });
}

// A7
#[test]
fn two_actors_that_ask_each_other_time_out_and_go_on() {
    let clock = ManualClock::new();
    let runtime = Runtime::builder().workers(2).manual_clock(&clock);
    let node = Node::builder().runtime(runtime).build().unwrap();
    let (one, other) = (node.spawn(oracle()).unwrap(), node.spawn(oracle()).unwrap());
    let (asked, path) = (one.clone(), vec![other.clone(), one.clone()]);
    let answer =
        node.run(move || asked.ask_timeout(|reply| Ask::Of(path, reply), Duration::from_secs(60)).unwrap());
    let answer = answer.unwrap();
    assert!(matches!(answer, Err(AskError::Timeout(_))), "{answer:?}");
    for actor in [&one, &other] {
        let asked = actor.clone();
        assert_eq!(node.run(move || asked.ask(|reply| Ask::Echo(1, reply)).unwrap()).unwrap(), 1);
    }
}

// A8
#[test]
fn a_question_without_an_answer_times_out() {
    let clock = ManualClock::new();
    let node = Node::builder().runtime(Runtime::builder().manual_clock(&clock)).build().unwrap();
    let oracle = node.spawn(oracle()).unwrap();
    let asked = node.run(move || {
        let start = now();
        let error = oracle.ask(Ask::Keep).unwrap_err();
        (error, now() - start)
    });
    let (error, took) = asked.unwrap();
    assert!((Duration::from_secs(5)..Duration::from_secs(6)).contains(&took), "{took:?}");
    assert!(matches!(error, AskError::Timeout(time) if time == Duration::from_secs(5)), "{error}");
}

// A9
#[test]
fn nobody_asks_inside_the_poll_of_a_future_and_the_question_is_not_sent() {
    with_nodes(|node| {
        let (seen, questions) = mpsc::channel();
        let actor = Hooked::<Reply<u64>>::new(move |reply, _| {
            seen.send(()).unwrap();
            reply.send(1);
            Flow::Continue
        });
        let actor = node.spawn(actor).unwrap();
        let asked = actor.clone();
        let error = node.run(|| spawn_future(async move { asked.ask(|reply| reply) }).join().unwrap());
        let error = error.unwrap().unwrap_err();
        assert!(
            matches!(&error, AskError::Refused(refused) if refused.reason() == Reason::InsidePoll),
            "{error}"
        );
        actor.drain();
        actor.join().unwrap();
        assert!(questions.try_recv().is_err());
    });
}

// A12
#[test]
fn an_actor_that_asks_itself_gets_an_error_at_once_and_the_question_is_not_sent() {
    let (node, clock) = local();
    clock.hold(true);
    let (seen, questions) = mpsc::channel();
    let actor = Hooked::<Reply<AskError>>::new(move |reply, ctx| {
        seen.send(()).unwrap();
        reply.send(ctx.me().ask(|reply| reply).unwrap_err());
        Flow::Continue
    });
    let asked = node.spawn(actor).unwrap();
    let error = node.runtime().run(move || asked.ask(|reply| reply)).unwrap().unwrap();
    assert!(matches!(error, AskError::ToItself), "{error}");
    node.run_until_idle();
    assert_eq!(questions.try_iter().count(), 1);
}

// A10
#[test]
fn a_question_for_a_full_mailbox_is_as_its_policy_has_it() {
    for policy in [Policy::Refuse, Policy::Park, Policy::DropNewest, Policy::DropOldest] {
        let (node, clock) = local();
        clock.hold(true);
        let (key, gate) = kit::gate();
        let (mut gate, handled) = (Some(gate), Arc::new(Mutex::new(Vec::new())));
        let notes = handled.clone();
        let actor = Hooked::<(u64, Option<Reply<u64>>)>::new(move |(n, reply), _| {
            gate.take().map(kit::Gate::pass); // at the first
            notes.lock().unwrap().push(n);
            reply.into_iter().for_each(|reply| reply.send(n));
            Flow::Continue
        });
        let actor = node.actor().mailbox(1).policy(policy).spawn(actor).unwrap();
        actor.tell((1, None)).unwrap();
        node.run_until_idle();
        actor.tell((2, None)).unwrap(); // it is full
        let asker = node.runtime().spawn(move || actor.ask(|reply| (3, Some(reply))));
        node.run_until_idle();
        let (at_once, dead) = (asker.is_finished(), node.dead_letter_count());
        key.open();
        node.run_until_idle();
        let outcome = asker.join().unwrap();
        let handled = handled.lock().unwrap();
        match policy {
            Policy::Refuse => {
                assert!(matches!(outcome, Err(AskError::Unsent(Unsent::Full))), "{outcome:?}");
                assert_eq!((at_once, dead, &handled[..]), (true, 0, &[1, 2][..]));
            }
            Policy::DropNewest => {
                assert!(matches!(outcome, Err(AskError::NoReply)), "{outcome:?}");
                assert_eq!((at_once, dead, &handled[..]), (true, 1, &[1, 2][..]));
            }
            Policy::DropOldest => {
                assert!(matches!(outcome, Ok(3)), "{outcome:?}");
                assert_eq!((at_once, dead, &handled[..]), (false, 1, &[1, 3][..]));
            }
            Policy::Park => {
                assert!(matches!(outcome, Ok(3)), "{outcome:?}");
                assert_eq!((at_once, dead, &handled[..]), (false, 0, &[1, 2, 3][..]));
            }
        }
    }
}

// A10
#[test]
fn a_question_that_finds_no_room_in_time_was_not_sent() {
    let (node, _clock) = local();
    let (open, closed) = chan::bounded::<()>(1);
    let (seen, questions) = mpsc::channel();
    let blocked = Hooked::<Reply<u64>>::new(move |_, _| {
        seen.send(()).unwrap();
        let _ = closed.recv();
        Flow::Continue
    });
    let actor = node.actor().mailbox(1).spawn(blocked).unwrap();
    let asked = actor.clone();
    let outcomes = node.runtime().run(move || {
        let ask = || {
            let actor = asked.clone();
            spawn(move || actor.ask_timeout(|reply| reply, Duration::from_secs(1)))
        };
        let asked: Vec<_> = (0..4).map(|_| ask()).collect();
        asked.into_iter().map(|asked| asked.join().unwrap().unwrap_err()).collect::<Vec<_>>()
    });
    let outcomes = outcomes.unwrap();
    let unsent = outcomes.iter().filter(|why| matches!(why, AskError::Unsent(Unsent::Timeout(_)))).count();
    let unanswered = outcomes.iter().filter(|why| matches!(why, AskError::Timeout(_))).count();
    assert_eq!((unanswered, unsent), (2, 2), "one is handled, one is in the mailbox: {outcomes:?}");
    drop(open);
    actor.drain();
    node.run_until_idle();
    assert!(actor.is_dead());
    assert_eq!((questions.try_iter().count(), node.dead_letter_count()), (2, 0));
}

/// A reply that nobody waits for.
fn reply_to_nobody() -> Reply<u64> {
    let node = Node::new();
    let (send, receive) = mpsc::channel();
    let actor = Hooked::<Reply<u64>>::new(move |reply, _| {
        send.send(reply).unwrap();
        Flow::Continue
    });
    let actor = node.spawn(actor).unwrap();
    let _ = actor.ask_timeout(|reply| reply, Duration::from_millis(1));
    receive.recv().unwrap()
}

// A11
#[test]
fn whoever_has_a_question_can_see_that_nobody_waits_for_it() {
    let reply = reply_to_nobody();
    assert!(reply.is_abandoned());
    reply.send(1);
    let (node, _clock) = local();
    let looks = Hooked::<Reply<bool>>::new(|reply, _| {
        let abandoned = reply.is_abandoned();
        reply.send(abandoned);
        Flow::Continue
    });
    let actor = node.spawn(looks).unwrap();
    assert!(!node.runtime().run(move || actor.ask(|reply| reply)).unwrap().unwrap(), "somebody waits");
}

// A13
#[test]
fn a_question_that_is_lost_in_a_panic_which_the_actor_catches_is_over_at_once() {
    with_nodes(|node| {
        let catches = |reply: Reply<u32>| {
            let held = std::panic::AssertUnwindSafe(move || {
                let _held = reply;
                panic!("on purpose");
            });
            std::panic::catch_unwind(held).unwrap_err();
        };
        let actor = Hooked::<Reply<u32>>::new(move |reply, _| {
            catches(reply);
            Flow::Continue
        });
        let process = move |own: &mut Process<Reply<u32>>| {
            while let Ok(Received::Message(reply)) = own.recv() {
                catches(reply);
            }
            Flow::Stop
        };
        for actor in [node.spawn(actor).unwrap(), node.actor().spawn_process(process).unwrap()] {
            for _ in 0..100 {
                let answer = actor.ask_timeout(|reply| reply, Duration::MAX);
                assert!(matches!(answer, Err(AskError::NoReply)), "{answer:?}");
            }
            actor.stop();
        }
    });
}

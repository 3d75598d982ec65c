//! How actors start and end: hooks, reasons, failures, children (`docs/semantics.md`, L).

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::time::Duration;

use sinew_kernel::{
    ActorRef, Ctx, DeadLetterReason, Exit, ExitReason, Flow, HandlerError, JoinError, Lifecycle, Node,
    Relation, SpawnError,
};
use sinew_sched::Runtime;

use crate::kept::Kept;
use crate::kit::{
    Hooked, Notes, Watchdog, Work, act, block, gate, keeper, local, noting, spin_until, with_nodes,
};

fn message_of(reason: &ExitReason) -> &str {
    match reason {
        ExitReason::Error(failure) => &failure.message,
        _ => "",
    }
}

// L1, L2
#[test]
fn an_actor_starts_handles_stops_and_is_dropped_in_this_order() {
    with_nodes(|node| {
        let notes = Notes::default();
        let actor = node.spawn(noting(&notes)).unwrap();
        actor.tell(Work::Number(1)).unwrap();
        actor.tell(act(|_| Flow::Stop)).unwrap();
        assert_eq!(actor.join().unwrap(), ExitReason::Normal);
        assert_eq!(*notes.lock().unwrap(), ["started", "handle", "handle", "stopping", "dropped"]);
        assert!(actor.is_dead());
    });
}

// L3
#[test]
fn an_actor_ends_for_the_reason_that_it_returns() {
    let ends: [(fn() -> Flow, ExitReason); 2] = [
        (|| Flow::Stop, ExitReason::Normal),
        (|| Flow::Exit(ExitReason::Limit("time".into())), ExitReason::Limit("time".into())),
    ];
    with_nodes(|node| {
        for (end, reason) in &ends {
            let (end, told) = (*end, Arc::new(Mutex::new(None)));
            let hook = told.clone();
            let handles = Hooked::<Work>::new(move |_, _| end())
                .stopping(move |reason, _| *hook.lock().unwrap() = Some(reason.clone()));
            let actor = node.spawn(handles).unwrap();
            actor.tell(Work::Number(1)).unwrap();
            assert_eq!(actor.join().unwrap(), *reason);
            assert_eq!(told.lock().unwrap().as_ref(), Some(reason));
            let starts = keeper().0.started(move |(), _| end());
            assert_eq!(node.spawn(starts).unwrap().join().unwrap(), *reason);
        }
    });
}

/// The line of the `?` in `parse`.
const PARSE_LINE: u32 = line!() + 2;
fn parse(text: &str) -> Result<u32, HandlerError> {
    Ok(text.parse::<u32>()?)
}

// L28
#[test]
fn an_actor_that_returns_an_error_ends_with_its_text_and_its_place() {
    type Fails = (fn() -> Flow, &'static str, u32);
    let fails: [Fails; 4] = [
        (|| Flow::fail("no"), "no", line!()),
        (|| Flow::attempt(|| Err("no")?), "no", line!()),
        (|| Flow::attempt(|| Err("no".into())), "no", line!()),
        (
            || Flow::attempt(|| parse("x").map(|_| Flow::Continue)),
            "invalid digit found in string",
            PARSE_LINE,
        ),
    ];
    with_nodes(|node| {
        for (fail, message, line) in fails {
            let (at, stopping) = (format!("{}:{line}:", file!()), Arc::new(Mutex::new(None)));
            let hook = stopping.clone();
            let handles = Hooked::<Work>::new(move |_, _| fail())
                .stopping(move |reason, _| *hook.lock().unwrap() = Some(reason.clone()));
            let actor = node.spawn(handles).unwrap();
            actor.tell(Work::Number(1)).unwrap();
            let reason = actor.join().unwrap();
            let ExitReason::Error(failure) = &reason else { panic!("{reason}") };
            assert_eq!(failure.message, message);
            assert!(failure.location.starts_with(&at), "{} is not {at}", failure.location);
            assert_eq!(stopping.lock().unwrap().as_ref(), Some(&reason));
        }
    });
}

#[test]
fn an_attempt_without_an_error_is_what_it_returns() {
    assert_eq!(Flow::attempt(|| Ok(Flow::Stop)), Flow::Stop);
    assert_eq!(Flow::attempt(|| parse("1").map(|_| Flow::Continue)), Flow::Continue);
}

// L13
#[test]
fn a_panic_anywhere_ends_its_actor_alone() {
    for workers in [1, 2, 8] {
        let _watchdog = Watchdog::new(format!("{workers} workers"));
        let log = Kept::default();
        let runtime = Runtime::builder().workers(workers);
        let node = Node::builder().runtime(runtime).log_to(log.clone()).build().unwrap();
        let (bystander, _) = keeper();
        let bystander = node.spawn(bystander).unwrap();

        let starting = Hooked::<u64>::new(|_, _| Flow::Continue).started(|(), _| panic!("in started"));
        let starting = node.spawn(starting).unwrap();
        let reason = starting.join().unwrap();
        assert_eq!(message_of(&reason), "in started");
        assert!(reason.to_string().contains("lifecycle.rs"), "{reason}");

        let notes = Notes::default();
        let handling = node.spawn(noting(&notes)).unwrap();
        handling.tell(act(|_| panic!("in handle"))).unwrap();
        let reason = handling.join().unwrap();
        assert_eq!(message_of(&reason), "in handle");
        assert!(reason.to_string().contains("lifecycle.rs"), "{reason}");
        assert_eq!(*notes.lock().unwrap(), ["started", "handle", "dropped"]);

        let stopping = Hooked::<u64>::new(|_, _| Flow::Stop).stopping(|_, _| panic!("in stopping"));
        let stopping = node.spawn(stopping).unwrap();
        stopping.tell(1).unwrap();
        assert_eq!(stopping.join().unwrap(), ExitReason::Normal);

        let dropping = Hooked::<u64>::new(|_, _| Flow::Stop).dropped(|| panic!("in drop"));
        let dropping = node.spawn(dropping).unwrap();
        dropping.tell(1).unwrap();
        assert_eq!(dropping.join().unwrap(), ExitReason::Normal);

        node.logger().flush().unwrap();
        let log = log.text();
        for (actor, what) in [(stopping, "in stopping"), (dropping, "in drop")] {
            let id = actor.id().to_string();
            let reports = log.lines().filter(|line| line.contains(&id) && line.contains(what)).count();
            assert_eq!(reports, 1, "of {what:?}: {log}");
        }
        bystander.drain();
        assert_eq!(bystander.join().unwrap(), ExitReason::Shutdown);
        spin_until(|| node.actor_count() == 0);
    }
}

// L20
#[test]
fn a_failure_while_it_drains_is_its_reason() {
    with_nodes(|node| {
        let (actor, _) = keeper();
        let actor = node.spawn(actor).unwrap();
        let key = block(&actor);
        actor.tell(act(|_| panic!("late"))).unwrap();
        actor.drain();
        key.open();
        assert_eq!(message_of(&actor.join().unwrap()), "late");
    });
}

/// A message whose destructor panics.
struct Spiteful(Arc<AtomicU64>);

impl Drop for Spiteful {
    fn drop(&mut self) {
        self.0.fetch_add(1, Ordering::Relaxed);
        if !std::thread::panicking() {
            panic!("in the destructor of a message");
        }
    }
}

// L14
#[test]
fn messages_whose_destructors_panic_do_not_hide_the_end_of_their_actor() {
    with_nodes(|node| {
        let before = node.dead_letter_count();
        let dropped = Arc::new(AtomicU64::new(0));
        let (key, gate) = gate();
        let mut gate = Some(gate);
        let (entered, has_entered) = mpsc::channel();
        let actor = Hooked::<Option<Spiteful>>::new(move |_, _| {
            entered.send(()).unwrap();
            gate.take().unwrap().pass();
            Flow::Stop
        });
        let actor = node.spawn(actor).unwrap();
        actor.tell(None).unwrap();
        has_entered.recv().unwrap();
        (0..5).for_each(|_| actor.tell(Some(Spiteful(dropped.clone()))).unwrap());
        key.open();
        assert_eq!(actor.join().unwrap(), ExitReason::Normal);
        spin_until(|| dropped.load(Ordering::Relaxed) == 5);
        assert_eq!(node.dead_letter_count() - before, 5);
        spin_until(|| node.actor_count() == 0);
    });
}

// L14
#[test]
fn a_sender_does_not_fail_for_the_message_that_its_own_displaces() {
    let (node, _clock) = local();
    for policy in [sinew_kernel::Policy::DropOldest, sinew_kernel::Policy::DropNewest] {
        let dropped = Arc::new(AtomicU64::new(0));
        let actor = Hooked::<Option<Spiteful>>::new(|message, _| {
            std::mem::forget(message);
            Flow::Continue
        });
        let actor = node.actor().mailbox(1).policy(policy).spawn(actor).unwrap();
        actor.tell(Some(Spiteful(dropped.clone()))).unwrap();
        actor.tell(Some(Spiteful(dropped.clone()))).unwrap();
        assert_eq!(dropped.load(Ordering::Relaxed), 1);
    }
    node.run_until_idle();
}

// L23
#[test]
fn an_actor_that_waits_for_its_own_end_gets_an_error_at_once() {
    with_nodes(|node| {
        let (joins, joined) = mpsc::channel();
        let actor = node.spawn(keeper().0).unwrap();
        let waits = act(move |ctx: &mut Ctx<Work>| {
            let me = ctx.me();
            joins.send([me.join(), me.join_timeout(Duration::from_secs(3600))]).unwrap();
            Flow::Stop
        });
        actor.tell(waits).unwrap();
        for result in joined.recv().unwrap() {
            assert!(matches!(result, Err(JoinError::Itself)), "{result:?}");
        }
        assert_eq!(actor.join().unwrap(), ExitReason::Normal);
    });
}

// L18
#[test]
fn children_end_with_their_parent_and_the_parent_is_told_of_theirs() {
    with_nodes(|node| {
        let (exits, told) = mpsc::channel::<Exit>();
        let (children, have) = mpsc::channel();
        let parent = Hooked::<Work>::new(|work, ctx| match work {
            Work::Do(body) => body(ctx),
            _ => Flow::Continue,
        })
        .started(move |(), ctx| {
            for _ in 0..3 {
                children.send(ctx.child().spawn(keeper().0).unwrap()).unwrap();
            }
            Flow::Continue
        })
        .exit_of(move |exit, _| {
            exits.send(exit).unwrap();
            Flow::Continue
        });
        let parent = node.spawn(parent).unwrap();
        let children: Vec<ActorRef<Work>> = (0..3).map(|_| have.recv().unwrap()).collect();
        children[0].tell(act(|_| panic!("a child"))).unwrap();
        let exit = told.recv().unwrap();
        assert_eq!((exit.actor, message_of(&exit.reason)), (children[0].id(), "a child"));
        children[1].tell(act(|_| Flow::Stop)).unwrap();
        let exit = told.recv().unwrap();
        let of_child =
            Exit { actor: children[1].id(), reason: ExitReason::Normal, relation: Relation::Child };
        assert_eq!(exit, of_child);
        parent.stop();
        assert_eq!(parent.join().unwrap(), ExitReason::Shutdown);
        assert_eq!(children[2].join().unwrap(), ExitReason::Shutdown);
        assert!(told.try_recv().is_err(), "once each");
    });
}

// L19
#[test]
fn a_child_whose_name_is_taken_is_refused_and_nobody_is_told_of_its_end() {
    let (node, _clock) = local();
    let lifecycle = node.lifecycle();
    let first = node.actor().name("first").spawn(keeper().0).unwrap();
    let exits = Arc::new(AtomicU64::new(0));
    let count = exits.clone();
    let parent = Hooked::<u64>::new(|_, _| Flow::Continue)
        .started(|(), ctx| {
            let refused = ctx.child().name("first").spawn(keeper().0).unwrap_err();
            assert!(matches!(refused, SpawnError::NameTaken(..)), "{refused}");
            Flow::Continue
        })
        .exit_of(move |_, _| {
            count.fetch_add(1, Ordering::Relaxed);
            Flow::Continue
        });
    let parent = node.spawn(parent).unwrap();
    node.run_until_idle();
    assert_eq!(exits.load(Ordering::Relaxed), 0);
    assert_eq!(node.actor_count(), 2);
    let seen: Vec<Lifecycle> = lifecycle.try_iter().collect();
    let started = |id| Lifecycle::Started(id);
    let named = Lifecycle::NameRegistered { actor: first.id(), name: "first".into() };
    assert_eq!(seen, [named, started(first.id()), started(parent.id())]);
}

// D5
#[test]
fn dead_letters_say_why() {
    let (node, _clock) = local();
    let letters = node.dead_letters();
    let (actor, _) = keeper();
    let actor = node.spawn(actor).unwrap();
    actor.tell(act(|_| panic!("early"))).unwrap();
    (0..3).for_each(|n| actor.tell(Work::Number(n)).unwrap());
    node.run_until_idle();
    let letters: Vec<_> = letters.try_iter().collect();
    assert_eq!(letters.len(), 3);
    for letter in letters {
        assert_eq!(letter.dest, actor.id());
        assert!(letter.type_name.contains("Work"), "{letter:?}");
        assert!(matches!(letter.reason, DeadLetterReason::Ended(reason) if message_of(&reason) == "early"));
    }
}

// L19
#[test]
fn nobody_is_told_of_a_child_whose_parent_ends() {
    let (node, _clock) = local();
    let events = node.lifecycle();
    let parent = Hooked::<u64>::new(|_, _| Flow::Continue).started(|(), _| Flow::Stop).stopping(|_, ctx| {
        let refused = ctx.child().name("ghost").spawn(keeper().0);
        assert!(matches!(refused, Err(SpawnError::ParentEnded(_))));
        assert_eq!(ctx.node().lookup("ghost"), None);
    });
    let parent = node.spawn(parent).unwrap().id();
    node.run_until_idle();
    let told: Vec<_> = std::iter::from_fn(|| events.try_recv().unwrap()).collect();
    let ended = Lifecycle::Ended { actor: parent, name: None, reason: ExitReason::Normal };
    assert_eq!(told, [Lifecycle::Started(parent), ended]);
}

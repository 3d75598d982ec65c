//! Supervisors: who is restarted, when, and how often.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, mpsc};
use std::time::Duration;

use sinew_chan::chan::oneshot;
use sinew_kernel::{
    Actor, ActorRef, Backoff, ChildSpec, ChildState, Ctx, DeadLetterReason, ExitReason, Failure, Flow, Kind,
    Message, Node, Process, Restart, Strategy, Unsent,
};
use sinew_sched::Runtime;

use crate::lab::{BIT, Lab, Log, Order, Probe, SECOND, error, three};

// S2
#[test]
fn each_strategy_restarts_the_one_or_all_or_the_rest() {
    for (strategy, expected) in [
        (Strategy::OneForOne, "+b"),
        (Strategy::OneForAll, "-c -a +a +b +c"),
        (Strategy::RestForOne, "-c +b +c"),
    ] {
        let lab = Lab::new();
        let supervisor = lab.start(three(&lab, strategy));
        let before: Vec<_> = lab.infos(&supervisor).into_iter().map(|info| info.id).collect();
        lab.log();
        lab.tell(&supervisor, "b", Order::Panic);
        assert_eq!(lab.log(), expected, "{strategy}");
        let after = lab.infos(&supervisor);
        let renewed: Vec<_> = after.iter().zip(&before).map(|(info, before)| info.id != *before).collect();
        let expected = expected.split(' ').filter(|what| what.starts_with('+')).count();
        assert_eq!(renewed.iter().filter(|renewed| **renewed).count(), expected, "a restart is a new actor");
        assert!(after.iter().all(|info| info.state == ChildState::Running));
    }
}

// E6
#[test]
fn a_child_is_restarted_on_a_node_with_room_for_it_alone() {
    const RESTARTS: u32 = 3;

    /// Fails at once, as often as the supervisor allows.
    struct Fails(u32, mpsc::Sender<()>);

    impl Actor for Fails {
        type Msg = ();

        fn started(&mut self, ctx: &mut Ctx<()>) -> Flow {
            if self.0 > RESTARTS {
                self.1.send(()).unwrap();
            } else {
                ctx.me().tell(()).unwrap();
            }
            Flow::Continue
        }

        fn handle(&mut self, (): (), _: &mut Ctx<()>) -> Flow {
            Flow::Exit(error())
        }
    }

    for workers in [1, 2, 8] {
        let runtime = Runtime::builder().workers(workers);
        let node = Node::builder().max_actors(2).runtime(runtime).build().unwrap();
        for _ in 0..50 {
            let (sender, runs) = mpsc::channel();
            let starts = AtomicU32::new(0);
            let child = ChildSpec::new("child", move || {
                Fails(starts.fetch_add(1, Ordering::Relaxed) + 1, sender.clone())
            });
            let supervisor = node.supervisor(Strategy::OneForOne).max_restarts(RESTARTS, 3_600 * SECOND);
            let supervisor = supervisor.child(child).spawn().unwrap();
            runs.recv().expect("the supervisor gave up: a start was refused");
            supervisor.stop();
            supervisor.join().unwrap();
        }
    }
}

// S3
#[test]
fn permanent_transient_and_temporary_children_are_restarted_as_they_are_called() {
    for reason in [ExitReason::Normal, ExitReason::Shutdown, error(), ExitReason::Killed] {
        let lab = Lab::new();
        let supervisor = lab.node.supervisor(Strategy::OneForOne).max_restarts(10, SECOND);
        let supervisor = supervisor
            .child(lab.child("permanent"))
            .child(lab.child("transient").restart(Restart::Transient))
            .child(lab.child("temporary").restart(Restart::Temporary));
        let supervisor = lab.start(supervisor);
        for key in ["permanent", "transient", "temporary"] {
            lab.tell(&supervisor, key, Order::Leave(reason.clone()));
        }
        let left: Vec<_> = lab.infos(&supervisor).into_iter().map(|info| (info.key, info.state)).collect();
        let transient = if reason.is_abnormal() { ChildState::Running } else { ChildState::Stopped };
        assert_eq!(left, [("permanent".into(), ChildState::Running), ("transient".into(), transient)]);
    }
}

// L28
#[test]
fn a_child_that_returns_an_error_is_restarted_as_after_a_panic() {
    let lab = Lab::new();
    let attempts = Arc::new(AtomicU32::new(0));
    let started = attempts.clone();
    let transient = ChildSpec::process("a", move |own: &mut Process<'_, ()>| {
        Flow::attempt(|| {
            if started.fetch_add(1, Ordering::SeqCst) < 2 {
                Err("not yet")?;
            }
            own.recv()?;
            Ok(Flow::Stop)
        })
    });
    let supervisor = lab.node.supervisor(Strategy::OneForOne).max_restarts(2, SECOND);
    let supervisor = lab.start(supervisor.child(transient.restart(Restart::Transient)));
    let info = lab.info(&supervisor, "a");
    assert_eq!((info.state, info.restarts), (ChildState::Running, 2));
    assert!(info.last_exit.unwrap().to_string().starts_with("error: not yet, at "));
}

// S4
#[test]
fn one_restart_too_many_stops_the_children_in_reverse_order_and_ends_the_supervisor() {
    let lab = Lab::new();
    let supervisor = lab.start(three(&lab, Strategy::OneForOne).max_restarts(2, SECOND));
    lab.tell(&supervisor, "a", Order::Panic);
    lab.tell(&supervisor, "b", Order::Panic);
    lab.pass(SECOND / 2);
    lab.log();
    lab.tell(&supervisor, "a", Order::Panic);
    assert_eq!(lab.log(), "-c -b");
    assert_eq!(lab.join(&supervisor), ExitReason::RestartsExceeded);
    assert_eq!(lab.node.actor_count(), 0);
}

// S5
#[test]
fn restarts_outside_the_window_do_not_count() {
    let lab = Lab::new();
    let supervisor = lab.start(three(&lab, Strategy::OneForOne).max_restarts(1, SECOND));
    for _ in 0..20 {
        lab.tell(&supervisor, "a", Order::Panic);
        lab.pass(SECOND + BIT);
    }
    assert_eq!(lab.info(&supervisor, "a").restarts, 20);
}

// S6
#[test]
fn a_supervisor_that_gives_up_escalates_to_its_own() {
    let lab = Lab::new();
    let (node, log) = (*lab.node, lab.log.clone());
    let inner = move || {
        let log = log.clone();
        let child = ChildSpec::new("leaf", move || Probe::new("leaf", &log));
        node.supervisor(Strategy::OneForOne).max_restarts(1, SECOND).child(child)
    };
    let outer = lab.node.supervisor(Strategy::OneForAll).max_restarts(1, SECOND);
    let outer = lab.start(outer.child(lab.child("first")).child(ChildSpec::supervisor("inner", inner)));
    let leaf = |lab: &Lab| {
        let outer = outer.clone();
        lab.run(move || {
            let leaf = outer.child_supervisor("inner").unwrap().child_ref::<Order>("leaf").unwrap();
            leaf.tell(Order::Panic).unwrap();
        });
    };
    assert_eq!(lab.log(), "+first +leaf");
    leaf(&lab);
    assert_eq!(lab.log(), "+leaf");
    leaf(&lab);
    assert_eq!(lab.log(), "-first +first +leaf", "the inner one gave up, the outer one restarted both");
    let info = lab.info(&outer, "inner");
    assert_eq!((info.last_exit, info.is_supervisor), (Some(ExitReason::RestartsExceeded), true));
    leaf(&lab);
    leaf(&lab);
    assert_eq!(lab.log(), "+leaf -first", "the outer one gives up too");
    assert_eq!(lab.join(&outer), ExitReason::RestartsExceeded);
    assert_eq!(lab.node.actor_count(), 0);
}

// S7
#[test]
fn a_restart_waits_for_the_backoff_which_grows_and_starts_over() {
    let lab = Lab::new();
    let backoff = Backoff { initial: SECOND, factor: 2, max: 3 * SECOND, reset: 60 * SECOND };
    let supervisor = lab.node.supervisor(Strategy::OneForOne).max_restarts(100, SECOND);
    let supervisor = lab.start(supervisor.child(lab.child("a").backoff(backoff)).child(lab.child("b")));
    lab.log();
    let fails = |delay: u32| {
        lab.tell(&supervisor, "a", Order::Panic);
        assert_eq!(lab.info(&supervisor, "a").state, ChildState::Waiting);
        lab.pass(delay * SECOND - BIT);
        assert_eq!(lab.log(), "");
        lab.pass(2 * BIT);
        assert_eq!(lab.log(), "+a");
    };
    fails(1);
    fails(2);
    fails(3);
    fails(3);
    lab.pass(60 * SECOND);
    fails(1);
}

#[test]
fn a_group_stops_at_once_and_starts_after_the_backoff() {
    let lab = Lab::new();
    let backoff = Backoff { initial: SECOND, ..Backoff::default() };
    let supervisor = lab.node.supervisor(Strategy::OneForAll).max_restarts(10, SECOND);
    let supervisor = lab.start(supervisor.child(lab.child("a").backoff(backoff)).child(lab.child("b")));
    lab.log();
    lab.tell(&supervisor, "a", Order::Panic);
    assert_eq!(lab.log(), "-b");
    assert_eq!(lab.states(&supervisor), [ChildState::Waiting; 2]);
    lab.pass(SECOND + BIT);
    assert_eq!(lab.log(), "+a +b");
}

#[test]
fn a_child_that_crashes_while_it_waits_to_be_stopped_with_others_is_not_counted() {
    let lab = Lab::new();
    let supervisor = lab.start(three(&lab, Strategy::OneForAll).max_restarts(1, SECOND));
    lab.log();
    let (supervisor_too, held) = (supervisor.clone(), oneshot::channel::<()>());
    lab.run(move || {
        let [a, b, c] = ["a", "b", "c"].map(|key| supervisor_too.child_ref::<Order>(key).unwrap());
        // The last one takes its time to stop; meanwhile the first one crashes.
        c.tell(Order::Block(held.1)).unwrap();
        b.tell(Order::Panic).unwrap();
        b.join().unwrap();
        a.tell(Order::Panic).unwrap();
        a.join().unwrap();
        drop(held.0);
    });
    assert_eq!(lab.log(), "-c +a +b +c");
    assert_eq!(lab.states(&supervisor), [ChildState::Running; 3]);
}

// D7, I6
#[test]
fn a_restart_hands_nothing_on() {
    let lab = Lab::new();
    let letters = lab.node.dead_letters();
    let backoff = Backoff { initial: SECOND, ..Backoff::default() };
    let supervisor = lab.node.supervisor(Strategy::OneForOne).max_restarts(10, SECOND);
    let supervisor = lab.start(supervisor.child(lab.child("a").mailbox(4).backoff(backoff)));
    let child = |lab: &Lab| {
        let supervisor = supervisor.clone();
        lab.run(move || supervisor.child_ref::<Order>("a").unwrap())
    };
    let first = child(&lab);
    let (told, waits) = (first.clone(), first.clone());
    lab.run(move || {
        told.tell(Order::Panic).unwrap();
        (0..3).for_each(|_| told.tell(Order::Leave(ExitReason::Normal)).unwrap());
        let waits = sinew_sched::spawn(move || waits.tell(Order::Leave(ExitReason::Normal)).unwrap_err().why);
        let why = waits.join().unwrap();
        assert!(matches!(why, Unsent::Stopped(ExitReason::Error(_))), "{why}");
    });
    let late = || first.tell(Order::Leave(ExitReason::Normal)).unwrap_err().why;
    assert!(matches!(late(), Unsent::Stopped(ExitReason::Error(_))), "it waits for its restart");
    lab.pass(SECOND + BIT);
    assert_eq!(lab.log(), "+a +a");
    let second = child(&lab);
    assert_ne!(second.id(), first.id());
    assert!(matches!(late(), Unsent::Stopped(ExitReason::Error(_))), "it was restarted");
    let letters: Vec<_> = letters.try_iter().collect();
    assert_eq!((letters.len(), lab.node.dead_letter_count()), (3, 3));
    for letter in letters {
        assert_eq!(letter.dest, first.id());
        assert!(matches!(letter.reason, DeadLetterReason::Ended(ExitReason::Error(_))), "{letter:?}");
    }
    let info = lab.node.snapshot().actors.into_iter().find(|info| info.id == second.id()).unwrap();
    assert_eq!((info.queued, info.high_water, info.accepted, info.handled), (0, 0, 0, 0));
    assert_eq!((info.capacity, info.restarts), (4, 1));
}

// S12
#[test]
fn a_name_leads_to_whoever_was_started_last() {
    let lab = Lab::new();
    let supervisor = lab.node.supervisor(Strategy::OneForOne).max_restarts(100, SECOND);
    let supervisor = lab.start(supervisor.child(lab.child("a").name("db")));
    for _ in 0..50 {
        let id = lab.info(&supervisor, "a").id;
        assert_eq!(lab.node.lookup("db"), id);
        assert_eq!(lab.node.lookup_as::<Order>("db").ok().map(|db| db.id()), id);
        lab.tell(&supervisor, "a", Order::Panic);
        assert_ne!(lab.info(&supervisor, "a").id, id);
    }
}

#[test]
fn a_temporary_child_that_is_stopped_with_others_is_gone() {
    let lab = Lab::new();
    let supervisor = lab.node.supervisor(Strategy::OneForAll).child(lab.child("a"));
    let supervisor = lab.start(supervisor.child(lab.child("b").restart(Restart::Temporary)));
    lab.log();
    lab.tell(&supervisor, "a", Order::Panic);
    assert_eq!(lab.log(), "-b +a");
    assert_eq!(lab.infos(&supervisor).len(), 1);
}

#[test]
fn raw_behaviours_and_processes_are_restarted_like_actors() {
    let lab = Lab::new();
    let made = Arc::new(AtomicU32::new(0));
    let factory = {
        let made = made.clone();
        move || made.fetch_add(1, Ordering::Relaxed)
    };
    let raw = ChildSpec::raw("raw", factory, |_: &mut u32, message: &Message, _: &mut Ctx| {
        if message.kind == Kind(1) { panic!("as ordered") } else { Flow::Continue }
    });
    let mut runs = 0;
    let process = ChildSpec::process("process", move |own: &mut Process<'_, ()>| {
        runs += 1;
        match own.recv().unwrap().message() {
            Some(()) => Flow::Exit(Failure::new(runs.to_string()).into()),
            None => Flow::Stop,
        }
    });
    let supervisor = lab.node.supervisor(Strategy::OneForOne).max_restarts(10, SECOND);
    let supervisor = lab.start(supervisor.child(raw).child(process));
    for round in 1..4 {
        let id = lab.info(&supervisor, "raw").id.unwrap();
        let (node, sup) = (*lab.node, supervisor.clone());
        lab.run(move || {
            node.send(id, Kind(1), Vec::new()).unwrap();
            sup.child_ref::<()>("process").unwrap().tell(()).unwrap();
        });
        assert_eq!(made.load(Ordering::Relaxed), round + 1);
        let last = lab.info(&supervisor, "process").last_exit.unwrap();
        assert_eq!(last.to_string(), format!("error: {round}"));
    }
    assert_eq!(lab.states(&supervisor), [ChildState::Running; 2]);
}

// S17
#[test]
fn a_child_that_spins_is_replaced_when_it_was_given_up() {
    struct Spins(Arc<AtomicU32>, mpsc::Sender<()>);
    impl Actor for Spins {
        type Msg = ();
        fn handle(&mut self, (): (), _: &mut Ctx<()>) -> Flow {
            self.1.send(()).unwrap();
            while self.0.load(Ordering::Relaxed) == 0 {
                std::hint::spin_loop();
            }
            Flow::Continue
        }
    }
    let runtime = Runtime::builder().workers(2);
    let node = Node::builder().runtime(runtime).stop_timeout(Duration::from_millis(20)).build().unwrap();
    let end = Arc::new(AtomicU32::new(0));
    let (shared, (spins, spinning)) = (end.clone(), mpsc::channel());
    let spec = ChildSpec::new("spins", move || Spins(shared.clone(), spins.clone()));
    let supervisor = node.supervisor(Strategy::OneForOne).child(spec).spawn().unwrap();
    supervisor.wait_started().unwrap();
    let first: ActorRef<()> = supervisor.child_ref("spins").unwrap();
    first.tell(()).unwrap();
    spinning.recv().unwrap();
    first.kill();
    assert_eq!(first.join().unwrap(), ExitReason::Killed);
    let second: ActorRef<()> = supervisor.child_ref("spins").unwrap();
    assert_ne!(first.id(), second.id());
    assert_eq!(node.zombies(), [first.id()]);
    end.store(1, Ordering::Relaxed);
}

#[test]
fn crashes_on_all_workers_at_once_leave_every_child_running() {
    for workers in [1, 2, 8] {
        let node = Node::builder().runtime(Runtime::builder().workers(workers)).build().unwrap();
        let supervisor = node.supervisor(Strategy::OneForOne).max_restarts(u32::MAX, SECOND);
        let keys: Vec<String> = (0..16).map(|n| n.to_string()).collect();
        let supervisor = keys.iter().fold(supervisor, |supervisor, key| {
            let spec = ChildSpec::new(key.as_str(), || Probe::new("", &Log::default()));
            supervisor.child(spec.name(key.as_str()))
        });
        let supervisor = supervisor.spawn().unwrap();
        supervisor.wait_started().unwrap();
        let rounds = if cfg!(debug_assertions) { 20 } else { 200 };
        let killers: Vec<_> = keys
            .into_iter()
            .map(|key| {
                let (node, supervisor) = (*node, supervisor.clone());
                node.handle().spawn(move || {
                    for round in 0..rounds {
                        let child: ActorRef<Order> = supervisor.child_ref(&key).unwrap();
                        match round % 3 {
                            0 => child.tell(Order::Panic).unwrap(),
                            1 => child.kill(),
                            _ => child.stop(),
                        }
                        child.join().unwrap();
                    }
                })
            })
            .collect();
        killers.into_iter().for_each(|killer| killer.join().unwrap());
        supervisor.stop();
        assert_eq!(supervisor.join().unwrap(), ExitReason::Shutdown);
        assert_eq!(node.shutdown(60 * SECOND).left, 0);
    }
}

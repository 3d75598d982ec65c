//! Models of a supervisor: its turns are run by a thread, and its children, which never run, end when they are asked to.

use std::time::Duration;

use sinew_core::{Backoff, ExitReason, Intensity, Restart, Strategy};
use sinew_sched::turn::{After, Turn};
use sinew_sync::{Arc, thread};

use super::command::Command;
use super::machine::Machine;
use super::{ChildSpec, SupervisorError, SupervisorRef};
use crate::actor::Flow;
use crate::cell::Cell;
use crate::end;
use crate::models::services::ring;
use crate::models::{Idle, model_of_node, node};
use crate::node::LocalNode;
use crate::process::Process;
use crate::run::Run;
use crate::start;
use crate::{ActorRef, stop};

/// A supervisor with a child, which has run for a turn.
fn supervisor(node: &LocalNode) -> (Run<Machine>, ActorRef<Command>) {
    supervisor_of(node, vec![ChildSpec::new("child", || Idle).restart(Restart::Permanent)])
}

fn supervisor_of(node: &LocalNode, specs: Vec<ChildSpec>) -> (Run<Machine>, ActorRef<Command>) {
    let intensity = Intensity { max_restarts: 9, window: Duration::from_secs(1) };
    let machine = Machine::new(Strategy::OneForOne, intensity, specs);
    let actor = node.actor().spawn_process(|_: &mut Process<'_, Command>| Flow::Stop).unwrap();
    let run = Run::new(actor.0.clone(), Some(machine));
    assert_eq!(run.turn(), After::Idle);
    (run, actor)
}

fn children(node: &LocalNode, supervisor: &ActorRef<Command>) -> Vec<Arc<Cell<u32>>> {
    let all = node.0.table.all().into_iter();
    let own = all.filter(|cell| cell.see().parent == Some(supervisor.id()));
    own.filter_map(|cell| cell.as_any().downcast().ok()).collect()
}

/// Runs it to its end. A child that was asked to end does so some turns later.
fn run(node: &LocalNode, run: &Run<Machine>, supervisor: &ActorRef<Command>) {
    let mut turns = 0;
    while run.turn() != After::Ended {
        turns += 1;
        for child in children(node, supervisor) {
            if child.asked().is_some() && turns % 3 == 0 {
                end::bury(&*child, &ExitReason::Shutdown);
            }
        }
        thread::yield_now();
    }
    run.ended(None);
}

/// A supervisor that is stopped while a child fails leaves none behind.
#[test]
fn supervisor_stop_against_restart() {
    model_of_node("supervisor_stop_against_restart", || {
        let node = node();
        let (turns, supervisor) = supervisor(node);
        let child = children(node, &supervisor).remove(0);
        let fails = thread::spawn(move || {
            start::started(&*child);
            end::bury(&*child, &ExitReason::Killed);
        });
        let stops = {
            let supervisor = supervisor.clone();
            thread::spawn(move || {
                stop::stop(&*supervisor.0, ExitReason::Shutdown);
                stop::stop(&*supervisor.0, ExitReason::Shutdown);
            })
        };
        run(node, &turns, &supervisor);
        fails.join().unwrap();
        stops.join().unwrap();
        assert_eq!(supervisor.join().unwrap(), ExitReason::Shutdown);
        assert_eq!(node.actor_count(), 0);
    });
}

/// A child whose delay is over while its supervisor is stopped is not started any more, although others still end.
#[test]
fn supervisor_stop_against_delayed_restart() {
    model_of_node("supervisor_stop_against_delayed_restart", || {
        let node = node();
        let second = Duration::from_secs(1);
        let backoff = Backoff { initial: second, ..Backoff::default() };
        let fails = ChildSpec::new("fails", || Idle).restart(Restart::Permanent).backoff(backoff);
        let (turns, supervisor) = supervisor_of(node, vec![fails, ChildSpec::new("other", || Idle)]);
        let child = children(node, &supervisor).remove(0);
        start::started(&*child);
        assert_eq!(turns.turn(), After::Idle);
        start::started(&*children(node, &supervisor).remove(1));
        end::bury(&*child, &ExitReason::Killed);
        assert_eq!(turns.turn(), After::Idle);
        let clock = {
            let (node, now) = (**node, node.0.handle.now() + 2 * second);
            thread::spawn(move || ring(node, now))
        };
        let stops = {
            let supervisor = supervisor.clone();
            thread::spawn(move || stop::stop(&*supervisor.0, ExitReason::Shutdown))
        };
        run(node, &turns, &supervisor);
        clock.join().unwrap();
        stops.join().unwrap();
        assert_eq!(node.actor_count(), 0);
    });
}

/// Whoever has a child started by a supervisor that is stopped is answered, and no child is left behind.
#[test]
fn supervisor_stop_against_start_of_child() {
    model_of_node("supervisor_stop_against_start_of_child", || {
        let node = node();
        let (turns, supervisor) = supervisor(node);
        let asks = {
            let supervisor = SupervisorRef(supervisor.clone());
            thread::spawn(move || supervisor.start_child(ChildSpec::new("other", || Idle)))
        };
        let stops = {
            let supervisor = supervisor.clone();
            thread::spawn(move || stop::stop(&*supervisor.0, ExitReason::Shutdown))
        };
        run(node, &turns, &supervisor);
        stops.join().unwrap();
        let refused = asks.join().unwrap().unwrap_err();
        let ending = matches!(
            refused,
            SupervisorError::Ending | SupervisorError::Failed(_) | SupervisorError::Unanswered(_)
        );
        assert!(ending, "{refused}");
        assert_eq!(node.actor_count(), 0);
    });
}

//! Models of the end of an actor against those who have to do with it.

use std::collections::VecDeque;
use std::time::Duration;

use sinew_core::ExitReason;
use sinew_sync::atomic::{AtomicBool, Ordering};
use sinew_sync::{Arc, thread};

use super::{Idle, exits, model_of_node, node, node_for};
use crate::ActorRef;
use crate::actor::{Actor, Flow};
use crate::ask::Reply;
use crate::cell::{AnyCell, Children, Phase};
use crate::ctx::Ctx;
use crate::end::{bury, end_without, give_up};
use crate::error::{AskError, SpawnError};
use crate::event::Relation;
use crate::links::{demonitor, link, monitor};
use crate::mailbox::Taken;

/// Has an actor end, by a thread of its own.
fn ends<M: Send + 'static>(actor: &ActorRef<M>) -> thread::JoinHandle<()> {
    let actor = actor.clone();
    thread::spawn(move || bury(&*actor.0, &ExitReason::Killed))
}

/// Waits until the end of an actor has begun: random schedules seldom come to what happens late in it.
fn leaving<M: Send + 'static>(actor: &ActorRef<M>) {
    while actor.0.lock().life.phase < Phase::Leaving {
        thread::yield_now();
    }
}

/// One that links and ends meanwhile: the other is told once, or there is no link.
#[test]
fn end_of_whoever_links() {
    model_of_node("end_of_whoever_links", || {
        let node = node();
        let (one, other) = (node.spawn(Idle).unwrap(), node.spawn(Idle).unwrap());
        one.0.lock().life.more();
        other.0.lock().life.more().traps = true;
        let end = ends(&one);
        leaving(&one);
        let linked = link(node.0, one.id(), other.id()).is_ok();
        end.join().unwrap();
        let told = exits(&other).iter().filter(|exit| exit.relation == Relation::Link).count();
        assert!(told <= 1 && (!linked || told == 1));
        assert!(other.0.lock().life.more().links.is_empty());
    });
}

/// A monitor of one that is leaving tells of its end once, and nothing is left of it.
#[test]
fn end_against_monitor() {
    model_of_node("end_against_monitor", || {
        let node = node();
        let (one, other) = (node.spawn(Idle).unwrap(), node.spawn(Idle).unwrap());
        other.0.lock().life.more();
        let end = ends(&other);
        leaving(&other);
        monitor(&*one.0, other.id());
        end.join().unwrap();
        assert_eq!(exits(&one).len(), 1);
        assert!(one.0.lock().life.more().monitored.is_empty());
    });
}

/// One that monitors and ends leaves nothing with whom it monitors.
#[test]
fn end_of_whoever_monitors() {
    model_of_node("end_of_whoever_monitors", || {
        let node = node();
        let (one, other) = (node.spawn(Idle).unwrap(), node.spawn(Idle).unwrap());
        monitor(&*one.0, other.id());
        bury(&*one.0, &ExitReason::Killed);
        assert!(other.0.lock().life.more().monitors.is_empty());
    });
}

/// A monitor that is taken back tells nothing, and one that is not tells once.
#[test]
fn end_against_demonitor() {
    model_of_node("end_against_demonitor", || {
        let node = node();
        let (one, other) = (node.spawn(Idle).unwrap(), node.spawn(Idle).unwrap());
        let id = monitor(&*one.0, other.id());
        let end = ends(&other);
        let taken_back = demonitor(&*one.0, id);
        end.join().unwrap();
        assert_eq!(exits(&one).len(), if taken_back { 0 } else { 1 });
    });
}

/// One that is given up and ends at this moment: its end is told once, it is no zombie, and what it leaves behind is a dead letter.
#[test]
fn end_against_give_up() {
    model_of_node("end_against_give_up", || {
        let node = node();
        let (one, other) = (node.spawn(Idle).unwrap(), node.spawn(Idle).unwrap());
        other.tell(1).unwrap();
        monitor(&*one.0, other.id());
        let cell = node.0.table.get(other.id()).unwrap();
        let gives_up = thread::spawn(move || give_up(&cell));
        bury(&*other.0, &ExitReason::Killed);
        gives_up.join().unwrap();
        assert_eq!(exits(&one).len(), 1);
        assert_eq!(node.zombies(), []);
        assert_eq!(node.dead_letter_count(), 1);
    });
}

/// Whoever finds an actor dead finds its name free, and its parent told.
#[test]
fn end_is_seen_when_all_is_done() {
    model_of_node("end_is_seen_when_all_is_done", || {
        let node = node();
        let parent = node.spawn(Idle).unwrap();
        let child = node.actor().child_of(parent.id()).name("it").spawn(Idle).unwrap();
        let end = ends(&child);
        while !child.is_dead() {
            thread::yield_now();
        }
        assert!(node.lookup("it").is_none());
        assert_eq!(exits(&parent).len(), 1);
        assert!(child.0.lock().life.task.is_none());
        end.join().unwrap();
    });
}

/// Whoever finds an actor dead finds its id unknown and its place free, also if nobody has to do with the actor.
#[test]
fn end_is_seen_when_the_id_is_unknown() {
    model_of_node("end_is_seen_when_the_id_is_unknown", || {
        for is_plain in [true, false] {
            let node = node_for(1);
            let actor = node.spawn(Idle).unwrap();
            if !is_plain {
                actor.0.lock().life.more(); // what there is to free
            }
            let end = ends(&actor);
            while !actor.is_dead() {
                thread::yield_now();
            }
            assert!(!node.0.table.has(actor.id()));
            assert!(node.spawn(Idle).is_ok(), "there is room");
            end.join().unwrap();
        }
    });
}

/// Whoever is told of an end finds the id unknown and the place free: who waits for it, its parent, and who monitors it.
#[test]
fn end_is_told_when_the_id_is_unknown() {
    model_of_node("end_is_told_when_the_id_is_unknown", || {
        let actor = node().spawn(Idle).unwrap();
        let end = ends(&actor);
        actor.join().unwrap();
        assert!(!actor.node().0.table.has(actor.id()));
        end.join().unwrap();

        let node = node_for(2);
        let parent = node.spawn(Idle).unwrap();
        let child = node.actor().child_of(parent.id()).spawn(Idle).unwrap();
        monitor(&*parent.0, child.id());
        let end = ends(&child);
        for _ in ["child", "monitor"] {
            while parent.0.lock().mail.take_event().is_none() {
                thread::yield_now();
            }
            assert!(!node.0.table.has(child.id()));
        }
        assert!(node.spawn(Idle).is_ok(), "there is room");
        end.join().unwrap();
    });
}

/// Whoever waits for an end is told of it.
#[test]
fn end_against_join() {
    model_of_node("end_against_join", || {
        let actor = node().spawn(Idle).unwrap();
        let end = ends(&actor);
        assert_eq!(actor.join().unwrap(), ExitReason::Killed);
        end.join().unwrap();
    });
}

/// A child of one that ends is refused, or asked to end as well; the end comes at any time, or when the child is in the table.
#[test]
fn end_of_parent_against_spawn() {
    model_of_node("end_of_parent_against_spawn", || {
        for actors in [1, 2] {
            let node = node();
            let parent = node.spawn(Idle).unwrap();
            let ends = {
                let (node, parent) = (**node, parent.clone());
                thread::spawn(move || {
                    while node.actor_count() < actors {
                        thread::yield_now();
                    }
                    let parent: Arc<dyn AnyCell> = parent.0.clone();
                    drop(end_without(&parent, Children::Leave));
                })
            };
            let child = node.actor().child_of(parent.id()).spawn(Idle);
            ends.join().unwrap();
            match child {
                Ok(child) => assert_eq!(child.0.asked(), Some(ExitReason::Shutdown)),
                Err(error) => assert!(matches!(error, SpawnError::ParentEnded(_))),
            }
        }
    });
}

/// A parent whose children end meanwhile waits for the last of them, and no longer.
#[test]
fn end_waits_for_children() {
    model_of_node("end_waits_for_children", || {
        let node = node();
        let parent = node.spawn(Idle).unwrap();
        let children = [(); 2].map(|()| node.actor().child_of(parent.id()).spawn(Idle).unwrap());
        let end = ends(&parent);
        let children = children.map(|child| (ends(&child), child));
        end.join().unwrap();
        assert!(parent.is_dead());
        assert!(children.iter().all(|(_, child)| child.is_dead()));
        children.into_iter().for_each(|(end, _)| end.join().unwrap());
    });
}

/// A parent does not wait for a child that was refused.
#[test]
fn end_against_refused_child() {
    model_of_node("end_against_refused_child", || {
        let node = node();
        let parent = node.actor().name("parent").spawn(Idle).unwrap();
        let end = ends(&parent);
        assert!(node.actor().child_of(parent.id()).name("parent").spawn(Idle).is_err());
        end.join().unwrap();
    });
}

/// What a sender was told to be in is handled or a dead letter, also if the sender had to wait.
#[test]
fn end_against_senders() {
    model_of_node("end_against_senders", || {
        let node = node();
        let actor = node.actor().mailbox(1).spawn(Idle).unwrap();
        let senders = [(); 2].map(|()| {
            let actor = actor.clone();
            thread::spawn(move || actor.tell(1).is_ok())
        });
        bury(&*actor.0, &ExitReason::Killed);
        let accepted = senders.map(|sender| u64::from(sender.join().unwrap()));
        assert_eq!(node.dead_letter_count(), accepted[0] + accepted[1]);
    });
}

/// One that is given up in the middle of a batch: what it has taken and not begun is a dead letter.
#[test]
fn end_against_put_back() {
    model_of_node("end_against_put_back", || {
        let node = node();
        let actor = node.spawn(Idle).unwrap();
        actor.tell(1).unwrap();
        actor.tell(2).unwrap();
        let end = ends(&actor);
        let mut batch = VecDeque::new();
        if let Taken::Batch = actor.0.take(&mut batch, true) {
            actor.0.put_back(batch);
        }
        end.join().unwrap();
        assert_eq!(node.dead_letter_count(), 2);
    });
}

/// One that ends before it has its task keeps none.
#[test]
fn end_against_spawn() {
    model_of_node("end_against_spawn", || {
        let node = node();
        let ends = {
            let node = **node;
            thread::spawn(move || {
                let cell = loop {
                    match node.lookup("it").and_then(|id| node.0.table.get(id)) {
                        Some(cell) => break cell,
                        None => thread::yield_now(),
                    }
                };
                bury(&*cell, &ExitReason::Killed);
            })
        };
        let actor = node.actor().name("it").spawn(Idle).unwrap();
        ends.join().unwrap();
        assert!(actor.0.lock().life.task.is_none());
    });
}

/// One that is killed before it has its task is killed all the same: it never starts.
#[test]
fn kill_against_spawn() {
    struct Starts(Arc<AtomicBool>);

    impl Actor for Starts {
        type Msg = u32;

        fn started(&mut self, _: &mut Ctx<u32>) -> Flow {
            self.0.store(true, Ordering::Relaxed);
            Flow::Continue
        }

        fn handle(&mut self, _: u32, _: &mut Ctx<u32>) -> Flow {
            Flow::Continue
        }
    }

    model_of_node("kill_against_spawn", || {
        let node = node();
        let killer = {
            let node = **node;
            thread::spawn(move || {
                while !node.lookup("it").is_some_and(|id| node.kill(id)) {
                    thread::yield_now();
                }
            })
        };
        let starts = Arc::new(AtomicBool::new(false));
        let actor = node.actor().name("it").spawn(Starts(starts.clone())).unwrap();
        killer.join().unwrap();
        node.run_until_idle();
        assert_eq!(actor.join().unwrap(), ExitReason::Killed);
        assert!(!starts.load(Ordering::Relaxed));
    });
}

struct Oracle;

impl Actor for Oracle {
    type Msg = Reply<u32>;

    fn handle(&mut self, _: Reply<u32>, _: &mut Ctx<Reply<u32>>) -> Flow {
        Flow::Continue
    }
}

fn questions_are_answered(name: &'static str, capacity: u32) {
    model_of_node(name, move || {
        let actor = node().actor().mailbox(capacity).spawn(Oracle).unwrap();
        let asks: Vec<_> = (0..2)
            .map(|_| {
                let actor = actor.clone();
                thread::spawn(move || actor.ask_timeout(|reply| reply, Duration::MAX))
            })
            .collect();
        let mut answered = 0;
        if let Taken::One(entry, _) = actor.0.take(&mut VecDeque::new(), false) {
            actor.0.head.begin();
            entry.open().unwrap().send(42);
            answered += 1;
        }
        bury(&*actor.0, &ExitReason::Killed);
        for ask in asks {
            match ask.join().unwrap() {
                Ok(answer) => {
                    assert_eq!(answer, 42);
                    answered -= 1;
                }
                Err(error) => assert!(matches!(error, AskError::Stopped(ExitReason::Killed)), "{error}"),
            }
        }
        assert_eq!(answered, 0);
    });
}

/// A question is answered, or its actor's end is the answer, wherever the question is by then.
#[test]
fn end_against_ask() {
    questions_are_answered("end_against_ask", 8);
}

/// The same with senders that wait for room.
#[test]
fn end_against_ask_that_waits_for_room() {
    questions_are_answered("end_against_ask_that_waits_for_room", 1);
}

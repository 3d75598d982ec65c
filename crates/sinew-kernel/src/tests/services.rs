//! Models of what a node keeps for its actors: names, groups, timers, the table, and its own end.

use std::task::{Wake, Waker};
use std::time::Duration;

use sinew_core::payload::{SystemPayload, Timer as Expired};
use sinew_core::{ExitReason, Instant};
use sinew_sync::{Arc, Mutex, thread};

use super::{Idle, model_of_node, node};
use crate::ActorRef;
use crate::cell::Lane;
use crate::ctx::Ctx;
use crate::end::bury;
use crate::event::Event;
use crate::node::Node;
use crate::registry::NameChange;
use crate::shared::NodeRef;

const SECOND: Duration = Duration::from_secs(1);
/// A time that does not come.
const FAR: Instant = Instant::from_nanos(u64::MAX);

/// Has an actor end while it, or somebody else, does something `meanwhile`.
fn ends_while(actor: &ActorRef<u32>, meanwhile: impl FnOnce()) {
    let cell = actor.0.clone();
    let end = thread::spawn(move || bury(&*cell, &ExitReason::Killed));
    meanwhile();
    end.join().unwrap();
}

/// No name outlives its actor.
#[test]
fn name_against_end() {
    model_of_node("name_against_end", || {
        let node = **node();
        let actor = node.spawn(Idle).unwrap();
        ends_while(&actor, || {
            let _ = node.register("it", actor.id());
            let _ = node.mount("/it", actor.id());
        });
        assert_eq!((node.lookup("it"), node.lookup("/it/below")), (None, None));
    });
}

/// Of two who want a name, one gets it.
#[test]
fn name_is_given_once() {
    model_of_node("name_is_given_once", || {
        let node = **node();
        let (one, other) = (node.spawn(Idle).unwrap().id(), node.spawn(Idle).unwrap().id());
        let rival =
            thread::spawn(move || [node.register("it", other).is_ok(), node.mount("/it", other).is_ok()]);
        let own = [node.register("it", one).is_ok(), node.mount("/it", one).is_ok()];
        for (own, rivals) in own.into_iter().zip(rival.join().unwrap()) {
            assert_ne!(own, rivals);
        }
    });
}

/// Who subscribes to names is told of each, once: among those that there are, or as a change.
#[test]
fn name_is_told_once() {
    model_of_node("name_is_told_once", || {
        let node = **node();
        let actor = node.spawn(Idle).unwrap().id();
        let registers = thread::spawn(move || node.register("it", actor).unwrap());
        let (mut told, changes) = node.0.names.subscribe();
        told.retain(|known| matches!(known, NameChange::Name(known) if known.actor == actor));
        registers.join().unwrap();
        assert!(node.unregister("it").is_some());
        while let Ok(Some(change)) = changes.try_recv() {
            told.push(change);
        }
        assert!(matches!(&told[..], [NameChange::Name(_), NameChange::NoName(_)]), "{told:?}");
    });
}

/// A registration wakes the callers that wait for the name.
#[test]
fn name_is_waited_for() {
    model_of_node("name_is_waited_for", || {
        let node = **node();
        let actor = node.spawn(Idle).unwrap().id();
        for text in ["it", "/it"] {
            let registers = thread::spawn(move || node.register(text, actor).unwrap());
            assert!(node.0.names.wait(node.0, text, None, FAR).unwrap());
            assert_eq!(node.lookup(text), Some(actor));
            registers.join().unwrap();
        }
    });
}

/// A node that starts no more actors wakes the callers that wait for a name.
#[test]
fn name_wait_against_shutdown() {
    model_of_node("name_wait_against_shutdown", || {
        let node = **node();
        let closes = thread::spawn(move || node.ask_all());
        while node.0.names.wait(node.0, "it", None, FAR).unwrap() {}
        closes.join().unwrap();
    });
}

/// After a move, a reference by name leads to the actor that has the name.
#[test]
fn named_reference_follows_a_move() {
    model_of_node("named_reference_follows_a_move", || {
        let node = **node();
        let [one, other] = [(); 2].map(|()| node.spawn(Idle).unwrap().id());
        node.register("it", one).unwrap();
        let named = node.named::<u32>("it");
        let moves = thread::spawn(move || {
            node.unregister("it").unwrap();
            node.register("it", other).unwrap();
        });
        let seen = named.current(None).unwrap().map(|actor| actor.id());
        assert!([None, Some(one), Some(other)].contains(&seen));
        moves.join().unwrap();
        assert_eq!(named.current(None).unwrap().map(|actor| actor.id()), Some(other));
    });
}

/// Whoever asks for the log actor gets the same.
#[test]
fn log_actor_is_one() {
    model_of_node("log_actor_is_one", || {
        let node = **node();
        let other = thread::spawn(move || node.logger().actor());
        let own = node.logger().actor().unwrap();
        assert_eq!((other.join().unwrap(), node.lookup("log")), (Ok(own), Some(own)));
    });
}

/// No member of a group outlives its actor.
#[test]
fn group_against_end() {
    model_of_node("group_against_end", || {
        let node = **node();
        let actor = node.spawn(Idle).unwrap();
        ends_while(&actor, || {
            let _ = Ctx::new(&actor.0).join_group("room");
        });
        assert_eq!(node.group("room").members(), []);
    });
}

/// No timer outlives its actor.
#[test]
fn timer_against_end() {
    model_of_node("timer_against_end", || {
        let node = **node();
        let actor = node.spawn(Idle).unwrap();
        ends_while(&actor, || {
            let _ = Ctx::new(&actor.0).set_timer(SECOND, true);
        });
        assert_eq!(node.0.timers.len(&node.0.table), 0);
    });
}

/// The report of a save is dropped by its actor's end, and never by the writer thread of the store.
#[test]
fn save_report_against_end() {
    struct Report(Arc<Mutex<Vec<thread::ThreadId>>>);
    impl Drop for Report {
        fn drop(&mut self) {
            self.0.lock().push(thread::current().id());
        }
    }
    model_of_node("save_report_against_end", || {
        let node = **node();
        let actor = node.spawn(Idle).unwrap();
        let dropped_by = Arc::new(Mutex::new(Vec::new()));
        let report = Report(dropped_by.clone());
        let save = Ctx::new(&actor.0).begin_save(move |_| {
            drop(report);
            1
        });
        let store = thread::spawn(move || save.settle(Ok(())));
        bury(&*actor.0, &ExitReason::Killed);
        store.join().unwrap();
        assert_eq!(*dropped_by.lock(), [thread::current().id()]);
    });
}

/// The clock comes to everything that is due at this time.
pub(crate) fn ring(node: NodeRef, now: Instant) {
    while let Some(fire) = node.0.timers.pop(now) {
        crate::clock::fire(node.0, fire);
    }
}

/// What timers have told an actor, which comes to it now: how often they have expired.
fn expired(actor: &ActorRef<u32>) -> u64 {
    let mut expired = 0;
    loop {
        let event = actor.0.lock().mail.take_event();
        let Some(Lane::Event(Event::Notice(notice))) = event else { return expired };
        if let Some(message) = notice.message(&*actor.0) {
            expired += Expired::decode(message.payload.bytes()).unwrap().expirations;
            actor.0.owe(notice);
            actor.0.settle();
        }
    }
}

/// A periodic timer that is cancelled is over, whatever the clock does at that moment.
#[test]
fn timer_cancelled_or_rung() {
    model_of_node("timer_cancelled_or_rung", || {
        let node = **node();
        let now = node.0.handle.now();
        let actor = node.spawn(Idle).unwrap();
        let clock = thread::spawn(move || {
            ring(node, now + SECOND * 5);
            ring(node, now + SECOND * 9);
        });
        let ctx = Ctx::new(&actor.0);
        let timer = ctx.set_timer(SECOND, true).unwrap();
        assert!(ctx.cancel_timer(timer));
        assert_eq!(expired(&actor), 0);
        clock.join().unwrap();
        assert_eq!(node.0.timers.len(&node.0.table), 0);
    });
}

/// Each time that a timer expires is told, and there is one notice in the lane at most.
#[test]
fn timer_counts_all() {
    model_of_node("timer_counts_all", || {
        let node = **node();
        let actor = node.spawn(Idle).unwrap();
        let now = node.0.handle.now();
        Ctx::new(&actor.0).set_timer(SECOND, true).unwrap();
        let clock = thread::spawn(move || {
            for second in 1..4 {
                ring(node, now + SECOND * second + SECOND / 2);
            }
        });
        let mut told = 0;
        for _ in 0..2 {
            assert!(actor.0.lock().mail.events().count() <= 1);
            told += expired(&actor);
        }
        clock.join().unwrap();
        assert!(actor.0.lock().mail.events().count() <= 1);
        assert_eq!(told + expired(&actor), 3);
    });
}

struct Flag(sinew_sync::statics::AtomicBool);

impl Wake for Flag {
    fn wake(self: std::sync::Arc<Self>) {
        self.0.store(true, sinew_sync::statics::Ordering::Relaxed);
    }
}

/// The clock sees what is to happen when it looks, or is woken.
#[test]
fn clock_sleeps_or_is_woken() {
    model_of_node("clock_sleeps_or_is_woken", || {
        let node = **node();
        let actor = node.spawn(Idle).unwrap();
        let setter = {
            let actor = actor.clone();
            thread::spawn(move || Ctx::new(&actor.0).set_timer(SECOND, false))
        };
        let flag = std::sync::Arc::new(Flag(false.into()));
        let first = node.0.timers.first(&Waker::from(flag.clone()));
        setter.join().unwrap().unwrap();
        assert!(first.is_some() || flag.0.load(sinew_sync::statics::Ordering::Relaxed));
    });
}

/// No id is used twice.
#[test]
fn table_gives_an_id_once() {
    model_of_node("table_gives_an_id_once", || {
        let node = **node();
        let come_and_go = move || {
            [(); 2].map(|()| {
                let id = node.spawn(Idle).unwrap().id();
                node.0.table.remove(id);
                id
            })
        };
        let others = [thread::spawn(come_and_go), thread::spawn(come_and_go)];
        let mut ids = come_and_go().to_vec();
        ids.extend(others.into_iter().flat_map(|other| other.join().unwrap()));
        ids.sort_unstable();
        ids.dedup();
        assert_eq!(ids.len(), 6);
        assert_eq!(node.actor_count(), 0);
    });
}

/// There are never more actors than there may be.
#[test]
fn table_has_room_for_one() {
    model_of_node("table_has_room_for_one", || {
        let node: NodeRef =
            **Box::leak(Box::new(Node::builder().max_actors(1).build_current_thread().unwrap()));
        let other = thread::spawn(move || node.spawn(Idle).is_ok());
        assert_ne!(node.spawn(Idle).is_ok(), other.join().unwrap());
    });
}

/// Whoever starts an actor on a node that shuts down is refused, or the actor is asked to end.
#[test]
fn shutdown_against_spawn() {
    model_of_node("shutdown_against_spawn", || {
        let node = **node();
        let closes = thread::spawn(move || node.ask_all());
        let spawned = [(); 4].map(|()| node.spawn(Idle));
        closes.join().unwrap();
        for actor in spawned.into_iter().flatten() {
            assert_eq!(actor.0.asked(), Some(ExitReason::Shutdown));
        }
    });
}

/// Whoever waits until there are no actors is told, or sees that there are none.
#[test]
fn shutdown_against_end() {
    model_of_node("shutdown_against_end", || {
        let node = **node();
        let actors = [(); 2].map(|()| node.spawn(Idle).unwrap());
        let ends = actors.clone().map(|actor| {
            thread::spawn(move || {
                while actor.0.asked().is_none() {
                    thread::yield_now();
                }
                bury(&*actor.0, &ExitReason::Killed);
            })
        });
        node.stop_all(Duration::MAX);
        assert!(actors.iter().all(ActorRef::is_dead));
        ends.into_iter().for_each(|end| end.join().unwrap());
        node.stop_all(Duration::MAX);
    });
}

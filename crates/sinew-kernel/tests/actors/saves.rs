//! Saves of an actor that report their outcome by a message.

use std::sync::mpsc;
use std::time::Duration;

use sinew_kernel::store::{Store, StoreError};
use sinew_kernel::{ActorRef, AskError, Ctx, ExitReason, Flow, Node, Policy, Process, Received, Reply};

use crate::kit::{Hooked, Work, act, keeper, with_nodes};
use crate::store_support::Folder;

fn save(ctx: &Ctx<Work>, number: u64) {
    ctx.save_then(&number.to_string(), number.to_le_bytes(), move |saved| {
        saved.unwrap();
        Work::Number(number)
    })
    .unwrap();
}

// V4
#[test]
fn the_outcomes_of_saves_come_once_and_in_the_order_of_the_saves() {
    with_nodes(|in_memory| {
        let folder = Folder::new();
        let in_file = Node::builder().store(Store::open(folder.file()).unwrap()).build().unwrap();
        for node in [in_memory, &in_file] {
            let (saves, told) = keeper();
            let actor = node.actor().name("it").spawn(saves).unwrap();
            for first in [0, 100, 200] {
                let many = act(move |ctx| {
                    (first..first + 100).for_each(|number| save(ctx, number));
                    Flow::Continue
                });
                actor.tell(many).unwrap();
            }
            actor.drain();
            actor.join().unwrap();
            assert_eq!(*told.lock().unwrap(), (0..300).collect::<Vec<u64>>());
            assert_eq!(node.store().of("it").keys("").unwrap().len(), 300);
        }
    });
}

type End = fn(&mut Ctx<Work>) -> Flow;

// V5
#[test]
fn what_an_actor_has_queued_is_saved_although_the_actor_ends() {
    let ends: [(&str, End); 4] = [
        ("stops", |_| Flow::Stop),
        ("fails", |_| panic!("on purpose")),
        ("is stopped", |ctx| {
            ctx.me().stop();
            Flow::Continue
        }),
        ("is killed", |ctx| {
            ctx.me().kill();
            Flow::Continue
        }),
    ];
    let folder = Folder::new();
    let node = Node::builder().store(Store::open(folder.file()).unwrap()).build().unwrap();
    for (name, end) in ends {
        let actor = node.actor().name(name).spawn(keeper().0).unwrap();
        let ends = act(move |ctx| {
            (0..50).for_each(|number| save(ctx, number));
            end(ctx)
        });
        actor.tell(ends).unwrap();
        actor.join().unwrap();
    }
    let _ = node.shutdown(Duration::from_secs(60));
    let store = Store::open(folder.file()).unwrap();
    for (name, _) in ends {
        assert_eq!(store.of(name).keys("").unwrap().len(), 50, "one that {name}");
    }
}

// V6
#[test]
fn an_actor_that_is_drained_is_told_of_all_its_saves() {
    let folder = Folder::new();
    let node = Node::builder().store(Store::open(folder.file()).unwrap()).build().unwrap();
    for round in 0..20 {
        let (saves, told) = keeper();
        let actor = node.actor().name("it").spawn(saves).unwrap();
        let one = act(move |ctx| {
            save(ctx, round);
            Flow::Continue
        });
        actor.tell(one).unwrap();
        actor.drain();
        assert_eq!(actor.join().unwrap(), ExitReason::Shutdown);
        assert_eq!(*told.lock().unwrap(), [round]);
    }
}

#[test]
fn a_question_that_waits_for_a_save_is_answered_with_the_reason_if_the_actor_ends() {
    let node = Node::new();
    let handle = |reply: Option<Reply<()>>, ctx: &mut Ctx<Option<Reply<()>>>| {
        ctx.save_then("k", "v", move |_| reply).unwrap();
        Flow::Stop
    };
    let actor = node.actor().name("it").spawn(Hooked::new(handle)).unwrap();
    let error = actor.ask(Some).unwrap_err();
    assert!(matches!(error, AskError::Stopped(ExitReason::Normal)), "{error}");
}

// V4
#[test]
fn a_full_mailbox_does_not_stop_the_outcome_of_a_save() {
    let node = Node::new();
    let (saves, told) = keeper();
    let actor = node.actor().name("it").mailbox(1).policy(Policy::Refuse).spawn(saves).unwrap();
    let fills = act(|ctx| {
        save(ctx, 1);
        ctx.me().try_tell(Work::Number(2)).unwrap();
        assert!(ctx.me().try_tell(Work::Number(3)).is_err());
        ctx.me().drain();
        Flow::Continue
    });
    actor.tell(fills).unwrap();
    actor.join().unwrap();
    assert_eq!(*told.lock().unwrap(), [1, 2]);
}

#[test]
fn a_save_that_is_not_queued_is_an_error_at_once_and_reports_nothing() {
    let node = Node::new();
    let refused = |actor: ActorRef<Work>, key: &'static str| {
        let (sender, receiver) = mpsc::channel();
        let (reported, reports) = mpsc::channel();
        let one = act(move |ctx| {
            let saved = ctx.save_then(key, "v", move |saved| {
                reported.send(saved).unwrap();
                Work::Number(1)
            });
            sender.send(saved).unwrap();
            Flow::Continue
        });
        actor.tell(one).unwrap();
        let saved = receiver.recv().unwrap();
        assert!(reports.recv().is_err(), "what would report is dropped");
        saved.unwrap_err()
    };
    let unnamed = node.spawn(keeper().0).unwrap();
    assert!(matches!(refused(unnamed, "k"), StoreError::BadOwner(_)));
    let named = node.actor().name("it").spawn(keeper().0).unwrap();
    assert!(matches!(refused(named.clone(), ""), StoreError::BadKey(_)));
    node.store().close().unwrap();
    assert!(matches!(refused(named, "k"), StoreError::Closed));
}

#[test]
fn a_process_receives_the_outcome_of_a_save() {
    let node = Node::new();
    let process = node.actor().name("it").spawn_process(|own: &mut Process<&'static str>| {
        own.ctx().save_then("k", "v", |saved| saved.map_or("failed", |()| "saved")).unwrap();
        assert!(matches!(own.recv(), Ok(Received::Message("saved"))));
        Flow::Stop
    });
    assert_eq!(process.unwrap().join().unwrap(), ExitReason::Normal);
}

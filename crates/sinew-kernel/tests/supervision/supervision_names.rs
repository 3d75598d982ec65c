//! Children by name: a reference by name outlives their restarts.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use sinew_kernel::{
    Actor, ActorId, AskError, Backoff, ChildSpec, Ctx, Flow, NamedRef, Node, Reply, Strategy, Unsent,
};
use sinew_sched::{Runtime, spawn};

use crate::lab::{Lab, Order, SECOND};

/// A supervisor that waits for a second before it restarts its only child.
fn slow(lab: &Lab) -> NamedRef<Order> {
    let backoff = Backoff { initial: SECOND, ..Backoff::default() };
    let supervisor = lab.node.supervisor(Strategy::OneForOne).max_restarts(1, SECOND);
    lab.start(supervisor.child(lab.child("a").name("it").backoff(backoff)));
    lab.node.named("it")
}

type Outcome<T> = Arc<Mutex<Option<T>>>;

/// Asks by a task, which may have to wait.
fn asks(lab: &Lab, named: &NamedRef<Order>) -> Outcome<Result<ActorId, AskError>> {
    let (outcome, named) = (Outcome::default(), named.clone());
    let kept = outcome.clone();
    lab.node.handle().spawn(move || *kept.lock().unwrap() = Some(named.ask(Order::Id))).detach();
    lab.node.run_until_idle();
    outcome
}

// N12
#[test]
fn a_question_by_name_waits_for_the_restart_of_the_child() {
    let lab = Lab::new();
    let named = slow(&lab);
    let first = asks(&lab, &named).lock().unwrap().take().unwrap().unwrap();
    named.try_tell(Order::Panic).unwrap();
    lab.node.run_until_idle();
    let asked = asks(&lab, &named);
    assert!(asked.lock().unwrap().is_none(), "it waits");
    lab.pass(SECOND + SECOND / 100);
    let second = asked.lock().unwrap().take().unwrap().unwrap();
    assert_eq!(Some(second), lab.node.lookup("it"));
    assert_ne!(first, second);
    assert_eq!(asks(&lab, &named).lock().unwrap().take().unwrap().unwrap(), second);
}

#[test]
fn a_question_to_a_child_whose_supervisor_has_given_up_is_an_error_when_the_time_is_up() {
    let lab = Lab::new();
    let named = slow(&lab);
    for _ in 0..2 {
        lab.pass(SECOND + SECOND / 100);
        named.try_tell(Order::Panic).unwrap();
        lab.node.run_until_idle();
    }
    let asked = asks(&lab, &named);
    assert!(asked.lock().unwrap().is_none(), "somebody else might register the name");
    lab.pass(5 * SECOND + SECOND / 100);
    let error = asked.lock().unwrap().take().unwrap().unwrap_err();
    assert!(matches!(&error, AskError::Unsent(Unsent::UnknownName(name)) if &**name == "it"), "{error}");
}

/// Counts the questions that it is asked, and fails at some of them.
struct Counts(Arc<Mutex<u32>>);

/// Whether it is to fail, and the question.
type Ask = (bool, Reply<()>);

impl Actor for Counts {
    type Msg = Ask;

    fn handle(&mut self, (fails, reply): Ask, _: &mut Ctx<Ask>) -> Flow {
        *self.0.lock().unwrap() += 1;
        assert!(!fails, "as asked");
        reply.send(());
        Flow::Continue
    }
}

/// A supervised child called `it`, and the questions that it was asked.
fn counts(node: &Node) -> (NamedRef<Ask>, Arc<Mutex<u32>>) {
    let asked = Arc::new(Mutex::new(0));
    let kept = asked.clone();
    let child = ChildSpec::new("it", move || Counts(kept.clone())).name("it");
    let supervisor = node.supervisor(Strategy::OneForOne).max_restarts(1_000_000, Duration::from_secs(1));
    supervisor.child(child).spawn().unwrap();
    (node.named("it"), asked)
}

// N14
#[test]
fn a_question_that_a_child_has_accepted_is_not_sent_to_the_next_one() {
    let node = Node::builder().log_off().build().unwrap();
    let (named, asked) = counts(&node);
    let error = named.ask(|reply| (true, reply)).unwrap_err();
    assert!(matches!(error, AskError::Stopped(_)), "{error}");
    named.ask(|reply| (false, reply)).unwrap();
    assert_eq!(*asked.lock().unwrap(), 2);
}

#[test]
fn callers_of_a_child_that_fails_again_and_again_always_find_the_next_one() {
    const CALLERS: u32 = 8;
    const CALLS: u32 = 50;
    for workers in [1, 2, 8] {
        let runtime = Runtime::builder().workers(workers);
        let node = Node::builder().runtime(runtime).log_off().build().unwrap();
        let (named, asked) = counts(&node);
        let call = move |named: NamedRef<Ask>| {
            let (mut answered, mut failed) = (0, 0);
            for n in 0..CALLS {
                match named.ask(|reply| (n % 10 == 0, reply)) {
                    Ok(()) => answered += 1,
                    Err(AskError::Stopped(_)) => failed += 1,
                    Err(error) => panic!("{error}"),
                }
            }
            (answered, failed)
        };
        let calls = node.run(move || {
            let tasks: Vec<_> = (0..CALLERS)
                .map(|_| {
                    spawn({
                        let named = named.clone();
                        move || call(named)
                    })
                })
                .collect();
            tasks.into_iter().map(|task| task.join().unwrap()).collect::<Vec<(u32, u32)>>()
        });
        let (answered, failed) = calls.unwrap().into_iter().fold((0, 0), |(a, b), (c, d)| (a + c, b + d));
        assert_eq!(answered + failed, CALLERS * CALLS);
        assert!(failed >= CALLERS * CALLS / 10, "{failed}");
        assert!(*asked.lock().unwrap() <= CALLERS * CALLS, "no question was asked twice");
    }
}

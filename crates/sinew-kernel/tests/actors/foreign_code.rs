//! Wakers and destructors that are anybody's code: the node runs them under no lock of its own, and survives them.

use std::error::Error;
use std::fmt;
use std::pin::Pin;
use std::sync::mpsc::{self, Receiver, Sender};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Wake, Waker};

use sinew_chan::chan;
use sinew_kernel::{ActorRef, Flow, LevelFilter, Lifecycle, Node, NodeRef};

use crate::kit::*;

/// A waker that runs `code` each time, and says so afterwards.
struct Runs<F> {
    code: F,
    has_run: Mutex<Sender<()>>,
}

impl<F: Fn() + Send + Sync + 'static> Wake for Runs<F> {
    fn wake(self: Arc<Self>) {
        (self.code)();
        let _ = self.has_run.lock().unwrap().send(());
    }
}

fn waker(code: impl Fn() + Send + Sync + 'static) -> (Waker, Receiver<()>) {
    let (sender, ran) = mpsc::channel();
    (Waker::from(Arc::new(Runs { code, has_run: Mutex::new(sender) })), ran)
}

type Next<'a, T> = Pin<Box<dyn Future<Output = T> + 'a>>;

/// Waits for the next item, by this waker.
fn wait_by<'a, T: 'a>(stream: &'a chan::Receiver<T>, waker: &Waker) -> Next<'a, Result<T, chan::RecvError>> {
    let mut next = Box::pin(stream.recv_async());
    assert!(next.as_mut().poll(&mut Context::from_waker(waker)).is_pending());
    next
}

/// The item that a future was given.
fn given<T>(mut next: Next<'_, T>) -> Option<T> {
    match next.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(item) => Some(item),
        Poll::Pending => None,
    }
}

/// An actor that has started, which was told.
fn idle(node: &Node) -> ActorRef<u32> {
    let (starts, has_started) = mpsc::channel();
    let actor = Hooked::new(|_: u32, _| Flow::Stop).started(move |(), _| {
        starts.send(()).unwrap();
        Flow::Continue
    });
    let events = node.lifecycle();
    let actor = node.spawn(actor).unwrap();
    has_started.recv().unwrap();
    assert_eq!(events.recv().unwrap(), Lifecycle::Started(actor.id()));
    actor
}

/// Everything that is under the locks of what is told, and of names.
fn use_all(node: NodeRef) {
    drop((node.lifecycle(), node.dead_letters()));
    assert_eq!(node.lookup("nobody"), None);
    assert_eq!(node.unregister("nobody"), None);
}

#[test]
fn a_waker_of_a_subscriber_may_subscribe() {
    with_node(2, |node| {
        let reference = **node;
        let (waker, has_run) = waker(move || use_all(reference));
        let letters = node.dead_letters();
        let next = wait_by(&letters, &waker);
        let (key, gate) = gate();
        let mut gate = Some(gate);
        let actor = node.spawn(Hooked::new(move |_: u32, _| {
            gate.take().map(Gate::pass);
            Flow::Stop
        }));
        let actor = actor.unwrap();
        actor.tell(1).unwrap();
        actor.tell(2).unwrap(); // a dead letter
        key.open();
        actor.join().unwrap();
        has_run.recv().unwrap();
        assert_eq!(given(next).unwrap().unwrap().dest, actor.id());
    });
}

#[test]
fn a_waker_of_a_subscriber_may_use_names() {
    with_node(2, |node| {
        let (reference, actor) = (**node, idle(node));
        let id = actor.id();
        let (waker, has_run) = waker(move || use_all(reference));
        let events = node.lifecycle();
        let told = |change: &dyn Fn()| {
            let next = wait_by(&events, &waker);
            change();
            has_run.recv().unwrap();
            given(next).unwrap().unwrap()
        };
        let name = || "somebody".into();
        let registered = told(&|| node.register("somebody", id).unwrap());
        assert_eq!(registered, Lifecycle::NameRegistered { actor: id, name: name() });
        let unregistered = told(&|| assert_eq!(node.unregister("somebody"), Some(id)));
        assert_eq!(unregistered, Lifecycle::NameUnregistered { actor: id, name: name() });
        node.register("/some/body", id).unwrap();
        assert!(matches!(events.recv(), Ok(Lifecycle::NameRegistered { .. })));
        let at_its_end = told(&|| actor.kill());
        assert_eq!(at_its_end, Lifecycle::NameUnregistered { actor: id, name: "/some/body".into() });
        actor.join().unwrap();
    });
}

#[test]
fn what_a_waker_does_is_told_to_its_subscriber_after_what_woke_it() {
    with_node(2, |node| {
        let (reference, actor) = (**node, idle(node));
        let id = actor.id();
        let (waker, has_run) = waker(move || reference.register("second", id).unwrap());
        let events = node.lifecycle();
        let next = wait_by(&events, &waker);
        node.register("first", id).unwrap();
        has_run.recv().unwrap();
        let named = |name: &str| Lifecycle::NameRegistered { actor: id, name: name.into() };
        assert_eq!(given(next).unwrap().unwrap(), named("first"));
        assert_eq!(events.recv().unwrap(), named("second"));
    });
}

#[test]
fn a_waker_that_panics_keeps_nobody_from_being_told() {
    with_node(2, |node| {
        let actor = idle(node);
        let (panics, _) = waker(|| panic!("on purpose"));
        let (works, has_run) = waker(|| ());
        let (one, other) = (node.lifecycle(), node.lifecycle());
        let (next_of_one, next_of_other) = (wait_by(&one, &panics), wait_by(&other, &works));
        node.register("somebody", actor.id()).unwrap();
        has_run.recv().unwrap();
        let named = Lifecycle::NameRegistered { actor: actor.id(), name: "somebody".into() };
        assert_eq!(given(next_of_one).unwrap().unwrap(), named);
        assert_eq!(given(next_of_other).unwrap().unwrap(), named);
        let next_of_one = wait_by(&one, &panics);
        actor.kill();
        actor.join().unwrap();
        assert!(matches!(given(next_of_one), Some(Ok(Lifecycle::NameUnregistered { .. }))));
        assert_eq!(node.lookup("somebody"), None);
    });
}

/// More than are told at once that a channel has ended.
const MANY: usize = 100;

#[test]
fn a_subscriber_may_end_its_channel_while_others_wait_there() {
    with_node(2, |node| {
        let (reference, actor) = (**node, idle(node));
        let events = node.lifecycle();
        // Whoever closes the channel is held up at the first who waits, so that the last is left to whoever tells something.
        let (at, has_come) = mpsc::channel();
        let (go, gate) = mpsc::channel::<()>();
        let (at, gate) = (Mutex::new(at), Mutex::new(gate));
        let (first, _) = waker(move || {
            at.lock().unwrap().send(()).unwrap();
            let _ = gate.lock().unwrap().recv();
        });
        let (last, has_run) = waker(move || use_all(reference));
        let mut waits = vec![wait_by(&events, &first)];
        waits.extend((0..MANY).map(|_| wait_by(&events, Waker::noop())));
        waits.push(wait_by(&events, &last));
        std::thread::scope(|threads| {
            threads.spawn(|| events.close());
            has_come.recv().unwrap();
            node.register("somebody", actor.id()).unwrap();
            has_run.recv().unwrap();
            drop(go);
        });
        assert!(waits.into_iter().all(|next| matches!(given(next), Some(Err(_)))));
    });
}

/// An error whose destructor uses the node, and panics.
struct Sour(NodeRef, Sender<()>);

impl Drop for Sour {
    fn drop(&mut self) {
        use_all(self.0);
        let _ = self.1.send(());
        panic!("on purpose");
    }
}

impl fmt::Debug for Sour {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("sour")
    }
}

impl fmt::Display for Sour {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("sour")
    }
}

impl Error for Sour {}

#[test]
fn a_subscriber_may_leave_with_an_error_whose_destructor_is_anybodys() {
    with_node(2, |node| {
        let actor = idle(node);
        let (sender, dropped) = mpsc::channel();
        let events = node.lifecycle();
        assert!(events.reject(Sour(**node, sender)));
        drop(events);
        node.register("somebody", actor.id()).unwrap();
        dropped.recv().unwrap();
        assert_eq!(node.lookup("somebody"), Some(actor.id()));
    });
}

#[test]
fn a_waker_of_a_subscriber_may_ask_for_the_log_actor() {
    with_node(2, |node| {
        let reference = **node;
        let (sender, found) = mpsc::channel();
        let sender = Mutex::new(sender);
        let (waker, has_run) = waker(move || {
            let _ = sender.lock().unwrap().send(reference.logger().actor());
        });
        let events = node.lifecycle();
        let next = wait_by(&events, &waker);
        let log = node.logger().actor().unwrap();
        has_run.recv().unwrap();
        assert_eq!(found.recv().unwrap(), Ok(log), "there is one");
        assert_eq!((node.lookup("log"), node.logger().actor()), (Some(log), Ok(log)));
        drop(next);
    });
}

#[test]
fn there_is_no_log_actor_where_somebody_else_is_called_log() {
    with_node(2, |node| {
        let actor = idle(node);
        node.register("log", actor.id()).unwrap();
        for _ in 0..2 {
            assert!(node.logger().actor().is_err());
        }
        node.unregister("log");
        let log = node.logger().actor().unwrap();
        assert_eq!(node.lookup("log"), Some(log));
    });
}

/// A level that is worked out from the log's own.
struct AsItIs(NodeRef);

impl From<AsItIs> for LevelFilter {
    fn from(AsItIs(node): AsItIs) -> LevelFilter {
        node.logger().level()
    }
}

#[test]
fn a_level_may_be_worked_out_from_that_of_the_log() {
    with_node(2, |node| {
        let (log, actor) = (node.logger(), idle(node).id());
        log.set_level(LevelFilter::Error);
        log.set_level(AsItIs(**node));
        log.set_actor(actor, AsItIs(**node));
        log.set_target("app", AsItIs(**node));
        assert_eq!(log.level(), LevelFilter::Error);
    });
}

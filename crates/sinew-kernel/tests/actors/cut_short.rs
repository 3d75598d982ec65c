//! Senders that are cut short while they wait for room leave nothing behind.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::time::Duration;

use sinew_kernel::{Flow, Node, waits};
use sinew_sched::{Runtime, TaskDump};

use crate::kit::*;

struct Fails(bool);

impl Drop for Fails {
    fn drop(&mut self) {
        if self.0 {
            panic!("on purpose");
        }
    }
}

#[test]
fn the_message_of_a_sender_that_was_killed_does_not_end_the_clock() {
    let _watchdog = Watchdog::new("2 workers".to_owned());
    let node = Node::builder()
        .runtime(Runtime::builder().workers(2))
        .stop_timeout(Duration::from_millis(20))
        .build()
        .unwrap();
    let free = Arc::new(AtomicBool::new(false));
    let (at, has_come) = mpsc::channel();
    let computes = free.clone();
    let actor = node
        .actor()
        .mailbox(1)
        .spawn(Hooked::new(move |_: Fails, _| {
            let _ = at.send(());
            while !computes.load(Ordering::Relaxed) {
                std::thread::sleep(Duration::from_millis(1));
            }
            Flow::Continue
        }))
        .unwrap();
    actor.tell(Fails(false)).unwrap();
    has_come.recv().unwrap();
    actor.tell(Fails(false)).unwrap(); // it is full
    let to = actor.clone();
    let sends = node.runtime().spawn(move || drop(to.tell(Fails(true))));
    let waits = |task: &TaskDump| task.wait.as_ref().is_some_and(|wait| wait.kind == waits::SEND);
    spin_until(|| node.runtime().dump().tasks.iter().any(waits));
    sends.kill();
    assert!(sends.join().is_err());
    actor.stop();
    actor.join().unwrap(); // as the clock gives it up
    free.store(true, Ordering::Relaxed);
}

#[test]
fn a_send_that_was_cut_short_by_a_deadline_leaves_nothing_behind() {
    let _watchdog = Watchdog::new("2 workers".to_owned());
    let node = Node::builder().runtime(Runtime::builder().workers(2)).build().unwrap();
    let (actor, numbers) = keeper();
    let actor = node.actor().mailbox(1).spawn(actor).unwrap();
    let key = block(&actor);
    actor.tell(Work::Number(0)).unwrap(); // it is full
    let to = actor.clone();
    let elapsed = node.run(move || {
        let send = |n| sinew_sched::timeout(Duration::from_micros(100), || to.tell(Work::Number(n)).is_ok());
        (1..=200).map(send).filter(|sent| sent.is_err()).count()
    });
    key.open();
    actor.tell(Work::Number(1000)).unwrap(); // behind all that wait
    actor.drain();
    actor.join().unwrap();
    let handled = numbers.lock().unwrap().len();
    assert_eq!(elapsed.unwrap(), 200);
    assert_eq!(handled, 2, "messages of senders that gave up were handled");
}

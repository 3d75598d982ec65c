//! Models of selects that wait for the ends of tasks.

use sinew_sched::raw::{Ended, Task, block, end_model_task, has_ended, model_task};
use sinew_sync::{model_bounded, thread};

use super::*;
use crate::{chan, select};

struct Wait(&'static Task, Ended);

impl Awaited for Wait {
    unsafe fn withdraw(&self, node: &Node) -> bool {
        self.1.withdraw(self.0, node)
    }

    unsafe fn hand_on(&self, _: &Node) {}
}

impl Attempt for Wait {
    fn attempt(&self) -> bool {
        has_ended(self.0)
    }

    unsafe fn enroll(&self, node: &Node) -> Enrolled {
        // SAFETY: the caller promises it of this.
        unsafe { self.1.enroll(self.0, node) }
    }

    unsafe fn settle(&self, _: &Node) -> bool {
        true
    }

    unsafe fn under_lock(&self, change: &mut dyn FnMut()) {
        // SAFETY: the caller promises it of this.
        unsafe { self.1.under_lock(self.0, change) };
    }

    fn what(&self) -> What {
        What::end_of(self.0.id())
    }
}

fn wait() -> Wait {
    Wait(model_task(), Ended::new())
}

/// Takes the last step of a task, on a thread of its own.
fn ends(wait: &Wait) -> thread::JoinHandle<()> {
    let task = wait.0;
    thread::spawn(move || end_model_task(task))
}

#[test]
fn a_select_sees_one_end_and_leaves_the_other() {
    model_bounded("ended_two_of_a_select", 4, || {
        let waits = [wait(), wait()];
        let ends = waits.each_ref().map(ends);
        let first = select::wait(&[&waits[0], &waits[1]]).unwrap();
        assert!(waits[first].attempt());
        assert!(block(&waits[1 - first], None).unwrap());
        ends.into_iter().for_each(|ends| ends.join().unwrap());
    });
}

/// A select of an item and the end of a task: if the end is seen, the item is still there.
#[test]
fn a_select_sees_the_end_or_takes_an_item() {
    model_bounded("ended_or_an_item", 3, || {
        let (wait, (sender, receiver)) = (wait(), chan::bounded(1));
        let ends = ends(&wait);
        let sends = thread::spawn(move || sender.send(1).unwrap());
        let recv = receiver.operation();
        let first = select::wait(&[&recv, &wait]).unwrap();
        sends.join().unwrap();
        ends.join().unwrap();
        assert_eq!(receiver.try_recv().ok().flatten().is_some(), first == 1);
    });
}

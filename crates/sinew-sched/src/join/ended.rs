//! The end of a task, as something to wait for beside other things.
//!
//! The node is in the task's join word, where the end of the task finds it (see [`crate::task`]); whoever waits is the
//! owner of the handle, and so the only one who puts a node there. There is no lock: the node is the task's as long as it
//! is in the word, and its waiter's when it was taken back out by a compare-and-swap. If that fails the task has ended and
//! tells the node, or has told it.
//!
//! A future that is polled by somebody else takes its node out, puts the new waiter into it, and puts it back. If the task
//! has ended between the two, the future tells the node itself.
//!
//! Models: `ended_wakes`, `ended_against_withdrawal`, `ended_against_renewal`, and in sinew-chan `ended_two_of_a_select`,
//! `ended_or_an_item`.

use std::ptr;

use sinew_sync::atomic::{AtomicPtr, Ordering};

use super::{enter, take_back};
use crate::case::Enrolled;
use crate::task::{DONE, Task};
use crate::wait::{Node, TOLD, Waiter};

/// A wait for the end of a task, by whoever has its handle.
pub struct Ended {
    /// The node that is in the join word, or was. An atomic only so that the wait may change threads.
    node: AtomicPtr<Node>,
}

impl Ended {
    /// A wait that has not begun.
    #[allow(clippy::new_without_default, reason = "a wait is no default of anything")]
    pub fn new() -> Ended {
        Ended { node: AtomicPtr::new(ptr::null_mut()) }
    }

    /// # Safety
    ///
    /// As for [`Attempt::enroll`](crate::case::Attempt::enroll).
    pub unsafe fn enroll(&self, task: &Task, node: &Node) -> Enrolled {
        // SAFETY: the caller promises that the node is new, and stays until it was told or withdrawn.
        if !unsafe { enter(task, node) } {
            debug_assert_eq!(task.join.load(Ordering::Relaxed), DONE, "one wait at a time");
            return if node.claim() { Enrolled::Done } else { Enrolled::Taken };
        }
        self.node.store(ptr::from_ref(node).cast_mut(), Ordering::Relaxed);
        Enrolled::Queued
    }

    /// As [`Awaited::withdraw`](crate::wait::Awaited::withdraw).
    pub fn withdraw(&self, task: &Task, node: &Node) -> bool {
        take_back(task, node, ptr::null_mut())
    }

    /// Calls `change` while the node is not in the word, or was told.
    ///
    /// # Safety
    ///
    /// As for [`Attempt::under_lock`](crate::case::Attempt::under_lock).
    pub unsafe fn under_lock(&self, task: &Task, change: &mut dyn FnMut()) {
        let node = self.node.load(Ordering::Relaxed);
        // SAFETY: the caller promises that the node that was enrolled last is still there.
        let taken = take_back(task, unsafe { &*node }, ptr::null_mut());
        change();
        // SAFETY: as above. It was taken back, and its owner keeps it until it was told or
        // withdrawn.
        if taken && !unsafe { enter(task, &*node) } {
            // SAFETY: it is in no queue and in no word, so nobody else tells it.
            unsafe { Node::claim_and_tell(node, TOLD) }.into_iter().for_each(Waiter::wake);
        }
    }
}

#[cfg(test)]
mod tests {
    use sinew_core::Instant;
    use sinew_sync::{model, thread};

    use super::*;
    use crate::case::{Attempt, block};
    use crate::notes::What;
    use crate::task::Settled;
    use crate::wait::Awaited;
    use crate::wait_kind::WaitKind;

    struct Wait(&'static Task, Ended);

    impl Awaited for Wait {
        unsafe fn withdraw(&self, node: &Node) -> bool {
            self.1.withdraw(self.0, node)
        }

        unsafe fn hand_on(&self, _: &Node) {}
    }

    impl Attempt for Wait {
        fn attempt(&self) -> bool {
            self.0.join.load(Ordering::Acquire) == DONE
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
        Wait(Box::leak(Box::new(Task::new(0))), Ended::new())
    }

    /// The last step of a task, on a thread of its own.
    fn ends(wait: &Wait) -> thread::JoinHandle<()> {
        let task = wait.0;
        thread::spawn(move || match task.settle() {
            Settled::Waits(waiter) => waiter.wake(),
            Settled::Kept => (),
            Settled::Detached => unreachable!("its handle is kept"),
        })
    }

    #[test]
    fn the_end_of_a_task_wakes_who_waits_for_it() {
        model("ended_wakes", || {
            let wait = wait();
            let ends = ends(&wait);
            assert!(block(&wait, None).unwrap());
            assert!(wait.attempt());
            ends.join().unwrap();
        });
    }

    #[test]
    fn who_gives_up_can_wait_again() {
        model("ended_against_withdrawal", || {
            let wait = wait();
            let ends = ends(&wait);
            if !block(&wait, Some(Instant::from_nanos(0))).unwrap() {
                assert!(block(&wait, None).unwrap());
            }
            assert!(wait.attempt());
            ends.join().unwrap();
        });
    }

    #[test]
    fn a_node_whose_waiter_changes_is_told() {
        model("ended_against_renewal", || {
            let wait = wait();
            let ends = ends(&wait);
            let node = Node::new(0);
            // SAFETY: the node is new, and waits below until it was told.
            if unsafe { wait.enroll(&node) } == Enrolled::Queued {
                let mut old = None;
                let mut change = || {
                    if !node.is_told() {
                        old = node.replace_waiter(Waiter::current());
                        assert!(old.is_some(), "the task is about to wake the old one");
                    }
                };
                // SAFETY: the node was enrolled just now.
                unsafe { wait.under_lock(&mut change) };
                assert!(node.wait(None, What::of(WaitKind::Join)).unwrap());
            }
            assert!(wait.attempt());
            ends.join().unwrap();
        });
    }
}

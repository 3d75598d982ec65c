use sinew_sync::atomic::AtomicUsize;
use sinew_sync::{Arc, model, thread};

use super::*;
use crate::join::{detach, enter, take_back};
use crate::notes::What;
use crate::wait_kind::WaitKind;

fn task() -> &'static Task {
    Box::leak(Box::new(Task::new(0)))
}

/// The end of a task against the drop of its handle: exactly one of the two frees the slot.
#[test]
fn exactly_one_of_task_and_handle_frees_the_slot() {
    model("task_settles_who_frees", || {
        let task = task();
        let ending = thread::spawn(move || matches!(task.settle(), Settled::Detached));
        let handle_frees = !detach(task, ptr::null_mut());
        assert_ne!(ending.join().unwrap(), handle_frees);
    });
}

/// The end of a task against a thread that waits for it: it is woken, and sees what the task left.
#[test]
fn whoever_waits_for_the_end_of_a_task_is_woken() {
    model("task_end_wakes_its_joiner", || {
        let (task, result) = (task(), Arc::new(AtomicUsize::new(0)));
        let joiner = {
            let result = result.clone();
            thread::spawn(move || {
                let node = Node::new(0);
                // SAFETY: the node is new, and waits below until it was told.
                if unsafe { enter(task, &node) } {
                    assert!(node.wait(None, What::of(WaitKind::Join)).unwrap());
                }
                result.load(Ordering::Relaxed)
            })
        };
        result.store(7, Ordering::Relaxed);
        if let Settled::Waits(waiter) = task.settle() {
            waiter.wake();
        }
        assert_eq!(joiner.join().unwrap(), 7);
    });
}

/// A waiter that gives up, because of its deadline or because it is cancelled, against the end of the task: it has
/// taken its node back, or it is told; and the task knows which.
#[test]
fn a_node_is_taken_back_or_told() {
    for detaches in [false, true] {
        model("task_end_against_a_joiner_that_gives_up", move || {
            let task = task();
            let ending = thread::spawn(move || task.settle());
            let node = Node::new(0);
            let word = if detaches { DETACHED } else { ptr::null_mut() };
            // SAFETY: the node is new, and is told or taken back before it goes.
            let entered = unsafe { enter(task, &node) };
            let taken_back = entered && take_back(task, &node, word);
            match ending.join().unwrap() {
                Settled::Waits(_) => assert!(entered && !taken_back && node.is_told()),
                Settled::Detached => assert!(taken_back && detaches && !node.is_told()),
                Settled::Kept => assert!(!node.is_told() && (!entered || taken_back && !detaches)),
            }
        });
    }
}

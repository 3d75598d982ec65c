//! The end of a task, as a future.
//!
//! While the future waits, the join word of the task leads to the node in the future, and the task tells the node when it
//! ends, as it does for a blocking join. There is no lock to change the waker of the node under: a poll takes the node back
//! first, gives it the new waker, and enters it again. A task that ends in between finds no node, and the poll finds that
//! the task has ended; one that has found the node before tells it, and the poll waits for that. So each poll that is
//! pending has left its waker where the end of the task finds it.
//!
//! Models: `join_future_renewed_or_told`, `join_future_dropped`.

use std::cell::{Cell, UnsafeCell};
use std::fmt;
use std::marker::PhantomPinned;
use std::pin::Pin;
use std::ptr;
use std::task::{Context, Poll, ready};

use sinew_fiber::Raised;

use super::{JoinHandle, enter, own_end, take_back};
use crate::notes::What;
use crate::task::Task;
use crate::wait::{Node, Waiter};
use crate::worker;

/// A future that joins a task: what `handle.await` waits for.
///
/// It gives what [`JoinHandle::join`] returns. Dropping it before it is ready is like dropping the handle: the task goes on
/// alone. It may be polled by any executor, inside a task or elsewhere.
#[must_use = "futures do nothing unless they are polled, and dropping this one lets the task go on alone"]
pub struct JoinFuture<T> {
    /// Until the future is ready.
    handle: Option<JoinHandle<T>>,
    wait: Wait,
}

// SAFETY: `Wait` is reached by the end of the task through the join word, as the node of a thread that waits is, and by
// the future only when it is polled or dropped; it does not hold on to the thread that made it.
unsafe impl<T: Send> Send for JoinFuture<T> {}

/// Awaits the end of the task, and gives what [`JoinHandle::join`] returns.
///
/// ```
/// use sinew_sched::{Runtime, spawn, spawn_future};
///
/// let sum = Runtime::new().run(|| {
///     let numbers = [2, 3].map(|n| spawn(move || n * n)); // they may block
///     spawn_future(async move {
///         let mut sum = 0;
///         for number in numbers {
///             sum += number.await.unwrap();
///         }
///         sum
///     })
///     .join()
/// });
/// assert_eq!(sum.unwrap().unwrap(), 13);
/// ```
impl<T> IntoFuture for JoinHandle<T> {
    type Output = Result<T, Raised>;
    type IntoFuture = JoinFuture<T>;

    fn into_future(self) -> JoinFuture<T> {
        JoinFuture { handle: Some(self), wait: Wait::new() }
    }
}

impl<T> Future for JoinFuture<T> {
    type Output = Result<T, Raised>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Result<T, Raised>> {
        let handle = self.handle.as_ref().expect("a future is not polled when it was ready");
        let task = handle.task();
        if !self.wait.entered.get() {
            ready!(worker::poll_charge(context));
        }
        let own =
            !handle.is_finished() && worker::current_task().is_some_and(|current| ptr::eq(current, task));
        if !own && !self.wait.poll(task, context) {
            return Poll::Pending;
        }
        // SAFETY: the node is not moved.
        let this = unsafe { self.get_unchecked_mut() };
        this.wait.leave(task);
        let handle = this.handle.take().expect("it was there just now");
        Poll::Ready(if own { Err(own_end()) } else { handle.take() })
    }
}

impl<T> Drop for JoinFuture<T> {
    /// The handle goes after this.
    fn drop(&mut self) {
        if let Some(handle) = &self.handle {
            self.wait.leave(handle.task());
        }
    }
}

impl<T> fmt::Debug for JoinFuture<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let finished = self.handle.as_ref().is_none_or(JoinHandle::is_finished);
        f.debug_struct("JoinFuture").field("finished", &finished).finish()
    }
}

/// A wait for the end of one task. It stays where it is from its first poll on, until it has left.
struct Wait {
    node: UnsafeCell<Node>,
    /// The task's join word leads to the node, or has led there until the task ended.
    entered: Cell<bool>,
    _pinned: PhantomPinned,
}

impl Wait {
    fn new() -> Wait {
        Wait { node: UnsafeCell::new(Node::new(0)), entered: Cell::new(false), _pinned: PhantomPinned }
    }

    /// True if the task has ended; otherwise its end wakes whom `context` says.
    fn poll(&self, task: &Task, context: &Context<'_>) -> bool {
        if !self.leave(task) {
            return true;
        }
        let waiter = Waiter::of(context.waker());
        // SAFETY: the node has left, so nobody else knows of it.
        let node = unsafe {
            *self.node.get() = Node::of(Some(waiter), 0);
            &*self.node.get()
        };
        // SAFETY: the node is new, and this stays where it is until it has left, which takes the node back.
        if !unsafe { enter(task, node) } {
            return true;
        }
        self.entered.set(true);
        worker::announce(What::end_of(task.id()));
        false
    }

    /// Has nothing lead to the node any more. False if the task has ended meanwhile.
    fn leave(&self, task: &Task) -> bool {
        // SAFETY: it is only replaced in `poll`, after this.
        !self.entered.replace(false) || take_back(task, unsafe { &*self.node.get() }, ptr::null_mut())
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;
    use std::task::Waker;

    use sinew_sync::atomic::{AtomicUsize, Ordering};
    use sinew_sync::{Arc, model, thread};

    use super::*;
    use crate::join::detach;
    use crate::task::Settled;
    use sinew_test_kit::drive;

    fn task() -> &'static Task {
        Box::leak(Box::new(Task::new(0)))
    }

    /// Polled with one waker, then with another, while the task ends: the last one is woken, and sees what the task left.
    #[test]
    fn whoever_polled_a_join_last_is_woken() {
        model("join_future_renewed_or_told", || {
            let (task, result) = (task(), Arc::new(AtomicUsize::new(0)));
            let joins = {
                let result = result.clone();
                thread::spawn(move || {
                    let wait = Wait::new();
                    drive(poll_fn(|context| match wait.poll(task, context) {
                        true => Poll::Ready(result.load(Ordering::Relaxed)),
                        false => Poll::Pending,
                    }))
                })
            };
            result.store(7, Ordering::Relaxed);
            if let Settled::Waits(waiter) = task.settle() {
                waiter.wake();
            }
            assert_eq!(joins.join().unwrap(), 7);
        });
    }

    /// A future that is dropped after a poll, against the end of the task: the node is left alone, and one of the two frees
    /// the slot.
    #[test]
    fn a_join_that_is_given_up_lets_the_task_go_on_alone() {
        model("join_future_dropped", || {
            let task = task();
            let ending = thread::spawn(move || matches!(task.settle(), Settled::Detached));
            let wait = Wait::new();
            wait.poll(task, &Context::from_waker(Waker::noop()));
            wait.leave(task);
            drop(wait);
            let handle_frees = !detach(task, ptr::null_mut());
            assert_ne!(ending.join().unwrap(), handle_frees);
        });
    }
}

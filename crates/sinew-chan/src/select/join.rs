//! The end of a task, as a case.

use std::fmt;
use std::ptr;

use sinew_fiber::Raised;
use sinew_sched::raw::{Attempt, Awaited, Case, Enrolled, Node, What, enter, take_back, task_of};
use sinew_sched::{JoinHandle, WaitKind};

/// Joins the task whose handle is in `task`, which is empty afterwards; if another case happens it is as it was. Without a
/// handle it never happens. Gives what [`JoinHandle::join`] returns.
///
/// ```
/// use std::time::Duration;
///
/// use sinew_chan::select::{join, sleep};
/// use sinew_chan::select;
/// use sinew_sched::{Runtime, spawn};
///
/// Runtime::new().run(|| {
///     let mut task = Some(spawn(|| 5));
///     let five = select! {
///         outcome = join(&mut task) => outcome.unwrap(),
///         _ = sleep(Duration::from_secs(60)) => panic!("that took long"),
///     };
///     assert_eq!(five.unwrap(), 5);
///     assert!(task.is_none());
/// })
/// .unwrap();
/// ```
pub fn join<T>(task: &mut Option<JoinHandle<T>>) -> Join<'_, T> {
    Join(task)
}

/// The end of a task: see [`join`].
pub struct Join<'a, T>(&'a mut Option<JoinHandle<T>>);

impl<T> Awaited for Join<'_, T> {
    unsafe fn withdraw(&self, node: &Node) -> bool {
        self.0.as_ref().is_none_or(|handle| take_back(task_of(handle), node, ptr::null_mut()))
    }

    /// The result stays where it is.
    unsafe fn hand_on(&self, _: &Node) {}
}

impl<T> Attempt for Join<'_, T> {
    fn attempt(&self) -> bool {
        self.0.as_ref().is_some_and(JoinHandle::is_finished)
    }

    unsafe fn enroll(&self, node: &Node) -> Enrolled {
        match self.0.as_ref() {
            // SAFETY: the caller promises that the node is new, and stays until it was told or withdrawn.
            Some(handle) if !unsafe { enter(task_of(handle), node) } => {
                if node.claim() {
                    Enrolled::Done
                } else {
                    Enrolled::Taken
                }
            }
            _ => Enrolled::Queued,
        }
    }

    unsafe fn settle(&self, _: &Node) -> bool {
        true
    }

    fn what(&self) -> What {
        let handle = self.0.as_ref();
        handle.map_or(What::of(WaitKind::Never), |handle| What::end_of(handle.id()))
    }

    /// There is no lock: the node is in the word of the task.
    unsafe fn under_lock(&self, _: &mut dyn FnMut()) {
        unreachable!("a task is joined by one who stays where it is");
    }
}

impl<T> Case for Join<'_, T> {
    type Output = Result<T, Raised>;

    fn output(self) -> Result<T, Raised> {
        self.0.take().expect("a task that has ended").join()
    }
}

impl<T> fmt::Debug for Join<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Join").field(&self.0).finish()
    }
}

#[cfg(all(test, any(loom, shuttle)))]
mod tests;

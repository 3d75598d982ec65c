//! Waiting until all members of a group are done.
//!
//! Members are counted under the lock of the queue, so the last one and those who wait agree on when there was none.
//! The last one counts the round up, as at a [`Barrier`](super::Barrier), and tells those of the old one.
//!
//! Models: `wait_group_last_wakes_all`, `wait_group_next_round`.

use std::fmt;
use std::time::Duration;

use sinew_core::Instant;
use sinew_fiber::Refused;
use sinew_sched::raw::{Awaited, Node, Queue, TOLD, Waiting, What, charge, tell_each};
use sinew_sched::{WaitError, WaitKind, now};
use sinew_sync::{Arc, Mutex};

/// A group of members, and a way to wait until none is left. It may then be used again.
///
/// A clone is another handle to the same group, with which members are added and waited for. It is not a member: those
/// are made by [`add`](WaitGroup::add), and by cloning a [`Member`].
///
/// ```
/// use sinew_chan::sync::WaitGroup;
/// use sinew_sched::{Runtime, spawn};
///
/// let runtime = Runtime::new();
/// runtime.run(|| {
///     let group = WaitGroup::new();
///     for _ in 0..10 {
///         let member = group.add();
///         drop(spawn(move || drop(member))); // its part is done when the member is dropped
///     }
///     group.wait().unwrap();
///     assert_eq!(group.members(), 0);
/// }).unwrap();
/// ```
#[derive(Clone, Default)]
pub struct WaitGroup {
    group: Arc<Group>,
}

#[derive(Default)]
struct Group {
    inner: Mutex<Inner>,
}

struct Inner {
    members: usize,
    round: usize,
    queue: Queue,
}

impl Default for Inner {
    fn default() -> Inner {
        Inner { members: 0, round: 0, queue: Queue::new() }
    }
}

impl WaitGroup {
    /// A group without members.
    pub fn new() -> WaitGroup {
        WaitGroup::default()
    }

    /// Adds a member.
    pub fn add(&self) -> Member {
        Member::new(&self.group)
    }

    /// How many members there are.
    pub fn members(&self) -> usize {
        self.group.inner.lock().members
    }

    /// Waits until there is no member.
    ///
    /// # Errors
    ///
    /// If it has to wait and the task is cancelled, or must not block here.
    pub fn wait(&self) -> Result<(), Refused> {
        self.group.wait(None).map(|_| ())
    }

    /// [`wait_timeout`](Self::wait_timeout), until `deadline` on the clock of [`now`].
    #[cfg(test)]
    pub(crate) fn wait_until(&self, deadline: Instant) -> Result<(), WaitError> {
        if self.group.wait(Some(deadline))? { Ok(()) } else { Err(WaitError::Timeout) }
    }

    /// Like [`wait`](WaitGroup::wait), but waits at most `timeout`.
    ///
    /// # Errors
    ///
    /// As for [`wait`](WaitGroup::wait), and [`WaitError::Timeout`].
    pub fn wait_timeout(&self, timeout: Duration) -> Result<(), WaitError> {
        if self.group.wait(Some(now() + timeout))? { Ok(()) } else { Err(WaitError::Timeout) }
    }
}

impl fmt::Debug for WaitGroup {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WaitGroup").field("members", &self.members()).finish()
    }
}

impl Group {
    fn wait(&self, deadline: Option<Instant>) -> Result<bool, Refused> {
        let mut inner = self.inner.lock();
        if inner.members == 0 {
            drop(inner);
            charge();
            return Ok(true);
        }
        let node = Node::new(inner.round);
        // SAFETY: the node is new, and `Waiting` does not let it go before it was told or removed.
        unsafe { inner.queue.push(&node) };
        drop(inner);
        // SAFETY: the node was pushed into this queue just now.
        let waiting = unsafe { Waiting::new(self, &node) };
        waiting.wait(deadline, What::at(WaitKind::WaitGroup, self))
    }

    fn remove_member(&self) {
        let mut inner = self.inner.lock();
        inner.members -= 1;
        if inner.members > 0 {
            return;
        }
        let round = inner.round;
        inner.round = round.wrapping_add(1);
        drop(inner);
        tell_each(
            || self.inner.lock(),
            |inner| {
                if inner.queue.first_wants() == Some(round) { inner.queue.tell(TOLD) } else { None }
            },
        );
    }
}

impl Awaited for Group {
    unsafe fn withdraw(&self, node: &Node) -> bool {
        // SAFETY: the caller promises that the node was pushed into this queue.
        unsafe { self.inner.lock().queue.remove(node) }
    }

    unsafe fn hand_on(&self, _: &Node) {}
}

/// A member of a [`WaitGroup`], which is done when it is dropped. A clone is one more.
#[must_use = "a member that is dropped is done"]
pub struct Member {
    group: Arc<Group>,
}

impl Member {
    fn new(group: &Arc<Group>) -> Member {
        group.inner.lock().members += 1;
        Member { group: group.clone() }
    }
}

impl Clone for Member {
    fn clone(&self) -> Member {
        Member::new(&self.group)
    }
}

impl Drop for Member {
    fn drop(&mut self) {
        self.group.remove_member();
    }
}

impl fmt::Debug for Member {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Member").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use sinew_sync::{model, thread};

    use super::*;

    #[test]
    fn the_last_member_wakes_who_waits() {
        model("wait_group_last_wakes_all", || {
            let group = WaitGroup::new();
            let (one, other) = (group.add(), group.add());
            let waiter = {
                let group = group.clone();
                thread::spawn(move || group.wait().unwrap())
            };
            let done = thread::spawn(move || drop(one));
            drop(other);
            done.join().unwrap();
            waiter.join().unwrap();
            assert!(group.group.inner.lock().queue.is_empty());
        });
    }

    /// Who adds a member and waits is not told by the last one of the round before.
    #[test]
    fn who_waits_for_the_next_round_is_not_told_of_this_one() {
        model("wait_group_next_round", || {
            let group = WaitGroup::new();
            let last = group.add();
            let waits = {
                let group = group.clone();
                thread::spawn(move || {
                    let _member = group.add();
                    let waited = group.wait_until(Instant::from_nanos(0));
                    assert!(matches!(waited, Err(WaitError::Timeout)), "there is a member");
                })
            };
            drop(last);
            waits.join().unwrap();
        });
    }
}

//! A place where so many meet before they go on.
//!
//! A node has the number of its round. Who comes last counts the round up, under the lock, which settles it for all of
//! the round; then it tells those whose nodes have the old number, while others may arrive for the next. A waiter that
//! withdraws in its round is no longer counted; one that is late has met the others, told or not.
//!
//! Models: `barrier_meets_in_rounds`, `barrier_last_against_withdrawal`, `barrier_third_of_two`.

use std::fmt;
use std::time::Duration;

use sinew_core::Instant;
use sinew_fiber::Refused;
use sinew_sched::raw::{Awaited, Node, Queue, TOLD, Waiting, What, tell_each};
use sinew_sched::{WaitError, WaitKind, now};
use sinew_sync::{Mutex, const_unless_model};

/// A place where so many tasks and threads wait for each other; again and again.
///
/// ```
/// use std::sync::Arc;
///
/// use sinew_chan::sync::Barrier;
/// use sinew_sched::{Runtime, spawn};
///
/// let leaders = Runtime::new().run(|| {
///     let barrier = Arc::new(Barrier::new(3));
///     let meet = |barrier: Arc<Barrier>| move || barrier.wait().unwrap().is_leader();
///     let tasks: Vec<_> = (0..3).map(|_| spawn(meet(barrier.clone()))).collect();
///     tasks.into_iter().map(|task| task.join().unwrap()).filter(|leader| *leader).count()
/// });
/// assert_eq!(leaders.unwrap(), 1);
/// ```
///
/// A waiter that is cancelled or killed, or whose time passes, is not counted any more: the others wait for another in
/// its place.
pub struct Barrier {
    size: usize,
    meeting: Mutex<Meeting>,
}

struct Meeting {
    round: usize,
    arrived: usize,
    queue: Queue,
}

impl Barrier {
    const_unless_model! {
        /// A barrier for so many; one at which nobody waits for 0 or 1.
        pub const fn new(size: usize) -> Barrier {
            Barrier { size, meeting: Mutex::new(Meeting { round: 0, arrived: 0, queue: Queue::new() }) }
        }
    }

    /// Waits until so many wait as the barrier is for. Exactly one of them is the leader.
    ///
    /// # Errors
    ///
    /// If the task is cancelled, or must not block here.
    pub fn wait(&self) -> Result<BarrierWaitResult, Refused> {
        Ok(self.meet(None)?.expect("a wait without a deadline ends with the meeting"))
    }

    /// [`wait_timeout`](Self::wait_timeout), until `deadline` on the clock of [`now`].
    #[cfg(test)]
    pub(crate) fn wait_until(&self, deadline: Instant) -> Result<BarrierWaitResult, WaitError> {
        self.meet(Some(deadline))?.ok_or(WaitError::Timeout)
    }

    /// Like [`wait`](Barrier::wait), but waits at most `timeout`. A caller that gives up is not counted as arrived.
    ///
    /// # Errors
    ///
    /// As for [`wait`](Barrier::wait), and [`WaitError::Timeout`].
    pub fn wait_timeout(&self, timeout: Duration) -> Result<BarrierWaitResult, WaitError> {
        self.meet(Some(now() + timeout))?.ok_or(WaitError::Timeout)
    }

    fn meet(&self, deadline: Option<Instant>) -> Result<Option<BarrierWaitResult>, Refused> {
        let mut meeting = self.meeting.lock();
        let round = meeting.round;
        if meeting.arrived + 1 >= self.size {
            meeting.arrived = 0;
            meeting.round = round.wrapping_add(1);
            drop(meeting);
            tell_each(
                || self.meeting.lock(),
                |meeting| {
                    if meeting.queue.first_wants() == Some(round) { meeting.queue.tell(TOLD) } else { None }
                },
            );
            return Ok(Some(BarrierWaitResult { leader: true }));
        }
        let node = Node::new(round);
        // SAFETY: the node is new, and `Waiting` does not let it go before it was told or removed.
        unsafe { meeting.queue.push(&node) };
        meeting.arrived += 1;
        drop(meeting);
        let what = What::at(WaitKind::Barrier, self);
        // SAFETY: the node was pushed into this queue above.
        let waiting = unsafe { Waiting::new(self, &node) };
        Ok(waiting.wait(deadline, what)?.then_some(BarrierWaitResult { leader: false }))
    }
}

impl Awaited for Barrier {
    unsafe fn withdraw(&self, node: &Node) -> bool {
        let mut meeting = self.meeting.lock();
        // SAFETY: the caller promises that the node was pushed into this queue.
        let removed = unsafe { meeting.queue.remove(node) };
        let in_time = removed && meeting.round == node.wants.get();
        if in_time {
            meeting.arrived -= 1;
        }
        in_time
    }

    unsafe fn hand_on(&self, _: &Node) {}
}

impl fmt::Debug for Barrier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let arrived = self.meeting.lock().arrived;
        f.debug_struct("Barrier").field("size", &self.size).field("arrived", &arrived).finish()
    }
}

/// How a wait at a [`Barrier`] ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct BarrierWaitResult {
    leader: bool,
}

impl BarrierWaitResult {
    /// True for exactly one of those who met.
    pub fn is_leader(&self) -> bool {
        self.leader
    }
}

#[cfg(test)]
mod tests {
    use sinew_sync::{Arc, model, model_bounded, thread};

    use super::*;

    fn two<T: Send + 'static>(
        barrier: &Arc<Barrier>,
        body: impl Fn(&Barrier) -> T + Send + Copy + 'static,
    ) -> [T; 2] {
        let threads = [(); 2].map(|()| {
            let barrier = barrier.clone();
            thread::spawn(move || body(&barrier))
        });
        threads.map(|thread| thread.join().unwrap())
    }

    #[test]
    fn each_round_has_one_leader() {
        model("barrier_meets_in_rounds", || {
            let barrier = Arc::new(Barrier::new(2));
            let leads = two(&barrier, |barrier| [(); 2].map(|()| barrier.wait().unwrap().is_leader()));
            assert_ne!(leads[0][0], leads[1][0]);
            assert_ne!(leads[0][1], leads[1][1]);
            assert_eq!(barrier.meeting.lock().arrived, 0);
        });
    }

    #[test]
    fn two_who_may_give_up_meet_both_or_neither() {
        model("barrier_last_against_withdrawal", || {
            let barrier = Arc::new(Barrier::new(2));
            let met = two(&barrier, |barrier| barrier.wait_until(Instant::from_nanos(0)).ok());
            match met {
                [None, None] => (),
                [Some(one), Some(other)] => assert_ne!(one.is_leader(), other.is_leader()),
                _ => panic!("one has met nobody"),
            }
            let meeting = barrier.meeting.lock();
            assert!(meeting.arrived == 0 && meeting.queue.is_empty());
        });
    }

    /// The third comes while two meet: it is not told of their meeting.
    #[test]
    fn a_third_meets_none_of_two_who_have_met() {
        model_bounded("barrier_third_of_two", 3, || {
            let barrier = Arc::new(Barrier::new(2));
            let third = {
                let barrier = barrier.clone();
                thread::spawn(move || barrier.wait_until(Instant::from_nanos(0)).ok())
            };
            let met = two(&barrier, |barrier| barrier.wait_until(Instant::from_nanos(0)).ok());
            let met = met.into_iter().chain([third.join().unwrap()]).flatten();
            let leads: Vec<bool> = met.map(|met| met.is_leader()).collect();
            assert!(leads.is_empty() || leads.len() == 2 && leads[0] != leads[1], "{leads:?}");
        });
    }
}

//! Locks and other ways to wait for each other, for tasks and threads alike.
//!
//! # Why not std's
//!
//! A lock of [`std::sync`] must not be held across a blocking call. It blocks the thread of whoever waits for it, and a
//! thread is a worker with all its tasks. A task that holds a `std::sync::Mutex` and then waits for something is
//! suspended; the next task on the worker that wants the lock blocks the worker; and since a task that has blocked goes
//! on only on its own worker, nobody can ever give the lock back. That is a deadlock for good, of one lock and one
//! worker, and a test with little to do may never show it.
//!
//! The locks here suspend the task that waits, and its worker goes on with others. They may be held across blocking calls,
//! and tasks and threads may use the same one.
//!
//! A lock of std, or of `parking_lot`, is fine where nothing blocks while it is held: it is then as good as any other.
//!
//! # Which one
//!
//! | to | take |
//! |---|---|
//! | change a value, one at a time | [`Mutex`] |
//! | read a value often and change it seldom | [`RwLock`]; if it is read for a few instructions only, [`Mutex`] |
//! | wait until a value has changed | [`Condvar`], with the [`Mutex`] around the value |
//! | let no more than so many do something at once | [`Semaphore`] |
//! | make a value when it is first needed | [`OnceLock`] |
//! | start a phase together, or end it | [`Barrier`] |
//! | wait until everybody is done | [`WaitGroup`]; for results, [`JoinHandle::join`](sinew_sched::JoinHandle::join) |
//! | hand over one value | [`oneshot`](crate::chan::oneshot), or many: [`chan`](crate::chan) |
//!
//! # What they have in common
//!
//! - A call that waits returns `Err(Refused)` when its task is cancelled, and unwinds when it is killed. One that need
//!   not wait succeeds also in a task that is cancelled: cleanup can still take a lock that is free, and one that is not
//!   inside a [`shield`](sinew_fiber::shield).
//! - Whoever gives up, because its task is cancelled or killed or its time has passed, is out of the queue when the call
//!   returns or unwinds. What was being given to it then is either returned by the call after all, or goes to the next.
//! - A `…_timeout` call tries at least once. Its error at the timeout is [`WaitError::Timeout`](sinew_sched::WaitError);
//!   [`Condvar`] has std's shape, which gives the guard back.
//! - There is no poisoning. A panic gives back what was held, and leaves the value as it is.
//! - Guards may be sent to another thread, if the value may: a lock does not know who has it.
//! - Each type says who is next among those who wait. Nobody starves.
//!
//! `wait.rs` has the protocol of a wait; `lock.rs` and `permits.rs` those of what is waited for most. Each names its
//! models; that of several locks together is `sync_bounded_queue` (shuttle).

mod barrier;
pub(crate) mod case;
mod condvar;
mod lock;
mod mutex;
mod once_lock;
mod permits;
mod rwlock;
mod semaphore;
mod spin;
mod wait_group;

#[cfg(all(test, not(loom)))]
mod tests;

pub use barrier::{Barrier, BarrierWaitResult};
pub use condvar::{Condvar, WaitTimeoutResult};
pub use mutex::{Mutex, MutexGuard};
pub use once_lock::OnceLock;
pub use rwlock::{RwLock, RwLockReadGuard, RwLockWriteGuard};
pub use semaphore::{Permit, Semaphore};
pub use wait_group::{Member, WaitGroup};

//! A value that is made once, by the first who needs it.
//!
//! Whoever makes the value has the one permit. If that fails the permit goes to the next who waits; when it succeeds
//! the permits are closed, which tells all. `ready` is stored, and releases, before that; a load of it acquires.
//!
//! Models: `once_lock_is_made_once`, `once_lock_next_tries`.

use std::cell::UnsafeCell;
use std::fmt;
use std::mem;

use sinew_fiber::Refused;
use sinew_sched::WaitKind;
use sinew_sync::atomic::{AtomicBool, Ordering};
use sinew_sync::const_unless_model;

use super::permits::{Acquired, Permits};

/// A value that is set once, or made by the first who needs it while others wait.
///
/// ```
/// use sinew_sched::Runtime;
/// use sinew_chan::sync::OnceLock;
///
/// static ANSWER: OnceLock<u32> = OnceLock::new();
///
/// let answer = Runtime::new().run(|| *ANSWER.get_or_init(|| 42).unwrap());
/// assert_eq!(answer.unwrap(), 42);
/// assert_eq!(ANSWER.get(), Some(&42));
/// ```
///
/// Whoever makes the value may block meanwhile. If it panics, fails, or is cancelled or killed, the next who waits
/// tries.
pub struct OnceLock<T> {
    ready: AtomicBool,
    turn: Permits,
    value: UnsafeCell<Option<T>>,
}

// SAFETY: the value is written by one, before `ready`, and only shared after; it may be made on one thread and dropped
// on another.
unsafe impl<T: Send + Sync> Sync for OnceLock<T> {}

impl<T> OnceLock<T> {
    const_unless_model! {
        /// A lock without a value.
        pub const fn new() -> OnceLock<T> {
            OnceLock { ready: AtomicBool::new(false), turn: Permits::new(1), value: UnsafeCell::new(None) }
        }
    }

    /// The value, if there is one.
    #[inline]
    pub fn get(&self) -> Option<&T> {
        // SAFETY: it was written before `ready`, and is not written again.
        if self.ready.load(Ordering::Acquire) { unsafe { (*self.value.get()).as_ref() } } else { None }
    }

    /// Sets the value.
    ///
    /// # Errors
    ///
    /// Gives `value` back if there is one already, or somebody is making it.
    pub fn set(&self, value: T) -> Result<(), T> {
        match Turn::take(self) {
            Some(turn) => {
                turn.settle(value);
                Ok(())
            }
            None => Err(value),
        }
    }

    /// The value, which is made by `make` if there is none. If somebody is making it, waits.
    ///
    /// Waits for ever if `make` asks for the same value.
    ///
    /// # Errors
    ///
    /// If it has to wait and the task is cancelled, or must not block here.
    pub fn get_or_init(&self, make: impl FnOnce() -> T) -> Result<&T, Refused> {
        self.get_or_try_init(|| Ok(make()))
    }

    /// The value, which is made by `make` if there is none. If that fails there is still none, and the next who waits
    /// tries. So `make` may pass on that a blocking call of its own was refused:
    ///
    /// ```
    /// use sinew_fiber::Refused;
    /// use sinew_chan::sync::{Mutex, OnceLock};
    ///
    /// let (once, other) = (OnceLock::new(), Mutex::new(7));
    /// let value = once.get_or_try_init(|| Ok::<i32, Refused>(*other.lock()?))?;
    /// assert_eq!(*value, 7);
    /// # Ok::<(), Refused>(())
    /// ```
    ///
    /// # Errors
    ///
    /// What `make` fails with; and as for [`get_or_init`](OnceLock::get_or_init).
    pub fn get_or_try_init<E: From<Refused>>(&self, make: impl FnOnce() -> Result<T, E>) -> Result<&T, E> {
        if let Some(value) = self.get() {
            return Ok(value);
        }
        match self.turn.acquire(1, None, WaitKind::Once)? {
            Acquired::Granted => {
                let turn = Turn(self);
                turn.settle(make()?);
            }
            Acquired::Closed | Acquired::TimedOut => (),
        }
        Ok(self.get().expect("the turn is closed when the value is there"))
    }

    /// The value, for whoever has the lock to itself.
    pub fn get_mut(&mut self) -> Option<&mut T> {
        self.value.get_mut().as_mut()
    }

    /// The value.
    pub fn into_inner(self) -> Option<T> {
        self.value.into_inner()
    }
}

/// The right to make the value; given to the next when it is dropped.
struct Turn<'a, T>(&'a OnceLock<T>);

impl<'a, T> Turn<'a, T> {
    fn take(lock: &'a OnceLock<T>) -> Option<Turn<'a, T>> {
        lock.turn.try_acquire(1).then(|| Turn(lock))
    }

    fn settle(self, value: T) {
        // SAFETY: only who has the turn writes; it is not given back, so that is once, and nobody reads before `ready`.
        unsafe { *self.0.value.get() = Some(value) };
        self.0.ready.store(true, Ordering::Release);
        self.0.turn.close();
        mem::forget(self);
    }
}

impl<T> Drop for Turn<'_, T> {
    fn drop(&mut self) {
        self.0.turn.release(1);
    }
}

impl<T> Default for OnceLock<T> {
    fn default() -> OnceLock<T> {
        OnceLock::new()
    }
}

impl<T: fmt::Debug> fmt::Debug for OnceLock<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.get() {
            Some(value) => f.debug_tuple("OnceLock").field(value).finish(),
            None => f.write_str("OnceLock(<unset>)"),
        }
    }
}

#[cfg(test)]
mod tests {
    use sinew_sync::atomic::AtomicUsize;
    use sinew_sync::{Arc, model, thread};

    use super::*;

    #[test]
    fn a_value_is_made_once_and_seen_by_all() {
        model("once_lock_is_made_once", || {
            let once = Arc::new(OnceLock::new());
            let made = Arc::new(AtomicUsize::new(0));
            let threads = [(); 2].map(|()| {
                let (once, made) = (once.clone(), made.clone());
                thread::spawn(move || {
                    let value = once.get_or_init(|| {
                        made.fetch_add(1, Ordering::Relaxed);
                        AtomicUsize::new(7)
                    });
                    assert_eq!(value.unwrap().load(Ordering::Relaxed), 7);
                })
            });
            threads.into_iter().for_each(|thread| thread.join().unwrap());
            assert_eq!(made.load(Ordering::Relaxed), 1);
        });
    }

    /// Of two who make the value the first fails: the other makes it.
    #[test]
    fn when_one_fails_the_next_tries() {
        model("once_lock_next_tries", || {
            let once = Arc::new(OnceLock::new());
            let tries = Arc::new(AtomicUsize::new(0));
            let threads = [(); 2].map(|()| {
                let (once, tries) = (once.clone(), tries.clone());
                thread::spawn(move || {
                    let value = once.get_or_try_init(|| match tries.fetch_add(1, Ordering::Relaxed) {
                        0 => Err(None),
                        _ => Ok(7),
                    });
                    value.map_err(|failed: Option<Refused>| assert!(failed.is_none())).is_ok()
                })
            });
            let made = threads.map(|thread| thread.join().unwrap());
            assert_ne!(made[0], made[1]);
            assert_eq!(once.get(), Some(&7));
        });
    }
}

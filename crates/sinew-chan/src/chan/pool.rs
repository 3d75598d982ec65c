//! A pool: items that are lent, and come back.
//!
//! `places.rs` has the protocol.

mod places;

use std::error::Error;
use std::fmt;
use std::ops::{Deref, DerefMut};
use std::time::Duration;

use sinew_core::Instant;
use sinew_fiber::Refused;
use sinew_sched::now;
use sinew_sched::raw::{Async, Attempt, Case, attempt_or_block};
use sinew_sync::Arc;
use sinew_sync::atomic::Ordering;

use self::places::{Create, Hooks, Places};
use crate::source::Source;

pub use self::places::TakeCase;

/// Items that are lent, and come back when they are dropped: connections, buffers, whatever is expensive to make. There are
/// never more than the capacity says; they are created when they are needed.
///
/// ```
/// use sinew_chan::chan::Pool;
/// use sinew_sched::{Runtime, scope};
///
/// let buffers = Pool::builder(2, || Vec::with_capacity(4096)).reset(Vec::clear).build();
/// Runtime::new().run(move || {
///     scope(|scope| {
///         for n in 0..10u8 {
///             let buffers = &buffers;
///             scope.spawn(move || {
///                 let mut buffer = buffers.take().unwrap(); // waits while two others have one
///                 buffer.push(n);
///                 assert_eq!(*buffer, [n]);
///             });
///         }
///     })
///     .unwrap();
///     assert!(buffers.created() <= 2);
/// })
/// .unwrap();
/// ```
///
/// Whoever takes has the item that came back last; if none is there a new one, which it creates itself; and if as many as
/// may be are lent, it waits, first come first served, and is given what comes back next. In a select a pool is a case of
/// [`recv`](crate::select::recv).
///
/// **Every item that is created is destroyed exactly once**, unless it is [detached](Pooled::detach): by the `destroy`
/// hook, or by its destructor if there is none. A `create` that fails or panics leaves its place to the next who waits. A
/// `reset` that panics has the item destroyed. A `destroy` that panics has destroyed it. What a hook raises goes to
/// whoever had it called: who takes, who drops an item, who closes the pool; and no further if that one unwinds already.
///
/// Clones are the same pool. It is closed when the last of them goes.
pub struct Pool<T> {
    places: Arc<Places<T>>,
}

impl<T> Pool<T> {
    /// A pool of at most `capacity` items, each made by `create`.
    ///
    /// # Panics
    ///
    /// If the capacity is zero: nobody could ever take anything.
    pub fn builder(capacity: usize, create: impl Fn() -> T + Send + Sync + 'static) -> PoolBuilder<T> {
        PoolBuilder::new(capacity, Box::new(move || Ok(create())))
    }

    /// Like [`builder`](Pool::builder), for items that cannot always be made. Who takes gets the error as
    /// [`TakeError::Failed`].
    ///
    /// # Panics
    ///
    /// As for [`builder`](Pool::builder).
    pub fn try_builder<E>(
        capacity: usize,
        create: impl Fn() -> Result<T, E> + Send + Sync + 'static,
    ) -> PoolBuilder<T>
    where
        E: Into<Box<dyn Error + Send + Sync>>,
    {
        PoolBuilder::new(capacity, Box::new(move || create().map_err(Into::into)))
    }

    /// Takes an item: an idle one, or a new one. Waits until there is one to take.
    ///
    /// # Errors
    ///
    /// If the pool is closed; if a new item could not be created; if it has to wait and the task is cancelled, or must not
    /// block here.
    pub fn take(&self) -> Result<Pooled<T>, TakeError> {
        let take = self.operation();
        attempt_or_block(&take, None)?;
        take.output()
    }

    /// Like [`take`](Pool::take), but waits at most `timeout`.
    ///
    /// # Errors
    ///
    /// As for [`take`](Pool::take), and [`TakeError::Timeout`].
    pub fn take_timeout(&self, timeout: Duration) -> Result<Pooled<T>, TakeError> {
        self.take_until(now() + timeout)
    }

    /// [`take_timeout`](Self::take_timeout), until `deadline` on the clock of [`now`].
    pub(crate) fn take_until(&self, deadline: Instant) -> Result<Pooled<T>, TakeError> {
        let take = self.operation();
        if attempt_or_block(&take, Some(deadline))? { take.output() } else { Err(TakeError::Timeout) }
    }

    /// Takes an item if that needs no wait: an idle one, or a new one.
    ///
    /// # Errors
    ///
    /// If the pool is closed, or a new item could not be created.
    pub fn try_take(&self) -> Result<Option<Pooled<T>>, TakeError> {
        let take = self.operation();
        if take.attempt() { take.output().map(Some) } else { Ok(None) }
    }

    /// A future that takes an item. Dropped before it is ready it has taken nothing: an item that was on its way to it
    /// goes to the next. If a new one is created, then in a poll: `create` must not block there.
    pub fn take_async(&self) -> Async<TakeCase<'_, T>> {
        Async::new(self.operation())
    }

    /// Closes the pool: nothing can be taken any more, what is idle is destroyed, and what is lent when it comes back.
    /// False if it was closed before.
    pub fn close(&self) -> bool {
        self.places.close()
    }

    /// True once the pool was closed.
    pub fn is_closed(&self) -> bool {
        self.places.is_closed()
    }

    /// How many items there are: idle, lent, or being created.
    pub fn len(&self) -> usize {
        self.places.taken()
    }

    /// True if there are no items.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// How many items are there to take without creating any.
    pub fn idle(&self) -> usize {
        self.places.idle()
    }

    /// How many items were created so far, those included that are gone.
    pub fn created(&self) -> usize {
        self.places.created.load(Ordering::Relaxed)
    }

    /// How many items there can be at once.
    pub fn capacity(&self) -> usize {
        self.places.capacity
    }

    fn operation(&self) -> TakeCase<'_, T> {
        TakeCase::new(&self.places)
    }
}

impl<T> Clone for Pool<T> {
    fn clone(&self) -> Pool<T> {
        self.places.pools.fetch_add(1, Ordering::Relaxed);
        Pool { places: self.places.clone() }
    }
}

impl<T> Drop for Pool<T> {
    fn drop(&mut self) {
        if self.places.pools.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.close();
        }
    }
}

impl<T> fmt::Debug for Pool<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("Pool");
        shown.field("len", &self.len()).field("idle", &self.idle()).field("capacity", &self.capacity());
        shown.field("closed", &self.is_closed()).finish()
    }
}

impl<'a, T> Source for &'a Pool<T> {
    type Case = TakeCase<'a, T>;

    fn into_case(self) -> TakeCase<'a, T> {
        self.operation()
    }
}

/// What a new [`Pool`] does with its items; see [`Pool::builder`].
#[must_use = "a builder does nothing until `build`"]
pub struct PoolBuilder<T> {
    capacity: usize,
    hooks: Hooks<T>,
}

impl<T> PoolBuilder<T> {
    fn new(capacity: usize, create: Create<T>) -> PoolBuilder<T> {
        assert!(capacity > 0, "a pool without a place for an item: nobody could ever take one");
        PoolBuilder { capacity, hooks: Hooks { create, reset: None, destroy: None } }
    }

    /// Called with an item that comes back, before the next one gets it.
    pub fn reset(mut self, reset: impl Fn(&mut T) + Send + Sync + 'static) -> PoolBuilder<T> {
        self.hooks.reset = Some(Box::new(reset));
        self
    }

    /// Called with an item that is not used any more, instead of its destructor.
    pub fn destroy(mut self, destroy: impl Fn(T) + Send + Sync + 'static) -> PoolBuilder<T> {
        self.hooks.destroy = Some(Box::new(destroy));
        self
    }

    /// The pool, with nothing in it yet.
    pub fn build(self) -> Pool<T> {
        Pool { places: Arc::new(Places::new(self.capacity, self.hooks)) }
    }
}

impl<T> fmt::Debug for PoolBuilder<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PoolBuilder").field("capacity", &self.capacity).finish_non_exhaustive()
    }
}

/// An item of a [`Pool`], lent. It goes back when it is dropped, also if the pool is gone: then it is destroyed.
#[must_use = "an item that is dropped goes back at once"]
pub struct Pooled<T> {
    places: Arc<Places<T>>,
    /// None only when it goes.
    item: Option<T>,
}

impl<T> Pooled<T> {
    fn new(places: Arc<Places<T>>, item: T) -> Pooled<T> {
        Pooled { places, item: Some(item) }
    }

    /// Takes the item out of the pool for good: it is not destroyed by it, and its place is free.
    pub fn detach(mut this: Pooled<T>) -> T {
        let item = this.item.take().expect("an item that is lent");
        this.places.free();
        item
    }

    /// Destroys the item, for one that is not fit to be used again, and frees its place.
    pub fn discard(mut this: Pooled<T>) {
        let item = this.item.take().expect("an item that is lent");
        this.places.destroy(item);
    }
}

impl<T> Deref for Pooled<T> {
    type Target = T;

    fn deref(&self) -> &T {
        self.item.as_ref().expect("an item that is lent")
    }
}

impl<T> DerefMut for Pooled<T> {
    fn deref_mut(&mut self) -> &mut T {
        self.item.as_mut().expect("an item that is lent")
    }
}

impl<T> Drop for Pooled<T> {
    fn drop(&mut self) {
        self.item.take().into_iter().for_each(|item| self.places.give_back(item));
    }
}

impl<T: fmt::Debug> fmt::Debug for Pooled<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&**self, f)
    }
}

/// Why nothing was taken from a [`Pool`].
#[derive(Debug, thiserror::Error)]
pub enum TakeError {
    /// The pool was closed.
    #[error("the pool is closed: it lends nothing any more")]
    Closed,
    /// There was a place for a new item, but it could not be created.
    #[error("the pool could not create an item: {0}")]
    Failed(#[source] Box<dyn Error + Send + Sync>),
    /// No item could be taken before the timeout.
    #[error("all items were lent until the timeout")]
    Timeout,
    /// The caller cannot wait here, or not any more.
    #[error(transparent)]
    Refused(#[from] Refused),
}

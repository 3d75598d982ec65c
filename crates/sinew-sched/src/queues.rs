//! The queues that any worker may take from: crossbeam's, and in a model a stand-in.
//!
//! Their own synchronisation is crossbeam's business. What a model is about is the order between a queue and the flags
//! around it, so the stand-in promises as little as possible: whether it is empty is one relaxed load, which may be late.

#[cfg(not(any(loom, shuttle)))]
pub(crate) use crossbeam_deque::{Injector, Steal, Stealer, Worker as Deque};

#[cfg(any(loom, shuttle))]
pub(crate) use model::{Deque, Injector, Steal, Stealer};

#[cfg(any(loom, shuttle))]
mod model {
    use std::collections::VecDeque;

    use std::sync::Arc; // models leak their runtimes, which loom's own would take for a leak

    use sinew_sync::Mutex;
    use sinew_sync::atomic::{AtomicUsize, Ordering};

    pub(crate) enum Steal<T> {
        Empty,
        Success(T),
    }

    impl<T> Steal<T> {
        pub(crate) fn success(self) -> Option<T> {
            match self {
                Steal::Success(item) => Some(item),
                Steal::Empty => None,
            }
        }

        pub(crate) fn or_else(self, other: impl FnOnce() -> Steal<T>) -> Steal<T> {
            match self {
                Steal::Empty => other(),
                found => found,
            }
        }

        pub(crate) fn is_retry(&self) -> bool {
            false
        }
    }

    pub(crate) struct Injector<T> {
        items: Mutex<VecDeque<T>>,
        length: AtomicUsize,
    }

    impl<T> Injector<T> {
        pub(crate) fn new() -> Injector<T> {
            Injector { items: Mutex::new(VecDeque::new()), length: AtomicUsize::new(0) }
        }

        pub(crate) fn push(&self, item: T) {
            self.items.lock().push_back(item);
            self.length.fetch_add(1, Ordering::Relaxed);
        }

        pub(crate) fn steal(&self) -> Steal<T> {
            self.take(VecDeque::pop_front)
        }

        pub(crate) fn steal_batch_and_pop(&self, _: &Deque<T>) -> Steal<T> {
            self.steal()
        }

        pub(crate) fn is_empty(&self) -> bool {
            self.len() == 0
        }

        pub(crate) fn len(&self) -> usize {
            self.length.load(Ordering::Relaxed)
        }

        fn take(&self, from: fn(&mut VecDeque<T>) -> Option<T>) -> Steal<T> {
            let taken = from(&mut self.items.lock());
            match taken {
                Some(item) => {
                    self.length.fetch_sub(1, Ordering::Relaxed);
                    Steal::Success(item)
                }
                None => Steal::Empty,
            }
        }
    }

    pub(crate) struct Deque<T> {
        items: Arc<Injector<T>>,
        newest_first: bool,
    }

    pub(crate) struct Stealer<T>(Arc<Injector<T>>);

    impl<T> Deque<T> {
        pub(crate) fn new_lifo() -> Deque<T> {
            Deque { items: Arc::new(Injector::new()), newest_first: true }
        }

        pub(crate) fn new_fifo() -> Deque<T> {
            Deque { items: Arc::new(Injector::new()), newest_first: false }
        }

        pub(crate) fn stealer(&self) -> Stealer<T> {
            Stealer(self.items.clone())
        }

        pub(crate) fn push(&self, item: T) {
            self.items.push(item);
        }

        pub(crate) fn pop(&self) -> Option<T> {
            let from = if self.newest_first { VecDeque::pop_back } else { VecDeque::pop_front };
            self.items.take(from).success()
        }

        pub(crate) fn len(&self) -> usize {
            self.items.len()
        }

        pub(crate) fn is_empty(&self) -> bool {
            self.items.is_empty()
        }
    }

    impl<T> Stealer<T> {
        pub(crate) fn steal(&self) -> Steal<T> {
            self.0.steal()
        }

        pub(crate) fn steal_batch_and_pop(&self, _: &Deque<T>) -> Steal<T> {
            self.0.steal()
        }

        pub(crate) fn is_empty(&self) -> bool {
            self.0.is_empty()
        }

        pub(crate) fn len(&self) -> usize {
            self.0.len()
        }
    }
}

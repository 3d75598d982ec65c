//! A worker's own queue of tasks that are ready: a ring that grows.

use std::cell::{Cell, UnsafeCell};
use std::ptr;

use sinew_sync::atomic::{AtomicUsize, Ordering};

use crate::task::Task;

/// First in, first out, for one thread, which uses it from several stacks: no reference into it is ever handed out.
pub(crate) struct Ready {
    /// As many places as a power of two.
    places: UnsafeCell<Box<[Option<&'static Task>]>>,
    first: Cell<usize>,
    /// Written here only; others may look.
    len: &'static AtomicUsize,
}

const SMALLEST: usize = 64;

impl Ready {
    /// An empty queue, whose length is kept in `len`.
    pub(crate) fn new(len: &'static AtomicUsize) -> Ready {
        let places = UnsafeCell::new(vec![None; SMALLEST].into_boxed_slice());
        Ready { places, first: Cell::new(0), len }
    }

    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.len.load(Ordering::Relaxed)
    }

    #[inline]
    fn set_len(&self, len: usize) {
        self.len.store(len, Ordering::Relaxed);
    }

    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.len() == 0
    }

    #[inline]
    pub(crate) fn push(&self, task: &'static Task) {
        // SAFETY: nobody else is in here: no code but this runs while the borrow lasts.
        let places = unsafe { &mut **self.places.get() };
        let len = self.len();
        if len == places.len() {
            return self.grow(task);
        }
        let mask = places.len() - 1;
        places[(self.first.get() + len) & mask] = Some(task);
        self.set_len(len + 1);
    }

    #[cold]
    fn grow(&self, task: &'static Task) {
        // SAFETY: as in `push`.
        let places = unsafe { &mut *self.places.get() };
        places.rotate_left(self.first.get());
        let mut larger = vec![None; places.len() * 2];
        larger[..places.len()].copy_from_slice(places);
        *places = larger.into_boxed_slice();
        self.first.set(0);
        self.push(task);
    }

    #[inline]
    pub(crate) fn pop(&self) -> Option<&'static Task> {
        let len = self.len();
        if len == 0 {
            return None;
        }
        // SAFETY: as in `push`.
        let places = unsafe { &**self.places.get() };
        let mask = places.len() - 1;
        let first = self.first.get();
        self.first.set((first + 1) & mask);
        self.set_len(len - 1);
        places[first & mask]
    }

    /// Takes `task` out, wherever it is.
    pub(crate) fn remove(&self, task: &'static Task) {
        for _ in 0..self.len() {
            match self.pop() {
                Some(other) if !ptr::eq(other, task) => self.push(other),
                _ => (),
            }
        }
    }
}

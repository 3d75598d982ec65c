//! A worker's own queue of tasks that are ready: a ring that grows.

use std::cell::{Cell, UnsafeCell};
use std::ptr;

use crate::task::Task;

/// First in, first out, for one thread, which uses it from several stacks: no reference into it is ever handed out.
pub(crate) struct Ready {
    /// As many places as a power of two.
    places: UnsafeCell<Box<[Option<&'static Task>]>>,
    first: Cell<usize>,
    len: Cell<usize>,
}

const SMALLEST: usize = 64;

impl Ready {
    pub(crate) fn new() -> Ready {
        let places = UnsafeCell::new(vec![None; SMALLEST].into_boxed_slice());
        Ready { places, first: Cell::new(0), len: Cell::new(0) }
    }

    pub(crate) fn len(&self) -> usize {
        self.len.get()
    }

    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.len.get() == 0
    }

    #[inline(always)]
    pub(crate) fn push(&self, task: &'static Task) {
        // SAFETY: nobody else is in here: no code but this runs while the borrow lasts.
        let places = unsafe { &mut **self.places.get() };
        let len = self.len.get();
        if len == places.len() {
            return self.grow(task);
        }
        let mask = places.len() - 1;
        places[(self.first.get() + len) & mask] = Some(task);
        self.len.set(len + 1);
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
        let len = self.len.get();
        if len == 0 {
            return None;
        }
        // SAFETY: as in `push`.
        let places = unsafe { &**self.places.get() };
        let mask = places.len() - 1;
        let first = self.first.get();
        self.first.set((first + 1) & mask);
        self.len.set(len - 1);
        places[first & mask]
    }

    /// Takes `task` out, wherever it is.
    pub(crate) fn remove(&self, task: &'static Task) {
        for _ in 0..self.len.get() {
            match self.pop() {
                Some(other) if !ptr::eq(other, task) => self.push(other),
                _ => (),
            }
        }
    }
}

//! What `force_send` drops to make room.

use std::fmt;
use std::vec;

/// Items that made room for one that was forced in, the oldest first: see
/// [`Sender::force_send`](super::Sender::force_send).
pub struct Displaced<T> {
    /// All there is in most kinds, which so need no memory for it.
    one: Option<T>,
    more: vec::IntoIter<T>,
}

impl<T> Displaced<T> {
    pub(super) fn one(item: Option<T>) -> Displaced<T> {
        Displaced { one: item, more: Vec::new().into_iter() }
    }

    pub(super) fn all(items: Vec<T>) -> Displaced<T> {
        Displaced { one: None, more: items.into_iter() }
    }
}

impl<T> Iterator for Displaced<T> {
    type Item = T;

    fn next(&mut self) -> Option<T> {
        self.one.take().or_else(|| self.more.next())
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        let left = usize::from(self.one.is_some()) + self.more.len();
        (left, Some(left))
    }
}

impl<T> ExactSizeIterator for Displaced<T> {}

impl<T> fmt::Debug for Displaced<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Displaced").field("len", &self.len()).finish_non_exhaustive()
    }
}

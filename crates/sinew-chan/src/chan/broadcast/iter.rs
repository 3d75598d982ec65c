//! The items of a broadcast channel, one by one. An iterator has no errors: what was missed is passed over.

use super::{Receiver, RecvError};
use crate::chan::error::unwind;

/// The items of a broadcast channel, as they come: see [`Receiver::iter`].
#[derive(Debug)]
pub struct Iter<'a, T>(pub(super) &'a Receiver<T>);

impl<T: Clone> Iterator for Iter<'_, T> {
    type Item = T;

    #[track_caller]
    fn next(&mut self) -> Option<T> {
        next_of(self.0)
    }
}

/// The items that are in a broadcast channel: see [`Receiver::try_iter`].
#[derive(Debug)]
pub struct TryIter<'a, T>(pub(super) &'a Receiver<T>);

impl<T: Clone> Iterator for TryIter<'_, T> {
    type Item = T;

    fn next(&mut self) -> Option<T> {
        loop {
            match self.0.try_recv() {
                Err(RecvError::Lagged(_)) => (),
                received => return received.ok().flatten(),
            }
        }
    }
}

/// The items of a broadcast channel, as they come, with the receiver inside.
#[derive(Debug)]
pub struct IntoIter<T>(Receiver<T>);

impl<T: Clone> Iterator for IntoIter<T> {
    type Item = T;

    #[track_caller]
    fn next(&mut self) -> Option<T> {
        next_of(&self.0)
    }
}

impl<T: Clone> IntoIterator for Receiver<T> {
    type Item = T;
    type IntoIter = IntoIter<T>;

    fn into_iter(self) -> IntoIter<T> {
        IntoIter(self)
    }
}

#[track_caller]
fn next_of<T: Clone>(receiver: &Receiver<T>) -> Option<T> {
    loop {
        return match receiver.recv() {
            Ok(item) => Some(item),
            Err(RecvError::Lagged(_)) => continue,
            Err(RecvError::Refused(refused)) => unwind(refused),
            Err(_) => None,
        };
    }
}

impl<'a, T: Clone> IntoIterator for &'a Receiver<T> {
    type Item = T;
    type IntoIter = Iter<'a, T>;

    fn into_iter(self) -> Iter<'a, T> {
        self.iter()
    }
}

//! Which number refers to what, and which numbers are free.

use std::collections::BTreeSet;
use std::sync::{Arc, Weak};

use sinew_core::Errno;

use crate::bits::Flags;
use crate::number::{Descriptor, Number, Open};
use crate::object::FdObject;

use super::Closed;

/// The first number that is given out.
const FIRST: usize = 3;

/// A number of the table.
enum Slot {
    Free,
    Open {
        number: Arc<Number>,
        open: Arc<Open>,
        flags: Flags,
    },
    /// Closed, and watched by epolls that have not reported that yet: the number lives as long as their watches.
    Reserved(Weak<Number>),
}

pub(super) struct Slots {
    slots: Vec<Slot>,
    /// The numbers that are `Free`, from [`FIRST`].
    free: BTreeSet<usize>,
    /// The numbers that are `Reserved`, from [`FIRST`]. They are freed when a number is asked for.
    reserved: BTreeSet<usize>,
    limit: usize,
    closed: bool,
}

impl Slots {
    pub(super) fn new(limit: usize, stdio: [Arc<dyn FdObject>; FIRST]) -> Slots {
        let slots = stdio.into_iter().map(|object| Slot::of(Descriptor::new(object, Flags::NONE))).collect();
        let limit = limit.min(i32::MAX as usize);
        Slots { slots, free: BTreeSet::new(), reserved: BTreeSet::new(), limit, closed: false }
    }

    fn index(fd: i32) -> Result<usize, Errno> {
        usize::try_from(fd).map_err(|_| Errno::EBADF)
    }

    pub(super) fn get(&self, fd: i32) -> Result<(Arc<Number>, Flags), Errno> {
        match self.slots.get(Slots::index(fd)?) {
            Some(Slot::Open { number, flags, .. }) => Ok((number.clone(), *flags)),
            _ => Err(Errno::EBADF),
        }
    }

    /// Returns a second descriptor of an object.
    pub(super) fn share(&self, fd: i32) -> Result<Descriptor, Errno> {
        match self.slots.get(Slots::index(fd)?) {
            Some(Slot::Open { open, flags, .. }) => {
                Ok(Descriptor { open: open.clone(), flags: flags.without(Flags::CLOEXEC) })
            }
            _ => Err(Errno::EBADF),
        }
    }

    /// Gives a descriptor the lowest free number.
    pub(super) fn insert(&mut self, descriptor: Descriptor) -> Result<i32, (Descriptor, Errno)> {
        if self.closed {
            return Err((descriptor, Errno::EBADF));
        }
        self.free_reserved();
        let index = match self.free.pop_first() {
            Some(index) => index,
            None if self.slots.len() < self.limit => {
                self.slots.push(Slot::Free);
                self.slots.len() - 1
            }
            None => return Err((descriptor, Errno::EMFILE)),
        };
        self.slots[index] = Slot::of(descriptor);
        Ok(i32::try_from(index).expect("the limit is at most i32::MAX"))
    }

    /// Frees the numbers that no epoll watches any more.
    fn free_reserved(&mut self) {
        let (slots, free) = (&mut self.slots, &mut self.free);
        self.reserved.retain(|index| {
            let watched = matches!(&slots[*index], Slot::Reserved(number) if number.strong_count() > 0);
            if !watched {
                slots[*index] = Slot::Free;
                free.insert(*index);
            }
            watched
        });
    }

    /// Closes a number.
    pub(super) fn remove(&mut self, fd: i32) -> Result<Closed, Errno> {
        let index = Slots::index(fd)?;
        match self.slots.get_mut(index) {
            Some(slot @ Slot::Open { .. }) => {
                let Slot::Open { number, open, .. } = std::mem::replace(slot, Slot::Free) else {
                    unreachable!("it was open just now")
                };
                number.mark_closed();
                let watched = number.is_watched();
                if watched {
                    *slot = Slot::Reserved(Arc::downgrade(&number));
                }
                if index >= FIRST {
                    let numbers = if watched { &mut self.reserved } else { &mut self.free };
                    numbers.insert(index);
                }
                Ok(Closed { number, open })
            }
            _ => Err(Errno::EBADF),
        }
    }

    pub(super) fn remove_where(&mut self, condition: impl Fn(Flags) -> bool) -> Vec<Closed> {
        let chosen =
            self.open_fds().into_iter().filter(|fd| self.get(*fd).is_ok_and(|(_, flags)| condition(flags)));
        let chosen: Vec<i32> = chosen.collect();
        chosen.into_iter().filter_map(|fd| self.remove(fd).ok()).collect()
    }

    pub(super) fn close(&mut self) -> Vec<Closed> {
        self.closed = true;
        self.remove_where(|_| true)
    }

    pub(super) fn change_flags(&mut self, fd: i32, set: Flags, clear: Flags) -> Result<Flags, Errno> {
        match self.slots.get_mut(Slots::index(fd)?) {
            Some(Slot::Open { flags, .. }) => {
                *flags = flags.without(clear) | set;
                Ok(*flags)
            }
            _ => Err(Errno::EBADF),
        }
    }

    pub(super) fn open_fds(&self) -> Vec<i32> {
        let open = self.slots.iter().enumerate().filter(|(_, slot)| matches!(slot, Slot::Open { .. }));
        open.filter_map(|(index, _)| i32::try_from(index).ok()).collect()
    }

    pub(super) fn numbers(&self) -> Vec<Arc<Number>> {
        let number = |slot: &Slot| match slot {
            Slot::Open { number, .. } => Some(number.clone()),
            _ => None,
        };
        self.slots.iter().filter_map(number).collect()
    }
}

impl Slot {
    fn of(descriptor: Descriptor) -> Slot {
        let number = Arc::new(Number::new(descriptor.open.object.clone()));
        Slot::Open { number, open: descriptor.open, flags: descriptor.flags }
    }
}

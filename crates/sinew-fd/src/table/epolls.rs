//! The epoll calls of a table.

use std::sync::Arc;
use std::time::Duration;

use sinew_core::Errno;
use sinew_sched::raw::What;

use crate::bits::{Events, Flags};
use crate::epoll::{Epoll, EpollEvent, EpollOp};
use crate::number::Number;
use crate::wait::EPOLL;

use super::{FdTable, as_epoll};

impl FdTable {
    /// Creates an epoll and returns its number.
    ///
    /// # Errors
    ///
    /// `EMFILE` if all numbers are used or reserved.
    pub fn epoll_create(&self) -> Result<i32, Errno> {
        self.open(Epoll::new(), Flags::NONE)
    }

    /// Changes what an epoll watches. [`Events::ERR`] and [`Events::HUP`] are reported whether or not they are in
    /// `events`, which [`EpollOp::Delete`] ignores.
    ///
    /// A watch of a number that was closed is deleted as usual, until a wait has reported the close.
    ///
    /// # Errors
    ///
    /// - `EBADF`: `epfd` or `fd` is unknown or closed;
    /// - `EINVAL`: `epfd` is not an epoll, or `fd` is one;
    /// - `EPERM`: `fd` cannot be watched, as a file;
    /// - `EEXIST`: `fd` is watched already (`Add`);
    /// - `ENOENT`: `fd` is not watched (`Modify`, `Delete`).
    pub fn epoll_ctl(&self, epfd: i32, op: EpollOp, fd: i32, events: Events) -> Result<(), Errno> {
        // Held for the whole call, so that the number stays open until the watch is registered.
        let slots = self.slots.lock();
        let (number, _) = slots.get(epfd)?;
        let epoll = as_epoll(&number).ok_or(Errno::EINVAL)?;
        let target = match slots.get(fd) {
            Ok((target, _)) => target,
            Err(errno) if op == EpollOp::Delete => {
                drop(slots);
                return epoll.delete(fd).map_err(|_| errno);
            }
            Err(errno) => return Err(errno),
        };
        if as_epoll(&target).is_some() {
            return Err(Errno::EINVAL);
        }
        if !target.object.is_pollable() {
            return Err(Errno::EPERM);
        }
        let woken = match op {
            EpollOp::Add => epoll.add(fd, &target, events)?,
            EpollOp::Modify => epoll.modify(fd, events)?,
            EpollOp::Delete => {
                drop(slots);
                return epoll.delete(fd);
            }
        };
        drop(slots);
        woken.wake();
        Ok(())
    }

    /// Waits until watched numbers are ready; `None` waits for ever. Fills `events` with one record for each, in
    /// ascending order of their numbers, and returns how many. Returns 0 on timeout.
    ///
    /// With more ready than fit, the next call begins after the highest number that was reported.
    ///
    /// # Errors
    ///
    /// `ENOSPC` if `events` is empty; `EBADF` if `epfd` is unknown, or closed meanwhile; `EINVAL` if it is not an
    /// epoll; `ECANCELED` if the task is cancelled or the table [interrupted](FdTable::interrupt); `EDEADLK` where
    /// nothing may block.
    pub fn epoll_wait(
        &self,
        epfd: i32,
        events: &mut [EpollEvent],
        timeout: Option<Duration>,
    ) -> Result<usize, Errno> {
        let number = self.epoll_to_wait_for(epfd, events)?;
        let epoll = as_epoll(&number).ok_or(Errno::EINVAL)?;
        epoll.wait(events, timeout, what(epfd), self.stop(&number))
    }

    /// [`epoll_wait`](FdTable::epoll_wait) as a future. Dropped before it is ready, it has reported nothing.
    ///
    /// # Errors
    ///
    /// As for [`epoll_wait`](FdTable::epoll_wait).
    pub async fn epoll_wait_async(
        &self,
        epfd: i32,
        events: &mut [EpollEvent],
        timeout: Option<Duration>,
    ) -> Result<usize, Errno> {
        let number = self.epoll_to_wait_for(epfd, events)?;
        let epoll = as_epoll(&number).ok_or(Errno::EINVAL)?;
        epoll.wait_async(events, timeout, what(epfd), self.stop(&number)).await
    }

    /// Closes an epoll: [`close`](FdTable::close) for epolls only.
    ///
    /// # Errors
    ///
    /// `EBADF` if `epfd` is unknown, `EINVAL` if it is not an epoll.
    pub fn epoll_close(&self, epfd: i32) -> Result<(), Errno> {
        let closed = {
            let mut slots = self.slots.lock();
            as_epoll(&slots.get(epfd)?.0).ok_or(Errno::EINVAL)?;
            slots.remove(epfd)?
        };
        drop(closed.announce());
        Ok(())
    }

    fn epoll_to_wait_for(&self, epfd: i32, events: &[EpollEvent]) -> Result<Arc<Number>, Errno> {
        if events.is_empty() {
            return Err(Errno::ENOSPC);
        }
        Ok(self.number(epfd)?.0)
    }
}

fn what(epfd: i32) -> What {
    What::tagged(EPOLL, epfd.cast_unsigned())
}

//! Reads, writes and waits for readiness through a table.

use std::time::Duration;

use sinew_core::Errno;

use crate::bits::{Events, Flags};
use crate::errno::begin_call;
use crate::number::Number;
use crate::wait::{NumberWait, what};

use super::FdTable;

impl FdTable {
    /// Reads from a file descriptor. Waits until there is something to read, unless the number has [`Flags::NONBLOCK`]:
    /// suspends the running task, or blocks the thread. Zero is the end of file.
    ///
    /// # Errors
    ///
    /// Those of [`FdObject::read`](crate::FdObject::read); `EAGAIN` only with `NONBLOCK`. `EBADF` if the number is closed
    /// meanwhile, `ECANCELED` if the task is cancelled or the table [interrupted](FdTable::interrupt), `EDEADLK`
    /// where nothing may block.
    pub fn read(&self, fd: i32, buffer: &mut [u8]) -> Result<usize, Errno> {
        let (number, flags) = self.number(fd)?;
        if flags.contains(Flags::NONBLOCK) {
            begin_call()?;
            return number.object.read(buffer);
        }
        let wait = NumberWait::new(&number, Events::IN, what(fd, Events::IN), self.stop(&number));
        wait.block(None, || number.object.read(buffer)).map(|count| count.expect("a wait without a timeout"))
    }

    /// Writes to a file descriptor. Waits until there is room for some of `bytes`, unless the number has
    /// [`Flags::NONBLOCK`]. Returns the number of bytes that were taken.
    ///
    /// # Errors
    ///
    /// Those of [`FdObject::write`](crate::FdObject::write), else as for [`read`](FdTable::read).
    pub fn write(&self, fd: i32, bytes: &[u8]) -> Result<usize, Errno> {
        let (number, flags) = self.number(fd)?;
        if flags.contains(Flags::NONBLOCK) {
            begin_call()?;
            return number.object.write(bytes);
        }
        let wait = NumberWait::new(&number, Events::OUT, what(fd, Events::OUT), self.stop(&number));
        wait.block(None, || number.object.write(bytes)).map(|count| count.expect("a wait without a timeout"))
    }

    /// [`read`](FdTable::read) as a future. Dropped before it is ready, it has read nothing.
    ///
    /// # Errors
    ///
    /// As for [`read`](FdTable::read).
    pub async fn read_async(&self, fd: i32, buffer: &mut [u8]) -> Result<usize, Errno> {
        let (number, flags) = self.number(fd)?;
        if flags.contains(Flags::NONBLOCK) {
            return number.object.read(buffer);
        }
        let wait = NumberWait::new(&number, Events::IN, what(fd, Events::IN), self.stop(&number));
        let count = wait.run(None, || number.object.read(buffer)).await?;
        Ok(count.expect("a wait without a timeout"))
    }

    /// [`write`](FdTable::write) as a future. Dropped before it is ready, it has written nothing.
    ///
    /// # Errors
    ///
    /// As for [`write`](FdTable::write).
    pub async fn write_async(&self, fd: i32, bytes: &[u8]) -> Result<usize, Errno> {
        let (number, flags) = self.number(fd)?;
        if flags.contains(Flags::NONBLOCK) {
            return number.object.write(bytes);
        }
        let wait = NumberWait::new(&number, Events::OUT, what(fd, Events::OUT), self.stop(&number));
        let count = wait.run(None, || number.object.write(bytes)).await?;
        Ok(count.expect("a wait without a timeout"))
    }

    /// Waits until a number is ready for one of `events`, for an error or a hang-up; `None` waits for ever. Returns what it is
    /// ready for, and nothing on timeout.
    ///
    /// # Errors
    ///
    /// As for [`read`](FdTable::read).
    pub fn ready(&self, fd: i32, events: Events, timeout: Option<Duration>) -> Result<Events, Errno> {
        let (number, _) = self.number(fd)?;
        let wait = NumberWait::new(&number, events, what(fd, events), self.stop(&number));
        wait.block(timeout, || readiness(&number, events)).map(Option::unwrap_or_default)
    }

    /// [`ready`](FdTable::ready) as a future.
    ///
    /// # Errors
    ///
    /// As for [`read`](FdTable::read).
    pub async fn ready_async(
        &self,
        fd: i32,
        events: Events,
        timeout: Option<Duration>,
    ) -> Result<Events, Errno> {
        let (number, _) = self.number(fd)?;
        let wait = NumberWait::new(&number, events, what(fd, events), self.stop(&number));
        wait.run(timeout, || readiness(&number, events)).await.map(Option::unwrap_or_default)
    }
}

fn readiness(number: &Number, events: Events) -> Result<Events, Errno> {
    match number.object.poll_mask() & (events | Events::ALWAYS) {
        Events::NONE => Err(Errno::EAGAIN),
        ready => Ok(ready),
    }
}

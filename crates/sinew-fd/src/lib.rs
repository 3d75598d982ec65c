//! The file descriptors of an actor, and level-triggered epoll over them.
//!
//! A [`FdTable`] maps small numbers to objects that can become ready: pipes, timers, event counters, files, and what other
//! crates add by implementing [`FdObject`]. An actor reads and writes them, or watches many of them with an epoll.
//! Every wait works from a task, which it suspends, from a thread, which it blocks, and as a future.
//!
//! ```
//! use sinew_fd::{EpollEvent, EpollOp, Events, FdTable, Flags, pipe};
//! use sinew_sched::{Runtime, spawn};
//!
//! Runtime::new().run(|| {
//!     let (reader, writer) = pipe(4096);
//!     let sender = FdTable::new(16);
//!     let output = sender.open(writer, Flags::NONE)?;
//!     spawn(move || sender.write(output, b"hello")).detach(); // the table is closed with its task
//!
//!     let table = FdTable::new(16);
//!     let input = table.open(reader, Flags::NONE)?;
//!     let epfd = table.epoll_create()?;
//!     table.epoll_ctl(epfd, EpollOp::Add, input, Events::IN)?;
//!     let (mut ready, mut buffer, mut text) = ([EpollEvent::default(); 8], [0; 64], Vec::new());
//!     loop {
//!         let count = table.epoll_wait(epfd, &mut ready, None)?; // suspends the task
//!         for event in &ready[..count] {
//!             match table.read(event.fd, &mut buffer)? {
//!                 0 => {
//!                     assert_eq!(text, b"hello");
//!                     return Ok(());
//!                 }
//!                 length => text.extend_from_slice(&buffer[..length]),
//!             }
//!         }
//!     }
//! })
//! .unwrap()?;
//! # Ok::<(), sinew_fd::Errno>(())
//! ```
//!
//! # Where to start
//!
//! - [`FdTable`]: open, close, read, write, wait.
//! - [`FdObject`]: what a kind implements; [`onboarding::check`] tests it.
//! - [`EventCounter`], [`Timer`], [`pipe`], [`Directory`] and [`File`], [`Stdin`] and [`Output`]: the kinds of this crate.
//! - [`FdTable::readiness`]: a file descriptor as a case of `select!`.
//! - [`FdTable::ctl`]: flags, status and metrics as JSON, for guests.
//!
//! # Layers
//!
//! From the bottom: `bits`, `metrics`, `lock`, `wake_flag`, `errno`; `watchers`; `object`; `number`; `wait` and `epoll`, of
//! which the latter opens with the protocol of notifications and waits; `kinds`; `table`; `ctl` and `select`;
//! `onboarding`.

#![forbid(unsafe_code)]

mod bits;
mod ctl;
mod epoll;
mod errno;
mod kinds;
mod lock;
mod metrics;
mod number;
mod object;
pub mod onboarding;
mod select;
mod table;
mod wait;
mod wake_flag;
mod watchers;

pub use bits::{Events, Flags};
pub use ctl::FdCommand;
pub use epoll::{Epoll, EpollEvent, EpollOp};
pub use errno::errno_of;
pub use kinds::directory::{Access, Directory, DirectoryEntry, OpenOptions};
pub use kinds::event::EventCounter;
pub use kinds::file::{File, FileKind, FileStat};
pub use kinds::pipe::{PipeReader, PipeWriter, pipe};
pub use kinds::stdio::{Output, Stdin};
pub use kinds::timer::Timer;
pub use lock::{ObjectGuard, ObjectLock};
pub use metrics::{Counters, Metrics};
pub use number::Descriptor;
pub use object::FdObject;
pub use select::Readiness;
pub use sinew_core::Errno;
pub use table::{FdTable, InsertError};
pub use watchers::Watchers;

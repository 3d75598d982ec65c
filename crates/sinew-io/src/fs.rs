//! Files, for tasks: the calls of [`std::fs`] by the same names, each made as one [`blocking`](crate::blocking()) call.
//!
//! A call suspends its task and never its worker. What it is given is copied, and what it reads is read into memory of its
//! own: it may go on when its caller has given up, so it borrows nothing.
//!
//! Every call fails with an error that wraps [`Cancelled`](sinew_fiber::Cancelled) if the task is cancelled, whose kind is
//! `Other`, and unwinds if it is killed or out of time. A call that was begun by then is made all the same: a file may
//! still be written, renamed or removed afterwards, and a read or a seek may still move the position in an open file.
//! Whoever has to know calls inside a [`shield`](sinew_fiber::shield).
//!
//! ```
//! use sinew_io::fs;
//! use sinew_sched::Runtime;
//!
//! let path = std::env::temp_dir().join(format!("sinew-fs-{}", std::process::id()));
//! let text = Runtime::new().run(move || {
//!     fs::write(&path, "written by a task")?;
//!     let text = fs::read_to_string(&path)?;
//!     fs::remove_file(&path)?;
//!     std::io::Result::Ok(text)
//! });
//! assert_eq!(text.unwrap()?, "written by a task");
//! # Ok::<(), std::io::Error>(())
//! ```

mod file;

use std::fs::{DirEntry, Metadata};
use std::io;
use std::path::{Path, PathBuf};

pub use file::{File, OpenOptions};

use crate::blocking::blocking;

/// Makes one call.
fn call<T: Send + 'static>(call: impl FnOnce() -> io::Result<T> + Send + 'static) -> io::Result<T> {
    blocking(call)?
}

fn owned(path: impl AsRef<Path>) -> PathBuf {
    path.as_ref().to_owned()
}

/// The whole content of a file, as [`std::fs::read`].
///
/// # Errors
///
/// As std's, or if the task is cancelled; so for all calls of this module.
pub fn read(path: impl AsRef<Path>) -> io::Result<Vec<u8>> {
    let path = owned(path);
    call(|| std::fs::read(path))
}

/// The whole content of a file, which has to be UTF-8, as [`std::fs::read_to_string`].
///
/// # Errors
///
/// See [`read`].
pub fn read_to_string(path: impl AsRef<Path>) -> io::Result<String> {
    let path = owned(path);
    call(|| std::fs::read_to_string(path))
}

/// Makes a file with this content, or replaces that of one, as [`std::fs::write`].
///
/// # Errors
///
/// See [`read`].
pub fn write(path: impl AsRef<Path>, content: impl Into<Vec<u8>>) -> io::Result<()> {
    let (path, content) = (owned(path), content.into());
    call(|| std::fs::write(path, content))
}

/// Copies a file, as [`std::fs::copy`], and says how many bytes it has.
///
/// # Errors
///
/// See [`read`].
pub fn copy(from: impl AsRef<Path>, to: impl AsRef<Path>) -> io::Result<u64> {
    let (from, to) = (owned(from), owned(to));
    call(|| std::fs::copy(from, to))
}

/// Renames a file or directory, as [`std::fs::rename`].
///
/// # Errors
///
/// See [`read`].
pub fn rename(from: impl AsRef<Path>, to: impl AsRef<Path>) -> io::Result<()> {
    let (from, to) = (owned(from), owned(to));
    call(|| std::fs::rename(from, to))
}

/// Removes a file, as [`std::fs::remove_file`].
///
/// # Errors
///
/// See [`read`].
pub fn remove_file(path: impl AsRef<Path>) -> io::Result<()> {
    let path = owned(path);
    call(|| std::fs::remove_file(path))
}

/// Makes a directory and those above it that are missing, as [`std::fs::create_dir_all`].
///
/// # Errors
///
/// See [`read`].
pub fn create_dir_all(path: impl AsRef<Path>) -> io::Result<()> {
    let path = owned(path);
    call(|| std::fs::create_dir_all(path))
}

/// Removes a directory with all that is in it, as [`std::fs::remove_dir_all`].
///
/// # Errors
///
/// See [`read`].
pub fn remove_dir_all(path: impl AsRef<Path>) -> io::Result<()> {
    let path = owned(path);
    call(|| std::fs::remove_dir_all(path))
}

/// What the system knows of a file, as [`std::fs::metadata`].
///
/// # Errors
///
/// See [`read`].
pub fn metadata(path: impl AsRef<Path>) -> io::Result<Metadata> {
    let path = owned(path);
    call(|| std::fs::metadata(path))
}

/// What is in a directory, as [`std::fs::read_dir`], but all of it at once. To ask an entry for its `metadata` is a call to
/// the system on this thread; its names cost nothing.
///
/// # Errors
///
/// See [`read`]; also if one of the entries cannot be read.
pub fn read_dir(path: impl AsRef<Path>) -> io::Result<Vec<DirEntry>> {
    let path = owned(path);
    call(|| std::fs::read_dir(path)?.collect())
}

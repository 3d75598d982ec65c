//! An open file.
//!
//! The file is shared with the call that uses it, and stays open until that has returned. Calls of several tasks on one
//! file take place in no order of ours, as with std.

use std::fs::Metadata;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::Path;
use std::sync::Arc;

use super::{call, owned};

/// How much one read or write carries at most: it is copied, and held until the call is made.
const MOST: usize = 256 * 1024;

/// An open file, as [`std::fs::File`]. Each use is a [`blocking`](crate::blocking()) call, so read and write in large
/// pieces, or through a [`BufReader`](std::io::BufReader) or [`BufWriter`](std::io::BufWriter).
///
/// ```
/// use std::io::{Read, Seek, Write};
///
/// use sinew_io::fs::File;
/// use sinew_sched::Runtime;
///
/// let path = std::env::temp_dir().join(format!("sinew-file-{}", std::process::id()));
/// let read = Runtime::new().run(move || {
///     let mut file = File::options().read(true).write(true).create(true).truncate(true).open(&path)?;
///     file.write_all(b"one two")?;
///     file.seek(std::io::SeekFrom::Start(4))?;
///     let mut read = String::new();
///     file.read_to_string(&mut read)?;
///     sinew_io::fs::remove_file(&path)?;
///     std::io::Result::Ok(read)
/// });
/// assert_eq!(read.unwrap()?, "two");
/// # Ok::<(), std::io::Error>(())
/// ```
///
/// When it is dropped it is closed on the thread that drops it, or by a call that still uses it.
#[derive(Debug)]
pub struct File {
    inner: Arc<std::fs::File>,
}

impl File {
    /// Opens a file to read it.
    ///
    /// # Errors
    ///
    /// As std's, or if the task is cancelled; so for all calls on a file.
    pub fn open(path: impl AsRef<Path>) -> io::Result<File> {
        File::options().read(true).open(path)
    }

    /// Makes a file, or empties it, to write it.
    ///
    /// # Errors
    ///
    /// See [`open`](File::open).
    pub fn create(path: impl AsRef<Path>) -> io::Result<File> {
        File::options().write(true).create(true).truncate(true).open(path)
    }

    /// In which ways a file is to be opened.
    pub fn options() -> OpenOptions {
        OpenOptions(std::fs::OpenOptions::new())
    }

    /// Has all that was written, and what the system knows of the file, on the disk when it returns.
    ///
    /// # Errors
    ///
    /// See [`open`](File::open).
    pub fn sync_all(&self) -> io::Result<()> {
        self.call(|file| file.sync_all())
    }

    /// Has all that was written on the disk when it returns.
    ///
    /// # Errors
    ///
    /// See [`open`](File::open).
    pub fn sync_data(&self) -> io::Result<()> {
        self.call(|file| file.sync_data())
    }

    /// Cuts the file off, or fills it up with zeros.
    ///
    /// # Errors
    ///
    /// See [`open`](File::open).
    pub fn set_len(&self, size: u64) -> io::Result<()> {
        self.call(move |file| file.set_len(size))
    }

    /// What the system knows of the file.
    ///
    /// # Errors
    ///
    /// See [`open`](File::open).
    pub fn metadata(&self) -> io::Result<Metadata> {
        self.call(|file| file.metadata())
    }

    /// Another handle to the same open file, with the same position in it.
    ///
    /// # Errors
    ///
    /// See [`open`](File::open).
    pub fn try_clone(&self) -> io::Result<File> {
        self.call(|file| file.try_clone()).map(File::from)
    }

    /// The file of std. If a call that was given up still uses it, this is another handle to the same open file.
    ///
    /// # Errors
    ///
    /// If it takes another handle and the system has none.
    pub fn into_std(self) -> io::Result<std::fs::File> {
        Arc::try_unwrap(self.inner).or_else(|shared| shared.try_clone())
    }

    fn call<T: Send + 'static>(
        &self,
        with: impl FnOnce(&std::fs::File) -> io::Result<T> + Send + 'static,
    ) -> io::Result<T> {
        let file = self.inner.clone();
        call(move || with(&file))
    }
}

impl From<std::fs::File> for File {
    fn from(file: std::fs::File) -> File {
        File { inner: Arc::new(file) }
    }
}

impl Read for &File {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let length = into.len().min(MOST);
        let bytes = self.call(move |mut file| {
            let mut bytes = vec![0; length];
            let read = file.read(&mut bytes)?;
            bytes.truncate(read);
            Ok(bytes)
        })?;
        into[..bytes.len()].copy_from_slice(&bytes);
        Ok(bytes.len())
    }

    /// One call, whatever the length.
    fn read_to_end(&mut self, into: &mut Vec<u8>) -> io::Result<usize> {
        let mut bytes = self.call(|mut file| {
            let mut bytes = Vec::new();
            file.read_to_end(&mut bytes)?;
            Ok(bytes)
        })?;
        let length = bytes.len();
        into.append(&mut bytes);
        Ok(length)
    }

    /// One call, whatever the length.
    fn read_to_string(&mut self, into: &mut String) -> io::Result<usize> {
        let text = self.call(|mut file| {
            let mut text = String::new();
            file.read_to_string(&mut text)?;
            Ok(text)
        })?;
        into.push_str(&text);
        Ok(text.len())
    }
}

impl Write for &File {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let bytes = bytes[..bytes.len().min(MOST)].to_vec();
        self.call(move |mut file| file.write(&bytes))
    }

    /// Nothing is kept here: what was written is with the system.
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Seek for &File {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        self.call(move |mut file| file.seek(to))
    }
}

impl Read for File {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        (&*self).read(into)
    }

    fn read_to_end(&mut self, into: &mut Vec<u8>) -> io::Result<usize> {
        (&*self).read_to_end(into)
    }

    fn read_to_string(&mut self, into: &mut String) -> io::Result<usize> {
        (&*self).read_to_string(into)
    }
}

impl Write for File {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        (&*self).write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Seek for File {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        (&*self).seek(to)
    }
}

/// In which ways a [`File`] is to be opened, as [`std::fs::OpenOptions`].
#[derive(Clone, Debug)]
pub struct OpenOptions(std::fs::OpenOptions);

macro_rules! options {
    ($($(#[$documentation:meta])* $name:ident)*) => {
        $(
            $(#[$documentation])*
            pub fn $name(&mut self, yes: bool) -> &mut OpenOptions {
                self.0.$name(yes);
                self
            }
        )*
    };
}

impl OpenOptions {
    options! {
        /// To read it.
        read
        /// To write it.
        write
        /// To write at its end only.
        append
        /// Emptied first.
        truncate
        /// Made, if it is not there.
        create
        /// Made, and it must not be there.
        create_new
    }

    /// Opens the file.
    ///
    /// # Errors
    ///
    /// As std's, or if the task is cancelled.
    pub fn open(&self, path: impl AsRef<Path>) -> io::Result<File> {
        let (options, path) = (self.0.clone(), owned(path));
        call(move || options.open(path)).map(File::from)
    }
}

/// For what these options do not name: permissions, flags of the system.
impl From<std::fs::OpenOptions> for OpenOptions {
    fn from(options: std::fs::OpenOptions) -> OpenOptions {
        OpenOptions(options)
    }
}

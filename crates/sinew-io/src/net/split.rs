//! The two halves of a stream, which can go their own ways.

use std::error::Error;
use std::fmt;
use std::io::{self, IoSlice, IoSliceMut, Read, Write};
use std::sync::Arc;

use super::Stream;

/// The half of a stream that reads.
pub struct ReadHalf<S: Stream> {
    stream: Arc<S>,
}

/// The half of a stream that writes. Dropped, it lets the other side see the end.
pub struct WriteHalf<S: Stream> {
    stream: Arc<S>,
    /// False once it is part of a whole again.
    ends: bool,
}

pub(super) fn split<S: Stream>(stream: S) -> (ReadHalf<S>, WriteHalf<S>) {
    let stream = Arc::new(stream);
    (ReadHalf { stream: stream.clone() }, WriteHalf { stream, ends: true })
}

impl<S: Stream> ReadHalf<S> {
    /// The stream that both halves were.
    ///
    /// # Errors
    ///
    /// With both of them, if they are of different streams.
    pub fn reunite(self, mut writer: WriteHalf<S>) -> Result<S, ReuniteError<S>> {
        if !Arc::ptr_eq(&self.stream, &writer.stream) {
            return Err(ReuniteError(self, writer));
        }
        writer.ends = false;
        drop(writer);
        Ok(Arc::into_inner(self.stream).expect("nobody has a stream but its two halves"))
    }
}

impl<S: Stream> AsRef<S> for ReadHalf<S> {
    fn as_ref(&self) -> &S {
        &self.stream
    }
}

impl<S: Stream> AsRef<S> for WriteHalf<S> {
    fn as_ref(&self) -> &S {
        &self.stream
    }
}

impl<S: Stream> Read for ReadHalf<S> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.stream.read(buffer)
    }

    fn read_vectored(&mut self, buffers: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
        self.stream.read_vectored(buffers)
    }
}

impl<S: Stream> Write for WriteHalf<S> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.stream.write(bytes)
    }

    fn write_vectored(&mut self, slices: &[IoSlice<'_>]) -> io::Result<usize> {
        self.stream.write_vectored(slices)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl<S: Stream> Drop for WriteHalf<S> {
    fn drop(&mut self) {
        if self.ends {
            let _ = self.stream.shutdown_write();
        }
    }
}

impl<S: Stream + fmt::Debug> fmt::Debug for ReadHalf<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("ReadHalf").field(&self.stream).finish()
    }
}

impl<S: Stream + fmt::Debug> fmt::Debug for WriteHalf<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("WriteHalf").field(&self.stream).finish()
    }
}

/// Two halves that are of different streams.
pub struct ReuniteError<S: Stream>(pub ReadHalf<S>, pub WriteHalf<S>);

impl<S: Stream> fmt::Debug for ReuniteError<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ReuniteError")
    }
}

impl<S: Stream> fmt::Display for ReuniteError<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the halves are of different streams: reunite those that one `into_split` returned")
    }
}

impl<S: Stream> Error for ReuniteError<S> {}

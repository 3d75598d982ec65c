//! What streams have in common: reading and writing, by tasks and by futures.

use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::task::{Context, Poll};

/// A stream of bytes in two directions: [`TcpStream`](super::TcpStream) and [`UnixStream`](super::UnixStream). For
/// [halves](super::ReadHalf) and adapters, which work with both; nobody else can implement it.
pub trait Stream: Sealed + Send + Sync + 'static {}

/// Keeps others from implementing it.
#[doc(hidden)]
pub trait Sealed {
    fn read(&self, buffer: &mut [u8]) -> io::Result<usize>;
    fn read_vectored(&self, buffers: &mut [IoSliceMut<'_>]) -> io::Result<usize>;
    fn write(&self, bytes: &[u8]) -> io::Result<usize>;
    fn write_vectored(&self, slices: &[IoSlice<'_>]) -> io::Result<usize>;
    fn poll_read(&self, context: &Context<'_>, buffer: &mut [MaybeUninit<u8>]) -> Poll<io::Result<usize>>;
    fn poll_read_vectored(
        &self,
        context: &Context<'_>,
        buffers: &mut [IoSliceMut<'_>],
    ) -> Poll<io::Result<usize>>;
    fn poll_write(&self, context: &Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>>;
    fn poll_write_vectored(&self, context: &Context<'_>, slices: &[IoSlice<'_>]) -> Poll<io::Result<usize>>;
    /// The other side sees the end. It is no error if there is none any more.
    fn shutdown_write(&self) -> io::Result<()>;
}

/// What a type with a field `socket` needs to be a stream. `$if_short` is the length of a read that, if it gives less, says
/// that there is no more.
macro_rules! stream {
    ($type:ident, $if_short:expr) => {
        impl $crate::net::Stream for $type {}

        impl $crate::net::stream::Sealed for $type {
            fn read(&self, buffer: &mut [u8]) -> io::Result<usize> {
                let (socket, len) = (&self.socket, $if_short(buffer.len()));
                socket.read(|mut inner| socket.source.note_short(len, || inner.read(buffer)))
            }

            fn read_vectored(&self, buffers: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
                self.socket.read(|mut inner| inner.read_vectored(buffers))
            }

            fn write(&self, bytes: &[u8]) -> io::Result<usize> {
                self.socket.write(|mut inner| inner.write(bytes))
            }

            fn write_vectored(&self, slices: &[IoSlice<'_>]) -> io::Result<usize> {
                self.socket.write(|mut inner| inner.write_vectored(slices))
            }

            fn poll_read(
                &self,
                context: &Context<'_>,
                buffer: &mut [MaybeUninit<u8>],
            ) -> Poll<io::Result<usize>> {
                let (socket, len) = (&self.socket, $if_short(buffer.len()));
                let recv = |inner: &_| socket.source.note_short(len, || SockRef::from(inner).recv(buffer));
                socket.poll_read(context, recv)
            }

            fn poll_read_vectored(
                &self,
                context: &Context<'_>,
                buffers: &mut [IoSliceMut<'_>],
            ) -> Poll<io::Result<usize>> {
                self.socket.poll_read(context, |mut inner| inner.read_vectored(buffers))
            }

            fn poll_write(&self, context: &Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
                self.socket.poll_write(context, |mut inner| inner.write(bytes))
            }

            fn poll_write_vectored(
                &self,
                context: &Context<'_>,
                slices: &[IoSlice<'_>],
            ) -> Poll<io::Result<usize>> {
                self.socket.poll_write(context, |mut inner| inner.write_vectored(slices))
            }

            fn shutdown_write(&self) -> io::Result<()> {
                match self.shutdown(Shutdown::Write) {
                    Err(error) if error.kind() == io::ErrorKind::NotConnected => Ok(()),
                    result => result,
                }
            }
        }

        impl Read for &$type {
            fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
                Sealed::read(*self, buffer)
            }

            fn read_vectored(&mut self, buffers: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
                Sealed::read_vectored(*self, buffers)
            }
        }

        impl Write for &$type {
            fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
                Sealed::write(*self, bytes)
            }

            fn write_vectored(&mut self, slices: &[IoSlice<'_>]) -> io::Result<usize> {
                Sealed::write_vectored(*self, slices)
            }

            fn flush(&mut self) -> io::Result<()> {
                Ok(())
            }
        }

        impl Read for $type {
            fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
                Sealed::read(self, buffer)
            }

            fn read_vectored(&mut self, buffers: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
                Sealed::read_vectored(self, buffers)
            }
        }

        impl Write for $type {
            fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
                Sealed::write(self, bytes)
            }

            fn write_vectored(&mut self, slices: &[IoSlice<'_>]) -> io::Result<usize> {
                Sealed::write_vectored(self, slices)
            }

            fn flush(&mut self) -> io::Result<()> {
                Ok(())
            }
        }

        impl $type {
            $crate::net::socket::timeouts!();

            /// Two halves, each of which can go its own way. Dropping the one that writes lets the other side see the end.
            pub fn into_split(self) -> (ReadHalf<$type>, WriteHalf<$type>) {
                $crate::net::split::split(self)
            }

            /// Reads, in a future: what [`Read::read`] does.
            ///
            /// # Errors
            ///
            /// What the system says.
            pub async fn read_async(&self, buffer: &mut [u8]) -> io::Result<usize> {
                let (socket, len) = (&self.socket, $if_short(buffer.len()));
                let read = |mut inner: &_, buffer: &mut _| {
                    socket.source.note_short(len, || Read::read(&mut inner, buffer))
                };
                socket.read_async(|inner| read(inner, buffer)).await
            }

            /// Writes, in a future: what [`Write::write`] does.
            ///
            /// # Errors
            ///
            /// What the system says.
            pub async fn write_async(&self, bytes: &[u8]) -> io::Result<usize> {
                self.socket.write_async(|mut inner| inner.write(bytes)).await
            }

            /// Writes all of it, in a future: what [`Write::write_all`] does.
            ///
            /// # Errors
            ///
            /// What the system says; `WriteZero` if it takes no more.
            pub async fn write_all_async(&self, mut bytes: &[u8]) -> io::Result<()> {
                while !bytes.is_empty() {
                    match self.write_async(bytes).await? {
                        0 => return Err(io::ErrorKind::WriteZero.into()),
                        written => bytes = &bytes[written..],
                    }
                }
                Ok(())
            }
        }
    };
}

pub(super) use stream;

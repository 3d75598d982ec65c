//! Streams and halves as those of the crate `futures-io`.

use std::io::{self, IoSlice, IoSliceMut};
use std::pin::Pin;
use std::task::{Context, Poll};

use futures_io::{AsyncRead, AsyncWrite};

use crate::net::stream::Sealed;
use crate::net::{ReadHalf, Stream, TcpStream, UnixStream, WriteHalf};

macro_rules! reads {
    ([$($parameters:tt)*] $type:ty, $stream:ident => $inner:expr) => {
        impl<$($parameters)*> AsyncRead for $type {
            fn poll_read(
                self: Pin<&mut Self>,
                context: &mut Context<'_>,
                buffer: &mut [u8],
            ) -> Poll<io::Result<usize>> {
                self.poll_read_vectored(context, &mut [IoSliceMut::new(buffer)])
            }

            fn poll_read_vectored(
                self: Pin<&mut Self>,
                context: &mut Context<'_>,
                buffers: &mut [IoSliceMut<'_>],
            ) -> Poll<io::Result<usize>> {
                let $stream = &*self;
                Sealed::poll_read_vectored($inner, context, buffers)
            }
        }
    };
}

macro_rules! writes {
    ([$($parameters:tt)*] $type:ty, $stream:ident => $inner:expr) => {
        impl<$($parameters)*> AsyncWrite for $type {
            fn poll_write(
                self: Pin<&mut Self>,
                context: &mut Context<'_>,
                bytes: &[u8],
            ) -> Poll<io::Result<usize>> {
                let $stream = &*self;
                Sealed::poll_write($inner, context, bytes)
            }

            fn poll_write_vectored(
                self: Pin<&mut Self>,
                context: &mut Context<'_>,
                slices: &[IoSlice<'_>],
            ) -> Poll<io::Result<usize>> {
                let $stream = &*self;
                Sealed::poll_write_vectored($inner, context, slices)
            }

            fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
                Poll::Ready(Ok(()))
            }

            fn poll_close(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
                let $stream = &*self;
                Poll::Ready(Sealed::shutdown_write($inner))
            }
        }
    };
}

reads!([] TcpStream, stream => stream);
writes!([] TcpStream, stream => stream);
reads!([] &TcpStream, stream => *stream);
writes!([] &TcpStream, stream => *stream);
reads!([] UnixStream, stream => stream);
writes!([] UnixStream, stream => stream);
reads!([] &UnixStream, stream => *stream);
writes!([] &UnixStream, stream => *stream);
reads!([S: Stream] ReadHalf<S>, half => half.as_ref());
writes!([S: Stream] WriteHalf<S>, half => half.as_ref());

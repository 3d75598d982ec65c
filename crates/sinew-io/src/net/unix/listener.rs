//! Listeners within a machine.

use std::io;
use std::iter::FusedIterator;
use std::os::fd::OwnedFd;
use std::os::unix::net::SocketAddr;
use std::path::Path;

use socket2::SockAddr;

use super::super::accept::Acceptor;
use super::super::socket::{Socket, as_std, descriptor};
use super::{UnixStream, std_address};

/// A socket that listens at a path: [`std::os::unix::net::UnixListener`] for tasks.
pub struct UnixListener {
    socket: Socket<std::os::unix::net::UnixListener>,
    acceptor: Acceptor,
}

descriptor!(UnixListener, std::os::unix::net::UnixListener, UnixListener::of);

impl UnixListener {
    fn of(socket: Socket<std::os::unix::net::UnixListener>) -> UnixListener {
        UnixListener { socket, acceptor: Acceptor::new() }
    }

    /// Listens at `path`, where a file is made. It stays when the listener is gone: remove it before the next one.
    ///
    /// # Errors
    ///
    /// What the system says, such as `AddrInUse` if there is a file.
    pub fn bind(path: impl AsRef<Path>) -> io::Result<UnixListener> {
        std::os::unix::net::UnixListener::bind(path)?.try_into()
    }

    /// Listens at `address`, which may be a name that is no path.
    ///
    /// # Errors
    ///
    /// What the system says.
    pub fn bind_addr(address: &SocketAddr) -> io::Result<UnixListener> {
        std::os::unix::net::UnixListener::bind_addr(address)?.try_into()
    }

    /// Waits for a connection. A lack of descriptors or memory is waited out.
    ///
    /// # Errors
    ///
    /// What the system says of the listener itself; if the task is cancelled.
    pub fn accept(&self) -> io::Result<(UnixStream, SocketAddr)> {
        self.acceptor.accept(&self.socket).and_then(accepted)
    }

    /// Waits for a connection, in a future: what [`accept`](UnixListener::accept) does.
    ///
    /// # Errors
    ///
    /// What the system says of the listener itself.
    pub async fn accept_async(&self) -> io::Result<(UnixStream, SocketAddr)> {
        self.acceptor.accept_async(&self.socket).await.and_then(accepted)
    }

    /// One connection after the other, for ever: what [`accept`](UnixListener::accept) returns, without the address.
    pub fn incoming(&self) -> UnixIncoming<'_> {
        UnixIncoming { listener: self }
    }

    /// Another listener at the same address, which takes from the same queue of connections.
    ///
    /// # Errors
    ///
    /// If there is no descriptor for it.
    pub fn try_clone(&self) -> io::Result<UnixListener> {
        self.socket.try_clone(std::os::unix::net::UnixListener::try_clone).map(UnixListener::of)
    }

    as_std! {
        /// Where it listens.
        fn local_addr(&self) -> SocketAddr;
        /// The error of the socket since the last call, if there was one.
        fn take_error(&self) -> Option<io::Error>;
    }
}

fn accepted((fd, address): (OwnedFd, SockAddr)) -> io::Result<(UnixStream, SocketAddr)> {
    let stream = UnixStream::of(Socket::new(fd.into()));
    let address = std_address(&address).unwrap_or_else(|| stream.peer_addr())?;
    Ok((stream, address))
}

/// The connections of a listener: see [`UnixListener::incoming`].
#[derive(Debug)]
pub struct UnixIncoming<'a> {
    listener: &'a UnixListener,
}

impl Iterator for UnixIncoming<'_> {
    type Item = io::Result<UnixStream>;

    fn next(&mut self) -> Option<io::Result<UnixStream>> {
        Some(self.listener.accept().map(|(stream, _)| stream))
    }
}

impl FusedIterator for UnixIncoming<'_> {}

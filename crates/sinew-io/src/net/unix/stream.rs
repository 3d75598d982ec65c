//! Streams within a machine.

use std::ffi::OsStr;
use std::io::{self, ErrorKind, IoSlice, IoSliceMut, Read, Write};
use std::mem::MaybeUninit;
use std::net::Shutdown;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::SocketAddr;
use std::path::Path;
use std::task::{Context, Poll};

use sinew_sched::sleep_async;
use socket2::{Domain, SockAddr, SockRef, Type};

use super::super::socket::{Socket, as_std, descriptor};
use super::super::stream::{Sealed, stream};
use super::super::{ReadHalf, WriteHalf};
use super::pause;

/// A connection within the machine: [`std::os::unix::net::UnixStream`] for tasks.
pub struct UnixStream {
    socket: Socket<std::os::unix::net::UnixStream>,
}

descriptor!(UnixStream, std::os::unix::net::UnixStream, UnixStream::of);
stream!(UnixStream, |_| 0); // a read may give less because of who wrote

impl UnixStream {
    pub(super) fn of(socket: Socket<std::os::unix::net::UnixStream>) -> UnixStream {
        UnixStream { socket }
    }

    /// Connects to the listener at `path`, and waits while its queue is full.
    ///
    /// # Errors
    ///
    /// What the system says, such as `NotFound` or `ConnectionRefused`; if the task is cancelled.
    pub fn connect(path: impl AsRef<Path>) -> io::Result<UnixStream> {
        connect(&SockAddr::unix(path)?)
    }

    /// Connects to the listener at `address`, which may be a name that is no path.
    ///
    /// # Errors
    ///
    /// As for [`connect`](UnixStream::connect).
    pub fn connect_addr(address: &SocketAddr) -> io::Result<UnixStream> {
        connect(&system_address(address)?)
    }

    /// Connects to the listener at `path`, in a future: what [`connect`](UnixStream::connect) does.
    ///
    /// # Errors
    ///
    /// As for [`connect`](UnixStream::connect).
    pub async fn connect_async(path: impl AsRef<Path>) -> io::Result<UnixStream> {
        let (socket, address) = (socket()?, SockAddr::unix(path)?);
        let mut pause = pause();
        while !has_connected(&socket, &address)? {
            sleep_async(pause.next()).await;
        }
        Ok(UnixStream::of(Socket::new(socket.into())))
    }

    /// Two streams that are connected to each other.
    ///
    /// # Errors
    ///
    /// If there are no descriptors for them.
    pub fn pair() -> io::Result<(UnixStream, UnixStream)> {
        let (one, other) = std::os::unix::net::UnixStream::pair()?;
        Ok((one.try_into()?, other.try_into()?))
    }

    /// Another value for the same connection, for another task to read or write. Only the last one that is dropped
    /// closes it.
    ///
    /// # Errors
    ///
    /// If there is no descriptor for it.
    pub fn try_clone(&self) -> io::Result<UnixStream> {
        self.socket.try_clone(std::os::unix::net::UnixStream::try_clone).map(UnixStream::of)
    }

    as_std! {
        /// The address of this side.
        fn local_addr(&self) -> SocketAddr;
        /// The address of the other side.
        fn peer_addr(&self) -> SocketAddr;
        /// Ends reading, writing or both. Whoever reads sees the end, here and, for writing, on the other side.
        fn shutdown(&self, how: Shutdown) -> ();
        /// The error of the socket since the last call, if there was one.
        fn take_error(&self) -> Option<io::Error>;
    }
}

fn socket() -> io::Result<socket2::Socket> {
    socket2::Socket::new(Domain::UNIX, Type::STREAM.nonblocking().cloexec(), None)
}

fn connect(address: &SockAddr) -> io::Result<UnixStream> {
    let socket = socket()?;
    let mut pause = pause();
    while !has_connected(&socket, address)? {
        pause.wait()?;
    }
    Ok(UnixStream::of(Socket::new(socket.into())))
}

/// False if the queue of the listener is full.
fn has_connected(socket: &socket2::Socket, address: &SockAddr) -> io::Result<bool> {
    loop {
        match socket.connect(address) {
            Err(error) if error.kind() == ErrorKind::Interrupted => (),
            Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(false),
            result => return result.map(|()| true),
        }
    }
}

/// The address in the words of the system.
fn system_address(address: &SocketAddr) -> io::Result<SockAddr> {
    match (address.as_pathname(), address.as_abstract_name()) {
        (Some(path), _) => SockAddr::unix(path),
        (_, Some(name)) => SockAddr::unix(OsStr::from_bytes(&[&[0], name].concat())),
        _ => {
            let why = "nobody can be reached at an address without a name: give a path or a name";
            Err(io::Error::new(ErrorKind::InvalidInput, why))
        }
    }
}

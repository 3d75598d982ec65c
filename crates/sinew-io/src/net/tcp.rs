//! TCP: listeners and streams.

use std::io::{self, IoSlice, IoSliceMut, Read, Write};
use std::iter::FusedIterator;
use std::mem::MaybeUninit;
use std::net::{Shutdown, SocketAddr};
use std::os::fd::OwnedFd;
use std::task::{Context, Poll};
use std::time::Duration;

use sinew_sched::now;
use socket2::{Domain, Protocol, SockAddr, SockRef, Type};

use super::accept::Acceptor;
use super::addr::{each, is_refusal, no_address, resolve_async};
use super::connect::{connect, connect_async};
use super::socket::{Socket, as_std, descriptor, not_zero};
use super::stream::{Sealed, stream};
use super::{ReadHalf, ToSocketAddrs, WriteHalf};

/// How many connections may wait to be accepted: as many as the system allows (`net.core.somaxconn`).
const BACKLOG: i32 = i32::MAX;

/// A socket that listens for TCP connections: [`std::net::TcpListener`] for tasks.
pub struct TcpListener {
    socket: Socket<std::net::TcpListener>,
    acceptor: Acceptor,
}

descriptor!(TcpListener, std::net::TcpListener, TcpListener::of);

impl TcpListener {
    fn of(socket: Socket<std::net::TcpListener>) -> TcpListener {
        TcpListener { socket, acceptor: Acceptor::new() }
    }

    /// Listens at `address`; at port 0, at one that is free. Of several addresses, at the first that can be had.
    ///
    /// # Errors
    ///
    /// What the system says of the last address, such as `AddrInUse`; if a name cannot be looked up.
    pub fn bind(address: impl ToSocketAddrs) -> io::Result<TcpListener> {
        each(address, |address| {
            let kind = Type::STREAM.nonblocking().cloexec();
            let socket = socket2::Socket::new(Domain::for_address(address), kind, Some(Protocol::TCP))?;
            socket.set_reuse_address(true)?; // as std does: connections of an earlier listener may linger
            socket.bind(&address.into())?;
            socket.listen(BACKLOG)?;
            Ok(TcpListener::of(Socket::new(socket.into())))
        })
    }

    /// Waits for a connection. Those that are gone before they are accepted are passed over, and a lack of descriptors
    /// or memory is waited out.
    ///
    /// # Errors
    ///
    /// What the system says of the listener itself; if the task is cancelled.
    pub fn accept(&self) -> io::Result<(TcpStream, SocketAddr)> {
        self.acceptor.accept(&self.socket).and_then(accepted)
    }

    /// Waits for a connection, in a future: what [`accept`](TcpListener::accept) does.
    ///
    /// # Errors
    ///
    /// What the system says of the listener itself.
    pub async fn accept_async(&self) -> io::Result<(TcpStream, SocketAddr)> {
        self.acceptor.accept_async(&self.socket).await.and_then(accepted)
    }

    /// One connection after the other, for ever: what [`accept`](TcpListener::accept) returns, without the address.
    pub fn incoming(&self) -> Incoming<'_> {
        Incoming { listener: self }
    }

    /// Another listener at the same address, which takes from the same queue of connections.
    ///
    /// # Errors
    ///
    /// If there is no descriptor for it.
    pub fn try_clone(&self) -> io::Result<TcpListener> {
        self.socket.try_clone(std::net::TcpListener::try_clone).map(TcpListener::of)
    }

    as_std! {
        /// Where it listens.
        fn local_addr(&self) -> SocketAddr;
        /// How many hops a packet may take.
        fn ttl(&self) -> u32;
        /// Sets how many hops a packet may take.
        fn set_ttl(&self, ttl: u32) -> ();
        /// The error of the socket since the last call, if there was one.
        fn take_error(&self) -> Option<io::Error>;
    }
}

fn accepted((fd, address): (OwnedFd, SockAddr)) -> io::Result<(TcpStream, SocketAddr)> {
    let stream = TcpStream { socket: Socket::new(fd.into()) };
    match address.as_socket() {
        Some(address) => Ok((stream, address)),
        None => stream.peer_addr().map(|address| (stream, address)),
    }
}

/// The connections of a listener: see [`TcpListener::incoming`].
#[derive(Debug)]
pub struct Incoming<'a> {
    listener: &'a TcpListener,
}

impl Iterator for Incoming<'_> {
    type Item = io::Result<TcpStream>;

    fn next(&mut self) -> Option<io::Result<TcpStream>> {
        Some(self.listener.accept().map(|(stream, _)| stream))
    }
}

impl FusedIterator for Incoming<'_> {}

/// A TCP connection: [`std::net::TcpStream`] for tasks.
pub struct TcpStream {
    socket: Socket<std::net::TcpStream>,
}

descriptor!(TcpStream, std::net::TcpStream, |socket| TcpStream { socket });
stream!(TcpStream, |len| len);

impl TcpStream {
    /// Connects to `address`. Several addresses are tried in turn.
    ///
    /// # Errors
    ///
    /// What the system says of the last address, such as `ConnectionRefused`; if a name cannot be looked up; if the
    /// task is cancelled.
    pub fn connect(address: impl ToSocketAddrs) -> io::Result<TcpStream> {
        each(address, |address| Ok(TcpStream { socket: connect(address, None)? }))
    }

    /// Connects to `address`, or gives up after so long.
    ///
    /// # Errors
    ///
    /// As for [`connect`](TcpStream::connect); `TimedOut`; if the timeout is zero.
    pub fn connect_timeout(address: &SocketAddr, timeout: Duration) -> io::Result<TcpStream> {
        let deadline = now() + not_zero(timeout)?;
        Ok(TcpStream { socket: connect(*address, Some(deadline))? })
    }

    /// Connects to `address`, in a future: what [`connect`](TcpStream::connect) does.
    ///
    /// # Errors
    ///
    /// As for [`connect`](TcpStream::connect).
    pub async fn connect_async(address: impl ToSocketAddrs) -> io::Result<TcpStream> {
        let mut last = None;
        for address in resolve_async(address).await? {
            match connect_async(address).await {
                Err(error) if !is_refusal(&error) => last = Some(error),
                result => return result.map(|socket| TcpStream { socket }),
            }
        }
        Err(last.unwrap_or_else(no_address))
    }

    /// Reads without taking it: the next read sees it again.
    ///
    /// # Errors
    ///
    /// As for a read.
    pub fn peek(&self, buffer: &mut [u8]) -> io::Result<usize> {
        self.socket.read(|inner| inner.peek(buffer))
    }

    /// Another value for the same connection, for another task to read or write. Only the last one that is dropped
    /// closes it.
    ///
    /// # Errors
    ///
    /// If there is no descriptor for it.
    pub fn try_clone(&self) -> io::Result<TcpStream> {
        let socket = self.socket.try_clone(std::net::TcpStream::try_clone)?;
        Ok(TcpStream { socket })
    }

    as_std! {
        /// The address of this side.
        fn local_addr(&self) -> SocketAddr;
        /// The address of the other side.
        fn peer_addr(&self) -> SocketAddr;
        /// Ends reading, writing or both. Whoever reads sees the end, here and, for writing, on the other side.
        fn shutdown(&self, how: Shutdown) -> ();
        /// Whether small packets are sent at once.
        fn nodelay(&self) -> bool;
        /// Sets whether small packets are sent at once, instead of being collected while others are on their way.
        fn set_nodelay(&self, nodelay: bool) -> ();
        /// How many hops a packet may take.
        fn ttl(&self) -> u32;
        /// Sets how many hops a packet may take.
        fn set_ttl(&self, ttl: u32) -> ();
        /// The error of the socket since the last call, if there was one.
        fn take_error(&self) -> Option<io::Error>;
    }

    /// For how long what was written is still sent after the close.
    ///
    /// # Errors
    ///
    /// What the system says.
    pub fn linger(&self) -> io::Result<Option<Duration>> {
        SockRef::from(self).linger()
    }

    /// Sets for how long what was written is still sent after the close, for which the close blocks the thread. With
    /// zero the close discards it and resets the connection. The default, none, sends it without blocking.
    ///
    /// # Errors
    ///
    /// What the system says.
    pub fn set_linger(&self, linger: Option<Duration>) -> io::Result<()> {
        SockRef::from(self).set_linger(linger)
    }
}

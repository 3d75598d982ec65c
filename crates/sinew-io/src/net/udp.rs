//! UDP.

use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};

use super::ToSocketAddrs;
use super::addr::{each, first};
use super::socket::{Socket, as_std, descriptor, timeouts};

/// A UDP socket: [`std::net::UdpSocket`] for tasks.
///
/// ```
/// use std::io;
///
/// use sinew_sched::Runtime;
/// use sinew_io::net::UdpSocket;
///
/// let received = Runtime::new().run(|| {
///     let (one, other) = (UdpSocket::bind("127.0.0.1:0")?, UdpSocket::bind("127.0.0.1:0")?);
///     one.send_to(b"datagram", other.local_addr()?)?;
///     let mut buffer = [0; 100];
///     let (length, from) = other.recv_from(&mut buffer)?;
///     assert_eq!(from, one.local_addr()?);
///     Ok::<_, io::Error>(buffer[..length].to_vec())
/// });
/// assert_eq!(received.unwrap()?, b"datagram");
/// # Ok::<(), io::Error>(())
/// ```
pub struct UdpSocket {
    socket: Socket<std::net::UdpSocket>,
}

descriptor!(UdpSocket, std::net::UdpSocket, |socket| UdpSocket { socket });

impl UdpSocket {
    /// A socket at `address`; at port 0, at one that is free. Of several addresses, at the first that can be had.
    ///
    /// # Errors
    ///
    /// What the system says of the last address, such as `AddrInUse`; if a name cannot be looked up.
    pub fn bind(address: impl ToSocketAddrs) -> io::Result<UdpSocket> {
        each(address, |address| UdpSocket::try_from(std::net::UdpSocket::bind(address)?))
    }

    /// Has [`send`](UdpSocket::send) go to `address`, and only what is from there be received.
    ///
    /// # Errors
    ///
    /// What the system says of the last address; if a name cannot be looked up.
    pub fn connect(&self, address: impl ToSocketAddrs) -> io::Result<()> {
        each(address, |address| self.socket.get().connect(address))
    }

    /// Sends a datagram to `address`, the first if there are several.
    ///
    /// # Errors
    ///
    /// What the system says; `TimedOut`; if a name cannot be looked up; if the task is cancelled.
    pub fn send_to(&self, bytes: &[u8], address: impl ToSocketAddrs) -> io::Result<usize> {
        let address = first(address)?;
        self.socket.write(|inner| inner.send_to(bytes, address))
    }

    /// Waits for a datagram. What of it does not fit into the buffer is lost.
    ///
    /// # Errors
    ///
    /// What the system says; `TimedOut`; if the task is cancelled.
    pub fn recv_from(&self, buffer: &mut [u8]) -> io::Result<(usize, SocketAddr)> {
        self.socket.read(|inner| inner.recv_from(buffer))
    }

    /// Waits for a datagram and leaves it there: the next call receives it again.
    ///
    /// # Errors
    ///
    /// As for [`recv_from`](UdpSocket::recv_from).
    pub fn peek_from(&self, buffer: &mut [u8]) -> io::Result<(usize, SocketAddr)> {
        self.socket.read(|inner| inner.peek_from(buffer))
    }

    /// Sends a datagram to where it is connected to.
    ///
    /// # Errors
    ///
    /// What the system says, such as that an earlier one was refused; `TimedOut`; if the task is cancelled.
    pub fn send(&self, bytes: &[u8]) -> io::Result<usize> {
        self.socket.write(|inner| inner.send(bytes))
    }

    /// Waits for a datagram from where it is connected to. What of it does not fit into the buffer is lost.
    ///
    /// # Errors
    ///
    /// As for [`send`](UdpSocket::send).
    pub fn recv(&self, buffer: &mut [u8]) -> io::Result<usize> {
        self.socket.read(|inner| inner.recv(buffer))
    }

    /// Waits for a datagram and leaves it there: the next call receives it again.
    ///
    /// # Errors
    ///
    /// As for [`send`](UdpSocket::send).
    pub fn peek(&self, buffer: &mut [u8]) -> io::Result<usize> {
        self.socket.read(|inner| inner.peek(buffer))
    }

    /// Sends a datagram, in a future: what [`send_to`](UdpSocket::send_to) does, to an address.
    ///
    /// # Errors
    ///
    /// What the system says.
    pub async fn send_to_async(&self, bytes: &[u8], address: SocketAddr) -> io::Result<usize> {
        self.socket.write_async(|inner| inner.send_to(bytes, address)).await
    }

    /// Waits for a datagram, in a future: what [`recv_from`](UdpSocket::recv_from) does.
    ///
    /// # Errors
    ///
    /// What the system says.
    pub async fn recv_from_async(&self, buffer: &mut [u8]) -> io::Result<(usize, SocketAddr)> {
        self.socket.read_async(|inner| inner.recv_from(buffer)).await
    }

    /// Sends a datagram, in a future: what [`send`](UdpSocket::send) does.
    ///
    /// # Errors
    ///
    /// What the system says.
    pub async fn send_async(&self, bytes: &[u8]) -> io::Result<usize> {
        self.socket.write_async(|inner| inner.send(bytes)).await
    }

    /// Waits for a datagram, in a future: what [`recv`](UdpSocket::recv) does.
    ///
    /// # Errors
    ///
    /// What the system says.
    pub async fn recv_async(&self, buffer: &mut [u8]) -> io::Result<usize> {
        self.socket.read_async(|inner| inner.recv(buffer)).await
    }

    /// Another value for the same socket, for another task. What is received by one is not received by the other.
    ///
    /// # Errors
    ///
    /// If there is no descriptor for it.
    pub fn try_clone(&self) -> io::Result<UdpSocket> {
        let socket = self.socket.try_clone(std::net::UdpSocket::try_clone)?;
        Ok(UdpSocket { socket })
    }

    timeouts!();

    as_std! {
        /// The address of this side.
        fn local_addr(&self) -> SocketAddr;
        /// Where it is connected to.
        fn peer_addr(&self) -> SocketAddr;
        /// Whether it may send to broadcast addresses.
        fn broadcast(&self) -> bool;
        /// Sets whether it may send to broadcast addresses.
        fn set_broadcast(&self, broadcast: bool) -> ();
        /// Whether what it sends to a group comes back.
        fn multicast_loop_v4(&self) -> bool;
        /// Sets whether what it sends to a group comes back.
        fn set_multicast_loop_v4(&self, comes_back: bool) -> ();
        /// How many hops a datagram to a group may take.
        fn multicast_ttl_v4(&self) -> u32;
        /// Sets how many hops a datagram to a group may take.
        fn set_multicast_ttl_v4(&self, ttl: u32) -> ();
        /// Whether what it sends to a group comes back, for IPv6.
        fn multicast_loop_v6(&self) -> bool;
        /// Sets whether what it sends to a group comes back, for IPv6.
        fn set_multicast_loop_v6(&self, comes_back: bool) -> ();
        /// Receives also what is sent to a group, by the interface with this address; any, if it is unspecified.
        fn join_multicast_v4(&self, group: &Ipv4Addr, interface: &Ipv4Addr) -> ();
        /// Receives also what is sent to a group, by the interface with this number; any, if it is 0.
        fn join_multicast_v6(&self, group: &Ipv6Addr, interface: u32) -> ();
        /// Receives what is sent to a group no more.
        fn leave_multicast_v4(&self, group: &Ipv4Addr, interface: &Ipv4Addr) -> ();
        /// Receives what is sent to a group no more.
        fn leave_multicast_v6(&self, group: &Ipv6Addr, interface: u32) -> ();
        /// How many hops a datagram may take.
        fn ttl(&self) -> u32;
        /// Sets how many hops a datagram may take.
        fn set_ttl(&self, ttl: u32) -> ();
        /// The error of the socket since the last call, if there was one.
        fn take_error(&self) -> Option<io::Error>;
    }
}

//! Datagrams within a machine.

use std::io::{self, ErrorKind};
use std::net::Shutdown;
use std::os::unix::net::SocketAddr;
use std::path::Path;

use sinew_sched::now;
use sinew_sched::raw::charge;

use super::super::socket::{Socket, as_std, descriptor, timeouts};
use super::pause;

/// A socket for datagrams within the machine: [`std::os::unix::net::UnixDatagram`] for tasks.
pub struct UnixDatagram {
    socket: Socket<std::os::unix::net::UnixDatagram>,
}

descriptor!(UnixDatagram, std::os::unix::net::UnixDatagram, |socket| UnixDatagram { socket });

impl UnixDatagram {
    /// A socket at `path`, where a file is made. It stays when the socket is gone: remove it before the next one.
    ///
    /// # Errors
    ///
    /// What the system says, such as `AddrInUse` if there is a file.
    pub fn bind(path: impl AsRef<Path>) -> io::Result<UnixDatagram> {
        std::os::unix::net::UnixDatagram::bind(path)?.try_into()
    }

    /// A socket at `address`, which may be a name that is no path.
    ///
    /// # Errors
    ///
    /// What the system says.
    pub fn bind_addr(address: &SocketAddr) -> io::Result<UnixDatagram> {
        std::os::unix::net::UnixDatagram::bind_addr(address)?.try_into()
    }

    /// A socket without an address.
    ///
    /// # Errors
    ///
    /// If there is no descriptor for it.
    pub fn unbound() -> io::Result<UnixDatagram> {
        std::os::unix::net::UnixDatagram::unbound()?.try_into()
    }

    /// Two sockets that are connected to each other.
    ///
    /// # Errors
    ///
    /// If there are no descriptors for them.
    pub fn pair() -> io::Result<(UnixDatagram, UnixDatagram)> {
        let (one, other) = std::os::unix::net::UnixDatagram::pair()?;
        Ok((one.try_into()?, other.try_into()?))
    }

    /// Has [`send`](UnixDatagram::send) go to the socket at `path`, and only what is from there be received.
    ///
    /// # Errors
    ///
    /// What the system says.
    pub fn connect(&self, path: impl AsRef<Path>) -> io::Result<()> {
        self.socket.get().connect(path)
    }

    /// Sends a datagram to where it is connected to, and waits while the queue there is full.
    ///
    /// # Errors
    ///
    /// What the system says; `TimedOut`; if the task is cancelled.
    pub fn send(&self, bytes: &[u8]) -> io::Result<usize> {
        self.socket.write(|inner| inner.send(bytes))
    }

    /// Waits for a datagram. What of it does not fit into the buffer is lost.
    ///
    /// # Errors
    ///
    /// What the system says; `TimedOut`; if the task is cancelled.
    pub fn recv(&self, buffer: &mut [u8]) -> io::Result<usize> {
        self.socket.read(|inner| inner.recv(buffer))
    }

    /// Waits for a datagram, and says who it is from. What of it does not fit into the buffer is lost.
    ///
    /// # Errors
    ///
    /// As for [`recv`](UnixDatagram::recv).
    pub fn recv_from(&self, buffer: &mut [u8]) -> io::Result<(usize, SocketAddr)> {
        self.socket.read(|inner| inner.recv_from(buffer))
    }

    /// Sends a datagram to the socket at `path`, and waits while its queue is full.
    ///
    /// # Errors
    ///
    /// As for [`send`](UnixDatagram::send).
    pub fn send_to(&self, bytes: &[u8], path: impl AsRef<Path>) -> io::Result<usize> {
        self.send_by(|inner| inner.send_to(bytes, path.as_ref()))
    }

    /// Sends a datagram to the socket at `address`, and waits while its queue is full.
    ///
    /// # Errors
    ///
    /// As for [`send`](UnixDatagram::send).
    pub fn send_to_addr(&self, bytes: &[u8], address: &SocketAddr) -> io::Result<usize> {
        self.send_by(|inner| inner.send_to_addr(bytes, address))
    }

    /// Sends by address. The system says that a socket is writable if it has room itself, also while there is none in the
    /// queue of whom it sends to, and never tells of that: so it is tried again after pauses.
    fn send_by(
        &self,
        mut call: impl FnMut(&std::os::unix::net::UnixDatagram) -> io::Result<usize>,
    ) -> io::Result<usize> {
        let deadline = self.socket.write_timeout.deadline();
        let mut pause = pause();
        charge();
        loop {
            match call(self.socket.get()) {
                Err(error) if error.kind() == ErrorKind::Interrupted => (),
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    if deadline.is_some_and(|deadline| now() >= deadline) {
                        return Err(ErrorKind::TimedOut.into());
                    }
                    pause.wait_until(deadline)?;
                }
                result => return result,
            }
        }
    }

    /// Sends a datagram, in a future: what [`send`](UnixDatagram::send) does.
    ///
    /// # Errors
    ///
    /// What the system says.
    pub async fn send_async(&self, bytes: &[u8]) -> io::Result<usize> {
        self.socket.write_async(|inner| inner.send(bytes)).await
    }

    /// Waits for a datagram, in a future: what [`recv`](UnixDatagram::recv) does.
    ///
    /// # Errors
    ///
    /// What the system says.
    pub async fn recv_async(&self, buffer: &mut [u8]) -> io::Result<usize> {
        self.socket.read_async(|inner| inner.recv(buffer)).await
    }

    /// Waits for a datagram, in a future: what [`recv_from`](UnixDatagram::recv_from) does.
    ///
    /// # Errors
    ///
    /// What the system says.
    pub async fn recv_from_async(&self, buffer: &mut [u8]) -> io::Result<(usize, SocketAddr)> {
        self.socket.read_async(|inner| inner.recv_from(buffer)).await
    }

    /// Another value for the same socket, for another task. What is received by one is not received by the other.
    ///
    /// # Errors
    ///
    /// If there is no descriptor for it.
    pub fn try_clone(&self) -> io::Result<UnixDatagram> {
        let socket = self.socket.try_clone(std::os::unix::net::UnixDatagram::try_clone)?;
        Ok(UnixDatagram { socket })
    }

    timeouts!();

    as_std! {
        /// The address of this side.
        fn local_addr(&self) -> SocketAddr;
        /// Where it is connected to.
        fn peer_addr(&self) -> SocketAddr;
        /// Has [`send`](UnixDatagram::send) go to the socket at `address`, which may be a name that is no path.
        fn connect_addr(&self, address: &SocketAddr) -> ();
        /// Ends receiving, sending or both.
        fn shutdown(&self, how: Shutdown) -> ();
        /// The error of the socket since the last call, if there was one.
        fn take_error(&self) -> Option<io::Error>;
    }
}

//! Connecting by TCP, without blocking the thread.
//!
//! The system is asked to connect a socket that does not block, and says that it has begun. The socket becomes writable
//! when that is over, and has an error then if it has failed. Nothing else tells "not yet" from "done" than whether
//! there is a peer; the error is asked for first, since a failed socket has no peer either.

use std::io::{self, ErrorKind};
use std::net::{SocketAddr, TcpStream};

use sinew_core::Instant;
use sinew_sched::raw::Interest;
use socket2::{Domain, Protocol, Type};

use super::socket::Socket;

/// Connects, by the deadline.
pub(super) fn connect(address: SocketAddr, deadline: Option<Instant>) -> io::Result<Socket<TcpStream>> {
    let socket = begin(address)?;
    socket.source.run(Interest::WRITE, deadline, connected)?;
    Ok(socket)
}

/// The same in a future.
pub(super) async fn connect_async(address: SocketAddr) -> io::Result<Socket<TcpStream>> {
    let socket = begin(address)?;
    socket.write_async(connected).await?;
    Ok(socket)
}

fn begin(address: SocketAddr) -> io::Result<Socket<TcpStream>> {
    let kind = Type::STREAM.nonblocking().cloexec();
    let socket = socket2::Socket::new(Domain::for_address(address), kind, Some(Protocol::TCP))?;
    match socket.connect(&address.into()) {
        Err(error) if !goes_on(&error) => Err(error),
        _ => Ok(Socket::new(socket.into())),
    }
}

/// True if the system goes on connecting by itself; also after an interrupt.
fn goes_on(error: &io::Error) -> bool {
    error.raw_os_error() == Some(libc::EINPROGRESS) || error.kind() == ErrorKind::Interrupted
}

fn connected(stream: &TcpStream) -> io::Result<()> {
    if let Some(error) = stream.take_error()? {
        return Err(error);
    }
    match stream.peer_addr() {
        Err(error) if error.kind() == ErrorKind::NotConnected => Err(ErrorKind::WouldBlock.into()),
        result => result.map(drop),
    }
}

//! Sockets within a machine, by paths or by names that are no paths: [`std::os::unix::net`] for tasks.
//!
//! Where others would wait for the system to say that there is room, two calls here cannot: it does not say when the queue
//! of a listener is not full any more, nor that of somebody whom a datagram is sent to by address. They try again after
//! pauses ([`Pause`]).

mod datagram;
mod listener;
mod stream;

use std::io;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::SocketAddr;
use std::time::Duration;

use socket2::SockAddr;

use super::pause::Pause;
pub use datagram::UnixDatagram;
pub use listener::{UnixIncoming, UnixListener};
pub use stream::UnixStream;

/// The pauses of who waits for room.
fn pause() -> Pause {
    Pause::between(Duration::from_millis(1), Duration::from_millis(64))
}

/// The address in the words of std; none if it is that of a socket without one.
fn std_address(address: &SockAddr) -> Option<io::Result<SocketAddr>> {
    match (address.as_pathname(), address.as_abstract_namespace()) {
        (Some(path), _) => Some(SocketAddr::from_pathname(path)),
        (_, Some(name)) => Some(SocketAddr::from_abstract_name(name)),
        _ => None,
    }
}

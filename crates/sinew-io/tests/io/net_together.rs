//! Several futures at one socket: each is woken, and what comes is had by one of them.

use std::io;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use sinew_io::net::{TcpListener, TcpStream, UdpSocket, UnixListener, UnixStream};
use sinew_sched::spawn_future;

use crate::sockets::{in_tasks, tcp_pair};

/// How many futures there are.
const FUTURES: usize = 8;

/// How often each of them gets something, and ends then: whoever is left has to be woken for the rest.
const TURNS: usize = 125;

/// Has futures at `socket` take [`TURNS`] each, and `supply` what they take.
fn together<S, F>(
    socket: S,
    take: impl Fn(Arc<S>) -> F + Clone + Send + 'static,
    mut supply: impl FnMut(usize) -> io::Result<()>,
) -> io::Result<()>
where
    S: Send + Sync + 'static,
    F: Future<Output = io::Result<()>> + Send,
{
    let socket = Arc::new(socket);
    let futures: Vec<_> = (0..FUTURES)
        .map(|_| {
            let (socket, take) = (socket.clone(), take.clone());
            spawn_future(async move {
                for _ in 0..TURNS {
                    take(socket.clone()).await?;
                }
                io::Result::Ok(())
            })
        })
        .collect();
    (0..FUTURES * TURNS).try_for_each(&mut supply)?;
    futures.into_iter().try_for_each(|future| future.join().unwrap())
}

#[test]
fn futures_that_accept_at_one_listener_have_all_connections_between_them() {
    in_tasks(|| {
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let address = listener.local_addr()?;
        let accept = |listener: Arc<TcpListener>| async move { listener.accept_async().await.map(drop) };
        together(listener, accept, |_| TcpStream::connect(address).map(drop))
    });
}

#[test]
fn futures_that_accept_within_a_machine_have_all_connections_between_them() {
    in_tasks(|| {
        static USED: AtomicUsize = AtomicUsize::new(0);
        let name = format!("sinew-together-{}-{}", std::process::id(), USED.fetch_add(1, Ordering::Relaxed));
        let address = SocketAddr::from_abstract_name(name)?;
        let listener = UnixListener::bind_addr(&address)?;
        let accept = |listener: Arc<UnixListener>| async move { listener.accept_async().await.map(drop) };
        together(listener, accept, |_| UnixStream::connect_addr(&address).map(drop))
    });
}

#[test]
fn futures_that_receive_at_one_socket_have_all_datagrams_between_them() {
    in_tasks(|| {
        let (one, other) = (UdpSocket::bind("127.0.0.1:0")?, UdpSocket::bind("127.0.0.1:0")?);
        let address = other.local_addr()?;
        let answer = |socket: Arc<UdpSocket>| async move {
            let mut bytes = [0; 8];
            let (length, from) = socket.recv_from_async(&mut bytes).await?;
            socket.send_to_async(&bytes[..length], from).await.map(drop)
        };
        // The system loses datagrams that nobody has room for, so each waits for its answer.
        together(other, answer, |number| {
            let mut bytes = [0; 8];
            one.send_to(&number.to_le_bytes(), address)?;
            assert_eq!(one.recv(&mut bytes)?, 8);
            assert_eq!(usize::from_le_bytes(bytes), number);
            Ok(())
        })
    });
}

#[test]
fn futures_that_read_from_one_stream_have_all_bytes_between_them() {
    in_tasks(|| {
        let (one, other) = tcp_pair()?;
        let read = |stream: Arc<TcpStream>| async move {
            assert_eq!(stream.read_async(&mut [0]).await?, 1);
            Ok(())
        };
        together(one, read, |_| io::Write::write_all(&mut &other, b"x"))
    });
}

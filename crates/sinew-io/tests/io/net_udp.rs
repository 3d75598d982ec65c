//! UDP sockets do what std's do, in tasks of runtimes of all sizes and on threads.

use std::io::{self, ErrorKind};
use std::net::{Ipv4Addr, SocketAddr};
use std::os::fd::AsRawFd;
use std::time::Duration;

use sinew_io::net::UdpSocket;
use sinew_sched::{Elapsed, ManualClock, Runtime, spawn, spawn_future, timeout, yield_now};

use crate::sockets::{everywhere, in_tasks, is_cancelled, pattern, run};
use crate::support::with_runtime;

const HOUR: Duration = Duration::from_secs(3600);

fn pair() -> io::Result<(UdpSocket, UdpSocket)> {
    let (one, other) = (UdpSocket::bind("127.0.0.1:0")?, UdpSocket::bind("127.0.0.1:0")?);
    one.connect(other.local_addr()?)?;
    other.connect(one.local_addr()?)?;
    Ok((one, other))
}

#[test]
fn datagrams_arrive_whole_and_say_who_sent_them() {
    everywhere(|by| {
        let (one, other) = (UdpSocket::bind("127.0.0.1:0")?, UdpSocket::bind("127.0.0.1:0")?);
        let (from, to) = (one.local_addr()?, other.local_addr()?);
        let echo = by.start(move || {
            let mut buffer = [0; 2000];
            for _ in 0..50 {
                let (length, from) = other.recv_from(&mut buffer)?;
                other.send_to(&buffer[..length], from)?;
            }
            Ok::<_, io::Error>(())
        });
        let mut buffer = [0; 2000];
        for length in (0..1000).step_by(20) {
            let sent = pattern(length, 3);
            assert_eq!(one.send_to(&sent, to)?, length);
            assert_eq!(one.recv_from(&mut buffer)?, (length, to));
            assert_eq!(buffer[..length], sent);
        }
        assert_eq!(one.local_addr()?, from);
        echo.join()
    });
}

#[test]
fn what_does_not_fit_into_the_buffer_is_lost_and_the_next_one_is_not() {
    everywhere(|_| {
        let (one, other) = pair()?;
        one.send(b"too long")?;
        one.send(b"next")?;
        let mut buffer = [0; 3];
        assert_eq!(other.peek(&mut buffer)?, 3);
        assert_eq!(other.recv(&mut buffer)?, 3);
        assert_eq!(&buffer, b"too");
        let mut buffer = [0; 10];
        assert_eq!(other.peek_from(&mut buffer)?, (4, one.local_addr()?));
        assert_eq!(other.recv(&mut buffer)?, 4);
        assert_eq!(&buffer[..4], b"next");
        Ok(())
    });
}

#[test]
fn a_connected_socket_receives_from_there_only() {
    everywhere(|_| {
        let (one, other) = pair()?;
        let stranger = UdpSocket::bind("127.0.0.1:0")?;
        stranger.send_to(b"strange", other.local_addr()?)?;
        one.send(b"known")?;
        let mut buffer = [0; 10];
        let length = other.recv(&mut buffer)?;
        assert_eq!(&buffer[..length], b"known");
        assert_eq!(other.peer_addr()?, one.local_addr()?);
        Ok(())
    });
}

#[test]
fn whoever_sends_to_nobody_is_told_by_the_next_call() {
    everywhere(|_| {
        let (one, other) = pair()?;
        drop(other);
        one.send(b"anybody?")?;
        assert_eq!(one.recv(&mut [0; 1]).unwrap_err().kind(), ErrorKind::ConnectionRefused);
        Ok(())
    });
}

#[test]
fn clones_share_a_socket_and_each_datagram_goes_to_one() {
    everywhere(|by| {
        let (one, other) = pair()?;
        let receivers: Vec<_> = (0..4)
            .map(|_| {
                let clone = other.try_clone()?;
                Ok(by.start(move || {
                    let mut byte = [0; 1];
                    (0..5).map(|_| clone.recv(&mut byte).map(|_| byte[0])).collect::<io::Result<Vec<u8>>>()
                }))
            })
            .collect::<io::Result<_>>()?;
        for number in 0..20 {
            one.send(&[number])?;
        }
        let mut received = Vec::new();
        for receiver in receivers {
            received.extend(receiver.join()?);
        }
        received.sort_unstable();
        assert_eq!(received, (0..20).collect::<Vec<u8>>());
        Ok(())
    });
}

#[test]
fn options_are_those_of_the_socket() {
    everywhere(|_| {
        let socket = UdpSocket::bind("127.0.0.1:0")?;
        socket.set_broadcast(true)?;
        assert!(socket.broadcast()?);
        socket.set_multicast_loop_v4(false)?;
        assert!(!socket.multicast_loop_v4()?);
        socket.set_multicast_ttl_v4(3)?;
        assert_eq!(socket.multicast_ttl_v4()?, 3);
        socket.set_ttl(9)?;
        assert_eq!(socket.ttl()?, 9);
        assert!(socket.take_error()?.is_none());
        let (group, any) = (Ipv4Addr::new(224, 0, 0, 251), Ipv4Addr::LOCALHOST);
        if socket.join_multicast_v4(&group, &any).is_ok() {
            socket.leave_multicast_v4(&group, &any)?; // a machine without a network has no groups
        }
        assert_eq!(
            socket.set_write_timeout(Some(Duration::ZERO)).unwrap_err().kind(),
            ErrorKind::InvalidInput
        );
        let std = std::net::UdpSocket::from(socket);
        let fd = std.as_raw_fd();
        assert_eq!(UdpSocket::try_from(std)?.as_raw_fd(), fd);
        let taken = UdpSocket::bind("127.0.0.1:0")?;
        assert_eq!(UdpSocket::bind(taken.local_addr()?).unwrap_err().kind(), ErrorKind::AddrInUse);
        Ok(())
    });
}

#[test]
fn addresses_may_be_names() {
    everywhere(|_| {
        let (one, other) = (UdpSocket::bind(("localhost", 0))?, UdpSocket::bind("127.0.0.1:0")?);
        let port = other.local_addr()?.port();
        if one.local_addr()?.is_ipv4() {
            one.send_to(b"x", format!("127.0.0.1:{port}"))?;
            other.recv(&mut [0; 1])?;
        }
        let none: &[SocketAddr] = &[];
        assert_eq!(other.send_to(b"x", none).unwrap_err().kind(), ErrorKind::InvalidInput);
        Ok(())
    });
}

#[test]
fn a_wait_for_a_datagram_ends_in_all_ways() {
    for workers in [1, 2, 8] {
        let clock = ManualClock::new();
        with_runtime(Runtime::builder().workers(workers).manual_clock(&clock), |runtime| {
            run(runtime, || {
                let (one, other) = pair()?;
                other.set_read_timeout(Some(HOUR))?;
                assert_eq!(other.recv(&mut [0; 1]).unwrap_err().kind(), ErrorKind::TimedOut);
                assert_eq!(other.recv_from(&mut [0; 1]).unwrap_err().kind(), ErrorKind::TimedOut);
                other.set_read_timeout(None)?;
                assert_eq!(timeout(HOUR, || other.recv(&mut [0; 1]).is_ok()), Err(Elapsed));
                let clone = other.try_clone()?;
                let task = spawn(move || clone.recv(&mut [0; 1]));
                yield_now();
                task.cancel();
                assert!(is_cancelled(&task.join().unwrap().unwrap_err()));
                one.send(b"x")?;
                other.recv(&mut [0; 1]).map(drop)
            });
        });
    }
}

#[test]
fn futures_send_and_receive() {
    in_tasks(|| {
        let (one, other) = pair()?;
        let to = other.local_addr()?;
        let echo = spawn_future(async move {
            let mut buffer = [0; 100];
            let (length, from) = other.recv_from_async(&mut buffer).await?;
            other.send_async(&buffer[..length]).await?;
            Ok::<_, io::Error>(from)
        });
        let asks = spawn_future(async move {
            one.send_async(b"future").await?;
            let mut buffer = [0; 100];
            let length = one.recv_async(&mut buffer).await?;
            assert_eq!(&buffer[..length], b"future");
            let stranger = UdpSocket::bind("127.0.0.1:0")?;
            stranger.send_to_async(b"x", to).await?;
            one.local_addr()
        });
        assert_eq!(echo.join().unwrap()?, asks.join().unwrap()?);
        Ok(())
    });
}

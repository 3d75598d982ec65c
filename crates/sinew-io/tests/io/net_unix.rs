//! Sockets within a machine do what std's do, in tasks of runtimes of all sizes and on threads.

use std::io::{self, ErrorKind, Read, Write};
use std::net::Shutdown;
use std::os::fd::AsRawFd;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use sinew_io::net::{UnixDatagram, UnixListener, UnixStream};
use sinew_sched::{Elapsed, ManualClock, Runtime, spawn, spawn_future, timeout, yield_now};

use crate::sockets::{everywhere, in_tasks, is_cancelled, pattern, read_all, run};
use crate::support::with_runtime;

const LIMIT: Duration = Duration::from_secs(2);

/// A path that nobody else uses; its file is removed with it.
struct Place(PathBuf);

impl Place {
    fn new() -> Place {
        static NEXT: AtomicUsize = AtomicUsize::new(0);
        let name = format!("sinew-{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        Place(std::env::temp_dir().join(name))
    }

    /// A name of the same kind that is no path.
    fn name() -> SocketAddr {
        SocketAddr::from_abstract_name(Place::new().0.as_os_str().as_encoded_bytes()).unwrap()
    }
}

impl AsRef<Path> for Place {
    fn as_ref(&self) -> &Path {
        &self.0
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

#[test]
fn streams_connect_by_path_and_are_read_to_the_end() {
    everywhere(|by| {
        let place = Place::new();
        let listener = UnixListener::bind(&place)?;
        assert_eq!(listener.local_addr()?.as_pathname(), Some(place.as_ref()));
        let server = by.start(move || {
            let (stream, address) = listener.accept()?;
            assert!(address.is_unnamed());
            io::copy(&mut &stream, &mut &stream)
        });
        let stream = UnixStream::connect(&place)?;
        assert_eq!(stream.peer_addr()?.as_pathname(), Some(place.as_ref()));
        let (reader, mut writer) = stream.into_split();
        let writing = by.start(move || writer.write_all(&pattern(1_000_000, 1)));
        assert!(read_all(reader)? == pattern(1_000_000, 1));
        writing.join()?;
        assert_eq!(server.join()?, 1_000_000);
        Ok(())
    });
}

#[test]
fn streams_connect_by_names_that_are_no_paths() {
    everywhere(|by| {
        let (name, own) = (Place::name(), Place::name());
        let listener = UnixListener::bind_addr(&name)?;
        assert_eq!(listener.local_addr()?.as_abstract_name(), name.as_abstract_name());
        let expected = own.clone();
        let server = by.start(move || {
            assert_eq!(listener.accept()?.1.as_abstract_name(), expected.as_abstract_name());
            let mut streams = listener.incoming();
            streams.next().expect("there is no end")?.write_all(b"by name")
        });
        // std cannot bind a stream before it connects.
        let bound = socket2::Socket::new(socket2::Domain::UNIX, socket2::Type::STREAM, None)?;
        let address = |name: &SocketAddr| {
            let bytes = [&[0], name.as_abstract_name().unwrap()].concat();
            socket2::SockAddr::unix(std::str::from_utf8(&bytes).unwrap())
        };
        bound.bind(&address(&own)?)?;
        bound.connect(&address(&name)?)?;
        assert_eq!(read_all(UnixStream::connect_addr(&name)?)?, b"by name");
        server.join()
    });
}

#[test]
fn paths_that_are_taken_or_lead_nowhere_are_errors() {
    everywhere(|_| {
        let place = Place::new();
        assert_eq!(UnixStream::connect(&place).unwrap_err().kind(), ErrorKind::NotFound);
        drop(UnixListener::bind(&place)?); // its file stays
        assert_eq!(UnixListener::bind(&place).unwrap_err().kind(), ErrorKind::AddrInUse);
        assert_eq!(UnixDatagram::bind(&place).unwrap_err().kind(), ErrorKind::AddrInUse);
        assert_eq!(UnixStream::connect(&place).unwrap_err().kind(), ErrorKind::ConnectionRefused);
        let long = "x".repeat(200);
        assert_eq!(UnixStream::connect(&long).unwrap_err().kind(), ErrorKind::InvalidInput);
        assert_eq!(UnixListener::bind(&long).unwrap_err().kind(), ErrorKind::InvalidInput);
        let unnamed = UnixStream::pair()?.0.local_addr()?;
        assert_eq!(UnixStream::connect_addr(&unnamed).unwrap_err().kind(), ErrorKind::InvalidInput);
        Ok(())
    });
}

#[test]
fn a_pair_is_connected_and_is_cloned_shut_and_converted() {
    everywhere(|_| {
        let (one, other) = UnixStream::pair()?;
        (&one).write_all(b"abc")?;
        let mut clone = other.try_clone()?;
        clone.read_exact(&mut [0; 3])?;
        one.shutdown(Shutdown::Write)?;
        assert_eq!(clone.read(&mut [0; 1])?, 0);
        assert!(one.take_error()?.is_none());
        let fd = one.as_raw_fd();
        let std = std::os::unix::net::UnixStream::from(one);
        assert_eq!(UnixStream::try_from(std)?.as_raw_fd(), fd);
        drop((clone, other));
        Ok(())
    });
}

/// A listener whose queue is full, and who fills it.
fn full_listener(place: &Place) -> io::Result<(UnixListener, Vec<socket2::Socket>)> {
    let listener = socket2::Socket::new(socket2::Domain::UNIX, socket2::Type::STREAM, None)?;
    let address = socket2::SockAddr::unix(place)?;
    listener.bind(&address)?;
    listener.listen(1)?;
    let mut waiting = Vec::new();
    loop {
        let socket = socket2::Socket::new(socket2::Domain::UNIX, socket2::Type::STREAM, None)?;
        socket.set_nonblocking(true)?;
        match socket.connect(&address) {
            Err(error) if error.kind() == ErrorKind::WouldBlock => break,
            result => result?,
        }
        waiting.push(socket);
    }
    let listener = std::os::unix::net::UnixListener::from(std::os::fd::OwnedFd::from(listener));
    Ok((listener.try_into()?, waiting))
}

#[test]
fn a_connect_waits_while_the_queue_of_the_listener_is_full() {
    everywhere(|by| {
        let place = Place::new();
        let (listener, waiting) = full_listener(&place)?;
        let path = place.0.clone();
        let client = by.start(move || UnixStream::connect(path).and_then(read_all));
        for _ in 0..waiting.len() {
            drop(listener.accept()?);
        }
        listener.accept()?.0.write_all(b"room")?;
        assert_eq!(client.join()?, b"room");
        Ok(())
    });
}

#[test]
fn a_connect_that_waits_is_given_up() {
    with_time(|| {
        let place = Place::new();
        let (_listener, _waiting) = full_listener(&place)?;
        assert_eq!(timeout(LIMIT, || UnixStream::connect(&place).is_ok()), Err(Elapsed));
        let path = place.0.clone();
        let task = spawn(move || UnixStream::connect(path));
        yield_now();
        task.cancel();
        assert!(is_cancelled(&task.join().unwrap().unwrap_err()));
        Ok(())
    });
}

/// Runs `test` where the limit is over as soon as everybody waits.
fn with_time(test: fn() -> io::Result<()>) {
    for workers in [1, 2, 8] {
        let clock = ManualClock::new();
        with_runtime(Runtime::builder().workers(workers).manual_clock(&clock), |runtime| run(runtime, test));
    }
}

#[test]
fn waits_of_streams_and_listeners_end_in_all_ways() {
    with_time(|| {
        let (mut one, mut other) = UnixStream::pair()?;
        other.set_read_timeout(Some(LIMIT))?;
        assert_eq!(other.read(&mut [0; 1]).unwrap_err().kind(), ErrorKind::TimedOut);
        other.set_read_timeout(None)?;
        assert_eq!(timeout(LIMIT, || other.read(&mut [0; 1]).is_ok()), Err(Elapsed));
        one.set_write_timeout(Some(LIMIT))?;
        let mut written = 0;
        let kind = loop {
            match one.write(&[0; 10_000]) {
                Ok(more) => written += more,
                Err(error) => break error.kind(),
            }
        };
        assert_eq!(kind, ErrorKind::TimedOut);
        let place = Place::new();
        let listener = UnixListener::bind(&place)?;
        let clone = listener.try_clone()?;
        let task = spawn(move || clone.accept());
        yield_now();
        task.cancel();
        assert!(is_cancelled(&task.join().unwrap().unwrap_err()));
        drop(one);
        assert_eq!(read_all(other)?.len(), written);
        Ok(())
    });
}

#[test]
fn datagrams_arrive_in_order_and_senders_wait_for_room() {
    everywhere(|by| {
        let (one, other) = UnixDatagram::pair()?;
        let sender = by.start(move || {
            for number in 0..2000_u32 {
                one.send(&number.to_le_bytes())?;
            }
            Ok::<_, io::Error>(())
        });
        let mut buffer = [0; 4];
        for number in 0..2000_u32 {
            assert_eq!(other.recv(&mut buffer)?, 4);
            assert_eq!(u32::from_le_bytes(buffer), number);
        }
        sender.join()
    });
}

#[test]
fn datagrams_are_sent_by_path_and_by_name_and_say_who_sent_them() {
    everywhere(|_| {
        let (place, name) = (Place::new(), Place::name());
        let (at_place, at_name) = (UnixDatagram::bind(&place)?, UnixDatagram::bind_addr(&name)?);
        at_place.send_to_addr(b"to a name", &name)?;
        at_name.send_to(b"to a path", &place)?;
        let mut buffer = [0; 5];
        let (length, from) = at_place.recv_from(&mut buffer)?;
        assert_eq!((length, &buffer), (5, b"to a "), "the rest is lost");
        assert_eq!(from.as_abstract_name(), name.as_abstract_name());
        let (_, from) = at_name.recv_from(&mut buffer)?;
        assert_eq!(from.as_pathname(), Some(place.as_ref()));
        let unbound = UnixDatagram::unbound()?;
        assert!(unbound.local_addr()?.is_unnamed());
        unbound.connect(&place)?;
        unbound.send(b"x")?;
        assert!(at_place.recv_from(&mut buffer)?.1.is_unnamed());
        unbound.connect_addr(&name)?;
        unbound.try_clone()?.send(b"y")?;
        assert_eq!(at_name.recv(&mut buffer)?, 1);
        assert_eq!(unbound.send_to(b"x", "/no/such/path").unwrap_err().kind(), ErrorKind::NotFound);
        Ok(())
    });
}

#[test]
fn senders_by_address_wait_for_room_in_a_queue_that_others_have_filled() {
    everywhere(|by| {
        let place = Place::new();
        let receiver = UnixDatagram::bind(&place)?;
        let filler = std::os::unix::net::UnixDatagram::unbound()?;
        filler.set_nonblocking(true)?;
        let mut filled = 0;
        while filler.send_to(b"full", &place).is_ok() {
            filled += 1;
        }
        let path = place.0.clone();
        let sender = by.start(move || UnixDatagram::unbound()?.send_to(b"last", path));
        let mut buffer = [0; 4];
        for _ in 0..filled {
            receiver.recv(&mut buffer)?;
        }
        receiver.recv(&mut buffer)?;
        assert_eq!(&buffer, b"last");
        assert_eq!(sender.join()?, 4);
        Ok(())
    });
}

#[test]
fn a_sender_by_address_that_finds_no_room_is_given_up() {
    with_time(|| {
        let place = Place::new();
        let _receiver = UnixDatagram::bind(&place)?;
        let sender = UnixDatagram::unbound()?;
        sender.set_write_timeout(Some(LIMIT))?;
        let kind = loop {
            match sender.send_to(b"x", &place) {
                Ok(_) => (),
                Err(error) => break error.kind(),
            }
        };
        assert_eq!(kind, ErrorKind::TimedOut);
        sender.set_write_timeout(None)?;
        assert_eq!(timeout(LIMIT, || sender.send_to(b"x", &place).is_ok()), Err(Elapsed));
        let path = place.0.clone();
        let task = spawn(move || sender.send_to(b"x", path));
        yield_now();
        task.cancel();
        assert!(is_cancelled(&task.join().unwrap().unwrap_err()));
        Ok(())
    });
}

#[test]
fn a_thread_that_finds_no_room_is_told_in_time() {
    let place = Place::new();
    let _receiver = UnixDatagram::bind(&place).unwrap();
    let sender = UnixDatagram::unbound().unwrap();
    sender.set_write_timeout(Some(Duration::from_millis(20))).unwrap();
    let error = std::iter::from_fn(|| Some(sender.send_to(b"x", &place))).find_map(Result::err);
    assert_eq!(error.unwrap().kind(), ErrorKind::TimedOut);
}

#[test]
fn futures_connect_accept_and_send_datagrams() {
    in_tasks(|| {
        let place = Place::new();
        let (listener, waiting) = full_listener(&place)?;
        let path = place.0.clone();
        let client = spawn_future(async move {
            let stream = UnixStream::connect_async(path).await?; // when there is room
            stream.write_all_async(b"future").await
        });
        let server = spawn_future(async move {
            for _ in 0..waiting.len() {
                drop(listener.accept_async().await?);
            }
            let (stream, _) = listener.accept_async().await?;
            let mut buffer = [0; 10];
            let read = stream.read_async(&mut buffer).await?;
            Ok::<_, io::Error>(buffer[..read].to_vec())
        });
        assert_eq!(server.join().unwrap()?, b"future");
        client.join().unwrap()?;

        let (one, other) = UnixDatagram::pair()?;
        let receiver = spawn_future(async move {
            let mut byte = [0; 1];
            for number in 0..100 {
                if number % 2 == 0 {
                    other.recv_async(&mut byte).await?;
                } else {
                    other.recv_from_async(&mut byte).await?;
                }
                assert_eq!(byte, [number]);
            }
            Ok::<_, io::Error>(())
        });
        let sender = spawn_future(async move {
            for number in 0..100 {
                one.send_async(&[number]).await?;
            }
            Ok::<_, io::Error>(())
        });
        sender.join().unwrap()?;
        receiver.join().unwrap()
    });
}

//! Calls of sockets that wait end at their timeout, when their task is cancelled or killed, and at a deadline around
//! them; and nothing is lost by that.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream as StdStream};
use std::time::{Duration, Instant};

use sinew_io::net::{TcpListener, TcpStream};
use sinew_sched::{Elapsed, ManualClock, Runtime, now, spawn, spawn_future, timeout, yield_now};
use socket2::{Domain, Socket, Type};

use crate::sockets::{self, in_tasks, is_cancelled, run, tcp_pair, write_until_error};
use crate::support::with_runtime;

const HOUR: Duration = Duration::from_secs(3600);

/// Runs `test` where an hour is over as soon as everybody waits.
fn with_time(test: fn() -> io::Result<()>) {
    for workers in [1, 2, 8] {
        let clock = ManualClock::new();
        with_runtime(Runtime::builder().workers(workers).manual_clock(&clock), |runtime| run(runtime, test));
    }
}

#[test]
fn a_read_that_waits_for_too_long_times_out_and_loses_nothing() {
    with_time(|| {
        let (mut one, mut other) = tcp_pair()?;
        other.set_read_timeout(Some(HOUR))?;
        let start = now();
        assert_eq!(other.read(&mut [0; 9]).unwrap_err().kind(), ErrorKind::TimedOut);
        assert!(now() - start >= HOUR);
        assert_eq!(other.peek(&mut [0; 9]).unwrap_err().kind(), ErrorKind::TimedOut);
        one.write_all(b"late")?;
        other.set_read_timeout(None)?;
        other.read_exact(&mut [0; 4])
    });
}

#[test]
fn a_write_that_waits_for_too_long_times_out() {
    with_time(|| {
        let (one, other) = tcp_pair()?;
        other.set_write_timeout(Some(HOUR))?;
        let (written, error) = write_until_error(other);
        assert_eq!(error.kind(), ErrorKind::TimedOut);
        assert_eq!(sockets::read_all(one)?.len(), written);
        Ok(())
    });
}

#[test]
fn a_thread_that_reads_or_writes_for_too_long_is_told_and_not_early() {
    let (_one, mut other) = tcp_pair().unwrap();
    let limit = Duration::from_millis(20);
    other.set_read_timeout(Some(limit)).unwrap();
    other.set_write_timeout(Some(limit)).unwrap();
    let start = Instant::now();
    assert_eq!(other.read(&mut [0; 1]).unwrap_err().kind(), ErrorKind::TimedOut);
    assert_eq!(write_until_error(&other).1.kind(), ErrorKind::TimedOut);
    assert!(start.elapsed() >= 2 * limit);
}

/// A listener at which all places are taken, so that connections to it wait.
fn full_listener() -> io::Result<(Socket, SocketAddr, Vec<Socket>)> {
    let listener = Socket::new(Domain::IPV4, Type::STREAM, None)?;
    listener.bind(&SocketAddr::from(([127, 0, 0, 1], 0)).into())?;
    listener.listen(0)?;
    let address = listener.local_addr()?;
    let connections = (0..4).map(|_| {
        let socket = Socket::new(Domain::IPV4, Type::STREAM, None)?;
        socket.set_nonblocking(true)?;
        match socket.connect(&address) {
            Err(error) if error.raw_os_error() != Some(libc::EINPROGRESS) => Err(error),
            _ => Ok(socket),
        }
    });
    let connections = connections.collect::<io::Result<_>>()?;
    let address = address.as_socket().expect("it is one");
    Ok((listener, address, connections))
}

#[test]
fn a_connect_that_waits_for_too_long_times_out() {
    with_time(|| {
        let (_listener, address, _connections) = full_listener()?;
        let error = TcpStream::connect_timeout(&address, HOUR).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::TimedOut);
        assert_eq!(timeout(HOUR, || TcpStream::connect(address)).err(), Some(Elapsed));
        Ok(())
    });
}

#[test]
fn a_thread_that_connects_for_too_long_is_told() {
    let (_listener, address, _connections) = full_listener().unwrap();
    let error = TcpStream::connect_timeout(&address, Duration::from_millis(20)).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::TimedOut);
}

#[test]
fn a_connect_that_is_cancelled_tries_no_other_address() {
    in_tasks(|| {
        let (_full, full, _connections) = full_listener()?;
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let addresses = [full, listener.local_addr()?];
        let task = spawn(move || TcpStream::connect(&addresses[..]));
        yield_now();
        task.cancel();
        assert!(is_cancelled(&task.join().unwrap().unwrap_err()));
        Ok(())
    });
}

#[test]
fn calls_that_wait_end_when_their_task_is_cancelled_and_the_socket_works_on() {
    in_tasks(|| {
        let (mut one, other) = tcp_pair()?;
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let (reads, writes, listens) = (other.try_clone()?, other.try_clone()?, listener.try_clone()?);
        let tasks = [
            spawn(move || (&reads).read(&mut [0; 1]).map(|_| 0).map_err(|error| (0, error))),
            spawn(move || Err(write_until_error(writes))),
            spawn(move || listens.accept().map(|_| 0).map_err(|error| (0, error))),
        ];
        yield_now();
        let mut written = 0;
        for task in tasks {
            task.cancel();
            let (more, error) = task.join().unwrap().unwrap_err();
            assert!(is_cancelled(&error));
            written += more;
        }
        drop(StdStream::connect(listener.local_addr()?)?);
        listener.accept()?;
        one.write_all(b"a")?;
        (&other).read_exact(&mut [0; 1])?;
        drop(other);
        assert_eq!(sockets::read_all(one)?.len(), written);
        Ok(())
    });
}

#[test]
fn a_killed_task_unwinds_out_of_a_read() {
    in_tasks(|| {
        let (_one, mut other) = tcp_pair()?;
        let task = spawn(move || other.read(&mut [0; 1]));
        yield_now();
        task.kill();
        assert!(task.join().unwrap_err().is_cancelled());
        Ok(())
    });
}

#[test]
fn a_cancelled_task_reads_what_is_there() {
    in_tasks(|| {
        let (mut one, mut other) = tcp_pair()?;
        one.write_all(b"ab")?;
        other.read_exact(&mut [0; 1])?; // so the second byte is there too
        let task = spawn(move || {
            yield_until_cancelled();
            other.read(&mut [0; 1]).map(|read| (read, other.read(&mut [0; 1])))
        });
        task.cancel();
        let (read, then) = task.join().unwrap()?;
        assert_eq!(read, 1);
        assert!(is_cancelled(&then.unwrap_err()));
        Ok(())
    });
}

fn yield_until_cancelled() {
    let (_sender, mut receiver) = sinew_chan::chan::oneshot::channel::<()>();
    let _ = receiver.recv();
}

#[test]
fn a_deadline_around_a_read_unwinds_it_and_loses_nothing() {
    with_time(|| {
        let (mut one, mut other) = tcp_pair()?;
        assert_eq!(timeout(HOUR, || other.read(&mut [0; 1]).is_ok()), Err(Elapsed));
        let listener = TcpListener::bind("127.0.0.1:0")?;
        assert_eq!(timeout(HOUR, || listener.accept().is_ok()), Err(Elapsed));
        one.write_all(b"x")?;
        other.read_exact(&mut [0; 1])
    });
}

#[test]
fn a_future_that_is_dropped_in_a_read_has_taken_nothing() {
    in_tasks(|| {
        let (mut one, other) = tcp_pair()?;
        let other = std::sync::Arc::new(other);
        let reads = other.clone();
        let future = spawn_future(async move { reads.read_async(&mut [0; 1]).await });
        yield_now();
        future.cancel();
        assert!(future.join().unwrap_err().is_cancelled());
        one.write_all(b"x")?;
        (&*other).read_exact(&mut [0; 1])
    });
}

#[test]
fn a_value_that_is_dropped_by_another_task_leaves_its_clones_alone() {
    in_tasks(|| {
        let (mut one, other) = tcp_pair()?;
        let clones: Vec<_> = (0..8).map(|_| other.try_clone()).collect::<io::Result<_>>()?;
        let mut readers: Vec<_> =
            clones.into_iter().map(|mut clone| spawn(move || clone.read(&mut [0; 1]))).collect();
        yield_now();
        for task in readers.drain(..4) {
            task.cancel(); // closes its clone
            assert!(is_cancelled(&task.join().unwrap().unwrap_err()));
        }
        one.write_all(b"four")?;
        for task in readers {
            assert_eq!(task.join().unwrap()?, 1);
        }
        drop(other);
        Ok(())
    });
}

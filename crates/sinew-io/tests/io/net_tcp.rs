//! TCP streams and listeners do what std's do, in tasks of runtimes of all sizes and on threads.

use std::io::{self, ErrorKind, IoSlice, IoSliceMut, Read, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddr};
use std::os::fd::{AsFd, AsRawFd, FromRawFd, IntoRawFd, OwnedFd};
use std::sync::Arc;
use std::time::Duration;

use sinew_fiber::shield;
use sinew_io::net::{TcpListener, TcpStream};
use sinew_sched::{Runtime, TaskState, block_on, sleep, spawn, spawn_future};

use crate::sockets::{self, everywhere, in_tasks, pattern, read_all, tcp_pair, write_until_error};
use crate::support::{self, Watchdog};

#[test]
fn what_is_written_is_read_in_order_and_then_the_end() {
    everywhere(|by| {
        let (mut one, other) = tcp_pair()?;
        let bytes = pattern(3_000_000, 1); // more than fits between them
        let expected = bytes.clone();
        let writer = by.start(move || one.write_all(&bytes));
        assert!(read_all(other)? == expected);
        writer.join()
    });
}

#[test]
fn both_directions_are_used_at_once() {
    everywhere(|by| {
        let (one, other) = tcp_pair()?;
        let sides = [one, other].map(|stream| {
            by.start(move || {
                let clone = stream.try_clone()?;
                let writer = by.start(move || {
                    (&clone).write_all(&pattern(1_000_000, 2))?;
                    clone.shutdown(Shutdown::Write)
                });
                assert!(read_all(&stream)? == pattern(1_000_000, 2));
                writer.join()
            })
        });
        sides.into_iter().try_for_each(sockets::Started::join)
    });
}

#[test]
fn one_side_can_be_shut_and_the_other_goes_on() {
    everywhere(|by| {
        let (mut one, mut other) = tcp_pair()?;
        let echo = by.start(move || {
            let question = read_all(&other)?; // up to the end of that direction
            other.write_all(&question)
        });
        one.write_all(b"half")?;
        one.shutdown(Shutdown::Write)?;
        assert_eq!(read_all(&one)?, b"half");
        assert_eq!(one.write(b"x").unwrap_err().kind(), ErrorKind::BrokenPipe);
        echo.join()
    });
}

#[test]
fn a_shutdown_of_reading_ends_a_read_that_waits() {
    everywhere(|by| {
        let (one, _other) = tcp_pair()?;
        let clone = one.try_clone()?;
        let reader = by.start(move || read_all(clone));
        one.shutdown(Shutdown::Read)?;
        assert_eq!(reader.join()?, b"");
        Ok(())
    });
}

#[test]
fn several_buffers_are_written_and_read_at_once() {
    everywhere(|by| {
        let (mut one, mut other) = tcp_pair()?;
        let reader = by.start(move || {
            let (mut head, mut tail) = ([0; 3], [0; 8]);
            let mut read =
                other.read_vectored(&mut [IoSliceMut::new(&mut head), IoSliceMut::new(&mut tail)])?;
            while read < 7 {
                read += other.read(&mut tail[read.saturating_sub(3)..])?;
            }
            assert_eq!((&head, &tail[..4]), (b"vec", &b"tors"[..]));
            Ok::<_, io::Error>(())
        });
        assert_eq!(one.write_vectored(&[IoSlice::new(b"vect"), IoSlice::new(b""), IoSlice::new(b"ors")])?, 7);
        reader.join()
    });
}

#[test]
fn what_is_peeked_at_is_read_again() {
    everywhere(|by| {
        let (mut one, mut other) = tcp_pair()?;
        let writer = by.start(move || one.write_all(b"twice").map(|()| one));
        let mut buffer = [0; 5];
        let mut peeked = 0;
        while peeked < 5 {
            peeked = other.peek(&mut buffer)?;
        }
        assert_eq!(&buffer, b"twice");
        other.read_exact(&mut buffer)?;
        assert_eq!(&buffer, b"twice");
        writer.join().map(drop)
    });
}

#[test]
fn a_clone_is_the_same_connection_and_the_last_one_closes_it() {
    everywhere(|_| {
        let (one, mut other) = tcp_pair()?;
        let mut clone = one.try_clone()?;
        assert_eq!(clone.peer_addr()?, one.peer_addr()?);
        assert_ne!(clone.as_raw_fd(), one.as_raw_fd());
        drop(one);
        clone.write_all(b"still here")?;
        other.read_exact(&mut [0; 10])?;
        drop(clone);
        assert_eq!(other.read(&mut [0; 1])?, 0);
        Ok(())
    });
}

#[test]
fn halves_work_apart_and_the_end_of_the_writer_is_the_end_of_the_stream() {
    everywhere(|by| {
        let (one, other) = tcp_pair()?;
        let echo = by.start(move || io::copy(&mut &other, &mut &other).map(|_| other));
        let (reader, mut writer) = one.into_split();
        let write = by.start(move || writer.write_all(&pattern(500_000, 3))); // dropped at the end
        let read = by.start(move || read_all(reader));
        write.join()?;
        let other = echo.join()?; // it has seen the end
        drop(other);
        assert!(read.join()? == pattern(500_000, 3));
        Ok(())
    });
}

#[test]
fn halves_of_one_stream_become_it_again_and_others_do_not() {
    everywhere(|_| {
        let (one, mut other) = tcp_pair()?;
        let fd = one.as_raw_fd();
        let (reader, writer) = one.into_split();
        let (strange_reader, strange_writer) = tcp_pair()?.0.into_split();
        let error = reader.reunite(strange_writer).unwrap_err();
        assert!(error.to_string().contains("different streams"));
        let (reader, strange_writer) = (error.0, error.1);
        strange_reader.reunite(strange_writer).expect("they belong together");
        let mut one = reader.reunite(writer).expect("they belong together");
        assert_eq!(one.as_raw_fd(), fd);
        one.write_all(b"whole")?; // no half has ended it
        other.read_exact(&mut [0; 5])
    });
}

#[test]
fn options_are_those_of_the_socket() {
    everywhere(|_| {
        let (one, other) = tcp_pair()?;
        assert_eq!(one.peer_addr()?, other.local_addr()?);
        for nodelay in [true, false] {
            one.set_nodelay(nodelay)?;
            assert_eq!(one.nodelay()?, nodelay);
        }
        one.set_ttl(42)?;
        assert_eq!(one.ttl()?, 42);
        assert_eq!(one.linger()?, None);
        one.set_linger(Some(Duration::from_secs(3)))?;
        assert_eq!(one.linger()?, Some(Duration::from_secs(3)));
        assert!(one.take_error()?.is_none());
        assert_eq!((one.read_timeout()?, one.write_timeout()?), (None, None));
        one.set_read_timeout(Some(Duration::from_secs(1)))?;
        one.set_write_timeout(Some(Duration::from_secs(2)))?;
        let clone = one.try_clone()?;
        one.set_read_timeout(None)?;
        let timeouts = (clone.read_timeout()?, clone.write_timeout()?);
        assert_eq!(timeouts, (Some(Duration::from_secs(1)), Some(Duration::from_secs(2))));
        assert_eq!(one.read_timeout()?, None);
        assert_eq!(one.set_read_timeout(Some(Duration::ZERO)).unwrap_err().kind(), ErrorKind::InvalidInput);
        Ok(())
    });
}

#[test]
fn sockets_become_those_of_std_and_are_made_of_them() {
    everywhere(|_| {
        let listener = TcpListener::try_from(std::net::TcpListener::bind("127.0.0.1:0")?)?;
        let address = listener.local_addr()?;
        let one = TcpStream::try_from(std::net::TcpStream::connect(address)?)?;
        let other = std::net::TcpStream::from(listener.accept()?.0);
        other.set_nonblocking(false)?;
        (&one).write_all(b"std")?;
        (&other).read_exact(&mut [0; 3])?;
        let fd = OwnedFd::from(one);
        let one = TcpStream::try_from(fd)?;
        assert_eq!(one.as_fd().as_raw_fd(), one.as_raw_fd());
        let raw = one.into_raw_fd();
        // SAFETY: it was just given up.
        drop(unsafe { OwnedFd::from_raw_fd(raw) });
        assert_eq!((&other).read(&mut [0; 1])?, 0);
        assert!(format!("{listener:?}").contains("127.0.0.1"));
        Ok(())
    });
}

#[test]
fn sockets_are_not_inherited_by_other_programs_and_do_not_block() {
    everywhere(|_| {
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let one = TcpStream::connect(listener.local_addr()?)?;
        let (other, _) = listener.accept()?;
        for fd in [listener.as_raw_fd(), one.as_raw_fd(), other.as_raw_fd(), one.try_clone()?.as_raw_fd()] {
            let flags = std::fs::read_to_string(format!("/proc/self/fdinfo/{fd}"))?;
            let flags = flags.lines().find_map(|line| line.strip_prefix("flags:")).unwrap().trim();
            let flags = i32::from_str_radix(flags, 8).unwrap();
            assert_eq!(flags & 0o2_004_000, 0o2_004_000, "close on exec, and non-blocking");
        }
        Ok(())
    });
}

#[test]
fn addresses_are_given_in_all_ways_and_names_are_looked_up() {
    everywhere(|_| {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        let address = listener.local_addr()?;
        let port = address.port();
        TcpStream::connect(address)?;
        TcpStream::connect(address.to_string())?;
        TcpStream::connect(&address.to_string()[..])?;
        TcpStream::connect(("127.0.0.1", port))?;
        TcpStream::connect((address.ip(), port))?;
        TcpStream::connect(format!("localhost:{port}"))?;
        TcpStream::connect(("localhost".to_owned(), port))?;
        let unknown = TcpStream::connect(("no-such-host.invalid", port));
        assert!(unknown.is_err());
        for bad in ["127.0.0.1", "host:99999", ":80", "host:", ""] {
            let error = TcpStream::connect(bad).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::InvalidInput, "{bad}");
            assert!(error.to_string().contains(bad));
        }
        Ok(())
    });
}

#[test]
fn several_addresses_are_tried_in_turn() {
    everywhere(|_| {
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let address = listener.local_addr()?;
        let nobody = unused()?;
        assert_eq!(TcpStream::connect(&[nobody, address][..])?.peer_addr()?, address);
        let second = TcpListener::bind(&[address, nobody][..])?; // the first one is in use
        assert_eq!(second.local_addr()?, nobody);
        let none: &[SocketAddr] = &[];
        assert_eq!(TcpStream::connect(none).unwrap_err().kind(), ErrorKind::InvalidInput);
        Ok(())
    });
}

/// An address that nobody listens at; other tests do not use its host.
fn unused() -> io::Result<SocketAddr> {
    loop {
        // A port of a listener that was never connected to is free at once.
        let address = std::net::TcpListener::bind("127.77.7.7:0")?.local_addr()?;
        if std::net::TcpListener::bind(address).is_ok() {
            return Ok(address);
        }
    }
}

#[test]
fn a_connection_that_is_refused_fails_and_so_does_an_address_in_use() {
    everywhere(|_| {
        let nobody = unused()?;
        assert_eq!(TcpStream::connect(nobody).unwrap_err().kind(), ErrorKind::ConnectionRefused);
        let error = TcpStream::connect_timeout(&nobody, Duration::from_secs(60)).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::ConnectionRefused);
        let error = TcpStream::connect_timeout(&nobody, Duration::ZERO).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidInput);
        let listener = TcpListener::bind("127.0.0.1:0")?;
        assert_eq!(TcpListener::bind(listener.local_addr()?).unwrap_err().kind(), ErrorKind::AddrInUse);
        Ok(())
    });
}

#[test]
fn a_reset_is_an_error_of_whoever_reads() {
    everywhere(|by| {
        let (one, other) = tcp_pair()?;
        let reader = by.start(move || read_all(other));
        one.set_linger(Some(Duration::ZERO))?;
        drop(one);
        assert_eq!(reader.join().unwrap_err().kind(), ErrorKind::ConnectionReset);
        Ok(())
    });
}

#[test]
fn a_reset_is_an_error_of_whoever_writes() {
    everywhere(|by| {
        let (one, other) = tcp_pair()?;
        let writer = by.start(move || write_until_error(other).1);
        one.set_linger(Some(Duration::ZERO))?;
        drop(one);
        let gone = [ErrorKind::ConnectionReset, ErrorKind::BrokenPipe];
        let kind = writer.join().kind();
        assert!(gone.contains(&kind), "{kind}");
        Ok(())
    });
}

#[test]
fn whoever_accepts_gets_every_connection() {
    everywhere(|by| {
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let address = listener.local_addr()?;
        let acceptors: Vec<_> = (0..4)
            .map(|_| {
                let listener = listener.try_clone()?;
                Ok(by.start(move || {
                    let five: io::Result<Vec<TcpStream>> = listener.incoming().take(5).collect();
                    five?.into_iter().try_for_each(|mut stream| stream.write_all(b"!"))
                }))
            })
            .collect::<io::Result<_>>()?;
        let clients: Vec<_> =
            (0..20).map(|_| by.start(move || TcpStream::connect(address).and_then(read_all))).collect();
        for client in clients {
            assert_eq!(client.join()?, b"!");
        }
        acceptors.into_iter().try_for_each(sockets::Started::join)
    });
}

#[test]
fn a_listener_says_where_it_listens_and_has_options() {
    everywhere(|_| {
        let listener = TcpListener::bind("[::1]:0").or_else(|_| TcpListener::bind("127.0.0.1:0"))?;
        assert_ne!(listener.local_addr()?.port(), 0);
        listener.set_ttl(17)?;
        assert_eq!(listener.ttl()?, 17);
        assert!(listener.take_error()?.is_none());
        Ok(())
    });
}

#[test]
fn futures_accept_connect_read_and_write() {
    in_tasks(|| {
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let address = listener.local_addr()?;
        let server = spawn_future(async move {
            let (stream, _) = listener.accept_async().await?;
            let mut buffer = vec![0; 10_000];
            loop {
                match stream.read_async(&mut buffer).await? {
                    0 => return Ok::<_, io::Error>(()),
                    read => stream.write_all_async(&buffer[..read]).await?,
                }
            }
        });
        let client = spawn_future(async move {
            let stream = TcpStream::connect_async(("localhost", address.port())).await?;
            let stream = std::sync::Arc::new(stream);
            let reading = stream.clone();
            let reader = spawn_future(async move {
                let (mut bytes, mut buffer) = (Vec::new(), [0; 4096]);
                while let read @ 1.. = reading.read_async(&mut buffer).await? {
                    bytes.extend_from_slice(&buffer[..read]);
                }
                Ok::<_, io::Error>(bytes)
            });
            stream.write_all_async(&pattern(1_000_000, 5)).await?;
            stream.shutdown(Shutdown::Write)?;
            Ok::<_, io::Error>(reader)
        });
        let reader = client.join().unwrap()?;
        assert!(reader.join().unwrap()? == pattern(1_000_000, 5));
        server.join().unwrap()
    });
}

#[test]
fn a_future_is_woken_by_its_socket_without_the_help_of_other_tasks() {
    let _watchdog = Watchdog::new("a future that its socket wakes".to_owned());
    let runtime = Runtime::builder().workers(1).safety_nets(false).build().unwrap();
    let echoed = runtime.run(|| {
        let (mut one, other) = tcp_pair()?;
        let echo = spawn_future(async move {
            let mut byte = [0];
            while other.read_async(&mut byte).await? > 0 {
                other.write_all_async(&byte).await?;
            }
            io::Result::Ok(())
        });
        for _ in 0..10 {
            one.write_all(&[7])?;
            one.read_exact(&mut [0])?;
        }
        drop(one);
        echo.join().unwrap()
    });
    echoed.unwrap().unwrap();
    assert!(runtime.counters()[0].steals <= 1); // the one above, which came from outside
}

#[test]
fn a_future_that_nobody_of_ours_polls_is_told_so() {
    let (one, _other) = tcp_pair().unwrap();
    let error = sinew_sched::block_on(one.read_async(&mut [0; 1])).unwrap().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unsupported);
    assert!(error.to_string().contains("a task of a Sinew runtime"));
}

#[test]
fn a_socket_goes_from_one_runtime_to_another_and_to_threads() {
    let (one, other) = tcp_pair().unwrap();
    let (mut one, mut other) = (Some(one), Some(other));
    for round in 0..3 {
        let (mut reads, mut writes) = (one.take().unwrap(), other.take().unwrap());
        let (reader, writer) = (Runtime::builder().workers(2).build().unwrap(), Runtime::new());
        let reading = reader.spawn(move || reads.read_exact(&mut [0; 4]).map(|()| reads));
        let writing = writer.spawn(move || writes.write_all(b"over").map(|()| writes));
        writes = writing.join().unwrap().unwrap();
        reads = reading.join().unwrap().unwrap();
        assert_eq!(reader.shutdown(Duration::from_secs(60)).left, 0);
        drop(writer);
        writes.write_all(b"thread").unwrap();
        reads.read_exact(&mut [0; 6]).unwrap();
        (one, other) = if round % 2 == 0 { (Some(writes), Some(reads)) } else { (Some(reads), Some(writes)) };
    }
}

/// Waits for `stream` in vain: then it is registered with the reactor of the running task.
fn register(stream: &TcpStream) {
    stream.set_read_timeout(Some(Duration::from_millis(1))).unwrap();
    assert_eq!((&*stream).read(&mut [0]).unwrap_err().kind(), ErrorKind::TimedOut);
    stream.set_read_timeout(None).unwrap();
}

/// A stream is read by a task of a runtime, and was registered before with the reactor of another by `register`.
fn a_byte_arrives_after<T>(register: impl FnOnce(Arc<TcpStream>) -> T) {
    let _watchdog = Watchdog::new("a reactor that nobody serves".to_owned());
    let (mut one, other) = tcp_pair().unwrap();
    let other = Arc::new(other);
    let _kept = register(other.clone());
    let runtime = Runtime::builder().workers(1).build().unwrap();
    let reads = runtime.spawn(move || {
        let mut byte = [0];
        (&*other).read_exact(&mut byte).map(|()| byte)
    });
    while runtime.dump().tasks.iter().all(|task| task.state != TaskState::Parked) {
        std::thread::yield_now();
    }
    one.write_all(&[7]).unwrap();
    assert_eq!(reads.join().unwrap().unwrap(), [7]);
}

/// Of a future that is polled by a thread, and waits at the reactor of a runtime that has ended, or is about to.
fn a_future_elsewhere_is_told(stream: &TcpStream) {
    let read = block_on(stream.read_async(&mut [0])).unwrap();
    assert_eq!(read.unwrap_err().kind(), ErrorKind::Unsupported);
}

#[test]
fn a_socket_outlives_a_runtime_that_its_own_task_has_shut_down() {
    a_byte_arrives_after(|stream| {
        let kept = stream.clone();
        let runtime = Runtime::builder().workers(1).build().unwrap();
        let (give, take) = std::sync::mpsc::channel::<Runtime>();
        let ends = runtime.spawn(move || {
            register(&stream);
            take.recv().unwrap().shutdown(Duration::ZERO).left
        });
        give.send(runtime).unwrap();
        assert_eq!(ends.join().unwrap(), 1, "itself");
        a_future_elsewhere_is_told(&kept);
    });
}

#[test]
fn a_socket_does_not_depend_on_a_runtime_that_does_not_run() {
    a_byte_arrives_after(|stream| {
        let runtime = Runtime::builder().build_current_thread().unwrap();
        runtime.run(move || register(&stream)).unwrap();
        runtime // it lives on, and its thread does something else
    });
}

#[test]
fn a_socket_outlives_a_runtime_that_was_given_up() {
    a_byte_arrives_after(|stream| {
        let kept = stream.clone();
        let runtime = Runtime::builder().build_current_thread().unwrap();
        runtime.run(move || register(&stream)).unwrap();
        runtime.spawn(|| shield(|| sleep(Duration::from_secs(1_000_000)))).detach();
        assert_eq!(runtime.shutdown(Duration::from_millis(1)).left, 1);
        a_future_elsewhere_is_told(&kept);
    });
}

#[test]
fn a_task_and_a_thread_read_from_one_connection() {
    let runtime = Runtime::builder().workers(2).build().unwrap();
    let (mut one, other) = tcp_pair().unwrap();
    let (by_task, by_thread) = (other.try_clone().unwrap(), other);
    let count = |stream: TcpStream| move || read_all(stream).map(|bytes| bytes.len());
    let (task, thread) = (runtime.spawn(count(by_task)), std::thread::spawn(count(by_thread)));
    one.write_all(&pattern(2_000_000, 0)).unwrap();
    drop(one);
    assert_eq!(task.join().unwrap().unwrap() + thread.join().unwrap().unwrap(), 2_000_000);
}

#[test]
fn a_descriptor_that_is_used_again_at_once_hears_nothing_of_the_one_before() {
    everywhere(|by| {
        let rounds = support::rounds(if cfg!(debug_assertions) { 200 } else { 1000 });
        let storms: Vec<_> = (0..4)
            .map(|seed| {
                by.start(move || {
                    for round in 0..rounds {
                        let (mut one, mut other) = tcp_pair()?;
                        let writer = (round % 3 != 0).then(|| {
                            by.start(move || one.write_all(&[seed; 100])) // closes with what was sent unread
                        });
                        let mut byte = [0; 1];
                        match writer {
                            Some(writer) => {
                                other.read_exact(&mut byte)?;
                                assert_eq!(byte, [seed]);
                                writer.join()?;
                            }
                            None => assert_eq!(other.read(&mut byte)?, 0),
                        }
                    }
                    Ok::<_, io::Error>(())
                })
            })
            .collect();
        storms.into_iter().try_for_each(sockets::Started::join)
    });
}

#[test]
fn whoever_has_enough_to_read_lets_others_run() {
    let runtime = Runtime::builder().workers(1).build().unwrap();
    let done = runtime.run(|| {
        let (mut one, mut other) = tcp_pair()?;
        one.write_all(&[1; 100_000])?;
        let another = spawn(|| ());
        let mut read = 0;
        while !another.is_finished() {
            assert!(read < 100_000, "it read everything, and nobody else ran");
            read += other.read(&mut [0; 10])?;
        }
        Ok::<_, io::Error>(())
    });
    done.unwrap().unwrap();
}

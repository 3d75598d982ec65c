//! hyper runs on our streams, timers and tasks.

use std::convert::Infallible;
use std::io::{self, BufRead, BufReader, Write};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use http_body_util::{BodyExt, Full};
use hyper::body::{Bytes, Incoming};
use hyper::rt::{Executor, Timer};
use hyper::service::service_fn;
use hyper::{Request, Response, server};
use sinew_io::net::compat::{HyperExecutor, HyperIo, HyperTimer};
use sinew_sched::{ManualClock, Runtime, now, spawn, spawn_future};

use crate::sockets::{in_tasks, pattern, read_all, run, tcp_pair};
use crate::support::with_runtime;

async fn echo(request: Request<Incoming>) -> Result<Response<Full<Bytes>>, hyper::Error> {
    Ok(Response::new(Full::new(request.into_body().collect().await?.to_bytes())))
}

/// The body of an answer that says how long it is.
fn read_answer(reader: &mut impl BufRead) -> io::Result<Vec<u8>> {
    let (mut line, mut length) = (String::new(), 0);
    reader.read_line(&mut line)?;
    assert_eq!(line, "HTTP/1.1 200 OK\r\n");
    while line != "\r\n" {
        if let Some(value) = line.strip_prefix("content-length: ") {
            length = value.trim().parse().unwrap();
        }
        line.clear();
        reader.read_line(&mut line)?;
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).map(|()| body)
}

#[test]
fn requests_with_bodies_of_all_sizes_are_answered_one_after_the_other() {
    in_tasks(|| {
        let (one, other) = tcp_pair()?;
        let served = spawn_future(async move {
            server::conn::http1::Builder::new().serve_connection(HyperIo(other), service_fn(echo)).await
        });
        let (reader, mut writer) = one.into_split();
        let mut reader = BufReader::new(reader);
        for length in [0, 1, 1_000, 100_000, 3_000_000] {
            let body = pattern(length, 1);
            let writing = spawn(move || {
                write!(writer, "POST / HTTP/1.1\r\nContent-Length: {length}\r\n\r\n")?;
                writer.write_all(&pattern(length, 1)).map(|()| writer)
            });
            assert!(read_answer(&mut reader)? == body);
            writer = writing.join().unwrap()?;
        }
        drop(writer);
        served.join().unwrap().map_err(io::Error::other)
    });
}

#[test]
fn a_head_that_does_not_come_in_time_ends_the_connection() {
    for workers in [1, 2, 8] {
        let clock = ManualClock::new();
        with_runtime(Runtime::builder().workers(workers).manual_clock(&clock), |runtime| {
            run(runtime, || {
                let (mut one, other) = tcp_pair()?;
                one.write_all(b"GET / HTTP/1.1\r\nHost: ")?; // and no more
                let limit = Duration::from_secs(3600);
                let begun = now();
                let served = spawn_future(async move {
                    let mut server = server::conn::http1::Builder::new();
                    server.timer(HyperTimer).header_read_timeout(limit);
                    server.serve_connection(HyperIo(other), service_fn(echo)).await
                });
                assert!(served.join().unwrap().unwrap_err().is_timeout());
                assert!(now() - begun >= limit);
                read_all(one).map(drop)
            });
        });
    }
}

#[test]
fn timers_ring_when_they_should_on_the_clock_of_the_runtime() {
    let clock = ManualClock::new();
    with_runtime(Runtime::builder().workers(2).manual_clock(&clock), |runtime| {
        run(runtime, || {
            let timers = spawn_future(async {
                let (start, timer) = (now(), HyperTimer);
                let until = timer.now() + Duration::from_secs(20);
                timer.sleep(Duration::from_secs(10)).await;
                assert!((10..11).contains(&(now() - start).as_secs()));
                timer.sleep_until(until).await;
                assert!((20..21).contains(&(now() - start).as_secs()));
                let mut sleep = timer.sleep(Duration::from_secs(1000));
                timer.reset(&mut sleep, timer.now() + Duration::from_secs(10));
                sleep.await;
                assert!((30..31).contains(&(now() - start).as_secs()));
                timer.sleep_until(until).await; // which has passed
            });
            timers.join().unwrap();
            Ok(())
        });
    });
}

#[test]
fn futures_that_hyper_wants_to_run_are_run() {
    in_tasks(|| {
        let (sender, mut receiver) = sinew_chan::chan::oneshot::channel();
        HyperExecutor.execute(async move { sender.send(7).unwrap() });
        assert_eq!(receiver.recv().unwrap(), 7);
        Ok(())
    });
}

#[test]
fn a_connection_that_is_dropped_closes_its_stream() {
    static ASKED: AtomicUsize = AtomicUsize::new(0);
    async fn never(_: Request<Incoming>) -> Result<Response<Full<Bytes>>, Infallible> {
        ASKED.fetch_add(1, Ordering::Release);
        std::future::pending().await
    }
    in_tasks(|| {
        let (mut one, other) = tcp_pair()?;
        let asked = ASKED.load(Ordering::Acquire);
        let served = spawn_future(async move {
            server::conn::http1::Builder::new().serve_connection(HyperIo(other), service_fn(never)).await
        });
        one.write_all(b"GET / HTTP/1.1\r\n\r\n")?;
        while ASKED.load(Ordering::Acquire) == asked {
            sinew_sched::yield_now();
        }
        served.cancel();
        assert!(served.join().unwrap_err().is_cancelled());
        assert_eq!(read_all(one)?, b"");
        Ok(())
    });
}

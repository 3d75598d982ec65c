//! Many connections to an echo, which end in all ways: whole, closed or reset in the middle, cancelled, killed, out of
//! time. Every byte says which connection and which place it is of, and is checked on both sides; what was read is never
//! more than what was written, and for those that end well it is the same. No descriptor is left, of the
//! whole process: so this is a program of its own.
#![cfg(not(any(loom, shuttle)))]

#[path = "support/sockets.rs"]
mod sockets;

use std::io::{self, ErrorKind, Read, Write};
use std::net::Shutdown;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use sinew_chan::sync::WaitGroup;
use sinew_io::net::{TcpListener, TcpStream};
use sinew_sched::{Runtime, spawn, spawn_future, timeout, yield_now};
use sinew_test_kit::runtimes as support;
use sockets::is_cancelled;
use support::{SEED, next, rounds, with_runtimes};

/// Code that is not optimised, or that valgrind runs, gets less to do.
const SLOW: bool = cfg!(any(debug_assertions, valgrind));

/// How many there are at once.
const WAVE: usize = 100;

/// A lot to say: both sides have to read while they write.
const LONG: u64 = if SLOW { 200_000 } else { 1_000_000 };

/// The number of the connection, and whether the server answers at once or at the end.
const HEAD: usize = 9;

/// The bytes of a connection that each side has read and written.
#[derive(Default)]
struct Book {
    client_wrote: AtomicU64,
    server_read: AtomicU64,
    server_wrote: AtomicU64,
    client_read: AtomicU64,
}

impl Book {
    fn counts(&self) -> [u64; 4] {
        [&self.client_wrote, &self.server_read, &self.server_wrote, &self.client_read]
            .map(|count| count.load(Ordering::Acquire))
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Way {
    /// Says something and hears it again, and so on to the end.
    Whole,
    /// Reads in small pieces while it writes a lot.
    Slow,
    /// Waits in vain for an answer, twice, before it ends what it says and gets it.
    Patient,
    /// Is closed with something unread.
    Closed,
    Reset,
    /// Is cancelled, or killed, wherever it is.
    Cancelled,
    Killed,
    /// Has a deadline around it.
    Late,
}

const WAYS: [Way; 8] =
    [Way::Whole, Way::Slow, Way::Patient, Way::Closed, Way::Reset, Way::Cancelled, Way::Killed, Way::Late];

impl Way {
    /// True if nothing is lost.
    fn ends_well(self) -> bool {
        matches!(self, Way::Whole | Way::Slow | Way::Patient)
    }
}

/// The byte of a connection at a place.
fn byte(id: u64, at: u64) -> u8 {
    (id.wrapping_mul(0x9e37_79b9) ^ at.wrapping_mul(0x85eb_ca6b) >> 7) as u8
}

fn bytes(id: u64, from: u64, length: u64) -> Vec<u8> {
    (from..from + length).map(|at| byte(id, at)).collect()
}

fn check(id: u64, from: u64, read: &[u8]) {
    let wrong = read.iter().zip(from..).find(|(found, at)| **found != byte(id, *at));
    assert!(wrong.is_none(), "connection {id}: a byte that is not its own, {wrong:?}");
}

/// One side of a connection, which counts.
struct Client {
    stream: TcpStream,
    id: u64,
    book: Arc<Book>,
}

impl Client {
    fn write(&self, length: u64) -> io::Result<()> {
        let from = self.book.client_wrote.load(Ordering::Relaxed);
        let bytes = bytes(self.id, from, length);
        let mut rest = &bytes[..];
        while !rest.is_empty() {
            let written = (&self.stream).write(rest)?;
            self.book.client_wrote.fetch_add(written as u64, Ordering::Release);
            rest = &rest[written..];
        }
        Ok(())
    }

    fn read(&self, at_most: usize) -> io::Result<usize> {
        let mut buffer = vec![0; at_most];
        let read = (&self.stream).read(&mut buffer)?;
        let from = self.book.client_read.fetch_add(read as u64, Ordering::Release);
        check(self.id, from, &buffer[..read]);
        Ok(read)
    }

    fn read_exact(&self, length: u64) -> io::Result<()> {
        let mut left = length as usize;
        while left > 0 {
            match self.read(left)? {
                0 => return Err(ErrorKind::UnexpectedEof.into()),
                read => left -= read,
            }
        }
        Ok(())
    }

    fn end(&self) -> io::Result<()> {
        self.stream.shutdown(Shutdown::Write)?;
        while self.read(1000)? > 0 {}
        Ok(())
    }

    fn talk(&self, seed: &mut u64) -> io::Result<()> {
        let length = next(seed) % 3000;
        self.write(length)?;
        self.read_exact(length)
    }

    fn talk_for_ever(&self, seed: &mut u64) -> io::Result<()> {
        loop {
            self.talk(seed)?;
        }
    }

    fn go(self, way: Way, mut seed: u64) -> io::Result<()> {
        let head = [&self.id.to_le_bytes()[..], &[u8::from(way == Way::Patient)]].concat();
        (&self.stream).write_all(&head)?;
        match way {
            Way::Whole => {
                for _ in 0..next(&mut seed) % 8 {
                    self.talk(&mut seed)?;
                }
                self.end()
            }
            Way::Slow => {
                let writer =
                    Client { stream: self.stream.try_clone()?, id: self.id, book: self.book.clone() };
                let writer = spawn(move || {
                    writer.write(LONG)?;
                    writer.stream.shutdown(Shutdown::Write)
                });
                for _ in 0..100 {
                    self.read(1 + next(&mut seed) as usize % 60)?;
                    yield_now();
                }
                while self.read(100_000)? > 0 {}
                writer.join().unwrap()
            }
            Way::Patient => {
                self.write(1 + next(&mut seed) % 5000)?;
                self.stream.set_read_timeout(Some(Duration::from_millis(1)))?;
                assert_eq!(self.read(10).unwrap_err().kind(), ErrorKind::TimedOut);
                self.stream.set_read_timeout(None)?;
                assert!(timeout(Duration::from_millis(1), || self.read(10)).is_err());
                self.end()
            }
            Way::Closed | Way::Reset => {
                self.write(1 + next(&mut seed) % 20_000)?;
                self.read(next(&mut seed) as usize % 100)?;
                let linger = (way == Way::Reset).then_some(Duration::ZERO);
                self.stream.set_linger(linger)
            }
            Way::Cancelled | Way::Killed => self.talk_for_ever(&mut seed),
            Way::Late => {
                let limit = Duration::from_micros(next(&mut seed) % 2000);
                match timeout(limit, || self.talk_for_ever(&mut seed)) {
                    Err(_) => Ok(()),
                    Ok(result) => result,
                }
            }
        }
    }
}

/// What a server knows of a connection once it has its head.
struct Echo {
    id: u64,
    at_end: bool,
    book: Arc<Book>,
    /// Read, and not yet written.
    owed: Vec<u8>,
    written: usize,
}

impl Echo {
    fn new(head: [u8; HEAD], books: &[Arc<Book>]) -> Echo {
        let id = u64::from_le_bytes(head[..8].try_into().unwrap());
        let book = books[id as usize].clone();
        Echo { id, at_end: head[8] == 1, book, owed: Vec::new(), written: 0 }
    }

    fn read(&mut self, read: &[u8]) {
        let from = self.book.server_read.fetch_add(read.len() as u64, Ordering::Release);
        check(self.id, from, read);
        self.owed.extend_from_slice(read);
    }

    /// What is to be written now.
    fn due(&self, ended: bool) -> &[u8] {
        if self.at_end && !ended { &[] } else { &self.owed[self.written..] }
    }

    fn wrote(&mut self, written: usize) {
        self.book.server_wrote.fetch_add(written as u64, Ordering::Release);
        self.written += written;
        if self.written == self.owed.len() {
            self.owed.clear();
            self.written = 0;
        }
    }
}

fn serve(stream: &TcpStream, books: &[Arc<Book>]) -> io::Result<()> {
    let (mut stream, mut head, mut buffer) = (stream, [0; HEAD], [0; 10_000]);
    stream.read_exact(&mut head)?;
    let mut echo = Echo::new(head, books);
    loop {
        let read = stream.read(&mut buffer)?;
        echo.read(&buffer[..read]);
        while let due @ [_, ..] = echo.due(read == 0) {
            let written = stream.write(due)?;
            echo.wrote(written);
        }
        if read == 0 {
            return Ok(());
        }
    }
}

async fn serve_async(stream: &TcpStream, books: &[Arc<Book>]) -> io::Result<()> {
    let (mut head, mut filled, mut buffer) = ([0; HEAD], 0, [0; 10_000]);
    while filled < HEAD {
        match stream.read_async(&mut head[filled..]).await? {
            0 => return Err(ErrorKind::UnexpectedEof.into()),
            read => filled += read,
        }
    }
    let mut echo = Echo::new(head, books);
    loop {
        let read = stream.read_async(&mut buffer).await?;
        echo.read(&buffer[..read]);
        while let due @ [_, ..] = echo.due(read == 0) {
            let written = stream.write_async(due).await?;
            echo.wrote(written);
        }
        if read == 0 {
            return Ok(());
        }
    }
}

/// Accepts so many connections, and serves each by a task that blocks or by a future.
fn accept(listener: &TcpListener, books: &Arc<Vec<Arc<Book>>>, served: &Arc<WaitGroup>) -> io::Result<()> {
    for at in 0..books.len() {
        let (stream, _) = listener.accept()?;
        let (books, member) = (books.clone(), served.add());
        // How a connection fails is its client's doing; what counts is in the books.
        if at % 2 == 0 {
            spawn(move || {
                let _ = serve(&stream, &books);
                drop(stream);
                drop(member);
            })
            .detach();
        } else {
            spawn_future(async move {
                let _ = serve_async(&stream, &books).await;
                drop(stream);
                drop(member);
            })
            .detach();
        }
    }
    Ok(())
}

fn stress(connections: usize, mut seed: u64) -> io::Result<[usize; WAYS.len()]> {
    let books: Arc<Vec<Arc<Book>>> = Arc::new((0..connections).map(|_| Arc::default()).collect());
    let served = Arc::new(WaitGroup::new());
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let address = listener.local_addr()?;
    let acceptor = {
        let (books, served) = (books.clone(), served.clone());
        spawn(move || accept(&listener, &books, &served))
    };
    let mut ways = Vec::new();
    for wave in (0..connections).collect::<Vec<_>>().chunks(WAVE) {
        let mut clients = Vec::new();
        for id in wave {
            let way = WAYS[next(&mut seed) as usize % WAYS.len()];
            let client =
                Client { stream: TcpStream::connect(address)?, id: *id as u64, book: books[*id].clone() };
            let own = next(&mut seed) | 1;
            clients.push((way, spawn(move || client.go(way, own))));
            ways.push(way);
        }
        for (way, client) in clients {
            for _ in 0..next(&mut seed) % 4 {
                yield_now();
            }
            match way {
                Way::Cancelled => client.cancel(),
                Way::Killed => client.kill(),
                _ => (),
            }
            match (way, client.join()) {
                (Way::Cancelled, Ok(result)) => assert!(is_cancelled(&result.unwrap_err())),
                (Way::Killed, result) => assert!(result.unwrap_err().is_cancelled()),
                (_, result) => result.unwrap()?,
            }
        }
    }
    acceptor.join().unwrap()?;
    served.wait().map_err(io::Error::other)?;
    let mut counts = [0; WAYS.len()];
    for ((id, book), way) in books.iter().enumerate().zip(ways) {
        let [client_wrote, server_read, server_wrote, client_read] = book.counts();
        let in_order =
            client_wrote >= server_read && server_read >= server_wrote && server_wrote >= client_read;
        assert!(in_order, "connection {id}, {way:?}: {:?}", book.counts());
        if way.ends_well() {
            assert_eq!(client_wrote, client_read, "connection {id}, {way:?}: {:?}", book.counts());
        }
        counts[way as usize] += 1;
    }
    Ok(counts)
}

fn open_descriptors() -> usize {
    std::fs::read_dir("/proc/self/fd").unwrap().count()
}

#[test]
fn ten_thousand_connections_that_end_in_all_ways_lose_no_byte_and_no_descriptor() {
    // Each of six runtimes has a share.
    let connections = rounds(if SLOW { 200 } else { 1700 });
    let number = AtomicUsize::new(0);
    drop(Runtime::new().run(|| TcpListener::bind("127.0.0.1:0")).unwrap().unwrap());
    with_runtimes(|runtime| {
        let seed = SEED.rotate_left(number.fetch_add(7, Ordering::Relaxed) as u32);
        run_once(runtime, 10, seed); // so that what is made once, such as the reactor, is there
        let before = open_descriptors();
        let counts = run_once(runtime, connections, seed);
        assert!(connections < 100 || counts.iter().all(|count| *count > 0), "{counts:?}");
        assert_eq!(open_descriptors(), before);
    });
}

fn run_once(runtime: &Runtime, connections: usize, seed: u64) -> [usize; WAYS.len()] {
    runtime.run(move || stress(connections, seed)).unwrap().unwrap()
}

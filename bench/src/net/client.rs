//! The client of all servers: one thread over the system's own readiness, or a few that block. It prints what it
//! measured, in nanoseconds.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use mio::{Events, Interest, Poll, Token};

const MESSAGE: usize = 64;

/// How many threads make connections.
const CONNECTORS: u64 = 4;

pub(super) fn run(shape: &str, address: &str, numbers: &[&str]) -> io::Result<()> {
    super::raise_limit();
    let invalid = |what| io::Error::new(io::ErrorKind::InvalidInput, what);
    let address = address.parse().map_err(|_| invalid("no address"))?;
    let numbers: Vec<u64> = numbers.iter().filter_map(|number| number.parse().ok()).collect();
    match (shape, &numbers[..]) {
        ("echo", [connections, rounds]) => println!("{}", echo(address, *connections, *rounds)?.as_nanos()),
        ("accept", [connections]) => println!("{}", accept(address, *connections)?.as_nanos()),
        ("idle", [connections]) => idle(address, *connections)?,
        _ => return Err(invalid("no such client")),
    }
    Ok(())
}

/// Sends a message on each connection, and the next one when it came back; so many in all.
fn echo(address: SocketAddr, connections: u64, rounds: u64) -> io::Result<Duration> {
    let mut poll = Poll::new()?;
    let mut streams = Vec::new();
    for at in 0..connections {
        let mut stream = connect(address)?;
        stream.write_all(&[1])?; // the server has accepted it when this is back
        stream.read_exact(&mut [0; 1])?;
        stream.set_nonblocking(true)?;
        let mut stream = mio::net::TcpStream::from_std(stream);
        poll.registry().register(&mut stream, Token(at as usize), Interest::READABLE)?;
        streams.push((stream, 0));
    }
    let (mut begun, mut done) = (connections.min(rounds), 0);
    let start = Instant::now();
    for (stream, _) in streams.iter_mut().take(begun as usize) {
        stream.write_all(&[7; MESSAGE])?;
    }
    let mut events = Events::with_capacity(1024);
    while done < rounds {
        poll.poll(&mut events, None)?;
        for event in &events {
            let (stream, received) = &mut streams[event.token().0];
            loop {
                match stream.read(&mut [0; MESSAGE]) {
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                    Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                    read => *received += read?,
                }
                if *received == MESSAGE {
                    (*received, done) = (0, done + 1);
                    if begun < rounds {
                        begun += 1;
                        stream.write_all(&[7; MESSAGE])?;
                    }
                    break; // the next answer is another event
                }
            }
        }
    }
    Ok(start.elapsed())
}

/// Makes so many connections, and waits for the byte of each.
fn accept(address: SocketAddr, connections: u64) -> io::Result<Duration> {
    let start = Instant::now();
    let threads: Vec<_> = (0..CONNECTORS)
        .map(|thread| {
            let share = connections / CONNECTORS + u64::from(thread < connections % CONNECTORS);
            std::thread::spawn(move || {
                for _ in 0..share {
                    let stream = connect(address)?;
                    (&stream).read_exact(&mut [0; 1])?;
                    // The server closes first, and keeps the memory of it; otherwise our ports would be used up.
                    while (&stream).read(&mut [0; 1])? > 0 {}
                }
                io::Result::Ok(())
            })
        })
        .collect();
    for thread in threads {
        thread.join().expect("a client does not panic")?;
    }
    Ok(start.elapsed())
}

/// Makes so many connections, each of which the server has read from, and keeps them until there is no more input.
fn idle(address: SocketAddr, connections: u64) -> io::Result<()> {
    let mut streams = Vec::new();
    for _ in 0..connections {
        let mut stream = connect(address)?;
        stream.write_all(&[1])?;
        stream.read_exact(&mut [0; 1])?;
        streams.push(stream);
    }
    println!("{connections}");
    io::copy(&mut io::stdin(), &mut io::sink()).map(drop)
}

fn connect(address: SocketAddr) -> io::Result<TcpStream> {
    let stream = TcpStream::connect(address)?;
    stream.set_nodelay(true)?;
    Ok(stream)
}

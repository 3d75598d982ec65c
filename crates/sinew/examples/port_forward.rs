//! Forwards connections to another address, both ways, with time limits for connecting, for silence
//! and for the whole connection.
//!
//! `cargo run -p sinew --example port_forward -- 127.0.0.1:8080 example.org:80` serves until it is killed;
//! without addresses it hands a few connections on to servers of its own, and ends.

use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr};
use std::time::Duration;

use sinew::net::{TcpListener, TcpStream};
use sinew::task::{Runtime, scope, spawn};
use sinew::time::timeout;

#[derive(Clone, Copy)]
struct Limits {
    connect: Duration,
    silent: Duration,
    whole: Duration,
}

const LIMITS: Limits = Limits {
    connect: Duration::from_secs(5),
    silent: Duration::from_secs(300),
    whole: Duration::from_secs(24 * 3600),
};

fn forward(listener: &TcpListener, target: &str, limits: Limits) -> io::Result<()> {
    for stream in listener.incoming() {
        let (stream, target) = (stream?, target.to_owned());
        spawn(move || {
            let result = timeout(limits.whole, || connect_through(&stream, &target, limits));
            match result {
                Ok(Ok((up, down))) => println!("{up} bytes there, {down} back"),
                Ok(Err(error)) => println!("gave up: {error}"),
                Err(elapsed) => println!("gave up: {elapsed}"),
            }
        })
        .detach();
    }
    Ok(())
}

/// Copies both ways at once. The end of one direction is handed on, and the other goes on.
fn connect_through(stream: &TcpStream, target: &str, limits: Limits) -> io::Result<(u64, u64)> {
    let other =
        timeout(limits.connect, || TcpStream::connect(target)).map_err(|_| io::ErrorKind::TimedOut)??;
    stream.set_read_timeout(Some(limits.silent))?;
    other.set_read_timeout(Some(limits.silent))?;
    let copied = scope(|scope| {
        let up = scope.spawn(|| copy(stream, &other));
        let down = copy(&other, stream);
        (up.join(), down)
    });
    let (up, down) = copied.map_err(|error| io::Error::other(error.to_string()))?;
    Ok((up.map_err(|raised| io::Error::other(raised.to_string()))??, down?))
}

fn copy(mut from: &TcpStream, mut to: &TcpStream) -> io::Result<u64> {
    let copied = io::copy(&mut from, &mut to);
    // Also after an error, so that the other direction does not wait for an answer to what never came.
    let _ = to.shutdown(Shutdown::Write);
    if copied.is_err() {
        let _ = from.shutdown(Shutdown::Read);
    }
    copied
}

/// Answers in capital letters.
fn shout(listener: &TcpListener) -> io::Result<()> {
    for stream in listener.incoming() {
        let mut stream = stream?;
        let mut text = String::new();
        stream.read_to_string(&mut text)?;
        stream.write_all(text.to_uppercase().as_bytes())?;
    }
    Ok(())
}

/// Sends `text` through a forwarder to `target`, and returns the answer.
fn ask(target: SocketAddr, limits: Limits, text: &str) -> io::Result<String> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let mut stream = TcpStream::connect(listener.local_addr()?)?;
    let forwarder = spawn(move || forward(&listener, &target.to_string(), limits));
    stream.write_all(text.as_bytes())?;
    stream.shutdown(Shutdown::Write)?;
    let mut answer = String::new();
    let read = stream.read_to_string(&mut answer);
    forwarder.cancel();
    let _ = forwarder.join(); // its `accept` has ended with an error
    read.map(|_| answer)
}

fn demo() -> io::Result<()> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let target = listener.local_addr()?;
    let server = spawn(move || shout(&listener));
    println!("a server that answers: {:?}", ask(target, LIMITS, "through")?);
    server.cancel();
    let _ = server.join();

    // The server is gone: the connection is closed, or reset if the text was not read.
    println!("no server any more: {:?}", ask(target, LIMITS, "anybody?").unwrap_or_default());

    let silent = TcpListener::bind("127.0.0.1:0")?; // accepts nothing, so nothing is answered
    let limits = Limits { silent: Duration::from_millis(20), ..LIMITS };
    println!("a server that is silent for too long: {:?}", ask(silent.local_addr()?, limits, "hello?")?);
    Ok(())
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let ended = Runtime::new().run(move || match &arguments[..] {
        [] => demo(),
        [from, to] => forward(&TcpListener::bind(from)?, to, LIMITS),
        _ => Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            "give two addresses: where to listen, and where to",
        )),
    });
    if let Err(error) = ended.expect("a server does not panic") {
        eprintln!("{error}");
        std::process::exit(1);
    }
}

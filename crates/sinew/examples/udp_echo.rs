//! A server that echoes datagrams, and a client that asks again if an answer is lost.
//!
//! `cargo run -p sinew --example udp_echo -- 127.0.0.1:7000` serves until it is killed; without an
//! address a client asks a few times, and it ends.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use sinew::net::UdpSocket;
use sinew::task::{Runtime, spawn};

/// Time that a client waits for an answer before it asks again, and the number of its tries.
const PATIENCE: Duration = Duration::from_millis(50);
const TRIES: u32 = 20;

/// Every `lost`-th datagram is lost, as in a bad network.
fn echo(socket: &UdpSocket, lost: Option<usize>) -> io::Result<()> {
    let mut buffer = [0; 65_536];
    for number in 0.. {
        let (length, from) = socket.recv_from(&mut buffer)?;
        if lost.is_none_or(|lost| number % lost != 0) {
            socket.send_to(&buffer[..length], from)?;
        }
    }
    Ok(())
}

fn ask(server: SocketAddr, question: &str) -> io::Result<(String, u32)> {
    let socket = UdpSocket::bind("127.0.0.1:0")?;
    socket.connect(server)?;
    socket.set_read_timeout(Some(PATIENCE))?;
    let mut buffer = [0; 1500];
    for tries in 1..=TRIES {
        socket.send(question.as_bytes())?;
        match socket.recv(&mut buffer) {
            Err(error) if error.kind() == io::ErrorKind::TimedOut => (),
            length => return Ok((String::from_utf8_lossy(&buffer[..length?]).into_owned(), tries)),
        }
    }
    Err(io::ErrorKind::TimedOut.into())
}

fn main() {
    let address = std::env::args().nth(1);
    let ended = Runtime::new().run(move || {
        let socket = UdpSocket::bind(address.as_deref().unwrap_or("127.0.0.1:0"))?;
        let server = socket.local_addr()?;
        println!("an echo at {server}");
        if address.is_some() {
            return echo(&socket, None);
        }
        println!("every other datagram is lost on purpose, the first one too");
        let echoing = spawn(move || echo(&socket, Some(2)));
        for question in ["one", "two", "three"] {
            let (answer, tries) = ask(server, question)?;
            assert_eq!(answer, question);
            println!("{question:?} came back at try {tries}");
        }
        echoing.cancel();
        let _ = echoing.join(); // its `recv_from` has ended with an error
        Ok(())
    });
    if let Err(error) = ended.expect("a server does not panic") {
        eprintln!("{error}");
        std::process::exit(1);
    }
}

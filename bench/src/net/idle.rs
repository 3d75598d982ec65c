//! What an idle connection weighs, in a process of its own for each server: memory that one has given back would
//! serve the next.

use std::io;
use std::process::Command;
use std::time::Duration;

use super::servers::{Server, Work};
use super::{Client, raise_limit};
use crate::measure::{occupied_bytes, report};
use crate::{Bench, Number};

pub(super) const CONNECTIONS: Number = Number { name: "connections", default: 10_000, small: 100 };

pub(super) fn compare(bench: &Bench, connections: u64, servers: &[Server]) {
    for server in servers {
        let (name, program) = match server {
            Server::Sinew => ("thunks", "sinew"),
            Server::SinewFuture => ("futures", "sinew"),
            Server::Tokio => ("tokio", "tokio"),
        };
        let this = std::env::current_exe().expect("the program knows where it is");
        let output = Command::new(this)
            .args(["idle-server", name, &connections.to_string()])
            .output()
            .expect("a process can be started");
        let text = String::from_utf8_lossy(&output.stdout);
        let bytes = text.trim().parse();
        let bytes = bytes.unwrap_or_else(|_| panic!("{}", String::from_utf8_lossy(&output.stderr)));
        report(program, bench, bytes);
    }
}

/// Serves until all connections are idle, and prints what each has added to the process.
pub(super) fn serve(server: &str, connections: &str) -> io::Result<()> {
    raise_limit();
    let invalid = |what| io::Error::new(io::ErrorKind::InvalidInput, what);
    let server = match server {
        "thunks" => Server::Sinew,
        "futures" => Server::SinewFuture,
        "tokio" => Server::Tokio,
        _ => return Err(invalid("no such server")),
    };
    let connections: u64 = connections.parse().map_err(|_| invalid("no number"))?;
    let running = server.start(Work::Echo);
    let before = occupied_bytes();
    let mut client = Client::start("idle", running.address, &[connections]);
    assert_eq!(client.line(), connections);
    std::thread::sleep(Duration::from_millis(10)); // the last one is about to wait
    let after = occupied_bytes();
    println!("{:.0}", after.saturating_sub(before) as f64 / connections as f64);
    drop(client);
    Ok(())
}

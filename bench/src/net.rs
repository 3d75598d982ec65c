//! Sockets: what a round trip, a connection and an idle connection cost, beside tokio's; and a server for HTTP.
//!
//! The client is this program once more, in a process of its own (`client.rs`), and the same for all.

mod client;
mod http;
mod idle;
mod servers;

use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::Duration;

use crate::measure::{AnySide, compare_as, compare_rates};
use crate::{Bench, Number};
use servers::{Server, Work};

/// The workers of sinew and of tokio.
const WORKERS: usize = 2;

pub(crate) const BENCHES: [Bench; 4] = [
    Bench {
        name: "tcp_echo",
        about: "round trips of 64 bytes on so many connections, each of which waits for its answer",
        metric: "ns_per_round",
        numbers: &[
            Number { name: "connections", default: 64, small: 4 },
            Number { name: "rounds", default: 1_000_000, small: 2_000 },
        ],
        run: |bench, numbers| {
            let connections = numbers[0];
            let sides = [Server::Sinew, Server::SinewFuture, Server::Tokio]
                .map(|server| move |rounds: u64| client_time(server, "echo", &[connections, rounds]));
            let sides: Vec<AnySide> =
                NAMES.into_iter().zip(&sides).map(|(name, side)| (name, side as _)).collect();
            compare_as(bench.name, bench.metric, numbers[1], &sides);
        },
    },
    Bench {
        name: "tcp_accept",
        about: "connections that are made, answered with one byte and closed, four at a time",
        metric: "connections_per_s",
        numbers: &[Number { name: "connections", default: 100_000, small: 200 }],
        run: |bench, numbers| {
            let sides = [Server::Sinew, Server::SinewFuture, Server::Tokio]
                .map(|server| move |connections: u64| client_time(server, "accept", &[connections]));
            let sides: Vec<AnySide> =
                NAMES.into_iter().zip(&sides).map(|(name, side)| (name, side as _)).collect();
            compare_rates(bench.name, bench.metric, numbers[0], &sides);
        },
    },
    Bench {
        name: "tcp_idle",
        about: "memory of so many connections that wait for something to read, each with a task that blocks",
        metric: "rss_bytes_each",
        numbers: &[idle::CONNECTIONS],
        run: |bench, numbers| idle::compare(bench, numbers[0], &[Server::Sinew, Server::Tokio]),
    },
    Bench {
        name: "tcp_idle_future",
        about: "the same, each with a future",
        metric: "rss_bytes_each",
        numbers: &[idle::CONNECTIONS],
        run: |bench, numbers| idle::compare(bench, numbers[0], &[Server::SinewFuture, Server::Tokio]),
    },
];

/// Futures on sinew are a figure beside sinew's own, which is about tasks that block.
const NAMES: [&str; 3] = ["sinew", "sinew_future", "tokio"];

/// What is no shape: a server for somebody else's client, and the other processes of the shapes. None if `arguments` do
/// not ask for such a thing.
pub(crate) fn run_other(arguments: &[String]) -> Option<Result<(), String>> {
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let result = match arguments[..] {
        ["http", address] => http::serve(address),
        ["client", shape, address, ref numbers @ ..] => client::run(shape, address, numbers),
        ["idle-server", server, connections] => idle::serve(server, connections),
        _ => return None,
    };
    Some(result.map_err(|error| format!("{}: {error}", arguments.join(" "))))
}

/// This program once more, as a client. What it prints is read from it; it is waited for when it is dropped.
struct Client {
    child: Child,
    output: BufReader<ChildStdout>,
}

impl Client {
    fn start(shape: &str, address: SocketAddr, numbers: &[u64]) -> Client {
        let program = std::env::current_exe().expect("the program knows where it is");
        let mut command = Command::new(program);
        command.args(["client", shape, &address.to_string()]).args(numbers.iter().map(u64::to_string));
        let mut child =
            command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("a process can be started");
        let output = BufReader::new(child.stdout.take().expect("it was asked for"));
        Client { child, output }
    }

    /// The next line that it prints: a number.
    fn line(&mut self) -> u64 {
        let mut line = String::new();
        self.output.read_line(&mut line).expect("the client prints text");
        line.trim().parse().unwrap_or_else(|_| panic!("the client has failed, and printed {line:?}"))
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        drop(self.child.stdin.take()); // which one that is idle waits for
        let _ = self.child.wait();
    }
}

/// The time that a client needs with a server, by its own clock.
fn client_time(server: Server, shape: &str, numbers: &[u64]) -> Duration {
    let running = server.start(if shape == "accept" { Work::Answer } else { Work::Echo });
    Duration::from_nanos(Client::start(shape, running.address, numbers).line())
}

/// As many descriptors as the system allows.
fn raise_limit() {
    use nix::sys::resource::{Resource, getrlimit, setrlimit};
    if let Ok((_, hard)) = getrlimit(Resource::RLIMIT_NOFILE) {
        let _ = setrlimit(Resource::RLIMIT_NOFILE, hard, hard);
    }
}

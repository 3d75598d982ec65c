//! A client with a pool of connections: many tasks share a few, and a broken connection is replaced.
//!
//! `cargo run -p sinew --example connection_pool`

use std::io::{self, BufRead, BufReader, Write};
use std::net::SocketAddr;

use sinew::chan::{Pool, Pooled};
use sinew::net::{TcpListener, TcpStream};
use sinew::task::{Runtime, scope, spawn};

/// Connections that are open at the same time, at most.
const CONNECTIONS: usize = 3;

/// Requests, each by a task of its own.
const REQUESTS: u32 = 20;

/// A connection to the server, with its buffer.
struct Connection(BufReader<TcpStream>);

impl Connection {
    fn open(server: SocketAddr) -> io::Result<Connection> {
        TcpStream::connect(server).map(|stream| Connection(BufReader::new(stream)))
    }

    fn square(&mut self, number: u32) -> io::Result<u32> {
        self.0.get_mut().write_all(format!("{number}\n").as_bytes())?;
        let mut answer = String::new();
        self.0.read_line(&mut answer)?;
        answer.trim().parse().map_err(|_| io::ErrorKind::UnexpectedEof.into())
    }
}

/// Squares `number`, and tries again if the server has closed the connection.
fn square(pool: &Pool<Connection>, number: u32) -> io::Result<u32> {
    for _ in 0..=CONNECTIONS {
        let mut connection = pool.take().map_err(io::Error::other)?; // waits while all are in use
        match connection.square(number) {
            Ok(square) => return Ok(square),       // the connection goes back to the pool
            Err(_) => Pooled::discard(connection), // the pool may open another one
        }
    }
    Err(io::ErrorKind::NotConnected.into())
}

/// Answers each line with the square of its number. The first connections break at number 13.
fn serve(listener: &TcpListener) -> io::Result<()> {
    for (count, stream) in listener.incoming().enumerate() {
        let stream = stream?;
        spawn(move || {
            for line in BufReader::new(&stream).lines() {
                let number: u32 = line?.parse().map_err(io::Error::other)?;
                if number == 13 && count < CONNECTIONS {
                    break;
                }
                (&stream).write_all(format!("{}\n", number * number).as_bytes())?;
            }
            Ok::<_, io::Error>(())
        })
        .detach();
    }
    Ok(())
}

fn main() -> io::Result<()> {
    let runtime = Runtime::builder().workers(2).build()?;
    let sum = runtime.run(|| {
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let server = listener.local_addr()?;
        let serving = spawn(move || serve(&listener));

        let pool = Pool::try_builder(CONNECTIONS, move || Connection::open(server)).build();
        let squares = scope(|tasks| {
            let pool = &pool;
            let asked: Vec<_> = (1..=REQUESTS).map(|n| tasks.spawn(move || square(pool, n))).collect();
            asked.into_iter().map(|task| task.join().expect("it returns")).sum::<io::Result<u32>>()
        });
        println!(
            "{REQUESTS} requests used {} connections, {} of them broken",
            pool.created(),
            pool.created() - pool.len()
        );
        serving.cancel();
        let _ = serving.join(); // its `accept` has ended with an error
        squares.expect("the requests return")
    });
    let sum = sum.expect("the task returns")?;
    println!("the sum of the squares is {sum}");
    assert_eq!(sum, (1..=REQUESTS).map(|n| n * n).sum());
    Ok(())
}

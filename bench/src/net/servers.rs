//! The servers of the shapes: tasks that block, futures, and tokio's tasks, each one per connection.

use std::io::{Read, Write};
use std::net::SocketAddr;
use std::time::Duration;

use sinew_io::net::TcpListener;
use sinew_sched::{Runtime, spawn, spawn_future};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::WORKERS;

const MESSAGE: usize = 64;

#[derive(Clone, Copy)]
pub(super) enum Server {
    Sinew,
    SinewFuture,
    Tokio,
}

/// What a server does with a connection.
#[derive(Clone, Copy)]
pub(super) enum Work {
    /// Sends back whatever comes.
    Echo,
    /// Sends one byte, and closes.
    Answer,
}

/// A server, until it is dropped.
pub(super) struct Running {
    pub(super) address: SocketAddr,
    _stops: Stops,
}

enum Stops {
    Sinew(Option<Runtime>),
    Tokio(Option<tokio::runtime::Runtime>),
}

impl Drop for Stops {
    fn drop(&mut self) {
        match self {
            Stops::Sinew(runtime) => {
                runtime.take().map(|runtime| runtime.shutdown(Duration::from_secs(60)));
            }
            Stops::Tokio(runtime) => {
                runtime.take().into_iter().for_each(|runtime| runtime.shutdown_background())
            }
        }
    }
}

impl Server {
    pub(super) fn start(self, work: Work) -> Running {
        match self {
            Server::Sinew => sinew(move |stream| spawn(move || thunk(stream, work)).detach()),
            Server::SinewFuture => sinew(move |stream| spawn_future(future(stream, work)).detach()),
            Server::Tokio => tokio_server(work),
        }
    }
}

fn sinew(serve: impl Fn(sinew_io::net::TcpStream) + Send + 'static) -> Running {
    let runtime = Runtime::builder().workers(WORKERS).build().expect("threads can be started");
    let listener = TcpListener::bind("127.0.0.1:0").expect("there is a free port");
    let address = listener.local_addr().expect("it listens somewhere");
    let accept = move || {
        for stream in listener.incoming() {
            let Ok(stream) = stream else { return };
            let _ = stream.set_nodelay(true);
            serve(stream);
        }
    };
    runtime.spawn(accept).detach();
    Running { address, _stops: Stops::Sinew(Some(runtime)) }
}

fn thunk(mut stream: sinew_io::net::TcpStream, work: Work) {
    match work {
        Work::Answer => drop(stream.write_all(b"!")),
        Work::Echo => {
            let mut message = [0; MESSAGE];
            while let Ok(read @ 1..) = stream.read(&mut message) {
                if stream.write_all(&message[..read]).is_err() {
                    return;
                }
            }
        }
    }
}

async fn future(stream: sinew_io::net::TcpStream, work: Work) {
    match work {
        Work::Answer => drop(stream.write_all_async(b"!").await),
        Work::Echo => {
            let mut message = [0; MESSAGE];
            while let Ok(read @ 1..) = stream.read_async(&mut message).await {
                if stream.write_all_async(&message[..read]).await.is_err() {
                    return;
                }
            }
        }
    }
}

fn tokio_server(work: Work) -> Running {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(WORKERS).enable_io().build();
    let runtime = runtime.expect("threads can be started");
    let listener =
        runtime.block_on(tokio::net::TcpListener::bind("127.0.0.1:0")).expect("there is a free port");
    let address = listener.local_addr().expect("it listens somewhere");
    runtime.spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let _ = stream.set_nodelay(true);
            tokio::spawn(tokio_task(stream, work));
        }
    });
    Running { address, _stops: Stops::Tokio(Some(runtime)) }
}

async fn tokio_task(mut stream: tokio::net::TcpStream, work: Work) {
    match work {
        Work::Answer => drop(stream.write_all(b"!").await),
        Work::Echo => {
            let mut message = [0; MESSAGE];
            while let Ok(read @ 1..) = stream.read(&mut message).await {
                if stream.write_all(&message[..read]).await.is_err() {
                    return;
                }
            }
        }
    }
}

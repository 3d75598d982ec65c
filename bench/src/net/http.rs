//! `sinew-bench http ADDR`: hyper over sinew, for a client of somebody else's, until SIGTERM or SIGINT. Then requests
//! that have begun are answered, and connections that are idle are closed.

use std::convert::Infallible;
use std::future::poll_fn;
use std::io;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response, header};
use nix::sys::signal::{SigSet, Signal};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use sinew_chan::chan::broadcast::{self, Slow};
use sinew_chan::sync::WaitGroup;
use sinew_io::fd::{self, Interest};
use sinew_io::net::compat::{HyperIo, HyperTimer};
use sinew_io::net::{TcpListener, TcpStream};
use sinew_sched::{Runtime, WaitError, spawn, spawn_future};

/// How long a client may take to send the head of a request.
const HEADER_TIMEOUT: Duration = Duration::from_secs(30);

/// How long requests that have begun may take when the server stops.
const GRACE: Duration = Duration::from_secs(10);

/// Looked at by every poll of a connection, which asks the channel only if it is set.
static STOPPING: AtomicBool = AtomicBool::new(false);

pub(super) fn serve(address: &str) -> io::Result<()> {
    super::raise_limit();
    let signals = signals()?; // before there are threads, which inherit what is blocked
    let runtime = Runtime::builder().workers(super::WORKERS).build()?;
    let address = address.to_owned();
    let served =
        runtime.run(move || serve_until(&address, || fd::wait(&signals, Interest::READ, None).map(drop)));
    served.map_err(|raised| io::Error::other(raised.to_string()))?
}

/// Where SIGTERM and SIGINT arrive, instead of ending the process.
fn signals() -> io::Result<SignalFd> {
    let mut signals = SigSet::empty();
    signals.add(Signal::SIGTERM);
    signals.add(Signal::SIGINT);
    signals.thread_block()?;
    Ok(SignalFd::with_flags(&signals, SfdFlags::SFD_NONBLOCK | SfdFlags::SFD_CLOEXEC)?)
}

fn serve_until(address: &str, stop: impl FnOnce() -> io::Result<()>) -> io::Result<()> {
    let listener = TcpListener::bind(address)?;
    let (stops, stopped) = broadcast::channel::<()>(1, Slow::Block);
    let connections = Arc::new(WaitGroup::new());
    let members = connections.clone();
    let acceptor = spawn(move || {
        for stream in listener.incoming() {
            let stream = stream?;
            stream.set_nodelay(true)?;
            let (member, stopped) = (members.add(), stopped.clone());
            let connection = async move {
                connection(stream, stopped).await;
                drop(member);
            };
            spawn_future(connection).detach();
        }
        Ok::<_, io::Error>(())
    });
    stop()?;
    acceptor.cancel();
    let _ = acceptor.join(); // it was cancelled
    STOPPING.store(true, Ordering::Release);
    stops.close();
    match connections.wait_timeout(GRACE) {
        Ok(()) | Err(WaitError::Timeout) => Ok(()),
        Err(error) => Err(io::Error::other(error)),
    }
}

async fn connection(stream: TcpStream, stopped: broadcast::Receiver<()>) {
    let mut server = http1::Builder::new();
    server.timer(HyperTimer).header_read_timeout(HEADER_TIMEOUT);
    let mut connection = pin!(server.serve_connection(HyperIo(stream), service_fn(hello)));
    let mut stop = pin!(stopped.recv_async());
    let (mut asked, mut stopping) = (false, false);
    let served = poll_fn(|context| {
        // Asked once, the channel wakes this task when it is closed.
        let look = !asked || STOPPING.load(Ordering::Acquire);
        asked = true;
        if look && !stopping && stop.as_mut().poll(context).is_ready() {
            stopping = true;
            connection.as_mut().graceful_shutdown();
        }
        connection.as_mut().poll(context)
    });
    let _ = served.await; // what a client does wrong is its own business
}

async fn hello(_: Request<Incoming>) -> Result<Response<Full<Bytes>>, Infallible> {
    let mut response = Response::new(Full::new(Bytes::from_static(b"Hello, World!")));
    let text = header::HeaderValue::from_static("text/plain; charset=utf-8");
    response.headers_mut().insert(header::CONTENT_TYPE, text);
    Ok(response)
}

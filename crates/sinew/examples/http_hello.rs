//! A web server: hyper on Sinew's streams and timers. Connections are futures; the code around them
//! is not.
//!
//! `cargo run -p sinew --example http_hello --features hyper -- 127.0.0.1:8080` serves until it is killed;
//! without an address it asks itself once, and ends.

use std::convert::Infallible;
use std::io::{self, Read, Write};
use std::time::Duration;

use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response};
use sinew::net::compat::{HyperIo, HyperTimer};
use sinew::net::{TcpListener, TcpStream};
use sinew::task::{Runtime, spawn, spawn_future};

async fn hello(request: Request<Incoming>) -> Result<Response<Full<Bytes>>, Infallible> {
    let text = format!("Hello, {}!\n", request.uri().path().trim_start_matches('/'));
    Ok(Response::new(Full::new(text.into())))
}

fn serve(listener: &TcpListener) -> io::Result<()> {
    let mut server = http1::Builder::new();
    server.timer(HyperTimer).header_read_timeout(Duration::from_secs(10));
    for stream in listener.incoming() {
        let connection = server.serve_connection(HyperIo(stream?), service_fn(hello));
        spawn_future(connection).detach(); // what a client does wrong ends its connection, and nothing else
    }
    Ok(())
}

fn ask(listener: &TcpListener) -> io::Result<String> {
    let mut stream = TcpStream::connect(listener.local_addr()?)?;
    stream.write_all(b"GET /sinew HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    Ok(answer)
}

fn main() {
    let address = std::env::args().nth(1);
    let ended = Runtime::new().run(move || {
        let listener = TcpListener::bind(address.as_deref().unwrap_or("127.0.0.1:0"))?;
        println!("http://{}/", listener.local_addr()?);
        if address.is_some() {
            return serve(&listener);
        }
        let clone = listener.try_clone()?;
        let server = spawn(move || serve(&clone));
        let answer = ask(&listener)?;
        println!("{answer}");
        assert!(answer.ends_with("Hello, sinew!\n"));
        server.cancel();
        let _ = server.join(); // its `accept` has ended with an error
        Ok(())
    });
    if let Err(error) = ended.expect("a server does not panic") {
        eprintln!("{error}");
        std::process::exit(1);
    }
}

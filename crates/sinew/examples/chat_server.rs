//! A chat over TCP: every guest hears every line. Each guest has two tasks in plain blocking code,
//! a reader and a writer.
//!
//! `cargo run -p sinew --example chat_server -- 127.0.0.1:7000` serves until it is killed (`nc 127.0.0.1 7000`
//! is a client); without an address two guests meet, and it ends.

use std::io::{self, BufRead, BufReader, Write};
use std::sync::Arc;
use std::time::Duration;

use sinew::chan::broadcast::{self, Slow};
use sinew::net::{TcpListener, TcpStream};
use sinew::task::{Runtime, spawn};

/// Lines by which a guest may be behind; a slower guest is cut off.
const BEHIND: usize = 100;

/// Time in which a guest has to accept a line.
const PATIENCE: Duration = Duration::from_secs(10);

type Room = broadcast::Sender<Arc<str>>;

fn serve(listener: &TcpListener) -> io::Result<()> {
    let (room, _) = broadcast::channel(BEHIND, Slow::Drop);
    let room = Arc::new(room);
    for stream in listener.incoming() {
        let (stream, room) = (stream?, room.clone());
        spawn(move || {
            if let Err(error) = welcome(stream, &room) {
                eprintln!("a guest is gone: {error}");
            }
        })
        .detach();
    }
    Ok(())
}

fn welcome(stream: TcpStream, room: &Room) -> io::Result<()> {
    stream.set_write_timeout(Some(PATIENCE))?;
    let (reader, mut writer) = stream.into_split();
    let mut lines = BufReader::new(reader).lines();
    writer.write_all(b"your name?\n")?;
    let Some(name) = lines.next().transpose()? else { return Ok(()) };

    let heard = room.subscribe();
    let talker = spawn(move || {
        for line in heard.iter() {
            writer.write_all(format!("{line}\n").as_bytes())?;
        }
        Ok::<_, io::Error>(()) // the writer is dropped, and the guest sees the end
    });
    say(room, format!("{name} is here"));
    for line in lines {
        say(room, format!("{name}: {}", line?));
    }
    talker.cancel();
    let _ = talker.join();
    say(room, format!("{name} has left"));
    Ok(())
}

fn say(room: &Room, line: String) {
    let _ = room.send(line.into()); // fails if no guest is there
}

/// A guest of the demo.
struct Guest {
    lines: io::Lines<BufReader<TcpStream>>,
    stream: TcpStream,
}

impl Guest {
    fn enter(listener: &TcpListener, name: &str) -> io::Result<Guest> {
        let stream = TcpStream::connect(listener.local_addr()?)?;
        let mut guest = Guest { lines: BufReader::new(stream.try_clone()?).lines(), stream };
        guest.hear()?;
        guest.say(name)?;
        guest.hear()?;
        Ok(guest)
    }

    fn say(&mut self, line: &str) -> io::Result<()> {
        self.stream.write_all(format!("{line}\n").as_bytes())
    }

    fn hear(&mut self) -> io::Result<String> {
        self.lines.next().unwrap_or_else(|| Err(io::ErrorKind::UnexpectedEof.into()))
    }
}

fn demo(listener: &TcpListener) -> io::Result<()> {
    let mut ann = Guest::enter(listener, "ann")?;
    let mut bob = Guest::enter(listener, "bob")?;
    assert_eq!(ann.hear()?, "bob is here");
    ann.say("hello, bob")?;
    assert_eq!(ann.hear()?, "ann: hello, bob");
    println!("bob hears {:?}", bob.hear()?);
    drop(ann);
    println!("bob hears {:?}", bob.hear()?);
    Ok(())
}

fn main() {
    let address = std::env::args().nth(1);
    let ended = Runtime::new().run(move || {
        let listener = TcpListener::bind(address.as_deref().unwrap_or("127.0.0.1:0"))?;
        println!("a chat at {}", listener.local_addr()?);
        if address.is_some() {
            return serve(&listener);
        }
        let clone = listener.try_clone()?;
        let server = spawn(move || serve(&clone));
        demo(&listener)?;
        server.cancel();
        let _ = server.join(); // its `accept` has ended with an error
        Ok(())
    });
    if let Err(error) = ended.expect("a server does not panic") {
        eprintln!("{error}");
        std::process::exit(1);
    }
}

//! A C program as a supervised actor: it answers, fails, and is restarted under its name.
//!
//! `guests/c/echo.c` is its source. It answers pings, and traps when it is told to.

use std::time::Duration;

use sinew_kernel::{ChildSpec, Flow, Kind, Lifecycle, Node, Strategy};
use sinew_wasm::{Engine, WasmChild};

const ECHO: &[u8] = include_bytes!("../../../guests/build/echo.wasm");

const PING: Kind = Kind(200);
const SLEEP: Kind = Kind(204);
const TRAP: Kind = Kind(203);

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let engine = Engine::new()?;
    let module = engine.module("echo", ECHO)?;
    println!("{} imports {}", module.name(), module.imports().collect::<Vec<_>>().join(", "));

    let node = Node::new();
    let lifecycle = node.lifecycle();
    let child = ChildSpec::wasm("echo", &module)?.name("echo");
    let supervisor = node.supervisor(Strategy::OneForOne).child(child).spawn()?;
    supervisor.wait_started()?;

    // A native actor talks to the guest, and prints what it answers.
    let (sender, answers) = std::sync::mpsc::channel();
    let client = node.actor().spawn_raw(sender, |answers, message, ctx| {
        if message.source.is_nobody() {
            let echo = ctx.node().lookup("echo").expect("it is supervised");
            ctx.send(echo, message.kind, message.payload.bytes()).expect("it lives");
        } else {
            let text = String::from_utf8_lossy(message.payload.bytes()).into_owned();
            answers.send(text).expect("main waits");
        }
        Flow::Continue
    })?;
    let ask = |kind: Kind, text: &str| node.send(client.id(), kind, text.as_bytes());

    ask(PING, "hello")?;
    println!("the guest answers {:?}", answers.recv()?);
    ask(SLEEP, "")?; // it blocks for 50 ms in the middle of its handler
    println!("the guest has {:?}", answers.recv()?);
    ask(TRAP, "")?;
    loop {
        match lifecycle.recv_timeout(Duration::from_secs(10))? {
            Lifecycle::Ended { name: Some(name), reason, .. } => println!("{name} ended: {reason:#}"),
            Lifecycle::Restarted { name: Some(name), .. } => {
                println!("{name} was restarted");
                break;
            }
            _ => (),
        }
    }
    ask(PING, "hello again")?;
    println!("the guest answers {:?}", answers.recv()?);
    Ok(())
}

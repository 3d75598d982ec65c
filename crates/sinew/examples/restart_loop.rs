//! A supervisor of tasks: restarts failed tasks, up to a limit, and answers a task that stops to ask.
//!
//! `cargo run -p sinew --example restart_loop`

use std::collections::HashMap;

use sinew::fiber::{Refused, Signal, yield_};
use sinew::task::{Events, Runtime, TaskId, task};

/// Restarts of a service before the supervisor gives it up.
const MOST_RESTARTS: u32 = 3;

/// A task that is to run until it returns.
struct Service {
    name: &'static str,
    body: fn(u32),
    restarts: u32,
}

impl Service {
    /// Starts the service, or restarts it. Its end is an event, so it need not be joined.
    fn start(&self, events: &Events) -> TaskId {
        let (body, restarts) = (self.body, self.restarts);
        let handle = task().name(self.name).supervisor(events).spawn(move || body(restarts));
        let id = handle.id();
        handle.detach();
        id
    }
}

/// Fails twice.
fn flaky(restarts: u32) {
    if restarts < 2 {
        panic!("no connection");
    }
}

/// Always fails.
fn hopeless(_: u32) {
    panic!("no such file");
}

/// Stops in the middle until its supervisor has told it what it needs to know.
fn asking(_: u32) {
    let answer = yield_("which port?").expect("there is a supervisor");
    let port: u16 = answer.downcast().expect("a port is a number");
    println!("asking: listens on {port}");
}

/// Runs `services` until each has returned or was given up; returns the names of the latter.
fn supervise(services: Vec<Service>) -> Result<Vec<&'static str>, Refused> {
    let events = Events::new();
    let mut given_up = Vec::new();
    let mut running: HashMap<TaskId, Service> =
        services.into_iter().map(|service| (service.start(&events), service)).collect();
    while !running.is_empty() {
        let event = events.recv()?;
        if event.is_stopped() {
            println!("{}: asks {:?}", running[&event.task].name, event.value);
            event.resume(8080u16);
            continue;
        }
        let mut service = running.remove(&event.task).expect("a task ends once");
        match event.signal {
            Signal::Ok => println!("{}: done after {} restarts", service.name, service.restarts),
            _ if service.restarts == MOST_RESTARTS => {
                println!("{}: given up: {:?}", service.name, event.value);
                given_up.push(service.name);
            }
            _ => {
                println!("{}: restarted: {:?}", service.name, event.value);
                service.restarts += 1;
                running.insert(service.start(&events), service);
            }
        }
    }
    Ok(given_up)
}

fn main() {
    let services: [(_, fn(u32)); 3] = [("flaky", flaky), ("hopeless", hopeless), ("asking", asking)];
    let services = services.map(|(name, body)| Service { name, body, restarts: 0 });

    let runtime = Runtime::builder().workers(2).build().expect("the system can start two threads");
    let given_up = runtime.run(move || supervise(Vec::from(services))).expect("the supervisor returns");
    assert_eq!(given_up.expect("nobody cancels the supervisor"), ["hopeless"]);
}

//! A pool of workers under a supervisor: a job that crashes its worker affects no other job, and a new
//! worker takes its place.
//!
//! `cargo run -p sinew --example worker_pool`

use std::time::Duration;

use sinew::actor::{Actor, AskError, ChildSpec, Ctx, Flow, Node, NodeRef, Reply, Strategy};
use sinew::task::spawn;

const WORKERS: u64 = 3;
const JOBS: u64 = 30;

/// Divides a thousand, and does not check by what.
struct Worker;

struct Job {
    divisor: u64,
    reply: Reply<u64>,
}

impl Actor for Worker {
    type Msg = Job;

    fn handle(&mut self, job: Job, _: &mut Ctx<Job>) -> Flow {
        job.reply.send(1_000 / job.divisor);
        Flow::Continue
    }
}

/// One job, by the worker that has this name now, or by the next one.
fn work(node: NodeRef, number: u64) -> Result<u64, AskError> {
    let worker = node.named::<Job>(&format!("worker {}", number % WORKERS));
    loop {
        match worker.ask(|reply| Job { divisor: number % 10, reply }) {
            // Another job crashed the worker before it began this one: try again. A job whose divisor
            // is zero crashes every worker.
            Err(AskError::Stopped(_)) if !number.is_multiple_of(10) => (),
            outcome => return outcome,
        }
    }
}

fn main() {
    std::panic::set_hook(Box::new(|_| ())); // the caller of `ask` learns of a crash
    let node = Node::builder().log_off().build().expect("the system can start threads");
    let pool = (0..WORKERS).fold(
        node.supervisor(Strategy::OneForOne).max_restarts(10, Duration::from_secs(1)),
        |pool, n| {
            let name = format!("worker {n}");
            pool.child(ChildSpec::new(name.clone(), || Worker).name(name))
        },
    );
    let pool = pool.spawn().expect("there is room");

    let this = *node;
    let ended = node.run(move || {
        let jobs = (0..JOBS).map(|number| spawn(move || (number, work(this, number))));
        let jobs: Vec<_> = jobs.collect();
        jobs.into_iter().map(|job| job.join().expect("it returns")).collect::<Vec<_>>()
    });
    let ended = ended.expect("it returns");

    for (number, error) in ended.iter().filter_map(|(number, end)| Some((number, end.as_ref().err()?))) {
        println!("job {number}: {error}");
    }
    let done = ended.iter().filter(|(_, end)| end.is_ok()).count();
    let counts = pool.count_children().expect("the supervisor is there");
    println!("{done} of {JOBS} jobs are done; {counts:?}");
    assert_eq!(done as u64, JOBS - JOBS / 10);
}

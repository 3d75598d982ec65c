//! A pool of workers under a supervisor: jobs that crash a worker cost that job and no other, and another worker takes its place.
//!
//! `cargo run -p sinew-kernel --example worker_pool`

use std::time::Duration;

use sinew_kernel::{Actor, AskError, ChildSpec, Ctx, Flow, Node, Reply, Restart, Strategy, SupervisorRef};
use sinew_sched::spawn;

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

/// One job, by the worker that has this place in the pool now.
fn work(pool: &SupervisorRef, number: u64) -> Result<u64, AskError> {
    let place = format!("worker {}", number % WORKERS);
    loop {
        let Ok(worker) = pool.child_ref::<Job>(&place) else { continue }; // it is about to be restarted
        match worker.ask(|reply| Job { divisor: number % 10, reply }) {
            // It ended because of another's job, before it began this one, unless this is one that no worker survives.
            Err(AskError::Stopped(_)) if !number.is_multiple_of(10) => (),
            outcome => return outcome,
        }
    }
}

fn main() {
    std::panic::set_hook(Box::new(|_| ())); // whoever asked is told of a crash
    let node = Node::builder().log_off().build().expect("the system can start threads");
    let pool = (0..WORKERS)
        .fold(node.supervisor(Strategy::OneForOne).max_restarts(10, Duration::from_secs(1)), |pool, n| {
            pool.child(ChildSpec::new(format!("worker {n}"), || Worker).restart(Restart::Permanent))
        });
    let pool = pool.start().expect("there is room");
    pool.wait_started().expect("the workers start at once");

    let ended = node.run({
        let pool = pool.clone();
        move || {
            let jobs = (0..JOBS).map(|number| {
                let pool = pool.clone();
                spawn(move || (number, work(&pool, number)))
            });
            let jobs: Vec<_> = jobs.collect();
            jobs.into_iter().map(|job| job.join().expect("it returns")).collect::<Vec<_>>()
        }
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

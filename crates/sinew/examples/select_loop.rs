//! One loop for all events of a task: jobs, a clock, the end of a helper, and cancellation.
//!
//! `cargo run -p sinew --example select_loop`

use std::time::Duration;

use sinew::chan::{self, Receiver, Sender};
use sinew::select;
use sinew::select::{cancelled, join, recv, until};
use sinew::task::{Runtime, spawn};
use sinew::time::{now, sleep};

const BEAT: Duration = Duration::from_millis(5);

/// Works until it is cancelled, and tells what it does.
fn serve(jobs: Receiver<u64>, log: &Sender<String>) {
    let say = |line: String| log.send(line).expect("somebody listens");
    let mut jobs = Some(jobs);
    let mut helper = Some(spawn(|| {
        sleep(Duration::from_millis(10));
        "the cache is warm"
    }));
    let mut next = now() + BEAT;
    let mut running = true;
    while running {
        select! {
            job = recv(jobs.as_ref()) => match job {
                Ok(job) => say(format!("job {job} is done: {}", job * job)),
                Err(error) => {
                    say(format!("no more jobs: {error}"));
                    jobs = None; // a channel that has ended is always ready: listen to it no longer
                }
            },
            outcome = join(&mut helper) => say(format!("helper: {}", outcome.expect("it returns"))),
            () = until(next) => {
                say("tick".to_owned());
                next += BEAT;
            }
            () = cancelled() => running = false,
        }
        .expect("to be cancelled is one of the cases");
    }
    let _ = log.try_send("cancelled".to_owned()); // which does not wait, as nothing may now
}

fn main() {
    let runtime = Runtime::builder().workers(2).build().expect("the system can start two threads");
    let ended = runtime.run(|| {
        let (jobs, received) = chan::bounded(2);
        let (log, lines) = chan::bounded(100);
        let server = spawn(move || serve(received, &log));
        jobs.send(3).expect("the server takes it");
        jobs.send(4).expect("the server takes it");
        drop(jobs);

        let mut awaited = vec!["job 3 is done: 9", "job 4 is done: 16", "no more jobs", "helper: ", "tick"];
        while !awaited.is_empty() {
            let line = lines.recv().expect("the server says all of it");
            println!("{line}");
            awaited.retain(|awaited| !line.starts_with(awaited));
        }
        server.cancel();
        server.join().expect("a cancelled task may still return");
        lines.iter().last()
    });
    assert_eq!(ended.expect("the task returns").as_deref(), Some("cancelled"));
    println!("cancelled");
}

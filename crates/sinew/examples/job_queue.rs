//! A queue of jobs in plain blocking code: each job is a task of its own, so a failed job affects no
//! other, and a slow job is killed.
//!
//! `cargo run -p sinew --example job_queue`

use std::sync::{Arc, Mutex};
use std::time::Duration;

use sinew::task::{Runtime, spawn};
use sinew::time::sleep;

/// Time limit of a job.
const LIMIT: Duration = Duration::from_millis(200);

/// A job that takes a number of milliseconds, and may fail.
struct Job {
    name: &'static str,
    milliseconds: u64,
    fails: bool,
}

fn work(job: &Job) -> usize {
    sleep(Duration::from_millis(job.milliseconds)); // the thread runs other tasks meanwhile
    if job.fails {
        panic!("{} is broken", job.name);
    }
    job.name.len()
}

fn main() {
    let jobs = [("parse", 3, false), ("compile", 8, true), ("link", 5, false), ("upload", 60_000, false)];
    let jobs = jobs.map(|(name, milliseconds, fails)| Job { name, milliseconds, fails });
    let queue = Arc::new(Mutex::new(Vec::from(jobs)));

    let runtime = Runtime::builder().workers(2).build().expect("the system can start two threads");
    let report = runtime.run(move || {
        let workers: Vec<_> = (1..=2)
            .map(|number| {
                let queue = queue.clone();
                spawn(move || {
                    let mut done = Vec::new();
                    // The lock is let go before the job blocks: a std lock must not be held across that.
                    while let Some(job) = { queue.lock().unwrap().pop() } {
                        let name = job.name;
                        // Each job is a task of its own, so its panic is only its own.
                        let task = spawn(move || work(&job));
                        let ended = task.join_timeout(LIMIT).unwrap_or_else(|task| {
                            task.kill();
                            task.join()
                        });
                        let outcome = match ended {
                            Ok(bytes) => format!("{bytes} bytes"),
                            Err(raised) if raised.is_cancelled() => "killed".to_owned(),
                            Err(raised) => raised.to_string(),
                        };
                        done.push(format!("worker {number}: {name}: {outcome}"));
                    }
                    done
                })
            })
            .collect();
        workers
            .into_iter()
            .flat_map(|worker| worker.join().expect("a worker survives its jobs"))
            .collect::<Vec<_>>()
    });
    let report = report.expect("the pool returns");
    report.iter().for_each(|line| println!("{line}"));
    assert_eq!(report.len(), 4);
    assert!(report.iter().any(|line| line.ends_with("upload: killed")));
    assert!(report.iter().any(|line| line.contains("compile is broken")));
    println!("left behind at shutdown: {}", runtime.shutdown(Duration::from_secs(1)).left);
}

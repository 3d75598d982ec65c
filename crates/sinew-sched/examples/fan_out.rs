//! One question to many at once, and a deadline: the children of a scope borrow the question and write their answers
//! into places of their own; those that are too slow are cancelled, and the other answers are kept.
//!
//! `cargo run -p sinew-sched --example fan_out`

use std::time::Duration;

use sinew_sched::{Elapsed, Runtime, scope, sleep, timeout};

/// How long the whole question may take.
const PATIENCE: Duration = Duration::from_millis(200);

/// Somebody who answers, sooner or later.
struct Replica {
    name: &'static str,
    takes: Duration,
}

impl Replica {
    fn ask(&self, question: &str) -> usize {
        sleep(self.takes); // unwinds at the deadline
        question.len()
    }
}

fn main() {
    let replicas = [("near", 1), ("busy", 20), ("far", 5), ("asleep", 60_000)];
    let replicas = replicas.map(|(name, ms)| Replica { name, takes: Duration::from_millis(ms) });

    let runtime = Runtime::builder().workers(2).build().expect("the system can start two threads");
    let answered = runtime.run(move || {
        let question = String::from("how long is this?");
        let mut answers = [None; 4];
        let asked = timeout(PATIENCE, || {
            scope(|scope| {
                for (replica, answer) in replicas.iter().zip(&mut answers) {
                    let question = &question;
                    // The handle is not needed: the scope waits for its children.
                    drop(scope.spawn(move || *answer = Some(replica.ask(question))));
                }
            })
        });
        // All children have ended, in time or not, and nobody borrows the answers any more.
        match asked {
            Ok(all) => all.expect("no replica fails"),
            Err(Elapsed) => println!("not everybody has answered within {PATIENCE:?}"),
        }
        for (replica, answer) in replicas.iter().zip(&answers) {
            match answer {
                Some(length) => println!("{}: {length}", replica.name),
                None => println!("{}: no answer", replica.name),
            }
        }
        answers.iter().flatten().count()
    });
    assert_eq!(answered.expect("the question was asked"), 3);
}

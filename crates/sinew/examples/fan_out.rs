//! One question to many replicas at once, with a timeout: the children of a scope borrow the question
//! and write their answers into separate slots. Slow children are cancelled, and the other answers
//! are kept.
//!
//! `cargo run -p sinew --example fan_out`

use std::time::Duration;

use sinew::task::{Runtime, scope};
use sinew::time::{Elapsed, sleep, timeout};

/// Time limit of the whole question.
const PATIENCE: Duration = Duration::from_millis(200);

/// A replica that answers after some time.
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
        // All children have ended, in time or not, so the answers are no longer borrowed.
        match asked {
            Ok(all) => all.expect("no replica fails"),
            Err(Elapsed) => println!("not all replicas have answered within {PATIENCE:?}"),
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

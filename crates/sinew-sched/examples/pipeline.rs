//! A pipeline in plain blocking code: lines are read, counted by several tasks at once, and added up.
//!
//! `cargo run -p sinew-sched --example pipeline`
//!
//! Each stage is a task with a channel on either side. The channels are short, so a slow stage slows those before it
//! instead of piling up what they make; a stage ends when the one before it has, and what went wrong goes along.

use std::collections::BTreeMap;

use sinew_sched::chan::{self, Receiver, RecvError, Sender};
use sinew_sched::{Runtime, scope};

const TEXT: &str = "the sea and the wind\nthe wind and the rain\nand the sea again\n!broken\nnever read";

struct Line {
    number: usize,
    text: &'static str,
}

struct Counted {
    number: usize,
    words: BTreeMap<&'static str, usize>,
}

/// Sends the lines of the text, and the reason if it has to stop.
fn read(lines: &Sender<Line>) {
    for (number, text) in TEXT.lines().enumerate() {
        if text.starts_with('!') {
            lines.close_err(format!("line {} cannot be read", number + 1));
            return;
        }
        if lines.send(Line { number, text }).is_err() {
            return; // nobody counts any more
        }
    }
}

/// Counts the words of lines until there are no more; returns why there are none.
fn count(lines: &Receiver<Line>, counted: &Sender<Counted>) -> RecvError {
    loop {
        let Line { number, text } = match lines.recv() {
            Ok(line) => line,
            Err(error) => return error,
        };
        let mut words = BTreeMap::new();
        text.split(' ').for_each(|word| *words.entry(word).or_default() += 1);
        counted.send(Counted { number, words }).expect("the last stage takes everything");
    }
}

fn main() {
    let runtime = Runtime::builder().workers(2).build().expect("the system can start two threads");
    let done = runtime.run(|| {
        let (line, lines) = chan::bounded(4);
        let (counts, counted) = chan::bounded(4);
        scope(|tasks| {
            tasks.spawn(move || read(&line));
            let counters = [(); 3].map(|()| {
                let (lines, counts) = (lines.clone(), counts.clone());
                tasks.spawn(move || count(&lines, &counts))
            });
            drop((lines, counts)); // the stages have ends of their own, and the last to go closes a channel

            let (mut total, mut numbers) = (BTreeMap::new(), Vec::new());
            for Counted { number, words } in counted {
                numbers.push(number + 1);
                words.into_iter().for_each(|(word, count)| *total.entry(word).or_insert(0) += count);
            }
            let errors = counters.map(|counter| counter.join().expect("it returns"));
            (total, numbers, errors)
        })
    });
    let (total, mut numbers, errors) = done.expect("the task returns").expect("no stage fails");

    numbers.sort_unstable(); // three tasks counted, in whatever order
    println!("lines {numbers:?}: {total:?}");
    println!("and then: {}", errors[0]);
    assert_eq!(numbers, [1, 2, 3]);
    assert_eq!((total["the"], total["wind"], total["again"]), (5, 2, 1));
    assert!(errors.iter().all(|error| matches!(error, RecvError::Failed(_))), "{errors:?}");
}

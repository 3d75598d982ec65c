//! A pipeline in plain blocking code: lines are read, counted by several tasks at once, and
//! reported in the order in which they were read.
//!
//! `cargo run -p sinew --example pipeline`
//!
//! Each stage is a task with a channel on either side. The channels are short, so a slow stage slows
//! down the stages before it. A stage ends when the stage before it has, and an error is passed on.

use std::collections::BTreeMap;
use std::time::Duration;

use sinew::chan::{self, Receiver, RecvError, Sender, ordered};
use sinew::task::{Runtime, scope};
use sinew::time::sleep;

const TEXT: &str = "the sea and the wind\nthe wind and the rain\nand the sea again\n!broken\nnever read";

/// Lines that are counted at the same time.
const PARALLEL: usize = 3;

struct Line {
    number: u64,
    text: &'static str,
}

type Words = BTreeMap<&'static str, usize>;

/// Sends the lines of the text. Closes the channel with an error at a line that cannot be read.
fn read(lines: &Sender<Line>) {
    for (number, text) in (1..).zip(TEXT.lines()) {
        if text.starts_with('!') {
            lines.close_err(format!("line {number} cannot be read"));
            return;
        }
        if lines.send(Line { number, text }).is_err() {
            return; // the receiver is gone
        }
    }
}

/// Counts each line in a task of its own. The channel holds the tasks in the order of the lines.
fn count_all(lines: &Receiver<Line>, counts: &ordered::Sender<(u64, Words)>) {
    let end = loop {
        match lines.recv() {
            Ok(line) => {
                if counts.spawn(move || count(&line)).is_err() {
                    return; // the receiver is gone
                }
            }
            Err(end) => break end,
        }
    };
    if let RecvError::Failed(error) = end {
        counts.close_err(error);
    }
}

/// Counts the words of a line. Early lines take longest here, to show that the order is kept.
fn count(line: &Line) -> (u64, Words) {
    sleep(Duration::from_millis(10).saturating_sub(Duration::from_millis(3 * line.number)));
    println!("line {} is counted", line.number);
    let mut words = Words::new();
    line.text.split(' ').for_each(|word| *words.entry(word).or_default() += 1);
    (line.number, words)
}

fn main() {
    let runtime = Runtime::builder().workers(2).build().expect("the system can start two threads");
    let done = runtime.run(|| {
        let (line, lines) = chan::bounded(4);
        let (counts, mut counted) = ordered::channel(PARALLEL);
        scope(|tasks| {
            tasks.spawn(move || read(&line));
            tasks.spawn(move || count_all(&lines, &counts));

            let (mut total, mut numbers) = (Words::new(), Vec::new());
            let end = loop {
                match counted.recv() {
                    Ok(ended) => {
                        let (number, words) = ended.expect("counting does not fail");
                        println!("line {number} is reported: {words:?}");
                        numbers.push(number);
                        words.into_iter().for_each(|(word, count)| *total.entry(word).or_default() += count);
                    }
                    Err(end) => break end,
                }
            };
            (total, numbers, end)
        })
    });
    let (total, numbers, end) = done.expect("the task returns").expect("no stage fails");

    println!("in total: {total:?}\nthen: {end}");
    assert_eq!(numbers, [1, 2, 3]);
    assert_eq!((total["the"], total["wind"], total["again"]), (5, 2, 1));
    assert!(matches!(end, RecvError::Failed(_)), "{end:?}");
}

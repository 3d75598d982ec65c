//! What whoever runs `sinew demo` sees.

use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::process::{Child, ChildStdout, Command, Output, Stdio};

/// A demo that runs and has printed its first line of counts, and what it prints after that.
fn running(seconds: &str) -> (Child, BufReader<ChildStdout>) {
    let mut child = Command::new(env!("CARGO_BIN_EXE_sinew"))
        .args(["demo", "--seconds", seconds])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut output = BufReader::new(child.stdout.take().unwrap());
    let mut line = String::new();
    while !line.contains(" sent = ") {
        line.clear();
        assert_ne!(output.read_line(&mut line).unwrap(), 0, "it has ended");
    }
    (child, output)
}

fn sinew(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_sinew")).args(arguments).output().unwrap()
}

/// What it says to arguments that it does not take.
fn refusal(arguments: &[&str]) -> String {
    let output = sinew(arguments);
    assert_eq!(output.status.code(), Some(2), "{arguments:?}: {output:?}");
    String::from_utf8(output.stderr).unwrap()
}

/// The numbers of `7 sent = 4 handled + 3 failed`.
fn numbers(text: &str) -> Vec<u64> {
    text.split_whitespace().filter_map(|word| word.parse().ok()).collect()
}

#[test]
fn the_demo_says_what_it_does_and_its_counts_add_up() {
    let output = sinew(&["demo", "--seconds", "2"]);
    assert!(output.status.success(), "{output:?}");
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.starts_with("Actors at work for 2 s"), "{text}");
    for name in ["root", "blocker", "flooded", "workers", "worker 1", "worker 2", "worker 3"] {
        assert!(text.lines().any(|line| line.trim_start().starts_with(name)), "{name} is not in:\n{text}");
    }
    let counts = text.lines().filter_map(|line| line.split_once(" s: ")?.1.split_once(';'));
    let (_, closed) = text.split_once("The books balance:").expect(&text);
    let sums: Vec<&str> = counts.map(|(sum, _)| sum).chain([closed]).collect();
    assert!(sums.len() > 1 && !sums[0].contains("about"), "no worker has crashed at its first jobs:\n{text}");
    for sum in sums.into_iter().filter(|sum| !sum.contains("about")) {
        let numbers = numbers(sum);
        assert!(numbers[0] > 0 && numbers[0] == numbers[1..].iter().sum::<u64>(), "{sum}\n{text}");
    }
}

#[test]
fn ctrl_c_ends_the_demo_early_with_its_books() {
    let (mut child, mut output) = running("60");
    assert!(Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap().success());
    let mut rest = String::new();
    output.read_to_string(&mut rest).unwrap();
    assert!(rest.contains("The books balance"), "{rest}");
    let seconds = rest.lines().filter(|line| line.contains(" sent = ")).count();
    assert!(seconds < 30, "it went on for {seconds} s");
    assert!(child.wait().unwrap().success());
}

#[test]
fn the_demo_ends_quietly_when_nobody_reads_it_any_more() {
    let (child, output) = running("60");
    drop(output);
    let ended = child.wait_with_output().unwrap();
    assert!(ended.status.success() && ended.stderr.is_empty(), "{ended:?}");
}

#[test]
fn the_demo_fails_with_its_own_exit_code_when_its_output_and_its_error_cannot_be_written() {
    let full = || File::options().write(true).open("/dev/full").unwrap();
    let mut demo = Command::new(env!("CARGO_BIN_EXE_sinew"));
    demo.args(["demo", "--seconds", "60"]).stdout(full());
    let output = demo.stderr(Stdio::piped()).output().unwrap();
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(said.starts_with("sinew: No space left on device"), "{said}");

    let (reader, unread) = std::io::pipe().unwrap();
    drop(reader);
    for stderr in [Stdio::from(full()), Stdio::from(unread)] {
        let status = demo.stderr(stderr).status().unwrap();
        assert_eq!(status.code(), Some(1), "{status}");
    }
}

#[test]
fn seconds_that_are_none_are_refused_with_what_to_give() {
    for seconds in ["abc", "0", "-5", "1.5", ""] {
        let said = refusal(&["demo", "--seconds", seconds]);
        assert!(said.contains("give whole seconds, at least 1, such as 5"), "{seconds}: {said}");
    }
}

#[test]
fn a_slip_in_a_command_or_option_is_answered_with_the_nearest() {
    for (arguments, nearest) in [(&["dem"][..], "'demo'"), (&["demo", "--second", "3"], "'--seconds'")] {
        let said = refusal(arguments);
        assert!(said.contains(nearest) && said.contains("--help"), "{arguments:?}: {said}");
    }
}

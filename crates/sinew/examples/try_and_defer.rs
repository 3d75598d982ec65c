//! Errors that are raised at depth and caught by a distant caller, with cleanup, and without `?` in
//! between.
//!
//! `cargo run -p sinew --example try_and_defer`

use std::cell::RefCell;

use sinew::fiber::{Panic, Raised, Value, defer, error, prompt, protect, return_to, try_, with};

/// An error value is any type that may be sent.
#[derive(Debug)]
struct Malformed {
    line: usize,
    text: String,
}

/// Raises an error instead of returning one: the callers between here and the catch need not know.
fn parse(line: usize, text: &str) -> i32 {
    match text.parse() {
        Ok(number) => number,
        Err(_) => error(Value::new(Malformed { line, text: text.to_owned() })),
    }
}

fn sum(text: &str) -> i32 {
    text.lines().enumerate().map(|(line, text)| parse(line + 1, text)).sum()
}

/// What to say about anything that may have been raised.
fn explain(raised: Raised) -> String {
    match raised.value.downcast::<Malformed>() {
        Ok(malformed) => format!("line {} is no number: {:?}", malformed.line, malformed.text),
        Err(other) => match other.value.downcast::<Panic>() {
            Ok(panic) => format!("a bug: {}", panic.message),
            Err(other) => format!("something else: {:?}", other.value),
        },
    }
}

fn main() {
    // `try_` gives the result of the body, or of the second closure if the body failed.
    let good = try_(|| sum("1\n2\n3").to_string(), explain);
    let bad = try_(|| sum("1\ntwo\n3").to_string(), explain);
    println!("good: {good}\nbad: {bad}");
    assert_eq!((good.as_str(), bad.as_str()), ("6", "line 2 is no number: \"two\""));

    // A panic is an error like any other, and prints nothing.
    let buggy = try_(|| [1, 2, 3][sum("7") as usize].to_string(), explain);
    println!("buggy: {buggy}");
    assert!(buggy.starts_with("a bug: index out of bounds"));

    // `protect` returns a `Result`, with a trace of where the error was raised.
    let raised = protect(|| sum("x")).unwrap_err();
    println!("the trace:\n{}", raised.trace.as_ref().expect("an error has a trace"));

    // `defer` and `with` clean up however the body ends; the innermost goes first.
    let log = RefCell::new(Vec::new());
    let result = protect(|| {
        defer(
            || log.borrow_mut().push("released the lock".to_owned()),
            || {
                let close = |file: String| log.borrow_mut().push(format!("closed {file}"));
                with(String::from("numbers.txt"), close, |_file| sum("not a number"))
            },
        )
    });
    println!("cleaned up: {:?}", log.borrow());
    assert!(result.is_err());
    assert_eq!(*log.borrow(), ["closed numbers.txt", "released the lock"]);

    // `prompt` marks a place to which code below it, at any depth, returns at once.
    let found = prompt(|here| {
        "1\n-4\n9".lines().map(|line| parse(1, line)).for_each(|number| {
            if number < 0 {
                return_to(here, Some(number));
            }
        });
        None
    });
    println!("the first negative number: {found:?}");
    assert_eq!(found, Some(-4));
}

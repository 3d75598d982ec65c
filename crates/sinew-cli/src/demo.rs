//! `sinew demo`: fibers and tasks at work. Each part is a function that can be read on its own.

use std::error::Error;
use std::io::{self, Write};
use std::time::{Duration, Instant};

use sinew_fiber::{Fiber, Generator, Key, Mask, Signal, Yielder, debug, defer, error, try_, yield_};
use sinew_sched::sync::Mutex;
use sinew_sched::{Events, Refused, Runtime, scope, sleep, spawn, task, timeout};

type Outcome = Result<(), Box<dyn Error>>;
type Part = fn(&mut dyn Write) -> Outcome;

pub(crate) fn run() -> Outcome {
    let mut out = io::stdout();
    for (title, part) in PARTS {
        writeln!(out, "{title}\n")?;
        part(&mut out)?;
        writeln!(out)?;
    }
    Ok(())
}

const PARTS: [(&str, Part); 8] = [
    ("A generator: a recursive function that stops at every item", generator),
    ("An error: caught by `try_`, and `defer` cleans up on its way", recover),
    ("A cancel: the fiber is ended from outside, and its cleanup still runs", cancel),
    ("A breakpoint: the resumer looks inside, changes a binding and continues", debugger),
    ("A million yields", timing),
    ("A hundred thousand tasks that sleep at once, on a few threads, without `async`", sleepers),
    ("A scope with a deadline: children borrow, and what is too slow is cancelled", fan_out),
    ("A supervisor: it is told that its worker failed, and starts another", supervisor),
];

fn generator(out: &mut dyn Write) -> Outcome {
    /// Moves `discs` discs between two of three pegs, and names every move.
    fn hanoi(discs: u32, from: char, to: char, spare: char, moves: &Yielder<String>) {
        if discs > 0 {
            hanoi(discs - 1, from, spare, to, moves);
            moves.yield_(format!("{from}{to}"));
            hanoi(discs - 1, spare, to, from, moves);
        }
    }
    let moves = Generator::new(|moves| hanoi(20, 'a', 'c', 'b', moves))?;
    let first: Vec<String> = moves.take(7).collect();
    writeln!(out, "  the first 7 of 1048575 moves: {}; the others are never computed", first.join(" "))?;
    Ok(())
}

fn recover(out: &mut dyn Write) -> Outcome {
    let mut steps = Vec::new();
    let answer = try_(
        || defer(|| steps.push("cleaned up"), || if answer_is_too_hard() { error("too hard") } else { 42 }),
        |raised| raised.value.downcast::<&str>().map_or(0, |text| text.len()),
    );
    writeln!(out, "  the handler returned {answer}, after the body had {}", steps.join(", "))?;
    Ok(())
}

fn answer_is_too_hard() -> bool {
    true
}

fn cancel(out: &mut dyn Write) -> Outcome {
    let worker = Fiber::builder().name("worker").mask(Mask::YIELD | Mask::ERROR).build(|_| {
        defer(
            || println!("  the worker closes its file"),
            || {
                for step in 1_u64.. {
                    yield_(step).expect("the resumer catches yields");
                }
            },
        );
    })?;
    for _ in 0..3 {
        let signal = worker.resume(())?;
        writeln!(out, "  {signal}: step {}", worker.take_value().downcast::<u64>()?)?;
    }
    let signal = worker.cancel("the deadline has passed")?;
    writeln!(out, "  {signal}: {}", worker.take_value().downcast::<&str>()?)?;
    Ok(())
}

fn debugger(out: &mut dyn Write) -> Outcome {
    static VERBOSE: Key<bool> = Key::new("verbose");

    let outer = Fiber::builder().name("outer").mask(Mask::DEBUG).build(|_| {
        // This fiber catches nothing of the one inside, so it stops together with it.
        let inner = Fiber::builder().name("inner").mask(Mask::NONE).build(|_| {
            VERBOSE.set(false);
            debug("before the loop").expect("nothing refuses a breakpoint here");
            VERBOSE.get().is_some_and(|verbose| *verbose)
        });
        let inner = inner.expect("there is room for a second stack");
        let signal = inner.resume(()).expect("the fiber is new");
        assert_eq!(signal, Signal::Ok);
        inner.take_value()
    })?;

    let signal = outer.resume(())?;
    writeln!(out, "  {signal}: {}", outer.take_value().downcast::<&str>()?)?;
    let chain = outer.lineage();
    for fiber in &chain {
        let link = fiber.link();
        writeln!(out, "    {} is {}, created at line {}", link, fiber.status(), link.created.line())?;
    }
    if let Some(innermost) = chain.last() {
        VERBOSE.set_of(innermost, true);
    }
    let signal = outer.resume(())?;
    writeln!(out, "  {signal}: the body saw verbose = {}", outer.take_value().downcast::<bool>()?)?;
    Ok(())
}

fn timing(out: &mut dyn Write) -> Outcome {
    const YIELDS: u64 = 1_000_000;

    let counter = Fiber::new(|first| {
        let mut count = first.downcast::<u64>().expect("the resumer sends numbers");
        for _ in 0..YIELDS {
            let next = yield_(count + 1).expect("the resumer catches yields");
            count = next.downcast().expect("the resumer sends numbers");
        }
        count
    })?;
    let start = Instant::now();
    let mut count = 0;
    for _ in 0..YIELDS {
        let signal = counter.resume(count)?;
        debug_assert_eq!(signal, Signal::Yield);
        count = counter.take_value().downcast::<u64>()?;
    }
    let each = start.elapsed().as_secs_f64() * 1e9 / YIELDS as f64;
    writeln!(out, "  counted to {count} in {each:.1} ns per resume and yield")?;
    Ok(())
}

fn sleepers(out: &mut dyn Write) -> Outcome {
    const TASKS: u32 = 100_000;
    let start = Instant::now();
    let slept = Runtime::new().run(|| {
        let tasks: Vec<_> = (0..TASKS).map(|_| spawn(|| sleep(Duration::from_millis(100)))).collect();
        tasks.into_iter().map(|task| task.join()).filter(Result::is_ok).count()
    });
    let slept = slept.map_err(|raised| raised.to_string())?;
    writeln!(out, "  {slept} slept for 100 ms each, in {:.0?} together", start.elapsed())?;
    Ok(())
}

fn fan_out(out: &mut dyn Write) -> Outcome {
    let (done, outcome) = Runtime::new()
        .run(|| {
            let done = Mutex::new(0);
            let outcome = timeout(Duration::from_millis(50), || {
                scope(|scope| {
                    for n in 0..10 {
                        let done = &done;
                        scope.spawn(move || {
                            sleep(Duration::from_millis(if n < 7 { 1 } else { 60_000 }));
                            *done.lock()? += 1;
                            Ok::<(), Refused>(())
                        });
                    }
                })
            });
            (done.into_inner(), outcome.is_err())
        })
        .map_err(|raised| raised.to_string())?;
    writeln!(out, "  {done} of 10 children were done in time; the deadline passed: {outcome}")?;
    Ok(())
}

fn supervisor(out: &mut dyn Write) -> Outcome {
    let attempts = Runtime::new()
        .run(|| {
            let events = Events::new();
            let mut told = Vec::new();
            for attempt in 1..=3_u32 {
                let work = move || {
                    if attempt < 3 {
                        error("no luck")
                    }
                };
                task().name("worker").supervisor(&events).spawn(work).detach();
                let event = events.recv().expect("nobody cancels the supervisor");
                told.push(format!("attempt {attempt}: {} {:?}", event.signal, event.value));
            }
            told
        })
        .map_err(|raised| raised.to_string())?;
    attempts.iter().try_for_each(|attempt| writeln!(out, "  {attempt}"))?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn printed(part: Part) -> String {
        let mut out = Vec::new();
        part(&mut out).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn the_generator_stops_after_the_items_that_were_asked_for() {
        assert!(printed(generator).contains(": ab ac bc ab ca cb ab;"), "{}", printed(generator));
    }

    #[test]
    fn the_error_is_caught_after_the_cleanup() {
        assert_eq!(printed(recover), "  the handler returned 8, after the body had cleaned up\n");
    }

    #[test]
    fn the_cancelled_worker_ends_with_the_error_that_it_was_sent() {
        assert!(printed(cancel).ends_with("  error: the deadline has passed\n"));
    }

    #[test]
    fn the_debugger_sees_both_fibers_and_changes_a_binding() {
        let text = printed(debugger);
        for fiber in ["outer", "inner"] {
            assert!(text.lines().any(|line| line.contains(fiber) && line.contains("is debug")), "{text}");
        }
        assert!(text.ends_with("verbose = true\n"), "{text}");
    }

    #[test]
    fn every_yield_is_counted() {
        assert!(printed(timing).contains("counted to 1000000 "));
    }
}

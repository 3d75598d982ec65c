//! Two workers that are stopped in the middle: one is cancelled, one is dropped. Both clean up.
//!
//! `cargo run -p sinew --example cancel_with_cleanup`

use std::cell::RefCell;
use std::rc::Rc;

use sinew::fiber::{Error, Fiber, Mask, Raised, Refused, Signal, Status, defer, protect, yield_};

type Log = Rc<RefCell<Vec<String>>>;

fn note(log: &Log, what: String) {
    println!("  {what}");
    log.borrow_mut().push(what);
}

/// A resource whose destructor is seen.
struct Connection(&'static str, Log);

impl Drop for Connection {
    fn drop(&mut self) {
        note(&self.1, format!("{}: connection closed", self.0));
    }
}

/// A worker that yields after each step and never ends by itself. It knows nothing of being cancelled: a
/// cancel is an error, raised where the worker has stopped.
fn worker(name: &'static str, log: &Log) -> Result<Fiber, Error> {
    let log = log.clone();
    let fiber = Fiber::builder().name(name).mask(Mask::YIELD | Mask::ERROR).build(move |_| {
        let _connection = Connection(name, log.clone());
        defer(
            || note(&log, format!("{name}: rolled back")),
            || {
                for step in 1.. {
                    note(&log, format!("{name}: step {step}"));
                    yield_(step)?;
                }
                Ok::<_, Refused>(())
            },
        )
    })?;
    Ok(fiber)
}

fn main() -> Result<(), Error> {
    let log = Log::default();

    println!("a worker is cancelled after two steps:");
    let first = worker("first", &log)?;
    assert_eq!(first.resume(())?, Signal::Yield);
    assert_eq!(first.resume(())?, Signal::Yield);
    assert_eq!(first.cancel("out of time")?, Signal::Error);
    // When `cancel` returns, the worker has ended: nothing of it runs any more.
    assert_eq!(first.status(), Status::Error);
    let Raised { value, trace, .. } = first.take_raised();
    println!("it ended with {value:?}\n{}", trace.expect("an error has a trace"));

    println!("a worker is dropped after one step:");
    let second = worker("second", &log)?;
    assert_eq!(second.resume(())?, Signal::Yield);
    drop(second); // as if cancelled with the error `Cancelled`

    println!("a worker finishes what it is at before it obeys:");
    let polite = Fiber::new(|_| {
        let cancelled = protect(|| yield_("working")).is_err();
        yield_(if cancelled { "finishing" } else { "idle" })
    })?;
    assert_eq!(polite.resume(())?, Signal::Yield);
    let stop = polite.cancel("stop")?;
    assert_eq!(stop, Signal::Yield); // caught inside: it only paused again
    let answer = stop.get::<&str>()?;
    println!("  polite: {answer}");
    assert_eq!(answer, "finishing");
    assert_eq!(polite.resume(())?, Signal::Ok);

    let expected = [
        "first: step 1",
        "first: step 2",
        "first: rolled back",
        "first: connection closed",
        "second: step 1",
        "second: rolled back",
        "second: connection closed",
    ];
    assert_eq!(*log.borrow(), expected);
    Ok(())
}

//! A debugger: resumes a fiber with debug in its mask, inspects it at each breakpoint, changes a
//! value, and continues.
//!
//! `cargo run -p sinew --example debugger`

use sinew::fiber::{Bindings, Error, Fiber, Key, Mask, Signal, capture_backtraces, debug, with_bindings};

/// A dynamic binding: how much to add in each round. It belongs to the running fiber.
static STEP: Key<u32> = Key::new("step");

/// The program. Without a debugger, `debug` goes on at once.
#[inline(never)] // so that the backtrace of an optimised build names it as well
fn count_to(limit: u32) -> u32 {
    let mut total = 0;
    while total < limit {
        debug(total).expect("nothing keeps this fiber from stopping");
        total += *STEP.get().expect("bound by the caller");
    }
    total
}

/// The program runs in a fiber of its own (`with_bindings` makes one) inside the fiber that is debugged.
fn program(limit: u32) -> u32 {
    with_bindings([STEP.to(10)], || count_to(limit))
}

fn main() -> Result<(), Error> {
    assert_eq!(program(30), 30);
    println!("without a debugger: 30");

    capture_backtraces(true);
    let options = Fiber::builder().name("program").mask(Mask::DEBUG).bindings(Bindings::Layered);
    let program = options.build(|_| program(100))?;
    let mut breakpoints = 0;
    let total = loop {
        let stop = program.resume(())?;
        if stop != Signal::Debug {
            break stop.get::<u32>()?;
        }
        breakpoints += 1;

        // The stopped fibers, from the resumed fiber to the fiber that raised the signal.
        let lineage = program.lineage();
        let stopped = lineage.last().expect("at least the fiber itself");
        let chain: Vec<String> = lineage.iter().map(|fiber| fiber.link().to_string()).collect();

        // What the breakpoint carried, and where it is.
        let raised = program.take_raised();
        let total = raised.value.downcast::<u32>()?;
        let trace = raised.trace.expect("a breakpoint has a trace");

        // The bindings of the stopped fiber.
        let step = STEP.get_of(stopped).expect("bound by the program");
        println!("breakpoint {breakpoints}: total {total}, step {step}, in {}", chain.join(" > "));

        if breakpoints == 1 {
            println!("{}", trace.to_string().lines().take(3).collect::<Vec<_>>().join("\n"));
            let backtrace = trace.backtrace().expect("switched on above").to_string();
            let frames = backtrace.lines().filter(|line| line.contains("debugger::"));
            frames.for_each(|frame| println!("  {}", frame.trim()));
            assert_eq!(chain.len(), 2);
            assert!(backtrace.contains("count_to"));
        }
        if total == 20 {
            println!("  this takes too long: the step is 40 from here on");
            STEP.set_of(stopped, 40);
        }
    };
    println!("the program returned {total} after {breakpoints} breakpoints");
    assert_eq!((total, breakpoints), (100, 4));
    Ok(())
}

//! Fibers: what a switch, a new fiber, a protected call, a raise, a level of the chain and a suspended
//! fiber cost.

#[cfg(feature = "peers")]
mod peers;
mod raw;

use std::hint::black_box;
use std::time::{Duration, Instant};

use sinew_fiber::{Fiber, Mask, Signal, Value, error, protect, yield_};

use crate::measure::{Side, compare, median, occupied_bytes, report};
use crate::{Bench, Number};

pub(crate) const BENCHES: [Bench; 6] = [
    Bench {
        name: "fiber_yield",
        about: "resume a fiber that yields: a round trip with a scalar each way",
        metric: "ns_per_roundtrip",
        numbers: &[Number { name: "round trips", default: 20_000_000, small: 1_000 }],
        run: |bench, numbers| {
            #[cfg_attr(not(feature = "peers"), allow(unused_mut, reason = "peers are pushed"))]
            let mut sides: Vec<Side> = vec![
                ("sinew", yields),
                ("corosensei", raw::yields_inlined),
                ("corosensei_call", raw::yields_called),
            ];
            #[cfg(feature = "peers")]
            sides.push(("generator", peers::generator_yields));
            compare(bench, numbers[0], &sides);
            // A thread needs a thousand times as long, so it gets fewer rounds.
            #[cfg(feature = "peers")]
            compare(bench, numbers[0].div_ceil(1_000), &[("std-thread", peers::thread_yields)]);
        },
    },
    Bench {
        name: "fiber_spawn",
        about: "create a fiber, run it to its end and reuse its stack, warm",
        metric: "ns_per_fiber",
        numbers: &[Number { name: "fibers", default: 5_000_000, small: 1_000 }],
        run: |bench, numbers| {
            compare(bench, numbers[0], &[("sinew", spawns), ("corosensei", raw::spawns)]);
            #[cfg(feature = "peers")]
            compare(
                bench,
                numbers[0].div_ceil(100),
                &[("generator", peers::generator_spawns), ("std-thread", peers::thread_spawns)],
            );
        },
    },
    Bench {
        name: "fiber_try",
        about: "a protected call whose body returns",
        metric: "ns_per_try",
        numbers: &[Number { name: "calls", default: 5_000_000, small: 1_000 }],
        run: |bench, numbers| compare(bench, numbers[0], &[("sinew", tries)]),
    },
    Bench {
        name: "fiber_raise",
        about: "a protected call whose body raises an error; std unwinds the same frames",
        metric: "ns_per_raise",
        numbers: &[Number { name: "raises", default: 200_000, small: 200 }],
        run: |bench, numbers| compare(bench, numbers[0], &[("sinew", raises), ("std", raw::raises)]),
    },
    Bench {
        name: "fiber_chain",
        about: "what each further level adds to a yield that travels up through 10",
        metric: "ns_per_level",
        numbers: &[Number { name: "yields", default: 2_000_000, small: 1_000 }],
        run: chain,
    },
    Bench {
        name: "fiber_mem",
        about: "memory of a suspended fiber: resident pages and page tables, the whole pool counted",
        metric: "bytes_each",
        numbers: &[Number { name: "fibers", default: 1_000_000, small: 500 }],
        run: memory,
    },
];

/// The levels that `fiber_chain` adds below the fiber that yields to the top.
const LEVELS: u64 = 10;

/// The frames between a raise and the call that catches it, the same for all programs.
const RAISE_DEPTH: u32 = 4;

/// Calls itself `depth` times, in frames that unwinding has to pass, and then `raise`.
#[inline(never)]
fn descend(depth: u32, raise: fn() -> u64) -> u64 {
    if depth == 0 { raise() } else { black_box(descend(depth - 1, raise)) + 1 }
}

fn yields(n: u64) -> Duration {
    let fiber = Fiber::new(move |first: Value| {
        let mut received = scalar(first);
        for _ in 0..n {
            received = scalar(yield_(received + 1).expect("the resumer catches yields"));
        }
        received
    })
    .expect("there is room for one fiber");
    let start = Instant::now();
    for i in 0..n {
        let signal = fiber.resume(i).expect("the fiber is suspended");
        debug_assert_eq!(signal, Signal::Yield);
        black_box(scalar(fiber.take_value()));
    }
    let took = start.elapsed();
    finish(&fiber);
    took
}

fn spawns(n: u64) -> Duration {
    let start = Instant::now();
    for i in 0..n {
        let fiber = Fiber::new(|value: Value| value).expect("there is room for one fiber");
        let signal = fiber.resume(i).expect("the fiber is new");
        debug_assert_eq!(signal, Signal::Ok);
        black_box(scalar(fiber.take_value()));
    }
    start.elapsed()
}

fn tries(n: u64) -> Duration {
    let start = Instant::now();
    for i in 0..n {
        let result = protect(move || black_box(i));
        assert!(black_box(result).is_ok());
    }
    start.elapsed()
}

fn raises(n: u64) -> Duration {
    let start = Instant::now();
    for _ in 0..n {
        let result = protect(|| descend(RAISE_DEPTH, || error(7_u64)));
        assert!(black_box(result).is_err());
    }
    start.elapsed()
}

/// Compares a yield through [`LEVELS`] fibers that do not catch it with one through none.
fn chain(bench: &Bench, numbers: &[u64]) {
    let n = numbers[0].div_ceil(5);
    chained_yields(LEVELS, n.div_ceil(4));
    let per_level = (0..5).map(|_| {
        let added = chained_yields(LEVELS, n).as_secs_f64() - chained_yields(0, n).as_secs_f64();
        added * 1e9 / n as f64 / LEVELS as f64
    });
    report("sinew", bench, median(per_level.collect()));
}

fn chained_yields(levels: u64, n: u64) -> Duration {
    let top = Fiber::builder().mask(Mask::YIELD).build(move |_| nest(levels, n)).expect("there is room");
    start_fiber(&top);
    let start = Instant::now();
    for i in 0..n {
        let signal = top.resume(i).expect("the chain is suspended");
        debug_assert_eq!(signal, Signal::Yield);
        black_box(scalar(top.take_value()));
    }
    let took = start.elapsed();
    finish(&top);
    took
}

/// Yields `n + 1` times from the innermost of `levels` nested fibers, none of which catches a yield.
fn nest(levels: u64, n: u64) -> u64 {
    if levels == 0 {
        let mut received = 0;
        for _ in 0..=n {
            received = scalar(yield_(received + 1).expect("the top catches yields"));
        }
        return received;
    }
    let child = Fiber::builder().mask(Mask::NONE).build(move |_| nest(levels - 1, n)).expect("there is room");
    let signal = child.resume(0_u64).expect("the child is new");
    assert_eq!(signal, Signal::Ok, "the yields pass this level");
    scalar(child.take_value())
}

fn memory(bench: &Bench, numbers: &[u64]) {
    let n = numbers[0];
    let before = occupied_bytes();
    let fibers: Vec<Fiber> = (0..n)
        .map(|_| {
            let fiber = Fiber::new(|value: Value| yield_(scalar(value)).expect("the resumer catches yields"))
                .expect("there is room for a fiber");
            start_fiber(&fiber);
            fiber
        })
        .collect();
    let bytes = occupied_bytes().saturating_sub(before);
    report("sinew", bench, bytes as f64 / n as f64);
    fibers.iter().for_each(finish);
}

/// The first resume of a fiber that then yields.
fn start_fiber(fiber: &Fiber) {
    let signal = fiber.resume(0_u64).expect("the fiber is new");
    assert_eq!(signal, Signal::Yield);
    drop(fiber.take_value());
}

/// The last resume of a fiber that then returns.
fn finish(fiber: &Fiber) {
    let signal = fiber.resume(0_u64).expect("the fiber is suspended");
    assert_eq!(signal, Signal::Ok);
}

fn scalar(value: Value) -> u64 {
    value.downcast::<u64>().expect("every value here is a u64")
}

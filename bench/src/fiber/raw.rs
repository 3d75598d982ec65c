//! What the floors are relative to: corosensei's bare switch and std's bare unwinding, without signals,
//! masks or a pool.

use std::hint::black_box;
use std::panic::{catch_unwind, resume_unwind};
use std::time::{Duration, Instant};

use corosensei::stack::DefaultStack;
use corosensei::{Coroutine, CoroutineResult, Yielder};

use super::{RAISE_DEPTH, descend};

const STACK: usize = 256 * 1024;

/// Round trips with the suspend inlined into the body: the best that a switch can do.
pub(super) fn yields_inlined(n: u64) -> Duration {
    roundtrips(
        n,
        Coroutine::new(move |yielder, first| {
            let mut received = first;
            for _ in 0..n {
                received = yielder.suspend(received + 1);
            }
        }),
    )
}

/// Round trips with one ordinary function around the suspend, as a library has it.
pub(super) fn yields_called(n: u64) -> Duration {
    roundtrips(
        n,
        Coroutine::new(move |yielder, first| {
            let mut received = first;
            for _ in 0..n {
                received = suspend(yielder, received + 1);
            }
        }),
    )
}

#[inline(never)]
fn suspend(yielder: &Yielder<u64, u64>, value: u64) -> u64 {
    yielder.suspend(value)
}

#[inline(always)]
fn roundtrips(n: u64, mut coroutine: Coroutine<u64, u64, ()>) -> Duration {
    let start = Instant::now();
    for i in 0..n {
        match coroutine.resume(i) {
            CoroutineResult::Yield(value) => black_box(value),
            CoroutineResult::Return(()) => unreachable!("the body yields n times"),
        };
    }
    let took = start.elapsed();
    assert!(coroutine.resume(0).as_return().is_some());
    took
}

/// Coroutines that take one stack over from each other.
pub(super) fn spawns(n: u64) -> Duration {
    let mut stack = DefaultStack::new(STACK).expect("there is room for one stack");
    let start = Instant::now();
    for i in 0..n {
        let mut coroutine = Coroutine::with_stack(stack, |_: &Yielder<u64, ()>, value: u64| value);
        match coroutine.resume(i) {
            CoroutineResult::Return(value) => black_box(value),
            CoroutineResult::Yield(()) => unreachable!("the body returns at once"),
        };
        stack = coroutine.into_stack();
    }
    start.elapsed()
}

/// Unwinding without a fiber, through the same frames as Sinew's raise.
pub(super) fn raises(n: u64) -> Duration {
    let start = Instant::now();
    for _ in 0..n {
        let result = catch_unwind(|| descend(RAISE_DEPTH, || resume_unwind(Box::new(7_u64))));
        assert!(black_box(result).is_err());
    }
    start.elapsed()
}

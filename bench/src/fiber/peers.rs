//! Peers for people who choose between libraries: the generator crate (the engine of may) and threads.

use std::hint::black_box;
use std::sync::mpsc::sync_channel;
use std::thread;
use std::time::{Duration, Instant};

use generator::Gn;

pub(super) fn generator_yields(n: u64) -> Duration {
    let mut generator = Gn::new_scoped(move |mut scope| {
        let mut received: u64 = scope.yield_(0).expect("the caller sends a value");
        for _ in 0..n {
            received = scope.yield_(received + 1).expect("the caller sends a value");
        }
        received
    });
    // The first resume only reaches the first yield, where the body takes its first value.
    assert_eq!(generator.resume(), Some(0));
    let start = Instant::now();
    for i in 0..n {
        black_box(generator.send(i));
    }
    let took = start.elapsed();
    generator.send(0);
    took
}

pub(super) fn generator_spawns(n: u64) -> Duration {
    let start = Instant::now();
    for i in 0..n {
        let mut generator = Gn::<()>::new_scoped(move |_| i);
        black_box(generator.resume());
    }
    start.elapsed()
}

/// Two threads that hand a value to and fro.
pub(super) fn thread_yields(n: u64) -> Duration {
    let (to_body, received) = sync_channel::<u64>(1);
    let (to_caller, yielded) = sync_channel::<u64>(1);
    let body = thread::spawn(move || {
        for value in received {
            if to_caller.send(value + 1).is_err() {
                break;
            }
        }
    });
    let start = Instant::now();
    for i in 0..n {
        to_body.send(i).expect("the body receives until the caller is done");
        black_box(yielded.recv().expect("the body answers every value"));
    }
    let took = start.elapsed();
    drop(to_body);
    body.join().expect("the body does not panic");
    took
}

pub(super) fn thread_spawns(n: u64) -> Duration {
    let start = Instant::now();
    for i in 0..n {
        black_box(thread::spawn(move || i).join().expect("the body does not panic"));
    }
    start.elapsed()
}

//! Channels: what it costs to hand items over, on one worker as tasks are placed by default, and across workers.

use std::hint;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use sinew_sched::chan::{self, Receiver, Sender, oneshot};
use sinew_sched::{JoinHandle, Runtime, spawn};

use crate::measure::report;
use crate::{Bench, Number};

/// The workers of sinew and of tokio.
const WORKERS: usize = 2;

pub(crate) const BENCHES: [Bench; 5] = [
    Bench {
        name: "pingpong_unbuffered",
        about: "two tasks hand a number to and fro over two channels that hold nothing",
        metric: "ns_per_roundtrip",
        numbers: &[Number { name: "round trips", default: 1_000_000, small: 1_000 }],
        run: |bench, numbers| {
            let trips = numbers[0];
            per(bench, run(move || pingpong(trips, Place::Anywhere)), trips);
        },
    },
    Bench {
        name: "pingpong_cross",
        about: "the same with the two tasks on different workers",
        metric: "ns_per_roundtrip",
        numbers: &[Number { name: "round trips", default: 300_000, small: 1_000 }],
        run: |bench, numbers| {
            let trips = numbers[0];
            per(bench, run(move || pingpong(trips, Place::Elsewhere)), trips);
        },
    },
    Bench {
        name: "chan_spsc_buf1024",
        about: "one task sends so many numbers to another, over a channel for 1,024",
        metric: "ns_per_item",
        numbers: &[Number { name: "items", default: 5_000_000, small: 10_000 }],
        run: |bench, numbers| {
            let items = numbers[0];
            per(bench, run(move || spsc(items, Place::Anywhere)), items);
        },
    },
    Bench {
        name: "chan_spsc_cross",
        about: "the same with the two tasks on different workers",
        metric: "ns_per_item",
        numbers: &[Number { name: "items", default: 5_000_000, small: 10_000 }],
        run: |bench, numbers| {
            let items = numbers[0];
            per(bench, run(move || spsc(items, Place::Elsewhere)), items);
        },
    },
    Bench {
        name: "chan_mpmc_4x4",
        about: "four tasks send so many numbers to four others, over one channel for 64",
        metric: "ns_per_item",
        numbers: &[Number { name: "items", default: 2_000_000, small: 10_000 }],
        run: |bench, numbers| {
            let items = numbers[0];
            per(bench, run(move || mpmc(items)), items);
        },
    },
];

fn run(body: impl FnOnce() -> Duration + Send + 'static) -> Duration {
    let runtime = Runtime::builder().workers(WORKERS).build().expect("there are threads");
    runtime.run(body).expect("the benchmark returns")
}

fn per(bench: &Bench, took: Duration, count: u64) {
    report("sinew", bench, took.as_secs_f64() * 1e9 / count as f64);
}

/// Where the second task runs.
#[derive(Clone, Copy)]
enum Place {
    Anywhere,
    /// Not on the worker of the first.
    Elsewhere,
}

/// Spawns `body`; elsewhere, because the caller keeps its worker until another one has taken it. The body runs when
/// it is told to, so that what it blocks on first is the same for all.
fn spawn_at<T: Send + 'static>(place: Place, body: impl FnOnce() -> T + Send + 'static) -> JoinHandle<T> {
    let Place::Elsewhere = place else { return spawn(body) };
    let started = Arc::new(AtomicBool::new(false));
    let (go, mut gone) = oneshot::channel();
    let task = {
        let started = started.clone();
        spawn(move || {
            started.store(true, Ordering::Release);
            gone.recv().expect("the spawner waits"); // from now on it stays here
            body()
        })
    };
    while !started.load(Ordering::Acquire) {
        hint::spin_loop();
    }
    go.send(()).expect("the task waits");
    task
}

fn pingpong(trips: u64, place: Place) -> Duration {
    let (ping, pinged) = chan::rendezvous::<u64>();
    let (pong, ponged) = chan::rendezvous::<u64>();
    let start = Instant::now();
    let other = spawn_at(place, move || pinged.iter().try_for_each(|number| pong.send(number)));
    for number in 0..trips {
        ping.send(number).expect("the other task is there");
        assert_eq!(ponged.recv().expect("the other task is there"), number);
    }
    drop(ping);
    other.join().expect("it returns").expect("we are there");
    start.elapsed()
}

fn spsc(items: u64, place: Place) -> Duration {
    let (sender, receiver) = chan::spsc(1024);
    let start = Instant::now();
    let sends = spawn_at(place, move || (0..items).try_for_each(|number| sender.send(number)));
    assert_eq!(receiver.iter().sum::<u64>(), items * (items - 1) / 2);
    sends.join().expect("it returns").expect("we are there");
    start.elapsed()
}

fn mpmc(items: u64) -> Duration {
    let (sender, receiver): (Sender<u64>, Receiver<u64>) = chan::bounded(64);
    let start = Instant::now();
    let mut senders = Vec::new();
    let mut receivers = Vec::new();
    for _ in 0..4 {
        let (sender, receiver) = (sender.clone(), receiver.clone());
        senders.push(spawn(move || (0..items / 4).try_for_each(|number| sender.send(number))));
        receivers.push(spawn(move || receiver.iter().count() as u64));
    }
    senders.into_iter().for_each(|task| task.join().expect("it returns").expect("they receive"));
    sender.close();
    let received: u64 = receivers.into_iter().map(|task| task.join().expect("it returns")).sum();
    assert_eq!(received, items / 4 * 4);
    start.elapsed()
}

//! Channels: what it costs to hand items over, on one worker as tasks are placed by default, and across workers.

mod peers;

use std::hint;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use sinew_chan::chan::{self, Receiver, Sender, oneshot};
use sinew_chan::select;
use sinew_chan::select::recv;
use sinew_sched::{JoinHandle, Runtime, spawn, spawn_future};

use crate::measure::{Side, compare, compare_as, report};
use crate::{Bench, Number};

/// The workers of sinew and of tokio.
const WORKERS: usize = 2;

/// Who sends to the one that selects, and how far each may run ahead.
const PRODUCERS: u64 = 8;
const ROOM: usize = 64;

pub(crate) const BENCHES: [Bench; 9] = [
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
            let sinew = |trips| run(move || pingpong(trips, Place::Elsewhere));
            let sides: [Side; 2] = [("sinew", sinew), ("bare", peers::bare_pingpong)];
            compare(bench, numbers[0], &sides);
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
    Bench {
        name: "select_8",
        about: "eight tasks send so many numbers, over a channel for 64 each, to one that selects",
        metric: "ns_per_item",
        numbers: &[Number { name: "items", default: 1_000_000, small: 10_000 }],
        run: |bench, numbers| {
            let sides: [Side; 3] = [
                ("sinew", |items| run(move || select_8(items))),
                ("crossbeam", peers::crossbeam_select),
                ("tokio", peers::tokio_select),
            ];
            compare(bench, numbers[0], &sides);
        },
    },
    Bench {
        name: "wake_1_of_1000",
        about: "wake one of so many tasks that wait at one channel, and wait for its answer",
        metric: "ns_per_wake",
        numbers: &[
            Number { name: "waiters", default: 1_000, small: 10 },
            Number { name: "wakes", default: 1_000_000, small: 1_000 },
        ],
        run: |bench, numbers| {
            let waiters = numbers[0];
            let sinew = move |wakes| run(move || wake_one(waiters, wakes, wait_in_task));
            let tokio = move |wakes| peers::tokio_wake(waiters, wakes);
            compare_as(bench.name, bench.metric, numbers[1], &[("sinew", &sinew), ("tokio", &tokio)]);
        },
    },
    Bench {
        name: "wake_1_of_1000_future",
        about: "the same, of so many futures",
        metric: "ns_per_wake",
        numbers: &[
            Number { name: "waiters", default: 1_000, small: 10 },
            Number { name: "wakes", default: 1_000_000, small: 1_000 },
        ],
        run: |bench, numbers| {
            let waiters = numbers[0];
            let sinew = move |wakes| run(move || wake_one(waiters, wakes, wait_in_future));
            let tokio = move |wakes| peers::tokio_wake(waiters, wakes);
            compare_as(bench.name, bench.metric, numbers[1], &[("sinew", &sinew), ("tokio", &tokio)]);
        },
    },
    Bench {
        name: "chan_thread",
        about: "a thread that is no worker sends so many numbers to a task, over a channel for 1,024",
        metric: "ns_per_item",
        numbers: &[Number { name: "items", default: 10_000_000, small: 10_000 }],
        run: |bench, numbers| {
            let sides: [Side; 2] = [("sinew", from_thread), ("crossbeam", peers::crossbeam_thread)];
            compare(bench, numbers[0], &sides);
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

fn select_8(items: u64) -> Duration {
    let start = Instant::now();
    let (senders, receivers): (Vec<_>, Vec<_>) = (0..PRODUCERS).map(|_| chan::bounded::<u64>(ROOM)).unzip();
    for sender in senders {
        let sends = move || (0..items / PRODUCERS).try_for_each(|number| sender.send(number));
        spawn(sends).detach();
    }
    let mut receivers: [Option<Receiver<u64>>; 8] =
        receivers.into_iter().map(Some).collect::<Vec<_>>().try_into().expect("there are eight");
    let (mut received, mut open) = (0, PRODUCERS);
    while open > 0 {
        let [a, b, c, d, e, f, g, h] = receivers.each_ref();
        let (number, item) = select! {
            item = recv(a.as_ref()) => (0, item),
            item = recv(b.as_ref()) => (1, item),
            item = recv(c.as_ref()) => (2, item),
            item = recv(d.as_ref()) => (3, item),
            item = recv(e.as_ref()) => (4, item),
            item = recv(f.as_ref()) => (5, item),
            item = recv(g.as_ref()) => (6, item),
            item = recv(h.as_ref()) => (7, item),
        }
        .expect("nobody cancels");
        match item {
            Ok(_) => received += 1,
            Err(_) => {
                receivers[number] = None;
                open -= 1;
            }
        }
    }
    assert_eq!(received, items / PRODUCERS * PRODUCERS);
    start.elapsed()
}

fn wait_in_task(receiver: Receiver<u64>, answer: Sender<u64>) {
    spawn(move || receiver.iter().try_for_each(|number| answer.send(number))).detach();
}

fn wait_in_future(receiver: Receiver<u64>, answer: Sender<u64>) {
    let answers = async move {
        while let Ok(number) = receiver.recv_async().await {
            let _ = answer.send_async(number).await;
        }
    };
    spawn_future(answers).detach();
}

fn wake_one(waiters: u64, wakes: u64, wait: fn(Receiver<u64>, Sender<u64>)) -> Duration {
    let (sender, receiver) = chan::rendezvous::<u64>();
    let (answer, answers) = chan::bounded(1);
    (0..waiters).for_each(|_| wait(receiver.clone(), answer.clone()));
    let wake = |number| {
        sender.send(number).expect("they wait");
        assert_eq!(answers.recv().expect("one has woken"), number);
    };
    (0..waiters).for_each(wake); // all of them have started and wait again
    let start = Instant::now();
    (0..wakes).for_each(wake);
    start.elapsed()
}

fn from_thread(items: u64) -> Duration {
    let (sender, receiver) = chan::bounded(1024);
    let (go, mut gone) = oneshot::channel();
    let sends = std::thread::spawn(move || {
        gone.recv().expect("the task is there");
        (0..items).try_for_each(|number| sender.send(number))
    });
    let took = run(move || {
        let start = Instant::now();
        go.send(()).expect("the thread is there");
        assert_eq!(receiver.iter().sum::<u64>(), items * (items - 1) / 2);
        start.elapsed()
    });
    sends.join().expect("it returns").expect("we receive");
    took
}

//! The shapes of the channels in crossbeam's and tokio's words, and what two processors cost each other at the least.

use std::collections::VecDeque;
use std::hint;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use tokio::sync::{Semaphore, mpsc};

use super::{PRODUCERS, ROOM, WORKERS};

fn run_tokio<T: Send + 'static>(body: impl Future<Output = T> + Send + 'static) -> T {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(WORKERS).build();
    // On a worker, as sinew's is.
    let runtime = runtime.expect("there are threads");
    runtime.block_on(async { tokio::spawn(body).await.expect("a benchmark's body returns") })
}

/// A number on a cache line of its own.
#[repr(align(128))]
struct Line(AtomicU64);

/// Two threads that answer each other's stores, and do nothing else.
pub(super) fn bare_pingpong(trips: u64) -> Duration {
    let lines = Arc::new([Line(AtomicU64::new(0)), Line(AtomicU64::new(0))]);
    let wait = |line: &Line, number: u64| {
        while line.0.load(Ordering::Acquire) != number {
            hint::spin_loop();
        }
    };
    let other = {
        let lines = lines.clone();
        thread::spawn(move || {
            for number in 1..=trips + 1 {
                wait(&lines[0], number);
                lines[1].0.store(number, Ordering::Release);
            }
        })
    };
    lines[0].0.store(1, Ordering::Release);
    wait(&lines[1], 1); // the other thread runs
    let start = Instant::now();
    for number in 2..=trips + 1 {
        lines[0].0.store(number, Ordering::Release);
        wait(&lines[1], number);
    }
    let took = start.elapsed();
    other.join().expect("it returns");
    took
}

/// Eight threads that send, one that selects.
pub(super) fn crossbeam_select(items: u64) -> Duration {
    let start = Instant::now();
    let (senders, receivers): (Vec<_>, Vec<_>) =
        (0..PRODUCERS).map(|_| crossbeam_channel::bounded::<u64>(ROOM)).unzip();
    let threads: Vec<_> = senders
        .into_iter()
        .map(|sender| thread::spawn(move || (0..items / PRODUCERS).try_for_each(|n| sender.send(n))))
        .collect();
    let mut select = crossbeam_channel::Select::new();
    receivers.iter().for_each(|receiver| _ = select.recv(receiver));
    let (mut received, mut open) = (0, PRODUCERS);
    while open > 0 {
        let ready = select.select();
        let index = ready.index();
        match ready.recv(&receivers[index]) {
            Ok(_) => received += 1,
            Err(_) => {
                select.remove(index);
                open -= 1;
            }
        }
    }
    threads.into_iter().for_each(|thread| thread.join().expect("it returns").expect("we receive"));
    assert_eq!(received, items / PRODUCERS * PRODUCERS);
    start.elapsed()
}

pub(super) fn tokio_select(items: u64) -> Duration {
    run_tokio(async move {
        let start = Instant::now();
        let (senders, receivers): (Vec<_>, Vec<_>) =
            (0..PRODUCERS).map(|_| mpsc::channel::<u64>(ROOM)).unzip();
        for sender in senders {
            tokio::spawn(async move {
                for number in 0..items / PRODUCERS {
                    sender.send(number).await.expect("we receive");
                }
            });
        }
        let [mut a, mut b, mut c, mut d, mut e, mut f, mut g, mut h]: [mpsc::Receiver<u64>; 8] =
            receivers.try_into().expect("there are eight");
        let mut received = 0;
        loop {
            tokio::select! {
                Some(_) = a.recv() => received += 1,
                Some(_) = b.recv() => received += 1,
                Some(_) = c.recv() => received += 1,
                Some(_) = d.recv() => received += 1,
                Some(_) = e.recv() => received += 1,
                Some(_) = f.recv() => received += 1,
                Some(_) = g.recv() => received += 1,
                Some(_) = h.recv() => received += 1,
                else => break,
            }
        }
        assert_eq!(received, items / PRODUCERS * PRODUCERS);
        start.elapsed()
    })
}

/// Tokio's channels have one receiver: many who wait for one item wait for a semaphore.
pub(super) fn tokio_wake(waiters: u64, wakes: u64) -> Duration {
    run_tokio(async move {
        let queue = Arc::new((Semaphore::new(0), Mutex::new(VecDeque::new())));
        let (answer, mut answers) = mpsc::channel::<u64>(1);
        for _ in 0..waiters {
            let (queue, answer) = (queue.clone(), answer.clone());
            tokio::spawn(async move {
                while let Ok(permit) = queue.0.acquire().await {
                    permit.forget();
                    let number = queue.1.lock().expect("nobody panics").pop_front();
                    answer.send(number.expect("a permit is an item")).await.expect("somebody waits");
                }
            });
        }
        while queue.0.available_permits() > 0 {
            tokio::task::yield_now().await;
        }
        let mut wake = async |number| {
            queue.1.lock().expect("nobody panics").push_back(number);
            queue.0.add_permits(1);
            assert_eq!(answers.recv().await, Some(number));
        };
        for number in 0..waiters {
            wake(number).await; // all of them have started and wait again
        }
        let start = Instant::now();
        for number in 0..wakes {
            wake(number).await;
        }
        let took = start.elapsed();
        queue.0.close();
        took
    })
}

pub(super) fn crossbeam_thread(items: u64) -> Duration {
    let (sender, receiver) = crossbeam_channel::bounded(1024);
    let start = Instant::now();
    let sends = thread::spawn(move || (0..items).try_for_each(|number| sender.send(number)));
    assert_eq!(receiver.iter().sum::<u64>(), items * (items - 1) / 2);
    sends.join().expect("it returns").expect("we receive");
    start.elapsed()
}

//! Whatever several parties do to a channel at once could have been done one call after the other.
//!
//! Random calls by tasks, threads and futures are recorded, and an order is looked for that explains what they returned.
//! Each module has a kind of channel, and opens with its specification: what the calls give if they are done in turn.
//! Some parties are cancelled or killed in the middle of it, and some futures are dropped while they wait. Those who do not
//! get on are waited for a while; then the channel is closed.
#![cfg(not(any(loom, shuttle)))]

mod broadcast;
#[path = "../support/channels.rs"]
mod channels;
mod history;
mod oneshot;
mod ordered;
mod pool;
mod queue;

use std::pin::pin;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::task::Poll;

use channels::{Running, Way, poll_once};
use history::{Entry, Outcome, Spec, explain};
use sinew_sched::Runtime;
use sinew_test_kit::runtimes as support;
use support::{SEED, next, rounds, with_runtime};

/// What the parties of one history share.
struct Record<C> {
    clock: AtomicU64,
    /// How many calls have ended.
    calls: AtomicUsize,
    items: AtomicU32,
    go: AtomicBool,
    entries: Mutex<Vec<Entry<C>>>,
}

impl<C: Copy> Record<C> {
    fn new() -> Arc<Record<C>> {
        Arc::new(Record {
            clock: AtomicU64::new(0),
            calls: AtomicUsize::new(0),
            items: AtomicU32::new(0),
            go: AtomicBool::new(false),
            entries: Mutex::new(Vec::new()),
        })
    }

    fn stamp(&self) -> u64 {
        self.clock.fetch_add(1, Ordering::SeqCst)
    }

    /// An item that nobody has sent.
    fn item(&self) -> u32 {
        self.items.fetch_add(1, Ordering::Relaxed)
    }

    /// A call begins, whose outcome is that it was given up unless [`Calling::gave`] says another.
    fn begins(&self, who: usize, call: C) -> Calling<'_, C> {
        let began = self.stamp();
        Calling { record: self, entry: Entry { who, call, outcome: Outcome::GaveUp, began, ended: 0 } }
    }

    /// A call that is not given up.
    fn calls(&self, who: usize, call: C, does: impl FnOnce() -> Outcome) -> Outcome {
        let calling = self.begins(who, call);
        calling.gave(does())
    }

    fn note(&self, entry: Entry<C>) {
        self.entries.lock().unwrap().push(entry);
        self.calls.fetch_add(1, Ordering::Relaxed);
    }

    /// What was recorded, by the time at which it began.
    fn entries(&self) -> Vec<Entry<C>> {
        let mut entries = std::mem::take(&mut *self.entries.lock().unwrap());
        entries.sort_by_key(|entry| entry.began);
        entries
    }

    /// Waits until all are there.
    async fn start(&self, way: Way) {
        while !self.go.load(Ordering::Acquire) {
            way.pause().await;
        }
    }

    /// Lets all who wait for it go on.
    fn go(&self) {
        self.go.store(true, Ordering::Release);
    }

    /// Lets others be faster, or not.
    async fn dawdle(&self, way: Way, seed: &mut u64) {
        match next(seed) % 8 {
            0 => way.pause().await,
            pause => (0..pause * 4).for_each(|_| std::hint::spin_loop()),
        }
    }

    /// Cancels or kills some party, maybe.
    fn disturb(&self, parties: &[Running<()>], seed: &mut u64) {
        if next(seed).is_multiple_of(3) {
            (0..next(seed) % 4).for_each(|_| std::thread::yield_now());
            let party = &parties[next(seed) as usize % parties.len()];
            party.give_up(next(seed).is_multiple_of(2));
        }
    }

    /// Waits until all have ended, or nobody gets on.
    fn wait_while_busy(&self, parties: &[Running<()>]) {
        let (mut calls, mut looks) = (0, 0);
        while looks < 20 && !parties.iter().all(Running::is_finished) {
            std::thread::yield_now();
            let now = self.calls.load(Ordering::Relaxed);
            looks = if now == calls { looks + 1 } else { 0 };
            calls = now;
        }
    }
}

/// A call that has begun.
struct Calling<'a, C: Copy> {
    record: &'a Record<C>,
    entry: Entry<C>,
}

impl<C: Copy> Calling<'_, C> {
    /// The outcome of the call, which ends.
    fn gave(mut self, outcome: Outcome) -> Outcome {
        self.entry.outcome = outcome;
        outcome
    }
}

impl<C: Copy> Drop for Calling<'_, C> {
    fn drop(&mut self) {
        self.entry.ended = self.record.stamp();
        self.record.note(self.entry);
    }
}

/// What a party uses, and leaves behind in whichever way it ends.
struct Lent<T> {
    value: Option<T>,
    home: Arc<Mutex<Option<T>>>,
}

impl<T> Lent<T> {
    /// With where it is left.
    fn new(value: T) -> (Lent<T>, Arc<Mutex<Option<T>>>) {
        let home = Arc::new(Mutex::new(None));
        (Lent { value: Some(value), home: home.clone() }, home)
    }

    fn get(&mut self) -> &mut T {
        self.value.as_mut().expect("it is lent")
    }
}

impl<T> Drop for Lent<T> {
    fn drop(&mut self) {
        *self.home.lock().unwrap() = self.value.take();
    }
}

/// Polls a future, and drops it if it has to wait; none then.
async fn briefly<T>(way: Way, future: impl Future<Output = T>) -> Option<T> {
    let mut future = pin!(future);
    match poll_once(future.as_mut()) {
        Poll::Ready(output) => Some(output),
        Poll::Pending => {
            way.pause().await;
            None
        }
    }
}

/// What a call returned that says whether it was the first.
fn first(first: bool) -> Outcome {
    if first { Outcome::Done } else { Outcome::Not }
}

/// Waits for the end of a history.
type Recorded<C> = Box<dyn FnOnce() -> Vec<Entry<C>>>;

/// How many histories are recorded at the same time, each at a channel of its own.
const AT_ONCE: usize = 8;

/// Records histories, with few workers and many, and has each explained. `record` is given the number of the round.
fn are_explained<S: Spec + 'static>(
    name: &str,
    usual: usize,
    record: impl Fn(&Runtime, usize, &mut u64) -> (S, Recorded<S::Call>),
) {
    for workers in [1, 2, 8] {
        with_runtime(Runtime::builder().workers(workers).safety_nets(false), |runtime| {
            let mut seed = SEED ^ workers as u64;
            for round in 0..rounds(usual) {
                let started = seed;
                let recorded: Vec<_> = (0..AT_ONCE).map(|_| record(runtime, round, &mut seed)).collect();
                for (spec, entries) in recorded {
                    let entries = entries();
                    if explain(&spec, &entries).is_none() {
                        let lines: Vec<_> = entries.iter().map(Entry::to_string).collect();
                        panic!(
                            "no order explains this, at {name} in round {round} with {workers} workers, \
                             from the seed {started} on:\n{}",
                            lines.join("\n")
                        );
                    }
                }
            }
        });
    }
}

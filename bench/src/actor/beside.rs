//! Shapes that our actors are measured in beside those of other libraries: questions, short lives, and a flood.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use sinew_kernel::{Actor, Ctx, Flow, Reply};
use sinew_sched::{sleep, spawn};

#[cfg(feature = "actors-peers")]
use super::peers::{actix, kameo, ractor};
use super::{Idle, node};
use crate::measure::{Side, compare, median};
use crate::{Bench, Number};

pub(crate) const BENCHES: [Bench; 3] = [
    Bench {
        name: "actor_ask",
        about: "a task asks an actor and waits for the answer",
        metric: "ns_per_ask",
        numbers: &[Number { name: "questions", default: 1_000_000, small: 100 }],
        run: |bench, numbers| {
            let sides: &[Side] = &[
                ("sinew", asks),
                #[cfg(feature = "actors-peers")]
                ("ractor", ractor::asks),
                #[cfg(feature = "actors-peers")]
                ("kameo", kameo::asks),
                #[cfg(feature = "actors-peers")]
                ("actix", actix::asks),
            ];
            compare(bench, numbers[0], sides);
        },
    },
    Bench {
        name: "actor_spawn_stop",
        about: "actors are started, stopped and waited for, a thousand at a time",
        metric: "ns_per_actor",
        numbers: &[Number { name: "actors", default: 1_000_000, small: 100 }],
        run: |bench, numbers| {
            let sides: &[Side] = &[
                ("sinew", lives),
                #[cfg(feature = "actors-peers")]
                ("ractor", ractor::lives),
                #[cfg(feature = "actors-peers")]
                ("kameo", kameo::lives),
                #[cfg(feature = "actors-peers")]
                ("actix", actix::lives),
            ];
            compare(bench, numbers[0], sides);
        },
    },
    Bench {
        name: "flooded",
        about: "tasks keep an actor's mailbox of 1,024 full; how long messages to quiet actors wait meanwhile",
        metric: "p99_us",
        numbers: &[
            Number { name: "flooding tasks", default: 4, small: 2 },
            Number { name: "quiet actors", default: 1_000, small: 10 },
            Number { name: "messages to them, 1 a ms", default: 1_000, small: 10 },
        ],
        run: |bench, numbers| {
            let flood = Flood { tasks: numbers[0], quiet: numbers[1], messages: numbers[2] };
            let sides: &[(&str, Flooded)] = &[
                ("sinew", flooded),
                #[cfg(feature = "actors-peers")]
                ("ractor", ractor::flooded),
                #[cfg(feature = "actors-peers")]
                ("kameo", kameo::flooded),
                #[cfg(feature = "actors-peers")]
                ("actix", actix::flooded),
            ];
            compare_floods(bench, &flood, sides);
        },
    },
];

/// How many actors of `actor_spawn_stop` live at once.
pub(super) const WAVE: u64 = 1_000;

/// Between two messages to quiet actors.
pub(super) const PAUSE: Duration = Duration::from_millis(1);

/// The numbers of `flooded`.
#[derive(Clone, Copy)]
pub(super) struct Flood {
    pub(super) tasks: u64,
    pub(super) quiet: u64,
    pub(super) messages: u64,
}

/// One program of `flooded`: it returns when the record has all waits.
type Flooded = fn(Flood, Arc<Record>);

/// What is seen of a flood.
#[derive(Default)]
pub(super) struct Record {
    waits: Mutex<Vec<Duration>>,
    handled: AtomicU64,
    over: AtomicBool,
}

impl Record {
    /// The flooded actor has handled a message.
    pub(super) fn handled(&self) {
        self.handled.fetch_add(1, Ordering::Relaxed);
    }

    /// A quiet actor handles a message that was sent then.
    pub(super) fn waited_since(&self, sent: Instant) {
        let wait = sent.elapsed();
        self.waits.lock().unwrap_or_else(PoisonError::into_inner).push(wait);
    }

    /// All messages to quiet actors have come; the flood goes on until then.
    pub(super) fn is_complete(&self, flood: Flood) -> bool {
        let arrived = self.waits.lock().unwrap_or_else(PoisonError::into_inner).len() as u64;
        let complete = arrived >= flood.messages;
        self.over.store(complete, Ordering::Relaxed);
        complete
    }

    pub(super) fn is_over(&self) -> bool {
        self.over.load(Ordering::Relaxed)
    }
}

/// The sides take turns; the median of three counts. The second figure says how strong the flood was: who handles little of it
/// has an easy time.
fn compare_floods(bench: &Bench, flood: &Flood, sides: &[(&str, Flooded)]) {
    let mut figures = vec![(Vec::new(), Vec::new()); sides.len()];
    for _ in 0..3 {
        for ((_, run), (waits, rates)) in sides.iter().zip(&mut figures) {
            let record = Arc::new(Record::default());
            let start = Instant::now();
            run(*flood, record.clone());
            rates.push(record.handled.load(Ordering::Relaxed) as f64 / start.elapsed().as_secs_f64());
            let mut all = record.waits.lock().unwrap_or_else(PoisonError::into_inner);
            all.sort_unstable();
            waits.push(all[(all.len() * 99 / 100).min(all.len() - 1)].as_secs_f64() * 1e6);
        }
    }
    for ((program, _), (waits, rates)) in sides.iter().zip(figures) {
        println!("RESULT {program} {} {} {:.2}", bench.name, bench.metric, median(waits));
        println!("RESULT {program} {} flood_per_s {:.0}", bench.name, median(rates));
    }
}

struct Echo(u64);

impl Actor for Echo {
    type Msg = Reply<u64>;

    fn handle(&mut self, reply: Reply<u64>, _: &mut Ctx<Reply<u64>>) -> Flow {
        self.0 += 1;
        reply.send(self.0);
        Flow::Continue
    }
}

fn asks(n: u64) -> Duration {
    let node = node();
    let elapsed = node.run({
        let node = *node;
        move || {
            let echo = node.spawn(Echo(0)).expect("there is room");
            let start = Instant::now();
            for asked in 1..=n {
                assert_eq!(echo.ask(|reply| reply).expect("it answers"), asked);
            }
            start.elapsed()
        }
    });
    elapsed.expect("it returns")
}

fn lives(n: u64) -> Duration {
    let node = node();
    let elapsed = node.run({
        let node = *node;
        move || {
            let start = Instant::now();
            let mut wave = Vec::with_capacity(WAVE as usize);
            let mut left = n;
            while left > 0 {
                for _ in 0..left.min(WAVE) {
                    let actor = node.spawn(Idle([left; 2])).expect("there is room");
                    actor.stop();
                    wave.push(actor);
                }
                left -= wave.len() as u64;
                wave.drain(..).for_each(|actor| drop(actor.join().expect("a task may wait")));
            }
            start.elapsed()
        }
    });
    elapsed.expect("it returns")
}

struct Victim(Arc<Record>);

impl Actor for Victim {
    type Msg = ();

    fn handle(&mut self, (): (), _: &mut Ctx<()>) -> Flow {
        self.0.handled();
        Flow::Continue
    }
}

struct Quiet(Arc<Record>);

impl Actor for Quiet {
    type Msg = Instant;

    fn handle(&mut self, sent: Instant, _: &mut Ctx<Instant>) -> Flow {
        self.0.waited_since(sent);
        Flow::Continue
    }
}

fn flooded(flood: Flood, record: Arc<Record>) {
    let node = node();
    let returned = node.run({
        let node = *node;
        move || {
            let victim = node.spawn(Victim(record.clone())).expect("there is room");
            let quiet: Vec<_> =
                (0..flood.quiet).map(|_| node.spawn(Quiet(record.clone())).expect("there is room")).collect();
            let flooding: Vec<_> = (0..flood.tasks)
                .map(|_| {
                    let (victim, record) = (victim.clone(), record.clone());
                    spawn(move || {
                        while !record.is_over() {
                            victim.tell(()).expect("it lives");
                        }
                    })
                })
                .collect();
            for n in 0..flood.messages {
                sleep(PAUSE);
                quiet[(n % flood.quiet) as usize].tell(Instant::now()).expect("it lives");
            }
            while !record.is_complete(flood) {
                sleep(PAUSE);
            }
            flooding.into_iter().for_each(|task| task.join().expect("it returns"));
        }
    });
    returned.expect("it returns");
}

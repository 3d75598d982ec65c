//! Actors that send each other messages, as the peers' programs do.

pub(crate) mod beside;
#[cfg(feature = "actors-peers")]
mod peers;

use std::time::{Duration, Instant};

use sinew_chan::chan::{Sender, bounded};
use sinew_kernel::{Actor, ActorRef, ChildSpec, Ctx, Flow, Node, Strategy};
use sinew_sched::{Runtime, spawn};

use crate::measure::{occupied_bytes, report, report_as};
use crate::{Bench, Number};

pub(crate) const BENCHES: [Bench; 6] = [
    Bench {
        name: "actor_pingpong",
        about: "two actors exchange a message",
        metric: "ns_per_roundtrip",
        numbers: &[Number { name: "round trips", default: 1_000_000, small: 100 }],
        run: |bench, numbers| {
            let elapsed = ring(2, 2 * numbers[0]);
            report("sinew", bench, elapsed / numbers[0] as f64);
        },
    },
    Bench {
        name: "actor_ring",
        about: "a message goes round a ring of actors",
        metric: "ns_per_hop",
        numbers: &[
            Number { name: "actors", default: 1000, small: 10 },
            Number { name: "hops", default: 1_000_000, small: 100 },
        ],
        run: |bench, numbers| {
            let elapsed = ring(numbers[0], numbers[1]);
            report("sinew", bench, elapsed / numbers[1] as f64);
        },
    },
    Bench {
        name: "actor_fanin",
        about: "tasks send to one actor, whose mailbox of 1,024 has them wait",
        metric: "ns_per_msg",
        numbers: &[
            Number { name: "producers", default: 8, small: 2 },
            Number { name: "messages each", default: 500_000, small: 100 },
        ],
        run: |bench, numbers| {
            let (producers, each) = (numbers[0], numbers[1]);
            let node = node();
            let (done, end) = bounded(1);
            let elapsed = node.run({
                let node = *node;
                move || {
                    let sink = node.spawn(Sink { left: producers * each, done }).expect("there is room");
                    let start = Instant::now();
                    for _ in 0..producers {
                        let sink = sink.clone();
                        spawn(move || (0..each).for_each(|n| sink.tell(n).expect("it lives"))).detach();
                    }
                    end.recv().expect("it ends");
                    start.elapsed().as_nanos() as f64
                }
            });
            report("sinew", bench, elapsed.expect("it returns") / (producers * each) as f64);
        },
    },
    Bench {
        name: "skynet_actor",
        about: "a tree of actors, ten children each, sums up its leaves",
        metric: "ns_per_actor",
        numbers: &[Number { name: "leaves", default: 1_000_000, small: 100 }],
        run: |bench, numbers| {
            let leaves = crate::task::power_of_ten(numbers[0]);
            let node = node();
            let elapsed = node.run({
                let node = *node;
                move || {
                    let (done, end) = bounded(1);
                    let start = Instant::now();
                    let root =
                        Skynet { number: 0, size: leaves, parent: Parent::Root(done), sum: 0, left: 10 };
                    node.spawn(root).expect("there is room");
                    assert_eq!(end.recv().expect("it ends"), leaves * (leaves - 1) / 2);
                    start.elapsed().as_nanos() as f64
                }
            });
            let mut actors = 0;
            let mut level = leaves;
            while level > 0 {
                actors += level;
                level /= 10;
            }
            report("sinew", bench, elapsed.expect("it returns") / actors as f64);
        },
    },
    Bench {
        name: "idle_mem_actor",
        about: "actors that wait for messages, each with a mailbox and 16 bytes of state",
        metric: "rss_bytes_each",
        numbers: &[Number { name: "actors", default: 1_000_000, small: 1000 }],
        run: |bench, numbers| {
            let count = numbers[0] as usize;
            let node = node();
            let mut actors = Vec::with_capacity(count);
            let before = occupied_bytes();
            actors.extend((0..count).map(|n| node.spawn(Idle([n as u64; 2])).expect("there is room")));
            std::thread::sleep(std::time::Duration::from_secs(1));
            let used = occupied_bytes().saturating_sub(before);
            report("sinew", bench, used as f64 / count as f64);
        },
    },
    Bench {
        name: "restart",
        about: "an actor panics at each message, and its supervisor starts another, which is sent the next",
        metric: "restarts_per_s",
        numbers: &[Number { name: "restarts", default: 20_000, small: 100 }],
        run: |bench, numbers| {
            let restarts = numbers[0];
            std::panic::set_hook(Box::new(|_| {}));
            let node = node();
            let elapsed = node.run({
                let node = *node;
                move || {
                    let (next, children) = bounded(1);
                    let child = ChildSpec::new("crasher", move || Crasher(next.clone()));
                    let supervisor = node.supervisor(Strategy::OneForOne);
                    let supervisor = supervisor.max_restarts(u32::MAX, Duration::from_secs(1)).child(child);
                    supervisor.spawn().expect("there is room");
                    let mut child: ActorRef<()> = children.recv().expect("it starts");
                    let start = Instant::now();
                    for _ in 0..restarts {
                        child.tell(()).expect("it lives");
                        child = children.recv().expect("it is restarted");
                    }
                    start.elapsed().as_secs_f64()
                }
            });
            let rate = restarts as f64 / elapsed.expect("it returns");
            report_as("sinew", &format!("restart_{restarts}"), bench.metric, rate);
        },
    },
];

fn node() -> Node {
    Node::builder().runtime(Runtime::builder().workers(2)).build().expect("the system can start a thread")
}

/// A member of a ring of two or more; the token ends at zero.
struct Member {
    next: Option<ActorRef<Msg>>,
    done: Sender<()>,
}

enum Msg {
    Next(ActorRef<Msg>),
    Token(u64),
}

impl Actor for Member {
    type Msg = Msg;

    fn handle(&mut self, msg: Msg, _: &mut Ctx<Msg>) -> Flow {
        match msg {
            Msg::Next(next) => self.next = Some(next),
            Msg::Token(0) => drop(self.done.send(())),
            Msg::Token(hops) => {
                let next = self.next.as_ref().expect("the ring is closed");
                next.tell(Msg::Token(hops - 1)).expect("it lives");
            }
        }
        Flow::Continue
    }
}

/// How many nanoseconds a token takes for so many hops round so many actors.
fn ring(members: u64, hops: u64) -> f64 {
    let node = node();
    let elapsed = node.run({
        let node = *node;
        move || {
            let (done, end) = bounded(1);
            let spawn = |next| node.spawn(Member { next, done: done.clone() }).expect("there is room");
            let first = spawn(None);
            let last = (1..members).fold(first.clone(), |last, _| spawn(Some(last)));
            first.tell(Msg::Next(last)).expect("it lives");
            let start = Instant::now();
            first.tell(Msg::Token(hops)).expect("it lives");
            end.recv().expect("it ends");
            start.elapsed().as_nanos() as f64
        }
    });
    elapsed.expect("it returns")
}

struct Sink {
    left: u64,
    done: Sender<()>,
}

impl Actor for Sink {
    type Msg = u64;

    fn handle(&mut self, _: u64, _: &mut Ctx<u64>) -> Flow {
        self.left -= 1;
        if self.left == 0 {
            self.done.send(()).expect("somebody waits");
        }
        Flow::Continue
    }
}

struct Skynet {
    number: u64,
    size: u64,
    parent: Parent,
    sum: u64,
    left: u32,
}

enum Parent {
    Actor(ActorRef<u64>),
    Root(Sender<u64>),
}

impl Skynet {
    fn tell_parent(&self, sum: u64) -> Flow {
        match &self.parent {
            Parent::Actor(parent) => parent.tell(sum).expect("it waits for this"),
            Parent::Root(done) => done.send(sum).expect("somebody waits"),
        }
        Flow::Stop
    }
}

impl Actor for Skynet {
    type Msg = u64;

    fn started(&mut self, ctx: &mut Ctx<u64>) -> Flow {
        if self.size == 1 {
            return self.tell_parent(self.number);
        }
        let size = self.size / 10;
        for n in 0..10 {
            let (number, parent) = (self.number + n * size, Parent::Actor(ctx.me()));
            ctx.spawn(Skynet { number, size, parent, sum: 0, left: 10 }).expect("there is room");
        }
        Flow::Continue
    }

    fn handle(&mut self, sum: u64, _: &mut Ctx<u64>) -> Flow {
        self.sum += sum;
        self.left -= 1;
        if self.left == 0 { self.tell_parent(self.sum) } else { Flow::Continue }
    }
}

/// Panics at each message.
struct Crasher(Sender<ActorRef<()>>);

impl Actor for Crasher {
    type Msg = ();

    fn started(&mut self, ctx: &mut Ctx<()>) -> Flow {
        self.0.send(ctx.me()).expect("somebody waits");
        Flow::Continue
    }

    fn handle(&mut self, (): (), _: &mut Ctx<()>) -> Flow {
        panic!("crash")
    }
}

struct Idle(#[allow(dead_code, reason = "it is the state")] [u64; 2]);

impl Actor for Idle {
    type Msg = u64;

    fn handle(&mut self, _: u64, _: &mut Ctx<u64>) -> Flow {
        Flow::Continue
    }
}

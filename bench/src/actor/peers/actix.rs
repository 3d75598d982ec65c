//! actix, all actors on one thread, as by default. `try_send` respects a mailbox's bound and does not wait, `send` waits for the
//! answer too; so who floods tries, and lets others run when there is no room.

use std::sync::Arc;
use std::time::{Duration, Instant};

use actix::prelude::*;
use tokio::sync::mpsc;

use crate::actor::beside::{Flood, PAUSE, Record, WAVE};

struct Echo(u64);

#[derive(Message)]
#[rtype(result = "u64")]
struct Ask;

impl Actor for Echo {
    type Context = Context<Self>;
}

impl Handler<Ask> for Echo {
    type Result = u64;

    fn handle(&mut self, _: Ask, _: &mut Context<Self>) -> u64 {
        self.0 += 1;
        self.0
    }
}

pub(crate) fn asks(n: u64) -> Duration {
    System::new().block_on(async move {
        let echo = Echo(0).start();
        let start = Instant::now();
        for asked in 1..=n {
            assert_eq!(echo.send(Ask).await.expect("it answers"), asked);
        }
        start.elapsed()
    })
}

struct Idle {
    #[allow(dead_code, reason = "it is the state")]
    state: [u64; 2],
    ended: mpsc::UnboundedSender<()>,
}

#[derive(Message)]
#[rtype(result = "()")]
struct Stop;

impl Actor for Idle {
    type Context = Context<Self>;

    fn stopped(&mut self, _: &mut Context<Self>) {
        self.ended.send(()).expect("somebody waits");
    }
}

impl Handler<Stop> for Idle {
    type Result = ();

    fn handle(&mut self, _: Stop, ctx: &mut Context<Self>) {
        ctx.stop();
    }
}

pub(crate) fn lives(n: u64) -> Duration {
    System::new().block_on(async move {
        let (ended, mut ends) = mpsc::unbounded_channel();
        let start = Instant::now();
        let mut left = n;
        while left > 0 {
            let wave = left.min(WAVE);
            for _ in 0..wave {
                Idle { state: [left; 2], ended: ended.clone() }.start().do_send(Stop);
            }
            for _ in 0..wave {
                ends.recv().await.expect("it ends");
            }
            left -= wave;
        }
        start.elapsed()
    })
}

struct Victim(Arc<Record>);

#[derive(Message)]
#[rtype(result = "()")]
struct Item;

impl Actor for Victim {
    type Context = Context<Self>;

    fn started(&mut self, ctx: &mut Context<Self>) {
        ctx.set_mailbox_capacity(1024);
    }
}

impl Handler<Item> for Victim {
    type Result = ();

    fn handle(&mut self, _: Item, _: &mut Context<Self>) {
        self.0.handled();
    }
}

struct Quiet(Arc<Record>);

#[derive(Message)]
#[rtype(result = "()")]
struct Sent(Instant);

impl Actor for Quiet {
    type Context = Context<Self>;
}

impl Handler<Sent> for Quiet {
    type Result = ();

    fn handle(&mut self, sent: Sent, _: &mut Context<Self>) {
        self.0.waited_since(sent.0);
    }
}

pub(crate) fn flooded(flood: Flood, record: Arc<Record>) {
    System::new().block_on(async move {
        let victim = Victim(record.clone()).start();
        let quiet: Vec<_> = (0..flood.quiet).map(|_| Quiet(record.clone()).start()).collect();
        for _ in 0..flood.tasks {
            let (victim, record) = (victim.clone(), record.clone());
            actix::spawn(async move {
                while !record.is_over() {
                    if victim.try_send(Item).is_err() {
                        tokio::task::yield_now().await;
                    }
                }
            });
        }
        for n in 0..flood.messages {
            tokio::time::sleep(PAUSE).await;
            quiet[(n % flood.quiet) as usize].do_send(Sent(Instant::now()));
        }
        while !record.is_complete(flood) {
            tokio::time::sleep(PAUSE).await;
        }
    });
}

//! kameo, with its default mailbox of 64, and one of 1,024 for the flooded actor.

use std::sync::Arc;
use std::time::{Duration, Instant};

use kameo::Actor;
use kameo::actor::Spawn;
use kameo::mailbox::bounded;
use kameo::message::{Context, Message};

use super::on_tokio;
use crate::actor::beside::{Flood, PAUSE, Record, WAVE};

#[derive(Actor)]
struct Echo(u64);

struct Ask;

impl Message<Ask> for Echo {
    type Reply = u64;

    async fn handle(&mut self, _: Ask, _: &mut Context<Self, u64>) -> u64 {
        self.0 += 1;
        self.0
    }
}

pub(crate) fn asks(n: u64) -> Duration {
    on_tokio(async move {
        let echo = Echo::spawn(Echo(0));
        echo.wait_for_startup().await;
        let start = Instant::now();
        for asked in 1..=n {
            assert_eq!(echo.ask(Ask).await.expect("it answers"), asked);
        }
        start.elapsed()
    })
}

#[derive(Actor)]
struct Idle(#[allow(dead_code, reason = "it is the state")] [u64; 2]);

pub(crate) fn lives(n: u64) -> Duration {
    on_tokio(async move {
        let start = Instant::now();
        let mut wave = Vec::with_capacity(WAVE as usize);
        let mut left = n;
        while left > 0 {
            for _ in 0..left.min(WAVE) {
                let actor = Idle::spawn(Idle([left; 2]));
                actor.stop_gracefully().await.expect("it lives");
                wave.push(actor);
            }
            left -= wave.len() as u64;
            for actor in wave.drain(..) {
                actor.wait_for_shutdown().await;
            }
        }
        start.elapsed()
    })
}

#[derive(Actor)]
struct Victim(Arc<Record>);

struct Item;

impl Message<Item> for Victim {
    type Reply = ();

    async fn handle(&mut self, _: Item, _: &mut Context<Self, ()>) {
        self.0.handled();
    }
}

#[derive(Actor)]
struct Quiet(Arc<Record>);

impl Message<Instant> for Quiet {
    type Reply = ();

    async fn handle(&mut self, sent: Instant, _: &mut Context<Self, ()>) {
        self.0.waited_since(sent);
    }
}

pub(crate) fn flooded(flood: Flood, record: Arc<Record>) {
    on_tokio(async move {
        let victim = Victim::spawn_with_mailbox(Victim(record.clone()), bounded(1024));
        let quiet: Vec<_> = (0..flood.quiet).map(|_| Quiet::spawn(Quiet(record.clone()))).collect();
        for actor in &quiet {
            actor.wait_for_startup().await;
        }
        for _ in 0..flood.tasks {
            let (victim, record) = (victim.clone(), record.clone());
            tokio::spawn(async move {
                while !record.is_over() {
                    victim.tell(Item).await.expect("it lives");
                }
            });
        }
        for n in 0..flood.messages {
            tokio::time::sleep(PAUSE).await;
            quiet[(n % flood.quiet) as usize].tell(Instant::now()).await.expect("it lives");
        }
        while !record.is_complete(flood) {
            tokio::time::sleep(PAUSE).await;
        }
    });
}

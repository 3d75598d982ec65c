//! ractor. Its mailboxes are unbounded: to bound one, its senders and its actor share a semaphore.

use std::sync::Arc;
use std::time::{Duration, Instant};

use ractor::{Actor, ActorProcessingErr, ActorRef, RpcReplyPort};
use tokio::sync::Semaphore;

use super::on_tokio;
use crate::actor::beside::{Flood, PAUSE, Record, WAVE};

type Outcome<T = ()> = Result<T, ActorProcessingErr>;

struct Echo;

impl Actor for Echo {
    type Msg = RpcReplyPort<u64>;
    type State = u64;
    type Arguments = ();

    async fn pre_start(&self, _: ActorRef<Self::Msg>, (): ()) -> Outcome<u64> {
        Ok(0)
    }

    async fn handle(&self, _: ActorRef<Self::Msg>, reply: Self::Msg, asked: &mut u64) -> Outcome {
        *asked += 1;
        Ok(reply.send(*asked)?)
    }
}

pub(crate) fn asks(n: u64) -> Duration {
    on_tokio(async move {
        let (echo, _) = Actor::spawn(None, Echo, ()).await.expect("it starts");
        let start = Instant::now();
        for asked in 1..=n {
            assert_eq!(ractor::call!(echo, |reply| reply).expect("it answers"), asked);
        }
        start.elapsed()
    })
}

struct Idle;

impl Actor for Idle {
    type Msg = u64;
    type State = [u64; 2];
    type Arguments = [u64; 2];

    async fn pre_start(&self, _: ActorRef<u64>, state: [u64; 2]) -> Outcome<[u64; 2]> {
        Ok(state)
    }
}

pub(crate) fn lives(n: u64) -> Duration {
    on_tokio(async move {
        let start = Instant::now();
        let mut wave = Vec::with_capacity(WAVE as usize);
        let mut left = n;
        while left > 0 {
            for _ in 0..left.min(WAVE) {
                let (actor, ended) = Actor::spawn(None, Idle, [left; 2]).await.expect("it starts");
                actor.stop(None);
                wave.push(ended);
            }
            left -= wave.len() as u64;
            for ended in wave.drain(..) {
                ended.await.expect("it ends");
            }
        }
        start.elapsed()
    })
}

struct Victim;

impl Actor for Victim {
    type Msg = ();
    type State = (Arc<Record>, Arc<Semaphore>);
    type Arguments = Self::State;

    async fn pre_start(&self, _: ActorRef<()>, state: Self::State) -> Outcome<Self::State> {
        Ok(state)
    }

    async fn handle(&self, _: ActorRef<()>, (): (), (record, room): &mut Self::State) -> Outcome {
        room.add_permits(1);
        record.handled();
        Ok(())
    }
}

struct Quiet;

impl Actor for Quiet {
    type Msg = Instant;
    type State = Arc<Record>;
    type Arguments = Arc<Record>;

    async fn pre_start(&self, _: ActorRef<Instant>, record: Arc<Record>) -> Outcome<Arc<Record>> {
        Ok(record)
    }

    async fn handle(&self, _: ActorRef<Instant>, sent: Instant, record: &mut Arc<Record>) -> Outcome {
        record.waited_since(sent);
        Ok(())
    }
}

pub(crate) fn flooded(flood: Flood, record: Arc<Record>) {
    on_tokio(async move {
        let room = Arc::new(Semaphore::new(1024));
        let victim = Actor::spawn(None, Victim, (record.clone(), room.clone())).await.expect("it starts").0;
        let mut quiet = Vec::new();
        for _ in 0..flood.quiet {
            quiet.push(Actor::spawn(None, Quiet, record.clone()).await.expect("it starts").0);
        }
        for _ in 0..flood.tasks {
            let (victim, room, record) = (victim.clone(), room.clone(), record.clone());
            tokio::spawn(async move {
                while !record.is_over() {
                    room.acquire().await.expect("it is never closed").forget();
                    victim.cast(()).expect("it lives");
                }
            });
        }
        for n in 0..flood.messages {
            tokio::time::sleep(PAUSE).await;
            quiet[(n % flood.quiet) as usize].cast(Instant::now()).expect("it lives");
        }
        while !record.is_complete(flood) {
            tokio::time::sleep(PAUSE).await;
        }
    });
}

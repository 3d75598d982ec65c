//! Two actors send a ball back and forth.
//!
//! `cargo run -p sinew --example ping_pong`

use sinew::actor::{Actor, ActorRef, Ctx, Flow, Node};

/// A ball, with the player that hit it.
struct Ball {
    hits_left: u32,
    from: ActorRef<Ball>,
}

struct Player {
    name: &'static str,
    hits: u32,
}

impl Actor for Player {
    type Msg = Ball;

    fn handle(&mut self, ball: Ball, ctx: &mut Ctx<Ball>) -> Flow {
        self.hits += 1;
        if self.hits <= 2 {
            println!("{} hits the ball, {} to go", self.name, ball.hits_left);
        }
        let next = Ball { hits_left: ball.hits_left.saturating_sub(1), from: ctx.me() };
        // The last ball finds that the other has left: then it comes back, with the reason.
        match ball.from.tell(next) {
            Ok(()) if ball.hits_left > 0 => Flow::Continue,
            _ => Flow::Stop,
        }
    }

    fn stopping(&mut self, reason: &sinew::actor::ExitReason, _: &mut Ctx<Ball>) {
        println!("{} leaves after {} hits: {reason}", self.name, self.hits);
    }
}

fn main() {
    let node = Node::new();
    let ping = node.spawn(Player { name: "ping", hits: 0 }).expect("there is room");
    let pong = node.spawn(Player { name: "pong", hits: 0 }).expect("there is room");

    ping.tell(Ball { hits_left: 100_000, from: pong.clone() }).expect("ping has just started");

    for player in [ping, pong] {
        let reason = player.join().expect("the main thread may wait");
        assert_eq!(reason, sinew::actor::ExitReason::Normal);
    }
    println!("{} actors are left", node.actor_count());
}

//! A node inside the loop of another program: actors run, and time passes, only when the loop says
//! so.
//!
//! `cargo run -p sinew --example embedded`

use std::time::Duration;

use sinew::actor::{Actor, Ctx, Flow, Node, Reply};
use sinew::task::Runtime;
use sinew::time::{ManualClock, sleep};

const FRAME: Duration = Duration::from_millis(16);

/// A torch of a game: it is lit for a while, and says how often that was.
#[derive(Default)]
struct Torch {
    lit: u32,
}

enum Msg {
    Light(Duration),
    HowOften(Reply<u32>),
}

impl Actor for Torch {
    type Msg = Msg;

    fn handle(&mut self, msg: Msg, ctx: &mut Ctx<Msg>) -> Flow {
        match msg {
            Msg::Light(time) => {
                self.lit += 1;
                println!("  {} is lit", ctx.id());
                sleep(time); // frames go on meanwhile
                println!("  {} is out", ctx.id());
            }
            Msg::HowOften(reply) => reply.send(self.lit),
        }
        Flow::Continue
    }
}

fn main() {
    let clock = ManualClock::new();
    let node = Node::builder()
        .runtime(Runtime::builder().manual_clock(&clock))
        .build_current_thread()
        .expect("a runtime needs a few descriptors");
    let torches = [(); 2].map(|()| node.spawn(Torch::default()).expect("there is room"));

    let mut turns = 0;
    for frame in 0..10_u32 {
        println!("frame {frame}");
        if frame % 4 == 0 {
            torches[0].try_tell(Msg::Light(2 * FRAME)).expect("it lives, and has room");
        }
        if frame == 1 {
            torches[1].try_tell(Msg::Light(5 * FRAME)).expect("it lives, and has room");
        }
        // A few turns of whatever is ready, and no more: a frame has other things to do.
        turns += (0..100).take_while(|_| node.step()).count();
        clock.advance(FRAME);
    }
    node.run_until_idle();

    // A question waits for its answer, so a task of the node asks it.
    let lit = torches.map(|torch| {
        let answer = node.runtime().run(move || torch.ask(Msg::HowOften));
        answer.expect("the task returns").expect("the torch answers")
    });
    println!("lit {lit:?} times, in {turns} turns");
    assert_eq!(lit, [3, 1]);
}

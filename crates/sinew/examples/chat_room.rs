//! A chat room: every member of a group receives the messages to the group. A guest that leaves or
//! crashes is removed from it automatically.
//!
//! `cargo run -p sinew --example chat_room`

use std::sync::mpsc::{Sender, channel};

use sinew::actor::{Actor, Ctx, Flow, Node};

const ROOM: &str = "room";

struct Guest {
    name: &'static str,
    /// Where its screen is.
    screen: Sender<String>,
}

#[derive(Clone)]
struct Line {
    from: &'static str,
    text: &'static str,
}

impl Guest {
    fn show(&self, text: String) {
        self.screen
            .send(format!("[{}'s screen] {text}", self.name))
            .expect("the screen is there until the end");
    }
}

impl Actor for Guest {
    type Msg = Line;

    fn started(&mut self, ctx: &mut Ctx<Line>) -> Flow {
        ctx.join_group(ROOM).expect("it is a fine name");
        self.show("you are in".to_owned());
        Flow::Continue
    }

    fn handle(&mut self, line: Line, ctx: &mut Ctx<Line>) -> Flow {
        match line {
            Line { from, text: "bye" } if from == self.name => return Flow::Stop,
            Line { from, text } => self.show(format!("{from}: {text}")),
        }
        if line.text.contains(self.name) {
            let _ = ctx.node().group(ROOM).tell_all(Line { from: self.name, text: "yes?" });
        }
        Flow::Continue
    }
}

fn main() {
    let node = Node::new();
    let (screen, screens) = channel();
    let show = |lines: usize| screens.iter().take(lines).for_each(|line| println!("{line}"));

    let guests = ["ann", "bob", "cleo"].map(|name| {
        let guest = node.spawn(Guest { name, screen: screen.clone() }).expect("there is room");
        show(1);
        guest
    });
    let room = node.group(ROOM);

    let heard = room.tell_all(Line { from: "ann", text: "hello, bob" });
    show(heard.accepted + 3); // bob answers to all three

    guests[2].tell(Line { from: "cleo", text: "bye" }).expect("she is there");
    guests[2].join().expect("the main thread may wait");
    println!("cleo has left, {} are still there", room.members().len());

    let heard = room.tell_all(Line { from: "bob", text: "she never says much" });
    show(heard.accepted);
    assert_eq!((heard.accepted, heard.refused), (2, 0));
}

//! What durable state costs an actor: a `save` for each message, a `save_then`, and a `save_many`
//! for a hundred of them.
//!
//! `cargo run --release -p sinew --example saves` measures the disk of the directory that it
//! runs in.

use std::time::Instant;

use sinew::actor::{Actor, Ctx, Flow, Node};
use sinew::store::{Store, StoreError};

const VALUES: u32 = 1_000;
const TOGETHER: usize = 100;

/// How the actor saves what it is sent.
#[derive(Clone, Copy, PartialEq)]
enum Way {
    Save,
    SaveThen,
    SaveMany,
}

struct Saves {
    way: Way,
    /// Values that are not saved yet.
    unsaved: Vec<u32>,
    saved: u32,
}

enum Msg {
    Set(u32),
    Saved(Result<(), StoreError>),
}

impl Actor for Saves {
    type Msg = Msg;

    fn handle(&mut self, msg: Msg, ctx: &mut Ctx<Msg>) -> Flow {
        match msg {
            Msg::Set(n) => match self.way {
                Way::Save => {
                    ctx.state().save(&key(n), n.to_le_bytes()).expect("the disk is fine");
                    self.saved += 1;
                }
                Way::SaveThen => {
                    ctx.save_then(&key(n), n.to_le_bytes(), Msg::Saved).expect("the store is open");
                }
                Way::SaveMany => {
                    self.unsaved.push(n);
                    if self.unsaved.len() == TOGETHER {
                        let values = self.unsaved.drain(..).map(|n| (key(n), n.to_le_bytes()));
                        ctx.state().save_many(values).expect("the disk is fine");
                        self.saved += TOGETHER as u32;
                    }
                }
            },
            Msg::Saved(saved) => {
                saved.expect("the disk is fine");
                self.saved += 1;
            }
        }
        if self.saved == VALUES { Flow::Stop } else { Flow::Continue }
    }
}

fn key(n: u32) -> String {
    format!("key {}", n % 500)
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let path = std::env::current_dir()?.join(format!("saves-{}.state", std::process::id()));
    let node = Node::builder().store(Store::open(&path)?).build()?;
    for (name, way) in [("save", Way::Save), ("save_then", Way::SaveThen), ("save_many", Way::SaveMany)] {
        let before = node.store().stats().commits;
        let start = Instant::now();
        let actor = node.actor().name(name).spawn(Saves { way, unsaved: Vec::new(), saved: 0 })?;
        for n in 0..VALUES {
            actor.tell(Msg::Set(n))?;
        }
        actor.join()?;
        let rate = f64::from(VALUES) / start.elapsed().as_secs_f64();
        let commits = node.store().stats().commits - before;
        println!("{name:9}: {rate:6.0} values a second, {VALUES} values in {commits} commits");
    }
    drop(node);
    std::fs::remove_file(path)?;
    Ok(())
}

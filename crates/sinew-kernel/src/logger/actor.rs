//! The log actor: lines as messages, for who has only those.
//!
//! Subscribers are told when it is started and when it is named, which is foreign code: so neither is done under the lock of who it
//! is. Of those who start one at once the first to say so under the lock has it named, and the others end theirs.
//!
//! Model: `log_actor_is_one`.

use sinew_core::payload::{Log as LogPayload, SystemPayload};
use sinew_core::{ActorId, Kind, Level};

use crate::actor::Flow;
use crate::ctx::Ctx;
use crate::error::SpawnError;
use crate::mailbox::Policy;
use crate::message::Message;
use crate::shared::{Inner, NodeRef};

/// The log actor, which is started if there is none.
pub(super) fn get(node: &'static Inner) -> Result<ActorId, SpawnError> {
    let alive = |id: &ActorId| node.table.has(*id);
    let found = node.log.actor.lock().filter(alive);
    if let Some(id) = found {
        return Ok(id);
    }
    // It never waits, so it is not blocked while its mailbox fills.
    let options = NodeRef(node).actor().policy(Policy::DropNewest);
    let started = options.spawn_raw(0, |dropped, message, ctx| {
        say(message, ctx);
        say_dropped(dropped, ctx);
        Flow::Continue
    })?;
    let id = started.id();
    let mut actor = node.log.actor.lock();
    let first = actor.filter(alive);
    *actor = first.or(Some(id));
    drop(actor);
    if let Some(first) = first {
        started.kill();
        return Ok(first);
    }
    if let Err(error) = NodeRef(node).register("log", id) {
        node.log.actor.lock().take_if(|actor| *actor == id);
        started.kill();
        return Err(error.into());
    }
    Ok(id)
}

fn say(message: &Message, ctx: &Ctx) {
    let node = ctx.node().0;
    if message.kind != Kind::LOG {
        return;
    }
    // A value carries the whole text; the byte layout, that of guests, at most
    // `LogPayload::MAX_TEXT` bytes.
    let line = message.payload.downcast_ref::<LogPayload>().cloned();
    match line.map_or_else(|| LogPayload::decode(message.payload.bytes()), Ok) {
        Ok(LogPayload { level, source, text }) => {
            // Who sent it is known; who says so is not, unless nobody is known.
            let source = if message.source.is_nobody() { source } else { message.source };
            let task = node.table.get(source).and_then(|cell| node.handle.dump_task(cell.head().task()));
            let target = task.map_or("", |task| task.type_name);
            node.log.say(level, source, target, text);
        }
        Err(error) => {
            node.log.say_own(Level::Warn, format_args!("{} sent no line: {error}", message.source));
        }
    }
}

/// Lines that did not fit into the mailbox are lost.
fn say_dropped(said: &mut u32, ctx: &Ctx) {
    let dropped = ctx.cell.lock().mail.dropped;
    if dropped != *said {
        ctx.node().0.log.lose((dropped - *said).into());
        *said = dropped;
    }
}

//! How the start of an actor is told to others.

use sinew_core::ActorId;

use crate::cell::{AnyCell, Cell, Phase, Seen};
use crate::event::Event;
use crate::lifecycle::Lifecycle;
use crate::shared::Inner;

/// The actor's `started` hook has returned.
pub(crate) fn started<M: Send + 'static>(cell: &Cell<M>) {
    let is_plain = {
        let life = &mut cell.lock().life;
        if life.phase == Phase::Starting {
            life.phase = Phase::Running;
        }
        life.more.is_none()
    };
    cell.head.node.lifecycle(|| Lifecycle::Started(cell.head.id));
    if !is_plain {
        tell_of_start(cell);
    }
}

/// Tells those who have to do with an actor that it has started.
fn tell_of_start(cell: &dyn AnyCell) {
    let (announced, restarts) = cell.life(|life| {
        let more = life.more.as_ref();
        let announced = more.and_then(|more| more.parent.filter(|_| more.announces));
        (announced, more.map_or(0, |more| more.restarts))
    });
    let head = cell.head();
    if restarts > 0 {
        head.node.lifecycle(|| {
            let Seen { name, last_error, .. } = cell.see();
            Lifecycle::Restarted { actor: head.id, name, restarts, after: last_error }
        });
    }
    if let Some(parent) = announced {
        tell(head.node, parent, Event::Started(head.id));
    }
}

fn tell(node: &'static Inner, actor: ActorId, event: Event) {
    if let Some(actor) = node.table.get(actor) {
        let _ = actor.push_event(event); // it may have ended
    }
}

//! A snapshot for tools.

use sinew_core::ActorId;
use sinew_core::json::{Object, string};

use super::{ActorInfo, Blocked, LifecycleStage, Snapshot};

pub(super) fn of(snapshot: &Snapshot) -> String {
    let mut text = String::new();
    let totals = &snapshot.totals;
    Object::write(&mut text, |object| {
        object.number("node", snapshot.node.0);
        object.number("now_ns", snapshot.now.as_nanos());
        object.object("totals", |object| {
            object.number("actors", totals.actors);
            object.number("ended", totals.ended);
            object.number("zombies", totals.zombies);
            object.number("accepted", totals.accepted());
            object.number("handled", totals.handled);
            object.number("failed", totals.failed);
            object.number("dead_letters", totals.dead_letters);
            object.number("queued", totals.queued);
            object.number("timers", totals.timers);
            object.number("missed", totals.missed);
        });
        object.array("actors", &snapshot.actors, |text, actor| {
            Object::write(text, |object| of_actor(object, actor));
        });
        object.array("zombies", &snapshot.zombies, of_id);
        object.array("cycles", &snapshot.cycles, |text, cycle| {
            text.push('[');
            for (at, actor) in cycle.iter().enumerate() {
                text.push_str(if at > 0 { "," } else { "" });
                of_id(text, actor);
            }
            text.push(']');
        });
    });
    text
}

fn of_id(text: &mut String, id: &ActorId) {
    string(text, &id.to_string());
}

fn of_actor(object: &mut Object<'_>, actor: &ActorInfo) {
    object.string("id", &actor.id.to_string());
    object.optional_string("name", actor.name.as_deref());
    object.optional_string("parent", actor.parent.map(|parent| parent.to_string()));
    object.string("type", actor.type_name);
    object.string("state", actor.state.name());
    match actor.state.blocked() {
        Some(blocked) => object.object("blocked", |object| of_blocked(object, blocked)),
        None => object.null("blocked"),
    }
    object.string(
        "stage",
        match actor.stage {
            LifecycleStage::Starting => "starting",
            LifecycleStage::Running => "running",
            LifecycleStage::Ending => "ending",
        },
    );
    object.number("queued", actor.queued);
    object.number("capacity", actor.capacity);
    object.number("high_water", actor.high_water);
    object.number("has_waiting_senders", actor.has_waiting_senders);
    object.number("accepted", actor.accepted);
    object.number("handled", actor.handled);
    object.number("dropped", actor.dropped);
    object.number("restarts", actor.restarts);
    object.number("memory", actor.memory);
    object.optional_string("last_error", actor.last_error.as_ref().map(|error| error.to_string()));
    object.optional_string(
        "spawned_at",
        actor.spawned_at.map(|site| format!("{}:{}", site.file(), site.line())),
    );
}

fn of_blocked(object: &mut Object<'_>, blocked: &Blocked) {
    object.string("text", &blocked.to_string());
    object.string("kind", blocked.on.kind.as_str());
    object.optional_string("actor", blocked.actor.map(|actor| actor.to_string()));
    object.optional("since_ms", blocked.since.map(|since| since.as_millis()));
    object.optional("deadline_ns", blocked.on.deadline.map(|deadline| deadline.as_nanos()));
}

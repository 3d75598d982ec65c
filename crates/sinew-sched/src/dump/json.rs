//! A dump as JSON.

use sinew_core::json::{Object, string};

use super::task::level_word;
use super::{Dump, TaskDump, Wait, WorkerDump, WorkerState};

pub(super) fn of(dump: &Dump) -> String {
    let mut text = String::new();
    Object::write(&mut text, |object| {
        object.number("now_ns", dump.now.as_nanos());
        object.string("phase", dump.phase);
        object.number("active", dump.active);
        object.number("spawned_outside", dump.spawned_outside);
        object.number("queued_outside", dump.queued_outside);
        object.optional("descriptors", dump.descriptors);
        object.object("blocking", |object| {
            object.number("threads", dump.blocking.threads);
            object.number("idle", dump.blocking.idle);
            object.number("queued", dump.blocking.queued);
            object.number("running", dump.blocking.running);
            object.number("alone", dump.blocking.alone);
        });
        object.array("workers", &dump.workers, |text, worker| {
            Object::write(text, |object| of_worker(object, worker))
        });
        object.array("tasks", &dump.tasks, |text, task| Object::write(text, |object| of_task(object, task)));
        object.array("unanswered", &dump.unanswered, |text, worker| text.push_str(&worker.to_string()));
    });
    text
}

fn of_worker(object: &mut Object<'_>, worker: &WorkerDump) {
    let counters = &worker.counters;
    let (state, runs) = match worker.state {
        WorkerState::Running(task) => ("running", Some(task)),
        WorkerState::Searching => ("searching", None),
        WorkerState::Asleep => ("asleep", None),
    };
    object.number("index", worker.index);
    object.number("is_temporary", worker.is_temporary);
    object.string("state", state);
    object.optional("runs", runs.map(|task| task.as_u64()));
    object.number("since_ms", worker.since.as_millis());
    object.number("is_watched", worker.is_watched);
    object.number("has_mail", worker.has_mail);
    object.number("new", worker.new);
    object.number("woken", worker.woken);
    object.number("handed", worker.handed);
    object.number("ready", worker.ready);
    object.number("timers", worker.timers);
    object.optional("next_timer_ns", worker.next_timer.map(|next| next.as_nanos()));
    object.number("turns", counters.turns);
    object.number("spawns", counters.spawns);
    object.number("ends", counters.ends);
    object.number("parks", counters.parks);
    object.number("wakes", counters.wakes);
    object.number("steals", counters.steals);
    object.number("longest_queue", counters.longest_queue);
}

fn of_task(object: &mut Object<'_>, task: &TaskDump) {
    object.number("id", task.id.as_u64());
    object.optional_string("name", task.name.as_deref());
    object.string("type", task.type_name);
    object.string("state", task.state.as_str());
    object.number("notified", task.notified);
    object.optional_string("level", task.level.map(level_word));
    object.string("handle", task.handle.as_str());
    object.optional("worker", task.worker);
    object.optional_string(
        "spawned_at",
        task.spawned_at.map(|site| format!("{}:{}", site.file(), site.line())),
    );
    object.optional("since_ms", task.since.map(|since| since.as_millis()));
    match &task.wait {
        None => object.null("wait"),
        Some(wait) => object.object("wait", |object| of_wait(object, wait)),
    }
    object.array("fibers", &task.fibers, |text, fiber| {
        Object::write(text, |object| {
            object.number("id", fiber.id);
            object.optional_string("name", fiber.name.as_deref());
            object.string("status", fiber.status.name());
            object.string("created_at", &fiber.created_at);
        });
    });
    object.array("backtrace", &task.backtrace, |text, frame| string(text, frame));
}

fn of_wait(object: &mut Object<'_>, wait: &Wait) {
    object.string("kind", wait.kind.as_str());
    object.optional_string("object", wait.object.map(|object| format!("{object:#x}")));
    object.optional("fd", wait.fd);
    object.optional("task", wait.task.map(|task| task.as_u64()));
    object.optional("tag", wait.tag);
    object.optional("deadline_ns", wait.deadline.map(|deadline| deadline.as_nanos()));
    object.array("cases", &wait.cases, |text, case| string(text, case.as_str()));
}

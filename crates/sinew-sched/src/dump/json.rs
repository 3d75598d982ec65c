//! A dump as JSON, written by hand: a few shapes, and strings that are escaped.

use std::fmt::{self, Display, Write};

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
        object.key("blocking");
        Object::write(object.text, |object| {
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
        object.array("unanswered", &dump.unanswered, |text, worker| {
            write!(text, "{worker}").unwrap_or_else(no_error);
        });
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
    object.key("wait");
    match &task.wait {
        None => object.text.push_str("null"),
        Some(wait) => Object::write(object.text, |object| of_wait(object, wait)),
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
    object.optional("deadline_ns", wait.deadline.map(|deadline| deadline.as_nanos()));
    object.array("cases", &wait.cases, |text, case| string(text, case.as_str()));
}

/// An object that is being written.
struct Object<'a> {
    text: &'a mut String,
    is_empty: bool,
}

impl Object<'_> {
    fn write(text: &mut String, members: impl FnOnce(&mut Object<'_>)) {
        text.push('{');
        members(&mut Object { text, is_empty: true });
        text.push('}');
    }

    fn key(&mut self, key: &str) {
        if !self.is_empty {
            self.text.push(',');
        }
        self.is_empty = false;
        string(self.text, key);
        self.text.push(':');
    }

    /// A number, or a boolean: what Rust writes as JSON does.
    fn number(&mut self, key: &str, value: impl Display) {
        self.key(key);
        write!(self.text, "{value}").unwrap_or_else(no_error);
    }

    fn optional(&mut self, key: &str, value: Option<impl Display>) {
        match value {
            Some(value) => self.number(key, value),
            None => self.number(key, "null"),
        }
    }

    fn string(&mut self, key: &str, value: &str) {
        self.key(key);
        string(self.text, value);
    }

    fn optional_string(&mut self, key: &str, value: Option<impl AsRef<str>>) {
        match value {
            Some(value) => self.string(key, value.as_ref()),
            None => self.number(key, "null"),
        }
    }

    fn array<T>(&mut self, key: &str, items: &[T], mut each: impl FnMut(&mut String, &T)) {
        self.key(key);
        self.text.push('[');
        for (at, item) in items.iter().enumerate() {
            if at > 0 {
                self.text.push(',');
            }
            each(self.text, item);
        }
        self.text.push(']');
    }
}

fn string(text: &mut String, value: &str) {
    text.push('"');
    for character in value.chars() {
        match character {
            '"' => text.push_str("\\\""),
            '\\' => text.push_str("\\\\"),
            '\n' => text.push_str("\\n"),
            '\r' => text.push_str("\\r"),
            '\t' => text.push_str("\\t"),
            control if control < ' ' => {
                write!(text, "\\u{:04x}", u32::from(control)).unwrap_or_else(no_error);
            }
            other => text.push(other),
        }
    }
    text.push('"');
}

fn no_error(_: fmt::Error) {
    unreachable!("a string takes everything");
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use super::*;

    #[test]
    fn strings_are_escaped_and_nothing_else_is() {
        let mut text = String::new();
        string(&mut text, "a \"name\"\\ with\n\r\t\u{1}\u{1f}\u{7f} and ü 🦀");
        assert_eq!(text, "\"a \\\"name\\\"\\\\ with\\n\\r\\t\\u0001\\u001f\u{7f} and ü 🦀\"");
    }

    #[test]
    fn members_and_items_are_separated() {
        let mut text = String::new();
        Object::write(&mut text, |object| {
            object.number("a", 1);
            object.optional("b", None::<u8>);
            object.array("c", &[true, false], |text, item| write!(text, "{item}").unwrap());
            object.array("d", &[] as &[u8], |_, _| ());
            object.optional_string("e", Some("f"));
        });
        assert_eq!(text, r#"{"a":1,"b":null,"c":[true,false],"d":[],"e":"f"}"#);
    }
}

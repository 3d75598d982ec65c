//! Events of `tracing` as lines, and lines as its events.
//!
//! Neither goes round in a circle: lines that were events do not become events again, events at our own target become no lines,
//! and a thread that tells lines logs nothing.

use std::fmt::{self, Debug, Write};

use sinew_core::Level;
use sinew_sync::atomic::{AtomicU64, Ordering};
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::subscriber::Interest;
use tracing::{Event, Metadata, Subscriber};

use super::line::Line;
use super::{Log, WRITES};

/// The target of events that were lines.
const TARGET: &str = "sinew::log";

/// A subscriber of `tracing` that logs events as lines of a node, with the filters of its log: see [`Logger::subscriber`](crate::Logger::subscriber).
pub struct LogSubscriber {
    log: &'static Log,
    spans: AtomicU64,
}

impl LogSubscriber {
    pub(crate) fn new(log: &'static Log) -> LogSubscriber {
        LogSubscriber { log, spans: AtomicU64::new(1) }
    }
}

impl Subscriber for LogSubscriber {
    /// Filters change while the program runs.
    fn register_callsite(&self, _: &'static Metadata<'static>) -> Interest {
        Interest::sometimes()
    }

    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        let level = level_of(metadata.level());
        metadata.is_event()
            && !WRITES.get()
            && metadata.target() != TARGET
            && self.log.filters.lets(level, self.log.speaker(), metadata.target())
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(self.spans.fetch_add(1, Ordering::Relaxed).max(1))
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, event: &Event<'_>) {
        let mut fields = Fields::default();
        event.record(&mut fields);
        let (level, source) = (level_of(event.metadata().level()), self.log.speaker());
        let text = format_args!("{}: {}{}", event.metadata().target(), fields.message, fields.others);
        let line = Line::new(self.log.handle.now(), level, source, text).named(self.log.name_of(source));
        self.log.put(Line { is_event: true, ..line });
    }

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}

impl Debug for LogSubscriber {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LogSubscriber").field("node", &self.log.node.0).finish_non_exhaustive()
    }
}

/// What an event says, and its fields as ` name=value`.
#[derive(Default)]
struct Fields {
    message: String,
    others: String,
}

impl Visit for Fields {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        // Writing to a string fails only if a value's `Debug` does.
        let _ = match field.name() {
            "message" => write!(self.message, "{value:?}"),
            name => write!(self.others, " {name}={value:?}"),
        };
    }
}

fn level_of(level: &tracing::Level) -> Level {
    match *level {
        tracing::Level::ERROR => Level::Error,
        tracing::Level::WARN => Level::Warn,
        tracing::Level::INFO => Level::Info,
        _ => Level::Debug,
    }
}

/// Tells a line as an event.
pub(super) fn tell(line: &Line) {
    let Line { level, source, text, .. } = line;
    let name = line.name.as_deref();
    match level {
        Level::Error => tracing::error!(target: TARGET, actor = %source, name, "{text}"),
        Level::Warn => tracing::warn!(target: TARGET, actor = %source, name, "{text}"),
        Level::Info => tracing::info!(target: TARGET, actor = %source, name, "{text}"),
        Level::Debug => tracing::debug!(target: TARGET, actor = %source, name, "{text}"),
    }
}

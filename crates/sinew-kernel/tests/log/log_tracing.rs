//! Events of `tracing` as lines of the log, lines as its events, and neither in a circle.

use std::fmt::Debug;
use std::sync::{Mutex, OnceLock};
use std::time::Duration;

use sinew_kernel::{Builder, Flow, Kind, Level, LevelFilter, LocalNode, LogSubscriber, Node};
use sinew_sched::{ManualClock, Runtime};
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Dispatch, Event, Metadata, Subscriber, dispatcher};

use crate::kept::Kept;

fn local(options: impl FnOnce(Builder) -> Builder) -> LocalNode {
    let clock = ManualClock::new();
    clock.hold(true);
    clock.advance(Duration::from_secs(1));
    let builder = Node::builder().runtime(Runtime::builder().manual_clock(&clock));
    options(builder).build_current_thread().unwrap()
}

const AT: &str = "[1970-01-01T00:00:01.000Z]";

#[test]
fn events_become_lines_of_whoever_tells_them() {
    let kept = Kept::default();
    let node = local(|options| options.log_to(kept.clone()));
    let dispatch = Dispatch::new(node.logger().subscriber());
    let inside = dispatch.clone();
    let actor = node.actor().name("net").spawn_raw((), move |(), _, _| {
        dispatcher::with_default(&inside, || {
            tracing::warn!(target: "app::net", peer = "10.0.0.7", tries = 3, "connected\nat last");
        });
        Flow::Continue
    });
    let id = actor.unwrap().id();
    node.send(id, Kind(1), Vec::new()).unwrap();
    node.run_until_idle();
    dispatcher::with_default(&dispatch, || {
        let span = tracing::info_span!("a span", n = 1);
        let _entered = span.enter();
        tracing::error!("outside");
        tracing::debug!("too low");
    });
    node.logger().flush().unwrap();
    let here = module_path!();
    let expected = format!(
        "{AT} WARN [{id}] \"net\": app::net: connected\n    at last peer=\"10.0.0.7\" tries=3\n{AT} ERROR [1.0] {here}: outside\n"
    );
    assert_eq!(kept.text(), expected);
}

#[test]
fn the_filters_of_the_log_are_those_of_events_and_change_while_the_program_runs() {
    let kept = Kept::default();
    let node = local(|options| options.log_to(kept.clone()));
    let dispatch = Dispatch::new(node.logger().subscriber());
    let told = || {
        dispatcher::with_default(&dispatch, || {
            tracing::trace!(target: "app::db", "low");
            tracing::info!(target: "app::db", "high");
        });
        node.logger().flush().unwrap();
        kept.text().lines().count()
    };
    assert_eq!(told(), 1);
    node.logger().set_target("app", LevelFilter::Debug);
    assert_eq!(told(), 1 + 2);
    node.logger().set_target("app::db", LevelFilter::Off);
    assert_eq!(told(), 3);
    node.logger().unset_target("app::db");
    assert_eq!(told(), 3 + 2, "the same callsites");
}

/// Keeps events, shows them to the log of a node too, and tells another event about each.
struct Tee {
    log: OnceLock<LogSubscriber>,
    events: Mutex<Vec<String>>,
}

static TEE: Tee = Tee { log: OnceLock::new(), events: Mutex::new(Vec::new()) };

struct Shown<'a>(&'a mut String);

impl Visit for Shown<'_> {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        *self.0 += &format!(" {field}={value:?}");
    }
}

struct TeeSubscriber;

impl Subscriber for TeeSubscriber {
    fn enabled(&self, _: &Metadata<'_>) -> bool {
        true
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, event: &Event<'_>) {
        let metadata = event.metadata();
        let mut text = format!("{} {}", metadata.level(), metadata.target());
        event.record(&mut Shown(&mut text));
        TEE.events.lock().unwrap().push(text);
        if let Some(log) = TEE.log.get().filter(|log| log.enabled(metadata)) {
            log.event(event);
        }
        if metadata.target() == "sinew::log" {
            // What a subscriber logs about a line that it is told must not become one that it is told.
            tracing::error!(target: "tee", "told of a line");
        }
    }

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}

#[test]
fn lines_become_events_and_neither_goes_round_in_a_circle() {
    tracing::subscriber::set_global_default(TeeSubscriber).unwrap();
    let node = local(|options| options.log_to_tracing());
    TEE.log.set(node.logger().subscriber()).unwrap();
    node.log(Level::Warn, "a line");
    let actor = node.actor().name("shop").spawn_raw((), |(), _, ctx| {
        ctx.log(Level::Debug, "too low");
        ctx.log(Level::Error, "of an actor");
        Flow::Continue
    });
    node.send(actor.unwrap().id(), Kind(1), Vec::new()).unwrap();
    tracing::info!(target: "app", "an event");
    for _ in 0..3 {
        node.run_until_idle();
        node.logger().flush().unwrap();
    }
    let mut events = TEE.events.lock().unwrap().clone();
    events.sort();
    let expected = [
        "ERROR sinew::log message=of an actor actor=1.1 name=\"shop\"",
        "ERROR tee message=told of a line",
        "ERROR tee message=told of a line",
        "INFO app message=an event",
        "WARN sinew::log message=a line actor=1.0",
    ];
    assert_eq!(events, expected);
    assert_eq!(node.logger().lost(), 0);
}

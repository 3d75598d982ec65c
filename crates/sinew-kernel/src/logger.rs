//! Logging: how actors and users of a node reach its [log](crate::log).

mod actor;
mod options;

use std::fmt;

use sinew_core::{ActorId, Level};
use sinew_io::{BlockingError, blocking};
use sinew_sched::turn;

use crate::ctx::Ctx;
use crate::error::SpawnError;
#[cfg(feature = "tracing")]
use crate::log::LogSubscriber;
use crate::log::{LevelFilter, OWN_TARGET};
use crate::shared::{Inner, NodeRef};

impl<M: Send + 'static> Ctx<'_, M> {
    /// Logs a line of this actor, with the actor's type as its target. Never waits: see [`Logger`]. The text is made only if it
    /// is logged.
    ///
    /// ```
    /// use sinew_kernel::{Actor, Ctx, Flow, Level, Node};
    ///
    /// struct Divider;
    /// impl Actor for Divider {
    ///     type Msg = u32;
    ///     fn handle(&mut self, by: u32, ctx: &mut Ctx<u32>) -> Flow {
    ///         match 42u32.checked_div(by) {
    ///             Some(result) => ctx.log(Level::Debug, format_args!("42 / {by} = {result}")),
    ///             None => ctx.log(Level::Warn, "there is no division by zero"),
    ///         }
    ///         Flow::Continue
    ///     }
    /// }
    ///
    /// let node = Node::new();
    /// let divider = node.spawn(Divider).unwrap();
    /// divider.tell(0).unwrap();
    /// divider.drain();
    /// divider.join().unwrap();
    /// // [2026-11-15T23:01:48.123Z] WARN [1.1] there is no division by zero
    /// ```
    pub fn log(&self, level: Level, text: impl fmt::Display) {
        let head = &self.cell.head;
        head.node.log.say(level, head.id, turn::current_type_name(), text);
    }
}

impl NodeRef {
    /// Logs a line: of the actor that runs the caller, or else of the node. Never waits: see [`Logger`].
    pub fn log(self, level: Level, text: impl fmt::Display) {
        self.logger().say(level, OWN_TARGET, text);
    }

    /// The node's log.
    pub fn logger(self) -> Logger {
        Logger(self.0)
    }
}

/// The log of a node, by reference: what is logged, and how much was lost.
///
/// Whoever logs never waits. Lines are written by a task of the node, in the order in which they were logged; up to
/// [so many](crate::Builder::log_capacity) wait for that. Beyond those they are lost, and the log says how many.
///
/// ```
/// use sinew_kernel::{Level, LevelFilter, Node};
///
/// let node = Node::new();
/// let log = node.logger();
/// log.set_level(LevelFilter::Warn);
/// log.set_target("app::db", LevelFilter::Debug); // and what is below it
/// log.say(Level::Debug, "app::db::pool", "a connection is back");
/// log.flush().unwrap();
/// ```
#[derive(Clone, Copy)]
pub struct Logger(&'static Inner);

impl Logger {
    /// Logs a line with this target: of the actor that runs the caller, or else of the node.
    pub fn say(self, level: Level, target: &str, text: impl fmt::Display) {
        self.0.log.say(level, self.0.log.speaker(), target, text);
    }

    /// From which level on lines are logged for which there is no other rule.
    pub fn level(self) -> LevelFilter {
        self.0.log.filters.all()
    }

    /// From which level on lines are logged for which there is no other rule, from now on.
    pub fn set_level(self, level: impl Into<LevelFilter>) {
        let level = level.into(); // anybody's code: not under the lock of the rules
        self.0.log.filters.change(|rules| rules.all = level);
    }

    /// From which level on lines of this actor are logged, until it ends. This rule goes before all others.
    pub fn set_actor(self, actor: ActorId, level: impl Into<LevelFilter>) {
        let level = level.into();
        self.0.log.filters.change(|rules| rules.actors.insert(actor, level));
        if self.0.table.get(actor).is_none() {
            self.unset_actor(actor); // nobody would ever
        }
    }

    /// Takes the rule for an actor back.
    pub fn unset_actor(self, actor: ActorId) {
        self.0.log.filters.change(|rules| rules.actors.remove(&actor));
    }

    /// From which level on lines with this target, or one below it, are logged: `app::db` is also for `app::db::Pool`. Lines of
    /// actors have their type as the target; the longest rule goes first.
    pub fn set_target(self, target: &str, level: impl Into<LevelFilter>) {
        let level = level.into();
        self.0.log.filters.change(|rules| rules.targets.insert(target.into(), level));
    }

    /// Takes the rule for a target back.
    pub fn unset_target(self, target: &str) {
        self.0.log.filters.change(|rules| rules.targets.remove(target));
    }

    /// How many lines were lost.
    pub fn lost(self) -> u64 {
        self.0.log.lost.load(sinew_sync::atomic::Ordering::Relaxed)
    }

    /// Waits until every line that was logged before is written.
    ///
    /// # Errors
    ///
    /// If nothing may wait here, or not any more.
    pub fn flush(self) -> Result<(), BlockingError> {
        let node = self.0;
        blocking(move || node.log.drain_all())
    }

    /// The log actor, which logs what it is sent as [`Kind::LOG`](sinew_core::Kind::LOG), in the
    /// layout of [`payload::Log`](sinew_core::payload::Log), as a line of its sender. That layout
    /// cuts a text at 255 bytes; a `Log` that is sent as a [value](crate::Payload::value) keeps the
    /// whole text. The actor is started when it is first asked for, under the name `log`.
    ///
    /// # Errors
    ///
    /// If it cannot be started.
    pub fn actor(self) -> Result<ActorId, SpawnError> {
        actor::get(self.0)
    }
}

#[cfg(feature = "tracing")]
impl Logger {
    /// A subscriber of `tracing`, whose events become lines of this log: of the actor that runs the code that tells them, or else
    /// of the node. It keeps nothing of spans.
    ///
    /// ```
    /// let node = sinew_kernel::Node::new();
    /// tracing::subscriber::set_global_default(node.logger().subscriber()).unwrap();
    /// tracing::info!(peer = "10.0.0.7", "connected");
    /// // [2026-11-15T23:01:48.123Z] INFO [1.0] app::net: connected peer="10.0.0.7"
    /// ```
    pub fn subscriber(self) -> LogSubscriber {
        LogSubscriber::new(&self.0.log)
    }
}

impl fmt::Debug for Logger {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (level, lost) = (self.level(), self.lost());
        f.debug_struct("Logger").field("level", &level).field("lost", &lost).finish_non_exhaustive()
    }
}

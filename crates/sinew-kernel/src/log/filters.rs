//! Which lines are logged.
//!
//! The rule of an actor goes first, then that of the longest target that the line's begins with, then the one for all. Rules are
//! few and seldom change; so they are under a lock, and what a line meets first is a number: the lowest level that any rule
//! lets through.

use std::collections::BTreeMap;

use sinew_core::{ActorId, Level};
use sinew_sync::RwLock;
use sinew_sync::atomic::{AtomicBool, AtomicU8, Ordering};

/// From which level on lines are logged.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
#[repr(u8)]
pub enum LevelFilter {
    /// All of them.
    Debug = 0,
    /// From [`Level::Info`] on.
    Info = 1,
    /// From [`Level::Warn`] on.
    Warn = 2,
    /// [`Level::Error`] only.
    Error = 3,
    /// None.
    Off = 4,
}

impl LevelFilter {
    fn lets(self, level: Level) -> bool {
        level.number() >= self as u8
    }
}

impl From<Level> for LevelFilter {
    fn from(level: Level) -> LevelFilter {
        match level {
            Level::Debug => LevelFilter::Debug,
            Level::Info => LevelFilter::Info,
            Level::Warn => LevelFilter::Warn,
            Level::Error => LevelFilter::Error,
        }
    }
}

pub(crate) struct Filters {
    /// The lowest level that any rule lets through.
    lowest: AtomicU8,
    /// There are rules for actors.
    has_actors: AtomicBool,
    rules: RwLock<Rules>,
}

pub(crate) struct Rules {
    pub(crate) all: LevelFilter,
    pub(crate) actors: BTreeMap<ActorId, LevelFilter>,
    pub(crate) targets: BTreeMap<Box<str>, LevelFilter>,
}

impl Filters {
    pub(crate) fn new(all: LevelFilter) -> Filters {
        let rules = Rules { all, actors: BTreeMap::new(), targets: BTreeMap::new() };
        let (lowest, has_actors) = (AtomicU8::new(all as u8), AtomicBool::new(false));
        Filters { lowest, has_actors, rules: RwLock::new(rules) }
    }

    /// False if no rule lets this level through.
    #[inline]
    pub(crate) fn may_let(&self, level: Level) -> bool {
        level.number() >= self.lowest.load(Ordering::Relaxed)
    }

    pub(crate) fn lets(&self, level: Level, source: ActorId, target: &str) -> bool {
        self.may_let(level) && self.rules.read().of(source, target).lets(level)
    }

    pub(crate) fn all(&self) -> LevelFilter {
        self.rules.read().all
    }

    pub(crate) fn change<T>(&self, change: impl FnOnce(&mut Rules) -> T) {
        let mut rules = self.rules.write();
        change(&mut rules);
        let lowest = rules.actors.values().chain(rules.targets.values()).fold(rules.all, |a, b| a.min(*b));
        self.lowest.store(lowest as u8, Ordering::Relaxed);
        self.has_actors.store(!rules.actors.is_empty(), Ordering::Relaxed);
    }

    /// The actor has ended.
    pub(crate) fn forget(&self, actor: ActorId) {
        if self.has_actors.load(Ordering::Relaxed) {
            self.change(|rules| rules.actors.remove(&actor));
        }
    }
}

impl Rules {
    fn of(&self, source: ActorId, target: &str) -> LevelFilter {
        self.actors.get(&source).or_else(|| self.of_target(target)).copied().unwrap_or(self.all)
    }

    fn of_target(&self, target: &str) -> Option<&LevelFilter> {
        if self.targets.is_empty() {
            return None;
        }
        let mut prefixes = std::iter::successors(Some(target), |target| Some(target.rsplit_once("::")?.0));
        prefixes.find_map(|prefix| self.targets.get(prefix))
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use super::*;

    #[test]
    fn the_rule_of_the_actor_goes_before_the_longest_of_its_targets_and_that_before_all() {
        let filters = Filters::new(LevelFilter::Warn);
        let (one, other) = (ActorId::from_u64(1), ActorId::from_u64(2));
        filters.change(|rules| {
            rules.targets.insert("app::db".into(), LevelFilter::Error);
            rules.targets.insert("app".into(), LevelFilter::Info);
            rules.actors.insert(one, LevelFilter::Debug);
        });
        assert!(filters.lets(Level::Debug, one, "app::db"));
        assert!(!filters.lets(Level::Warn, other, "app::db"));
        assert!(!filters.lets(Level::Warn, other, "app::db::Pool<app::Row>"));
        assert!(filters.lets(Level::Info, other, "app::dbx"));
        assert!(!filters.lets(Level::Info, other, "apple"));
        assert!(filters.lets(Level::Warn, other, ""));
        filters.forget(one);
        assert!(!filters.lets(Level::Debug, one, "app::db"));
        assert!(!filters.may_let(Level::Debug), "nothing lets it");
    }

    #[test]
    fn off_lets_nothing_through_and_debug_everything() {
        for level in Level::ALL {
            assert!(!LevelFilter::Off.lets(level) && LevelFilter::Debug.lets(level));
            assert!(LevelFilter::from(level).lets(level));
        }
    }
}

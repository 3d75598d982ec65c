//! What actors are called where the scheduler reports on tasks: in dumps, stalls, deadlocks and shutdowns.
//!
//! It is asked for by any thread, also while actors are stuck: each actor's lock is taken for as long as its name is copied, as by
//! a [snapshot](super).

use std::collections::{HashMap, HashSet};

use sinew_sched::TaskId;

use crate::shared::Inner;

/// The actors among these tasks, as `actor 1.42` or `actor 1.42 (its name)`.
pub(crate) fn names(node: &Inner, tasks: &[TaskId]) -> HashMap<TaskId, String> {
    let wanted: HashSet<TaskId> = tasks.iter().copied().collect();
    let actors = node.table.all().into_iter().map(|cell| (cell.head().task(), cell));
    let actors = actors.filter(|(task, _)| wanted.contains(task));
    actors
        .map(|(task, cell)| {
            let id = cell.head().id;
            let name = cell.life(|life| life.more.as_ref().and_then(|more| more.name.clone()));
            (task, name.map_or_else(|| format!("actor {id}"), |name| format!("actor {id} ({name})")))
        })
        .collect()
}

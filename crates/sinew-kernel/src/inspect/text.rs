//! A snapshot for people: totals, a table, a tree.

use std::collections::BTreeMap;
use std::fmt;

use sinew_core::ActorId;

use super::{ActorInfo, LifecycleStage, Snapshot};

/// Actors that a text shows.
const MOST_SHOWN: usize = 200;

impl fmt::Display for Snapshot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let totals = &self.totals;
        writeln!(
            f,
            "node {}: {} actors, {} ended, {} zombies, {} timers",
            self.node.0, totals.actors, totals.ended, totals.zombies, totals.timers
        )?;
        writeln!(
            f,
            "messages: {} accepted; {} handled, {} failed, {} dead letters, {} queued",
            totals.accepted(),
            totals.handled,
            totals.failed,
            totals.dead_letters,
            totals.queued
        )?;
        for cycle in &self.cycles {
            writeln!(f, "these wait for each other: {}", Names(self, cycle))?;
        }
        if self.actors.is_empty() {
            return Ok(());
        }
        let rows: Vec<[String; 10]> = self.actors.iter().take(MOST_SHOWN).map(row).collect();
        write_table(f, &rows)?;
        more(f, self.actors.len())
    }
}

fn more(f: &mut fmt::Formatter<'_>, actors: usize) -> fmt::Result {
    if actors > MOST_SHOWN { writeln!(f, "and {} more actors", actors - MOST_SHOWN) } else { Ok(()) }
}

const COLUMNS: [&str; 10] =
    ["id", "name", "state", "mailbox", "high", "handled", "dropped", "restarts", "memory", "type"];

/// The columns of numbers are to the right.
const RIGHT: std::ops::RangeInclusive<usize> = 3..=8;

fn row(actor: &ActorInfo) -> [String; 10] {
    [
        actor.id.to_string(),
        actor.name.as_deref().unwrap_or("").escape_debug().to_string(),
        State(actor).to_string(),
        format!("{}/{}", actor.queued, actor.capacity),
        actor.high_water.to_string(),
        actor.handled.to_string(),
        actor.dropped.to_string(),
        actor.restarts.to_string(),
        actor.memory.to_string(),
        actor.type_name.to_owned(),
    ]
}

fn write_table(f: &mut fmt::Formatter<'_>, rows: &[[String; 10]]) -> fmt::Result {
    let header = COLUMNS.map(str::to_owned);
    let rows = || std::iter::once(&header).chain(rows);
    let widths: [usize; 10] =
        std::array::from_fn(|column| rows().map(|row| row[column].chars().count()).max().unwrap_or(0));
    for row in rows() {
        let last = row.len() - 1;
        for (column, (cell, width)) in row.iter().zip(widths).enumerate() {
            match column {
                _ if column == last => writeln!(f, "{cell}")?,
                _ if RIGHT.contains(&column) => write!(f, "{cell:>width$}  ")?,
                _ => write!(f, "{cell:<width$}  ")?,
            }
        }
    }
    Ok(())
}

/// What an actor is doing, and that it starts or ends.
struct State<'a>(&'a ActorInfo);

impl fmt::Display for State<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0.stage {
            LifecycleStage::Starting => write!(f, "starting, ")?,
            LifecycleStage::Ending => write!(f, "ending, ")?,
            LifecycleStage::Running => (),
        }
        write!(f, "{}", self.0.state)
    }
}

/// Actors by id and name, one after the other.
struct Names<'a>(&'a Snapshot, &'a [ActorId]);

impl fmt::Display for Names<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, id) in self.1.iter().enumerate() {
            write!(f, "{}{id}", if at > 0 { ", " } else { "" })?;
            if let Some(name) = self.0.actor(*id).and_then(|actor| actor.name.as_deref()) {
                write!(f, " {name:?}")?;
            }
        }
        Ok(())
    }
}

/// The actors of a [`Snapshot`] with their children under them: see [`Snapshot::tree`]. It shows up to 200.
#[derive(Clone, Copy, Debug)]
pub struct Tree<'a>(pub(super) &'a Snapshot);

impl fmt::Display for Tree<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut children: BTreeMap<ActorId, Vec<&ActorInfo>> = BTreeMap::new();
        for actor in &self.0.actors {
            actor.parent.into_iter().for_each(|parent| children.entry(parent).or_default().push(actor));
        }
        // Those that are to be shown, the next one last, with their depths. A tree may be deeper than a stack.
        let mut next: Vec<(usize, &ActorInfo)> = self.0.roots().map(|root| (0, root)).collect();
        next.reverse();
        for _ in 0..MOST_SHOWN {
            let Some((depth, actor)) = next.pop() else { break };
            let indent = depth * 2;
            write!(f, "{:indent$}{}", "", actor.id)?;
            if let Some(name) = &actor.name {
                write!(f, " {name:?}")?;
            }
            write!(f, " {}: {}", actor.type_name, State(actor))?;
            if actor.restarts > 0 {
                write!(f, "; restarts: {}", actor.restarts)?;
            }
            if let Some(error) = &actor.last_error {
                write!(f, "; last error: {error}")?;
            }
            writeln!(f)?;
            let own = children.get(&actor.id).into_iter().flatten();
            next.extend(own.rev().map(|child| (depth + 1, *child)));
        }
        more(f, self.0.actors.len())
    }
}

//! Actors that wait for each other.
//!
//! Each actor waits for one other at most, so from every actor one path goes on; a cycle is where a path meets itself.
//!
//! Actors are not seen at the same moment: one that had its answer meanwhile may ask back by the time that the other is looked at.
//! So those of a cycle are looked at once more. If each still waits for the same, by the same deadline, then all of them did
//! so between the last of the first looks and the first of the second. A question gets its deadline when its worker first looks at the
//! clock: one that has none yet is too young to be told from the next, and is left out.

use std::collections::BTreeMap;

use sinew_core::ActorId;

use crate::waits;

use super::{ActorInfo, ActorState};

/// The cycles among these actors, each from its least member on. `again` looks at one of them once more.
pub(super) fn of(actors: &[ActorInfo], again: impl Fn(ActorId) -> Option<ActorState>) -> Vec<Vec<ActorId>> {
    let wait = |state: &ActorState| {
        let on = state.blocked().filter(|on| on.on.kind != waits::ASK || on.on.deadline.is_some())?;
        Some((on.actor?, on.on.clone()))
    };
    let waits = actors.iter().filter_map(|actor| Some((actor.id, wait(&actor.state)?))).collect();
    lasting(&waits, |actor| wait(&again(actor)?))
}

/// The cycles of actors that wait for another, by something each, and still do so when they are looked at again.
fn lasting<W: PartialEq>(
    waits: &BTreeMap<ActorId, (ActorId, W)>,
    again: impl Fn(ActorId) -> Option<(ActorId, W)>,
) -> Vec<Vec<ActorId>> {
    let mut cycles = among(waits.keys().copied(), |actor| waits.get(&actor).map(|(other, _)| *other));
    cycles.retain(|cycle| cycle.iter().all(|actor| again(*actor).as_ref() == waits.get(actor)));
    cycles
}

fn among(
    actors: impl Iterator<Item = ActorId>,
    next: impl Fn(ActorId) -> Option<ActorId>,
) -> Vec<Vec<ActorId>> {
    let mut cycles = Vec::new();
    // Whom a path was followed from has been seen.
    let mut seen: BTreeMap<ActorId, ActorId> = BTreeMap::new();
    for start in actors {
        let mut at = Some(start);
        while let Some(actor) = at
            && !seen.contains_key(&actor)
        {
            seen.insert(actor, start);
            at = next(actor);
        }
        // A path that ends where it has been itself has closed a cycle there.
        if let Some(first) = at.filter(|actor| seen[actor] == start) {
            let mut cycle = vec![first];
            cycle.extend(
                std::iter::successors(next(first), |actor| next(*actor)).take_while(|actor| *actor != first),
            );
            let least = (0..cycle.len()).min_by_key(|at| cycle[*at]).unwrap_or(0);
            cycle.rotate_left(least);
            cycles.push(cycle);
        }
    }
    cycles.sort();
    cycles
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use super::*;

    /// The cycles if actor n waits for `next[n]`.
    fn cycles(next: &[Option<usize>]) -> Vec<Vec<u64>> {
        let id = |n: usize| ActorId::from_u64(n as u64);
        let found = among((0..next.len()).map(id), |actor| {
            next.get(actor.as_u64() as usize).copied().flatten().map(id)
        });
        found.iter().map(|cycle| cycle.iter().map(|actor| actor.as_u64()).collect()).collect()
    }

    #[test]
    fn a_path_that_ends_is_no_cycle() {
        assert_eq!(cycles(&[Some(1), Some(2), None, Some(9)]), Vec::<Vec<u64>>::new());
    }

    #[test]
    fn cycles_are_found_once_each_however_they_are_reached() {
        assert_eq!(cycles(&[Some(0)]), [[0]]);
        assert_eq!(
            cycles(&[Some(2), Some(2), Some(3), Some(1), Some(5), Some(4), Some(4)]),
            [vec![1, 2, 3], vec![4, 5]]
        );
    }

    #[test]
    fn a_cycle_of_which_one_waits_for_something_else_by_now_was_none() {
        let [a, b, c] = [1, 2, 3].map(ActorId::from_u64);
        let waits = BTreeMap::from([(a, (b, 'x')), (b, (a, 'y')), (c, (c, 'z'))]);
        let seen = |now: Option<(ActorId, char)>| {
            lasting(&waits, |actor| if actor == b { now } else { waits.get(&actor).copied() })
        };
        assert_eq!(seen(Some((a, 'y'))), [vec![a, b], vec![c]]);
        assert_eq!(seen(Some((a, 'w'))), [[c]], "it asks for the second time");
        assert_eq!(seen(Some((c, 'y'))), [[c]]);
        assert_eq!(seen(None), [[c]]);
    }

    #[test]
    fn of_all_small_graphs_those_who_come_back_to_themselves_are_in_a_cycle() {
        const ACTORS: usize = 5;
        for number in 0..(ACTORS + 1).pow(ACTORS as u32) {
            let digits = (0..ACTORS).map(|at| number / (ACTORS + 1).pow(at as u32) % (ACTORS + 1));
            let next: Vec<_> = digits.map(|digit| digit.checked_sub(1)).collect();
            let comes_back = |actor: usize| {
                let mut at = next[actor];
                for _ in 0..ACTORS {
                    match at {
                        Some(reached) if reached == actor => return true,
                        Some(reached) => at = next[reached],
                        None => return false,
                    }
                }
                false
            };
            let mut found: Vec<usize> =
                cycles(&next).concat().into_iter().map(|actor| actor as usize).collect();
            found.sort_unstable();
            let expected: Vec<usize> = (0..ACTORS).filter(|actor| comes_back(*actor)).collect();
            assert_eq!(found, expected, "{next:?}");
        }
    }
}

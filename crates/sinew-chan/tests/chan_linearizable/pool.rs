//! Pools: items that are lent, and come back.
//!
//! A take that was given up is three calls: one that finds that it has to wait, one that has what it is given, if anything,
//! and one that gives it back.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use sinew_chan::chan::{Pool, Pooled, TakeError};
use sinew_sched::Runtime;

use crate::channels::{Running, Way};
use crate::history::{Entry, Outcome, Spec};
use crate::support::next;
use crate::{Record, Recorded, are_explained, briefly, first};

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Call {
    Take,
    /// Takes until a time that has passed.
    TakeLate,
    TryTake,
    /// What a take does that was given up.
    Hold,
    Release,
    GiveBack(u32),
    /// Takes it out of the pool for good, or has it destroyed.
    Remove(u32),
    Close,
}

/// What somebody has who takes: an item, or a place for a new one.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum Has {
    Item(u32),
    Place,
}

#[derive(Clone, PartialEq, Eq, Hash)]
struct Items {
    capacity: usize,
    /// The last one is taken next.
    idle: Vec<u32>,
    /// How many there are, wherever they are.
    count: usize,
    /// Those that were ever created.
    created: u64,
    closed: bool,
    /// What takes have that are being given up, by who takes.
    held: BTreeMap<usize, Has>,
}

impl Items {
    fn new(capacity: usize) -> Items {
        Items { capacity, idle: Vec::new(), count: 0, created: 0, closed: false, held: BTreeMap::new() }
    }

    fn take(&mut self) -> Option<Has> {
        if let Some(item) = self.idle.pop() {
            return Some(Has::Item(item));
        }
        let free = !self.closed && self.count < self.capacity;
        self.count += usize::from(free);
        free.then_some(Has::Place)
    }

    fn give_back(&mut self, item: u32) {
        if self.closed { self.count -= 1 } else { self.idle.push(item) }
    }

    fn does(&mut self, entry: &Entry<Call>) -> bool {
        match (entry.call, entry.outcome) {
            (Call::Take | Call::TakeLate | Call::TryTake, Outcome::Item(item)) => match self.take() {
                Some(Has::Item(idle)) => idle == item,
                Some(Has::Place) => {
                    let before = self.created;
                    self.created |= 1 << item;
                    before != self.created
                }
                None => false,
            },
            (Call::Take | Call::TakeLate | Call::TryTake, Outcome::Not) => {
                !self.closed && self.take().is_none()
            }
            (Call::Take | Call::TakeLate | Call::TryTake, Outcome::Ended) => self.closed,
            (Call::Hold, _) => {
                let has = self.take();
                self.held.extend(has.map(|has| (entry.who, has)));
                true
            }
            (Call::Release, _) => {
                match self.held.remove(&entry.who) {
                    Some(Has::Item(item)) => self.give_back(item),
                    Some(Has::Place) => self.count -= 1,
                    None => (),
                }
                true
            }
            (Call::GiveBack(item), Outcome::Done) => {
                self.give_back(item);
                true
            }
            (Call::Remove(_), Outcome::Done) => {
                self.count -= 1;
                true
            }
            (Call::Close, Outcome::Done) => {
                self.count -= self.idle.len();
                self.idle.clear();
                !std::mem::replace(&mut self.closed, true)
            }
            (Call::Close, Outcome::Not) => self.closed,
            _ => false,
        }
    }
}

impl Spec for Items {
    type Call = Call;

    fn after(&self, entry: &Entry<Call>) -> Vec<Items> {
        let mut after = self.clone();
        after.does(entry).then_some(after).into_iter().collect()
    }
}

/// With the parts of takes that were given up.
fn as_specified(entries: Vec<Entry<Call>>) -> Vec<Entry<Call>> {
    let parts = |entry: Entry<Call>| match entry.outcome {
        Outcome::GaveUp => vec![
            Entry { call: Call::TryTake, outcome: Outcome::Not, ..entry },
            Entry { call: Call::Hold, ..entry },
            Entry { call: Call::Release, ..entry },
        ],
        _ => vec![entry],
    };
    entries.into_iter().flat_map(parts).collect()
}

#[test]
fn the_checker_knows_what_a_pool_does() {
    use Call::{Close, GiveBack, Remove, Take, TryTake};
    use Outcome::{Done, Ended, GaveUp, Item, Not};

    use crate::history::{explain, history};

    let explained =
        |capacity, calls: &[_]| explain(&Items::new(capacity), &as_specified(history(calls))).is_some();
    assert!(explained(
        1,
        &[(1, Take, Item(1)), (2, TryTake, Not), (3, GiveBack(1), Done), (4, Take, Item(1))]
    ));
    assert!(explained(1, &[(1, Take, Item(1)), (2, Take, Item(1)), (2, GiveBack(1), Done)]));
    assert!(explained(1, &[(1, Take, Item(1)), (2, Remove(1), Done), (3, Take, Item(2))]));
    assert!(explained(
        1,
        &[(1, Take, Item(1)), (2, Take, GaveUp), (2, GiveBack(1), Done), (2, TryTake, Not)]
    ));
    assert!(explained(1, &[(1, Take, Item(1)), (2, Close, Done), (3, GiveBack(1), Done), (4, Take, Ended)]));
    assert!(!explained(1, &[(1, Take, Item(1)), (2, TryTake, Item(2))]), "too many");
    assert!(!explained(2, &[(1, Take, Item(1)), (2, Take, Item(1))]), "lent twice");
    assert!(!explained(2, &[(1, Take, Item(1)), (2, TryTake, Not)]), "there was a place");
    assert!(!explained(2, &[(1, Take, Item(1)), (2, GiveBack(1), Done), (3, Take, Item(2))]), "one was idle");
    assert!(!explained(1, &[(1, Take, Item(1)), (2, GiveBack(1), Done), (3, TryTake, Not)]), "one was idle");
    assert!(!explained(1, &[(1, Take, GaveUp)]), "it need not wait");
    assert!(!explained(1, &[(1, Close, Done), (2, Take, Item(1))]), "it was closed");
    let lost = [(1, Take, Item(1)), (2, Take, GaveUp), (2, GiveBack(1), Done), (3, TryTake, Not)];
    assert!(!explained(1, &lost), "what was given up comes back");
}

/// An item that a party has; given back in a call, whichever way the party ends.
struct Borrowed {
    who: usize,
    record: Arc<Record<Call>>,
    item: Option<Pooled<u32>>,
}

impl Borrowed {
    /// Has the item leave the pool.
    fn remove(mut self, discard: bool) {
        let item = self.item.take().expect("it was not given back");
        self.record.calls(self.who, Call::Remove(*item), || {
            if discard {
                Pooled::discard(item);
            } else {
                Pooled::detach(item);
            }
            Outcome::Done
        });
    }
}

impl Drop for Borrowed {
    fn drop(&mut self) {
        let Some(item) = self.item.take() else { return };
        self.record.calls(self.who, Call::GiveBack(*item), || {
            drop(item);
            Outcome::Done
        });
    }
}

/// One who takes and gives back.
struct Party {
    who: usize,
    way: Way,
    record: Arc<Record<Call>>,
    pool: Pool<u32>,
    has: Vec<Borrowed>,
}

impl Party {
    fn took(&mut self, taken: Result<Option<Pooled<u32>>, TakeError>) -> Outcome {
        match taken {
            Ok(Some(item)) => {
                let number = *item;
                let (who, record) = (self.who, self.record.clone());
                self.has.push(Borrowed { who, record, item: Some(item) });
                Outcome::Item(number)
            }
            Ok(None) | Err(TakeError::Timeout | TakeError::Refused(_)) => Outcome::Not,
            Err(TakeError::Closed) => Outcome::Ended,
            Err(error) => panic!("{error:?}"),
        }
    }

    async fn calls(mut self, mut seed: u64) {
        let (who, way, record, pool) = (self.who, self.way, self.record.clone(), self.pool.clone());
        record.start(way).await;
        for _ in 0..5 {
            record.dawdle(way, &mut seed).await;
            match next(&mut seed) % 32 {
                0 => {
                    record.calls(who, Call::Close, || first(pool.close()));
                }
                1..14 if !self.has.is_empty() => {
                    let item = self.has.swap_remove(next(&mut seed) as usize % self.has.len());
                    if next(&mut seed).is_multiple_of(4) {
                        item.remove(next(&mut seed).is_multiple_of(2));
                    }
                }
                14..18 => {
                    record.calls(who, Call::TryTake, || self.took(pool.try_take()));
                }
                18..22 => {
                    record.calls(who, Call::TakeLate, || {
                        self.took(pool.take_timeout(Duration::ZERO).map(Some))
                    });
                }
                22..26 => {
                    let calling = record.begins(who, Call::Take);
                    if let Some(taken) = briefly(way, pool.take_async()).await {
                        calling.gave(self.took(taken.map(Some)));
                    }
                }
                _ => {
                    let calling = record.begins(who, Call::Take);
                    let takes = way.does(&pool, Pool::take, Pool::take_async);
                    calling.gave(self.took(takes.await.map(Some)));
                }
            }
        }
    }
}

/// Three who take and give back.
fn items(runtime: &Runtime, round: usize, seed: &mut u64) -> (Items, Recorded<Call>) {
    let capacity = 1 + round % 3;
    let created = AtomicU32::new(0);
    let pool = Pool::builder(capacity, move || created.fetch_add(1, Ordering::Relaxed)).build();
    let record = Record::new();
    let party = |who| {
        let way = Way::nth(next(seed));
        let party = Party { who, way, record: record.clone(), pool: pool.clone(), has: Vec::new() };
        way.start(runtime, party.calls(next(seed)))
    };
    let parties: Vec<Running<()>> = (0..3).map(party).collect();
    record.go();
    record.disturb(&parties, seed);
    let recorded = move || {
        record.wait_while_busy(&parties);
        let (way, has) = (Way::Thread, Vec::new());
        let mut party = Party { who: 3, way, record: record.clone(), pool: pool.clone(), has };
        record.calls(3, Call::TryTake, || party.took(pool.try_take()));
        drop(party);
        record.calls(3, Call::Close, || first(pool.close()));
        parties.into_iter().for_each(Running::end);
        as_specified(record.entries())
    };
    (Items::new(capacity), Box::new(recorded))
}

#[test]
fn what_is_done_to_a_pool_at_once_could_have_been_done_in_turn() {
    are_explained("Pool", 50, items);
}

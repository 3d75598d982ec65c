//! The actors of a node by id.
//!
//! Local ids come from one counter, which wraps: none is used again within four billion spawns. The highest are for
//! [services](crate::namespace). Whoever spawns takes a block of ids, so that workers do not meet at the counter for each.
//!
//! An id says where its actor is: the upper part of a block's number chooses a shard, the rest a place in it, modulo the
//! shard's size. Ids that lead to a taken place are passed over. So a lookup is one lock and one index, and an actor costs the
//! table a pointer or two.
//!
//! Models: `table_gives_an_id_once`, `table_has_room_for_one`.

use sinew_core::{ActorId, NodeId};
use sinew_sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering};
use sinew_sync::{Arc, Mutex};

use crate::service::FIRST_SERVICE_ID;

/// Ids of a block.
const BLOCK: u32 = 64;
const SHARDS: usize = 16;
/// Places of a shard to begin with.
const FIRST: usize = BLOCK as usize;

/// What a table has its places for.
pub(crate) trait Identified {
    fn id(&self) -> ActorId;
}

pub(crate) struct Table<C: ?Sized> {
    node: NodeId,
    blocks: AtomicU32,
    /// What is left of the blocks that were taken, for a worker each.
    left: [Apart<AtomicU64>; SHARDS],
    shards: [Apart<Mutex<Shard<C>>>; SHARDS],
    /// How many actors there may be.
    max_actors: usize,
    /// How many more actors there may be, if that is limited.
    room: Option<AtomicUsize>,
}

/// On cache lines of its own.
#[repr(align(128))]
struct Apart<T>(T);

/// Ids from one to another, both included.
struct Block {
    next: u32,
    last: u32,
}

impl Block {
    /// The block as one word; that of none is zero.
    fn to_word(&self) -> u64 {
        u64::from(self.last) << 32 | u64::from(self.next)
    }

    fn from_word(word: u64) -> Option<Block> {
        (word != 0).then_some(Block { next: word as u32, last: (word >> 32) as u32 })
    }
}

struct Shard<C: ?Sized> {
    places: Vec<Option<Arc<C>>>,
    live: usize,
}

/// Where the actor with this local id is: the shard, and the number in it before the modulo.
fn place(local: u32) -> (usize, usize) {
    let (block, offset) = ((local / BLOCK) as usize, (local % BLOCK) as usize);
    (block % SHARDS, block / SHARDS * BLOCK as usize + offset)
}

/// True unless the local id is nobody's or for a [service](crate::namespace).
fn is_for_actors(local: u32) -> bool {
    (1..FIRST_SERVICE_ID).contains(&local)
}

impl<C: Identified + ?Sized> Table<C> {
    pub(crate) fn new(node: NodeId, most: usize) -> Table<C> {
        const IDS: usize = FIRST_SERVICE_ID as usize - 1; // none has id 0
        Table {
            node,
            blocks: AtomicU32::new(0),
            left: std::array::from_fn(|_| Apart(AtomicU64::new(0))),
            shards: std::array::from_fn(|_| Apart(Mutex::new(Shard { places: Vec::new(), live: 0 }))),
            max_actors: most.min(IDS),
            room: (most < usize::MAX).then(|| AtomicUsize::new(most)),
        }
    }

    /// How many actors there may be at once.
    pub(crate) fn max_actors(&self) -> usize {
        self.max_actors
    }

    /// How many actors there are.
    pub(crate) fn len(&self) -> usize {
        self.shards.iter().map(|shard| shard.0.lock().live).sum()
    }

    /// Makes room for one more actor. False if there are as many as there may be.
    pub(crate) fn reserve(&self) -> bool {
        let Some(room) = &self.room else { return true };
        let one_less = |room: usize| room.checked_sub(1);
        room.fetch_update(Ordering::Relaxed, Ordering::Relaxed, one_less).is_ok()
    }

    /// Puts the actor in that `identify` makes with the next id. There is room for it.
    pub(crate) fn insert(&self, identify: impl FnOnce(ActorId) -> Arc<C>) {
        let lane = sinew_sched::turn::worker_index().unwrap_or(SHARDS - 1) % SHARDS;
        loop {
            let block = self.take_block(lane);
            let (shard, _) = place(block.next);
            let mut shard = self.shards[shard].0.lock();
            if shard.live * 32 >= shard.places.len() * 31 {
                shard.grow();
            }
            let free = (block.next..=block.last).find(|local| is_for_actors(*local) && shard.is_free(*local));
            let Some(local) = free else { continue };
            let at = shard.at(local);
            shard.places[at] = Some(identify(ActorId::new(self.node, local)));
            shard.live += 1;
            drop(shard);
            self.give_back(lane, Block { next: local, last: block.last });
            return;
        }
    }

    /// Ids that nobody else has, of one block.
    fn take_block(&self, lane: usize) -> Block {
        let left = self.left[lane].0.swap(0, Ordering::Relaxed);
        Block::from_word(left).unwrap_or_else(|| {
            let next = self.blocks.fetch_add(1, Ordering::Relaxed).wrapping_mul(BLOCK);
            Block { next, last: next + (BLOCK - 1) }
        })
    }

    /// What is behind the first id of `block` is for the next one.
    fn give_back(&self, lane: usize, block: Block) {
        if block.next < block.last {
            let left = Block { next: block.next + 1, last: block.last };
            self.left[lane].0.store(left.to_word(), Ordering::Relaxed);
        }
    }

    /// The actor with this id, if it is of this node and has not ended.
    pub(crate) fn get(&self, id: ActorId) -> Option<Arc<C>> {
        if id.node() != self.node {
            return None;
        }
        let (shard, _) = place(id.local());
        self.shards[shard].0.lock().get(id).cloned()
    }

    /// True if there is an actor with this id, which is of this node, and it has not ended.
    pub(crate) fn has(&self, id: ActorId) -> bool {
        let (shard, _) = place(id.local());
        self.shards[shard].0.lock().get(id).is_some()
    }

    /// Takes the actor out. False if it is not there.
    pub(crate) fn remove(&self, id: ActorId) -> bool {
        let (shard, number) = place(id.local());
        let mut shard = self.shards[shard].0.lock();
        let at = number & shard.mask();
        let Some(found) = shard.places.get_mut(at) else { return false };
        let taken = found.take_if(|cell| cell.id() == id);
        if taken.is_some() {
            shard.live -= 1;
            self.room.iter().for_each(|room| _ = room.fetch_add(1, Ordering::Relaxed));
        }
        drop(shard);
        taken.is_some()
    }

    /// Gives memory back, of a node that has no actors any more.
    pub(crate) fn shrink(&self) {
        for shard in &self.shards {
            let mut shard = shard.0.lock();
            if shard.live == 0 {
                shard.places = Vec::new();
            }
        }
    }

    /// All actors, as of some moment each.
    pub(crate) fn all(&self) -> Vec<Arc<C>> {
        let mut all: Vec<Arc<C>> = Vec::with_capacity(self.len());
        for shard in &self.shards {
            all.extend(shard.0.lock().places.iter().flatten().cloned());
        }
        all.sort_by_key(|cell| cell.id());
        all
    }
}

impl<C: Identified + ?Sized> Shard<C> {
    fn mask(&self) -> usize {
        self.places.len().saturating_sub(1)
    }

    fn at(&self, local: u32) -> usize {
        place(local).1 & self.mask()
    }

    fn get(&self, id: ActorId) -> Option<&Arc<C>> {
        self.places.get(self.at(id.local()))?.as_ref().filter(|cell| cell.id() == id)
    }

    fn is_free(&self, local: u32) -> bool {
        self.places[self.at(local)].is_none()
    }

    /// Twice as large: places that are different stay so.
    fn grow(&mut self) {
        let len = (self.places.len() * 2).max(FIRST);
        let old = std::mem::take(&mut self.places);
        self.places.resize_with(len, || None);
        for cell in old.into_iter().flatten() {
            let at = self.at(cell.id().local());
            self.places[at] = Some(cell);
        }
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use super::*;
    use crate::{Flow, Node};

    #[test]
    fn no_actor_gets_the_id_of_a_service_or_of_nobody() {
        let node = Node::new();
        node.0.table.blocks.store(u32::MAX / BLOCK, Ordering::Relaxed); // the last one, then the first
        let spawn = |_| node.actor().spawn_raw((), |(), _, _| Flow::Continue).unwrap().id().local();
        let ids: Vec<u32> = (0..60).map(spawn).collect();
        let last = FIRST_SERVICE_ID - 48..FIRST_SERVICE_ID;
        assert_eq!(ids, last.chain(1..).take(60).collect::<Vec<_>>());
    }
}

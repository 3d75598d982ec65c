//! The actors of a node by id.
//!
//! Local ids come from one counter, which wraps: none is used again within 2^32 spawns. Whoever spawns takes a block of them, so
//! that workers do not meet at the counter for each.
//!
//! An id says where its actor is: the upper part of a block's number chooses a shard, the rest a place in it, modulo the
//! shard's size. Ids that lead to a taken place are passed over. So a lookup is one lock and one index, and an actor costs the
//! table a pointer or two.
//!
//! Models: `table_gives_an_id_once`, `table_has_room_for_one`.

use sinew_core::{ActorId, NodeId};
use sinew_sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering};
use sinew_sync::{Arc, Mutex};

use crate::cell::AnyCell;

/// Ids of a block.
const BLOCK: u32 = 64;
const SHARDS: usize = 16;
/// Places of a shard to begin with.
const FIRST: usize = BLOCK as usize;

pub(crate) struct Table {
    node: NodeId,
    blocks: AtomicU32,
    /// What is left of the blocks that were taken, for a worker each.
    left: [Apart<AtomicU64>; SHARDS],
    shards: [Apart<Mutex<Shard>>; SHARDS],
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

#[derive(Default)]
struct Shard {
    places: Vec<Option<Arc<dyn AnyCell>>>,
    live: usize,
}

/// Where the actor with this local id is: the shard, and the number in it before the modulo.
fn place(local: u32) -> (usize, usize) {
    let (block, offset) = ((local / BLOCK) as usize, (local % BLOCK) as usize);
    (block % SHARDS, block / SHARDS * BLOCK as usize + offset)
}

impl Table {
    pub(crate) fn new(node: NodeId, most: usize) -> Table {
        Table {
            node,
            blocks: AtomicU32::new(0),
            left: std::array::from_fn(|_| Apart(AtomicU64::new(0))),
            shards: std::array::from_fn(|_| Apart(Mutex::new(Shard::default()))),
            room: (most < usize::MAX).then(|| AtomicUsize::new(most)),
        }
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

    /// Puts an actor in that nobody else has yet, and gives it the next id. There is room for it.
    pub(crate) fn insert<C: AnyCell + 'static>(&self, cell: &mut Arc<C>) {
        let lane = sinew_sched::turn::worker_index().unwrap_or(SHARDS - 1) % SHARDS;
        loop {
            let block = self.take_block(lane);
            let (shard, _) = place(block.next);
            let mut shard = self.shards[shard].0.lock();
            if shard.live * 32 >= shard.places.len() * 31 {
                shard.grow();
            }
            let free = (block.next..=block.last).find(|local| *local != 0 && shard.is_free(*local));
            let Some(local) = free else { continue };
            Arc::get_mut(cell).expect("nobody else has it").set_id(ActorId::new(self.node, local));
            let at = shard.at(local);
            shard.places[at] = Some(cell.clone());
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
    pub(crate) fn get(&self, id: ActorId) -> Option<Arc<dyn AnyCell>> {
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
        let taken = found.take_if(|cell| cell.head().id == id);
        if taken.is_some() {
            shard.live -= 1;
            self.room.iter().for_each(|room| _ = room.fetch_add(1, Ordering::Relaxed));
        }
        drop(shard);
        taken.is_some()
    }

    /// All actors, as of some moment each.
    pub(crate) fn all(&self) -> Vec<Arc<dyn AnyCell>> {
        let mut all: Vec<Arc<dyn AnyCell>> = Vec::with_capacity(self.len());
        for shard in &self.shards {
            all.extend(shard.0.lock().places.iter().flatten().cloned());
        }
        all.sort_by_key(|cell| cell.head().id);
        all
    }
}

impl Shard {
    fn mask(&self) -> usize {
        self.places.len().saturating_sub(1)
    }

    fn at(&self, local: u32) -> usize {
        place(local).1 & self.mask()
    }

    fn get(&self, id: ActorId) -> Option<&Arc<dyn AnyCell>> {
        self.places.get(self.at(id.local()))?.as_ref().filter(|cell| cell.head().id == id)
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
            let at = self.at(cell.head().id.local());
            self.places[at] = Some(cell);
        }
    }
}

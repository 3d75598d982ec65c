//! Models of two threads' bins in front of one pool.

use sinew_sync::{model, thread};

use super::super::pool::tests::{Imaginary, assert_complete, idle_pool};
use super::*;

fn open_bin() -> Bin {
    let bin = Bin::closed();
    bin.capacity.set(CAPACITY);
    bin
}

/// More slots than a bin holds under a model, so that it both fetches and hands over.
fn come_and_go(bin: &Bin, pool: &Pool<Imaginary>, slots: usize) {
    let taken: Vec<Slot> = (0..slots)
        .map(|_| {
            let slot = bin.take(pool).unwrap();
            pool.backing().use_alone(&slot);
            slot
        })
        .collect();
    for slot in taken {
        bin.give(pool, slot);
    }
}

#[test]
fn cache_bins_share_a_pool_without_sharing_or_losing_a_slot() {
    model("cache_bins_share_a_pool", || {
        let pool = idle_pool(4);
        let other = {
            let pool = pool.clone();
            thread::spawn(move || {
                let bin = open_bin();
                come_and_go(&bin, &pool, 1);
                pool.trim_idle(1);
                bin.flush(&pool);
            })
        };
        let bin = open_bin();
        come_and_go(&bin, &pool, CAPACITY.min(2) + 1);
        pool.retire(bin.take_oldest(bin.length.get()));
        bin.flush(&pool);
        other.join().unwrap();
        assert_complete(&pool);
    });
}

#[test]
fn a_closed_bin_passes_everything_on_to_the_pool() {
    model("cache_closed_bin", || {
        let pool = idle_pool(2);
        let bin = Bin::closed();
        come_and_go(&bin, &pool, 2);
        assert_eq!(bin.length.get(), 0);
        assert_complete(&pool);
    });
}

#[test]
fn a_bin_gives_the_newest_first_and_keeps_the_newer_half() {
    model("cache_newest_first", || {
        let pool = idle_pool(CAPACITY + 1);
        let bin = open_bin();
        let taken: Vec<Slot> = (0..=CAPACITY).map(|_| bin.take(&pool).unwrap()).collect();
        let order: Vec<usize> = taken.iter().map(|slot| slot.start().addr().get()).collect();
        for slot in taken {
            bin.give(&pool, slot);
        }
        assert_eq!(bin.length.get(), CAPACITY / 2 + 1);
        let mut again = std::iter::from_fn(|| bin.pop()).map(|slot| slot.start().addr().get());
        assert!(order.iter().rev().take(CAPACITY / 2 + 1).copied().eq(again.by_ref()));
    });
}

#[test]
fn a_bin_hands_over_the_oldest_and_keeps_the_others() {
    model("cache_oldest", || {
        let pool = idle_pool(2);
        let bin = open_bin();
        come_and_go(&bin, &pool, 2);
        let newest = bin.slots[1].take().unwrap();
        let address = newest.start();
        bin.slots[1].set(Some(newest));
        let oldest = bin.take_oldest(1);
        assert_eq!((oldest.len(), bin.length.get()), (1, 1));
        pool.give(oldest);
        assert_eq!(bin.pop().unwrap().start(), address);
    });
}

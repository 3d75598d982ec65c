use sinew_sync::atomic::AtomicBool;
use sinew_sync::{Arc, model, thread};

use super::*;
use crate::case::block;
use crate::wait::BATCH;

/// A descriptor, and what can be read from it: as a stream uses both.
fn read(slot: &Slot, there: &AtomicBool) {
    loop {
        let seen = slot.seen();
        if seen.is_ready(Interest::READ) {
            if there.load(Ordering::Acquire) {
                return;
            }
            slot.clear(seen, Interest::READ);
        }
        assert!(block(&Readiness { slot, fd: 0, interest: Interest::READ }, None).unwrap());
    }
}

fn in_use() -> Arc<Slot> {
    let slot = Arc::new(Slot::new());
    slot.begin();
    slot
}

/// What comes between a look and the taking back of what was known is not taken back: two bytes, told one after the
/// other, are both read.
#[test]
fn news_during_a_call_is_kept() {
    model("slot_clear_or_tell", || {
        let (slot, there) = (in_use(), Arc::new(AtomicBool::new(false)));
        let system = thread::spawn({
            let (slot, there) = (slot.clone(), there.clone());
            move || {
                // The first news is for something that somebody else has read.
                slot.tell(slot.number(), Interest::READ, false, &mut Vec::new());
                there.store(true, Ordering::Release);
                slot.tell(slot.number(), Interest::READ, false, &mut Vec::new());
            }
        });
        read(&slot, &there);
        system.join().unwrap();
    });
}

/// Whoever finds nothing and joins the queue is told of what comes then.
#[test]
fn who_waits_is_told() {
    model("slot_wait_or_tell", || {
        let (slot, there) = (in_use(), Arc::new(AtomicBool::new(false)));
        let system = thread::spawn({
            let (slot, there) = (slot.clone(), there.clone());
            move || {
                there.store(true, Ordering::Release);
                slot.tell(slot.number(), Interest::READ, false, &mut Vec::new());
            }
        });
        read(&slot, &there);
        system.join().unwrap();
    });
}

/// Somebody who was told early finds that there is nothing while later ones are still to be told: those wait for what comes
/// next, and it may wait among them without being told of the same again.
#[test]
fn what_is_used_up_is_told_to_nobody_else() {
    model("slot_used_up", || {
        let slot = in_use();
        let readiness = Readiness { slot: &slot, fd: 0, interest: Interest::READ };
        let nodes: Vec<Node> = (0..=BATCH).map(|_| Node::new(0)).collect();
        for node in &nodes {
            node.wake_caller();
            // SAFETY: the node is new, and all are told below, before they go.
            assert!(matches!(unsafe { readiness.enroll(node) }, Enrolled::Queued));
        }
        let tell = |use_up: bool| {
            let mut told = 0;
            slot.word.fetch_or(u64::from(Interest::READ.bits()), Ordering::AcqRel);
            slot.tell_all(slot.waiters.lock(), Interest::BOTH, |_| {
                told += 1;
                if use_up {
                    slot.clear(slot.seen(), Interest::READ);
                }
            });
            told
        };
        assert_eq!(tell(true), BATCH);
        assert_eq!(tell(false), 1, "the last one");
    });
}

/// A stream whose last byte and end are told one after the other, or together: whoever reads the byte, and takes it for all
/// that there is, reads the end as well.
#[test]
fn the_end_of_a_stream_is_read_after_its_last_byte() {
    for together in [false, true] {
        model("slot_spend_or_tell", move || {
            let flag = || Arc::new(AtomicBool::new(false));
            let (slot, byte, ended) = (in_use(), flag(), flag());
            let system = thread::spawn({
                let (slot, byte, ended) = (slot.clone(), byte.clone(), ended.clone());
                move || {
                    byte.store(true, Ordering::Release);
                    if !together {
                        slot.tell(slot.number(), Interest::READ, false, &mut Vec::new());
                    }
                    ended.store(true, Ordering::Release);
                    slot.tell(slot.number(), Interest::READ, true, &mut Vec::new());
                }
            });
            let mut read = false;
            loop {
                assert!(block(&Readiness { slot: &slot, fd: 0, interest: Interest::READ }, None).unwrap());
                let seen = slot.seen();
                if !read && byte.load(Ordering::Acquire) {
                    read = true;
                    slot.spend(seen, Interest::READ);
                } else if ended.load(Ordering::Acquire) {
                    break;
                } else {
                    slot.clear(seen, Interest::READ);
                }
            }
            system.join().unwrap();
        });
    }
}

/// Closing tells who waits, whatever else is told.
#[test]
fn who_waits_is_told_of_the_close() {
    model("slot_wait_or_close", || {
        let slot = in_use();
        let waiter = thread::spawn({
            let slot = slot.clone();
            move || {
                while !slot.seen().is_closed() {
                    assert!(
                        block(&Readiness { slot: &slot, fd: 0, interest: Interest::READ }, None).unwrap()
                    );
                }
            }
        });
        slot.close(slot.number());
        waiter.join().unwrap();
    });
}

/// News of an earlier use is not taken for that of a later one.
#[test]
fn old_news_is_dropped() {
    model("slot_old_news", || {
        let slot = in_use();
        let number = slot.number();
        let system = thread::spawn({
            let slot = slot.clone();
            move || slot.tell(number, Interest::READ, false, &mut Vec::new())
        });
        assert!(slot.leave());
        slot.close(number);
        slot.begin();
        system.join().unwrap();
        assert!(!slot.seen().is_ready(Interest::BOTH));
    });
}

/// Whoever took a slot out of the table closes it while its last owner lets go of it, and it is used again: the later use
/// stays open.
#[test]
fn a_late_close_is_not_one_of_the_next_use() {
    model("slot_late_close", || {
        let slot = in_use();
        let number = slot.number();
        let closes = thread::spawn({
            let slot = slot.clone();
            move || slot.close(number)
        });
        assert!(slot.leave());
        slot.close(number);
        slot.begin();
        closes.join().unwrap();
        assert!(!slot.seen().is_closed());
    });
}

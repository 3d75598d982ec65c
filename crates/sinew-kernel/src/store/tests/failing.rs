//! A disk that refuses to write, to read, or to keep what was written.

use std::io::{self, ErrorKind};
use std::thread;

use super::super::{Store, StoreError};
use super::faults::Operation;
use super::{Folder, open};

#[test]
fn a_full_disk_is_reported_to_all_in_the_commit_and_the_store_goes_on() {
    let folder = Folder::new();
    let (store, faults) = open(Store::builder(), &folder.file());
    let state = store.of("a");
    state.save("before", "kept").unwrap();

    faults.set(|operation| match operation {
        Operation::Write { .. } | Operation::SetLen(_) => Err(ErrorKind::StorageFull.into()),
        _ => Ok(()),
    });
    thread::scope(|threads| {
        for n in 0..8 {
            let state = &state;
            threads.spawn(move || match state.save(&format!("full{n}"), "lost") {
                Err(StoreError::Failed { cause, .. }) => assert_eq!(cause.kind(), ErrorKind::StorageFull),
                other => panic!("{other:?}"),
            });
        }
    });
    assert!(store.stats().failed > 0);

    faults.clear();
    assert_eq!(state.load("before").unwrap(), Some(b"kept".to_vec()));
    state.save("after", "saved").unwrap();
    store.close().unwrap();

    let state = Store::open(folder.file()).unwrap().of("a");
    assert_eq!(state.keys("").unwrap(), ["after", "before"]);
}

#[test]
fn of_values_that_are_saved_together_none_is_there_if_the_disk_is_full() {
    let folder = Folder::new();
    let (store, faults) = open(Store::builder(), &folder.file());
    let state = store.of("a");
    state.save("k0", "old").unwrap();
    faults.set(|operation| match operation {
        Operation::Write { .. } | Operation::SetLen(_) => Err(ErrorKind::StorageFull.into()),
        _ => Ok(()),
    });
    let error = state.save_many((0..100).map(|n| (format!("k{n}"), "new"))).unwrap_err();
    assert!(matches!(error, StoreError::Failed { .. }), "{error}");
    faults.clear();
    assert_eq!(state.entries("").unwrap(), [("k0".to_owned(), b"old".to_vec())]);
    store.close().unwrap();
    assert_eq!(Store::open(folder.file()).unwrap().of("a").keys("").unwrap(), ["k0"]);
}

#[test]
fn a_store_whose_disk_is_still_full_says_so_again() {
    let folder = Folder::new();
    let (store, faults) = open(Store::builder(), &folder.file());
    faults.set(|operation| match operation {
        Operation::Write { .. } | Operation::SetLen(_) => Err(ErrorKind::StorageFull.into()),
        _ => Ok(()),
    });
    for _ in 0..3 {
        let error = store.of("a").save("k", "v").unwrap_err();
        assert!(matches!(error, StoreError::Failed { .. }), "{error}");
    }
    faults.clear();
    store.of("a").save("k", "v").unwrap();
}

#[test]
fn a_sync_that_fails_breaks_the_store_and_loses_nothing_that_was_acknowledged() {
    let folder = Folder::new();
    let (store, faults) = open(Store::builder(), &folder.file());
    let state = store.of("a");
    state.save("k", "acknowledged").unwrap();

    faults.set(|operation| match operation {
        Operation::Sync => Err(io::Error::other("the disk is gone")),
        _ => Ok(()),
    });
    let error = state.save("k", "not acknowledged").unwrap_err();
    assert!(matches!(error, StoreError::Broken { .. }), "{error}");
    assert!(error.to_string().contains("the disk is gone"), "{error}");

    faults.clear();
    assert!(matches!(state.save("k", "v"), Err(StoreError::Broken { .. })));
    assert!(matches!(state.load("k"), Err(StoreError::Broken { .. })));
    assert!(matches!(store.flush(), Err(StoreError::Broken { .. })));
    store.close().unwrap();

    let value = Store::open(folder.file()).unwrap().of("a").load("k").unwrap().unwrap();
    assert!([&b"acknowledged"[..], b"not acknowledged"].contains(&&*value));
}

#[test]
fn a_read_that_fails_is_an_error_and_the_next_one_succeeds() {
    let folder = Folder::new();
    let (store, faults) = open(Store::builder(), &folder.file());
    let state = store.of("a");
    state.save("k", vec![7; 1 << 20]).unwrap(); // more than is kept in memory
    faults.set(|operation| match operation {
        Operation::Read => Err(io::Error::other("a bad sector")),
        _ => Ok(()),
    });
    let loaded = state.load("k").map(|value| value.map(|bytes| bytes.len()));
    assert!(matches!(loaded, Err(StoreError::Failed { .. })), "{loaded:?}");
    faults.clear();
    assert!(state.load("k").unwrap() == Some(vec![7; 1 << 20]));
    state.save("k", "v").unwrap();
}

#[test]
fn a_panic_of_the_database_is_an_error_and_nobody_waits_for_ever() {
    let folder = Folder::new();
    let (store, faults) = open(Store::builder(), &folder.file());
    let state = store.of("a");
    state.save("k", "before").unwrap();
    faults.set(|operation| match operation {
        Operation::Write { .. } => panic!("on purpose"),
        _ => Ok(()),
    });
    let error = state.save("k", "v").unwrap_err();
    assert!(matches!(error, StoreError::Damaged { .. }), "{error}");
    assert!(error.to_string().contains("panicked: on purpose"), "{error}");
    faults.clear();
    // It is not known what the database has in memory.
    assert!(matches!(state.save("k", "v"), Err(StoreError::Damaged { .. })));
    assert!(matches!(state.load("k"), Err(StoreError::Damaged { .. })));
    assert!(matches!(state.keys(""), Err(StoreError::Damaged { .. })));
    assert!(matches!(store.flush(), Err(StoreError::Damaged { .. })));
    store.close().unwrap();

    let state = Store::open(folder.file()).unwrap().of("a");
    assert_eq!(state.load("k").unwrap(), Some(b"before".to_vec()));
    state.save("k", "after").unwrap();
}

#[test]
fn a_database_that_panics_while_it_is_closed_gives_the_file_back() {
    let folder = Folder::new();
    let (store, faults) = open(Store::builder(), &folder.file());
    store.of("a").save("k", "v").unwrap();
    faults.set(|operation| match operation {
        Operation::Write { .. } => panic!("on purpose"),
        _ => Ok(()),
    });
    store.close().unwrap();
    assert_eq!(Store::open(folder.file()).unwrap().of("a").load("k").unwrap(), Some(b"v".to_vec()));
}

#[test]
fn a_file_that_is_damaged_when_it_is_opened_again_is_refused_from_then_on() {
    let folder = Folder::new();
    let (store, faults) = open(Store::builder(), &folder.file());
    let state = store.of("a");
    state.save("k", vec![7; 1 << 20]).unwrap();
    faults.set(|operation| match operation {
        Operation::Write { .. } => Err(ErrorKind::StorageFull.into()),
        _ => Ok(()),
    });
    assert!(matches!(state.save("k", "v"), Err(StoreError::Failed { .. })));
    faults.clear();
    let whole = std::fs::read(folder.file()).unwrap();
    let mut damaged = whole.clone();
    damaged[4096..].fill(0);
    std::fs::write(folder.file(), damaged).unwrap();
    for _ in 0..2 {
        assert!(matches!(state.load("k"), Err(StoreError::Damaged { .. })));
        assert!(matches!(state.save("k", "v"), Err(StoreError::Damaged { .. })));
    }
    store.close().unwrap();
    std::fs::write(folder.file(), whole).unwrap();
    assert!(Store::open(folder.file()).unwrap().of("a").load("k").unwrap() == Some(vec![7; 1 << 20]));
}

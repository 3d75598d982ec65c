//! Files of other formats, and values that are not the ones that were saved.

use redb::{Database, ReadableDatabase, ReadableTable, TableDefinition};

use super::super::format::{STATE, checksum};
use super::super::{Store, StoreError};
use super::Folder;

type OwnerAndKey = (&'static str, &'static str);

/// Commits what `change` does to the file, behind the back of the store.
fn commit(folder: &Folder, change: impl FnOnce(&redb::WriteTransaction)) {
    let database = Database::create(folder.file()).unwrap();
    let mut transaction = database.begin_write().unwrap();
    transaction.set_quick_repair(true);
    change(&transaction);
    transaction.commit().unwrap();
}

/// Saves these values, of `owner`, and closes the file.
fn saved(folder: &Folder, values: &[(&str, &str)]) {
    let store = Store::open(folder.file()).unwrap();
    for (key, value) in values {
        store.of("owner").save(key, *value).unwrap();
    }
    store.close().unwrap();
}

#[test]
fn a_value_that_was_changed_is_an_error_that_names_it_and_others_are_whole() {
    let folder = Folder::new();
    saved(&folder, &[("damaged", "value"), ("whole", "value")]);
    commit(&folder, |transaction| {
        let mut table = transaction.open_table(STATE).unwrap();
        let saved = table.get(("owner", "damaged")).unwrap().unwrap().value().0;
        table.insert(("owner", "damaged"), (saved, &b"Value"[..])).unwrap();
    });
    let store = Store::open(folder.file()).unwrap();
    let state = store.of("owner");
    let error = state.load("damaged").unwrap_err();
    assert!(
        matches!(&error, StoreError::DamagedValue { owner, key, .. } if owner == "owner" && key == "damaged")
    );
    for part in [&*folder.file().to_string_lossy(), "\"damaged\" of \"owner\"", "5 bytes", "from a backup"] {
        assert!(error.to_string().contains(part), "{error}");
    }
    assert_eq!(state.load("whole").unwrap(), Some(b"value".to_vec()));
    assert_eq!(state.keys("").unwrap(), ["damaged", "whole"]);
    assert!(matches!(state.entries(""), Err(StoreError::DamagedValue { key, .. }) if key == "damaged"));
    assert_eq!(state.entries("whole").unwrap().len(), 1);
    state.save("damaged", "new").unwrap();
    assert_eq!(state.load("damaged").unwrap(), Some(b"new".to_vec()));
}

#[test]
fn values_that_have_changed_places_are_noticed() {
    let folder = Folder::new();
    saved(&folder, &[("a", "1"), ("b", "2")]);
    commit(&folder, |transaction| {
        let mut table = transaction.open_table(STATE).unwrap();
        let values = ["a", "b"].map(|key| {
            let (saved, value) =
                table.get(("owner", key)).unwrap().map(|it| (it.value().0, it.value().1.to_vec())).unwrap();
            (key, saved, value)
        });
        for (key, (_, saved, value)) in ["b", "a"].into_iter().zip(&values) {
            table.insert(("owner", key), (*saved, &**value)).unwrap();
        }
    });
    let state = Store::open(folder.file()).unwrap().of("owner");
    for key in ["a", "b"] {
        let error = state.load(key).unwrap_err();
        assert!(matches!(error, StoreError::DamagedValue { .. }), "{error}");
    }
}

#[test]
fn the_checksum_tells_owner_key_and_value_apart() {
    let parts = [("ab", "c", "d"), ("a", "bc", "d"), ("a", "b", "cd"), ("abc", "d", ""), ("c", "ab", "d")];
    let mut sums: Vec<_> =
        parts.iter().map(|(owner, key, value)| checksum(owner, key, value.as_bytes())).collect();
    // The checksum is part of the format.
    assert_eq!(sums[0], 6_625_910_051_673_536_702);
    sums.sort_unstable();
    sums.dedup();
    assert_eq!(sums.len(), parts.len());
}

#[test]
fn a_file_without_checksums_is_given_them_and_keeps_its_values() {
    const WITHOUT: TableDefinition<OwnerAndKey, &[u8]> = TableDefinition::new("state");
    for count in [0, 1, 300] {
        let folder = Folder::new();
        commit(&folder, |transaction| {
            let mut table = transaction.open_table(WITHOUT).unwrap();
            for n in 0..count {
                table.insert(("owner", &*n.to_string()), &*vec![n as u8; n * 10]).unwrap();
            }
        });
        for _ in 0..2 {
            let store = Store::open(folder.file()).unwrap();
            let state = store.of("owner");
            for n in 0..count {
                assert_eq!(state.load(&n.to_string()).unwrap(), Some(vec![n as u8; n * 10]));
            }
            assert_eq!(state.keys("").unwrap().len(), count);
            store.close().unwrap();
        }
        // The version that wrote it does not take it for an empty one.
        let database = Database::create(folder.file()).unwrap();
        assert!(database.begin_read().unwrap().open_table(WITHOUT).is_err());
    }
}

#[test]
fn a_file_of_a_newer_format_is_refused_and_left_alone() {
    let folder = Folder::new();
    saved(&folder, &[("k", "v")]);
    commit(&folder, |transaction| {
        const META: TableDefinition<&str, u64> = TableDefinition::new("sinew");
        transaction.open_table(META).unwrap().insert("format", 3).unwrap();
    });
    let error = Store::open(folder.file()).unwrap_err();
    assert!(matches!(error, StoreError::NewerFormat { found: 3, known: 2, .. }), "{error}");
    assert!(error.to_string().contains("the version that wrote it"), "{error}");
}

#[test]
fn a_database_of_another_program_is_refused_and_left_alone() {
    const OTHER: TableDefinition<&str, &str> = TableDefinition::new("other");
    let folder = Folder::new();
    commit(&folder, |transaction| drop(transaction.open_table(OTHER).unwrap().insert("k", "v").unwrap()));
    let error = Store::open(folder.file()).unwrap_err();
    assert!(matches!(error, StoreError::Damaged { .. }), "{error}");
    assert!(error.to_string().contains("of another program"), "{error}");
    let database = Database::create(folder.file()).unwrap();
    let other = database.begin_read().unwrap().open_table(OTHER).unwrap();
    assert_eq!(other.get("k").unwrap().unwrap().value(), "v");
}

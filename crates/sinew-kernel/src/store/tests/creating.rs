//! Making a file while others do.

use super::super::create::create;
use super::super::watch::Watch;
use super::super::{Store, StoreError};
use super::Folder;

#[test]
fn who_comes_too_late_to_make_a_file_opens_the_one_that_is_there() {
    let folder = Folder::new();
    let store = Store::open(folder.file()).unwrap();
    store.of("a").save("k", "v").unwrap();
    store.close().unwrap();
    drop(create(&folder.file().into(), &Watch::default()).unwrap());
    assert_eq!(Store::open(folder.file()).unwrap().of("a").load("k").unwrap(), Some(b"v".to_vec()));
}

#[test]
fn who_comes_while_another_makes_the_file_is_refused() {
    let folder = Folder::new();
    let unfinished = std::fs::File::create(folder.0.join("state.new")).unwrap();
    unfinished.lock().unwrap();
    let error = Store::open(folder.file()).unwrap_err();
    assert!(matches!(error, StoreError::InUse { .. }), "{error}");
    drop(unfinished);
    Store::open(folder.file()).unwrap();
}

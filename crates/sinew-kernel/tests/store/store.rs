//! What a store of states does for its callers.

use std::fs;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Barrier};
use std::thread;

use sinew_fiber::Reason;
use sinew_kernel::store::{BadName, Store, StoreError};
use sinew_sched::{Runtime, block_on, scope, spawn};

use crate::store_support::Folder;

/// Calls `body` with a store in memory and with one in a file.
fn with_both(body: impl Fn(&Store)) {
    body(&Store::in_memory());
    let folder = Folder::new();
    let store = Store::open(folder.file()).unwrap();
    body(&store);
    store.close().unwrap();
}

#[test]
fn what_is_saved_is_loaded_until_it_is_replaced_or_deleted() {
    with_both(|store| {
        let state = store.of("actor");
        assert_eq!(state.load("k").unwrap(), None);
        state.save("k", "first").unwrap();
        assert_eq!(state.load("k").unwrap(), Some(b"first".to_vec()));
        state.save("k", vec![0, 255]).unwrap();
        assert_eq!(state.load("k").unwrap(), Some(vec![0, 255]));
        assert!(state.delete("k").unwrap());
        assert!(!state.delete("k").unwrap());
        assert_eq!(state.load("k").unwrap(), None);
        state.save("k", "").unwrap();
        assert_eq!(state.load("k").unwrap(), Some(Vec::new()));
    });
}

#[test]
fn owners_do_not_see_each_other() {
    // Names and keys that would be one if they were joined, or if they were paths.
    let names = ["a", "a/b", "b", "..", "../a", "/a", "a\\b", "a:b", "ä", " ", "\u{10ffff}", "a\n"];
    with_both(|store| {
        for owner in names {
            for key in names {
                store.of(owner).save(key, format!("{owner}|{key}")).unwrap();
            }
        }
        for owner in names {
            for key in names {
                let value = store.of(owner).load(key).unwrap();
                assert_eq!(value, Some(format!("{owner}|{key}").into_bytes()));
            }
            assert_eq!(store.of(owner).keys("").unwrap().len(), names.len());
        }
        assert!(store.of("a").delete("b").unwrap());
        assert_eq!(store.of("b").load("a").unwrap(), Some(b"b|a".to_vec()));
    });
}

#[test]
fn no_name_leads_out_of_the_file() {
    let folder = Folder::new();
    let store = Store::open(folder.file()).unwrap();
    store.of("../escaped").save("../../escaped", "v").unwrap();
    store.close().unwrap();
    let files: Vec<_> =
        fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(files, ["state"]);
}

#[test]
fn keys_are_listed_by_prefix_and_in_order() {
    with_both(|store| {
        let state = store.of("b");
        store.of("a").save("user:0", "").unwrap();
        store.of("c").save("user:4", "").unwrap();
        for key in ["user:2", "user:1", "userless", "user:", "zebra", "ant"] {
            state.save(key, "").unwrap();
        }
        assert_eq!(state.keys("user:").unwrap(), ["user:", "user:1", "user:2"]);
        assert_eq!(state.keys("zebra").unwrap(), ["zebra"]);
        assert_eq!(state.keys("zebras").unwrap(), [""; 0]);
        assert_eq!(state.keys("").unwrap(), ["ant", "user:", "user:1", "user:2", "userless", "zebra"]);
        assert_eq!(store.of("none").keys("").unwrap(), [""; 0]);
    });
}

#[test]
fn entries_are_listed_with_their_values_by_prefix_and_in_order() {
    with_both(|store| {
        let state = store.of("b");
        store.of("a").save("user:0", "of another").unwrap();
        state.save_many([("user:2", "two"), ("user:1", "one"), ("userless", "none")]).unwrap();
        let entry = |key: &str, value: &str| (key.to_owned(), value.as_bytes().to_vec());
        assert_eq!(state.entries("user:").unwrap(), [entry("user:1", "one"), entry("user:2", "two")]);
        assert_eq!(state.entries("").unwrap().len(), 3);
        assert_eq!(block_on(state.entries_async("userl")).unwrap().unwrap(), [entry("userless", "none")]);
        assert_eq!(store.of("none").entries("").unwrap(), []);
    });
}

#[test]
fn values_that_are_saved_together_take_one_commit_and_the_last_of_a_key_is_kept() {
    let folder = Folder::new();
    let store = Store::open(folder.file()).unwrap();
    let state = store.of("a");
    state.save_many((0..1000).map(|n: u32| (format!("k{n}"), n.to_le_bytes()))).unwrap();
    assert_eq!((store.stats().saves, store.stats().commits), (1000, 1));
    assert_eq!(state.entries("k").unwrap().len(), 1000);
    block_on(state.save_many_async([("k7", "first"), ("k7", "last")])).unwrap().unwrap();
    assert_eq!(state.load("k7").unwrap(), Some(b"last".to_vec()));
    assert_eq!(store.stats().commits, 2);
    state.save_many([("", ""); 0]).unwrap();
    assert_eq!(store.stats().commits, 2, "there was nothing to save");
}

// V3
#[test]
fn of_values_that_are_saved_together_one_that_is_refused_keeps_all_from_being_saved() {
    let folder = Folder::new();
    let builder = Store::builder().max_value(1000).queue(5000);
    for store in [builder.clone().in_memory(), builder.open(folder.file()).unwrap()] {
        let state = store.of("a");
        let bad_key = state.save_many([("k", "v"), ("", "v")]).unwrap_err();
        assert!(matches!(bad_key, StoreError::BadKey(BadName::Empty)), "{bad_key}");
        let too_large = state.save_many([("k", vec![0; 10]), ("l", vec![0; 1001])]).unwrap_err();
        assert!(matches!(too_large, StoreError::TooLarge { len: 1001, .. }), "{too_large}");
        let many = (0..5).map(|n| (n.to_string(), vec![0; 900]));
        let together = state.save_many(many.clone()).unwrap_err();
        assert!(
            matches!(together, StoreError::TooLargeTogether { count: 5, len: 5150, limit: 5000, .. }),
            "{together:?}"
        );
        assert!(together.to_string().contains("Builder::queue"), "{together}");
        assert_eq!(state.entries("").unwrap(), []);
        state.save_many(many.take(4)).unwrap();
        assert_eq!(state.keys("").unwrap(), ["0", "1", "2", "3"]);
    }
}

// V3
#[test]
fn values_that_are_saved_together_are_seen_together() {
    with_both(|store| {
        thread::scope(|threads| {
            let state = store.of("a");
            let saves = threads.spawn(move || {
                for n in 0..100u64 {
                    state.save_many(["x", "y", "z"].map(|key| (key, n.to_le_bytes()))).unwrap();
                }
            });
            let state = store.of("a");
            while !saves.is_finished() {
                let seen = state.entries("").unwrap();
                assert!(seen.is_empty() || seen.len() == 3, "{seen:?}");
                assert!(seen.iter().all(|(_, value)| *value == seen[0].1), "{seen:?}");
            }
        });
    });
}

#[test]
fn names_that_are_none_are_refused() {
    with_both(|store| {
        let long = "x".repeat(256);
        for (name, why) in [("", BadName::Empty), (&*long, BadName::TooLong(256)), ("a\0b", BadName::Nul)] {
            let of_key = |error: StoreError| matches!(error, StoreError::BadKey(bad) if bad == why);
            let state = store.of("a");
            assert!(of_key(state.save(name, "v").unwrap_err()));
            assert!(of_key(state.load(name).unwrap_err()));
            assert!(of_key(state.delete(name).unwrap_err()));
            assert!(of_key(block_on(state.save_async(name, "v")).unwrap().unwrap_err()));
            let of_owner = |error: StoreError| matches!(error, StoreError::BadOwner(bad) if bad == why);
            assert!(of_owner(store.of(name).save("k", "v").unwrap_err()));
            assert!(of_owner(store.of(name).keys("").unwrap_err()));
        }
        let longest = "x".repeat(255);
        store.of(&longest).save(&longest, "v").unwrap();
        assert_eq!(store.of(&longest).keys("").unwrap(), [longest]);
    });
    let text = Store::in_memory().of("a").save("", "v").unwrap_err().to_string();
    assert_eq!(text, "the key is empty: take one of 1 to 255 bytes without NUL");
}

#[test]
fn a_value_may_be_as_large_as_the_limit_and_no_larger() {
    let folder = Folder::new();
    let builder = Store::builder().max_value(1000);
    for store in [builder.clone().in_memory(), builder.open(folder.file()).unwrap()] {
        store.of("a").save("k", vec![1; 1000]).unwrap();
        let error = store.of("a").save("k", vec![2; 1001]).unwrap_err();
        assert!(matches!(error, StoreError::TooLarge { len: 1001, limit: 1000, .. }));
        assert!(error.to_string().contains("Builder::max_value"), "{error}");
        assert_eq!(store.of("a").load("k").unwrap(), Some(vec![1; 1000]));
    }
}

#[test]
fn sixteen_mebibytes_are_no_problem() {
    let folder = Folder::new();
    let store = Store::open(folder.file()).unwrap();
    let value = vec![42; 16 << 20];
    store.of("a").save("k", value.clone()).unwrap();
    assert!(store.of("a").load("k").unwrap() == Some(value));
    assert!(matches!(store.of("a").save("k", vec![0; (16 << 20) + 1]), Err(StoreError::TooLarge { .. })));
}

#[test]
fn states_are_there_when_the_file_is_opened_again() {
    let folder = Folder::new();
    for round in 0..5u8 {
        let store = Store::open(folder.file()).unwrap();
        let before = (round > 0).then(|| vec![round - 1]);
        assert_eq!(store.of("a").load("k").unwrap(), before);
        store.of("a").save("k", [round]).unwrap();
        store.close().unwrap();
    }
}

#[test]
fn a_store_that_is_dropped_gives_the_file_back() {
    let folder = Folder::new();
    let store = Store::open(folder.file()).unwrap();
    let state = store.of("a");
    drop(store);
    state.save("k", "v").unwrap();
    drop(state);
    let store = loop {
        match Store::open(folder.file()) {
            Err(StoreError::InUse { .. }) => thread::yield_now(), // it is closed in the background
            opened => break opened.unwrap(),
        }
    };
    assert_eq!(store.of("a").load("k").unwrap(), Some(b"v".to_vec()));
}

#[test]
fn a_file_is_open_once() {
    let folder = Folder::new();
    let store = Store::open(folder.file()).unwrap();
    let error = Store::open(folder.file()).unwrap_err();
    assert!(matches!(&error, StoreError::InUse { path } if **path == *folder.file()), "{error}");
    store.of("a").save("k", "v").unwrap();
    store.close().unwrap();
    assert_eq!(Store::open(folder.file()).unwrap().of("a").load("k").unwrap(), Some(b"v".to_vec()));
}

#[test]
fn of_those_who_make_a_file_at_once_none_loses_what_it_saved() {
    for _ in 0..15 {
        let folder = Folder::new();
        let path = folder.file();
        let keys = ["1", "2", "3", "4"];
        let start = Barrier::new(keys.len());
        let open_and_save = |key| {
            start.wait();
            loop {
                match Store::open(&path) {
                    Err(StoreError::InUse { .. }) => thread::yield_now(),
                    opened => {
                        let store = opened.unwrap();
                        store.of("a").save(key, "v").unwrap();
                        return store.close().unwrap();
                    }
                }
            }
        };
        thread::scope(|threads| {
            let open_and_save = &open_and_save;
            for key in keys {
                threads.spawn(move || open_and_save(key));
            }
        });
        assert_eq!(Store::open(&path).unwrap().of("a").keys("").unwrap(), keys);
    }
}

#[test]
fn a_file_that_was_not_finished_is_made_anew() {
    let folder = Folder::new();
    fs::write(folder.path().join("state.new"), vec![0; 100_000]).unwrap();
    let store = Store::open(folder.file()).unwrap();
    store.of("a").save("k", "v").unwrap();
    store.close().unwrap();
    assert!(!folder.path().join("state.new").exists());
}

#[test]
fn an_empty_file_is_an_empty_store() {
    let folder = Folder::new();
    fs::write(folder.file(), "").unwrap();
    let store = Store::open(folder.file()).unwrap();
    assert_eq!(store.of("a").keys("").unwrap(), [""; 0]);
    store.of("a").save("k", "v").unwrap();
}

#[test]
fn a_file_of_something_else_is_refused_and_left_alone() {
    let folder = Folder::new();
    for content in [vec![0; 50_000], b"dear diary".to_vec(), vec![b'r'; 4096]] {
        fs::write(folder.file(), &content).unwrap();
        let error = Store::open(folder.file()).unwrap_err();
        assert!(matches!(error, StoreError::Damaged { .. }), "{error}");
        assert!(error.to_string().contains("restore it from a backup"), "{error}");
        assert_eq!(fs::read(folder.file()).unwrap(), content);
    }
}

#[test]
fn a_place_where_no_file_can_be_is_refused() {
    let folder = Folder::new();
    for path in
        [folder.path().join("missing/state"), folder.path().to_owned(), Path::new("/dev/null/x").into()]
    {
        let error = Store::open(&path).unwrap_err();
        assert!(matches!(error, StoreError::Open { .. }), "{error}");
        assert!(error.to_string().contains(&*path.to_string_lossy()), "{error}");
    }
}

#[test]
fn a_store_that_was_closed_says_so() {
    with_both(|store| {
        let state = store.of("a");
        state.save("k", "v").unwrap();
        store.flush().unwrap();
        store.close().unwrap();
        store.close().unwrap();
        assert!(matches!(state.save("k", "v"), Err(StoreError::Closed)));
        assert!(matches!(state.load("k"), Err(StoreError::Closed)));
        assert!(matches!(state.delete("k"), Err(StoreError::Closed)));
        assert!(matches!(state.keys(""), Err(StoreError::Closed)));
        assert!(matches!(store.flush(), Err(StoreError::Closed)));
        block_on(store.close_async()).unwrap();
    });
}

#[test]
fn tasks_threads_and_futures_share_a_store() {
    with_both(|store| {
        let runtime = Runtime::builder().workers(2).build().unwrap();
        let (in_task, in_future) = (store.of("a"), store.of("a"));
        let task = runtime.spawn(move || {
            in_task.save("task", "1").unwrap();
            in_task.load("task").unwrap()
        });
        let future = runtime.spawn_future(async move {
            in_future.save_async("future", "2").await.unwrap();
            assert!(!in_future.delete_async("nothing").await.unwrap());
            in_future.load_async("future").await.unwrap()
        });
        store.of("a").save("thread", "3").unwrap();
        assert_eq!(task.join().unwrap(), Some(b"1".to_vec()));
        assert_eq!(future.join().unwrap(), Some(b"2".to_vec()));
        assert_eq!(block_on(store.of("a").keys_async("")).unwrap().unwrap(), ["future", "task", "thread"]);
        block_on(store.flush_async()).unwrap().unwrap();
    });
}

#[test]
fn a_task_opens_and_closes_a_store() {
    let folder = Folder::new();
    let path = folder.file();
    let runtime = Runtime::builder().workers(1).build().unwrap();
    let value = runtime.run(move || {
        let store = Store::open(&path).unwrap();
        store.of("a").save("k", "v").unwrap();
        store.close().unwrap();
        Store::open(&path).unwrap().of("a").load("k").unwrap()
    });
    assert_eq!(value.unwrap(), Some(b"v".to_vec()));
}

#[test]
fn thousands_of_saves_at_once_are_few_commits() {
    const TASKS: u64 = 500;
    const SAVES: u64 = 4;
    let folder = Folder::new();
    let store = Store::open(folder.file()).unwrap();
    let runtime = Runtime::builder().workers(2).build().unwrap();
    let saving = store.clone();
    runtime
        .run(move || {
            scope(|tasks| {
                for task in 0..TASKS {
                    let state = saving.of(&task.to_string());
                    tasks.spawn(move || {
                        for n in 0..SAVES {
                            state.save("k", n.to_le_bytes()).unwrap();
                            assert_eq!(state.load("k").unwrap(), Some(n.to_le_bytes().to_vec()));
                        }
                    });
                }
            })
        })
        .unwrap()
        .unwrap();
    let stats = store.stats();
    assert_eq!((stats.saves, stats.failed, stats.queued), (TASKS * SAVES, 0, 0));
    assert!(stats.commits * 4 < stats.saves, "{stats:?}");
}

#[test]
fn a_load_sees_every_save_that_was_acknowledged_to_anybody() {
    let folder = Folder::new();
    let store = Store::open(folder.file()).unwrap();
    let acknowledged = Arc::new(AtomicU64::new(0));
    thread::scope(|threads| {
        let (state, told) = (store.of("a"), acknowledged.clone());
        let saves = threads.spawn(move || {
            for n in 1..=100u64 {
                state.save("k", n.to_le_bytes()).unwrap();
                told.store(n, Ordering::SeqCst);
            }
        });
        let state = store.of("a");
        while !saves.is_finished() {
            let before = acknowledged.load(Ordering::SeqCst);
            let bytes = state.load("k").unwrap();
            let seen = bytes.map_or(0, |bytes| u64::from_le_bytes(bytes.try_into().unwrap()));
            assert!(seen >= before, "{seen} after {before} was acknowledged");
        }
    });
}

#[test]
fn futures_are_saved_in_the_order_in_which_they_are_polled() {
    let folder = Folder::new();
    let store = Store::open(folder.file()).unwrap();
    let state = store.of("a");
    let context = &mut std::task::Context::from_waker(std::task::Waker::noop());
    for _ in 0..10 {
        let mut saves: Vec<_> = (0..50u8).map(|n| Box::pin(state.save_async("k", [n]))).collect();
        for save in &mut saves {
            let _ = save.as_mut().poll(context).map(Result::unwrap);
        }
        drop(saves);
        store.flush().unwrap();
        assert_eq!(state.load("k").unwrap(), Some(vec![49]));
    }
}

#[test]
fn a_cancelled_task_saves_nothing_and_is_told_so() {
    let folder = Folder::new();
    let store = Store::open(folder.file()).unwrap();
    let state = store.of("a");
    let runtime = Runtime::builder().workers(1).build().unwrap();
    let refused = runtime.run(move || {
        let task = spawn(move || {
            let saved = state.save("k", "v").unwrap_err();
            let loaded = state.load("k").unwrap_err();
            [saved, loaded].map(|error| matches!(error, StoreError::Refused(_)) && error.is_cancelled())
        });
        task.cancel();
        task.join().unwrap()
    });
    assert_eq!(refused.unwrap(), [true, true]);
    store.flush().unwrap();
    assert_eq!(store.of("a").load("k").unwrap(), None);
}

#[test]
fn inside_a_poll_a_blocking_save_is_refused_and_saves_nothing() {
    let folder = Folder::new();
    let store = Store::open(folder.file()).unwrap();
    let state = store.of("a");
    let error = block_on(async { state.save("k", "v").unwrap_err() }).unwrap();
    assert!(
        matches!(&error, StoreError::Refused(refused) if refused.reason() == Reason::InsidePoll),
        "{error}"
    );
    store.flush().unwrap();
    assert_eq!(state.load("k").unwrap(), None);
}

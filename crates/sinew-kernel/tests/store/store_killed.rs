//! `kill -9` at any moment loses nothing that was acknowledged, and tears nothing.
//!
//! The child is this program, asked for one of the tests that are ignored otherwise. `SINEW_STRESS` says how many times more
//! children than usual are killed.

use std::collections::BTreeMap;
use std::env;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::Duration;

use sinew_kernel::store::{State, Store, StoreError};
use sinew_sched::{Runtime, scope};
use sinew_test_kit::full_test_name;

use crate::store_support::{Folder, Random};

const OWNERS: usize = 4;
const KEYS: u64 = 8;
const KILLS: f64 = 200.0;
/// Every so many rounds begin without a file.
const FRESH: usize = 10;

/// What the change with this number of an owner does: its key, and the value, or none if it deletes.
fn change(owner: usize, number: u64) -> (String, Option<Vec<u8>>) {
    let key = format!("key{}", number % KEYS);
    if number.is_multiple_of(7) {
        return (key, None);
    }
    let mut random = Random(number * OWNERS as u64 + owner as u64);
    let length = 16 + random.below(9_000) as usize;
    let mut bytes: Vec<u8> = number.to_le_bytes().into_iter().chain([owner as u8]).collect();
    bytes.resize_with(length, || random.below(256) as u8);
    (key, Some(bytes))
}

/// What an owner has after its first changes.
fn after(owner: usize, changes: u64) -> BTreeMap<String, Vec<u8>> {
    let recent = changes.saturating_sub(KEYS)..changes; // each key once
    recent
        .filter_map(|number| {
            let (key, value) = change(owner, number);
            Some((key, value?))
        })
        .collect()
}

fn found(state: &State) -> BTreeMap<String, Vec<u8>> {
    let keys = state.keys("").unwrap();
    keys.into_iter().map(|key| (key.clone(), state.load(&key).unwrap().unwrap())).collect()
}

/// Says, in one piece, that a change was acknowledged.
fn acknowledge(owner: usize, number: u64) {
    io::stdout().write_all(format!("\nack {owner} {number}\n").as_bytes()).unwrap();
}

#[test]
#[ignore = "the child of another test"]
fn child_that_changes_until_it_is_killed() {
    let Ok(path) = env::var("SINEW_STORE_CHILD") else { return };
    let done = env::var("SINEW_STORE_DONE").unwrap();
    let store = Store::open(path).unwrap();
    let runtime = Runtime::builder().workers(2).build().unwrap();
    runtime
        .run(move || {
            scope(|tasks| {
                for (owner, done) in done.split(',').enumerate() {
                    let (state, first) = (store.of(&owner.to_string()), done.parse().unwrap());
                    tasks.spawn(move || {
                        for number in first.. {
                            match change(owner, number) {
                                (key, Some(value)) => state.save(&key, value).unwrap(),
                                (key, None) => drop(state.delete(&key).unwrap()),
                            }
                            acknowledge(owner, number);
                        }
                    });
                }
            })
        })
        .unwrap()
        .unwrap();
}

#[test]
#[ignore = "the child of another test"]
fn child_that_saves_values_together_until_it_is_killed() {
    let Ok(path) = env::var("SINEW_STORE_CHILD") else { return };
    let state = Store::open(path).unwrap().of("a");
    for number in env::var("SINEW_STORE_DONE").unwrap().parse::<u64>().unwrap().. {
        let value: Vec<u8> = number.to_le_bytes().repeat(1_000);
        state.save_many((0..KEYS).map(|key| (key.to_string(), value.clone()))).unwrap();
        acknowledge(0, number);
    }
}

#[test]
#[ignore = "the child of another test"]
fn child_that_has_the_file_open() {
    let Ok(path) = env::var("SINEW_STORE_CHILD") else { return };
    let store = Store::open(path).unwrap();
    store.of("child").save("k", "v").unwrap();
    acknowledge(0, 0);
    let _ = io::stdin().read(&mut [0]);
    drop(store);
}

/// Starts this program as one of the children above.
fn child(test: &str, path: &Path, done: &[u64]) -> Child {
    let done: Vec<String> = done.iter().map(u64::to_string).collect();
    Command::new(env::current_exe().unwrap())
        .args(["--exact", &full_test_name(module_path!(), test), "--ignored", "--nocapture"])
        .env("SINEW_STORE_CHILD", path)
        .env("SINEW_STORE_DONE", done.join(","))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap()
}

/// Counts what a child acknowledges, in `done`.
fn count(line: &str, done: &mut [u64]) -> bool {
    let Some(acknowledged) = line.strip_prefix("ack ") else { return false };
    let (owner, number) = acknowledged.split_once(' ').unwrap();
    let count = &mut done[owner.parse::<usize>().unwrap()];
    assert_eq!(number.parse::<u64>().unwrap(), *count, "acknowledged in order");
    *count += 1;
    true
}

// V1
#[test]
fn nothing_that_was_acknowledged_is_lost_or_torn_by_a_kill() {
    let stress = env::var("SINEW_STRESS").map_or(1.0, |text| text.parse::<f64>().unwrap());
    let kills = (KILLS * stress).ceil() as u64;
    let mut random = Random(std::process::id().into());
    let folder = Folder::new();
    let mut done = [0; OWNERS];
    let (mut wanted, mut acknowledged, mut ahead) = (0, 0, 0);
    for round in 0..kills as usize {
        if round % FRESH == 0 {
            let _ = std::fs::remove_file(folder.file());
            done = [0; OWNERS];
        }
        let before: u64 = done.iter().sum();
        let mut child = child("child_that_changes_until_it_is_killed", &folder.file(), &done);
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        if round % 4 == 3 {
            // While it starts, and opens or makes the file.
            thread::sleep(Duration::from_micros(random.below(30_000)));
        } else {
            // After so many answers, and somewhere in the next commits.
            let mut enough = 1 + random.below(11);
            wanted += enough;
            while enough > 0 {
                enough -= u64::from(count(&lines.next().unwrap().unwrap(), &mut done));
            }
            thread::sleep(Duration::from_micros(random.below(5_000)));
        }
        child.kill().unwrap();
        child.wait().unwrap();
        // What it had said by then. So short a line is written to a pipe whole, or not at all.
        for line in lines.map_while(Result::ok) {
            count(&line, &mut done);
        }
        acknowledged += done.iter().sum::<u64>() - before;

        let store = Store::open(folder.file()).unwrap_or_else(|error| panic!("round {round}: {error}"));
        for (owner, done) in done.iter_mut().enumerate() {
            let state = store.of(&owner.to_string());
            let found = found(&state);
            if found != after(owner, *done) {
                // One more may have been made, without anybody having been told.
                assert!(
                    found == after(owner, *done + 1),
                    "round {round}, owner {owner}, after {done}: {:?}",
                    found.keys()
                );
                *done += 1;
                ahead += 1;
            }
        }
        store.close().unwrap();
    }
    println!("{kills} killed: {acknowledged} acknowledged, {ahead} made and not told");
    assert!(acknowledged >= wanted, "{acknowledged} were acknowledged of {wanted} that were waited for");
}

// V3
#[test]
fn values_that_are_saved_together_survive_a_kill_together() {
    let mut random = Random(std::process::id().into());
    let folder = Folder::new();
    let mut done = [0];
    for round in 0..20 {
        let mut child = child("child_that_saves_values_together_until_it_is_killed", &folder.file(), &done);
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let mut enough = 1 + random.below(4);
        while enough > 0 {
            enough -= u64::from(count(&lines.next().unwrap().unwrap(), &mut done));
        }
        thread::sleep(Duration::from_micros(random.below(5_000))); // somewhere in the next commits
        child.kill().unwrap();
        child.wait().unwrap();
        for line in lines.map_while(Result::ok) {
            count(&line, &mut done);
        }
        let store = Store::open(folder.file()).unwrap();
        let found = store.of("a").entries("").unwrap();
        assert_eq!(found.len() as u64, KEYS);
        assert!(found.iter().all(|(_, value)| *value == found[0].1), "round {round}: torn");
        let last = u64::from_le_bytes(found[0].1[..8].try_into().unwrap());
        assert!([done[0] - 1, done[0]].contains(&last), "round {round}: {last} after {}", done[0] - 1);
        done[0] = last + 1;
        store.close().unwrap();
    }
}

#[test]
fn a_file_that_another_process_has_open_is_refused_until_that_ends() {
    let folder = Folder::new();
    let mut child = child("child_that_has_the_file_open", &folder.file(), &[]);
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    while !count(&lines.next().unwrap().unwrap(), &mut [0]) {}
    let error = Store::open(folder.file()).unwrap_err();
    assert!(matches!(error, StoreError::InUse { .. }), "{error}");
    child.kill().unwrap();
    child.wait().unwrap();
    let store = Store::open(folder.file()).unwrap();
    assert_eq!(store.of("child").load("k").unwrap(), Some(b"v".to_vec()));
}

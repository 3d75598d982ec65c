//! A damaged file is refused, or it yields what was saved: never another value, and never a panic or an abort.
//!
//! The damages are made in a child, so that an abort is reported with the damage that led to it. The child is this program,
//! asked for a test that is ignored otherwise. `SINEW_STRESS` says how many times more damages than usual there are.

use std::collections::BTreeMap;
use std::env;
use std::fs;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU64, Ordering};

use sinew_kernel::store::{Store, StoreError};
use sinew_test_kit::full_test_name;

use crate::store_support::{Folder, Random};

const DAMAGES: f64 = 500.0;
const OWNERS: u64 = 3;
const KEYS: u64 = 12;
const ROUNDS: u64 = 3;
const PAGE: u64 = 4096;
/// The bytes of redb's header: two commit slots, and a byte that says which is in force.
const HEADER: u64 = 320;
/// Bit 0 of this byte says which of the last two commits is in force.
const COMMIT_IN_FORCE: usize = 9;

type Contents = BTreeMap<(String, String), Vec<u8>>;

/// What is in a file, as bytes and as values.
struct Image {
    bytes: Vec<u8>,
    /// The file some commits earlier.
    older: Vec<u8>,
    contents: Contents,
    was_closed: bool,
}

/// Fills a file: in several rounds, so that it has pages of earlier commits too.
fn image(was_closed: bool) -> Image {
    let folder = Folder::new();
    let store = Store::open(folder.file()).unwrap();
    let (mut contents, mut older) = (Contents::new(), Vec::new());
    for round in 0..ROUNDS {
        for owner in 0..OWNERS {
            for key in 0..KEYS {
                let mut random = Random(round << 32 | owner << 16 | key);
                if round == ROUNDS - 1 && random.below(3) > 0 {
                    continue;
                }
                let length = match random.below(10) {
                    0 => 0,
                    1 => 5_000 + random.below(20_000),
                    _ => random.below(2000),
                };
                let value: Vec<u8> = (0..length).map(|_| random.below(256) as u8).collect();
                let (owner, key) = (format!("owner{owner}"), format!("key{key}"));
                store.of(&owner).save(&key, value.clone()).unwrap();
                contents.insert((owner, key), value);
            }
            if round == ROUNDS - 1 && owner == 0 {
                older = fs::read(folder.file()).unwrap();
            }
        }
    }
    if was_closed {
        store.close().unwrap();
    }
    let bytes = fs::read(folder.file()).unwrap();
    Image { bytes, older, contents, was_closed }
}

/// Damages a copy of `image`, and says how.
fn damage(image: &Image, random: &mut Random) -> (Vec<u8>, String) {
    let mut bytes = image.bytes.clone();
    let len = bytes.len() as u64;
    let block = |random: &mut Random| -> Range<usize> {
        let size = [64, 512, PAGE, 4 * PAGE][random.below(4) as usize];
        let from = random.below(len / size) * size;
        from as usize..(from + size) as usize
    };
    let how = match random.below(8) {
        0 => {
            let at = random.below(len) as usize;
            bytes[at] ^= 1 << random.below(8);
            format!("a bit of byte {at}")
        }
        1 => {
            let count = 1 + random.below(200);
            for _ in 0..count {
                bytes[random.below(len) as usize] ^= 1 + random.below(255) as u8;
            }
            format!("{count} bytes")
        }
        2 => {
            let at = random.below(HEADER) as usize;
            // Which of the last two commits is in force cannot be told from a file that was not closed.
            let spared = at == COMMIT_IN_FORCE && !image.was_closed;
            let bit = if spared { 1 + random.below(7) } else { random.below(8) };
            bytes[at] ^= 1 << bit;
            format!("bit {bit} of byte {at}")
        }
        3 => {
            bytes.truncate(1 + random.below(len - 1) as usize);
            format!("truncated to {}", bytes.len())
        }
        4 => {
            let block = block(random);
            bytes[block.clone()].fill(0);
            format!("zeroed {block:?}")
        }
        5 => {
            let block = block(random);
            bytes[block.clone()].fill_with(|| random.below(256) as u8);
            format!("garbage in {block:?}")
        }
        6 => {
            let [one, other] = [(); 2].map(|()| random.below(len / PAGE) * PAGE);
            for at in 0..PAGE {
                bytes.swap((one + at) as usize, (other + at) as usize);
            }
            format!("swapped pages at {one} and {other}")
        }
        _ => {
            let block = block(random);
            match image.older.get(block.clone()) {
                // An older header is an older file.
                Some(older) if block.start > 0 => bytes[block.clone()].copy_from_slice(older),
                _ => (),
            }
            format!("an older version of {block:?}")
        }
    };
    (bytes, how)
}

fn is_damage(error: &StoreError) -> bool {
    matches!(error, StoreError::Damaged { .. } | StoreError::DamagedValue { .. })
}

/// Opens a damaged file. True if it is refused, and an error if it yields what was not saved.
fn open_and_check(path: &Path, contents: &Contents) -> Result<bool, String> {
    let store = match Store::open(path) {
        Ok(store) => store,
        Err(error) if is_damage(&error) => return Ok(true),
        Err(error) => return Err(format!("open: {error:?}")),
    };
    let checked = check(&store, contents);
    store.close().map_err(|error| format!("close: {error:?}"))?;
    checked.map(|()| false)
}

fn check(store: &Store, contents: &Contents) -> Result<(), String> {
    for ((owner, key), value) in contents {
        match store.of(owner).load(key) {
            Ok(Some(found)) if found == *value => (),
            Ok(None) => return Err(format!("{owner}, {key}: missing")),
            Ok(Some(_)) => return Err(format!("{owner}, {key}: another value")),
            Err(error) if is_damage(&error) => (),
            Err(error) => return Err(format!("{owner}, {key}: {error:?}")),
        }
    }
    for owner in (0..OWNERS).map(|owner| format!("owner{owner}")) {
        let saved = contents.keys().filter(|(of, _)| *of == owner).map(|(_, key)| key);
        match store.of(&owner).keys("") {
            Ok(keys) if saved.eq(&keys) => (),
            Ok(_) => return Err(format!("keys of {owner}: others")),
            Err(error) if is_damage(&error) => (),
            Err(error) => return Err(format!("keys of {owner}: {error:?}")),
        }
    }
    let state = store.of("owner0");
    match state.save("key0", vec![7; 5000]).and_then(|()| state.load("key0")) {
        Ok(Some(found)) if found == [7; 5000] => Ok(()),
        Err(error) if is_damage(&error) => Ok(()),
        other => Err(format!("save: {other:?}")),
    }
}

#[test]
#[ignore = "the child of another test"]
fn child_that_opens_damaged_files() {
    let Ok(damages) = env::var("SINEW_STORE_CHILD") else { return };
    static PANICS: AtomicU64 = AtomicU64::new(0);
    let images = [image(true), image(false)];
    // In front of the hook of the fibers, which is there by now.
    let hook = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |info| {
        PANICS.fetch_add(1, Ordering::SeqCst);
        hook(info);
    }));
    let folder = Folder::new();
    for image in &images {
        fs::write(folder.file(), &image.bytes).unwrap();
        assert_eq!(open_and_check(&folder.file(), &image.contents), Ok(false), "undamaged");
    }
    let (mut refused, mut harmless, mut wrong) = (0, 0, Vec::new());
    for seed in 0..damages.parse().unwrap() {
        let mut random = Random(seed);
        let image = &images[seed as usize % images.len()];
        let (bytes, how) = damage(image, &mut random);
        println!("damage {seed}: {how}");
        fs::write(folder.file(), bytes).unwrap();
        let checked = open_and_check(&folder.file(), &image.contents);
        let panics = PANICS.swap(0, Ordering::SeqCst);
        match checked {
            Ok(true) if panics == 0 => refused += 1,
            Ok(false) if panics == 0 => harmless += 1,
            checked => wrong.push(format!("damage {seed}, {how}: {checked:?}, {panics} panics")),
        }
    }
    println!("{damages} damages: {refused} refused, {harmless} harmless");
    assert!(wrong.is_empty(), "{} of {damages}:\n{}", wrong.len(), wrong.join("\n"));
    assert!(refused > 0 && harmless > 0, "{refused} refused, {harmless} harmless");
}

// V2
#[test]
fn a_damaged_file_yields_what_was_saved_or_an_error_and_never_a_panic_or_an_abort() {
    let stress = env::var("SINEW_STRESS").map_or(1.0, |text| text.parse::<f64>().unwrap());
    let damages = (DAMAGES * stress).ceil() as u64;
    // A file that is damaged on purpose need not be on a disk, whose syncs take most of the time.
    let memory = Some("/dev/shm".into()).filter(|path: &PathBuf| path.is_dir());
    let test = full_test_name(module_path!(), "child_that_opens_damaged_files");
    let child = Command::new(env::current_exe().unwrap())
        .env("TMPDIR", memory.unwrap_or_else(env::temp_dir))
        .args(["--exact", &test, "--ignored", "--nocapture"])
        .env("SINEW_STORE_CHILD", damages.to_string())
        .output()
        .unwrap();
    let [said, complained] = [&child.stdout, &child.stderr].map(|text| String::from_utf8_lossy(text));
    let last: Vec<_> = said.lines().rev().filter(|line| line.contains("damage")).take(1).collect();
    assert!(child.status.success(), "{:?} at {last:?}\n{complained}", child.status);
    println!("{last:?}");
}

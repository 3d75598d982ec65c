//! What a power cut may leave of a file: all that was synced, and any part of what was written since, in any order.

use std::collections::BTreeMap;
use std::fs;
use std::sync::{Arc, Mutex};

use super::super::disk::Disk;
use super::super::watch::Watch;
use super::super::writer::Change;
use super::Folder;
use super::faults::Operation;

const SECTOR: usize = 512;
const SAVES: u64 = 25;
const KEYS: u64 = 5;
/// How many cuts there are, about.
const CUTS: u64 = 80;

/// A step in the life of a file.
enum Step {
    Write(u64, Vec<u8>),
    SetLen(u64),
    Sync,
    /// This save was acknowledged.
    Acknowledged(u64),
}

/// The value of the save with this number: no two are alike.
fn value(number: u64) -> Vec<u8> {
    let mut random = Random(number + 1);
    let length = 8 + random.below(9000) as usize;
    let mut bytes: Vec<u8> = (0..length).map(|_| random.below(256) as u8).collect();
    bytes[..8].copy_from_slice(&number.to_le_bytes());
    bytes
}

fn key(number: u64) -> String {
    format!("key{}", number % KEYS)
}

/// Does what `step` says, to `image`.
fn apply(image: &mut Vec<u8>, step: &Step, mut keep: impl FnMut() -> bool) {
    match step {
        Step::Write(offset, data) => {
            let offset = *offset as usize;
            image.resize(image.len().max(offset + data.len()), 0);
            for (n, sector) in data.chunks(SECTOR).enumerate() {
                if keep() {
                    image[offset + n * SECTOR..][..sector.len()].copy_from_slice(sector);
                }
            }
        }
        Step::SetLen(length) if keep() => image.resize(*length as usize, 0),
        _ => (),
    }
}

#[test]
fn a_power_cut_neither_loses_an_acknowledged_value_nor_tears_any() {
    let folder = Folder::new();
    let watch = Watch::default();
    let log = Arc::new(Mutex::new(Vec::new()));
    let steps = log.clone();
    let disk = Disk::open(folder.file().into(), watch.clone()).unwrap();
    let mut synced = fs::read(folder.file()).unwrap(); // making the file syncs it
    watch.faults.set(move |operation| {
        match operation {
            Operation::Write { offset, data } => {
                steps.lock().unwrap().push(Step::Write(offset, data.to_vec()))
            }
            Operation::SetLen(length) => steps.lock().unwrap().push(Step::SetLen(length)),
            Operation::Sync => steps.lock().unwrap().push(Step::Sync),
            Operation::Read => (),
        }
        Ok(())
    });
    for number in 0..SAVES {
        let change = Change { owner: "a".into(), key: key(number), value: Some(value(number)) };
        disk.commit([&change].into_iter()).unwrap();
        log.lock().unwrap().push(Step::Acknowledged(number));
    }
    disk.close();

    let log = std::mem::take(&mut *log.lock().unwrap());
    let mut random = Random(2024);
    let mut acknowledged = None;
    let mut since = Vec::new();
    let (mut cuts, mut between) = (0, 0);
    for step in &log {
        match step {
            Step::Sync => since.drain(..).for_each(|step| apply(&mut synced, step, || true)),
            Step::Acknowledged(number) => acknowledged = Some(*number),
            _ => since.push(step),
        }
        if random.below(log.len() as u64) < CUTS {
            cuts += 1;
            between += u64::from(!since.is_empty());
            let mut image = synced.clone();
            let odds = random.below(5); // none of what was not synced, …, all of it
            since.iter().for_each(|step| apply(&mut image, step, || random.below(4) < odds));
            check(&folder, &image, acknowledged);
        }
    }
    assert!(cuts > CUTS / 2 && between > CUTS / 8, "{cuts} cuts, {between} with something to lose");
}

/// Starts from `image`, in which this save and all before it have to be.
fn check(folder: &Folder, image: &[u8], acknowledged: Option<u64>) {
    let path = folder.0.join("after");
    fs::write(&path, image).unwrap();
    let disk = Disk::open(path.into(), Watch::default()).unwrap_or_else(|error| panic!("{error}"));
    let done = acknowledged.map_or(0, |number| number + 1);
    let found: BTreeMap<_, _> = disk
        .keys("a", "")
        .unwrap()
        .into_iter()
        .map(|key| (key.clone(), disk.load("a", &key).unwrap().unwrap()))
        .collect();
    // One more may have been made, as a whole.
    let possible = [done, (done + 1).min(SAVES)]
        .map(|count| -> BTreeMap<_, _> { (0..count).map(|number| (key(number), value(number))).collect() });
    assert!(possible.contains(&found), "after {done} saves: {:?}", found.keys());
}

/// Numbers that look random, the same in each run.
struct Random(u64);

impl Random {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (self.0 >> 33) % limit
    }
}

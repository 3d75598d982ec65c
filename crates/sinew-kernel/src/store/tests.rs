//! What a store does when its disk fails or is slow, and what a power cut leaves.

pub(super) mod faults;

mod creating;
mod failing;
mod format;
mod power_cut;
mod reports;
mod slow;

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};

use super::watch::Watch;
use super::{Builder, Store};
use faults::Faults;

/// A directory of its own for a test, which goes with it.
struct Folder(PathBuf);

impl Folder {
    fn new() -> Folder {
        static COUNT: AtomicUsize = AtomicUsize::new(0);
        let name = format!("sinew-store-{}-{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
        let folder = std::env::temp_dir().join(name);
        let _ = std::fs::remove_dir_all(&folder); // of a run that was killed
        std::fs::create_dir(&folder).unwrap();
        Folder(folder)
    }

    fn file(&self) -> PathBuf {
        self.0.join("state")
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// A store in `path`, with what makes its disk fail.
fn open(builder: Builder, path: &Path) -> (Store, Faults) {
    let watch = Watch::default();
    let faults = watch.faults.clone();
    (builder.open_watched(path, watch).unwrap(), faults)
}

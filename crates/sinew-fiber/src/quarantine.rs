//! Fibers that could not be ended. Their stacks are never reused, and they are reported here.

use sinew_sync::statics::{Mutex, MutexGuard};

use crate::record::Record;
use crate::trace::Link;

/// How many are remembered by name.
const REMEMBERED: usize = 256;

struct Quarantine {
    count: usize,
    links: Vec<Link>,
}

static QUARANTINE: Mutex<Quarantine> = Mutex::new(Quarantine { count: 0, links: Vec::new() });

/// What [`quarantined`] returns.
#[derive(Clone, Debug)]
pub struct Quarantined {
    /// How many fibers were given up in this process.
    pub count: usize,
    /// The first of them, at most 256.
    pub fibers: Vec<Link>,
}

/// The fibers that were given up: dropped while suspended, they went on to raise signals instead of ending,
/// time and again. Their stacks, and what lies on them, stay as they are for ever.
pub fn quarantined() -> Quarantined {
    let quarantine = lock();
    Quarantined { count: quarantine.count, fibers: quarantine.links.clone() }
}

/// Keeps the record of `record`, and so its stack, for ever, and that of every fiber stopped below it.
pub(crate) fn give_up(record: &Record) {
    for stopped in record.descendants() {
        stopped.add_ref();
        stopped.quarantined.set(true);
    }
    let mut quarantine = lock();
    quarantine.count += 1;
    if quarantine.links.len() < REMEMBERED {
        quarantine.links.push(record.link());
    }
}

fn lock() -> MutexGuard<'static, Quarantine> {
    QUARANTINE.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}

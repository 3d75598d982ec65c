//! The thread that writes: what is queued becomes one commit, and then everybody in it is answered.
//!
//! It takes the first change, waiting for it, and all that are queued behind it, up to as many bytes as the queue holds.
//! What comes while it commits is the next commit. It does not wait for more to come: under load the duration of a commit
//! collects enough, and a lone caller is not held up.
//!
//! It is no worker of any runtime, so whoever waits for it holds a manual clock meanwhile.
//!
//! It ends when the queue was closed, by [`Store::close`](super::Store::close) or with the last handle, and is empty.

use std::sync::Arc;

use sinew_chan::chan::{self, oneshot};
use sinew_sync::atomic::{AtomicU64, Ordering};

use super::disk::{Disk, Failure};
use super::report::Report;

/// What a change counts in the queue besides its bytes: about what its answer and its place take.
const OVERHEAD: usize = 128;
/// How long owners and keys are at most.
const LONGEST: usize = 255;

/// A value to keep, or to remove.
pub(super) struct Change {
    pub(super) owner: Arc<str>,
    pub(super) key: String,
    /// None removes.
    pub(super) value: Option<Vec<u8>>,
}

impl Change {
    /// Its weight in the queue.
    fn weight(&self) -> usize {
        self.owner.len() + self.key.len() + self.value.as_ref().map_or(0, Vec::len) + OVERHEAD
    }
}

/// The weight in the queue of changes that are made together.
pub(super) fn weight_of(changes: &[Change]) -> usize {
    changes.iter().map(Change::weight).sum()
}

/// True if one of the changes replaced or removed a value.
pub(super) type Answer = Result<bool, Failure>;

/// Changes that are made in one commit, and the recipient of the outcome. A request without changes
/// is a flush: it is answered after the requests before it.
pub(super) struct Request {
    changes: Vec<Change>,
    recipient: Recipient,
}

/// The recipient of the outcome of a request.
enum Recipient {
    /// A caller that waits.
    Caller(oneshot::Sender<Answer>),
    /// A caller that does not wait.
    Report(Report),
}

impl Request {
    /// A request whose caller waits for the outcome.
    pub(super) fn new(changes: Vec<Change>) -> (Request, oneshot::Receiver<Answer>) {
        let (answer, answered) = oneshot::channel();
        (Request { changes, recipient: Recipient::Caller(answer) }, answered)
    }

    /// A request whose outcome is reported.
    pub(super) fn reporting(changes: Vec<Change>, report: Report) -> Request {
        Request { changes, recipient: Recipient::Report(report) }
    }

    /// Drops a request that was not queued; nothing is reported.
    pub(super) fn withdraw(self) {
        if let Recipient::Report(report) = self.recipient {
            report.withdraw();
        }
    }

    pub(super) fn weight(&self) -> usize {
        weight_of(&self.changes).max(OVERHEAD)
    }

    /// What one with a value of this size weighs at most.
    pub(super) fn weight_of_largest(value: usize) -> usize {
        value + 2 * LONGEST + OVERHEAD
    }
}

/// Writes until there is nothing more to write, and closes the file.
pub(super) fn run(disk: &Disk, requests: &chan::Receiver<Request>, room: usize, counters: &Counters) {
    while let Ok(first) = requests.recv() {
        let mut weight = first.weight();
        let mut batch = vec![first];
        while weight < room
            && let Ok(Some(request)) = requests.try_recv()
        {
            weight += request.weight();
            batch.push(request);
        }
        write(disk, batch, counters);
    }
    disk.close();
}

/// Makes the changes of `batch` in one commit, and answers.
fn write(disk: &Disk, batch: Vec<Request>, counters: &Counters) {
    let changes = || batch.iter().flat_map(|request| &request.changes);
    let outcome = if changes().next().is_some() {
        let outcome = disk.commit(changes());
        counters.count_commit(outcome.is_ok(), changes());
        outcome
    } else {
        disk.check().map(|()| Vec::new())
    };
    let mut replaced = outcome.as_ref().map_or(&[][..], Vec::as_slice).iter();
    for Request { changes, recipient } in batch {
        let answer = match &outcome {
            Ok(_) => Ok(replaced.by_ref().take(changes.len()).fold(false, |any, one| any | one)),
            Err(failure) => Err(failure.clone()),
        };
        match recipient {
            Recipient::Caller(caller) => drop(caller.send(answer)), // it may have given up
            Recipient::Report(report) => report.tell(answer),
        }
    }
}

/// What a store has done so far: see [`Store::stats`](super::Store::stats).
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
#[non_exhaustive]
pub struct Stats {
    /// Values that were saved.
    pub saves: u64,
    /// Deletes that were made, also of what was not there.
    pub deletes: u64,
    /// Commits: each makes all changes durable that were queued when it began. A store in memory has none.
    pub commits: u64,
    /// Commits that failed.
    pub failed: u64,
    /// Calls whose changes are queued, without the ones that are being committed.
    pub queued: usize,
}

#[derive(Default)]
pub(super) struct Counters {
    saves: AtomicU64,
    deletes: AtomicU64,
    commits: AtomicU64,
    failed: AtomicU64,
}

impl Counters {
    /// Counts changes that were made.
    pub(super) fn count<'a>(&self, changes: impl IntoIterator<Item = &'a Change>) {
        for change in changes {
            let counter = if change.value.is_some() { &self.saves } else { &self.deletes };
            counter.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn count_commit<'a>(&self, succeeded: bool, changes: impl Iterator<Item = &'a Change>) {
        if succeeded {
            self.commits.fetch_add(1, Ordering::Relaxed);
            self.count(changes);
        } else {
            self.failed.fetch_add(1, Ordering::Relaxed);
        }
    }

    pub(super) fn stats(&self, queued: usize) -> Stats {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        Stats {
            saves: read(&self.saves),
            deletes: read(&self.deletes),
            commits: read(&self.commits),
            failed: read(&self.failed),
            queued,
        }
    }
}

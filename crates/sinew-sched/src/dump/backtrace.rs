//! Backtraces of tasks that are parked, and the fibers that they are in.
//!
//! A parked stack belongs to its worker's thread, so each worker is asked, and answers between two turns, on the stack of
//! its loop: it goes through all tasks, and walks the stacks of those that it has parked itself (see [`crate::notes`] for
//! why it may). Nothing of a task runs for that. What it has captured is addresses; names are looked up by whoever has
//! asked.
//!
//! - Whoever asks leaves a [`BacktraceRequest`] with each worker that is in service, sets the bit for it in the word that the worker looks at in every
//!   turn ([`Watch::ask`](crate::placement::Watch::ask)), and wakes the worker if it sleeps. This is work in the sense of
//!   [`crate::shared`]: the bit is set before the fence, and a worker that lies down looks at it after its own (model
//!   `shared_ask_or_sleep`).
//! - A worker takes the bit back, then the requests, so one that comes later has set the bit again.
//! - A worker that runs a task for too long does not answer in time. The dump says so, and names the task.
//! - A worker that asks itself, for one of its tasks, answers at once.
//!
//! Tasks that may go on anywhere have no backtrace: a future has no stack, and that of a body that migrates may be
//! continued by another worker at any time.

use std::ptr;
use std::time::Duration;

use sinew_core::Status;
use sinew_fiber::Link;
use sinew_sync::{Arc, park_timeout};

use super::Dump;
use crate::backtrace_request::BacktraceRequest;
use crate::clock::system_now;
use crate::shared::Shared;
use crate::task::{Home, Task};
use crate::worker::{self, Worker};

/// How long whoever asks waits for the workers.
const PATIENCE: Duration = Duration::from_millis(200);

/// Frames that are shown of a stack.
const MOST_FRAMES: usize = 64;

/// Whether a dump has backtraces: see [`Runtime::dump_with`](crate::Runtime::dump_with).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Backtraces {
    /// None.
    None,
    /// Of so many tasks at most.
    UpTo(usize),
}

/// One fiber that a parked task is in.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct FiberDump {
    /// Its number.
    pub id: u64,
    /// Its name, if it has one.
    pub name: Option<String>,
    /// Its status. It is alive while it waits as a part of its task, or one that it has resumed does.
    pub status: Status,
    /// Where it was created, as `file:line`.
    pub created_at: String,
}

impl Shared {
    /// A dump with backtraces; `own` is a worker that the calling thread may use, although it does not run.
    pub(crate) fn dump_with(&self, backtraces: Backtraces, own: Option<&Worker>) -> Dump {
        let Backtraces::UpTo(tasks) = backtraces else { return self.dump() };
        let asked: Vec<usize> = self.in_service().map(|(index, _)| index).collect();
        let request = Arc::new(BacktraceRequest::new(asked.clone(), tasks));
        asked.iter().for_each(|index| self.inboxes[*index].requests.lock().push(request.clone()));
        let running = worker::current().filter(|worker| ptr::eq(worker.shared, self));
        if let Some(own) = own.or(running) {
            own.answer();
        }
        self.ask_all();
        let deadline = system_now() + PATIENCE;
        while !request.left.lock().is_empty() && system_now() < deadline {
            park_timeout(deadline - system_now());
        }
        let mut dump = self.dump();
        dump.unanswered = request.left.lock().clone();
        // One that has left meanwhile had no tasks of its own.
        dump.unanswered.retain(|index| self.inboxes[*index].is_in_service());
        let found = std::mem::take(&mut *request.found.lock());
        for (id, inside) in found {
            // One that has gone on since is as it is: the dump says where it was parked when its worker looked.
            if let Some(task) = dump.tasks.iter_mut().find(|task| task.id == id) {
                task.fibers = inside.fibers.iter().map(FiberDump::of).collect();
                task.backtrace = inside.frames(MOST_FRAMES);
            }
        }
        dump
    }
}

impl FiberDump {
    fn of((link, status): &(Link, Status)) -> FiberDump {
        let created_at = format!("{}:{}", link.created.file(), link.created.line());
        let name = link.name.as_ref().map(|name| name.to_string());
        FiberDump { id: link.id, name, status: *status, created_at }
    }
}

impl Worker {
    /// Answers all requests. Called on the worker's thread, between two turns.
    #[cold]
    pub(crate) fn answer(&self) {
        let inbox = self.inbox();
        inbox.watch.answers();
        let requests = std::mem::take(&mut *inbox.requests.lock());
        for request in requests {
            for task in self.shared.chunks().into_iter().flatten() {
                if self.has_parked(task) && request.take_one() {
                    let Home::Core(core) = task.home() else { continue };
                    // SAFETY: the task is parked on this core, which is this thread's.
                    let inside = unsafe { core.look_inside() };
                    request.found.lock().push((task.id(), inside));
                }
            }
            request.answered(self.index());
        }
    }

    /// True if this worker has parked the task, and alone may continue it: then its cells, which are the worker's, may
    /// be read here, and its stack stands still.
    fn has_parked(&self, task: &Task) -> bool {
        task.notes.stays_parked_on(self.index(), &task.state)
    }
}

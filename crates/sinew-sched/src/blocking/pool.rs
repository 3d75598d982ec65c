//! The threads of a runtime that run jobs which block.
//!
//! Everything is under one lock: the places for jobs and the callers that wait for one, the jobs that wait, first in first out, those that run, and the threads that are idle.
//! Whoever submits a job takes a thread out of the idle ones and unparks it, or, if there is none, starts one, unless there
//! are as many as there may be; then a busy thread takes the job when it is done. So each job has a thread that is on its
//! way, or that is busy. A thread that was taken out of the idle ones looks for a job before it does anything else; one that
//! was not, and has waited for the keep-alive, takes itself out and ends. The thread that was idle last is taken first, so
//! those that are not needed do end.
//!
//! A job that is given up is taken out of the queue, or marked if it runs: nobody waits for it any more. Jobs are run, and
//! dropped, without the lock.
//!
//! If no thread can be started and there is none, nobody will ever run what is queued: those jobs are dropped, by the
//! caller that could not start one. A destructor of theirs that panics is contained (`drop_caught`).
//!
//! Threads are not joined, and a process ends without them. When the runtime stops, idle threads end at once.
//!
//! Models: `blocking_job_or_keep_alive`, `blocking_job_runs_or_is_withdrawn`, `blocking_stop_ends_threads`,
//! `blocking_drain_waits`, `blocking_place_is_passed_on`, `blocking_place_or_withdrawal`,
//! `blocking_drain_ends_with_a_withdrawal`.

use std::collections::{HashMap, VecDeque};
use std::io;
use std::mem;
use std::sync::Arc;
use std::time::Duration;

use sinew_core::Instant;
use sinew_fiber::raw::catch;
use sinew_sync::atomic::{AtomicUsize, Ordering};
use sinew_sync::thread::{self, Thread};
use sinew_sync::{Mutex, park_timeout};

use crate::case::{Attempt, Case, Enrolled};
use crate::clock::system_now;
use crate::cpu;
use crate::notes::What;
use crate::shared::RuntimeId;
use crate::wait::{Awaited, Node, Queue, TOLD, Waiter};
use crate::wait_kind::WaitKind;

/// How many threads and jobs a pool has, and for how long threads stay that have nothing to do.
#[derive(Clone, Debug)]
pub(crate) struct Limits {
    pub(crate) threads: usize,
    pub(crate) queue: usize,
    pub(crate) keep_alive: Duration,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits { threads: 512, queue: 1024, keep_alive: Duration::from_secs(10) }
    }
}

/// What a thread runs. It does not unwind.
pub(crate) type Job = Box<dyn FnOnce() + Send>;

pub(crate) struct Pool {
    limits: Limits,
    /// Callers that wait for a job.
    holds: AtomicUsize,
    state: Mutex<State>,
    start: fn(&'static Pool, u64) -> io::Result<()>,
    /// Whose pool it is: its threads keep that runtime's memory.
    runtime: RuntimeId,
}

struct State {
    /// Free places, one for each further job that may run or be queued.
    places: usize,
    /// Callers that wait for a place; while there are any, no place is free.
    waiting: Queue,
    queue: VecDeque<(u64, Job)>,
    /// The jobs that run, and whether somebody waits for them.
    running: HashMap<u64, bool>,
    /// Threads that wait for a job, by their numbers.
    idle: Vec<(u64, Thread)>,
    threads: usize,
    /// Jobs and threads are numbered by the same count.
    last: u64,
    stopping: bool,
    /// Why the last thread could not be started.
    refusal: Option<Arc<io::Error>>,
    /// Who waits for the last job to end.
    drained: Option<Thread>,
}

impl State {
    fn new(places: usize) -> State {
        State {
            places,
            waiting: Queue::new(),
            queue: VecDeque::new(),
            running: HashMap::new(),
            idle: Vec::new(),
            threads: 0,
            last: 0,
            stopping: false,
            refusal: None,
            drained: None,
        }
    }

    /// Takes a free place.
    fn take_place(&mut self) -> bool {
        let is_free = self.places > 0;
        self.places -= usize::from(is_free);
        is_free
    }

    /// Passes a place on to the first caller that waits, and returns it; otherwise the place is free.
    fn give_place(&mut self) -> Option<Waiter> {
        let waiter = self.waiting.tell(TOLD);
        self.places += usize::from(waiter.is_none());
        waiter
    }

    fn number(&mut self) -> u64 {
        self.last += 1;
        self.last
    }

    fn pending(&self) -> usize {
        self.queue.len() + self.running.len()
    }

    /// Takes the thread that waits for the last job, if there is no job any more.
    fn take_drained(&mut self) -> Option<Thread> {
        if self.pending() == 0 { self.drained.take() } else { None }
    }
}

/// The blocking calls of a runtime, and their threads: see [`Dump`](crate::Dump).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct BlockingDump {
    /// Threads that there are for such calls.
    pub threads: usize,
    /// How many of them have nothing to do.
    pub idle: usize,
    /// Calls that have not begun.
    pub queued: usize,
    /// Calls that run.
    pub running: usize,
    /// How many of those run although nobody waits for them any more.
    pub alone: usize,
}

impl Pool {
    pub(crate) fn new(limits: Limits, runtime: RuntimeId) -> Pool {
        Pool { runtime, ..Pool::starting(limits, start) }
    }

    fn starting(limits: Limits, start: fn(&'static Pool, u64) -> io::Result<()>) -> Pool {
        let places = limits.threads.saturating_add(limits.queue);
        let (holds, state) = (AtomicUsize::new(0), Mutex::new(State::new(places)));
        Pool { limits, holds, state, start, runtime: RuntimeId::NONE }
    }

    /// Returns the wait for a place, which is to be used for a job.
    pub(super) fn admission(&self) -> Admission<'_> {
        Admission { pool: self }
    }

    /// Gives `count` places back.
    fn give_places(&self, count: usize) {
        for _ in 0..count {
            let waiter = self.state.lock().give_place();
            waiter.into_iter().for_each(Waiter::wake);
        }
    }

    /// Queues a job, for which there is a place, and returns its number.
    pub(super) fn submit(&'static self, job: Job) -> u64 {
        let mut state = self.state.lock();
        let number = state.number();
        state.queue.push_back((number, job));
        if let Some((_, thread)) = state.idle.pop() {
            drop(state);
            thread.unpark();
        } else if state.threads < self.limits.threads {
            state.threads += 1;
            let thread = state.number();
            drop(state);
            if let Err(error) = (self.start)(self, thread) {
                self.not_started(error);
            }
        }
        number
    }

    #[cold]
    fn not_started(&self, error: io::Error) {
        let mut state = self.state.lock();
        state.threads -= 1;
        state.refusal = Some(Arc::new(error));
        if state.threads == 0 {
            let jobs = mem::take(&mut state.queue);
            let drained = state.take_drained();
            drop(state);
            drained.into_iter().for_each(|thread| thread.unpark());
            self.give_places(jobs.len());
            jobs.into_iter().for_each(|(_, job)| drop_caught(job));
        }
    }

    /// Why there is no thread for a job that was dropped.
    pub(super) fn refusal(&self) -> Arc<io::Error> {
        let refusal = self.state.lock().refusal.clone();
        refusal.unwrap_or_else(|| Arc::new(io::Error::other("the job was dropped")))
    }

    /// Nobody waits for a job any more: one that has not been begun is dropped.
    pub(super) fn give_up(&self, number: u64) {
        let mut state = self.state.lock();
        match state.queue.binary_search_by_key(&number, |(queued, _)| *queued) {
            Ok(at) => {
                let job = state.queue.remove(at);
                let (admitted, drained) = (state.give_place(), state.take_drained());
                drop(state);
                admitted.into_iter().for_each(Waiter::wake);
                drained.into_iter().for_each(|thread| thread.unpark());
                drop(job); // its destructor is the user's code
            }
            Err(_) => {
                state.running.entry(number).and_modify(|awaited| *awaited = false);
            }
        }
    }

    /// The life of the thread with this number.
    fn serve(&self, me: u64) {
        cpu::unbind();
        while let Some((number, job)) = self.next(me) {
            job();
            let mut state = self.state.lock();
            state.running.remove(&number);
            let drained = state.take_drained();
            let admitted = state.give_place();
            drop(state);
            admitted.into_iter().for_each(Waiter::wake);
            drained.into_iter().for_each(|thread| thread.unpark());
        }
    }

    /// The next job for the thread `me`, when there is one. None if the thread shall end.
    fn next(&self, me: u64) -> Option<(u64, Job)> {
        let mut deadline = None;
        let mut state = self.state.lock();
        loop {
            if let Some((number, job)) = state.queue.pop_front() {
                state.idle.retain(|(idle, _)| *idle != me);
                state.running.insert(number, true);
                return Some((number, job));
            }
            let now = system_now();
            let is_idle = state.idle.iter().any(|(idle, _)| *idle == me);
            let until = match deadline {
                Some(until) if is_idle => until,
                _ => now + self.limits.keep_alive,
            };
            if state.stopping || (is_idle && now >= until) {
                state.idle.retain(|(idle, _)| *idle != me);
                state.threads -= 1;
                return None;
            }
            if !is_idle {
                state.idle.push((me, thread::current()));
            }
            deadline = Some(until);
            drop(state);
            if until > now {
                park_timeout(until - now);
            }
            state = self.state.lock();
        }
    }

    /// Ends the threads that have nothing to do, and others when they have nothing to do any more.
    pub(crate) fn stop(&self) {
        let mut state = self.state.lock();
        state.stopping = true;
        let idle = mem::take(&mut state.idle);
        drop(state);
        idle.into_iter().for_each(|(_, thread)| thread.unpark());
    }

    /// Waits until no job is left, or until `deadline` on the system's clock.
    pub(crate) fn drain(&self, deadline: Instant) {
        loop {
            let mut state = self.state.lock();
            let left = deadline - system_now();
            if state.pending() == 0 || left.is_zero() {
                state.drained = None;
                return;
            }
            state.drained = Some(thread::current());
            drop(state);
            park_timeout(left);
        }
    }

    pub(crate) fn counts(&self) -> BlockingDump {
        let state = self.state.lock();
        let alone = state.running.values().filter(|awaited| !**awaited).count();
        let (queued, running) = (state.queue.len(), state.running.len());
        BlockingDump { threads: state.threads, idle: state.idle.len(), queued, running, alone }
    }

    pub(crate) fn hold(&self) {
        self.holds.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn release(&self) {
        self.holds.fetch_sub(1, Ordering::Relaxed);
    }

    /// True if somebody waits for a job.
    pub(crate) fn is_awaited(&self) -> bool {
        self.holds.load(Ordering::Relaxed) > 0
    }
}

/// Drops a job that nobody will run. Its destructor is the code of another caller, which gets an error: if it panics, this
/// caller goes on, and so do the jobs behind it.
#[cold]
fn drop_caught(job: Job) {
    if sinew_sync::MODEL {
        return drop(job); // a model has no fibers
    }
    mem::forget(catch(|| drop(job)).err()); // what a destructor raises is nobody's
}

/// The wait of a caller for a place in the queue of a pool. The place is passed on under the lock of the pool, to the
/// caller that waits first; one that unwinds passes it on.
pub(super) struct Admission<'a> {
    pool: &'a Pool,
}

impl Awaited for Admission<'_> {
    unsafe fn withdraw(&self, node: &Node) -> bool {
        // SAFETY: the caller promises that the node was enrolled with this, which pushed it into this queue.
        unsafe { self.pool.state.lock().waiting.remove(node) }
    }

    unsafe fn hand_on(&self, _: &Node) {
        self.pool.give_places(1);
    }
}

impl Attempt for Admission<'_> {
    fn attempt(&self) -> bool {
        self.pool.state.lock().take_place()
    }

    unsafe fn enroll(&self, node: &Node) -> Enrolled {
        let mut state = self.pool.state.lock();
        if state.places > 0 {
            if !node.claim() {
                return Enrolled::Taken;
            }
            state.places -= 1;
            return Enrolled::Done;
        }
        // SAFETY: the caller promises that the node is new, and stays until it was told or withdrawn.
        unsafe { state.waiting.push(node) };
        Enrolled::Queued
    }

    unsafe fn settle(&self, _: &Node) -> bool {
        true
    }

    unsafe fn under_lock(&self, change: &mut dyn FnMut()) {
        let _state = self.pool.state.lock();
        change();
    }

    fn what(&self) -> What {
        What::at(WaitKind::Blocking, self.pool)
    }
}

impl Case for Admission<'_> {
    type Output = ();

    fn output(self) {}
}

fn start(pool: &'static Pool, number: u64) -> io::Result<()> {
    let name = format!("sinew-blocking-{number}");
    let reference = pool.runtime.upgrade(); // there is one: whoever submits a job has it
    let serve = move || {
        pool.serve(number);
        drop(reference);
    };
    thread::Builder::new().name(name).spawn(serve).map(drop)
}

#[cfg(test)]
mod tests;

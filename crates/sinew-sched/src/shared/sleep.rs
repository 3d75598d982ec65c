//! Who sleeps and who wakes: the prose is in [`super`].

use std::ptr;
use std::time::Duration;

use sinew_core::Instant;
use sinew_fiber::raw::is_stack_cache_asked;
use sinew_sync::atomic::{Ordering, fence};
use sinew_sync::{fence_after_rmw, park_timeout, thread};

use super::inbox::{Sleeper, Woken};
use super::{GOT_UP, Inbox, LOOK_AGAIN, OVERDUE, PARKED, SERVING, Shared, UP, sleepers};
use crate::clock::{Clock, system_now};
use crate::cpu;
use crate::reactor::Server;
use crate::worker::{self, Stealers};

/// How long after it was woken a worker runs that had to wait for its CPU: more than any wake-up takes on an idle one.
const WOKEN_LATE: Duration = Duration::from_micros(200);

impl Shared {
    /// Wakes a worker, if one sleeps, for work that was just pushed.
    #[inline]
    pub(crate) fn wake_one(&self) {
        fence(Ordering::SeqCst);
        if sleepers(self.beds.load(Ordering::Relaxed)) > 0 {
            self.wake_any();
        }
    }

    #[cold]
    fn wake_any(&self) {
        let _ = (0..self.inboxes.len()).any(|worker| self.inboxes[worker].takes_all() && self.wake(worker));
    }

    pub(crate) fn wake_all(&self) {
        fence(Ordering::SeqCst);
        for worker in 0..self.inboxes.len() {
            self.wake(worker);
        }
    }

    /// Has all workers look at their requests.
    pub(crate) fn ask_all(&self) {
        let asked = self.inboxes.iter().filter(|inbox| !inbox.requests.lock().is_empty());
        asked.for_each(|inbox| inbox.watch.ask());
        self.wake_all();
    }

    /// Wakes a worker. False if it is up.
    ///
    /// It is decided under the lock of its sleeper whether this wake-up or something else gets it up, and where it may run.
    /// So a worker that takes this lock after it got up finds what was decided.
    pub(super) fn wake(&self, worker: usize) -> bool {
        let inbox = &self.inboxes[worker];
        if inbox.bed.load(Ordering::Acquire) == UP {
            return false;
        }
        let mut sleeper = inbox.sleeper();
        let bed = inbox.bed.swap(UP, Ordering::AcqRel);
        if bed == UP {
            return false;
        }
        let sleeps = sleeper.as_mut().expect("a worker that sleeps has said who it is");
        if self.places
            && let Some(waker) = worker::current().filter(|waker| ptr::eq(waker.shared, self))
        {
            self.choose_cpu(waker.index(), sleeps);
        }
        let thread = sleeps.thread.clone();
        drop(sleeper);
        if bed == PARKED {
            thread.unpark();
        } else {
            self.reactor.get().expect("one that serves has a reactor").wake();
        }
        true
    }

    /// Keeps a worker that this worker is about to wake away from this CPU, if the kernel would not.
    fn choose_cpu(&self, waker: usize, sleeper: &mut Sleeper) {
        let Some(cpu) = cpu::current() else { return };
        if self.steering.is_on() {
            sleeper.steered = cpu::steer(sleeper.id, cpu);
        } else {
            sleeper.woken = Some(Woken { by: waker, cpu, at: system_now() });
        }
    }

    /// A worker that looked everywhere has found nothing.
    pub(crate) fn found_nothing(&self) {
        let in_vain = self.in_vain.load(Ordering::Relaxed);
        self.in_vain.store(in_vain.saturating_add(1), Ordering::Relaxed);
    }

    /// A worker that was woken comes too late: that it finds nothing does not count.
    fn came_late(&self) {
        let in_vain = self.in_vain.load(Ordering::Relaxed);
        self.in_vain.store(in_vain.saturating_sub(1), Ordering::Relaxed);
    }

    /// A worker has taken work from another.
    pub(crate) fn found_something(&self) {
        if self.in_vain.load(Ordering::Relaxed) != 0 {
            self.in_vain.store(0, Ordering::Relaxed);
        }
    }

    /// How often in a row getting up was in vain, at most 14.
    pub(crate) fn in_vain(&self) -> u32 {
        self.in_vain.load(Ordering::Relaxed).min(14)
    }

    /// `worker`, which was idle, has found something. True if no other works.
    pub(crate) fn goes_to_work(&self, worker: usize) -> bool {
        self.inboxes[worker].idle.store(false, Ordering::Relaxed);
        !self.another_works(worker)
    }

    pub(super) fn another_works(&self, worker: usize) -> bool {
        let mut others = self.inboxes.iter().enumerate().filter(|(index, _)| *index != worker);
        others.any(|(_, inbox)| !inbox.idle.load(Ordering::Relaxed))
    }

    /// Sleeps until there is something for `worker` to do, or until `alarm`, when its next timer is due.
    pub(crate) fn sleep(&self, worker: usize, alarm: Option<Instant>) {
        self.sleep_for(worker, alarm, None);
    }

    /// The same, for at most `limit`.
    pub(crate) fn sleep_for(&self, worker: usize, alarm: Option<Instant>, limit: Option<Duration>) {
        let inbox = &self.inboxes[worker];
        let leaves = self.leaves_reactor(worker);
        let mut server = self.reactor.get().filter(|_| !leaves).and_then(|reactor| reactor.serve());
        let beds = self.lie_down(inbox, if server.is_some() { SERVING } else { PARKED });
        let (own, takes_all) = (
            !inbox.is_empty() || inbox.watch.is_asked() || self.has_ended() || is_stack_cache_asked(),
            inbox.takes_all(),
        );
        let anywhere = self.has_movable();
        let work = own || anywhere && takes_all || leaves && self.is_left_alone(worker);
        if !work && (anywhere || !self.clock_jumps(beds, server.as_mut())) {
            let look = if leaves || self.another_works(worker) {
                Some(LOOK_AGAIN)
            } else {
                self.until_overdue(worker)
            };
            let limits = [self.until(alarm), limit, look.filter(|_| self.look_again && takes_all)];
            let timeout = limits.into_iter().flatten().min();
            match (&mut server, timeout) {
                (_, Some(timeout)) if timeout.is_zero() => (),
                (Some(server), timeout) => _ = server.wait(timeout),
                (None, Some(timeout)) => park_timeout(timeout),
                (None, None) => {
                    while inbox.bed.load(Ordering::Acquire) != UP {
                        thread::park();
                    }
                }
            }
        }
        self.get_up(inbox);
        self.settle(inbox);
        if let Some(server) = server {
            self.tell(inbox, server);
        }
    }

    /// A worker has got up: sees to its CPU ([`crate::cpu`]). If it runs on that of the worker that woke it, and that one
    /// has been preempted for it, or it had to wait for that one, it moves.
    fn settle(&self, inbox: &Inbox) {
        if !self.places {
            return;
        }
        let woken = inbox.sleeper().as_mut().and_then(|sleeper| {
            sleeper.steered.take().into_iter().for_each(cpu::Steered::restore);
            sleeper.woken.take()
        });
        let Some(Woken { by, cpu, at }) = woken else { return };
        let is_in_the_way = || system_now() - at >= WOKEN_LATE || !self.inboxes[by].is_asleep();
        if cpu::current() != Some(cpu) || !is_in_the_way() {
            return self.steering.was_well_placed();
        }
        self.steering.was_misplaced();
        cpu::leave(cpu);
        self.came_late();
    }

    /// Puts a worker, whose inbox this is, to bed, and returns the word of the beds. The fence is one of two pairs, both
    /// with [`Shared::wake_one`]: the worker sees what was pushed before it, and who had gone to work.
    pub(super) fn lie_down(&self, inbox: &Inbox, bed: u8) -> u64 {
        inbox.sleeper().get_or_insert_with(Sleeper::current);
        inbox.idle.store(true, Ordering::Relaxed);
        inbox.bed.store(bed, Ordering::Release); // whoever sees it sees the thread
        let beds = self.beds.fetch_add(1, Ordering::AcqRel) + 1;
        fence(Ordering::SeqCst);
        beds
    }

    pub(super) fn get_up(&self, inbox: &Inbox) {
        inbox.bed.store(UP, Ordering::Relaxed);
        self.beds.fetch_add(GOT_UP - 1, Ordering::SeqCst);
        fence_after_rmw(); // one of a pair, with `sleep_as_sysmon`
        self.wake_sysmon();
    }

    /// True if there is something in a queue that any worker takes from.
    pub(super) fn has_movable(&self) -> bool {
        let queued = |queues: &Stealers| !queues.new.is_empty() || !queues.woken.is_empty();
        !self.injector.is_empty() || self.stealers.iter().any(queued)
    }

    /// How long to sleep until `alarm`. On a manual clock, whose time does not pass by itself, whoever moves it wakes
    /// everybody.
    fn until(&self, alarm: Option<Instant>) -> Option<Duration> {
        let now = self.clock.now();
        match (&self.clock, alarm?) {
            (Clock::Manual(_), alarm) if alarm > now => None,
            (_, alarm) => Some(alarm - now),
        }
    }

    /// How long it takes until a timer of another worker is late: if that worker got up for it and is stuck, somebody has to
    /// look.
    fn until_overdue(&self, worker: usize) -> Option<Duration> {
        let others = self.inboxes.iter().enumerate().filter(|(index, _)| *index != worker);
        let next = others.filter_map(|(_, inbox)| inbox.timers.next()).min();
        self.until(next.map(|next| next + OVERDUE)).map(|overdue| overdue.max(LOOK_AGAIN))
    }

    /// Moves a manual clock to the next deadline of all, if everybody sleeps, nothing is queued and nobody waits for a
    /// blocking call; `beds` is what
    /// [`Shared::lie_down`] returned. If somebody has got up since, an inbox may be empty that was not, and a timer may
    /// have rung or be missing: whoever lies down last looks again.
    ///
    /// News that the reactor has comes first. Only who serves it knows that there is none: any other has that one get up,
    /// which is last then.
    pub(super) fn clock_jumps(&self, beds: u64, server: Option<&mut Server>) -> bool {
        let Clock::Manual(clock) = &self.clock else { return false };
        let idle = self.nobody_is_up(beds) && self.inboxes.iter().all(Inbox::is_empty);
        let next = self.inboxes.iter().filter_map(|inbox| inbox.timers.next()).min();
        let held = clock.is_held() || self.blocking.is_awaited();
        fence(Ordering::SeqCst);
        let Some(next) = next else { return false };
        if !idle || self.beds.load(Ordering::Relaxed) != beds || held {
            return false;
        }
        if server.is_none() && self.reactor.get().is_some() {
            let serves = |inbox: &Inbox| inbox.bed.load(Ordering::Acquire) == SERVING;
            let server = self.inboxes.iter().position(serves);
            server.into_iter().for_each(|server| _ = self.wake(server));
            return false;
        }
        let news = server.is_some_and(|server| server.wait(Some(Duration::ZERO)));
        if !news {
            clock.jump_to(next);
        }
        true
    }
}

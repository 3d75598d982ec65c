//! A tree of 10,000 supervised actors, of which some are killed, stopped or fail all the time, while others send to them by name:
//! every message that was accepted is handled, failed with its actor, or a dead letter (`docs/semantics.md`, D1).
//!
//! It runs for `SINEW_STRESS` seconds, or one, and until something of all that has happened. A program of its own, because it
//! keeps all processors busy meanwhile.

mod kit;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use kit::{ByRef, SEED, Watchdog, random};
use sinew_kernel::{Actor, ChildSpec, Ctx, Flow, Node, NodeRef, Policy, Restart, Strategy, Supervisor};
use sinew_sched::{Runtime, yield_now};

const SUPERVISORS: u64 = 100;
const WORKERS: u64 = 100;

#[derive(Default)]
struct Books {
    accepted: AtomicU64,
    handled: AtomicU64,
    failed: AtomicU64,
    restarts: AtomicU64,
}

enum Job {
    Quick,
    /// Gives up the worker in the middle, where it can be killed.
    Slow,
    Fails,
}

struct Worker(Arc<Books>);

/// A message in hand: it is handled, or has failed with its actor.
struct InHand<'a>(&'a Books, bool);

impl Drop for InHand<'_> {
    fn drop(&mut self) {
        let entry = if self.1 { &self.0.handled } else { &self.0.failed };
        entry.fetch_add(1, Ordering::Relaxed);
    }
}

impl Actor for Worker {
    type Msg = Job;

    fn handle(&mut self, job: Job, _: &mut Ctx<Job>) -> Flow {
        let mut in_hand = InHand(&self.0, false);
        match job {
            Job::Quick => (),
            Job::Slow => (0..3).for_each(|_| yield_now()),
            Job::Fails => panic!("a job that fails"),
        }
        in_hand.1 = true;
        Flow::Continue
    }
}

fn supervisor(node: NodeRef, number: u64, books: &Arc<Books>) -> Supervisor {
    let mut supervisor = node.supervisor(Strategy::OneForOne).max_restarts(u32::MAX, Duration::from_secs(1));
    for worker in 0..WORKERS {
        let books = books.clone();
        let factory = move || {
            books.restarts.fetch_add(1, Ordering::Relaxed);
            Worker(books.clone())
        };
        let name = format!("w-{number}-{worker}");
        let policy = if worker % 2 == 0 { Policy::Park } else { Policy::DropOldest };
        let spec = ChildSpec::new(name.clone(), factory).name(name).restart(Restart::Permanent);
        supervisor = supervisor.child(spec.mailbox(8).policy(policy));
    }
    supervisor
}

#[test]
fn no_message_is_lost_in_a_tree_whose_actors_are_killed_at_random() {
    for workers in [2, 8] {
        let _watchdog = Watchdog::new(format!("{workers} workers"));
        let node = Node::builder().runtime(Runtime::builder().workers(workers)).build().unwrap();
        let by_ref = node.node_ref();
        let books = Arc::new(Books::default());
        let mut root = node.supervisor(Strategy::OneForOne).max_restarts(u32::MAX, Duration::from_secs(1));
        for number in 0..SUPERVISORS {
            let books = books.clone();
            let factory = move || supervisor(by_ref, number, &books);
            root =
                root.child(ChildSpec::supervisor(format!("s-{number}"), factory).name(format!("s-{number}")));
        }
        let root = root.spawn().unwrap();
        kit::spin_until(|| node.actor_count() as u64 == 1 + SUPERVISORS * (1 + WORKERS));

        let over = Arc::new(AtomicBool::new(false));
        let mut tasks = Vec::new();
        for task in 0..6 {
            let (over, books) = (over.clone(), books.clone());
            tasks.push(node.handle().spawn(move || {
                let mut seed = SEED + task;
                while !over.load(Ordering::Relaxed) {
                    let (number, worker) = (random(&mut seed) % SUPERVISORS, random(&mut seed) % WORKERS);
                    let found = by_ref.lookup_as::<Job>(&format!("w-{number}-{worker}"));
                    if task > 0 {
                        for _ in 0..16 {
                            let Ok(actor) = &found else { break };
                            let job =
                                if random(&mut seed).is_multiple_of(4) { Job::Slow } else { Job::Quick };
                            if actor.tell_timeout(job, Duration::from_millis(1)).is_ok() {
                                books.accepted.fetch_add(1, Ordering::Relaxed);
                            }
                        }
                    } else if let Ok(actor) = &found {
                        match random(&mut seed) % 64 {
                            0 => drop(by_ref.lookup(&format!("s-{number}")).map(|id| by_ref.kill(id))),
                            1..20 => actor.kill(),
                            20..30 => actor.stop(),
                            30..40 => actor.drain(),
                            _ => {
                                if actor.try_tell(Job::Fails).is_ok() {
                                    books.accepted.fetch_add(1, Ordering::Relaxed);
                                }
                            }
                        }
                    }
                    yield_now();
                }
            }));
        }
        let end = Instant::now() + Duration::from_secs_f64(kit::scale().max(0.2));
        let count = |entry: &AtomicU64| entry.load(Ordering::Relaxed);
        let has_something_of_all = || {
            count(&books.restarts) > SUPERVISORS * WORKERS
                && count(&books.handled) > 0
                && count(&books.failed) > 0
        };
        while Instant::now() < end || !has_something_of_all() {
            std::thread::park_timeout(Duration::from_millis(20));
        }
        over.store(true, Ordering::Relaxed);
        tasks.into_iter().for_each(|task| task.join().unwrap());
        drop(root);
        let report = node.shutdown(Duration::from_secs(60));
        assert_eq!((report.left, by_ref.actor_count()), (0, 0));
        let [accepted, handled, failed, starts] =
            [&books.accepted, &books.handled, &books.failed, &books.restarts].map(count);
        let dead = by_ref.dead_letter_count();
        println!(
            "{workers} workers: {accepted} accepted = {handled} handled + {failed} failed + {dead} dead; {starts} starts"
        );
        assert_eq!(accepted, handled + failed + dead);
    }
}

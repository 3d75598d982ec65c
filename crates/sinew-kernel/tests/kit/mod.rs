//! What tests of the core share: nodes of several sizes, actors made of closures, gates, and a watchdog.
#![allow(dead_code, reason = "no test program uses all of it")]

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant};

use sinew_chan::chan::oneshot;
use sinew_kernel::{Actor, ActorRef, Ctx, Exit, ExitReason, Flow, LocalNode, Node};
use sinew_sched::{ManualClock, Runtime};

/// How many times longer than usual the tests run: `SINEW_STRESS`, or 1.
pub(crate) fn scale() -> f64 {
    std::env::var("SINEW_STRESS").ok().and_then(|text| text.parse().ok()).unwrap_or(1.0)
}

/// `usual` rounds, or more or fewer for who asked for it; a tenth without optimisation; at least one.
pub(crate) fn rounds(usual: usize) -> usize {
    let usual = if cfg!(debug_assertions) { usual / 10 } else { usual };
    ((usual as f64 * scale()) as usize).max(1)
}

/// Runs `test` with one worker, two, and more than there are cores. Each node has to end with nothing left.
pub(crate) fn with_nodes(test: impl Fn(&Node)) {
    for workers in [1, 2, 8] {
        with_node(workers, &test);
    }
}

pub(crate) fn with_node(workers: usize, test: impl FnOnce(&Node)) {
    let _watchdog = Watchdog::new(format!("{workers} workers"));
    let node = Node::builder().runtime(Runtime::builder().workers(workers)).build().unwrap();
    test(&node);
    let count = node.node_ref();
    let report = node.shutdown(Duration::from_secs(60));
    assert_eq!((report.left, count.actor_count()), (0, 0), "{report:?}");
}

/// A node on this thread, whose clock stands still until it is moved.
pub(crate) fn local() -> (LocalNode, ManualClock) {
    let clock = ManualClock::new();
    let runtime = Runtime::builder().manual_clock(&clock);
    (Node::builder().runtime(runtime).build_current_thread().unwrap(), clock)
}

/// The node by reference.
pub(crate) trait ByRef {
    fn node_ref(&self) -> sinew_kernel::NodeRef;
}

impl<N: std::ops::Deref<Target = sinew_kernel::NodeRef>> ByRef for N {
    fn node_ref(&self) -> sinew_kernel::NodeRef {
        **self
    }
}

type Hook<M, A> = Box<dyn FnMut(A, &mut Ctx<M>) -> Flow + Send>;
type Stopping<M> = Box<dyn FnMut(&ExitReason, &mut Ctx<M>) + Send>;

/// An actor made of closures.
pub(crate) struct Hooked<M: Send + 'static> {
    started: Hook<M, ()>,
    handle: Hook<M, M>,
    exit_of: Hook<M, Exit>,
    stopping: Stopping<M>,
    dropped: Option<Box<dyn FnOnce() + Send>>,
}

impl<M: Send + 'static> Hooked<M> {
    pub(crate) fn new(handle: impl FnMut(M, &mut Ctx<M>) -> Flow + Send + 'static) -> Hooked<M> {
        Hooked {
            started: Box::new(|(), _| Flow::Continue),
            handle: Box::new(handle),
            exit_of: Box::new(|_, _| Flow::Continue),
            stopping: Box::new(|_, _| ()),
            dropped: None,
        }
    }

    pub(crate) fn started(mut self, hook: impl FnMut((), &mut Ctx<M>) -> Flow + Send + 'static) -> Hooked<M> {
        self.started = Box::new(hook);
        self
    }

    pub(crate) fn exit_of(
        mut self,
        hook: impl FnMut(Exit, &mut Ctx<M>) -> Flow + Send + 'static,
    ) -> Hooked<M> {
        self.exit_of = Box::new(hook);
        self
    }

    pub(crate) fn stopping(
        mut self,
        hook: impl FnMut(&ExitReason, &mut Ctx<M>) + Send + 'static,
    ) -> Hooked<M> {
        self.stopping = Box::new(hook);
        self
    }

    pub(crate) fn dropped(mut self, hook: impl FnOnce() + Send + 'static) -> Hooked<M> {
        self.dropped = Some(Box::new(hook));
        self
    }
}

impl<M: Send + 'static> Drop for Hooked<M> {
    fn drop(&mut self) {
        if let Some(dropped) = self.dropped.take() {
            dropped();
        }
    }
}

impl<M: Send + 'static> Actor for Hooked<M> {
    type Msg = M;

    fn started(&mut self, ctx: &mut Ctx<M>) -> Flow {
        (self.started)((), ctx)
    }

    fn handle(&mut self, msg: M, ctx: &mut Ctx<M>) -> Flow {
        (self.handle)(msg, ctx)
    }

    fn exit_of(&mut self, exit: Exit, ctx: &mut Ctx<M>) -> Flow {
        (self.exit_of)(exit, ctx)
    }

    fn stopping(&mut self, reason: &ExitReason, ctx: &mut Ctx<M>) {
        (self.stopping)(reason, ctx);
    }
}

/// What an actor is told to do.
pub(crate) type Job = Box<dyn FnOnce(&mut Ctx<Work>) -> Flow + Send>;

/// A message that is a number, or has the actor block until a gate is opened.
pub(crate) enum Work {
    Number(u64),
    /// Says that it is here, then waits.
    Wait(Entered, Gate),
    /// Does something.
    Do(Job),
}

/// A message that has an actor do something.
pub(crate) fn act(body: impl FnOnce(&mut Ctx<Work>) -> Flow + Send + 'static) -> Work {
    Work::Do(Box::new(body))
}

pub(crate) type Entered = std::sync::mpsc::Sender<()>;

/// What an actor waits at.
pub(crate) struct Gate(oneshot::Receiver<()>);

impl Gate {
    /// Waits until it is opened. False if the wait was refused.
    pub(crate) fn pass(mut self) -> bool {
        self.0.recv().is_ok()
    }
}

/// Opens a gate; so does dropping it.
pub(crate) struct Key(Option<oneshot::Sender<()>>);

impl Key {
    pub(crate) fn open(mut self) {
        let _ = self.0.take().unwrap().send(());
    }
}

pub(crate) fn gate() -> (Key, Gate) {
    let (sender, receiver) = oneshot::channel();
    (Key(Some(sender)), Gate(receiver))
}

/// A message that has an actor block, its key, and who says that it does.
pub(crate) fn wait() -> (Work, Key, std::sync::mpsc::Receiver<()>) {
    let (entered, has_entered) = std::sync::mpsc::channel();
    let (key, gate) = gate();
    (Work::Wait(entered, gate), key, has_entered)
}

/// Has an actor block, and waits until it does.
pub(crate) fn block(actor: &ActorRef<Work>) -> Key {
    let (work, key, entered) = wait();
    actor.tell(work).unwrap();
    entered.recv().unwrap();
    key
}

/// An actor computes, and never blocks, until this is dropped.
pub(crate) struct Computing(Arc<AtomicBool>);

impl Drop for Computing {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Release);
    }
}

/// Has an actor compute, and waits until it does.
pub(crate) fn compute(actor: &ActorRef<Work>) -> Computing {
    let over = Arc::new(AtomicBool::new(false));
    let (computing, (entered, has_entered)) = (Computing(over.clone()), std::sync::mpsc::channel());
    let computes = act(move |_| {
        entered.send(()).unwrap();
        spin_until(|| over.load(Ordering::Acquire));
        Flow::Continue
    });
    actor.tell(computes).unwrap();
    has_entered.recv().unwrap();
    computing
}

pub(crate) type Numbers = Arc<Mutex<Vec<u64>>>;

/// An actor that keeps the numbers that it handles.
pub(crate) fn keeper() -> (Hooked<Work>, Numbers) {
    let numbers = Numbers::default();
    let kept = numbers.clone();
    let actor = Hooked::new(move |work, ctx| {
        match work {
            Work::Number(number) => kept.lock().unwrap().push(number),
            Work::Wait(entered, gate) => {
                let _ = entered.send(());
                gate.pass();
            }
            Work::Do(body) => return body(ctx),
        }
        Flow::Continue
    });
    (actor, numbers)
}

pub(crate) type Notes = Arc<Mutex<Vec<&'static str>>>;

fn note(notes: &Notes, what: &'static str) {
    notes.lock().unwrap().push(what);
}

/// An actor that notes what is called, and stays in `handle` until its gate is opened.
pub(crate) fn noting(notes: &Notes) -> Hooked<Work> {
    let [a, b, c, d] = [(); 4].map(|()| notes.clone());
    Hooked::new(move |work, ctx| {
        note(&a, "handle");
        match work {
            Work::Number(_) => (),
            Work::Wait(entered, gate) => {
                let _ = entered.send(());
                note(&a, if gate.pass() { "passed" } else { "refused" });
            }
            Work::Do(body) => return body(ctx),
        }
        Flow::Continue
    })
    .started(move |(), _| {
        note(&b, "started");
        Flow::Continue
    })
    .stopping(move |_, _| note(&c, "stopping"))
    .dropped(move || note(&d, "dropped"))
}

/// A node on this thread whose clock is moved by hand, with an actor that notes what is called.
pub(crate) fn noted() -> (LocalNode, ManualClock, ActorRef<Work>, Notes) {
    let ((node, clock), notes) = (local(), Notes::default());
    clock.hold(true);
    let actor = node.spawn(noting(&notes)).unwrap();
    (node, clock, actor, notes)
}

pub(crate) fn number(work: Work) -> u64 {
    match work {
        Work::Number(number) => number,
        _ => panic!("not a number"),
    }
}

/// A random number, the same in every run.
pub(crate) fn random(seed: &mut u64) -> u64 {
    *seed ^= *seed << 13;
    *seed ^= *seed >> 7;
    *seed ^= *seed << 17;
    *seed
}

pub(crate) const SEED: u64 = 88_172_645_463_325_252;

/// Waits on the thread until `done`; the watchdog sees to it that this ends.
pub(crate) fn spin_until(done: impl Fn() -> bool) {
    while !done() {
        std::thread::yield_now();
    }
}

/// Ends the process if it is not dropped in time, which is so long that only a hang reaches it.
pub(crate) struct Watchdog(Arc<(Mutex<bool>, Condvar)>);

impl Watchdog {
    pub(crate) fn new(what: String) -> Watchdog {
        let state = Arc::new((Mutex::new(false), Condvar::new()));
        let test = std::thread::current().name().unwrap_or("a test").to_owned();
        let deadline = Instant::now() + Duration::from_secs(90 + 4 * scale() as u64);
        let watched = state.clone();
        std::thread::spawn(move || {
            let mut over = watched.0.lock().unwrap();
            while !*over {
                let left = deadline.saturating_duration_since(Instant::now());
                if left.is_zero() {
                    eprintln!("\n{test} hangs, with {what}");
                    std::process::abort();
                }
                over = watched.1.wait_timeout(over, left).unwrap().0;
            }
        });
        Watchdog(state)
    }
}

impl Drop for Watchdog {
    fn drop(&mut self) {
        *self.0.0.lock().unwrap() = true;
        self.0.1.notify_all();
    }
}

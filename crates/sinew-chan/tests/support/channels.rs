//! What the tests of channels share: the kinds of channels, and the ways to use one.
//!
//! A test of something that all kinds have is generic over [`Kind`] and run by `for_kinds!`. A new kind that is a queue
//! with a capacity is a line of [`kinds!`].
#![allow(dead_code, unused_imports, unused_macros, reason = "no test program uses all of it")]

use std::fmt::Debug;
use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::task::{Context, Poll, Waker};

use sinew_chan::chan::{self, Many, One, Receiver, RecvError, SendError, Sender};
use sinew_sched::now;
use sinew_sched::{CurrentThread, Instant, JoinHandle, ManualClock, Runtime, StackSize, block_on};

use crate::support::{Watchdog, with_runtime};

/// A channel of a given capacity, first in, first out.
pub(crate) trait Kind: 'static {
    type Ends: Send + 'static;
    const NAME: &'static str;

    fn open<T: Send + 'static>(capacity: usize) -> (Sender<T, Self::Ends>, Receiver<T, Self::Ends>);
}

macro_rules! kinds {
    ($($kind:ident: $ends:ty = $open:expr;)*) => {$(
        pub(crate) enum $kind {}

        impl Kind for $kind {
            type Ends = $ends;
            const NAME: &'static str = stringify!($kind);

            fn open<T: Send + 'static>(capacity: usize) -> (Sender<T, $ends>, Receiver<T, $ends>) {
                $open(capacity)
            }
        }
    )*};
}

kinds! {
    Bounded: Many = chan::bounded;
    Spsc: One = chan::spsc;
    Weighted: Many = weighted;
}

/// A channel whose items weigh one each; one that holds no weight would refuse them all.
fn weighted<T: Send + 'static>(capacity: usize) -> (Sender<T>, Receiver<T>) {
    if capacity == 0 { chan::rendezvous() } else { chan::weighted(capacity, |_| 1) }
}

/// Evaluates the expression for each kind whose ends are such.
macro_rules! for_kinds {
    ($kind:ident: Many => $test:expr) => {{
        type $kind = $crate::channels::Bounded;
        $test;
        {
            type $kind = $crate::channels::Weighted;
            $test;
        }
    }};
    ($kind:ident => $test:expr) => {{
        for_kinds!($kind: Many => $test);
        type $kind = $crate::channels::Spsc;
        $test;
    }};
}
pub(crate) use for_kinds;

/// Who uses an end of a channel, and how.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Way {
    /// A task, by calls that block.
    Task,
    /// A thread, by calls that block.
    Thread,
    /// A task that is a future.
    Future,
    /// A future that a thread waits for.
    BlockOn,
}

impl Way {
    pub(crate) const ALL: [Way; 4] = [Way::Task, Way::Thread, Way::Future, Way::BlockOn];

    pub(crate) fn nth(number: u64) -> Way {
        Way::ALL[number as usize % Way::ALL.len()]
    }

    pub(crate) fn blocks(self) -> bool {
        matches!(self, Way::Task | Way::Thread)
    }

    /// Starts `body`, which does whatever may wait by the functions of its way.
    pub(crate) fn start<T, F>(self, runtime: &Runtime, body: F) -> Running<T>
    where
        T: Send + 'static,
        F: Future<Output = T> + Send + 'static,
    {
        match self {
            Way::Task => Running::Task(runtime.spawn(|| at_once(body))),
            Way::Future => Running::Task(runtime.spawn_future(body)),
            Way::Thread => Running::Thread(std::thread::spawn(|| at_once(body))),
            Way::BlockOn => Running::Thread(std::thread::spawn(|| block_on(body).unwrap())),
        }
    }

    /// Does what may have to wait, with `ends`, by a call that blocks or by a future.
    pub(crate) fn does<E, T, F: Future<Output = T>>(
        self,
        ends: E,
        call: impl FnOnce(E) -> T,
        future: impl FnOnce(E) -> F,
    ) -> Step<T, F> {
        if self.blocks() { Step::Done(Some(call(ends))) } else { Step::Doing(future(ends)) }
    }

    pub(crate) fn send<'a, T: Send, K>(
        self,
        sender: &'a Sender<T, K>,
        item: T,
    ) -> impl Future<Output = Result<(), SendError<T>>> + Send + use<'a, T, K> {
        self.does(
            (sender, item),
            |(sender, item)| sender.send(item),
            |(sender, item)| sender.send_async(item),
        )
    }

    pub(crate) fn recv<'a, T: Send, K>(
        self,
        receiver: &'a Receiver<T, K>,
    ) -> impl Future<Output = Result<T, RecvError>> + Send + use<'a, T, K> {
        self.does(receiver, Receiver::recv, Receiver::recv_async)
    }

    /// Receives until `deadline`, or whenever something comes where there is no such call.
    pub(crate) fn recv_until<'a, T: Send, K>(
        self,
        receiver: &'a Receiver<T, K>,
        deadline: Instant,
    ) -> impl Future<Output = Result<T, RecvError>> + Send + use<'a, T, K> {
        if self.blocks() {
            return Step::Done(Some(receiver.recv_timeout(deadline - now())));
        }
        Step::Doing(receiver.recv_async())
    }

    /// Lets others run.
    pub(crate) fn pause(self) -> impl Future<Output = ()> + Send {
        let mut over = false;
        poll_fn(move |context| {
            if over {
                return Poll::Ready(());
            }
            match self {
                Way::Task => sinew_sched::yield_now(),
                Way::Thread => std::thread::yield_now(),
                Way::Future | Way::BlockOn => {
                    over = true;
                    context.waker().wake_by_ref();
                    return Poll::Pending;
                }
            }
            Poll::Ready(())
        })
    }
}

/// Something of a size, which is not itself any more if a part of it is that of another.
pub(crate) trait Element: Send + Sync + Clone + Debug + 'static {
    fn make(n: usize) -> Self;
    fn number(&self) -> usize;
}

impl Element for u8 {
    fn make(n: usize) -> u8 {
        n as u8
    }

    fn number(&self) -> usize {
        usize::from(*self)
    }
}

impl<const N: usize> Element for [usize; N] {
    fn make(n: usize) -> [usize; N] {
        std::array::from_fn(|word| n.wrapping_mul(word + 1))
    }

    fn number(&self) -> usize {
        assert!(*self == Self::make(self[0]), "it is in pieces");
        self[0]
    }
}

/// Evaluates the expression for elements of 1, 8, 128 and 4096 bytes.
macro_rules! for_sizes {
    ($element:ident => $test:expr) => {{
        type $element = u8;
        $test;
        {
            type $element = [usize; 1];
            $test;
        }
        {
            type $element = [usize; 16];
            $test;
        }
        {
            type $element = [usize; 512];
            $test;
        }
    }};
}
pub(crate) use for_sizes;

/// As [`with_runtimes`](crate::support::with_runtimes), for large items: code that is not optimised has one in every frame.
pub(crate) fn with_large_stacks(test: impl Fn(&Runtime)) {
    for (workers, nets) in [1, 2, 8].into_iter().flat_map(|workers| [(workers, true), (workers, false)]) {
        let builder = Runtime::builder().workers(workers).safety_nets(nets);
        with_runtime(builder.stack(StackSize::MiB1), &test);
    }
}

/// Runs `test` with a runtime whose tasks run when it says so, until all of them wait, and whose time it sets.
pub(crate) fn by_hand(test: impl FnOnce(&CurrentThread, &ManualClock)) {
    let clock = ManualClock::new();
    let runtime = Runtime::builder().manual_clock(&clock).build_current_thread().unwrap();
    let _watchdog = Watchdog::new("one thread".to_owned());
    test(&runtime, &clock);
}

/// What was started in some [`Way`].
pub(crate) enum Running<T> {
    Task(JoinHandle<T>),
    Thread(std::thread::JoinHandle<T>),
}

impl<T> Running<T> {
    pub(crate) fn join(self) -> T {
        match self {
            Running::Task(task) => task.join().unwrap(),
            Running::Thread(thread) => match thread.join() {
                Ok(result) => result,
                Err(panic) => std::panic::resume_unwind(panic),
            },
        }
    }

    /// Cancels or kills a task; a thread goes on.
    pub(crate) fn give_up(&self, kill: bool) {
        match self {
            Running::Task(task) if kill => task.kill(),
            Running::Task(task) => task.cancel(),
            Running::Thread(_) => (),
        }
    }

    /// Waits for its end, which may be that it was cancelled.
    pub(crate) fn end(self) {
        match self {
            Running::Task(task) => task.join().map_or_else(|raised| assert!(raised.is_cancelled()), drop),
            thread => drop(thread.join()),
        }
    }

    pub(crate) fn is_finished(&self) -> bool {
        match self {
            Running::Task(task) => task.is_finished(),
            Running::Thread(thread) => thread.is_finished(),
        }
    }
}

/// The output of a future that blocks instead of being pending.
pub(crate) fn at_once<T>(future: impl Future<Output = T>) -> T {
    match poll_once(pin!(future)) {
        Poll::Ready(output) => output,
        Poll::Pending => unreachable!("it blocks"),
    }
}

pub(crate) fn poll_once<T>(future: Pin<&mut impl Future<Output = T>>) -> Poll<T> {
    future.poll(&mut Context::from_waker(Waker::noop()))
}

/// Something that was done by blocking, or is done in polls.
pub(crate) enum Step<T, F> {
    Done(Option<T>),
    Doing(F),
}

impl<T, F: Future<Output = T>> Future for Step<T, F> {
    type Output = T;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<T> {
        // SAFETY: the future is not moved; the result is not pinned.
        match unsafe { self.get_unchecked_mut() } {
            Step::Done(result) => Poll::Ready(result.take().expect("polled when it was ready")),
            // SAFETY: as above.
            Step::Doing(future) => unsafe { Pin::new_unchecked(future) }.poll(context),
        }
    }
}

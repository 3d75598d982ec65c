//! What is given up leaves nothing behind: after a million receives and a million selects that ran out of time, and
//! futures that were dropped, as much memory is in use as before. And a channel takes memory for what is inside, not for
//! its capacity. A program of its own, because its allocator counts.
#![cfg(not(any(loom, shuttle)))]

#[path = "support/channels.rs"]
mod channels;

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::time::Duration;

use channels::{Kind, for_kinds, poll_once};
use sinew_chan::chan::{self, Receiver, RecvError, Sender};
use sinew_chan::select;
use sinew_chan::select::{Select, recv, send, sleep, until};
use sinew_sched::{ManualClock, Runtime, now};
use sinew_test_kit::runtimes as support;
use support::{rounds, with_runtime};

/// The bytes that are in use.
struct Counting;

thread_local! {
    /// Of this thread: what others allocate when they start is not what is left of a wait.
    static IN_USE: Cell<isize> = const { Cell::new(0) };
    /// How often this thread has allocated.
    static ALLOCATED: Cell<usize> = const { Cell::new(0) };
}

fn allocated() -> usize {
    ALLOCATED.with(Cell::get)
}

fn in_use(more: isize) -> isize {
    IN_USE.with(|in_use| in_use.replace(in_use.get() + more) + more)
}

// SAFETY: all is done by the system's allocator.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        in_use(layout.size() as isize);
        ALLOCATED.with(|count| count.set(count.get() + 1));
        // SAFETY: the caller's promise.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        in_use(-(layout.size() as isize));
        // SAFETY: the caller's promise.
        unsafe { System.dealloc(memory, layout) };
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

const SOON: Duration = Duration::from_micros(1);

/// Runs `given_up` so often, and a few times before that, so that what is allocated once is.
#[track_caller]
fn leaves_nothing(what: &str, times: usize, mut given_up: impl FnMut()) {
    (0..100).for_each(|_| given_up());
    let before = in_use(0);
    (0..times).for_each(|_| given_up());
    let left = in_use(0) - before;
    assert_eq!(left, 0, "bytes are left of {times} {what}");
}

/// An empty channel and a full one.
struct Channels<K> {
    open: Sender<[u64; 4], K>,
    empty: Receiver<[u64; 4], K>,
    full: Sender<[u64; 4], K>,
    _kept: Receiver<[u64; 4], K>,
}

impl<K> Channels<K> {
    fn new<C: Kind<Ends = K>>(capacity: usize) -> Channels<K> {
        let (open, empty) = C::open(capacity);
        let (full, kept) = C::open(capacity);
        (0..capacity).for_each(|_| full.try_send([1; 4]).unwrap());
        Channels { open, empty, full, _kept: kept }
    }

    fn waits(&self, times: usize) {
        leaves_nothing("receives", times, || {
            assert!(matches!(self.empty.recv_timeout(SOON), Err(RecvError::Timeout)))
        });
        leaves_nothing("sends", times / 4, || assert!(self.full.send_timeout([2; 4], SOON).is_err()));
        leaves_nothing("selects", times, || {
            let mut item = Some([3; 4]);
            select! {
                _ = recv(&self.empty) => panic!("it is empty"),
                _ = send(&self.full, &mut item) => panic!("it is full"),
                _ = sleep(SOON) => (),
            }
            .unwrap();
        });
        leaves_nothing("selects of many cases", times / 500, || {
            let mut select = Select::new().case(until(now() + SOON), |()| ());
            for _ in 0..100 {
                select = select.case(recv(&self.empty), |_| panic!("it is empty"));
            }
            select.wait().unwrap();
        });
    }

    fn futures(&self, times: usize) {
        leaves_nothing("futures that receive", times, || {
            assert!(poll_once(std::pin::pin!(self.empty.recv_async())).is_pending());
        });
        leaves_nothing("futures that send", times / 4, || {
            assert!(poll_once(std::pin::pin!(self.full.send_async([4; 4]))).is_pending());
        });
        leaves_nothing("futures that were given something", times / 4, || {
            {
                let mut future = std::pin::pin!(self.empty.recv_async());
                assert!(poll_once(future.as_mut()).is_pending());
                self.open.try_send([5; 4]).unwrap();
            }
            assert_eq!(self.empty.try_recv().unwrap(), Some([5; 4]));
        });
    }
}

/// How often at each channel: together a million times, which is enough for everybody.
fn times() -> usize {
    let usual = if cfg!(any(debug_assertions, valgrind)) { 5_000 } else { 250_000 };
    rounds(usual).min(usual)
}

fn measure<C: Kind>(times: usize) {
    for capacity in [0, 2] {
        let channels = Channels::new::<C>(capacity);
        channels.waits(times);
        channels.futures(times);
    }
}

#[test]
fn what_is_given_up_leaves_no_memory_behind() {
    let clock = ManualClock::new();
    with_runtime(Runtime::builder().workers(1).manual_clock(&clock), |runtime| {
        runtime.run(|| for_kinds!(C => measure::<C>(times()))).unwrap();
    });
    for_kinds!(C => measure::<C>(times() / 100));
}

/// Of 120 bytes, as a message with its sender may be.
type Message = [u64; 15];

/// An empty channel has 64 KiB for its next items, and as much to spare.
const MOST_OF_AN_EMPTY_ONE: isize = 3 * 64 * 1024;

#[test]
fn a_channel_takes_memory_for_its_items_and_gives_it_back_when_they_are_received() {
    const ITEMS: usize = 1 << 17;
    let before = in_use(0);
    let (sender, receiver) = chan::bounded::<Message>(1 << 20);
    assert!(in_use(0) - before < MOST_OF_AN_EMPTY_ONE);
    for _ in 0..3 {
        (0..ITEMS).for_each(|n| sender.try_send([n as u64; 15]).unwrap());
        let full = in_use(0) - before;
        assert!(full as usize >= ITEMS * size_of::<Message>(), "{full} bytes");
        assert!((full as usize) < ITEMS * size_of::<Message>() * 11 / 10, "{full} bytes");
        assert!(receiver.try_iter().eq((0..ITEMS).map(|n| [n as u64; 15])));
        let drained = in_use(0) - before;
        assert!(drained < MOST_OF_AN_EMPTY_ONE, "{drained} bytes");
    }
    (0..ITEMS).for_each(|n| sender.try_send([n as u64; 15]).unwrap());
    drop((sender, receiver));
    assert_eq!(in_use(0), before);
}

#[test]
fn items_that_follow_each_other_through_a_large_channel_allocate_nothing() {
    let (sender, receiver) = chan::bounded::<Message>(1 << 20);
    let pass = |items: usize| {
        for _ in 0..items {
            sender.try_send([0; 15]).unwrap();
            receiver.try_recv().unwrap().unwrap();
        }
    };
    pass(2_000);
    let before = allocated();
    pass(20_000);
    assert_eq!(allocated(), before, "the same memory is used again and again");
}

//! What happens: random strategies, children, exits, failed starts, commands and times.
//!
//! Times are in tenths of milliseconds; delays end between two whole milliseconds, and the clock is only
//! looked at on whole ones, since deadlines are rounded up a bit.

use proptest::collection::vec;
use proptest::prelude::{Just, Strategy as _, any, prop_oneof};
use sinew_kernel::{Restart, Strategy};

#[derive(Clone, Debug)]
pub(crate) struct Case {
    pub(crate) strategy: Strategy,
    pub(crate) max_restarts: u32,
    pub(crate) window: u64,
    pub(crate) children: Vec<Kid>,
    pub(crate) ops: Vec<Op>,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Kid {
    pub(crate) restart: Restart,
    /// The first delay, the factor, and after how long it starts over.
    pub(crate) backoff: (u64, u32, u64),
    /// How many of its first starts fail.
    pub(crate) bad_starts: u32,
}

pub(crate) const MAX_DELAY: u64 = 505;

#[derive(Clone, Debug)]
pub(crate) enum Op {
    End(usize, How),
    EndBoth(usize, usize, How),
    /// The next starts of a child fail.
    Spoil(usize, u32),
    Pass(u64),
    Terminate(usize),
    Restart(usize),
    Delete(usize),
    Add(Kid),
    /// The supervisor is asked to stop, and that is all.
    Stop,
}

#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) enum How {
    Normal,
    Shutdown,
    Error,
    Panic,
    Kill,
}

impl How {
    pub(crate) fn is_abnormal(self) -> bool {
        !matches!(self, How::Normal | How::Shutdown)
    }
}

fn kids() -> impl proptest::strategy::Strategy<Value = Kid> {
    let restart = prop_oneof![
        4 => Just(Restart::Permanent),
        2 => Just(Restart::Transient),
        1 => Just(Restart::Temporary),
    ];
    let backoff =
        (prop_oneof![3 => Just(0u64), 2 => Just(101)], 1..4u32, prop_oneof![Just(200u64), Just(100_000)]);
    let bad_starts = prop_oneof![6 => Just(0u32), 1 => 1..3u32];
    (restart, backoff, bad_starts).prop_map(|(restart, backoff, bad_starts)| Kid {
        restart,
        backoff,
        bad_starts,
    })
}

fn ops() -> impl proptest::strategy::Strategy<Value = Op> {
    let how = || {
        prop_oneof![
            Just(How::Normal),
            Just(How::Shutdown),
            Just(How::Error),
            Just(How::Panic),
            Just(How::Kill)
        ]
    };
    let child = || 0..7usize;
    prop_oneof![
        8 => (child(), how()).prop_map(|(child, how)| Op::End(child, how)),
        2 => (child(), child(), how()).prop_map(|(one, other, how)| Op::EndBoth(one, other, how)),
        1 => (child(), 1..4u32).prop_map(|(child, times)| Op::Spoil(child, times)),
        6 => (1..60u64).prop_map(|milliseconds| Op::Pass(10 * milliseconds)),
        2 => child().prop_map(Op::Terminate),
        2 => child().prop_map(Op::Restart),
        1 => child().prop_map(Op::Delete),
        1 => kids().prop_map(Op::Add),
    ]
}

pub(crate) fn cases() -> impl proptest::strategy::Strategy<Value = Case> {
    let strategy = prop_oneof![
        Just(Strategy::OneForOne),
        Just(Strategy::OneForAll),
        Just(Strategy::RestForOne),
        Just(Strategy::Dynamic)
    ];
    (strategy, 0..8u32, 1..100u64, vec(kids(), 0..5), vec(ops(), 0..25), any::<bool>()).prop_map(
        |(strategy, max_restarts, window, children, mut ops, stops)| {
            if stops {
                ops.push(Op::Stop);
            }
            Case { strategy, max_restarts, window: 10 * window, children, ops }
        },
    )
}

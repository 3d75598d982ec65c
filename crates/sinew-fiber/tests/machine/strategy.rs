//! Random programs.

use std::sync::Arc;

use proptest::collection::vec;
use proptest::prelude::{BoxedStrategy, Just, Strategy, prop_oneof};
use proptest::sample::select;
use sinew_fiber::{CancelLevel, Signal};

use crate::program::{Body, KEYS, Make, Op, Program, ROOTS, Target};

/// How deep bodies nest.
const DEPTH: u32 = 4;

pub(crate) fn programs() -> impl Strategy<Value = Program> {
    let root = || proptest::option::of(letters());
    let run = (prop_oneof![4 => Just(0), 1 => Just(1)], bodies(ops(DEPTH), 1..12));
    ([root(), root()], vec(run, 1..4)).prop_map(|(roots, runs)| Program { roots, runs })
}

fn bodies(op: BoxedStrategy<Op>, length: std::ops::Range<usize>) -> BoxedStrategy<Body> {
    vec(op, length).prop_map(Arc::new).boxed()
}

fn ops(depth: u32) -> BoxedStrategy<Op> {
    let plain = prop_oneof![
        4 => targets().prop_map(Op::Resume),
        2 => targets().prop_map(Op::Cancel),
        3 => targets().prop_map(Op::Propagate),
        3 => targets().prop_map(Op::Next),
        2 => targets().prop_map(Op::Drop),
        1 => targets().prop_map(Op::Own),
        1 => targets().prop_map(Op::End),
        1 => targets().prop_map(Op::Take),
        6 => signals(),
        1 => tasks(),
        4 => bindings(),
    ];
    if depth == 0 {
        return prop_oneof![2 => signals(), 1 => plain].boxed();
    }
    let op = ops(depth - 1);
    let bodies = |length| bodies(op.clone(), length);
    let make = || {
        let body = prop_oneof![20 => bodies(0..6), 1 => stubborn()];
        (letters(), body).prop_map(|(letters, body)| Make { letters, body }).boxed()
    };
    prop_oneof![
        14 => plain,
        2 => make().prop_map(Op::New),
        6 => make().prop_map(Op::Run),
        1 => make().prop_map(Op::Guard),
        1 => bodies(0..4).prop_map(Op::Shield),
        1 => bodies(0..4).prop_map(Op::Ffi),
    ]
    .boxed()
}

/// A body that goes on however often it is cancelled.
fn stubborn() -> BoxedStrategy<Body> {
    let attempt = Make { letters: "e".to_owned(), body: Arc::new(vec![Op::Yield]) };
    (0..14usize).prop_map(move |times| Arc::new(vec![Op::Run(attempt.clone()); times])).boxed()
}

fn targets() -> BoxedStrategy<Target> {
    let near_ones_more_often = [0, 0, 0, 0, 1, 1, 1, 2, 2, 3, 4, 5, 7];
    select(near_ones_more_often.map(Target).to_vec()).boxed()
}

fn signals() -> BoxedStrategy<Op> {
    prop_oneof![
        4 => Just(Op::Yield),
        5 => select(vec![Op::Debug, Op::Await, Op::Return, Op::Error, Op::Panic]),
        6 => select(&Signal::ALL[..]).prop_map(Op::Signal),
        4 => select(&Signal::ALL[9..]).prop_map(Op::Signal),
    ]
    .boxed()
}

/// What is asked of the whole task.
fn tasks() -> BoxedStrategy<Op> {
    prop_oneof![
        1 => Just(Op::Checkpoint),
        2 => Just(Op::Interrupt),
        1 => select(vec![CancelLevel::Cancel, CancelLevel::Kill]).prop_map(Op::Stop),
    ]
    .boxed()
}

fn bindings() -> BoxedStrategy<Op> {
    prop_oneof![
        2 => (0..KEYS).prop_map(Op::Get),
        2 => (0..KEYS).prop_map(Op::Set),
        1 => (0..KEYS).prop_map(Op::Unset),
    ]
    .boxed()
}

/// Masks that catch much, so that fibers stop, and masks that catch little, so that they stop together.
fn letters() -> BoxedStrategy<String> {
    let signals = prop_oneof![
        3 => Just(String::new()),
        2 => Just("y".to_owned()),
        2 => Just("a".to_owned()),
        4 => Just("awr".to_owned()),
        1 => Just("t".to_owned()),
        3 => vec(select(&b"aedyturw0123456789"[..]), 1..5)
            .prop_map(|letters| String::from_utf8(letters).expect("these are letters")),
    ];
    let bindings = select(vec!["", "i", "p", "pi", "ip"]);
    (signals, bindings).prop_map(|(signals, bindings)| format!("{signals}{bindings}")).boxed()
}

const _: () = assert!(ROOTS == 2, "`programs` makes two roots");

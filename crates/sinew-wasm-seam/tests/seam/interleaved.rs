//! Guests that are suspended in host calls go on in any order, and a trap of one leaves the others alone.

use std::sync::{Arc, Mutex};

use sinew_chan::chan;
use wasmtime::{Module, Trap};

use crate::guests::{Guest, Host};
use crate::support::{current_thread, rounds, with_runtimes};

/// Folds what it gets from `count` waits into one number, by way of its memory.
const FOLDS: &str = r#"(module
    (import "host" "wait" (func $wait (param i32) (result i32)))
    (memory 1)
    (func (export "run") (param $count i32) (result i32)
        (local $n i32)
        (loop $next
            (i32.store (i32.const 64)
                (i32.add
                    (i32.mul (i32.load (i32.const 64)) (i32.const 31))
                    (call $wait (local.get $n))))
            (local.set $n (i32.add (local.get $n) (i32.const 1)))
            (br_if $next (i32.lt_u (local.get $n) (local.get $count))))
        (i32.load (i32.const 64))))"#;

/// Waits once, some frames deep, and then does what `kind` says: one of [`TRAPS`].
const TRAPS_AFTER_A_WAIT: &str = r#"(module
    (import "host" "wait" (func $wait (param i32) (result i32)))
    (memory 1)
    (func $deeper (param i32) (result i32) (i32.add (i32.const 1) (call $deeper (local.get 0))))
    (func (export "run") (param $kind i32) (result i32)
        (local $got i32)
        (local.set $got (call $wait (local.get $kind)))
        (if (i32.eq (local.get $kind) (i32.const 0)) (then (unreachable)))
        (if (i32.eq (local.get $kind) (i32.const 1))
            (then (return (i32.load (i32.mul (local.get $got) (i32.const 65536))))))
        (if (i32.eq (local.get $kind) (i32.const 2))
            (then (return (i32.div_u (local.get $got) (i32.const 0)))))
        (call $deeper (local.get $got))))"#;

const TRAPS: [Trap; 4] =
    [Trap::UnreachableCodeReached, Trap::MemoryOutOfBounds, Trap::IntegerDivisionByZero, Trap::StackOverflow];

/// What a guest is sent in a round.
fn sent(round: usize, name: usize) -> i32 {
    (round * (name + 1)) as i32
}

fn folded(values: impl Iterator<Item = i32>) -> i32 {
    values.fold(0i32, |sum, value| sum.wrapping_mul(31).wrapping_add(value))
}

/// Traps of each kind in turns, each in an instance of its own; returns how many were caught.
async fn trap_again_and_again(
    host: Arc<Host>,
    module: Module,
    guest: impl Fn() -> Guest,
    count: usize,
) -> usize {
    let mut caught = 0;
    for round in 0..count {
        let kind = round % TRAPS.len();
        let error = host.call(&module, guest(), kind as i32).await.unwrap_err();
        assert_eq!(error.downcast_ref::<Trap>(), Some(&TRAPS[kind]), "{error:?}");
        caught += 1;
    }
    caught
}

/// Four tasks take turns on one thread, two that compute and two that trap whenever they are resumed. Each is resumed while
/// the three others are suspended, in the order in which they were suspended.
#[test]
fn guests_resume_first_in_first_out_with_traps_in_between() {
    const ROUNDS: usize = 200;
    let runtime = current_thread();
    let host = Arc::new(Host::new());
    let (folds, traps) = (host.module(FOLDS), host.module(TRAPS_AFTER_A_WAIT));
    let log = Arc::new(Mutex::new(Vec::new()));

    let (mut gates, mut computing, mut trapping) = (Vec::new(), Vec::new(), Vec::new());
    for name in 0..4 {
        let (gate, receiver) = chan::bounded(1);
        gates.push(gate);
        let log = log.clone();
        let guest = move || {
            let log = log.clone();
            Guest::at(receiver.clone()).on_wait(move |_| log.lock().unwrap().push(name))
        };
        if name % 2 == 0 {
            let call = host.call(&folds, guest(), ROUNDS as i32);
            computing.push((name, runtime.spawn_future(call)));
        } else {
            let traps = trap_again_and_again(host.clone(), traps.clone(), guest, ROUNDS);
            trapping.push(runtime.spawn_future(traps));
        }
    }
    runtime.run_until_idle();
    for round in 1..=ROUNDS {
        let suspended = std::mem::take(&mut *log.lock().unwrap());
        assert_eq!(suspended.len(), 4);
        for &name in &suspended {
            gates[name].try_send(sent(round, name)).unwrap();
            runtime.run_until_idle();
            let again = if round < ROUNDS { Some(&name) } else { None };
            assert_eq!(log.lock().unwrap().last(), again, "only this one went on");
        }
        assert_eq!(*log.lock().unwrap(), if round < ROUNDS { suspended } else { Vec::new() });
    }
    for (name, task) in computing {
        let expected = folded((1..=ROUNDS).map(|round| sent(round, name)));
        assert_eq!(task.join().unwrap().unwrap(), expected);
    }
    for task in trapping {
        assert_eq!(task.join().unwrap(), ROUNDS);
    }
    assert_eq!(host.out(), (0, 0));
}

/// The same in any order, on one worker and on several.
#[test]
fn guests_on_all_workers_compute_right_while_others_trap() {
    let count = rounds(100);
    with_runtimes(|runtime| {
        let host = Arc::new(Host::new());
        let (folds, traps) = (host.module(FOLDS), host.module(TRAPS_AFTER_A_WAIT));
        let (mut feeding, mut computing, mut trapping) = (Vec::new(), Vec::new(), Vec::new());
        for name in 0..8 {
            let (gate, receiver) = chan::bounded(1);
            feeding.push(runtime.spawn(move || {
                (1..=count).try_for_each(|round| gate.send(sent(round, name))).unwrap();
            }));
            if name % 2 == 0 {
                let call = host.call(&folds, Guest::at(receiver), count as i32);
                computing.push((name, runtime.spawn_future(call)));
            } else {
                let guest = move || Guest::at(receiver.clone());
                let traps = trap_again_and_again(host.clone(), traps.clone(), guest, count);
                trapping.push(runtime.spawn_future(traps));
            }
        }
        for (name, task) in computing {
            let expected = folded((1..=count).map(|round| sent(round, name)));
            assert_eq!(task.join().unwrap().unwrap(), expected);
        }
        for task in trapping {
            assert_eq!(task.join().unwrap(), count);
        }
        feeding.into_iter().for_each(|task| task.join().unwrap());
        assert_eq!(host.out(), (0, 0));
    });
}

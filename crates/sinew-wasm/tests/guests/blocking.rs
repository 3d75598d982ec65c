//! Guests block like threads: they sleep and receive in the middle of a message, and others run meanwhile.

use std::time::{Duration, Instant};

use sinew_kernel::{ExitReason, Kind, Message, Node, Payload};
use sinew_wasm::{Engine, Guest, Limits, StackClass, WasmNode};

use crate::kit::{Peer, module, with_workers};

const SLEEP_TEST: u32 = 204;
const SPIN: u32 = 206;

#[test]
fn a_guest_sleeps_while_another_actor_answers_at_once() {
    let (engine, node) = (Engine::new().unwrap(), with_workers(1));
    let echo = module(&engine, "echo");
    let (sleeper, quick) = (Peer::new(&node), Peer::new(&node));
    let guest = node.wasm(&echo).spawn().unwrap();
    let started = Instant::now();
    sleeper.send(guest.id(), SLEEP_TEST, b"");
    let other = node.wasm(&echo).spawn().unwrap();
    assert_eq!(quick.ask(other.id(), 200, b"now"), (201, b"now".to_vec()));
    assert_eq!(sleeper.answer(), (201, b"slept".to_vec()));
    assert!(started.elapsed() >= Duration::from_millis(50));
}

#[test]
fn a_guest_without_a_stack_cannot_sleep_and_goes_on() {
    let (engine, node) = (Engine::new().unwrap(), Node::new());
    let peer = Peer::new(&node);
    let guest = node.wasm(Guest::new(&module(&engine, "echo")).stack(StackClass::None)).spawn().unwrap();
    assert_eq!(peer.ask(guest.id(), SLEEP_TEST, b""), (201, b"failed".to_vec()));
}

#[test]
fn messages_wait_for_a_guest_that_sleeps_and_none_is_lost() {
    let (engine, node) = (Engine::new().unwrap(), Node::new());
    let peer = Peer::new(&node);
    let guest = node.wasm(&module(&engine, "echo")).spawn().unwrap();
    peer.send(guest.id(), SLEEP_TEST, b"");
    (0..100_u32).for_each(|n| peer.send(guest.id(), 200, &n.to_le_bytes()));
    assert_eq!(peer.answer(), (201, b"slept".to_vec()), "a message does not end a sleep");
    (0..100_u32).for_each(|n| assert_eq!(peer.answer(), (201, n.to_le_bytes().to_vec())));
}

/// A report of the guest `recv`: result, kind, length, source, bytes.
fn report(bytes: &[u8]) -> (i32, u32, u32, u64, [u8; 16]) {
    let word = |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap());
    let source = u64::from_le_bytes(bytes[16..24].try_into().unwrap());
    (word(0).cast_signed(), word(4), word(8), source, bytes[24..40].try_into().unwrap())
}

#[test]
fn a_guest_receives_in_the_middle_of_a_message_with_the_full_length_and_the_sender() {
    let (engine, node) = (Engine::new().unwrap(), Node::new());
    let peer = Peer::new(&node);
    let recv = module(&engine, "recv");
    for (call, tells_source) in [(1, false), (2, true), (3, true)] {
        let guest = node.wasm(&recv).spawn().unwrap();
        peer.send(guest.id(), call, b"");
        peer.send(guest.id(), 50, b"short");
        peer.send(guest.id(), 51, &[9; 1_000]);
        peer.send(guest.id(), 9, b"");
        let source = if tells_source { peer.id().as_u64() } else { 0 };
        let mut short = [0; 16];
        short[..5].copy_from_slice(b"short");
        for expected in
            [(0, 50, 5, source, short), (0, 51, 1_000, source, [9; 16]), (0, 9, 0, source, [0; 16])]
        {
            let (kind, bytes) = peer.answer();
            assert_eq!((kind, report(&bytes)), (100 + call, expected));
        }
    }
}

#[test]
fn a_receive_that_times_out_says_so_and_a_later_message_is_not_lost() {
    let (engine, node) = (Engine::new().unwrap(), Node::new());
    let peer = Peer::new(&node);
    let recv = module(&engine, "recv");
    for timeout in [0_i32, 20] {
        let guest = node.wasm(&recv).spawn().unwrap();
        let (_, bytes) = peer.ask(guest.id(), 3, &timeout.to_le_bytes());
        assert_eq!(report(&bytes), (-2, 0, 0, 0, [0; 16]));
        peer.send(guest.id(), 3, &(-1_i32).to_le_bytes());
        let (_, bytes) = peer.ask(guest.id(), 60, b"x");
        assert_eq!(report(&bytes).1, 60);
    }
}

#[test]
fn guests_that_wait_are_killed_and_stopped_and_give_everything_back() {
    let (engine, node) = (Engine::new().unwrap(), Node::new());
    let park = module(&engine, "park");
    let guests: Vec<_> = (0..1_000).map(|_| node.wasm(&park).spawn().unwrap()).collect();
    guests
        .iter()
        .for_each(|guest| guest.tell(Message::new(guest.id(), Kind(1), Payload::copy(b"go"))).unwrap());
    for (n, guest) in guests.iter().enumerate() {
        if n % 2 == 0 {
            guest.kill()
        } else {
            guest.stop()
        };
    }
    for (n, guest) in guests.iter().enumerate() {
        let expected = if n % 2 == 0 { ExitReason::Killed } else { ExitReason::Shutdown };
        assert_eq!(guest.join().unwrap(), expected);
    }
    drop(guests);
    assert_eq!(engine.memory_used(), 0);
}

#[test]
fn a_guest_that_computes_for_ever_lets_others_run_and_can_be_killed() {
    let (engine, node) = (Engine::new().unwrap(), with_workers(1));
    let echo = module(&engine, "echo");
    let peer = Peer::new(&node);
    let spinning: Vec<_> = (0..3).map(|_| node.wasm(&echo).spawn().unwrap()).collect();
    spinning.iter().for_each(|guest| peer.send(guest.id(), SPIN, b""));
    let quick = node.wasm(&echo).spawn().unwrap();
    for _ in 0..10 {
        assert_eq!(peer.ask(quick.id(), 200, b"x").0, 201);
    }
    for guest in spinning {
        guest.kill();
        assert_eq!(guest.join().unwrap(), ExitReason::Killed);
    }
}

#[test]
fn a_guest_without_a_stack_is_ended_at_the_end_of_its_slice() {
    let (engine, node) = (Engine::new().unwrap(), Node::new());
    let guest = node.wasm(&module(&engine, "spin")).spawn().unwrap();
    guest.tell(Message::new(guest.id(), Kind(1), Payload::copy(b""))).unwrap();
    let reason = guest.join().unwrap().to_string();
    assert!(reason.starts_with("limit exceeded: a message took more than 10ms of CPU time"), "{reason}");
}

/// Computes for as many rounds of a loop as its kind says, and stops at kind 0.
const COMPUTES: &str = r#"(module
    (func (export "handle_message") (param $rounds i32) (param i64 i32 i32) (result i32)
        (local $left i32)
        (if (i32.eqz (local.get $rounds)) (then (return (i32.const 0))))
        (local.set $left (local.get $rounds))
        (loop $again (br_if $again (local.tee $left (i32.sub (local.get $left) (i32.const 1)))))
        (i32.const 1)))"#;

#[test]
fn the_limit_of_a_message_without_a_stack_is_for_each_message_and_not_for_all_that_wait() {
    let (engine, node) = (Engine::new().unwrap(), Node::new());
    let computes = engine.module("computes", COMPUTES).unwrap();
    let guest = node.wasm(&computes).spawn().unwrap();
    let tell = |kind| guest.tell(Message::new(guest.id(), Kind(kind), Payload::default())).unwrap();
    (0..200).for_each(|_| tell(1_000_000)); // together far more than a slice, each far less
    tell(0);
    assert_eq!(guest.join().unwrap(), ExitReason::Normal);
}

#[test]
fn a_guest_without_a_stack_is_killed_in_the_middle_of_a_long_slice() {
    let (engine, node) = (Engine::new().unwrap(), Node::new());
    let spin = module(&engine, "spin");
    let guest = node.wasm(Guest::new(&spin).limits(Limits::default().slice(Duration::from_secs(3_600))));
    let guest = guest.spawn().unwrap();
    guest.tell(Message::new(guest.id(), Kind(1), Payload::default())).unwrap();
    while engine.cpu_time(guest.id()).is_none() {
        std::thread::yield_now(); // until it computes
    }
    guest.kill();
    assert_eq!(guest.join().unwrap(), ExitReason::Killed);
    assert_eq!(node.zombies(), []);
}

#[test]
fn a_guest_that_looks_for_messages_in_a_loop_can_be_stopped() {
    let (engine, node) = (Engine::new().unwrap(), Node::new());
    let looks = engine.module("looks", r#"(module
        (import "env" "mk_recv_timeout" (func $recv (param i32 i32 i32 i32 i32 i32) (result i32)))
        (memory (export "memory") 1)
        (func (export "handle_message") (param i32 i64 i32 i32) (result i32)
            (loop $again
                (drop (call $recv (i32.const 0) (i32.const 0) (i32.const 0) (i32.const 0) (i32.const 0) (i32.const 0)))
                (br $again))
            (unreachable)))"#);
    let guest = node.wasm(&looks.unwrap()).spawn().unwrap();
    guest.tell(Message::new(guest.id(), Kind(1), Payload::default())).unwrap();
    guest.stop();
    assert_eq!(guest.join().unwrap(), ExitReason::Shutdown);
}

#[test]
fn budgets_of_cpu_time_end_a_guest() {
    let (engine, node) = (Engine::new().unwrap(), Node::new());
    let spin = module(&engine, "spin");
    let limits = Limits::default();
    for (limits, words) in [
        (
            limits.clone().message_cpu(Duration::from_millis(30)),
            "limit exceeded: a message took more than 30ms of CPU time",
        ),
        (
            limits.total_cpu(Duration::from_millis(40)),
            "limit exceeded: its whole life took more than 40ms of CPU time",
        ),
    ] {
        let guest = node.wasm(Guest::new(&spin).stack(StackClass::Small).limits(limits)).spawn().unwrap();
        guest.tell(Message::new(guest.id(), Kind(1), Payload::copy(b""))).unwrap();
        assert_eq!(guest.join().unwrap().to_string(), words);
    }
    let starts = engine.module(
        "starts",
        r#"(module (func $f (loop $l (br $l))) (start $f)
        (func (export "handle_message") (param i32 i64 i32 i32) (result i32) i32.const 1))"#,
    );
    for class in [StackClass::None, StackClass::Small] {
        let limits = Limits::default().start_cpu(Duration::from_millis(20));
        let guest =
            node.wasm(Guest::new(starts.as_ref().unwrap()).stack(class).limits(limits)).spawn().unwrap();
        assert_eq!(
            guest.join().unwrap().to_string(),
            "limit exceeded: its start took more than 20ms of CPU time"
        );
    }
}

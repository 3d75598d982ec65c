//! A guest is an actor: it answers, stops, fails and is restarted like any other.

use sinew_kernel::{ChildSpec, ExitReason, Kind, Message, Node, Payload, Strategy};
use sinew_wasm::{Engine, Guest, Limits, StackClass, WasmChild, WasmNode};

use crate::kit::{Peer, module};

const PING: u32 = 200;
const PONG: u32 = 201;
const STOP: u32 = 202;

/// The classes that a guest with blocking imports can have.
const CLASSES: [StackClass; 5] = StackClass::ALL;

#[test]
fn a_guest_of_any_class_answers_with_its_payload_and_stops() {
    let (engine, node) = (Engine::new().unwrap(), Node::new());
    let (echo, peer) = (module(&engine, "echo"), Peer::new(&node));
    for class in CLASSES {
        let guest = node.wasm(Guest::new(&echo).stack(class)).spawn().unwrap();
        for payload in [&b"hello"[..], b"", &[7; 60_000]] {
            assert_eq!(peer.ask(guest.id(), PING, payload), (PONG, payload.to_vec()), "{class}");
        }
        peer.send(guest.id(), STOP, b"");
        assert_eq!(guest.join().unwrap(), ExitReason::Normal, "{class}");
    }
    assert_eq!(engine.memory_used(), 0);
}

#[test]
fn a_guest_without_a_memory_answers() {
    let (engine, node) = (Engine::new().unwrap(), Node::new());
    let (echo, peer) = (module(&engine, "u32_echo"), Peer::new(&node));
    assert_eq!(echo.default_class(), StackClass::None);
    let guest = node.wasm(&echo).spawn().unwrap();
    assert_eq!(peer.ask(guest.id(), 7, b"ignored"), (PONG, 7_u32.to_le_bytes().to_vec()));
}

/// Each failure, the words of its reason, and the function that it names.
const FAILURES: [(u32, &str, &str); 4] = [
    (203, "trap: unreachable code reached while it handled a message of kind 0xcb from ", "trap"),
    (205, "trap: stack overflow", "recurse"),
    (207, "trap: memory access out of bounds", "write_to_the_end_of_the_address_space"),
    (208, "trap: memory access out of bounds", "recurse_with_locals"),
];

#[test]
fn a_failure_is_an_error_exit_with_its_kind_and_the_functions_that_were_called() {
    let (engine, node) = (Engine::new().unwrap(), Node::new());
    let (echo, peer) = (module(&engine, "echo"), Peer::new(&node));
    for class in CLASSES {
        for (kind, words, function) in FAILURES {
            let guest = node.wasm(Guest::new(&echo).stack(class)).spawn().unwrap();
            peer.send(guest.id(), kind, b"");
            let ExitReason::Error(failure) = guest.join().unwrap() else { panic!("{class}, {kind}") };
            assert!(failure.message.starts_with(words), "{class}: {failure:?}");
            assert!(failure.chain.contains(function), "{class}: {failure:?}");
            assert!(failure.chain.contains("handle_message") || kind == 205 || kind == 208, "{failure:?}");
        }
    }
    assert_eq!(engine.memory_used(), 0, "all of it was given back");
}

#[test]
fn a_module_with_debug_information_names_source_lines() {
    let (engine, node) = (Engine::builder().source_lines(true).build().unwrap(), Node::new());
    let guest = node.wasm(&module(&engine, "echo_dwarf")).spawn().unwrap();
    Peer::new(&node).send(guest.id(), 203, b"");
    let reason = format!("{:#}", guest.join().unwrap());
    assert!(reason.contains("echo.c:"), "{reason}");
}

#[test]
fn a_supervisor_restarts_a_guest_that_fails_under_its_name() {
    let (engine, node) = (Engine::new().unwrap(), Node::new());
    let (echo, peer) = (module(&engine, "echo"), Peer::new(&node));
    let child = ChildSpec::wasm("echo", &echo).unwrap().name("echo");
    let supervisor = node
        .supervisor(Strategy::OneForOne)
        .max_restarts(100, std::time::Duration::from_secs(1))
        .child(child)
        .spawn()
        .unwrap();
    supervisor.wait_started().unwrap();
    for _ in 0..20 {
        let first = node.lookup("echo").unwrap();
        assert_eq!(peer.ask(first, PING, b"x").0, PONG);
        peer.send(first, 203, b"");
        while node.lookup("echo").is_none_or(|now| now == first) {
            std::thread::yield_now();
        }
    }
}

#[test]
fn the_allocator_of_a_module_places_payloads_and_says_when_it_is_full() {
    let (engine, node) = (Engine::new().unwrap(), Node::new());
    let guest = node.wasm(&module(&engine, "alloc")).spawn().unwrap();
    let send = |len| guest.tell(Message::new(guest.id(), Kind(1), Payload::copy(&vec![1; len])));
    (0..1_000).for_each(|_| send(1_000).unwrap());
    send(5_000).unwrap();
    let reason = guest.join().unwrap().to_string();
    assert_eq!(reason, "limit exceeded: its allocator has no room for a payload of 5000 bytes");
}

#[test]
fn a_payload_that_does_not_fit_its_area_is_a_limit_exit_that_says_so() {
    let (engine, node) = (Engine::new().unwrap(), Node::new());
    let echo = module(&engine, "echo");
    let small = Guest::new(&echo).limits(Limits::default().payload_area(1_000));
    let guest = node.wasm(small).spawn().unwrap();
    guest.tell(Message::new(guest.id(), Kind(PING), Payload::copy(&[1; 1_001]))).unwrap();
    let reason = guest.join().unwrap().to_string();
    assert!(
        reason.starts_with("limit exceeded: a payload of 1001 bytes does not fit into the area of 1000"),
        "{reason}"
    );
}

#[test]
fn a_memory_that_cannot_hold_the_area_for_payloads_is_a_limit_exit_that_says_so() {
    let (engine, node) = (Engine::new().unwrap(), Node::new());
    let fixed = engine.module(
        "fixed",
        r#"(module (memory (export "memory") 1 1)
        (func (export "handle_message") (param i32 i64 i32 i32) (result i32) i32.const 1))"#,
    );
    let guest = node.wasm(&fixed.unwrap()).spawn().unwrap();
    let reason = guest.join().unwrap().to_string();
    assert!(reason.contains("cannot grow by the 65536 bytes of the area for payloads"), "{reason}");
}

#[test]
fn a_guest_gets_no_more_memory_than_its_limit_and_the_engine_s() {
    let grows = r#"(module
        (import "env" "mk_send_u32" (func $send (param i64 i32 i32) (result i32)))
        (memory (export "memory") 1)
        (func (export "handle_message") (param i32 i64 i32 i32) (result i32)
            (drop (call $send (local.get 1) (i32.const 1) (memory.grow (local.get 0))))
            (i32.const 1)))"#;
    let engine = Engine::builder().memory(64 * 65536).build().unwrap();
    let (node, module) = (Node::new(), engine.module("grows", grows).unwrap());
    let peer = Peer::new(&node);
    let grow = |guest, pages: u32| i32::from_le_bytes(peer.ask(guest, pages, b"").1.try_into().unwrap());
    let limited = Guest::new(&module).limits(Limits::default().memory(10 * 65536));
    let first = node.wasm(limited).spawn().unwrap();
    assert_eq!(grow(first.id(), 9), -1, "one page is its own, one the area for payloads");
    assert_eq!(grow(first.id(), 8), 2);
    let second = node.wasm(&module).spawn().unwrap();
    assert_eq!(grow(second.id(), 53), -1, "the engine's limit");
    assert_eq!(grow(second.id(), 52), 2);
    let third = node.wasm(&module).spawn().unwrap();
    let reason = third.join().unwrap();
    assert!(reason.is_abnormal(), "there is no memory for it");
    second.kill();
    second.join().unwrap();
    assert_eq!(grow(node.wasm(&module).spawn().unwrap().id(), 1), 2, "there is again");
}

#[test]
fn a_growth_that_fails_is_not_charged_to_the_engine() {
    let grows = r#"(module
        (import "env" "mk_send_u32" (func $send (param i64 i32 i32) (result i32)))
        (memory (export "memory") 1 2)
        (func (export "handle_message") (param i32 i64 i32 i32) (result i32)
            (drop (call $send (local.get 1) (i32.const 1) (memory.grow (i32.const 1))))
            (i32.const 1)))"#;
    let (engine, node) = (Engine::new().unwrap(), Node::new());
    let (module, peer) = (engine.module("grows", grows).unwrap(), Peer::new(&node));
    let guest = node.wasm(&module).spawn().unwrap();
    for _ in 0..100 {
        assert_eq!(peer.ask(guest.id(), 1, b"").1, (-1_i32).to_le_bytes(), "the area has the second page");
    }
    assert_eq!(engine.memory_used(), 2 * 65536);
}

#[test]
fn a_payload_is_placed_in_a_memory_that_was_empty() {
    let first = r#"(module
        (import "env" "mk_send_u32" (func $send (param i64 i32 i32) (result i32)))
        (memory (export "memory") 0)
        (func (export "handle_message") (param i32 i64 i32 i32) (result i32)
            (call $send (local.get 1) (i32.const 1) (i32.load8_u (local.get 2)))))"#;
    let (engine, node) = (Engine::new().unwrap(), Node::new());
    let guest = node.wasm(&engine.module("first", first).unwrap()).spawn().unwrap();
    assert_eq!(Peer::new(&node).ask(guest.id(), 1, b"A").1, 65_u32.to_le_bytes());
}

#[test]
fn a_message_that_is_too_large_is_not_sent() {
    let (engine, node) = (Engine::new().unwrap(), Node::new());
    let (echo, peer) = (module(&engine, "echo"), Peer::new(&node));
    let small = Guest::new(&echo).limits(Limits::default().message_bytes(3));
    let guest = node.wasm(small).spawn().unwrap();
    peer.send(guest.id(), PING, b"four");
    assert_eq!(peer.ask(guest.id(), PING, b"3!!"), (PONG, b"3!!".to_vec()), "and not the first one");
}

#[test]
fn a_memory_keeps_its_bytes_when_it_grows_out_of_its_slot() {
    let grows = r#"(module
        (import "env" "mk_send_u32" (func $send (param i64 i32 i32) (result i32)))
        (memory (export "memory") 1)
        (func (export "handle_message") (param $pages i32) (param $from i64) (param i32 i32) (result i32)
            (local $n i32) (local $sum i32)
            (loop $more
                (i32.store (i32.sub (i32.mul (memory.size) (i32.const 65536)) (i32.const 4)) (memory.size))
                (if (i32.lt_u (memory.size) (local.get $pages))
                    (then (br_if $more (i32.ne (memory.grow (i32.const 1)) (i32.const -1))) (unreachable))))
            (loop $next
                (local.set $n (i32.add (local.get $n) (i32.const 1)))
                (local.set $sum (i32.add (local.get $sum)
                    (i32.load (i32.sub (i32.mul (local.get $n) (i32.const 65536)) (i32.const 4)))))
                (br_if $next (i32.lt_u (local.get $n) (memory.size))))
            (drop (call $send (local.get $from) (i32.const 1) (local.get $sum)))
            (i32.const 1)))"#;
    let (engine, node) = (Engine::new().unwrap(), Node::new());
    let module = engine.module("grows", grows).unwrap();
    let peer = Peer::new(&node);
    for class in [StackClass::None, StackClass::Small] {
        let guest = node.wasm(Guest::new(&module).stack(class)).spawn().unwrap();
        // 256 KiB, 1 MiB and 4 MiB are slots; the first page is the module's, the second the area for payloads.
        let sum = (1..=100).sum::<u32>() - 1;
        assert_eq!(peer.ask(guest.id(), 100, b"").1, sum.to_le_bytes(), "{class}");
    }
}

//! WASM guests, beside wasmtime alone in the same run.

use std::time::{Duration, Instant};

use sinew_chan::chan::{Receiver, Sender, bounded};
use sinew_kernel::{ActorId, ActorRef, Flow, Kind, Message, Node, Payload};
use sinew_sched::{Runtime, spawn};
use sinew_wasm::{Engine, Grants, Guest, Limits, Module, StackClass, WasmNode};

use crate::measure::{median, occupied_bytes, report, report_as};
use crate::{Bench, Number};

/// Handles a message at once.
const NOTHING: &[u8] = include_bytes!("../../guests/build/nothing.wasm");
/// Waits in `mk_recv` from its first message on.
const PARK: &[u8] = include_bytes!("../../guests/build/park.wasm");
/// A C program that waits in `mk_recv`; with the area for payloads it has 128 KiB of memory.
const RECV: &[u8] = include_bytes!("../../guests/build/recv.wasm");
/// Computes for ever.
const SPIN: &[u8] = include_bytes!("../../guests/build/spin.wasm");

/// Stops at its first message.
const STOP: &str = r#"(module (memory (export "memory") 1 2)
    (func (export "handle_message") (param i32 i64 i32 i32) (result i32) i32.const 0))"#;

/// Answers every message.
const ANSWER: &str = r#"(module
    (import "env" "mk_send_u32" (func $send (param i64 i32 i32) (result i32)))
    (import "env" "mk_sleep_ms" (func (param i32) (result i32)))
    (memory (export "memory") 1)
    (func (export "handle_message") (param $kind i32) (param $source i64) (param i32 i32) (result i32)
        (call $send (local.get $source) (local.get $kind) (i32.const 1))))"#;

pub(crate) const BENCHES: [Bench; 8] = [
    Bench {
        name: "wasm_parked",
        about: "guests with one page of memory that wait in a host call",
        metric: "bytes_each",
        numbers: &[Number { name: "guests", default: 300_000, small: 100 }],
        run: |bench, numbers| parked(bench, PARK, numbers[0]),
    },
    Bench {
        name: "wasm_parked_c",
        about: "C guests with 128 KiB of memory that wait in a host call",
        metric: "bytes_each",
        numbers: &[Number { name: "guests", default: 100_000, small: 100 }],
        run: |bench, numbers| parked(bench, RECV, numbers[0]),
    },
    Bench {
        name: "wasm_spawn",
        about: "guests without a stack are spawned, handle one message and end; 64 are alive",
        metric: "ns_per_actor",
        numbers: &[Number { name: "guests", default: 200_000, small: 200 }],
        run: |bench, numbers| {
            for (program, workers) in [("sinew", 2), ("sinew_1_worker", 1)] {
                let elapsed = spawn_and_stop(workers, numbers[0]);
                report(program, bench, elapsed.as_nanos() as f64 / numbers[0] as f64);
            }
        },
    },
    Bench {
        name: "wasm_tell",
        about: "messages without payload to one guest without a stack, beside a native actor and a bare call",
        metric: "ns_per_msg",
        numbers: &[Number { name: "messages", default: 4_000_000, small: 1_000 }],
        run: |bench, numbers| {
            let times = (0..5).map(|_| tell(StackClass::None, numbers[0] / 5)).collect();
            report("sinew", bench, median(times));
            report("native", bench, median((0..5).map(|_| tell_native(numbers[0] / 5)).collect()));
            report("wasmtime", bench, raw_call(numbers[0]));
        },
    },
    Bench {
        name: "wasm_tell_blocking",
        about: "messages without payload to one guest that may block, beside a native actor and a bare call",
        metric: "ns_per_msg",
        numbers: &[Number { name: "messages", default: 2_000_000, small: 1_000 }],
        run: |bench, numbers| {
            let times = (0..5).map(|_| tell(StackClass::Small, numbers[0] / 5)).collect();
            report("sinew", bench, median(times));
            report("native", bench, median((0..5).map(|_| tell_native(numbers[0] / 5)).collect()));
            report("wasmtime", bench, raw_call_async(numbers[0]));
        },
    },
    Bench {
        name: "wasm_pingpong",
        about: "a native actor and a guest that may block exchange a message",
        metric: "ns_per_roundtrip",
        numbers: &[Number { name: "round trips", default: 200_000, small: 100 }],
        run: |bench, numbers| {
            let elapsed = pingpong(numbers[0]);
            report("sinew", bench, elapsed.as_nanos() as f64 / numbers[0] as f64);
        },
    },
    Bench {
        name: "wasm_preempt",
        about: "a quiet actor answers while four guests compute on two workers",
        metric: "p99_ms",
        numbers: &[Number { name: "answers", default: 500, small: 5 }],
        run: |bench, numbers| {
            let mut times = preempt(numbers[0]);
            times.sort_unstable();
            let at = |part: f64| times[((times.len() - 1) as f64 * part) as usize].as_secs_f64() * 1e3;
            report("sinew", bench, at(0.99));
            report_as("sinew", bench.name, "p50_ms", at(0.5));
        },
    },
    Bench {
        name: "wasm_fair",
        about: "CPU time of guests with the weights 300 and 100 that compute on one worker",
        metric: "ratio",
        numbers: &[Number { name: "milliseconds", default: 3_000, small: 100 }],
        run: |bench, numbers| {
            report("sinew", bench, fair(1, 1, Duration::from_millis(numbers[0])));
            report("sinew_2_workers", bench, fair(2, 4, Duration::from_millis(numbers[0])));
        },
    },
];

fn node(workers: usize) -> Node {
    let runtime = Runtime::builder().workers(workers);
    Node::builder().runtime(runtime).build().expect("a node starts")
}

fn engine() -> Engine {
    Engine::new().expect("this machine has a compiler")
}

fn load(engine: &Engine, source: impl AsRef<[u8]>) -> Module {
    engine.module("guest", source).expect("the guest is an actor")
}

fn message(to: ActorId) -> Message {
    Message::new(to, Kind(1), Payload::default())
}

fn parked(bench: &Bench, source: &[u8], count: u64) {
    let (engine, node) = (engine(), node(2));
    let module = load(&engine, source);
    let start = |guests: &mut Vec<ActorRef<Message>>, count: u64| {
        for _ in 0..count {
            let guest = node.wasm(&module).mailbox(4).spawn().expect("there is room");
            guest.tell(message(guest.id())).expect("it lives");
            guests.push(guest);
        }
        let parked = |guest: &ActorRef<Message>| {
            let info = node.inspect(guest.id()).expect("it lives");
            info.handled >= 1
        };
        while !guests.last().is_none_or(parked) {
            std::thread::yield_now();
        }
        std::thread::sleep(Duration::from_millis(200));
    };
    let mut guests = Vec::with_capacity(count as usize + 64);
    start(&mut guests, 64);
    let before = occupied_bytes();
    start(&mut guests, count);
    let used = occupied_bytes().saturating_sub(before);
    report("sinew", bench, used as f64 / count as f64);
    std::process::exit(0); // ending them all is not measured
}

fn spawn_and_stop(workers: usize, count: u64) -> Duration {
    let (engine, node) = (engine(), node(workers));
    let module = load(&engine, STOP);
    let lanes = 64;
    let each = count.div_ceil(lanes);
    let (done, ended): (Sender<()>, Receiver<()>) = bounded(lanes as usize);
    let this = *node;
    let elapsed = node.run(move || {
        let start = Instant::now();
        for _ in 0..lanes {
            let (module, done) = (module.clone(), done.clone());
            spawn(move || {
                let guest = Guest::new(&module).limits(Limits::default().payload_area(0));
                for _ in 0..each {
                    let guest = this.wasm(guest.clone()).mailbox(4).spawn().expect("there is room");
                    guest.tell(message(guest.id())).expect("it lives");
                    guest.join().expect("it ends");
                }
                done.send(()).expect("somebody waits");
            })
            .detach();
        }
        (0..lanes).for_each(|_| drop(ended.recv()));
        start.elapsed()
    });
    elapsed.expect("it returns")
}

/// Sends from one task, as the native fan-in does, and waits until the guest has handled all.
fn tell_all(node: &Node, to: ActorRef<Message>, count: u64) -> f64 {
    let elapsed = node.run(move || {
        let start = Instant::now();
        (0..count).for_each(|_| to.tell(message(to.id())).expect("it lives"));
        to.drain();
        to.join().expect("it ends");
        start.elapsed()
    });
    elapsed.expect("it returns").as_nanos() as f64 / count as f64
}

fn tell(class: StackClass, count: u64) -> f64 {
    let (engine, node) = (engine(), node(2));
    let module = load(&engine, NOTHING);
    let guest = node.wasm(Guest::new(&module).stack(class)).spawn().expect("there is room");
    tell_all(&node, guest, count)
}

fn tell_native(count: u64) -> f64 {
    let node = node(2);
    let native = node.actor().spawn_raw((), |(), _, _| Flow::Continue).expect("there is room");
    tell_all(&node, native, count)
}

fn pingpong(count: u64) -> Duration {
    let (engine, node) = (engine(), node(2));
    let module = load(&engine, ANSWER);
    let guest = node.wasm(Guest::new(&module).grants(Grants::all_actors())).spawn().expect("there is room");
    let (done, end) = bounded(1);
    let (to, mut left) = (guest.id(), count);
    let native = node.actor().spawn_raw(done, move |done, _, ctx| {
        if left == 0 {
            done.try_send(()).expect("once");
            return Flow::Stop;
        }
        left -= 1;
        ctx.send(to, Kind(1), Payload::default()).expect("it lives");
        Flow::Continue
    });
    let native = native.expect("there is room");
    let start = Instant::now();
    native.tell(message(native.id())).expect("it lives");
    end.recv().expect("it ends");
    start.elapsed()
}

fn spinning(node: &Node, module: &Module, weight: u32) -> ActorRef<Message> {
    let guest = Guest::new(module).stack(StackClass::Small).limits(Limits::default().weight(weight));
    let guest = node.wasm(guest).spawn().expect("there is room");
    guest.tell(message(guest.id())).expect("it lives");
    guest
}

fn preempt(count: u64) -> Vec<Duration> {
    let (engine, node) = (engine(), node(2));
    let module = load(&engine, SPIN);
    let spinning: Vec<_> = (0..4).map(|_| spinning(&node, &module, 100)).collect();
    let (answer, answers) = std::sync::mpsc::channel();
    let quiet = node.actor().spawn_raw(answer, |answer, _, _| {
        answer.send(()).expect("somebody waits");
        Flow::Continue
    });
    let quiet = quiet.expect("there is room");
    std::thread::sleep(Duration::from_millis(50));
    let times = (0..count).map(|_| {
        let start = Instant::now();
        quiet.tell(message(quiet.id())).expect("it lives");
        answers.recv().expect("it answers");
        start.elapsed()
    });
    let times = times.collect();
    spinning.iter().for_each(ActorRef::kill);
    times
}

/// The CPU time of guests with weight 300 by that of as many with weight 100.
fn fair(workers: usize, each: usize, time: Duration) -> f64 {
    let (engine, node) = (engine(), node(workers));
    let module = load(&engine, SPIN);
    let guests: Vec<_> = [300, 100]
        .map(|weight| (0..each).map(|_| spinning(&node, &module, weight)).collect::<Vec<_>>())
        .into();
    std::thread::sleep(time);
    let sum = |guests: &[ActorRef<Message>]| -> f64 {
        // A guest that no tick has hit yet has no time.
        guests.iter().map(|guest| engine.cpu_time(guest.id()).unwrap_or_default().as_secs_f64()).sum()
    };
    let ratio = sum(&guests[0]) / sum(&guests[1]).max(1e-9);
    guests.iter().flatten().for_each(ActorRef::kill);
    ratio
}

/// A synchronous call of the same function by wasmtime alone.
fn raw_call(count: u64) -> f64 {
    let engine = wasmtime::Engine::new(wasmtime::Config::new().epoch_interruption(true)).expect("an engine");
    let module = wasmtime::Module::new(&engine, NOTHING).expect("a module");
    let mut store = wasmtime::Store::new(&engine, ());
    store.set_epoch_deadline(u64::MAX / 2);
    let instance = wasmtime::Instance::new(&mut store, &module, &[]).expect("an instance");
    let handle = instance.get_typed_func::<(i32, i64, i32, i32), i32>(&mut store, "handle_message");
    let handle = handle.expect("it is exported");
    let start = Instant::now();
    for _ in 0..count {
        assert_eq!(handle.call(&mut store, (1, 1, 0, 0)).expect("it returns"), 1);
    }
    start.elapsed().as_nanos() as f64 / count as f64
}

/// The same by `call_async`.
fn raw_call_async(count: u64) -> f64 {
    let engine = wasmtime::Engine::new(wasmtime::Config::new().epoch_interruption(true)).expect("an engine");
    let module = wasmtime::Module::new(&engine, NOTHING).expect("a module");
    let mut store = wasmtime::Store::new(&engine, ());
    store.set_epoch_deadline(u64::MAX / 2);
    let call = async move {
        let instance = wasmtime::Instance::new_async(&mut store, &module, &[]).await.expect("an instance");
        let handle = instance.get_typed_func::<(i32, i64, i32, i32), i32>(&mut store, "handle_message");
        let handle = handle.expect("it is exported");
        let start = Instant::now();
        for _ in 0..count {
            assert_eq!(handle.call_async(&mut store, (1, 1, 0, 0)).await.expect("it returns"), 1);
        }
        start.elapsed().as_nanos() as f64 / count as f64
    };
    sinew_sched::block_on(call).expect("it may block here")
}

//! A guest that is ended while it waits in a host call gives everything back, once: what the host held for it, its
//! memory and its stack.

use std::time::Duration;

use sinew_fiber::usage;
use sinew_sched::{JoinHandle, Runtime};
use wasmtime::Module;

use crate::guests::{Guest, Host};
use crate::stack_support::pass_in_child;
use crate::support::{Tally, Watchdog, current_thread, spin_until, with_runtimes};

/// Waits below some frames, and returns its argument plus what came.
pub(crate) const WAITS: &str = r#"(module
    (import "host" "wait" (func $wait (param i32) (result i32)))
    (memory 1)
    (func $below (param $depth i32) (param $n i32) (result i32)
        (if (result i32) (local.get $depth)
            (then (call $below (i32.sub (local.get $depth) (i32.const 1)) (local.get $n)))
            (else (i32.add (local.get $n) (call $wait (local.get $n))))))
    (func (export "run") (param $n i32) (result i32)
        (i32.store (i32.const 1000) (local.get $n))
        (drop (call $below (i32.const 5) (local.get $n)))
        (i32.add (i32.load (i32.const 1000)) (i32.const 1))))"#;

/// A guest that holds two values of `tally`: one in its state, one in its wait; and tells when it waits.
fn holding(tally: &Tally, on_wait: impl Fn() + Send + 'static) -> (Guest, sinew_chan::chan::Sender<i32>) {
    let (guest, gate) = Guest::new();
    let of_the_state = tally.value(1);
    let guest = guest.holding(tally.value(2)).on_wait(move |_| {
        assert_eq!(of_the_state.number(), 1);
        on_wait();
    });
    (guest, gate)
}

type Ending = fn(&JoinHandle<wasmtime::Result<i32>>);
const ENDINGS: [Ending; 2] = [JoinHandle::cancel, JoinHandle::kill];

#[test]
fn a_guest_that_is_ended_in_a_host_call_gives_everything_back_once() {
    with_runtimes(|runtime| {
        let host = Host::new();
        let module = host.module(WAITS);
        for end in ENDINGS {
            let tally = Tally::new();
            let (waits, waiting) = std::sync::mpsc::channel();
            let (guest, gate) = holding(&tally, move || waits.send(()).unwrap());
            let task = runtime.spawn_future(host.call(&module, guest, 7));
            waiting.recv().unwrap();
            assert_eq!((host.out(), tally.dropped()), ((1, 1), 0));
            end(&task);
            assert!(task.join().unwrap_err().is_cancelled());
            tally.assert_even(2);
            assert_eq!(host.out(), (0, 0));
            assert!(gate.is_closed(), "nobody is there to be told any more");
        }
    });
}

#[test]
fn a_guest_that_is_ended_leaves_the_others_waiting_and_they_go_on() {
    with_runtimes(|runtime| {
        let host = Host::new();
        let module = host.module(WAITS);
        let tally = Tally::new();
        let (waits, waiting) = std::sync::mpsc::channel();
        let (mut tasks, mut gates) = (Vec::new(), Vec::new());
        for n in 0..20 {
            let waits = waits.clone();
            let (guest, gate) = holding(&tally, move || waits.send(()).unwrap());
            tasks.push(runtime.spawn_future(host.call(&module, guest, n)));
            gates.push(gate);
        }
        waiting.iter().take(20).for_each(drop);
        tasks.iter().step_by(2).for_each(JoinHandle::kill);
        spin_until(|| tasks.iter().step_by(2).all(JoinHandle::is_finished));
        assert_eq!((host.out(), tally.dropped()), ((10, 10), 20));
        for (n, (task, gate)) in tasks.into_iter().zip(gates).enumerate() {
            if n % 2 == 0 {
                assert!(task.join().unwrap_err().is_cancelled());
            } else {
                gate.try_send(1).unwrap();
                assert_eq!(task.join().unwrap().unwrap(), n as i32 + 1);
            }
        }
        tally.assert_even(40);
        assert_eq!(host.out(), (0, 0));
    });
}

#[test]
fn a_guest_that_is_ended_before_its_first_poll_takes_nothing_from_the_slabs() {
    let runtime = current_thread();
    let (host, tally) = (Host::new(), Tally::new());
    let module = host.module(WAITS);
    let (guest, _gate) = holding(&tally, || unreachable!("it never runs"));
    let task = runtime.spawn_future(host.call(&module, guest, 7));
    task.kill();
    runtime.run_until_idle();
    assert!(task.join().unwrap_err().is_cancelled());
    tally.assert_even(2);
    assert_eq!((host.stacks.taken(), host.memories.taken()), (0, 0));
}

#[test]
fn a_runtime_that_is_shut_down_ends_the_guests_that_wait() {
    let runtime = Runtime::builder().workers(2).build().unwrap();
    let watchdog = Watchdog::new("guests that wait".to_owned());
    watchdog.watch(&runtime);
    let (host, tally) = (Host::new(), Tally::new());
    let module = host.module(WAITS);
    let (waits, waiting) = std::sync::mpsc::channel();
    let gates: Vec<_> = (0..50)
        .map(|n| {
            let waits = waits.clone();
            let (guest, gate) = holding(&tally, move || waits.send(()).unwrap());
            runtime.spawn_future(host.call(&module, guest, n)).detach();
            gate
        })
        .collect();
    waiting.iter().take(50).for_each(drop);
    assert_eq!(runtime.shutdown(Duration::from_secs(60)).left, 0);
    tally.assert_even(100);
    assert_eq!(host.out(), (0, 0));
    assert!(gates.iter().all(sinew_chan::chan::Sender::is_closed));
}

/// In a process of its own, since it counts what the process has of slabs.
#[test]
fn slots_of_guests_that_were_killed_are_used_again() {
    pass_in_child(module_path!(), "slots_of_guests_that_were_killed_are_used_again", || {
        let runtime = current_thread();
        let host = Host::new();
        let module: Module = host.module(WAITS);
        let kill_one = || {
            let (guest, _gate) = holding(&Tally::new(), || ());
            let task = runtime.spawn_future(host.call(&module, guest, 7));
            runtime.run_until_idle();
            let waiting = usage();
            task.kill();
            runtime.run_until_idle();
            assert!(task.join().unwrap_err().is_cancelled());
            waiting
        };
        kill_one();
        let idle = usage();
        for _ in 0..1000 {
            let waiting = kill_one();
            assert_eq!(waiting.in_use, idle.in_use + 2, "a stack and a memory");
            assert_eq!(usage(), idle);
        }
        assert_eq!((host.stacks.taken(), host.memories.taken()), (1001, 1001));
    });
}

//! A guest that waits on one worker goes on on another, on the same stack.

use std::sync::mpsc;
use std::thread::{self, ThreadId};

use sinew_sched::task;

use crate::ended::WAITS;
use crate::guests::{Guest, Host};
use crate::support::with_idle_lookers;

/// Sums the squares of what it gets, and keeps them on its stack, in locals of one frame each, until the end.
const SUMS: &str = r#"(module
    (import "host" "wait" (func $wait (param i32) (result i32)))
    (memory 1)
    (func $from (param $n i32) (param $end i32) (result i32)
        (local $got i32)
        (if (i32.eq (local.get $n) (local.get $end)) (then (return (i32.const 0))))
        (local.set $got (call $wait (local.get $n)))
        (i32.add
            (call $from (i32.add (local.get $n) (i32.const 1)) (local.get $end))
            (i32.mul (local.get $got) (local.get $got))))
    (func (export "run") (param $end i32) (result i32) (call $from (i32.const 0) (local.get $end))))"#;

/// A worker that is stuck: which thread that is, and what frees it.
type Stuck = (ThreadId, mpsc::Sender<()>);

/// Occupies the worker that it is called on as soon as that has left the guest: a task that is pinned there blocks the
/// thread. So only another worker can continue the guest.
fn occupy_this_worker(stuck: &mpsc::Sender<Stuck>) {
    let (stuck, here) = (stuck.clone(), thread::current().id());
    let block = move || {
        assert_eq!(thread::current().id(), here, "pinned");
        let (release, released) = mpsc::channel();
        stuck.send((here, release)).unwrap();
        released.recv().unwrap();
    };
    task().pinned().spawn(block).detach();
}

#[test]
fn a_guest_goes_on_on_another_worker_while_the_one_that_it_was_on_is_stuck() {
    const MOVES: i32 = 100;
    with_idle_lookers(&[2, 3], |runtime, _| {
        let host = Host::new();
        let module = host.module(SUMS);
        let (stuck, occupied) = mpsc::channel();
        let (guest, gate) = Guest::new();
        let guest = guest.on_wait(move |_| occupy_this_worker(&stuck));
        let task = runtime.spawn_future(host.call(&module, guest, MOVES));

        let mut last: Option<Stuck> = None;
        for n in 0..MOVES {
            let (thread, release) = occupied.recv().unwrap();
            if let Some((before, release)) = last.replace((thread, release)) {
                assert_ne!(thread, before, "wait {n}");
                release.send(()).unwrap();
            }
            gate.send(n).unwrap();
        }
        assert_eq!(task.join().unwrap().unwrap(), (0..MOVES).map(|n| n * n).sum::<i32>());
        last.unwrap().1.send(()).unwrap();
        assert_eq!((host.stacks.taken(), host.out()), (1, (0, 0)));
    });
}

/// The stack of a guest that is dropped is entered a last time, to unwind it: also by a worker that never ran it.
#[test]
fn a_guest_is_killed_by_another_worker_while_the_one_that_it_was_on_is_stuck() {
    struct TellsWhereItIsDropped(mpsc::Sender<ThreadId>);
    impl Drop for TellsWhereItIsDropped {
        fn drop(&mut self) {
            self.0.send(thread::current().id()).unwrap();
        }
    }
    with_idle_lookers(&[2, 3], |runtime, _| {
        let host = Host::new();
        let module = host.module(WAITS);
        let ((stuck, occupied), (drops, dropped)) = (mpsc::channel(), mpsc::channel());
        let (guest, _gate) = Guest::new();
        let tells = TellsWhereItIsDropped(drops);
        let guest = guest.on_wait(move |_| {
            let _of_the_guest = &tells;
            occupy_this_worker(&stuck);
        });
        let task = runtime.spawn_future(host.call(&module, guest, 1));
        let (thread, release) = occupied.recv().unwrap();
        task.kill();
        assert!(task.join().unwrap_err().is_cancelled());
        assert_ne!(dropped.recv().unwrap(), thread);
        assert_eq!(host.out(), (0, 0));
        release.send(()).unwrap();
    });
}

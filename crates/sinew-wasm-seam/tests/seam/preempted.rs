//! A guest that computes without end lets others run on its worker, and can be killed.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use sinew_sched::{Runtime, sleep, yield_now};

use crate::ended::WAITS;
use crate::guests::{Guest, Host};
use crate::support::{Tally, spin_until, with_runtime};
use crate::ticker::Ticker;

/// Counts in its memory, for ever.
const SPINS: &str = r#"(module
    (memory (export "memory") 1)
    (func (export "run") (param i32) (result i32)
        (loop $again
            (i32.store (i32.const 0) (i32.add (i32.load (i32.const 0)) (i32.const 1)))
            (br $again))
        (unreachable)))"#;

/// Counts the polls of a future.
fn counted<F: Future>(future: F, polls: &Arc<AtomicUsize>) -> impl Future<Output = F::Output> + use<F> {
    let (mut future, polls) = (Box::pin(future), polls.clone());
    std::future::poll_fn(move |context| {
        polls.fetch_add(1, Ordering::Relaxed);
        future.as_mut().poll(context)
    })
}

#[test]
fn guests_that_never_wait_share_one_worker_with_guests_and_tasks_until_they_are_killed() {
    for nets in [true, false] {
        with_runtime(Runtime::builder().workers(1).safety_nets(nets), |runtime| {
            let host = Host::new();
            let ticker = Ticker::new(&host.engine);
            let (spins, waits) = (host.module(SPINS), host.module(WAITS));
            let (tally, polls) = (Tally::new(), Arc::new(AtomicUsize::new(0)));
            let spinning: Vec<_> = (0..2)
                .map(|n| {
                    let (guest, _) = Guest::new();
                    let call = ticker.ticked(host.call(&spins, guest.holding(tally.value(n)), 0));
                    runtime.spawn_future(counted(call, &polls))
                })
                .collect();
            spin_until(|| polls.load(Ordering::Relaxed) > 2); // one of them was continued

            for n in 0..4 {
                let (guest, gate) = Guest::new();
                let guest = runtime.spawn_future(ticker.ticked(host.call(&waits, guest, n)));
                let feeder = runtime.spawn(move || {
                    sleep(Duration::from_millis(1));
                    (0..5).for_each(|_| yield_now());
                    gate.send(n).unwrap();
                });
                feeder.join().unwrap();
                assert_eq!(guest.join().unwrap().unwrap(), n + 1);
            }
            assert!(spinning.iter().all(|task| !task.is_finished()));
            assert_eq!((host.out(), tally.dropped()), ((2, 2), 0));

            for task in spinning {
                task.kill();
                assert!(task.join().unwrap_err().is_cancelled());
            }
            tally.assert_even(2);
            assert_eq!(host.out(), (0, 0));
            assert!(ticker.parked() > 0);
        });
    }
}

#[test]
fn nothing_ticks_while_no_guest_runs() {
    with_runtime(Runtime::builder().workers(1), |runtime| {
        let host = Host::new();
        let ticker = Ticker::new(&host.engine);
        assert_eq!(ticker.parked(), 0);

        let (guest, gate) = Guest::new();
        let (waits, waiting) = std::sync::mpsc::channel();
        let guest = guest.on_wait(move |_| waits.send(()).unwrap());
        let waits = runtime.spawn_future(ticker.ticked(host.call(&host.module(WAITS), guest, 1)));
        waiting.recv().unwrap();
        ticker.parked(); // although there is a guest, which waits

        let (guest, _) = Guest::new();
        let spins = runtime.spawn_future(ticker.ticked(host.call(&host.module(SPINS), guest, 1)));
        spin_until(|| ticker.ticks() > 3);
        spins.kill();
        assert!(spins.join().unwrap_err().is_cancelled());
        ticker.parked();
        gate.send(1).unwrap();
        assert_eq!(waits.join().unwrap().unwrap(), 2);
    });
}

//! A select waits for tasks, times, locks, permits, events and being cancelled, besides channels.

use std::sync::Arc;
use std::time::Duration;

use sinew_chan::select::{Select, acquire, cancelled, join, lock, read, recv, send, sleep, until, write};
use sinew_chan::sync::{Mutex, RwLock, Semaphore};
use sinew_chan::{chan, select};
use sinew_fiber::shield;
use sinew_sched::{Events, ManualClock, Reason, Runtime, now, spawn, task, yield_now};

/// Longer than any test takes.
const NEVER: Duration = Duration::from_secs(3600);

fn in_tasks(test: fn()) {
    for workers in [1, 2, 8] {
        Runtime::builder().workers(workers).build().unwrap().run(test).unwrap();
    }
}

#[test]
fn a_task_that_ends_is_joined_and_its_handle_is_gone() {
    in_tasks(|| {
        for ends_first in [true, false] {
            let mut task = Some(spawn(|| 5));
            while ends_first && !task.as_ref().unwrap().is_finished() {
                yield_now();
            }
            let outcome = select! {
                outcome = join(&mut task) => outcome.unwrap(),
                _ = sleep(NEVER) => 0,
            };
            assert_eq!((outcome.unwrap(), task.is_none()), (5, true));
        }
    });
}

#[test]
fn a_task_that_is_not_joined_keeps_its_handle_and_can_be_joined_later() {
    in_tasks(|| {
        let gate = Arc::new(Semaphore::new(0));
        let mut waits = {
            let gate = gate.clone();
            Some(spawn(move || gate.acquire(1).map(|permit| permit.forget()).is_ok()))
        };
        let mut ends = Some(spawn(|| ()));
        let first = select! {
            _ = join(&mut waits) => "the one that waits",
            _ = join(&mut ends) => "the one that ends",
        };
        assert_eq!(first.unwrap(), "the one that ends");
        gate.add_permits(1);
        assert!(waits.unwrap().join().unwrap());
    });
}

/// Temporaries live as long as their cases, and are gone when the arm runs.
#[test]
fn cases_may_be_made_of_what_is_temporary() {
    in_tasks(|| {
        let (sender, receiver) = chan::bounded(1);
        let table = std::cell::RefCell::new(vec![receiver]);
        for _ in 0..2 {
            let sent = select! { sent = send(&sender, &mut Some(5)) => sent.is_ok(), default => false };
            assert!(sent.unwrap());
            let (_full, never) = chan::bounded::<i32>(1);
            let five = select! {
                five = recv(&table.borrow()[0].clone()) => {
                    assert!(table.try_borrow_mut().is_ok());
                    five.unwrap()
                }
                _ = recv(Some(&never)) => 0,
            };
            assert_eq!(five.unwrap(), 5);
        }
    });
}

/// The end of the task and the item race; nothing is lost whoever wins.
#[test]
fn the_end_of_a_task_races_with_an_item() {
    in_tasks(|| {
        for _ in 0..500 {
            let (sender, receiver) = chan::rendezvous();
            let mut task = Some(spawn(|| 1));
            let sends = spawn(move || sender.send(2));
            let mut seen = Vec::new();
            while seen.len() < 2 {
                let open = if seen.contains(&2) { None } else { Some(&receiver) };
                select! {
                    outcome = join(&mut task) => seen.push(outcome.unwrap()),
                    item = recv(open) => seen.push(item.unwrap()),
                }
                .unwrap();
            }
            seen.sort_unstable();
            assert_eq!(seen, [1, 2]);
            sends.join().unwrap().unwrap();
        }
    });
}

#[test]
fn times_pass_on_the_clock_of_the_runtime() {
    let clock = ManualClock::new();
    let runtime = Runtime::builder().workers(2).manual_clock(&clock).build().unwrap();
    runtime
        .run(|| {
            let start = now();
            let (_sender, receiver) = chan::bounded::<()>(1);
            let first = select! {
                _ = sleep(3 * NEVER) => "later",
                _ = until(start + NEVER) => "sooner",
                _ = recv(&receiver) => "an item",
            };
            assert_eq!(first.unwrap(), "sooner");
            let late = now() - (start + NEVER);
            assert!(late < Duration::from_millis(1), "{late:?} late");
        })
        .unwrap();
}

#[test]
fn a_lock_is_taken_by_the_select_or_not_at_all() {
    in_tasks(|| {
        let (free, taken) = (Mutex::new(1), Mutex::new(2));
        let held = taken.lock().unwrap();
        let value = select! {
            value = lock(&taken) => *value,
            value = lock(&free) => *value,
        };
        assert_eq!(value.unwrap(), 1);
        assert!(!free.is_locked(), "the guard is gone with the arm");
        drop(held);
        assert!(!taken.is_locked(), "the select has left the queue");
    });
}

#[test]
fn many_selects_and_lockers_count_under_one_lock() {
    in_tasks(|| {
        let count = Arc::new(Mutex::new(0));
        let tasks: Vec<_> = (0..8)
            .map(|number| {
                let count = count.clone();
                spawn(move || {
                    for _ in 0..200 {
                        if number % 2 == 0 {
                            let mut count = count.lock().unwrap();
                            yield_now();
                            *count += 1;
                        } else {
                            select! {
                                mut count = lock(&count) => { yield_now(); *count += 1; }
                                _ = sleep(NEVER) => panic!("the lock never came"),
                            }
                            .unwrap();
                        }
                    }
                })
            })
            .collect();
        tasks.into_iter().for_each(|task| task.join().unwrap());
        assert_eq!(*count.lock().unwrap(), 1600);
        assert!(!count.is_locked());
    });
}

#[test]
fn shares_wholes_and_permits_are_cases() {
    in_tasks(|| {
        let (shared, permits) = (RwLock::new(3), Semaphore::new(1));
        let reader = shared.read().unwrap();
        let got = select! {
            _ = write(&shared) => "the whole",
            _ = acquire(&permits, 2) => "two permits",
            value = read(&shared) => if *value == 3 { "a share" } else { "nonsense" },
        };
        assert_eq!(got.unwrap(), "a share");
        drop(reader);
        let got = select! {
            mut value = write(&shared) => { *value += 1; "the whole" }
            _ = acquire(&permits, 2) => "two permits",
        };
        assert_eq!(got.unwrap(), "the whole");
        assert_eq!((*shared.read().unwrap(), permits.available()), (4, 1));
        let got = select! { permit = acquire(&permits, 1) => permit.count() };
        assert_eq!((got.unwrap(), permits.available()), (1, 1));
    });
}

#[test]
fn an_event_of_a_supervised_task_is_a_case() {
    in_tasks(|| {
        let events = Events::new();
        let (_sender, receiver) = chan::rendezvous::<()>();
        let failing = task().supervisor(&events).spawn(|| panic!("no luck"));
        let event = select! {
            event = recv(&events) => event,
            _ = recv(&receiver) => unreachable!("nobody sends"),
        };
        assert_eq!(event.unwrap().task, failing.id());
    });
}

#[test]
fn being_cancelled_refuses_a_select_unless_it_waits_for_that() {
    in_tasks(|| {
        let (_sender, receiver) = chan::rendezvous::<()>();
        for waits_for_it in [true, false] {
            let (started, mut starts) = sinew_chan::chan::oneshot::channel();
            let receiver = receiver.clone();
            let task = spawn(move || {
                started.send(()).unwrap();
                if waits_for_it {
                    select! {
                        _ = recv(&receiver) => false,
                        () = cancelled() => true,
                    }
                } else {
                    select! { _ = recv(&receiver) => false }
                }
            });
            starts.recv().unwrap();
            task.cancel();
            match task.join().unwrap() {
                Ok(cancelled) => assert!(cancelled && waits_for_it),
                Err(refused) => assert!(refused.reason() == Reason::Cancelled && !waits_for_it),
            }
        }
    });
}

#[test]
fn a_case_that_is_ready_happens_in_a_cancelled_task_and_a_shield_defers_the_rest() {
    in_tasks(|| {
        let (sender, receiver) = chan::bounded(1);
        let gate = Arc::new(Semaphore::new(0));
        let task = {
            let gate = gate.clone();
            spawn(move || {
                let waited = gate.acquire(1).map(|permit| permit.forget());
                assert_eq!(waited.unwrap_err().reason(), Reason::Cancelled);
                let ready = select! { item = recv(&receiver) => item.unwrap() };
                let shielded = shield(|| {
                    select! {
                        () = cancelled() => "cancelled",
                        _ = sleep(Duration::from_millis(1)) => "slept",
                    }
                });
                (ready.unwrap(), shielded.unwrap())
            })
        };
        sender.send(7).unwrap();
        task.cancel();
        assert_eq!(task.join().unwrap(), (7, "slept"));
    });
}

#[test]
fn threads_select_too() {
    let (sender, receiver) = chan::rendezvous();
    let locked = Arc::new(Mutex::new(()));
    let held = locked.lock().unwrap();
    let thread = {
        let locked = locked.clone();
        std::thread::spawn(move || {
            let item = select! {
                item = recv(&receiver) => item.unwrap(),
                _ = lock(&locked) => 0,
            };
            item.unwrap()
        })
    };
    sender.send(9).unwrap();
    assert_eq!(thread.join().unwrap(), 9);
    drop(held);
    let late = select! { _ = sleep(Duration::from_millis(1)) => true };
    assert!(late.unwrap());
}

#[test]
fn a_select_of_nothing_waits_until_it_is_cancelled() {
    in_tasks(|| {
        let task = spawn(|| Select::<()>::new().wait());
        task.cancel();
        assert_eq!(task.join().unwrap().unwrap_err().reason(), Reason::Cancelled);
        assert!(Select::<()>::new().try_now().is_err());
    });
}

#[test]
fn every_case_that_is_always_ready_happens_in_its_turn() {
    in_tasks(|| {
        let channels: Vec<_> = (0..10).map(|_| chan::bounded::<()>(1)).collect();
        channels.iter().for_each(|(sender, _)| _ = sender.close());
        let mut happened = [0; 10];
        for _ in 0..1000 {
            let mut select = Select::new();
            for (number, (_, receiver)) in channels.iter().enumerate() {
                select = select.case(recv(receiver), move |_| number);
            }
            happened[select.wait().unwrap()] += 1;
        }
        assert!(happened.iter().all(|times| *times >= 50), "{happened:?}");
    });
}

/// A task that is killed while it selects leaves the queues: what comes then goes to others.
#[test]
fn a_select_that_is_killed_leaves_everything_behind() {
    in_tasks(|| {
        let (sender, receiver) = chan::rendezvous();
        let locked = Arc::new(Mutex::new(()));
        let held = locked.lock().unwrap();
        let victim = {
            let (receiver, locked) = (receiver.clone(), locked.clone());
            spawn(move || {
                let outcome = select! {
                    item = recv(&receiver) => item.unwrap(),
                    _ = lock(&locked) => 0,
                };
                panic!("{outcome:?}, although nobody sends and the lock is held");
            })
        };
        yield_now(); // with one worker it waits now
        victim.kill();
        assert!(victim.join().unwrap_err().is_cancelled());
        let receives = spawn(move || receiver.recv().unwrap());
        sender.send(1).unwrap();
        assert_eq!(receives.join().unwrap(), 1);
        drop(held);
        assert!(!locked.is_locked());
    });
}

/// Closed before the select, and while it waits; at channels with room for none, and with room that is taken.
#[test]
fn an_item_that_a_select_cannot_send_is_in_the_error_and_otherwise_where_it_was() {
    in_tasks(|| {
        for (capacity, waits) in [(0, false), (0, true), (1, false), (1, true)] {
            let (sender, receiver) = chan::bounded(capacity);
            (0..capacity).for_each(|_| sender.send("before".to_owned()).unwrap());
            let (other, from_other) = chan::bounded(1);
            other.send(1).unwrap();
            let mut item = Some("kept".to_owned());
            select! {
                _ = send(&sender, &mut item) => panic!("there is no room"),
                one = recv(&from_other) => assert_eq!(one.unwrap(), 1),
            }
            .unwrap();
            assert_eq!(item.as_deref(), Some("kept"), "another case has happened");

            if !waits {
                receiver.close();
            }
            let closes = spawn(move || {
                yield_now();
                receiver.close();
            });
            let unsent = select! {
                sent = send(&sender, &mut item) => sent.unwrap_err(),
                _ = recv(&from_other) => panic!("nobody sends"),
            }
            .unwrap();
            assert!(matches!(unsent.why, chan::Unsent::Closed));
            assert_eq!((unsent.item.as_str(), item), ("kept", None));
            closes.join().unwrap();
        }
    });
}

#[test]
fn an_item_that_a_select_cannot_broadcast_is_in_the_error() {
    in_tasks(|| {
        let (sender, receiver) = chan::broadcast::channel(1, chan::broadcast::Slow::Block);
        sender.send(1).unwrap();
        let closes = spawn(move || {
            yield_now();
            receiver.close();
        });
        let mut item = Some(2);
        let unsent = select! { sent = send(&sender, &mut item) => sent.unwrap_err() }.unwrap();
        assert_eq!((unsent.item, item), (2, None));
        closes.join().unwrap();
    });
}

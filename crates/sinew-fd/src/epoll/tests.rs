//! Models of waits, notifications, changes and closes. Without a model checker each runs once, on threads.

use std::sync::Arc;
use std::time::Duration;

use sinew_core::Errno;
use sinew_sync::atomic::{AtomicUsize, Ordering};
use sinew_sync::{model, thread};
use sinew_test_kit::drive;

use crate::{EpollEvent, EpollOp, EventCounter, Events, FdObject, FdTable, Flags, pipe};

const NOW: Option<Duration> = Some(Duration::ZERO);

type Reported = Result<Vec<(i32, Events)>, Errno>;

fn wait(table: &FdTable, epfd: i32, timeout: Option<Duration>) -> Reported {
    let mut events = [EpollEvent::default(); 4];
    let count = table.epoll_wait(epfd, &mut events, timeout)?;
    Ok(events[..count].iter().map(|event| (event.fd, event.events)).collect())
}

fn wait_as_future(table: &FdTable, epfd: i32) -> Reported {
    let mut events = [EpollEvent::default(); 4];
    let count = drive(table.epoll_wait_async(epfd, &mut events, None))?;
    Ok(events[..count].iter().map(|event| (event.fd, event.events)).collect())
}

/// A table with an epoll at 3 that watches event counters from 4 on.
fn table(counters: usize, events: Events) -> (Arc<FdTable>, Vec<Arc<EventCounter>>) {
    let table = FdTable::new(16);
    let epfd = table.epoll_create().unwrap();
    let objects: Vec<_> = (0..counters).map(|_| EventCounter::new(0)).collect();
    for object in &objects {
        let fd = table.open(object.clone(), Flags::NONE).unwrap();
        table.epoll_ctl(epfd, EpollOp::Add, fd, events).unwrap();
    }
    (Arc::new(table), objects)
}

#[test]
fn a_notification_wakes_a_wait() {
    for as_future in [false, true] {
        model("epoll_notify_wakes", move || {
            let (table, objects) = table(1, Events::IN);
            let waits = {
                let table = table.clone();
                thread::spawn(
                    move || if as_future { wait_as_future(&table, 3) } else { wait(&table, 3, None) },
                )
            };
            objects[0].add(1).unwrap();
            assert_eq!(waits.join().unwrap(), Ok(vec![(4, Events::IN)]));
            assert_eq!(wait(&table, 3, NOW), Ok(vec![(4, Events::IN)]), "it is level-triggered");
        });
    }
}

#[test]
fn a_close_is_reported_once_by_each_epoll() {
    model("epoll_close_of_a_number_is_reported_once", || {
        let (table, objects) = table(1, Events::NONE);
        let second = table.epoll_create().unwrap();
        table.epoll_ctl(second, EpollOp::Add, 4, Events::NONE).unwrap();
        let waits = [3, second].map(|epfd| {
            let table = table.clone();
            thread::spawn(move || wait(&table, epfd, None))
        });
        table.close(4).unwrap();
        for wait in waits {
            assert_eq!(wait.join().unwrap(), Ok(vec![(4, Events::HUP)]));
        }
        assert_eq!(wait(&table, 3, NOW), Ok(vec![]));
        assert!(objects[0].watchers().is_empty());
        assert_eq!(table.open(EventCounter::new(0), Flags::NONE), Ok(4), "the number is free again");
    });
}

#[test]
fn the_close_of_an_epoll_ends_its_waits() {
    model("epoll_close_ends_the_wait", || {
        let (table, objects) = table(1, Events::IN);
        let waits: Vec<_> = [false, true]
            .into_iter()
            .map(|as_future| {
                let table = table.clone();
                thread::spawn(
                    move || if as_future { wait_as_future(&table, 3) } else { wait(&table, 3, None) },
                )
            })
            .collect();
        let notifies = {
            let object = objects[0].clone();
            thread::spawn(move || object.watchers().notify(Events::IN))
        };
        table.epoll_close(3).unwrap();
        for wait in waits {
            assert_eq!(wait.join().unwrap(), Err(Errno::EBADF));
        }
        notifies.join().unwrap();
        assert!(objects[0].watchers().is_empty());
    });
}

#[test]
fn a_change_of_a_watch_misses_no_notification() {
    model("epoll_ctl_against_notify", || {
        let (table, objects) = table(1, Events::NONE);
        let waits = {
            let table = table.clone();
            thread::spawn(move || wait(&table, 3, None))
        };
        let notifies = {
            let object = objects[0].clone();
            thread::spawn(move || object.add(1).unwrap())
        };
        table.epoll_ctl(3, EpollOp::Delete, 4, Events::NONE).unwrap();
        table.epoll_ctl(3, EpollOp::Add, 4, Events::NONE).unwrap();
        table.epoll_ctl(3, EpollOp::Modify, 4, Events::IN).unwrap();
        assert_eq!(waits.join().unwrap(), Ok(vec![(4, Events::IN)]));
        notifies.join().unwrap();
        assert_eq!(objects[0].watchers().len(), 1);
    });
}

#[test]
fn two_epolls_over_three_fds_lose_nothing() {
    model("epoll_two_epolls_three_fds", || {
        let (table, objects) = table(3, Events::IN);
        let second = table.epoll_create().unwrap();
        for fd in 4..7 {
            table.epoll_ctl(second, EpollOp::Add, fd, Events::IN).unwrap();
        }
        let waits = [3, second].map(|epfd| {
            let table = table.clone();
            thread::spawn(move || {
                let mut seen = [Events::NONE; 3];
                while seen != [Events::IN, Events::HUP, Events::IN] {
                    for (fd, events) in wait(&table, epfd, None).unwrap() {
                        seen[fd as usize - 4] |= events;
                        table.epoll_ctl(epfd, EpollOp::Delete, fd, Events::NONE).ok();
                    }
                }
            })
        });
        let notifies = {
            let (first, third) = (objects[0].clone(), objects[2].clone());
            thread::spawn(move || {
                third.add(1).unwrap();
                first.add(1).unwrap();
            })
        };
        table.close(5).unwrap();
        for wait in waits {
            wait.join().unwrap();
        }
        notifies.join().unwrap();
        assert!(objects.iter().all(|object| object.watchers().is_empty()));
    });
}

#[test]
fn a_future_that_is_dropped_leaves_the_event_to_others() {
    model("epoll_wait_dropped", || {
        let (table, objects) = table(1, Events::IN);
        let drops = {
            let table = table.clone();
            thread::spawn(move || {
                let mut events = [EpollEvent::default(); 1];
                let mut wait = Box::pin(table.epoll_wait_async(3, &mut events, None));
                let mut context = std::task::Context::from_waker(std::task::Waker::noop());
                let _ = wait.as_mut().poll(&mut context);
            })
        };
        let waits = {
            let table = table.clone();
            thread::spawn(move || wait(&table, 3, None))
        };
        objects[0].add(1).unwrap();
        assert_eq!(waits.join().unwrap(), Ok(vec![(4, Events::IN)]));
        drops.join().unwrap();
    });
}

#[test]
fn a_blocked_read_ends_by_data_end_of_file_or_close() {
    model("read_against_write_and_close", || {
        let (reader, writer) = pipe(1);
        let table = Arc::new(FdTable::new(16));
        let reader = table.open(reader, Flags::NONE).unwrap();
        let writer = table.open(writer, Flags::NONE).unwrap();
        let reads = {
            let table = table.clone();
            thread::spawn(move || {
                let (mut buffer, mut total) = ([0; 1], 0);
                loop {
                    match table.read(reader, &mut buffer) {
                        Ok(0) => return Ok(total),
                        Ok(count) => total += count,
                        Err(errno) => return Err(errno),
                    }
                }
            })
        };
        assert_eq!(table.write(writer, b"a"), Ok(1));
        assert_eq!(table.write(writer, b"b"), Ok(1));
        table.close(writer).unwrap();
        assert_eq!(reads.join().unwrap(), Ok(2));

        let (reader, _writer) = pipe(1);
        let reader = table.open(reader, Flags::NONE).unwrap();
        let second = table.dup(reader).unwrap();
        let reads = {
            let table = table.clone();
            thread::spawn(move || table.read(reader, &mut [0; 1]))
        };
        table.close(reader).unwrap();
        assert_eq!(reads.join().unwrap(), Err(Errno::EBADF));
        table.close(second).unwrap();
    });
}

#[test]
fn a_watch_that_ends_does_not_take_the_next_one_with_it() {
    model("epoll_delete_against_add", || {
        let (table, objects) = table(1, Events::IN);
        let deletes = {
            let table = table.clone();
            thread::spawn(move || table.epoll_ctl(3, EpollOp::Delete, 4, Events::NONE).unwrap())
        };
        while table.epoll_ctl(3, EpollOp::Add, 4, Events::IN) == Err(Errno::EEXIST) {
            thread::yield_now();
        }
        deletes.join().unwrap();
        assert_eq!(wait(&table, 3, NOW), Ok(vec![]));
        objects[0].add(1).unwrap();
        assert_eq!(wait(&table, 3, NOW), Ok(vec![(4, Events::IN)]));
    });
}

#[test]
fn an_interruption_ends_waits_that_have_begun() {
    model("interrupt_ends_the_wait", || {
        let (table, _objects) = table(1, Events::IN);
        let unused = table.epoll_create().unwrap();
        let ended = Arc::new(AtomicUsize::new(0));
        let calls = [true, false].map(|waits| {
            let (table, ended) = (table.clone(), ended.clone());
            thread::spawn(move || {
                let outcome = if waits {
                    wait(&table, unused, None).map(drop)
                } else {
                    table.read(4, &mut [0; 8]).map(drop)
                };
                assert_eq!(outcome, Err(Errno::ECANCELED));
                ended.fetch_add(1, Ordering::Relaxed);
            })
        });
        // A call that begins after an interruption is ended by the next.
        while ended.load(Ordering::Relaxed) < 2 {
            table.interrupt();
            thread::yield_now();
        }
        for call in calls {
            call.join().unwrap();
        }
    });
}

//! Waits that sleep: from tasks, threads and futures, with timeouts and cancellation.

use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use sinew_fd::{EpollEvent, EpollOp, Errno, Events, FdObject, FdTable};
use sinew_sched::{Runtime, block_on, now, spawn};
use sinew_test_kit::runtimes::{poll as poll_once, with_manual_clock, with_runtimes};

use crate::{counter, wait};

#[test]
fn a_transition_wakes_a_task() {
    with_runtimes(|runtime| {
        let table = Arc::new(FdTable::new(16));
        let (epfd, (fd, object)) = (table.epoll_create().unwrap(), counter(&table, 0));
        table.epoll_ctl(epfd, EpollOp::Add, fd, Events::IN).unwrap();
        let waits = runtime.spawn(move || wait(&table, epfd, None));
        let wakes = runtime.spawn(move || object.add(1));
        assert_eq!(waits.join().unwrap().unwrap(), [(fd, Events::IN)]);
        wakes.join().unwrap().unwrap();
    });
}

#[test]
fn a_transition_wakes_a_thread() {
    let table = FdTable::new(16);
    let (epfd, (fd, object)) = (table.epoll_create().unwrap(), counter(&table, 0));
    table.epoll_ctl(epfd, EpollOp::Add, fd, Events::IN).unwrap();
    std::thread::scope(|scope| {
        let waits = scope.spawn(|| wait(&table, epfd, None));
        object.add(1).unwrap();
        assert_eq!(waits.join().unwrap().unwrap(), [(fd, Events::IN)]);
    });
}

#[test]
fn a_transition_wakes_a_future() {
    with_runtimes(|runtime| {
        let table = Arc::new(FdTable::new(16));
        let (epfd, (fd, object)) = (table.epoll_create().unwrap(), counter(&table, 0));
        table.epoll_ctl(epfd, EpollOp::Add, fd, Events::IN).unwrap();
        let waits = runtime.spawn_future(async move {
            let mut events = [EpollEvent::default(); 4];
            let count = table.epoll_wait_async(epfd, &mut events, None).await;
            (count, events[0])
        });
        runtime.spawn(move || object.add(1)).join().unwrap().unwrap();
        let event = EpollEvent { fd, events: Events::IN };
        assert_eq!(waits.join().unwrap(), (Ok(1), event));
    });
}

#[test]
fn add_and_mod_of_a_ready_fd_wake_a_wait() {
    with_runtimes(|runtime| {
        let table = Arc::new(FdTable::new(16));
        let (epfd, (fd, _)) = (table.epoll_create().unwrap(), counter(&table, 1));
        for op in [EpollOp::Add, EpollOp::Modify] {
            let waiting = table.clone();
            let waits = runtime.spawn(move || wait(&waiting, epfd, None));
            table.epoll_ctl(epfd, op, fd, Events::IN).unwrap();
            assert_eq!(waits.join().unwrap().unwrap(), [(fd, Events::IN)]);
            table.epoll_ctl(epfd, EpollOp::Modify, fd, Events::NONE).unwrap();
        }
    });
}

#[test]
fn a_wait_ends_at_its_timeout() {
    with_manual_clock(|| {
        let table = FdTable::new(16);
        let (epfd, (fd, _)) = (table.epoll_create().unwrap(), counter(&table, 0));
        table.epoll_ctl(epfd, EpollOp::Add, fd, Events::IN).unwrap();
        let start = now();
        assert_eq!(wait(&table, epfd, Some(Duration::from_secs(3))).unwrap(), []);
        assert_eq!((now() - start).as_secs(), 3);
        let mut events = [EpollEvent::default(); 1];
        let wait = table.epoll_wait_async(epfd, &mut events, Some(Duration::from_secs(5)));
        assert_eq!(block_on(wait).unwrap(), Ok(0));
        assert_eq!((now() - start).as_secs(), 8);
    });
}

#[test]
fn a_cancelled_task_stops_waiting() {
    with_runtimes(|runtime| {
        let table = Arc::new(FdTable::new(16));
        let epfd = table.epoll_create().unwrap();
        let waiting = table.clone();
        let waits = runtime.spawn(move || wait(&waiting, epfd, None));
        waits.cancel();
        assert_eq!(waits.join().unwrap(), Err(Errno::ECANCELED));
    });
}

#[test]
fn a_killed_task_leaves_no_wait_behind() {
    with_runtimes(|runtime| {
        let table = Arc::new(FdTable::new(16));
        let (epfd, (fd, object)) = (table.epoll_create().unwrap(), counter(&table, 0));
        table.epoll_ctl(epfd, EpollOp::Add, fd, Events::IN).unwrap();
        let waiting = table.clone();
        let waits = runtime.spawn(move || wait(&waiting, epfd, None));
        let waiting = table.clone();
        let reads = runtime.spawn(move || waiting.read(fd, &mut [0; 8]));
        waits.kill();
        reads.kill();
        assert!(waits.join().is_err());
        assert!(reads.join().is_err());
        assert_eq!(object.watchers().len(), 1, "the epoll");
        object.add(1).unwrap();
        assert_eq!(crate::poll(&table, epfd), [(fd, Events::IN)]);
    });
}

#[test]
fn a_future_that_is_dropped_takes_nothing() {
    let table = FdTable::new(16);
    let (epfd, (fd, object)) = (table.epoll_create().unwrap(), counter(&table, 0));
    table.epoll_ctl(epfd, EpollOp::Add, fd, Events::IN).unwrap();
    let mut events = [EpollEvent::default(); 1];
    {
        let mut wait = pin!(table.epoll_wait_async(epfd, &mut events, None));
        assert_eq!(poll_once(wait.as_mut()), Poll::Pending);
        assert_eq!(poll_once(wait.as_mut()), Poll::Pending);
    }
    object.add(1).unwrap();
    table.close(fd).unwrap();
    assert_eq!(table.object(epfd).unwrap().metrics().wakeups, 0, "nobody waits any more");
    assert_eq!(crate::poll(&table, epfd), [(fd, Events::HUP)]);
}

#[test]
fn a_blocking_wait_inside_a_poll_is_refused() {
    let outcome = Runtime::new().run(|| {
        let table = FdTable::new(16);
        let epfd = table.epoll_create().unwrap();
        let (fd, _) = counter(&table, 0);
        block_on(async { (wait(&table, epfd, None), table.read(fd, &mut [0; 8])) }).unwrap()
    });
    assert_eq!(outcome.unwrap(), (Err(Errno::EDEADLK), Err(Errno::EDEADLK)));
}

#[test]
fn all_who_wait_on_one_epoll_are_woken() {
    with_runtimes(|runtime| {
        let table = Arc::new(FdTable::new(16));
        let (epfd, (fd, object)) = (table.epoll_create().unwrap(), counter(&table, 0));
        table.epoll_ctl(epfd, EpollOp::Add, fd, Events::IN).unwrap();
        let waits: Vec<_> = (0..8)
            .map(|_| {
                let table = table.clone();
                runtime.spawn(move || wait(&table, epfd, None))
            })
            .collect();
        object.add(1).unwrap();
        for wait in waits {
            assert_eq!(wait.join().unwrap().unwrap(), [(fd, Events::IN)]);
        }
    });
}

#[test]
fn an_event_that_is_not_watched_wakes_nobody() {
    with_manual_clock(|| {
        let table = Arc::new(FdTable::new(16));
        let (epfd, (fd, object)) = (table.epoll_create().unwrap(), counter(&table, 5));
        table.epoll_ctl(epfd, EpollOp::Add, fd, Events::NONE).unwrap();
        let waiting = table.clone();
        let waits = spawn(move || wait(&waiting, epfd, Some(Duration::from_secs(1))));
        sinew_sched::sleep(Duration::from_millis(100));
        object.add(1).unwrap();
        object.read(&mut [0; 8]).unwrap();
        assert_eq!(waits.join().unwrap().unwrap(), []);
        let wakeups = table.object(epfd).unwrap().metrics().wakeups;
        assert_eq!(wakeups, 0);
    });
}

#[test]
fn a_loop_over_what_is_always_ready_ends_when_its_task_is_cancelled_or_killed() {
    with_runtimes(|runtime| {
        let table = Arc::new(FdTable::new(16));
        let (epfd, (fd, _)) = (table.epoll_create().unwrap(), counter(&table, 1));
        table.epoll_ctl(epfd, EpollOp::Add, fd, Events::OUT).unwrap();
        let endless = || {
            let table = table.clone();
            runtime.spawn(move || {
                loop {
                    if let Err(errno) = wait(&table, epfd, None) {
                        return errno;
                    }
                    if let Err(errno) = table.ready(fd, Events::OUT, None) {
                        return errno;
                    }
                }
            })
        };
        let (cancelled, killed) = (endless(), endless());
        cancelled.cancel();
        assert_eq!(cancelled.join().unwrap(), Errno::ECANCELED);
        killed.kill();
        assert!(killed.join().is_err());
    });
}

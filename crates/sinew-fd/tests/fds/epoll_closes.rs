//! Closing what is waited for: every kind of close ends or wakes a wait without a timeout.

use std::sync::Arc;
use std::time::Duration;

use sinew_fd::{EpollOp, Errno, Events, FdTable, Flags};
use sinew_sched::JoinHandle;
use sinew_test_kit::runtimes::{spin_until, with_runtimes};

use crate::{counter, wait};

type Waiting = JoinHandle<Result<Vec<(i32, Events)>, Errno>>;

/// Runs `test` with a table whose fd 3 is an epoll that a task waits on, and fd 4 a counter that the epoll watches.
fn with_wait(test: impl Fn(&Arc<FdTable>, Waiting)) {
    with_runtimes(|runtime| {
        for settled in [true, false] {
            let table = Arc::new(FdTable::new(16));
            let (epfd, (fd, _)) = (table.epoll_create().unwrap(), counter(&table, 0));
            table.epoll_ctl(epfd, EpollOp::Add, fd, Events::IN).unwrap();
            let waiting = table.clone();
            let waits = runtime.spawn(move || wait(&waiting, epfd, None));
            if settled {
                spin_until(|| runtime.dump().to_string().contains("epoll wait"));
            }
            test(&table, waits);
        }
    });
}

#[test]
fn closing_a_watched_fd_wakes_with_hup() {
    with_wait(|table, waits| {
        table.close(4).unwrap();
        assert_eq!(waits.join().unwrap(), Ok(vec![(4, Events::HUP)]));
    });
}

#[test]
fn closing_the_epoll_ends_the_wait_with_ebadf() {
    with_wait(|table, waits| {
        table.epoll_close(3).unwrap();
        assert_eq!(waits.join().unwrap(), Err(Errno::EBADF));
    });
}

#[test]
fn closing_the_table_ends_the_wait_with_ebadf() {
    with_wait(|table, waits| {
        table.close_all();
        let outcome = waits.join().unwrap();
        assert!(matches!(outcome, Err(Errno::EBADF)) || outcome == Ok(vec![(4, Events::HUP)]), "{outcome:?}");
    });
}

#[test]
fn moving_a_watched_fd_away_wakes_with_hup() {
    with_wait(|table, waits| {
        let moved = table.take(4).unwrap();
        assert_eq!(waits.join().unwrap(), Ok(vec![(4, Events::HUP)]));
        drop(moved);
    });
}

#[test]
fn a_reload_that_closes_a_watched_fd_wakes_with_hup() {
    with_wait(|table, waits| {
        table.change_flags(4, Flags::CLOEXEC, Flags::NONE).unwrap();
        table.close_on_reload();
        assert_eq!(waits.join().unwrap(), Ok(vec![(4, Events::HUP)]));
    });
}

#[test]
fn closing_one_number_of_an_epoll_ends_the_waits_through_that_number() {
    with_wait(|table, waits| {
        let second = table.dup(3).unwrap();
        table.close(3).unwrap();
        assert_eq!(waits.join().unwrap(), Err(Errno::EBADF));
        table.write(4, &1_u64.to_le_bytes()).unwrap();
        assert_eq!(wait(table, second, None), Ok(vec![(4, Events::IN)]), "the epoll itself goes on");
    });
}

#[test]
fn an_interruption_ends_the_wait_and_not_the_next_one() {
    with_runtimes(|runtime| {
        let table = Arc::new(FdTable::new(16));
        let (epfd, (fd, _)) = (table.epoll_create().unwrap(), counter(&table, 0));
        table.epoll_ctl(epfd, EpollOp::Add, fd, Events::IN).unwrap();
        let waiting = table.clone();
        let waits = runtime.spawn(move || wait(&waiting, epfd, None));
        spin_until(|| runtime.dump().to_string().contains("epoll wait"));
        let waiting = table.clone();
        let reads = runtime.spawn(move || waiting.read(fd, &mut [0; 8]));
        spin_until(|| runtime.dump().to_string().contains("fd readable"));
        table.interrupt();
        assert_eq!(waits.join().unwrap(), Err(Errno::ECANCELED));
        assert_eq!(reads.join().unwrap(), Err(Errno::ECANCELED));
        assert_eq!(wait(&table, epfd, Some(Duration::ZERO)), Ok(vec![]));
    });
}

#[test]
fn the_close_of_a_watched_fd_is_reported_once() {
    let table = FdTable::new(16);
    let (epfd, (fd, _)) = (table.epoll_create().unwrap(), counter(&table, 0));
    table.epoll_ctl(epfd, EpollOp::Add, fd, Events::IN).unwrap();
    table.close(fd).unwrap();
    assert_eq!(crate::poll(&table, epfd), [(fd, Events::HUP)]);
    assert_eq!(crate::poll(&table, epfd), []);
    assert_eq!(table.epoll_ctl(epfd, EpollOp::Delete, fd, Events::NONE), Err(Errno::EBADF));
}

#[test]
fn closes_that_do_not_fit_into_the_buffer_are_reported_later() {
    let table = FdTable::new(64);
    let epfd = table.epoll_create().unwrap();
    let fds: Vec<i32> = (0..6).map(|_| counter(&table, 0).0).collect();
    for fd in &fds {
        table.epoll_ctl(epfd, EpollOp::Add, *fd, Events::IN).unwrap();
    }
    fds.iter().for_each(|fd| table.close(*fd).unwrap());
    let mut reported = Vec::new();
    let mut events = [sinew_fd::EpollEvent::default(); 4];
    loop {
        match table.epoll_wait(epfd, &mut events, Some(Duration::ZERO)).unwrap() {
            0 => break,
            count => reported.extend(events[..count].iter().map(|event| event.fd)),
        }
    }
    assert_eq!(reported, fds);
}

//! What epoll_ctl accepts, and what a wait reports.

use std::path::Path;
use std::time::Duration;

use sinew_fd::{Access, Directory, EpollEvent, EpollOp, Errno, Events, FdTable, Flags, OpenOptions, pipe};

use crate::{counter, poll};

#[test]
fn an_empty_watch_set_times_out_with_nothing() {
    let table = FdTable::new(16);
    let epfd = table.epoll_create().unwrap();
    let mut events = [EpollEvent::default(); 4];
    assert_eq!(table.epoll_wait(epfd, &mut events, Some(Duration::ZERO)), Ok(0));
    assert_eq!(table.epoll_wait(epfd, &mut events, Some(Duration::from_millis(2))), Ok(0));
}

#[test]
fn an_empty_buffer_is_enospc() {
    let table = FdTable::new(16);
    let epfd = table.epoll_create().unwrap();
    assert_eq!(table.epoll_wait(epfd, &mut [], None), Err(Errno::ENOSPC));
}

#[test]
fn records_are_packed_little_endian() {
    let record = EpollEvent { fd: 0x0102_0304, events: Events::IN | Events::HUP };
    assert_eq!(record.to_bytes(), [4, 3, 2, 1, 0x11, 0, 0, 0]);
}

#[test]
fn operations_have_the_numbers_of_the_abi() {
    assert_eq!(EpollOp::from_number(1), Some(EpollOp::Add));
    assert_eq!(EpollOp::from_number(2), Some(EpollOp::Modify));
    assert_eq!(EpollOp::from_number(3), Some(EpollOp::Delete));
    assert_eq!([0, 4, -1].map(EpollOp::from_number), [None; 3]);
}

#[test]
fn a_second_add_is_eexist_and_changes_nothing() {
    let table = FdTable::new(16);
    let (epfd, (fd, _)) = (table.epoll_create().unwrap(), counter(&table, 1));
    table.epoll_ctl(epfd, EpollOp::Add, fd, Events::IN).unwrap();
    assert_eq!(table.epoll_ctl(epfd, EpollOp::Add, fd, Events::OUT), Err(Errno::EEXIST));
    assert_eq!(poll(&table, epfd), [(fd, Events::IN)]);
}

#[test]
fn mod_and_del_of_an_unwatched_fd_are_enoent() {
    let table = FdTable::new(16);
    let (epfd, (fd, _)) = (table.epoll_create().unwrap(), counter(&table, 1));
    assert_eq!(table.epoll_ctl(epfd, EpollOp::Modify, fd, Events::IN), Err(Errno::ENOENT));
    assert_eq!(table.epoll_ctl(epfd, EpollOp::Delete, fd, Events::NONE), Err(Errno::ENOENT));
    assert_eq!(poll(&table, epfd), []);
}

#[test]
fn unknown_numbers_are_ebadf() {
    let table = FdTable::new(16);
    let (epfd, (fd, _)) = (table.epoll_create().unwrap(), counter(&table, 1));
    for op in [EpollOp::Add, EpollOp::Modify, EpollOp::Delete] {
        assert_eq!(table.epoll_ctl(epfd, op, 40, Events::IN), Err(Errno::EBADF));
        assert_eq!(table.epoll_ctl(40, op, fd, Events::IN), Err(Errno::EBADF));
    }
    let mut events = [EpollEvent::default(); 1];
    assert_eq!(table.epoll_wait(40, &mut events, None), Err(Errno::EBADF));
}

#[test]
fn a_number_that_is_no_epoll_is_einval_where_an_epoll_is_wanted() {
    let table = FdTable::new(16);
    let (a, b) = (counter(&table, 1).0, counter(&table, 1).0);
    assert_eq!(table.epoll_ctl(a, EpollOp::Add, b, Events::IN), Err(Errno::EINVAL));
    assert_eq!(table.epoll_wait(a, &mut [EpollEvent::default()], None), Err(Errno::EINVAL));
    assert_eq!(table.epoll_close(a), Err(Errno::EINVAL));
    assert!(table.flags(a).is_ok(), "it was not closed");
}

#[test]
fn an_epoll_watches_neither_itself_nor_another() {
    let table = FdTable::new(16);
    let (a, b) = (table.epoll_create().unwrap(), table.epoll_create().unwrap());
    assert_eq!(table.epoll_ctl(a, EpollOp::Add, a, Events::IN), Err(Errno::EINVAL));
    assert_eq!(table.epoll_ctl(a, EpollOp::Add, b, Events::IN), Err(Errno::EINVAL));
}

#[test]
fn a_file_cannot_be_watched() {
    let table = FdTable::new(16);
    let epfd = table.epoll_create().unwrap();
    let root = Directory::grant(Path::new(env!("CARGO_MANIFEST_DIR")), Access::ReadOnly).unwrap();
    let options = OpenOptions { read: true, ..OpenOptions::default() };
    let file = root.open_file(Path::new("Cargo.toml"), options).unwrap();
    let fds = [table.open(file, Flags::NONE).unwrap(), table.open(root, Flags::NONE).unwrap()];
    for fd in fds {
        assert_eq!(table.epoll_ctl(epfd, EpollOp::Add, fd, Events::IN), Err(Errno::EPERM));
    }
}

#[test]
fn err_and_hup_are_reported_without_being_asked_for() {
    let table = FdTable::new(16);
    let epfd = table.epoll_create().unwrap();
    let (reader, writer) = pipe(4);
    let (reader, writer) =
        (table.open(reader, Flags::NONE).unwrap(), table.open(writer, Flags::NONE).unwrap());
    table.epoll_ctl(epfd, EpollOp::Add, writer, Events::NONE).unwrap();
    assert_eq!(poll(&table, epfd), []);
    table.close(reader).unwrap();
    assert_eq!(poll(&table, epfd), [(writer, Events::ERR | Events::HUP)]);
}

#[test]
fn readiness_is_reported_as_long_as_it_lasts() {
    let table = FdTable::new(16);
    let (epfd, (fd, _)) = (table.epoll_create().unwrap(), counter(&table, 1));
    table.epoll_ctl(epfd, EpollOp::Add, fd, Events::IN | Events::OUT).unwrap();
    for _ in 0..3 {
        assert_eq!(poll(&table, epfd), [(fd, Events::IN | Events::OUT)]);
    }
    table.read(fd, &mut [0; 8]).unwrap();
    assert_eq!(poll(&table, epfd), [(fd, Events::OUT)]);
}

#[test]
fn mod_changes_what_is_reported_at_once() {
    let table = FdTable::new(16);
    let (epfd, (fd, _)) = (table.epoll_create().unwrap(), counter(&table, 1));
    table.epoll_ctl(epfd, EpollOp::Add, fd, Events::NONE).unwrap();
    assert_eq!(poll(&table, epfd), []);
    table.epoll_ctl(epfd, EpollOp::Modify, fd, Events::IN).unwrap();
    assert_eq!(poll(&table, epfd), [(fd, Events::IN)]);
    table.epoll_ctl(epfd, EpollOp::Modify, fd, Events::OUT).unwrap();
    assert_eq!(poll(&table, epfd), [(fd, Events::OUT)]);
}

#[test]
fn del_ends_reports_and_add_begins_them_again() {
    let table = FdTable::new(16);
    let (epfd, (fd, object)) = (table.epoll_create().unwrap(), counter(&table, 1));
    for _ in 0..3 {
        table.epoll_ctl(epfd, EpollOp::Add, fd, Events::IN).unwrap();
        assert_eq!(poll(&table, epfd), [(fd, Events::IN)]);
        table.epoll_ctl(epfd, EpollOp::Delete, fd, Events::NONE).unwrap();
        object.add(1).unwrap();
        assert_eq!(poll(&table, epfd), []);
    }
}

#[test]
fn each_fd_is_reported_once_in_ascending_order() {
    let table = FdTable::new(64);
    let epfd = table.epoll_create().unwrap();
    let mut fds: Vec<i32> = (0..20).map(|_| counter(&table, 0).0).collect();
    for fd in fds.iter().rev() {
        table.epoll_ctl(epfd, EpollOp::Add, *fd, Events::IN).unwrap();
    }
    for fd in [&fds[7], &fds[3], &fds[19], &fds[7], &fds[3]] {
        table.write(*fd, &1_u64.to_le_bytes()).unwrap();
    }
    let reported: Vec<i32> = poll(&table, epfd).into_iter().map(|(fd, _)| fd).collect();
    fds = vec![fds[3], fds[7], fds[19]];
    assert_eq!(reported, fds);
}

#[test]
fn no_fd_starves_when_the_buffer_is_small() {
    let table = FdTable::new(64);
    let epfd = table.epoll_create().unwrap();
    let fds: Vec<i32> = (0..10).map(|_| counter(&table, 1).0).collect();
    for fd in &fds {
        table.epoll_ctl(epfd, EpollOp::Add, *fd, Events::IN).unwrap();
    }
    for capacity in 1..=10 {
        let mut events = vec![EpollEvent::default(); capacity];
        let mut counts = vec![0; fds.len()];
        for _ in 0..100 {
            let count = table.epoll_wait(epfd, &mut events, None).unwrap();
            assert_eq!(count, capacity);
            assert!(events.is_sorted_by(|a, b| a.fd < b.fd), "{events:?}");
            events.iter().for_each(|event| counts[(event.fd - fds[0]) as usize] += 1);
        }
        let least = counts.iter().min().unwrap();
        assert!(*least >= 100 / (10_usize.div_ceil(capacity)), "with {capacity} places: {counts:?}");
    }
}

#[test]
fn the_next_wait_begins_after_the_highest_fd_that_was_reported() {
    let table = FdTable::new(64);
    let epfd = table.epoll_create().unwrap();
    for _ in 0..5 {
        let (fd, _) = counter(&table, 1);
        table.epoll_ctl(epfd, EpollOp::Add, fd, Events::IN).unwrap();
    }
    let mut events = [EpollEvent::default(); 2];
    let mut reported = Vec::new();
    for _ in 0..4 {
        table.epoll_wait(epfd, &mut events, None).unwrap();
        reported.push([events[0].fd, events[1].fd]);
    }
    assert_eq!(reported, [[4, 5], [6, 7], [4, 8], [4, 5]]);
}

#[test]
fn two_epolls_watch_one_fd_independently() {
    let table = FdTable::new(16);
    let (a, b) = (table.epoll_create().unwrap(), table.epoll_create().unwrap());
    let (fd, _) = counter(&table, 0);
    table.epoll_ctl(a, EpollOp::Add, fd, Events::IN).unwrap();
    table.epoll_ctl(b, EpollOp::Add, fd, Events::OUT).unwrap();
    assert_eq!((poll(&table, a), poll(&table, b)), (vec![], vec![(fd, Events::OUT)]));
    table.write(fd, &1_u64.to_le_bytes()).unwrap();
    assert_eq!((poll(&table, a), poll(&table, b)), (vec![(fd, Events::IN)], vec![(fd, Events::OUT)]));
    table.epoll_close(b).unwrap();
    assert_eq!(poll(&table, a), [(fd, Events::IN)]);
}

#[test]
fn a_duplicate_is_watched_apart_from_its_original() {
    let table = FdTable::new(16);
    let epfd = table.epoll_create().unwrap();
    let (fd, _) = counter(&table, 1);
    let second = table.dup(fd).unwrap();
    for fd in [fd, second] {
        table.epoll_ctl(epfd, EpollOp::Add, fd, Events::IN).unwrap();
    }
    assert_eq!(poll(&table, epfd), [(fd, Events::IN), (second, Events::IN)]);
    table.close(fd).unwrap();
    assert_eq!(poll(&table, epfd), [(fd, Events::HUP), (second, Events::IN)]);
    assert_eq!(poll(&table, epfd), [(second, Events::IN)]);
}

//! Numbers: which are given out, when, and for how long.

use sinew_fd::{Descriptor, EpollOp, Errno, EventCounter, Events, FdObject, FdTable, Flags, pipe};

use crate::{counter, poll};

#[test]
fn numbers_start_at_three_and_the_lowest_free_one_is_next() {
    let table = FdTable::new(64);
    let numbers: Vec<i32> = (0..4).map(|_| counter(&table, 0).0).collect();
    assert_eq!(numbers, [3, 4, 5, 6]);
    table.close(5).unwrap();
    table.close(4).unwrap();
    assert_eq!([counter(&table, 0).0, counter(&table, 0).0, counter(&table, 0).0], [4, 5, 7]);
}

#[test]
fn numbers_of_stdio_are_not_given_out_again() {
    let table = FdTable::new(64);
    table.close(0).unwrap();
    table.close(1).unwrap();
    assert_eq!(counter(&table, 0).0, 3);
    assert_eq!(table.close(0), Err(Errno::EBADF));
}

#[test]
fn a_full_table_refuses_with_emfile_and_closes_the_object() {
    let table = FdTable::new(5);
    counter(&table, 0);
    let (four, _) = counter(&table, 0);
    let refused = EventCounter::new(0);
    assert_eq!(table.open(refused.clone(), Flags::NONE), Err(Errno::EMFILE));
    assert_eq!(refused.poll_mask(), Events::HUP);
    assert_eq!(table.dup(four), Err(Errno::EMFILE));
    assert!(!table.poll_mask(four).unwrap().contains(Events::HUP), "a dup that failed closes nothing");
    table.close(four).unwrap();
    assert_eq!(counter(&table, 0).0, 4);
}

#[test]
fn unknown_and_closed_numbers_are_ebadf_everywhere() {
    let table = FdTable::new(64);
    let (closed, _) = counter(&table, 0);
    table.close(closed).unwrap();
    for fd in [closed, 40, -1, i32::MIN, i32::MAX] {
        assert_eq!(table.close(fd), Err(Errno::EBADF));
        assert_eq!(table.read(fd, &mut [0; 8]), Err(Errno::EBADF));
        assert_eq!(table.write(fd, &[0; 8]), Err(Errno::EBADF));
        assert_eq!(table.dup(fd), Err(Errno::EBADF));
        assert_eq!(table.flags(fd), Err(Errno::EBADF));
        assert_eq!(table.poll_mask(fd), Err(Errno::EBADF));
        assert_eq!(table.take(fd).unwrap_err(), Errno::EBADF);
        assert_eq!(table.epoll_close(fd), Err(Errno::EBADF));
    }
}

#[test]
fn a_closed_number_is_reserved_until_each_epoll_has_reported_it() {
    let table = FdTable::new(64);
    let (fd, _) = counter(&table, 0);
    let epolls = [table.epoll_create().unwrap(), table.epoll_create().unwrap()];
    for epfd in epolls {
        table.epoll_ctl(epfd, EpollOp::Add, fd, Events::IN).unwrap();
    }
    table.close(fd).unwrap();
    assert_eq!(counter(&table, 0).0, 6);
    assert_eq!(poll(&table, epolls[0]), [(fd, Events::HUP)]);
    assert_eq!(counter(&table, 0).0, 7, "the other epoll has not reported it");
    assert_eq!(poll(&table, epolls[1]), [(fd, Events::HUP)]);
    assert_eq!(counter(&table, 0).0, fd);
    assert_eq!(poll(&table, epolls[0]), [], "the new object is not watched");
}

#[test]
fn a_reserved_number_is_freed_by_del_and_by_the_close_of_the_epoll() {
    let table = FdTable::new(64);
    let (fd, _) = counter(&table, 0);
    let epolls = [table.epoll_create().unwrap(), table.epoll_create().unwrap()];
    for epfd in epolls {
        table.epoll_ctl(epfd, EpollOp::Add, fd, Events::IN).unwrap();
    }
    table.close(fd).unwrap();
    table.epoll_ctl(epolls[0], EpollOp::Delete, fd, Events::NONE).unwrap();
    assert_eq!(table.epoll_ctl(epolls[0], EpollOp::Delete, fd, Events::NONE), Err(Errno::EBADF));
    assert_eq!(counter(&table, 0).0, 6);
    table.epoll_close(epolls[1]).unwrap();
    assert_eq!(counter(&table, 0).0, fd);
}

#[test]
fn reserved_numbers_count_against_the_limit() {
    let table = FdTable::new(5);
    let epfd = table.epoll_create().unwrap();
    let (fd, _) = counter(&table, 0);
    table.epoll_ctl(epfd, EpollOp::Add, fd, Events::IN).unwrap();
    table.close(fd).unwrap();
    assert_eq!(table.open(EventCounter::new(0), Flags::NONE), Err(Errno::EMFILE));
    assert_eq!(poll(&table, epfd), [(fd, Events::HUP)]);
    assert_eq!(counter(&table, 0).0, fd);
}

#[test]
fn dup_shares_the_object_and_the_last_close_closes_it() {
    let table = FdTable::new(64);
    let (fd, object) = counter(&table, 0);
    table.change_flags(fd, Flags::ALL, Flags::NONE).unwrap();
    let second = table.dup(fd).unwrap();
    assert_eq!(table.flags(second), Ok(Flags::NONBLOCK), "the reload flag is not inherited");
    table.write(fd, &7_u64.to_le_bytes()).unwrap();
    table.close(fd).unwrap();
    let mut record = [0; 8];
    table.read(second, &mut record).unwrap();
    assert_eq!(u64::from_le_bytes(record), 7);
    assert!(!object.poll_mask().contains(Events::HUP));
    table.close(second).unwrap();
    assert_eq!(object.poll_mask(), Events::HUP);
}

#[test]
fn a_descriptor_moves_from_one_table_to_another() {
    let (from, to) = (FdTable::new(16), FdTable::new(16));
    let (reader, writer) = pipe(16);
    let (reader, writer) =
        (from.open(reader, Flags::NONBLOCK).unwrap(), from.open(writer, Flags::NONE).unwrap());
    from.write(writer, b"in transit").unwrap();
    let moved = from.take(reader).unwrap();
    assert_eq!(from.read(reader, &mut [0; 16]), Err(Errno::EBADF));
    let fd = to.insert(moved).unwrap();
    assert_eq!(to.flags(fd), Ok(Flags::NONBLOCK));
    let mut buffer = [0; 16];
    assert_eq!(to.read(fd, &mut buffer), Ok(10));
    from.write(writer, b"x").unwrap();
    assert_eq!(to.poll_mask(fd), Ok(Events::IN));
}

#[test]
fn an_epoll_that_watches_a_moved_descriptor_reports_hup_once() {
    let table = FdTable::new(16);
    let (fd, object) = counter(&table, 1);
    let epfd = table.epoll_create().unwrap();
    table.epoll_ctl(epfd, EpollOp::Add, fd, Events::IN).unwrap();
    let moved = table.take(fd).unwrap();
    assert_eq!(poll(&table, epfd), [(fd, Events::HUP)]);
    object.add(1).unwrap();
    assert_eq!(poll(&table, epfd), []);
    assert!(object.watchers().is_empty());
    drop(moved);
    assert_eq!(object.poll_mask(), Events::HUP, "a descriptor that is not delivered is closed");
}

#[test]
fn a_full_table_gives_a_moved_descriptor_back() {
    let table = FdTable::new(3);
    let object = EventCounter::new(0);
    let error = table.insert(Descriptor::new(object.clone(), Flags::NONE)).unwrap_err();
    assert_eq!(error.errno, Errno::EMFILE);
    assert!(error.to_string().contains("EMFILE"), "{error}");
    assert!(!object.poll_mask().contains(Events::HUP));
    drop(error);
    assert_eq!(object.poll_mask(), Events::HUP);
}

#[test]
fn epolls_and_stdio_cannot_be_moved() {
    let table = FdTable::new(16);
    let epfd = table.epoll_create().unwrap();
    for fd in [0, 1, 2, epfd] {
        assert_eq!(table.take(fd).unwrap_err(), Errno::EPERM);
        assert!(table.flags(fd).is_ok(), "it is still there");
    }
}

#[test]
fn a_reload_closes_what_has_cloexec_and_nothing_else() {
    let table = FdTable::new(16);
    let (kept, _) = counter(&table, 0);
    let (closed, object) = counter(&table, 0);
    table.change_flags(closed, Flags::CLOEXEC, Flags::NONE).unwrap();
    table.close_on_reload();
    assert_eq!(table.open_fds(), [0, 1, 2, kept]);
    assert_eq!(object.poll_mask(), Events::HUP);
}

#[test]
fn closing_the_table_closes_everything_and_refuses_new_numbers() {
    let table = FdTable::new(16);
    let (_, object) = counter(&table, 0);
    let epfd = table.epoll_create().unwrap();
    table.epoll_ctl(epfd, EpollOp::Add, 3, Events::IN).unwrap();
    table.close_all();
    assert_eq!(table.open_fds(), Vec::<i32>::new());
    assert_eq!(object.poll_mask(), Events::HUP);
    assert!(object.watchers().is_empty());
    assert_eq!(table.open(EventCounter::new(0), Flags::NONE), Err(Errno::EBADF));
}

#[test]
fn dropping_the_table_closes_everything() {
    let table = FdTable::new(16);
    let (_, object) = counter(&table, 0);
    drop(table);
    assert_eq!(object.poll_mask(), Events::HUP);
}

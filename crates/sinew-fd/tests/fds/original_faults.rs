//! Faults of the system that this design goes back to, each as the behaviour that users have here instead.

use std::sync::Arc;
use std::time::Duration;

use sinew_fd::{EpollEvent, EpollOp, Errno, EventCounter, Events, FdTable, Flags, pipe};
use sinew_test_kit::runtimes::{rounds, spin_until, with_runtimes};

use crate::{counter, poll, wait};

/// Lost wake-up: a notification between the scan and the sleep of a wait without a timeout.
#[test]
fn a_notification_between_scan_and_sleep_is_not_lost() {
    let table = FdTable::new(16);
    let (epfd, (fd, object)) = (table.epoll_create().unwrap(), counter(&table, 0));
    table.epoll_ctl(epfd, EpollOp::Add, fd, Events::IN).unwrap();
    std::thread::scope(|scope| {
        let count = rounds(20_000);
        scope.spawn(move || {
            for _ in 0..count {
                object.add(1).unwrap();
                std::thread::yield_now();
            }
        });
        let mut seen = 0;
        while seen < count as u64 {
            assert_eq!(wait(&table, epfd, None), Ok(vec![(fd, Events::IN)]));
            let mut record = [0; 8];
            table.read(fd, &mut record).unwrap();
            seen += u64::from_le_bytes(record);
        }
    });
}

/// A wait on an epoll that is closed meanwhile spun at full speed.
#[test]
fn a_wait_on_an_epoll_that_is_closed_ends_instead_of_spinning() {
    with_runtimes(|runtime| {
        let table = Arc::new(FdTable::new(16));
        let epfd = table.epoll_create().unwrap();
        let waiting = table.clone();
        let waits = runtime.spawn(move || wait(&waiting, epfd, None));
        spin_until(|| runtime.dump().to_string().contains("epoll wait"));
        table.epoll_close(epfd).unwrap();
        assert_eq!(waits.join().unwrap(), Err(Errno::EBADF));
    });
}

/// Ending an instance did not wake its blocked calls.
#[test]
fn the_end_of_an_actor_wakes_its_blocked_calls() {
    with_runtimes(|runtime| {
        let table = Arc::new(FdTable::new(16));
        let (epfd, (fd, _)) = (table.epoll_create().unwrap(), counter(&table, 0));
        let (waiting, reading) = (table.clone(), table.clone());
        let waits = runtime.spawn(move || wait(&waiting, epfd, None));
        let reads = runtime.spawn(move || reading.read(fd, &mut [0; 8]));
        table.close_all();
        assert_eq!(waits.join().unwrap(), Err(Errno::EBADF));
        assert_eq!(reads.join().unwrap(), Err(Errno::EBADF));
    });
}

/// A buffer that was too small lost the item.
#[test]
fn a_small_buffer_loses_no_item() {
    let table = FdTable::new(16);
    let (fd, _) = counter(&table, 3);
    for length in 0..8 {
        assert_eq!(table.read(fd, &mut vec![0; length]), Err(Errno::ENOSPC));
    }
    assert_eq!(table.read(fd, &mut [0; 8]), Ok(8));
}

/// The hang-up of a peer was overwritten by the next change, and the end was never seen.
#[test]
fn a_hang_up_of_the_peer_stays_and_the_end_is_read() {
    let table = FdTable::new(16);
    let epfd = table.epoll_create().unwrap();
    let (reader, writer) = pipe(16);
    let (reader, writer) =
        (table.open(reader, Flags::NONE).unwrap(), table.open(writer, Flags::NONE).unwrap());
    table.epoll_ctl(epfd, EpollOp::Add, reader, Events::IN).unwrap();
    table.write(writer, b"ab").unwrap();
    table.close(writer).unwrap();
    for expected in [1, 1, 0, 0] {
        assert_eq!(poll(&table, epfd), [(reader, Events::IN | Events::HUP)]);
        assert_eq!(table.read(reader, &mut [0; 1]), Ok(expected));
    }
}

/// Numbers and buffers were kept for ever.
#[test]
fn closed_objects_are_freed_and_their_numbers_used_again() {
    let table = FdTable::new(8);
    let epfd = table.epoll_create().unwrap();
    for _ in 0..1000 {
        let object = EventCounter::new(1);
        let weak = Arc::downgrade(&object);
        let fd = table.open(object, Flags::NONE).unwrap();
        assert_eq!(fd, 4);
        table.epoll_ctl(epfd, EpollOp::Add, fd, Events::IN).unwrap();
        table.close(fd).unwrap();
        assert_eq!(poll(&table, epfd), [(fd, Events::HUP)]);
        assert!(weak.upgrade().is_none(), "the object is freed");
    }
}

/// `OUT` did not promise that a write succeeds; a chunk larger than the queue was refused for ever.
#[test]
fn out_promises_that_a_write_succeeds_and_large_writes_are_split() {
    let table = FdTable::new(16);
    let (reader, writer) = pipe(8);
    let (reader, writer) =
        (table.open(reader, Flags::NONE).unwrap(), table.open(writer, Flags::NONBLOCK).unwrap());
    assert_eq!(table.write(writer, &[1; 100]), Ok(8));
    assert_eq!(table.write(writer, &[1; 100]), Err(Errno::EAGAIN));
    assert_eq!(table.read(reader, &mut [0; 1]), Ok(1));
    assert_eq!(table.poll_mask(writer), Ok(Events::OUT));
    assert_eq!(table.write(writer, &[1; 100]), Ok(1));
}

/// A changed watch was not registered with its object, and never woke a wait.
#[test]
fn a_watch_that_was_changed_wakes_a_wait() {
    let table = FdTable::new(16);
    let (epfd, (fd, object)) = (table.epoll_create().unwrap(), counter(&table, 0));
    table.epoll_ctl(epfd, EpollOp::Add, fd, Events::NONE).unwrap();
    table.epoll_ctl(epfd, EpollOp::Modify, fd, Events::IN).unwrap();
    std::thread::scope(|scope| {
        let waits = scope.spawn(|| wait(&table, epfd, None));
        object.add(1).unwrap();
        assert_eq!(waits.join().unwrap(), Ok(vec![(fd, Events::IN)]));
    });
}

/// Ascending order with a small buffer starved high numbers; a wait scanned everything that was watched.
#[test]
fn a_wait_looks_at_what_is_ready_and_not_at_what_is_watched() {
    let table = FdTable::new(20_000);
    let epfd = table.epoll_create().unwrap();
    let objects: Vec<_> = (0..10_000).map(|_| counter(&table, 0)).collect();
    for (fd, _) in &objects {
        table.epoll_ctl(epfd, EpollOp::Add, *fd, Events::IN).unwrap();
    }
    assert_eq!(poll(&table, epfd), []);
    let depth = || table.object(epfd).unwrap().metrics().queue_depth;
    assert_eq!(depth(), 0, "nothing is a candidate any more");
    let (fd, object) = &objects[7_777];
    object.add(1).unwrap();
    assert_eq!(depth(), 1);
    let mut events = [EpollEvent::default(); 1];
    assert_eq!(table.epoll_wait(epfd, &mut events, Some(Duration::ZERO)), Ok(1));
    assert_eq!(events[0].fd, *fd);
}

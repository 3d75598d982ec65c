//! Blocking and non-blocking reads and writes, and waits for one number.

use std::sync::Arc;
use std::time::Duration;

use sinew_fd::{Errno, Events, FdTable, Flags, pipe};
use sinew_sched::{block_on, now};
use sinew_test_kit::runtimes::{spin_until, with_manual_clock, with_runtimes};

use crate::counter;

fn open_pipe(table: &FdTable, capacity: usize) -> (i32, i32) {
    let (reader, writer) = pipe(capacity);
    (table.open(reader, Flags::NONE).unwrap(), table.open(writer, Flags::NONE).unwrap())
}

#[test]
fn nonblock_decides_whether_an_empty_read_waits() {
    with_runtimes(|runtime| {
        let table = Arc::new(FdTable::new(16));
        let (reader, writer) = open_pipe(&table, 8);
        table.change_flags(reader, Flags::NONBLOCK, Flags::NONE).unwrap();
        assert_eq!(table.read(reader, &mut [0; 8]), Err(Errno::EAGAIN));
        table.change_flags(reader, Flags::NONE, Flags::NONBLOCK).unwrap();
        let reading = table.clone();
        let reads = runtime.spawn(move || reading.read(reader, &mut [0; 8]));
        table.write(writer, b"abc").unwrap();
        assert_eq!(reads.join().unwrap(), Ok(3));
    });
}

#[test]
fn a_write_to_a_full_pipe_waits_for_room() {
    with_runtimes(|runtime| {
        let table = Arc::new(FdTable::new(16));
        let (reader, writer) = open_pipe(&table, 4);
        assert_eq!(table.write(writer, b"abcdef"), Ok(4), "as much as fits");
        let writing = table.clone();
        let writes = runtime.spawn(move || writing.write(writer, b"gh"));
        assert_eq!(table.read(reader, &mut [0; 1]), Ok(1));
        assert_eq!(writes.join().unwrap(), Ok(1));
    });
}

#[test]
fn bytes_pass_through_a_small_pipe_in_order() {
    with_runtimes(|runtime| {
        let table = Arc::new(FdTable::new(16));
        let (reader, writer) = open_pipe(&table, 7);
        let writing = table.clone();
        let writes = runtime.spawn(move || {
            let bytes: Vec<u8> = (0..10_000_u32).map(|number| number as u8).collect();
            let mut rest = &bytes[..];
            while !rest.is_empty() {
                rest = &rest[writing.write(writer, rest).unwrap()..];
            }
            writing.close(writer).unwrap();
        });
        let reads = runtime.spawn_future(async move {
            let (mut buffer, mut all) = ([0; 5], Vec::new());
            loop {
                match table.read_async(reader, &mut buffer).await.unwrap() {
                    0 => return all,
                    count => all.extend_from_slice(&buffer[..count]),
                }
            }
        });
        writes.join().unwrap();
        let all = reads.join().unwrap();
        assert_eq!(all.len(), 10_000);
        assert!(all.iter().enumerate().all(|(at, byte)| *byte == at as u8));
    });
}

#[test]
fn closing_the_number_ends_a_blocked_read_with_ebadf() {
    with_runtimes(|runtime| {
        let table = Arc::new(FdTable::new(16));
        let (fd, _) = counter(&table, 0);
        let other = table.dup(fd).unwrap();
        let reading = table.clone();
        let reads = runtime.spawn(move || reading.read(fd, &mut [0; 8]));
        spin_until(|| runtime.dump().to_string().contains("fd readable"));
        table.close(fd).unwrap();
        assert_eq!(reads.join().unwrap(), Err(Errno::EBADF));
        assert!(table.flags(other).is_ok(), "the object is still open");
    });
}

#[test]
fn the_other_end_of_a_pipe_ends_blocked_calls() {
    with_runtimes(|runtime| {
        let table = Arc::new(FdTable::new(16));
        let (reader, writer) = open_pipe(&table, 1);
        let reading = table.clone();
        let reads = runtime.spawn(move || reading.read(reader, &mut [0; 8]));
        table.close(writer).unwrap();
        assert_eq!(reads.join().unwrap(), Ok(0), "end of file");

        let (reader, writer) = open_pipe(&table, 1);
        table.write(writer, b"x").unwrap();
        let writing = table.clone();
        let writes = runtime.spawn(move || writing.write(writer, b"y"));
        table.close(reader).unwrap();
        assert_eq!(writes.join().unwrap(), Err(Errno::EPIPE));
    });
}

#[test]
fn a_write_that_is_larger_than_the_room_waits_without_spinning() {
    with_runtimes(|runtime| {
        let table = Arc::new(FdTable::new(16));
        let (fd, object) = counter(&table, u64::MAX - 3);
        assert!(table.poll_mask(fd).unwrap().contains(Events::OUT));
        let writing = table.clone();
        let writes = runtime.spawn(move || writing.write(fd, &100_u64.to_le_bytes()));
        spin_until(|| runtime.dump().to_string().contains("fd writable"));
        table.read(fd, &mut [0; 8]).unwrap();
        assert_eq!(writes.join().unwrap(), Ok(8));
        drop(object);
    });
}

#[test]
fn a_wait_for_readiness_ends_at_its_timeout() {
    with_manual_clock(|| {
        let table = FdTable::new(16);
        let (fd, object) = counter(&table, 0);
        let start = now();
        assert_eq!(table.ready(fd, Events::IN, Some(Duration::from_secs(2))), Ok(Events::NONE));
        assert_eq!((now() - start).as_secs(), 2);
        let wait = table.ready_async(fd, Events::IN, Some(Duration::from_secs(2)));
        assert_eq!(block_on(wait).unwrap(), Ok(Events::NONE));
        assert_eq!((now() - start).as_secs(), 4);
        object.add(1).unwrap();
        assert_eq!(table.ready(fd, Events::IN, None), Ok(Events::IN));
        assert_eq!(block_on(table.ready_async(fd, Events::OUT, None)).unwrap(), Ok(Events::OUT));
    });
}

#[test]
fn a_read_into_a_buffer_that_is_too_small_takes_nothing() {
    let table = FdTable::new(16);
    let (fd, _) = counter(&table, 9);
    assert_eq!(table.read(fd, &mut [0; 7]), Err(Errno::ENOSPC));
    assert_eq!(table.object(fd).unwrap().read_minimum(), 8);
    let mut record = [0; 8];
    assert_eq!(table.read(fd, &mut record), Ok(8));
    assert_eq!(u64::from_le_bytes(record), 9);
}

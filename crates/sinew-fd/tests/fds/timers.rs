//! Timers on the clock of their runtime.

use std::time::Duration;

use sinew_fd::{EpollOp, Errno, Events, FdTable, Flags, Timer};
use sinew_sched::{Handle, now, sleep};
use sinew_test_kit::runtimes::with_manual_clock;

use crate::{poll, wait};

fn expirations(table: &FdTable, fd: i32) -> Result<u64, Errno> {
    let mut record = [0; 8];
    table.read(fd, &mut record)?;
    Ok(u64::from_le_bytes(record))
}

fn with_timer(test: impl FnOnce(&FdTable, i32, &Timer) + Send + 'static) {
    with_manual_clock(|| {
        let table = FdTable::new(16);
        let timer = Timer::new(Handle::current().unwrap());
        let fd = table.open(timer.clone(), Flags::NONBLOCK).unwrap();
        test(&table, fd, &timer);
    });
}

#[test]
fn a_one_shot_timer_expires_once() {
    with_timer(|table, fd, timer| {
        let epfd = table.epoll_create().unwrap();
        table.epoll_ctl(epfd, EpollOp::Add, fd, Events::IN).unwrap();
        let start = now();
        timer.arm(Duration::from_secs(60), None);
        assert_eq!(timer.remaining(), Some(Duration::from_secs(60)));
        assert_eq!(expirations(table, fd), Err(Errno::EAGAIN));
        assert_eq!(wait(table, epfd, None), Ok(vec![(fd, Events::IN)]));
        assert_eq!((now() - start).as_secs(), 60);
        assert_eq!(expirations(table, fd), Ok(1));
        assert_eq!(timer.remaining(), None);
        assert_eq!(wait(table, epfd, Some(Duration::from_secs(600))), Ok(vec![]));
    });
}

#[test]
fn a_periodic_timer_counts_what_was_missed() {
    with_timer(|table, fd, timer| {
        table.change_flags(fd, Flags::NONE, Flags::NONBLOCK).unwrap();
        timer.arm(Duration::from_secs(1), Some(Duration::from_secs(10)));
        assert_eq!(expirations(table, fd), Ok(1));
        assert_eq!(expirations(table, fd), Ok(1));
        sleep(Duration::from_secs(35));
        assert_eq!(expirations(table, fd), Ok(3));
        timer.disarm();
    });
}

#[test]
fn a_timer_can_be_armed_again_and_disarmed() {
    with_timer(|table, fd, timer| {
        let epfd = table.epoll_create().unwrap();
        table.epoll_ctl(epfd, EpollOp::Add, fd, Events::IN).unwrap();
        timer.arm(Duration::from_secs(100), None);
        timer.arm(Duration::from_secs(5), None);
        let start = now();
        assert_eq!(wait(table, epfd, None), Ok(vec![(fd, Events::IN)]));
        assert_eq!((now() - start).as_secs(), 5);
        timer.disarm();
        assert_eq!(poll(table, epfd), [], "expirations that were not read are forgotten");
        timer.arm(Duration::from_secs(5), None);
        timer.disarm();
        assert_eq!(wait(table, epfd, Some(Duration::from_secs(60))), Ok(vec![]));
        for seconds in 1..4 {
            timer.arm(Duration::from_secs(seconds), None);
            assert_eq!(wait(table, epfd, None), Ok(vec![(fd, Events::IN)]));
            assert_eq!(expirations(table, fd), Ok(1));
        }
    });
}

#[test]
fn a_blocked_read_of_a_timer_ends_when_it_is_closed() {
    with_manual_clock(|| {
        let table = std::sync::Arc::new(FdTable::new(16));
        let timer = Timer::new(Handle::current().unwrap());
        let fd = table.open(timer.clone(), Flags::NONE).unwrap();
        timer.arm(Duration::from_secs(1000), None);
        let reading = table.clone();
        let reads = sinew_sched::spawn(move || expirations(&reading, fd));
        sleep(Duration::from_secs(1));
        table.close(fd).unwrap();
        assert_eq!(reads.join().unwrap(), Err(Errno::EBADF));
        let start = now();
        sleep(Duration::from_secs(1));
        assert_eq!((now() - start).as_secs(), 1);
    });
}

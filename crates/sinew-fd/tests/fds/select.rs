//! File descriptors as cases of a select.

use std::time::Duration;

use sinew_chan::chan;
use sinew_chan::select;
use sinew_chan::select::{recv, sleep};
use sinew_fd::{Errno, Events, FdTable, Flags, pipe};
use sinew_sched::spawn;
use sinew_test_kit::runtimes::{with_manual_clock, with_runtimes};

use crate::counter;

#[test]
fn the_first_of_two_fds_wins() {
    with_runtimes(|runtime| {
        let won = runtime.spawn(|| {
            let table = FdTable::new(16);
            let ((a, _), (b, object)) = (counter(&table, 0), counter(&table, 0));
            let (a, b) = (table.readiness(a, Events::IN).unwrap(), table.readiness(b, Events::IN).unwrap());
            spawn(move || object.add(1)).detach();
            select! {
                _ = recv(&a) => "a",
                ready = recv(&b) => { assert_eq!(ready.unwrap(), Events::IN); "b" }
            }
            .unwrap()
        });
        assert_eq!(won.join().unwrap(), "b");
    });
}

#[test]
fn readiness_is_level_triggered_in_a_select() {
    with_manual_clock(|| {
        let table = FdTable::new(16);
        let (fd, _) = counter(&table, 1);
        let ready = table.readiness(fd, Events::IN).unwrap();
        let happens = || {
            select! {
                events = recv(&ready) => Some(events.unwrap()),
                _ = sleep(Duration::from_secs(1)) => None,
            }
            .unwrap()
        };
        assert_eq!([happens(), happens()], [Some(Events::IN); 2]);
        table.read(fd, &mut [0; 8]).unwrap();
        assert_eq!(happens(), None, "a token of the past does not count");
        table.close(fd).unwrap();
        assert_eq!(happens(), Some(Events::HUP));
    });
}

#[test]
fn fds_and_channels_are_selected_together() {
    with_runtimes(|runtime| {
        let sum = runtime.spawn(|| {
            let table = FdTable::new(16);
            let (reader, writer) = pipe(4);
            let fd = table.open(reader, Flags::NONBLOCK).unwrap();
            let readable = table.readiness(fd, Events::IN).unwrap();
            let (sender, receiver) = chan::bounded::<usize>(1);
            spawn(move || (0..100).for_each(|_| sender.send(1).unwrap())).detach();
            let other = FdTable::new(16);
            let output = other.open(writer, Flags::NONE).unwrap();
            spawn(move || (0..100).for_each(|_| assert_eq!(other.write(output, b"x"), Ok(1)))).detach();
            let (mut sum, mut bytes) = (0, 0);
            while sum < 100 || bytes < 100 {
                let item = select! {
                    number = recv((sum < 100).then_some(&receiver)) => number.ok(),
                    _ = recv((bytes < 100).then_some(&readable)) => None,
                };
                match item.unwrap() {
                    Some(number) => sum += number,
                    None => bytes += table.read(fd, &mut [0; 3]).unwrap_or(0),
                }
            }
            sum + bytes
        });
        assert_eq!(sum.join().unwrap(), 200);
    });
}

#[test]
fn a_file_is_no_case() {
    let table = FdTable::new(16);
    assert_eq!(table.readiness(40, Events::IN).unwrap_err(), Errno::EBADF);
    let epfd = table.epoll_create().unwrap();
    assert_eq!(table.readiness(epfd, Events::IN).unwrap_err(), Errno::EPERM);
}

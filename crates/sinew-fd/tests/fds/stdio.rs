//! Standard input, output and error.

use std::sync::{Arc, Mutex};

use sinew_fd::{EpollOp, Errno, Events, FdTable, Output, Stdin};

use crate::poll;

type Lines = Arc<Mutex<Vec<String>>>;

fn table_with_output() -> (FdTable, Lines) {
    let lines = Lines::default();
    let written = lines.clone();
    let output =
        Output::new(move |line| written.lock().unwrap().push(String::from_utf8_lossy(line).into_owned()));
    (FdTable::with_stdio(16, [Stdin::new(), output, Output::new(|_| ())]), lines)
}

#[test]
fn standard_input_is_at_its_end() {
    let (table, _) = table_with_output();
    assert_eq!(table.poll_mask(0), Ok(Events::IN | Events::HUP));
    assert_eq!(table.read(0, &mut [0; 8]), Ok(0));
    assert_eq!(table.write(0, b"x"), Err(Errno::EBADF));
}

#[test]
fn stdio_can_be_watched() {
    let (table, _) = table_with_output();
    let epfd = table.epoll_create().unwrap();
    for fd in 0..3 {
        table.epoll_ctl(epfd, EpollOp::Add, fd, Events::IN | Events::OUT).unwrap();
    }
    assert_eq!(poll(&table, epfd), [(0, Events::IN | Events::HUP), (1, Events::OUT), (2, Events::OUT)]);
    assert_eq!(table.read(1, &mut [0; 8]), Err(Errno::EBADF));
}

#[test]
fn output_is_handed_on_in_whole_lines() {
    let (table, lines) = table_with_output();
    table.write(1, b"one\ntw").unwrap();
    assert_eq!(*lines.lock().unwrap(), ["one"]);
    table.write(1, b"o\n\nthree").unwrap();
    assert_eq!(*lines.lock().unwrap(), ["one", "two", ""]);
    table.close(1).unwrap();
    assert_eq!(*lines.lock().unwrap(), ["one", "two", "", "three"], "the rest comes with the close");
    assert_eq!(table.write(1, b"x"), Err(Errno::EBADF));
}

#[test]
fn a_line_without_end_is_handed_on_in_pieces() {
    let (table, lines) = table_with_output();
    for _ in 0..20 {
        table.write(1, &[b'x'; 1000]).unwrap();
    }
    let lengths: Vec<usize> = lines.lock().unwrap().iter().map(String::len).collect();
    assert_eq!(lengths, [8192, 8192]);
    drop(table);
    assert_eq!(lines.lock().unwrap().iter().map(String::len).sum::<usize>(), 20_000);
}

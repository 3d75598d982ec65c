//! Flags, kind, status, metrics and close as JSON.

use sinew_fd::{EpollOp, Errno, Events, FdCommand, FdTable, Flags, pipe};

use crate::{counter, poll};

fn json(table: &FdTable, fd: i32, command: FdCommand) -> serde_json::Value {
    serde_json::from_str(&table.ctl(fd, command, b"").unwrap()).unwrap()
}

#[test]
fn commands_have_the_numbers_of_the_abi() {
    for number in 1..=6 {
        assert_eq!(FdCommand::from_number(number).map(|command| command as i32), Some(number));
    }
    assert_eq!([0, 7, -1, i32::MAX].map(FdCommand::from_number), [None; 4]);
}

#[test]
fn flags_are_set_cleared_and_shown() {
    let table = FdTable::new(16);
    let (fd, _) = counter(&table, 0);
    let set = br#"{"set": ["O_NONBLOCK", "FD_CLOEXEC"], "clear": []}"#;
    assert_eq!(table.ctl(fd, FdCommand::SetFlags, set), Ok(String::new()));
    assert_eq!(
        json(&table, fd, FdCommand::GetFlags)["flags"],
        serde_json::json!(["O_NONBLOCK", "FD_CLOEXEC"])
    );
    assert_eq!(table.read(fd, &mut [0; 8]), Err(Errno::EAGAIN));
    table.ctl(fd, FdCommand::SetFlags, br#"{"clear": ["O_NONBLOCK"]}"#).unwrap();
    assert_eq!(table.flags(fd), Ok(Flags::CLOEXEC));
    table.ctl(fd, FdCommand::SetFlags, b"{}").unwrap();
    assert_eq!(table.flags(fd), Ok(Flags::CLOEXEC));
}

#[test]
fn bad_arguments_are_einval_and_change_nothing() {
    let table = FdTable::new(16);
    let (fd, _) = counter(&table, 0);
    let long = format!(r#"{{"set": ["O_NONBLOCK"], "clear": [{}]}}"#, " ".repeat(5000));
    let deep = "[".repeat(4000);
    let bad: [&[u8]; 13] = [
        b"",
        b"{",
        b"null",
        b"[]",
        br#""O_NONBLOCK""#,
        br#"{"set": "O_NONBLOCK"}"#,
        br#"{"set": [1]}"#,
        br#"{"set": ["O_NONBLOCK", "O_WRONG"]}"#,
        br#"{"set": ["O_NONBLOCK"], "clear": ["O_NONBLOCK"]}"#,
        br#"{"set": ["O_NONBLOCK"], "reset": []}"#,
        b"{\"set\": [\"O_NONBLOCK\"]} \xff",
        long.as_bytes(),
        deep.as_bytes(),
    ];
    for argument in bad {
        let outcome = table.ctl(fd, FdCommand::SetFlags, argument);
        assert_eq!(outcome, Err(Errno::EINVAL), "{:?}", String::from_utf8_lossy(argument));
        assert_eq!(table.flags(fd), Ok(Flags::NONE));
    }
}

#[test]
fn kind_and_status_have_the_shapes_of_the_abi() {
    let table = FdTable::new(16);
    let (fd, _) = counter(&table, 1);
    let epfd = table.epoll_create().unwrap();
    assert_eq!(json(&table, fd, FdCommand::GetKind), serde_json::json!({"kind": "Event"}));
    assert_eq!(json(&table, epfd, FdCommand::GetKind), serde_json::json!({"kind": "Epoll"}));
    table.change_flags(fd, Flags::NONBLOCK, Flags::NONE).unwrap();
    let status = serde_json::json!({
        "kind": "Event", "flags": ["O_NONBLOCK"], "poll_mask": ["EPOLLIN", "EPOLLOUT"], "closed": false
    });
    assert_eq!(json(&table, fd, FdCommand::GetStatus), status);
}

#[test]
fn metrics_move_with_the_data() {
    let table = FdTable::new(16);
    let (reader, writer) = pipe(100);
    let (reader, writer) =
        (table.open(reader, Flags::NONE).unwrap(), table.open(writer, Flags::NONE).unwrap());
    let epfd = table.epoll_create().unwrap();
    table.epoll_ctl(epfd, EpollOp::Add, reader, Events::IN).unwrap();
    table.write(writer, b"abcde").unwrap();
    let metrics = |fd| json(&table, fd, FdCommand::GetMetrics);
    let expected = serde_json::json!({
        "bytes_in": 0, "bytes_out": 5, "records_in": 0, "records_out": 1,
        "queue_depth": 5, "queue_limit": 100, "wakeups": 0
    });
    assert_eq!(metrics(writer), expected);
    table.read(reader, &mut [0; 3]).unwrap();
    let expected = serde_json::json!({
        "bytes_in": 3, "bytes_out": 0, "records_in": 1, "records_out": 0,
        "queue_depth": 2, "queue_limit": 100, "wakeups": 1
    });
    assert_eq!(metrics(reader), expected);
    assert_eq!(poll(&table, epfd).len(), 1);
    assert_eq!(metrics(epfd)["records_in"], 1);
    assert_eq!(metrics(epfd)["queue_limit"], 1);
}

#[test]
fn close_closes_any_kind_and_a_second_close_is_ebadf() {
    let table = FdTable::new(16);
    for fd in [counter(&table, 0).0, table.epoll_create().unwrap(), 1] {
        assert_eq!(table.ctl(fd, FdCommand::Close, b""), Ok(String::new()));
        for number in 1..=6 {
            let command = FdCommand::from_number(number).unwrap();
            assert_eq!(table.ctl(fd, command, b"{}"), Err(Errno::EBADF), "{command:?}");
        }
    }
}

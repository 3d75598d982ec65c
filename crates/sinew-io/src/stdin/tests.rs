use std::io::Write;
use std::time::Duration;

use sinew_sched::{Runtime, TaskState, spawn, yield_now};

use super::*;

/// An input, and where to write what is read from it.
fn input() -> (Arc<Input>, io::PipeWriter) {
    let (reader, writer) = io::pipe().unwrap();
    (Arc::new(Input::new(std::os::fd::OwnedFd::from(reader).into())), writer)
}

fn line(input: &Input) -> io::Result<String> {
    let mut line = String::new();
    input.read_line(&mut line).map(|_| line)
}

fn runtime() -> Runtime {
    Runtime::builder().workers(1).build().unwrap()
}

#[test]
fn lines_and_bytes_are_read_in_their_order_up_to_the_end() {
    let (input, mut writer) = input();
    writer.write_all("one\ntwö\nthree".as_bytes()).unwrap();
    drop(writer);
    let read = runtime().run(move || {
        let mut bytes = [0; 2];
        assert_eq!((input.read(&mut bytes).unwrap(), &bytes), (2, b"on"));
        let lines = [(); 4].map(|()| line(&input).unwrap());
        assert_eq!(input.read(&mut bytes).unwrap(), 0);
        lines
    });
    assert_eq!(read.unwrap(), ["e\n", "twö\n", "three", ""]);
}

#[test]
fn a_line_that_is_not_text_is_an_error_and_the_next_is_read() {
    let (input, mut writer) = input();
    writer.write_all(b"\xff\nfine\n").unwrap();
    assert_eq!(line(&input).unwrap_err().kind(), io::ErrorKind::InvalidData);
    assert_eq!(line(&input).unwrap(), "fine\n");
}

#[test]
fn a_worker_runs_other_tasks_while_one_waits_for_input() {
    let (input, mut writer) = input();
    let read = runtime().run(move || {
        let reader = spawn(move || line(&input).unwrap());
        yield_now();
        writer.write_all(b"later\n").unwrap();
        reader.join().unwrap()
    });
    assert_eq!(read.unwrap(), "later\n");
}

#[test]
fn a_wait_for_input_takes_no_thread() {
    let (runtime, (input, writer)) = (runtime(), input());
    let task = runtime.spawn(move || line(&input).unwrap());
    while !runtime.dump().tasks.iter().any(|task| task.state == TaskState::Parked) {
        std::thread::yield_now();
    }
    assert_eq!(runtime.dump().blocking.threads, 0);
    drop(writer);
    assert_eq!(task.join().unwrap(), "");
}

#[test]
fn a_read_that_is_given_up_loses_nothing() {
    let (runtime, (input, mut writer)) = (runtime(), input());
    for _ in 0..100 {
        let reader = input.clone();
        let task = runtime.spawn(move || line(&reader));
        while !runtime.dump().tasks.iter().any(|task| task.state == TaskState::Parked) {
            std::thread::yield_now();
        }
        writer.write_all(b"x").unwrap();
        task.cancel(); // before, after or while that is read
        assert!(task.join().unwrap().unwrap_err().get_ref().unwrap().is::<sinew_fiber::Cancelled>());
    }
    writer.write_all(b"\n").unwrap();
    let reader = input.clone();
    let read = runtime.run(move || line(&reader).unwrap());
    assert_eq!(read.unwrap(), format!("{}\n", "x".repeat(100)));
    let report = runtime.shutdown(Duration::from_secs(60));
    assert_eq!((report.left, report.blocking), (0, 0));
    drop(writer);
}

#[test]
fn a_file_is_read_to_its_end() {
    let path = std::env::temp_dir().join(format!("sinew-stdin-{}", std::process::id()));
    std::fs::write(&path, "one\ntwo\n").unwrap();
    let input = Arc::new(Input::new(File::open(&path).unwrap()));
    std::fs::remove_file(&path).unwrap();
    let lines = runtime().run(move || [(); 3].map(|()| line(&input).unwrap()));
    assert_eq!(lines.unwrap(), ["one\n", "two\n", ""]);
}

#[test]
fn what_was_read_for_nobody_is_found_by_the_next_reader() {
    let (input, mut writer) = input();
    writer.write_all(b"lost").unwrap();
    assert!(input.source.read_more(0).unwrap());
    writer.write_all(b" and found\n").unwrap();
    assert_eq!(line(&input).unwrap(), "lost and found\n");
}

#[test]
fn a_call_that_follows_another_sees_what_that_has_read() {
    let (input, mut writer) = input();
    writer.write_all(b"x").unwrap();
    // Both were made for a reader that had seen nothing; the second must not wait for more.
    assert!(input.source.read_more(0).unwrap());
    assert!(input.source.read_more(0).unwrap());
    assert_eq!(input.source.unread.lock().len(), 1);
    drop(writer);
    assert!(!input.source.read_more(1).unwrap());
}

#[test]
fn readers_take_turns_and_get_whole_lines() {
    let (runtime, (input, mut writer)) = (Runtime::builder().workers(2).build().unwrap(), input());
    let readers: Vec<_> = (0..8)
        .map(|_| {
            let input = input.clone();
            runtime.spawn(move || {
                let mut lines = Vec::new();
                loop {
                    match line(&input).unwrap() {
                        end if end.is_empty() => return lines,
                        line => lines.push(line.trim_end().parse::<u32>().unwrap()),
                    }
                }
            })
        })
        .collect();
    for number in 0..5000 {
        writeln!(writer, "{number}").unwrap();
    }
    drop(writer);
    let mut all: Vec<u32> = readers.into_iter().flat_map(|reader| reader.join().unwrap()).collect();
    all.sort_unstable();
    assert!(all.into_iter().eq(0..5000));
}

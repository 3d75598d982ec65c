//! Every kind of this crate passes the onboarding harness.

use std::path::Path;
use std::time::Duration;

use sinew_fd::onboarding::{Subject, check};
use sinew_fd::{Access, Directory, EventCounter, FdObject, OpenOptions, Output, Stdin, Timer, pipe};
use sinew_sched::Runtime;

#[test]
fn event_counters() {
    check(|| {
        let object = EventCounter::new(0);
        let (adds, fills, reads) = (object.clone(), object.clone(), object.clone());
        Subject::new(object)
            .becomes_readable_by(move || adds.add(3).unwrap())
            .becomes_full_by(move || {
                let value = fills.metrics().queue_depth;
                fills.add(u64::MAX - 1 - value).unwrap();
            })
            .becomes_writable_by(move || {
                reads.read(&mut [0; 8]).unwrap();
            })
    });
}

#[test]
fn reading_ends_of_pipes() {
    check(|| {
        let (reader, writer) = pipe(16);
        let closing = writer.clone();
        Subject::new(reader)
            .becomes_readable_by(move || {
                writer.write(b"hello").unwrap();
            })
            .hangs_up_by(move || closing.close())
    });
}

#[test]
fn writing_ends_of_pipes() {
    check(|| {
        let (reader, writer) = pipe(16);
        let closing = reader.clone();
        Subject::new(writer)
            .becomes_writable_by(move || {
                reader.read(&mut [0; 3]).unwrap();
            })
            .hangs_up_by(move || closing.close())
    });
}

#[test]
fn timers() {
    let runtime = Runtime::new();
    check(|| {
        let timer = Timer::new(runtime.handle());
        let arms = timer.clone();
        Subject::new(timer).becomes_readable_by(move || arms.arm(Duration::from_millis(1), None))
    });
}

#[test]
fn standard_input_and_output() {
    check(|| Subject::new(Stdin::new()));
    check(|| Subject::new(Output::new(|_| ())));
}

#[test]
fn files_and_directories() {
    let root = Directory::grant(Path::new(env!("CARGO_MANIFEST_DIR")), Access::ReadOnly).unwrap();
    let options = OpenOptions { read: true, ..OpenOptions::default() };
    check(|| Subject::new(root.open_file(Path::new("Cargo.toml"), options).unwrap()));
    check(|| Subject::new(root.open_directory(Path::new("src")).unwrap()));
}

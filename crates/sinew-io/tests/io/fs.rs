//! Files: the calls do what std's do, and suspend the task meanwhile.

use std::io::{BufRead, BufReader, ErrorKind, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};

use sinew_io::fs::{self, File};
use sinew_sched::{Cancelled, Runtime, spawn, yield_now};

use crate::support::{spin_until, with_runtime, with_runtimes};

/// A directory of the test's own, removed when it is dropped.
struct Directory(PathBuf);

impl Directory {
    fn new() -> Directory {
        static NEXT: AtomicUsize = AtomicUsize::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("sinew-fs-test-{}-{number}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        Directory(path)
    }

    fn join(&self, name: impl AsRef<Path>) -> PathBuf {
        self.0.join(name)
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

#[test]
fn files_are_written_read_copied_renamed_listed_and_removed() {
    with_runtimes(|runtime| {
        let directory = Directory::new();
        runtime
            .run(move || {
                let deep = directory.join("a/b");
                fs::create_dir_all(&deep).unwrap();
                let (one, two, three) = (deep.join("one"), deep.join("two"), deep.join("three"));
                fs::write(&one, "first").unwrap();
                assert_eq!(fs::copy(&one, &two).unwrap(), 5);
                fs::rename(&two, &three).unwrap();
                assert_eq!(fs::read(&three).unwrap(), b"first");
                assert_eq!(fs::read_to_string(&one).unwrap(), "first");
                assert_eq!(fs::metadata(&one).unwrap().len(), 5);
                let mut names: Vec<_> =
                    fs::read_dir(&deep).unwrap().iter().map(|entry| entry.file_name()).collect();
                names.sort();
                assert_eq!(names, ["one", "three"]);
                fs::remove_file(&one).unwrap();
                assert_eq!(fs::read(&one).unwrap_err().kind(), ErrorKind::NotFound);
                fs::remove_dir_all(directory.join("a")).unwrap();
                assert_eq!(fs::read_dir(&deep).unwrap_err().kind(), ErrorKind::NotFound);
            })
            .unwrap();
    });
}

#[test]
fn an_open_file_reads_writes_and_seeks_by_value_and_by_reference() {
    with_runtimes(|runtime| {
        let directory = Directory::new();
        runtime
            .run(move || {
                let path = directory.join("file");
                let mut file = File::create(&path).unwrap();
                file.write_all(b"0123456789").unwrap();
                file.flush().unwrap();
                file.sync_data().unwrap();
                file.sync_all().unwrap();
                file.set_len(8).unwrap();
                assert_eq!(file.metadata().unwrap().len(), 8);
                assert!(file.read(&mut [0]).is_err(), "it was opened to write");

                let mut file = File::open(&path).unwrap();
                let mut three = [0; 3];
                file.read_exact(&mut three).unwrap();
                assert_eq!(&three, b"012");
                (&file).read_exact(&mut three).unwrap();
                assert_eq!(&three, b"345");
                let mut clone = file.try_clone().unwrap(); // with the same position
                let mut rest = String::from("rest ");
                assert_eq!(clone.read_to_string(&mut rest).unwrap(), 2);
                assert_eq!(rest, "rest 67");
                assert_eq!(file.seek(SeekFrom::End(-1)).unwrap(), 7);
                let mut bytes = vec![b'-'];
                assert_eq!(file.read_to_end(&mut bytes).unwrap(), 1);
                assert_eq!((bytes.as_slice(), file.read(&mut three).unwrap()), (&b"-7"[..], 0));
                assert_eq!(file.into_std().unwrap().metadata().unwrap().len(), 8);

                let again = File::options().write(true).create_new(true).open(&path);
                assert_eq!(again.unwrap_err().kind(), ErrorKind::AlreadyExists);
                let mut file = File::options().append(true).open(&path).unwrap();
                writeln!(file, " and\nmore").unwrap();
                let lines: Vec<_> =
                    BufReader::new(File::open(&path).unwrap()).lines().map(Result::unwrap).collect();
                assert_eq!(lines, ["01234567 and", "more"]);
            })
            .unwrap();
    });
}

#[test]
fn more_than_one_call_carries_arrives_whole() {
    with_runtime(Runtime::builder().workers(1), |runtime| {
        let directory = Directory::new();
        runtime
            .run(move || {
                let path = directory.join("large");
                let bytes: Vec<u8> = (0..1_000_003u32).map(|n| (n % 251) as u8).collect();
                File::create(&path).unwrap().write_all(&bytes).unwrap();
                let mut read = vec![0; bytes.len()];
                File::open(&path).unwrap().read_exact(&mut read).unwrap();
                assert!(read == bytes);
                assert!(fs::read(&path).unwrap() == bytes);
            })
            .unwrap();
    });
}

/// Opening a named pipe to read blocks until somebody opens it to write.
#[test]
fn a_worker_runs_other_tasks_while_a_file_blocks() {
    with_runtime(Runtime::builder().workers(1), |runtime| {
        let directory = Directory::new();
        let pipe = directory.join("pipe");
        assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
        let read = runtime.run(move || {
            let path = pipe.clone();
            let reader = spawn(move || fs::read_to_string(path));
            yield_now();
            fs::write(&pipe, "through a pipe").unwrap();
            reader.join().unwrap().unwrap()
        });
        assert_eq!(read.unwrap(), "through a pipe");
    });
}

#[test]
fn a_call_that_is_cancelled_says_so_and_is_still_made() {
    with_runtime(Runtime::builder().workers(1), |runtime| {
        let directory = Directory::new();
        let pipe = directory.join("pipe");
        assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
        let path = pipe.clone();
        let task = runtime.spawn(move || fs::write(path, "late"));
        spin_until(|| runtime.dump().to_string().contains("1 running"));
        task.cancel();
        let error = task.join().unwrap().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Other);
        assert!(error.get_ref().unwrap().is::<Cancelled>(), "{error:?}");
        assert_eq!(std::fs::read_to_string(&pipe).unwrap(), "late");
    });
}

#[test]
fn on_a_thread_that_is_no_worker_files_are_used_in_place() {
    let directory = Directory::new();
    let path = directory.join("file");
    fs::write(&path, [1, 2, 3]).unwrap();
    let mut bytes = Vec::new();
    File::open(&path).unwrap().read_to_end(&mut bytes).unwrap();
    assert_eq!(bytes, [1, 2, 3]);
}

//! Waiting for descriptors of any kind.

use std::fs::File;
use std::io::{ErrorKind, PipeReader, PipeWriter, Read, Write, pipe};
use std::os::fd::{AsRawFd, FromRawFd, IntoRawFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::time::Duration;

use sinew_chan::chan;
use sinew_chan::select;
use sinew_io::fd::{self, Interest};
use sinew_sched::{Cancelled, ManualClock, Runtime, block_on, now, sleep, spawn, yield_now};

use crate::support::{self, current_thread, rounds, spin_until, with_runtime, with_runtimes};

/// Reads one byte, when there is one.
fn read_byte(reader: &mut PipeReader) -> u8 {
    let ready = fd::wait(&*reader, Interest::READ, None).unwrap();
    assert!(ready.is_readable());
    let mut byte = [0];
    reader.read_exact(&mut byte).unwrap();
    byte[0]
}

fn write_byte(mut writer: &PipeWriter, byte: u8) {
    writer.write_all(&[byte]).unwrap();
}

#[test]
fn a_task_waits_for_a_pipe_and_its_worker_runs_others() {
    with_runtimes(|runtime| {
        let byte = runtime.run(|| {
            let (mut reader, writer) = pipe().unwrap();
            let task = spawn(move || read_byte(&mut reader));
            yield_now();
            write_byte(&writer, 7);
            task.join().unwrap()
        });
        assert_eq!(byte.unwrap(), 7);
    });
}

#[test]
fn two_tasks_talk_over_two_pipes() {
    with_runtimes(|runtime| {
        let rounds = rounds(2_000);
        let (mut there, to_there) = pipe().unwrap();
        let (mut here, to_here) = pipe().unwrap();
        let echo = runtime.spawn(move || {
            for _ in 0..rounds {
                write_byte(&to_here, read_byte(&mut there).wrapping_add(1));
            }
        });
        let talk = runtime.spawn(move || {
            for round in 0..rounds {
                write_byte(&to_there, round as u8);
                assert_eq!(read_byte(&mut here), (round as u8).wrapping_add(1));
            }
        });
        talk.join().unwrap();
        echo.join().unwrap();
    });
}

#[test]
fn a_wait_is_over_at_once_for_as_long_as_it_is_ready() {
    with_runtimes(|runtime| {
        let (mut reader, writer) = pipe().unwrap();
        let task = runtime.spawn(move || {
            write_byte(&writer, 1);
            for _ in 0..10 {
                assert!(fd::wait(&reader, Interest::READ, None).unwrap().is_readable());
            }
            read_byte(&mut reader);
            let soon = now() + Duration::from_millis(5);
            let refused = fd::wait(&reader, Interest::READ, soon).unwrap_err();
            assert_eq!(refused.kind(), ErrorKind::TimedOut);
        });
        task.join().unwrap();
    });
}

/// Readiness that a wait has not used up is there for the next, also if it waited for the other direction.
#[test]
fn a_wait_for_one_direction_takes_nothing_from_the_other() {
    with_runtimes(|runtime| {
        let (ours, theirs) = UnixStream::pair().unwrap();
        ours.set_nonblocking(true).unwrap();
        let ours = Arc::new(ours);
        let reader = runtime.spawn({
            let ours = ours.clone();
            move || fd::wait(&*ours, Interest::READ, None).unwrap()
        });
        let writers: Vec<_> = (0..4)
            .map(|_| {
                let ours = ours.clone();
                runtime.spawn(move || fd::wait(&*ours, Interest::WRITE, None).unwrap())
            })
            .collect();
        for writer in writers {
            assert!(writer.join().unwrap().is_writable());
        }
        (&theirs).write_all(b"x").unwrap();
        assert!(reader.join().unwrap().is_readable());
    });
}

#[test]
fn all_who_wait_for_one_descriptor_are_told() {
    with_runtimes(|runtime| {
        let (reader, writer) = pipe().unwrap();
        let reader = Arc::new(reader);
        let tasks: Vec<_> = (0..20)
            .map(|_| {
                let reader = reader.clone();
                runtime.spawn(move || fd::wait(&*reader, Interest::READ, None).unwrap().is_readable())
            })
            .collect();
        write_byte(&writer, 1);
        assert!(tasks.into_iter().all(|task| task.join().unwrap()));
    });
}

#[test]
fn the_end_of_a_pipe_is_readable_and_closed() {
    with_runtimes(|runtime| {
        let (reader, writer) = pipe().unwrap();
        let task = runtime.spawn(move || fd::wait(&reader, Interest::READ, None).unwrap());
        drop(writer);
        let ready = task.join().unwrap();
        assert!(ready.is_readable() && ready.is_closed());

        let (reader, writer) = pipe().unwrap();
        fill(&writer);
        let task = runtime.spawn(move || fd::wait(&writer, Interest::WRITE, None).unwrap());
        drop(reader);
        let ready = task.join().unwrap();
        assert!(ready.is_writable() && ready.is_error());
    });
}

/// Makes the writing end refuse more.
fn fill(mut writer: &PipeWriter) {
    // SAFETY: a descriptor that is open, and flags of its own.
    unsafe {
        let flags = libc::fcntl(writer.as_raw_fd(), libc::F_GETFL);
        assert_eq!(libc::fcntl(writer.as_raw_fd(), libc::F_SETFL, flags | libc::O_NONBLOCK), 0);
    }
    let full = std::iter::repeat_with(|| writer.write(&[0; 4096])).find_map(Result::err).unwrap();
    assert_eq!(full.kind(), ErrorKind::WouldBlock);
}

#[test]
fn a_file_is_always_ready() {
    with_runtimes(|runtime| {
        let ready = runtime.run(|| fd::wait(&File::open("/proc/self/exe").unwrap(), Interest::READ, None));
        assert!(ready.unwrap().unwrap().is_readable());
    });
}

#[test]
fn what_is_not_open_is_an_error() {
    with_runtimes(|runtime| {
        for fd in [-1, 1 << 20] {
            let error = runtime.run(move || fd::wait(&fd, Interest::READ, None)).unwrap().unwrap_err();
            assert_eq!(error.raw_os_error(), Some(libc::EBADF));
        }
    });
}

#[test]
fn close_tells_those_who_wait_and_the_number_is_free_for_another() {
    with_runtimes(|runtime| {
        for _ in 0..rounds(50) {
            let (reader, _writer) = pipe().unwrap();
            let number = reader.into_raw_fd();
            let task = runtime.spawn(move || fd::wait(&number, Interest::READ, None));
            let (other_reader, other_writer) = pipe().unwrap();
            // Once it is closed, the number may be that of a descriptor of another test.
            spin_until(|| {
                let tasks = runtime.dump().tasks;
                tasks.iter().any(|task| task.wait.as_ref().is_some_and(|wait| wait.fd == Some(number)))
            });
            // SAFETY: the number is that of the reader, which nobody else owns.
            fd::close(unsafe { OwnedFd::from_raw_fd(number) });
            let error = task.join().unwrap().unwrap_err();
            assert_eq!(error.raw_os_error(), Some(libc::EBADF));
            drop((other_reader, other_writer));
        }
    });
}

#[test]
fn a_cancel_ends_a_wait() {
    with_runtimes(|runtime| {
        let (reader, _writer) = pipe().unwrap();
        let reader = Arc::new(reader);
        let waits = reader.clone();
        let task = runtime.spawn(move || fd::wait(&*waits, Interest::READ, None));
        task.cancel();
        let error = task.join().unwrap().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Other);
        assert!(error.get_ref().unwrap().is::<Cancelled>());

        let waits = reader.clone();
        let task = runtime.spawn(move || fd::wait(&*waits, Interest::READ, None));
        task.kill();
        assert!(task.join().is_err());
    });
}

#[test]
fn a_wait_inside_a_poll_is_refused() {
    with_runtimes(|runtime| {
        let (reader, writer) = pipe().unwrap();
        let outcome = runtime.run(move || {
            let wait = || fd::wait(&reader, Interest::READ, None);
            let refused = block_on(async { wait().unwrap_err() }).unwrap();
            write_byte(&writer, 1);
            (refused.kind(), block_on(async { wait().is_ok() }).unwrap())
        });
        assert_eq!(outcome.unwrap(), (ErrorKind::Other, true));
    });
}

#[test]
fn threads_wait_too() {
    let (mut reader, writer) = pipe().unwrap();
    let soon = now() + Duration::from_millis(5);
    assert_eq!(fd::wait(&reader, Interest::READ, soon).unwrap_err().kind(), ErrorKind::TimedOut);
    let thread = std::thread::spawn(move || read_byte(&mut reader));
    write_byte(&writer, 3);
    assert_eq!(thread.join().unwrap(), 3);
}

#[test]
fn readiness_is_a_case_of_a_select() {
    with_runtimes(|runtime| {
        runtime
            .run(|| {
                let (mut reader, writer) = pipe().unwrap();
                let (sender, receiver) = chan::bounded::<u8>(1);
                for round in 0..rounds(200) as u8 {
                    let by_pipe = round % 2 == 0;
                    let (sender, writer) = (sender.clone(), writer.try_clone().unwrap());
                    let other = spawn(move || match by_pipe {
                        true => write_byte(&writer, round),
                        false => sender.send(round).unwrap(),
                    });
                    let got = select! {
                        ready = fd::readiness(&reader, Interest::READ) => {
                            assert!(ready.unwrap().is_readable());
                            read_byte(&mut reader)
                        },
                        item = sinew_chan::select::recv(&receiver) => item.unwrap(),
                    };
                    assert_eq!(got.unwrap(), round);
                    other.join().unwrap();
                }
            })
            .unwrap();
    });
}

/// A task that computes and yields without end does not keep the news of descriptors from the others.
#[test]
fn busy_workers_look_at_the_reactor() {
    with_runtimes(|runtime| {
        let (mut reader, writer) = pipe().unwrap();
        let busy: Vec<_> = (0..8)
            .map(|_| {
                runtime.spawn(|| {
                    loop {
                        yield_now();
                    }
                })
            })
            .collect();
        let task = runtime.spawn(move || read_byte(&mut reader));
        write_byte(&writer, 9);
        assert_eq!(task.join().unwrap(), 9);
        busy.iter().for_each(|task| task.cancel());
    });
}

#[test]
fn a_runtime_on_this_thread_serves_its_reactor_when_it_runs() {
    let runtime = current_thread();
    let (mut reader, writer) = pipe().unwrap();
    let task = runtime.spawn(move || read_byte(&mut reader));
    runtime.run_until_idle();
    assert!(!task.is_finished());
    write_byte(&writer, 5);
    runtime.run_until_idle();
    assert_eq!(task.join().unwrap(), 5);

    let (mut reader, writer) = pipe().unwrap();
    let thread = std::thread::spawn(move || write_byte(&writer, 6));
    assert_eq!(runtime.run(move || read_byte(&mut reader)).unwrap(), 6);
    thread.join().unwrap();
}

/// A manual clock does not pass what is on its way through a pipe.
#[test]
fn news_of_a_descriptor_comes_before_the_clock_moves() {
    for workers in [1, 2, 8] {
        let clock = ManualClock::new();
        let builder = Runtime::builder().workers(workers).manual_clock(&clock);
        with_runtime(builder, |runtime| {
            let rounds = rounds(300);
            let (mut there, to_there) = pipe().unwrap();
            let (mut here, to_here) = pipe().unwrap();
            let echo =
                runtime.spawn(move || (0..rounds).for_each(|_| write_byte(&to_here, read_byte(&mut there))));
            let sleeper = runtime.spawn(|| sleep(Duration::from_secs(3600)));
            let talk = runtime.spawn(move || {
                sinew_sched::yield_now();
                let start = now();
                for round in 0..rounds {
                    write_byte(&to_there, round as u8);
                    assert_eq!(read_byte(&mut here), round as u8);
                }
                now() - start
            });
            assert_eq!(talk.join().unwrap(), Duration::ZERO);
            echo.join().unwrap();
            sleeper.join().unwrap();
        });
    }
}

/// A runtime may end while tasks of another wait for a descriptor that both have used.
#[test]
fn descriptors_outlive_runtimes() {
    let (reader, writer) = pipe().unwrap();
    let reader = Arc::new(reader);
    for round in 0..3 {
        let runtime = Runtime::builder().workers(2).build().unwrap();
        let waits = reader.clone();
        let task = runtime.spawn(move || read_byte(&mut waits.try_clone().unwrap()));
        write_byte(&writer, round);
        assert_eq!(task.join().unwrap(), round);
    }
}

#[test]
fn what_is_no_descriptor_is_refused_by_tasks_and_threads() {
    let wait = || {
        let until = now() + Duration::from_secs(1);
        fd::wait(&-1, Interest::READ, until).unwrap_err().raw_os_error()
    };
    assert_eq!(wait(), Some(libc::EBADF));
    with_runtimes(move |runtime| assert_eq!(runtime.run(wait).unwrap(), Some(libc::EBADF)));
}

#[test]
fn a_future_waits_for_a_descriptor_again_and_again_while_it_is_ready() {
    with_runtimes(|runtime| {
        let (reader, writer) = pipe().unwrap();
        let waits = runtime.spawn_future(async move {
            let first = fd::wait_async(&reader, Interest::READ).await.unwrap();
            let again = fd::wait_async(&reader, Interest::READ).await.unwrap();
            (reader, first.bits(), again.bits())
        });
        write_byte(&writer, 7);
        let (reader, first, again) = waits.join().unwrap();
        assert_eq!((first, again), (libc::POLLIN as u32, libc::POLLIN as u32));
        assert!(fd::look(&reader, Interest::READ).unwrap().is_some());
        assert!(fd::look(&writer, Interest::READ).unwrap().is_none());
    });
}

#[test]
fn a_future_that_is_dropped_waits_no_more_and_its_number_can_be_used_again() {
    with_runtimes(|runtime| {
        for round in 0..rounds(50) {
            let (mut reader, writer) = pipe().unwrap();
            let byte = runtime.spawn_future(async move {
                let mut wait = Box::pin(fd::wait_async(&reader, Interest::READ));
                assert!(support::poll(wait.as_mut()).is_pending());
                drop(wait);
                drop((reader, writer));
                let (again, writer) = pipe().unwrap();
                reader = again;
                let mut wait = Box::pin(fd::wait_async(&reader, Interest::READ));
                assert!(support::poll(wait.as_mut()).is_pending());
                write_byte(&writer, round as u8);
                assert!(wait.await.unwrap().is_readable());
                read_now(&mut reader)
            });
            assert_eq!(byte.join().unwrap(), round as u8);
        }
    });
}

#[test]
fn a_look_at_no_descriptor_is_an_error() {
    for fd in [-1, 1_000_000] {
        let error = fd::look(&fd, Interest::BOTH).unwrap_err();
        assert_eq!(error.raw_os_error(), Some(libc::EBADF));
    }
}

fn read_now(reader: &mut PipeReader) -> u8 {
    let mut byte = [0];
    reader.read_exact(&mut byte).unwrap();
    byte[0]
}

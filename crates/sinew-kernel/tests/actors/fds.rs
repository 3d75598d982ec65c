//! Watches of descriptors.

use std::collections::{BTreeMap, BTreeSet};
use std::env;
use std::fs::File;
use std::io::{PipeReader, PipeWriter, Read, Write, pipe};
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram, UnixStream};
use std::process::{self, Command};
use std::time::Duration;

use sinew_core::payload::{FdEvent, SystemPayload};
use sinew_io::fd;
use sinew_kernel::{
    Actor, Ctx, ExitReason, Flow, Interest, Kind, Message, Node, Process, Received, Reply, WatchError,
};
use sinew_sched::{ManualClock, Runtime, WaitError, sleep};
use sinew_test_kit::full_test_name;

const HOUR: Duration = Duration::from_secs(3600);
const IN: u32 = libc::POLLIN as u32;
const OUT: u32 = libc::POLLOUT as u32;
const HANG_UP: u32 = libc::POLLHUP as u32;

/// A node whose clock jumps when nothing runs and no descriptor is ready.
fn node(workers: usize) -> Node {
    let runtime = Runtime::builder().workers(workers).manual_clock(&ManualClock::new());
    Node::builder().runtime(runtime).build().unwrap()
}

/// Runs `body` as a process, with some numbers of workers.
fn with_process(body: impl Fn(&mut Process<'_, ()>) + Copy + Send + 'static) {
    for workers in [1, 2, 8] {
        let node = node(workers);
        let process = node.actor().spawn_process(move |process| {
            body(process);
            Flow::Stop
        });
        assert_eq!(process.unwrap().join().unwrap(), ExitReason::Normal);
    }
}

fn event(message: &Message) -> FdEvent {
    assert_eq!(message.kind, Kind::FD_EVENT);
    FdEvent::decode(message.payload.bytes()).unwrap()
}

/// The next event; none if there is none for an hour.
fn next(process: &mut Process<'_, ()>) -> Option<FdEvent> {
    match process.recv_timeout(HOUR) {
        Err(WaitError::Timeout) => None,
        Ok(Received::Raw(message)) => Some(event(&message)),
        other => panic!("{other:?}"),
    }
}

fn read_byte(reader: &mut PipeReader) -> u8 {
    let mut byte = [0];
    reader.read_exact(&mut byte).unwrap();
    byte[0]
}

fn write_byte(writer: &mut PipeWriter) {
    writer.write_all(&[7]).unwrap();
}

#[test]
fn an_actor_is_told_when_a_descriptor_becomes_ready() {
    with_process(|process| {
        let (mut reader, mut writer) = pipe().unwrap();
        process.ctx().watch_fd(&reader, Interest::READ).unwrap();
        assert_eq!(next(process), None);
        for _ in 0..10 {
            write_byte(&mut writer);
            assert_eq!(next(process), Some(FdEvent { fd: reader.as_raw_fd(), events: IN }));
            read_byte(&mut reader);
        }
        assert_eq!(next(process), None);
        drop(writer);
        assert_eq!(next(process), Some(FdEvent { fd: reader.as_raw_fd(), events: HANG_UP }));
    });
}

// T8
#[test]
fn an_actor_is_told_again_as_long_as_a_descriptor_is_ready() {
    with_process(|process| {
        let (mut reader, mut writer) = pipe().unwrap();
        process.ctx().watch_fd(&reader, Interest::READ).unwrap();
        write_byte(&mut writer);
        for _ in 0..10 {
            assert_eq!(next(process).unwrap().events, IN);
        }
        read_byte(&mut reader);
        assert_eq!(next(process), None);
    });
}

// T8
#[test]
fn an_actor_is_not_told_again_before_it_has_handled_the_last_event() {
    struct Slow(PipeReader, u32);
    impl Actor for Slow {
        type Msg = Reply<u32>;
        fn started(&mut self, ctx: &mut Ctx<Self::Msg>) -> Flow {
            ctx.watch_fd(&self.0, Interest::READ).unwrap();
            Flow::Continue
        }
        fn handle(&mut self, reply: Self::Msg, _: &mut Ctx<Self::Msg>) -> Flow {
            reply.send(self.1);
            Flow::Continue
        }
        fn raw(&mut self, message: Message, _: &mut Ctx<Self::Msg>) -> Flow {
            assert_eq!(event(&message).events, IN);
            self.1 += 1;
            sleep(HOUR); // all the time the descriptor is ready
            read_byte(&mut self.0);
            Flow::Continue
        }
    }
    with_process(|process| {
        let (reader, mut writer) = pipe().unwrap();
        write_byte(&mut writer);
        let slow = process.ctx().spawn(Slow(reader, 0)).unwrap();
        sleep(2 * HOUR);
        assert_eq!(slow.ask(|reply| reply).unwrap(), 1);
        write_byte(&mut writer);
        sleep(2 * HOUR);
        assert_eq!(slow.ask(|reply| reply).unwrap(), 2);
        slow.kill();
        slow.join().unwrap();
    });
}

#[test]
fn a_process_that_wants_something_else_does_not_pile_events_up() {
    with_process(|process| {
        let (mut reader, mut writer) = pipe().unwrap();
        process.ctx().watch_fd(&reader, Interest::READ).unwrap();
        write_byte(&mut writer);
        let wants = |received: &Received<()>| matches!(received, Received::Message(()));
        assert!(matches!(process.recv_where_timeout(wants, HOUR), Err(WaitError::Timeout)));
        read_byte(&mut reader);
        assert_eq!(next(process).unwrap().events, IN, "the one that it was told and did not want");
        assert_eq!(next(process), None);
    });
}

// T9
#[test]
fn another_watch_of_a_descriptor_takes_the_place_of_the_first() {
    with_process(|process| {
        let (one, mut other) = UnixStream::pair().unwrap();
        process.ctx().watch_fd(&one, Interest::READ).unwrap();
        assert_eq!(next(process), None);
        process.ctx().watch_fd(&one, Interest::WRITE).unwrap();
        assert_eq!(next(process).unwrap().events, OUT);
        process.ctx().watch_fd(&one, Interest::READ).unwrap();
        assert_eq!(next(process), None, "no more of writing");
        other.write_all(b"x").unwrap();
        process.ctx().watch_fd(&one, Interest::BOTH).unwrap();
        assert_eq!(next(process).unwrap().events, IN | OUT);
        // The one that waits in the lane is of a watch that is gone.
        process.ctx().watch_fd(&one, Interest::READ).unwrap();
        assert_eq!(next(process).unwrap().events, IN);
        assert!(process.ctx().unwatch_fd(&one));
        assert!(!process.ctx().unwatch_fd(&one), "there was one");
    });
}

#[test]
fn a_watch_that_is_taken_back_tells_nothing_even_if_the_descriptor_is_ready() {
    with_process(|process| {
        let (reader, mut writer) = pipe().unwrap();
        process.ctx().watch_fd(&reader, Interest::READ).unwrap();
        write_byte(&mut writer);
        sleep(HOUR); // it is in the lane by now
        assert!(process.ctx().unwatch_fd(&reader));
        assert_eq!(process.ctx().node().handle().dump().descriptors.unwrap_or(0), 0);
        assert_eq!(next(process), None);
    });
}

#[test]
fn a_descriptor_may_be_closed_and_its_number_used_again_once_its_watch_is_taken_back() {
    with_process(|process| {
        for _ in 0..100 {
            let (reader, writer) = pipe().unwrap();
            process.ctx().watch_fd(&reader, Interest::READ).unwrap();
            sinew_sched::yield_now();
            assert!(process.ctx().unwatch_fd(&reader));
            drop((reader, writer));
            let (mut reader, mut writer) = pipe().unwrap();
            process.ctx().watch_fd(&reader, Interest::READ).unwrap();
            write_byte(&mut writer);
            assert_eq!(next(process), Some(FdEvent { fd: reader.as_raw_fd(), events: IN }));
            read_byte(&mut reader);
            assert!(process.ctx().unwatch_fd(&reader));
        }
    });
}

// T10
#[test]
fn only_its_owner_takes_a_watch_back_and_two_actors_watch_one_descriptor() {
    for workers in [1, 2, 8] {
        let node = node(workers);
        let owner = node.actor().spawn_process::<(), _>(|process| {
            let (mut reader, mut writer) = pipe().unwrap();
            process.ctx().watch_fd(&reader, Interest::READ).unwrap();
            let number = reader.as_raw_fd();
            let other = process.ctx().spawn_with(move |other| {
                assert!(!other.ctx().unwatch_fd(&number));
                other.ctx().watch_fd(&number, Interest::READ).unwrap();
                assert_eq!(next(other).unwrap().events, IN);
                assert!(other.ctx().unwatch_fd(&number));
            });
            sleep(HOUR / 2); // the other watches
            write_byte(&mut writer);
            assert_eq!(other.join().unwrap(), ExitReason::Normal);
            assert_eq!(next(process).unwrap().events, IN);
            read_byte(&mut reader);
            assert_eq!(next(process), None);
            Flow::Stop
        });
        assert_eq!(owner.unwrap().join().unwrap(), ExitReason::Normal);
    }
}

/// Starts another process.
trait SpawnWith {
    fn spawn_with(
        &self,
        body: impl FnOnce(&mut Process<'_, ()>) + Send + 'static,
    ) -> sinew_kernel::ActorRef<()>;
}

impl SpawnWith for Ctx<'_, ()> {
    fn spawn_with(
        &self,
        body: impl FnOnce(&mut Process<'_, ()>) + Send + 'static,
    ) -> sinew_kernel::ActorRef<()> {
        let process = self.node().actor().spawn_process(move |process| {
            body(process);
            Flow::Stop
        });
        process.unwrap()
    }
}

#[test]
fn a_file_is_always_ready() {
    with_process(|process| {
        let file = File::open("/proc/self/exe").unwrap();
        process.ctx().watch_fd(&file, Interest::READ).unwrap();
        for _ in 0..3 {
            assert_eq!(next(process), Some(FdEvent { fd: file.as_raw_fd(), events: IN }));
        }
        process.ctx().unwatch_fd(&file);
        assert_eq!(next(process), None);
    });
}

#[test]
fn what_is_no_descriptor_is_not_watched() {
    with_process(|process| {
        for number in [-1, i32::MIN, 1_000_000] {
            let refused = process.ctx().watch_fd(&number, Interest::READ);
            assert!(matches!(refused, Err(WatchError::NoDescriptor(bad)) if bad == number), "{refused:?}");
            assert!(!process.ctx().unwatch_fd(&number));
        }
    });
}

#[test]
fn the_last_event_of_a_descriptor_that_is_closed_says_so() {
    with_process(|process| {
        let (reader, _writer) = pipe().unwrap();
        let number: RawFd = reader.as_raw_fd();
        process.ctx().watch_fd(&reader, Interest::READ).unwrap();
        assert_eq!(next(process), None);
        fd::close(OwnedFd::from(reader));
        assert_eq!(next(process), Some(FdEvent { fd: number, events: libc::POLLNVAL as u32 }));
        assert_eq!(next(process), None);
        assert!(!process.ctx().unwatch_fd(&number), "the watch is over");
    });
}

// T11
#[test]
fn watches_are_gone_when_the_end_of_their_actor_is_told() {
    for workers in [1, 2, 8] {
        let node = node(workers);
        for _ in 0..50 {
            let watches = node.actor().spawn_process::<(), _>(move |process| {
                let (reader, writer) = pipe().unwrap();
                process.ctx().watch_fd(&reader, Interest::READ).unwrap();
                assert_eq!(next(process), None);
                assert_eq!(process.ctx().node().handle().dump().descriptors, Some(1));
                process.ctx().watch_fd(&writer, Interest::READ).unwrap(); // one that has not begun to wait
                Flow::Stop
            });
            assert_eq!(watches.unwrap().join().unwrap(), ExitReason::Normal);
            assert_eq!(node.handle().dump().descriptors, Some(0));
        }
    }
}

/// True if this process may have so many descriptors. Else `test`, which calls this, has run in one that may.
fn may_have(descriptors: usize, test: &str) -> bool {
    const INNER: &str = "SINEW_MANY_DESCRIPTORS";
    if env::var_os(INNER).is_some() {
        return true;
    }
    let outcome = Command::new("sh")
        .args(["-c", &format!(r#"ulimit -n {descriptors} && exec "$0" "$@""#)])
        .arg(env::current_exe().unwrap())
        .args(["--exact", &full_test_name(module_path!(), test), "--nocapture"])
        .env(INNER, "yes")
        .status();
    assert!(outcome.unwrap().success(), "it needs {descriptors} descriptors: see `ulimit -Hn`");
    false
}

/// A socket that gets what is sent to this address.
fn socket(number: u64) -> (SocketAddr, UnixDatagram) {
    let name = format!("sinew-kernel-fds-{}-{number}", process::id());
    let address = SocketAddr::from_abstract_name(name).unwrap();
    let socket = UnixDatagram::bind_addr(&address).unwrap();
    socket.set_nonblocking(true).unwrap();
    (address, socket)
}

// T13
#[test]
fn ten_thousand_descriptors_are_watched_at_once() {
    let count = 10_000;
    if !may_have(count + 200, "ten_thousand_descriptors_are_watched_at_once") {
        return;
    }
    for workers in [1, 2] {
        let node = node(workers);
        let watcher = node.actor().spawn_process::<(), _>(move |process| {
            let sockets: BTreeMap<RawFd, (SocketAddr, UnixDatagram)> = (0..count as u64)
                .map(socket)
                .map(|(address, socket)| (socket.as_raw_fd(), (address, socket)))
                .collect();
            for (_, socket) in sockets.values() {
                process.ctx().watch_fd(socket, Interest::READ).unwrap();
            }
            assert_eq!(next(process), None);
            assert_eq!(process.ctx().node().handle().dump().descriptors, Some(count));
            // One alone, and then all.
            for some in [1, count] {
                for (address, socket) in sockets.values().rev().take(some) {
                    socket.send_to_addr(&[7], address).unwrap();
                }
                let mut told = BTreeSet::new();
                for _ in 0..some {
                    let FdEvent { fd, events } = next(process).expect("one that was not told");
                    assert_eq!(events, IN);
                    assert!(told.insert(fd), "{fd} was told twice");
                    assert_eq!(sockets[&fd].1.recv(&mut [0; 8]).unwrap(), 1);
                }
                assert!(told.iter().rev().eq(sockets.keys().rev().take(some)));
                assert_eq!(next(process), None);
            }
            Flow::Stop
        });
        assert_eq!(watcher.unwrap().join().unwrap(), ExitReason::Normal);
        assert_eq!(node.handle().dump().descriptors, Some(0));
    }
}

#[test]
fn a_descriptor_that_is_always_ready_does_not_keep_messages_waiting() {
    struct Busy(File, u32, u32);
    impl Actor for Busy {
        type Msg = ();
        fn started(&mut self, ctx: &mut Ctx<()>) -> Flow {
            ctx.watch_fd(&self.0, Interest::READ).unwrap();
            Flow::Continue
        }
        fn handle(&mut self, (): (), _: &mut Ctx<()>) -> Flow {
            self.1 += 1;
            if self.1 == 100 { Flow::Stop } else { Flow::Continue }
        }
        fn raw(&mut self, _: Message, _: &mut Ctx<()>) -> Flow {
            self.2 += 1;
            assert!(self.2 <= self.1 + 10_000, "it is told and told, and gets no message");
            Flow::Continue
        }
    }
    for workers in [1, 2, 8] {
        let node = node(workers);
        let busy = node.spawn(Busy(File::open("/proc/self/exe").unwrap(), 0, 0)).unwrap();
        let told = node.run(move || {
            for _ in 0..100 {
                busy.tell(()).unwrap();
            }
            busy.join().unwrap()
        });
        assert_eq!(told.unwrap(), ExitReason::Normal);
    }
}

//! The harness that every kind of file descriptor passes.
//!
//! A new kind implements [`FdObject`], and its tests call [`check`] with a function that creates a [`Subject`]: an object,
//! and closures that make its transitions happen. The harness then verifies the contract of `FdObject`:
//!
//! - the mask is precise, and `EAGAIN` agrees with it: no `IN` means `EAGAIN`, `OUT` means that the smallest write succeeds;
//! - each transition wakes an epoll that waits, every time and not only the first;
//! - a read into a buffer that is too small takes nothing;
//! - a close and a hang-up of the other end wake every epoll with `HUP`;
//! - metrics move with the data.

use std::sync::Arc;
use std::time::Duration;

use sinew_core::Errno;
use sinew_sync::thread;

use crate::bits::{Events, Flags};
use crate::epoll::{EpollEvent, EpollOp};
use crate::object::FdObject;
use crate::table::FdTable;

/// How long a transition may take to arrive. Only a fault reaches it.
const PATIENCE: Duration = Duration::from_secs(20);

/// Writes after which an object without an own way to be filled has to be full.
const FILL_LIMIT: usize = 1 << 20;

/// Times that each transition is made.
const ROUNDS: usize = 3;

type Step = Box<dyn FnMut() + Send>;

/// An object under test, with the ways to make its transitions happen.
pub struct Subject {
    object: Arc<dyn FdObject>,
    readable: Option<Step>,
    full: Option<Step>,
    writable: Option<Step>,
    hang_up: Option<Step>,
}

impl Subject {
    /// Creates a subject that makes no transition by itself. Its object is new, and not readable unless it always is.
    pub fn new(object: Arc<dyn FdObject>) -> Subject {
        Subject { object, readable: None, full: None, writable: None, hang_up: None }
    }

    /// Says how the object becomes readable, when nothing is left to read.
    pub fn becomes_readable_by(mut self, step: impl FnMut() + Send + 'static) -> Subject {
        self.readable = Some(Box::new(step));
        self
    }

    /// Says how the object becomes full. Without this it is written to until it is.
    pub fn becomes_full_by(mut self, step: impl FnMut() + Send + 'static) -> Subject {
        self.full = Some(Box::new(step));
        self
    }

    /// Says how the object becomes writable, when it is full.
    pub fn becomes_writable_by(mut self, step: impl FnMut() + Send + 'static) -> Subject {
        self.writable = Some(Box::new(step));
        self
    }

    /// Says how the other end goes away.
    pub fn hangs_up_by(mut self, step: impl FnMut() + Send + 'static) -> Subject {
        self.hang_up = Some(Box::new(step));
        self
    }
}

impl std::fmt::Debug for Subject {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Subject").field("object", &self.object).finish_non_exhaustive()
    }
}

/// Verifies the contract of [`FdObject`] on subjects that `make` creates. Call it from a thread that is no worker: it
/// blocks.
///
/// # Panics
///
/// If the kind breaks a rule; the message says which.
pub fn check(make: impl Fn() -> Subject) {
    let kind = make().object.kind();
    assert!(!kind.is_empty(), "a kind has a name");
    check_agreement(&*make().object);
    check_refused_watch(make());
    check_readable(make());
    check_small_buffer(make());
    check_writable(make());
    check_hang_up(make());
    check_close(make());
    check_close_of_number(make());
}

fn read(object: &dyn FdObject) -> Result<usize, Errno> {
    object.read(&mut vec![0; object.read_minimum().max(64)])
}

fn write(object: &dyn FdObject) -> Result<usize, Errno> {
    let mut bytes = vec![0; object.write_minimum()];
    bytes[0] = 1;
    object.write(&bytes)
}

/// Compares the mask with what reads and writes do.
fn check_agreement(object: &dyn FdObject) {
    let (kind, mask) = (object.kind(), object.poll_mask());
    let outcome = read(object);
    if mask.contains(Events::IN) {
        assert_ne!(outcome, Err(Errno::EAGAIN), "{kind}: IN is set, so a read does not fail with EAGAIN");
    } else {
        assert!(outcome.is_err(), "{kind}: IN is not set, so a read fails; it returned {outcome:?}");
    }
    let mask = object.poll_mask();
    let outcome = write(object);
    if mask.contains(Events::OUT) {
        let minimum = object.write_minimum();
        assert_eq!(outcome, Ok(minimum), "{kind}: OUT is set, so the smallest write succeeds");
    } else {
        assert!(outcome.is_err(), "{kind}: OUT is not set, so a write fails; it returned {outcome:?}");
    }
}

/// A table with the subject, and two epolls that watch it.
struct Watched {
    table: Arc<FdTable>,
    fd: i32,
    epolls: [i32; 2],
}

impl Watched {
    /// None if epolls do not watch the kind.
    fn new(subject: &Subject, events: Events) -> Option<Watched> {
        if !subject.object.is_pollable() {
            return None;
        }
        let table = Arc::new(FdTable::new(16));
        let fd = table.open(subject.object.clone(), Flags::NONBLOCK).expect("a number is free");
        let epolls = [0, 1].map(|_| table.epoll_create().expect("a number is free"));
        for epfd in epolls {
            table.epoll_ctl(epfd, EpollOp::Add, fd, events).expect("a pollable kind can be watched");
        }
        Some(Watched { table, fd, epolls })
    }

    fn now(&self, epfd: i32) -> Events {
        let mut found = [EpollEvent::default(); 2];
        let count = self.table.epoll_wait(epfd, &mut found, Some(Duration::ZERO)).expect("the epoll is open");
        found[..count].iter().fold(Events::NONE, |events, event| events | event.events)
    }

    /// Has a thread wait on each epoll, takes `step`, and returns what the threads were woken with.
    fn woken_by(&self, step: &mut dyn FnMut()) -> [Events; 2] {
        let waits = self.epolls.map(|epfd| {
            let table = self.table.clone();
            thread::spawn(move || {
                let mut found = [EpollEvent::default(); 2];
                let count = table.epoll_wait(epfd, &mut found, Some(PATIENCE)).expect("the epoll is open");
                found[..count].iter().fold(Events::NONE, |events, event| events | event.events)
            })
        });
        step();
        waits.map(|wait| wait.join().expect("a wait does not panic"))
    }
}

fn check_refused_watch(subject: Subject) {
    if !subject.object.is_pollable() {
        let table = FdTable::new(16);
        let fd = table.open(subject.object, Flags::NONE).expect("a number is free");
        let epfd = table.epoll_create().expect("a number is free");
        let refused = table.epoll_ctl(epfd, EpollOp::Add, fd, Events::IN);
        assert!(refused.is_err(), "a kind that is not pollable cannot be watched");
    }
}

fn check_readable(mut subject: Subject) {
    let Some(mut step) = subject.readable.take() else { return };
    let (object, kind) = (subject.object.clone(), subject.object.kind());
    let Some(watched) = Watched::new(&subject, Events::IN) else { return };
    for round in 0..ROUNDS {
        assert_eq!(watched.now(watched.epolls[0]), Events::NONE, "{kind}: nothing to read in round {round}");
        let before = object.metrics();
        for events in watched.woken_by(&mut step) {
            assert!(events.contains(Events::IN), "{kind}: becoming readable wakes with IN, not {events:?}");
        }
        let again = watched.now(watched.epolls[0]);
        assert!(again.contains(Events::IN), "{kind}: IN is reported as long as there is something to read");
        assert!(matches!(read(&*object), Ok(1..)), "{kind}: IN is set, so a read returns something");
        while read(&*object).is_ok() {}
        assert_eq!(read(&*object), Err(Errno::EAGAIN), "{kind}: an empty object fails with EAGAIN");
        let mask = object.poll_mask();
        assert!(!mask.contains(Events::IN), "{kind}: EAGAIN was returned, so IN is not set: {mask:?}");
        let after = object.metrics();
        assert!(after.bytes_in > before.bytes_in, "{kind}: a read counts bytes_in");
        assert!(after.records_in > before.records_in, "{kind}: a read counts records_in");
        assert!(after.wakeups > before.wakeups, "{kind}: a notification counts wakeups");
    }
}

fn check_small_buffer(mut subject: Subject) {
    let Some(mut step) = subject.readable.take() else { return };
    let (object, kind) = (subject.object.clone(), subject.object.kind());
    step();
    let Some(watched) = Watched::new(&subject, Events::IN) else { return };
    watched.table.ready(watched.fd, Events::IN, Some(PATIENCE)).expect("the number is open");
    let minimum = object.read_minimum();
    if minimum > 1 {
        let outcome = object.read(&mut vec![0; minimum - 1]);
        assert_eq!(outcome, Err(Errno::ENOSPC), "{kind}: a buffer that is too small is refused");
    }
    let outcome = object.read(&mut vec![0; minimum]);
    assert!(matches!(outcome, Ok(1..)), "{kind}: a read of the minimum succeeds, not {outcome:?}");
}

fn check_writable(mut subject: Subject) {
    let Some(mut step) = subject.writable.take() else { return };
    let (object, kind) = (subject.object.clone(), subject.object.kind());
    let Some(watched) = Watched::new(&subject, Events::OUT) else { return };
    let before = object.metrics();
    assert_eq!(
        write(&*object),
        Ok(object.write_minimum()),
        "{kind}: an object that is not full takes a write"
    );
    let after = object.metrics();
    assert!(after.bytes_out > before.bytes_out, "{kind}: a write counts bytes_out");
    assert!(after.records_out > before.records_out, "{kind}: a write counts records_out");
    for _ in 0..ROUNDS {
        match &mut subject.full {
            Some(fill) => fill(),
            None => assert!(
                (0..FILL_LIMIT).any(|_| write(&*object).is_err()),
                "{kind}: it is never full; say how by becomes_full_by"
            ),
        }
        assert_eq!(write(&*object), Err(Errno::EAGAIN), "{kind}: a full object fails with EAGAIN");
        let now = watched.now(watched.epolls[0]);
        assert!(!now.contains(Events::OUT), "{kind}: EAGAIN was returned, so OUT is not set: {now:?}");
        for events in watched.woken_by(&mut step) {
            assert!(events.contains(Events::OUT), "{kind}: becoming writable wakes with OUT, not {events:?}");
        }
        assert_eq!(
            write(&*object),
            Ok(object.write_minimum()),
            "{kind}: OUT was reported, so a write succeeds"
        );
    }
}

fn check_hang_up(mut subject: Subject) {
    let Some(mut step) = subject.hang_up.take() else { return };
    let (object, kind) = (subject.object.clone(), subject.object.kind());
    let Some(watched) = Watched::new(&subject, Events::NONE) else { return };
    for events in watched.woken_by(&mut step) {
        assert!(events.contains(Events::HUP), "{kind}: the other end is gone, which is HUP: {events:?}");
    }
    assert!(object.poll_mask().contains(Events::HUP), "{kind}: HUP stays set");
    assert_ne!(
        read(&*object),
        Err(Errno::EAGAIN),
        "{kind}: after a hang-up a read does not fail with EAGAIN"
    );
    assert_ne!(
        write(&*object),
        Err(Errno::EAGAIN),
        "{kind}: after a hang-up a write does not fail with EAGAIN"
    );
    check_agreement(&*object);
}

/// The object is closed, and tells those that watch it.
fn check_close(subject: Subject) {
    let (object, kind) = (subject.object.clone(), subject.object.kind());
    match Watched::new(&subject, Events::NONE) {
        None => object.close(),
        Some(watched) => {
            for events in watched.woken_by(&mut || object.close()) {
                assert!(events.contains(Events::HUP), "{kind}: a close wakes with HUP, not {events:?}");
            }
        }
    }
    check_closed(&*object);
}

/// A number is closed, which each epoll reports once.
fn check_close_of_number(subject: Subject) {
    let kind = subject.object.kind();
    let Some(watched) = Watched::new(&subject, Events::NONE) else { return };
    for events in watched.woken_by(&mut || watched.table.close(watched.fd).expect("the number is open")) {
        assert!(events.contains(Events::HUP), "{kind}: a close is reported as HUP: {events:?}");
    }
    // An object that had hung up before may have woken the waits: then the close is still to be reported.
    let _ = watched.epolls.map(|epfd| watched.now(epfd));
    assert_eq!(
        watched.epolls.map(|epfd| watched.now(epfd)),
        [Events::NONE; 2],
        "{kind}: HUP is reported once"
    );
    check_closed(&*subject.object);
}

fn check_closed(object: &dyn FdObject) {
    let (kind, mask) = (object.kind(), object.poll_mask());
    assert!(mask.contains(Events::HUP), "{kind}: a closed object has HUP set: {mask:?}");
    assert!(
        !mask.intersects(Events::IN | Events::OUT),
        "{kind}: a closed object is ready for nothing: {mask:?}"
    );
    for outcome in [read(object), write(object)] {
        let refused = matches!(outcome, Err(Errno::EBADF | Errno::EISDIR));
        assert!(refused, "{kind}: calls on a closed object fail with EBADF, not {outcome:?}");
    }
}

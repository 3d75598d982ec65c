//! A kind that is not of this crate: a queue of messages, as later kinds for HTTP, chat and speech have one. It uses nothing
//! but the public items.

use std::collections::VecDeque;
use std::sync::Arc;

use sinew_fd::onboarding::{Subject, check};
use sinew_fd::{
    Counters, EpollOp, Errno, Events, FdCommand, FdObject, FdTable, Flags, Metrics, ObjectLock, Watchers,
};

use crate::poll;

/// Messages that a session may hold.
const LIMIT: usize = 4;

/// A session that answers: requests are written, answers are read, each as one record.
#[derive(Debug)]
struct Session {
    state: ObjectLock<State>,
    watchers: Watchers,
    counters: Counters,
}

#[derive(Debug, Default)]
struct State {
    requests: VecDeque<Vec<u8>>,
    answers: VecDeque<Vec<u8>>,
    answered: u64,
    failed: bool,
    closed: bool,
}

impl Session {
    fn new() -> Arc<Session> {
        Arc::new(Session {
            state: ObjectLock::new(State::default()),
            watchers: Watchers::new(),
            counters: Counters::default(),
        })
    }

    /// The remote side takes a request.
    fn take_request(&self) -> Option<Vec<u8>> {
        let request = self.state.lock().requests.pop_front();
        self.watchers.notify(Events::OUT);
        request
    }

    /// The remote side answers.
    fn answer(&self, text: &[u8]) {
        {
            let mut state = self.state.lock();
            state.answers.push_back(text.to_vec());
            state.answered += 1;
        }
        self.watchers.notify(Events::IN);
    }

    /// The remote side breaks off.
    fn fail(&self) {
        self.state.lock().failed = true;
        self.watchers.notify(Events::ERR | Events::HUP);
    }
}

impl FdObject for Session {
    fn kind(&self) -> &'static str {
        "Session"
    }

    fn watchers(&self) -> &Watchers {
        &self.watchers
    }

    fn poll_mask(&self) -> Events {
        let state = self.state.lock();
        if state.closed {
            return Events::HUP;
        }
        let mut mask = Events::NONE;
        if !state.answers.is_empty() {
            mask |= Events::IN;
        }
        if state.failed {
            return mask | Events::ERR | Events::HUP;
        }
        if state.requests.len() < LIMIT {
            mask |= Events::OUT;
        }
        mask
    }

    fn close(&self) {
        self.state.lock().closed = true;
        self.watchers.notify(Events::HUP);
    }

    fn metrics(&self) -> Metrics {
        let queue_depth = self.state.lock().requests.len() as u64;
        let wakeups = self.watchers.wakeups();
        Metrics { queue_depth, queue_limit: LIMIT as u64, wakeups, ..self.counters.metrics() }
    }

    fn read(&self, buffer: &mut [u8]) -> Result<usize, Errno> {
        let mut state = self.state.lock();
        if state.closed {
            return Err(Errno::EBADF);
        }
        let Some(answer) = state.answers.front() else {
            return Err(if state.failed { Errno::ECONNRESET } else { Errno::EAGAIN });
        };
        let length = answer.len();
        buffer.get_mut(..length).ok_or(Errno::ENOSPC)?.copy_from_slice(answer);
        state.answers.pop_front();
        self.counters.count_read(length);
        Ok(length)
    }

    fn write(&self, bytes: &[u8]) -> Result<usize, Errno> {
        let mut state = self.state.lock();
        if state.closed {
            return Err(Errno::EBADF);
        }
        if state.failed {
            return Err(Errno::EPIPE);
        }
        if state.requests.len() == LIMIT {
            return Err(Errno::EAGAIN);
        }
        state.requests.push_back(bytes.to_vec());
        self.counters.count_write(bytes.len());
        Ok(bytes.len())
    }

    fn read_minimum(&self) -> usize {
        self.state.lock().answers.front().map_or(1, Vec::len)
    }

    fn extra_metrics(&self) -> Vec<(&'static str, u64)> {
        vec![("answers", self.state.lock().answered)]
    }
}

#[test]
fn a_kind_of_another_crate_passes_the_harness() {
    check(|| {
        let session = Session::new();
        let (answers, takes, fails) = (session.clone(), session.clone(), session.clone());
        Subject::new(session)
            .becomes_readable_by(move || answers.answer(b"an answer"))
            .becomes_writable_by(move || drop(takes.take_request().unwrap()))
            .hangs_up_by(move || fails.fail())
    });
}

#[test]
fn a_kind_of_another_crate_is_an_fd_like_any_other() {
    let table = FdTable::new(16);
    let session = Session::new();
    let (epfd, fd) = (table.epoll_create().unwrap(), table.open(session.clone(), Flags::NONE).unwrap());
    table.epoll_ctl(epfd, EpollOp::Add, fd, Events::IN).unwrap();
    table.write(fd, b"question").unwrap();
    assert_eq!(session.take_request().unwrap(), b"question");
    session.answer(b"42");
    assert_eq!(poll(&table, epfd), [(fd, Events::IN)]);
    assert_eq!(table.read(fd, &mut [0; 1]), Err(Errno::ENOSPC));
    assert_eq!(table.read(fd, &mut [0; 8]), Ok(2));
    assert!(table.ctl(fd, FdCommand::GetMetrics, b"").unwrap().contains(r#""answers":1"#));
    assert_eq!(table.object_as::<Session>(fd).unwrap().kind(), "Session");
    assert_eq!(table.object_as::<Session>(epfd).unwrap_err(), Errno::EINVAL);
}

/// A kind that forgets to tell: the harness has to find it.
#[derive(Debug)]
struct Silent(Arc<Session>, Watchers);

impl FdObject for Silent {
    fn kind(&self) -> &'static str {
        "Silent"
    }

    fn watchers(&self) -> &Watchers {
        &self.1
    }

    fn poll_mask(&self) -> Events {
        self.0.poll_mask()
    }

    fn close(&self) {
        self.0.close();
        self.1.notify(Events::HUP);
    }

    fn metrics(&self) -> Metrics {
        self.0.metrics()
    }

    /// Says that there is nothing although the mask has `IN`.
    fn read(&self, _: &mut [u8]) -> Result<usize, Errno> {
        Err(Errno::EAGAIN)
    }

    fn write(&self, bytes: &[u8]) -> Result<usize, Errno> {
        self.0.write(bytes)
    }
}

#[test]
#[should_panic(expected = "IN is set, so a read does not fail with EAGAIN")]
fn the_harness_finds_a_mask_that_is_not_precise() {
    check(|| {
        let session = Session::new();
        session.answer(b"never read");
        Subject::new(Arc::new(Silent(session, Watchers::new())))
    });
}

#[test]
#[cfg(debug_assertions)]
#[should_panic(expected = "lock order: notifying watchers")]
fn a_kind_that_notifies_under_its_lock_is_found_in_debug_builds() {
    let session = Session::new();
    let _state = session.state.lock();
    session.watchers.notify(Events::IN);
}

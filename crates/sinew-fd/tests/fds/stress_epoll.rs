//! Epolls under load: many of them over the same file descriptors, with transitions, closes, changes and kills at random.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use sinew_fd::{EpollEvent, EpollOp, Errno, EventCounter, Events, FdTable, Flags};
use sinew_sched::{Runtime, spawn};
use sinew_test_kit::runtimes::{Over, SEED, next, rounds, scale, with_runtime};

/// File descriptors that are watched in each table.
const FDS: usize = 64;

/// A table whose numbers come and go.
struct Arena {
    table: FdTable,
    epolls: Vec<i32>,
    reported: AtomicUsize,
}

impl Arena {
    fn new(epolls: usize) -> Arc<Arena> {
        let table = FdTable::new(4 * FDS + 2 * epolls);
        let epolls = (0..epolls).map(|_| table.epoll_create().unwrap()).collect();
        Arc::new(Arena { table, epolls, reported: AtomicUsize::new(0) })
    }

    fn random_fd(&self, seed: &mut u64) -> i32 {
        3 + self.epolls.len() as i32 + (next(seed) % (FDS as u64 * 2)) as i32
    }

    fn random_epoll(&self, seed: &mut u64) -> i32 {
        self.epolls[next(seed) as usize % self.epolls.len()]
    }

    /// One change of any kind.
    fn disturb(&self, seed: &mut u64) {
        let (fd, epfd) = (self.random_fd(seed), self.random_epoll(seed));
        let events = Events::from_bits_truncate(next(seed) as u32);
        match next(seed) % 12 {
            0 | 1 => drop(self.table.open(EventCounter::new(next(seed) % 2), Flags::NONBLOCK)),
            2 => drop(self.table.close(fd)),
            3 | 4 => drop(self.table.epoll_ctl(epfd, EpollOp::Add, fd, events)),
            5 => drop(self.table.epoll_ctl(epfd, EpollOp::Modify, fd, events)),
            6 => drop(self.table.epoll_ctl(epfd, EpollOp::Delete, fd, events)),
            7 => drop(self.table.take(fd)),
            8 => drop(self.table.dup(fd)),
            9 => drop(self.table.read(fd, &mut [0; 8])),
            _ => drop(self.table.write(fd, &1_u64.to_le_bytes())),
        }
    }

    /// Waits until the epoll is closed, and checks each answer.
    fn wait_until_closed(&self, epfd: i32, seed: &mut u64) {
        let mut events = [EpollEvent::default(); 16];
        loop {
            let capacity = 1 + next(seed) as usize % events.len();
            let timeout = next(seed).is_multiple_of(3).then(|| Duration::from_micros(next(seed) % 500));
            match self.table.epoll_wait(epfd, &mut events[..capacity], timeout) {
                Ok(count) => {
                    let events = &events[..count];
                    assert!(events.is_sorted_by(|a, b| a.fd < b.fd), "{events:?}");
                    assert!(events.iter().all(|event| !event.events.is_empty()), "{events:?}");
                    self.reported.fetch_add(count, Ordering::Relaxed);
                    for event in events {
                        let _ = self.table.read(event.fd, &mut [0; 8]);
                    }
                }
                Err(Errno::EBADF) => return,
                Err(Errno::ECANCELED) => (),
                Err(errno) => panic!("{errno}"),
            }
        }
    }
}

#[test]
fn epolls_survive_random_changes_by_threads() {
    for _ in 0..4 {
        let arena = Arena::new(8);
        std::thread::scope(|scope| {
            for (number, epfd) in arena.epolls.iter().enumerate() {
                let arena = &arena;
                scope.spawn(move || arena.wait_until_closed(*epfd, &mut (SEED + number as u64)));
            }
            let disturbing: Vec<_> = (0..3)
                .map(|number| {
                    let arena = &arena;
                    scope.spawn(move || {
                        let mut seed = SEED ^ (number + 1);
                        for round in 0..rounds(20_000) {
                            arena.disturb(&mut seed);
                            if round % 1024 == 0 {
                                arena.table.interrupt();
                            }
                        }
                    })
                })
                .collect();
            disturbing.into_iter().for_each(|thread| thread.join().unwrap());
            arena.table.close_all();
        });
        assert!(arena.reported.load(Ordering::Relaxed) > 0);
    }
}

#[test]
fn a_thousand_epolls_over_64_fds_with_kills() {
    let epolls = if scale() >= 1.0 { 1000 } else { 100 };
    with_runtime(Runtime::builder().workers(4), |runtime| {
        let arena = Arena::new(epolls);
        let waiting = arena.clone();
        let done = runtime.spawn(move || {
            let tasks: Vec<_> = waiting
                .epolls
                .iter()
                .enumerate()
                .map(|(number, epfd)| {
                    let (arena, epfd) = (waiting.clone(), *epfd);
                    let mut seed = SEED + number as u64;
                    spawn(move || arena.wait_until_closed(epfd, &mut seed))
                })
                .collect();
            let mut seed = SEED;
            for round in 0..rounds(40_000) {
                waiting.disturb(&mut seed);
                if round % 100 == 0 {
                    let victim = &tasks[next(&mut seed) as usize % tasks.len()];
                    victim.kill();
                    sinew_sched::yield_now();
                }
            }
            waiting.table.close_all();
            tasks.into_iter().for_each(|task| drop(task.join())); // some were killed
        });
        done.join().unwrap();
        assert!(arena.reported.load(Ordering::Relaxed) > 0);
    });
}

#[test]
fn nothing_that_was_counted_is_lost() {
    let table = Arc::new(FdTable::new(256));
    let epfd = table.epoll_create().unwrap();
    let objects: Vec<_> = (0..FDS).map(|_| EventCounter::new(0)).collect();
    for object in &objects {
        let fd = table.open(object.clone(), Flags::NONBLOCK).unwrap();
        table.epoll_ctl(epfd, EpollOp::Add, fd, Events::IN).unwrap();
    }
    let (each, over) = (rounds(50_000), AtomicBool::new(false));
    std::thread::scope(|scope| {
        let _over = Over(&over);
        for number in 0..2_u64 {
            let objects = &objects;
            scope.spawn(move || {
                let mut seed = SEED + number;
                (0..each).for_each(|_| objects[next(&mut seed) as usize % FDS].add(1).unwrap());
            });
        }
        let (mut seen, mut events) = (0, [EpollEvent::default(); 8]);
        while seen < 2 * each as u64 {
            let count = table.epoll_wait(epfd, &mut events, None).unwrap();
            for event in &events[..count] {
                let mut record = [0; 8];
                table.read(event.fd, &mut record).unwrap();
                seen += u64::from_le_bytes(record);
            }
        }
        assert_eq!(seen, 2 * each as u64);
    });
}

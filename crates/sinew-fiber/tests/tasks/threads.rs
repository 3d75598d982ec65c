//! Every thread has fibers of its own, and leaves nothing behind.

use std::cell::{Cell, RefCell};
use std::sync::{Arc, mpsc};
use std::thread;

use sinew_fiber::{
    Control, Fiber, Generator, Mask, Signal, StackSize, Value, current, error, protect, root, usage, yield_,
};
use sinew_sync::statics::{AtomicUsize, Ordering};

use crate::drop_support::OnDrop;
use crate::stack_support::pass_in_child;

/// A small generator of numbers that look random; the same for the same seed.
struct Random(u64);

impl Random {
    fn below(&mut self, end: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % end
    }
}

/// Makes, resumes, cancels and drops fibers at random, `steps` times; `alive` counts the bodies that have
/// begun and not ended.
fn churn(seed: u64, steps: usize, alive: &Arc<AtomicUsize>) {
    let mut random = Random(seed);
    let mut fibers: Vec<Fiber> = Vec::new();
    for step in 0..steps {
        match random.below(8) {
            0 | 1 => {
                let (alive, yields) = (alive.clone(), random.below(5));
                let size = [StackSize::KiB16, StackSize::KiB64, StackSize::KiB256][random.below(3)];
                let options = Fiber::builder().mask(Mask::YIELD | Mask::ERROR).stack(size);
                let fiber = options.build(move |_| {
                    alive.fetch_add(1, Ordering::Relaxed);
                    let _guard = OnDrop(|| {
                        alive.fetch_sub(1, Ordering::Relaxed);
                    });
                    for n in 0..yields {
                        yield_(n).unwrap();
                    }
                    if yields == 3 {
                        error("three");
                    }
                });
                fibers.push(fiber.unwrap());
            }
            2..6 if !fibers.is_empty() => {
                let index = random.below(fibers.len());
                let signal = fibers[index].resume(()).unwrap().signal();
                if signal.is_terminal() {
                    drop(fibers.swap_remove(index));
                }
            }
            6 if !fibers.is_empty() => {
                let fiber = fibers.swap_remove(random.below(fibers.len()));
                if step % 2 == 0 {
                    assert_eq!(fiber.cancel(()).unwrap(), Signal::Error);
                }
            }
            _ => {
                let numbers = Generator::new(|out| (0..4usize).for_each(|n| out.yield_(n))).unwrap();
                assert_eq!(protect(|| numbers.take(3).sum::<usize>()).unwrap(), 3);
            }
        }
    }
}

#[test]
fn eight_threads_make_resume_and_drop_fibers_at_random_and_nothing_leaks() {
    pass_in_child(
        module_path!(),
        "eight_threads_make_resume_and_drop_fibers_at_random_and_nothing_leaks",
        || {
            let before = usage().in_use;
            let alive = Arc::new(AtomicUsize::new(0));
            let threads: Vec<_> = (0..8)
                .map(|seed| {
                    let alive = alive.clone();
                    thread::spawn(move || churn(seed, 5_000, &alive))
                })
                .collect();
            threads.into_iter().for_each(|thread| thread.join().unwrap());
            assert_eq!(alive.load(Ordering::Relaxed), 0);
            assert_eq!(usage().in_use, before);
        },
    );
}

thread_local! {
    static HELD: RefCell<Vec<Fiber>> = const { RefCell::new(Vec::new()) };
}

/// Fibers in a thread-local end with their thread, whether the thread-local goes before or after what the
/// crate keeps for the thread.
#[test]
fn fibers_in_a_thread_local_are_ended_when_their_thread_exits() {
    pass_in_child(module_path!(), "fibers_in_a_thread_local_are_ended_when_their_thread_exits", || {
        let before = usage().in_use;
        for held_is_first in [true, false] {
            let (sender, ended) = mpsc::channel();
            let thread = thread::spawn(move || {
                if held_is_first {
                    HELD.with_borrow(|held| assert!(held.is_empty()));
                } else {
                    assert_eq!(root(), current());
                }
                for number in 0..100 {
                    let sender = sender.clone();
                    let fiber = Fiber::new(move |_| {
                        let _guard = OnDrop(|| {
                            let numbers = Generator::new(move |out| out.yield_(number)).unwrap();
                            numbers.for_each(|n| sender.send(n).unwrap());
                        });
                        protect(|| drop(yield_(()).unwrap())).unwrap();
                    });
                    let fiber = fiber.unwrap();
                    assert_eq!(fiber.resume(()).unwrap(), Signal::Yield);
                    HELD.with_borrow_mut(|held| held.push(fiber));
                }
            });
            thread.join().unwrap();
            assert_eq!(ended.iter().collect::<Vec<_>>(), (0..100).collect::<Vec<_>>());
            assert_eq!(usage().in_use, before);
        }
    });
}

#[test]
fn a_thread_that_is_ending_gets_another_root_for_what_it_still_runs() {
    /// Runs a fiber when its thread has already destroyed what the crate kept for it.
    struct Last(Cell<Option<(u64, mpsc::Sender<u32>)>>);
    impl Drop for Last {
        fn drop(&mut self) {
            let (of_thread, sender) = self.0.take().unwrap();
            assert_ne!(root().id(), of_thread);
            let numbers = Generator::new(|out| (0..3u32).for_each(|n| out.yield_(n))).unwrap();
            numbers.for_each(|n| sender.send(n).unwrap());
        }
    }
    thread_local! {
        static LAST: Last = const { Last(Cell::new(None)) };
    }
    let (sender, received) = mpsc::channel();
    let thread = thread::spawn(move || LAST.with(|last| last.0.set(Some((root().id(), sender)))));
    thread.join().unwrap();
    assert_eq!(received.iter().collect::<Vec<_>>(), [0, 1, 2]);
}

#[test]
fn each_thread_has_a_root_of_its_own() {
    let here = root();
    assert_eq!(current(), here);
    let (id, name) = thread::Builder::new()
        .name("there".into())
        .spawn(|| (root().id(), root().name()))
        .unwrap()
        .join()
        .unwrap();
    assert_ne!(id, here.id());
    assert_eq!(name.as_deref(), Some("there"));
}

#[test]
fn a_control_and_a_value_may_go_to_other_threads() {
    fn is_send_and_sync<T: Send + Sync>() {}
    fn is_send<T: Send>() {}
    is_send_and_sync::<Control>();
    is_send::<Value>();
}

//! Channels and selects among code that does what it should not, or at the wrong moment.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use sinew_chan::chan::{self, RecvError};
use sinew_chan::select;
use sinew_chan::select::{Case, Select, acquire, lock, recv, sleep};
use sinew_chan::sync::{Mutex, Semaphore};
use sinew_fiber::{Fiber, Mask, Root, Signal, control, run_as_root};
use sinew_sched::{ManualClock, Runtime, spawn};

/// A fiber is interrupted when it is about to wait; whoever handles that does what it waits for, and waits for something itself.
#[test]
fn a_wait_that_is_interrupted_looks_again_before_it_waits() {
    let runtime = Runtime::builder().build_current_thread().unwrap();
    let task = runtime.spawn(|| {
        let (sender, receiver) = chan::bounded(1);
        let waits = Fiber::builder().mask(Mask::INTERRUPT).build(move |_| {
            control().interrupt();
            receiver.recv().unwrap()
        });
        let waits = waits.unwrap();
        assert_eq!(waits.resume(()).unwrap(), Signal::Interrupt);
        sender.send(7).unwrap();
        spawn(|| ()).join().unwrap();
        assert_eq!(waits.resume(()).unwrap(), Signal::Ok);
        waits.take_value().downcast::<i32>().unwrap()
    });
    runtime.run_until_idle();
    assert!(task.is_finished(), "it was told, and waits");
    assert_eq!(task.join().unwrap(), 7);
}

/// Panics when it is dropped.
struct Bomb;

impl Drop for Bomb {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            panic!("dropped");
        }
    }
}

/// The handlers of the cases that did not happen are dropped before that of the one that did is called.
#[test]
fn a_lock_that_a_select_has_taken_is_given_back_if_it_unwinds_before_its_handler() {
    let (mutex, permits) = (Mutex::new(()), Semaphore::new(1));
    let (_sender, receiver) = chan::bounded::<()>(1);
    for number in 0..4 {
        let bomb = Bomb;
        let select = Select::new().case(recv(&receiver), move |_| drop(bomb));
        let select = match number % 2 {
            0 => select.case(lock(&mutex), |_| unreachable!("it was dropped first")),
            _ => select.case(acquire(&permits, 1), |_| unreachable!("it was dropped first")),
        };
        assert!(catch_unwind(AssertUnwindSafe(|| select.wait())).is_err());
        assert!(mutex.try_lock().is_some() && permits.available() == 1);
    }
}

/// Whoever has a case may ask for what it gives before it has happened.
#[test]
fn a_case_gives_no_guard_before_it_has_happened() {
    let mutex = Mutex::new(5);
    let held = mutex.lock().unwrap();
    assert!(catch_unwind(AssertUnwindSafe(|| drop(lock(&mutex).output()))).is_err());
    drop(held);
    assert!(mutex.try_lock().is_some());
}

/// Who asks still has a sender, so the channel is there; its question, and the way back in it, is not.
#[test]
fn a_question_that_nobody_can_receive_any_more_is_dropped() {
    for capacity in [1, 3] {
        for closed in [false, true] {
            let (questions, asked) = chan::bounded(capacity);
            let (answers, answer) = chan::bounded::<()>(1);
            questions.send(answers).unwrap();
            if closed {
                questions.close();
            }
            let also = asked.clone();
            drop(asked);
            assert!(answer.try_recv().unwrap().is_none());
            drop(also);
            assert!(matches!(answer.try_recv(), Err(RecvError::Closed)));
            assert_eq!(questions.len(), 0);
        }
    }
}

#[test]
fn items_behind_one_that_panics_when_it_is_dropped_are_dropped() {
    /// Counts when it is dropped, before it panics.
    #[allow(dead_code, reason = "it is there to be dropped")]
    struct Item(Arc<AtomicUsize>, Option<Bomb>);

    impl Drop for Item {
        fn drop(&mut self) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    for (sender, receiver) in [chan::bounded(4), chan::weighted(4, |_| 1)] {
        let dropped = Arc::new(AtomicUsize::new(0));
        for n in 0..4 {
            let item = Item(dropped.clone(), (n == 1).then(|| Bomb));
            assert!(sender.try_send(item).is_ok());
        }
        assert!(catch_unwind(AssertUnwindSafe(|| drop(receiver))).is_err());
        assert_eq!(dropped.load(Ordering::Relaxed), 4);
        assert!(sender.is_empty());
    }
}

/// A root of the user's own inside a task blocks its thread, and with it the clock that would jump.
#[test]
fn a_time_passes_under_a_root_of_ones_own_on_a_clock_that_stands_still() {
    let runtime = Runtime::builder().manual_clock(&ManualClock::new()).build_current_thread().unwrap();
    let passed = runtime.run(|| {
        let mut root = Root::new("own", Mask::NONE);
        run_as_root(&mut root, None, || {
            let (_sender, receiver) = chan::bounded::<()>(1);
            let millisecond = Duration::from_millis(1);
            let received = receiver.recv_timeout(millisecond);
            let slept = select! {
                _ = recv(&receiver) => false,
                _ = sleep(60_000 * millisecond) => false,
                _ = sleep(millisecond) => true,
            };
            matches!(received, Err(RecvError::Timeout)) && slept.unwrap()
        })
    });
    assert!(passed.unwrap().unwrap());
}

//! Models of channels that are used by futures.

use std::pin::pin;
use std::task::{Context, Poll, Waker};

use sinew_sync::{model, model_bounded, thread};
use sinew_test_kit::drive;

use crate::chan;

#[test]
fn whoever_polled_a_future_last_is_woken() {
    model("async_renewed_or_told", || {
        let (sender, mut receiver) = chan::oneshot::channel();
        let receives = thread::spawn(move || drive(receiver.recv_async()).unwrap());
        sender.send(5).unwrap();
        assert_eq!(receives.join().unwrap(), 5);
    });
}

#[test]
fn what_a_future_that_is_dropped_was_given_reaches_the_next() {
    model_bounded("async_dropped_hands_on", 3, || {
        let (sender, receiver) = chan::bounded(1);
        let drops = {
            let receiver = receiver.clone();
            thread::spawn(move || {
                let mut future = pin!(receiver.recv_async());
                future.as_mut().poll(&mut Context::from_waker(Waker::noop())).map(Result::unwrap)
            })
        };
        sender.send(1).unwrap();
        let received = match drops.join().unwrap() {
            Poll::Ready(item) => item,
            Poll::Pending => receiver.recv().unwrap(),
        };
        assert_eq!(received, 1);
    });
}

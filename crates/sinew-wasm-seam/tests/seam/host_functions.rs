//! Host functions run inside a poll, on the stack of a guest: what they may not do is refused, and what they raise ends
//! the guest's task alone.

use std::time::Duration;

use sinew_chan::chan::{self, RecvError};
use sinew_fiber::Reason;
use sinew_sched::{sleep, spawn};

use crate::ended::WAITS;
use crate::guests::{Guest, Host};
use crate::support::{Tally, with_runtimes};

#[test]
fn a_host_function_that_would_block_is_refused_and_the_guest_goes_on() {
    with_runtimes(|runtime| {
        let host = Host::new();
        let (guest, gate) = Guest::new();
        let guest = guest.on_wait(|_| {
            let (_sender, receiver) = chan::bounded::<()>(1);
            let Err(RecvError::Refused(refused)) = receiver.recv() else { panic!("it cannot wait") };
            assert_eq!(refused.reason(), Reason::InsidePoll);
            spawn(|| sleep(Duration::ZERO)).detach(); // it may start what blocks
        });
        gate.try_send(1).unwrap();
        let task = runtime.spawn_future(host.call(&host.module(WAITS), guest, 6));
        assert_eq!(task.join().unwrap().unwrap(), 7);
    });
}

/// A function that raises something, and what is told of it.
type Raises = (fn(i32), &'static str);

#[test]
fn a_host_function_that_panics_or_raises_ends_its_task_and_gives_everything_back() {
    with_runtimes(|runtime| {
        let (host, tally) = (Host::new(), Tally::new());
        let module = host.module(WAITS);
        let (other, gate) = Guest::new();
        let other = runtime.spawn_future(host.call(&module, other, 6));
        let raises: [Raises; 3] = [
            (|n| panic!("of a host function: {n}"), "of a host function: 3"),
            (|_| sinew_fiber::error("raised by a host function"), "raised by a host function"),
            (|_| sleep(Duration::from_secs(1000)), "poll"),
        ];
        for (raise, told) in raises {
            let (guest, _gate) = Guest::new();
            let guest = guest.holding(tally.value(0)).on_wait(raise);
            let raised = runtime.spawn_future(host.call(&module, guest, 3)).join().unwrap_err();
            assert!(raised.to_string().contains(told), "{raised}");
        }
        tally.assert_even(raises.len());
        gate.send(1).unwrap();
        assert_eq!(other.join().unwrap().unwrap(), 7);
        assert_eq!(host.out(), (0, 0));
    });
}

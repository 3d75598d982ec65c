use sinew_fiber::StackSize;
use sinew_sync::{Arc, model, thread};

use super::super::PARKED;
use super::*;
use crate::worker::Queues;

/// Two workers that lie down at once, each of which would leave the reactor to the other: one of them sleeps there.
#[test]
fn two_workers_do_not_leave_the_reactor_to_each_other() {
    model("serving_leave_or_leave", || {
        let queues = [Queues::new(), Queues::new()];
        let shared = Arc::new(Shared::new(&queues, 0, StackSize::KiB16, Clock::System, true));
        let lie_down = |worker: usize| {
            let shared = shared.clone();
            move || {
                let inbox = &shared.inboxes[worker];
                shared.lie_down(inbox, PARKED);
                if shared.is_left_alone(worker) {
                    shared.get_up(inbox);
                    shared.lie_down(inbox, SERVING);
                }
            }
        };
        let other = thread::spawn(lie_down(1));
        lie_down(0)();
        other.join().unwrap();
        assert!(!shared.nobody_sleeps_there());
    });
}

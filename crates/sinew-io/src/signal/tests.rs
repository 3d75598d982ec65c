use sinew_sync::{model, thread};

use super::*;
use sinew_sched::os_signal::Listener as _;

/// A signal that is merged with one that is being received is not lost, nor is what was done before it.
#[test]
fn whoever_receives_sees_the_last_signal_and_what_came_before_it() {
    model("signal_merged_or_received", || {
        let signals = Signals::unheard(os_signal::bit(SIGTERM).unwrap());
        let done = Arc::new(AtomicU64::new(0));
        let tells = {
            let (listener, done) = (signals.listener.clone(), done.clone());
            thread::spawn(move || {
                for step in 1..=2 {
                    done.store(step, Ordering::Relaxed);
                    listener.tell(SIGTERM);
                }
            })
        };
        let mut received = 0;
        while done.load(Ordering::Relaxed) < 2 {
            assert_eq!(signals.recv().unwrap(), SIGTERM);
            received += 1;
            assert!(received <= 2);
        }
        tells.join().unwrap();
    });
}

#[test]
fn signals_of_one_kind_are_one_and_do_not_displace_another() {
    let bits = os_signal::bit(SIGTERM).unwrap() | os_signal::bit(SIGUSR1).unwrap();
    model("signal_kinds_have_room", move || {
        let signals = Signals::unheard(bits);
        (0..10).for_each(|_| signals.listener.tell(SIGUSR1));
        signals.listener.tell(SIGTERM);
        signals.listener.tell(SIGHUP); // not listened to
        let received: Vec<_> = std::iter::from_fn(|| signals.try_recv()).collect();
        assert_eq!(received, [SIGUSR1, SIGTERM]);
        signals.listener.tell(SIGUSR1);
        assert_eq!(signals.try_recv(), Some(SIGUSR1));
    });
}

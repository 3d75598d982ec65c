//! A channel that is full, with senders that wait and others that come when a place becomes free.

use std::thread;

use sinew_chan::chan;

/// Whoever receives moves the item of the first waiting sender into the place that it makes free: nobody else gets there
/// before.
#[test]
fn nobody_comes_between_a_receiver_and_the_sender_that_waits_for_its_place() {
    const WAITING: usize = 3;
    // Under valgrind one thread runs at a time, and the hasty one for as long as it may.
    const ITEMS: usize = if cfg!(valgrind) { 500 } else { 20_000 };
    for capacity in [1, 2] {
        let (sender, receiver) = chan::bounded(capacity);
        let waiting = (1..=WAITING).map(|number| {
            let sender = sender.clone();
            thread::spawn(move || (0..ITEMS).all(|item| sender.send((number, item)).is_ok()))
        });
        let waiting: Vec<_> = waiting.collect();
        let hasty = thread::spawn(move || {
            let mut sent = 0;
            while !sender.is_closed() {
                sent += usize::from(sender.try_send((0, sent)).is_ok());
            }
        });
        let mut next = [0; WAITING + 1];
        let mut wrong = None;
        while wrong.is_none() && next[1..] != [ITEMS; WAITING] {
            let len = receiver.len();
            let (number, item) = receiver.recv().unwrap();
            if item != next[number] || len > capacity {
                wrong = Some((number, item, next[number], len));
            }
            next[number] += 1;
        }
        receiver.close();
        hasty.join().unwrap();
        let sent: Vec<_> = waiting.into_iter().map(|waits| waits.join().unwrap()).collect();
        assert_eq!(wrong, None, "sender, item, the item that it should have been, and how many there were");
        assert_eq!(sent, [true; WAITING]);
    }
}

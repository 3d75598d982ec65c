//! Channels of several kinds and a select together, as a random scheduler runs them.

use sinew_core::Instant;
use sinew_sync::{model, thread};

use super::{bounded, rendezvous};
use crate::select;
use crate::select::{recv, send};

/// Two producers, one of which selects where to send, two consumers, one of which selects where to receive, and one who
/// closes in the middle of it: what was accepted is received, and what was not comes back.
#[test]
fn what_is_accepted_is_received() {
    model("chan_select_and_close", || {
        let (buffered, from_buffer) = bounded(1);
        let (direct, from_hand) = rendezvous();
        let plain = {
            let buffered = buffered.clone();
            thread::spawn(move || (0..3).filter(|number| buffered.send(*number).is_ok()).count())
        };
        let selects = {
            let (buffered, direct) = (buffered.clone(), direct.clone());
            thread::spawn(move || {
                let sent = (10..13).filter(|number| {
                    let (mut one, mut other) = (Some(*number), Some(*number));
                    let sent = select! {
                        sent = send(&buffered, &mut one) => sent.is_ok(),
                        sent = send(&direct, &mut other) => sent.is_ok(),
                    };
                    sent.unwrap()
                });
                sent.count()
            })
        };
        let receives = {
            let from_hand = from_hand.clone();
            thread::spawn(move || from_hand.iter().count())
        };
        let either = thread::spawn(move || {
            let (mut buffer, mut hand) = (Some(from_buffer), Some(from_hand));
            let mut received = 0;
            while buffer.is_some() || hand.is_some() {
                select! {
                    item = recv(buffer.as_ref()) => match item {
                        Ok(_) => received += 1,
                        Err(_) => buffer = None,
                    },
                    item = recv(hand.as_ref()) => match item {
                        Ok(_) => received += 1,
                        Err(_) => hand = None,
                    },
                }
                .unwrap();
            }
            received
        });
        let late = buffered.send_until(20, Instant::from_nanos(0)).is_ok();
        buffered.close();
        drop((buffered, direct));
        let accepted = plain.join().unwrap() + selects.join().unwrap() + usize::from(late);
        assert_eq!(accepted, receives.join().unwrap() + either.join().unwrap());
    });
}

//! Channels: what is sent is received, in order, and nothing else.

use std::collections::VecDeque;
use std::time::Duration;

use sinew_chan::chan::{self, RecvError, Unsent};
use sinew_chan::select;
use sinew_chan::select::{Select, recv, send, sleep};
use sinew_sched::{Runtime, block_on, scope, spawn, spawn_future};

/// Runs `test` in a task, with one worker and with several.
fn in_tasks(test: fn()) {
    for workers in [1, 2, 8] {
        Runtime::builder().workers(workers).build().unwrap().run(test).unwrap();
    }
}

#[test]
fn items_come_in_the_order_in_which_they_were_sent() {
    in_tasks(|| {
        for capacity in [0, 1, 3, 64] {
            let (sender, receiver) = chan::bounded(capacity);
            let sends = spawn(move || (0..1000).try_for_each(|n| sender.send(n)));
            assert!(receiver.iter().eq(0..1000), "capacity {capacity}");
            sends.join().unwrap().unwrap();
        }
    });
}

#[test]
fn capacities_are_exact() {
    for capacity in [0, 1, 2, 3, 5, 7, 9, 17, 1000] {
        let (sender, receiver) = chan::bounded(capacity);
        (0..capacity).for_each(|n| sender.try_send(n).unwrap());
        let refused = sender.try_send(99).unwrap_err();
        assert!(matches!(refused.why, Unsent::Full));
        assert_eq!(refused.item, 99);
        assert_eq!((sender.len(), receiver.capacity()), (capacity, capacity));
        assert!(receiver.try_iter().eq(0..capacity));
        assert!(receiver.is_empty() && receiver.try_recv().unwrap().is_none());
    }
}

#[test]
fn a_closed_channel_is_drained_first() {
    let (sender, receiver) = chan::bounded(4);
    sender.send(1).unwrap();
    sender.send(2).unwrap();
    assert!(sender.close_err("disk full"));
    assert!(!sender.close());
    let unsent = sender.send(3).unwrap_err();
    assert!(matches!(unsent.why, Unsent::Closed) && unsent.item == 3);
    assert_eq!((receiver.recv().unwrap(), receiver.recv().unwrap()), (1, 2));
    let error = receiver.recv().unwrap_err();
    assert!(matches!(&error, RecvError::Failed(error) if error.to_string() == "disk full"), "{error}");
}

#[test]
fn the_oldest_makes_room_for_what_is_forced_in() {
    let (sender, receiver) = chan::bounded(2);
    assert_eq!(
        (0..5).map(|n| sender.force_send(n).unwrap().next()).collect::<Vec<_>>(),
        [None, None, Some(0), Some(1), Some(2)]
    );
    assert!(receiver.try_iter().eq(3..5));
    let (sender, _receiver) = chan::rendezvous();
    assert_eq!(sender.force_send(7).unwrap().next(), Some(7));
}

/// A batch larger than the channel, with senders and receivers that wait meanwhile.
#[test]
fn batches_keep_the_order_and_the_capacity() {
    in_tasks(|| {
        for capacity in [0, 1, 4, 100] {
            let (sender, receiver) = chan::bounded(capacity);
            let sends = spawn(move || {
                for batch in 0..50 {
                    let mut items: VecDeque<u32> = (batch * 9..(batch + 1) * 9).collect();
                    sender.send_all(&mut items).unwrap();
                    assert!(items.is_empty() && sender.len() <= capacity);
                }
            });
            let (mut items, mut sizes) = (Vec::new(), 1..);
            while let Ok(received) = receiver.recv_many(&mut items, sizes.next().unwrap() % 7 + 1) {
                assert!((1..=7).contains(&received));
            }
            assert!(items.into_iter().eq(0..450), "capacity {capacity}");
            sends.join().unwrap();
        }
    });
    let (sender, receiver) = chan::bounded(2);
    let mut items = VecDeque::from([1, 2, 3]);
    assert!(receiver.close());
    assert!(matches!(sender.send_all(&mut items), Err(Unsent::Closed)));
    assert_eq!(items, [1, 2, 3]);
}

#[test]
fn many_are_sent_and_received_at_once() {
    in_tasks(|| {
        let (sender, receiver) = chan::bounded(10);
        let sends = spawn(move || {
            let mut items: VecDeque<u32> = (0..100).collect();
            sender.send_all(&mut items).unwrap();
            assert!(items.is_empty());
        });
        let mut items = Vec::new();
        while receiver.recv_many(&mut items, 7).is_ok() {}
        assert!(items.into_iter().eq(0..100));
        sends.join().unwrap();
    });
}

#[test]
fn futures_send_and_receive() {
    in_tasks(|| {
        for capacity in [0, 1, 8] {
            let (sender, receiver) = chan::bounded(capacity);
            let sends = spawn_future(async move {
                for n in 0..100 {
                    sender.send_async(n).await.unwrap();
                }
            });
            let receives = spawn_future(async move {
                let mut items = Vec::new();
                while let Ok(item) = receiver.recv_async().await {
                    items.push(item);
                }
                items
            });
            sends.join().unwrap();
            assert!(receives.join().unwrap().into_iter().eq(0..100));
        }
    });
    let (sender, receiver) = chan::bounded(0);
    let thread = std::thread::spawn(move || sender.send(5));
    assert_eq!(block_on(receiver.recv_async()).unwrap().unwrap(), 5);
    thread.join().unwrap().unwrap();
}

#[test]
fn a_select_takes_what_comes_first() {
    in_tasks(|| {
        let (numbers, received) = chan::rendezvous();
        let (words, said) = chan::bounded(1);
        let _open = (numbers.clone(), words.clone());
        let sends = spawn(move || {
            numbers.send(1).unwrap();
            words.send("two").unwrap();
        });
        let mut seen = Vec::new();
        for _ in 0..2 {
            select! {
                number = recv(&received) => seen.push(number.unwrap().to_string()),
                word = recv(&said) => { seen.push(word.unwrap().to_owned()) }
            }
            .unwrap();
        }
        assert_eq!(seen, ["1", "two"]);
        sends.join().unwrap();
        let late = select! {
            _ = sleep(Duration::from_secs(3600)) => true,
            default => false,
        };
        assert!(!late.unwrap());
    });
}

#[test]
fn an_item_that_a_select_does_not_send_stays() {
    in_tasks(|| {
        let (sender, receiver) = chan::rendezvous::<u32>();
        let mut item = Some(5);
        let sent = select! {
            sent = send(&sender, &mut item) => sent.is_ok(),
            _ = sleep(Duration::from_millis(1)) => false,
        };
        assert!(!sent.unwrap());
        assert_eq!(item, Some(5));
        let receives = spawn(move || receiver.recv().unwrap());
        let sent = select! { sent = send(&sender, &mut item) => sent.is_ok() };
        assert!(sent.unwrap() && item.is_none());
        assert_eq!(receives.join().unwrap(), 5);
    });
}

#[test]
fn two_selects_meet() {
    in_tasks(|| {
        let channels: Vec<_> = (0..3).map(|_| chan::rendezvous::<u32>()).collect();
        let (senders, receivers): (Vec<_>, Vec<_>) = channels.into_iter().unzip();
        let sends = spawn(move || {
            for n in 0..300 {
                let mut items = [Some(n), Some(n), Some(n)];
                let mut select = Select::new();
                for (sender, item) in senders.iter().zip(&mut items) {
                    select = select.case(send(sender, item), |sent| sent.unwrap());
                }
                select.wait().unwrap();
                assert_eq!(items.iter().flatten().count(), 2);
            }
        });
        for n in 0..300 {
            let select = receivers
                .iter()
                .fold(Select::new(), |select, receiver| select.case(recv(receiver), |item| item));
            assert_eq!(select.wait().unwrap().unwrap(), n);
        }
        sends.join().unwrap();
    });
}

#[test]
fn a_channel_may_have_any_capacity() {
    fn holds<T: Clone + PartialEq + std::fmt::Debug>(capacity: usize, item: T) {
        let (sender, receiver) = chan::bounded(capacity);
        assert_eq!((sender.capacity(), sender.len()), (capacity, 0));
        for _ in 0..10 {
            sender.try_send(item.clone()).unwrap();
        }
        assert_eq!(receiver.len(), 10);
        assert!(receiver.try_iter().eq(vec![item; 10]));
    }
    for capacity in [1 << 20, u32::MAX as usize, usize::MAX] {
        holds(capacity, ());
        holds(capacity, 7_u64);
        holds(capacity, "text".to_owned());
        holds(capacity, [1_u8; 5_000]);
    }
}

/// An item of 1 KiB: a channel takes its memory 64 of them at a time.
type Large = [u64; 128];

/// More than fits into two pieces of memory.
const ROOM: usize = 150;

fn large(number: usize) -> Large {
    let mut item = [0; 128];
    item[0] = number as u64;
    item[127] = !(number as u64);
    item
}

#[track_caller]
fn number(item: &Large) -> usize {
    assert_eq!(item[127], !item[0], "the item is whole");
    item[0] as usize
}

#[test]
fn a_channel_that_takes_its_memory_by_and_by_is_exact_and_in_order() {
    let (sender, receiver) = chan::bounded::<Large>(ROOM);
    let (mut sent, mut received) = (0, 0);
    // Full and empty again from every place of a piece of memory on.
    for held in 1..ROOM {
        while sender.try_send(large(sent)).is_ok() {
            sent += 1;
            assert_eq!(sender.len(), sent - received);
        }
        assert_eq!(sent - received, ROOM, "exactly its capacity");
        let oldest = sender.force_send(large(sent)).unwrap().next().unwrap();
        assert_eq!(number(&oldest), received);
        (sent, received) = (sent + 1, received + 1);
        while receiver.len() > held {
            assert_eq!(number(&receiver.recv().unwrap()), received);
            received += 1;
        }
        let mut items = (sent..sent + ROOM - held).map(large).collect();
        sender.send_all(&mut items).unwrap();
        sent += ROOM - held;
        let mut items = Vec::new();
        assert_eq!(receiver.recv_many(&mut items, usize::MAX).unwrap(), ROOM);
        assert!(items.iter().map(number).eq(received..sent));
        received = sent;
    }
}

#[test]
fn those_who_wait_at_a_channel_that_takes_its_memory_by_and_by_are_served() {
    in_tasks(|| {
        let (sender, receiver) = chan::bounded::<Large>(ROOM);
        scope(|tasks| {
            let receives: Vec<_> = (0..3)
                .map(|_| {
                    let receiver = receiver.clone();
                    tasks.spawn(move || receiver.iter().map(|item| number(&item)).sum::<usize>())
                })
                .collect();
            for first in [0, 1_000, 2_000] {
                let sender = sender.clone();
                drop(
                    tasks.spawn(move || (first..first + 1_000).for_each(|n| sender.send(large(n)).unwrap())),
                );
            }
            drop(sender);
            let sum: usize = receives.into_iter().map(|task| task.join().unwrap()).sum();
            assert_eq!(sum, (0..3_000).sum());
        })
        .unwrap();
    });
}

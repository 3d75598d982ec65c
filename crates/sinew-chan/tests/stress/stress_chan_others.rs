//! One value, channels of tasks, pools and broadcasts under load: what was accepted is received once, whole, and in the
//! promised order; nobody sleeps for ever.
//!
//! Tasks, threads and futures use both ends in all ways, with elements of several sizes.

use std::ops::Range;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::Poll;
use std::time::Duration;

use sinew_chan::chan::broadcast::{self, Slow};
use sinew_chan::chan::{Pool, Pooled, RecvError, SendError, TakeError, Unsent, oneshot, ordered};
use sinew_chan::select;
use sinew_chan::select::{recv, send};
use sinew_sched::{JoinHandle, Runtime, yield_now};

use crate::channels::{Element, Running, Way, for_sizes, poll_once, with_large_stacks};
use crate::support::{SEED, next, rounds};

/// So many elements at once, at most: the smallest of them has no more numbers.
const MOST: usize = 250;

/// How many a party sends, or takes.
const EACH: usize = 25;

/// Runs `test` again and again, with few workers and many.
fn with_runtimes(test: impl Fn(&Runtime)) {
    with_large_stacks(|runtime| (0..rounds(2)).for_each(|_| test(runtime)));
}

/// How often each element was received.
#[derive(Clone)]
struct Received(Arc<Vec<AtomicUsize>>);

impl Received {
    fn new() -> Received {
        Received(Arc::new((0..MOST).map(|_| AtomicUsize::new(0)).collect()))
    }

    fn note(&self, number: usize) {
        self.0[number].fetch_add(1, Ordering::Relaxed);
    }

    /// Each of these was received once, and no other.
    #[track_caller]
    fn settle(&self, sent: impl Fn(usize) -> bool) {
        for (number, received) in self.0.iter().enumerate() {
            let expected = usize::from(sent(number));
            assert_eq!(received.load(Ordering::Relaxed), expected, "number {number}");
        }
    }
}

/// All pairs of ways.
fn pairs() -> impl Iterator<Item = (Way, Way)> {
    Way::ALL.into_iter().flat_map(|from| Way::ALL.map(|to| (from, to)))
}

/// Polls a future, which is dropped if it has to wait: it has done nothing then.
fn poll_and_drop<T>(future: impl Future<Output = T>) -> Option<T> {
    match poll_once(pin!(future)) {
        Poll::Ready(output) => Some(output),
        Poll::Pending => None,
    }
}

/// A time that passes soon.
fn soon(seed: &mut u64) -> Duration {
    Duration::from_micros(next(seed) % 50)
}

#[test]
fn single_values_are_received_once_and_whole() {
    async fn receives<T: Element>(way: Way, mut receiver: oneshot::Receiver<T>, seed: &mut u64) -> Option<T> {
        loop {
            let outcome = match next(seed) % 6 {
                0 => receiver.try_recv(),
                1 if way.blocks() => receiver.recv_timeout(soon(seed)).map(Some),
                2 if way.blocks() => select! { value = recv(&mut receiver) => value }.unwrap().map(Some),
                3 => poll_and_drop(receiver.recv_async()).transpose(),
                _ => {
                    let receives =
                        way.does(&mut receiver, oneshot::Receiver::recv, oneshot::Receiver::recv_async);
                    receives.await.map(Some)
                }
            };
            match outcome {
                Ok(Some(value)) => return Some(value),
                Ok(None) | Err(RecvError::Timeout) => way.pause().await,
                Err(RecvError::Closed) => return None,
                Err(error) => panic!("{error:?}"),
            }
        }
    }

    fn values<T: Element>(runtime: &Runtime) {
        let mut seed = SEED;
        for (from, to) in pairs() {
            let (senders, receivers): (Vec<_>, Vec<_>) = (0..EACH).map(|_| oneshot::channel::<T>()).unzip();
            let sends = from.start(runtime, async move {
                for (number, sender) in senders.into_iter().enumerate() {
                    match number % 5 {
                        0 => drop(sender),
                        _ => assert!(sender.send(T::make(number)).is_ok()),
                    }
                    if number.is_multiple_of(3) {
                        from.pause().await;
                    }
                }
            });
            let mut seed = next(&mut seed);
            let receives = to.start(runtime, async move {
                for (number, receiver) in receivers.into_iter().enumerate() {
                    let received = receives(to, receiver, &mut seed).await.map(|value| value.number());
                    assert_eq!(received, (number % 5 != 0).then_some(number));
                }
            });
            sends.join();
            receives.join();
        }
    }
    with_runtimes(|runtime| for_sizes!(T => values::<T>(runtime)));
}

/// Sends tasks by random calls, until all are sent.
async fn send_tasks<T: Element>(
    way: Way,
    sender: ordered::Sender<T>,
    tasks: Vec<JoinHandle<T>>,
    mut seed: u64,
) {
    for task in tasks {
        let mut task = Some(task);
        while let Some(handle) = task.take() {
            let outcome = match next(&mut seed) % 6 {
                0 => sender.try_send(handle),
                1 if way.blocks() => sender.send_timeout(handle, soon(&mut seed)),
                2 if way.blocks() => {
                    let mut handle = Some(handle);
                    select! { sent = send(&sender, &mut handle) => sent }.unwrap()
                }
                3 => {
                    let mut sends = pin!(sender.send_async(handle));
                    match poll_once(sends.as_mut()) {
                        Poll::Ready(outcome) => outcome,
                        Poll::Pending => match sends.cancel() {
                            Some(item) => Err(SendError { item, why: Unsent::Full }),
                            None => Ok(()),
                        },
                    }
                }
                _ => way.does(handle, |task| sender.send(task), |task| sender.send_async(task)).await,
            };
            match outcome {
                Ok(()) => (),
                Err(SendError { item, why: Unsent::Full | Unsent::Timeout }) => {
                    task = Some(item);
                    way.pause().await;
                }
                Err(error) => panic!("{error:?}"),
            }
        }
    }
}

#[test]
fn results_of_tasks_are_received_once_whole_and_in_the_order_of_their_senders() {
    async fn receives<T: Element>(
        way: Way,
        mut receiver: ordered::Receiver<T>,
        received: Received,
        mut seed: u64,
    ) {
        let mut last = [None; 2];
        loop {
            let outcome = match next(&mut seed) % 6 {
                0 => receiver.try_recv(),
                1 if way.blocks() => receiver.recv_timeout(soon(&mut seed)).map(Some),
                2 if way.blocks() => select! { result = recv(&mut receiver) => result }.unwrap().map(Some),
                3 => poll_and_drop(receiver.recv_async()).transpose(),
                _ => {
                    let receives =
                        way.does(&mut receiver, ordered::Receiver::recv, ordered::Receiver::recv_async);
                    receives.await.map(Some)
                }
            };
            match outcome {
                Ok(Some(result)) => {
                    let number = result.unwrap().number();
                    received.note(number);
                    let before = last[number / EACH].replace(number);
                    assert!(before < Some(number), "{number} came after {before:?}");
                }
                Ok(None) | Err(RecvError::Timeout) => way.pause().await,
                Err(RecvError::Closed) => return,
                Err(error) => panic!("{error:?}"),
            }
        }
    }

    fn results<T: Element>(runtime: &Runtime) {
        let mut seed = SEED;
        for (capacity, (from, to)) in [1, 2, 7].into_iter().cycle().zip(pairs()) {
            let (sender, receiver) = ordered::channel(capacity);
            let received = Received::new();
            let task = |number: usize| {
                runtime.spawn(move || {
                    (0..number % 4).for_each(|_| yield_now());
                    T::make(number)
                })
            };
            let sending = [(0, from), (1, Way::nth(next(&mut seed)))].map(|(sends, way)| {
                let tasks = (0..EACH).map(|n| task(sends * EACH + n)).collect();
                way.start(runtime, send_tasks(way, sender.clone(), tasks, next(&mut seed)))
            });
            drop(sender);
            let receives = receives(to, receiver, received.clone(), next(&mut seed));
            to.start(runtime, receives).join();
            sending.into_iter().for_each(Running::join);
            received.settle(|number| number < 2 * EACH);
        }
    }
    with_runtimes(|runtime| for_sizes!(T => results::<T>(runtime)));
}

#[test]
fn items_of_a_pool_are_lent_to_one_at_a_time_and_destroyed_once() {
    async fn uses<T: Element>(way: Way, pool: Pool<T>, lent: Received, mut seed: u64) {
        let mut used = 0;
        while used < EACH {
            let outcome = match next(&mut seed) % 6 {
                0 => pool.try_take(),
                1 if way.blocks() => pool.take_timeout(soon(&mut seed)).map(Some),
                1 => pool.take_timeout(Duration::ZERO).map(Some),
                2 if way.blocks() => select! { item = recv(&pool) => item }.unwrap().map(Some),
                3 => poll_and_drop(pool.take_async()).transpose(),
                _ => way.does(&pool, Pool::take, Pool::take_async).await.map(Some),
            };
            let item = match outcome {
                Ok(Some(item)) => item,
                Ok(None) | Err(TakeError::Timeout) => {
                    way.pause().await;
                    continue;
                }
                Err(TakeError::Closed) => panic!("it is open"),
                Err(error) => panic!("{error:?}"),
            };
            let number = item.number();
            assert_eq!(lent.0[number].fetch_add(1, Ordering::Relaxed), 0, "{number} is somebody's");
            way.pause().await;
            assert_eq!(lent.0[number].fetch_sub(1, Ordering::Relaxed), 1);
            used += 1;
            if next(&mut seed).is_multiple_of(16) {
                Pooled::discard(item);
            }
        }
    }

    fn items<T: Element>(runtime: &Runtime) {
        let mut seed = SEED;
        for capacity in [1, 2, 3, 5] {
            let (created, destroyed) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
            let (creates, destroys) = (created.clone(), destroyed.clone());
            // Numbers are used again, but not among those that there are at once.
            let create = move || T::make(creates.fetch_add(1, Ordering::Relaxed) % MOST);
            let destroy = move |_| _ = destroys.fetch_add(1, Ordering::Relaxed);
            let pool = Pool::builder(capacity, create).destroy(destroy).build();
            let lent = Received::new();
            let uses = Way::ALL
                .into_iter()
                .chain(Way::ALL)
                .map(|way| way.start(runtime, uses(way, pool.clone(), lent.clone(), next(&mut seed))));
            uses.collect::<Vec<Running<()>>>().into_iter().for_each(Running::join);
            assert!(pool.len() <= capacity && pool.idle() == pool.len(), "{pool:?}");
            lent.settle(|_| false);
            drop(pool);
            assert_eq!(created.load(Ordering::Relaxed), destroyed.load(Ordering::Relaxed));
        }
    }
    with_runtimes(|runtime| for_sizes!(T => items::<T>(runtime)));
}

/// What a receiver of a broadcast has seen of two senders.
struct Saw {
    seen: [Vec<usize>; 2],
    missed: usize,
    cut_off: bool,
}

impl Saw {
    async fn all<T: Element>(way: Way, receiver: broadcast::Receiver<T>, mut seed: u64) -> Saw {
        let mut saw = Saw { seen: [Vec::new(), Vec::new()], missed: 0, cut_off: false };
        loop {
            let outcome = match next(&mut seed) % 6 {
                0 => receiver.try_recv(),
                1 if way.blocks() => receiver.recv_timeout(soon(&mut seed)).map(Some),
                2 if way.blocks() => select! { item = recv(&receiver) => item }.unwrap().map(Some),
                3 => poll_and_drop(receiver.recv_async()).transpose(),
                _ => way
                    .does(&receiver, broadcast::Receiver::recv, broadcast::Receiver::recv_async)
                    .await
                    .map(Some),
            };
            match outcome {
                Ok(Some(item)) => saw.seen[item.number() / EACH].push(item.number() % EACH),
                Ok(None) | Err(broadcast::RecvError::Timeout) => way.pause().await,
                Err(broadcast::RecvError::Lagged(count)) => saw.missed += count as usize,
                Err(broadcast::RecvError::Closed) => return saw,
                Err(broadcast::RecvError::CutOff) => {
                    saw.cut_off = true;
                    return saw;
                }
                Err(error) => panic!("{error:?}"),
            }
        }
    }

    /// Of each sender so many were accepted.
    fn check(&self, slow: Slow, accepted: [usize; 2]) {
        for (seen, accepted) in self.seen.iter().zip(accepted) {
            assert!(seen.is_sorted_by(|one, next| one < next), "in order, and once: {seen:?}");
            let without_gaps = seen.iter().copied().eq(0..seen.len());
            let all = self.cut_off || seen.len() == accepted;
            assert!(slow == Slow::Lag || without_gaps && all, "{seen:?} of {accepted}");
        }
        let seen: usize = self.seen.iter().map(Vec::len).sum();
        assert!(slow != Slow::Lag || seen + self.missed == accepted.iter().sum(), "told of all it missed");
        assert!((slow == Slow::Drop || !self.cut_off) && (slow == Slow::Lag || self.missed == 0));
    }
}

#[test]
fn items_are_seen_by_every_receiver_once_whole_and_in_the_order_of_their_senders() {
    /// Returns how many of its items were accepted.
    async fn sends<T: Element>(
        way: Way,
        sender: broadcast::Sender<T>,
        numbers: Range<usize>,
        mut seed: u64,
    ) -> usize {
        for number in numbers.clone() {
            let mut item = Some(T::make(number));
            while let Some(element) = item.take() {
                let outcome = match next(&mut seed) % 5 {
                    0 => sender.try_send(element),
                    1 if way.blocks() => sender.send_timeout(element, soon(&mut seed)),
                    2 if way.blocks() => {
                        let mut element = Some(element);
                        select! { sent = send(&sender, &mut element) => sent }.unwrap()
                    }
                    _ => way.does(element, |item| sender.send(item), |item| sender.send_async(item)).await,
                };
                match outcome {
                    Ok(()) => (),
                    Err(SendError { item: back, why: Unsent::Full | Unsent::Timeout }) => {
                        item = Some(back);
                        way.pause().await;
                    }
                    // All were cut off.
                    Err(SendError { why: Unsent::NoReceiver, .. }) => return number - numbers.start,
                    Err(error) => panic!("{error:?}"),
                }
            }
        }
        numbers.len()
    }

    fn items<T: Element>(runtime: &Runtime) {
        let mut seed = SEED;
        let slow = [Slow::Block, Slow::Lag, Slow::Drop];
        for (slow, capacity) in slow.into_iter().flat_map(|slow| [1, 3, 8].map(|capacity| (slow, capacity))) {
            let (sender, receiver) = broadcast::channel::<T>(capacity, slow);
            let saw: Vec<_> = Way::ALL
                .into_iter()
                .map(|way| way.start(runtime, Saw::all(way, receiver.clone(), next(&mut seed))))
                .collect();
            drop(receiver);
            let sending = [0, 1].map(|sends_as| {
                let way = Way::nth(next(&mut seed));
                let numbers = sends_as * EACH..(sends_as + 1) * EACH;
                way.start(runtime, sends(way, sender.clone(), numbers, next(&mut seed)))
            });
            drop(sender);
            let accepted = sending.map(Running::join);
            assert!(slow == Slow::Drop || accepted == [EACH; 2]);
            saw.into_iter().for_each(|saw| saw.join().check(slow, accepted));
        }
    }
    with_runtimes(|runtime| for_sizes!(T => items::<T>(runtime)));
}

use super::super::pool::tests::Imaginary;
use super::super::slab::Slot;
use super::*;

const IDLE_TIME: Duration = Duration::from_secs(10);

fn at(seconds: u64) -> Instant {
    Instant::from_nanos(seconds * 1_000_000_000)
}

/// What a call of `trim_idle` does.
fn look(idling: &mut Idling, pool: &Pool<Imaginary>, seconds: u64) -> Idle {
    idling.not_due(at(seconds), IDLE_TIME).unwrap_or_else(|| idling.trim(&[pool], at(seconds), IDLE_TIME))
}

/// A burst of tasks that needs so many stacks at once.
fn burst(pool: &Pool<Imaginary>, stacks: usize) {
    let taken: Vec<Slot> = (0..stacks).map(|_| pool.take().unwrap()).collect();
    pool.give(taken);
}

#[test]
fn what_was_needed_once_goes_back_after_one_to_two_idle_times() {
    let (pool, mut idling) = (Pool::new(Imaginary::new(100, 100)), Idling::new());
    assert_eq!(look(&mut idling, &pool, 0), Idle::None, "nothing was used yet");
    burst(&pool, 100);
    assert_eq!(look(&mut idling, &pool, 1), Idle::Until(at(10)));
    assert_eq!(look(&mut idling, &pool, 10), Idle::Until(at(20)), "they were used in this period");
    assert_eq!(pool.backing().decommits(), 0);
    assert_eq!(look(&mut idling, &pool, 19), Idle::Until(at(20)));
    assert_eq!(look(&mut idling, &pool, 20), Idle::None, "there is nothing more");
    assert_eq!(pool.backing().decommits(), 100);
}

#[test]
fn bursts_that_come_again_within_the_idle_time_keep_their_stacks() {
    let (pool, mut idling) = (Pool::new(Imaginary::new(100, 100)), Idling::new());
    burst(&pool, 100);
    for second in 0..100 {
        burst(&pool, 60);
        look(&mut idling, &pool, second);
    }
    assert_eq!(pool.backing().decommits(), 40, "those beyond the largest burst, once");
}

#[test]
fn many_stacks_go_back_some_at_a_time() {
    let count = 2 * AT_ONCE + 100;
    let (pool, mut idling) = (Pool::new(Imaginary::new(count, count)), Idling::new());
    burst(&pool, count);
    look(&mut idling, &pool, 0);
    assert_eq!(look(&mut idling, &pool, 10), Idle::More);
    assert_eq!(pool.backing().decommits(), AT_ONCE);
    burst(&pool, 10); // what is needed again meanwhile stays
    assert_eq!(look(&mut idling, &pool, 10), Idle::More);
    assert_eq!(look(&mut idling, &pool, 10), Idle::Until(at(20)), "the rest is warm");
    assert_eq!(pool.backing().decommits(), count - 10);
}

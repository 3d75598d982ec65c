//! Timers of actors.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, mpsc};
use std::time::Duration;

use sinew_core::payload::{SystemPayload, Timer};
use sinew_kernel::{
    Actor, ActorRef, Backoff, ChildSpec, Ctx, ExitReason, Flow, Kind, Message, Node, Payload, Process,
    Received, Strategy, TimerError, TimerId,
};
use sinew_sched::{ManualClock, Runtime, WaitError, now, sleep};

const SECOND: Duration = Duration::from_secs(1);
const HOUR: Duration = Duration::from_secs(3600);
/// By how much a timer may be late: deadlines are rounded up to ticks.
const TICK: Duration = Duration::from_millis(1);

/// A node whose clock jumps when nothing runs.
fn node(workers: usize) -> Node {
    let runtime = Runtime::builder().workers(workers).manual_clock(&ManualClock::new());
    Node::builder().runtime(runtime).build().unwrap()
}

/// Runs `body` as a process, with some numbers of workers.
fn with_process<M: Send + 'static>(body: impl Fn(&mut Process<'_, M>) + Copy + Send + 'static) {
    for workers in [1, 2, 8] {
        let node = node(workers);
        let process = node.actor().mailbox(1).spawn_process::<M, _>(move |process| {
            body(process);
            Flow::Stop
        });
        assert_eq!(process.unwrap().join().unwrap(), ExitReason::Normal);
    }
}

fn expired<M>(received: Option<Received<M>>) -> Timer {
    match received {
        Some(Received::Raw(message)) => timer(&message),
        _ => panic!("no timer has expired"),
    }
}

fn timer(message: &Message) -> Timer {
    assert_eq!(message.kind, Kind::TIMER);
    Timer::decode(message.payload.bytes()).unwrap()
}

// T1
#[test]
fn a_timer_expires_once_when_its_time_has_passed() {
    with_process::<()>(|process| {
        let start = now();
        let id = process.ctx().set_timer(HOUR, false).unwrap();
        let timer = expired(process.recv().ok());
        assert_eq!(timer, Timer { id: id.as_u32(), expirations: 1 });
        assert!((HOUR..HOUR + TICK).contains(&(now() - start)), "{:?}", now() - start);
        assert!(matches!(process.recv_timeout(10 * HOUR), Err(WaitError::Timeout)));
    });
}

// T2
#[test]
fn a_periodic_timer_expires_again_and_again_and_does_not_drift() {
    with_process::<()>(|process| {
        let start = now();
        let id = process.ctx().set_timer(SECOND, true).unwrap();
        for round in 1..=100 {
            assert_eq!(expired(process.recv().ok()), Timer { id: id.as_u32(), expirations: 1 });
            assert!((round * SECOND..round * SECOND + TICK).contains(&(now() - start)));
        }
    });
}

// T3
#[test]
fn an_actor_that_is_late_is_told_once_how_often_a_timer_expired() {
    with_process::<()>(|process| {
        let id = process.ctx().set_timer(SECOND, true).unwrap();
        sleep(5 * SECOND + SECOND / 2);
        assert_eq!(expired(process.recv().ok()), Timer { id: id.as_u32(), expirations: 5 });
        assert_eq!(expired(process.recv().ok()), Timer { id: id.as_u32(), expirations: 1 });
        // The next is due in a second, and nothing was left behind.
        assert!(matches!(process.recv_timeout(SECOND / 2), Err(WaitError::Timeout)));
    });
}

#[test]
fn what_a_timer_expires_while_it_is_handled_is_told_afterwards() {
    struct Slow(Vec<u64>, mpsc::Sender<Vec<u64>>);
    impl Actor for Slow {
        type Msg = ();
        fn started(&mut self, ctx: &mut Ctx<()>) -> Flow {
            ctx.set_timer(SECOND, true).unwrap();
            Flow::Continue
        }
        fn handle(&mut self, (): (), _: &mut Ctx<()>) -> Flow {
            Flow::Continue
        }
        fn raw(&mut self, message: Message, _: &mut Ctx<()>) -> Flow {
            self.0.push(timer(&message).expirations);
            sleep(3 * SECOND + SECOND / 4);
            if self.0.len() < 3 { Flow::Continue } else { Flow::Stop }
        }
        fn stopping(&mut self, _: &ExitReason, _: &mut Ctx<()>) {
            self.1.send(std::mem::take(&mut self.0)).unwrap();
        }
    }
    let (sender, receiver) = mpsc::channel();
    let node = node(2);
    node.spawn(Slow(Vec::new(), sender)).unwrap().join().unwrap();
    // Told at 1 s; of 2, 3 and 4 at 4.25 s; of 5, 6 and 7 at 7.5 s.
    assert_eq!(receiver.recv().unwrap(), [1, 3, 3]);
}

#[test]
fn a_process_that_wants_something_else_does_not_pile_timers_up() {
    with_process::<u32>(|process| {
        process.ctx().set_timer(SECOND, true).unwrap();
        let wants = |received: &Received<u32>| matches!(received, Received::Message(_));
        assert!(matches!(process.recv_where_timeout(wants, HOUR + SECOND / 2), Err(WaitError::Timeout)));
        assert_eq!(expired(process.recv().ok()).expirations, 1, "the one that it was told and did not want");
        assert_eq!(expired(process.recv().ok()).expirations, 3599, "all that have expired since");
        assert!(matches!(process.recv_timeout(SECOND / 4), Err(WaitError::Timeout)));
    });
}

#[test]
fn zero_is_at_once_and_no_period() {
    with_process::<u32>(|process| {
        let start = now();
        let id = process.ctx().set_timer(Duration::ZERO, false).unwrap();
        assert_eq!(expired(process.recv().ok()).id, id.as_u32());
        process.ctx().send_after(Duration::ZERO, 7).unwrap();
        assert_eq!(process.recv().unwrap().message(), Some(7));
        assert!(now() - start < TICK);
        assert_eq!(process.ctx().set_timer(Duration::ZERO, true), Err(TimerError::NoPeriod));
        assert_eq!(process.ctx().send_every(Duration::ZERO, || 7), Err(TimerError::NoPeriod));
    });
}

#[test]
fn a_timer_for_ever_after_never_expires_and_can_be_cancelled() {
    with_process::<()>(|process| {
        let once = process.ctx().set_timer(Duration::MAX, false).unwrap();
        let periodic = process.ctx().set_timer(Duration::MAX, true).unwrap();
        assert!(matches!(process.recv_timeout(1000 * HOUR), Err(WaitError::Timeout)));
        assert!(process.ctx().cancel_timer(once) && process.ctx().cancel_timer(periodic));
    });
}

// T4
#[test]
fn a_timer_that_is_cancelled_is_not_told_even_if_it_has_expired() {
    with_process::<u32>(|process| {
        let waiting = process.ctx().set_timer(HOUR, false).unwrap();
        let expired = process.ctx().set_timer(SECOND, false).unwrap();
        let periodic = process.ctx().set_timer(SECOND, true).unwrap();
        let sends = process.ctx().send_after(SECOND, 1).unwrap();
        let repeats = process.ctx().send_every(SECOND, || 2).unwrap();
        sleep(10 * SECOND);
        for timer in [waiting, expired, periodic, sends, repeats] {
            assert!(process.ctx().cancel_timer(timer));
            assert!(!process.ctx().cancel_timer(timer), "not twice");
        }
        assert!(matches!(process.recv_timeout(10 * HOUR), Err(WaitError::Timeout)));
    });
}

#[test]
fn a_timer_that_was_told_cannot_be_cancelled() {
    with_process::<u32>(|process| {
        let id = process.ctx().set_timer(SECOND, false).unwrap();
        process.recv().unwrap();
        assert!(!process.ctx().cancel_timer(id));
        let id = process.ctx().send_after(SECOND, 1).unwrap();
        process.recv().unwrap();
        assert!(!process.ctx().cancel_timer(id));
    });
}

// T5
#[test]
fn only_its_owner_cancels_a_timer() {
    let node = node(2);
    let (sender, receiver) = mpsc::channel();
    let owner = node.actor().spawn_process::<(), _>(move |process| {
        let id = process.ctx().set_timer(HOUR, false).unwrap();
        let stranger = process.ctx().node().actor().spawn_process::<(), _>(move |stranger| {
            stranger.ctx().set_timer(HOUR, false).unwrap(); // has timers itself
            sender.send(stranger.ctx().cancel_timer(id)).unwrap();
            Flow::Stop
        });
        stranger.unwrap().join().unwrap();
        assert_eq!(expired(process.recv().ok()).id, id.as_u32());
        Flow::Stop
    });
    assert_eq!(owner.unwrap().join().unwrap(), ExitReason::Normal);
    assert!(!receiver.recv().unwrap());
}

#[test]
fn ids_are_not_zero_and_not_those_of_other_timers() {
    assert_eq!(TimerId::new(0), None);
    with_process::<()>(|process| {
        let ids: Vec<_> = (0..1000).map(|_| process.ctx().set_timer(HOUR, false).unwrap()).collect();
        let distinct: std::collections::BTreeSet<_> = ids.iter().map(|id| id.as_u32()).collect();
        assert_eq!(distinct.len(), 1000);
        assert!(!distinct.contains(&0));
    });
}

#[test]
fn a_message_is_sent_when_its_time_has_passed_in_the_order_of_times() {
    with_process::<u32>(|process| {
        for after in [3, 1, 2] {
            process.ctx().send_after(after * SECOND, after).unwrap();
        }
        let start = now();
        for after in [1, 2, 3] {
            assert_eq!(process.recv().unwrap().message(), Some(after));
            assert!((after * SECOND..after * SECOND + TICK).contains(&(now() - start)));
        }
    });
}

// O12
#[test]
fn a_full_mailbox_does_not_stop_timers() {
    with_process::<u32>(|process| {
        process.ctx().me().try_tell(1).unwrap();
        process.ctx().me().try_tell(2).unwrap_err();
        process.ctx().send_after(SECOND, 3).unwrap();
        process.ctx().set_timer(SECOND, false).unwrap();
        sleep(2 * SECOND);
        assert_eq!(process.recv().unwrap().message(), Some(3), "the lane goes first");
        expired(process.recv().ok());
        assert_eq!(process.recv().unwrap().message(), Some(1));
    });
}

#[test]
fn a_repeated_message_is_made_each_time_and_not_before_the_last_was_handled() {
    with_process::<u32>(|process| {
        let mut made = 0;
        let make = move || {
            made += 1;
            made
        };
        let start = now();
        let id = process.ctx().send_every(SECOND, make).unwrap();
        assert_eq!(process.recv().unwrap().message(), Some(1));
        sleep(5 * SECOND + SECOND / 2);
        assert_eq!(process.recv().unwrap().message(), Some(2));
        assert_eq!(process.recv().unwrap().message(), Some(3));
        assert!((7 * SECOND..7 * SECOND + TICK).contains(&(now() - start)));
        assert!(process.ctx().cancel_timer(id));
        assert!(matches!(process.recv_timeout(HOUR), Err(WaitError::Timeout)));
    });
}

#[test]
fn a_message_that_cannot_be_made_fails_its_actor_and_no_other_timer() {
    let node = node(1);
    let fails = node.actor().spawn_process::<u32, _>(|process| {
        process.ctx().send_every(SECOND, || panic!("no more")).unwrap();
        let _ = process.recv();
        Flow::Stop
    });
    let other = node.actor().spawn_process::<u32, _>(|process| {
        process.ctx().send_after(2 * SECOND, 1).unwrap();
        assert_eq!(process.recv().unwrap().message(), Some(1));
        Flow::Stop
    });
    let ExitReason::Error(failure) = fails.unwrap().join().unwrap() else { panic!("it has not failed") };
    assert_eq!(failure.message, "no more");
    assert_eq!(other.unwrap().join().unwrap(), ExitReason::Normal);
}

// T6
#[test]
fn timers_are_gone_when_the_end_of_their_actor_is_told() {
    for workers in [1, 2, 8] {
        let node = node(workers);
        let held = Arc::new(());
        for _ in 0..50 {
            let (waiting, repeated) = (held.clone(), held.clone());
            let actor = node.actor().spawn_process::<Arc<()>, _>(move |process| {
                process.ctx().send_after(HOUR, waiting).unwrap();
                process.ctx().send_every(HOUR, move || repeated.clone()).unwrap();
                process.ctx().send_after(Duration::ZERO, Arc::new(())).unwrap();
                let _ = process.recv();
                Flow::Stop
            });
            actor.unwrap().join().unwrap();
            assert_eq!(Arc::strong_count(&held), 1);
        }
    }
}

#[test]
fn messages_of_timers_whose_destructors_fail_take_nothing_with_them() {
    struct Bomb;
    impl Drop for Bomb {
        fn drop(&mut self) {
            panic!("dropped");
        }
    }
    let node = node(1);
    let actor = node.actor().name("bombs").spawn_process::<Bomb, _>(|process| {
        for _ in 0..3 {
            process.ctx().send_after(HOUR, Bomb).unwrap();
        }
        Flow::Stop
    });
    assert_eq!(actor.unwrap().join().unwrap(), ExitReason::Normal);
    assert_eq!(node.lookup("bombs"), None);
    let after = node.actor().spawn_process::<u32, _>(|process| {
        process.ctx().send_after(2 * HOUR, 1).unwrap();
        assert_eq!(process.recv().unwrap().message(), Some(1));
        Flow::Stop
    });
    assert_eq!(after.unwrap().join().unwrap(), ExitReason::Normal);
}

#[test]
fn a_hundred_thousand_timers_run_at_once() {
    with_process::<()>(|process| {
        let start = now();
        for n in 0..100_000u32 {
            // Each second has many, in no order.
            let after = n.wrapping_mul(7919) % 1000 + 1;
            process.ctx().set_timer(after * SECOND, false).unwrap();
        }
        let mut last = start;
        for _ in 0..100_000 {
            assert_eq!(expired(process.recv().ok()).expirations, 1);
            assert!(now() >= last);
            last = now();
        }
        assert!((1000 * SECOND..1000 * SECOND + TICK).contains(&(now() - start)));
        assert!(matches!(process.recv_timeout(HOUR), Err(WaitError::Timeout)));
    });
}

#[test]
fn timers_of_many_actors_expire_all_while_others_are_set_and_cancelled() {
    static EXPIRED: AtomicUsize = AtomicUsize::new(0);
    struct Many(u32);
    impl Actor for Many {
        type Msg = ();
        fn started(&mut self, ctx: &mut Ctx<()>) -> Flow {
            for n in 1..=10 {
                ctx.set_timer(n * SECOND, false).unwrap();
                let cancelled = ctx.set_timer(n * SECOND, n % 2 == 0).unwrap();
                assert!(ctx.cancel_timer(cancelled));
            }
            Flow::Continue
        }
        fn handle(&mut self, (): (), _: &mut Ctx<()>) -> Flow {
            Flow::Continue
        }
        fn raw(&mut self, message: Message, _: &mut Ctx<()>) -> Flow {
            EXPIRED.fetch_add(timer(&message).expirations as usize, Ordering::Relaxed);
            self.0 += 1;
            if self.0 == 10 { Flow::Stop } else { Flow::Continue }
        }
    }
    for workers in [1, 2, 8] {
        EXPIRED.store(0, Ordering::Relaxed);
        let node = node(workers);
        let actors: Vec<_> = (0..1000).map(|_| node.spawn(Many(0)).unwrap()).collect();
        for actor in actors {
            assert_eq!(actor.join().unwrap(), ExitReason::Normal);
        }
        assert_eq!(EXPIRED.load(Ordering::Relaxed), 10_000);
    }
}

#[test]
fn a_clock_that_jumps_over_several_periods_counts_them_all() {
    let clock = ManualClock::new();
    clock.hold(true);
    let runtime = Runtime::builder().manual_clock(&clock);
    let node = Node::builder().runtime(runtime).build_current_thread().unwrap();
    let (sender, expirations) = mpsc::channel();
    let actor = node.actor().spawn_process::<(), _>(move |process| {
        process.ctx().set_timer(SECOND, true).unwrap();
        loop {
            sender.send(expired(process.recv().ok()).expirations).unwrap();
        }
    });
    let actor = actor.unwrap();
    let after = |duration| {
        clock.advance(duration);
        node.run_until_idle();
        expirations.try_iter().collect::<Vec<_>>()
    };
    assert_eq!(after(Duration::ZERO), [0; 0]);
    assert_eq!(after(5 * SECOND + SECOND / 2), [5]);
    assert_eq!(after(SECOND / 4), [0; 0]);
    assert_eq!(after(SECOND / 4 + TICK), [1], "the sixth is as if none had been late");
    assert_eq!(after(1_000_000 * SECOND), [1_000_000]);
    actor.kill();
    node.run_until_idle();
}

#[test]
fn a_timer_is_told_again_although_there_is_always_a_message() {
    struct Busy(u32, Arc<AtomicUsize>);
    impl Actor for Busy {
        type Msg = ();
        fn started(&mut self, ctx: &mut Ctx<()>) -> Flow {
            ctx.set_timer(SECOND, true).unwrap();
            Flow::Continue
        }
        fn handle(&mut self, (): (), ctx: &mut Ctx<()>) -> Flow {
            self.0 += 1;
            sleep(3 * SECOND);
            ctx.me().try_tell(()).unwrap();
            if self.0 < 10 { Flow::Continue } else { Flow::Stop }
        }
        fn raw(&mut self, _: Message, _: &mut Ctx<()>) -> Flow {
            self.1.fetch_add(1, Ordering::Relaxed);
            Flow::Continue
        }
    }
    for workers in [1, 2, 8] {
        let node = node(workers);
        let told = Arc::new(AtomicUsize::new(0));
        let busy = node.spawn(Busy(0, told.clone())).unwrap();
        busy.tell(()).unwrap();
        busy.join().unwrap();
        assert!(told.load(Ordering::Relaxed) >= 5, "it was told {told:?} times");
    }
}

#[test]
fn a_timer_that_is_faster_than_its_actor_does_not_keep_messages_waiting() {
    struct Slow(u32);
    impl Actor for Slow {
        type Msg = &'static str;
        fn started(&mut self, ctx: &mut Ctx<Self::Msg>) -> Flow {
            ctx.set_timer(SECOND, true).unwrap();
            ctx.send_every(SECOND, || "timer").unwrap();
            Flow::Continue
        }
        fn handle(&mut self, msg: &'static str, _: &mut Ctx<Self::Msg>) -> Flow {
            self.0 += u32::from(msg == "message");
            sleep(3 * SECOND);
            if self.0 == 10 { Flow::Stop } else { Flow::Continue }
        }
        fn raw(&mut self, _: Message, _: &mut Ctx<Self::Msg>) -> Flow {
            sleep(3 * SECOND);
            Flow::Continue
        }
    }
    for workers in [1, 2, 8] {
        let node = node(workers);
        let here = *node;
        let took = node.run(move || {
            let start = now();
            let slow = here.spawn(Slow(0)).unwrap();
            for _ in 0..10 {
                slow.tell("message").unwrap();
            }
            assert_eq!(slow.join().unwrap(), ExitReason::Normal);
            now() - start
        });
        assert!(took.unwrap() < 120 * SECOND, "each timer is told once for a message");
    }
    with_process::<u32>(|process| {
        process.ctx().set_timer(SECOND, true).unwrap();
        process.ctx().me().try_tell(1).unwrap();
        let mut timers = 0;
        while !matches!(process.recv().unwrap(), Received::Message(1)) {
            timers += 1;
            assert!(timers < 10);
            sleep(3 * SECOND);
        }
    });
}

// T12
#[test]
fn actors_that_have_ended_leave_nothing_with_the_clock() {
    let clock = ManualClock::new();
    let node = Node::builder().runtime(Runtime::builder().manual_clock(&clock)).stop_timeout(HOUR).log_off();
    let node = node.build_current_thread().unwrap();
    let idle = || node.actor().spawn_raw((), |(), _, _| Flow::Continue).unwrap();
    for ends in [ActorRef::stop, ActorRef::kill] {
        for _ in 0..3000 {
            let actor = idle();
            ends(&actor);
            node.run_until_idle();
            assert!(actor.is_dead());
        }
        assert_eq!(node.snapshot().totals.timers, 0);
    }
    // One that is to be restarted later, and whose supervisor is killed.
    let backoff = Backoff { initial: HOUR, max: HOUR, ..Backoff::default() };
    let fails = ChildSpec::raw("child", || (), |(), _: &Message, _: &mut Ctx| panic!("on purpose"));
    let supervisor = node.supervisor(Strategy::OneForOne).child(fails.name("child").backoff(backoff));
    let supervisor = supervisor.spawn().unwrap();
    node.run_until_idle();
    node.send_named("child", Kind(1), Payload::empty()).unwrap();
    node.run_until_idle();
    assert_eq!(node.snapshot().totals.timers, 1);
    supervisor.kill();
    node.run_until_idle();
    assert_eq!((node.actor_count(), node.snapshot().totals.timers), (0, 0));
}

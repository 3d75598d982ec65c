//! Panics with values that fail again when they are dropped (`docs/semantics.md`, L).

use std::panic::panic_any;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use sinew_kernel::{Actor, ChildSpec, Ctx, ExitReason, Flow, Process, SpawnError, Strategy};

use crate::kit::{self, Hooked, local, with_nodes};

/// Fails when it is dropped, unless that would end the program.
struct Bad;

impl Drop for Bad {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            panic_any(Bad);
        }
    }
}

fn idle() -> Hooked<u64> {
    Hooked::new(|_, _| Flow::Continue)
}

// L26
#[test]
fn an_actor_ends_whatever_value_it_fails_with() {
    with_nodes(|node| {
        let handles = node.spawn(Hooked::<u64>::new(|_, _| panic_any(Bad))).unwrap();
        let process = |own: &mut Process<u64>| {
            own.recv().unwrap();
            panic_any(Bad)
        };
        let process = node.actor().spawn_process(process).unwrap();
        for fails in [handles, process] {
            fails.tell(1).unwrap();
            assert!(matches!(fails.join().unwrap(), ExitReason::Error(_)));
        }
        let stops = || Hooked::<u64>::new(|_, _| Flow::Stop);
        let hook = node.spawn(stops().stopping(|_, _| panic_any(Bad))).unwrap();
        let state = node.spawn(stops().dropped(|| panic_any(Bad))).unwrap();
        for ends in [hook, state] {
            ends.tell(1).unwrap();
            assert_eq!(ends.join().unwrap(), ExitReason::Normal);
        }
        let letters = node.spawn(Hooked::<Bad>::new(|_, _| Flow::Continue)).unwrap();
        let (key, gate) = kit::gate();
        let mut gate = Some(gate);
        let waits = Hooked::<Option<Bad>>::new(move |_, _| {
            gate.take().unwrap().pass();
            Flow::Stop
        });
        let waits = node.spawn(waits).unwrap();
        waits.tell(None).unwrap();
        waits.tell(Some(Bad)).unwrap();
        waits.tell(Some(Bad)).unwrap();
        key.open();
        assert_eq!(waits.join().unwrap(), ExitReason::Normal);
        letters.tell(Bad).unwrap(); // dropped in the handler
        assert!(matches!(letters.join().unwrap(), ExitReason::Error(_)));
    });
}

// L26
#[test]
fn an_actor_that_raises_ok_fails_and_is_told_to_return() {
    with_nodes(|node| {
        let raises = Hooked::<u64>::new(|_, _| {
            sinew_fiber::signal(sinew_fiber::Signal::Ok, 7).unwrap();
            Flow::Continue
        });
        let raises = node.spawn(raises).unwrap();
        raises.tell(1).unwrap();
        let ExitReason::Error(failure) = raises.join().unwrap() else { panic!("it has failed") };
        assert!(failure.message.contains("returns a `Flow`"), "{}", failure.message);
    });
}

// L26
#[test]
fn a_child_that_fails_with_such_a_value_is_restarted() {
    let (node, _clock) = local();
    let first = Arc::new(AtomicBool::new(true));
    let factory = move || {
        if first.swap(false, Ordering::Relaxed) {
            panic_any(Bad);
        }
        Hooked::<u64>::new(|_, _| panic_any(Bad))
    };
    let spec = ChildSpec::new("child", factory).name("child");
    let supervisor = node.supervisor(Strategy::OneForOne).max_restarts(9, Duration::from_secs(9)).child(spec);
    supervisor.spawn().unwrap();
    node.run_until_idle();
    let child = node.lookup("child").expect("the factory was called again");
    node.send(child, sinew_kernel::Kind(1), sinew_kernel::Payload::value(1_u64)).unwrap();
    node.run_until_idle();
    assert_ne!(node.lookup("child").expect("it was started again"), child);
}

/// Fails when it is dropped.
struct Fragile;

impl Drop for Fragile {
    fn drop(&mut self) {
        panic!("on purpose");
    }
}

impl Actor for Fragile {
    type Msg = u64;

    fn handle(&mut self, _: u64, _: &mut Ctx<u64>) -> Flow {
        Flow::Continue
    }
}

// E9
#[test]
fn a_refused_spawn_takes_no_room_whatever_its_state_does_when_it_is_dropped() {
    let node = sinew_kernel::Node::builder().max_actors(2).build_current_thread().unwrap();
    let _first = node.actor().name("name").spawn(idle()).unwrap();
    let events = node.lifecycle();
    for _ in 0..3 {
        assert!(matches!(node.actor().name("name").spawn(Fragile), Err(SpawnError::NameTaken(..))));
        assert_eq!(node.actor_count(), 1);
    }
    assert!(matches!(events.try_recv(), Ok(None)));
    node.spawn(idle()).unwrap();
}

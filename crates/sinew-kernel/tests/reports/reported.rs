//! The scheduler's reports on tasks say which actor it is.

use std::process::Command;
use std::sync::mpsc;
use std::time::Duration;

use sinew_fiber::Fiber;
use sinew_kernel::{Flow, Node};
use sinew_sched::{Diagnostic, Runtime, Sysmon};
use sinew_test_kit::full_test_name;

use crate::kit::{Hooked, Watchdog, Work, block, compute, keeper, with_nodes};

/// A node that reports stalls soon, and what it reports.
fn reporting(settings: fn(Sysmon) -> Sysmon) -> (Node, mpsc::Receiver<String>) {
    let (sender, reports) = mpsc::channel();
    let (tick, threshold) = (Duration::from_micros(500), Duration::from_millis(5));
    let sysmon = Sysmon::new().tick(tick).stuck_after(threshold).stall_threshold(threshold);
    let sysmon = settings(sysmon).on_diagnostic(move |found| {
        if let Diagnostic::Stall(stall) = found {
            let _ = sender.send(stall.to_string());
        }
    });
    let node = Node::builder().id(7).runtime(Runtime::builder().workers(1).sysmon(sysmon)).build().unwrap();
    (node, reports)
}

#[test]
fn a_stall_says_which_actor_keeps_its_worker_and_what_it_is_called() {
    let _watchdog = Watchdog::new("1 worker".to_owned());
    let without_backtraces = |sysmon: Sysmon| sysmon.signal(None);
    for settings in [|sysmon| sysmon, without_backtraces] {
        for name in [Some("cruncher"), None] {
            let (node, reports) = reporting(settings);
            let options = name.into_iter().fold(node.actor(), |options, name| options.name(name));
            let actor = options.spawn(keeper().0).unwrap();
            let _computing = compute(&actor);
            node.runtime().task().pinned().spawn(|| ()).detach(); // nobody else can run it
            let report = reports.recv().unwrap();
            let called = match name {
                Some(name) => format!("\"actor {} ({name})\" has kept worker", actor.id()),
                None => format!("\"actor {}\" has kept worker", actor.id()),
            };
            assert!(report.starts_with("task #") && report.contains(&called), "{report}");
        }
    }
}

#[test]
fn a_dump_says_which_tasks_are_actors() {
    with_nodes(|node| {
        let [named, other] = ["waiter", ""].map(|name| {
            let options = if name.is_empty() { node.actor() } else { node.actor().name(name) };
            options.spawn(keeper().0).unwrap()
        });
        let key = block(&named);
        let dump = node.runtime().dump();
        key.open();
        for name in [format!("actor {} (waiter)", named.id()), format!("actor {}", other.id())] {
            assert!(dump.to_string().contains(&format!(" {name:?}: ")), "{name}: {dump}");
            assert!(dump.to_json().contains(&format!("\"name\":{name:?}")), "{name}: {}", dump.to_json());
        }
    });
}

#[test]
fn a_shutdown_says_which_actors_are_left() {
    let _watchdog = Watchdog::new("1 worker".to_owned());
    let node = Node::builder().runtime(Runtime::builder().workers(1)).build().unwrap();
    let actor = node.actor().name("stubborn").spawn(keeper().0).unwrap();
    let _computing = compute(&actor);
    let report = node.shutdown(Duration::from_millis(5));
    let names: Vec<_> = report.tasks.iter().filter_map(|(_, name)| name.as_deref()).collect();
    assert!(names.contains(&&*format!("actor {} (stubborn)", actor.id())), "{report:?}");
}

#[inline(never)]
fn recurse(depth: u64) -> u64 {
    let frame = std::hint::black_box([depth; 16]);
    if depth == 0 { frame[0] } else { recurse(depth - 1) + std::hint::black_box(&frame)[1] }
}

#[test]
#[ignore = "the child of another test"]
fn child_that_overflows() {
    let Ok(in_fiber) = std::env::var("SINEW_OVERFLOWS_IN_FIBER") else { return };
    let node = Node::builder().id(7).build().unwrap();
    let overflows = Hooked::new(move |_: Work, ctx| {
        eprintln!("its id is {}.", ctx.id());
        if in_fiber == "yes" {
            let _ = Fiber::new(|_| recurse(u64::MAX)).unwrap().resume(());
        }
        recurse(u64::MAX);
        Flow::Continue
    });
    let actor = node.actor().spawn(overflows).unwrap();
    actor.tell(Work::Number(1)).unwrap();
    let _ = actor.join();
}

#[test]
fn an_overflow_says_which_actor_it_was() {
    for (in_fiber, what) in [("no", "task"), ("yes", "fiber")] {
        let program = std::env::current_exe().unwrap();
        let output = Command::new(program)
            .args([
                &*full_test_name(module_path!(), "child_that_overflows"),
                "--exact",
                "--ignored",
                "--nocapture",
            ])
            .env("SINEW_OVERFLOWS_IN_FIBER", in_fiber)
            .output()
            .unwrap();
        let text = String::from_utf8_lossy(&output.stderr);
        let id = text.split_once("its id is ").and_then(|(_, rest)| Some(rest.split_once(".\n")?.0));
        let id = id.unwrap_or_else(|| panic!("{text}"));
        assert!(id.starts_with("7."), "{text}");
        assert!(text.contains(&format!("sinew: {what} #")), "{text}");
        assert!(text.contains(&format!(" of actor {id} overflowed its stack of ")), "{text}");
    }
}

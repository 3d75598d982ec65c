//! Two handlers of SIGSEGV, wasmtime's and that of sinew-fiber: each serves its own faults and passes the other's on,
//! whichever was installed first. Each test has a process of its own, since handlers are for a whole process.

use std::os::unix::process::ExitStatusExt;

use sinew_fiber::{Fiber, Signal, StackSize};
use wasmtime::Trap;

use crate::guests::{Guest, Host};
use crate::stack_support::run_in_child;
use crate::support::{Watchdog, current_thread};

/// Waits, and then reads behind its memory, which raises SIGSEGV.
const FAULTS: &str = r#"(module
    (import "host" "wait" (func $wait (param i32) (result i32)))
    (memory 1)
    (func (export "run") (param $n i32) (result i32) (i32.load (call $wait (local.get $n)))))"#;

fn handler() -> usize {
    // SAFETY: all zeros is a record, and the call only writes one.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        assert_eq!(libc::sigaction(libc::SIGSEGV, std::ptr::null(), &mut action), 0);
        action.sa_sigaction
    }
}

/// Does something that must set a handler.
fn sets_a_handler<T>(act: impl FnOnce() -> T) -> T {
    let before = handler();
    let done = act();
    assert_ne!(handler(), before);
    done
}

/// Lets guests fault: on this thread, and on workers.
fn trap_and_go_on(host: &Host) {
    let _watchdog = Watchdog::new("guests that fault".to_owned());
    let module = host.module(FAULTS);
    let faults = || {
        let (guest, gate) = Guest::new();
        gate.try_send(1 << 20).unwrap();
        host.call(&module, guest, 0)
    };
    let check = |result: wasmtime::Result<i32>| {
        assert_eq!(result.unwrap_err().downcast_ref(), Some(&Trap::MemoryOutOfBounds));
    };
    for _ in 0..10 {
        check(sinew_sched::block_on(faults()).unwrap());
    }
    let runtime = sinew_sched::Runtime::builder().workers(2).build().unwrap();
    let tasks: Vec<_> = (0..10).map(|_| runtime.spawn_future(faults())).collect();
    tasks.into_iter().for_each(|task| check(task.join().unwrap()));
}

/// Needs some hundred bytes of stack for each call of itself.
#[inline(never)]
pub(crate) fn recurse(depth: u64) -> u64 {
    let frame = std::hint::black_box([depth; 16]);
    if depth == 0 { frame[0] } else { recurse(depth - 1) + std::hint::black_box(&frame)[1] }
}

/// Runs a fiber that calls itself so many times.
fn run_fiber(name: &'static str, depth: u64) {
    let options = Fiber::builder().name(name).stack(StackSize::KiB32);
    let fiber = options.build(move |_| recurse(depth)).unwrap();
    assert_eq!(fiber.resume(()).unwrap(), Signal::Ok);
}

/// Runs `body`, which says at last that it overflows, in a child, which has to die as the fiber of that name.
#[track_caller]
fn assert_dies_as(name: &str, test: &str, body: fn()) {
    let output = run_in_child(module_path!(), test, body);
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.signal(), Some(libc::SIGABRT), "{}: {stderr}", output.status);
    assert!(stderr.contains("now it overflows"), "{stderr}");
    assert!(stderr.contains(&format!("sinew: fiber \"{name}\" ")), "{stderr}");
    assert!(stderr.contains("overflowed its stack of 32 KiB"), "{stderr}");
}

#[test]
fn guests_trap_and_overflows_are_named_if_fibers_came_before_the_engine() {
    const TEST: &str = "guests_trap_and_overflows_are_named_if_fibers_came_before_the_engine";
    assert_dies_as("native", TEST, || {
        sets_a_handler(|| run_fiber("early", 1));
        let host = sets_a_handler(Host::new);
        trap_and_go_on(&host);
        eprintln!("now it overflows");
        run_fiber("native", u64::MAX);
    });
}

#[test]
fn guests_trap_and_overflows_are_named_if_the_engine_came_before_fibers() {
    const TEST: &str = "guests_trap_and_overflows_are_named_if_the_engine_came_before_fibers";
    assert_dies_as("native", TEST, || {
        let host = sets_a_handler(Host::new);
        sets_a_handler(|| run_fiber("late", 1));
        trap_and_go_on(&host);
        eprintln!("now it overflows");
        run_fiber("native", u64::MAX);
    });
}

/// There wasmtime's handler finds a guest on the thread, but no fault of it.
#[test]
fn a_fiber_that_overflows_inside_a_host_function_is_named() {
    const TEST: &str = "a_fiber_that_overflows_inside_a_host_function_is_named";
    assert_dies_as("inside", TEST, || {
        sets_a_handler(|| run_fiber("early", 1));
        let host = sets_a_handler(Host::new);
        trap_and_go_on(&host);
        let (guest, _gate) = Guest::new();
        let guest = guest.on_wait(|_| {
            run_fiber("harmless", 1);
            eprintln!("now it overflows");
            run_fiber("inside", u64::MAX);
        });
        let runtime = current_thread();
        let task = runtime.spawn_future(host.call(&host.module(FAULTS), guest, 1));
        runtime.run_until_idle();
        drop(task);
    });
}

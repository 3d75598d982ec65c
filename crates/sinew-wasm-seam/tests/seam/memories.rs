//! Stacks and linear memories of guests are slots of our slabs, and no guest gets out of its own.

use std::os::unix::process::ExitStatusExt;

use sinew_fiber::{GuardKind, usage};
use wasmtime::{Config, Module, Trap};

use crate::ended::WAITS;
use crate::faults::recurse;
use crate::guests::{Guest, Host, MEMORY};
use crate::stack_support::{pass_in_child, run_in_child};
use crate::support::current_thread;

const PAGE: i32 = 64 << 10;

/// Runs a module that does not wait, once.
fn run(host: &Host, text: &str, argument: i32) -> wasmtime::Result<i32> {
    run_module(host, &host.module(text), argument)
}

fn run_module(host: &Host, module: &Module, argument: i32) -> wasmtime::Result<i32> {
    sinew_sched::block_on(host.call(module, Guest::new().0, argument)).unwrap()
}

#[track_caller]
fn assert_traps(result: wasmtime::Result<i32>, trap: Trap) {
    let error = result.expect_err("it traps");
    assert_eq!(error.downcast_ref(), Some(&trap), "{error:?}");
}

/// In a process of its own, since it counts what the process has of slabs.
#[test]
fn a_guest_has_one_stack_and_one_memory_of_the_slabs_and_nothing_of_the_engine() {
    pass_in_child(
        module_path!(),
        "a_guest_has_one_stack_and_one_memory_of_the_slabs_and_nothing_of_the_engine",
        || {
            let runtime = current_thread();
            let host = Host::new();
            let module = host.module(WAITS);
            let waiting = || {
                let (guest, gate) = Guest::new();
                let task = runtime.spawn_future(host.call(&module, guest, 1));
                runtime.run_until_idle();
                (task, gate)
            };
            let first = waiting();
            let (before, mappings) = (usage(), mappings());
            let mut guests: Vec<_> = (0..100).map(|_| waiting()).collect();
            assert_eq!(usage().in_use, before.in_use + 200);
            assert_eq!((host.stacks.taken(), host.memories.taken()), (101, 101));
            if usage().guards == GuardKind::Markers {
                let (slabs, mapped) = (usage().slabs - before.slabs, self::mappings() - mappings);
                assert!(mapped <= slabs + 10, "{mapped} mappings for {slabs} slabs: a few are malloc's");
            }

            guests.push(first);
            for (task, gate) in guests {
                gate.try_send(1).unwrap();
                runtime.run_until_idle();
                assert_eq!(task.join().unwrap().unwrap(), 2);
            }
            assert_eq!((usage().in_use, host.out()), (before.in_use - 2, (0, 0)));
        },
    );
}

fn mappings() -> usize {
    std::fs::read_to_string("/proc/self/maps").unwrap().lines().count()
}

/// Grows page by page up to its argument, writes to the last word of each, and sums what it finds at the end.
const GROWS: &str = r#"(module
    (memory 1)
    (func (export "run") (param $pages i32) (result i32)
        (local $n i32) (local $sum i32)
        (loop $more
            (i32.store (i32.sub (i32.mul (memory.size) (i32.const 65536)) (i32.const 4)) (memory.size))
            (if (i32.lt_u (memory.size) (local.get $pages))
                (then (br_if $more (i32.ne (memory.grow (i32.const 1)) (i32.const -1)))
                    (return (i32.sub (i32.const 0) (memory.size))))))
        (loop $next
            (local.set $n (i32.add (local.get $n) (i32.const 1)))
            (local.set $sum (i32.add (local.get $sum)
                (i32.load (i32.sub (i32.mul (local.get $n) (i32.const 65536)) (i32.const 4)))))
            (br_if $next (i32.lt_u (local.get $n) (memory.size))))
        (local.get $sum)))"#;

#[test]
fn a_memory_grows_up_to_its_slot_and_not_beyond() {
    let host = Host::new();
    let pages = MEMORY as i32 / PAGE;
    for wanted in 1..=pages {
        assert_eq!(run(&host, GROWS, wanted).unwrap(), (1..=wanted).sum::<i32>());
    }
    assert_eq!(run(&host, GROWS, pages + 1).unwrap(), -pages, "`memory.grow` was refused there");
    assert_eq!(host.out(), (0, 0));
}

/// Each reads the word at its argument: in a memory of one page; 60,000 bytes further; after a growth.
const READS: &str = r#"(module
    (memory 1)
    (func (export "run") (param $at i32) (result i32) (i32.load (local.get $at))))"#;

const READS_BEHIND: &str = r#"(module
    (memory 1)
    (func (export "run") (param $at i32) (result i32) (i32.load offset=60000 (local.get $at))))"#;

const GROWS_AND_READS: &str = r#"(module
    (memory 1)
    (func (export "run") (param $at i32) (result i32)
        (drop (memory.grow (i32.const 1)))
        (i32.load (local.get $at))))"#;

#[test]
fn an_access_behind_the_size_of_a_memory_traps_also_within_the_slot() {
    let host = Host::new();
    let slot = MEMORY as i32;
    // With a limit that fits into the slot, and without one, the code of guests may differ.
    for limit in ["(memory 1)", "(memory 1 4)"] {
        let module = |text: &str| host.module(&text.replace("(memory 1)", limit));
        let (reads, behind, after) = (module(READS), module(READS_BEHIND), module(GROWS_AND_READS));
        for at in [PAGE - 3, PAGE, PAGE + 4096, slot - 4, slot, i32::MAX, -4] {
            assert_traps(run_module(&host, &reads, at), Trap::MemoryOutOfBounds);
            assert_traps(run_module(&host, &behind, at), Trap::MemoryOutOfBounds);
        }
        assert_eq!(run_module(&host, &reads, PAGE - 4).unwrap(), 0);
        assert_eq!(run_module(&host, &after, PAGE).unwrap(), 0);
        assert_traps(run_module(&host, &after, 2 * PAGE), Trap::MemoryOutOfBounds);
    }
    assert_eq!(host.out(), (0, 0));
}

/// Here the code of the guest checks the address without the offset, and leaves the rest to the guard.
#[test]
fn an_access_to_the_guard_of_a_memory_traps() {
    let host = Host::with(|config| {
        config.memory_guard_size(64 << 10);
    });
    for at in [PAGE - 3, PAGE, i32::MAX, -4] {
        assert_traps(run(&host, READS, at), Trap::MemoryOutOfBounds);
    }
    for at in [PAGE - 60_003, PAGE - 60_000, PAGE - 4, PAGE] {
        assert_traps(run(&host, READS_BEHIND, at), Trap::MemoryOutOfBounds);
    }
    assert_eq!(run(&host, READS_BEHIND, PAGE - 60_004).unwrap(), 0);
    assert_eq!(run(&host, GROWS, 2).unwrap(), -1, "a memory with a guard does not grow");
    assert_eq!(host.out(), (0, 0));
}

#[test]
fn memories_that_the_slabs_cannot_serve_are_errors_that_say_why() {
    let reserving = Host::with(|config| {
        config.memory_reservation(1 << 20);
    });
    let error = run(&reserving, READS, 0).unwrap_err();
    assert!(format!("{error:?}").contains("memory_reservation(0)"), "{error:?}");
    let error = run(&Host::new(), &READS.replace("(memory 1)", "(memory 5)"), 0).unwrap_err();
    assert!(format!("{error:?}").contains("does not fit into a slot of 262144"), "{error:?}");
}

/// Sums its whole memory, and leaves no word of it zero.
const DIRTIES: &str = r#"(module
    (memory 4)
    (func (export "run") (param $with i32) (result i32)
        (local $at i32) (local $sum i32)
        (loop $next
            (local.set $sum (i32.or (local.get $sum) (i32.load (local.get $at))))
            (i32.store (local.get $at) (local.get $with))
            (local.set $at (i32.add (local.get $at) (i32.const 4)))
            (br_if $next (i32.lt_u (local.get $at) (i32.const 262144))))
        (local.get $sum)))"#;

#[test]
fn a_guest_finds_zeros_where_another_wrote() {
    let host = Host::new();
    let module = host.module(DIRTIES);
    for _ in 0..10 {
        assert_eq!(run_module(&host, &module, -1).unwrap(), 0);
    }
}

/// Recurses as deep as its argument, or without end.
const RECURSES: &str = r#"(module
    (func $down (param $n i32) (result i32)
        (if (i32.eqz (local.get $n)) (then (return (i32.const 0))))
        (i32.add (i32.const 1) (call $down (i32.sub (local.get $n) (i32.const 1)))))
    (func (export "run") (param i32) (result i32) (call $down (local.get 0))))"#;

#[test]
fn a_guest_that_recurses_without_end_traps_and_its_stack_serves_the_next() {
    let host = Host::new();
    let module = host.module(RECURSES);
    for _ in 0..100 {
        assert_traps(run_module(&host, &module, -1), Trap::StackOverflow);
        assert_eq!(run_module(&host, &module, 100).unwrap(), 100);
    }
    assert_eq!(host.out(), (0, 0));
}

#[test]
fn a_host_function_that_overflows_the_stack_of_a_guest_meets_the_guard() {
    const TEST: &str = "a_host_function_that_overflows_the_stack_of_a_guest_meets_the_guard";
    let output = run_in_child(module_path!(), TEST, || {
        let runtime = current_thread();
        let host = Host::new();
        let (guest, _gate) = Guest::new();
        let guest = guest.on_wait(|_| assert_eq!(recurse(u64::MAX), 0));
        let task = runtime.spawn_future(host.call(&host.module(WAITS), guest, 1));
        runtime.run_until_idle();
        drop(task);
    });
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.signal(), Some(libc::SIGABRT), "{stderr}");
    assert!(stderr.contains("execution on async fiber has overflowed its stack"), "{stderr}");
}

#[test]
fn an_engine_with_smaller_or_zeroed_stacks_is_told_that_there_are_none() {
    let call = |change: fn(&mut Config)| format!("{:?}", run(&Host::with(change), READS, 0).unwrap_err());
    let small = call(|config| {
        config.max_wasm_stack(4 << 10).async_stack_size(8 << 10);
    });
    assert!(small.contains("8192"), "{small}");
    let zeroed = call(|config| {
        config.async_stack_zeroing(true);
    });
    assert!(zeroed.contains("async_stack_zeroing"), "{zeroed}");
}

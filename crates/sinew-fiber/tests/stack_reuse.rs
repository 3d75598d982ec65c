//! Stacks come back: the newest first, to whoever asks, with the memory of the idle ones given back.
//! A program of its own, because one of its tests trims the stacks of the process.
#![cfg(not(any(loom, shuttle)))]

mod stack_support;

use std::sync::mpsc;
use std::thread;

use sinew_fiber::raw::{empty_stack_cache, is_stack_cache_asked, is_stack_cache_empty};
use sinew_fiber::{GuardKind, Stack, StackSize, trim, usage};
use stack_support::pass_in_child;

const PAGE: usize = 4096;

fn fill(stack: &Stack, byte: u8) {
    // SAFETY: the stack owns all bytes from its limit to its top, and nothing runs on it.
    unsafe { stack.limit().write_bytes(byte, stack.size()) };
}

fn resident_bytes() -> usize {
    let statistics = std::fs::read_to_string("/proc/self/statm").unwrap();
    statistics.split(' ').nth(1).unwrap().parse::<usize>().unwrap() * PAGE
}

#[test]
fn the_stack_that_was_given_back_last_is_taken_first() {
    let first = Stack::take(StackSize::KiB32).unwrap();
    let second = Stack::take(StackSize::KiB32).unwrap();
    let (first_limit, second_limit) = (first.limit(), second.limit());
    drop(first);
    drop(second);
    let again = Stack::take(StackSize::KiB32).unwrap();
    assert_eq!(again.limit(), second_limit);
    assert_eq!(Stack::take(StackSize::KiB32).unwrap().limit(), first_limit);
}

#[test]
fn trim_gives_back_all_that_is_free_and_keeps_what_is_in_use() {
    pass_in_child(module_path!(), "trim_gives_back_all_that_is_free_and_keeps_what_is_in_use", || {
        const COUNT: usize = 8;
        const SIZE: usize = 256 << 10;
        let stacks: Vec<Stack> = (0..COUNT).map(|_| Stack::take(StackSize::KiB256).unwrap()).collect();
        stacks.iter().for_each(|stack| fill(stack, 7));
        let held = Stack::take(StackSize::KiB256).unwrap();
        fill(&held, 9);
        drop(stacks);

        let before = resident_bytes();
        assert_eq!(trim(), COUNT * SIZE, "on the first call");
        assert!(resident_bytes() + (COUNT - 1) * SIZE < before);

        let again: Vec<Stack> = (0..COUNT).map(|_| Stack::take(StackSize::KiB256).unwrap()).collect();
        assert!(again.iter().all(|stack| stack.high_water() == 0), "all of them are empty");
        // SAFETY: the first and last byte of a stack that this test owns.
        let (first, last) = unsafe { (held.limit().read(), held.top().sub(1).read()) };
        assert_eq!((first, last, held.high_water()), (9, 9, SIZE), "what is taken is never touched");
    });
}

#[test]
fn trim_reaches_the_stacks_that_no_thread_has_cached() {
    pass_in_child(module_path!(), "trim_reaches_the_stacks_that_no_thread_has_cached", || {
        const COUNT: usize = 300;
        const SIZE: usize = 16 << 10;
        let stacks: Vec<Stack> = (0..COUNT).map(|_| Stack::take(StackSize::KiB16).unwrap()).collect();
        stacks.iter().for_each(|stack| fill(stack, 7));
        drop(stacks);
        assert_eq!(trim(), COUNT * SIZE, "cached or shared, all of them are free");
        assert_eq!(trim(), 0, "once");
    });
}

#[test]
fn a_thread_is_asked_to_give_its_cached_stacks_back_and_does_so_itself() {
    pass_in_child(
        module_path!(),
        "a_thread_is_asked_to_give_its_cached_stacks_back_and_does_so_itself",
        || {
            const SIZE: usize = 64 << 10;
            let (to_other, from_main) = mpsc::channel();
            let (to_main, from_other) = mpsc::channel();
            let other = thread::spawn(move || {
                let stack = Stack::take(StackSize::KiB64).unwrap();
                fill(&stack, 7);
                drop(stack);
                to_main.send(()).unwrap();
                from_main.recv().unwrap();
                assert!(is_stack_cache_asked() && !is_stack_cache_empty());
                assert_eq!(empty_stack_cache(), SIZE);
                assert!(!is_stack_cache_asked() && is_stack_cache_empty());
            });
            from_other.recv().unwrap();
            assert_eq!(trim(), 0, "what another thread has is not touched");
            to_other.send(()).unwrap();
            other.join().unwrap();
        },
    );
}

#[test]
fn page_tables_go_back_with_the_last_stack_of_their_slab() {
    pass_in_child(module_path!(), "page_tables_go_back_with_the_last_stack_of_their_slab", || {
        fn page_tables() -> usize {
            let status = std::fs::read_to_string("/proc/self/status").unwrap();
            let line = status.lines().find_map(|line| line.strip_prefix("VmPTE:")).unwrap();
            line.split_whitespace().next().unwrap().parse::<usize>().unwrap() << 10
        }
        if usage().guards != GuardKind::Markers {
            return; // guards are mappings of their own, and stay
        }
        const COUNT: usize = 4000;
        let before = page_tables();
        let take = || {
            let stacks: Vec<Stack> = (0..COUNT).map(|_| Stack::take(StackSize::KiB256).unwrap()).collect();
            // SAFETY: the last byte of a stack that this test owns.
            stacks.iter().for_each(|stack| unsafe { stack.top().sub(1).write(7) });
            stacks
        };
        let mut stacks = take();
        let peak = page_tables() - before;
        assert!(peak > COUNT * 400, "{peak} bytes of page tables");
        let held = stacks.swap_remove(COUNT / 2);
        drop(stacks);
        assert_eq!(trim(), (COUNT - 1) * PAGE);
        let left = page_tables() - before;
        assert!(left < peak * 3 / 4, "{left} bytes of {peak} are left, of the slab of the one that is held");
        assert!(held.high_water() == PAGE);
        drop((held, take())); // and their guards are there again
        assert_eq!(trim(), (COUNT + 1) * PAGE);
        let left = page_tables().saturating_sub(before);
        assert!(left < peak / 4, "{left} bytes of {peak} are left");
    });
}

#[test]
fn the_high_water_mark_says_how_deep_a_stack_has_been() {
    pass_in_child(module_path!(), "the_high_water_mark_says_how_deep_a_stack_has_been", || {
        let stack = Stack::take(StackSize::MiB1).unwrap();
        assert_eq!(stack.high_water(), 0, "nobody was here");
        let touch = |depth: usize| {
            // SAFETY: the depths below are within the stack, which this test owns.
            unsafe { stack.top().sub(depth).write(1) };
        };
        touch(1);
        assert_eq!(stack.high_water(), PAGE);
        touch(10 * PAGE);
        assert_eq!(stack.high_water(), 10 * PAGE);
        touch(10 * PAGE + 1);
        assert_eq!(stack.high_water(), 11 * PAGE, "a byte more is a page more");
        touch(stack.size());
        assert_eq!(stack.high_water(), stack.size());
    });
}

#[test]
fn decommitting_below_a_stack_pointer_keeps_its_page_and_everything_above() {
    let stack = Stack::take(StackSize::Custom(80 << 10)).unwrap();
    fill(&stack, 3);
    // SAFETY: the places are within the stack, on which nothing runs.
    unsafe {
        let sp = stack.top().sub(2 * PAGE + 100).as_ptr();
        stack.decommit_below(sp);
        assert_eq!(stack.high_water(), 3 * PAGE);
        assert_eq!(stack.top().sub(3 * PAGE).read(), 3, "the page of the pointer is whole");
        assert_eq!(stack.top().sub(3 * PAGE + 1).read(), 0, "below it is nothing");

        stack.decommit_below(stack.top().as_ptr().wrapping_add(PAGE));
        stack.decommit_below(std::ptr::null_mut());
        assert_eq!(stack.top().sub(1).read(), 3, "a pointer from elsewhere does nothing");
    }
}

#[test]
fn a_thread_that_ends_returns_the_stacks_that_it_had_cached() {
    pass_in_child(module_path!(), "a_thread_that_ends_returns_the_stacks_that_it_had_cached", || {
        let mut limits = thread::spawn(|| {
            let stacks: Vec<Stack> = (0..10).map(|_| Stack::take(StackSize::KiB64).unwrap()).collect();
            stacks.iter().map(|stack| stack.limit().addr()).collect::<Vec<_>>()
        })
        .join()
        .unwrap();
        assert_eq!(usage().in_use, 0);
        let again: Vec<Stack> = (0..10).map(|_| Stack::take(StackSize::KiB64).unwrap()).collect();
        let mut found: Vec<_> = again.iter().map(|stack| stack.limit().addr()).collect();
        limits.sort();
        found.sort();
        assert_eq!(found, limits, "the same ten, none of them new");
        assert_eq!(usage().in_use, 10);
    });
}

#[test]
fn a_stack_that_is_dropped_while_its_thread_ends_is_not_lost() {
    thread_local! {
        static LATE: std::cell::RefCell<Vec<Stack>> = const { std::cell::RefCell::new(Vec::new()) };
    }
    pass_in_child(module_path!(), "a_stack_that_is_dropped_while_its_thread_ends_is_not_lost", || {
        // Touched before the cache and after it: one of the two is destroyed after the cache is.
        for before in [true, false] {
            thread::spawn(move || {
                if before {
                    LATE.with(|_| ());
                }
                let stack = Stack::take(StackSize::KiB64).unwrap();
                LATE.with(|late| late.borrow_mut().push(stack));
            })
            .join()
            .unwrap();
            assert_eq!(usage().in_use, 0);
        }
    });
}

#[test]
fn a_forgotten_stack_is_never_handed_out_again() {
    let stack = Stack::take(StackSize::Custom(48 << 10)).unwrap();
    let quarantined = stack.limit();
    std::mem::forget(stack);
    let others: Vec<Stack> = (0..100).map(|_| Stack::take(StackSize::Custom(48 << 10)).unwrap()).collect();
    assert!(others.iter().all(|other| other.limit() != quarantined));
}

/// Threads take, write, check, give back and pass stacks on, while one of them trims.
#[test]
fn many_threads_never_find_another_ones_bytes_in_their_stack() {
    const THREADS: usize = 4;
    const TURNS: usize = 3000;
    let (senders, receivers): (Vec<_>, Vec<_>) = (0..THREADS).map(|_| mpsc::channel::<(Stack, u8)>()).unzip();
    let check = |stack: &Stack, byte: u8| {
        // SAFETY: the first and last byte of a stack that the caller owns.
        let found = unsafe { (stack.limit().read(), stack.top().sub(1).read()) };
        assert_eq!(found, (byte, byte));
    };
    thread::scope(|scope| {
        for (index, receiver) in receivers.into_iter().enumerate() {
            let next = senders[(index + 1) % THREADS].clone();
            scope.spawn(move || {
                let mut kept: Vec<(Stack, u8)> = Vec::new();
                for turn in 0..TURNS {
                    let size = if turn % 5 == 0 { StackSize::Custom(20 << 10) } else { StackSize::KiB16 };
                    let stack = Stack::take(size).unwrap();
                    let byte = (turn * THREADS + index) as u8;
                    // SAFETY: the first and last byte of a stack that this thread owns.
                    unsafe {
                        stack.limit().write(byte);
                        stack.top().sub(1).write(byte);
                    }
                    match turn % 3 {
                        0 => kept.push((stack, byte)),
                        // The next thread may have ended; the stack is then dropped here.
                        1 => drop(next.send((stack, byte))),
                        _ => check(&stack, byte),
                    }
                    if turn % 100 == 99 {
                        kept.drain(..)
                            .chain(receiver.try_iter())
                            .for_each(|(stack, byte)| check(&stack, byte));
                    }
                    if index == 0 && turn % 50 == 0 {
                        trim();
                    }
                }
            });
        }
        drop(senders);
    });
}

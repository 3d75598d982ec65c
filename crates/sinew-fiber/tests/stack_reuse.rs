//! Stacks come back: the newest first, to whoever asks, with the memory of the idle ones given back.
#![cfg(not(any(loom, shuttle)))]

mod stack_support;

use std::sync::mpsc;
use std::thread;

use sinew_fiber::{Stack, StackSize, trim, usage};
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
fn trim_gives_back_what_idled_and_keeps_what_is_in_use() {
    pass_in_child("trim_gives_back_what_idled_and_keeps_what_is_in_use", || {
        const COUNT: usize = 8;
        const SIZE: usize = 256 << 10;
        let stacks: Vec<Stack> = (0..COUNT).map(|_| Stack::take(StackSize::KiB256).unwrap()).collect();
        stacks.iter().for_each(|stack| fill(stack, 7));
        let held = Stack::take(StackSize::KiB256).unwrap();
        fill(&held, 9);
        drop(stacks);

        assert_eq!(trim(), 0, "all of them were in use since the previous trim");
        drop(Stack::take(StackSize::KiB256).unwrap());
        let before = resident_bytes();
        assert_eq!(trim(), (COUNT - 1) * SIZE, "all but the one that was used");
        assert!(resident_bytes() + (COUNT - 2) * SIZE < before);

        let again: Vec<Stack> = (0..COUNT).map(|_| Stack::take(StackSize::KiB256).unwrap()).collect();
        let touched: Vec<usize> = again.iter().map(Stack::high_water).collect();
        assert_eq!(touched[0], SIZE, "the used one is warm");
        assert_eq!(touched[1..], [0; COUNT - 1], "the others are empty");
        // SAFETY: the first and last byte of a stack that this test owns.
        let (first, last) = unsafe { (held.limit().read(), held.top().sub(1).read()) };
        assert_eq!((first, last, held.high_water()), (9, 9, SIZE), "what is taken is never touched");
    });
}

#[test]
fn trim_reaches_the_stacks_that_no_thread_has_cached() {
    pass_in_child("trim_reaches_the_stacks_that_no_thread_has_cached", || {
        const COUNT: usize = 300;
        const SIZE: usize = 16 << 10;
        let stacks: Vec<Stack> = (0..COUNT).map(|_| Stack::take(StackSize::KiB16).unwrap()).collect();
        stacks.iter().for_each(|stack| fill(stack, 7));
        drop(stacks);
        assert_eq!(trim(), 0);
        assert_eq!(trim(), COUNT * SIZE, "cached or shared, all of them idled");
        assert_eq!(trim(), 0, "once");
    });
}

#[test]
fn the_high_water_mark_says_how_deep_a_stack_has_been() {
    pass_in_child("the_high_water_mark_says_how_deep_a_stack_has_been", || {
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
    pass_in_child("a_thread_that_ends_returns_the_stacks_that_it_had_cached", || {
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
    pass_in_child("a_stack_that_is_dropped_while_its_thread_ends_is_not_lost", || {
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

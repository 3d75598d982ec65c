//! A fiber that runs off its stack is named before the process dies of it.

use std::os::unix::process::ExitStatusExt;

use sinew_fiber::{Fiber, Generator, Mask, Root, Signal, StackSize, run_as_root, yield_};

use crate::stack_support::{pass_in_child, run_in_child};

#[inline(never)]
fn recurse(depth: u64) -> u64 {
    let frame = std::hint::black_box([depth; 16]);
    if depth == 0 { frame[0] } else { recurse(depth - 1) + std::hint::black_box(&frame)[1] }
}

/// Runs `body` in a child, which has to die by a signal, and returns what it wrote to stderr.
fn last_words(test: &str, signal: libc::c_int, body: fn()) -> String {
    let output = run_in_child(module_path!(), test, body);
    let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.signal(), Some(signal), "{}: {stderr}", output.status);
    stderr
}

#[test]
fn a_named_fiber_that_recurses_without_end_is_told_by_name_number_and_size() {
    const TEST: &str = "a_named_fiber_that_recurses_without_end_is_told_by_name_number_and_size";
    let stderr = last_words(TEST, libc::SIGABRT, || {
        let fiber = Fiber::builder().name("parser").stack(StackSize::KiB16).build(|_| recurse(u64::MAX));
        let fiber = fiber.unwrap();
        eprintln!("its number is {}.", fiber.view().id());
        let _ = fiber.resume(());
    });
    let (_, number) = stderr.split_once("its number is ").unwrap();
    let (number, _) = number.split_once('.').unwrap();
    let expected = format!("sinew: fiber \"parser\" (#{number}) overflowed its stack of 16 KiB: ");
    assert!(stderr.contains(&expected), "{stderr}");
    assert!(stderr.contains("builder().stack(..)"), "it says what to do: {stderr}");
}

#[test]
fn a_fiber_without_a_name_is_told_by_number_and_size() {
    const TEST: &str = "a_fiber_without_a_name_is_told_by_number_and_size";
    let stderr = last_words(TEST, libc::SIGABRT, || {
        let fiber = Fiber::new(|_| recurse(u64::MAX)).unwrap();
        eprintln!("its number is {}.", fiber.view().id());
        let _ = fiber.resume(());
    });
    let (_, number) = stderr.split_once("its number is ").unwrap();
    let (number, _) = number.split_once('.').unwrap();
    assert!(
        stderr.contains(&format!("sinew: fiber #{number} overflowed its stack of 256 KiB: ")),
        "{stderr}"
    );
}

#[test]
fn of_nested_fibers_the_one_that_overflowed_is_told() {
    const TEST: &str = "of_nested_fibers_the_one_that_overflowed_is_told";
    let stderr = last_words(TEST, libc::SIGABRT, || {
        let outer = Fiber::builder().name("outer").build(|_| {
            let options = Fiber::builder().name("inner").stack(StackSize::KiB32);
            let numbers = Generator::with(options, |out| {
                out.yield_(1);
                out.yield_(recurse(u64::MAX));
            });
            numbers.unwrap().sum::<u64>()
        });
        let _ = outer.unwrap().resume(());
    });
    assert!(stderr.contains("fiber \"inner\""), "{stderr}");
    assert!(stderr.contains("overflowed its stack of 32 KiB"), "{stderr}");
    assert!(!stderr.contains("outer"), "{stderr}");
}

#[test]
fn the_outer_fiber_is_told_when_it_overflows_after_the_inner_one_has_stopped() {
    const TEST: &str = "the_outer_fiber_is_told_when_it_overflows_after_the_inner_one_has_stopped";
    let stderr = last_words(TEST, libc::SIGABRT, || {
        let outer = Fiber::builder().name("outer").stack(StackSize::KiB64).build(|_| {
            let inner = Fiber::builder().name("inner").build(|_| drop(yield_(()))).unwrap();
            assert_eq!(inner.resume(()).unwrap(), Signal::Yield);
            recurse(u64::MAX)
        });
        let _ = outer.unwrap().resume(());
    });
    assert!(stderr.contains("fiber \"outer\""), "{stderr}");
    assert!(stderr.contains("overflowed its stack of 64 KiB"), "{stderr}");
}

#[test]
fn an_overflow_on_another_thread_names_the_fiber_of_that_thread() {
    const TEST: &str = "an_overflow_on_another_thread_names_the_fiber_of_that_thread";
    let stderr = last_words(TEST, libc::SIGABRT, || {
        let here = Fiber::builder().name("here").build(|_| {
            let there = std::thread::spawn(|| {
                let there = Fiber::builder().name("there").build(|_| recurse(u64::MAX)).unwrap();
                let _ = there.resume(());
            });
            there.join().unwrap();
        });
        let _ = here.unwrap().resume(());
    });
    assert!(stderr.contains("fiber \"there\""), "{stderr}");
}

#[test]
fn an_overflow_of_a_thread_s_own_stack_is_still_told_by_std() {
    const TEST: &str = "an_overflow_of_a_thread_s_own_stack_is_still_told_by_std";
    let stderr = last_words(TEST, libc::SIGABRT, || {
        let deep = std::thread::Builder::new().name("deep".into()).spawn(|| {
            let fiber = Fiber::new(|_| drop(yield_(()))).unwrap();
            assert_eq!(fiber.resume(()).unwrap(), Signal::Yield);
            recurse(u64::MAX)
        });
        let _ = deep.unwrap().join();
    });
    assert!(stderr.contains("thread 'deep'") && stderr.contains("overflow"), "{stderr}");
    assert!(!stderr.contains("sinew:"), "{stderr}");
}

#[test]
fn the_high_water_mark_grows_with_use_and_stays() {
    pass_in_child(module_path!(), "the_high_water_mark_grows_with_use_and_stays", || {
        const SIZE: usize = 512 << 10;
        let options = Fiber::builder().mask(Mask::YIELD).stack(StackSize::Custom(SIZE));
        let fiber = options.build(|_| {
            for depth in [10, 100, 1000, 10] {
                yield_(recurse(depth)).unwrap();
            }
        });
        let fiber = fiber.unwrap();
        let mut marks = vec![fiber.stack_high_water()];
        while fiber.resume(()).unwrap() == Signal::Yield {
            marks.push(fiber.stack_high_water());
        }
        assert!(marks.is_sorted(), "{marks:?}");
        assert!(marks[0] > 0, "the record lies in the top page");
        assert!(marks[2] > marks[0], "{marks:?}");
        assert!(marks[3] >= marks[1] + 900 * 128, "a thousand frames of 128 bytes: {marks:?}");
        assert_eq!(marks[4], marks[3], "it does not fall");
        assert!(marks[4] < SIZE);
    });
}

#[test]
fn a_root_that_runs_on_a_fiber_s_stack_overflows_as_that_fiber() {
    const TEST: &str = "a_root_that_runs_on_a_fiber_s_stack_overflows_as_that_fiber";
    let stderr = last_words(TEST, libc::SIGABRT, || {
        let fiber = Fiber::builder()
            .name("host")
            .stack(StackSize::KiB32)
            .build(|_| run_as_root(&mut Root::new("guest", Mask::NONE), None, || recurse(u64::MAX)).unwrap());
        let _ = fiber.unwrap().resume(());
    });
    assert!(stderr.contains("sinew: fiber \"host\" "), "{stderr}");
}

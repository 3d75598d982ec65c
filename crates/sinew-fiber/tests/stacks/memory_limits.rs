//! Without memory for a stack there is an error, and with enough of it there are very many fibers.

use sinew_fiber::{
    Fiber, Generator, Mask, Root, Signal, StackError, StackSize, defer, protect, run_as_root, usage, yield_,
};

use crate::stack_support::pass_in_child;

/// Lets this process have no more than `more` bytes of address space besides what it has, or any amount.
fn limit_address_space(more: Option<usize>) {
    let statistics = std::fs::read_to_string("/proc/self/statm").unwrap();
    let pages: usize = statistics.split(' ').next().unwrap().parse().unwrap();
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: both calls read or write one live record.
    unsafe {
        assert_eq!(libc::getrlimit(libc::RLIMIT_AS, &mut limit), 0);
        limit.rlim_cur = more.map_or(limit.rlim_max, |more| (pages * 4096 + more) as libc::rlim_t);
        assert_eq!(libc::setrlimit(libc::RLIMIT_AS, &limit), 0);
    }
}

#[test]
fn without_memory_a_new_fiber_is_an_error_and_the_process_goes_on() {
    pass_in_child(module_path!(), "without_memory_a_new_fiber_is_an_error_and_the_process_goes_on", || {
        let paused = || {
            let fiber = Fiber::new(|_| drop(yield_(())))?;
            assert_eq!(fiber.resume(()).unwrap(), Signal::Yield);
            Ok::<Fiber, StackError>(fiber)
        };
        let mut fibers = Vec::with_capacity(10_000);
        fibers.push(paused().unwrap());
        let before = usage().in_use;
        limit_address_space(Some(100 << 20));
        let error = loop {
            match paused() {
                Ok(fiber) => fibers.push(fiber),
                Err(error) => break error,
            }
        };
        let StackError::OutOfMemory { bytes, .. } = error else { panic!("{error}") };
        assert_eq!(bytes, StackSize::KiB256.bytes());
        assert!(fibers.len() > 100, "{}", fibers.len());

        for fiber in &fibers {
            assert_eq!(fiber.resume(()).unwrap(), Signal::Ok);
        }
        assert!(matches!(Generator::<u32>::new(|_| ()), Err(StackError::OutOfMemory { .. })));
        fibers.truncate(1);
        assert_eq!(usage().in_use, before);
        let again = paused().expect("the stacks that were given back are there");
        limit_address_space(None);
        drop(again);
    });
}

#[test]
fn without_memory_protect_raises_an_error_that_can_be_caught() {
    pass_in_child(module_path!(), "without_memory_protect_raises_an_error_that_can_be_caught", || {
        let early = Fiber::builder().mask(Mask::ERROR).build(|_| protect(|| ()).unwrap()).unwrap();
        limit_address_space(Some(50 << 20));
        let mut fibers = Vec::with_capacity(10_000);
        while let Ok(fiber) = Fiber::new(|_| ()) {
            fibers.push(fiber);
        }
        let is_out_of_memory =
            |value: Option<&StackError>| matches!(value, Some(StackError::OutOfMemory { .. }));
        assert_eq!(early.resume(()).unwrap(), Signal::Error);
        assert!(early.last_value(|value| is_out_of_memory(value.unwrap().downcast_ref())));

        let mut cleaned = false;
        let raised = run_as_root(&mut Root::new("task", Mask::NONE), None, || {
            defer(|| cleaned = true, || unreachable!("there is no fiber to run it in"));
        });
        assert!(cleaned, "a cleanup runs however the body ended, also if it never began");
        assert!(is_out_of_memory(raised.unwrap_err().value.downcast_ref()));
        fibers.pop();
        protect(|| ()).unwrap();
        limit_address_space(None);
    });
}

#[inline(never)]
fn touch(depth: u32) -> u64 {
    let frame = std::hint::black_box([u64::from(depth); 64]);
    if depth == 0 { frame[0] } else { touch(depth - 1) + std::hint::black_box(&frame)[1] }
}

#[test]
fn a_stopped_fiber_that_went_deep_gives_its_memory_back_and_goes_on() {
    let fiber = Fiber::builder().mask(Mask::YIELD).build(|_| {
        let kept = [7u64; 32];
        let inner = Fiber::builder().mask(Mask::NONE).build(|_| {
            let kept = [9u64; 32];
            let sum = touch(200);
            yield_(()).unwrap();
            std::hint::black_box(kept).iter().sum::<u64>() + touch(200) - sum
        });
        let inner = inner.unwrap();
        let sum = touch(200);
        assert_eq!(inner.resume(()).unwrap(), Signal::Ok); // stops here, with the inner fiber
        let inner = inner.take_value().downcast::<u64>().unwrap();
        std::hint::black_box(kept).iter().sum::<u64>() + inner + touch(200) - sum
    });
    let fiber = fiber.unwrap();
    fiber.trim_stack(); // of a new fiber there is nothing to take
    assert_eq!(fiber.resume(()).unwrap(), Signal::Yield);
    let deep = fiber.stack_high_water();
    fiber.trim_stack();
    assert!(fiber.stack_high_water() < deep, "{deep}");
    assert_eq!(fiber.resume(()).unwrap(), Signal::Ok);
    assert_eq!(fiber.take_value().downcast::<u64>().unwrap(), 32 * 7 + 32 * 9);
    fiber.trim_stack();
}

#[test]
fn fifty_thousand_suspended_fibers_live_at_once_and_all_go_on() {
    pass_in_child(module_path!(), "fifty_thousand_suspended_fibers_live_at_once_and_all_go_on", || {
        let wanted = 50_000;
        let before = usage().in_use;
        let mut fibers = Vec::with_capacity(wanted);
        for number in 0..wanted {
            let options = Fiber::builder().stack(StackSize::KiB16);
            let fiber = options.build(move |_| {
                let got = yield_(number).unwrap().downcast::<usize>().unwrap();
                yield_(got + number).unwrap();
            });
            match fiber {
                Ok(fiber) => fibers.push(fiber),
                // A kernel without guard markers: as many as its mappings allow.
                Err(StackError::MapLimit { .. }) => break,
                Err(error) => panic!("{error}"),
            }
        }
        assert!(fibers.len() > 10_000);
        for round in 0..2 {
            for (number, fiber) in fibers.iter().enumerate() {
                assert_eq!(fiber.resume(round * 7).unwrap(), Signal::Yield);
                assert_eq!(fiber.take_value().downcast::<usize>().unwrap(), number + round * 7);
            }
            assert_eq!(usage().in_use, before + fibers.len());
        }
        let (end, dropped) = fibers.split_at(fibers.len() / 2);
        for fiber in end {
            assert_eq!(fiber.resume(()).unwrap(), Signal::Ok);
        }
        assert!(dropped.iter().all(Fiber::can_resume));
        drop(fibers);
        assert_eq!(usage().in_use, before);
    });
}

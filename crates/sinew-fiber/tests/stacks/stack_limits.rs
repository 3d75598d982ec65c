//! What happens at the limits: many more stacks than mappings, and errors instead of a dead process.

use sinew_fiber::{GuardKind, Stack, StackError, StackSize, usage};

use crate::stack_support::pass_in_child;

fn mappings() -> usize {
    std::fs::read_to_string("/proc/self/maps").unwrap().lines().count()
}

/// Two mappings for each would end at 32,765 on a stock kernel.
#[test]
fn two_hundred_thousand_stacks_fit_or_the_limit_of_mappings_is_named() {
    pass_in_child(
        module_path!(),
        "two_hundred_thousand_stacks_fit_or_the_limit_of_mappings_is_named",
        || {
            const COUNT: usize = 200_000;
            let mut stacks = Vec::with_capacity(COUNT);
            let error = loop {
                match Stack::take(StackSize::KiB16) {
                    Ok(stack) => stacks.push(stack),
                    Err(error) => break Some(error),
                }
                if stacks.len() == COUNT {
                    break None;
                }
            };
            match usage().guards {
                GuardKind::Markers => {
                    assert_eq!(error, None);
                    assert!(mappings() < 1000, "{} mappings", mappings());
                    assert_eq!(usage().in_use, COUNT);
                }
                GuardKind::Protected => {
                    let Some(StackError::MapLimit { mappings, limit }) = error else { panic!("{error:?}") };
                    assert_eq!(mappings, 2 * stacks.len());
                    assert!(mappings <= limit / 5 * 4);
                }
            }
            assert!(usage().slabs < 100);
        },
    );
}

#[test]
fn an_address_space_limit_is_an_error_and_the_process_goes_on() {
    pass_in_child(module_path!(), "an_address_space_limit_is_an_error_and_the_process_goes_on", || {
        const MORE: usize = 200 << 20;
        let statistics = std::fs::read_to_string("/proc/self/statm").unwrap();
        let pages: usize = statistics.split(' ').next().unwrap().parse().unwrap();
        let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
        // SAFETY: both calls read and write one live record.
        let set = |bytes: libc::rlim_t, limit: &mut libc::rlimit| unsafe {
            libc::getrlimit(libc::RLIMIT_AS, limit);
            limit.rlim_cur = bytes;
            assert_eq!(libc::setrlimit(libc::RLIMIT_AS, limit), 0);
        };
        let mut stacks = Vec::with_capacity(10_000);
        set((pages * 4096 + MORE) as libc::rlim_t, &mut limit);
        let error = loop {
            match Stack::take(StackSize::KiB256) {
                Ok(stack) => stacks.push(stack),
                Err(error) => break error,
            }
        };
        assert_eq!(error, StackError::OutOfMemory { bytes: 256 << 10, live: stacks.len() });
        assert!(error.to_string().contains("ulimit -v"), "{error}");
        let most = MORE / (324 << 10);
        assert!(stacks.len() + 10 > most, "{} of {most}: smaller slabs were not tried", stacks.len());

        let given_back = stacks.pop().unwrap().limit();
        assert_eq!(Stack::take(StackSize::KiB256).unwrap().limit(), given_back);
        set(libc::RLIM_INFINITY, &mut limit);
        stacks.push(Stack::take(StackSize::KiB256).unwrap());
        stacks.push(Stack::take(StackSize::KiB256).unwrap());
    });
}

//! Shapes, and guards of the kind that this kernel would not choose by itself.

use std::os::fd::AsRawFd;

use super::super::error::StackError;
use super::super::pool::Pool;
use super::*;
use crate::stack_support::pass_in_child;

fn protected_pool(usable: usize) -> Pool<Mapped> {
    let guards = Box::leak(Box::new(Guards::new(GuardKind::Protected)));
    Pool::new(Mapped { shape: Shape::stack(usable), guards })
}

#[test]
fn every_shape_has_its_size_its_guard_and_an_odd_number_of_pages() {
    let page = sys::page_size();
    for pages in 1..600 {
        let usable = pages * page;
        let stack = Shape::stack(usable);
        let least = if usable < 256 << 10 { page } else { 64 << 10 };
        assert!((least..=least + page).contains(&stack.guard), "{stack:?}");
        for shape in [stack, Shape::memory(usable, 0), Shape::memory(usable, 3 * page)] {
            assert_eq!(shape.usable, usable);
            assert_eq!(shape.stride / page % 2, 1, "{shape:?}");
            assert!(shape.usable + shape.guard <= shape.stride);
        }
        assert_eq!(Shape::memory(usable, 0).guard, 0);
        assert!(Shape::memory(usable, 3 * page).guard >= 3 * page);
    }
}

#[test]
fn slots_of_a_slab_lie_apart_with_their_guards_between() {
    let shape = Shape::stack(64 << 10);
    let mut slab = Slab::map(&shape, 3).unwrap();
    let slots: Vec<Slot> = std::iter::from_fn(|| slab.make()).collect();
    assert_eq!(slots.len(), 3);
    for pair in slots.windows(2) {
        assert_eq!(shape.usable_of(&pair[0]).end, shape.guard_of(&pair[1]).start);
    }
}

#[test]
fn slabs_begin_small_and_stop_growing_at_a_bounded_size() {
    for usable in [16 << 10, 256 << 10, 1 << 20, 1 << 30] {
        let backing = Mapped::new(Shape::stack(usable));
        assert!((1..=16).contains(&backing.first_slots()));
        assert!((1..=4096).contains(&backing.most_slots()));
        assert!(backing.most_slots() == 1 || backing.most_slots() * backing.shape.stride <= 1536 << 20);
    }
}

/// Protected guards stop at their share of `vm.max_map_count`, and the rest of the process has the others.
#[test]
fn protected_guards_end_in_an_error_that_leaves_malloc_its_mappings() {
    pass_in_child(module_path!(), "protected_guards_end_in_an_error_that_leaves_malloc_its_mappings", || {
        let pool = protected_pool(16 << 10);
        let mut taken = Vec::new();
        let error = loop {
            match pool.take() {
                Ok(slot) => taken.push(slot),
                Err(error) => break error,
            }
        };
        let limit = sys::max_map_count();
        let StackError::MapLimit { mappings, limit: reported } = error else { panic!("{error}") };
        assert_eq!(reported, limit);
        assert_eq!(mappings, taken.len() * 2);
        assert!(mappings <= limit / 5 * 4 && mappings + 4 > limit / 5 * 4);
        assert!(error.to_string().contains("vm.max_map_count"));

        // Allocations of this size are mappings of their own.
        let large: Vec<Vec<u8>> = (0..1000).map(|_| vec![1; 256 << 10]).collect();
        assert_eq!(large.iter().map(|bytes| bytes[0] as usize).sum::<usize>(), 1000);
        std::thread::spawn(|| ()).join().unwrap();

        let last = taken.pop().unwrap();
        let address = last.start();
        pool.give([last]);
        assert_eq!(pool.take().unwrap().start(), address, "what was given back can be taken again");
    });
}

/// As under an emulator that answers zero to any advice.
#[test]
fn stacks_are_guarded_although_advice_has_no_effect() {
    let guards = Guards::probed(|_, _| Ok(()));
    assert_eq!(guards.kind(), GuardKind::Protected);
    let pool = Pool::new(Mapped { shape: Shape::stack(64 << 10), guards: Box::leak(Box::new(guards)) });
    let slot = pool.take().unwrap();
    let guard = pool.backing().shape().guard_of(&slot);
    let (_reader, writer) = std::io::pipe().unwrap();
    for address in [guard.start, guard.end - 1] {
        // SAFETY: the kernel reads the byte, and answers with an error if it cannot.
        let written = unsafe { libc::write(writer.as_raw_fd(), std::ptr::without_provenance(address), 1) };
        let error = std::io::Error::last_os_error();
        assert_eq!((written, error.raw_os_error()), (-1, Some(libc::EFAULT)), "{error}");
    }
    pool.give([slot]);
}

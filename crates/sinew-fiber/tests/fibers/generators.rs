//! `Generator`: typed items from a body with a stack of its own.

use std::cell::Cell;
use std::rc::Rc;

use sinew_fiber::{
    Fiber, Generator, Hook, Mask, Panic, Reason, Refused, Root, Signal, StackSize, Value, Yielder, defer,
    error, ffi_scope, generate, protect, run_as_root, signal, try_, yield_,
};

use crate::support::{Log, taken};

#[test]
fn a_generator_is_an_ordinary_iterator_over_what_its_body_yields() {
    let squares = generate(|out| {
        for n in 1u32.. {
            out.yield_(n * n);
        }
    })
    .unwrap();
    let even: Vec<u32> = squares.filter(|n| n % 2 == 0).take(3).collect();
    assert_eq!(even, [4, 16, 36]);
}

#[test]
fn the_body_runs_only_as_far_as_items_are_asked_for() {
    let log = Log::default();
    let inner = log.clone();
    let mut items = generate(move |out| {
        inner.note("started");
        out.yield_(1);
        inner.note("went on");
        out.yield_(2);
    })
    .unwrap();
    assert!(log.entries().is_empty());
    assert_eq!(items.next(), Some(1));
    assert_eq!(log.entries(), ["started"]);
    assert_eq!(items.next(), Some(2));
    assert_eq!(log.entries(), ["started", "went on"]);
}

#[test]
fn a_generator_that_has_ended_stays_ended() {
    let mut items = generate(|out| out.yield_(1)).unwrap();
    assert_eq!((items.next(), items.next(), items.next()), (Some(1), None, None));
}

#[test]
fn items_need_be_neither_send_nor_scalar() {
    let shared = Rc::new(Cell::new(0));
    let inner = shared.clone();
    let mut items = Generator::new(move |out: &Yielder<Rc<Cell<u32>>>| {
        out.yield_(inner.clone());
        assert_eq!(inner.get(), 5);
        out.yield_(inner.clone());
    })
    .unwrap();
    items.next().unwrap().set(5);
    assert!(Rc::ptr_eq(&items.next().unwrap(), &shared));
}

#[test]
fn recursion_yields_from_any_depth() {
    enum Tree {
        Leaf(u32),
        Node(Vec<Tree>),
    }
    fn walk(tree: &Tree, out: &Yielder<u32>) {
        match tree {
            Tree::Leaf(leaf) => out.yield_(*leaf),
            Tree::Node(nodes) => nodes.iter().for_each(|node| walk(node, out)),
        }
    }
    let tree = Tree::Node(vec![
        Tree::Leaf(1),
        Tree::Node(vec![Tree::Node(vec![Tree::Leaf(2)]), Tree::Leaf(3)]),
        Tree::Leaf(4),
    ]);
    assert_eq!(generate(move |out| walk(&tree, out)).unwrap().collect::<Vec<_>>(), [1, 2, 3, 4]);
}

#[test]
fn generators_read_by_generators_keep_their_items_apart() {
    fn count_down(from: u32) -> Generator<u32> {
        let body = move |out: &Yielder<u32>| {
            if from > 0 {
                out.yield_(from);
                for below in count_down(from - 1) {
                    out.yield_(below);
                }
            }
        };
        Generator::with(Fiber::builder().stack(StackSize::KiB64), body).unwrap()
    }
    assert_eq!(count_down(50).collect::<Vec<_>>(), (1..=50).rev().collect::<Vec<_>>());

    let pairs = generate(|out| {
        for letter in generate(|out| "ab".chars().for_each(|letter| out.yield_(letter))).unwrap() {
            for number in generate(|out| (1..=2).for_each(|number| out.yield_(number))).unwrap() {
                out.yield_(format!("{letter}{number}"));
            }
        }
    });
    assert_eq!(pairs.unwrap().collect::<Vec<_>>(), ["a1", "a2", "b1", "b2"]);
}

#[test]
fn two_generators_are_read_in_turns() {
    let odd = generate(|out| (0..3).for_each(|n| out.yield_(2 * n + 1))).unwrap();
    let even = generate(|out| (0..3).for_each(|n| out.yield_(2 * n))).unwrap();
    let merged: Vec<u32> = even.zip(odd).flat_map(|(even, odd)| [even, odd]).collect();
    assert_eq!(merged, [0, 1, 2, 3, 4, 5]);
}

#[test]
fn items_pass_through_protect_try_and_defer_in_the_body() {
    let cleaned = Rc::new(Cell::new(false));
    let inner = cleaned.clone();
    let items = generate(move |out| {
        protect(|| out.yield_(1)).unwrap();
        try_(|| out.yield_(2), |_| unreachable!("a yield is no error"));
        defer(|| inner.set(true), || out.yield_(3));
        try_(|| error("caught in the body"), |_| out.yield_(4));
    });
    let mut items = items.unwrap();
    assert_eq!(items.by_ref().take(3).collect::<Vec<_>>(), [1, 2, 3]);
    assert!(!cleaned.get(), "the body only pauses there");
    assert_eq!((items.next(), cleaned.get()), (Some(4), true));
    assert_eq!(items.next(), None);
}

#[test]
fn a_generator_that_is_dropped_in_the_middle_runs_destructors_and_cleanups_once() {
    let log = Log::default();
    let inner = log.clone();
    let mut items = generate(move |out| {
        let _guard = inner.on_drop("destructor");
        defer(
            || inner.note("cleanup"),
            || {
                for n in 0.. {
                    out.yield_(n);
                }
            },
        );
    })
    .unwrap();
    assert_eq!((items.next(), items.next()), (Some(0), Some(1)));
    assert!(log.entries().is_empty());
    drop(items);
    assert_eq!(log.entries(), ["cleanup", "destructor"]);
}

#[test]
fn a_generator_that_is_dropped_unread_drops_its_body_unrun() {
    let log = Log::default();
    let (inner, guard) = (log.clone(), log.on_drop("body dropped"));
    drop(generate(move |out: &Yielder<u32>| {
        let _guard = guard;
        inner.note("ran");
        out.yield_(1);
    }));
    assert_eq!(log.entries(), ["body dropped"]);
}

#[test]
fn an_error_in_the_body_ends_the_reader_the_same_way() {
    let raised = protect(|| {
        let items = generate(|out| {
            out.yield_(1);
            error("boom")
        });
        items.unwrap().sum::<u32>()
    });
    let raised = raised.unwrap_err();
    assert_eq!((raised.signal, raised.value.downcast::<&str>().unwrap()), (Signal::Error, "boom"));

    let reader = Fiber::builder().mask(Mask::USER).build(|_| {
        let mut items = generate(|_: &Yielder<u32>| drop(signal(Signal::User3, "boom"))).unwrap();
        items.next().unwrap_or(0)
    });
    let reader = reader.unwrap();
    assert_eq!(reader.resume(()).unwrap(), Signal::User3);
    assert_eq!(taken::<&str>(&reader), "boom");
}

#[test]
fn a_panic_in_the_body_ends_the_reader_the_same_way() {
    let raised = protect(|| generate(|_: &Yielder<u32>| panic!("boom")).unwrap().count()).unwrap_err();
    assert_eq!(raised.value.downcast::<Panic>().unwrap().message, "boom");
}

#[test]
fn a_generator_whose_body_failed_has_ended() {
    let mut items = generate(|_: &Yielder<u32>| error("boom")).unwrap();
    assert!(protect(|| items.next()).is_err());
    assert_eq!(items.next(), None);
}

#[test]
fn a_pause_other_than_a_yield_goes_past_the_reader_to_whoever_catches_it() {
    let reader = Fiber::builder().mask(Mask::of(Signal::User6)).build(|_| {
        let items = generate(|out| {
            let answer = signal(Signal::User6, "question").unwrap();
            out.yield_(answer.downcast::<u32>().unwrap());
        });
        items.unwrap().next().unwrap()
    });
    let reader = reader.unwrap();
    assert_eq!(reader.resume(()).unwrap(), Signal::User6);
    assert_eq!(reader.resume(7u32).unwrap(), Signal::Ok);
    assert_eq!(taken::<u32>(&reader), 7);
}

fn reason(raised: sinew_fiber::Raised) -> Reason {
    raised.value.downcast::<Refused>().unwrap().reason()
}

#[test]
fn an_item_that_cannot_leave_the_body_from_where_it_is_yielded_is_an_error_there() {
    let items = generate(|out| {
        let foreign_code = protect(|| ffi_scope(|| out.yield_(1)).map_err(|raised| error(raised.value)));
        assert_eq!(reason(foreign_code.unwrap_err()), Reason::FfiScope);
        let mut root = Root::new("another task", Mask::NONE);
        let another_task = run_as_root(&mut root, None, || out.yield_(2));
        assert_eq!(reason(another_task.unwrap_err()), Reason::Uncaught);
        out.yield_(3);
    });
    assert_eq!(items.unwrap().collect::<Vec<_>>(), [3], "nothing went astray");
}

#[test]
fn an_item_is_not_yielded_past_the_reader_of_a_generator_inside() {
    struct Smuggled(*const Yielder<u32>);
    let items = generate(|out: &Yielder<u32>| {
        let smuggled = Smuggled(out);
        let mut inside = generate(move |_: &Yielder<u32>| {
            let Smuggled(out) = smuggled;
            // SAFETY: the outer body, which has `out`, is suspended on this one until it ends below.
            unsafe { &*out }.yield_(1)
        })
        .unwrap();
        assert_eq!(reason(protect(|| inside.next()).unwrap_err()), Reason::Uncaught);
        out.yield_(2);
    });
    assert_eq!(items.unwrap().collect::<Vec<_>>(), [2]);
}

#[test]
fn a_destructor_that_yields_an_item_during_an_unwind_is_refused() {
    struct YieldsInDrop<'a>(&'a Yielder<u32>, Rc<Cell<Option<Reason>>>);
    impl Drop for YieldsInDrop<'_> {
        fn drop(&mut self) {
            self.1.set(protect(|| self.0.yield_(9)).err().map(reason));
        }
    }
    let seen = Rc::new(Cell::new(None));
    let inner = seen.clone();
    let mut items = generate(move |out| {
        let _guard = YieldsInDrop(out, inner);
        error("boom")
    })
    .unwrap();
    assert!(protect(|| items.next()).is_err());
    assert_eq!(seen.get(), Some(Reason::Unwinding));
}

#[test]
fn a_reader_may_pause_between_items() {
    let reader = Fiber::new(|_| {
        let mut sum = 0;
        for item in generate(|out| (1..=3u32).for_each(|n| out.yield_(n))).unwrap() {
            sum += item;
            yield_(sum).unwrap();
        }
        sum
    });
    let sums: Vec<u32> = reader.unwrap().map(|sum| sum.unwrap().downcast().unwrap()).collect();
    assert_eq!(sums, [1, 3, 6]);
}

struct Swallow;

impl Hook for Swallow {
    fn stop(&self, _: Signal, _: Value) -> Value {
        Value::UNIT
    }
}

#[test]
fn an_item_that_a_root_is_in_the_way_of_is_refused_and_not_lost() {
    let items = Generator::new(|out| {
        let mut root = Root::new("in the way", Mask::YIELD);
        let direct = run_as_root(&mut root, Some(&Swallow), || out.yield_(1));
        let below = run_as_root(&mut root, Some(&Swallow), || protect(|| out.yield_(1)));
        out.yield_(if direct.is_err() && below.unwrap().is_err() { 2 } else { 3 });
    });
    assert_eq!(items.unwrap().collect::<Vec<u32>>(), [2]);
}

#[test]
fn a_yield_past_the_yielder_is_an_error_of_the_reader_and_no_end_of_the_items() {
    let mut items = Generator::<u32>::new(|_| {
        yield_(1u32).unwrap();
    })
    .unwrap();
    let raised = protect(|| items.next()).unwrap_err();
    assert!(raised.to_string().contains("`Yielder`"), "{raised}");
}

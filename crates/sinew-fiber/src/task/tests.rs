//! Tasks as a scheduler runs them: one after the other under one root.

use std::cell::{Cell, RefCell};
use std::os::unix::process::ExitStatusExt;
use std::ptr;
use std::rc::Rc;

use sinew_core::{Bindings, Mask, Signal};

use crate::raw::{
    Place, StackPointer, TaskSetup, Word, inherit_bindings, place_task_root, prepare, run_task,
    set_task_bindings, set_task_mask, set_task_name, switch,
};
use crate::stack_support::{pass_in_child, run_in_child};
use crate::{
    CancelLevel, Fiber, Generator, Hook, Key, Raised, Reason, Root, Stack, StackSize, Value, await_,
    checkpoint, current, defer, error, propagate, protect, root, usage, yield_,
};

/// Answers every signal with how many there were, itself included.
#[derive(Default)]
struct Count(Cell<u32>);

impl Hook for Count {
    fn stop(&self, _: Signal, _: Value) -> Value {
        self.0.set(self.0.get() + 1);
        Value::new(self.0.get())
    }
}

/// A root for tasks that run on the stack of whoever asks, numbered from 1.
struct Tasks {
    root: Root,
    hook: Count,
    word: Word,
    count: Cell<u64>,
}

impl Tasks {
    fn new() -> Tasks {
        let stack = Stack::take(StackSize::KiB64).unwrap();
        // SAFETY: nothing runs on the stack, and the root is run as a task's below.
        let (root, _, _) = unsafe { place_task_root::<()>(stack) };
        Tasks { root, hook: Count::default(), word: Word::new(), count: Cell::new(0) }
    }

    /// Runs `body` as the next task.
    fn run<T>(&self, body: impl FnOnce() -> T) -> Result<T, Raised> {
        self.run_with(&self.word, body)
    }

    fn run_with<T>(&self, word: &Word, body: impl FnOnce() -> T) -> Result<T, Raised> {
        self.count.set(self.count.get() + 1);
        let setup = TaskSetup { word, hook: &raw const self.hook, id: self.count.get() };
        // SAFETY: used on this thread.
        let place = unsafe { Place::here() };
        let here = place.running();
        // SAFETY: all of it lives until the call returns, and the thread leaves the tasks right away.
        let outcome = unsafe { run_task(&self.root, &setup, body) };
        place.restore(here);
        outcome
    }
}

#[test]
fn a_task_returns_its_result_or_what_ended_it() {
    let tasks = Tasks::new();
    assert_eq!(tasks.run(|| 5).unwrap(), 5);
    let raised = tasks.run(|| -> () { error("boom") }).unwrap_err();
    assert_eq!(raised.value.downcast::<&str>().unwrap(), "boom");
    let raised = tasks.run(|| -> () { panic!("no") }).unwrap_err();
    assert!(raised.to_string().contains("no"));
    assert_eq!(tasks.run(|| await_(()).unwrap().downcast::<u32>().unwrap()).unwrap(), 1);
}

#[test]
fn a_trace_names_the_task_by_the_number_and_name_that_it_was_given() {
    let tasks = Tasks::new();
    let raised = tasks.run(|| -> () { error(()) }).unwrap_err();
    assert_eq!(raised.trace.unwrap().to_string().lines().last(), Some("  in task #1"));
    let raised = tasks.run(|| {
        set_task_name("reader".into());
        let fiber = Fiber::new(|_| error(())).unwrap();
        let _ = fiber.resume(());
    });
    assert_eq!(raised.unwrap_err().trace.unwrap().to_string().lines().last(), Some("  in task reader#2"));
}

#[test]
fn the_name_and_the_mask_of_a_task_end_with_it() {
    let tasks = Tasks::new();
    let task = || {
        set_task_name(String::from("reader").into());
        set_task_mask(Mask::YIELD);
        assert_eq!(root().name().as_deref(), Some("reader"));
        assert_eq!(yield_(()).unwrap().downcast::<u32>().unwrap(), 1);
    };
    tasks.run(task).unwrap();
    let next = || {
        assert_eq!(root().name(), None);
        assert_eq!(yield_(()).unwrap_err().reason(), Reason::Uncaught);
    };
    tasks.run(next).unwrap();
}

#[test]
fn a_task_has_of_its_spawner_s_bindings_what_it_was_spawned_with() {
    static COLOUR: Key<u32> = Key::new("colour");
    let tasks = Tasks::new();
    let spawner = Fiber::new(move |_| {
        COLOUR.set(1);
        assert!(inherit_bindings(Bindings::None).is_none());
        let child = |how| {
            let inherited = inherit_bindings(how).unwrap();
            // It may run anywhere.
            let inherited = std::thread::spawn(|| inherited).join().unwrap();
            tasks.run(|| {
                set_task_bindings(inherited);
                COLOUR.set(*COLOUR.get().unwrap() + 1);
                *COLOUR.get().unwrap()
            })
        };
        assert_eq!((child(Bindings::Layered).unwrap(), *COLOUR.get().unwrap()), (2, 1));
        assert_eq!((child(Bindings::Shared).unwrap(), *COLOUR.get().unwrap()), (2, 2));
        assert_eq!(tasks.run(|| COLOUR.get()).unwrap(), None, "bindings end with their task");
    });
    assert_eq!(spawner.unwrap().resume(()).unwrap(), Signal::Ok);
}

/// A fiber that waits for its second resume and notes in what state it then finds the world.
fn left_behind(tasks: &Tasks, cleanup: impl FnOnce() + 'static) -> Fiber {
    tasks
        .run(|| {
            let fiber = Fiber::new(|_| defer(cleanup, || drop(yield_(())))).unwrap();
            assert_eq!(fiber.resume(()).unwrap(), Signal::Yield);
            fiber
        })
        .unwrap()
}

#[test]
fn a_fiber_that_one_task_leaves_behind_is_refused_to_the_next_under_the_same_root() {
    let tasks = Tasks::new();
    let fiber = left_behind(&tasks, || ());
    let check = || {
        let reasons = [
            fiber.resume(()).unwrap_err().reason(),
            fiber.cancel(()).unwrap_err().reason(),
            propagate((), &fiber).unwrap_err().reason(),
        ];
        assert_eq!(reasons, [Reason::OtherTask; 3]);
    };
    tasks.run(check).unwrap();
    check();
    let ended = tasks.run(|| {
        let fiber = Fiber::builder().mask(Mask::ERROR).build(|_| error("boom")).unwrap();
        assert_eq!(fiber.resume(()).unwrap(), Signal::Error);
        fiber
    });
    let ended = ended.unwrap();
    let refused = tasks.run(|| propagate((), &ended).map(drop).unwrap_err().reason());
    assert_eq!(refused.unwrap(), Reason::OtherTask);
}

#[test]
fn no_two_tasks_and_no_fiber_ever_have_the_same_number() {
    let roots = [Tasks::new(), Tasks::new()];
    let mut numbers = std::collections::HashSet::new();
    for _ in 0..3000 {
        for tasks in &roots {
            tasks.run(|| ()).unwrap();
            assert!(numbers.insert(tasks.root.record().belongs_to.get()));
        }
        assert!(numbers.insert(Fiber::new(|_| ()).unwrap().view().id()));
    }
}

#[test]
fn a_fiber_made_by_one_task_and_started_by_the_next_is_the_next_one_s() {
    let tasks = Tasks::new();
    let fiber = tasks.run(|| Fiber::new(|_| drop(yield_(()))).unwrap()).unwrap();
    let task = || {
        assert_eq!(fiber.resume(()).unwrap(), Signal::Yield);
        assert_eq!(fiber.resume(()).unwrap(), Signal::Ok);
    };
    tasks.run(task).unwrap();
}

#[test]
fn a_fiber_left_behind_ends_in_the_task_that_drops_it() {
    let (first, second) = (Tasks::new(), Tasks::new());
    for dropper in [&first, &second] {
        let seen = Rc::new(RefCell::new(Vec::new()));
        let to = seen.clone();
        let old_word = Box::new(Word::new());
        let fiber = first.run_with(&old_word, || {
            let fiber = Fiber::new(move |_| {
                let mut numbers = Generator::new(|out| {
                    for n in 1..4u32 {
                        checkpoint();
                        out.yield_(n);
                    }
                })
                .unwrap();
                assert_eq!(numbers.next(), Some(1));
                let cleanup = || {
                    // Fibers that it had started, and new ones, work as always.
                    assert_eq!(numbers.by_ref().sum::<u32>(), 5);
                    assert_eq!(Generator::new(|out| out.yield_(7u32)).unwrap().next(), Some(7));
                    // It waits as the task that drops it, for whose hook it is the first signal.
                    to.borrow_mut().push((root().id(), await_(()).unwrap().downcast::<u32>().unwrap()));
                };
                defer(cleanup, || drop(yield_(())));
            });
            let fiber = fiber.unwrap();
            assert_eq!(fiber.resume(()).unwrap(), Signal::Yield);
            fiber
        });
        let fiber = fiber.unwrap();
        old_word.cancel(CancelLevel::Kill); // it is nobody's word any more
        drop(old_word);
        dropper.hook.0.set(40);
        let id = dropper.run(|| {
            drop(fiber);
            assert_eq!(current(), root());
            root().id()
        });
        assert_eq!(*seen.borrow(), [(id.unwrap(), 41)]);
    }
}

/// A fiber that says at each resume whether it runs in a task that is cancelled.
fn sees_cancellation() -> Fiber {
    let fiber = Fiber::new(|_| {
        loop {
            yield_(protect(checkpoint).is_err()).unwrap();
        }
    });
    fiber.unwrap()
}

fn sees(fiber: &Fiber) -> bool {
    assert_eq!(fiber.resume(()).unwrap(), Signal::Yield);
    fiber.take_value().downcast().unwrap()
}

#[test]
fn a_fiber_that_went_on_in_another_task_s_drop_sees_its_own_task_s_cancellation_again() {
    let (tasks, dropper) = (Tasks::new(), Tasks::new());
    let task = || {
        let below = Rc::new(sees_cancellation());
        let held = below.clone();
        assert!(!sees(&below));
        let fiber = Fiber::new(move |_| {
            let read = || assert!(!sees(&held));
            defer(read, || drop(yield_(())));
        });
        let fiber = fiber.unwrap();
        assert_eq!(fiber.resume(()).unwrap(), Signal::Yield);
        dropper.run(|| drop(fiber)).unwrap();
        dropper.word.cancel(CancelLevel::Kill);
        assert!(!sees(&below));
        tasks.word.cancel(CancelLevel::Kill);
        assert!(sees(&below));
    };
    tasks.run(task).unwrap();
}

#[test]
fn a_fiber_left_behind_sees_the_cancellation_of_the_task_that_drops_it_and_no_other() {
    for (old, new) in [(Some(CancelLevel::Kill), None), (None, Some(CancelLevel::Kill))] {
        let tasks = Tasks::new();
        let seen = Rc::new(Cell::new(None));
        let to = seen.clone();
        let (old_word, new_word) = (Word::new(), Word::new());
        let fiber = tasks.run_with(&old_word, || {
            let fiber = Fiber::new(move |_| {
                let below = sees_cancellation();
                assert!(!sees(&below));
                assert!(protect(|| drop(yield_(()))).is_err(), "it is dropped");
                to.set(Some((protect(checkpoint).is_err(), sees(&below))));
            });
            let fiber = fiber.unwrap();
            assert_eq!(fiber.resume(()).unwrap(), Signal::Yield);
            fiber
        });
        let fiber = fiber.unwrap();
        old.into_iter().for_each(|level| old_word.cancel(level));
        new.into_iter().for_each(|level| new_word.cancel(level));
        tasks.run_with(&new_word, || drop(fiber)).unwrap();
        assert_eq!(seen.get(), Some((new.is_some(), new.is_some())));
    }
}

#[test]
fn a_fiber_in_a_thread_local_ends_with_the_thread_after_the_root_of_its_task_is_gone() {
    thread_local! {
        static LEFT: RefCell<Option<Fiber>> = const { RefCell::new(None) };
    }
    let (sender, ended) = std::sync::mpsc::channel();
    let thread = std::thread::spawn(move || {
        let tasks = Tasks::new();
        let fiber = left_behind(&tasks, move || {
            checkpoint();
            sender.send(()).unwrap();
        });
        LEFT.set(Some(fiber));
        drop(tasks);
    });
    thread.join().unwrap();
    assert!(ended.recv().is_ok());
}

#[test]
fn the_stack_of_a_root_goes_back_when_the_root_and_all_fibers_of_its_tasks_are_gone() {
    const TEST: &str = "the_stack_of_a_root_goes_back_when_the_root_and_all_fibers_of_its_tasks_are_gone";
    pass_in_child(module_path!(), TEST, || {
        let before = usage().in_use;
        let tasks = Tasks::new();
        let fiber = left_behind(&tasks, || ());
        assert_eq!(usage().in_use, before + 3, "the root, the fiber and that of its `defer`");
        drop(tasks);
        assert_eq!(usage().in_use, before + 3, "the fiber keeps it");
        drop(fiber);
        assert_eq!(usage().in_use, before);
    });
}

#[test]
fn the_place_beside_a_root_is_aligned_and_leaves_most_of_the_top_page_to_frames() {
    #[repr(align(64))]
    struct Beside([u8; 40]);
    let stack = Stack::take(StackSize::KiB64).unwrap();
    let bounds = stack.limit().addr().get()..stack.top().addr().get();
    // SAFETY: nothing runs on the stack.
    let (root, place, top) = unsafe { place_task_root::<Beside>(stack) };
    // SAFETY: the place is for this.
    unsafe { place.write(Beside([7; 40])) };
    let record = ptr::from_ref(root.record()).addr();
    assert!(place.addr() + size_of::<Beside>() <= record && top.addr() <= place.addr());
    assert!(place.is_aligned() && top.addr().is_multiple_of(16));
    assert!(bounds.end - top.addr() < 768, "{} bytes", bounds.end - top.addr());
    // SAFETY: written above.
    assert_eq!(unsafe { (*place).0 }, [7; 40]);
}

/// A task on the stack of its root; it overflows.
struct Overflows {
    root: Cell<Option<Root>>,
    here: Cell<StackPointer>,
}

unsafe extern "C" fn overflow(overflows: *mut ()) -> ! {
    #[inline(never)]
    fn recurse(depth: u64) -> u64 {
        let frame = std::hint::black_box([depth; 16]);
        if depth == 0 { frame[0] } else { recurse(depth - 1) + std::hint::black_box(&frame)[1] }
    }
    // SAFETY: the test below placed it.
    let root = unsafe { (*overflows.cast::<Overflows>()).root.take().unwrap() };
    let word = Word::new();
    let hook = Count::default();
    let setup = TaskSetup { word: &word, hook: &raw const hook, id: 77 };
    let body = || {
        set_task_name("parser".into());
        recurse(u64::MAX)
    };
    // SAFETY: it does not come back.
    let _ = unsafe { run_task(&root, &setup, body) };
    unreachable!("the stack is not endless");
}

#[test]
fn a_task_that_overflows_the_stack_of_its_root_is_told_by_name_number_and_size() {
    const TEST: &str = "a_task_that_overflows_the_stack_of_its_root_is_told_by_name_number_and_size";
    let output = run_in_child(module_path!(), TEST, || {
        let stack = Stack::take(StackSize::KiB32).unwrap();
        // SAFETY: the task runs on the stack of its root, and nobody comes back.
        unsafe {
            let (root, place, top) = place_task_root::<Overflows>(stack);
            let here = Cell::new(ptr::null_mut());
            place.write(Overflows { root: Cell::new(Some(root)), here });
            switch((*place).here.as_ptr(), prepare(top, overflow, place.cast()));
        }
    });
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.signal(), Some(libc::SIGABRT), "{stderr}");
    assert!(stderr.contains("sinew: task \"parser\" (#77) overflowed its stack of 32 KiB"), "{stderr}");
}

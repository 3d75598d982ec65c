//! A root as a scheduler uses it: its hook switches away from the stack that waits.

use std::cell::{Cell, RefCell};
use std::ptr;
use std::rc::Rc;

use crate::switch::{self, StackPointer};
use crate::{
    Fiber, Generator, Hook, Mask, Root, Signal, Stack, StackSize, Value, await_, current, protect, root,
    run_as_root, thread, yield_,
};

/// A task on a stack of its own that runs as a root; its awaits switch to the scheduler.
struct Task {
    stack: Stack,
    here: Cell<StackPointer>,
    scheduler: Cell<StackPointer>,
    body: Cell<Option<Box<dyn FnOnce()>>>,
    name: &'static str,
    ended: Cell<bool>,
}

impl Hook for Task {
    fn stop(&self, signal: Signal, payload: Value) -> Value {
        assert_eq!(signal, Signal::Await);
        // SAFETY: the scheduler is suspended in `run_once`.
        unsafe { switch::switch(self.here.as_ptr(), self.scheduler.get()) };
        payload
    }
}

unsafe extern "C" fn run(task: *mut ()) -> ! {
    // SAFETY: `Task::new` passed a box that outlives its stack's use.
    let task = unsafe { &*task.cast::<Task>() };
    let body = task.body.take().expect("a task is entered once");
    run_as_root(&mut Root::new(task.name, Mask::NONE), Some(task), body).expect("the body returns");
    task.ended.set(true);
    // SAFETY: as in `stop`; nothing is left on this stack.
    unsafe { switch::leave(task.scheduler.get()) }
}

impl Task {
    fn new(name: &'static str, body: impl FnOnce() + 'static) -> Box<Task> {
        let task = Box::new(Task {
            stack: Stack::take(StackSize::KiB256).unwrap(),
            here: Cell::new(ptr::null_mut()),
            scheduler: Cell::new(ptr::null_mut()),
            body: Cell::new(Some(Box::new(body))),
            name,
            ended: Cell::new(false),
        });
        let argument = ptr::from_ref(&*task).cast_mut().cast();
        // SAFETY: the stack is fresh, its top page aligned, and nothing else uses it.
        task.here.set(unsafe { switch::prepare(task.stack.top().as_ptr(), run, argument) });
        task
    }

    /// Runs the task until it waits or ends.
    fn run_once(&self) {
        let me = ptr::from_ref(thread::slot().get());
        // SAFETY: the task is fresh or waits in its hook, and nobody else continues it.
        unsafe { switch::switch(self.scheduler.as_ptr(), self.here.get()) };
        thread::slot().set(me);
    }
}

type Order = Rc<RefCell<Vec<&'static str>>>;

/// Waits below `depth` fibers, and checks that the task finds itself where it was.
fn wait(depth: usize, name: &'static str, order: Order) {
    if depth == 0 {
        let me = current();
        order.borrow_mut().push(name);
        assert_eq!(await_(5u32).unwrap().downcast::<u32>().unwrap(), 5);
        assert_eq!(current(), me);
        assert_eq!(root().name().as_deref(), Some(name));
        return;
    }
    let fiber = Fiber::builder().mask(Mask::NONE).build(move |_| wait(depth - 1, name, order)).unwrap();
    assert_eq!(fiber.resume(()).unwrap(), Signal::Ok);
}

#[test]
fn tasks_that_wait_in_turn_each_find_themselves_running() {
    const ROUNDS: usize = 40;
    let order = Order::default();
    let tasks = ["a", "b", "c"].map(|name| {
        let order = order.clone();
        Task::new(name, move || {
            (0..ROUNDS).for_each(|round| wait(round % 4, name, order.clone()));
            // A task may also wait inside a generator and inside a `protect`, and catch what it likes there.
            let mut numbers = Generator::new(|out| {
                for n in 0..3u32 {
                    await_(()).unwrap();
                    out.yield_(n);
                }
            })
            .unwrap();
            assert_eq!(protect(|| numbers.by_ref().sum::<u32>()).unwrap(), 3);
            assert!(yield_(()).is_err());
        })
    });
    let scheduler = current();
    let mut running: Vec<&Task> = tasks.iter().map(|task| &**task).collect();
    while !running.is_empty() {
        for task in &running {
            task.run_once();
            assert_eq!(current(), scheduler);
        }
        running.retain(|task| !task.ended.get());
    }
    let expected: Vec<&str> = ["a", "b", "c"].into_iter().cycle().take(3 * ROUNDS).collect();
    assert_eq!(*order.borrow(), expected);
}

#[test]
fn a_task_that_is_killed_while_it_waits_unwinds_on_its_own_stack() {
    let control = Rc::new(RefCell::new(None));
    let unwound = Rc::new(Cell::new(false));
    let (out, flag) = (control.clone(), unwound.clone());
    let task = Task::new("victim", move || {
        *out.borrow_mut() = Some(crate::control());
        let raised = protect(|| await_(()).map(drop)).unwrap_err();
        flag.set(raised.is_cancelled());
    });
    task.run_once();
    control.take().unwrap().kill();
    assert!(!unwound.get());
    task.run_once();
    assert!(unwound.get() && task.ended.get());
}

//! Await reaches the root's hook whatever the depth, unless a fiber on the way asks for it.

use std::cell::RefCell;
use std::rc::Rc;
use std::thread;

use sinew_fiber::{
    Fiber, FiberRef, Hook, Mask, Reason, Root, Signal, Status, Value, await_, current, propagate, protect,
    root, run_as_root, yield_,
};
use sinew_sync::statics::{AtomicBool, AtomicU32, Ordering};

type Seen = (Signal, u32, FiberRef, usize);

/// Notes who waits, on which stack, and answers with twice the payload.
#[derive(Default)]
struct Doubles(RefCell<Vec<Seen>>);

impl Hook for Doubles {
    fn stop(&self, signal: Signal, payload: Value) -> Value {
        let payload = payload.downcast::<u32>().unwrap();
        let local = 0u8;
        let address = std::ptr::from_ref(&local).addr();
        self.0.borrow_mut().push((signal, payload, current(), address));
        Value::new(payload * 2)
    }
}

/// A chain of fibers with these masks, outermost first, whose innermost runs `body`; and their handles.
fn chain(masks: &[Mask], body: impl FnOnce() -> u32 + 'static) -> Fiber {
    let (&mask, below) = masks.split_first().expect("at least one");
    let below = below.to_vec();
    let body = move |_| match below.as_slice() {
        [] => body(),
        below => {
            let inner = chain(below, body);
            while inner.resume(()).unwrap() != Signal::Ok {}
            inner.take_value().downcast::<u32>().unwrap()
        }
    };
    Fiber::builder().mask(mask).build(body).unwrap()
}

#[test]
fn the_hook_gets_the_payload_on_the_stack_of_the_caller_at_any_depth() {
    for depth in [0, 1, 10] {
        let hook = Doubles::default();
        run_as_root(&mut Root::new("task", Mask::NONE), Some(&hook), || {
            let place = Rc::new(RefCell::new(None));
            let out = place.clone();
            let wait = move || {
                let local = 0u8;
                *out.borrow_mut() = Some((current(), std::ptr::from_ref(&local).addr()));
                await_(21u32).unwrap().downcast::<u32>().unwrap()
            };
            let answer = match depth {
                0 => wait(),
                depth => {
                    let fiber = chain(&vec![Mask::NONE; depth], wait);
                    assert_eq!(fiber.resume(()).unwrap(), Signal::Ok, "nobody but the hook was asked");
                    fiber.take_value().downcast::<u32>().unwrap()
                }
            };
            assert_eq!(answer, 42);
            let (caller, address) = place.take().unwrap();
            let (signal, payload, waiting, hook_address) = hook.0.borrow_mut().pop().unwrap();
            assert_eq!((signal, payload, waiting), (Signal::Await, 21, caller));
            assert!(address.abs_diff(hook_address) < 64 << 10, "{address:x} {hook_address:x}");
        })
        .unwrap();
        assert!(hook.0.borrow().is_empty(), "once");
    }
}

#[test]
fn while_the_hook_runs_the_whole_chain_counts_as_running() {
    struct Statuses(Rc<RefCell<Vec<FiberRef>>>);
    impl Hook for Statuses {
        fn stop(&self, _: Signal, _: Value) -> Value {
            for fiber in self.0.borrow().iter() {
                assert_eq!(fiber.status(), Status::Alive);
            }
            assert_eq!(root().status(), Status::Alive);
            Value::new(self.0.borrow().len() as u32)
        }
    }
    let views = Rc::new(RefCell::new(Vec::new()));
    let inside = views.clone();
    let seen = run_as_root(&mut Root::new("task", Mask::NONE), Some(&Statuses(views.clone())), || {
        let outer = Fiber::new(move |_| {
            inside.borrow_mut().push(current());
            let inner = Fiber::new(move |_| {
                inside.borrow_mut().push(current());
                await_(()).unwrap()
            });
            let inner = inner.unwrap();
            assert_eq!(inner.resume(()).unwrap(), Signal::Ok);
            inner.take_value()
        });
        let outer = outer.unwrap();
        assert_eq!(outer.resume(()).unwrap(), Signal::Ok);
        outer.take_value().downcast::<u32>().unwrap()
    });
    assert_eq!(seen.unwrap(), 2);
}

#[test]
fn a_fiber_with_await_in_its_mask_catches_it_at_every_level_of_the_chain() {
    const DEPTH: usize = 6;
    for catcher in 0..DEPTH {
        let hook = Doubles::default();
        run_as_root(&mut Root::new("task", Mask::NONE), Some(&hook), || {
            let mut masks = [Mask::NONE; DEPTH];
            masks[catcher] = Mask::AWAIT;
            // `chain` continues by hand whoever stopped below it, with `()`; the first of all is ours.
            let outer = chain(&masks, || {
                for payload in 0..5u32 {
                    await_(payload).unwrap().downcast::<()>().unwrap();
                }
                7
            });
            let mut awaits = 0;
            while outer.resume(()).unwrap() != Signal::Ok {
                assert_eq!(catcher, 0);
                assert_eq!(outer.status(), Status::Suspended);
                assert!(outer.lineage().iter().all(|fiber| fiber.status() == Status::Suspended));
                assert_eq!(outer.take_value().downcast::<u32>().unwrap(), awaits);
                awaits += 1;
            }
            assert_eq!(awaits, if catcher == 0 { 5 } else { 0 });
            assert_eq!(outer.take_value().downcast::<u32>().unwrap(), 7);
        })
        .unwrap();
        assert!(hook.0.borrow().is_empty(), "level {catcher}");
    }
}

#[test]
fn the_catcher_continues_by_hand_or_waits_itself_level_by_level() {
    let hook = Doubles::default();
    run_as_root(&mut Root::new("task", Mask::NONE), Some(&hook), || {
        let middle = Fiber::builder().mask(Mask::AWAIT).build(|_| {
            let inner = Fiber::builder().mask(Mask::AWAIT).build(|_| {
                let first = await_(1u32).unwrap().downcast::<u32>().unwrap();
                first + await_(first).unwrap().downcast::<u32>().unwrap()
            });
            let inner = inner.unwrap();
            assert_eq!(inner.resume(()).unwrap(), Signal::Await);
            let payload = inner.take_value().downcast::<u32>().unwrap();
            assert_eq!(inner.resume(payload + 9).unwrap(), Signal::Await, "by hand");
            let payload = inner.take_value();
            let answer = await_(payload).unwrap();
            assert_eq!(inner.resume(answer).unwrap(), Signal::Ok);
            inner.take_value()
        });
        let middle = middle.unwrap();
        assert_eq!(middle.resume(()).unwrap(), Signal::Await);
        let answer = await_(middle.take_value()).unwrap();
        assert_eq!(middle.resume(answer).unwrap(), Signal::Ok);
        assert_eq!(middle.take_value().downcast::<u32>().unwrap(), 10 + 20);
    })
    .unwrap();
    let payloads: Vec<u32> = hook.0.borrow().iter().map(|seen| seen.1).collect();
    assert_eq!(payloads, [10]);
}

#[test]
fn the_mask_of_whoever_propagates_a_fiber_counts_for_its_awaits() {
    let hook = Doubles::default();
    run_as_root(&mut Root::new("task", Mask::NONE), Some(&hook), || {
        let waits = Fiber::new(|_| {
            yield_(()).unwrap();
            await_(1u32).unwrap().downcast::<&str>().unwrap()
        });
        let waits = waits.unwrap();
        assert_eq!(waits.resume(()).unwrap(), Signal::Yield);
        let outer =
            Fiber::builder().mask(Mask::YIELD | Mask::AWAIT).build(move |_| propagate((), &waits).unwrap());
        let outer = outer.unwrap();
        assert_eq!(outer.resume(()).unwrap(), Signal::Yield);
        assert_eq!(outer.resume(()).unwrap(), Signal::Await);
        assert_eq!(outer.take_value().downcast::<u32>().unwrap(), 1);
        assert_eq!(outer.resume("by hand").unwrap(), Signal::Ok);
        assert_eq!(outer.take_value().downcast::<&str>().unwrap(), "by hand");
    })
    .unwrap();
    assert!(hook.0.borrow().is_empty());
}

#[test]
fn a_caught_await_that_is_cancelled_raises_where_it_waited() {
    let fiber = Fiber::builder().mask(Mask::AWAIT).build(|_| {
        let raised = protect(|| await_(()).map(drop)).unwrap_err();
        raised.value.downcast::<&str>().unwrap()
    });
    let fiber = fiber.unwrap();
    assert_eq!(fiber.resume(()).unwrap(), Signal::Await);
    assert_eq!(fiber.cancel("enough").unwrap(), Signal::Ok);
    assert_eq!(fiber.take_value().downcast::<&str>().unwrap(), "enough");
}

/// True once the thread with this number sleeps in the kernel.
fn is_blocked(thread: u32) -> bool {
    let text = std::fs::read_to_string(format!("/proc/self/task/{thread}/stat")).unwrap();
    text.rsplit(')').next().unwrap().trim_start().starts_with('S')
}

#[test]
fn without_a_hook_the_thread_blocks_until_somebody_unparks_it() {
    static WAITING: AtomicU32 = AtomicU32::new(0);
    static UNPARKED: AtomicBool = AtomicBool::new(false);
    let waiter = thread::spawn(|| {
        let fiber = Fiber::new(|_| {
            // SAFETY: gettid has no preconditions.
            WAITING.store(unsafe { libc::gettid() } as u32, Ordering::SeqCst);
            let mut early = 0;
            while !UNPARKED.load(Ordering::SeqCst) {
                await_(()).unwrap().downcast::<()>().unwrap();
                early += 1;
                assert!(early < 1000, "it does not block");
            }
            assert_eq!(current().status(), Status::Alive);
        });
        assert_eq!(fiber.unwrap().resume(()).unwrap(), Signal::Ok);
    });
    while WAITING.load(Ordering::SeqCst) == 0 || !is_blocked(WAITING.load(Ordering::SeqCst)) {
        thread::yield_now();
    }
    UNPARKED.store(true, Ordering::SeqCst);
    waiter.thread().unpark();
    waiter.join().unwrap();
}

#[test]
fn an_unpark_that_came_before_is_not_lost() {
    thread::current().unpark();
    run_as_root(&mut Root::new("task", Mask::NONE), None, || await_(()).map(drop).unwrap()).unwrap();
}

#[test]
fn an_await_is_not_a_yield() {
    let hook = Doubles::default();
    run_as_root(&mut Root::new("task", Mask::NONE), Some(&hook), || {
        let mask = Mask::ALL; // neither await nor interrupt are among "all"
        let fiber = Fiber::builder().mask(mask).build(|_| await_(4u32).unwrap()).unwrap();
        assert_eq!(fiber.resume(()).unwrap(), Signal::Ok);
        assert_eq!(fiber.take_value().downcast::<u32>().unwrap(), 8);
        assert_eq!(yield_(()).unwrap_err().reason(), Reason::Uncaught);
    })
    .unwrap();
}

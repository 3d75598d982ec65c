//! Looking at the last value of a fiber while something happens to it.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;

use sinew_fiber::{Fiber, Mask, Signal, Status, Value, yield_};

#[test]
fn a_leaf_that_ended_during_the_look_is_not_written_to() {
    let outer = Fiber::new(|_| {
        let leaf = Fiber::builder().mask(Mask::NONE).build(|_| drop(yield_("of the leaf"))).unwrap();
        assert_eq!(leaf.resume(()).unwrap(), Signal::Ok);
        drop(leaf);
        yield_("of the outer").unwrap();
    })
    .unwrap();
    assert_eq!(outer.resume(()).unwrap(), Signal::Yield);
    let other = Cell::new(None);
    outer.last_value(|_| {
        assert_eq!(outer.resume(()).unwrap(), Signal::Yield);
        other.set(Some(Fiber::new(|_| ()).unwrap())); // may get the stack, and the record, of the leaf
    });
    let other = other.into_inner().unwrap();
    assert_eq!(other.status(), Status::New);
    assert!(other.take_value().is::<()>(), "a fiber that never ran has a value");
}

#[test]
fn a_value_that_was_lent_is_not_put_into_a_fiber_that_runs() {
    let value = Arc::new(());
    let looker: Rc<RefCell<Option<Rc<Fiber>>>> = Rc::default();
    let looked_at = {
        let (value, looker) = (value.clone(), looker.clone());
        Fiber::new(move |_| {
            yield_(Value::new(value)).unwrap();
            let looker = looker.borrow_mut().take().unwrap();
            assert_eq!(looker.resume(()).unwrap(), Signal::Ok); // its look ends here
            yield_(1u32).unwrap();
        })
    };
    let looked_at = Rc::new(looked_at.unwrap());
    let looking = looked_at.clone();
    let fiber = Fiber::new(move |_| looking.last_value(|_| drop(yield_(())))).unwrap();
    *looker.borrow_mut() = Some(Rc::new(fiber));

    assert_eq!(looked_at.resume(()).unwrap(), Signal::Yield);
    let fiber = looker.borrow().clone().unwrap();
    assert_eq!(fiber.resume(()).unwrap(), Signal::Yield);
    assert_eq!(looked_at.resume(()).unwrap(), Signal::Yield);
    assert_eq!(looked_at.take_value().downcast::<u32>().unwrap(), 1);
    assert_eq!(Arc::strong_count(&value), 1, "the lent value was dropped");
}

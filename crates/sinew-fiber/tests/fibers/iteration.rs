//! A fiber as an iterator over what it stops with.

use sinew_fiber::{
    Fiber, Mask, Operation, Panic, Reason, Refused, Root, Signal, Status, error, run_as_root, signal, yield_,
};

use crate::support::{EVERYTHING, FAILED, RESUMABLE, ended, fiber_in, last_text, taken};

/// The next item, which has to be a `T`.
fn item<T: Send + 'static>(fiber: &mut Fiber) -> T {
    fiber.next().unwrap().unwrap().downcast().unwrap()
}

#[test]
fn next_starts_a_new_fiber_and_continues_it_with_nothing() {
    let mut fiber = Fiber::new(|first| {
        first.downcast::<()>().unwrap();
        yield_(1u32).unwrap().downcast::<()>().unwrap();
        yield_(2u32).unwrap().downcast::<()>().unwrap();
    });
    let fiber = fiber.as_mut().unwrap();
    assert_eq!((item::<u32>(fiber), item::<u32>(fiber)), (1, 2));
    assert!(fiber.next().is_none());
}

#[test]
fn the_return_value_is_no_item() {
    let fiber = Fiber::new(|_| {
        yield_(1u32).unwrap();
        99u32
    });
    let items: Vec<u32> = fiber.unwrap().map(|item| item.unwrap().downcast().unwrap()).collect();
    assert_eq!(items, [1]);
}

#[test]
fn each_resumable_signal_that_is_caught_is_an_item() {
    let signals = RESUMABLE.map(|status| status.signal().unwrap());
    let mut fiber = Fiber::builder().mask(EVERYTHING).build(move |_| {
        for stop in signals {
            signal(stop, stop.name()).unwrap();
        }
    });
    let fiber = fiber.as_mut().unwrap();
    for stop in signals {
        assert_eq!(item::<&str>(fiber), stop.name());
        assert_eq!(fiber.status(), Status::from(stop));
    }
    assert!(fiber.next().is_none());
}

#[test]
fn next_continues_a_fiber_that_was_stopped_by_other_means() {
    for status in RESUMABLE {
        let mut fiber = fiber_in(status);
        assert!(fiber.next().is_none(), "it goes on and returns");
        assert_eq!(fiber.status(), Status::Dead);
    }
}

#[test]
fn next_on_an_ended_fiber_is_none_however_it_ended() {
    for status in ended() {
        let mut fiber = fiber_in(status);
        assert!(fiber.next().is_none());
        assert_eq!((fiber.status(), last_text(&fiber)), (status, Some("stopped")), "and changes nothing");
    }
}

#[test]
fn an_uncaught_error_is_one_err_and_the_last_item() {
    for status in FAILED {
        let mut fiber = Fiber::new(move |_| {
            yield_(1u32).unwrap();
            signal(status.signal().unwrap(), "boom").unwrap()
        });
        let fiber = fiber.as_mut().unwrap();
        assert_eq!(item::<u32>(fiber), 1);
        let raised = fiber.next().unwrap().unwrap_err();
        assert_eq!(Status::from(raised.signal), status);
        assert_eq!(raised.value.downcast::<&str>().unwrap(), "boom");
        assert!(raised.trace.is_some());
        assert!(fiber.next().is_none());
    }
}

#[test]
fn a_panic_is_one_err_and_the_last_item() {
    let mut fiber = Fiber::new(|_| -> u32 { panic!("boom") }).unwrap();
    let raised = fiber.next().unwrap().unwrap_err();
    assert_eq!(raised.value.downcast::<Panic>().unwrap().message, "boom");
    assert!(fiber.next().is_none());
}

#[test]
fn a_caught_error_just_ends_the_iteration_and_can_be_read_from_the_fiber() {
    for status in FAILED {
        let mut fiber = Fiber::builder().mask(EVERYTHING).build(move |_| {
            yield_(1u32).unwrap();
            signal(status.signal().unwrap(), "boom").unwrap()
        });
        let fiber = fiber.as_mut().unwrap();
        assert_eq!(item::<u32>(fiber), 1);
        assert!(fiber.next().is_none());
        assert_eq!((fiber.status(), taken::<&str>(fiber)), (status, "boom"));
    }
}

#[test]
fn a_pause_that_the_fiber_does_not_catch_stops_the_reader_and_the_iteration_goes_on_after_it() {
    let reader = Fiber::builder().mask(Mask::of(Signal::User5)).build(|_| {
        let fiber = Fiber::new(|_| {
            let asked = signal(Signal::User5, "for the reader's resumer").unwrap();
            yield_(asked).unwrap();
        });
        item::<u32>(&mut fiber.unwrap())
    });
    let reader = reader.unwrap();
    assert_eq!(reader.resume(()).unwrap(), Signal::User5);
    assert_eq!(taken::<&str>(&reader), "for the reader's resumer");
    assert_eq!(reader.resume(7u32).unwrap(), Signal::Ok);
    assert_eq!(taken::<u32>(&reader), 7);
}

#[test]
fn an_error_of_the_body_does_not_end_the_reader() {
    let reader = Fiber::new(|_| {
        let mut fiber = Fiber::new(|_| error("boom")).unwrap();
        assert!(fiber.next().unwrap().is_err());
        "read on"
    });
    let reader = reader.unwrap();
    assert_eq!(reader.resume(()).unwrap(), Signal::Ok);
    assert_eq!(taken::<&str>(&reader), "read on");
}

/// Taken for the end, a refusal would make the rest of the items disappear.
#[test]
fn a_refusal_is_an_err_and_not_the_end_of_the_items() {
    let mut fiber = Fiber::new(|_| {
        yield_(1u32).unwrap();
        yield_(2u32).unwrap();
    });
    let fiber = fiber.as_mut().unwrap();
    assert_eq!(item::<u32>(fiber), 1);
    let mut other = Root::new("other task", Mask::NONE);
    let refused = run_as_root(&mut other, None, || fiber.next().unwrap().unwrap_err()).unwrap();
    let refused = refused.value.downcast::<Refused>().unwrap();
    assert_eq!((refused.operation(), refused.reason()), (Operation::Resume, Reason::OtherTask));
    assert_eq!(item::<u32>(fiber), 2, "nothing was lost");
}

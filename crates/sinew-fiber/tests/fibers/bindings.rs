//! Dynamic bindings: none, shared and layered tables, and `with_bindings`.

use sinew_fiber::{Bindings, Fiber, Key, Mask, Signal, Value, error, protect, signal, with_bindings, yield_};

use crate::support::taken;

static COLOUR: Key<&str> = Key::new("colour");
static SIZE: Key<u32> = Key::new("size");

fn colour() -> Option<&'static str> {
    COLOUR.get().map(|colour| *colour)
}

fn with(bindings: Bindings, body: impl FnOnce() -> Value + 'static) -> Fiber {
    Fiber::builder().bindings(bindings).build(move |_| body()).unwrap()
}

fn finish(fiber: &Fiber) {
    assert_eq!(fiber.resume(()).unwrap(), Signal::Ok);
}

#[test]
fn a_fiber_without_bindings_reads_nothing_and_its_first_write_is_its_own() {
    COLOUR.set("red");
    for build in [Fiber::builder(), Fiber::builder().bindings(Bindings::None)] {
        let fiber = build.build(|_| {
            assert_eq!(colour(), None);
            COLOUR.unset();
            COLOUR.set("blue");
            assert_eq!(colour(), Some("blue"));
        });
        finish(&fiber.unwrap());
        assert_eq!(colour(), Some("red"));
    }
}

#[test]
fn shared_bindings_are_the_creator_s_table_so_writes_are_seen_both_ways() {
    COLOUR.set("red");
    let fiber = with(Bindings::Shared, || {
        assert_eq!(colour(), Some("red"));
        COLOUR.set("blue");
        yield_(()).unwrap();
        assert_eq!(colour(), Some("green"));
        COLOUR.unset();
        Value::UNIT
    });
    assert_eq!(fiber.resume(()).unwrap(), Signal::Yield);
    assert_eq!(colour(), Some("blue"));
    COLOUR.set("green");
    finish(&fiber);
    assert_eq!(colour(), None);
}

#[test]
fn shared_bindings_of_a_creator_that_had_none_are_shared_from_then_on() {
    assert_eq!(colour(), None);
    let fiber = with(Bindings::Shared, || {
        COLOUR.set("blue");
        Value::UNIT
    });
    finish(&fiber);
    assert_eq!(colour(), Some("blue"));
}

#[test]
fn layered_bindings_read_through_to_the_creator_s_table_live() {
    COLOUR.set("red");
    let fiber = with(Bindings::Layered, || {
        assert_eq!(colour(), Some("red"));
        yield_(()).unwrap();
        assert_eq!(colour(), Some("green"), "written by the creator meanwhile");
        Value::UNIT
    });
    assert_eq!(fiber.resume(()).unwrap(), Signal::Yield);
    COLOUR.set("green");
    finish(&fiber);
}

#[test]
fn layered_bindings_of_a_creator_that_had_none_read_what_it_writes_later() {
    let fiber = with(Bindings::Layered, || {
        assert_eq!(colour(), Some("red"));
        Value::UNIT
    });
    COLOUR.set("red");
    finish(&fiber);
}

#[test]
fn layered_bindings_keep_writes_to_themselves_and_unsetting_uncovers_what_is_below() {
    COLOUR.set("red");
    let fiber = with(Bindings::Layered, || {
        COLOUR.set("blue");
        assert_eq!(colour(), Some("blue"));
        yield_(()).unwrap();
        assert_eq!(colour(), Some("blue"), "the creator's write is covered");
        COLOUR.unset();
        assert_eq!(colour(), Some("green"));
        COLOUR.unset();
        assert_eq!(colour(), Some("green"), "unsetting does not reach below");
        Value::UNIT
    });
    assert_eq!(fiber.resume(()).unwrap(), Signal::Yield);
    assert_eq!(colour(), Some("red"));
    COLOUR.set("green");
    finish(&fiber);
    assert_eq!(colour(), Some("green"));
}

#[test]
fn layers_read_through_any_number_of_layers() {
    COLOUR.set("red");
    SIZE.set(1);
    let outer = with(Bindings::Layered, || {
        SIZE.set(2);
        let inner = with(Bindings::Layered, || Value::new((colour(), SIZE.get().map(|size| *size))));
        finish(&inner);
        inner.take_value()
    });
    finish(&outer);
    assert_eq!(taken::<(Option<&str>, Option<u32>)>(&outer), (Some("red"), Some(2)));
}

#[test]
fn the_creator_is_the_fiber_that_made_the_fiber_not_the_one_that_resumes_it() {
    COLOUR.set("creator");
    for bindings in [Bindings::Shared, Bindings::Layered] {
        let fiber = with(bindings, || Value::new(colour()));
        let resumer = with(Bindings::None, move || {
            COLOUR.set("resumer");
            finish(&fiber);
            fiber.take_value()
        });
        finish(&resumer);
        assert_eq!(taken::<Option<&str>>(&resumer), Some("creator"));
    }
}

#[test]
fn the_letters_i_and_p_choose_shared_and_layered() {
    for (letters, seen_outside) in [("y", "red"), ("yp", "red"), ("yi", "blue")] {
        COLOUR.set("red");
        let fiber = Fiber::builder().flags(letters.parse().unwrap()).build(|_| COLOUR.set("blue")).unwrap();
        finish(&fiber);
        assert_eq!(colour(), Some(seen_outside), "{letters}");
    }
}

#[test]
fn keys_are_told_apart_by_themselves_not_by_their_names() {
    static SAME_NAME: Key<&str> = Key::new("colour");
    COLOUR.set("red");
    assert_eq!(SAME_NAME.get(), None);
    assert_eq!(SAME_NAME.name(), COLOUR.name());
}

#[test]
fn the_bindings_of_a_stopped_fiber_are_read_and_changed_from_outside() {
    let fiber = with(Bindings::None, || {
        SIZE.set(1);
        yield_(()).unwrap();
        Value::new(*SIZE.get().unwrap())
    });
    assert_eq!(fiber.resume(()).unwrap(), Signal::Yield);
    assert_eq!(SIZE.get_of(&fiber.view()).as_deref(), Some(&1));
    SIZE.set_of(&fiber.view(), 2);
    assert_eq!(SIZE.get(), None);
    finish(&fiber);
    assert_eq!(taken::<u32>(&fiber), 2);
}

#[test]
fn with_bindings_binds_for_the_time_of_its_body_and_lets_the_rest_show_through() {
    COLOUR.set("red");
    let borrowed = String::from("result");
    let result = with_bindings([SIZE.to(5)], || {
        assert_eq!((colour(), SIZE.get().as_deref()), (Some("red"), Some(&5)));
        SIZE.set(6);
        COLOUR.set("blue");
        borrowed.as_str()
    });
    assert_eq!((result, colour(), SIZE.get()), ("result", Some("red"), None));
}

#[test]
fn with_bindings_lets_every_signal_of_its_body_pass() {
    let fiber = Fiber::new(|_| with_bindings([SIZE.to(1)], || yield_("pausing").unwrap())).unwrap();
    assert_eq!(fiber.resume(()).unwrap(), Signal::Yield);
    assert_eq!(fiber.resume("result").unwrap(), Signal::Ok);
    assert_eq!(taken::<&str>(&fiber), "result");

    let raised = protect(|| with_bindings([SIZE.to(1)], || error("boom"))).unwrap_err();
    assert_eq!(raised.value.downcast::<&str>().unwrap(), "boom");

    let fiber = Fiber::builder().mask(Mask::of(Signal::User1));
    let fiber = fiber.build(|_| with_bindings([SIZE.to(1)], || signal(Signal::User1, ()).unwrap())).unwrap();
    assert_eq!(fiber.resume(()).unwrap(), Signal::User1);
}

#[test]
fn library_functions_share_the_bindings_of_their_caller() {
    SIZE.set(0);
    protect(|| SIZE.set(1)).unwrap();
    assert_eq!(SIZE.get().as_deref(), Some(&1));
    sinew_fiber::defer(|| SIZE.set(*SIZE.get().unwrap() + 10), || SIZE.set(2));
    assert_eq!(SIZE.get().as_deref(), Some(&12));
    let mut generator = sinew_fiber::generate(|out| out.yield_(*SIZE.get().unwrap())).unwrap();
    SIZE.set(3);
    assert_eq!(generator.next(), Some(3));
}

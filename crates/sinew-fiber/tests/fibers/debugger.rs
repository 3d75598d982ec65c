//! A breakpoint stops for whoever has debug in the mask, and for nobody else.

use sinew_fiber::{
    Bindings, Fiber, Key, Mask, Root, Signal, Status, checkpoint, control, debug, error, ffi_scope, protect,
    run_as_root, yield_,
};

use crate::drop_support::OnDrop;

static VERBOSE: Key<u32> = Key::new("verbose");
static PLACE: Key<&'static str> = Key::new("place");

#[test]
fn the_debugger_reads_the_chain_the_value_and_the_bindings_changes_them_and_continues() {
    VERBOSE.set(1);
    let program =
        Fiber::builder().name("program").mask(Mask::DEBUG).bindings(Bindings::Layered).build(|_| {
            PLACE.set("outer");
            let step =
                Fiber::builder().name("step").mask(Mask::YIELD).bindings(Bindings::Layered).build(|_| {
                    PLACE.set("inner");
                    let answer = debug("at the breakpoint").unwrap().downcast::<u32>().unwrap();
                    answer + *VERBOSE.get().unwrap()
                });
            let step = step.unwrap();
            assert_eq!(step.resume(()).unwrap(), Signal::Ok);
            step.take_value()
        });
    let program = program.unwrap();
    assert_eq!(program.resume(()).unwrap(), Signal::Debug);
    assert_eq!(program.status(), Status::Debug);
    assert_eq!(
        program.last_value(|value| value.unwrap().downcast_ref::<&str>().copied()),
        Some("at the breakpoint")
    );

    let lineage = program.lineage();
    let names: Vec<_> = lineage.iter().map(|fiber| fiber.name().unwrap()).collect();
    assert_eq!(names, ["program", "step"]);
    assert!(lineage.iter().all(|fiber| fiber.status() == Status::Debug));
    assert!(lineage.iter().all(|fiber| fiber.link().created.file() == file!()));
    assert_eq!(*PLACE.get_of(&lineage[0]).unwrap(), "outer");
    assert_eq!(*PLACE.get_of(&lineage[1]).unwrap(), "inner");
    assert_eq!(*VERBOSE.get_of(&lineage[1]).unwrap(), 1);

    VERBOSE.set_of(&lineage[0], 5);
    assert_eq!(program.resume(37u32).unwrap(), Signal::Ok);
    assert_eq!(program.take_value().downcast::<u32>().unwrap(), 42);
    assert_eq!(*VERBOSE.get().unwrap(), 1, "the layer of the program covers ours");
}

#[test]
fn without_anybody_a_breakpoint_goes_on_at_once() {
    debug("on the thread's own root").unwrap().downcast::<()>().unwrap();
    let fiber = Fiber::builder().mask(Mask::YIELD).build(|_| {
        debug("in a fiber").unwrap().downcast::<()>().unwrap();
        ffi_scope(|| debug("in a scope").map(drop).unwrap()).unwrap();
        let _guard = OnDrop(|| debug("in a destructor").map(drop).unwrap());
        yield_(1u32).unwrap();
    });
    let fiber = fiber.unwrap();
    assert_eq!(fiber.resume(()).unwrap(), Signal::Yield);
    fiber.end().unwrap();
}

#[test]
fn a_breakpoint_without_anybody_in_a_destructor_of_a_killed_task_goes_on() {
    let raised = run_as_root(&mut Root::new("task", Mask::NONE), None, || {
        let _guard = OnDrop(|| debug(()).map(drop).unwrap());
        control().kill();
        checkpoint();
    });
    assert!(raised.unwrap_err().is_cancelled());
}

#[test]
fn a_breakpoint_in_a_generator_of_cleanup_stops_nobody_either() {
    let log = crate::drop_support::Log::new();
    let raised = protect(|| -> () {
        let _guard = OnDrop(|| {
            let fiber = Fiber::new(|_| debug(()).map(drop).unwrap()).unwrap();
            log.note(fiber.resume(()).unwrap().signal().to_string());
        });
        error("out");
    });
    raised.unwrap_err();
    assert_eq!(log.take(), ["ok"]);
}

#[test]
fn the_nearest_fiber_with_debug_in_its_mask_is_the_debugger() {
    let outer = Fiber::builder().mask(Mask::DEBUG).build(|_| {
        let middle = Fiber::builder().mask(Mask::DEBUG).build(|_| {
            let inner = Fiber::builder().mask(Mask::NONE).build(|_| debug(3u32).unwrap()).unwrap();
            assert_eq!(inner.resume(()).unwrap(), Signal::Ok);
            inner.take_value()
        });
        let middle = middle.unwrap();
        assert_eq!(middle.resume(()).unwrap(), Signal::Debug);
        assert_eq!(middle.take_value().downcast::<u32>().unwrap(), 3);
        assert_eq!(middle.resume(4u32).unwrap(), Signal::Ok);
        middle.take_value()
    });
    let outer = outer.unwrap();
    assert_eq!(outer.resume(()).unwrap(), Signal::Ok);
    assert_eq!(outer.take_value().downcast::<u32>().unwrap(), 4);
}

#[test]
fn a_program_is_stepped_from_breakpoint_to_breakpoint() {
    let program = Fiber::builder().mask(Mask::DEBUG).build(|_| {
        for step in 0..100u32 {
            debug(step).unwrap();
        }
    });
    let program = program.unwrap();
    for step in 0..100 {
        assert_eq!(program.resume(()).unwrap(), Signal::Debug);
        assert_eq!(program.take_value().downcast::<u32>().unwrap(), step);
    }
    assert_eq!(program.resume(()).unwrap(), Signal::Ok);
}

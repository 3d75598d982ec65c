//! A yield that nobody catches in a task without a supervisor: its refusal tells the ways out.

use sinew_fiber::raw::{Word, set_task_mask, set_task_name};
use sinew_fiber::{Fiber, Mask, Refused, Root, Signal, Yielder, generate, run_as_root, signal, yield_};

use crate::support::CountingHook;
use crate::task_support::Tasks;

const WAYS_OUT: &str = "no fiber around it catches the signal, and its task has no supervisor; add the signal to the \
                        mask of a fiber around it, or start the task with a supervisor (`TaskBuilder::supervisor` \
                        with an `Events`)";

fn in_task(body: impl FnOnce() -> Refused) -> String {
    let refused = Tasks::new().run(&Word::new(), &CountingHook::default(), body).unwrap();
    refused.to_string()
}

#[test]
fn the_refusal_of_a_yield_names_the_task_and_the_supervisor_as_a_way_out() {
    let refused = in_task(|| {
        set_task_name("alone".into());
        yield_(()).unwrap_err()
    });
    assert_eq!(refused, format!("cannot signal yield from task alone#7 (its status is alive): {WAYS_OUT}"));
}

#[test]
fn a_fiber_of_the_task_is_told_both_ways_out_too() {
    for stop in [Signal::Yield, Signal::User5, Signal::User6, Signal::User7] {
        let refused = in_task(|| {
            let inner = Fiber::builder().name("inner").mask(Mask::NONE);
            let inner = inner.build(move |_| signal(stop, ()).unwrap_err()).unwrap();
            inner.resume(()).unwrap().get::<Refused>().unwrap()
        });
        assert!(refused.starts_with(&format!("cannot signal {stop} from fiber inner#")), "{refused}");
        assert!(refused.ends_with(WAYS_OUT), "{refused}");
    }
}

#[test]
fn a_refusal_outside_such_a_task_names_only_the_mask() {
    let on_a_thread = yield_(()).unwrap_err().to_string();
    assert!(on_a_thread.starts_with("cannot signal yield from thread "), "{on_a_thread}");
    let under_a_root =
        in_task(|| run_as_root(&mut Root::new("own", Mask::NONE), None, || yield_(()).unwrap_err()).unwrap());
    assert!(under_a_root.starts_with("cannot signal yield from root own#"), "{under_a_root}");
    let supervised = in_task(|| {
        set_task_mask(Mask::YIELD);
        signal(Signal::User5, ()).unwrap_err()
    });
    let outside_its_generator = generate(|out: &Yielder<String>| {
        let hook = CountingHook::default();
        let raised = Tasks::new().run(&Word::new(), &hook, || out.yield_(String::new())).unwrap_err();
        out.yield_(raised.value.downcast::<Refused>().unwrap().to_string());
    });
    let outside_its_generator = outside_its_generator.unwrap().next().unwrap();
    for refused in [on_a_thread, under_a_root, supervised, outside_its_generator] {
        assert!(!refused.contains("supervisor"), "{refused}");
        assert!(
            refused.contains("no fiber around it catches the signal; add it to the mask of one"),
            "{refused}"
        );
    }
}

//! Signals that end the code outside all fibers: a thread's own root, where nobody could catch them.

use std::panic::catch_unwind;
use std::thread;

use sinew_fiber::{Fiber, Mask, Signal, error, propagate, protect, signal};

use crate::stack_support::run_in_child;
use crate::support::{FAILED, fiber_in};

/// What the panic of a thread that runs `body` says.
fn panic_of_thread(body: impl FnOnce() + Send + 'static) -> String {
    let payload = thread::Builder::new().name("worker".to_owned()).spawn(body).unwrap().join().unwrap_err();
    *payload.downcast::<String>().unwrap()
}

#[test]
fn an_uncaught_error_is_a_panic_of_the_thread_that_shows_value_and_trace() {
    let line = line!();
    let text = panic_of_thread(|| {
        let fiber = Fiber::builder().name("failing").mask(Mask::YIELD).build(|_| {
            error("no luck");
        });
        let _ = fiber.unwrap().resume(());
    });
    let lines: Vec<_> = text.lines().collect();
    assert_eq!(lines[0], "uncaught error: \"no luck\"");
    assert!(lines[1].starts_with(&format!("  raised at {}:{}:", file!(), line + 3)), "{text}");
    assert!(lines[2].starts_with("  in fiber failing#"), "{text}");
    assert!(lines[2].contains(&format!("created at {}:{}:", file!(), line + 2)), "{text}");
    assert_eq!(lines[3], "  on thread worker");
    assert!(lines[4].starts_with("  nobody caught it: add Mask::ERROR"), "it says what to do: {text}");
    assert_eq!(lines.len(), 5);
}

#[test]
fn every_uncaught_signal_that_ends_is_a_panic_that_names_it() {
    for status in FAILED {
        let stop = status.signal().unwrap();
        let text = panic_of_thread(move || {
            let fiber = Fiber::new(move |_| signal(stop, 7u32).unwrap()).unwrap();
            let _ = fiber.resume(());
        });
        assert!(text.starts_with(&format!("uncaught {stop}: 7\n  raised at {}", file!())), "{text}");
    }
}

#[test]
fn a_signal_raised_outside_all_fibers_is_such_a_panic_too() {
    let text = panic_of_thread(|| error("at the root"));
    let line = line!() - 1;
    assert!(text.starts_with("uncaught error: \"at the root\"\n"), "{text}");
    assert!(text.contains(&format!("raised at {}:{line}:", file!())), "{text}");
}

#[test]
fn an_uncaught_panic_of_a_fiber_shows_the_first_place() {
    let text = panic_of_thread(|| {
        let fiber = Fiber::new(|_| -> u32 { panic!("in the fiber") }).unwrap();
        let _ = fiber.resume(());
    });
    let line = line!() - 3;
    assert!(text.starts_with(&format!("uncaught error: panicked at {}:{line}:", file!())), "{text}");
    assert!(text.contains(": in the fiber\n  raised at "), "{text}");
}

#[test]
fn an_uncaught_cancel_and_an_uncaught_propagate_show_their_trace() {
    let text = panic_of_thread(|| {
        let _ = Fiber::builder().name("unrun").build(|_| ()).unwrap().cancel("stop");
    });
    assert!(text.starts_with("uncaught error: \"stop\"\n  raised at "), "{text}");
    assert!(text.contains("in fiber unrun#"), "{text}");

    let text = panic_of_thread(|| {
        let fiber = Fiber::builder().name("first").mask(Mask::ERROR).build(|_| error("first value")).unwrap();
        assert_eq!(fiber.resume(()).unwrap(), Signal::Error);
        drop(propagate("again", &fiber));
    });
    assert!(text.starts_with("uncaught error: \"again\"\n  raised at "), "{text}");
    assert!(text.contains("in fiber first#"), "{text}");
}

#[test]
fn the_process_prints_an_uncaught_error_once_with_its_trace() {
    let output =
        run_in_child(module_path!(), "the_process_prints_an_uncaught_error_once_with_its_trace", || {
            let fiber = Fiber::builder().name("failing").build(|_| error("no luck")).unwrap();
            let _ = fiber.resume(());
        });
    assert!(!output.status.success());
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!(stderr.matches("uncaught error: \"no luck\"").count(), 1, "{stderr}");
    assert!(stderr.contains(concat!("  raised at ", file!(), ":")), "{stderr}");
    assert!(stderr.contains("  in fiber failing#"), "{stderr}");
}

#[test]
fn a_thread_that_catches_such_a_panic_goes_on_using_fibers() {
    let text = panic_of_thread(|| {
        let caught = catch_unwind(|| error("first")).unwrap_err();
        assert!(caught.downcast::<String>().unwrap().contains("\"first\""));
        assert_eq!(fiber_in(sinew_fiber::Status::Pending).resume(()).unwrap(), Signal::Ok);
        assert!(protect(|| error("second")).is_err());
        error("third")
    });
    assert!(text.starts_with("uncaught error: \"third\""), "{text}");
}

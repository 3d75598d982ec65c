//! Signals and the statuses that they leave, and masks: who catches what.

use std::rc::Rc;

use sinew_fiber::{
    Bindings, Error, Fiber, Flags, Mask, Root, Signal, Status, await_, error, run_as_root, signal, yield_,
};

use crate::support::{CountingHook, EVERYTHING, fiber_in, last_text, taken};

/// The table of the contract: signal, the status it leaves, whether the fiber has ended then.
const TABLE: [(&str, &str, bool); 14] = [
    ("ok", "dead", true),
    ("error", "error", true),
    ("debug", "debug", false),
    ("yield", "pending", false),
    ("user0", "user0", true),
    ("user1", "user1", true),
    ("user2", "user2", true),
    ("user3", "user3", true),
    ("user4", "user4", true),
    ("user5", "user5", false),
    ("user6", "user6", false),
    ("user7", "user7", false),
    ("interrupt", "interrupted", false),
    ("await", "suspended", false),
];

/// A fiber that raises `stop` with its name and goes on as far as it can.
fn raising(stop: Signal, mask: Mask) -> Fiber {
    Fiber::builder().mask(mask).build(move |_| signal(stop, stop.name()).unwrap()).unwrap()
}

#[test]
fn a_signal_leaves_the_status_of_its_number_and_ends_the_fiber_or_not() {
    for (number, (name, status, ends)) in TABLE.into_iter().enumerate() {
        let stop = Signal::try_from(number as u8).unwrap();
        assert_eq!(stop.name(), name);
        let fiber = raising(stop, EVERYTHING);
        assert_eq!(fiber.resume(()).unwrap(), stop);
        assert_eq!((usize::from(fiber.status().number()), fiber.status().name()), (number, status));
        assert_eq!(fiber.can_resume(), !ends, "{name}");
        assert_eq!(fiber.resume(()).is_err(), ends, "{name}");
    }
}

#[test]
fn a_fiber_is_new_until_it_is_first_resumed() {
    let fiber = fiber_in(Status::New);
    assert_eq!((fiber.status().number(), fiber.can_resume()), (14, true));
}

#[test]
fn a_fiber_is_alive_while_it_runs_and_while_it_waits_for_one_that_it_resumed() {
    let outer = Rc::<Fiber>::new_cyclic(|me| {
        let me = me.clone();
        let body = move |_| {
            let here = me.clone();
            let own = me.upgrade().unwrap().status();
            let inner = Fiber::new(move |_| here.upgrade().unwrap().status() == Status::Alive).unwrap();
            assert_eq!(inner.resume(()).unwrap(), Signal::Ok);
            own == Status::Alive && taken::<bool>(&inner)
        };
        Fiber::new(body).unwrap()
    });
    assert_eq!(outer.resume(()).unwrap(), Signal::Ok);
    assert!(taken::<bool>(&outer));
    assert_eq!(Status::Alive.number(), 15);
}

#[test]
fn the_status_follows_the_last_signal() {
    let fiber = Fiber::builder().mask(EVERYTHING).build(|_| {
        yield_(()).unwrap();
        signal(Signal::User7, ()).unwrap();
        error(())
    });
    let fiber = fiber.unwrap();
    for status in [Status::Pending, Status::User7, Status::Error] {
        assert_eq!(Status::from(fiber.resume(()).unwrap().signal()), status);
        assert_eq!(fiber.status(), status);
    }
}

#[test]
fn a_return_is_delivered_whatever_the_mask() {
    for mask in [Mask::NONE, Mask::ERROR, EVERYTHING] {
        let fiber = Fiber::builder().mask(mask).build(|_| "returned").unwrap();
        assert_eq!(fiber.resume(()).unwrap(), Signal::Ok);
        assert_eq!(taken::<&str>(&fiber), "returned");
        assert!(!mask.contains(Signal::Ok));
    }
}

#[test]
fn the_resumer_of_a_fiber_catches_the_signals_in_its_mask_and_no_others() {
    let signals = &Signal::ALL[1..];
    for (raised, caught) in signals.iter().flat_map(|raised| signals.iter().map(|caught| (*raised, *caught)))
    {
        // The resumer's own mask has everything, which says nothing about what the resumer catches.
        let resumer = Fiber::builder().mask(EVERYTHING).build(move |_| {
            let fiber = raising(raised, Mask::of(caught));
            assert_eq!(fiber.resume(()).unwrap(), raised);
            "caught"
        });
        let resumer = resumer.unwrap();
        let stopped = resumer.resume(()).unwrap().signal();
        if raised == caught {
            assert_eq!((stopped, taken::<&str>(&resumer)), (Signal::Ok, "caught"));
        } else {
            assert_eq!((stopped, taken::<&str>(&resumer)), (raised, raised.name()), "not caught by {caught}");
        }
    }
}

#[test]
fn without_a_mask_given_yields_are_caught_and_nothing_else() {
    let fiber = Fiber::new(|_| yield_(()).unwrap()).unwrap();
    assert_eq!(fiber.mask(), Mask::YIELD);
    assert_eq!(fiber.view().mask(), Mask::YIELD);
    assert_eq!(fiber.resume(()).unwrap(), Signal::Yield);
}

#[test]
fn a_mask_that_is_given_replaces_the_default() {
    let outer = Fiber::new(|_| {
        let inner = Fiber::builder().mask(Mask::ERROR).build(|_| yield_("past the inner resumer").unwrap());
        let _ = inner.unwrap().resume(()).unwrap();
    });
    let outer = outer.unwrap();
    assert_eq!(outer.resume(()).unwrap(), Signal::Yield);
    assert_eq!(last_text(&outer), Some("past the inner resumer"));
    let letters = Fiber::builder().flags("ei".parse().unwrap()).build(|_| ()).unwrap();
    assert_eq!(letters.mask(), Mask::ERROR);
}

#[test]
fn the_groups_all_and_user_leave_await_and_interrupt_to_the_task() {
    for letters in ["a", "u"] {
        let mask = letters.parse::<Flags>().unwrap().mask;
        let hook = CountingHook::default();
        run_as_root(&mut Root::new("task", Mask::NONE), Some(&hook), || {
            let fiber = Fiber::builder().mask(mask).build(|_| {
                signal(Signal::Interrupt, ()).unwrap();
                await_(()).unwrap()
            });
            assert_eq!(fiber.unwrap().resume(()).unwrap(), Signal::Ok, "not caught by {letters}");
        })
        .unwrap();
        assert_eq!(hook.stops.get(), 2, "both reached the root");
    }
}

#[test]
fn the_letters_of_a_mask_choose_the_signals_and_the_bindings() {
    let flags: Flags = "edp".parse().unwrap();
    assert_eq!(flags, Flags { mask: Mask::ERROR | Mask::DEBUG, bindings: Bindings::Layered });
    let fiber = Fiber::builder().flags(flags).build(|_| signal(Signal::Debug, ()).unwrap()).unwrap();
    assert_eq!(fiber.resume(()).unwrap(), Signal::Debug);
}

#[test]
fn an_unknown_mask_letter_is_an_error_that_names_it() {
    fn parse(letters: &str) -> Result<Flags, Error> {
        Ok(letters.parse()?)
    }
    for (letters, wrong) in [("yz", 'z'), ("E", 'E'), ("y e", ' '), ("é", 'é')] {
        let error = parse(letters).unwrap_err();
        assert!(matches!(&error, Error::Mask(mask) if mask.letter == wrong), "{error}");
        assert!(error.to_string().contains(&format!("{wrong:?}")), "{error}");
    }
    assert!(parse("aedyturw0123456789ip").is_ok());
}

//! A fiber that is given up takes nobody with it.

use std::rc::Rc;

use sinew_fiber::{Fiber, Signal, propagate, protect, quarantined, yield_};

use crate::ONE_AT_A_TIME;

#[test]
fn a_fiber_that_a_given_up_one_propagates_stays_free_for_others() {
    let _alone = ONE_AT_A_TIME.lock();
    let paused = Rc::new(Fiber::new(|_| yield_(()).map(drop).unwrap()).unwrap());
    assert_eq!(paused.resume(()).unwrap(), Signal::Yield);
    let its = paused.clone();
    let stubborn = Fiber::new(move |_| {
        for _ in 0..9 {
            assert!(protect(|| yield_(()).map(drop)).is_err_and(|raised| raised.is_cancelled()));
        }
        let _ = propagate((), &its);
    });
    let stubborn = stubborn.unwrap();
    assert_eq!(stubborn.resume(()).unwrap(), Signal::Yield);
    let before = quarantined().count;
    drop(stubborn);
    assert_eq!(quarantined().count, before + 1);
    assert_eq!(paused.lineage().len(), 1);
    assert_eq!(paused.resume(()).unwrap(), Signal::Ok);
}

//! What a select can receive from.

use sinew_core::Instant;
use sinew_sched::WaitKind;
use sinew_sched::raw::{Attempt, Awaited, Case, Enrolled, Node, What};

/// Something that items are received from: what [`select::recv`](crate::select::recv) takes.
pub trait Source {
    /// The receive, as a case of a select.
    type Case: Case;

    #[doc(hidden)]
    fn into_case(self) -> Self::Case;
}

impl<S: Source> Source for Option<S> {
    type Case = Maybe<S::Case>;

    fn into_case(self) -> Maybe<S::Case> {
        Maybe(self.map(Source::into_case))
    }
}

/// A case, or none, which never happens.
#[derive(Debug)]
pub struct Maybe<C>(Option<C>);

impl<C: Awaited> Awaited for Maybe<C> {
    unsafe fn withdraw(&self, node: &Node) -> bool {
        // SAFETY: the caller promises it of this, and so of the case within, which stays the same.
        self.0.as_ref().is_none_or(|case| unsafe { case.withdraw(node) })
    }

    unsafe fn hand_on(&self, node: &Node) {
        // SAFETY: as in `withdraw`.
        self.0.iter().for_each(|case| unsafe { case.hand_on(node) });
    }
}

impl<C: Attempt> Attempt for Maybe<C> {
    fn attempt(&self) -> bool {
        self.0.as_ref().is_some_and(Attempt::attempt)
    }

    unsafe fn enroll(&self, node: &Node) -> Enrolled {
        // SAFETY: as in `withdraw`; what is within stays where this does.
        self.0.as_ref().map_or(Enrolled::Queued, |case| unsafe { case.enroll(node) })
    }

    unsafe fn settle(&self, node: &Node) -> bool {
        // SAFETY: as in `withdraw`.
        self.0.as_ref().is_none_or(|case| unsafe { case.settle(node) })
    }

    unsafe fn under_lock(&self, change: &mut dyn FnMut()) {
        // SAFETY: as in `withdraw`.
        self.0.iter().for_each(|case| unsafe { case.under_lock(change) });
    }

    fn what(&self) -> What {
        self.0.as_ref().map_or(What::of(WaitKind::Never), Attempt::what)
    }

    fn deadline(&self) -> Option<Instant> {
        self.0.as_ref().and_then(Attempt::deadline)
    }

    fn awaits_cancel(&self) -> bool {
        self.0.as_ref().is_some_and(Attempt::awaits_cancel)
    }
}

impl<C: Case> Case for Maybe<C> {
    type Output = C::Output;

    fn output(self) -> C::Output {
        self.0.expect("a case that happened").output()
    }
}

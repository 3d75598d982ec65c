//! The way of a resumable signal: who catches it, and whether it may stop the fibers before that.
//!
//! The signal looks up the chain, from the fiber that raises it to the root, for the first fiber with
//! the signal in its mask; that fiber's resumer catches it. If there is no such fiber, await,
//! interrupt and debug go to the root's hook, and anything else is refused before anything has
//! changed. A fiber on the way that must not be stopped changes that: one that unwinds, that is
//! inside foreign code or a poll, whose stack others borrow from, or that is being ended.
//!
//! Nothing here switches: [`decide`] says what to do, and its caller does it.

use sinew_core::{Mask, Signal};

use crate::control::Cancelled;
use crate::quarantine;
use crate::record::{Record, Scope};
use crate::refused::{Reason, Refused};
use crate::terminal::raise;
use crate::value::Value;

/// How often a body that is being ended may go on to raise a signal before it is quarantined.
const MAX_SWALLOWED: u16 = 8;

/// The same for a body inside a shield, whose signals are refused rather than unwinding.
const MAX_REFUSED: u16 = 1000;

/// Where a signal goes.
pub(crate) enum Way<'a> {
    /// The resumer of this fiber catches it.
    Caught(&'a Record),
    /// The hook of this root gets it, or for want of one the thread blocks.
    Root(&'a Record),
    /// It reaches this root, where nobody wants it: it goes on at once.
    Nobody(&'a Record),
    /// It would stop this fiber, which is being ended.
    Ending(&'a Record),
    /// It is refused.
    Refused(Reason),
}

/// Looks up the chain for who catches `signal`, and for whoever would be stopped on the way but must not be.
pub(crate) fn find_way(me: &Record, signal: Signal) -> Way<'_> {
    let panicking = std::thread::panicking();
    let (mut ending, mut forbidden, mut open) = (None, None, false);
    let mut record = me;
    let way = loop {
        let own = record.own.get();
        if panicking && record.is_unwinding() {
            forbidden = forbidden.or(Some(Reason::Unwinding));
        }
        if own.any(Scope::KEPT) {
            if own.any(Scope::FFI) {
                forbidden = forbidden.or(Some(Reason::FfiScope));
            }
            if own.any(Scope::POLL) {
                forbidden = forbidden.or(Some(Reason::InsidePoll));
            }
            open |= own.any(Scope::OPEN) && signal != Signal::Await;
            if own.any(Scope::ENDING) {
                ending = ending.or(Some(record));
            }
        }
        if record.mask.get().contains(signal) {
            break Way::Caught(record);
        }
        match record.parent() {
            Some(parent) => record = parent,
            None => break way_at_root(record, signal),
        }
    };
    match (way, forbidden, ending) {
        (way @ (Way::Nobody(_) | Way::Refused(_)), None, _) | (way @ Way::Nobody(_), _, _) => way,
        (_, Some(reason), _) => Way::Refused(reason),
        // A shield of the fiber lets it wait; one of whoever drops it has no say.
        (Way::Root(root), None, Some(ended)) if me.is_shielded_within(ended) => Way::Root(root),
        (_, None, Some(ended)) => Way::Ending(ended),
        (Way::Caught(_), None, None) if open => Way::Refused(Reason::OpenScope),
        (way, None, None) => way,
    }
}

fn way_at_root(root: &Record, signal: Signal) -> Way<'_> {
    let hooked = root.hook.get().is_some();
    match signal {
        Signal::Await => Way::Root(root),
        Signal::Interrupt | Signal::Debug if hooked => Way::Root(root),
        Signal::Interrupt | Signal::Debug => Way::Nobody(root),
        signal if hooked && root.hook_mask.get().contains(signal) => Way::Root(root),
        _ => Way::Refused(Reason::Uncaught),
    }
}

/// What to do about a signal that is not refused.
pub(crate) enum Decision<'a> {
    /// Stop all up to this fiber.
    Suspend(&'a Record),
    /// The same, for ever: the fiber has been given up.
    Abandon(&'a Record),
    /// Call the hook of this root.
    Root(&'a Record),
}

/// The whole rule; `expected` is the only fiber that may catch the signal, if there is such a demand.
#[cold]
#[track_caller]
pub(crate) fn decide<'a>(
    me: &'a Record,
    signal: Signal,
    expected: Option<&Record>,
) -> Result<Decision<'a>, Refused> {
    match find_way(me, signal) {
        Way::Refused(Reason::Unwinding) if me.scope().any(Scope::ENDING) => refuse_while_ending(me, signal),
        Way::Refused(Reason::Uncaught) if expected.is_none() => Err(refuse_uncaught(signal, me)),
        Way::Refused(reason) => Err(me.refuse_signal(signal, reason)),
        Way::Caught(top) if expected.is_some_and(|expected| !std::ptr::eq(top, expected)) => {
            Err(me.refuse_signal(signal, Reason::Uncaught))
        }
        Way::Caught(top) => Ok(Decision::Suspend(top)),
        Way::Root(_) | Way::Nobody(_) if expected.is_some() => {
            Err(me.refuse_signal(signal, Reason::Uncaught))
        }
        Way::Root(root) | Way::Nobody(root) => Ok(Decision::Root(root)),
        Way::Ending(ended) => go_on_ending(me, ended, signal),
    }
}

/// `ended` is being dropped and `me`, in its chain, raised a signal that would stop it: cancel again, and
/// after too many times give the chain's stacks up.
#[cold]
#[track_caller]
fn go_on_ending<'a>(me: &Record, ended: &'a Record, signal: Signal) -> Result<Decision<'a>, Refused> {
    let shielded = me.is_shielded_within(ended);
    let (count, most) =
        if shielded { (&ended.refused, MAX_REFUSED) } else { (&ended.swallowed, MAX_SWALLOWED) };
    count.set(count.get() + 1);
    if count.get() > most {
        quarantine::give_up(ended);
        return Ok(Decision::Abandon(ended));
    }
    if shielded {
        return Err(me.refuse_signal(signal, Reason::Ending));
    }
    raise(Signal::Error, Value::new(Cancelled))
}

/// `me` is in the chain of a fiber that is being dropped by a destructor, and may be unwinding itself. A body
/// that ignores the refusal for ever would hang the drop, so it is given up in the end.
#[cold]
fn refuse_while_ending<'a>(me: &'a Record, signal: Signal) -> Result<Decision<'a>, Refused> {
    let ended = me.ancestors().find(|record| record.own.get().any(Scope::ENDING)).expect("it is inherited");
    ended.refused.set(ended.refused.get() + 1);
    if ended.refused.get() > MAX_REFUSED {
        quarantine::give_up(ended);
        return Ok(Decision::Abandon(ended));
    }
    Err(me.refuse_signal(signal, Reason::Unwinding))
}

/// Refuses a signal that no fiber catches, and that is not for the root either.
#[cold]
fn refuse_uncaught(signal: Signal, me: &Record) -> Refused {
    let refused = me.refuse_signal(signal, Reason::Uncaught);
    let root = me.ancestors().last().expect("a fiber is its own first ancestor");
    // The hook mask of a supervised task has the signals that stop it for its supervisor.
    let unsupervised = root.runs_tasks() && root.hook_mask.get() == Mask::NONE;
    if unsupervised { refused.for_lack_of_a_supervisor() } else { refused }
}

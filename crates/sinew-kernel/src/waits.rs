//! What actors wait for, as dumps of the scheduler show it; and which actor it is that overflows its stack.

use sinew_core::ActorId;
use sinew_fiber::raw::{OverflowTag, tag_overflows_by};
use sinew_sched::raw::What;
use sinew_sched::{WaitKind, turn};

/// An answer of an actor.
pub const ASK: WaitKind = WaitKind::label(0);
/// Room in the mailbox of an actor.
pub const SEND: WaitKind = WaitKind::label(1);
/// The end of an actor.
pub const END: WaitKind = WaitKind::label(2);

/// Says what the labels mean, once for the process.
pub(crate) fn register() {
    ASK.register("ask", "actor");
    SEND.register("send, mailbox", "actor");
    END.register("end of an actor", "actor");
    tag_overflows_by(|| {
        let actor = ActorId::from_u64(turn::current_tag());
        let tag = OverflowTag { word: "actor", high: actor.node().0, low: actor.local() };
        (!actor.is_nobody()).then_some(tag)
    });
}

/// A wait of this kind for `actor`, one of this node.
pub(crate) fn on(kind: WaitKind, actor: ActorId) -> What {
    What::tagged(kind, actor.local())
}

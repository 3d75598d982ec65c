//! Events as bytes, for raw behaviours and guests.

use sinew_core::{ActorId, Kind};

use crate::event::Exit;
use crate::message::Payload;

fn exit_bytes(actor: ActorId, exit: &Exit) -> Payload {
    let mut bytes = [0; 16];
    bytes[..8].copy_from_slice(&actor.as_u64().to_le_bytes());
    bytes[8] = exit.reason.code();
    Payload::copy(&bytes)
}

pub(crate) fn child_exit(exit: &Exit) -> (Kind, Payload) {
    (Kind::CHILD_EXIT, exit_bytes(exit.actor, exit))
}

pub(crate) fn exit(exit: &Exit) -> (Kind, Payload) {
    (Kind::EXIT, exit_bytes(exit.actor, exit))
}

pub(crate) fn down(exit: &Exit) -> (Kind, Payload) {
    (Kind::DOWN, exit_bytes(exit.actor, exit))
}

//! The services that a node provides itself: the namespace, called `ns`, and the capabilities.
//!
//! They are no actors. Each has an id that no actor gets, and names that lead to that id, so actors find them and send to them as to
//! any actor. A request is carried out by the task that sends it. So a service answers while every actor is blocked, it
//! cannot be stopped, and takes no room of the actors.
//!
//! # Answers
//!
//! An answer goes by the lane of the system, so a full mailbox does not stop it. An actor that asks and does not handle its answers
//! must not fill the node's memory, so it has at most [`MAX_ANSWERS`] of them in its lane: a request beyond that is given back, and
//! not carried out. The sender of a request takes a place for the answer under the asking actor's lock before the request is
//! carried out; the actor frees the place when it comes to the answer.
//!
//! # Who asks
//!
//! A request is for its sender: an actor registers and mounts itself, and undoes its own mounts. The node writes the source of what
//! an actor sends, so the source of a request is known; only a forwarded message has a source that its sender chose, and
//! [`Ctx::forward`](crate::Ctx::forward) refuses requests of others. Without an actor that asks there is nothing to carry out.

use std::env::consts::OS;
use std::fmt::Write;

use sinew_core::payload::{
    NsList, NsLookup, NsMount, NsRegister, NsReply, NsStatus, NsUmount, SystemPayload,
};
use sinew_core::{ActorId, Kind};
use sinew_sync::Arc;

use crate::cell::{AnyCell, Phase};
use crate::error::{RegisterError, SendError, Unsent};
use crate::event::Event;
use crate::message::{Message, Payload, encoded};
use crate::notice::Notice;
use crate::service::Service;
use crate::services::{Handled, MAX_ANSWERS, Owned, Owner};
use crate::shared::NodeRef;

impl NodeRef {
    /// Sends a message of the system's kinds: a request to the service that answers it. All others are refused.
    #[cold]
    pub(crate) fn route_request(self, message: Message) -> Result<(), SendError<Message>> {
        let (dest, kind) = (message.dest, message.kind);
        let is_here = dest.node() == self.0.id;
        match Service::answering(kind) {
            Some(service) if dest == service.id(self.0.id) => self.carry_out(service, message),
            Some(service) if dest == service.id(dest.node()) => self.0.routers.send(message),
            None if kind == Kind::LOG && (!is_here || self.0.log.is_actor(dest)) => self.hand_over(message),
            _ => Err(SendError::new(message, Unsent::SystemKind(kind))),
        }
    }

    fn carry_out(self, service: Service, request: Message) -> Result<(), SendError<Message>> {
        let Some(asker) = self.0.table.get(request.source) else { return Ok(()) };
        match asker.life(|life| (life.phase < Phase::Leaving).then(|| life.more().services.take_place())) {
            Some(true) => (),
            Some(false) => return Err(SendError::new(request, Unsent::TooManyAnswers(MAX_ANSWERS.into()))),
            None => return Ok(()),
        }
        let (kind, bytes) = match service {
            Service::Namespace => encoded(&self.ask_namespace(&*asker, &request)),
            Service::Capabilities => (Kind::CAPS_REPLY, self.capabilities().into_bytes()),
        };
        let answer = Answer { source: request.dest, dest: request.source, kind, bytes };
        let _ = asker.push_event(Event::Notice(Arc::new(answer))); // it may have ended
        Ok(())
    }

    /// Carries out a request to the namespace, for the actor that has sent it.
    fn ask_namespace(self, asker: &dyn AnyCell, request: &Message) -> NsReply {
        let bytes = request.payload.bytes();
        let reply = match request.kind {
            Kind::NS_REGISTER => NsRegister::decode(bytes).map(|NsRegister { path, actor }| {
                self.for_itself(asker, actor, || self.0.names.register(path.as_str(), asker))
            }),
            Kind::NS_MOUNT => NsMount::decode(bytes).map(|NsMount { point, target }| {
                self.for_itself(asker, target, || self.0.names.mount(point.as_str(), asker))
            }),
            Kind::NS_UMOUNT => NsUmount::decode(bytes).map(|NsUmount { point }| {
                let mut status = NsStatus::NotFound;
                let is_askers = |target| {
                    status = if target == asker.head().id { NsStatus::Ok } else { NsStatus::Invalid };
                    status == NsStatus::Ok
                };
                self.0.names.unmount(point.as_str(), is_askers);
                NsReply::new(status, ActorId::NOBODY)
            }),
            Kind::NS_LOOKUP => {
                NsLookup::decode(bytes).map(|NsLookup { path }| match self.lookup(path.as_str()) {
                    Some(actor) => NsReply::new(NsStatus::Ok, actor),
                    None => NsReply::new(NsStatus::NotFound, ActorId::NOBODY),
                })
            }
            _ => NsList::decode(bytes).map(|list| self.listed(list.prefix())),
        };
        reply.unwrap_or(NsReply::new(NsStatus::Invalid, ActorId::NOBODY))
    }

    /// Registers or mounts the actor that asks, if it asks for itself.
    fn for_itself(
        self,
        asker: &dyn AnyCell,
        wanted: ActorId,
        register: impl FnOnce() -> Result<bool, RegisterError>,
    ) -> NsReply {
        let status = match (wanted == asker.head().id).then(register) {
            Some(Ok(true)) => NsStatus::Ok,
            Some(Err(RegisterError::Taken { .. })) => NsStatus::Exists,
            _ => NsStatus::Invalid,
        };
        NsReply::new(status, ActorId::NOBODY)
    }

    /// The answer with a line for each path at and below `prefix`, as far as they fit.
    fn listed(self, prefix: &str) -> NsReply {
        let (mut lines, mut status) = (String::new(), NsStatus::Ok);
        for (path, actor) in self.list(prefix) {
            let end = lines.len();
            let _ = writeln!(lines, "{path}={}", actor.as_u64()); // a text takes all
            if lines.len() > NsReply::MAX_DATA {
                lines.truncate(end);
                status = NsStatus::Full;
                break;
            }
        }
        let reply = NsReply::new(status, ActorId::NOBODY).with_data(lines);
        reply.expect("the lines fit")
    }

    /// What the node can do and has, a line each.
    fn capabilities(self) -> String {
        let node = self.0;
        // Guests, TLS and HTTP are not part of the kernel.
        format!(
            "platform={OS}\nidentity={}\nnode_id={}\nwasm=false\ntls=false\nhttp=false\nmax_actors={}\nactor_count={}\n\
             transports={}\n",
            node.identity,
            node.id,
            node.table.max_actors(),
            node.table.len(),
            node.routers.len(),
        )
    }
}

/// The answer of a service, on its way to the actor that has asked.
struct Answer {
    source: ActorId,
    dest: ActorId,
    kind: Kind,
    bytes: Vec<u8>,
}

impl Notice for Answer {
    fn message(&self, owner: &dyn Owner) -> Option<Message> {
        owner.services(Owned::free_place);
        let payload = Payload::copy(&self.bytes);
        Some(Message { source: self.source, dest: self.dest, kind: self.kind, payload })
    }
}

impl Handled for Answer {
    fn handled(self: Arc<Self>) {}
}

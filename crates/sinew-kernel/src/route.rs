//! Where messages by id go: to an actor, to a service of the node, or to [another
//! node](crate::router).

use crate::error::{SendError, Unsent};
use crate::message::Message;
use crate::service::is_service;
use crate::shared::NodeRef;

impl NodeRef {
    /// Sends a message to wherever its destination is.
    pub(crate) fn route(self, message: Message) -> Result<(), SendError<Message>> {
        if message.kind.is_system() {
            return self.route_request(message);
        }
        self.hand_over(message)
    }

    /// Sends a message that may be sent.
    #[inline]
    pub(crate) fn hand_over(self, message: Message) -> Result<(), SendError<Message>> {
        let dest = message.dest;
        if dest.node() != self.0.id && !dest.is_nobody() {
            return self.0.routers.send(message);
        }
        match self.0.table.get(dest) {
            Some(cell) => cell.deliver(message),
            None if is_service(dest) => {
                let why = Unsent::NotARequest { service: dest, kind: message.kind };
                Err(SendError::new(message, why))
            }
            None => Err(SendError::new(message, Unsent::Unknown(dest))),
        }
    }
}

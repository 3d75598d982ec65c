//! The ids of the services that a node provides itself; [`namespace`](crate::namespace) carries out
//! their requests.

use sinew_core::{ActorId, Kind, NodeId};

/// The first local id that is for services: no actor gets this one or a higher one.
pub(crate) const FIRST_SERVICE_ID: u32 = u32::MAX - 15;

/// A service of a node.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Service {
    /// Registers, finds, lists and mounts.
    Namespace,
    /// Says what the node can do.
    Capabilities,
}

impl Service {
    /// Its id on `node`.
    pub(crate) const fn id(self, node: NodeId) -> ActorId {
        ActorId::new(node, FIRST_SERVICE_ID + self as u32)
    }

    /// The service that answers requests of this kind.
    pub(crate) fn answering(kind: Kind) -> Option<Service> {
        match kind {
            Kind::CAPS_REQUEST => Some(Service::Capabilities),
            kind => kind.is_namespace_request().then_some(Service::Namespace),
        }
    }
}

/// True if the id is for a service, of whatever node.
pub(crate) fn is_service(id: ActorId) -> bool {
    id.local() >= FIRST_SERVICE_ID
}

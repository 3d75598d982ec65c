//! The seam to other nodes.
//!
//! Whoever connects nodes registers a [`Router`] for each that it reaches. None does yet: a message
//! to another node comes back.

use std::collections::BTreeMap;

use sinew_core::NodeId;
use sinew_sync::{Arc, RwLock};

use crate::error::{SendError, Unsent};
use crate::message::Message;

/// Takes messages to another node.
pub(crate) trait Router: Send + Sync {
    /// Sends a message, or gives it back. Never waits.
    fn send(&self, message: Message) -> Result<(), SendError<Message>>;
}

/// The nodes that there is a way to.
pub(crate) struct Routers(RwLock<BTreeMap<NodeId, Arc<dyn Router>>>);

impl Routers {
    pub(crate) fn new() -> Routers {
        Routers(RwLock::new(BTreeMap::new()))
    }

    /// Sends a message to another node.
    pub(crate) fn send(&self, message: Message) -> Result<(), SendError<Message>> {
        let node = message.dest.node();
        let router = self.0.read().get(&node).cloned();
        match router {
            Some(router) => router.send(message),
            None => Err(SendError::new(message, Unsent::NoConnection(node))),
        }
    }

    /// How many nodes there is a way to.
    pub(crate) fn len(&self) -> usize {
        self.0.read().len()
    }

    /// There is a way to `node` from now on; the one that there was is returned.
    #[cfg_attr(any(not(test), loom, shuttle), expect(dead_code, reason = "the seam to other nodes"))]
    pub(crate) fn insert(&self, node: NodeId, router: Arc<dyn Router>) -> Option<Arc<dyn Router>> {
        self.0.write().insert(node, router)
    }

    /// There is no way to `node` any more.
    #[cfg_attr(any(not(test), loom, shuttle), expect(dead_code, reason = "the seam to other nodes"))]
    pub(crate) fn remove(&self, node: NodeId) -> Option<Arc<dyn Router>> {
        self.0.write().remove(&node)
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use sinew_core::{ActorId, Kind};
    use sinew_sync::Mutex;

    use super::*;
    use crate::Node;

    /// Takes one message, and gives back what comes after.
    struct One(Mutex<Option<Message>>);

    impl Router for One {
        fn send(&self, message: Message) -> Result<(), SendError<Message>> {
            let mut taken = self.0.lock();
            if taken.is_some() {
                return Err(SendError::new(message, Unsent::Full));
            }
            *taken = Some(message);
            Ok(())
        }
    }

    #[test]
    fn a_message_to_another_node_goes_by_its_router_or_comes_back() {
        let node = Node::builder().id(1).build().unwrap();
        let far = ActorId::new(NodeId(2), 7);
        let send = || node.send(far, Kind(3), &b"hello"[..]);
        let no_way = |error: SendError<Message>| {
            assert!(matches!(error.why, Unsent::NoConnection(NodeId(2))), "{error}");
            assert_eq!(error.item.payload.bytes(), b"hello");
        };
        no_way(send().unwrap_err());

        let router = Arc::new(One(Mutex::new(None)));
        assert!(node.0.routers.insert(NodeId(2), router.clone()).is_none());
        send().unwrap();
        let taken = router.0.lock().as_ref().map(|message| (message.dest, message.kind));
        assert_eq!(taken, Some((far, Kind(3))));
        assert!(matches!(send().unwrap_err().why, Unsent::Full));
        let elsewhere = node.send(ActorId::new(NodeId(3), 7), Kind(3), &b""[..]);
        assert!(matches!(elsewhere.unwrap_err().why, Unsent::NoConnection(NodeId(3))));

        assert!(node.0.routers.remove(NodeId(2)).is_some());
        no_way(send().unwrap_err());
    }
}

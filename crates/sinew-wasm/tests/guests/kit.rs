//! What the tests share: modules, and a native actor that talks to guests.

use std::path::PathBuf;
use std::sync::mpsc;
use std::time::Duration;

use sinew_kernel::{ActorId, ActorRef, Flow, Kind, Message, Node};
use sinew_sched::Runtime;
use sinew_wasm::{Engine, Module};

/// No answer takes this long; a test that waits longer hangs.
const PATIENCE: Duration = Duration::from_secs(60);

/// One of the modules in `guests/build`.
pub(crate) fn module(engine: &Engine, name: &str) -> Module {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../guests/build");
    engine.module_file(folder.join(name).with_extension("wasm")).unwrap()
}

/// A node with this many workers.
pub(crate) fn with_workers(workers: usize) -> Node {
    Node::builder().runtime(Runtime::builder().workers(workers)).build().unwrap()
}

/// A native actor that sends to guests, and hands what they answer to the test.
pub(crate) struct Peer {
    actor: ActorRef<Message>,
    node: sinew_kernel::NodeRef,
    answers: mpsc::Receiver<(ActorId, Kind, Vec<u8>)>,
}

/// What a peer is told to send.
struct Send(ActorId, Kind, Vec<u8>);

impl Peer {
    pub(crate) fn new(node: &Node) -> Peer {
        let (answer, answers) = mpsc::channel();
        let actor = node.actor().spawn_raw(answer, |answer, message, ctx| {
            match message.payload.downcast_ref::<Send>() {
                Some(Send(dest, kind, bytes)) => ctx.send(*dest, *kind, bytes.clone()).unwrap(),
                None => {
                    let _ = answer.send((message.source, message.kind, message.payload.bytes().to_vec()));
                }
            }
            Flow::Continue
        });
        Peer { actor: actor.unwrap(), node: **node, answers }
    }

    pub(crate) fn id(&self) -> ActorId {
        self.actor.id()
    }

    /// Sends to a guest as this actor.
    pub(crate) fn send(&self, to: ActorId, kind: u32, bytes: &[u8]) {
        let send = sinew_kernel::Payload::value(Send(to, Kind(kind), bytes.to_vec()));
        self.node.send(self.actor.id(), Kind(0), send).unwrap();
    }

    /// Waits for the next answer: its kind and its bytes.
    #[track_caller]
    pub(crate) fn answer(&self) -> (u32, Vec<u8>) {
        let (_, Kind(kind), bytes) = self.answers.recv_timeout(PATIENCE).expect("an answer");
        (kind, bytes)
    }

    /// Sends, and waits for the answer.
    #[track_caller]
    pub(crate) fn ask(&self, to: ActorId, kind: u32, bytes: &[u8]) -> (u32, Vec<u8>) {
        self.send(to, kind, bytes);
        self.answer()
    }
}

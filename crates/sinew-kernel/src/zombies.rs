//! Actors whose end was published and that run on.
//!
//! What such an actor does after its end was published is added to the books when it has ended after all. Two have to know for
//! that: whoever has given it up, how many messages were counted then, and its task, that it has ended. Who comes last adds.

use sinew_core::ActorId;
use sinew_sync::Mutex;

use crate::cell::Head;
use crate::node::Lifecycle;

#[derive(Default)]
pub(crate) struct Zombies(Mutex<Vec<Zombie>>);

struct Zombie {
    id: ActorId,
    /// How many messages it had begun when it was counted, if it was by now.
    counted: Option<u64>,
    has_ended: bool,
}

impl Zombies {
    /// One is about to be given up.
    pub(crate) fn add(&self, head: &Head) {
        self.0.lock().push(Zombie { id: head.id, counted: None, has_ended: false });
        head.node.lifecycle(|| Lifecycle::GivenUp(head.id));
        head.node.complain(&format!(
            "actor {} does not end although it was killed: it computes and never blocks; it counts as ended",
            head.id
        ));
    }

    /// It was not given up, as it has ended this moment.
    pub(crate) fn remove(&self, head: &Head) {
        self.0.lock().retain(|zombie| zombie.id != head.id);
    }

    /// It was given up, and its end was published with so many messages.
    pub(crate) fn counted(&self, head: &Head, begun: u64) {
        self.note(head, |zombie| zombie.counted = Some(begun));
    }

    /// It has ended after all.
    pub(crate) fn ended(&self, head: &Head) {
        self.note(head, |zombie| zombie.has_ended = true);
    }

    fn note(&self, head: &Head, note: impl FnOnce(&mut Zombie)) {
        let mut zombies = self.0.lock();
        let Some(at) = zombies.iter().position(|zombie| zombie.id == head.id) else { return };
        note(&mut zombies[at]);
        if let Zombie { counted: Some(begun), has_ended: true, .. } = zombies[at] {
            zombies.swap_remove(at);
            head.node.books.late(head.handled() - begun, head.take_failed());
        }
    }

    pub(crate) fn ids(&self) -> Vec<ActorId> {
        self.0.lock().iter().filter(|zombie| !zombie.has_ended).map(|zombie| zombie.id).collect()
    }
}

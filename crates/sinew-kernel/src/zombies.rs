//! Actors whose end was published and that run on.
//!
//! The messages that such an actor begins after its end was published are added to the books when
//! it has ended after all. Two threads know a part of that each: the one that gave the actor up
//! knows how many messages were counted then, and the actor's task knows that it has ended.
//! Whichever comes last gets the number, and adds ([`end`](crate::end)).

use sinew_core::ActorId;
use sinew_sync::Mutex;

#[derive(Default)]
pub(crate) struct Zombies(Mutex<Vec<Zombie>>);

struct Zombie {
    id: ActorId,
    /// How many messages it had begun when it was counted, if it was by now.
    counted: Option<u64>,
    has_ended: bool,
}

impl Zombies {
    /// Notes an actor that is about to be given up.
    pub(crate) fn add(&self, id: ActorId) {
        self.0.lock().push(Zombie { id, counted: None, has_ended: false });
    }

    /// Forgets an actor that was not given up, as it has ended this moment.
    pub(crate) fn remove(&self, id: ActorId) {
        self.0.lock().retain(|zombie| zombie.id != id);
    }

    /// Notes that the actor's end was published with so many messages. Returns their number if the
    /// actor has ended by now.
    #[must_use]
    pub(crate) fn counted(&self, id: ActorId, begun: u64) -> Option<u64> {
        self.note(id, |zombie| zombie.counted = Some(begun))
    }

    /// Notes that the actor has ended after all. Returns with how many messages its end was
    /// published, if that is known by now.
    #[must_use]
    pub(crate) fn ended(&self, id: ActorId) -> Option<u64> {
        self.note(id, |zombie| zombie.has_ended = true)
    }

    /// Gives memory back, as far as there are no zombies.
    pub(crate) fn shrink(&self) {
        self.0.lock().shrink_to_fit();
    }

    fn note(&self, id: ActorId, note: impl FnOnce(&mut Zombie)) -> Option<u64> {
        let mut zombies = self.0.lock();
        let at = zombies.iter().position(|zombie| zombie.id == id)?;
        note(&mut zombies[at]);
        let counted = zombies[at].counted.filter(|_| zombies[at].has_ended)?;
        zombies.swap_remove(at);
        Some(counted)
    }

    pub(crate) fn ids(&self) -> Vec<ActorId> {
        self.0.lock().iter().filter(|zombie| !zombie.has_ended).map(|zombie| zombie.id).collect()
    }
}

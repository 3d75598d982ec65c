//! Saves of an actor that report their outcome by a message.
//!
//! # Threads
//!
//! [`Ctx::save_then`] queues the value with the store and returns. The writer thread of the store
//! commits it, puts the outcome into the [`PendingSave`], and puts that into the actor's lane as a
//! [notice](crate::notice). When the actor takes the notice, its own task calls `report`, which
//! makes the message from the outcome.
//!
//! `report` is user code, and so is its destructor. The writer thread serves all actors of the
//! node, so it neither runs nor drops `report`: the `PendingSave` owns it, and the actor keeps the
//! `PendingSave` among its [services](crate::services::Owned) until it takes the notice. An actor
//! that ends first takes `report` out and drops it with the rest of its mailbox. The writer then
//! finds no actor to tell, and the value is saved nevertheless. An actor that is drained waits for
//! its saves before it ends.
//!
//! # Order
//!
//! The queue of the store, the answers of its writer and the lane are all first in, first out. So
//! the outcomes arrive in the order of the saves.
//!
//! Model: `save_report_against_end`.

use sinew_core::ActorId;
use sinew_sync::{Arc, Mutex};

use crate::cell::{AnyCell, BURIED, Cell, Lane, Phase};
use crate::ctx::Ctx;
use crate::notice::TypedNotice;
use crate::services::{Handled, Owner, Pending};
use crate::shared::Inner;
use crate::store::StoreError;

type Outcome = Result<(), StoreError>;

pub(crate) struct PendingSave<F> {
    /// Its key in [`Owned::saves`](crate::services::Owned::saves).
    number: u64,
    node: &'static Inner,
    owner: ActorId,
    state: Mutex<State<F>>,
}

struct State<F> {
    report: Option<F>,
    outcome: Option<Outcome>,
}

impl<F> PendingSave<F> {
    /// Notes the outcome, and tells the actor. Called by the writer thread.
    pub(crate) fn settle<M>(self: Arc<Self>, outcome: Outcome)
    where
        M: Send + 'static,
        F: FnOnce(Outcome) -> M + Send + 'static,
    {
        self.state.lock().outcome = Some(outcome);
        let cell = self.node.table.get(self.owner).map(AnyCell::as_any);
        if let Some(Ok(cell)) = cell.map(Arc::downcast::<Cell<M>>) {
            let _ = cell.push_lane(Lane::Typed(self)); // it may have ended
        }
    }
}

impl<F> PendingSave<F> {
    /// Takes the save out of the actor's services.
    fn forget(&self, owner: &dyn Owner) {
        drop(owner.services(|owned| owned.saves.remove(&self.number)));
    }
}

impl<F: Send> Pending for PendingSave<F> {
    fn cancel(&self) {
        let report = self.state.lock().report.take();
        drop(report); // without the lock
    }
}

impl<F: Send> Handled for PendingSave<F> {
    fn handled(self: Arc<Self>) {}
}

impl<M, F> TypedNotice<M> for PendingSave<F>
where
    F: FnOnce(Outcome) -> M + Send,
{
    fn message(&self, owner: &dyn Owner) -> Option<M> {
        self.forget(owner);
        let (report, outcome) = {
            let mut state = self.state.lock();
            (state.report.take()?, state.outcome.take()?)
        };
        Some(report(outcome))
    }
}

impl<M: Send + 'static> Cell<M> {
    /// True if an actor that is drained has saves whose outcomes it has not handled. Their notices
    /// wake it.
    pub(crate) fn awaits_saves(&self) -> bool {
        let state = self.lock();
        self.head.flags() & BURIED == 0
            && state.life.more.as_ref().is_some_and(|more| !more.services.saves.is_empty())
    }
}

/// # Saving
impl<M: Send + 'static> Ctx<'_, M> {
    /// Saves `value` under `key` in this actor's [state](Ctx::state) without waiting for the disk,
    /// and reports the outcome by a message.
    ///
    /// When the value is durable, or could not be saved, this actor receives the message that
    /// `report` makes from the outcome. It handles other messages meanwhile. Saves that are queued
    /// during a commit share the next one, so the number of commits that the disk makes does not
    /// bound the number of messages that the actor handles.
    ///
    /// ```
    /// use sinew_kernel::store::StoreError;
    /// use sinew_kernel::{Actor, Ctx, Flow, Node, Reply};
    ///
    /// struct Settings;
    ///
    /// enum Msg {
    ///     Set(&'static str, &'static str, Reply<bool>),
    ///     Saved(Result<(), StoreError>, Reply<bool>),
    /// }
    ///
    /// impl Actor for Settings {
    ///     type Msg = Msg;
    ///
    ///     fn handle(&mut self, msg: Msg, ctx: &mut Ctx<Msg>) -> Flow {
    ///         match msg {
    ///             Msg::Set(key, value, reply) => {
    ///                 let queued = ctx.save_then(key, value, |saved| Msg::Saved(saved, reply));
    ///                 queued.expect("the key is one, and the store is open");
    ///             }
    ///             Msg::Saved(saved, reply) => reply.send(saved.is_ok()),
    ///         }
    ///         Flow::Continue
    ///     }
    /// }
    ///
    /// let node = Node::new();
    /// let settings = node.actor().name("settings").spawn(Settings).unwrap();
    /// assert!(settings.ask(|reply| Msg::Set("colour", "green", reply)).unwrap());
    /// ```
    ///
    /// - The messages arrive in the order of the saves, in the lane of the system: a full mailbox
    ///   does not stop them.
    /// - `report` runs in the actor's task, when the actor takes the message.
    /// - An actor that is [drained](crate::ActorRef::drain) handles the outcomes of all its saves
    ///   before it ends. If the actor ends in another way, nothing is reported, and the value is
    ///   saved nevertheless: a drop or shutdown of the node waits for the queue of the store.
    /// - The call waits only while the queue of the store is [full](crate::store::Builder::queue).
    ///
    /// # Errors
    ///
    /// If the value was not queued; `report` is dropped then. [`BadOwner`](StoreError::BadOwner) if
    /// the actor has no name, [`BadKey`](StoreError::BadKey), [`TooLarge`](StoreError::TooLarge),
    /// [`Closed`](StoreError::Closed), and [`Refused`](StoreError::Refused) if the queue is full
    /// and the caller cannot wait.
    pub fn save_then<F>(&self, key: &str, value: impl Into<Vec<u8>>, report: F) -> Result<(), StoreError>
    where
        F: FnOnce(Result<(), StoreError>) -> M + Send + 'static,
    {
        let value = value.into();
        let save = self.begin_save(report);
        let queued = {
            let save = save.clone();
            self.state().save_reporting(key, value, move |outcome| save.settle(outcome))
        };
        if queued.is_err() {
            save.forget(&**self.cell);
            save.cancel();
        }
        queued
    }

    /// Registers a save whose outcome is reported to this actor.
    pub(crate) fn begin_save<F>(&self, report: F) -> Arc<PendingSave<F>>
    where
        F: FnOnce(Outcome) -> M + Send + 'static,
    {
        let head = &self.cell.head;
        let (node, owner, number) = (head.node, head.id, head.node.next_number());
        let state = Mutex::new(State { report: Some(report), outcome: None });
        let save = Arc::new(PendingSave { number, node, owner, state });
        let mut state = self.cell.lock();
        if state.life.phase < Phase::Leaving {
            state.life.more().services.saves.insert(number, save.clone());
            drop(state);
        } else {
            drop(state);
            save.cancel(); // a zombie: its value is saved, and nothing is reported
        }
        save
    }
}

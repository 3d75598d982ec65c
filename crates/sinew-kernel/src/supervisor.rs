//! Supervisors: actors that start others, and start them again when they fail.

mod command;
mod machine;
#[cfg(all(test, not(loom)))]
mod models;
mod spec;

use std::fmt;
use std::time::Duration;

use sinew_core::{Intensity, Strategy};

pub use command::{ChildCounts, ChildInfo, ChildState, SupervisorError, SupervisorRef};
pub use spec::ChildSpec;

use crate::ctx::Ctx;
use crate::error::SpawnError;
use crate::patience::Patience;
use crate::shared::NodeRef;
use crate::spawn::ActorBuilder;
use machine::Machine;

/// The options of a supervisor: an actor that starts its children in order, restarts those that fail, and stops them in
/// reverse order when it ends; with [`Strategy::Dynamic`] all at once.
///
/// ```
/// use std::time::Duration;
/// use sinew_kernel::{Actor, ChildSpec, Ctx, Flow, Node, Reply, Restart, Strategy};
///
/// struct Divider;
///
/// struct Divide(u32, u32, Reply<u32>);
///
/// impl Actor for Divider {
///     type Msg = Divide;
///     fn handle(&mut self, Divide(a, b, reply): Divide, _: &mut Ctx<Divide>) -> Flow {
///         reply.send(a / b);
///         Flow::Continue
///     }
/// }
///
/// let node = Node::new();
/// let supervisor = node
///     .supervisor(Strategy::OneForOne)
///     .max_restarts(5, Duration::from_secs(10))
///     .child(ChildSpec::new("divider", || Divider).restart(Restart::Permanent))
///     .spawn()
///     .unwrap();
///
/// let divider = supervisor.child_ref::<Divide>("divider").unwrap();
/// assert!(divider.ask(|reply| Divide(1, 0, reply)).is_err());
/// divider.join().unwrap();
///
/// // Another one has taken its place.
/// let divider = supervisor.child_ref::<Divide>("divider").unwrap();
/// assert_eq!(divider.ask(|reply| Divide(84, 2, reply)).unwrap(), 42);
/// ```
#[must_use = "a supervisor does nothing until `spawn`"]
pub struct Supervisor {
    spawn: ActorBuilder,
    strategy: Strategy,
    intensity: Intensity,
    specs: Vec<ChildSpec>,
}

impl Supervisor {
    pub(crate) fn new(spawn: ActorBuilder, strategy: Strategy) -> Supervisor {
        Supervisor { spawn, strategy, intensity: Intensity::default(), specs: Vec::new() }
    }

    /// A name on the node. One that is itself a child gets the name of its [`ChildSpec`] instead.
    pub fn name(mut self, name: impl Into<Box<str>>) -> Supervisor {
        self.spawn = self.spawn.name(name);
        self
    }

    /// How many restarts there may be within a time: with one more it stops its children and ends, with
    /// [`RestartsExceeded`](crate::ExitReason::RestartsExceeded). One in five seconds if not said.
    pub fn max_restarts(mut self, max_restarts: u32, window: Duration) -> Supervisor {
        self.intensity = Intensity { max_restarts, window };
        self
    }

    /// One more child, which is started after the others.
    pub fn child(mut self, spec: ChildSpec) -> Supervisor {
        self.specs.push(spec);
        self
    }

    /// Starts the supervisor, and does not wait for it: [`SupervisorRef::wait_started`] does.
    ///
    /// # Errors
    ///
    /// If two children have the same key, if a name of a child is none or its mailbox would hold nothing, if the supervisor's own
    /// name is none or is taken, if the node has as many actors as it may, or shuts down.
    #[track_caller]
    pub fn spawn(self) -> Result<SupervisorRef, SpawnError> {
        let machine = Machine::new(self.strategy, self.intensity, self.specs);
        if let Some(fault) = machine.fault {
            return Err(fault);
        }
        self.spawn.patience(Patience::Forever).start_body(machine).map(SupervisorRef)
    }

    fn into_machine(self) -> Machine {
        Machine::new(self.strategy, self.intensity, self.specs)
    }
}

impl fmt::Debug for Supervisor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Supervisor")
            .field("strategy", &self.strategy)
            .field("intensity", &self.intensity)
            .field("children", &self.specs)
            .finish()
    }
}

impl NodeRef {
    /// The options of a supervisor that restarts its children with this strategy.
    pub fn supervisor(self, strategy: Strategy) -> Supervisor {
        Supervisor::new(self.actor(), strategy)
    }
}

impl<M: Send + 'static> Ctx<'_, M> {
    /// The options of a supervisor that is a child of this actor.
    pub fn supervisor(&self, strategy: Strategy) -> Supervisor {
        Supervisor::new(self.child(), strategy)
    }
}

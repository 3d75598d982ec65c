//! What the host calls of a guest need to know of it: its options, and what it shares with others.

use std::pin::Pin;
use std::sync::Arc;

use sinew_kernel::ActorId;
use sinew_kernel::raw::Inbox;

use crate::class::StackClass;
use crate::cpu_times::CpuTimes;
use crate::grants::Grants;
use crate::limits::Limits;
use crate::memory_budget::MemoryBudget;

/// The options of a guest.
#[derive(Clone, Debug)]
pub(crate) struct Options {
    pub(crate) class: StackClass,
    pub(crate) limits: Limits,
    pub(crate) grants: Grants,
    /// The name of its module: argument 0.
    pub(crate) name: Arc<str>,
    /// Its arguments after that.
    pub(crate) args: Vec<Box<str>>,
    /// Its environment: names and values.
    pub(crate) env: Vec<(Box<str>, Box<str>)>,
}

/// What the instances of a guest share.
pub(crate) struct Profile {
    pub(crate) options: Options,
    /// The memory of all guests of the engine.
    pub(crate) memory: Arc<MemoryBudget>,
    pub(crate) cpu_times: Arc<CpuTimes>,
    /// Starts modules as children of a guest.
    pub(crate) spawner: Box<dyn Spawner>,
}

/// A module that a guest wants to start as its child.
pub(crate) struct ChildModule {
    pub(crate) source: Vec<u8>,
    pub(crate) mailbox: u32,
    pub(crate) limits: Limits,
    pub(crate) grants: Grants,
}

/// Starts modules as children of a guest.
pub(crate) trait Spawner: Send + Sync {
    /// Returns the id of the child, or why there is none.
    fn spawn(&self, parent: Inbox, child: ChildModule) -> Spawning;
}

pub(crate) type Spawning = Pin<Box<dyn Future<Output = Result<ActorId, String>> + Send>>;

//! What the host has for a running guest: the data of its store.

use std::sync::Arc;

use sinew_kernel::raw::Inbox;
use sinew_kernel::{ActorId, Kind, Level};
use wasmtime::{Memory, ResourceLimiter, StoreContextMut, UpdateDeadline};

use crate::cpu::Cpu;
use crate::log_lines::LogLines;
use crate::profile::Profile;

/// The data of a guest's store.
pub(crate) struct GuestState {
    pub(crate) profile: Arc<Profile>,
    pub(crate) inbox: Inbox,
    /// Its exported memory, once it is instantiated.
    pub(crate) memory: Option<Memory>,
    pub(crate) cpu: Cpu,
    pub(crate) log: LogLines,
    /// The sender of the message that it handles, which it may always answer.
    pub(crate) source: ActorId,
    pub(crate) kind: Kind,
    /// Bytes that it has of the engine's budget.
    memory_bytes: usize,
    table_elements: usize,
}

/// Bytes of an element of a table.
const TABLE_ELEMENT: usize = size_of::<usize>();

impl GuestState {
    pub(crate) fn new(profile: Arc<Profile>, inbox: Inbox) -> GuestState {
        GuestState {
            profile,
            inbox,
            memory: None,
            cpu: Cpu::new(),
            log: LogLines::default(),
            source: ActorId::NOBODY,
            kind: Kind(0),
            memory_bytes: 0,
            table_elements: 0,
        }
    }

    /// A message begins to be handled.
    pub(crate) fn begin_message(&mut self, source: ActorId, kind: Kind) {
        (self.source, self.kind) = (source, kind);
        self.cpu.begin_message();
    }

    /// Writes a line to the log of the actor, unless it has written too many.
    pub(crate) fn log(&mut self, level: Level, text: &str) {
        let limit = self.profile.options.limits.log_lines;
        let ctx = self.inbox.ctx();
        if let Some(lost) = self.log.admit(limit) {
            if lost > 0 {
                ctx.log(
                    Level::Warn,
                    format_args!("{lost} lines were dropped: more than {limit} in a second"),
                );
            }
            ctx.log(level, text);
        }
    }

    /// Notes that a call was denied for want of a grant.
    pub(crate) fn denied(&mut self, call: &str, what: std::fmt::Arguments<'_>) {
        self.log(Level::Warn, &format!("{call} denied: {what}; grant it in the guest's `Grants`"));
    }

    /// A tick has hit the guest.
    pub(crate) fn tick(mut context: StoreContextMut<'_, GuestState>) -> wasmtime::Result<UpdateDeadline> {
        let state = context.data_mut();
        let options = &state.profile.options;
        Ok(state.cpu.tick(&options.limits, options.class.can_block())?)
    }

    fn take(&self, bytes: usize) -> bool {
        self.profile.memory.take(bytes)
    }
}

impl ResourceLimiter for GuestState {
    fn memory_growing(&mut self, current: usize, desired: usize, _: Option<usize>) -> wasmtime::Result<bool> {
        let more = desired.saturating_sub(current);
        let sum = self.memory_bytes.saturating_add(more);
        let grows = sum <= self.profile.options.limits.memory && self.take(more);
        if grows {
            self.memory_bytes = sum;
        }
        Ok(grows)
    }

    fn table_growing(&mut self, current: usize, desired: usize, _: Option<usize>) -> wasmtime::Result<bool> {
        let more = desired.saturating_sub(current);
        let sum = self.table_elements.saturating_add(more);
        let grows = sum <= self.profile.options.limits.table_elements
            && self.take(more.saturating_mul(TABLE_ELEMENT));
        if grows {
            self.table_elements = sum;
        }
        Ok(grows)
    }

    fn instances(&self) -> usize {
        1
    }
}

impl Drop for GuestState {
    fn drop(&mut self) {
        self.profile.memory.give_back(self.memory_bytes + self.table_elements * TABLE_ELEMENT);
    }
}

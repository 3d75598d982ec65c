//! What the host has for a running guest: the data of its store.

use std::mem;
use std::sync::Arc;

use sinew_kernel::raw::Inbox;
use sinew_kernel::{ActorId, Kind, Level};
use wasmtime::{Memory, ResourceLimiter, StoreContextMut, UpdateDeadline};

use crate::cpu::Cpu;
use crate::fds::Fds;
use crate::log_lines::LogLines;
use crate::profile::{Options, Profile};

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
    /// Its file descriptors, once it has used one or was granted a directory: most guests have none.
    fds: Option<Box<Fds>>,
    /// Bytes that it has of the engine's budget.
    memory_bytes: usize,
    table_elements: usize,
    /// Bytes that were taken for the growth of a memory that is under way.
    growing: usize,
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
            fds: None,
            memory_bytes: 0,
            table_elements: 0,
            growing: 0,
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

    /// Opens the directories that it was granted.
    pub(crate) async fn open_directories(&mut self) -> wasmtime::Result<()> {
        let Options { grants, limits, .. } = &self.profile.options;
        if !grants.directories().is_empty() {
            // Boxed: the future of every guest has room for this one.
            let opening = Box::pin(Fds::open(limits.fds, grants.directories().to_vec()));
            self.fds = Some(Box::new(opening.await?));
        }
        Ok(())
    }

    /// Returns its file descriptors.
    pub(crate) fn fds(&mut self) -> &Fds {
        let limit = self.profile.options.limits.fds;
        self.fds.get_or_insert_with(|| Box::new(Fds::new(limit)))
    }

    /// Logs the lines that it has written to its standard output and error.
    pub(crate) fn log_output(&mut self) {
        let Some(fds) = &self.fds else { return };
        for (level, line) in fds.take_lines() {
            self.log(level, String::from_utf8_lossy(&line).trim_end_matches('\r'));
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
        let update = state.cpu.tick(&options.limits, options.class.can_block());
        if !state.cpu.total().is_zero() {
            state.profile.cpu_times.set(state.inbox.id(), state.cpu.total());
        }
        Ok(update?)
    }

    fn take(&self, bytes: usize) -> bool {
        self.profile.memory.take(bytes)
    }
}

impl ResourceLimiter for GuestState {
    fn memory_growing(
        &mut self,
        current: usize,
        desired: usize,
        maximum: Option<usize>,
    ) -> wasmtime::Result<bool> {
        let more = desired.saturating_sub(current);
        let sum = self.memory_bytes.saturating_add(more);
        let may = maximum.is_none_or(|maximum| desired <= maximum);
        let grows = may && sum <= self.profile.options.limits.memory && self.take(more);
        self.growing = 0;
        if grows {
            (self.memory_bytes, self.growing) = (sum, more);
        }
        Ok(grows)
    }

    fn memory_grow_failed(&mut self, _: wasmtime::Error) -> wasmtime::Result<()> {
        let more = mem::take(&mut self.growing);
        self.memory_bytes -= more;
        self.profile.memory.give_back(more);
        Ok(())
    }

    fn table_growing(
        &mut self,
        current: usize,
        desired: usize,
        maximum: Option<usize>,
    ) -> wasmtime::Result<bool> {
        let more = desired.saturating_sub(current);
        let sum = self.table_elements.saturating_add(more);
        let may = maximum.is_none_or(|maximum| desired <= maximum);
        let grows = may
            && sum <= self.profile.options.limits.table_elements
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
        if let Some(fds) = &self.fds {
            fds.table.close_all();
            self.log_output(); // the last line may have had no end
        }
        if !self.cpu.total().is_zero() {
            self.profile.cpu_times.forget(self.inbox.id());
        }
        self.profile.memory.give_back(self.memory_bytes + self.table_elements * TABLE_ELEMENT);
    }
}

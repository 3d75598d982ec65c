//! What a supervisor does when it is asked to, by a [`Command`]: it starts, stops, forgets and lists children.

use sinew_core::{ActorId, ExitReason, Restart};

use super::{Asked, Child, Machine, Place, Run};
use crate::ask::Reply;
use crate::ctx::Ctx;
use crate::supervisor::command::{ChildCounts, ChildInfo, ChildState, Command, SupervisorError};
use crate::supervisor::spec::ChildSpec;

impl Machine {
    /// Does what `command` says, as far as that can be done by now.
    pub(super) fn obey(&mut self, command: Command, ctx: &Ctx<'_, Command>) {
        match command {
            Command::StartChild(spec, asked) => self.start_child(*spec, asked, ctx),
            Command::RestartChild(key, asked) => self.restart_child(&key, asked, ctx),
            Command::TerminateChild(key, asked) => self.terminate_child(&key, asked, ctx),
            Command::DeleteChild(key, asked) => asked.send(self.delete_child(&key, ctx)),
            Command::WhichChildren(asked) => asked.send(self.which_children()),
            Command::CountChildren(asked) => asked.send(self.count_children()),
            Command::Child(key, asked) => {
                asked.send(self.place(&key).map(|place| self.child(place).id()));
            }
            Command::WhenStarted(asked) => self.waits.push(asked),
        }
    }

    /// Starts a child that is down, and tells whoever asked how that went.
    fn start_for(
        &mut self,
        place: Place,
        new: bool,
        asked: Reply<Result<ActorId, SupervisorError>>,
        ctx: &Ctx<'_, Command>,
    ) {
        self.child(place).answers().start = Some((asked, new));
        if self.is_one_for_one() && self.is_settled() {
            self.start(place, ctx);
        } else {
            self.to_start.insert(place);
        }
    }

    fn start_child(
        &mut self,
        spec: ChildSpec,
        asked: Reply<Result<ActorId, SupervisorError>>,
        ctx: &Ctx<'_, Command>,
    ) {
        if self.ending.is_some() {
            return asked.send(Err(SupervisorError::Ending));
        }
        match self.add(spec) {
            Ok(place) => self.start_for(place, true, asked, ctx),
            Err(key) => asked.send(Err(SupervisorError::Exists(key))),
        }
    }

    fn restart_child(
        &mut self,
        key: &str,
        asked: Reply<Result<ActorId, SupervisorError>>,
        ctx: &Ctx<'_, Command>,
    ) {
        match self.place_of_stopped(key) {
            Ok(place) => self.start_for(place, false, asked, ctx),
            Err(error) => asked.send(Err(error)),
        }
    }

    fn delete_child(&mut self, key: &str, ctx: &Ctx<'_, Command>) -> Result<(), SupervisorError> {
        let place = self.place_of_stopped(key)?;
        self.remove(place, ctx);
        Ok(())
    }

    fn place(&self, key: &str) -> Result<Place, SupervisorError> {
        self.keys.get(key).copied().ok_or_else(|| SupervisorError::NoChild(key.into()))
    }

    /// A child that does not run, and is not about to.
    fn place_of_stopped(&mut self, key: &str) -> Result<Place, SupervisorError> {
        let place = self.place(key)?;
        if self.ending.is_some() {
            return Err(SupervisorError::Ending);
        }
        let is_stopped = matches!(self.child(place).run, Run::Down) && !self.to_start.contains(&place);
        if is_stopped { Ok(place) } else { Err(SupervisorError::NotStopped(key.into())) }
    }

    fn terminate_child(
        &mut self,
        key: &str,
        asked: Reply<Result<(), SupervisorError>>,
        ctx: &Ctx<'_, Command>,
    ) {
        let place = match self.place(key) {
            Ok(place) => place,
            Err(error) => return asked.send(Err(error)),
        };
        self.to_start.remove(&place);
        let child = self.child(place);
        if child.will_end() {
            child.answers().stop.push(asked);
            return self.ask_to_end(place, Asked::ByCommand, ctx);
        }
        let mut new = child.spec.restart == Restart::Temporary;
        if let Some((starts, is_new)) = child.take_start_answer() {
            starts.send(Err(SupervisorError::Failed(ExitReason::Shutdown)));
            new |= is_new;
        }
        if let Run::Waiting(ticket, timer) = child.run {
            child.run = Run::Down;
            self.forget((ticket, timer), ctx);
        }
        if new {
            self.remove(place, ctx);
        }
        asked.send(Ok(()));
    }

    fn which_children(&self) -> Vec<ChildInfo> {
        let info = |(place, child): (&Place, &Child)| ChildInfo {
            key: child.spec.key.clone(),
            id: child.id(),
            state: match child.run {
                _ if child.asked != Asked::No => ChildState::Stopping,
                Run::Up(..) => ChildState::Running,
                Run::Starting(_) | Run::Failing => ChildState::Starting,
                Run::Waiting(..) => ChildState::Waiting,
                Run::Down if self.to_start.contains(place) => ChildState::Waiting,
                Run::Down => ChildState::Stopped,
            },
            restart: child.spec.restart,
            restarts: child.starts.saturating_sub(1),
            last_exit: child.last_exit.clone(),
            is_supervisor: child.spec.is_supervisor,
        };
        self.children.iter().map(info).collect()
    }

    fn count_children(&self) -> ChildCounts {
        let children = self.children.values();
        ChildCounts {
            specs: self.children.len(),
            active: self.ids.len(),
            supervisors: children.filter(|child| child.spec.is_supervisor).count(),
        }
    }
}

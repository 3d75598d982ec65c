//! What tasks are called, for who looks on: dumps, sysmon's reports, the report of a shutdown.
//!
//! A task that was given a name has it here, from its spawn to its end. What runs in [turns](crate::turn) costs nothing to
//! name: whoever has started it is asked, when somebody wants to know ([`Handle::name_turns_by`](crate::Handle)).
//!
//! Names are asked for by any thread, sysmon's included, and while workers are stuck. So the lock here is held for some
//! instructions, never while whoever names turns is called, and that one keeps to the same rule.

use std::borrow::Cow;
use std::collections::HashMap;

use sinew_sync::Mutex;
use sinew_sync::statics::OnceLock;

use crate::task_id::TaskId;

/// Says of some tasks what they are called, of those that it knows.
type NameTurns = dyn Fn(&[TaskId]) -> HashMap<TaskId, String> + Send + Sync;

pub(crate) struct Names {
    given: Mutex<HashMap<TaskId, Cow<'static, str>>>,
    of_turns: OnceLock<Box<NameTurns>>,
}

impl Names {
    pub(crate) fn new() -> Names {
        Names { given: Mutex::new(HashMap::new()), of_turns: OnceLock::new() }
    }

    /// The task is called so, until it is forgotten.
    pub(crate) fn insert(&self, task: TaskId, name: Cow<'static, str>) {
        self.given.lock().insert(task, name);
    }

    /// The task, which may have a name, has ended.
    pub(crate) fn forget(&self, task: TaskId) {
        self.given.lock().remove(&task);
    }

    /// Asks this one what turns are called, unless there is one that is asked already.
    pub(crate) fn set_of_turns(&self, names: Box<NameTurns>) {
        let _ = self.of_turns.set(names);
    }

    /// What these tasks are called, those that have a name.
    pub(crate) fn of(&self, tasks: &[TaskId]) -> HashMap<TaskId, String> {
        let mut names = self.of_turns.get().map_or_else(HashMap::new, |names| names(tasks));
        let given = self.given.lock();
        if !given.is_empty() {
            let named = tasks.iter().filter_map(|task| Some((*task, given.get(task)?.to_string())));
            names.extend(named);
        }
        names
    }
}

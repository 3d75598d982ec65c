//! What a scheduler builds on: bare switches between stacks, and tasks as roots. For `sinew-sched`; most of it
//! is `unsafe`, and nothing else needs it.

pub use crate::bindings::{Inherited, inherit_bindings};
pub use crate::control::{Remote, Word};
pub use crate::inside::{Inside, look_inside};
pub use crate::overflow::name_actors_by;
pub use crate::raise::abandon;
pub use crate::scopes::{is_shielded, open_scope, polling};
pub use crate::switch::{Entry, StackPointer, is_switching, prepare, switch};
pub use crate::task::{
    Place, Running, TaskSetup, in_task, is_running, leave_tasks, place_task_root, run_task,
    set_task_bindings, set_task_mask, set_task_name,
};
pub use crate::unwind::{catch, re_raise};
pub use crate::wait::{await_for, may_await, ready_to_await};

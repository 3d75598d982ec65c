//! What a scheduler builds on: bare switches between stacks, and tasks as roots. For `sinew-sched`; most of it
//! is `unsafe`, and nothing else needs it.

pub use crate::bindings::{Inherited, inherit_bindings};
pub use crate::control::{Remote, Word};
pub use crate::inside::{Inside, look_inside};
pub use crate::memory::cache::{
    ask as ask_for_cached_stacks, empty as empty_stack_cache, is_asked as is_stack_cache_asked,
    is_empty as is_stack_cache_empty,
};
pub use crate::memory::{Idle, tell_of_trims_by, trim_idle};
pub use crate::overflow::{OverflowTag, tag_overflows_by};
pub use crate::report::{report, write_stderr};
pub use crate::root::with_hook;
pub use crate::scopes::{is_shielded, open_scope, polling};
pub use crate::suspend::abandon;
pub use crate::switch::{Entry, StackPointer, is_switching, prepare, switch};
pub use crate::task::{
    Place, Running, TaskSetup, in_task, is_running, leave_tasks, place_task_root, run_task,
    set_task_bindings, set_task_mask, set_task_name,
};
pub use crate::terminal::{catch, re_raise};
pub use crate::wait::{await_for, may_await, ready_to_await};

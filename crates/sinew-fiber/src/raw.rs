//! What a scheduler builds on: bare switches between stacks, and tasks as roots. For `sinew-sched`; most of it
//! is `unsafe`, and nothing else needs it.

pub use crate::bindings::{Inherited, inherit_bindings};
pub use crate::catching::{catching, reraise};
pub use crate::control::Word;
pub use crate::switch::{Entry, StackPointer, prepare, switch};
pub use crate::task::{
    Running, TaskSetup, leave_tasks, place_task_root, run_task, set_task_bindings, set_task_mask,
    set_task_name,
};

pub fn may_await() -> Result<(), crate::Refused> {
    Ok(())
}
pub fn polling<T>(f: impl FnOnce() -> T) -> T {
    f()
}
pub fn open_scope<T>(f: impl FnOnce() -> T) -> T {
    f()
}
pub fn abandon() -> bool {
    false
}
pub fn is_shielded() -> bool {
    false
}

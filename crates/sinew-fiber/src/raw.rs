//! What a scheduler builds on: bare switches between stacks, and tasks as roots. For `sinew-sched`; most of it
//! is `unsafe`, and nothing else needs it.

pub use crate::control::Word;
pub use crate::root::{Running, leave_tasks, run_task, task_root};
pub use crate::switch::{Entry, StackPointer, prepare, switch};
pub fn may_await() -> Result<(), crate::Refused> {
    Ok(())
}
pub fn polling<T>(f: impl FnOnce() -> T) -> T {
    f()
}

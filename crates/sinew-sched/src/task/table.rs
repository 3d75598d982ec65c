//! What a task does that depends on the type of its body: one table for each type.

use std::mem;
use std::ptr;

use sinew_fiber::StackSize;

use super::{Kind, Ran, Task, fits};
use crate::core::Core;
use crate::failure::{SupervisedError, report_failure};

/// The options of a task that the scheduler itself asks for, before and while it runs.
#[derive(Default)]
pub(crate) struct StartOptions {
    /// None: the runtime's.
    pub(crate) stack: Option<StackSize>,
    /// Never stolen, also before it has started.
    pub(crate) pinned: bool,
}

/// What runs, and how its result is taken; one table per type of body.
pub(crate) struct Table {
    pub(crate) kind: Kind,
    /// There are options.
    pub(crate) configured: bool,
    /// Runs the body that lies in the slot, or polls it, and puts the result, or what ended it, in its place.
    pub(crate) run: unsafe fn(&'static Task, &Core) -> Ran,
    /// Drops the result, or what ended the task; none if there is nothing to drop.
    pub(crate) drop_result: Option<unsafe fn(&'static Task)>,
    /// Finds the options of a body that has not ended; null if it has none.
    pub(crate) options: unsafe fn(&Task) -> *const StartOptions,
    /// Tells a body that runs in turns that its turn blocks.
    pub(crate) blocks: unsafe fn(&'static Task),
    /// What a body that runs in turns says that it is.
    pub(crate) tag: unsafe fn(&'static Task) -> u64,
    /// The type of the body, and its size.
    pub(crate) type_name: fn() -> &'static str,
    pub(crate) size: usize,
}

/// The table of a task that ended with a signal, which is in its storage instead of a result. So a small result
/// needs no allocation.
pub(super) static RAISED: Table = Table {
    kind: Kind::Thunk,
    configured: false,
    run: never_again,
    drop_result: Some(drop_raised),
    options: no_options,
    blocks: never_blocks,
    tag: no_tag,
    type_name: || "",
    size: 0,
};

pub(crate) unsafe fn never_again(_: &'static Task, _: &Core) -> Ran {
    unreachable!("a task that has ended does not run");
}

/// Drops what a task ended with, which nobody has asked for. A failure is reported, unless a supervisor sees it.
///
/// # Safety
///
/// The caller frees the task, and what it was raised with was not taken.
unsafe fn drop_raised(task: &'static Task) {
    // SAFETY: the caller's promise.
    let raised = unsafe { task.take_raised() };
    match raised.value.downcast_ref::<SupervisedError>() {
        Some(told) => told.goes_unjoined(task.id()),
        None if raised.is_cancelled() => (),
        None => report_failure(task.id(), format_args!("{raised:#}")),
    }
}

/// What drops a result of type `T`.
pub(crate) const fn drop_result<T>() -> Option<unsafe fn(&'static Task)> {
    /// # Safety
    ///
    /// The caller frees the task, and its result, of type `T`, was not taken.
    unsafe fn drop_it<T>(task: &'static Task) {
        // SAFETY: the caller's promise.
        drop(unsafe { task.take::<T>() });
    }
    if fits::<T>() && !mem::needs_drop::<T>() { None } else { Some(drop_it::<T>) }
}

/// A body that does not run in turns is not asked.
///
/// # Safety
///
/// None is needed.
pub(crate) unsafe fn never_blocks(_: &'static Task) {}

/// A body that does not run in turns.
///
/// # Safety
///
/// None is needed.
pub(crate) unsafe fn no_tag(_: &'static Task) -> u64 {
    0
}

/// A body without options.
///
/// # Safety
///
/// None is needed.
pub(crate) unsafe fn no_options(_: &Task) -> *const StartOptions {
    ptr::null()
}

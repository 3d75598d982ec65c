//! The options of a task, beside its body in its slot.

use std::borrow::Cow;

use sinew_core::Mask;
use sinew_fiber::raw::Inherited;
use sinew_fiber::{Cancelled, Raised};
use sinew_sync::Arc;

use crate::children::{Children, cancelled};
use crate::events::{EventSender, STOPPING, Supervised};
use crate::join::JoinHandle;
use crate::shared::RuntimeId;
use crate::slots;
use crate::task::{StartOptions, Task};

/// What a task was started with besides its body. What the scheduler itself asks for comes first: see [`options_of`].
#[derive(Default)]
#[repr(C)]
pub(crate) struct Options {
    pub(crate) start: StartOptions,
    pub(crate) name: Option<Cow<'static, str>>,
    pub(crate) supervisor: Option<EventSender>,
    /// Signals that stop it for its supervisor, besides those that stop any supervised task.
    pub(crate) stops: Option<Mask>,
    pub(crate) bindings: Option<Inherited>,
    /// The scope that waits for it.
    pub(crate) scope: Option<Arc<Children>>,
}

impl Options {
    /// The handle of a task with these options that was over before it began, because its runtime has ended.
    #[track_caller]
    pub(crate) fn over<T>(self) -> JoinHandle<T> {
        let handle = over(cancelled());
        if let Some(events) = self.supervisor {
            let supervised = Supervised { events, task: handle.id(), name: self.name, stops: STOPPING };
            drop(supervised.raised(cancelled(), Cancelled.to_string()));
        }
        handle
    }
}

/// A body with options.
#[repr(C)]
pub(crate) struct Configured<F> {
    pub(crate) options: Options,
    pub(crate) body: F,
}

/// The handle of a task that was over before it began, because its runtime has ended.
#[track_caller]
pub(crate) fn over<T>(raised: Raised) -> JoinHandle<T> {
    let task = slots::take_loose();
    // SAFETY: a fresh slot, which holds no result of any type.
    unsafe {
        task.prepare_ended(raised);
        JoinHandle::new(task, RuntimeId::NONE)
    }
}

/// # Safety
///
/// The task has a body of type `C`, a [`Configured`], that has not ended.
pub(crate) unsafe fn options_of<C>(task: &Task) -> *const Options {
    // SAFETY: the caller's promise; the options come first in it.
    unsafe { task.stored::<C>().cast() }
}

/// # Safety
///
/// As for [`options_of`].
pub(crate) unsafe fn start_options_of<C>(task: &Task) -> *const StartOptions {
    // SAFETY: the caller's promise. They come first in the options.
    unsafe { options_of::<C>(task).cast() }
}

//! `FiberRef`: a fiber or root seen by somebody who does not own it.

use std::borrow::Cow;
use std::fmt;
use std::marker::PhantomData;
use std::rc::Rc;

use sinew_core::{Mask, Status};

use crate::record::Record;
use crate::trace::Link;

/// A view of a fiber or a root that does not own it: names it, shows its status, and keeps nothing running.
///
/// A root that a scheduler runs one task after the other under shows the one that runs.
///
/// ```compile_fail,E0277
/// let view = sinew_fiber::current();
/// std::thread::spawn(move || view.id()); // like the fiber, it stays on its thread
/// ```
#[derive(PartialEq, Eq)]
pub struct FiberRef {
    record: *const Record,
    _thread: PhantomData<Rc<()>>,
}

impl FiberRef {
    pub(crate) fn of(record: &Record) -> FiberRef {
        record.add_ref();
        FiberRef { record, _thread: PhantomData }
    }

    pub(crate) fn record(&self) -> &Record {
        // SAFETY: `self` owns a reference.
        unsafe { &*self.record }
    }

    /// The number of the fiber, unique in the process.
    pub fn id(&self) -> u64 {
        self.record().id.get()
    }

    /// The name that it was given.
    pub fn name(&self) -> Option<Cow<'static, str>> {
        self.record().name()
    }

    /// The number of the last signal, or new, or alive.
    pub fn status(&self) -> Status {
        self.record().status()
    }

    /// False once the fiber has ended.
    pub fn can_resume(&self) -> bool {
        self.status().can_resume()
    }

    /// The signals that whoever resumes the fiber catches; of a root, those that its hook is called for.
    pub fn mask(&self) -> Mask {
        self.record().mask.get() | self.record().hook_mask.get()
    }

    /// Its name and where it was created.
    pub fn link(&self) -> Link {
        self.record().link()
    }
}

impl Clone for FiberRef {
    fn clone(&self) -> FiberRef {
        FiberRef::of(self.record())
    }
}

impl Drop for FiberRef {
    fn drop(&mut self) {
        // SAFETY: our own reference. The owner's is given up only after the body has ended, so if ours is the
        // last it has.
        unsafe { Record::release(self.record) };
    }
}

impl fmt::Debug for FiberRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "FiberRef({}, {})", self.record().label(), self.status())
    }
}

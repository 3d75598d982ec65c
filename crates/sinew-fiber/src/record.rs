//! The record of a fiber: everything about it but its frames.
//!
//! A record is separate from the stack that the fiber runs on: a root borrows the stack that it finds
//! itself on (see [`crate::run_as_root`]), while a [`crate::Fiber`] owns one and keeps its record in that
//! stack's top page. So does the root of a scheduler's tasks (see [`crate::task`]).
//!
//! # Links
//!
//! While a fiber runs or is stopped below another, `parent` and `child` link the two, so a chain leads from
//! the root to the *leaf*, the fiber that runs or that raised the signal on which the chain stopped. A
//! fiber that is stopped and free to be resumed has no parent. Each fiber of a stopped chain but the leaf
//! is inside its call of `resume`, and that frame is found through its child:
//!
//! ```text
//! leaf.sp          where the leaf goes on
//! record.resumer   where the resumer of `record` goes on when `record` stops or ends
//! ```
//!
//! So a signal that nobody but the outermost fiber's resumer catches is one switch, from the leaf to
//! `outermost.resumer`, and resuming the outermost is one switch to the leaf, however long the chain. Only
//! the leaf's status is written: a chain runs and stops as a whole, so the status of a fiber with a child is
//! that of its leaf ([`Record::status`]). What is linear is the walk that reads the masks.
//!
//! # Who may touch a record
//!
//! Records are reached through raw pointers and are never shared between threads: handles are `!Send`. All
//! fields are cells, so aliasing needs no further proof. A pointer in `parent`, `child` or `root` is valid
//! while it is set, because
//!
//! - a parent is suspended in a call that borrows the child's handle, so the child outlives the link; and
//!   the parent's own record is kept by its handle, borrowed by *its* parent's call, up to the root;
//! - a fiber counts a reference to the root under which it was first resumed, and never runs under another but to be
//!   ended.
//!
//! `word` leads to the control word of the root above the fiber, and is valid as long as something runs under that
//! root. It is only used while the fiber runs. A fiber that outlives its task, whose word may be gone by then, gets
//! that of whoever ends it, and so do the fibers that it resumes meanwhile.
//!
//! A record is freed when `refs` falls to zero: one for the owner, one for each [`crate::FiberRef`], and in a
//! root one for each fiber that is bound to it.

use std::borrow::Cow;
use std::cell::{Cell, RefCell};
use std::panic::Location;
use std::ptr;

use sinew_core::{Mask, Status};
use sinew_sync::Arc;

use crate::binding_table::Table;
use crate::control::{Controlled, Word};
use crate::hook::Hook;
use crate::memory::Stack;
use crate::switch::StackPointer;
use crate::trace::Trace;
use crate::unwind::PanicSite;
use crate::value::Value;

mod describe;

/// What holds for a fiber, in `own`, or for one above it, in `inherited`.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Scope(u8);

impl Scope {
    pub(crate) const NONE: Scope = Scope(0);
    /// Await is in the mask.
    pub(crate) const AWAITS: Scope = Scope(1);
    /// Inside an `ffi_scope`.
    pub(crate) const FFI: Scope = Scope(2);
    /// Inside a `shield`.
    pub(crate) const SHIELD: Scope = Scope(4);
    /// Being ended: no signal may stop it any more.
    pub(crate) const ENDING: Scope = Scope(8);
    /// Resumed while the thread was unwinding, by a destructor of one above. Inherited only.
    pub(crate) const IN_DESTRUCTOR: Scope = Scope(16);
    /// Inside the poll of a future.
    pub(crate) const POLL: Scope = Scope(32);
    /// Inside a scope that others borrow from: only await may stop it.
    pub(crate) const OPEN: Scope = Scope(64);

    /// What keeps a fiber from being stopped by a signal that its resumer would catch.
    pub(crate) const KEPT: Scope = Scope::FFI.and(Scope::ENDING).and(Scope::POLL).and(Scope::OPEN);

    #[inline]
    pub(crate) const fn and(self, other: Scope) -> Scope {
        Scope(self.0 | other.0)
    }

    #[inline]
    pub(crate) const fn without(self, other: Scope) -> Scope {
        Scope(self.0 & !other.0)
    }

    #[inline]
    pub(crate) const fn any(self, of: Scope) -> bool {
        self.0 & of.0 != 0
    }
}

/// With what a suspended leaf is continued.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Delivery {
    /// With a value, the result of its pending operation.
    Value,
    /// With a value that it raises at once as an error.
    Error,
    /// With the refusal of its pending operation: it is being ended, inside a shield.
    Ending,
}

/// Where a record lives.
pub(crate) enum Home {
    /// In a box.
    Box,
    /// In the top page of this stack.
    Stack(Stack),
}

/// A body that has not run, and how to drop it.
pub(crate) type Body = (*mut (), unsafe fn(*mut ()));

const _: () = assert!(sinew_sync::MODEL || size_of::<Record>() <= 256, "four cache lines");

/// What a resume and a yield touch comes first, on two cache lines.
#[repr(C)]
pub(crate) struct Record {
    pub(crate) sp: Cell<StackPointer>,
    pub(crate) resumer: Cell<StackPointer>,
    pub(crate) parent: Cell<*const Record>,
    pub(crate) child: Cell<*const Record>,
    pub(crate) value: Cell<Option<Value>>,
    /// The root under which the fiber was first resumed, with a reference of its own; null before.
    pub(crate) root: Cell<*const Record>,
    /// The control word of the root above, when the fiber last ran.
    pub(crate) word: Cell<*const Word>,
    /// In which task the fiber last ran: the one that it belongs to; or, below a fiber that another task ended, its own
    /// number, which is no task's. So a resume that finds its own task here knows that `word` is the right one.
    pub(crate) task: Cell<u64>,
    /// The status, of a fiber without a child.
    pub(crate) own_status: Cell<Status>,
    pub(crate) delivery: Cell<Delivery>,
    pub(crate) own: Cell<Scope>,
    pub(crate) inherited: Cell<Scope>,
    pub(crate) mask: Cell<Mask>,
    pub(crate) depth: Cell<u16>,
    /// How often the body went on although it is being ended, and how often it was refused that in a shield.
    pub(crate) swallowed: Cell<u16>,
    pub(crate) refused: Cell<u16>,
    pub(crate) quarantined: Cell<bool>,
    /// A panic or terminal signal started here since the last resume. Stays set if the body caught it by
    /// itself, and only means something in a fiber that was resumed while the thread was unwinding: see
    /// [`Record::is_unwinding`].
    pub(crate) unwinding: Cell<bool>,
    /// Of a root: it is the one that its thread has of itself, with nobody around it to catch anything.
    pub(crate) of_thread: Cell<bool>,
    /// Of the root of a task: it has a name or a mask of its own.
    pub(crate) adorned: Cell<bool>,
    /// Of a root, whose `mask` is empty because nobody resumes it: which signals its hook is called for
    /// besides await, interrupt and debug.
    pub(crate) hook_mask: Cell<Mask>,
    pub(crate) refs: Cell<u32>,
    /// Of the outermost fiber of a stopped chain: its leaf.
    pub(crate) leaf: Cell<*const Record>,

    /// Of a root: a number for what runs under it, which no other task, root or fiber of the process ever has. Of a
    /// fiber: that of the task that first resumed it; 0 before.
    pub(crate) belongs_to: Cell<u64>,
    pub(crate) id: Cell<u64>,
    pub(crate) name: Cell<Option<Cow<'static, str>>>,
    pub(crate) created: &'static Location<'static>,
    pub(crate) bindings: RefCell<Option<Arc<Table>>>,
    pub(crate) trace: Cell<Option<Box<Trace>>>,
    pub(crate) panic_site: Cell<Option<Box<PanicSite>>>,
    pub(crate) home: Home,
    /// The body, until it runs.
    pub(crate) body: Cell<Option<Body>>,
    /// Of a root: what signals that reach it are handed to, while it runs.
    pub(crate) hook: Cell<Option<*const dyn Hook>>,
    /// Of a root, while it runs: whoever ran before on the stack that it is on.
    pub(crate) runs_on: Cell<*const Record>,
    /// Of a root: the control word that `word` points to, unless that is a scheduler's.
    pub(crate) control: Option<Arc<Controlled>>,
}

/// The highest place for a `T` that ends at or below `end`.
#[inline]
pub(crate) fn below<T>(end: *mut u8) -> *mut T {
    let align = align_of::<T>();
    end.wrapping_sub(size_of::<T>()).map_addr(|address| address & !(align - 1)).cast()
}

impl Record {
    pub(crate) fn new(
        id: u64,
        name: Option<Cow<'static, str>>,
        mask: Mask,
        created: &'static Location<'static>,
        home: Home,
    ) -> Record {
        let awaits = mask.contains(sinew_core::Signal::Await);
        Record {
            sp: Cell::new(ptr::null_mut()),
            resumer: Cell::new(ptr::null_mut()),
            parent: Cell::new(ptr::null()),
            child: Cell::new(ptr::null()),
            value: Cell::new(None),
            root: Cell::new(ptr::null()),
            word: Cell::new(ptr::null()),
            task: Cell::new(0),
            own_status: Cell::new(Status::New),
            delivery: Cell::new(Delivery::Value),
            own: Cell::new(if awaits { Scope::AWAITS } else { Scope::NONE }),
            inherited: Cell::new(Scope::NONE),
            mask: Cell::new(mask),
            depth: Cell::new(0),
            swallowed: Cell::new(0),
            refused: Cell::new(0),
            quarantined: Cell::new(false),
            unwinding: Cell::new(false),
            of_thread: Cell::new(false),
            adorned: Cell::new(false),
            hook_mask: Cell::new(Mask::NONE),
            refs: Cell::new(1),
            leaf: Cell::new(ptr::null()),
            belongs_to: Cell::new(0),
            id: Cell::new(id),
            name: Cell::new(name),
            created,
            bindings: RefCell::new(None),
            trace: Cell::new(None),
            panic_site: Cell::new(None),
            home,
            body: Cell::new(None),
            hook: Cell::new(None),
            runs_on: Cell::new(ptr::null()),
            control: None,
        }
    }

    /// Where the record of a fiber that runs on `stack` lies: at its very top, on cache lines of its own.
    #[inline]
    pub(crate) fn place_in(stack: &Stack) -> *mut Record {
        stack.top().as_ptr().wrapping_sub(size_of::<Record>().next_multiple_of(64)).cast()
    }

    /// A boxed record of a root, running or about to.
    pub(crate) fn new_root(
        id: u64,
        name: Option<Cow<'static, str>>,
        hook_mask: Mask,
        created: &'static Location<'static>,
    ) -> *const Record {
        let control = Arc::new(Controlled::new());
        let mut record = Record::new(id, name, Mask::NONE, created, Home::Box);
        record.task.set(id);
        record.belongs_to.set(id);
        record.hook_mask.set(hook_mask);
        record.word.set(&control.word);
        record.control = Some(control);
        let record = Box::into_raw(Box::new(record)).cast_const();
        // SAFETY: just made.
        unsafe { (*record).root.set(record) };
        record
    }

    #[inline]
    pub(crate) fn is_root(&self) -> bool {
        ptr::eq(self.root.get(), self)
    }

    /// Of a root: true if it is that of tasks. Those are reached through their scheduler, and have no control word of
    /// their own.
    pub(crate) fn runs_tasks(&self) -> bool {
        self.control.is_none()
    }

    /// The root of the chain that `self`, which runs, is in: its own, unless it is being ended by a task that it
    /// does not belong to.
    pub(crate) fn running_root(&self) -> &Record {
        if self.scope().any(Scope::ENDING) {
            return self.ancestors().last().expect("`self` is one");
        }
        // SAFETY: the root of the running fiber is valid.
        unsafe { &*self.root.get() }
    }

    /// A copy of the name: that of a task's root changes with the task.
    pub(crate) fn name(&self) -> Option<Cow<'static, str>> {
        // SAFETY: nobody writes meanwhile: a record stays on its thread, and nothing else runs while a text is copied.
        unsafe { (*self.name.as_ptr()).clone() }
    }

    /// What holds for code that runs in this fiber.
    #[inline]
    pub(crate) fn scope(&self) -> Scope {
        self.own.get().and(self.inherited.get())
    }

    #[inline]
    pub(crate) fn parent(&self) -> Option<&Record> {
        // SAFETY: a link is valid while it is set (module prose).
        unsafe { self.parent.get().as_ref() }
    }

    #[inline]
    pub(crate) fn child(&self) -> Option<&Record> {
        // SAFETY: as for `parent`.
        unsafe { self.child.get().as_ref() }
    }

    /// The last fiber of the chain that starts here: the one that runs or raised the signal.
    #[inline]
    pub(crate) fn leaf(&self) -> &Record {
        if self.child.get().is_null() {
            self
        } else if self.parent.get().is_null() && !self.is_root() {
            // SAFETY: the outermost fiber of a stopped chain. The chain noted its leaf here when it stopped, and
            // stays as it is until it is resumed from here.
            unsafe { &*self.leaf.get() }
        } else {
            self.descendants().last().expect("`self` is one")
        }
    }

    /// What the fiber is doing.
    #[inline]
    pub(crate) fn status(&self) -> Status {
        self.leaf().own_status.get()
    }

    /// True if there is no value to take.
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        // SAFETY: nobody writes meanwhile: a record stays on its thread, and nothing else runs here.
        unsafe { (*self.value.as_ptr()).is_none() }
    }

    /// Puts a value into the empty slot. Does not read the slot: that would stall on the two stores that
    /// emptied it.
    #[inline]
    pub(crate) fn put(&self, value: Value) {
        debug_assert!(self.is_empty());
        std::mem::forget(self.value.replace(Some(value)));
    }

    /// This fiber, the one that resumed it, and so on up to the root.
    pub(crate) fn ancestors(&self) -> impl Iterator<Item = &Record> {
        std::iter::successors(Some(self), |record| record.parent())
    }

    /// This fiber, the one that it resumed, and so on down to the leaf.
    pub(crate) fn descendants(&self) -> impl Iterator<Item = &Record> {
        std::iter::successors(Some(self), |record| record.child())
    }

    /// True if this fiber, which runs or has resumed another, is itself unwinding: not only one above it, in a
    /// destructor of which it was resumed.
    pub(crate) fn is_unwinding(&self) -> bool {
        std::thread::panicking() && (self.unwinding.get() || !self.inherited.get().any(Scope::IN_DESTRUCTOR))
    }

    /// True if a `shield` is open in this fiber or in one above it, up to `outermost`.
    pub(crate) fn is_shielded_within(&self, outermost: &Record) -> bool {
        for record in self.ancestors() {
            if record.own.get().any(Scope::SHIELD) {
                return true;
            }
            if ptr::eq(record, outermost) {
                break;
            }
        }
        false
    }

    pub(crate) fn add_ref(&self) {
        self.refs.set(self.refs.get().checked_add(1).expect("fewer than 2^32 handles of one fiber"));
    }

    /// Gives one reference up and frees the record with the last.
    ///
    /// # Safety
    ///
    /// The caller owns one reference and does not use it again; if it is the last, the fiber has ended or
    /// never ran, and its body is gone.
    #[inline]
    pub(crate) unsafe fn release(this: *const Record) {
        // SAFETY: the caller's reference keeps the record.
        let refs = unsafe { &(*this).refs };
        let left = refs.get() - 1;
        refs.set(left);
        if left == 0 {
            // SAFETY: nobody else has a reference.
            unsafe { Record::free(this) };
        }
    }

    /// # Safety
    ///
    /// As for [`Record::release`], for the last reference.
    #[inline]
    unsafe fn free(this: *const Record) {
        // SAFETY: still valid. A root's own `root` is itself and counts no reference.
        let root = unsafe { (*this).root.get() };
        if !root.is_null() && !ptr::eq(root, this) {
            // SAFETY: the reference that `bind` took.
            unsafe { Record::release(root) };
        }
        let this = this.cast_mut();
        // SAFETY: the record is valid and this is its only user, so it may be moved out of its home; a
        // box came from `Box::into_raw` in `new_root`, and a stack is given back only after the record that
        // lies in it has been moved out.
        unsafe {
            match (*this).home {
                Home::Box => drop(Box::from_raw(this)),
                Home::Stack(_) => drop(this.read()),
            }
        }
    }
}

//! Dynamic bindings: values that belong to the running fiber, found by typed keys.
//!
//! The record of a fiber has its table ([`crate::binding_table`]), made when a binding is first set; a new
//! fiber shares that of its creator, or gets one over it.

use std::fmt;
use std::marker::PhantomData;

use sinew_core::Bindings;
use sinew_sync::Arc;
use sinew_sync::statics::{AtomicU32, Ordering};

use crate::binding_table::{Binding, Table};
use crate::record::Record;
use crate::thread;
use crate::view::FiberRef;

/// The name of a dynamic binding of type `T`, usually a `static`.
///
/// ```
/// use sinew_fiber::{Key, with_bindings};
///
/// static USER: Key<String> = Key::new("user");
///
/// assert_eq!(USER.get(), None);
/// with_bindings([USER.to("ada".to_owned())], || {
///     assert_eq!(*USER.get().unwrap(), "ada");
/// });
/// assert_eq!(USER.get(), None);
/// ```
pub struct Key<T> {
    name: &'static str,
    /// 0 until first used.
    id: AtomicU32,
    _type: PhantomData<fn() -> T>,
}

impl<T: Send + Sync + 'static> Key<T> {
    /// A key; the name is for people.
    pub const fn new(name: &'static str) -> Key<T> {
        Key { name, id: AtomicU32::new(0), _type: PhantomData }
    }

    /// The name.
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// What the running fiber has under this key.
    pub fn get(&self) -> Option<std::sync::Arc<T>> {
        self.get_in(thread::slot().get())
    }

    /// What `fiber` has under this key: a debugger reads the bindings of a stopped fiber so.
    pub fn get_of(&self, fiber: &FiberRef) -> Option<std::sync::Arc<T>> {
        self.get_in(fiber.record())
    }

    fn get_in(&self, record: &Record) -> Option<std::sync::Arc<T>> {
        let table = record.bindings.borrow().clone()?;
        let entry = table.get(self.id())?;
        Some(entry.downcast().expect("a key has one type"))
    }

    /// Sets the value in the table of the running fiber, and makes the table if it has none.
    pub fn set(&self, value: T) {
        table_of(thread::slot().get()).write(self.to(value));
    }

    /// Sets the value in the table of `fiber`.
    pub fn set_of(&self, fiber: &FiberRef, value: T) {
        table_of(fiber.record()).write(self.to(value));
    }

    /// Removes the value from the table of the running fiber; what a layered table covered shows again.
    pub fn unset(&self) {
        table_of(thread::slot().get()).write(Binding { key: self.id(), value: None });
    }

    /// This key with a value, for [`with_bindings`](crate::with_bindings).
    pub fn to(&self, value: T) -> Binding {
        Binding { key: self.id(), value: Some(std::sync::Arc::new(value)) }
    }

    fn id(&self) -> u32 {
        static NEXT: AtomicU32 = AtomicU32::new(1);
        let id = self.id.load(Ordering::Relaxed);
        if id != 0 {
            return id;
        }
        let fresh = NEXT.fetch_add(1, Ordering::Relaxed);
        // Two threads may get here at once: the first number that is stored counts, for both.
        match self.id.compare_exchange(0, fresh, Ordering::Relaxed, Ordering::Relaxed) {
            Ok(_) => fresh,
            Err(first) => first,
        }
    }
}

impl<T> fmt::Debug for Key<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Key({})", self.name)
    }
}

/// The table of `record`, made if there is none.
fn table_of(record: &Record) -> Arc<Table> {
    record.bindings.borrow_mut().get_or_insert_with(|| Table::over(None)).clone()
}

/// Bindings on their way from the running fiber to a new one, or to a task that another thread will run.
#[derive(Clone)]
pub struct Inherited(Arc<Table>);

/// What a new fiber, or a new task, shall have of the bindings of the running one.
pub fn inherit_bindings(how: Bindings) -> Option<Inherited> {
    let creator = thread::slot().get();
    match how {
        Bindings::None => None,
        Bindings::Shared => Some(Inherited(table_of(creator))),
        Bindings::Layered => Some(Inherited(Table::over(Some(table_of(creator))))),
    }
}

/// Gives `record` the bindings that it inherits, in place of what it had.
pub(crate) fn give(record: &Record, inherited: Option<Inherited>) {
    let _old = record.bindings.replace(inherited.map(|Inherited(table)| table));
}

/// Sets `bindings` in the table of `record`.
pub(crate) fn bind(record: &Record, bindings: impl IntoIterator<Item = Binding>) {
    let table = table_of(record);
    for binding in bindings {
        table.write(binding);
    }
}

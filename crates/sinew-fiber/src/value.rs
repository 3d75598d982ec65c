//! `Value`: one word of anything that may be sent, passed between a fiber and its resumer.
//!
//! A value is a pointer to a table of its type and one data word. Types that fit the word (scalars, small
//! structures, a `Box`) lie in it; larger ones are boxed and the word points to the box. So a scalar
//! costs no allocation, and a value travels in two registers.
//!
//! Invariant, kept by [`Value::new`] alone: `table` is the table of some `T: Send + 'static`, and `data`
//! holds an initialised `T` if `fits::<T>()`, else a pointer from `Box<T>::into_raw`. Every `unsafe` block
//! below rests on it.

use std::any::{Any, TypeId, type_name};
use std::fmt;
use std::marker::PhantomData;
use std::mem::{self, ManuallyDrop, MaybeUninit};

use crate::control::Cancelled;
use crate::memory::StackError;
use crate::refused::Refused;
use crate::unwind::Panic;

type Word = MaybeUninit<*mut ()>;

struct Table {
    id: TypeId,
    name: fn() -> &'static str,
    /// Drops what the word holds; none if there is nothing to do.
    drop: Option<unsafe fn(&mut Word)>,
    /// Shows what is inside; none if all that is known of it is its type.
    show: Option<fn(&Value, &mut fmt::Formatter<'_>) -> fmt::Result>,
}

const fn fits<T>() -> bool {
    size_of::<T>() <= size_of::<Word>() && align_of::<T>() <= align_of::<Word>()
}

trait HasTable {
    const TABLE: &'static Table;
}

impl<T: Send + 'static> HasTable for T {
    const TABLE: &'static Table = &Table {
        id: TypeId::of::<T>(),
        name: type_name::<T>,
        drop: if !fits::<T>() {
            Some(drop_boxed::<T>)
        } else if mem::needs_drop::<T>() {
            Some(drop_inline::<T>)
        } else {
            None
        },
        show: None,
    };
}

/// The table of an error, which knows how to show itself.
struct ErrorTable<E>(PhantomData<E>);

impl<E: std::error::Error + Send + 'static> ErrorTable<E> {
    const TABLE: &'static Table = &Table {
        id: <E as HasTable>::TABLE.id,
        name: <E as HasTable>::TABLE.name,
        drop: <E as HasTable>::TABLE.drop,
        show: Some(|value, f| match value.downcast_ref::<E>() {
            Some(error) => fmt::Display::fmt(error, f),
            None => Ok(()),
        }),
    };
}

/// # Safety
///
/// `word` must hold a pointer from `Box<T>::into_raw` that is not used again.
unsafe fn drop_boxed<T>(word: &mut Word) {
    // SAFETY: the caller's promise.
    drop(unsafe { Box::from_raw(word.assume_init().cast::<T>()) });
}

/// # Safety
///
/// `word` must hold an initialised `T` that is not used again.
unsafe fn drop_inline<T>(word: &mut Word) {
    // SAFETY: the caller's promise; the word is large and aligned enough for every `T` that lies inline.
    unsafe { word.as_mut_ptr().cast::<T>().drop_in_place() };
}

/// Any `Send + 'static` value, as it passes between a fiber and whoever resumes it.
///
/// Types of up to one word are stored without allocation.
///
/// ```
/// use sinew_fiber::Value;
///
/// let value = Value::new(42u64);
/// assert!(value.is::<u64>());
/// assert_eq!(value.downcast::<u64>().unwrap(), 42);
///
/// let wrong = Value::new("text").downcast::<u64>().unwrap_err();
/// assert_eq!(wrong.to_string(), r#"expected a value of type u64, got &str: "text""#);
/// assert_eq!(wrong.value.downcast::<&str>().unwrap(), "text"); // nothing is lost
/// ```
pub struct Value {
    table: &'static Table,
    data: Word,
}

// SAFETY: `Value::new` admits `Send` types only.
unsafe impl Send for Value {}

impl Value {
    /// The value that carries nothing, `()`.
    pub const UNIT: Value = Value { table: <() as HasTable>::TABLE, data: MaybeUninit::uninit() };

    /// Wraps `value`.
    #[inline]
    pub fn new<T: Send + 'static>(value: T) -> Value {
        let mut data = Word::uninit();
        if fits::<T>() {
            // SAFETY: `fits` says that a `T` may be written to the word.
            unsafe { data.as_mut_ptr().cast::<T>().write(value) };
        } else {
            data.write(Box::into_raw(Box::new(value)).cast());
        }
        Value { table: T::TABLE, data }
    }

    /// Wraps an error, so that messages and traces show what it says.
    ///
    /// ```
    /// use sinew_fiber::{Value, error, protect};
    ///
    /// let raised = protect(|| -> u32 { error(Value::error("x".parse::<u32>().unwrap_err())) }).unwrap_err();
    /// assert_eq!(raised.to_string(), "error: invalid digit found in string");
    /// ```
    pub fn error<E: std::error::Error + Send + 'static>(error: E) -> Value {
        let mut value = Value::new(error);
        value.table = ErrorTable::<E>::TABLE; // of the same type, so the word is as it has to be
        value
    }

    /// True if a `T` is inside.
    #[inline]
    pub fn is<T: 'static>(&self) -> bool {
        self.table.id == TypeId::of::<T>()
    }

    /// True if the table is that of `T` for sure; the compiler may have made several for one type.
    #[inline]
    fn has_table_of<T: Send + 'static>(&self) -> bool {
        std::ptr::eq(self.table, T::TABLE)
    }

    /// The name of the type inside, for messages.
    pub fn type_name(&self) -> &'static str {
        (self.table.name)()
    }

    /// Takes the `T` out, or gives the value back with an error that names both types.
    #[inline]
    pub fn downcast<T: Send + 'static>(self) -> Result<T, DowncastError> {
        if !self.has_table_of::<T>() && !self.is::<T>() {
            return Err(DowncastError { value: self, expected: type_name::<T>() });
        }
        // SAFETY: the types are equal.
        Ok(unsafe { self.take() })
    }

    /// Takes the `T` out.
    ///
    /// # Safety
    ///
    /// A `T` is inside.
    #[inline]
    unsafe fn take<T: 'static>(self) -> T {
        let this = ManuallyDrop::new(self);
        if fits::<T>() {
            // SAFETY: the caller's promise, so by the invariant the word holds a `T`; `ManuallyDrop` keeps
            // `Value`'s drop from using it again.
            unsafe { this.data.as_ptr().cast::<T>().read() }
        } else {
            // SAFETY: as above, for a pointer to a box.
            *unsafe { Box::from_raw(this.data.assume_init().cast::<T>()) }
        }
    }

    /// Makes the value the result of a body that returns a `T`: the `T` inside, or the value itself if it is a `Value`
    /// that the body returns. Unlike [`downcast`](Value::downcast) for any `T`, also one that no value can hold.
    ///
    /// # Errors
    ///
    /// The value, if it is neither.
    #[doc(hidden)]
    pub fn into_result<T: 'static>(self) -> Result<T, Value> {
        if self.is::<T>() {
            // SAFETY: the types are equal.
            return Ok(unsafe { self.take() });
        }
        let mut value = Some(self);
        match (&mut value as &mut dyn Any).downcast_mut::<Option<T>>() {
            Some(result) => Ok(result.take().expect("the value was put there")),
            None => Err(value.expect("the value was put there")),
        }
    }

    /// Looks at the `T` inside.
    pub fn downcast_ref<T: 'static>(&self) -> Option<&T> {
        if !self.is::<T>() {
            return None;
        }
        if fits::<T>() {
            // SAFETY: the types are equal, so by the invariant the word holds a `T`, which lives as long as
            // `self` is borrowed.
            Some(unsafe { &*self.data.as_ptr().cast::<T>() })
        } else {
            // SAFETY: as above, for a pointer to a box that `self` owns.
            Some(unsafe { &*self.data.assume_init().cast::<T>() })
        }
    }
}

impl Drop for Value {
    #[inline]
    fn drop(&mut self) {
        if let Some(drop) = self.table.drop {
            // SAFETY: the function is that of the type inside, and a value is dropped once.
            unsafe { drop(&mut self.data) };
        }
    }
}

impl Default for Value {
    fn default() -> Value {
        Value::UNIT
    }
}

/// Types that can be passed to a fiber, or returned by its body, without wrapping: scalars,
/// strings, tuples of two to four, `Option`, `Vec`, [`Value`] itself, and `!`. Wrap any other type
/// that is `Send + 'static` with [`Value::new`].
///
/// ```
/// use sinew_fiber::{Fiber, yield_};
///
/// let fiber = Fiber::new(|_| {
///     yield_(("line", 7_u32)).unwrap();
///     vec![1_u8, 2]
/// })?;
/// assert_eq!(fiber.resume(())?.get::<(&str, u32)>()?, ("line", 7));
/// assert_eq!(fiber.resume(None::<u32>)?.get::<Vec<u8>>()?, [1, 2]);
/// # Ok::<(), sinew_fiber::Error>(())
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` does not convert to a `Value` by itself",
    note = "wrap it: `Value::new(value)` takes anything that is `Send + 'static`"
)]
pub trait IntoValue {
    /// Wraps `self`.
    fn into_value(self) -> Value;
}

impl IntoValue for Value {
    #[inline]
    fn into_value(self) -> Value {
        self
    }
}

impl IntoValue for never::Never {
    fn into_value(self) -> Value {
        self
    }
}

/// Names the type `!`, which stable Rust lets one write as a result only.
mod never {
    pub trait Returns {
        type Type;
    }

    impl<T> Returns for fn() -> T {
        type Type = T;
    }

    pub(super) type Never = <fn() -> ! as Returns>::Type;
}

macro_rules! generic_values {
    ($($T:ty: $($parameter:ident),+;)*) => {
        $(impl<$($parameter: Send + 'static),+> IntoValue for $T {
            #[inline]
            fn into_value(self) -> Value {
                Value::new(self)
            }
        })*
    };
}

generic_values! {
    (A, B): A, B;
    (A, B, C): A, B, C;
    (A, B, C, D): A, B, C, D;
    Option<T>: T;
    Vec<T>: T;
}

macro_rules! plain_values {
    ($($T:ty),*) => {
        $(impl IntoValue for $T {
            #[inline]
            fn into_value(self) -> Value {
                Value::new(self)
            }
        })*

        /// Shows scalars, texts and what was wrapped by [`Value::error`] as they are, anything else by the name
        /// of its type.
        impl fmt::Debug for Value {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                $(if let Some(value) = self.downcast_ref::<$T>() {
                    return fmt::Debug::fmt(value, f);
                })*
                match self.table.show {
                    Some(show) => show(self, f),
                    None => write!(f, "<{}>", self.type_name()),
                }
            }
        }

        impl Value {
            /// Returns `true` if `Debug` shows more of the value than its type.
            fn shows_itself(&self) -> bool {
                self.table.show.is_some() $(|| self.is::<$T>())*
            }
        }
    };
}

plain_values!(
    (),
    bool,
    char,
    i8,
    i16,
    i32,
    i64,
    i128,
    isize,
    u8,
    u16,
    u32,
    u64,
    u128,
    usize,
    f32,
    f64,
    &'static str,
    String,
    Panic,
    Cancelled,
    Refused,
    StackError
);

/// The error of a value that has another type than the expected one. It holds the value, and its
/// message names both types.
pub struct DowncastError {
    /// The value, untouched.
    pub value: Value,
    /// The name of the type that was asked for.
    pub expected: &'static str,
}

impl std::error::Error for DowncastError {}

impl fmt::Display for DowncastError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let DowncastError { value, expected } = self;
        write!(f, "expected a value of type {expected}, got {}", value.type_name())?;
        if value.shows_itself() && !value.is::<()>() { write!(f, ": {value:?}") } else { Ok(()) }
    }
}

/// The message, as `Display` has it: it is what `unwrap` and `main` print.
impl fmt::Debug for DowncastError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[cfg(test)]
mod tests;

//! The result of a task that raised `ok` instead of returning from its body: the value, if it is what the body returns.

use std::any::type_name;

use sinew_core::Signal;
use sinew_fiber::{Raised, Value};

/// How a value becomes the result of a body that returns a `T`.
pub(crate) trait Return<T> {
    fn result(value: Value) -> Result<T, ReturnError>;
}

/// By its type, which is known when the result borrows nothing.
pub(crate) struct ByType;

impl<T: 'static> Return<T> for ByType {
    fn result(value: Value) -> Result<T, ReturnError> {
        value.into_result().map_err(|value| ReturnError::OtherType { value, expected: type_name::<T>() })
    }
}

/// Not at all: the result may borrow, and what was raised does not.
pub(crate) struct InScope;

impl<T> Return<T> for InScope {
    fn result(value: Value) -> Result<T, ReturnError> {
        Err(ReturnError::InScope { value })
    }
}

/// What a task ends with whose body has raised `raised`.
#[cold]
pub(crate) fn outcome_of<T, R: Return<T>>(raised: Raised) -> Result<T, Raised> {
    if raised.signal != Signal::Ok {
        return Err(raised);
    }
    let Raised { value, trace, .. } = raised;
    R::result(value).map_err(|error| Raised { signal: Signal::Error, value: Value::error(error), trace })
}

/// Why a task that raised [`Signal::Ok`] has failed: the value cannot be its result.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReturnError {
    /// It is not of the type that the task's body returns.
    #[error(
        "the task raised `ok` with a {}, and its body returns a {expected}: raise it with a value of that type",
        .value.type_name()
    )]
    OtherType {
        /// What was raised.
        value: Value,
        /// The type that the body returns.
        expected: &'static str,
    },
    /// The task is the child of a scope.
    #[error("a child of a scope raised `ok`: its result may borrow, so only its body can return it")]
    InScope {
        /// What was raised.
        value: Value,
    },
}

//! `BodyResult`: the types that a fiber's body may return, and how each ends the fiber.

use sinew_core::Signal;

use crate::error::Error;
use crate::raised::Raised;
use crate::value::{IntoValue, Value};

/// Types that the body of a fiber may return: every [`IntoValue`] type, and `Result` of one.
///
/// `Ok` makes the fiber return its value. `Err` ends the fiber with the error signal, as
/// [`error`](crate::error()) does, and the error is the value of that signal. So a body may use `?`:
///
/// ```
/// use sinew_fiber::{Error, Fiber, Mask, Signal};
///
/// let fiber = Fiber::builder().mask(Mask::ERROR).build(|first| {
///     let number = first.downcast::<u32>()?;
///     Ok::<_, Error>(number + 1)
/// })?;
/// assert_eq!(fiber.resume("forty-one")?, Signal::Error);
/// let text = fiber.take_raised().to_string();
/// assert_eq!(text, r#"error: expected a value of type u32, got &str: "forty-one""#);
/// # Ok::<(), sinew_fiber::Error>(())
/// ```
///
/// The trace of such an error names the place where the fiber was created, since Rust does not
/// record where an `Err` was created. The signal of an [`Error`] carries the error inside it. A
/// [`Raised`], alone or in an `Error`, is raised again with its own signal, value and trace.
#[diagnostic::on_unimplemented(
    message = "the body of a fiber cannot return `{Self}`",
    note = "wrap it: `Value::new(value)` takes anything that is `Send + 'static`",
    note = "a `Result` has a value for `Ok`, and for `Err` an error that is `Send + 'static`"
)]
pub trait BodyResult {
    /// Returns the value that the fiber returns, or the signal that ends it.
    #[doc(hidden)]
    fn into_outcome(self) -> Result<Value, Raised>;
}

impl<T: IntoValue> BodyResult for T {
    #[inline(always)]
    fn into_outcome(self) -> Result<Value, Raised> {
        Ok(self.into_value())
    }
}

impl<T: IntoValue, E: std::error::Error + Send + 'static> BodyResult for Result<T, E> {
    #[inline]
    fn into_outcome(self) -> Result<Value, Raised> {
        self.map(T::into_value).map_err(|error| raised(Value::error(error)))
    }
}

/// Returns the signal that ends a fiber whose body returned `error`.
#[cold]
fn raised(error: Value) -> Raised {
    let value = match error.downcast::<Error>() {
        Ok(Error::Raised(raised)) => return raised,
        Ok(Error::Refused(refused)) => Value::error(refused),
        Ok(Error::Stack(error)) => Value::error(error),
        Ok(Error::Mask(error)) => Value::error(error),
        Ok(Error::Downcast(error)) => Value::error(error),
        Err(other) => match other.value.downcast::<Raised>() {
            Ok(raised) => return raised,
            Err(other) => other.value,
        },
    };
    Raised { signal: Signal::Error, value, trace: None }
}

//! `Stop`: the signal and the value with which a fiber came back to its resumer.

use std::fmt;

use sinew_core::Signal;

use super::Fiber;
use crate::value::DowncastError;

/// The signal with which a fiber stopped, and its value: what [`Fiber::resume`] and
/// [`Fiber::cancel`] return.
///
/// ```
/// use sinew_fiber::{Error, Fiber, Signal, yield_as};
///
/// let fiber = Fiber::new(|first| {
///     let second = yield_as::<u32>(first)?;
///     Ok::<_, Error>(second.to_string())
/// })?;
/// assert_eq!(fiber.resume(1_u32)?.get::<u32>()?, 1);
/// let stop = fiber.resume(42_u32)?;
/// assert_eq!(stop, Signal::Ok); // a stop compares with a signal
/// assert_eq!(stop.get::<String>()?, "42");
/// # Ok::<(), sinew_fiber::Error>(())
/// ```
///
/// The value stays in the fiber until it is taken or the fiber is resumed again, so get it before
/// that. [`Fiber::take_value`] takes it without naming a type, and [`Fiber::take_raised`] takes it
/// with its trace.
#[must_use = "the fiber may have failed: check the signal"]
pub struct Stop<'a> {
    fiber: &'a Fiber,
    signal: Signal,
}

impl<'a> Stop<'a> {
    #[inline(always)]
    pub(super) fn new(fiber: &'a Fiber, signal: Signal) -> Stop<'a> {
        Stop { fiber, signal }
    }

    /// Returns the signal with which the fiber stopped.
    #[inline(always)]
    pub fn signal(&self) -> Signal {
        self.signal
    }

    /// Takes the value of the signal out of the fiber, as a `T`.
    ///
    /// # Errors
    ///
    /// If the value has another type. The error names both types, holds the value, and shows it if
    /// it is a scalar, a string or an error: a fiber that was expected to yield may have failed
    /// instead.
    ///
    /// ```
    /// use sinew_fiber::{Fiber, Mask, error};
    ///
    /// let fiber = Fiber::builder().mask(Mask::YIELD | Mask::ERROR).build(|_| error("no input"))?;
    /// let wrong = fiber.resume(())?.get::<u32>().unwrap_err();
    /// assert_eq!(wrong.to_string(), r#"expected a value of type u32, got &str: "no input""#);
    /// # Ok::<(), sinew_fiber::Error>(())
    /// ```
    #[inline(always)]
    pub fn get<T: Send + 'static>(self) -> Result<T, DowncastError> {
        self.fiber.take_value().downcast()
    }
}

impl PartialEq<Signal> for Stop<'_> {
    #[inline(always)]
    fn eq(&self, signal: &Signal) -> bool {
        self.signal == *signal
    }
}

/// Shows the signal and the value: a failed `assert_eq!` says what the fiber stopped with.
impl fmt::Debug for Stop<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.fiber.last_value(|value| match value {
            Some(value) => write!(f, "{:?}({value:?})", self.signal),
            None => fmt::Debug::fmt(&self.signal, f),
        })
    }
}

//! Waiting for whichever of several things comes first.
//!
//! [`select!`](crate::select!) waits for cases: [`recv`], [`send`], [`join`], [`sleep`], [`until`], [`lock`]
//! and others; each is a value of this module's functions. Exactly one of them happens, and its arm runs when the others
//! have been given up.
//!
//! ```
//! use std::time::Duration;
//!
//! use sinew_chan::select::{recv, sleep};
//! use sinew_chan::{chan, select};
//! use sinew_sched::{Runtime, spawn};
//!
//! Runtime::new().run(|| {
//!     let (sender, receiver) = chan::bounded(1);
//!     spawn(move || sender.send("hello")).detach();
//!     select! {
//!         word = recv(&receiver) => assert_eq!(word.unwrap(), "hello"),
//!         _ = sleep(Duration::from_secs(60)) => panic!("that took long"),
//!     }
//!     .unwrap();
//! })
//! .unwrap();
//! ```
//!
//! For a number of cases that is only known when the program runs there is [`Select`].

mod cases;
mod first;
mod join;

use std::convert::Infallible;

use sinew_fiber::Refused;
use sinew_sched::raw::Attempt;

pub use crate::source::{Maybe, Source};
pub use crate::sync::case::{Acquire, acquire, lock, read, write};
pub use cases::{Cancelled, Sink, Until, cancelled, recv, send, sleep, until};
#[doc(hidden)]
pub use first::{attempt, wait};
pub use join::{Join, join};
pub use sinew_sched::raw::Case;

/// A select over a number of cases that is known when the program runs. Each comes with what to do when it happens.
///
/// ```
/// use sinew_chan::select::{Select, recv};
/// use sinew_chan::chan;
/// use sinew_sched::{Runtime, spawn};
///
/// Runtime::new().run(|| {
///     let (senders, receivers): (Vec<_>, Vec<_>) = (0..100).map(|_| chan::bounded(1)).unzip();
///     spawn(move || senders[42].send("hello")).join().unwrap().unwrap();
///     let mut select = Select::new();
///     for (number, receiver) in receivers.iter().enumerate().take(50) {
///         select = select.case(recv(receiver), move |word| (number, word));
///     }
///     let (number, word) = select.wait().unwrap();
///     assert!(number != 42 || word.unwrap() == "hello");
/// })
/// .unwrap();
/// ```
#[must_use = "it waits when it is told to"]
pub struct Select<'a, R> {
    cases: Vec<Box<dyn Handled<R> + 'a>>,
}

/// A case with what to do when it happens.
trait Handled<R> {
    fn attempt(&self) -> &dyn Attempt;
    fn handle(self: Box<Self>) -> R;
}

struct With<C, F> {
    case: C,
    handler: F,
}

impl<C: Case, F: FnOnce(C::Output) -> R, R> Handled<R> for With<C, F> {
    fn attempt(&self) -> &dyn Attempt {
        &self.case
    }

    fn handle(self: Box<Self>) -> R {
        (self.handler)(self.case.output())
    }
}

impl<'a, R> Select<'a, R> {
    /// A select without cases.
    #[allow(clippy::new_without_default, reason = "a select of nothing is no default of anything")]
    pub fn new() -> Select<'a, R> {
        Select { cases: Vec::new() }
    }

    /// One more case; `handler` is called with what it gives, if it is the one that happens.
    pub fn case<C: Case + 'a>(mut self, case: C, handler: impl FnOnce(C::Output) -> R + 'a) -> Select<'a, R> {
        self.cases.push(Box::new(With { case, handler }));
        self
    }

    /// Waits until one of the cases happens, and returns what its handler returns. Without any case it waits until the
    /// task is cancelled.
    ///
    /// # Errors
    ///
    /// If the task is cancelled, and none of the cases waits for that; if it must not block here.
    pub fn wait(mut self) -> Result<R, Refused> {
        let won = wait(&self.attempts())?;
        Ok(self.handle(won))
    }

    /// Does one of the cases if that needs no wait; gives all of them back otherwise.
    ///
    /// # Errors
    ///
    /// The select as it was.
    pub fn try_now(mut self) -> Result<R, Select<'a, R>> {
        match attempt(&self.attempts()) {
            Some(won) => Ok(self.handle(won)),
            None => Err(self),
        }
    }

    fn attempts(&self) -> Vec<&dyn Attempt> {
        self.cases.iter().map(|case| case.attempt()).collect()
    }

    /// Calls the handler of the case that happened, when the others are gone.
    fn handle(&mut self, won: usize) -> R {
        let case = self.cases.swap_remove(won);
        self.cases.clear();
        case.handle()
    }
}

impl<R> std::fmt::Debug for Select<'_, R> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Select").field("cases", &self.cases.len()).finish()
    }
}

/// Waits for several cases at once; the arm of the one that happens runs.
///
/// ```text
/// select! {
///     pattern = case => expression,
///     …
///     default => expression,      // optional, at the end: if none can happen at once
/// }
/// ```
///
/// A case is a value of the functions in [`select`](mod@crate::select). The whole is `Ok` of what the arm evaluates to, or
/// [`Refused`](crate::Refused): if the task is cancelled and there is no [`cancelled`](crate::select::cancelled) case,
/// or where it must not block. With a `default` it never waits, and so is never refused.
///
/// When the arm runs nothing else is under way any more, and nothing is borrowed by the other cases. What is temporary in
/// a case is gone: `send(&sender, &mut Some(item))` drops the item if another case happens.
#[macro_export]
macro_rules! select {
    // The arms, one by one: a block needs no comma behind it, and the last one needs none.
    (@arms [$($arms:tt)*] default => $arm:expr $(,)?) => {
        $crate::select!(@run [$($arms)*] [$arm] $crate::select!(@cases [] [$arm] $($arms)*))
    };
    (@arms [$($arms:tt)*] $pattern:pat = $case:expr => $arm:block , $($rest:tt)*) => {
        $crate::select!(@arms [$($arms)* ($pattern, $case, $arm)] $($rest)*)
    };
    (@arms [$($arms:tt)*] $pattern:pat = $case:expr => $arm:block $($rest:tt)*) => {
        $crate::select!(@arms [$($arms)* ($pattern, $case, $arm)] $($rest)*)
    };
    (@arms [$($arms:tt)*] $pattern:pat = $case:expr => $arm:expr , $($rest:tt)*) => {
        $crate::select!(@arms [$($arms)* ($pattern, $case, $arm)] $($rest)*)
    };
    (@arms [$($arms:tt)*] $pattern:pat = $case:expr => $arm:expr) => {
        $crate::select!(@arms [$($arms)* ($pattern, $case, $arm)])
    };
    (@arms [$($arms:tt)*]) => {
        $crate::select!(@run [$($arms)*] [] $crate::select!(@cases [] [] $($arms)*))
    };
    // A variable for each case: `case` is another one each time. Then the wait, and when the cases are gone, the arm. What
    // is temporary in a case lives as long as the case, hence the `match`, and no longer, hence the `let`.
    (@cases [$($names:ident)*] $default:tt ($pattern:pat, $case:expr, $arm:expr) $($rest:tt)*) => {{
        let outcome = match $case {
            case => $crate::select!(@cases [$($names)* case] $default $($rest)*),
        };
        outcome
    }};
    (@cases [$($names:ident)*] []) => {
        match $crate::select::wait(&[$(&$names),*]) {
            Ok(number) => Ok($crate::select!(@output number [$($names)*])),
            Err(refused) => Err(refused),
        }
    };
    (@cases [$($names:ident)*] [$default:expr]) => {
        match $crate::select::attempt(&[$(&$names),*]) {
            Some(number) => Some($crate::select!(@output number [$($names)*])),
            None => None,
        }
    };
    (@output $number:ident [$name:ident]) => {{
        let _: usize = $number;
        $crate::select::last($crate::select::Case::output($name))
    }};
    (@output $number:ident [$name:ident $($names:ident)*]) => {
        match $number.checked_sub(1) {
            None => $crate::select::Either::This($crate::select::Case::output($name)),
            Some(number) => $crate::select::Either::Other($crate::select!(@output number [$($names)*])),
        }
    };
    (@arm $output:ident) => { match $output {} };
    (@arm $output:ident ($pattern:pat, $case:expr, $arm:expr) $($rest:tt)*) => {
        match $output {
            $crate::select::Either::This($pattern) => $arm,
            $crate::select::Either::Other(output) => $crate::select!(@arm output $($rest)*),
        }
    };
    (@run [$($arms:tt)*] [] $outcome:expr) => {
        match $outcome {
            Ok(output) => Ok::<_, $crate::Refused>($crate::select!(@arm output $($arms)*)),
            Err(refused) => Err(refused),
        }
    };
    (@run [$($arms:tt)*] [$default:expr] $outcome:expr) => {
        Ok::<_, $crate::Refused>(match $outcome {
            Some(output) => $crate::select!(@arm output $($arms)*),
            None => $default,
        })
    };
    ($($tokens:tt)+) => {
        $crate::select!(@arms [] $($tokens)+)
    };
}

/// What the case that happened gave, or that it was another.
#[doc(hidden)]
#[derive(Debug)]
pub enum Either<T, O> {
    This(T),
    Other(O),
}

/// There is no case behind the last.
#[doc(hidden)]
pub fn last<T>(output: T) -> Either<T, Infallible> {
    Either::This(output)
}

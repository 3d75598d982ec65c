//! Waiting for whichever of several things comes first.
//!
//! [`select!`](crate::select!) waits for cases: [`recv`], [`send`], [`sleep`], [`until`]
//! and others; each is a value of this module's functions. Exactly one of them happens, and its arm runs when the others
//! have been given up.
//!
//! ```
//! use std::time::Duration;
//!
//! use sinew_sched::select::{recv, sleep};
//! use sinew_sched::{Runtime, chan, select, spawn};
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
//!
//! # How it works
//!
//! 1. Each case is attempted, from another one on each time, so that none is preferred. If one needs no wait, that is all.
//! 2. Otherwise each gets a node with a common [`Group`], and is enrolled. A case that turns out to be ready meanwhile, or
//!    that another party completes, claims the group: no other case can happen then.
//! 3. The waiter sleeps until the group says which node was told. If it gives up, because its time has passed or its task
//!    is cancelled, it claims the group itself; if somebody else has it already, that case happens after all.
//! 4. All nodes are withdrawn from their queues, before anything else runs. Whoever is still busy with one of them has
//!    found the group taken under the lock of the queue, or is waited for.
//!
//! If the waiter unwinds, since its task is killed, the nodes are withdrawn too, and what a case was given goes on to
//! the next in line ([`Awaited::hand_on`](crate::wait::Awaited::hand_on)).
//!
//! Models: `select_two_channels`, `select_against_close`, `select_against_select`, `select_crossed`,
//! `select_gives_up`, `select_unwinds`.

mod cases;

use std::cell::Cell;
use std::convert::Infallible;

use sinew_fiber::{Reason, Refused};

pub use crate::case::Case;
use crate::case::{Attempt, Enrolled};
use crate::clock::now;
use crate::group::Group;
use crate::wait::{self, Node};
pub use cases::{Cancelled, Sink, Source, Until, cancelled, recv, send, sleep, until};

/// How many nodes are kept on the stack.
const FEW: usize = 8;

thread_local! {
    /// Where the next select of this thread starts.
    static START: Cell<usize> = const { Cell::new(0) };
}

/// Never inlined: the address of a thread-local must not be kept across a wait.
#[inline(never)]
fn next_start(cases: usize) -> usize {
    START.with(|start| {
        let now = start.get();
        start.set(now.wrapping_add(1));
        now.checked_rem(cases).unwrap_or(0)
    })
}

/// The cases from `start` on, and round to the one before it.
fn rotated(cases: usize, start: usize) -> impl Iterator<Item = usize> {
    (start..cases).chain(0..start)
}

/// The first of the cases that needs no wait, and is done now.
#[doc(hidden)]
pub fn attempt(cases: &[&dyn Attempt]) -> Option<usize> {
    rotated(cases.len(), next_start(cases.len())).find(|number| cases[*number].attempt())
}

/// Waits until one of the cases is done; returns which.
///
/// # Errors
///
/// If the task is cancelled, and none of the cases waits for that; if it must not block here.
#[doc(hidden)]
pub fn wait(cases: &[&dyn Attempt]) -> Result<usize, Refused> {
    loop {
        if let Some(number) = attempt(cases) {
            return Ok(number);
        }
        let group = Group::new();
        // SAFETY: the group outlives the nodes.
        let node = |number| unsafe { Node::in_group(&raw const group, number) };
        let won = if cases.len() <= FEW {
            let nodes: [Node; FEW] = std::array::from_fn(node);
            Enlisted::new(cases, &nodes[..cases.len()], &group).wait()?
        } else {
            let nodes: Vec<Node> = (0..cases.len()).map(node).collect();
            Enlisted::new(cases, &nodes, &group).wait()?
        };
        if let Some(number) = won {
            return Ok(number);
        }
    }
}

/// The cases of a select while it waits, with a node for each. Leaves the queues on every way out.
struct Enlisted<'a> {
    cases: &'a [&'a dyn Attempt],
    nodes: &'a [Node],
    group: &'a Group,
    /// Where the first was enrolled, and how many were.
    start: usize,
    enrolled: Cell<usize>,
}

impl<'a> Enlisted<'a> {
    fn new(cases: &'a [&'a dyn Attempt], nodes: &'a [Node], group: &'a Group) -> Enlisted<'a> {
        Enlisted { cases, nodes, group, start: next_start(cases.len()), enrolled: Cell::new(0) }
    }

    /// The case that is done; none if all has to begin again.
    fn wait(self) -> Result<Option<usize>, Refused> {
        let mut done = None;
        for number in rotated(self.cases.len(), self.start) {
            match self.cases[number].enroll(&self.nodes[number]) {
                Enrolled::Queued => self.enrolled.set(self.enrolled.get() + 1),
                Enrolled::Done => {
                    done = Some(number);
                    break;
                }
                Enrolled::Again if self.group.claim() => {
                    self.leave(None);
                    return Ok(None);
                }
                Enrolled::Again | Enrolled::Taken => break,
            }
        }
        if done.is_some() {
            self.leave(None);
            return Ok(done);
        }
        self.wait_for_group()
    }

    fn wait_for_group(self) -> Result<Option<usize>, Refused> {
        let deadline = self.cases.iter().filter_map(|case| case.deadline()).min();
        let waited = wait::wait(|| self.group.won().is_some(), deadline);
        // Whoever has claimed the group is about to tell it, on another thread, and does not block there.
        let given_up = !matches!(waited, Ok(true)) && self.group.claim();
        if given_up {
            self.leave(None);
            return match waited {
                Ok(_) => Ok(self.due()),
                Err(refused) if refused.reason() == Reason::Cancelled => {
                    let cancel = self.cases.iter().position(|case| case.awaits_cancel());
                    cancel.map(Some).ok_or(refused)
                }
                Err(refused) => Err(refused),
            };
        }
        let number = self.won();
        self.leave(Some(number));
        let settled = self.cases[number].settle(&self.nodes[number]);
        Ok(settled.then_some(number))
    }

    /// The case whose time has passed.
    fn due(&self) -> Option<usize> {
        let now = now();
        let due = |case: &&dyn Attempt| case.deadline().is_some_and(|deadline| deadline <= now);
        self.cases.iter().position(due)
    }

    /// The node that was told, of a group that is taken by somebody else.
    fn won(&self) -> usize {
        loop {
            if let Some(number) = self.group.won() {
                return number;
            }
            sinew_sync::thread::yield_now();
        }
    }

    /// Takes all nodes out of their queues, but for the one that was told.
    fn leave(&self, told: Option<usize>) {
        for number in rotated(self.cases.len(), self.start).take(self.enrolled.replace(0)) {
            if told != Some(number) {
                self.cases[number].withdraw(&self.nodes[number]);
            }
        }
    }
}

impl Drop for Enlisted<'_> {
    /// Only on the way of an unwind is there anything to do.
    fn drop(&mut self) {
        if self.enrolled.get() == 0 {
            return;
        }
        let told = (!self.group.claim()).then(|| self.won());
        self.leave(told);
        if let Some(number) = told {
            self.cases[number].hand_on(&self.nodes[number]);
        }
    }
}

/// A select over a number of cases that is known when the program runs. Each comes with what to do when it happens.
///
/// ```
/// use sinew_sched::select::{Select, recv};
/// use sinew_sched::{Runtime, chan, spawn};
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
/// When the arm runs nothing else is under way any more, and nothing is borrowed by the other cases.
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
    // A variable for each case: `case` is another one each time. Then the wait, and when the cases are gone, the arm.
    (@cases [$($names:ident)*] $default:tt ($pattern:pat, $case:expr, $arm:expr) $($rest:tt)*) => {{
        let case = $case;
        $crate::select!(@cases [$($names)* case] $default $($rest)*)
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
    (@output $number:ident []) => { $crate::select::nothing() };
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
pub fn nothing() -> Infallible {
    unreachable!("one of the cases happened")
}

//! The one place in Sinew that names atomics, locks and threads.
//!
//! Everything concurrent is written against this crate, so that a model checker can take std's place
//! without a second copy of the code: `--cfg loom` puts loom's types here (every interleaving of a small
//! protocol), `--cfg shuttle` shuttle's (random schedules of a larger one), and nothing puts std's.
//!
//! - [`atomic`], [`Arc`], [`Mutex`], [`RwLock`], [`thread`], [`hint`] follow the choice;
//! - [`ShortLock`] is for a few instructions;
//! - [`cell::UnsafeCell`] has a model see who reads and writes it, and when;
//! - [`statics`] is always std's: process-wide singletons, which no model runs;
//! - [`capacity`] shrinks a constant under a model, so that the model stays small;
//! - [`const_unless_model`] is for constructors that a `static` may call.
//!
//! The locks do not poison: a panic while one is held leaves the value as it is. Sinew's own critical
//! sections run no user code, so there is no torn state to protect anybody from.

#[cfg(all(loom, shuttle))]
compile_error!("choose one model: --cfg loom or --cfg shuttle");

pub mod cell;
mod lock;
#[cfg(loom)]
mod parking;
mod spin_lock;
pub mod statics;

#[cfg(not(any(loom, shuttle)))]
use std as chosen;

#[cfg(loom)]
use loom as chosen;

#[cfg(shuttle)]
use shuttle as chosen;

pub use chosen::hint;
pub use chosen::sync::Arc;
pub use chosen::sync::atomic;
#[cfg(not(loom))]
pub use chosen::thread;
#[cfg(any(loom, shuttle))]
pub use lock::{Mutex as ShortLock, MutexGuard as ShortGuard};
pub use lock::{Mutex, MutexGuard, RwLock, RwLockReadGuard, RwLockWriteGuard};
pub use spin_lock::{SpinGuard, SpinLock};
/// A lock for a few instructions: a [`SpinLock`], or in a build for a model checker one that the checker knows.
#[cfg(not(any(loom, shuttle)))]
pub use spin_lock::{SpinGuard as ShortGuard, SpinLock as ShortLock};

/// Threads of the model.
#[cfg(loom)]
pub mod thread {
    pub use loom::thread::{Builder, JoinHandle, spawn, yield_now};

    pub use crate::parking::{Thread, current, park};
}

/// True in a build for a model checker.
pub const MODEL: bool = cfg!(any(loom, shuttle));

/// A capacity that shrinks under a model: `production` in a normal build, `model` in one for a checker.
pub const fn capacity(production: usize, model: usize) -> usize {
    if MODEL { model } else { production }
}

/// Makes a function `const`, except in a build for a model checker, whose types are made at run time.
#[macro_export]
macro_rules! const_unless_model {
    ($(#[$attribute:meta])* $visible:vis const fn $($rest:tt)*) => {
        #[cfg(not(any(loom, shuttle)))]
        $(#[$attribute])*
        $visible const fn $($rest)*
        #[cfg(any(loom, shuttle))]
        $(#[$attribute])*
        $visible fn $($rest)*
    };
}

/// A sequentially consistent fence right behind a read-modify-write that is sequentially consistent too. On x86-64 the
/// instruction that does that is such a fence already, so this one only holds the compiler back.
#[inline(always)]
pub fn fence_after_rmw() {
    use atomic::Ordering::SeqCst;
    if cfg!(all(target_arch = "x86_64", not(loom), not(shuttle))) {
        std::sync::atomic::compiler_fence(SeqCst);
    } else {
        atomic::fence(SeqCst);
    }
}

/// Begins to fetch the cache line at `place`, which may be any address, to be written soon. Only a hint, and on other
/// processors than x86-64 nothing at all.
#[inline(always)]
pub fn fetch_to_write<T>(place: *const T) {
    #[cfg(all(target_arch = "x86_64", not(any(loom, shuttle, miri))))]
    // SAFETY: the instruction changes nothing that a program can see, and ignores addresses that are none; processors that
    // do not know it do nothing.
    unsafe {
        std::arch::asm!("prefetchw [{}]", in(reg) place, options(nostack, preserves_flags, readonly));
    }
    #[cfg(not(all(target_arch = "x86_64", not(any(loom, shuttle, miri)))))]
    let _ = place;
}

/// How many threads the machine can run at once; 1 if it does not say, and in a model.
pub fn available_parallelism() -> usize {
    if MODEL { 1 } else { std::thread::available_parallelism().map_or(1, usize::from) }
}

/// Blocks the thread until it is unparked or `timeout` has passed. A model has no time: there it lasts until the
/// unpark.
pub fn park_timeout(timeout: std::time::Duration) {
    #[cfg(loom)]
    {
        let _ = timeout;
        thread::park();
    }
    #[cfg(not(loom))]
    thread::park_timeout(timeout);
}

/// Runs a model: every interleaving under loom, `SHUTTLE_SCHEDULES` random ones under shuttle, once with
/// std's threads otherwise. Prints how many executions it took, so that a model that ran nothing shows.
pub fn model(name: &str, body: impl Fn() + Send + Sync + 'static) {
    explore(name, None, body);
}

/// [`model`] for three threads that would take minutes: under loom, every interleaving in which a thread that could go
/// on is made to wait for another at most `preemptions` times.
pub fn model_bounded(name: &str, preemptions: usize, body: impl Fn() + Send + Sync + 'static) {
    explore(name, Some(preemptions), body);
}

#[cfg_attr(not(loom), allow(unused_variables, reason = "only loom counts preemptions"))]
fn explore(name: &str, preemptions: Option<usize>, body: impl Fn() + Send + Sync + 'static) {
    use statics::{AtomicUsize, Ordering};
    let executions = std::sync::Arc::new(AtomicUsize::new(0));
    let counted = {
        let executions = executions.clone();
        move || {
            executions.fetch_add(1, Ordering::Relaxed);
            body();
        }
    };

    #[cfg(loom)]
    {
        let mut builder = loom::model::Builder::new();
        builder.preemption_bound = preemptions.or(builder.preemption_bound);
        builder.check(counted);
    }

    #[cfg(shuttle)]
    shuttle::check_random(counted, SHUTTLE_SCHEDULES);

    #[cfg(not(any(loom, shuttle)))]
    counted();

    println!("MODEL {name} executions {}", executions.load(Ordering::Relaxed));
}

/// How many random schedules [`model`] tries under shuttle.
pub const SHUTTLE_SCHEDULES: usize = 5_000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_threads_that_count_under_a_lock_lose_nothing() {
        model("count_under_lock", || {
            let count = Arc::new(Mutex::new(0));
            let other = {
                let count = count.clone();
                thread::spawn(move || *count.lock() += 1)
            };
            *count.lock() += 1;
            other.join().unwrap();
            assert_eq!(*count.lock(), 2);
        });
    }

    #[test]
    fn a_model_build_uses_the_small_capacity() {
        assert_eq!(capacity(64, 2), if cfg!(any(loom, shuttle)) { 2 } else { 64 });
    }
}

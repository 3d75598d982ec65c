//! What the tests of several crates share.

#[cfg(feature = "runtimes")]
pub mod runtimes;

use std::alloc::{GlobalAlloc, Layout, System};
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};

use sinew_sync::statics::{AtomicU64, Ordering};
use sinew_sync::thread::{self, Thread};

/// A global allocator that counts the bytes in use, for tests of what is left behind:
///
/// ```
/// use sinew_test_kit::CountingAllocator;
///
/// #[global_allocator]
/// static ALLOCATOR: CountingAllocator = CountingAllocator::new();
///
/// let before = ALLOCATOR.in_use();
/// let memory = vec![0_u8; 1000];
/// assert!(ALLOCATOR.in_use() >= before + 1000);
/// drop(memory);
/// ```
#[derive(Debug)]
pub struct CountingAllocator {
    in_use: AtomicU64,
}

impl CountingAllocator {
    /// Creates an allocator that has counted nothing.
    #[allow(clippy::new_without_default, reason = "it is made in a static")]
    pub const fn new() -> CountingAllocator {
        CountingAllocator { in_use: AtomicU64::new(0) }
    }

    /// Returns the bytes that the process has allocated and not freed.
    pub fn in_use(&self) -> isize {
        self.in_use.load(Ordering::Relaxed).cast_signed() as isize
    }
}

// SAFETY: the system's allocator does all of it, with what the caller promises.
unsafe impl GlobalAlloc for CountingAllocator {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        self.in_use.fetch_add(layout.size() as u64, Ordering::Relaxed);
        // SAFETY: the caller's promise.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        self.in_use.fetch_sub(layout.size() as u64, Ordering::Relaxed);
        // SAFETY: the caller's promise.
        unsafe { System.dealloc(memory, layout) };
    }
}

/// Polls `future` until it is ready, and parks the thread in between. The first poll has a waker that wakes nobody, so the
/// future has to wake the waker of its last poll. For models: it uses the threads of [`sinew_sync`].
pub fn drive<F: Future>(future: F) -> F::Output {
    let mut future = pin!(future);
    let waker = Waker::from(Arc::new(Unpark(thread::current())));
    if let Poll::Ready(output) = future.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
        return output;
    }
    loop {
        match future.as_mut().poll(&mut Context::from_waker(&waker)) {
            Poll::Ready(output) => return output,
            Poll::Pending => thread::park(),
        }
    }
}

struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

/// Returns the name by which the test harness knows `test`, a function of `module`: what `--exact` takes and `--list`
/// prints. `module` is the `module_path!()` of the test, which begins with the name of its program.
///
/// ```
/// use sinew_test_kit::full_test_name;
///
/// assert_eq!(full_test_name("program::module::tests", "a_test"), "module::tests::a_test");
/// assert_eq!(full_test_name("program", "a_test"), "a_test");
/// ```
pub fn full_test_name(module: &str, test: &str) -> String {
    match module.split_once("::") {
        Some((_program, module)) => format!("{module}::{test}"),
        None => test.to_owned(),
    }
}

//! Proof, by tests alone, that WASM guests run as tasks of sinew-sched: nothing is exported here.
//!
//! A guest is a future. wasmtime runs its exported function on a stack of its own (`call_async`), leaves that stack
//! when an async host function has to wait, and the future is pending; sinew-sched polls it again when the host
//! function's waker says so, on whichever worker is free. wasmtime keeps a list of activations for each thread and
//! saves it around these switches only, so its synchronous calls must not be suspended by fibers of ours.
//!
//! # What the engine takes from us
//!
//! `tests/seam/slabs.rs` puts wasmtime's two hooks over the slabs of sinew-fiber:
//!
//! - A stack is a `Stack` of at least the size that the engine asks for. The engine stops a guest whose code is
//!   `max_wasm_stack` bytes deep, with a trap, however large the stack is, so on a smaller one a guest could end the
//!   process. The guard below is there for host functions, whose depth nobody checks: one that meets it ends the
//!   process, with a message of wasmtime's.
//! - A linear memory is a `Memory`, a slot that can be read and written to its end, whatever size the guest has grown
//!   to. So the code of guests has to compare every address with that size, and the engine reserves nothing
//!   (`memory_reservation(0)`): for a memory that fits into a reservation it compares with the reservation at most, and
//!   expects that the pages between the two fault. A guard spares a part of the comparison, but only where it begins
//!   right behind the memory: such a memory does not grow.
//!
//! `tests/seam/guests.rs` has the whole configuration. The handlers of SIGSEGV may be installed in either order, as each
//! passes on what is not its own.
//!
//! A guest that computes without waiting yields when its engine is ticked (`tests/seam/ticker.rs`). The ticks come from a
//! thread, since on a busy worker no task could, and stop while no guest is polled.
//!
//! # What the tests show
//!
//! - `interleaved.rs`: guests that are suspended are resumed first in, first out, with traps of others in between;
//! - `ended.rs`: a guest that is cancelled, killed or shut down in a host call gives everything back, once;
//! - `moved.rs`: a guest goes on on another worker;
//! - `preempted.rs`: a guest that never waits shares its only worker with others, and can be killed;
//! - `memories.rs`: stacks and memories come from the slabs; growth, bounds, depth;
//! - `host_functions.rs`: host functions that would block are refused, and what they raise ends their task;
//! - `faults.rs`: wasmtime's signal handler and that of sinew-fiber serve each other's faults;
//! - `many.rs`: ten thousand guests wait at once.
//!
//! wasmtime is a dependency of the tests only, and of no other crate.
#![forbid(unsafe_code)]

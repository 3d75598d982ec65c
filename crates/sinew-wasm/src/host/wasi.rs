//! Module `wasi_snapshot_preview1`: what ordinary programs import.
//!
//! A call is a function of the same name that returns its error number, or nothing. All its pointers are checked
//! before it has an effect. A call that can block is a future. For a guest without a stack that future is polled once:
//! a call that would have to wait fails with `EDEADLK`.
//!
//! Numbers, structures and flags are those of the published interface, which differ from Linux's: [`errno`] and
//! [`layout`] have them.

pub(super) mod clocks;
pub(super) mod descriptors;
mod errno;
pub(super) mod files;
mod iovecs;
mod layout;
pub(super) mod listing;
pub(super) mod paths;
pub(super) mod poll;
pub(super) mod process;
pub(super) mod unsupported;

use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use sinew_core::Errno;
use sinew_fd::FdTable;
use wasmtime::Caller;

use super::access::Access;
use super::waiting::{FILES, wait};
use crate::state::GuestState;

type Guest<'a> = Caller<'a, GuestState>;

/// The result of a call.
type Outcome<T = ()> = Result<T, Errno>;

/// The name of the import module.
const WASI: &str = "wasi_snapshot_preview1";

/// An entry for a call that never blocks: a function of this name.
macro_rules! call {
    ($name:ident($($param:ident: $type:ident),*)) => {
        $crate::host::HostCall {
            module: $crate::host::wasi::WASI,
            name: stringify!($name),
            params: &[$($crate::host::wasi::wasm_type!($type)),*],
            results: &[$crate::host::I32],
            can_block: false,
            link: |linker, _| {
                let call = |mut caller: $crate::host::wasi::Guest<'_>, $($param: $type),*| -> i32 {
                    $crate::host::wasi::errno::result($name(&mut caller, $($param),*))
                };
                linker.func_wrap($crate::host::wasi::WASI, stringify!($name), call).map(drop)
            },
        }
    };
}

/// An entry for a call that can block: an asynchronous function of this name.
macro_rules! blocking_call {
    ($name:ident($($param:ident: $type:ident),*)) => {
        $crate::host::HostCall {
            module: $crate::host::wasi::WASI,
            name: stringify!($name),
            params: &[$($crate::host::wasi::wasm_type!($type)),*],
            results: &[$crate::host::I32],
            can_block: true,
            link: |linker, can_block| {
                use $crate::host::wasi::{Guest, WASI, at_once, errno};
                if !can_block {
                    let call = |mut caller: Guest<'_>, $($param: $type),*| -> i32 {
                        errno::result(at_once($name(&mut caller, $($param),*)))
                    };
                    return linker.func_wrap(WASI, stringify!($name), call).map(drop);
                }
                linker
                    .func_wrap_async(
                        WASI,
                        stringify!($name),
                        |mut caller: Guest<'_>, ($($param,)*): ($($type,)*)| {
                            Box::new(async move { errno::result($name(&mut caller, $($param),*).await) })
                        },
                    )
                    .map(drop)
            },
        }
    };
}

/// The type of a parameter in WebAssembly.
macro_rules! wasm_type {
    (i32) => {
        $crate::host::I32
    };
    (i64) => {
        $crate::host::I64
    };
}

pub(in crate::host) use {blocking_call, call, wasm_type};

/// Returns what a call gives without waiting; `EDEADLK` if it has to wait.
fn at_once(call: impl Future<Output = Outcome>) -> Outcome {
    match pin!(call).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(outcome) => outcome,
        Poll::Pending => Err(Errno::EDEADLK),
    }
}

/// Runs a call of the system that blocks its thread. `EDEADLK` for a guest without a stack.
async fn blocking<T: Send + 'static>(
    caller: &mut Guest<'_>,
    call: impl FnOnce() -> Outcome<T> + Send + 'static,
) -> Outcome<T> {
    if !can_block(caller) {
        return Err(Errno::EDEADLK);
    }
    match wait(caller, FILES, sinew_io::blocking_async(call)).await {
        Ok(outcome) => outcome,
        Err(error) if error.is_cancelled() => Err(Errno::ECANCELED),
        Err(_) => Err(Errno::EIO),
    }
}

fn can_block(caller: &mut Guest<'_>) -> bool {
    caller.state().profile.options.class.can_block()
}

/// The file descriptors of the guest.
fn table(caller: &mut Guest<'_>) -> Arc<FdTable> {
    caller.state().fds().table.clone()
}

//! Host calls: what a guest can import.
//!
//! Each family of calls is a file with a table. An entry says what the call is named and of which
//! type, whether it can block, and how it is linked. A call that can block is linked in two ways: as a
//! function that suspends the guest, and for guests without a stack as one that returns its error.

pub(crate) mod access;
mod actors;
mod basics;
mod messages;
mod read_file;
mod state_calls;
#[cfg(test)]
mod tests;
mod waiting;
mod wasi;

use std::fmt;

use wasmtime::{Linker, ValType};

use crate::state::GuestState;

/// One form of a host call.
pub(crate) struct HostCall {
    pub(crate) module: &'static str,
    pub(crate) name: &'static str,
    pub(crate) params: &'static [ValType],
    pub(crate) results: &'static [ValType],
    pub(crate) can_block: bool,
    /// Links it for a guest that may block, or may not.
    pub(crate) link: fn(&mut Linker<GuestState>, bool) -> wasmtime::Result<()>,
}

/// The names of the import modules.
const ENV: &str = "env";

const I32: ValType = ValType::I32;
const I64: ValType = ValType::I64;

const FAMILIES: [&[HostCall]; 13] = [
    basics::CALLS,
    messages::CALLS,
    actors::CALLS,
    state_calls::CALLS,
    read_file::CALLS,
    wasi::process::CALLS,
    wasi::clocks::CALLS,
    wasi::descriptors::CALLS,
    wasi::files::CALLS,
    wasi::listing::CALLS,
    wasi::paths::CALLS,
    wasi::poll::CALLS,
    wasi::unsupported::CALLS,
];

/// Every host call.
pub(crate) fn all() -> impl Iterator<Item = &'static HostCall> {
    FAMILIES.into_iter().flatten()
}

/// The forms of a host call.
pub(crate) fn find(module: &str, name: &str) -> impl Iterator<Item = &'static HostCall> {
    all().filter(move |call| call.module == module && call.name == name)
}

/// Whether a call always fails with `ENOSYS`.
pub(crate) fn is_unsupported(call: &HostCall) -> bool {
    wasi::unsupported::CALLS.iter().any(|other| (other.module, other.name) == (call.module, call.name))
}

/// Why a call of the published interface cannot be imported yet.
pub(crate) fn not_yet(module: &str, name: &str) -> Option<&'static str> {
    if module != ENV {
        return None;
    }
    Some(match name {
        "mk_http_get" | "mk_http_get_blocking" => "this build of Sinew has no HTTP for guests yet",
        "mk_wait_fd_readable" | "mk_wait_fd_writable" => {
            "this build of Sinew has no descriptors for guests yet"
        }
        "mk_i2c_read_blocking" => "this machine has no hardware that guests can use",
        _ => return None,
    })
}

impl fmt::Display for HostCall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.module, self.name)
    }
}

//! Calls that link, so that programs that import them run, and always fail with `ENOSYS`.
//!
//! Sockets come with the network. The others are used by few programs, which go on without them.

use sinew_core::Errno;

use super::{Guest, WASI, errno, wasm_type};
use crate::host::{HostCall, I32};

/// An entry for a call with these parameters.
macro_rules! unsupported {
    ($name:ident($($type:ident),*)) => {
        HostCall {
            module: WASI,
            name: stringify!($name),
            params: &[$(wasm_type!($type)),*],
            results: &[I32],
            can_block: false,
            link: |linker, _| {
                let call = |_: Guest<'_>, $(_: $type),*| -> i32 { errno::result(Err(Errno::ENOSYS)) };
                linker.func_wrap(WASI, stringify!($name), call).map(drop)
            },
        }
    };
}

pub(in crate::host) const CALLS: &[HostCall] = &[
    // fd_advise(fd, offset, length, advice)
    unsupported!(fd_advise(i32, i64, i64, i32)),
    // fd_allocate(fd, offset, length)
    unsupported!(fd_allocate(i32, i64, i64)),
    // fd_fdstat_set_rights(fd, rights, inherited rights)
    unsupported!(fd_fdstat_set_rights(i32, i64, i64)),
    // fd_filestat_set_times(fd, accessed, modified, flags)
    unsupported!(fd_filestat_set_times(i32, i64, i64, i32)),
    // fd_renumber(fd, to)
    unsupported!(fd_renumber(i32, i32)),
    // path_filestat_set_times(fd, lookup, path*, length, accessed, modified, flags)
    unsupported!(path_filestat_set_times(i32, i32, i32, i32, i64, i64, i32)),
    // path_link(fd, lookup, path*, length, new fd, new path*, new length)
    unsupported!(path_link(i32, i32, i32, i32, i32, i32, i32)),
    // path_readlink(fd, path*, length, buffer*, size, used*)
    unsupported!(path_readlink(i32, i32, i32, i32, i32, i32)),
    // path_symlink(text*, length, fd, path*, length)
    unsupported!(path_symlink(i32, i32, i32, i32, i32)),
    // proc_raise(signal)
    unsupported!(proc_raise(i32)),
    // sock_accept(fd, flags, fd*)
    unsupported!(sock_accept(i32, i32, i32)),
    // sock_recv(fd, buffers*, count, flags, size*, flags*)
    unsupported!(sock_recv(i32, i32, i32, i32, i32, i32)),
    // sock_send(fd, buffers*, count, flags, size*)
    unsupported!(sock_send(i32, i32, i32, i32, i32)),
    // sock_shutdown(fd, how)
    unsupported!(sock_shutdown(i32, i32)),
];

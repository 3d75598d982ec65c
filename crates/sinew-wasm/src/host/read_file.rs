//! Module `env`: reading a file of a directory that was granted.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::Arc;

use sinew_fd::{Directory, Errno, FdObject, OpenOptions};
use wasmtime::Caller;

use super::access::Access;
use super::waiting::{FILES, wait};
use super::{ENV, HostCall, I32};
use crate::fds::Preopened;
use crate::state::GuestState;

type Guest<'a> = Caller<'a, GuestState>;

/// The longest path, in bytes; longer ones are cut, as in the interface that guests are written for.
const LONGEST_PATH: usize = 511;

pub(super) const CALLS: &[HostCall] = &[
    // mk_read_file(path, length, buf, size, size*) -> i32: 0; as many bytes of a file as fit, and its full length. -1 if it
    // cannot be read, and without a stack. The path is below a directory that was granted, with or without a leading `/`: below
    // the one whose own path it begins with, else below the first.
    HostCall {
        module: ENV,
        name: "mk_read_file",
        params: &[I32, I32, I32, I32, I32],
        results: &[I32],
        can_block: true,
        link: |linker, can_block| {
            if !can_block {
                let call = |_: Guest<'_>, _: i32, _: i32, _: i32, _: i32, _: i32| -1_i32;
                return linker.func_wrap(ENV, "mk_read_file", call).map(drop);
            }
            linker
                .func_wrap_async(
                    ENV,
                    "mk_read_file",
                    |mut caller: Guest<'_>, (path, length, buf, size, out): (i32, i32, i32, i32, i32)| {
                        Box::new(async move {
                            read_file(&mut caller, [path, length, buf, size, out]).await.unwrap_or(-1)
                        })
                    },
                )
                .map(drop)
        },
    },
];

async fn read_file(caller: &mut Guest<'_>, [path, length, buf, size, out]: [i32; 5]) -> Option<i32> {
    let path = caller.bytes(path, length).ok()?;
    let path = path[..path.len().min(LONGEST_PATH)].to_vec();
    let (buffer, out) = (caller.buffer(buf, size).ok()?, caller.out(out, 4).ok()?);
    let state = caller.state();
    if state.profile.options.grants.directories().is_empty() {
        state.denied("mk_read_file", format_args!("no directory is granted to it"));
        return None;
    }
    let (directory, path) = resolve(state.fds().directories(), &path)?;
    let (path, room) = (path.to_vec(), buffer.len());
    let reading = sinew_io::blocking_async(move || read(&directory, &path, room));
    let (bytes, full) = wait(caller, FILES, reading).await.ok()?.ok()?;
    caller.fill(buffer, &bytes);
    caller.put(out, &u32::try_from(full).unwrap_or(u32::MAX).to_le_bytes());
    Some(0)
}

/// Returns the directory that a path is in, and the path below it.
fn resolve<'a>(directories: &[Preopened], path: &'a [u8]) -> Option<(Arc<Directory>, &'a [u8])> {
    let path = below(path, b"")?;
    let within = |directory: &Preopened| {
        let own = directory.guest_path.trim_matches('/').as_bytes();
        below(path, own).map(|rest| (own.len(), directory.directory.clone(), rest))
    };
    let found = directories.iter().filter_map(within).max_by_key(|(length, ..)| *length);
    match found {
        Some((_, directory, rest)) => Some((directory, rest)),
        None => directories.first().map(|first| (first.directory.clone(), path)),
    }
}

/// Returns the rest of a path that begins with the components of `start`, without leading slashes.
fn below<'a>(path: &'a [u8], start: &[u8]) -> Option<&'a [u8]> {
    let mut rest = path.strip_prefix(start)?;
    if !start.is_empty() && rest.first().is_some_and(|byte| *byte != b'/') {
        return None;
    }
    while let [b'/', shorter @ ..] = rest {
        rest = shorter;
    }
    Some(rest)
}

/// Reads the first bytes of a file, at most `room`. Returns them with its full length.
fn read(directory: &Directory, path: &[u8], room: usize) -> Result<(Vec<u8>, u64), Errno> {
    let options = OpenOptions { read: true, ..OpenOptions::default() };
    let file = directory.open_file(Path::new(OsStr::from_bytes(path)), options)?;
    let full = file.stat()?.size;
    let mut bytes = vec![0; room.min(usize::try_from(full).unwrap_or(usize::MAX))];
    let mut filled = 0;
    while filled < bytes.len() {
        match file.read(&mut bytes[filled..])? {
            0 => break,
            count => filled += count,
        }
    }
    bytes.truncate(filled);
    Ok((bytes, full))
}

//! Module `env`: what the node keeps for a guest across restarts.

use wasmtime::Caller;

use super::access::Access;
use super::waiting::{STATE, wait};
use super::{ENV, HostCall, I32};
use crate::state::GuestState;

type Guest<'a> = Caller<'a, GuestState>;

/// The longest key, in bytes; longer ones are cut, as in the interface that guests are written for.
const LONGEST_KEY: usize = 63;

pub(super) const CALLS: &[HostCall] = &[
    // mk_save_state(key, klen, data, dlen) -> i32: 0 when it is durable, -1 otherwise. A guest without a name has no state.
    HostCall {
        module: ENV,
        name: "mk_save_state",
        params: &[I32, I32, I32, I32],
        results: &[I32],
        can_block: true,
        link: |linker, can_block| {
            if !can_block {
                return linker
                    .func_wrap(ENV, "mk_save_state", |_: Guest<'_>, _: i32, _: i32, _: i32, _: i32| -1_i32)
                    .map(drop);
            }
            linker
                .func_wrap_async(
                    ENV,
                    "mk_save_state",
                    |mut caller: Guest<'_>, place: (i32, i32, i32, i32)| {
                        Box::new(async move { save(&mut caller, place).await.unwrap_or(-1) })
                    },
                )
                .map(drop)
        },
    },
    // mk_load_state(key, klen, buf, cap) -> i32: the number of bytes that were copied, at most cap; -1 if there is no such key.
    HostCall {
        module: ENV,
        name: "mk_load_state",
        params: &[I32, I32, I32, I32],
        results: &[I32],
        can_block: true,
        link: |linker, can_block| {
            if !can_block {
                return linker
                    .func_wrap(ENV, "mk_load_state", |_: Guest<'_>, _: i32, _: i32, _: i32, _: i32| -1_i32)
                    .map(drop);
            }
            linker
                .func_wrap_async(
                    ENV,
                    "mk_load_state",
                    |mut caller: Guest<'_>, place: (i32, i32, i32, i32)| {
                        Box::new(async move { load(&mut caller, place).await.unwrap_or(-1) })
                    },
                )
                .map(drop)
        },
    },
];

/// Reads a key, cut as the interface has it.
fn key(caller: &mut Guest<'_>, ptr: i32, len: i32) -> Option<String> {
    let bytes = caller.bytes(ptr, len).ok()?;
    std::str::from_utf8(&bytes[..bytes.len().min(LONGEST_KEY)]).ok().map(str::to_owned)
}

async fn save(caller: &mut Guest<'_>, (ptr, len, data, size): (i32, i32, i32, i32)) -> Option<i32> {
    let key = key(caller, ptr, len)?;
    let value = caller.bytes(data, size).ok()?.to_vec();
    let state = caller.state();
    if value.len() > state.profile.options.limits.state_bytes {
        return None;
    }
    let kept = state.inbox.ctx().state();
    wait(caller, STATE, kept.save_async(&key, value)).await.ok().map(|()| 0)
}

async fn load(caller: &mut Guest<'_>, (ptr, len, buf, size): (i32, i32, i32, i32)) -> Option<i32> {
    let key = key(caller, ptr, len)?;
    let buffer = caller.buffer(buf, size).ok()?;
    let kept = caller.state().inbox.ctx().state();
    let value = wait(caller, STATE, kept.load_async(&key)).await.ok()??;
    caller.fill(buffer, &value);
    i32::try_from(value.len().min(buffer.len())).ok()
}

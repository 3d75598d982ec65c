//! Module `env`: other actors. Names, lists, stopping, spawning.

use sinew_kernel::{ActorId, Level};
use wasmtime::Caller;

use super::access::Access;
use super::waiting::{SPAWN, wait};
use super::{ENV, HostCall, I32, I64};
use crate::profile::ChildModule;
use crate::state::GuestState;

type Guest<'a> = Caller<'a, GuestState>;

/// The longest name or path, in bytes; longer ones are cut, as in the interface that guests are written for.
const LONGEST_NAME: usize = 63;
/// The longest path that starts with a slash.
const LONGEST_PATH: usize = 127;
/// Ids that `mk_list_actors` writes at most.
const MOST_LISTED: usize = 256;
/// The largest module that a guest may spawn.
const LARGEST_MODULE: usize = 8 << 20;

pub(super) const CALLS: &[HostCall] = &[
    // mk_register(ptr, len) -> i32: registers the guest under a name or path. 0, or -1. Granted by `register`.
    HostCall {
        module: ENV,
        name: "mk_register",
        params: &[I32, I32],
        results: &[I32],
        can_block: false,
        link: |linker, _| {
            linker
                .func_wrap(ENV, "mk_register", |mut caller: Guest<'_>, ptr, len| {
                    register(&mut caller, ptr, len)
                })
                .map(drop)
        },
    },
    // mk_lookup(ptr, len) -> i64: the actor of a name or path, or 0. Granted by `see`.
    HostCall {
        module: ENV,
        name: "mk_lookup",
        params: &[I32, I32],
        results: &[I64],
        can_block: false,
        link: |linker, _| {
            linker
                .func_wrap(ENV, "mk_lookup", |mut caller: Guest<'_>, ptr, len| lookup(&mut caller, ptr, len))
                .map(drop)
        },
    },
    // mk_reverse_lookup(id, buf, size) -> i32: the length of a name of an actor, or 0. Copies at most size - 1 bytes and a zero.
    // Granted by `see`.
    HostCall {
        module: ENV,
        name: "mk_reverse_lookup",
        params: &[I64, I32, I32],
        results: &[I32],
        can_block: false,
        link: |linker, _| {
            let call = |mut caller: Guest<'_>, id, buf, size| reverse_lookup(&mut caller, id, buf, size);
            linker.func_wrap(ENV, "mk_reverse_lookup", call).map(drop)
        },
    },
    // mk_ns_list(prefix, len, buf, size, len*) -> i32: 0; lines `path=id`, as many bytes as fit, and their full length.
    // Granted by `see`: without it the list is empty.
    HostCall {
        module: ENV,
        name: "mk_ns_list",
        params: &[I32, I32, I32, I32, I32],
        results: &[I32],
        can_block: false,
        link: |linker, _| {
            let call = |mut caller: Guest<'_>, ptr, len, buf, size, out| {
                list_names(&mut caller, [ptr, len, buf, size, out])
            };
            linker.func_wrap(ENV, "mk_ns_list", call).map(drop)
        },
    },
    // mk_list_actors(ids*, most, count*) -> i32: 0 and up to 256 ids; -1 for a bad buffer. Granted by `see`.
    HostCall {
        module: ENV,
        name: "mk_list_actors",
        params: &[I32, I32, I32],
        results: &[I32],
        can_block: false,
        link: |linker, _| {
            let call = |mut caller: Guest<'_>, buf, most, count| list_actors(&mut caller, buf, most, count);
            linker.func_wrap(ENV, "mk_list_actors", call).map(drop)
        },
    },
    // mk_node_name(buf, size) -> i32: the length of the node's identity, of which as much is copied as fits.
    HostCall {
        module: ENV,
        name: "mk_node_name",
        params: &[I32, I32],
        results: &[I32],
        can_block: false,
        link: |linker, _| {
            linker
                .func_wrap(ENV, "mk_node_name", |mut caller: Guest<'_>, buf, size| {
                    node_name(&mut caller, buf, size)
                })
                .map(drop)
        },
    },
    // mk_stop(id) -> i32: asks an actor to stop. 0, also if it is gone; -1 without the grant.
    HostCall {
        module: ENV,
        name: "mk_stop",
        params: &[I64],
        results: &[I32],
        can_block: false,
        link: |linker, _| {
            linker.func_wrap(ENV, "mk_stop", |mut caller: Guest<'_>, id| stop(&mut caller, id)).map(drop)
        },
    },
    // mk_spawn_wasm(ptr, len, mailbox) -> i64: starts a module as a child; its id, or 0. Granted by `spawn`; not for
    // guests without a stack.
    HostCall {
        module: ENV,
        name: "mk_spawn_wasm",
        params: &[I32, I32, I32],
        results: &[I64],
        can_block: true,
        link: |linker, can_block| {
            if !can_block {
                return linker
                    .func_wrap(ENV, "mk_spawn_wasm", |_: Guest<'_>, _: i32, _: i32, _: i32| 0_i64)
                    .map(drop);
            }
            linker
                .func_wrap_async(
                    ENV,
                    "mk_spawn_wasm",
                    |mut caller: Guest<'_>, (ptr, len, mailbox): (i32, i32, i32)| {
                        Box::new(async move { spawn(&mut caller, ptr, len, mailbox).await })
                    },
                )
                .map(drop)
        },
    },
];

/// Reads a name, cut as the interface has it.
fn name(caller: &mut Guest<'_>, ptr: i32, len: i32) -> Option<String> {
    let bytes = caller.bytes(ptr, len).ok()?;
    let longest = if bytes.first() == Some(&b'/') { LONGEST_PATH } else { LONGEST_NAME };
    std::str::from_utf8(&bytes[..bytes.len().min(longest)]).ok().map(str::to_owned)
}

/// Whether the guest may see other actors; notes it if not.
fn may_see(caller: &mut Guest<'_>, call: &str) -> bool {
    let state = caller.state();
    let may = state.profile.options.grants.may_see();
    if !may {
        state.denied(call, format_args!("it may not see other actors"));
    }
    may
}

fn register(caller: &mut Guest<'_>, ptr: i32, len: i32) -> i32 {
    let Some(name) = name(caller, ptr, len) else { return -1 };
    let state = caller.state();
    if !state.profile.options.grants.may_register(&name) {
        state.denied("mk_register", format_args!("it may not register {name:?}"));
        return -1;
    }
    if state.inbox.ctx().register(&name).is_ok() { 0 } else { -1 }
}

fn lookup(caller: &mut Guest<'_>, ptr: i32, len: i32) -> i64 {
    let Some(name) = name(caller, ptr, len) else { return 0 };
    if !may_see(caller, "mk_lookup") {
        return 0;
    }
    let found = caller.state().inbox.ctx().node().lookup(&name);
    found.map_or(0, |actor| actor.as_u64().cast_signed())
}

fn reverse_lookup(caller: &mut Guest<'_>, id: i64, buf: i32, size: i32) -> i32 {
    let Ok(buffer) = caller.buffer(buf, size) else { return 0 };
    if !may_see(caller, "mk_reverse_lookup") {
        return 0;
    }
    let names = caller.state().inbox.ctx().node().names_of(ActorId::from_u64(id.cast_unsigned()));
    let Some(name) = names.first() else { return 0 };
    if let Some(room) = buffer.shorter() {
        caller.fill(room, name.as_bytes());
        caller.put(buffer.at(room.len().min(name.len())), &[0]);
    }
    i32::try_from(name.len()).unwrap_or(i32::MAX)
}

fn list_names(caller: &mut Guest<'_>, [ptr, len, buf, size, out]: [i32; 5]) -> i32 {
    let (Ok(prefix), Ok(buffer), Ok(out)) =
        (caller.text(ptr, len, LONGEST_PATH), caller.buffer(buf, size), caller.out(out, 4))
    else {
        return 0;
    };
    let mut lines = String::new();
    if may_see(caller, "mk_ns_list") {
        for (name, actor) in caller.state().inbox.ctx().node().list(&prefix) {
            lines += &format!("{name}={}\n", actor.as_u64());
        }
    }
    caller.fill(buffer, lines.as_bytes());
    let len = u32::try_from(lines.len()).unwrap_or(u32::MAX);
    caller.put(out, &len.to_le_bytes());
    0
}

fn list_actors(caller: &mut Guest<'_>, buf: i32, most: i32, count: i32) -> i32 {
    let most = usize::try_from(most).unwrap_or(0).min(MOST_LISTED);
    let Ok(bytes) = i32::try_from(most * 8) else { return -1 };
    let (Ok(buffer), Ok(count)) = (caller.buffer(buf, bytes), caller.out(count, 4)) else { return -1 };
    if buf == 0 || most == 0 {
        return -1;
    }
    let mut ids = Vec::new();
    if may_see(caller, "mk_list_actors") {
        let actors = caller.state().inbox.ctx().node().actor_ids();
        ids.extend(actors.into_iter().take(most).flat_map(|actor| actor.as_u64().to_le_bytes()));
    }
    caller.fill(buffer, &ids);
    caller.put(count, &((ids.len() / 8) as u32).to_le_bytes());
    0
}

fn node_name(caller: &mut Guest<'_>, buf: i32, size: i32) -> i32 {
    let Ok(buffer) = caller.buffer(buf, size) else { return 0 };
    let name = caller.state().inbox.ctx().node().identity().to_string();
    caller.fill(buffer, name.as_bytes());
    i32::try_from(name.len()).unwrap_or(i32::MAX)
}

fn stop(caller: &mut Guest<'_>, id: i64) -> i32 {
    let state = caller.state();
    let (node, actor) = (state.inbox.ctx().node(), ActorId::from_u64(id.cast_unsigned()));
    if actor != state.inbox.id() && !state.profile.options.grants.may_stop(node, actor) {
        state.denied("mk_stop", format_args!("it may not stop {actor}"));
        return -1;
    }
    node.stop(actor);
    0
}

async fn spawn(caller: &mut Guest<'_>, ptr: i32, len: i32, mailbox: i32) -> i64 {
    let Ok(source) = caller.bytes(ptr, len).map(<[u8]>::to_vec) else { return 0 };
    let state = caller.state();
    let Some(grants) = state.profile.options.grants.of_child() else {
        state.denied("mk_spawn_wasm", format_args!("it may not spawn"));
        return 0;
    };
    if source.len() > LARGEST_MODULE {
        state.denied("mk_spawn_wasm", format_args!("a module has at most {LARGEST_MODULE} bytes"));
        return 0;
    }
    let limits = state.profile.options.limits.clone();
    if state.inbox.ctx().child_count() >= limits.children as usize {
        state.denied("mk_spawn_wasm", format_args!("it has {} children, the limit", limits.children));
        return 0;
    }
    let child = ChildModule { source, mailbox: mailbox.max(1).cast_unsigned(), limits, grants };
    let spawning = state.profile.spawner.spawn(state.inbox.clone(), child);
    match wait(caller, SPAWN, spawning).await {
        Ok(child) => child.as_u64().cast_signed(),
        Err(error) => {
            caller.state().log(Level::Warn, &format!("mk_spawn_wasm: {error}"));
            0
        }
    }
}

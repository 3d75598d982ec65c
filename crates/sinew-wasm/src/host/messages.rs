//! Module `env`: sending and receiving.

use std::pin::pin;
use std::task::Poll;
use std::time::Duration;

use sinew_kernel::raw::Inbox;
use sinew_kernel::{ActorId, Kind, Message, Payload};
use sinew_sched::sleep_async;
use wasmtime::Caller;

use super::access::{Access, BadRange, Buffer, Out};
use super::waiting::{RECV, wait, yield_once};
use super::{ENV, HostCall, I32, I64};
use crate::state::GuestState;

type Guest<'a> = Caller<'a, GuestState>;

/// Nothing was received, or a pointer was bad.
const FAILED: i32 = -1;
/// Nothing came in time.
const TIMED_OUT: i32 = -2;

pub(super) const CALLS: &[HostCall] = &[
    // mk_send(dest, kind, ptr, len) -> i32: 1 if the message was accepted, else 0. Never blocks.
    HostCall {
        module: ENV,
        name: "mk_send",
        params: &[I64, I32, I32, I32],
        results: &[I32],
        can_block: false,
        link: |linker, _| {
            let call = |mut caller: Guest<'_>, dest: i64, kind: i32, ptr: i32, len: i32| -> i32 {
                let Ok(payload) = caller.bytes(ptr, len).map(Payload::copy) else { return 0 };
                i32::from(send(&mut caller, dest, kind, payload))
            };
            linker.func_wrap(ENV, "mk_send", call).map(drop)
        },
    },
    // mk_send_u32(dest, kind, value) -> i32: the same with four bytes, little-endian. Needs no memory.
    HostCall {
        module: ENV,
        name: "mk_send_u32",
        params: &[I64, I32, I32],
        results: &[I32],
        can_block: false,
        link: |linker, _| {
            let call = |mut caller: Guest<'_>, dest: i64, kind: i32, value: i32| -> i32 {
                i32::from(send(&mut caller, dest, kind, Payload::copy(&value.to_le_bytes())))
            };
            linker.func_wrap(ENV, "mk_send_u32", call).map(drop)
        },
    },
    // mk_recv(kind*, buf, size, len*) -> i32: waits for the next message. 0, or -1 without a stack. Copies
    // what fits, and says the full length.
    HostCall {
        module: ENV,
        name: "mk_recv",
        params: &[I32, I32, I32, I32],
        results: &[I32],
        can_block: true,
        link: |linker, can_block| {
            if !can_block {
                let call = |_: Guest<'_>, _: i32, _: i32, _: i32, _: i32| FAILED;
                return linker.func_wrap(ENV, "mk_recv", call).map(drop);
            }
            linker
                .func_wrap_async(
                    ENV,
                    "mk_recv",
                    |mut caller: Guest<'_>, (kind, buf, size, len): (i32, i32, i32, i32)| {
                        Box::new(async move { recv(&mut caller, [kind, buf, size, len, 0], None).await })
                    },
                )
                .map(drop)
        },
    },
    // mk_recv_full(kind*, buf, size, len*, source*) -> i32: the same, with the sender.
    HostCall {
        module: ENV,
        name: "mk_recv_full",
        params: &[I32, I32, I32, I32, I32],
        results: &[I32],
        can_block: true,
        link: |linker, can_block| {
            if !can_block {
                let call = |_: Guest<'_>, _: i32, _: i32, _: i32, _: i32, _: i32| FAILED;
                return linker.func_wrap(ENV, "mk_recv_full", call).map(drop);
            }
            linker
                .func_wrap_async(
                    ENV,
                    "mk_recv_full",
                    |mut caller: Guest<'_>, (kind, buf, size, len, source): (i32, i32, i32, i32, i32)| {
                        Box::new(async move { recv(&mut caller, [kind, buf, size, len, source], None).await })
                    },
                )
                .map(drop)
        },
    },
    // mk_recv_timeout(kind*, buf, size, len*, source*, ms) -> i32: the same; -2, and zeros, if nothing came within `ms`.
    // 0 looks once, negative waits for ever.
    HostCall {
        module: ENV,
        name: "mk_recv_timeout",
        params: &[I32, I32, I32, I32, I32, I32],
        results: &[I32],
        can_block: true,
        link: |linker, can_block| {
            if !can_block {
                let call = |_: Guest<'_>, _: i32, _: i32, _: i32, _: i32, _: i32, _: i32| FAILED;
                return linker.func_wrap(ENV, "mk_recv_timeout", call).map(drop);
            }
            linker
                .func_wrap_async(
                    ENV,
                    "mk_recv_timeout",
                    |mut caller: Guest<'_>,
                     (kind, buf, size, len, source, ms): (i32, i32, i32, i32, i32, i32)| {
                        Box::new(async move {
                            let timeout = u64::try_from(ms).ok().map(Duration::from_millis);
                            recv(&mut caller, [kind, buf, size, len, source], timeout).await
                        })
                    },
                )
                .map(drop)
        },
    },
];

/// Sends as the guest. False if that was denied or refused.
fn send(caller: &mut Guest<'_>, dest: i64, kind: i32, payload: Payload) -> bool {
    let (dest, kind) = (ActorId::from_u64(dest.cast_unsigned()), Kind(kind.cast_unsigned()));
    let state = caller.state();
    if payload.bytes().len() > state.profile.options.limits.message_bytes {
        return false;
    }
    let node = state.inbox.ctx().node();
    if dest != state.source && dest != state.inbox.id() && !state.profile.options.grants.may_send(node, dest)
    {
        state.denied("mk_send", format_args!("it may not send to {dest}"));
        return false;
    }
    state.inbox.ctx().send(dest, kind, payload).is_ok()
}

/// Where the parts of a message go.
struct Place {
    kind: Out,
    buffer: Buffer,
    len: Out,
    source: Out,
}

impl Place {
    fn check(caller: &mut Guest<'_>, [kind, buf, size, len, source]: [i32; 5]) -> Result<Place, BadRange> {
        Ok(Place {
            kind: caller.out(kind, 4)?,
            buffer: caller.buffer(buf, size)?,
            len: caller.out(len, 4)?,
            source: caller.out(source, 8)?,
        })
    }

    fn put(&self, caller: &mut Guest<'_>, kind: Kind, source: ActorId, bytes: &[u8]) {
        let len = u32::try_from(bytes.len()).unwrap_or(u32::MAX);
        caller.put(self.kind, &kind.0.to_le_bytes());
        caller.put(self.len, &len.to_le_bytes());
        caller.put(self.source, &source.as_u64().to_le_bytes());
        caller.fill(self.buffer, bytes);
    }
}

async fn recv(caller: &mut Guest<'_>, place: [i32; 5], timeout: Option<Duration>) -> i32 {
    let Ok(place) = Place::check(caller, place) else { return FAILED };
    let inbox = caller.state().inbox.clone();
    let received = match timeout {
        None => Some(wait(caller, RECV, inbox.recv()).await),
        Some(Duration::ZERO) => wait(caller, RECV, look_once(&inbox)).await,
        Some(timeout) => {
            let mut timer = pin!(sleep_async(timeout));
            let mut received = pin!(inbox.recv());
            let first = std::future::poll_fn(|context| {
                if let Poll::Ready(message) = received.as_mut().poll(context) {
                    return Poll::Ready(Some(message));
                }
                if inbox.ends() {
                    return Poll::Pending;
                }
                timer.as_mut().poll(context).map(|()| None)
            });
            wait(caller, RECV, first).await
        }
    };
    match received {
        Some(Message { source, kind, payload, .. }) => {
            caller.state().begin_message(source, kind);
            place.put(caller, kind, source, payload.bytes());
            0
        }
        None => {
            place.put(caller, Kind(0), ActorId::NOBODY, &[]);
            TIMED_OUT
        }
    }
}

/// The next message, if there is one after others had a turn.
async fn look_once(inbox: &Inbox) -> Option<Message> {
    yield_once().await;
    std::future::poll_fn(|_| match inbox.poll_recv() {
        Poll::Ready(message) => Poll::Ready(Some(message)),
        Poll::Pending if inbox.ends() => Poll::Pending,
        Poll::Pending => Poll::Ready(None),
    })
    .await
}

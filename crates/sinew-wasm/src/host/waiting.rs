//! How a host call waits: what dumps show of it, and the slice that begins when it goes on.

use std::pin::pin;
use std::task::Poll;

use sinew_sched::WaitKind;
use sinew_sched::raw::{What, announce};
use sinew_sync::statics::Once;
use wasmtime::{AsContextMut, Caller};

use crate::state::GuestState;

/// The host calls that guests block in, as dumps show them. The kernel has the labels before these.
pub(crate) const SLEEP: WaitKind = WaitKind::label(3);
pub(crate) const RECV: WaitKind = WaitKind::label(4);
pub(crate) const STATE: WaitKind = WaitKind::label(5);
pub(crate) const SPAWN: WaitKind = WaitKind::label(6);
pub(crate) const FILES: WaitKind = WaitKind::label(7);
pub(crate) const POLL: WaitKind = WaitKind::label(11);

static REGISTERED: Once = Once::new();

/// Says what the labels mean, once for the process.
fn register() {
    REGISTERED.call_once(|| {
        SLEEP.register("host call mk_sleep_ms", "");
        RECV.register("host call mk_recv", "");
        STATE.register("host call for state", "");
        SPAWN.register("host call mk_spawn_wasm", "");
        FILES.register("host call on files", "");
        POLL.register("host call poll_oneoff", "");
    });
}

/// Waits for `future` in a host call of this kind.
pub(crate) async fn wait<F: Future>(
    caller: &mut Caller<'_, GuestState>,
    kind: WaitKind,
    future: F,
) -> F::Output {
    wait_with(caller, future, || {
        register();
        announce(What::of(kind));
    })
    .await
}

/// Waits for `future`, a call of the fd table, which says itself what it waits for.
pub(crate) async fn wait_for_fd<F: Future>(caller: &mut Caller<'_, GuestState>, future: F) -> F::Output {
    wait_with(caller, future, || ()).await
}

async fn wait_with<F: Future>(
    caller: &mut Caller<'_, GuestState>,
    future: F,
    announce: impl Fn(),
) -> F::Output {
    let mut future = pin!(future);
    let mut waited = false;
    let output = std::future::poll_fn(|context| {
        let polled = future.as_mut().poll(context);
        if polled.is_pending() {
            waited = true;
            announce();
        }
        polled
    })
    .await;
    if waited {
        caller.as_context_mut().set_epoch_deadline(1);
        caller.data_mut().cpu.deadline_set();
    }
    output
}

/// Lets other tasks run once.
pub(crate) async fn yield_once() {
    let mut yielded = false;
    std::future::poll_fn(|context| {
        if std::mem::replace(&mut yielded, true) {
            return Poll::Ready(());
        }
        context.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}

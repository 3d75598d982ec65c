//! Module `env`: what every guest may call. Itself, time, the log, sleeping.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use sinew_kernel::Level;
use sinew_sched::sleep_async;
use wasmtime::Caller;

use super::access::Access;
use super::waiting::{SLEEP, wait, yield_once};
use super::{ENV, HostCall, I32, I64};
use crate::state::GuestState;

type Guest<'a> = Caller<'a, GuestState>;

/// The longest line that a guest logs in one call; the rest is cut.
const LONGEST_LINE: usize = 4096;

pub(super) const CALLS: &[HostCall] = &[
    // mk_self() -> i64: the guest's own id.
    HostCall {
        module: ENV,
        name: "mk_self",
        params: &[],
        results: &[I64],
        can_block: false,
        link: |linker, _| {
            let call = |mut caller: Guest<'_>| caller.state().inbox.id().as_u64().cast_signed();
            linker.func_wrap(ENV, "mk_self", call).map(drop)
        },
    },
    // mk_time_ms() -> i64: milliseconds since the Unix epoch.
    HostCall {
        module: ENV,
        name: "mk_time_ms",
        params: &[],
        results: &[I64],
        can_block: false,
        link: |linker, _| linker.func_wrap(ENV, "mk_time_ms", |_: Guest<'_>| unix_time_ms()).map(drop),
    },
    // mk_log(level, ptr, len): writes a line to the guest's log. 0 is debug, 1 info, 2 warning, else error.
    HostCall {
        module: ENV,
        name: "mk_log",
        params: &[I32, I32, I32],
        results: &[],
        can_block: false,
        link: |linker, _| {
            let call =
                |mut caller: Guest<'_>, level: i32, ptr: i32, len: i32| log(&mut caller, level, ptr, len);
            linker.func_wrap(ENV, "mk_log", call).map(drop)
        },
    },
    // mk_log(ptr, len): the same at level info.
    HostCall {
        module: ENV,
        name: "mk_log",
        params: &[I32, I32],
        results: &[],
        can_block: false,
        link: |linker, _| {
            let call = |mut caller: Guest<'_>, ptr: i32, len: i32| log(&mut caller, 1, ptr, len);
            linker.func_wrap(ENV, "mk_log", call).map(drop)
        },
    },
    // mk_print(ptr, len): writes a line to the guest's log at level info.
    HostCall {
        module: ENV,
        name: "mk_print",
        params: &[I32, I32],
        results: &[],
        can_block: false,
        link: |linker, _| {
            let call = |mut caller: Guest<'_>, ptr: i32, len: i32| log(&mut caller, 1, ptr, len);
            linker.func_wrap(ENV, "mk_print", call).map(drop)
        },
    },
    // mk_sleep_ms(ms) -> i32: 0 after so many milliseconds; -1 without a stack. 0 and less yields.
    HostCall {
        module: ENV,
        name: "mk_sleep_ms",
        params: &[I32],
        results: &[I32],
        can_block: true,
        link: |linker, can_block| {
            if !can_block {
                return linker.func_wrap(ENV, "mk_sleep_ms", |_: Guest<'_>, _: i32| -1_i32).map(drop);
            }
            linker
                .func_wrap_async(ENV, "mk_sleep_ms", |mut caller: Guest<'_>, (ms,): (i32,)| {
                    Box::new(async move {
                        sleep(&mut caller, ms).await;
                        0_i32
                    })
                })
                .map(drop)
        },
    },
    // mk_sleep_ms(ms): the same without a result; not for guests without a stack.
    HostCall {
        module: ENV,
        name: "mk_sleep_ms",
        params: &[I32],
        results: &[],
        can_block: true,
        link: |linker, _| {
            linker
                .func_wrap_async(ENV, "mk_sleep_ms", |mut caller: Guest<'_>, (ms,): (i32,)| {
                    Box::new(async move { sleep(&mut caller, ms).await })
                })
                .map(drop)
        },
    },
];

fn unix_time_ms() -> i64 {
    // Before 1970 and in 292 million years it is off.
    let time = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(time.as_millis()).unwrap_or(i64::MAX)
}

fn log(caller: &mut Guest<'_>, level: i32, ptr: i32, len: i32) {
    let level = match level {
        ..=0 => Level::Debug,
        1 => Level::Info,
        2 => Level::Warn,
        3.. => Level::Error,
    };
    if let Ok(text) = caller.text(ptr, len, LONGEST_LINE) {
        caller.state().log(level, text.trim_end_matches(['\n', '\r']));
    }
}

async fn sleep(caller: &mut Guest<'_>, ms: i32) {
    match u64::try_from(ms) {
        Ok(ms) if ms > 0 => wait(caller, SLEEP, sleep_async(Duration::from_millis(ms))).await,
        _ => wait(caller, SLEEP, yield_once()).await,
    }
}

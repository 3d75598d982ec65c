//! Clocks.

use std::time::{SystemTime, UNIX_EPOCH};

use sinew_core::{Errno, Instant};

use super::{Guest, Outcome, call};
use crate::host::HostCall;
use crate::host::access::Access;

pub(in crate::host) const CALLS: &[HostCall] = &[
    // clock_time_get(clock, precision, time*): nanoseconds. Clock 0 counts since 1970, 1 never goes back, 2 and 3 are the
    // CPU time of the guest. EINVAL for any other, EFAULT.
    call!(clock_time_get(clock: i32, precision: i64, time: i32)),
    // clock_res_get(clock, resolution*): the nanoseconds between two ticks. EINVAL, EFAULT.
    call!(clock_res_get(clock: i32, resolution: i32)),
];

/// A clock that guests can read.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Clock {
    Realtime,
    Monotonic,
    Cpu,
}

impl Clock {
    /// Returns the clock with this number.
    pub(super) fn of(number: i32) -> Outcome<Clock> {
        match number {
            0 => Ok(Clock::Realtime),
            1 => Ok(Clock::Monotonic),
            2 | 3 => Ok(Clock::Cpu),
            _ => Err(Errno::EINVAL),
        }
    }
}

/// What the monotonic clock of guests shows at the scheduler's zero. Go's runtime refuses a clock that shows zero.
const MONOTONIC_START: u64 = 1_000_000_000;

/// The resolution of CPU times: a tick.
const CPU_RESOLUTION: u64 = crate::ticker::TICK.as_nanos() as u64;

/// Returns the instant at which the monotonic clock of guests shows `nanoseconds`.
pub(super) fn monotonic_instant(nanoseconds: u64) -> Instant {
    Instant::from_nanos(nanoseconds.saturating_sub(MONOTONIC_START))
}

/// Returns the nanoseconds since 1970.
pub(super) fn unix_time() -> u64 {
    let time = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

fn clock_time_get(caller: &mut Guest<'_>, clock: i32, _precision: i64, time: i32) -> Outcome {
    let (clock, time) = (Clock::of(clock)?, caller.out(time, 8)?);
    let now = match clock {
        Clock::Realtime => unix_time(),
        Clock::Monotonic => sinew_sched::now().as_nanos().saturating_add(MONOTONIC_START),
        Clock::Cpu => u64::try_from(caller.state().cpu.total().as_nanos()).unwrap_or(u64::MAX),
    };
    caller.put(time, &now.to_le_bytes());
    Ok(())
}

fn clock_res_get(caller: &mut Guest<'_>, clock: i32, resolution: i32) -> Outcome {
    let (clock, resolution) = (Clock::of(clock)?, caller.out(resolution, 8)?);
    let nanoseconds: u64 = if clock == Clock::Cpu { CPU_RESOLUTION } else { 1 };
    caller.put(resolution, &nanoseconds.to_le_bytes());
    Ok(())
}

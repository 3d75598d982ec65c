//! Why a guest ended, in words.

use std::fmt;

use sinew_kernel::{ActorId, ExitReason, Failure, Kind};
use wasmtime::{Trap, WasmBacktrace};

use crate::debug_info::DebugInfo;

/// An end that the host decides, as the error that unwinds the guest.
#[derive(Debug)]
pub(crate) enum HostExit {
    /// It has taken more than it may.
    Limit(String),
    /// It has called `proc_exit`.
    Code(i32),
    /// It was killed or cancelled while it computed.
    Killed,
}

impl fmt::Display for HostExit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            HostExit::Limit(text) => f.write_str(text),
            HostExit::Code(code) => write!(f, "exit code {code}"),
            HostExit::Killed => f.write_str("killed"),
        }
    }
}

impl std::error::Error for HostExit {}

/// What a guest was at when it failed.
#[derive(Clone, Copy, Debug)]
pub(crate) enum During {
    Start,
    Message(Kind, ActorId),
    Program,
}

impl fmt::Display for During {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            During::Start => f.write_str("while it started"),
            During::Message(kind, source) if source.is_nobody() => {
                write!(f, "while it handled a message of kind {kind}")
            }
            During::Message(kind, source) => {
                write!(f, "while it handled a message of kind {kind} from {source}")
            }
            During::Program => f.write_str("while it ran"),
        }
    }
}

/// The reason of a guest whose code ended with `error`.
pub(crate) fn reason(error: &wasmtime::Error, during: During, debug: Option<&DebugInfo>) -> ExitReason {
    match error.downcast_ref::<HostExit>() {
        Some(HostExit::Limit(text)) => return ExitReason::Limit(text.as_str().into()),
        Some(HostExit::Code(0)) => return ExitReason::Normal,
        Some(HostExit::Killed) => return ExitReason::Killed,
        Some(HostExit::Code(code)) => {
            return Failure::new(format!("exit code {code}")).into();
        }
        None => (),
    }
    let message = match error.downcast_ref::<Trap>() {
        Some(trap) => format!("trap: {} {during}", trap_text(*trap)),
        None => format!("{} {during}", root_text(error)),
    };
    let frames = error.downcast_ref::<WasmBacktrace>().map(|trace| frames(trace, debug)).unwrap_or_default();
    let location = frames.first().cloned().unwrap_or_default();
    Failure { message, location, chain: frames.join("\n") }.into()
}

/// The text of an error without the backtrace that wasmtime adds to it.
fn root_text(error: &wasmtime::Error) -> String {
    error.chain().last().map_or_else(|| error.to_string(), ToString::to_string)
}

fn trap_text(trap: Trap) -> &'static str {
    match trap {
        Trap::StackOverflow => "stack overflow",
        Trap::MemoryOutOfBounds => "memory access out of bounds",
        Trap::TableOutOfBounds => "table access out of bounds",
        Trap::IndirectCallToNull => "indirect call of a null function",
        Trap::BadSignature => "indirect call of a function of another type",
        Trap::IntegerOverflow => "integer overflow",
        Trap::IntegerDivisionByZero => "integer division by zero",
        Trap::BadConversionToInteger => "invalid conversion to an integer",
        Trap::UnreachableCodeReached => "unreachable code reached",
        _ => "trapped",
    }
}

/// The functions that were called, the innermost first, with their place in the source if the module says it.
fn frames(backtrace: &WasmBacktrace, debug: Option<&DebugInfo>) -> Vec<String> {
    let frame = |frame: &wasmtime::FrameInfo| {
        let name = match frame.func_name() {
            Some(name) => name.to_owned(),
            None => format!("function {}", frame.func_index()),
        };
        let place = frame.module_offset().and_then(|offset| debug?.place(offset as u64));
        match (place, frame.func_offset()) {
            (Some(place), _) => format!("{name} ({place})"),
            (None, Some(offset)) => format!("{name} (+0x{offset:x})"),
            (None, None) => name,
        }
    };
    backtrace.frames().iter().map(frame).collect()
}

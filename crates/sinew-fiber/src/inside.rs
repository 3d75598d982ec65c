//! What is inside a task that is parked: its fibers, and the frames of their stacks.
//!
//! Nothing runs for that: the frames are walked up from the stack of whoever looks ([`crate::switch::call_above`]), and the
//! parked stacks are only read. A task stops as a whole, so its stacks, from the innermost outwards, are that of the leaf,
//! which is suspended where the task parked, and that of each resumer, which is suspended in its call of `resume`.

use std::backtrace::Backtrace;
use std::fmt;

use sinew_core::Status;

use crate::root::Root;
use crate::switch::{StackPointer, call_above};
use crate::trace::Link;

/// Fibers, and stacks, that are looked at.
const MOST: usize = 16;

/// What is inside a task that is parked: see [`look_inside`].
pub struct Inside {
    /// The fibers that it is in and their statuses, the outermost first, up to 16.
    pub fibers: Vec<(Link, Status)>,
    stacks: Vec<Backtrace>,
}

/// Looks at a task that is parked.
///
/// # Safety
///
/// `root` runs a task, on this thread, whose stack is suspended at `sp`, and nobody continues it meanwhile.
pub unsafe fn look_inside(root: &Root, sp: StackPointer) -> Inside {
    let record = root.record();
    let fibers = record.descendants().skip(1).take(MOST);
    let fibers = fibers.map(|fiber| (fiber.link(), fiber.status())).collect();
    let resumers = record.leaf().ancestors().take_while(|fiber| !fiber.is_root());
    let outer = resumers.map(|fiber| fiber.resumer.get());
    let stacks = std::iter::once(sp).chain(outer).take(MOST);
    // SAFETY: the caller's promise; a fiber that is inside another was resumed by it, and is resumed no more than the task.
    Inside { fibers, stacks: stacks.map(|sp| unsafe { walk(sp) }).collect() }
}

/// # Safety
///
/// A stack is suspended at `sp`.
unsafe fn walk(sp: StackPointer) -> Backtrace {
    extern "C" fn capture(into: *mut ()) {
        // SAFETY: it comes from below.
        unsafe { *into.cast::<Option<Backtrace>>() = Some(Backtrace::force_capture()) };
    }
    let mut backtrace: Option<Backtrace> = None;
    // SAFETY: the caller's promise; what captures does not unwind, or aborts.
    unsafe { call_above(sp, capture, (&raw mut backtrace).cast()) };
    backtrace.expect("it was captured")
}

impl Inside {
    /// The frames, the innermost first, up to `most` of each stack, with the names of functions and lines where they are
    /// known. This is slow the first time: it reads the program's debug information.
    pub fn frames(&self, most: usize) -> Vec<String> {
        self.stacks.iter().flat_map(|stack| parked_frames(&stack.to_string(), most)).collect()
    }
}

impl fmt::Debug for Inside {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Inside").field("fibers", &self.fibers).finish_non_exhaustive()
    }
}

/// The frames in the text of a backtrace, from the one that parked upwards: `name at file:line:column`. Each frame of the
/// text has a line with its number and a name, and perhaps one with the place.
fn parked_frames(text: &str, most: usize) -> Vec<String> {
    let mut frames: Vec<String> = Vec::new();
    for line in text.lines().map(str::trim) {
        match (line.split_once(": "), line.strip_prefix("at ")) {
            (_, Some(place)) => {
                if let Some(frame) = frames.last_mut() {
                    *frame += " at ";
                    *frame += place;
                }
            }
            (Some((number, name)), _) if number.bytes().all(|digit| digit.is_ascii_digit()) => {
                frames.push(name.to_owned());
            }
            _ => frames.push(line.to_owned()), // one that was inlined into the one before has no number
        }
    }
    // What is below has captured it. Without names nobody knows how much that is.
    let below = frames.iter().position(|frame| frame.contains("call_above")).map_or(0, |at| at + 1);
    frames.drain(..below);
    frames.truncate(most);
    frames
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use super::*;

    #[test]
    fn frames_start_above_what_captured_them() {
        let text = "   0: a::capture\n             at ./src/a.rs:1:2\n   1: x::call_above\n   2: b::inner\n   3: c::outer\n \
                    at ./src/c.rs:3:4\n             c::inlined\n";
        assert_eq!(parked_frames(text, 9), ["b::inner", "c::outer at ./src/c.rs:3:4", "c::inlined"]);
        assert_eq!(parked_frames(text, 1), ["b::inner"]);
    }
}

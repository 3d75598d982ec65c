//! Generic control of file descriptors: flags, kind, status, metrics and close, with JSON arguments and answers.

use serde_json::{Map, Value, json};
use sinew_core::Errno;

use crate::bits::{Events, Flags};
use crate::object::FdObject;
use crate::table::FdTable;

/// Bytes that an argument may have.
const ARGUMENT_LIMIT: usize = 4096;

/// A command of [`FdTable::ctl`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FdCommand {
    /// Sets and clears flags: `{"set": ["O_NONBLOCK"], "clear": []}`, both optional. No answer.
    SetFlags = 1,
    /// Answers with the flags: `{"flags": ["O_NONBLOCK"]}`.
    GetFlags = 2,
    /// Answers with the kind: `{"kind": "Timer"}`.
    GetKind = 3,
    /// Answers with kind, flags and readiness:
    /// `{"kind": "Timer", "flags": [], "poll_mask": ["EPOLLIN"], "closed": false}`.
    GetStatus = 4,
    /// Answers with the counts of [`Metrics`](crate::Metrics) and those of the kind, each under its name.
    GetMetrics = 5,
    /// Closes the file descriptor. No answer.
    Close = 6,
}

impl FdCommand {
    /// Returns the command with this number of the guest ABI.
    pub const fn from_number(number: i32) -> Option<FdCommand> {
        match number {
            1 => Some(FdCommand::SetFlags),
            2 => Some(FdCommand::GetFlags),
            3 => Some(FdCommand::GetKind),
            4 => Some(FdCommand::GetStatus),
            5 => Some(FdCommand::GetMetrics),
            6 => Some(FdCommand::Close),
            _ => None,
        }
    }
}

impl FdTable {
    /// Carries out a command on a file descriptor, and returns the answer as JSON; empty for commands without one.
    /// `argument` is the JSON of [`FdCommand::SetFlags`], and ignored by the others.
    ///
    /// # Errors
    ///
    /// `EBADF` for an unknown number. `EINVAL` for an argument that is not JSON of the right shape, has more than 4096 bytes,
    /// or names an unknown flag; nothing is changed then.
    pub fn ctl(&self, fd: i32, command: FdCommand, argument: &[u8]) -> Result<String, Errno> {
        match command {
            FdCommand::SetFlags => {
                self.flags(fd)?;
                let (set, clear) = parse_flags(argument)?;
                self.change_flags(fd, set, clear)?;
                Ok(String::new())
            }
            FdCommand::GetFlags => Ok(json!({ "flags": names_of_flags(self.flags(fd)?) }).to_string()),
            FdCommand::GetKind => Ok(json!({ "kind": self.object(fd)?.kind() }).to_string()),
            FdCommand::GetStatus => self.status(fd).map(|status| status.to_string()),
            FdCommand::GetMetrics => Ok(metrics(&*self.object(fd)?).to_string()),
            FdCommand::Close => self.close(fd).map(|()| String::new()),
        }
    }

    fn status(&self, fd: i32) -> Result<Value, Errno> {
        let (object, flags) = (self.object(fd)?, self.flags(fd)?);
        let mask: Events = self.poll_mask(fd)?;
        Ok(json!({
            "kind": object.kind(),
            "flags": names_of_flags(flags),
            "poll_mask": mask.names().collect::<Vec<_>>(),
            "closed": false, // a number that is closed is unknown
        }))
    }
}

fn names_of_flags(flags: Flags) -> Vec<&'static str> {
    flags.names().collect()
}

fn metrics(object: &dyn FdObject) -> Value {
    let metrics = object.metrics();
    let common = [
        ("bytes_in", metrics.bytes_in),
        ("bytes_out", metrics.bytes_out),
        ("records_in", metrics.records_in),
        ("records_out", metrics.records_out),
        ("queue_depth", metrics.queue_depth),
        ("queue_limit", metrics.queue_limit),
        ("wakeups", metrics.wakeups),
    ];
    let all = common.into_iter().chain(object.extra_metrics());
    Value::Object(all.map(|(name, count)| (name.to_owned(), Value::from(count))).collect::<Map<_, _>>())
}

/// Returns the flags to set and those to clear.
fn parse_flags(argument: &[u8]) -> Result<(Flags, Flags), Errno> {
    if argument.len() > ARGUMENT_LIMIT {
        return Err(Errno::EINVAL);
    }
    let Ok(Value::Object(argument)) = serde_json::from_slice(argument) else { return Err(Errno::EINVAL) };
    let (mut set, mut clear) = (Flags::NONE, Flags::NONE);
    for (key, names) in &argument {
        let flags = match key.as_str() {
            "set" => &mut set,
            "clear" => &mut clear,
            _ => return Err(Errno::EINVAL),
        };
        for name in names.as_array().ok_or(Errno::EINVAL)? {
            *flags |= name.as_str().and_then(Flags::from_name).ok_or(Errno::EINVAL)?;
        }
    }
    if set.intersects(clear) { Err(Errno::EINVAL) } else { Ok((set, clear)) }
}

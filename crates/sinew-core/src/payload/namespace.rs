//! What the namespace is asked, and what it answers.

use alloc::boxed::Box;
use alloc::vec::Vec;

use super::fields::{Reader, Writer};
use super::names::PATH_SIZE;
use super::{DecodeError, Fault, SystemPayload};
use crate::{ActorId, Kind, NameError, Path};

/// Register a path, for the actor that sends this.
///
/// 136 bytes: `path [128] @0`, `actor u64 @128`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct NsRegister {
    /// The path.
    pub path: Path,
    /// Who is to have it: the sender.
    pub actor: ActorId,
}

impl SystemPayload for NsRegister {
    const KIND: Kind = Kind::NS_REGISTER;

    fn encode(&self) -> Vec<u8> {
        Writer::<136>::new().path(&self.path).actor(PATH_SIZE, self.actor).finish()
    }

    fn decode(bytes: &[u8]) -> Result<NsRegister, DecodeError> {
        let fields = Reader::<136>::new::<NsRegister>(bytes)?;
        Ok(NsRegister { path: fields.path::<NsRegister>()?, actor: fields.actor(PATH_SIZE) })
    }
}

/// Look a path up.
///
/// 128 bytes: `path [128] @0`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct NsLookup {
    /// The path.
    pub path: Path,
}

impl SystemPayload for NsLookup {
    const KIND: Kind = Kind::NS_LOOKUP;

    fn encode(&self) -> Vec<u8> {
        Writer::<PATH_SIZE>::new().path(&self.path).finish()
    }

    fn decode(bytes: &[u8]) -> Result<NsLookup, DecodeError> {
        let fields = Reader::<PATH_SIZE>::new::<NsLookup>(bytes)?;
        Ok(NsLookup { path: fields.path::<NsLookup>()? })
    }
}

/// List the paths at and below a prefix.
///
/// 128 bytes: `prefix [128] @0`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct NsList {
    prefix: Box<str>,
}

impl NsList {
    /// For the paths at and below `prefix`. `/` stands for all of them, an empty one for flat names as well.
    pub fn new(prefix: &str) -> Result<NsList, NameError> {
        if prefix.is_empty() || prefix == "/" {
            return Ok(NsList { prefix: prefix.into() });
        }
        let prefix = prefix.strip_suffix('/').unwrap_or(prefix);
        Path::check(prefix)?;
        Ok(NsList { prefix: prefix.into() })
    }

    /// The prefix, without a slash at its end unless that is all of it.
    pub fn prefix(&self) -> &str {
        &self.prefix
    }
}

impl SystemPayload for NsList {
    const KIND: Kind = Kind::NS_LIST;

    fn encode(&self) -> Vec<u8> {
        Writer::<PATH_SIZE>::new().bytes(0, self.prefix.as_bytes()).finish()
    }

    fn decode(bytes: &[u8]) -> Result<NsList, DecodeError> {
        let fields = Reader::<PATH_SIZE>::new::<NsList>(bytes)?;
        let list = fields.text("prefix", 0, PATH_SIZE).and_then(|prefix| Ok(NsList::new(prefix)?));
        list.map_err(Fault::of::<NsList>)
    }
}

/// Mount the actor that sends this: it is to have all paths at and below a point.
///
/// 136 bytes: `point [128] @0`, `target u64 @128`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct NsMount {
    /// Where.
    pub point: Path,
    /// Whom: the sender.
    pub target: ActorId,
}

impl SystemPayload for NsMount {
    const KIND: Kind = Kind::NS_MOUNT;

    fn encode(&self) -> Vec<u8> {
        Writer::<136>::new().path(&self.point).actor(PATH_SIZE, self.target).finish()
    }

    fn decode(bytes: &[u8]) -> Result<NsMount, DecodeError> {
        let fields = Reader::<136>::new::<NsMount>(bytes)?;
        Ok(NsMount { point: fields.path::<NsMount>()?, target: fields.actor(PATH_SIZE) })
    }
}

/// Undo a mount of the actor that sends this.
///
/// 128 bytes: `point [128] @0`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct NsUmount {
    /// Where it is.
    pub point: Path,
}

impl SystemPayload for NsUmount {
    const KIND: Kind = Kind::NS_UMOUNT;

    fn encode(&self) -> Vec<u8> {
        Writer::<PATH_SIZE>::new().path(&self.point).finish()
    }

    fn decode(bytes: &[u8]) -> Result<NsUmount, DecodeError> {
        let fields = Reader::<PATH_SIZE>::new::<NsUmount>(bytes)?;
        Ok(NsUmount { point: fields.path::<NsUmount>()? })
    }
}

/// How a request to the namespace went.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(i32)]
pub enum NsStatus {
    /// 0: done.
    Ok = 0,
    /// -1: nobody has the path.
    NotFound = -1,
    /// -2: somebody has it.
    Exists = -2,
    /// -3: there is no room: a list is longer than the answer, which has its first lines.
    Full = -3,
    /// -4: the request is malformed, or is for an actor other than its sender.
    Invalid = -4,
}

impl NsStatus {
    /// Every status, from 0 down.
    pub const ALL: [NsStatus; 5] =
        [NsStatus::Ok, NsStatus::NotFound, NsStatus::Exists, NsStatus::Full, NsStatus::Invalid];
}

/// What the namespace answers.
///
/// 1048 bytes: `status i32 @0`, `actor u64 @8`, `data_size u32 @16`, `data [1024] @20`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct NsReply {
    /// How it went.
    pub status: NsStatus,
    /// Whom the path leads to, if that was asked and somebody has it.
    pub actor: ActorId,
    data: Vec<u8>,
}

/// More data than an answer can hold.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{size} bytes of data do not fit into an answer of the namespace: send at most {max}", max = NsReply::MAX_DATA)]
pub struct DataTooLong {
    /// How many bytes they are.
    pub size: usize,
}

impl NsReply {
    /// The most bytes of data.
    pub const MAX_DATA: usize = 1024;

    /// An answer without data.
    pub const fn new(status: NsStatus, actor: ActorId) -> NsReply {
        NsReply { status, actor, data: Vec::new() }
    }

    /// The same answer with `data`: for a list, a line `path=id` for each path, with the id as one decimal number
    /// ([`ActorId::as_u64`]).
    pub fn with_data(self, data: impl Into<Vec<u8>>) -> Result<NsReply, DataTooLong> {
        let data = data.into();
        match data.len() > NsReply::MAX_DATA {
            true => Err(DataTooLong { size: data.len() }),
            false => Ok(NsReply { data, ..self }),
        }
    }

    /// The data.
    pub fn data(&self) -> &[u8] {
        &self.data
    }
}

impl SystemPayload for NsReply {
    const KIND: Kind = Kind::NS_REPLY;

    fn encode(&self) -> Vec<u8> {
        let fields = Writer::<1048>::new().i32(0, self.status as i32).actor(8, self.actor);
        fields.u32(16, self.data.len() as u32).bytes(20, &self.data).finish()
    }

    fn decode(bytes: &[u8]) -> Result<NsReply, DecodeError> {
        let fields = Reader::<1048>::new::<NsReply>(bytes)?;
        let number = |field, got| Fault::Number { field, got }.of::<NsReply>();
        let status = NsStatus::ALL.into_iter().find(|status| *status as i32 == fields.i32(0));
        let status = status.ok_or_else(|| number("status", fields.i32(0).into()))?;
        let size = usize::try_from(fields.u32(16)).ok().filter(|size| *size <= NsReply::MAX_DATA);
        let size = size.ok_or_else(|| number("data_size", fields.u32(16).into()))?;
        Ok(NsReply { status, actor: fields.actor(8), data: fields.bytes(20, size).into() })
    }
}

/// What happened to a path.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(i32)]
pub enum NsEvent {
    /// 1: it was registered.
    Register = 1,
    /// 2: it is free again.
    Unregister = 2,
}

/// A path came or went.
///
/// 144 bytes: `path [128] @0`, `actor u64 @128`, `event i32 @136`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct NsNotify {
    /// The path.
    pub path: Path,
    /// Who has it, or had it.
    pub actor: ActorId,
    /// What happened.
    pub event: NsEvent,
}

impl SystemPayload for NsNotify {
    const KIND: Kind = Kind::NS_NOTIFY;

    fn encode(&self) -> Vec<u8> {
        let fields = Writer::<144>::new().path(&self.path).actor(PATH_SIZE, self.actor);
        fields.i32(136, self.event as i32).finish()
    }

    fn decode(bytes: &[u8]) -> Result<NsNotify, DecodeError> {
        let fields = Reader::<144>::new::<NsNotify>(bytes)?;
        let event = match fields.i32(136) {
            1 => NsEvent::Register,
            2 => NsEvent::Unregister,
            got => return Err(Fault::Number { field: "event", got: got.into() }.of::<NsNotify>()),
        };
        Ok(NsNotify { path: fields.path::<NsNotify>()?, actor: fields.actor(PATH_SIZE), event })
    }
}

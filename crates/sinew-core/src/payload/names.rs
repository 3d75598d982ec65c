//! What nodes tell each other of names and paths.

use alloc::vec::Vec;

use super::fields::{Reader, Writer};
use super::{DecodeError, Fault, SystemPayload};
use crate::{ActorId, Kind, Name, Path};

/// The bytes that a name takes, with the NUL at its end.
const NAME_SIZE: usize = Name::MAX + 1;
/// The bytes that a path takes, with the NUL at its end.
pub(super) const PATH_SIZE: usize = Path::MAX + 1;

impl<const SIZE: usize> Writer<SIZE> {
    fn name(self, name: &Name) -> Writer<SIZE> {
        self.bytes(0, name.as_str().as_bytes())
    }

    pub(super) fn path(self, path: &Path) -> Writer<SIZE> {
        self.bytes(0, path.as_str().as_bytes())
    }
}

impl<const SIZE: usize> Reader<'_, SIZE> {
    fn name<P: SystemPayload>(&self) -> Result<Name, DecodeError> {
        let name = self.text("name", 0, NAME_SIZE).and_then(|text| Ok(Name::new(text)?));
        name.map_err(Fault::of::<P>)
    }

    pub(super) fn path<P: SystemPayload>(&self) -> Result<Path, DecodeError> {
        let path = self.text("path", 0, PATH_SIZE).and_then(|text| Ok(Path::new(text)?));
        path.map_err(Fault::of::<P>)
    }
}

/// A name was registered.
///
/// 72 bytes: `name [64] @0`, `actor u64 @64`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct NameRegister {
    /// The name.
    pub name: Name,
    /// Who has it.
    pub actor: ActorId,
}

impl SystemPayload for NameRegister {
    const KIND: Kind = Kind::NAME_REGISTER;

    fn encode(&self) -> Vec<u8> {
        Writer::<72>::new().name(&self.name).actor(NAME_SIZE, self.actor).finish()
    }

    fn decode(bytes: &[u8]) -> Result<NameRegister, DecodeError> {
        let fields = Reader::<72>::new::<NameRegister>(bytes)?;
        Ok(NameRegister { name: fields.name::<NameRegister>()?, actor: fields.actor(NAME_SIZE) })
    }
}

/// A name is free again.
///
/// 64 bytes: `name [64] @0`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct NameUnregister {
    /// The name.
    pub name: Name,
}

impl SystemPayload for NameUnregister {
    const KIND: Kind = Kind::NAME_UNREGISTER;

    fn encode(&self) -> Vec<u8> {
        Writer::<NAME_SIZE>::new().name(&self.name).finish()
    }

    fn decode(bytes: &[u8]) -> Result<NameUnregister, DecodeError> {
        let fields = Reader::<NAME_SIZE>::new::<NameUnregister>(bytes)?;
        Ok(NameUnregister { name: fields.name::<NameUnregister>()? })
    }
}

/// A path was registered.
///
/// 136 bytes: `path [128] @0`, `actor u64 @128`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PathRegister {
    /// The path.
    pub path: Path,
    /// Who has it.
    pub actor: ActorId,
}

impl SystemPayload for PathRegister {
    const KIND: Kind = Kind::PATH_REGISTER;

    fn encode(&self) -> Vec<u8> {
        Writer::<136>::new().path(&self.path).actor(PATH_SIZE, self.actor).finish()
    }

    fn decode(bytes: &[u8]) -> Result<PathRegister, DecodeError> {
        let fields = Reader::<136>::new::<PathRegister>(bytes)?;
        Ok(PathRegister { path: fields.path::<PathRegister>()?, actor: fields.actor(PATH_SIZE) })
    }
}

/// A path is free again.
///
/// 128 bytes: `path [128] @0`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PathUnregister {
    /// The path.
    pub path: Path,
}

impl SystemPayload for PathUnregister {
    const KIND: Kind = Kind::PATH_UNREGISTER;

    fn encode(&self) -> Vec<u8> {
        Writer::<PATH_SIZE>::new().path(&self.path).finish()
    }

    fn decode(bytes: &[u8]) -> Result<PathUnregister, DecodeError> {
        let fields = Reader::<PATH_SIZE>::new::<PathUnregister>(bytes)?;
        Ok(PathUnregister { path: fields.path::<PathUnregister>()? })
    }
}

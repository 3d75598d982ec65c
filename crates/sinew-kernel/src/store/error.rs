//! What can go wrong with a store.

use std::io;
use std::path::Path;
use std::sync::Arc;

use sinew_fiber::{Reason, Refused};

/// Why a call of a store has no result.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StoreError {
    /// The owner's name is none.
    #[error(
        "the owner's name {0}: take one of 1 to 255 bytes without NUL (an actor's state is kept by its name, which `ActorBuilder::name` gives it)"
    )]
    BadOwner(BadName),
    /// The key is none.
    #[error("the key {0}: take one of 1 to 255 bytes without NUL")]
    BadKey(BadName),
    /// The value is larger than the store allows.
    #[error(
        "the value of {key:?} of {owner:?} has {len} bytes, and the limit is {limit}: split it over several keys, or raise the limit by `Builder::max_value`"
    )]
    TooLarge {
        /// Whose value it is.
        owner: String,
        /// Its key.
        key: String,
        /// How many bytes it has.
        len: usize,
        /// How many it may have.
        limit: usize,
    },
    /// The values of one [`save_many`](super::State::save_many) are larger together than the
    /// store's queue.
    #[error(
        "{count} values of {owner:?} have {len} bytes, with their keys and 128 bytes each, and the limit is {limit}: save them by several calls, or raise the limit by `Builder::queue`"
    )]
    TooLargeTogether {
        /// Whose values they are.
        owner: String,
        /// How many values there are.
        count: usize,
        /// How many bytes they have, as [`Builder::queue`](super::Builder::queue) counts them.
        len: usize,
        /// How many they may have.
        limit: usize,
    },
    /// The file cannot be opened or made.
    #[error("cannot open the state store {}: {cause}; its directory has to exist, and both have to be writable", path.display())]
    Open {
        /// The file.
        path: Arc<Path>,
        /// What the system says.
        #[source]
        cause: Arc<io::Error>,
    },
    /// Somebody has the file open: another process, or this one.
    #[error("the state store {} is open already: close it there, or take another file for this node", path.display())]
    InUse {
        /// The file.
        path: Arc<Path>,
    },
    /// The file is no state store, or its checksums do not match, or the database has panicked on what is in it. A store
    /// that was open when that was noticed refuses everything from then on.
    #[error("{} is no state store, or it is damaged: {why}; restore it from a backup, or move it away to begin with an empty one", path.display())]
    Damaged {
        /// The file.
        path: Arc<Path>,
        /// What is wrong with it.
        why: String,
    },
    /// A value is not the one that was saved. Other values may be whole.
    #[error("the value of {key:?} of {owner:?} in the state store {} is damaged, {found}: restore the file from a backup, or save or delete the key", path.display())]
    DamagedValue {
        /// The file.
        path: Arc<Path>,
        /// Whose value it is.
        owner: String,
        /// Its key.
        key: String,
        /// What was found in its place.
        found: String,
    },
    /// A newer version of Sinew has written the file.
    #[error("the state store {} has format {found}, and this version of Sinew knows formats up to {known}: open it with the version that wrote it, or move it away to begin with an empty one", path.display())]
    NewerFormat {
        /// The file.
        path: Arc<Path>,
        /// The format of the file.
        found: u64,
        /// The newest one that is known.
        known: u64,
    },
    /// The disk has failed. A change may have been made or not; the next call tries again.
    #[error("the state store {} cannot be read or written: {cause}; a change may have been made or not: mend that, and save again", path.display())]
    Failed {
        /// The file.
        path: Arc<Path>,
        /// What the system says.
        #[source]
        cause: Arc<io::Error>,
    },
    /// The disk has failed to keep what was written, and the store has given up. What was acknowledged before is there.
    #[error("the state store {} is broken, since the disk did not keep what was written: {cause}; look after the disk, and start the node again", path.display())]
    Broken {
        /// The file.
        path: Arc<Path>,
        /// What the system says.
        #[source]
        cause: Arc<io::Error>,
    },
    /// The store was closed.
    #[error("the state store is closed: open it again")]
    Closed,
    /// The caller cannot wait here, or not any more. Nothing was changed.
    #[error(transparent)]
    Refused(#[from] Refused),
    /// The caller can wait no longer. The change is made or it is not, as a whole.
    #[error("the change was queued, and whether it is made is not known: {0}")]
    Unconfirmed(#[source] Refused),
}

impl StoreError {
    /// True if the caller's task is cancelled.
    pub fn is_cancelled(&self) -> bool {
        match self {
            StoreError::Refused(refused) | StoreError::Unconfirmed(refused) => {
                refused.reason() == Reason::Cancelled
            }
            _ => false,
        }
    }
}

/// What is wrong with a name or a key.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum BadName {
    /// It is empty.
    #[error("is empty")]
    Empty,
    /// It has more than 255 bytes: so many.
    #[error("has {0} bytes")]
    TooLong(usize),
    /// It contains a NUL.
    #[error("contains a NUL")]
    Nul,
}

impl BadName {
    /// Whether `name` is one.
    pub(super) fn check(name: &str) -> Result<(), BadName> {
        match name.len() {
            0 => Err(BadName::Empty),
            256.. => Err(BadName::TooLong(name.len())),
            _ if name.contains('\0') => Err(BadName::Nul),
            _ => Ok(()),
        }
    }
}

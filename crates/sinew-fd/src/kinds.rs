//! The kinds of objects that this crate has. Other crates add theirs by implementing [`FdObject`](crate::FdObject).

pub(crate) mod directory;
pub(crate) mod event;
pub(crate) mod file;
pub(crate) mod pipe;
pub(crate) mod stdio;
pub(crate) mod timer;

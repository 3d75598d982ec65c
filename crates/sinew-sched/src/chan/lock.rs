//! The lock of the channels, and of whatever else waiters queue for.

pub(crate) use sinew_sync::{ShortGuard as Guard, ShortLock as Lock};

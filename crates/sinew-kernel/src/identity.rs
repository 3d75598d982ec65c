//! What a node is called among nodes.

use std::env;
use std::fs;
use std::io;

use sinew_core::Identity;

/// Where the kernel has the host's name.
const HOST_NAME: &str = "/proc/sys/kernel/hostname";

/// Returns the identity that was given, or the default.
pub(crate) fn choose(given: Option<&str>) -> io::Result<Identity> {
    let chosen = match given {
        Some(text) => Identity::new(text),
        None => {
            let host = fs::read(HOST_NAME).unwrap_or_default(); // hosts without a name share an identity
            Identity::of_host(env::consts::OS, host.trim_ascii_end())
        }
    };
    let invalid = |error| format!("`Builder::identity` was given no identity of a node: {error}");
    chosen.map_err(|error| io::Error::new(io::ErrorKind::InvalidInput, invalid(error)))
}

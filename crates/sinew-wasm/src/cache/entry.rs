//! The format of a cache file: a header, then the code. Numbers are little-endian.
//!
//! | bytes | content |
//! |---|---|
//! | 8 | `SINEWMOD` |
//! | 4 | version of the format |
//! | 8 | length of the code |
//! | 32 | key |
//! | 32 | SHA-256 of the code |

use std::fs::File;
use std::io::{self, Read};

use sha2::{Digest, Sha256};

use super::key::{Key, SHA256_BYTES};

/// The version of the format.
pub(super) const FORMAT: u32 = 1;

const MAGIC: &[u8; 8] = b"SINEWMOD";
const HEADER_BYTES: usize = MAGIC.len() + size_of::<u32>() + size_of::<u64>() + 2 * SHA256_BYTES;

/// Why there is no code in the cache for a key.
#[derive(PartialEq, Eq, Debug)]
pub(super) enum Unreadable {
    /// There is no file.
    Absent,
    /// There is one, but it is damaged, or cannot be trusted.
    Rejected,
}

impl From<io::Error> for Unreadable {
    fn from(error: io::Error) -> Unreadable {
        match error.kind() {
            io::ErrorKind::NotFound => Unreadable::Absent,
            _ => Unreadable::Rejected,
        }
    }
}

/// Returns the header of a file with this code.
pub(super) fn header(key: &Key, code: &[u8]) -> Vec<u8> {
    let digest = Sha256::digest(code);
    let length = code.len() as u64;
    [MAGIC.as_slice(), &FORMAT.to_le_bytes(), &length.to_le_bytes(), key.bytes(), &digest].concat()
}

/// Reads the code, and verifies that the file is the whole file of this key, unchanged.
pub(super) fn read(mut file: File, key: &Key) -> Result<Vec<u8>, Unreadable> {
    let length = file.metadata()?.len().checked_sub(HEADER_BYTES as u64).ok_or(Unreadable::Rejected)?;
    let mut found = [0; HEADER_BYTES];
    file.read_exact(&mut found)?;
    // The header repeats the length, so a file that was cut or padded is not read at all.
    let (_, rest) = found.split_at(MAGIC.len() + size_of::<u32>());
    if rest.first_chunk() != Some(&length.to_le_bytes()) {
        return Err(Unreadable::Rejected);
    }
    let mut code = Vec::new();
    code.try_reserve_exact(usize::try_from(length).map_err(|_| Unreadable::Rejected)?)
        .map_err(|_| Unreadable::Rejected)?;
    file.take(length).read_to_end(&mut code)?;
    if found[..] == header(key, &code)[..] { Ok(code) } else { Err(Unreadable::Rejected) }
}

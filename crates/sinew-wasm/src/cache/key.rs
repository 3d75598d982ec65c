//! Keys of the cache: what determines the code of a module.

use std::fmt::Write as _;
use std::hash::{Hash, Hasher};

use sha2::{Digest, Sha256};

use super::entry::FORMAT;

/// The length of a SHA-256.
pub(super) const SHA256_BYTES: usize = 32;

/// Identifies engines that generate the same code from the same source.
pub(super) struct Fingerprint([u8; SHA256_BYTES]);

impl Fingerprint {
    /// Covers the version and the settings of wasmtime, the features of the CPU, the version of this
    /// crate, and the format of files.
    pub(super) fn of(engine: &wasmtime::Engine) -> Fingerprint {
        let mut hasher = Sha256Hasher(Sha256::new());
        FORMAT.hash(&mut hasher);
        env!("CARGO_PKG_VERSION").hash(&mut hasher);
        engine.precompile_compatibility_hash().hash(&mut hasher);
        Fingerprint(hasher.0.finalize().into())
    }
}

/// Identifies the code of a module: the SHA-256 of the engine's fingerprint and the module's source.
pub(crate) struct Key([u8; SHA256_BYTES]);

impl Key {
    pub(super) fn new(fingerprint: &Fingerprint, source: &[u8]) -> Key {
        Key(Sha256::new().chain_update(fingerprint.0).chain_update(source).finalize().into())
    }

    pub(super) fn bytes(&self) -> &[u8; SHA256_BYTES] {
        &self.0
    }

    /// Returns the key in hexadecimal digits.
    pub(super) fn file_name(&self) -> String {
        self.0.iter().fold(String::with_capacity(2 * SHA256_BYTES), |mut name, byte| {
            write!(name, "{byte:02x}").expect("a string takes all");
            name
        })
    }
}

/// Feeds what is hashed to SHA-256: std's hasher may differ between builds, and is no proof of equality.
struct Sha256Hasher(Sha256);

impl Hasher for Sha256Hasher {
    fn write(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }

    fn finish(&self) -> u64 {
        let digest: [u8; SHA256_BYTES] = self.0.clone().finalize().into();
        u64::from_le_bytes(*digest.first_chunk().expect("a digest has 32 bytes"))
    }
}

//! What a node is called among nodes.

use alloc::format;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::fmt;

use super::{NameError, check_text};

/// What a node is called: the `<identity>` of the path `/node/<identity>`, below which its actors are found. 1 to 31
/// bytes, no NUL, no slash. Cheap to clone.
///
/// ```
/// use sinew_core::{Identity, NameError};
///
/// assert_eq!(Identity::new("alpha")?.as_str(), "alpha");
/// assert!(Identity::new("al/pha").is_err());
/// # Ok::<(), NameError>(())
/// ```
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Identity(Arc<str>);

impl Identity {
    /// The most bytes that an identity can have: nodes tell each other theirs in 32, with a NUL at the end.
    pub const MAX: usize = 31;

    /// The identity that is spelled so.
    pub fn new(text: &str) -> Result<Identity, NameError> {
        check_text(text, Identity::MAX)?;
        match text.contains('/') {
            true => Err(NameError::Slash(text.into())),
            false => Ok(Identity(text.into())),
        }
    }

    /// The identity of a node that was given none: the platform, and the last two bytes of the SHA-1 of the host's
    /// name. So it stays the same when the process is started again.
    ///
    /// ```
    /// use sinew_core::Identity;
    ///
    /// assert_eq!(Identity::of_host("linux", b"abc").unwrap().as_str(), "linux-d89d");
    /// ```
    pub fn of_host(platform: &str, host: &[u8]) -> Result<Identity, NameError> {
        let [.., high, low] = sha1(host);
        Identity::new(&format!("{platform}-{high:02x}{low:02x}"))
    }

    /// The text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

impl fmt::Debug for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.0, f)
    }
}

/// The SHA-1 of `bytes` (FIPS 180-4). It tells hosts apart, and protects nothing.
fn sha1(bytes: &[u8]) -> [u8; 20] {
    let mut padded = Vec::from(bytes);
    padded.push(0x80);
    padded.resize(padded.len().next_multiple_of(64), 0);
    if bytes.len() % 64 >= 56 {
        padded.resize(padded.len() + 64, 0); // the length needs eight bytes
    }
    let end = padded.len() - 8;
    padded[end..].copy_from_slice(&(bytes.len() as u64 * 8).to_be_bytes());

    let mut hash = [0x6745_2301_u32, 0xEFCD_AB89, 0x98BA_DCFE, 0x1032_5476, 0xC3D2_E1F0];
    for block in padded.as_chunks::<64>().0 {
        let mut words = [0_u32; 80];
        for (word, bytes) in words.iter_mut().zip(block.as_chunks().0) {
            *word = u32::from_be_bytes(*bytes);
        }
        for at in 16..80 {
            words[at] = (words[at - 3] ^ words[at - 8] ^ words[at - 14] ^ words[at - 16]).rotate_left(1);
        }
        let [mut a, mut b, mut c, mut d, mut e] = hash;
        for (at, word) in words.into_iter().enumerate() {
            let (mixed, constant) = match at {
                0..20 => (b & c | !b & d, 0x5A82_7999),
                20..40 => (b ^ c ^ d, 0x6ED9_EBA1),
                40..60 => (b & c | b & d | c & d, 0x8F1B_BCDC),
                _ => (b ^ c ^ d, 0xCA62_C1D6),
            };
            let next = [mixed, e, constant, word].into_iter().fold(a.rotate_left(5), u32::wrapping_add);
            (a, b, c, d, e) = (next, a, b.rotate_left(30), c, d);
        }
        for (sum, part) in hash.iter_mut().zip([a, b, c, d, e]) {
            *sum = sum.wrapping_add(part);
        }
    }
    let mut digest = [0; 20];
    for (bytes, word) in digest.as_chunks_mut().0.iter_mut().zip(hash) {
        *bytes = word.to_be_bytes();
    }
    digest
}

#[cfg(test)]
mod tests {
    use alloc::string::{String, ToString};

    use super::*;

    fn hex(digest: [u8; 20]) -> String {
        digest.iter().map(|byte| format!("{byte:02x}")).collect()
    }

    #[test]
    fn an_identity_is_one_component_of_up_to_31_bytes() {
        assert_eq!(Identity::new("alpha").unwrap().to_string(), "alpha");
        assert!(Identity::new(&"n".repeat(31)).is_ok());
        assert!(matches!(
            Identity::new(&"n".repeat(32)),
            Err(NameError::TooLong { length: 32, most: 31, .. })
        ));
        assert_eq!(Identity::new(""), Err(NameError::Empty));
        assert_eq!(Identity::new("a\0"), Err(NameError::Nul("a\0".into())));
        for bad in ["/", "/a", "a/", "a/b"] {
            assert_eq!(Identity::new(bad), Err(NameError::Slash(bad.into())));
        }
    }

    #[test]
    fn a_host_has_the_same_identity_each_time_and_another_than_others() {
        let of = |host: &str| Identity::of_host("linux", host.as_bytes()).unwrap();
        assert_eq!(of("one"), of("one"));
        assert_ne!(of("one"), of("other"));
        assert_eq!(of("").as_str(), "linux-0709");
    }

    /// The examples of FIPS 180, and lengths around a block.
    #[test]
    fn the_hash_is_sha_1() {
        for (text, digest) in [
            ("".into(), "da39a3ee5e6b4b0d3255bfef95601890afd80709"),
            ("abc".into(), "a9993e364706816aba3e25717850c26c9cd0d89d"),
            (
                "abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq".into(),
                "84983e441c3bd26ebaae4aa1f95129e5e54670f1",
            ),
            ("a".repeat(55), "c1c8bbdc22796e28c0e15163d20899b65621d65a"),
            ("a".repeat(56), "c2db330f6083854c99d4b5bfb6e8f29f201be699"),
            ("a".repeat(63), "03f09f5b158a7a8cdad920bddc29b81c18a551f5"),
            ("a".repeat(64), "0098ba824b5c16427bd7a1122a5a442a25ec644d"),
            ("a".repeat(1_000_000), "34aa973cd4c4daa4f61eeb2bdbad27316534016f"),
        ] as [(String, _); 8]
        {
            assert_eq!(hex(sha1(text.as_bytes())), digest, "{} bytes", text.len());
        }
    }
}

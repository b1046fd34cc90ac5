//! The key of a job, which its ranks know and strangers do not.

use core::fmt;

use aldis_protocols::stream::{Mac, NONCE_BYTES, Tag};
use hmac::{Hmac, KeyInit, Mac as _};
use sha2::Sha256;

use crate::entropy::{self, NoEntropy};

/// Bytes of a key.
pub const KEY_BYTES: usize = 32;

/// The key of a job, from its launcher to its ranks over their own wire-up. A handshake proves that
/// it is known, by HMAC-SHA256 (RFC 2104, FIPS 180-4), without telling it.
#[derive(Clone)]
pub struct JobKey {
    /// The hash with the key taken in, so that each tag begins there.
    keyed: Hmac<Sha256>,
}

impl JobKey {
    /// The key of these bytes, which have to be random.
    pub fn new(bytes: [u8; KEY_BYTES]) -> Self {
        // A key shorter than a block is filled up with zeros: RFC 2104, section 2.
        let mut block = [0; 64];
        block[..KEY_BYTES].copy_from_slice(&bytes);
        Self { keyed: Hmac::new(&block.into()) }
    }

    /// Returns a key of the system's random numbers: its bytes, for a launcher to send to its
    /// ranks.
    ///
    /// # Errors
    /// [`NoEntropy`]: no job has a key that can be foretold.
    pub fn random() -> Result<[u8; KEY_BYTES], NoEntropy> {
        let mut bytes = [0; KEY_BYTES];
        entropy::fill(&mut bytes).map(|()| bytes)
    }
}

/// Numbers that no other process can foretell, of one secret: the system is asked once, so that no
/// handshake can lack one.
#[derive(Debug)]
pub(super) struct Nonces {
    secret: JobKey,
    given: u64,
}

impl Nonces {
    /// # Errors
    /// [`NoEntropy`].
    pub(super) fn new() -> Result<Self, NoEntropy> {
        JobKey::random().map(|secret| Self { secret: JobKey::new(secret), given: 0 })
    }

    /// The tags of a counter under a secret are as random as the secret (HMAC is a pseudorandom
    /// function).
    pub(super) fn next(&mut self) -> [u8; NONCE_BYTES] {
        self.given = self.given.wrapping_add(1);
        let mut nonce = [0; NONCE_BYTES];
        nonce.copy_from_slice(&self.secret.tag(&self.given.to_ne_bytes())[..NONCE_BYTES]);
        nonce
    }
}

impl Mac for JobKey {
    fn tag(&self, message: &[u8]) -> Tag {
        self.keyed.clone().chain_update(message).finalize().into_bytes().into()
    }
}

/// Without the key.
impl fmt::Debug for JobKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JobKey")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// RFC 4231, test case 1, whose key of 20 bytes is padded with zeros as HMAC itself does.
    #[test]
    fn the_tag_is_hmac_sha256() {
        let mut bytes = [0; KEY_BYTES];
        bytes[..20].fill(0x0B);
        let tag = JobKey::new(bytes).tag(b"Hi There");
        let expected =
            [0xB0, 0x34, 0x4C, 0x61, 0xD8, 0xDB, 0x38, 0x53, 0x5C, 0xA8, 0xAF, 0xCE, 0xAF, 0x0B, 0xF1, 0x2B];
        assert_eq!(tag[..16], expected);
    }

    #[test]
    fn keys_differ_and_are_not_shown() {
        let (one, other) = (JobKey::random().unwrap(), JobKey::random().unwrap());
        assert_ne!(one, other);
        assert_ne!(JobKey::new(one).tag(b"x"), JobKey::new(other).tag(b"x"));
        assert_eq!(format!("{:?}", JobKey::new(one)), "JobKey");
        let (mut one, mut other) = (Nonces::new().unwrap(), Nonces::new().unwrap());
        let (first, second) = (one.next(), one.next());
        assert!(first != second && first != other.next() && second != other.next());
    }
}

//! CRC-32C (Castagnoli): the checksum of every frame of the reliable layer, in software by one table of 256 words.
//!
//! A byte at a time: 1 KiB of flash, some 2 ns a byte on a host. Slicing by eight takes 8 KiB, which firmware has not;
//! four streams at once over the same table were measured and gain a third; instructions of the processor need
//! `unsafe`, which this crate forbids.

/// The polynomial 0x1EDC6F41 with its bits reversed.
const POLYNOMIAL: u32 = 0x82F6_3B78;

static TABLE: [u32; 256] = table();

const fn entry(byte: u32) -> u32 {
    let mut crc = byte;
    let mut bit = 0;
    while bit < 8 {
        crc = if crc & 1 == 1 { (crc >> 1) ^ POLYNOMIAL } else { crc >> 1 };
        bit += 1;
    }
    crc
}

#[allow(
    clippy::indexing_slicing,
    clippy::cast_possible_truncation,
    reason = "evaluated by the compiler only"
)]
const fn table() -> [u32; 256] {
    let mut table = [0; 256];
    let mut index = 0;
    while index < 256 {
        table[index] = entry(index as u32);
        index += 1;
    }
    table
}

/// A checksum under way: the same value however the bytes are cut into pieces.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Crc32c(u32);

impl Crc32c {
    /// Nothing summed yet.
    #[must_use]
    pub const fn new() -> Self {
        Self(u32::MAX)
    }

    /// The sum with `bytes` appended.
    #[must_use]
    pub fn update(self, bytes: &[u8]) -> Self {
        Self(bytes.iter().fold(self.0, |crc, &byte| {
            let [low, ..] = crc.to_le_bytes();
            (crc >> 8) ^ TABLE.get(usize::from(low ^ byte)).copied().unwrap_or(0)
        }))
    }

    /// The checksum of all bytes so far.
    #[must_use]
    pub const fn finish(self) -> u32 {
        !self.0
    }
}

impl Default for Crc32c {
    fn default() -> Self {
        Self::new()
    }
}

/// The CRC-32C of `bytes`.
#[must_use]
pub fn crc32c(bytes: &[u8]) -> u32 {
    Crc32c::new().update(bytes).finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The vectors of RFC 3720, B.4, and the check value of the catalogues.
    #[test]
    fn vectors_of_rfc_3720() {
        let up: [u8; 32] = core::array::from_fn(|i| u8::try_from(i).unwrap());
        let mut down = up;
        down.reverse();
        assert_eq!(crc32c(&[0; 32]), 0x8A91_36AA);
        assert_eq!(crc32c(&[0xFF; 32]), 0x62A8_AB43);
        assert_eq!(crc32c(&up), 0x46DD_794E);
        assert_eq!(crc32c(&down), 0x113F_DB5C);
        assert_eq!(crc32c(b"123456789"), 0xE306_9283);
        assert_eq!(crc32c(b""), 0);
    }

    #[test]
    fn pieces_give_the_sum_of_the_whole() {
        let bytes = b"sans-IO";
        for cut in 0..=bytes.len() {
            let (head, tail) = bytes.split_at(cut);
            assert_eq!(Crc32c::new().update(head).update(tail).finish(), crc32c(bytes));
        }
    }
}

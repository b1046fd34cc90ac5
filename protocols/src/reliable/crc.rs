//! CRC-32C (Castagnoli): the checksum of every frame of the reliable layer, by the processor's
//! [instruction](aldis_hal::crc) for it or, where it has none, by tables.
//!
//! Where words have 64 bits, eight bytes at a time over 8 KiB of tables, which takes about a fifth
//! of the time; elsewhere a byte at a time over 1 KiB, since flash is dear there.

use aldis_hal::crc::{crc32c_after_zeros, crc32c_by_instruction};

static TABLE: [u32; 256] = table();

/// Tables for the bytes that have others behind them in a word: `SLICES[i]` is for `i + 1` more.
/// Slicing-by-8, after Kounavis and Berry, "A Systematic Approach to Building High Performance
/// Software-Based CRC Generators" (ISCC 2005): eight look-ups that do not wait for each other. Not
/// where words are short: 7 KiB of flash are dear there.
static SLICES: [[u32; 256]; 7] = slices();

/// True if bytes are taken eight at a time.
const SLICED: bool = cfg!(target_pointer_width = "64");

#[allow(
    clippy::indexing_slicing,
    clippy::cast_possible_truncation,
    reason = "evaluated by the compiler only"
)]
const fn table() -> [u32; 256] {
    let mut table = [0; 256];
    let mut index = 0;
    while index < 256 {
        table[index] = crc32c_after_zeros(index as u32, 8);
        index += 1;
    }
    table
}

#[allow(clippy::indexing_slicing, reason = "evaluated by the compiler only")]
const fn slices() -> [[u32; 256]; 7] {
    let (first, mut slices) = (table(), [[0; 256]; 7]);
    let mut index = 0;
    while index < 256 {
        let (mut crc, mut slice) = (first[index], 0);
        while slice < 7 {
            crc = (crc >> 8) ^ first[(crc & 0xFF) as usize];
            slices[slice][index] = crc;
            slice += 1;
        }
        index += 1;
    }
    slices
}

/// Returns what a byte adds by one table.
#[inline(always)]
fn look_up(table: &[u32; 256], byte: u8) -> u32 {
    table.get(usize::from(byte)).copied().unwrap_or(0)
}

#[inline(always)]
fn after_byte(crc: u32, byte: u8) -> u32 {
    let [low, ..] = crc.to_le_bytes();
    (crc >> 8) ^ look_up(&TABLE, low ^ byte)
}

#[inline(always)]
fn after_word(crc: u32, word: [u8; 8]) -> u32 {
    let [a, b, c, d, e, f, g, h] = (u64::from_le_bytes(word) ^ u64::from(crc)).to_le_bytes();
    let [behind1, behind2, behind3, behind4, behind5, behind6, behind7] = &SLICES;
    let first = look_up(behind7, a) ^ look_up(behind6, b) ^ look_up(behind5, c) ^ look_up(behind4, d);
    let second = look_up(behind3, e) ^ look_up(behind2, f) ^ look_up(behind1, g) ^ look_up(&TABLE, h);
    first ^ second
}

/// Takes bytes in by the tables.
fn after_bytes(crc: u32, bytes: &[u8]) -> u32 {
    let (words, rest) = if SLICED { bytes.as_chunks() } else { (&[][..], bytes) };
    let crc = words.iter().fold(crc, |crc, word| after_word(crc, *word));
    rest.iter().fold(crc, |crc, byte| after_byte(crc, *byte))
}

/// A checksum under way: the same value however the bytes are cut into pieces.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Crc32c(u32);

impl Crc32c {
    /// The sum of no bytes.
    #[must_use]
    pub const fn new() -> Self {
        Self(u32::MAX)
    }

    /// The sum with `bytes` appended.
    #[must_use]
    pub fn update(self, bytes: &[u8]) -> Self {
        Self(crc32c_by_instruction(self.0, bytes).unwrap_or_else(|| after_bytes(self.0, bytes)))
    }

    /// A word that can be kept in the place of a sum until there is one:
    /// [`word`](Self::word) gives it back.
    #[must_use]
    pub const fn of_word(word: u32) -> Self {
        Self(word)
    }

    /// Returns the word that was kept.
    #[must_use]
    pub const fn word(self) -> u32 {
        self.0
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
        let bytes = b"sans-IO, and more than a word";
        for cut in 0..=bytes.len() {
            let (head, tail) = bytes.split_at(cut);
            assert_eq!(Crc32c::new().update(head).update(tail).finish(), crc32c(bytes));
        }
    }

    #[test]
    fn words_and_the_instruction_give_the_sum_of_bytes() {
        let bytes: [u8; 3000] = core::array::from_fn(|i| u8::try_from(i * 37 % 251).unwrap());
        for len in (0..=64).chain(1400..1480).chain(2870..3000) {
            let bytes = &bytes[..len];
            let one_by_one = bytes.iter().fold(u32::MAX, |crc, byte| after_byte(crc, *byte));
            assert_eq!(!after_bytes(u32::MAX, bytes), !one_by_one);
            assert_eq!(crc32c(bytes), !one_by_one);
        }
    }
}

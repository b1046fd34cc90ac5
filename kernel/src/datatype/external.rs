//! The forms of data, and the conversion of one element between them.

use aldis_hal::Cause;

use aldis_protocols::card::{ByteOrder, WordWidth};

use super::Basic;

/// The form of packed data.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub enum Form {
    /// The bytes of memory as they are: for peers with the same byte order and widths.
    Native,
    /// The bytes of memory of a machine that differs from this one in byte order alone.
    Swapped,
    /// The bytes of memory of a machine whose words (`usize`, `isize`) have four bytes, in the byte
    /// order of this one.
    Narrow,
    /// The bytes of memory of such a machine in the other byte order.
    NarrowSwapped,
    /// Big-endian, with fixed widths (MPI 4.1, I/O, "external32"): for files, and for peers that
    /// are unlike.
    External32,
}

impl Form {
    /// The form that a typed message has which a machine with this byte order and these words
    /// sends: in its own byte order, and with words of the narrower of both machines.
    #[must_use]
    pub fn from_peer(order: ByteOrder, words: WordWidth) -> Self {
        match (order == ByteOrder::NATIVE, is_narrower(words)) {
            (true, false) => Self::Native,
            (false, false) => Self::Swapped,
            (true, true) => Self::Narrow,
            (false, true) => Self::NarrowSwapped,
        }
    }

    /// The form that a typed message to a machine with these words has.
    #[must_use]
    pub fn to_peer(words: WordWidth) -> Self {
        if is_narrower(words) { Self::Narrow } else { Self::Native }
    }

    /// Returns true if the first byte of a converted number is its highest one.
    const fn begins_high(self) -> bool {
        match self {
            Self::External32 => true,
            Self::Swapped | Self::NarrowSwapped => cfg!(target_endian = "little"),
            Self::Native | Self::Narrow => cfg!(target_endian = "big"),
        }
    }
}

/// Returns true if words are narrower than here.
fn is_narrower(words: WordWidth) -> bool {
    (words, WordWidth::NATIVE) == (WordWidth::Four, WordWidth::Eight)
}

/// The most bytes that an element has in either form.
pub(super) const ELEMENT_MAX: usize = 8;

/// The mapping of an element's bytes between two widths: the byte of a significance lies elsewhere;
/// bytes that only one form has must be what extends the value.
#[derive(Clone, Copy, Debug)]
pub(super) struct Element {
    pub(super) native: usize,
    pub(super) external: usize,
    signed: bool,
    begins_high: bool,
}

impl Element {
    /// An element of a packed stream in a form that is not the native one.
    #[inline]
    pub(super) fn of(basic: Basic, form: Form) -> Self {
        use Basic::{I8, I16, I32, I64, Isize, Long};
        let signed = matches!(basic, I8 | I16 | I32 | I64 | Isize | Long);
        let begins_high = form.begins_high();
        Self { native: basic.size(), external: basic.packed(form), signed, begins_high }
    }

    /// Returns true if its bytes in the stream are others than in memory.
    #[inline]
    pub(super) const fn is_converted(&self) -> bool {
        self.native != self.external
            || (self.native > 1 && self.begins_high == cfg!(target_endian = "little"))
    }

    /// Returns the significance of the byte at a place of the external form, or the place of the
    /// byte of a significance.
    const fn significance(&self, index: usize) -> usize {
        if self.begins_high { self.external.wrapping_sub(index).wrapping_sub(1) } else { index }
    }

    /// Returns the place in memory of the byte of a significance.
    const fn place(&self, significance: usize) -> usize {
        if cfg!(target_endian = "little") {
            significance
        } else {
            self.native.wrapping_sub(significance).wrapping_sub(1)
        }
    }

    /// The byte that extends a value whose highest byte is `top`.
    const fn extension(&self, top: u8) -> u8 {
        if self.signed && top >= 0x80 { 0xff } else { 0 }
    }

    /// The cause of a number that the narrower form cannot hold, by its bytes in the wider one:
    /// each with its significance.
    fn unrepresentable(&self, bytes: impl Iterator<Item = (usize, u8)>) -> Cause {
        let wide = self.native.max(self.external);
        let (mut value, mut negative) = (0u64, false);
        for (significance, byte) in bytes {
            value |= u64::from(byte).checked_shl(8 * significance as u32).unwrap_or(0);
            negative |= self.signed && significance == wide.wrapping_sub(1) && byte >= 0x80;
        }
        // Types whose width differs have eight bytes, where the sign is the top bit, or no sign.
        let magnitude = if negative { value.wrapping_neg() } else { value };
        Cause::Unrepresentable { magnitude, negative, bytes: self.native.min(self.external) as u8 }
    }

    fn native_byte(&self, memory: &[u8], significance: usize) -> u8 {
        memory.get(self.place(significance)).copied().unwrap_or(0)
    }

    /// The external form of an element in memory, in the first bytes.
    pub(super) fn encode(&self, memory: &[u8]) -> Result<[u8; ELEMENT_MAX], Cause> {
        let common = self.native.min(self.external);
        let extension = self.extension(self.native_byte(memory, common.saturating_sub(1)));
        if (common..self.native).any(|place| self.native_byte(memory, place) != extension) {
            return Err(
                self.unrepresentable((0..self.native).map(|place| (place, self.native_byte(memory, place))))
            );
        }
        let mut external = [extension; ELEMENT_MAX];
        for (index, byte) in (0..self.external).zip(external.iter_mut()) {
            let significance = self.significance(index);
            if significance < common {
                *byte = self.native_byte(memory, significance);
            }
        }
        Ok(external)
    }

    /// Puts bytes of an element's external form, from byte `first` on, where they belong in memory.
    /// A value that is too wide for memory is refused, and reported as far as it has come. Bytes
    /// that come without the others are refused as far as they show it by themselves: surplus ones
    /// must be zero, or all ones in a signed type.
    pub(super) fn decode(&self, first: usize, external: &[u8], memory: &mut [u8]) -> Result<(), Cause> {
        let bytes =
            (first..self.external).zip(external).map(|(index, &byte)| (self.significance(index), byte));
        if self.external > self.native {
            let top = bytes.clone().find(|(significance, _)| significance.wrapping_add(1) == self.native);
            let is_extension = |byte| match top {
                Some((_, top)) => byte == self.extension(top),
                None => byte == 0 || (self.signed && byte == 0xff),
            };
            let mut surplus = bytes.clone().filter(|(significance, _)| *significance >= self.native);
            if !surplus.all(|(_, byte)| is_extension(byte)) {
                return Err(self.unrepresentable(bytes));
            }
        }
        for (significance, byte) in bytes {
            if let Some(place) = memory.get_mut(self.place(significance)) {
                *place = byte;
            }
            if significance == self.external.wrapping_sub(1) {
                for wider in self.external..self.native {
                    if let Some(place) = memory.get_mut(self.place(wider)) {
                        *place = self.extension(byte);
                    }
                }
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WIDER_OUTSIDE: Element = Element { native: 4, external: 8, signed: true, begins_high: true };
    const NARROWER_OUTSIDE: Element = Element { native: 4, external: 2, signed: true, begins_high: true };

    fn there_and_back(element: Element, value: i32) -> Result<i32, Cause> {
        let external = element.encode(&value.to_ne_bytes())?;
        let mut memory = [0x55; 4];
        for index in (0..element.external).rev() {
            element.decode(index, &external[index..=index], &mut memory)?;
        }
        Ok(i32::from_ne_bytes(memory))
    }

    #[test]
    fn widths_are_extended_by_the_sign_a_byte_at_a_time() {
        for value in [0, 1, -1, 127, -128, 0x1234_5678, i32::MIN] {
            assert_eq!(there_and_back(WIDER_OUTSIDE, value), Ok(value));
            assert_eq!(WIDER_OUTSIDE.encode(&value.to_ne_bytes()), Ok(i64::from(value).to_be_bytes()));
        }
        for value in [0, 1, -1, 32767, -32768] {
            assert_eq!(there_and_back(NARROWER_OUTSIDE, value), Ok(value));
        }
    }

    #[test]
    fn what_does_not_fit_is_refused_by_name() {
        let refused = |magnitude, negative, bytes| Cause::Unrepresentable { magnitude, negative, bytes };
        for value in [32768, 0x10000] {
            assert_eq!(there_and_back(NARROWER_OUTSIDE, value), Err(refused(value as u64, false, 2)));
        }
        let wide_char = Element::of(Basic::WideChar, Form::External32).encode(&0x1f6a2u32.to_ne_bytes());
        assert_eq!(wide_char, Err(refused(0x1f6a2, false, 2)));
        for value in [1i64 << 40, 1 << 31, -1 - (1 << 31), i64::MIN, i64::MAX] {
            let cause = refused(value.unsigned_abs(), value < 0, 4);
            assert_eq!(WIDER_OUTSIDE.decode(0, &value.to_be_bytes(), &mut [0; 4]), Err(cause));
            let narrow = Element { native: 8, external: 4, signed: true, begins_high: true };
            assert_eq!(narrow.encode(&value.to_ne_bytes()), Err(cause));
        }
    }
}

//! Consistent Overhead Byte Stuffing: frames without a zero byte, so that a zero can stand between
//! them.
//!
//! Cheshire and Baker, "Consistent Overhead Byte Stuffing" (IEEE/ACM Transactions on Networking
//! 7(2), 1999). A frame is cut in groups, each a code byte and `code - 1` bytes that are not zero.
//! Behind a group stands a zero of the frame, which is not sent, unless the code is 255 or the
//! group is the last. After any damage the next zero begins a new frame.
//!
//! Both ways take or give one byte at a time, for a caller that has a register and an interrupt, in
//! bounded memory; over whole slices there are [`encode`] and [`Decoder::feed`].
//!
//! ```
//! use aldis_drivers::serial::cobs::{self, Decoder};
//!
//! let mut wire = [0; 8];
//! assert_eq!(cobs::encode(&[7, 0, 0, 9], &mut wire), Some(6));
//! assert_eq!(wire[..6], [2, 7, 1, 2, 9, 0]);
//!
//! let (mut decoder, mut frame) = (Decoder::new(), [0; 4]);
//! let mut rest = &wire[..6];
//! assert_eq!(decoder.feed(&mut rest, &mut frame), Some(Ok(4)));
//! assert_eq!(frame, [7, 0, 0, 9]);
//! ```

use core::fmt;

/// The byte that stands between frames.
pub const DELIMITER: u8 = 0;

/// Most bytes of a frame in one group.
const GROUP_BYTES_MAX: usize = 254;
/// The code of a group of that many, which no zero follows.
const CODE_FULL: u8 = 0xFF;

/// Most bytes that a frame of `len` bytes becomes, with the delimiter behind it.
pub const fn encoded_bytes_max(len: usize) -> usize {
    let codes = if len == 0 { 1 } else { len.div_ceil(GROUP_BYTES_MAX) };
    len.saturating_add(codes).saturating_add(1)
}

/// Writes `frame` and the delimiter behind it to `into`: how many bytes that are. `None`: it has
/// too few; [`encoded_bytes_max`] are enough.
pub fn encode(frame: &[u8], into: &mut [u8]) -> Option<usize> {
    let (mut encoder, mut len) = (Encoder::new(), 0);
    while let Some(byte) = encoder.next(frame) {
        *into.get_mut(len)? = byte;
        len += 1;
    }
    Some(len)
}

/// The kind of the next byte of a frame on its way out.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
enum CobsStep {
    #[default]
    Code,
    /// A byte of the frame, and so many of the group after it; `full`: no zero stands behind the
    /// group.
    Data {
        after: u8,
        full: bool,
    },
    Delimiter,
    Nothing,
}

/// A frame on its way out, byte by byte. It holds no frame: that is handed to [`next`](Self::next).
#[derive(Clone, Copy, Debug, Default)]
pub struct Encoder {
    /// Bytes of the frame that are behind us.
    at: usize,
    next: CobsStep,
}

impl Encoder {
    /// At the start of a frame.
    pub const fn new() -> Self {
        Self { at: 0, next: CobsStep::Code }
    }

    /// The next byte, the delimiter being the last; `None` after it. `frame` is the same in every
    /// call. Looks at no more than 254 bytes of it.
    pub fn next(&mut self, frame: &[u8]) -> Option<u8> {
        match self.next {
            CobsStep::Code => {
                let rest = frame.get(self.at..).unwrap_or_default();
                let group = rest.iter().take(GROUP_BYTES_MAX).take_while(|byte| **byte != 0).count() as u8;
                self.next = match group.checked_sub(1) {
                    Some(after) => CobsStep::Data { after, full: group == CODE_FULL - 1 },
                    None => self.behind_group(frame, false),
                };
                Some(group + 1)
            }
            CobsStep::Data { after, full } => {
                let byte = frame.get(self.at).copied();
                self.at += 1;
                self.next = match after.checked_sub(1) {
                    Some(after) => CobsStep::Data { after, full },
                    None => self.behind_group(frame, full),
                };
                byte
            }
            CobsStep::Delimiter => {
                self.next = CobsStep::Nothing;
                Some(DELIMITER)
            }
            CobsStep::Nothing => None,
        }
    }

    /// Returns what follows a group. The zero behind it is in its code.
    fn behind_group(&mut self, frame: &[u8], full: bool) -> CobsStep {
        if self.at >= frame.len() {
            return CobsStep::Delimiter;
        }
        self.at += usize::from(!full);
        CobsStep::Code
    }
}

/// The reason why there is no frame between two delimiters.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub enum Damage {
    /// The delimiter came within a group: bytes are missing, or one of them was damaged.
    Truncated,
    /// More bytes than there is room for.
    TooLong,
}

impl fmt::Display for Damage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Truncated => "frame ends within a group",
            Self::TooLong => "frame longer than its buffer",
        })
    }
}

impl core::error::Error for Damage {}

/// A frame on its way in, byte by byte. It holds no frame: that is in the buffer handed to
/// [`push`](Self::push).
#[derive(Clone, Copy, Debug, Default)]
pub struct Decoder {
    /// Bytes of the frame so far.
    len: usize,
    /// Bytes of the group that are still to come.
    left: u8,
    /// A zero stands behind this group, if another follows.
    zero: bool,
    /// True if something has come since the last delimiter.
    begun: bool,
    damage: Option<Damage>,
}

impl Decoder {
    /// Between two frames.
    pub const fn new() -> Self {
        Self { len: 0, left: 0, zero: false, begun: false, damage: None }
    }

    /// Takes a byte. With the delimiter that ends a frame: the length of what is in `into`, or why
    /// there is none, and the next byte begins another. Delimiters in a row are one. `into` is the
    /// same in every call of a frame.
    #[inline]
    pub fn push(&mut self, byte: u8, into: &mut [u8]) -> Option<Result<usize, Damage>> {
        if byte == DELIMITER {
            return core::mem::take(self).end();
        }
        if self.left != 0 {
            self.left -= 1;
            self.put(byte, into);
        } else {
            if self.zero {
                self.put(0, into);
            }
            self.left = byte - 1;
            self.zero = byte != CODE_FULL;
        }
        self.begun = true;
        None
    }

    /// Takes bytes from the front of `bytes` up to the end of a frame or of `bytes`: what
    /// [`push`](Self::push) says of the last of them.
    pub fn feed(&mut self, bytes: &mut &[u8], into: &mut [u8]) -> Option<Result<usize, Damage>> {
        while let Some((byte, rest)) = bytes.split_first() {
            *bytes = rest;
            if let Some(end) = self.push(*byte, into) {
                return Some(end);
            }
        }
        None
    }

    fn put(&mut self, byte: u8, into: &mut [u8]) {
        match into.get_mut(self.len) {
            Some(place) => {
                *place = byte;
                self.len += 1;
            }
            None => self.damage = self.damage.or(Some(Damage::TooLong)),
        }
    }

    /// Records that bytes are known to be lost: what has come since the last delimiter and what
    /// comes before the next is no frame.
    pub fn spoil(&mut self) {
        self.begun = true;
        self.damage = Some(Damage::Truncated);
    }

    fn end(self) -> Option<Result<usize, Damage>> {
        self.begun.then_some(match self {
            Self { damage: Some(damage), .. } => Err(damage),
            Self { left: 1.., .. } => Err(Damage::Truncated),
            Self { len, .. } => Ok(len),
        })
    }
}

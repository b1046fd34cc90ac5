//! The basic types, their native form and their external32 form.

use super::Form;

/// A predefined datatype: what a type map is made of (MPI 4.1, 3.2.2 and 5.1).
///
/// Its codes begin with one, so that "no basic type" is zero and a table that holds none is all
/// zero.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[repr(u8)]
pub enum Basic {
    /// An uninterpreted byte (`MPI_BYTE`).
    Byte = 1,
    /// A truth value of one byte (`MPI_C_BOOL`).
    Bool,
    /// A character of one byte (`MPI_CHAR`).
    Char,
    /// A character of four bytes, of which external32 keeps two (`MPI_WCHAR`): one beyond U+FFFF
    /// cannot be converted.
    WideChar,
    /// `i8` (`MPI_INT8_T`).
    I8,
    /// `u8` (`MPI_UINT8_T`).
    U8,
    /// `i16` (`MPI_INT16_T`).
    I16,
    /// `u16` (`MPI_UINT16_T`).
    U16,
    /// `i32` (`MPI_INT32_T`).
    I32,
    /// `u32` (`MPI_UINT32_T`).
    U32,
    /// `i64` (`MPI_INT64_T`, `MPI_COUNT`, `MPI_OFFSET`).
    I64,
    /// `u64` (`MPI_UINT64_T`).
    U64,
    /// `isize` (`MPI_AINT`): as wide as an address here, eight bytes in external32. A machine of
    /// another width has them as wide as its own addresses.
    Isize,
    /// `usize`: as wide as an address here, eight bytes in external32.
    Usize,
    /// `f32` (`MPI_FLOAT`).
    F32,
    /// `f64` (`MPI_DOUBLE`).
    F64,
    /// `i64` of which external32 keeps four bytes (`MPI_LONG` where a `long` has eight): one that
    /// needs more cannot be converted. In messages it is an [`I64`](Self::I64).
    Long,
    /// `u64` of which external32 keeps four bytes (`MPI_UNSIGNED_LONG`). In messages it is a
    /// [`U64`](Self::U64).
    UnsignedLong,
}

impl Basic {
    /// All basic types, in the order of their codes.
    pub const ALL: [Self; 18] = [
        Self::Byte,
        Self::Bool,
        Self::Char,
        Self::WideChar,
        Self::I8,
        Self::U8,
        Self::I16,
        Self::U16,
        Self::I32,
        Self::U32,
        Self::I64,
        Self::U64,
        Self::Isize,
        Self::Usize,
        Self::F32,
        Self::F64,
        Self::Long,
        Self::UnsignedLong,
    ];

    /// Bytes in memory on this machine.
    #[inline]
    pub const fn size(self) -> usize {
        match self {
            Self::Byte | Self::Bool | Self::Char | Self::I8 | Self::U8 => 1,
            Self::I16 | Self::U16 => 2,
            Self::I32 | Self::U32 | Self::F32 | Self::WideChar => 4,
            Self::I64 | Self::U64 | Self::F64 | Self::Long | Self::UnsignedLong => 8,
            Self::Isize | Self::Usize => size_of::<usize>(),
        }
    }

    /// Bytes in external32 (MPI 4.1, I/O, "External Data Representation", table of sizes).
    pub const fn external_size(self) -> usize {
        match self {
            Self::WideChar => 2,
            Self::Long | Self::UnsignedLong => 4,
            Self::Isize | Self::Usize => 8,
            other => other.size(),
        }
    }

    /// Bytes on a machine with words of four bytes.
    pub(super) const fn narrow_size(self) -> usize {
        match self {
            Self::Isize | Self::Usize => 4,
            other => other.size(),
        }
    }

    /// Bytes in a packed stream.
    pub(super) const fn packed(self, form: Form) -> usize {
        match form {
            Form::Native | Form::Swapped => self.size(),
            Form::Narrow | Form::NarrowSwapped => self.narrow_size(),
            Form::External32 => self.external_size(),
        }
    }

    /// The alignment that this machine gives it, in bytes: what a structure's extent is rounded up
    /// to.
    pub const fn alignment(self) -> usize {
        match self {
            Self::Byte | Self::Bool | Self::Char | Self::I8 | Self::U8 => 1,
            Self::I16 | Self::U16 => align_of::<u16>(),
            Self::I32 | Self::U32 | Self::WideChar => align_of::<u32>(),
            Self::I64 | Self::U64 | Self::Long | Self::UnsignedLong => align_of::<u64>(),
            Self::F32 => align_of::<f32>(),
            Self::F64 => align_of::<f64>(),
            Self::Isize | Self::Usize => align_of::<usize>(),
        }
    }

    /// Returns the type that it is in the signature of a message.
    pub(super) const fn in_messages(self) -> Self {
        match self {
            Self::Long => Self::I64,
            Self::UnsignedLong => Self::U64,
            other => other,
        }
    }

    /// Returns the type of elements that are all alike in messages, by the bytes of all of them in
    /// memory and in external32; `None` if they are not alike there.
    pub(super) const fn of_widths(self, native: u64, external: u64) -> Option<Self> {
        match self {
            Self::I64 if external == native / 2 => Some(Self::Long),
            Self::U64 if external == native / 2 => Some(Self::UnsignedLong),
            Self::I64 | Self::U64 if external != native => None,
            other => Some(other),
        }
    }

    pub(super) const fn code(self) -> u8 {
        self as u8
    }

    #[inline]
    pub(super) fn from_code(code: u64) -> Option<Self> {
        Self::ALL.get(usize::try_from(code).ok()?.checked_sub(1)?).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_are_dense_and_come_back() {
        for (place, basic) in Basic::ALL.into_iter().enumerate() {
            assert_eq!(usize::from(basic.code()), place + 1);
            assert_eq!(Basic::from_code(u64::from(basic.code())), Some(basic));
            assert!(basic.size().is_multiple_of(basic.alignment()));
        }
        assert_eq!(Basic::from_code(0), None);
        assert_eq!(Basic::from_code(19), None);
    }
}

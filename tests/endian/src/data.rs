//! The data that are exchanged: types, and values that every machine works out alike.

use aldis_kernel::Error;
use aldis_kernel::datatype::{Basic, Committed, Field, IndexedBlock, Types};
use aldis_kernel::hal::Cause;

/// A kind of data.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Kind {
    /// Every third double of an array.
    Column,
    /// A structure with padding, as this machine lays it out.
    Record,
    /// Words, signed and unsigned.
    Words,
    /// Short integers at odd places, the last ones first.
    Scattered,
    /// Wide characters and truth values.
    Text,
}

impl Kind {
    pub(crate) const ALL: [Self; 5] = [Self::Column, Self::Record, Self::Words, Self::Scattered, Self::Text];

    /// Makes the type.
    pub(crate) fn build(self, types: &mut Types<'_>) -> Result<Committed, Cause> {
        let datatype = match self {
            Self::Column => types.vector(4, 1, 3, Basic::F64)?,
            Self::Record => {
                let inner = types.structure(&[
                    Field::new(core::mem::offset_of!(Inner, flag), Basic::Bool),
                    Field::new(core::mem::offset_of!(Inner, number), Basic::I64),
                ])?;
                types.structure(&[
                    Field::new(core::mem::offset_of!(Record, kind), Basic::U16),
                    Field::new(core::mem::offset_of!(Record, mass), Basic::F64),
                    Field::array(core::mem::offset_of!(Record, place), 3, Basic::F32),
                    Field::new(core::mem::offset_of!(Record, count), Basic::Usize),
                    Field::new(core::mem::offset_of!(Record, inner), inner),
                    Field::new(core::mem::offset_of!(Record, step), Basic::Isize),
                    Field::new(core::mem::offset_of!(Record, tail), Basic::U8),
                ])?
            }
            Self::Words => {
                let word = size_of::<usize>();
                types.structure(&[Field::array(0, 2, Basic::Isize), Field::new(2 * word, Basic::Usize)])?
            }
            Self::Scattered => types.hindexed(
                &[IndexedBlock { length: 2, displacement: 7 }, IndexedBlock { length: 1, displacement: 1 }],
                Basic::I16,
            )?,
            Self::Text => {
                types.structure(&[Field::array(0, 3, Basic::WideChar), Field::new(12, Basic::Char)])?
            }
        };
        types.commit(datatype)
    }
}

/// A structure of everything.
#[allow(dead_code, reason = "only its layout is used")]
#[repr(C)]
struct Record {
    kind: u16,
    mass: f64,
    place: [f32; 3],
    count: usize,
    inner: Inner,
    step: isize,
    tail: u8,
}

#[allow(dead_code, reason = "only its layout is used")]
#[repr(C)]
struct Inner {
    flag: bool,
    number: i64,
}

/// Element `index` of a message: bytes as this machine has them, and the same value for all
/// machines.
fn value(basic: Basic, seed: u64, index: u64) -> (Vec<u8>, u64) {
    // SplitMix64 (Steele, Lea and Flood, 2014).
    let mut bits = seed.wrapping_add(index.wrapping_add(1).wrapping_mul(0x9E37_79B9_7F4A_7C15));
    bits = (bits ^ (bits >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    bits = (bits ^ (bits >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    bits ^= bits >> 31;
    // Words are such as fit four bytes.
    let (small, narrow) = (bits as u32, bits as i32);
    match basic {
        Basic::Byte | Basic::U8 | Basic::I8 | Basic::Char => (vec![bits as u8], u64::from(bits as u8)),
        Basic::Bool => (vec![(bits & 1) as u8], bits & 1),
        Basic::U16 | Basic::I16 => ((bits as u16).to_ne_bytes().into(), u64::from(bits as u16)),
        Basic::U32 | Basic::I32 => (small.to_ne_bytes().into(), u64::from(small)),
        Basic::WideChar => ((small & 0xffff).to_ne_bytes().into(), u64::from(small & 0xffff)),
        Basic::U64 | Basic::I64 | Basic::Long | Basic::UnsignedLong => (bits.to_ne_bytes().into(), bits),
        Basic::Usize => ((small as usize).to_ne_bytes().into(), u64::from(small)),
        Basic::Isize => ((narrow as isize).to_ne_bytes().into(), i64::from(narrow).cast_unsigned()),
        Basic::F32 => {
            let number = narrow as f32 / 1024.0;
            (number.to_ne_bytes().into(), u64::from(number.to_bits()))
        }
        Basic::F64 => {
            let number = bits.cast_signed() as f64 / 1024.0;
            (number.to_ne_bytes().into(), number.to_bits())
        }
    }
}

/// The byte that lies between elements.
const GAP: u8 = 0xA5;

/// Memory of `count` elements, and a digest of their values (FNV-1a, Fowler, Noll and Vo, a value
/// at a time).
pub(crate) fn filled(
    types: &Types<'_>,
    datatype: Committed,
    count: u64,
    seed: u64,
) -> Result<(Vec<u8>, u64), Error> {
    let (mut memory, mut digest) = (blank(types, datatype, count)?, 0xCBF2_9CE4_8422_2325_u64);
    let map = types.type_map(datatype, count).map_err(refused)?;
    for (index, placed) in (0..).zip(map) {
        let (bytes, value) = value(placed.basic, seed, index);
        let start = placed.displacement as usize;
        memory[start..start + bytes.len()].copy_from_slice(&bytes);
        digest = (digest ^ value).wrapping_mul(0x100_0000_01B3);
    }
    Ok((memory, digest))
}

/// Memory that `count` elements just fit into, none of which begins below its own origin.
pub(crate) fn blank(types: &Types<'_>, datatype: Committed, count: u64) -> Result<Vec<u8>, Error> {
    let map = types.type_map(datatype, count).map_err(refused)?;
    let end = map.map(|placed| placed.displacement as usize + placed.basic.size()).max();
    Ok(vec![GAP; end.unwrap_or(0)])
}

/// A refusal of the table as an error of this program.
pub(crate) fn refused(cause: Cause) -> Error {
    Error::new(aldis_kernel::hal::Operation::None, cause)
}

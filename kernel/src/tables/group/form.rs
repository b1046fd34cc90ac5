//! The forms in which a group is written down: nothing, strides, or words of a bitmap.

use core::iter::Peekable;

use aldis_hal::{Cause, Resource};

/// Members that a word of a bitmap holds.
const WORD_BITS: u32 = u32::BITS;

/// Part of a group: either a stride or a word of a bitmap. Opaque; all-zero is an empty one.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct GroupPiece {
    /// The rank of its first member.
    start: u32,
    /// Its first process; of a word, the process of its lowest bit.
    first: u32,
    /// The stride, in two's complement; of a word, its bits.
    shape: u32,
}

impl GroupPiece {
    /// An empty one, for memory to lend.
    pub const NONE: Self = Self { start: 0, first: 0, shape: 0 };
}

/// The members of a group whose size is known elsewhere.
#[derive(Clone, Copy, Debug)]
pub(crate) enum GroupForm<'m> {
    Strided { first: u32, stride: u32 },
    Ranges(&'m [GroupPiece]),
    Bitmap(&'m [GroupPiece]),
}

/// The form in which a group is written down, and the pieces that it takes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FormPlan {
    pub(crate) size: u32,
    pub(crate) pieces: u32,
    shape: FormShape,
}

#[derive(Clone, Copy, Debug)]
enum FormShape {
    Strided { first: u32, stride: u32 },
    Ranges,
    Bitmap,
}

/// Works out the smallest form for these members.
pub(crate) fn measure(members: impl Iterator<Item = u32> + Clone) -> FormPlan {
    let size = members.clone().count() as u32;
    let mut strides = Strides::new(members.clone());
    let (first, second) = (strides.next(), strides.next());
    if second.is_none() {
        let GroupPiece { first, shape, .. } = first.unwrap_or(GroupPiece { shape: 1, ..GroupPiece::NONE });
        return FormPlan { size, pieces: 0, shape: FormShape::Strided { first, stride: shape } };
    }
    let ranges = 2 + strides.count() as u32;
    let ascending = members.clone().is_sorted_by(|left, right| left < right);
    let words = if ascending { Words::new(members).count() as u32 } else { u32::MAX };
    match ranges <= words {
        true => FormPlan { size, pieces: ranges, shape: FormShape::Ranges },
        false => FormPlan { size, pieces: words, shape: FormShape::Bitmap },
    }
}

/// Writes the members down as planned.
pub(crate) fn write<'m>(
    plan: FormPlan,
    members: impl Iterator<Item = u32> + Clone,
    memory: &'m mut [GroupPiece],
) -> Result<GroupForm<'m>, Cause> {
    let have = memory.len() as u32;
    let Some(pieces) = memory.get_mut(..plan.pieces as usize) else {
        return Err(Cause::TooSmall { what: Resource::GroupPieces, need: plan.pieces, have });
    };
    Ok(match plan.shape {
        FormShape::Strided { first, stride } => GroupForm::Strided { first, stride },
        FormShape::Ranges => GroupForm::Ranges(fill(pieces, Strides::new(members))),
        FormShape::Bitmap => GroupForm::Bitmap(fill(pieces, Words::new(members))),
    })
}

fn fill(memory: &mut [GroupPiece], pieces: impl Iterator<Item = GroupPiece>) -> &[GroupPiece] {
    for (into, piece) in memory.iter_mut().zip(pieces) {
        *into = piece;
    }
    memory
}

impl GroupForm<'_> {
    /// The process with this rank, which is below the size.
    #[inline]
    pub(crate) fn process(&self, rank: u32) -> Option<u32> {
        match *self {
            Self::Strided { first, stride } => Some(first.wrapping_add(rank.wrapping_mul(stride))),
            Self::Ranges(pieces) => {
                let piece = holding(pieces, rank)?;
                Some(piece.first.wrapping_add((rank - piece.start).wrapping_mul(piece.shape)))
            }
            Self::Bitmap(pieces) => {
                let piece = holding(pieces, rank)?;
                let mut bits = piece.shape;
                for _ in piece.start..rank {
                    bits &= bits.wrapping_sub(1);
                }
                Some(piece.first + bits.trailing_zeros())
            }
        }
    }

    /// The lowest rank of a process, among `size`.
    pub(crate) fn rank_of(&self, process: u32, size: u32) -> Option<u32> {
        match *self {
            Self::Strided { first, stride } => position(process, first, stride, size),
            Self::Ranges(pieces) => {
                let ends = pieces.iter().skip(1).map(|piece| piece.start).chain([size]);
                pieces.iter().zip(ends).find_map(|(piece, end)| {
                    let position =
                        position(process, piece.first, piece.shape, end.saturating_sub(piece.start))?;
                    Some(piece.start + position)
                })
            }
            Self::Bitmap(pieces) => {
                let after = pieces.partition_point(|piece| piece.first <= process);
                let piece = pieces.get(after.checked_sub(1)?)?;
                let bit = process - piece.first;
                let below = 1_u32.checked_shl(bit)?;
                (piece.shape & below != 0).then(|| piece.start + (piece.shape & (below - 1)).count_ones())
            }
        }
    }
}

/// The piece that holds a rank.
#[inline]
fn holding(pieces: &[GroupPiece], rank: u32) -> Option<&GroupPiece> {
    let after = pieces.partition_point(|piece| piece.start <= rank);
    pieces.get(after.checked_sub(1)?)
}

/// Returns the index of the process in `first, first + stride, ..` (`size` of them).
fn position(process: u32, first: u32, stride: u32, size: u32) -> Option<u32> {
    let distance = i64::from(process) - i64::from(first);
    let position = match i64::from(stride.cast_signed()) {
        0 => (distance == 0).then_some(0),
        stride => (distance % stride == 0).then_some(distance / stride),
    };
    position.and_then(|position| u32::try_from(position).ok()).filter(|&position| position < size)
}

/// Members as strides, each as long as it goes.
struct Strides<I: Iterator<Item = u32>> {
    members: Peekable<I>,
    rank: u32,
}

impl<I: Iterator<Item = u32>> Strides<I> {
    fn new(members: I) -> Self {
        Self { members: members.peekable(), rank: 0 }
    }
}

impl<I: Iterator<Item = u32>> Iterator for Strides<I> {
    type Item = GroupPiece;

    fn next(&mut self) -> Option<GroupPiece> {
        let (start, first) = (self.rank, self.members.next()?);
        let stride = self.members.peek().map_or(1, |second| second.wrapping_sub(first));
        let mut last = first;
        while self.members.next_if_eq(&last.wrapping_add(stride)).is_some() {
            last = last.wrapping_add(stride);
            self.rank += 1;
        }
        self.rank += 1;
        Some(GroupPiece { start, first, shape: stride })
    }
}

/// Ascending members as words of a bitmap that are not empty.
struct Words<I: Iterator<Item = u32>> {
    members: Peekable<I>,
    rank: u32,
}

impl<I: Iterator<Item = u32>> Words<I> {
    fn new(members: I) -> Self {
        Self { members: members.peekable(), rank: 0 }
    }
}

impl<I: Iterator<Item = u32>> Iterator for Words<I> {
    type Item = GroupPiece;

    fn next(&mut self) -> Option<GroupPiece> {
        let (start, first) = (self.rank, self.members.peek()? / WORD_BITS * WORD_BITS);
        let mut bits = 0;
        while let Some(member) = self.members.next_if(|member| member / WORD_BITS == first / WORD_BITS) {
            bits |= 1 << (member % WORD_BITS);
            self.rank += 1;
        }
        Some(GroupPiece { start, first, shape: bits })
    }
}

//! Properties of a type that are known without walking it: bounds, sizes, signature; and how those
//! follow from its parts.

use aldis_hal::Cause;

use super::handle::Child;
use super::{Basic, Form, Signature};

/// A size, extent or displacement that does not fit 63 bits.
pub(super) const OVERFLOW: Cause = Cause::TooBig { len: u64::MAX, max: i64::MAX as u64 };

/// The facts about one element of a type. Offsets are bytes from the element's origin.
#[derive(Clone, Copy, Debug)]
pub(super) struct TypeLayout {
    /// Lower and upper bound: where neighbours in an array begin and end.
    pub(super) lb: i64,
    pub(super) ub: i64,
    /// Lowest byte and end of the highest byte of data.
    pub(super) true_lb: i64,
    pub(super) true_ub: i64,
    /// Bytes of data in memory, on a machine with words of four bytes, and in external32.
    pub(super) size: u64,
    pub(super) narrow: u64,
    pub(super) external: u64,
    pub(super) signature: Signature,
    /// The strictest alignment of its basic types.
    pub(super) alignment: u8,
    /// Compiled levels below this one and itself; a basic type has none.
    pub(super) depth: u8,
    /// True if bounds were set by hand (or by a part whose bounds were): then only such bounds
    /// count.
    pub(super) marked: bool,
    /// True if the data is one run of bytes, in order.
    pub(super) dense: bool,
    /// True if the structure shows that no two pieces of data overlap.
    pub(super) disjoint: bool,
    /// True if some of its basic types have another width in external32.
    pub(super) unlike: bool,
}

impl TypeLayout {
    /// All-zero: the layout of a slot that is free.
    pub(super) const EMPTY: Self = Self {
        lb: 0,
        ub: 0,
        true_lb: 0,
        true_ub: 0,
        size: 0,
        narrow: 0,
        external: 0,
        signature: Signature::UNUSED,
        alignment: 0,
        depth: 0,
        marked: false,
        dense: false,
        disjoint: false,
        unlike: false,
    };

    /// The layout of a basic type.
    pub(super) fn of(basic: Basic) -> &'static Self {
        #[expect(clippy::indexing_slicing, reason = "when this is compiled, and never later")]
        static ALL: [TypeLayout; Basic::ALL.len()] = {
            let (mut all, mut at) = ([TypeLayout::EMPTY; Basic::ALL.len()], 0);
            while at < all.len() {
                all[at] = TypeLayout::make(Basic::ALL[at]);
                at += 1;
            }
            all
        };
        // Codes are numbers from one.
        ALL.get(usize::from(basic.code()).wrapping_sub(1)).unwrap_or(&Self::EMPTY)
    }

    const fn make(basic: Basic) -> Self {
        let size = basic.size() as i64;
        Self {
            ub: size,
            true_ub: size,
            size: size as u64,
            narrow: basic.narrow_size() as u64,
            external: basic.external_size() as u64,
            signature: Signature::of(basic),
            alignment: basic.alignment() as u8,
            dense: true,
            disjoint: true,
            unlike: basic.size() != basic.external_size(),
            ..Self::EMPTY
        }
    }

    /// Bytes from one element to the next.
    pub(super) const fn extent(&self) -> i64 {
        self.ub.wrapping_sub(self.lb)
    }

    /// Bytes from the lowest to behind the highest byte of data.
    pub(super) const fn span(&self) -> i64 {
        self.true_ub.wrapping_sub(self.true_lb)
    }

    /// Bytes of the packed stream.
    pub(super) const fn packed(&self, form: Form) -> u64 {
        match form {
            Form::Native | Form::Swapped => self.size,
            Form::Narrow | Form::NarrowSwapped => self.narrow,
            Form::External32 => self.external,
        }
    }

    /// Returns true if some of its basic types have another width in this form.
    pub(super) const fn changes_widths(&self, form: Form) -> bool {
        match form {
            Form::Native | Form::Swapped => false,
            Form::Narrow | Form::NarrowSwapped => self.narrow != self.size,
            Form::External32 => self.unlike,
        }
    }

    /// Returns true if copies of this, `spacing` bytes apart, are one run of bytes.
    pub(super) fn abuts(&self, count: u64, spacing: i64) -> bool {
        self.dense && (count == 1 || u64::try_from(spacing) == Ok(self.size))
    }
}

/// The bytes that data covers, from the lowest to behind the highest one.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reach {
    pub(crate) lowest: i64,
    pub(crate) highest: i64,
}

impl Reach {
    pub(super) const EMPTY: Self = Self { lowest: 0, highest: 0 };

    /// Covers as well what another one does.
    fn and(self, other: Option<Self>) -> Self {
        let Self { lowest, highest } = other.unwrap_or(self);
        Self { lowest: self.lowest.min(lowest), highest: self.highest.max(highest) }
    }
}

/// Adds parts up to the layout of a whole (MPI 4.1, 5.1.7: definitions of lb, ub and extent).
#[derive(Clone, Copy, Debug)]
pub(super) struct Sum {
    marks: Option<Reach>,
    data: Option<Reach>,
    pub(super) size: u64,
    narrow: u64,
    external: u64,
    signature: Signature,
    alignment: u8,
    unlike: bool,
}

impl Sum {
    pub(super) const EMPTY: Self = Self {
        marks: None,
        data: None,
        size: 0,
        narrow: 0,
        external: 0,
        signature: Signature::EMPTY,
        alignment: 1,
        unlike: false,
    };

    /// Adds `count` copies of `part` whose origins lie between `lowest` and `highest`, both of
    /// which are taken.
    pub(super) fn add(
        &mut self,
        part: &TypeLayout,
        count: u64,
        lowest: i64,
        highest: i64,
    ) -> Result<(), Cause> {
        if count == 0 {
            return Ok(());
        }
        if part.marked {
            let new = Reach { lowest: shift(lowest, part.lb)?, highest: shift(highest, part.ub)? };
            self.marks = Some(new.and(self.marks));
        }
        if part.size == 0 {
            return Ok(());
        }
        let new = Reach { lowest: shift(lowest, part.true_lb)?, highest: shift(highest, part.true_ub)? };
        self.data = Some(new.and(self.data));
        self.size = grown(self.size, part.size, count)?;
        self.narrow = grown(self.narrow, part.narrow, count)?;
        self.external = grown(self.external, part.external, count)?;
        self.signature = self.signature.then(part.signature.repeat(count));
        self.alignment = self.alignment.max(part.alignment);
        self.unlike |= part.unlike;
        Ok(())
    }

    /// The whole. Its `dense`, `disjoint` and `depth` are what the compiled node knows.
    pub(super) fn finish(self) -> Result<TypeLayout, Cause> {
        let Reach { lowest: true_lb, highest: true_ub } = self.data.unwrap_or(Reach::EMPTY);
        let span = true_ub.checked_sub(true_lb).ok_or(OVERFLOW)? as u64;
        let padded = span.checked_next_multiple_of(u64::from(self.alignment)).ok_or(OVERFLOW)?;
        let end = true_lb.checked_add_unsigned(padded).ok_or(OVERFLOW)?;
        let natural = Reach { lowest: true_lb, highest: end };
        let Reach { lowest: lb, highest: ub } = self.marks.unwrap_or(natural);
        ub.checked_sub(lb).ok_or(OVERFLOW)?;
        Ok(TypeLayout {
            lb,
            ub,
            true_lb,
            true_ub,
            size: self.size,
            narrow: self.narrow,
            external: self.external,
            signature: self.signature,
            alignment: self.alignment,
            marked: self.marks.is_some(),
            unlike: self.unlike,
            ..TypeLayout::EMPTY
        })
    }
}

fn shift(origin: i64, by: i64) -> Result<i64, Cause> {
    origin.checked_add(by).ok_or(OVERFLOW)
}

/// `sum + part * count`, as long as that fits 63 bits.
fn grown(sum: u64, part: u64, count: u64) -> Result<u64, Cause> {
    let all = part.checked_mul(count).and_then(|more| more.checked_add(sum)).ok_or(OVERFLOW)?;
    if all > i64::MAX as u64 { Err(OVERFLOW) } else { Ok(all) }
}

/// A count as a word of the table.
pub(super) fn word(count: u64) -> Result<i64, Cause> {
    i64::try_from(count).map_err(|_| OVERFLOW)
}

/// `index` steps of `stride` bytes.
pub(super) fn steps(index: u64, stride: i64) -> Result<i64, Cause> {
    let bytes = i128::from(index) * i128::from(stride);
    i64::try_from(bytes).map_err(|_| OVERFLOW)
}

/// A stretch of copies of one part: `count` of them, each `extent` bytes behind the one before.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Item {
    pub(super) displacement: i64,
    pub(super) count: u64,
    pub(super) child: Child,
}

//! Data of messages under way: types that live on, freed or not, until nothing under way is of
//! them.

use core::ops::Range;

use aldis_hal::Cause;
use aldis_hal::copy::copy;

use super::Datatype;
use super::external::Form;
use super::handle::{BasicFacts, Child};
use super::layout::{Reach, steps, word};
use super::query::Prefix;
use super::signature::folded;
use super::transfer::{GatherTransfer, Scatter, Transfer, transfer};
use super::walk::Walk;
use super::{Committed, Types};

/// Elements, and bytes of one, beyond which they are for the general functions: products of fewer
/// do not overflow.
const PLAIN_MAX: u64 = 1 << 31;

/// A number of elements of a type that a message is of. It names the slot, and its generation does
/// not matter, so that the handle may be freed: [`Types::hold_only`] keeps the slot.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Held {
    datatype: Datatype,
    count: u64,
}

impl Held {
    /// Elements of a basic type, or of one that the caller has marked as pending.
    #[inline(always)]
    pub(crate) const fn new(datatype: Committed, count: u64) -> Self {
        Self { datatype: datatype.0, count }
    }

    /// The slot that must not be taken back.
    pub(super) fn slot(&self) -> Option<u32> {
        match self.child() {
            Child::Basic(_) => None,
            Child::Slot(slot) => Some(slot),
        }
    }

    fn child(&self) -> Child {
        self.datatype.basic().map_or(Child::Slot(self.datatype.slot()), Child::Basic)
    }
}

impl Types<'_> {
    /// `count` elements of a type for a message: what they are, their bytes in this form, and the
    /// lowest byte and the end of the highest one in memory. Refused if those do not fit 63 bits.
    pub(crate) fn hold(
        &mut self,
        datatype: Committed,
        count: u64,
        form: Form,
    ) -> Result<(Held, u64, Reach), Cause> {
        let len = self.pack_size(datatype, count, form)?;
        self.basic_elements(datatype.into(), count)?;
        let reach = if len == 0 { Reach::EMPTY } else { self.reach(datatype.into(), count)? };
        self.view().child(datatype.into())?;
        let held = Held::new(datatype, count);
        self.mark_pending(&held);
        word(len).map(|_| (held, len, reach))
    }

    /// Packs bytes of the stream in this form from `position` on. `memory` begins at the lowest
    /// byte, which is at `lowest`.
    pub(crate) fn gather(
        &self,
        held: &Held,
        form: Form,
        lowest: i64,
        position: u64,
        memory: &[u8],
        stream: &mut [u8],
    ) -> Result<(), Cause> {
        if let Some(piece) = self.piece(held, form, position, stream.len())
            && let Some(bytes) = memory.get(piece)
        {
            copy(stream, bytes);
            return Ok(());
        }
        self.shift(held, form, lowest, position, &mut GatherTransfer { memory, stream })
    }

    /// Unpacks bytes of a stream in this form to `position` on.
    pub(crate) fn scatter(
        &self,
        held: &Held,
        form: Form,
        lowest: i64,
        position: u64,
        memory: &mut [u8],
        stream: &[u8],
    ) -> Result<(), Cause> {
        if let Some(piece) = self.piece(held, form, position, stream.len())
            && let Some(bytes) = memory.get_mut(piece)
        {
            copy(bytes, stream);
            return Ok(());
        }
        self.shift(held, form, lowest, position, &mut Scatter { memory, stream })
    }

    /// Bytes and signature of `count` elements in the form of this machine, if they lie in one
    /// piece from their origin on.
    #[inline]
    pub(crate) fn plain(&self, datatype: Committed, count: u64) -> Option<(usize, u32)> {
        let (size, signature) = match Datatype::from(datatype).basic_facts() {
            // Of most messages, without a look at the table.
            Some(BasicFacts { bytes, code }) => (bytes, folded(code, count)),
            None => self.derived(datatype, count)?,
        };
        if count > PLAIN_MAX {
            return None;
        }
        let len = usize::try_from(size.wrapping_mul(count)).ok()?;
        (len > 0).then_some((len, signature))
    }

    /// Keeps the slot of a type that was found [plain](Self::plain), for a message.
    #[inline(never)]
    pub(crate) fn hold_plain(&mut self, datatype: Committed) {
        self.mark_pending(&Held::new(datatype, 0));
    }

    /// Bytes of one element of a derived type in one piece, and the signature of all.
    #[inline(never)]
    fn derived(&self, datatype: Committed, count: u64) -> Option<(u64, u32)> {
        let layout = self.layout(datatype.into()).ok()?;
        let is_plain = layout.abuts(2, layout.extent()) && layout.true_lb == 0 && layout.size <= PLAIN_MAX;
        is_plain.then(|| (layout.size, layout.signature.repeated(count)))
    }

    /// The bytes from `position` on, in memory that begins at the lowest byte, if they lie there as
    /// they travel.
    fn piece(&self, held: &Held, form: Form, position: u64, len: usize) -> Option<Range<usize>> {
        let layout = self.view().layout(held.child());
        let start = usize::try_from(position).ok()?;
        let is_one = form == Form::Native && layout.abuts(held.count, layout.extent());
        let end = start.checked_add(len).filter(|end| *end as u64 <= self.packed_len(held, form))?;
        is_one.then_some(start..end)
    }

    fn shift(
        &self,
        held: &Held,
        form: Form,
        lowest: i64,
        position: u64,
        way: &mut impl Transfer,
    ) -> Result<(), Cause> {
        let root = self.root_of(held.child(), held.count)?;
        let mut walk = Walk::new(self.view(), root, form, position);
        // Addresses are relative to the lowest byte: sums wrap back to where they belong.
        let origin = lowest.wrapping_neg() as isize;
        transfer(&mut walk, form, origin, way)?;
        if way.room() > 0 { Err(Cause::Stale) } else { Ok(()) }
    }

    /// The lowest byte and the end of the highest one of a partition of the elements.
    pub(crate) fn reach_of_part(&self, held: &Held, partition: u64, partitions: u32) -> Option<(i64, i64)> {
        let layout = self.view().layout(held.child());
        let count = held.count.checked_div(partitions.into())?;
        let first = steps(partition.checked_mul(count)?, layout.extent()).ok()?;
        let more = steps(count.checked_sub(1)?, layout.extent()).ok()?;
        let lowest = first.checked_add(more.min(0))?.checked_add(layout.true_lb)?;
        Some((lowest, first.checked_add(more.max(0))?.checked_add(layout.true_ub)?))
    }

    /// Bytes of the packed stream in this form.
    pub(crate) fn packed_len(&self, held: &Held, form: Form) -> u64 {
        // Bounded when it was held: no form of messages is longer than the native one.
        self.view().layout(held.child()).packed(form).saturating_mul(held.count)
    }

    /// Bytes in memory that `bytes` of the packed stream in this form fill; `None` if they end
    /// inside an element that is of another width there.
    pub(crate) fn filled(&self, held: &Held, form: Form, bytes: u64) -> Option<u64> {
        if !self.view().layout(held.child()).changes_widths(form) {
            return Some(bytes);
        }
        self.prefix(held, form, bytes).ok().map(|prefix| prefix.size)
    }

    /// The first `bytes` of the packed stream in this form; [`Cause::PartialElement`] if they end
    /// inside an element.
    pub(crate) fn prefix(&self, held: &Held, form: Form, bytes: u64) -> Result<Prefix, Cause> {
        self.prefix_of(held.child(), form, bytes)
    }
}

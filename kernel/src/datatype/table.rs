//! The memory of datatypes: descriptor slots, and the words that they share.

use aldis_hal::{Cause, Resource};

use super::handle::Child;
use super::held::Held;
use super::layout::TypeLayout;
use super::node::Node;
use super::order::WordOrder;
use super::{Combiner, Committed, Datatype};
use crate::tables::list::OptionalIndex;

/// No slot is free.
const NO_SLOT: Cause = Cause::Full(Resource::Datatypes);
/// The words are used up.
pub(super) const NO_WORDS: Cause = Cause::Full(Resource::DatatypeWords);

/// A descriptor. All-zero is free: no handle names it.
#[derive(Clone, Copy, Debug)]
pub(super) struct TypeEntry {
    generation: u32,
    /// The number of times that the user holds it: creation, `retain`, `component`.
    users: u32,
    /// The number of times that other types are made of it.
    parents: u32,
    /// True if a message may be of it: set when one is, and looked into once nothing else holds the
    /// type.
    pending: bool,
    /// Its words: first the `children` that it was made of, then the arguments, then the compiled
    /// node.
    pub(super) start: u32,
    pub(super) children: u32,
    pub(super) described: u32,
    compiled: u32,
    /// The types whose words are before its own and behind them.
    pub(super) before: OptionalIndex,
    pub(super) after: OptionalIndex,
    /// The next one of the list that it stands in: of free slots, of types that only messages may
    /// hold, or of those that are being taken back.
    next: OptionalIndex,
    pub(super) combiner: Combiner,
    pub(super) node: Node,
    pub(super) layout: TypeLayout,
}

impl TypeEntry {
    const FREE: Self = Self {
        generation: 0,
        users: 0,
        parents: 0,
        pending: false,
        start: 0,
        children: 0,
        described: 0,
        compiled: 0,
        before: OptionalIndex::NONE,
        after: OptionalIndex::NONE,
        next: OptionalIndex::NONE,
        combiner: Combiner::Named,
        node: Node::Empty,
        layout: TypeLayout::EMPTY,
    };

    pub(super) const fn words(&self) -> u32 {
        self.described.wrapping_add(self.compiled)
    }
}

/// The places of the free slots and words of a table; all-zero is an empty table. Slots and words
/// that were never used are not touched, so a table can be far larger than what a program needs of
/// it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Heads {
    /// Slots that were given back.
    free: OptionalIndex,
    /// Slots that were used at least once.
    fresh: u32,
    in_use: u32,
    pub(super) order: WordOrder,
    /// Types that were freed, and that only messages may hold.
    unowned: OptionalIndex,
    unowned_len: u32,
    /// Steps that a look at the messages under way may take by now.
    credit: u32,
}

impl Heads {
    const EMPTY: Self = Self {
        free: OptionalIndex::NONE,
        fresh: 0,
        in_use: 0,
        order: WordOrder::EMPTY,
        unowned: OptionalIndex::NONE,
        unowned_len: 0,
        credit: 0,
    };
}

/// Steps of looking for types that only messages hold which each call for the table pays for.
const CREDIT: u32 = 64;

/// The memory of at most `TYPES` derived datatypes that share `WORDS` words of eight bytes.
/// Const-constructible and all-zero when empty, so a static one lands in `.bss`.
///
/// Words that a type takes, `d` being the dimensions that its layout still has after simplification
/// (mostly 1): contiguous `2 + 4d`, vectors `4 + 4d`, indexed types of n blocks `1 + 2n + 4n`,
/// indexed blocks `2 + n + 4n`, a structure of n fields `3n + 4n` (blocks that join each other
/// count once in the last term; regular ones as one dimension, but only once they are all known), a
/// subarray of n dimensions `2 + 3n + 4d`, a darray `3 + 4n + 4d`, resized `3 + 4d`, duplicate `1 +
/// 4d`.
#[derive(Debug)]
pub struct TypeTable<const TYPES: usize, const WORDS: usize> {
    heads: Heads,
    entries: [TypeEntry; TYPES],
    words: [i64; WORDS],
}

impl<const TYPES: usize, const WORDS: usize> TypeTable<TYPES, WORDS> {
    const FITS: () = assert!(TYPES < 1 << 31 && WORDS < 1 << 31, "slots and words are counted in 31 bits");

    /// An empty table.
    #[expect(
        clippy::new_without_default,
        reason = "a table is large: it is made const, not by value at run time"
    )]
    pub const fn new() -> Self {
        let () = Self::FITS;
        Self { heads: Heads::EMPTY, entries: [TypeEntry::FREE; TYPES], words: [0; WORDS] }
    }

    /// The table without its sizes: what all functions on datatypes work on. Types live in the
    /// table, not in this.
    pub fn types(&mut self) -> Types<'_> {
        Types { heads: &mut self.heads, entries: &mut self.entries, words: &mut self.words }
    }
}

/// A table of datatypes, of any size. See the [module](super) for how types are made, asked and
/// used.
#[derive(Debug)]
pub struct Types<'t> {
    pub(super) heads: &'t mut Heads,
    pub(super) entries: &'t mut [TypeEntry],
    pub(super) words: &'t mut [i64],
}

/// The type that a constructor has put together.
pub(super) struct Draft {
    pub(super) combiner: Combiner,
    pub(super) children: u32,
    pub(super) described: u32,
    pub(super) node: Node,
    pub(super) layout: TypeLayout,
}

impl Types<'_> {
    pub(super) fn view(&self) -> TableView<'_> {
        TableView { entries: self.entries, words: self.words }
    }

    /// Slots that are free, and words that are.
    pub fn room(&self) -> (usize, usize) {
        let slots = self.entries.len().saturating_sub(self.heads.in_use as usize);
        (slots, self.words.len().saturating_sub(self.heads.order.used as usize))
    }

    /// Makes a type of what `make` writes; if that fails, nothing has changed. It is made behind
    /// the words of all others; once more, if there is no room but that between them.
    pub(super) fn build(
        &mut self,
        make: impl Fn(TableView<'_>, &mut Writer<'_>) -> Result<Draft, Cause>,
    ) -> Result<Datatype, Cause> {
        let slot = self.heads.free.get().unwrap_or(self.heads.fresh);
        if slot as usize >= self.entries.len() {
            return Err(NO_SLOT);
        }
        loop {
            match self.draft(&make) {
                Err(NO_WORDS) if self.heads.order.gaps() > 0 => self.close_gaps(),
                Ok((draft, words)) => return self.install(slot, &draft, words),
                Err(cause) => return Err(cause),
            }
        }
    }

    /// Returns what `make` puts together, and how many words it has written.
    fn draft(
        &mut self,
        make: &impl Fn(TableView<'_>, &mut Writer<'_>) -> Result<Draft, Cause>,
    ) -> Result<(Draft, u32), Cause> {
        let end = self.heads.order.end as usize;
        let (written, free) = self.words.split_at_mut_checked(end).ok_or(NO_WORDS)?;
        let mut writer = Writer { words: free, len: 0 };
        let draft = make(TableView { entries: self.entries, words: written }, &mut writer)?;
        Ok((draft, writer.len as u32))
    }

    /// Gives a type that has been written its slot.
    fn install(&mut self, slot: u32, draft: &Draft, words: u32) -> Result<Datatype, Cause> {
        let start = self.heads.order.end;
        self.adopt(start as usize, draft.children as usize)?;
        let entry = self.entries.get_mut(slot as usize).ok_or(NO_SLOT)?;
        let (generation, next) = (entry.generation.wrapping_add(1), entry.next);
        *entry = TypeEntry {
            generation,
            users: 1,
            start,
            children: draft.children,
            described: draft.described,
            compiled: words.wrapping_sub(draft.described),
            combiner: draft.combiner,
            node: draft.node,
            layout: draft.layout,
            ..TypeEntry::FREE
        };
        match self.heads.free {
            OptionalIndex::NONE => self.heads.fresh = self.heads.fresh.wrapping_add(1),
            _ => self.heads.free = next,
        }
        self.heads.in_use = self.heads.in_use.wrapping_add(1);
        self.append(slot);
        Ok(Datatype::derived(slot, generation))
    }

    /// Counts the references that a new type holds. Each takes a word, so the counts fit 32 bits.
    fn adopt(&mut self, start: usize, children: usize) -> Result<(), Cause> {
        let words = self.words.get(start..start.wrapping_add(children)).ok_or(NO_WORDS)?;
        for word in words {
            if let Some(Child::Slot(slot)) = Child::from_word(*word) {
                let entry = self.entries.get_mut(slot as usize).ok_or(Cause::Stale)?;
                entry.parents = entry.parents.wrapping_add(1);
            }
        }
        Ok(())
    }

    /// Makes a type fit for communication (MPI 4.1, 5.1.9). Types are compiled when they are made,
    /// so this costs nothing; it only proves that the handle lives.
    pub fn commit(&self, datatype: Datatype) -> Result<Committed, Cause> {
        self.view().child(datatype).map(|_| Committed(datatype))
    }

    /// Holds a type once more: it takes one [`free`](Self::free) more to end it. For a caller that
    /// keeps the handle while its owner may free it, as a pending operation does. Of a basic type
    /// this does nothing.
    pub fn retain(&mut self, datatype: impl Into<Datatype>) -> Result<(), Cause> {
        match self.view().child(datatype.into())? {
            Child::Basic(_) => Ok(()),
            Child::Slot(slot) => self.add_user(slot),
        }
    }

    fn add_user(&mut self, slot: u32) -> Result<(), Cause> {
        let entry = self.entries.get_mut(slot as usize).ok_or(Cause::Stale)?;
        entry.users = entry.users.checked_add(1).ok_or(NO_SLOT)?;
        Ok(())
    }

    /// Frees a type (MPI 4.1, 5.1.9): the handle is stale from here on, types made of it are not
    /// affected. Its slot and words come back once nothing is made of it any more. A basic type
    /// cannot be freed.
    pub fn free(&mut self, datatype: impl Into<Datatype>) -> Result<(), Cause> {
        let Child::Slot(slot) = self.view().child(datatype.into())? else { return Err(Cause::Predefined) };
        let entry = self.entries.get_mut(slot as usize).ok_or(Cause::Stale)?;
        entry.users = entry.users.wrapping_sub(1);
        if entry.users == 0 {
            entry.generation = entry.generation.wrapping_add(1);
        }
        self.release(slot);
        Ok(())
    }

    /// A message is of this type from now on.
    pub(super) fn mark_pending(&mut self, held: &Held) {
        if let Some(entry) = held.slot().and_then(|slot| self.entries.get_mut(slot as usize)) {
            entry.pending = true;
        }
    }

    /// Returns true if it is time to tell what messages hold, `steps` being what it takes to find
    /// out: at once while that is little, or the table is half full; else as often as calls have
    /// paid for it.
    pub(crate) fn is_due(&mut self, steps: u32) -> bool {
        let heads = &mut *self.heads;
        heads.credit = heads.credit.saturating_add(CREDIT);
        if heads.unowned == OptionalIndex::NONE {
            return false;
        }
        let is_tight = heads.in_use as usize > self.entries.len() / 2
            || heads.order.used as usize > self.words.len() / 2;
        is_tight || heads.credit >= steps.saturating_add(heads.unowned_len)
    }

    /// Lets go of all freed types but these that messages hold: the caller, which knows the
    /// messages under way, lists what they are of.
    pub(crate) fn hold_only(&mut self, held: impl Iterator<Item = Held>) {
        let mut next = self.heads.unowned;
        while let Some(entry) = next.get().and_then(|slot| self.entries.get_mut(slot as usize)) {
            entry.pending = false;
            next = entry.next;
        }
        held.for_each(|held| self.mark_pending(&held));
        let mut next = core::mem::replace(&mut self.heads.unowned, OptionalIndex::NONE);
        (self.heads.unowned_len, self.heads.credit) = (0, 0);
        while let Some(slot) = next.get() {
            next = self.entries.get(slot as usize).map_or(OptionalIndex::NONE, |entry| entry.next);
            self.release(slot);
        }
    }

    /// Takes back the slot of a type that nothing holds any more, and those of its parts that only
    /// it held.
    fn release(&mut self, slot: u32) {
        let mut dead = OptionalIndex::NONE;
        self.let_go(slot, &mut dead);
        while let Some(slot) = dead.get() {
            dead = self.entries.get(slot as usize).map_or(OptionalIndex::NONE, |entry| entry.next);
            self.reap(slot, &mut dead);
        }
        if self.heads.order.has_many_gaps() {
            self.close_gaps();
        }
    }

    /// Puts a type that no user and no other type holds in front of the dead ones, or of those that
    /// messages may hold.
    fn let_go(&mut self, slot: u32, dead: &mut OptionalIndex) {
        let Some(entry) = self.entries.get_mut(slot as usize) else { return };
        if entry.users > 0 || entry.parents > 0 {
            return;
        }
        let list = if entry.pending {
            self.heads.unowned_len = self.heads.unowned_len.wrapping_add(1);
            &mut self.heads.unowned
        } else {
            dead
        };
        entry.next = core::mem::replace(list, OptionalIndex::to(slot));
    }

    /// A handle of one's own to the part `index` of a type (MPI 4.1, 5.1.13,
    /// `MPI_TYPE_GET_CONTENTS`), to be freed by the caller unless it is basic. It lives even if the
    /// part was freed under its old handle.
    pub fn component(&mut self, datatype: impl Into<Datatype>, index: usize) -> Result<Datatype, Cause> {
        let view = self.view();
        let Child::Slot(slot) = view.child(datatype.into())? else { return Err(Cause::Unsupported) };
        let parts = view.described(slot).and_then(|(children, _)| children.get(index));
        match parts.and_then(|word| Child::from_word(*word)).ok_or(Cause::Unsupported)? {
            Child::Basic(basic) => Ok(basic.into()),
            Child::Slot(part) => {
                self.add_user(part)?;
                let entry = self.entries.get(part as usize).ok_or(Cause::Stale)?;
                Ok(Datatype::derived(part, entry.generation))
            }
        }
    }

    /// Takes back a slot that nothing names: lets its parts go, some of which may be dead by that.
    fn reap(&mut self, slot: u32, dead: &mut OptionalIndex) {
        self.remove(slot);
        let Some(entry) = self.entries.get_mut(slot as usize) else { return };
        let (start, generation, children) = (entry.start as usize, entry.generation, entry.children as usize);
        let next = core::mem::replace(&mut self.heads.free, OptionalIndex::to(slot));
        *entry = TypeEntry { generation, next, ..TypeEntry::FREE };
        self.heads.in_use = self.heads.in_use.wrapping_sub(1);
        for at in start..start.wrapping_add(children) {
            let part = self.words.get(at).and_then(|word| Child::from_word(*word));
            let Some(Child::Slot(part)) = part else { continue };
            if let Some(entry) = self.entries.get_mut(part as usize) {
                entry.parents = entry.parents.wrapping_sub(1);
                self.let_go(part, dead);
            }
        }
    }
}

/// The table as it stands, to read.
#[derive(Clone, Copy)]
pub(super) struct TableView<'v> {
    entries: &'v [TypeEntry],
    words: &'v [i64],
}

impl<'v> TableView<'v> {
    /// Returns what a handle names, unless that was freed.
    pub(super) fn child(&self, datatype: Datatype) -> Result<Child, Cause> {
        if let Some(basic) = datatype.basic() {
            return Ok(Child::Basic(basic));
        }
        let entry = self.entry(datatype.slot()).ok_or(Cause::Stale)?;
        let lives = entry.users > 0 && entry.generation == datatype.generation();
        if lives { Ok(Child::Slot(datatype.slot())) } else { Err(Cause::Stale) }
    }

    pub(super) fn entry(&self, slot: u32) -> Option<&'v TypeEntry> {
        self.entries.get(slot as usize)
    }

    #[inline]
    pub(super) fn layout(&self, child: Child) -> &'v TypeLayout {
        match child {
            Child::Basic(basic) => TypeLayout::of(basic),
            Child::Slot(slot) => self.entry(slot).map_or(&TypeLayout::EMPTY, |entry| &entry.layout),
        }
    }

    /// Bytes from one element to the next.
    #[inline]
    pub(super) fn extent(&self, child: Child) -> i64 {
        match child {
            Child::Basic(basic) => basic.size() as i64,
            Child::Slot(slot) => self.entry(slot).map_or(0, |entry| entry.layout.extent()),
        }
    }

    /// The parts and the arguments that a type was made of.
    pub(super) fn described(&self, slot: u32) -> Option<(&'v [i64], &'v [i64])> {
        let entry = self.entry(slot)?;
        let start = entry.start as usize;
        let words = self.words.get(start..start.checked_add(entry.described as usize)?)?;
        words.split_at_checked(entry.children as usize)
    }

    /// The words of a type's compiled node.
    #[inline]
    pub(super) fn compiled(&self, entry: &TypeEntry) -> Option<&'v [i64]> {
        let start = (entry.start as usize).checked_add(entry.described as usize)?;
        self.words.get(start..start.checked_add(entry.compiled as usize)?)
    }
}

/// Writes the words of a type that is being made, behind all others.
pub(super) struct Writer<'w> {
    words: &'w mut [i64],
    len: usize,
}

impl Writer<'_> {
    pub(super) const fn len(&self) -> usize {
        self.len
    }

    pub(super) fn push(&mut self, word: i64) -> Result<(), Cause> {
        *self.words.get_mut(self.len).ok_or(NO_WORDS)? = word;
        self.len = self.len.wrapping_add(1);
        Ok(())
    }

    pub(super) fn extend(&mut self, words: impl IntoIterator<Item = i64>) -> Result<(), Cause> {
        words.into_iter().try_for_each(|word| self.push(word))
    }

    /// Returns what was written from word `start` on.
    pub(super) fn since(&mut self, start: usize) -> &mut [i64] {
        self.words.get_mut(start..self.len).unwrap_or_default()
    }

    /// Takes back what was written from word `start` on.
    pub(super) fn rewind(&mut self, start: usize) {
        self.len = self.len.min(start);
    }
}

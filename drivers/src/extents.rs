//! Extents: which parts of a stretch of memory are free, for memory that peers can map. It knows
//! offsets and lengths alone and touches nothing, so that it serves a segment of Linux and a
//! device's memory alike.
//!
//! First fit in the order of addresses (Knuth, The Art of Computer Programming, volume 1,
//! section 2.5): what is free is kept as sorted holes that never touch each other. There are never
//! more holes than extents in use and one, so a bound on those bounds the table, and giving back
//! cannot fail for want of a place in it.

use core::fmt;

/// A part of the memory, in bytes from its beginning.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct FreeExtent {
    /// The first byte.
    pub offset: usize,
    /// The number of bytes.
    pub len: usize,
}

impl FreeExtent {
    const fn end(&self) -> usize {
        self.offset.saturating_add(self.len)
    }
}

/// The reason why there is no extent.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum ExtentError {
    /// No hole is long enough.
    NoRoom {
        /// Bytes asked for.
        need: usize,
        /// Bytes of the longest hole.
        longest: usize,
        /// Bytes free altogether.
        free: usize,
    },
    /// The table is full: as many extents are in use as it bears.
    TooMany {
        /// So many.
        max: usize,
    },
    /// An alignment that is no power of two.
    Alignment {
        /// The alignment that was asked for.
        align: usize,
    },
}

impl fmt::Display for ExtentError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoRoom { need, longest, free } => {
                write!(
                    f,
                    "{need} bytes are needed in one piece: {free} are free, {longest} of them in one piece"
                )
            }
            Self::TooMany { max } => write!(f, "{max} blocks are in use, which is the most"),
            Self::Alignment { align } => write!(f, "an alignment of {align} bytes is no power of two"),
        }
    }
}

impl core::error::Error for ExtentError {}

/// The free parts of a stretch of memory, with at most `MAX` holes, and so at most `MAX - 1`
/// extents in use.
#[derive(Clone, Debug)]
pub struct Extents<const MAX: usize> {
    holes: [FreeExtent; MAX],
    /// Holes there are.
    count: usize,
    used: usize,
}

impl<const MAX: usize> Extents<MAX> {
    const ROOM: () = assert!(MAX > 1, "a table with a place for a hole alone");

    /// `len` bytes, all free.
    pub const fn new(len: usize) -> Self {
        const { Self::ROOM };
        let mut holes = [FreeExtent { offset: 0, len: 0 }; MAX];
        if let Some((first, _)) = holes.split_first_mut() {
            first.len = len;
        }
        Self { holes, count: (len > 0) as usize, used: 0 }
    }

    fn holes(&self) -> &[FreeExtent] {
        self.holes.get(..self.count).unwrap_or_default()
    }

    /// Bytes that are free.
    pub fn free(&self) -> usize {
        self.holes().iter().map(|hole| hole.len).sum()
    }

    /// Extents in use.
    pub const fn used(&self) -> usize {
        self.used
    }

    /// Takes `len` bytes that begin at a multiple of `align`, a power of two. None are an extent of
    /// no bytes, which holds no place.
    ///
    /// # Errors
    /// What [`ExtentError`] names; nothing has changed then.
    pub fn take(&mut self, len: usize, align: usize) -> Result<FreeExtent, ExtentError> {
        if !align.is_power_of_two() {
            return Err(ExtentError::Alignment { align });
        }
        if len == 0 {
            return Ok(FreeExtent::default());
        }
        if self.used + 1 >= MAX {
            return Err(ExtentError::TooMany { max: MAX - 1 });
        }
        let fits = |hole: &FreeExtent| {
            let offset = hole.offset.checked_next_multiple_of(align)?;
            (offset.checked_add(len)? <= hole.end()).then_some(offset)
        };
        let found = self.holes().iter().enumerate().find_map(|(index, hole)| Some((index, fits(hole)?)));
        let Some((index, offset)) = found else {
            let longest = self.holes().iter().map(|hole| hole.len).max().unwrap_or(0);
            return Err(ExtentError::NoRoom { need: len, longest, free: self.free() });
        };
        let Some(hole) = self.holes.get_mut(index) else { return Ok(FreeExtent::default()) };
        let (before, end) = (offset - hole.offset, hole.end());
        let after = FreeExtent { offset: offset + len, len: end - (offset + len) };
        match (before, after.len) {
            (0, 0) => self.remove(index),
            (0, _) => *hole = after,
            (_, 0) => hole.len = before,
            (..) => {
                hole.len = before;
                self.insert(index + 1, after);
            }
        }
        self.used += 1;
        Ok(FreeExtent { offset, len })
    }

    /// Gives an extent back that was taken, once. False, and nothing has changed, for one that
    /// cannot have been.
    pub fn give_back(&mut self, extent: FreeExtent) -> bool {
        if extent.len == 0 {
            return true;
        }
        let index = self.holes().partition_point(|hole| hole.offset < extent.offset);
        let before = index.checked_sub(1).and_then(|index| self.holes.get(index)).copied();
        let after = self.holes().get(index).copied();
        let overlaps = before.is_some_and(|hole| hole.end() > extent.offset)
            || after.is_some_and(|hole| extent.end() > hole.offset);
        if overlaps || self.used == 0 {
            return false;
        }
        self.used -= 1;
        let joins_before = before.is_some_and(|hole| hole.end() == extent.offset);
        let joins_after = after.is_some_and(|hole| extent.end() == hole.offset);
        let len = extent.len + if joins_after { after.map_or(0, |hole| hole.len) } else { 0 };
        if joins_before {
            if let Some(hole) = self.holes.get_mut(index.saturating_sub(1)) {
                hole.len += len;
            }
            if joins_after {
                self.remove(index);
            }
        } else if joins_after && let Some(hole) = self.holes.get_mut(index) {
            *hole = FreeExtent { offset: extent.offset, len };
        } else {
            self.insert(index, extent);
        }
        true
    }

    fn remove(&mut self, index: usize) {
        if let Some(tail) = self.holes.get_mut(index..self.count)
            && !tail.is_empty()
        {
            tail.rotate_left(1);
            self.count -= 1;
        }
    }

    fn insert(&mut self, index: usize, hole: FreeExtent) {
        if let Some(tail) = self.holes.get_mut(index..=self.count)
            && let Some(last) = tail.last_mut()
        {
            *last = hole;
            tail.rotate_right(1);
            self.count += 1;
        }
    }
}

#[cfg(test)]
#[cfg(not(loom))]
mod tests {
    use std::string::ToString;
    use std::vec;
    use std::vec::Vec;

    use proptest::prelude::*;

    use super::*;

    /// Bytes: as many as make every case, since each step looks at all of them.
    const LEN: usize = 1 << 12;

    #[derive(Clone, Debug)]
    enum ExtentStep {
        Take { len: usize, align: usize },
        GiveBack { which: usize },
    }

    fn step() -> impl Strategy<Value = ExtentStep> {
        prop_oneof![
            3 => (0usize..560, 0u32..11).prop_map(|(len, power)| ExtentStep::Take { len, align: 1 << power }),
            2 => any::<usize>().prop_map(|which| ExtentStep::GiveBack { which }),
        ]
    }

    proptest! {
        /// Held against a map of bytes: extents are aligned, inside and apart; a refusal is true;
        /// nothing is lost, and holes stay joined, sorted and within their bound.
        #[test]
        fn extents_are_apart_and_nothing_is_lost(steps in proptest::collection::vec(step(), 0..120)) {
            let mut extents = Extents::<12>::new(LEN);
            let (mut map, mut live) = (vec![false; LEN], Vec::<FreeExtent>::new());
            for step in steps {
                match step {
                    ExtentStep::Take { len, align } => match extents.take(len, align) {
                        Ok(extent) => {
                            prop_assert!(extent.len == len && extent.offset.is_multiple_of(align));
                            let bytes = &mut map[extent.offset..extent.end()];
                            prop_assert!(bytes.iter().all(|used| !used), "taken twice");
                            bytes.fill(true);
                            if len > 0 { live.push(extent) }
                        }
                        Err(ExtentError::TooMany { max }) => prop_assert_eq!((max, live.len()), (11, 11)),
                        Err(ExtentError::NoRoom { need, free, .. }) => {
                            let fits = |start: &usize| map.get(*start..start + need).is_some_and(|bytes| !bytes.contains(&true));
                            prop_assert!(!(0..LEN).step_by(align).any(|start| fits(&start)), "there is room");
                            prop_assert_eq!(free, map.iter().filter(|used| !**used).count());
                        }
                        Err(other) => prop_assert!(false, "{other:?}"),
                    },
                    ExtentStep::GiveBack { which } if !live.is_empty() => {
                        let extent = live.swap_remove(which % live.len());
                        prop_assert!(extents.give_back(extent));
                        prop_assert!(!extents.give_back(extent), "twice");
                        map[extent.offset..extent.end()].fill(false);
                    }
                    ExtentStep::GiveBack { .. } => {}
                }
                prop_assert_eq!(extents.free(), map.iter().filter(|used| !**used).count());
                prop_assert_eq!(extents.used(), live.len());
                prop_assert!(extents.holes().windows(2).all(|pair| pair[0].end() < pair[1].offset));
                prop_assert!(extents.holes().iter().all(|hole| hole.len > 0));
            }
            live.into_iter().for_each(|extent| assert!(extents.give_back(extent)));
            prop_assert_eq!(extents.holes(), &[FreeExtent { offset: 0, len: LEN }]);
        }
    }

    #[test]
    fn refusals_say_what_there_is() {
        let mut extents = Extents::<4>::new(100);
        let first = extents.take(40, 1).unwrap();
        extents.take(30, 1).unwrap();
        extents.give_back(first);
        assert_eq!(extents.take(50, 1), Err(ExtentError::NoRoom { need: 50, longest: 40, free: 70 }));
        assert_eq!(extents.take(1, 3), Err(ExtentError::Alignment { align: 3 }));
        let error = extents.take(usize::MAX, 64).unwrap_err();
        assert!(error.to_string().contains("70 are free, 40 of them in one piece"), "{error}");
        assert!(!extents.give_back(FreeExtent { offset: 10, len: 5 }), "that is free");
        assert_eq!(
            Extents::<2>::new(0).take(1, 1),
            Err(ExtentError::NoRoom { need: 1, longest: 0, free: 0 })
        );
        assert_eq!(extents.take(0, 8), Ok(FreeExtent::default()));
    }
}

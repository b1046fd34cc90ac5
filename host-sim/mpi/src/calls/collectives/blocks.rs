//! This module holds `unsafe` code: data of the program's as a call describes them.
//!
//! Data of which every rank has a block, as a program describes them.

use aldis_coll::layout::Block;
use aldis_kernel::datatype::Form;

use super::call::{BlockList, CollectiveCall};
use crate::abi::{Handle, MPI_ERR_BUFFER, MPI_ERR_TRUNCATE};
use crate::fault::CallFault;
use crate::ffi::{Address, Region, too_many};
use crate::objects::datatypes::{ProgramData, aliased, look};

/// The blocks of a call that the root alone has, which are described where it asks for them.
pub(super) struct AllBlocks<F> {
    /// Describes them for so many ranks.
    pub(super) describe: F,
    /// True if all ranks know that they are of one length.
    pub(super) is_even: bool,
}

impl<F: FnOnce(u32) -> Result<RankBlocks, CallFault>> AllBlocks<F> {
    /// Blocks of one length.
    pub(super) const fn even(describe: F) -> Self {
        Self { describe, is_even: true }
    }

    /// Blocks as the root lists them.
    pub(super) const fn listed(describe: F) -> Self {
        Self { describe, is_even: false }
    }
}

/// Data of every rank, in one buffer of the program's.
pub(super) struct RankBlocks {
    pub(super) parts: Vec<ProgramData>,
    /// True if they are of one length on all ranks.
    pub(super) is_even: bool,
    address: Address,
}

impl RankBlocks {
    /// A block of `count` elements for each of `size` ranks, one behind the other.
    ///
    /// # Safety
    /// As for [`ProgramData::new`].
    pub(super) unsafe fn even(
        address: Address,
        count: i64,
        datatype: Handle,
        size: u32,
    ) -> Result<Self, CallFault> {
        // Nothing may be of no type.
        let stride = if count == 0 { 0 } else { look(datatype, |known| known.extent)?.saturating_mul(count) };
        let part = |rank: u32| {
            let start = address.shifted(stride.saturating_mul(rank.into()));
            // SAFETY: the caller's promise.
            unsafe { ProgramData::new(start, count, datatype) }
        };
        Ok(Self { parts: (0..size).map(part).collect::<Result<_, _>>()?, is_even: true, address })
    }

    /// Blocks as listed, in elements.
    ///
    /// # Safety
    /// As for [`ProgramData::new`].
    pub(super) unsafe fn listed(
        address: Address,
        counts: &[i64],
        places: &[i64],
        datatype: Handle,
    ) -> Result<Self, CallFault> {
        let extent = look(datatype, |known| known.extent)?;
        let part = |(count, place): (&i64, &i64)| {
            // SAFETY: the caller's promise.
            unsafe { ProgramData::new(address.shifted(extent.saturating_mul(*place)), *count, datatype) }
        };
        Ok(Self {
            parts: counts.iter().zip(places).map(part).collect::<Result<_, _>>()?,
            is_even: false,
            address,
        })
    }

    /// Blocks as listed, in bytes, of datatypes of their own.
    ///
    /// # Safety
    /// As for [`ProgramData::new`].
    pub(super) unsafe fn unlike(
        address: Address,
        counts: &[i64],
        places: &[i64],
        of: &[Handle],
    ) -> Result<Self, CallFault> {
        let part = |((count, place), of): ((&i64, &i64), &Handle)| {
            // SAFETY: the caller's promise.
            unsafe { ProgramData::new(address.shifted(*place), *count, *of) }
        };
        Ok(Self {
            parts: counts.iter().zip(places).zip(of).map(part).collect::<Result<_, _>>()?,
            is_even: false,
            address,
        })
    }

    /// A single block.
    pub(super) fn one(address: Address, block: ProgramData) -> Self {
        Self { parts: vec![block], is_even: true, address }
    }

    /// Returns them as they are, unless the buffer is `MPI_IN_PLACE`, or there is no memory where
    /// there are data.
    pub(super) fn in_memory(self, argument: &str) -> Result<Self, CallFault> {
        self.address.check(argument)?;
        self.parts.iter().try_for_each(|part| part.there().map(|_| ()))?;
        Ok(self)
    }

    /// # Errors
    /// A block has a byte of `data`, and both are in one piece.
    pub(super) fn check_apart(&self, data: Option<ProgramData>) -> Result<(), CallFault> {
        let Some(data) = data else { return Ok(()) };
        for part in &self.parts {
            if part.overlaps(&data)? {
                return Err(aliased());
            }
        }
        Ok(())
    }

    /// # Errors
    /// A block in one piece has a byte of one of the others.
    pub(super) fn check_all_apart(&self, others: &Self) -> Result<(), CallFault> {
        Self::check_sides([(self, None), (others, None)])
    }

    /// # Errors
    /// A block in one piece of a neighbour that is there has a byte of one of the others.
    pub(super) fn check_neighbors_apart(
        &self,
        are_there: &[bool],
        others: &Self,
        others_there: &[bool],
    ) -> Result<(), CallFault> {
        Self::check_sides([(self, Some(are_there)), (others, Some(others_there))])
    }

    fn check_sides(sides: [(&Self, Option<&[bool]>); 2]) -> Result<(), CallFault> {
        let mut pieces = Vec::with_capacity(sides.iter().map(|(blocks, _)| blocks.parts.len()).sum());
        for (side, (blocks, are_there)) in sides.into_iter().enumerate() {
            let is_there = |place: usize| are_there.is_none_or(|there| there.get(place) == Some(&true));
            for (_, part) in blocks.parts.iter().enumerate().filter(|(place, _)| is_there(*place)) {
                if let Some(piece) = part.dense()?.filter(|piece| piece.len() > 0) {
                    pieces.push((piece.address().address(), piece.len(), side));
                }
            }
        }
        pieces.sort_unstable();
        // The furthest end of each side's pieces that begin before.
        let mut ends = [0; 2];
        for (start, len, side) in pieces {
            if start < ends[1 - side] {
                return Err(aliased());
            }
            ends[side] = ends[side].max(start.saturating_add(len));
        }
        Ok(())
    }

    /// # Errors
    /// Returns true if a rank gives more to itself than it has room for.
    pub(super) fn check_rooms(&self, rank: usize, taken: &Self) -> Result<(), CallFault> {
        let (given, room) = (self.own(rank)?.bytes, taken.own(rank)?.bytes);
        if given > room { Err(too_long(given, room)) } else { Ok(()) }
    }

    pub(super) fn own(&self, rank: usize) -> Result<ProgramData, CallFault> {
        self.parts.get(rank).copied().ok_or_else(|| CallFault::new(MPI_ERR_BUFFER, "no block for this rank"))
    }

    /// The list that the collective takes of them, packed one behind the other.
    pub(super) fn list(&self, call: &mut CollectiveCall) -> BlockList {
        if self.is_even { BlockList::EVEN } else { self.listing(call) }
    }

    /// Like [`list`](Self::list), but lists blocks of one length too.
    pub(super) fn listing(&self, call: &mut CollectiveCall) -> BlockList {
        let mut start = 0;
        let block = |part: &ProgramData| {
            let block = Block { start, len: part.bytes };
            start += part.bytes;
            block
        };
        call.own_blocks(self.parts.iter().map(block).collect())
    }

    /// The place of a rank's block among them, packed one behind the other.
    pub(super) fn block(&self, rank: usize) -> Block {
        let start = self.parts.iter().take(rank).map(|part| part.bytes).sum();
        Block { start, len: self.parts.get(rank).map_or(0, |part| part.bytes) }
    }

    /// Bytes of all of them.
    pub(super) fn bytes(&self) -> usize {
        self.parts.iter().map(|part| part.bytes).sum()
    }

    /// Packs those that are wanted into `stream`, where all have room.
    pub(super) fn pack(&self, stream: &mut [u8], is_wanted: impl Fn(usize) -> bool) -> Result<(), CallFault> {
        let mut start = 0;
        for (rank, part) in self.parts.iter().enumerate() {
            if is_wanted(rank) {
                part.pack_into(Form::Native, stream, &mut start.clone())?;
            }
            start += part.bytes;
        }
        Ok(())
    }

    /// Puts packed blocks where the program wants them.
    pub(super) fn unpack(&self, stream: &[u8], is_wanted: impl Fn(usize) -> bool) -> Result<(), CallFault> {
        let mut start = 0;
        for (rank, part) in self.parts.iter().enumerate() {
            if is_wanted(rank) {
                let own = stream.get(start..start + part.bytes).unwrap_or_default();
                part.unpack_from(Form::Native, own, &mut 0)?;
            }
            start += part.bytes;
        }
        Ok(())
    }

    /// The program's memory, if the blocks lie there one behind the other without gaps.
    pub(super) fn in_place(&self) -> Result<Option<Region>, CallFault> {
        let (true, Some(first)) = (self.is_even, self.parts.first()) else { return Ok(None) };
        match first.dense()? {
            Some(_) => {
                let bytes = first.bytes.checked_mul(self.parts.len());
                let bytes = bytes.filter(|bytes| isize::try_from(*bytes).is_ok()).ok_or_else(too_many)?;
                // The others are of one length with it, one behind the other.
                first.stretch(bytes).map(Some)
            }
            None => Ok(None),
        }
    }
}

#[cold]
pub(super) fn too_long(bytes: usize, room: usize) -> CallFault {
    CallFault::new(MPI_ERR_TRUNCATE, format!("{bytes} bytes into a block of {room}"))
}

/// Puts `data` into its place among `blocks`, both packed.
pub(super) fn put(
    stream: &mut [u8],
    blocks: &RankBlocks,
    rank: usize,
    data: ProgramData,
) -> Result<(), CallFault> {
    let start: usize = blocks.parts.iter().take(rank).map(|part| part.bytes).sum();
    let own = blocks.own(rank)?.bytes;
    if data.bytes > own {
        return Err(too_long(data.bytes, own));
    }
    let place = stream.get_mut(start..start + data.bytes).unwrap_or_default();
    data.pack_into(Form::Native, place, &mut 0)
}

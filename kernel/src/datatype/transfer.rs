//! Moving the bytes of runs between memory and a piece of the packed stream, in either direction
//! and form.

use aldis_hal::Cause;
use aldis_hal::copy::copy;

use super::Form;
use super::external::Element;
use super::walk::{BlockRun, Walk};

/// Memory that does not reach as far as the type does. Checked before anything is moved, so this is
/// never seen.
const OUTSIDE: Cause = Cause::BadRegion;

/// A direction of the way between memory and stream. Addresses are offsets in the memory; the
/// stream is used from its front to its end.
pub(super) trait Transfer {
    /// Bytes of the stream that are left.
    fn room(&self) -> usize;
    /// Moves `len` bytes as they are.
    fn copy(&mut self, address: usize, len: usize) -> Option<()>;
    /// Moves `blocks` blocks of `N` bytes, as they are or each turned into the other byte order.
    fn blocks<const N: usize, const SWAP: bool>(
        &mut self,
        address: usize,
        stride: isize,
        blocks: usize,
    ) -> Option<()>;
    /// Moves `elements` adjacent elements of `N` bytes, and turns each into the other byte order.
    fn swap<const N: usize>(&mut self, address: usize, elements: usize) -> Option<()>;
    /// Moves `len` bytes of the external form of one element, from byte `first` of it on.
    fn convert(&mut self, address: usize, element: Element, first: usize, len: usize) -> Result<(), Cause>;
}

/// From memory to the stream.
pub(super) struct GatherTransfer<'a> {
    pub(super) memory: &'a [u8],
    pub(super) stream: &'a mut [u8],
}

/// From the stream to memory.
pub(super) struct Scatter<'a> {
    pub(super) memory: &'a mut [u8],
    pub(super) stream: &'a [u8],
}

impl<'a> GatherTransfer<'a> {
    fn take(&mut self, len: usize) -> Option<&'a mut [u8]> {
        self.stream.split_off_mut(..len)
    }
}

impl Transfer for GatherTransfer<'_> {
    fn room(&self) -> usize {
        self.stream.len()
    }

    #[inline]
    fn copy(&mut self, address: usize, len: usize) -> Option<()> {
        let from = self.memory.get(address..address.checked_add(len)?)?;
        copy(self.take(len)?, from);
        Some(())
    }

    #[inline]
    fn blocks<const N: usize, const SWAP: bool>(
        &mut self,
        mut address: usize,
        stride: isize,
        blocks: usize,
    ) -> Option<()> {
        for to in self.take(blocks.checked_mul(N)?)?.as_chunks_mut::<N>().0 {
            *to = turned::<N, SWAP>(*self.memory.get(address..)?.first_chunk()?);
            address = address.wrapping_add_signed(stride);
        }
        Some(())
    }

    #[inline]
    fn swap<const N: usize>(&mut self, address: usize, elements: usize) -> Option<()> {
        let len = elements.checked_mul(N)?;
        let from = self.memory.get(address..address.checked_add(len)?)?;
        exchange::<N>(self.take(len)?, from);
        Some(())
    }

    fn convert(&mut self, address: usize, element: Element, first: usize, len: usize) -> Result<(), Cause> {
        let memory = self.memory.get(address..address.wrapping_add(element.native)).ok_or(OUTSIDE)?;
        let external = element.encode(memory)?;
        let from = external.get(first..first.wrapping_add(len)).ok_or(OUTSIDE)?;
        self.take(len).ok_or(OUTSIDE)?.copy_from_slice(from);
        Ok(())
    }
}

impl<'a> Scatter<'a> {
    fn take(&mut self, len: usize) -> Option<&'a [u8]> {
        self.stream.split_off(..len)
    }
}

impl Transfer for Scatter<'_> {
    fn room(&self) -> usize {
        self.stream.len()
    }

    #[inline]
    fn copy(&mut self, address: usize, len: usize) -> Option<()> {
        let from = self.take(len)?;
        copy(self.memory.get_mut(address..address.checked_add(len)?)?, from);
        Some(())
    }

    #[inline]
    fn blocks<const N: usize, const SWAP: bool>(
        &mut self,
        mut address: usize,
        stride: isize,
        blocks: usize,
    ) -> Option<()> {
        for from in self.take(blocks.checked_mul(N)?)?.as_chunks::<N>().0 {
            *self.memory.get_mut(address..)?.first_chunk_mut()? = turned::<N, SWAP>(*from);
            address = address.wrapping_add_signed(stride);
        }
        Some(())
    }

    #[inline]
    fn swap<const N: usize>(&mut self, address: usize, elements: usize) -> Option<()> {
        let len = elements.checked_mul(N)?;
        let from = self.take(len)?;
        exchange::<N>(self.memory.get_mut(address..address.checked_add(len)?)?, from);
        Some(())
    }

    fn convert(&mut self, address: usize, element: Element, first: usize, len: usize) -> Result<(), Cause> {
        let from = self.take(len).ok_or(OUTSIDE)?;
        let memory = self.memory.get_mut(address..address.wrapping_add(element.native)).ok_or(OUTSIDE)?;
        element.decode(first, from, memory)
    }
}

/// Copies elements of `N` bytes and turns each into the other byte order.
#[inline]
fn exchange<const N: usize>(to: &mut [u8], from: &[u8]) {
    for (to, from) in to.as_chunks_mut::<N>().0.iter_mut().zip(from.as_chunks::<N>().0) {
        // In place: the compiler makes vector shuffles of it.
        *to = *from;
        to.reverse();
    }
}

/// An element as it is, or in the other byte order.
#[inline]
fn turned<const N: usize, const SWAP: bool>(mut element: [u8; N]) -> [u8; N] {
    if SWAP {
        element.reverse();
    }
    element
}

/// Moves runs until the walk or the stream ends. `origin` is the address of the data's origin.
pub(super) fn transfer<T: Transfer>(
    walk: &mut Walk<'_>,
    form: Form,
    origin: isize,
    way: &mut T,
) -> Result<(), Cause> {
    while way.room() > 0
        && let Some(run) = walk.next()
    {
        let address = origin.wrapping_add(run.offset as isize).cast_unsigned();
        match form {
            Form::Native => plain(way, address, &run).ok_or(OUTSIDE)?,
            Form::Swapped | Form::Narrow | Form::NarrowSwapped | Form::External32 => {
                let element = Element::of(run.basic, form);
                if element.is_converted() {
                    converted(way, address, &run, element)?;
                } else {
                    plain(way, address, &run).ok_or(OUTSIDE)?;
                }
            }
        }
    }
    Ok(())
}

/// A run as it is: whole blocks in a tight loop, and the part of the next one that the stream has
/// room for.
fn plain<T: Transfer>(way: &mut T, mut address: usize, run: &BlockRun) -> Option<()> {
    let (bytes, stride) = (usize::try_from(run.bytes).ok()?, run.stride as isize);
    if run.skip > 0 {
        let skip = usize::try_from(run.skip).ok()?;
        return way.copy(address.wrapping_add(skip), bytes.checked_sub(skip)?.min(way.room()));
    }
    let all = usize::try_from(run.blocks).unwrap_or(usize::MAX);
    let blocks = match all {
        1 => usize::from(bytes <= way.room()),
        _ => all.min(way.room().checked_div(bytes)?),
    };
    match bytes {
        1 => way.blocks::<1, false>(address, stride, blocks)?,
        2 => way.blocks::<2, false>(address, stride, blocks)?,
        4 => way.blocks::<4, false>(address, stride, blocks)?,
        8 => way.blocks::<8, false>(address, stride, blocks)?,
        16 => way.blocks::<16, false>(address, stride, blocks)?,
        _ => (0..blocks).try_for_each(|block| {
            way.copy(address.wrapping_add_signed(stride.wrapping_mul(block as isize)), bytes)
        })?,
    }
    if blocks < all && way.room() > 0 {
        address = address.wrapping_add_signed(stride.wrapping_mul(blocks as isize));
        way.copy(address, way.room())?;
    }
    Some(())
}

/// A run of elements that are converted: block by block, or all blocks in one go if each is one
/// element.
fn converted<T: Transfer>(
    way: &mut T,
    mut address: usize,
    run: &BlockRun,
    element: Element,
) -> Result<(), Cause> {
    let elements = usize::try_from(run.bytes).map_err(|_| OUTSIDE)? >> element.native.trailing_zeros();
    let mut skip = usize::try_from(run.skip).map_err(|_| OUTSIDE)?;
    if elements == 1 {
        let blocks = usize::try_from(run.blocks).unwrap_or(usize::MAX);
        let stride = if blocks == 1 { element.native as isize } else { run.stride as isize };
        return row(way, address, stride, element, blocks, skip);
    }
    for _ in 0..run.blocks {
        if way.room() == 0 {
            break;
        }
        row(way, address, element.native as isize, element, elements, skip)?;
        skip = 0;
        address = address.wrapping_add_signed(run.stride as isize);
    }
    Ok(())
}

/// Elements at a regular distance, from packed byte `skip` on: the rest of a split one, whole ones,
/// and the start of one that is split by the end of the stream.
#[inline]
fn row<T: Transfer>(
    way: &mut T,
    address: usize,
    stride: isize,
    element: Element,
    elements: usize,
    skip: usize,
) -> Result<(), Cause> {
    let external = element.external;
    // Widths are powers of two.
    let (width, within) = (external.trailing_zeros(), external.wrapping_sub(1));
    let place = |index: usize| address.wrapping_add_signed(stride.wrapping_mul(index as isize));
    let (mut index, split) = (skip >> width, skip & within);
    if split > 0 {
        let len = external.wrapping_sub(split).min(way.room());
        way.convert(place(index), element, split, len)?;
        index = index.wrapping_add(1);
    }
    let whole = elements.saturating_sub(index).min(way.room() >> width);
    whole_elements(way, place(index), stride, element, whole)?;
    index = index.wrapping_add(whole);
    match way.room() {
        room if room > 0 && index < elements => way.convert(place(index), element, 0, room),
        _ => Ok(()),
    }
}

#[inline]
fn whole_elements<T: Transfer>(
    way: &mut T,
    mut address: usize,
    stride: isize,
    element: Element,
    elements: usize,
) -> Result<(), Cause> {
    let Element { native, external, .. } = element;
    let adjacent = stride == native as isize;
    let moved = match (native, external) {
        (2, 2) if adjacent => way.swap::<2>(address, elements),
        (4, 4) if adjacent => way.swap::<4>(address, elements),
        (8, 8) if adjacent => way.swap::<8>(address, elements),
        (2, 2) => way.blocks::<2, true>(address, stride, elements),
        (4, 4) => way.blocks::<4, true>(address, stride, elements),
        (8, 8) => way.blocks::<8, true>(address, stride, elements),
        _ => {
            for _ in 0..elements {
                way.convert(address, element, 0, external)?;
                address = address.wrapping_add_signed(stride);
            }
            Some(())
        }
    };
    moved.ok_or(OUTSIDE)
}

//! This module holds `unsafe` code: the only place where the engine touches memory of the user that
//! it retains.
//!
//! A [`UserBuffer`] is an address with bounds. Making one is `unsafe`: the maker promises that the
//! memory stays valid and unaliased until the request that holds it is complete or has let go of
//! it. The engine runs on one core and copies inside its own calls only, so between two calls
//! nothing touches the memory.

use core::marker::PhantomData;
use core::ops::Range;
use core::ptr::NonNull;

use aldis_hal::copy::copy_raw;
use aldis_hal::memory::{Access, Memory};
use aldis_hal::{PeerId, RegionId, Transport};
use aldis_protocols::INLINE_BYTES;

// Three words: what `copy_few` copies.
const _: () = assert!(INLINE_BYTES == 24);

/// Memory of the user, by address and length.
#[derive(Clone, Copy, Debug)]
pub(crate) struct UserBuffer {
    start: Option<NonNull<u8>>,
    len: usize,
}

// SAFETY: only the engine that holds a buffer dereferences it, and an engine moves between threads
// as a whole; what stands there are bytes, and `new`'s contract holds whichever thread the engine
// is on.
unsafe impl Send for UserBuffer {}

impl UserBuffer {
    /// No memory: reads give nothing and writes go nowhere.
    pub(crate) const NONE: Self = Self { start: None, len: 0 };

    /// No memory in one piece: where the `len` bytes of a typed message lie is for its request's
    /// layout to tell.
    #[inline]
    pub(crate) const fn scattered(len: usize) -> Self {
        Self { start: None, len }
    }

    /// Returns true if it is of a typed message, or none at all.
    #[inline]
    pub(crate) const fn is_scattered(&self) -> bool {
        self.start.is_none()
    }

    /// The `len` bytes from `start`.
    ///
    /// # Safety
    /// Until the buffer and all its copies are gone, the memory must be initialised and valid for
    /// reads, and for writes if the buffer is ever written: by [`write`](Self::write) and its kin,
    /// by [`change`](Self::change), or by a transport that has a [region](Self::register) of it.
    /// While a method of it runs, while what a method has returned is in use, and while a transport
    /// has a region of it, nothing else may write the memory, nor read it if that writes.
    #[inline]
    pub(crate) const unsafe fn new(start: NonNull<u8>, len: usize) -> Self {
        Self { start: Some(start), len }
    }

    #[inline]
    pub(crate) const fn len(&self) -> usize {
        self.len
    }

    /// The first byte's address, for overlap checks.
    pub(crate) fn address(&self) -> usize {
        self.start.map_or(0, |start| start.as_ptr() as usize)
    }

    /// Returns the memory, for a transport that is lent it; `None` if it is scattered.
    pub(crate) fn memory(&self) -> Option<Memory> {
        self.start.map(|start| Memory { start, len: self.len })
    }

    /// Registers as much of it as `length` bytes need. `None` if the transport refuses, or it is
    /// [scattered](Self::scattered). The caller keeps the region with the request that holds this
    /// buffer: it is taken back before that lets go of it.
    pub(crate) fn register<T: Transport>(
        &self,
        transport: &mut T,
        peer: PeerId,
        length: u64,
        access: Access,
    ) -> Option<RegionId> {
        let mut memory = self.memory()?;
        memory.len = usize::try_from(length).map_or(memory.len, |length| length.min(memory.len));
        // SAFETY: `new`'s caller promised that the memory is there, for reads if it is sent from
        // and for writes if it is received into, and left alone until the request has let go of
        // this buffer, by which time the region has been taken back (`Engine::take_back`,
        // `close_regions`); and the endpoint gives its transport away only while it has no region
        // (`Endpoint::transport_mut`, `try_transport_mut`).
        unsafe { transport.register(peer, memory, access) }.ok()
    }

    /// Gives memory that was lent for `'m` back.
    ///
    /// # Safety
    /// It was taken out of an exclusive borrow for `'m`, and neither this buffer nor any other of
    /// the same memory may be used any more.
    pub(crate) unsafe fn give_back<'m>(self) -> &'m mut [u8] {
        let start = self.start.unwrap_or(NonNull::dangling());
        let len = if self.start.is_some() { self.len } else { 0 };
        // SAFETY: by the caller's promise the buffer was made of an exclusive borrow for 'm, and
        // nothing else refers to the memory any more.
        unsafe { core::slice::from_raw_parts_mut(start.as_ptr(), len) }
    }

    /// Copies `bytes` to `offset`; what does not fit is cut off. False, and nothing done, if it is
    /// [scattered](Self::scattered).
    #[inline]
    pub(crate) fn write(&self, offset: u64, bytes: &[u8]) -> bool {
        let Some(start) = self.start else { return false };
        let Ok(offset) = usize::try_from(offset) else { return true };
        let room = self.len.saturating_sub(offset);
        let count = bytes.len().min(room);
        if count > 0 {
            // SAFETY: `offset + count` is within the buffer's length; `new`'s caller promised valid
            // writable memory that nothing else touches now, so `bytes`, a borrow that is in use,
            // does not overlap with it.
            unsafe { copy_raw(bytes.as_ptr(), start.add(offset).as_ptr(), count) }
        }
        true
    }

    /// Copies a payload that fits into an envelope to the start, if there is room for it. False,
    /// and nothing done, if there is not.
    #[inline(always)]
    pub(crate) fn write_inline(&self, bytes: &[u8]) -> bool {
        let Some(start) = self.start else { return false };
        if bytes.len() > INLINE_BYTES || bytes.len() > self.len {
            return false;
        }
        // SAFETY: as in `write`, the bytes fit, and they are three words at most.
        unsafe { copy_few(NonNull::from(bytes).cast(), start, bytes.len()) }
        true
    }

    /// Returns true if so many bytes can be written to the start.
    #[inline(always)]
    pub(crate) const fn takes(&self, len: usize) -> bool {
        self.start.is_some() && len <= self.len
    }

    /// Copies a payload to the start, if there is room for all of it. False, and nothing done, if
    /// there is not.
    #[inline(always)]
    pub(crate) fn write_all(&self, bytes: &[u8]) -> bool {
        if bytes.len() <= INLINE_BYTES {
            return self.write_inline(bytes);
        }
        bytes.len() <= self.len && self.write(0, bytes)
    }

    /// Lets `change` work on the memory.
    pub(crate) fn change<R>(&self, change: impl FnOnce(&mut [u8]) -> R) -> R {
        let Some(start) = self.start else { return change(&mut []) };
        // SAFETY: `new`'s caller promised valid writable memory that nothing else touches while
        // this runs.
        change(unsafe { core::slice::from_raw_parts_mut(start.as_ptr(), self.len) })
    }

    /// A range of it, if it is inside.
    pub(crate) fn part(&self, range: Range<usize>) -> Option<Self> {
        let len = range.end.checked_sub(range.start)?;
        if range.end > self.len {
            return None;
        }
        // SAFETY: the range is inside the memory, whose contract `new` took over.
        let start = self.start.map(|start| unsafe { start.add(range.start) });
        Some(Self { start, len })
    }

    /// All of its bytes. The borrow is of this value: it must not be kept.
    #[inline]
    pub(crate) fn bytes(&self) -> &[u8] {
        match self.start {
            // SAFETY: `new`'s caller promised valid readable memory of this length.
            Some(start) => unsafe { core::slice::from_raw_parts(start.as_ptr(), self.len) },
            None => &[],
        }
    }

    /// The bytes from `offset`, at most `len` of them. The borrow is of this value: it must not be
    /// kept.
    pub(crate) fn read(&self, offset: u64, len: usize) -> &[u8] {
        let (Some(start), Ok(offset)) = (self.start, usize::try_from(offset)) else { return &[] };
        let count = len.min(self.len.saturating_sub(offset));
        if count == 0 {
            return &[];
        }
        // SAFETY: `offset + count` is within the buffer's length; `new`'s caller promised valid
        // readable memory.
        unsafe { core::slice::from_raw_parts(start.add(offset).as_ptr(), count) }
    }
}

/// Copies `count` bytes, at most three words, without a loop and without a call: pieces that may
/// overlap.
///
/// # Safety
/// `from` and `to` are valid for `count` bytes and apart.
#[inline(always)]
unsafe fn copy_few(from: NonNull<u8>, to: NonNull<u8>, count: usize) {
    /// Moves the `N` bytes at `offset`.
    ///
    /// # Safety
    /// As of `copy_few`, and the bytes are among the `count`.
    #[inline(always)]
    unsafe fn piece<const N: usize>(from: NonNull<u8>, to: NonNull<u8>, offset: usize) {
        // SAFETY: the caller promised that both are valid there.
        unsafe { to.add(offset).cast::<[u8; N]>().write(from.add(offset).cast::<[u8; N]>().read()) }
    }
    // SAFETY: each piece ends at `count` or before; together they leave nothing out.
    unsafe {
        if count >= 8 {
            piece::<8>(from, to, 0);
            if count > 16 {
                piece::<8>(from, to, 8);
            }
            piece::<8>(from, to, count - 8);
        } else if count >= 4 {
            piece::<4>(from, to, 0);
            piece::<4>(from, to, count - 4);
        } else if count > 0 {
            piece::<1>(from, to, 0);
            piece::<1>(from, to, count / 2);
            piece::<1>(from, to, count - 1);
        }
    }
}

/// Marks what names memory of one scope. Invariant, so that it is of no other scope: each has a
/// lifetime of its own, that nothing else has. Neither `Send` nor `Sync`, as nothing needs it: a
/// scope's calls take `&mut Scope`.
type Brand<'scope> = PhantomData<*mut &'scope ()>;

/// Memory lent to a scope as a whole, so that ranges of it can be sent, received and combined by
/// name.
///
/// A loan is good for the calls of the scope that it was made by, and for nothing else. Another
/// endpoint's scope has another lifetime, also where one is inside of the other:
///
/// ```
/// # use aldis_kernel::{Endpoint, Error, hal::{Platform, Transport}};
/// # fn apart<T: Transport, P: Platform>(
/// #     one: &mut Endpoint<'_, T, P>,
/// #     two: &mut Endpoint<'_, T, P>,
/// # ) -> Result<(), Error> {
/// let (mut left, mut right) = ([0u8; 8], [0u8; 8]);
/// one.scope(|outer| {
///     let left = outer.lend(&mut left);
///     two.scope(|inner| {
///         let right = inner.lend(&mut right);
///         outer.edit(left, 0..8, |bytes| bytes.fill(1))?;
///         inner.edit(right, 0..8, |bytes| bytes.fill(2))
///     })
/// })
/// # }
/// ```
///
/// ```compile_fail,E0521
/// # use aldis_kernel::{Endpoint, Error, hal::{Platform, Transport}};
/// # fn apart<T: Transport, P: Platform>(
/// #     one: &mut Endpoint<'_, T, P>,
/// #     two: &mut Endpoint<'_, T, P>,
/// # ) -> Result<(), Error> {
/// let (mut left, mut right) = ([0u8; 8], [0u8; 8]);
/// one.scope(|outer| {
///     let left = outer.lend(&mut left);
///     two.scope(|inner| {
///         let right = inner.lend(&mut right);
///         outer.edit(left, 0..8, |bytes| bytes.fill(1))?;
///         inner.edit(left, 0..8, |bytes| bytes.fill(2)) // what the outer one was lent
///     })
/// })
/// # }
/// ```
#[derive(Clone, Copy, Debug)]
pub struct LentMut<'scope> {
    buffer: UserBuffer,
    scope: Brand<'scope>,
}

impl<'scope> LentMut<'scope> {
    /// Takes the borrow for the whole scope: no reference to the memory is left outside.
    ///
    /// # Safety
    /// The taker of the buffer of the loan, or of a copy of it ([`whole`](Self::whole)) lets go of
    /// it before 'scope ends, and no two accesses overlap in time. A user who has the loan can only
    /// name it in calls of the scope of this lifetime, which no other has (`Brand`).
    pub(crate) unsafe fn new(bytes: &'scope mut [u8]) -> Self {
        let len = bytes.len();
        // SAFETY: the exclusive borrow lasts for 'scope and is consumed here; the caller promised
        // that nothing uses the buffer for longer, nor twice at a time.
        let buffer = unsafe { UserBuffer::new(NonNull::from(bytes).cast(), len) };
        Self { buffer, scope: PhantomData }
    }

    /// Bytes lent.
    pub const fn len(&self) -> usize {
        self.buffer.len
    }

    /// Returns true if nothing was lent.
    pub const fn is_empty(&self) -> bool {
        self.buffer.len == 0
    }

    /// All of it.
    pub(crate) const fn whole(&self) -> UserBuffer {
        self.buffer
    }
}

/// Memory lent to be read, and no more. A [`LentMut`] is one where it is only read, and like that
/// it is one scope's alone:
///
/// ```
/// # use aldis_kernel::{Endpoint, Error, Rank, Lent, Tag, hal::{Platform, Transport}};
/// # fn apart<T: Transport, P: Platform>(
/// #     one: &mut Endpoint<'_, T, P>,
/// #     two: &mut Endpoint<'_, T, P>,
/// # ) -> Result<(), Error> {
/// # let world = two.world();
/// let (mut left, mut right) = ([0u8; 8], [0u8; 8]);
/// one.scope(|outer| {
///     let left = Lent::from(outer.lend(&mut left));
///     two.scope(|inner| {
///         let right = Lent::from(inner.lend(&mut right));
///         let mut sending = inner.isend_part(&world, right, 0..8, Rank(1), Tag(0))?;
///         inner.wait_for(&mut sending)?;
///         Ok(())
///     })
/// })
/// # }
/// ```
///
/// ```compile_fail,E0521
/// # use aldis_kernel::{Endpoint, Error, Rank, Lent, Tag, hal::{Platform, Transport}};
/// # fn apart<T: Transport, P: Platform>(
/// #     one: &mut Endpoint<'_, T, P>,
/// #     two: &mut Endpoint<'_, T, P>,
/// # ) -> Result<(), Error> {
/// # let world = two.world();
/// let (mut left, mut right) = ([0u8; 8], [0u8; 8]);
/// one.scope(|outer| {
///     let left = Lent::from(outer.lend(&mut left));
///     two.scope(|inner| {
///         let right = Lent::from(inner.lend(&mut right));
///         // `left` is lent to the outer one.
///         let mut sending = inner.isend_part(&world, left, 0..8, Rank(1), Tag(0))?;
///         inner.wait_for(&mut sending)?;
///         Ok(())
///     })
/// })
/// # }
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Lent<'scope> {
    buffer: UserBuffer,
    scope: Brand<'scope>,
}

impl<'scope> Lent<'scope> {
    /// Takes the borrow for the whole scope.
    ///
    /// # Safety
    /// The taker of its buffer, or of that of a copy ([`whole`](Self::whole), [`part`](Self::part))
    /// lets go of it before 'scope ends, and only reads. A user who has it can only name it in
    /// calls of the scope of this lifetime, as a [`LentMut`].
    pub(crate) unsafe fn new(bytes: &'scope [u8]) -> Self {
        // SAFETY: the borrow lasts for 'scope; the caller promised that nothing uses the buffer for
        // longer, nor writes it.
        let buffer = unsafe { UserBuffer::new(NonNull::from(bytes).cast(), bytes.len()) };
        Self { buffer, scope: PhantomData }
    }

    /// Bytes lent.
    pub const fn len(&self) -> usize {
        self.buffer.len
    }

    /// Returns true if nothing was lent.
    pub const fn is_empty(&self) -> bool {
        self.buffer.len == 0
    }

    /// All of it. Nothing may be written there.
    pub(crate) const fn whole(&self) -> UserBuffer {
        self.buffer
    }

    /// A range of it, if it is inside. Nothing may be written there.
    pub(crate) fn part(&self, range: Range<usize>) -> Option<UserBuffer> {
        self.buffer.part(range)
    }
}

impl<'scope> From<LentMut<'scope>> for Lent<'scope> {
    fn from(lent: LentMut<'scope>) -> Self {
        Self { buffer: lent.buffer, scope: lent.scope }
    }
}

/// Two disjoint parts of lent memory as slices, the first to be written; `None` if they overlap.
///
/// # Safety
/// Both must be parts of memory that was lent to one scope, `into` of a [`LentMut`]; no request
/// uses `into`, and none writes `from`; and the scope's endpoint is mutably borrowed for `'a` and
/// does not run meanwhile.
pub(crate) unsafe fn slices<'a>(into: UserBuffer, from: UserBuffer) -> Option<(&'a mut [u8], &'a [u8])> {
    if overlap(into, from) {
        return None;
    }
    let (into_start, from_start) =
        (into.start.unwrap_or(NonNull::dangling()), from.start.unwrap_or(NonNull::dangling()));
    // SAFETY: the parts are disjoint, as just checked; they are valid for the scope, and neither
    // the endpoint nor its transport touches them for 'a (the caller's promise); empty parts may
    // dangle.
    unsafe {
        Some((
            core::slice::from_raw_parts_mut(into_start.as_ptr(), into.len),
            core::slice::from_raw_parts(from_start.as_ptr(), from.len),
        ))
    }
}

/// Returns true if two buffers share a byte.
pub(crate) fn overlap(one: UserBuffer, other: UserBuffer) -> bool {
    one.len > 0
        && other.len > 0
        && !one.is_scattered()
        && !other.is_scattered()
        && one.address() < other.address().saturating_add(other.len)
        && other.address() < one.address().saturating_add(one.len)
}

/// A byte range of lent memory.
#[derive(Clone, Debug)]
pub struct LentRange<M> {
    /// The memory.
    pub memory: M,
    /// The bytes of it that are meant.
    pub range: Range<usize>,
}

impl<M> LentRange<M> {
    /// These bytes of that memory.
    pub const fn new(memory: M, range: Range<usize>) -> Self {
        Self { memory, range }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_inline_payload_is_copied_whole_or_not_at_all() {
        let payload: [u8; INLINE_BYTES + 1] = core::array::from_fn(|index| index as u8 + 1);
        for len in 0..=payload.len() {
            for room in 0..=INLINE_BYTES {
                let mut memory = [0u8; INLINE_BYTES + 1];
                // SAFETY: `memory` outlives the buffer and is only looked at after its call.
                let buffer = unsafe { UserBuffer::new(NonNull::from(&mut memory).cast(), room) };
                let fits = len <= room && len <= INLINE_BYTES;
                assert_eq!(buffer.write_inline(&payload[..len]), fits);
                let written = if fits { len } else { 0 };
                assert_eq!(memory[..written], payload[..written]);
                assert!(memory[written..].iter().all(|&byte| byte == 0), "{len} bytes into {room}");
            }
        }
        assert!(!UserBuffer::NONE.write_inline(b""));
    }

    #[test]
    fn a_payload_of_any_length_is_copied_whole_or_not_at_all() {
        let payload: [u8; 100] = core::array::from_fn(|index| index as u8 + 1);
        for len in 0..=payload.len() {
            for room in [0, 1, 24, 25, 99, 100] {
                let mut memory = [0u8; 100];
                // SAFETY: `memory` outlives the buffer and is only looked at after its call.
                let buffer = unsafe { UserBuffer::new(NonNull::from(&mut memory).cast(), room) };
                assert_eq!(buffer.write_all(&payload[..len]), len <= room);
                let written = if len <= room { len } else { 0 };
                assert_eq!(memory[..written], payload[..written]);
                assert!(memory[written..].iter().all(|&byte| byte == 0), "{len} bytes into {room}");
            }
        }
        assert!(!UserBuffer::scattered(100).write_all(&payload));
    }

    #[test]
    fn writes_and_reads_stay_inside() {
        let mut memory = [0u8; 4];
        // SAFETY: `memory` outlives the buffer and is only looked at between its calls.
        let buffer = unsafe { UserBuffer::new(NonNull::from(&mut memory).cast(), 4) };
        buffer.write(2, b"abcdef");
        buffer.write(9, b"x");
        buffer.write(u64::MAX, b"x");
        assert_eq!(buffer.read(0, 99), b"\0\0ab");
        assert_eq!(buffer.read(3, 1), b"b");
        assert_eq!(buffer.read(4, 1), b"");
        assert!(!UserBuffer::NONE.write(0, b"gone"));
        assert_eq!(UserBuffer::NONE.read(0, 5), b"");
    }

    #[test]
    fn parts_are_checked_and_overlaps_seen() {
        let mut memory = [0u8; 8];
        // SAFETY: the loan's parts are gone before the memory is.
        let lent = Lent::from(unsafe { LentMut::new(&mut memory) });
        assert!(lent.part(4..9).is_none());
        assert!(lent.part(Range { start: usize::MAX, end: 0 }).is_none());
        let (left, right, middle) =
            (lent.part(0..4).unwrap(), lent.part(4..8).unwrap(), lent.part(3..5).unwrap());
        assert!(!overlap(left, right) && overlap(left, middle) && overlap(middle, right));
        assert!(!overlap(lent.part(3..3).unwrap(), left));
    }
}

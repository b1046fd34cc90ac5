//! This module holds `unsafe` code: it borrows the memory of typed messages for their calls.
//!
//! Messages of datatypes (MPI 4.1, 3.2 and 5.1): data that lies scattered in memory is packed
//! straight into the transport's slots and comes straight out of them, without a buffer between.
//!
//! [`Typed`] is what an operation sends: memory, a count, a datatype. [`TypedMut`] is where it
//! receives to. The types are those of a table that the endpoint is lent once, by
//! [`attach_types`](crate::Endpoint::attach_types).
//!
//! ```
//! use aldis_kernel::datatype::{Basic, TypeTable};
//! use aldis_kernel::{Endpoint, Error, Rank, Tag, Typed, TypedMut, hal::{Platform, Transport}};
//!
//! /// Sends the last column of a matrix of 4 x 4, and receives the first one.
//! fn shift<'s, T: Transport, P: Platform>(
//!     endpoint: &mut Endpoint<'s, T, P>,
//!     table: &'s mut TypeTable<4, 64>,
//!     matrix: &mut [[f64; 4]; 4],
//! ) -> Result<(), Error> {
//!     endpoint.attach_types(table.types())?;
//!     let types = endpoint.types()?;
//!     let column = types.vector(4, 1, 4, Basic::F64)?;
//!     let column = types.commit(column)?;
//!     let world = endpoint.world();
//!     endpoint.scope(|s| {
//!         let matrix = s.lend(matrix.as_flattened_mut());
//!         let first = TypedMut::lent(matrix, 1, column);
//!         let last = Typed::lent(matrix, 1, column).with_origin(3 * size_of::<f64>() as isize);
//!         let from_left = s.irecv_typed(&world, first, Rank(0), Tag(1))?;
//!         let to_right = s.isend_typed(&world, last, Rank(2), Tag(1))?;
//!         s.wait_all(&mut [from_left, to_right])
//!     })
//! }
//! ```
//!
//! # What is typed and what is bytes
//!
//! A message sent by a typed call carries a hash of its type signature. A typed receive compares it
//! with the signature of as many bytes of its own types, so also a shorter message is checked; what
//! differs is [`Cause::SignatureMismatch`], after the bytes have been received. An untyped message
//! (`MPI_BYTE`) carries no signature: a typed receive takes its bytes as they are, and an untyped
//! receive those of any message.
//!
//! Typed messages travel in the byte order of the sender, which its [`Card`](aldis_protocols::Card)
//! tells, and the typed receive of a peer with the other order turns each element. Untyped messages
//! are never changed.
//!
//! Words (`Isize`, `Usize`) between machines of different width travel in that of the narrower one,
//! and the wider one converts them both ways. So equal machines, and the small one of two, pay
//! nothing; and whether a number fits is seen where all of it is at hand, however the message is
//! cut into pieces. One that does not fits nowhere at the receiver: the send fails with
//! [`Cause::Unrepresentable`], which names it, and the receive with [`Cause::Withdrawn`]. Such a
//! send ends when it is matched. The bytes of a receive's status are those in memory; those of a
//! probe are what travels, which [`form_from`](crate::plane::EndpointPlane::form_from) tells the
//! form of. Signatures do not depend on widths.
//!
//! A message that is sent [`checked`](Typed::checked) carries the CRC-32C of its data besides.
//! Endpoints with types attached verify it, for typed and untyped receives, and fail with
//! [`Cause::Corrupt`].
//!
//! A type that is freed while a message of it is under way lives until that is over. Entries of a
//! receive's type must not overlap (MPI 4.1, 5.1.11); if they do, which bytes are left is
//! unspecified: [`Types::overlaps`] tells. A receive that is too small ends with
//! [`Cause::Truncated`] and whole elements.

use core::marker::PhantomData;

#[cfg(doc)]
use aldis_hal::Cause;
use zerocopy::{FromBytes, Immutable, IntoBytes};

use crate::datatype::Committed;
#[cfg(doc)]
use crate::datatype::Types;
use crate::memory::buffer::{Lent, LentMut};
use crate::rank::Mode;
use crate::tables::elements::{Elements, ElementsMut, ElementsPlace};

mod calls;
mod fast_path;
mod local;
mod parts;

/// Memory that calls of the scope take: borrowed for it, or lent to it. Blocking calls take what is
/// borrowed, and not what is on loan: they may be of another endpoint, whose calls know nothing of
/// what this one is doing with the memory.
pub trait OfScope<'scope> {}

impl<'scope> OfScope<'scope> for &'scope [u8] {}
impl<'scope> OfScope<'scope> for &'scope mut [u8] {}
impl<'scope> OfScope<'scope> for Lent<'scope> {}
impl<'scope> OfScope<'scope> for LentMut<'scope> {}

/// The data that a typed operation sends: `count` elements of a datatype in memory, which is
/// borrowed or, as `M`, on loan.
#[derive(Clone, Copy, Debug)]
pub struct Typed<'m, M = &'m [u8]> {
    pub(crate) data: Elements,
    memory: PhantomData<(&'m [u8], M)>,
}

/// The room that a typed operation receives into: `count` elements of a datatype in memory, which
/// is borrowed or, as `M`, on loan.
///
/// What is on loan is received by the scope that has it, and neither by a blocking call nor by a
/// scope of another endpoint:
///
/// ```
/// # use aldis_kernel::datatype::Basic;
/// # use aldis_kernel::hal::{Platform, Transport};
/// # use aldis_kernel::{Endpoint, Error, Rank, Tag, TypedMut};
/// # fn apart<T: Transport, P: Platform>(
/// #     one: &mut Endpoint<'_, T, P>,
/// #     two: &mut Endpoint<'_, T, P>,
/// # ) -> Result<(), Error> {
/// # let world = one.world();
/// let (mut left, mut right) = ([0u8; 8], [0u8; 8]);
/// one.scope(|outer| {
///     let left = outer.lend(&mut left);
///     let _ = outer.irecv_typed(&world, TypedMut::lent(left, 8, Basic::U8), Rank(0), Tag(0))?;
///     two.recv_typed(&world, TypedMut::new(&mut right, 8, Basic::U8), Rank(0), Tag(0))?;
///     Ok(())
/// })
/// # }
/// ```
///
/// ```compile_fail,E0308
/// # use aldis_kernel::datatype::Basic;
/// # use aldis_kernel::hal::{Platform, Transport};
/// # use aldis_kernel::{Endpoint, Error, Rank, Tag, TypedMut};
/// # fn apart<T: Transport, P: Platform>(
/// #     one: &mut Endpoint<'_, T, P>,
/// #     two: &mut Endpoint<'_, T, P>,
/// # ) -> Result<(), Error> {
/// # let world = one.world();
/// let (mut left, mut right) = ([0u8; 8], [0u8; 8]);
/// one.scope(|outer| {
///     let left = outer.lend(&mut left);
///     let _ = outer.irecv_typed(&world, TypedMut::lent(left, 8, Basic::U8), Rank(0), Tag(0))?;
///     // It is received into already.
///     two.recv_typed(&world, TypedMut::lent(left, 8, Basic::U8), Rank(0), Tag(0))?;
///     Ok(())
/// })
/// # }
/// ```
///
/// ```compile_fail,E0521
/// # use aldis_kernel::datatype::Basic;
/// # use aldis_kernel::hal::{Platform, Transport};
/// # use aldis_kernel::{Endpoint, Error, Rank, Tag, TypedMut};
/// # fn apart<T: Transport, P: Platform>(
/// #     one: &mut Endpoint<'_, T, P>,
/// #     two: &mut Endpoint<'_, T, P>,
/// # ) -> Result<(), Error> {
/// # let world = one.world();
/// let (mut left, mut right) = ([0u8; 8], [0u8; 8]);
/// one.scope(|outer| {
///     let left = outer.lend(&mut left);
///     let _ = outer.irecv_typed(&world, TypedMut::lent(left, 8, Basic::U8), Rank(0), Tag(0))?;
///     two.scope(|inner| {
///         let _ = inner.irecv_typed(&world, TypedMut::lent(left, 8, Basic::U8), Rank(0), Tag(0))?;
///         Ok(())
///     })
/// })
/// # }
/// ```
#[derive(Debug)]
pub struct TypedMut<'m, M = &'m mut [u8]> {
    room: ElementsMut,
    memory: PhantomData<(&'m mut [u8], M)>,
}

impl<'m> Typed<'m, &'m [u8]> {
    /// `count` elements of `datatype` from the start of `memory` on, which must reach as far as
    /// they do.
    pub fn new<E>(memory: &'m [E], count: u64, datatype: impl Into<Committed>) -> Self
    where
        E: IntoBytes + Immutable,
    {
        // SAFETY: as in `TypedMut::new`, and what is sent from is only read.
        let memory = unsafe { Lent::new(memory.as_bytes()) };
        Self::of(memory, ElementsPlace::new(count, datatype))
    }
}

impl<'m> Typed<'m, Lent<'m>> {
    /// `count` elements of `datatype` from the start of lent memory on, for calls of the scope that
    /// it is lent to.
    pub fn lent(memory: impl Into<Lent<'m>>, count: u64, datatype: impl Into<Committed>) -> Self {
        Self::of(memory.into(), ElementsPlace::new(count, datatype))
    }
}

impl<'m, M> Typed<'m, M> {
    fn of(memory: Lent<'m>, place: ElementsPlace) -> Self {
        let data = Elements { memory: memory.whole(), place, mode: Mode::Standard, checked: false };
        Self { data, memory: PhantomData }
    }

    /// With displacement zero of the first element at byte `origin` of the memory instead of its
    /// start: before the memory if that is negative, as of a type whose displacements are
    /// addresses. What is data has to lie within.
    #[must_use]
    pub const fn with_origin(mut self, origin: isize) -> Self {
        self.data.place.origin = origin;
        self
    }

    /// Sent in synchronous mode (`MPI_Ssend`).
    #[must_use]
    pub const fn synchronous(self) -> Self {
        Self { data: Elements { mode: Mode::Synchronous, ..self.data }, ..self }
    }

    /// Sent in ready mode (`MPI_Rsend`).
    #[must_use]
    pub const fn ready(self) -> Self {
        Self { data: Elements { mode: Mode::Ready, ..self.data }, ..self }
    }

    /// Sent with a checksum.
    #[must_use]
    pub const fn checked(self) -> Self {
        Self { data: Elements { checked: true, ..self.data }, ..self }
    }
}

impl<'m> TypedMut<'m, &'m mut [u8]> {
    /// Returns the elements that are there, to be sent.
    const fn as_typed(&self) -> Typed<'_> {
        let ElementsMut { memory, place } = self.room;
        let data = Elements { memory, place, mode: Mode::Standard, checked: false };
        Typed { data, memory: PhantomData }
    }

    /// `count` elements of `datatype` from the start of `memory` on, which must reach as far as
    /// they do.
    pub fn new<E>(memory: &'m mut [E], count: u64, datatype: impl Into<Committed>) -> Self
    where
        E: FromBytes + IntoBytes,
    {
        // SAFETY: this value has the exclusive borrow and is no copy. It is used by calls of this
        // crate alone: a blocking one completes or abandons its request before it returns, and one
        // of a scope takes a value whose 'm is that scope's, which lets go at its end.
        let memory = unsafe { LentMut::new(memory.as_mut_bytes()) };
        Self::of(memory, ElementsPlace::new(count, datatype))
    }
}

impl<'m> TypedMut<'m, LentMut<'m>> {
    /// `count` elements of `datatype` from the start of lent memory on, for calls of the scope that
    /// it is lent to.
    pub fn lent(memory: LentMut<'m>, count: u64, datatype: impl Into<Committed>) -> Self {
        Self::of(memory, ElementsPlace::new(count, datatype))
    }
}

impl<'m, M> TypedMut<'m, M> {
    const fn of(memory: LentMut<'m>, place: ElementsPlace) -> Self {
        Self { room: ElementsMut { memory: memory.whole(), place }, memory: PhantomData }
    }

    /// With displacement zero of the first element at byte `origin` of the memory instead of its
    /// start: before the memory if that is negative, as of a type whose displacements are
    /// addresses. What is data has to lie within.
    #[must_use]
    pub const fn with_origin(mut self, origin: isize) -> Self {
        self.room.place.origin = origin;
        self
    }
}

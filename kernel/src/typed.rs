//! Messages of datatypes (MPI 4.1, 3.2 and 5.1): data that lies scattered in memory goes straight into the transport's
//! slots and comes straight out of them, without a buffer between.
//!
//! [`Typed`] is what an operation sends: memory, a count, a datatype. [`TypedMut`] is where it receives to. The types are
//! those of a table that the endpoint is lent once, by [`attach_types`](crate::Endpoint::attach_types).
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
//! A message sent by a typed call carries a hash of its type signature. A typed receive compares it with the signature of
//! as many bytes of its own types, so also a shorter message is checked; what differs is
//! [`Cause::SignatureMismatch`], after the bytes have been received. An untyped message (`MPI_BYTE`) carries no
//! signature: a typed receive takes its bytes as they are, and an untyped receive those of any message.
//!
//! Typed messages travel in the byte order of the sender, which its [`Card`](aldis_protocols::Card) tells, and the typed
//! receive of a peer with the other order turns each element. Untyped messages are never changed.
//!
//! Words (`Isize`, `Usize`) between machines of different width travel in that of the narrower one, and the wider one
//! converts them both ways. So equal machines, and the small one of two, pay nothing; and whether a number fits is seen
//! where all of it is at hand, however the message is cut into pieces. One that does not fits nowhere at the receiver: the
//! send fails with [`Cause::Unrepresentable`], which names it, and the receive with [`Cause::Withdrawn`]. Such a send ends
//! when it is matched. The bytes of a receive's status are those in memory; those of a probe are what travels, which
//! [`form_from`](crate::Endpoint::form_from) tells the form of. Signatures do not depend on widths.
//!
//! A message that is sent [`checked`](Typed::checked) carries the CRC-32C of its data besides. Endpoints with types
//! attached verify it, for typed and untyped receives, and fail with [`Cause::Corrupt`].
//!
//! A type that is freed while a message of it is under way lives until that is over. Entries of a receive's type must not
//! overlap (MPI 4.1, 5.1.11); if they do, which bytes are left is unspecified: [`Types::overlaps`] tells.
//! A receive that is too small ends with [`Cause::Truncated`] and whole elements.

#[cfg(doc)]
use aldis_hal::Cause;
use zerocopy::{FromBytes, Immutable, IntoBytes};

use crate::buffer::{Loan, Sample};
use crate::datatype::Committed;
#[cfg(doc)]
use crate::datatype::Types;
use crate::rank::Mode;

#[cfg_attr(feature = "compact", path = "typed/no_short_way.rs")]
mod at_once;
mod calls;
mod layout;
mod local;
mod parts;
mod receiving;
mod sending;
mod tools;

pub(crate) use at_once::Plain;
pub(crate) use layout::Layout;
pub(crate) use receiving::Piece;
pub(crate) use sending::Fragment;
pub(crate) use tools::Conversion;

/// What a typed operation sends: `count` elements of a datatype in memory.
#[derive(Clone, Copy, Debug)]
pub struct Typed<'m> {
    memory: Sample<'m>,
    place: Place,
    mode: Mode,
    checked: bool,
}

/// Where a typed operation receives to: `count` elements of a datatype in memory.
#[derive(Debug)]
pub struct TypedMut<'m> {
    memory: Loan<'m>,
    place: Place,
}

/// Which elements of a memory.
#[derive(Clone, Copy, Debug)]
struct Place {
    /// Displacement zero of the first element, from the start of the memory.
    origin: isize,
    count: u64,
    datatype: Committed,
}

impl Place {
    fn new(count: u64, datatype: impl Into<Committed>) -> Self {
        Self { origin: 0, count, datatype: datatype.into() }
    }
}

impl<'m> Typed<'m> {
    /// `count` elements of `datatype` from the start of `memory` on, which must reach as far as they do.
    pub fn new<E>(memory: &'m [E], count: u64, datatype: impl Into<Committed>) -> Self
    where
        E: IntoBytes + Immutable,
    {
        Self::lent(Sample::new(memory.as_bytes()), count, datatype)
    }

    /// The same of lent memory.
    pub fn lent(memory: impl Into<Sample<'m>>, count: u64, datatype: impl Into<Committed>) -> Self {
        let (memory, place) = (memory.into(), Place::new(count, datatype));
        Self { memory, place, mode: Mode::Standard, checked: false }
    }

    /// With displacement zero of the first element at byte `origin` of the memory instead of its start: before the memory if
    /// that is negative, as of a type whose displacements are addresses. What is data has to lie within.
    #[must_use]
    pub const fn with_origin(mut self, origin: isize) -> Self {
        self.place.origin = origin;
        self
    }

    /// Sent in synchronous mode (`MPI_Ssend`).
    #[must_use]
    pub const fn synchronous(self) -> Self {
        Self { mode: Mode::Synchronous, ..self }
    }

    /// Sent in ready mode (`MPI_Rsend`).
    #[must_use]
    pub const fn ready(self) -> Self {
        Self { mode: Mode::Ready, ..self }
    }

    /// Sent with a checksum.
    #[must_use]
    pub const fn checked(self) -> Self {
        Self { checked: true, ..self }
    }
}

impl<'m> TypedMut<'m> {
    /// What is there, to be sent.
    fn as_typed(&self) -> Typed<'m> {
        Typed { place: self.place, ..Typed::lent(self.memory, 0, self.place.datatype) }
    }

    /// `count` elements of `datatype` from the start of `memory` on, which must reach as far as they do.
    pub fn new<E>(memory: &'m mut [E], count: u64, datatype: impl Into<Committed>) -> Self
    where
        E: FromBytes + IntoBytes,
    {
        Self::lent(Loan::new(memory.as_mut_bytes()), count, datatype)
    }

    /// The same of lent memory.
    pub fn lent(memory: Loan<'m>, count: u64, datatype: impl Into<Committed>) -> Self {
        Self { memory, place: Place::new(count, datatype) }
    }

    /// With displacement zero of the first element at byte `origin` of the memory instead of its start: before the memory if
    /// that is negative, as of a type whose displacements are addresses. What is data has to lie within.
    #[must_use]
    pub const fn with_origin(mut self, origin: isize) -> Self {
        self.place.origin = origin;
        self
    }
}

//! The calls that take typed data.

use aldis_hal::{Cause, Operation, Platform, Transport};

use super::layout::NO_TYPES;
use super::tools::Convert;
use super::{Conversion, Typed, TypedMut};
use crate::blocking::Within;
use crate::call::{BUDGET, Call};
use crate::comm::Comm;
use crate::datatype::Types;
use crate::endpoint::Endpoint;
use crate::engine::{Engine, Started};
use crate::error::Error;
use crate::rank::{Rank, Source, Status, Tag, TagMatch};
use crate::scope::{Request, Scope};

impl<'s, T: Transport, P: Platform> Endpoint<'s, T, P> {
    /// Lends the endpoint a table of datatypes: typed calls take types of this table, and basic ones.
    ///
    /// # Errors
    /// [`Cause::Busy`] if it has one.
    pub fn attach_types(&mut self, types: Types<'s>) -> Result<(), Error> {
        if self.engine.conversion.is_some() {
            return Err(Error::new(Operation::None, Cause::Busy));
        }
        self.engine.conversion = Some(Conversion { types, tools: &Convert });
        Ok(())
    }

    /// The table of datatypes, to make, ask and free types.
    ///
    /// # Errors
    /// [`Cause::TooSmall`] if none is attached.
    pub fn types(&mut self) -> Result<&mut Types<'s>, Error> {
        let Engine { requests, conversion, .. } = &mut self.engine;
        let Some(Conversion { types, .. }) = conversion else {
            return Err(Error::new(Operation::None, NO_TYPES));
        };
        // What messages hold is read off the requests, so that nothing need be counted when one is over.
        types.hold_only((0..requests.used_end()).filter_map(|index| requests.at(index)?.held()));
        Ok(types)
    }

    /// Sends elements of a datatype (MPI_Send, and MPI_Ssend and MPI_Rsend by the mode of `data`).
    ///
    /// # Errors
    /// As for [`send`](Self::send); [`Cause::TooBig`] if the memory does not reach as far as the data,
    /// [`Cause::Stale`] for a type that was freed, [`Cause::TooSmall`] if no types are attached.
    pub fn send_typed(&mut self, comm: &Comm, data: Typed<'_>, to: Rank, tag: Tag) -> Result<Status, Error> {
        self.forever().send_typed(comm, data, to, tag)
    }

    /// Receives elements of a datatype (MPI_Recv). How many there are, [`Types::count`] and [`Types::elements`] tell
    /// from the status' bytes.
    ///
    /// # Errors
    /// As for [`recv`](Self::recv) and [`send_typed`](Self::send_typed), [`Cause::SignatureMismatch`] and
    /// [`Cause::Corrupt`].
    pub fn recv_typed(
        &mut self,
        comm: &Comm,
        into: TypedMut<'_>,
        from: impl Into<Source>,
        tag: impl Into<TagMatch>,
    ) -> Result<Status, Error> {
        self.forever().recv_typed(comm, into, from, tag)
    }

    /// Sends and receives elements of datatypes at a time (MPI_Sendrecv).
    ///
    /// # Errors
    /// As for [`send_typed`](Self::send_typed) and [`recv_typed`](Self::recv_typed).
    #[expect(clippy::too_many_arguments, reason = "the arguments of MPI_Sendrecv")]
    pub fn sendrecv_typed(
        &mut self,
        comm: &Comm,
        data: Typed<'_>,
        to: Rank,
        tag: Tag,
        into: TypedMut<'_>,
        from: impl Into<Source>,
        from_tag: impl Into<TagMatch>,
    ) -> Result<Status, Error> {
        self.forever().sendrecv_typed(comm, data, to, tag, into, from, from_tag)
    }

    /// Starts a typed send. The caller answers for the memory: it stays readable until the request is complete or
    /// abandoned.
    fn start_send_typed(
        &mut self,
        comm: &Comm,
        data: &Typed<'_>,
        to: Rank,
        tag: Tag,
    ) -> Result<Started, Error> {
        let target = self.engine.target(comm, to, tag);
        let started = target.and_then(|target| self.engine.send_typed(target, data));
        let started = started.or_else(|cause| self.unless_null(Call::send(comm, to, tag), cause))?;
        self.engine.flush(&mut self.transport, BUDGET);
        Ok(started)
    }

    /// Starts a typed receive. The caller answers for the memory: nobody else touches it until the request is complete
    /// or abandoned.
    fn start_recv_typed(
        &mut self,
        comm: &Comm,
        into: &TypedMut<'_>,
        from: Source,
        tag: TagMatch,
    ) -> Result<Started, Error> {
        let pattern = self.pattern(comm, from, tag);
        let started = pattern.and_then(|(pattern, peer)| self.engine.receive_typed(pattern, peer, into));
        started.or_else(|cause| self.unless_null(Call::recv(Operation::Recv, comm, from, tag), cause))
    }
}

impl<T: Transport, P: Platform> Within<'_, '_, T, P> {
    /// See [`Endpoint::send_typed`].
    ///
    /// # Errors
    /// As there, and [`Cause::TimedOut`].
    pub fn send_typed(&mut self, comm: &Comm, data: Typed<'_>, to: Rank, tag: Tag) -> Result<Status, Error> {
        // Complete, or abandoned, when this returns: `data` is borrowed as long.
        let started = self.endpoint.start_send_typed(comm, &data, to, tag)?;
        self.finish(started)
    }

    /// See [`Endpoint::recv_typed`].
    ///
    /// # Errors
    /// As there, and [`Cause::TimedOut`].
    pub fn recv_typed(
        &mut self,
        comm: &Comm,
        into: TypedMut<'_>,
        from: impl Into<Source>,
        tag: impl Into<TagMatch>,
    ) -> Result<Status, Error> {
        let started = self.endpoint.start_recv_typed(comm, &into, from.into(), tag.into())?;
        self.finish(started)
    }

    /// See [`Endpoint::sendrecv_typed`].
    ///
    /// # Errors
    /// As there, and [`Cause::TimedOut`].
    #[expect(clippy::too_many_arguments, reason = "the arguments of MPI_Sendrecv")]
    pub fn sendrecv_typed(
        &mut self,
        comm: &Comm,
        data: Typed<'_>,
        to: Rank,
        tag: Tag,
        into: TypedMut<'_>,
        from: impl Into<Source>,
        from_tag: impl Into<TagMatch>,
    ) -> Result<Status, Error> {
        let receiving = self.endpoint.start_recv_typed(comm, &into, from.into(), from_tag.into());
        self.exchange(receiving, |within| within.endpoint.start_send_typed(comm, &data, to, tag))
    }
}

impl<'scope, 's, T: Transport, P: Platform> Scope<'scope, '_, 's, T, P> {
    /// Starts a send of elements of a datatype (MPI_Isend, and MPI_Issend and MPI_Irsend by the mode of `data`).
    ///
    /// # Errors
    /// As for [`isend`](Self::isend) and [`Endpoint::send_typed`].
    pub fn isend_typed(
        &mut self,
        comm: &Comm,
        data: Typed<'scope>,
        to: Rank,
        tag: Tag,
    ) -> Result<Request<'scope>, Error> {
        let started = self.within.endpoint.start_send_typed(comm, &data, to, tag)?;
        Ok(self.keep(started))
    }

    /// Starts a receive of elements of a datatype (MPI_Irecv).
    ///
    /// # Errors
    /// As for [`irecv`](Self::irecv) and [`Endpoint::recv_typed`].
    pub fn irecv_typed(
        &mut self,
        comm: &Comm,
        into: TypedMut<'scope>,
        from: impl Into<Source>,
        tag: impl Into<TagMatch>,
    ) -> Result<Request<'scope>, Error> {
        let started = self.within.endpoint.start_recv_typed(comm, &into, from.into(), tag.into())?;
        Ok(self.keep(started))
    }

    /// See [`Endpoint::types`].
    ///
    /// # Errors
    /// As there.
    pub fn types(&mut self) -> Result<&mut Types<'s>, Error> {
        self.within.endpoint.types()
    }
}

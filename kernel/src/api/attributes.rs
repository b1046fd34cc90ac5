//! Attributes: values that a program or library keeps with a communicator (MPI 4.1 section 7.7).
//!
//! A [`Keyval`] is a static of the owner of the values. It says what becomes of one when its
//! communicator is duplicated and when it is deleted: by name, by another value, or with its
//! communicator. The slots for attributes are lent, and shared by all communicators.
//!
//! ```
//! use aldis_kernel::{Attribute, Comm, Endpoint, Error, Keyval, hal::{Platform, Transport}};
//!
//! /// The colour of a library's communicators: duplicates have it too.
//! static COLOUR: Keyval = Keyval::new(Keyval::copied, Keyval::kept);
//!
//! fn paint<'s, T: Transport, P: Platform>(
//!     ep: &mut Endpoint<'s, T, P>,
//!     slots: &'s mut [Attribute; 4],
//!     comm: &Comm,
//! ) -> Result<(), Error> {
//!     ep.lend_attributes(slots)?;
//!     ep.comm_mut(comm).set_attribute(&COLOUR, 0xFF8000)?;
//!     assert_eq!(ep.comm(comm).attribute(&COLOUR)?, Some(0xFF8000));
//!     assert!(ep.comm(comm).attribute(&Keyval::TAG_UPPER_BOUND)? >= Some(32767));
//!     ep.comm_mut(comm).delete_attribute(&COLOUR)
//! }
//! ```

use aldis_hal::{Cause, Operation, Platform, Resource, Transport};

use crate::api::communicators::{CommMut, CommRef};
use crate::api::endpoint::Endpoint;
use crate::engine::state::Engine;
use crate::error::Error;
use crate::rank::{Tag, WILD};
use crate::tables::attribute::{Attribute, Keyval, KeyvalKind};
use crate::tables::comm::Comm;

impl<'s, T: Transport, P: Platform> Endpoint<'s, T, P> {
    /// Lends the slots that attributes are kept in; what is in them is forgotten.
    ///
    /// # Errors
    /// [`Cause::Busy`] if slots were lent already.
    pub fn lend_attributes(&mut self, slots: &'s mut [Attribute]) -> Result<(), Error> {
        if !self.engine.attributes.is_empty() {
            return Err(self.raised(Error::new(Operation::Group, Cause::Busy)));
        }
        slots.fill(Attribute::NONE);
        self.engine.attributes = slots;
        Ok(())
    }
}

impl CommRef<'_, '_> {
    /// The value of an attribute on this rank, if it has one (MPI_Comm_get_attr).
    ///
    /// # Errors
    /// [`Cause::Stale`] for a freed communicator.
    pub fn attribute(&self, key: &Keyval) -> Result<Option<u64>, Error> {
        self.engine.comms.check(&self.comm).map_err(|cause| about(&self.comm, cause))?;
        Ok(match key.0 {
            KeyvalKind::User { .. } => {
                self.engine.attributes.iter().find(|slot| slot.is(&self.comm, key)).map(|slot| slot.value)
            }
            KeyvalKind::TagUpperBound => Some(Tag::MAX.0.into()),
            KeyvalKind::UniverseSize => Some(self.engine.size.into()),
            KeyvalKind::ClockIsGlobal => Some(0),
        })
    }
}

impl<T: Transport, P: Platform> CommMut<'_, '_, T, P> {
    /// Gives the communicator an attribute on this rank (MPI_Comm_set_attr). A value that it has is
    /// deleted first.
    ///
    /// # Errors
    /// [`Cause::Stale`] for a freed communicator, [`Cause::Full`] without a free slot,
    /// [`Cause::Predefined`] for a key that is.
    pub fn set_attribute(&mut self, key: &'static Keyval, value: u64) -> Result<(), Error> {
        let (engine, comm) = (&mut self.endpoint.engine, self.comm);
        let set = engine.comms.check(&comm).and_then(|()| engine.set_attribute(&comm, key, value));
        set.map_err(|cause| self.endpoint.raised(about(&comm, cause)))
    }

    /// Deletes an attribute on this rank, if the communicator has it (MPI_Comm_delete_attr).
    ///
    /// # Errors
    /// [`Cause::Stale`] for a freed communicator, [`Cause::Predefined`] for a key that is.
    pub fn delete_attribute(&mut self, key: &Keyval) -> Result<(), Error> {
        let (engine, comm) = (&mut self.endpoint.engine, self.comm);
        let deleted = engine.comms.check(&comm).and_then(|()| match key.0 {
            KeyvalKind::User { .. } => {
                engine.delete_attributes(&comm, Some(key));
                Ok(())
            }
            _ => Err(Cause::Predefined),
        });
        deleted.map_err(|cause| self.endpoint.raised(about(&comm, cause)))
    }
}

fn about(comm: &Comm, cause: Cause) -> Error {
    Error::about(Operation::Group, cause, WILD, comm.context(), WILD)
}

impl Engine<'_> {
    pub(crate) fn set_attribute(
        &mut self,
        comm: &Comm,
        key: &'static Keyval,
        value: u64,
    ) -> Result<(), Cause> {
        let KeyvalKind::User { .. } = key.0 else { return Err(Cause::Predefined) };
        self.delete_attributes(comm, Some(key));
        let slot = self.attributes.iter_mut().find(|slot| slot.key.is_none());
        let slot = slot.ok_or(Cause::Full(Resource::Attributes))?;
        *slot = Attribute { comm: comm.user().context(), key: Some(key), value };
        Ok(())
    }

    /// Deletes a communicator's attribute, or all of them: the last one set first (MPI 4.1
    /// section 11.2.4 asks for that of self). Bounded by the square of the slots.
    pub(crate) fn delete_attributes(&mut self, comm: &Comm, key: Option<&Keyval>) {
        let is_meant = |slot: &Attribute| slot.is_of(comm) && key.is_none_or(|key| slot.is(comm, key));
        while let Some(index) = self.attributes.iter().rposition(is_meant) {
            // Those behind it move up, so that slots stay in the order in which they were set.
            let Some(rest) = self.attributes.get_mut(index..) else { return };
            let Some(Attribute { key: Some(key), value, .. }) = rest.first().copied() else { return };
            rest.rotate_left(1);
            if let Some(last) = rest.last_mut() {
                *last = Attribute::NONE;
            }
            if let KeyvalKind::User { delete, .. } = key.0 {
                delete(comm, value);
            }
        }
    }
}

//! The service door for libraries of collectives, which make calls of their own out of the
//! kernel's: `aldis-coll`, and the C interface of MPI. A program that sends and receives needs none
//! of it.
//!
//! Such a library may rely on this:
//!
//! - **Numbers and tags.** Messages on a communicator's collective plane
//!   ([`Comm::collective`]) never meet those of users. The numbers given out for a communicator's
//!   collectives are the same on all its ranks, as long as all make the same calls in one order.
//! - **Errors.** A call that fails with [`Failed`] has left its error in the endpoint, until the
//!   next failure there: [`failure`](ScopePlane::failure). Nothing here raises an error by itself
//!   but what says so; a library [raises](ScopePlane::raise) each error once, before it returns it.
//! - **Communicators.** A communicator exists here from [`install`](EndpointPlane::install) to
//!   [`release`](EndpointPlane::release) or [`discard`](EndpointPlane::discard). That all members
//!   put it into the same slot, with the same generation and the same members, before any of them
//!   uses it, is for the library to see to, by [offers](EndpointPlane::context_offer) and turns. If
//!   they do not, messages go astray, but memory is safe: [`ControlSlots`] are there only for those
//!   who name the same members.
//! - **Memory.** Memory that is lent to a scope is given back when the scope ends, whatever a
//!   library does. [`combine`](ScopePlane::combine) works on what no request is using.
//! - **Control slots.** [`ControlSlots`] are there for a communicator on all its ranks or on none.
//!   Their order is the library's: who begins a collective by them ends it by them.
//! - **Progress.** Nothing here blocks but the functions whose names end in `until`, which poll.
//!
//! The traits are sealed: only [`Endpoint`] and [`Scope`] have them, and they may grow.

mod endpoint;
mod scope;

#[cfg(doc)]
use crate::api::control_slots::ControlSlots;
#[cfg(doc)]
use crate::api::endpoint::Endpoint;
#[cfg(doc)]
use crate::api::scope::Scope;
#[cfg(doc)]
use crate::error::Failed;
#[cfg(doc)]
use crate::tables::comm::Comm;

pub use self::endpoint::EndpointPlane;
pub use self::scope::ScopePlane;
pub use crate::engine::state::Started;

/// All of the service door, to be imported at once.
pub mod prelude {
    pub use super::{EndpointPlane, ScopePlane};
    pub use crate::api::{
        static_scope::StaticRequests,
        tuning::{EndpointTuning, ScopeTuning},
        unexpected::{EndpointCalls, ScopeCalls},
    };
}

//! Diagnostics: a look at the tables of an endpoint, for status displays, for reports on a job that
//! gets no further, and for checks that nothing is left over or lost.
//!
//! ```
//! # use aldis_kernel::{Endpoint, hal::{PeerId, Platform, Transport}};
//! fn report<T: Transport, P: Platform>(endpoint: &Endpoint<'_, T, P>, peer: PeerId) {
//!     let diagnostics = endpoint.diagnostics();
//!     let (posted, unexpected) = diagnostics.queue_depths();
//!     println!("{posted} receives posted, {unexpected} messages unexpected");
//!     diagnostics.pending(|request| println!("{request}"));
//!     if let Some(credits) = diagnostics.credits(peer) {
//!         println!("envelopes: {}", credits.envelopes);
//!     }
//! }
//! ```

use aldis_hal::{Platform, Transport};

use crate::api::endpoint::Endpoint;
use crate::api::scope::Scope;
use crate::engine::state::Engine;

/// The tables of an endpoint at this moment: see [`Endpoint::diagnostics`].
#[derive(Clone, Copy)]
pub struct Diagnostics<'e, 's> {
    pub(crate) engine: &'e Engine<'s>,
}

impl<'s, T, P> Endpoint<'s, T, P> {
    /// The queues, requests and credits of this moment. What has happened so far,
    /// [`counters`](Self::counters) tells.
    pub const fn diagnostics(&self) -> Diagnostics<'_, 's> {
        Diagnostics { engine: &self.engine }
    }
}

impl<'s, T: Transport, P: Platform> Scope<'_, '_, 's, T, P> {
    /// See [`Endpoint::diagnostics`].
    pub const fn diagnostics(&self) -> Diagnostics<'_, 's> {
        self.within.endpoint.diagnostics()
    }
}

impl Diagnostics<'_, '_> {
    /// Receives posted and messages unexpected; those matched by a probe and not received yet count
    /// too.
    pub fn queue_depths(&self) -> (u32, u32) {
        (self.engine.matcher.posted(), self.engine.matcher.unexpected())
    }

    /// Request slots in use: by operations that are not over, by results that have not been taken,
    /// and by those whose owner has let go and of which a peer must still be notified.
    pub const fn requests_in_use(&self) -> u32 {
        self.engine.requests.in_use()
    }
}

//! This module holds `unsafe` code: the constructor of scopes that no call ends, and a way past
//! them to their endpoint.
//!
//! A scope for as long as the process: for those who offer an interface of handles, as that of C,
//! whose nonblocking requests live from call to call. What is lent to it is lent for `'static`, so
//! nothing is wrong if it never ends.

use aldis_hal::{Instant, Platform, Transport};

use crate::api::endpoint::Endpoint;
use crate::api::poll_rounds::Within;
use crate::api::scope::Scope;

impl<'s, T: Transport, P: Platform> Scope<'static, 'static, 's, T, P> {
    /// A scope without an end on an endpoint that is there for good.
    ///
    /// # Safety
    /// A [`Request`](crate::Request), [`LentMut`](crate::LentMut) or [`Lent`](crate::Lent) of this
    /// scope is given to no other scope: their types do not tell scopes apart that last for ever.
    pub unsafe fn static_scope(endpoint: &'static mut Endpoint<'s, T, P>) -> Self {
        Self::on(Within { endpoint, start: None, deadline: Instant::NEVER })
    }

    /// The endpoint, for blocking calls between the nonblocking ones. Requests that were
    /// [detached](Self::detach) from this scope are waited for by the next blocking call that uses
    /// one of its own.
    ///
    /// # Safety
    /// The endpoint is not replaced by another.
    pub const unsafe fn endpoint(&mut self) -> &mut Endpoint<'s, T, P> {
        self.within.endpoint
    }
}

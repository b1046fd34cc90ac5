//! This module holds `unsafe` code: the constructor of scopes that no call ends, and a way past
//! them to their endpoint.
//!
//! A scope for as long as the process: for those who offer an interface of handles, as that of C,
//! whose nonblocking requests live from call to call. What is lent to it is lent for `'static`, so
//! nothing is wrong if it never ends.

use aldis_hal::{Handle, Instant, Platform, Transport};

use crate::api::endpoint::Endpoint;
use crate::api::poll_rounds::Within;
use crate::api::scope::sealed::Sealed;
use crate::api::scope::{Request, Scope, Stage};
use crate::engine::state::Started;
use crate::error::Failed;
use crate::rank::Status;
use crate::tables::request::State;

impl<'s, T: Transport, P: Platform> Scope<'static, 'static, 's, T, P> {
    /// A scope without an end on an endpoint that is there for good.
    ///
    /// # Safety
    /// A [`Request`], [`LentMut`](crate::LentMut) or [`Lent`](crate::Lent) of this
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

/// The requests of a scope without an end, for an interface that keeps nothing of a message but the
/// handle of its request: the number of a slot, and its generation.
pub trait StaticRequests: Sealed {
    /// Returns the handle of a request that has just been started, or its status if it was over at
    /// once.
    fn started(request: Request<'static>) -> Started;

    /// Makes the request of a handle again. One whose result has been taken is stale, and its calls
    /// fail.
    ///
    /// # Safety
    /// [`started`](Self::started) of this scope gave the handle.
    unsafe fn request_of(&self, handle: Handle) -> Request<'static>;

    /// Returns true if no result of the request is waited for: it is there, or has been taken.
    fn is_over(&mut self, request: &Request<'static>) -> bool;

    /// Returns true if the handle's result has not been taken.
    fn is_live(&mut self, handle: Handle) -> bool;

    /// Takes the result of a request that is over, and well; `None` if it is not, and nothing has
    /// changed.
    fn take_if_well(&mut self, request: &mut Request<'static>) -> Option<Status>;

    /// Polls and rests until the request is over, and leaves its result there.
    fn drive(&mut self, request: &Request<'static>);

    /// Returns the result of a request that is over, which stays; the error is kept.
    fn look(&mut self, request: &Request<'static>) -> Option<Result<Status, Failed>>;

    /// Cancels a request like [`recall`](crate::plane::ScopePlane::recall), but leaves the result
    /// there.
    fn stop(&mut self, request: &Request<'static>);
}

impl<T: Transport, P: Platform> StaticRequests for Scope<'static, '_, '_, T, P> {
    #[inline(always)]
    fn started(request: Request<'static>) -> Started {
        match request.stage {
            Stage::Pending(handle) | Stage::Idle(handle) | Stage::Started(handle) => Started::Pending(handle),
            Stage::Done(status) => Started::Done(status),
            Stage::Null => Started::Done(Status::NULL),
        }
    }

    #[inline(always)]
    unsafe fn request_of(&self, handle: Handle) -> Request<'static> {
        Request::new(Stage::Pending(handle))
    }

    #[inline(always)]
    fn is_over(&mut self, request: &Request<'static>) -> bool {
        self.is_over(request)
    }

    #[inline]
    fn is_live(&mut self, handle: Handle) -> bool {
        self.requests().get(handle).is_some()
    }

    #[inline(always)]
    fn take_if_well(&mut self, request: &mut Request<'static>) -> Option<Status> {
        self.try_complete(request)
    }

    #[inline]
    fn drive(&mut self, request: &Request<'static>) {
        if let Stage::Pending(handle) | Stage::Started(handle) = request.stage
            && let Some(rounds) = self.within.look_for(handle)
        {
            // The scope has no deadline that could be missed.
            let _ = self.within.wait_until_complete(rounds, handle);
        }
    }

    fn look(&mut self, request: &Request<'static>) -> Option<Result<Status, Failed>> {
        let (Stage::Pending(handle) | Stage::Started(handle)) = request.stage else { return None };
        let engine = &mut self.within.endpoint.engine;
        let slot = engine.requests.get(handle).filter(|slot| slot.state == State::Complete)?;
        Some(slot.result(&mut engine.failure))
    }

    fn stop(&mut self, request: &Request<'static>) {
        if let Stage::Pending(handle) = request.stage {
            // As one that is persistent, whose result is left to its owner.
            self.recall(&mut Request::new(Stage::Started(handle)));
        }
    }
}

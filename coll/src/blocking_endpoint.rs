//! Endpoints that blocking collectives are called on, with or without a deadline.

use aldis_kernel::hal::{Platform, Transport};
use aldis_kernel::plane::EndpointPlane;
use aldis_kernel::{Endpoint, Failure, Scope, Within};

/// An endpoint that blocking collectives are called on: an [`Endpoint`], or one [`Within`] a
/// deadline.
pub trait BlockingEndpoint<'s, T: Transport, P: Platform> {
    /// The endpoint, for what is done without waiting.
    fn endpoint(&mut self) -> &mut Endpoint<'s, T, P>;

    /// Runs `body` in a scope.
    ///
    /// # Errors
    /// The error of `body`, or the first failure of a request that it did not wait for, as
    /// [`Endpoint::scope`].
    fn enter<'env, R, E: Failure>(
        &'env mut self,
        body: impl for<'scope> FnOnce(&mut Scope<'scope, 'env, 's, T, P>) -> Result<R, E>,
    ) -> Result<R, E>;
}

impl<'s, T: Transport, P: Platform> BlockingEndpoint<'s, T, P> for Endpoint<'s, T, P> {
    fn endpoint(&mut self) -> &mut Self {
        self
    }

    fn enter<'env, R, E: Failure>(
        &'env mut self,
        body: impl for<'scope> FnOnce(&mut Scope<'scope, 'env, 's, T, P>) -> Result<R, E>,
    ) -> Result<R, E> {
        EndpointPlane::enter(self, body)
    }
}

impl<'s, T: Transport, P: Platform> BlockingEndpoint<'s, T, P> for Within<'_, 's, T, P> {
    fn endpoint(&mut self) -> &mut Endpoint<'s, T, P> {
        self.endpoint()
    }

    fn enter<'env, R, E: Failure>(
        &'env mut self,
        body: impl for<'scope> FnOnce(&mut Scope<'scope, 'env, 's, T, P>) -> Result<R, E>,
    ) -> Result<R, E> {
        self.enter(body)
    }
}

//! This module holds `unsafe` code: the scope of the process lasts as long as the process.
//!
//! The endpoint's scope for as long as the process.

use aldis_kernel::Scope;
use aldis_linux::platform::HostPlatform;
use aldis_linux::{HostEndpoint, HostTransport};

/// The scope of the process, which lends memory of any lifetime.
pub(crate) type StaticScope = Scope<'static, 'static, 'static, HostTransport, HostPlatform>;

/// The one scope of the process.
///
/// # Safety
/// There is no other endpoint in the process, now or later.
pub(crate) unsafe fn create(endpoint: HostEndpoint) -> StaticScope {
    // SAFETY: there is one endpoint in the process, so there is no other scope.
    unsafe { Scope::static_scope(Box::leak(Box::new(endpoint))) }
}

/// Its endpoint.
pub(crate) fn endpoint(scope: &mut StaticScope) -> &mut HostEndpoint {
    // SAFETY: there is no other endpoint to put in its place, as `create` was promised.
    unsafe { scope.endpoint() }
}

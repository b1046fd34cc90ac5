//! Operations of several messages, as futures that are driven while other things go on: the making
//! of communicators, the flushing of buffers.

use core::cell::Cell;
use core::future::{Future, poll_fn};
use core::pin::Pin;
use core::task::Poll;
use std::rc::Rc;

use crate::abi::{Handle, MPI_ERR_INTERN};
use crate::fault::CallFault;
use crate::requests;

/// The rest of an operation of several messages, with all that is to be done with its result.
pub(crate) type OperationFuture = Pin<Box<dyn Future<Output = Result<(), CallFault>>>>;

/// Begins it: it has its place among the collectives when this returns.
pub(crate) fn begin(
    comm: Handle,
    work: impl Future<Output = Result<(), CallFault>> + 'static,
) -> Result<Handle, CallFault> {
    requests::of_future(comm, Box::pin(work))
}

/// Carries it out.
pub(crate) fn complete<R: 'static>(
    comm: Handle,
    work: impl Future<Output = Result<R, CallFault>> + 'static,
) -> Result<R, CallFault> {
    let result = Rc::new(Cell::new(None));
    let place = Rc::clone(&result);
    let request = begin(comm, async move {
        place.set(Some(work.await?));
        Ok(())
    })?;
    requests::wait(request)?;
    result
        .take()
        .ok_or_else(|| CallFault::new(MPI_ERR_INTERN, "a communicator that is made and is not there"))
}

/// Waits until something is so.
pub(crate) async fn until(mut is_so: impl FnMut() -> Result<bool, CallFault>) -> Result<(), CallFault> {
    poll_fn(|_| match is_so() {
        Ok(false) => Poll::Pending,
        Ok(true) => Poll::Ready(Ok(())),
        Err(fault) => Poll::Ready(Err(fault)),
    })
    .await
}

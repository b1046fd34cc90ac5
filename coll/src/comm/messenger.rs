//! The endpoint and the messages of a call that makes a communicator, whether it blocks or is a
//! future.

use core::future::{Future, poll_fn};
use core::ops::DerefMut;
use core::pin::pin;
use core::task::{Context, Poll, Waker};
use core::time::Duration;

use aldis_kernel::hal::{Activity, Cause, Operation, PeerId, Platform, Transport};
use aldis_kernel::plane::prelude::*;
use aldis_kernel::{Comm, Endpoint, Error, Rank, Status, Tag};

use crate::blocking_endpoint::BlockingEndpoint;

/// The longest time that a rank which has failed waits until its notices have been sent: a rank
/// that takes none has failed as well.
const NOTICE_MAX: Duration = Duration::from_millis(10);

/// Bytes of the message by which a rank that has failed alone notifies the ranks that would wait
/// for it.
pub const NOTICE_BYTES: usize = 5;

/// Two messages: one to a rank, and one from a rank.
#[derive(Clone, Copy, Debug)]
pub struct MessagePair {
    /// The operation that it is a part of.
    pub operation: Operation,
    /// The communicator on which both are sent.
    pub comm: Comm,
    /// The tag of both.
    pub tag: Tag,
    /// The receiver of the first: no rank if that is [`Rank::NULL`].
    pub to: Rank,
    /// The sender of the second: no rank if that is [`Rank::NULL`].
    pub from: Rank,
    /// The tag of a message of [`NOTICE_BYTES`] that comes from `to` instead of its receive, if it
    /// has failed.
    pub refusal: Tag,
}

/// A maker of communicators for callers that do other things meanwhile: it has the endpoint between
/// two waits, and exchanges messages by futures that wait. Blocking calls are the same futures,
/// with exchanges that block.
///
/// A future that makes a communicator takes its place in the order of the collective calls when it
/// is polled first. It is to be driven to its end: one that is dropped before leaves its ranks
/// waiting, and may have this process make no other communicator.
pub trait Messenger<'s, T: Transport, P: Platform> {
    /// Returns true if exchanges are futures that wait. If they block, others cannot go on
    /// meanwhile: a call that has to let another one of this process go first fails with
    /// [`Cause::Busy`].
    fn waits(&self) -> bool {
        true
    }

    /// By which the endpoint is had.
    type Guard<'g>: DerefMut<Target = Endpoint<'s, T, P>>
    where
        Self: 'g,
        's: 'g,
        T: 'g,
        P: 'g;

    /// The endpoint, for what is done without waiting. Not kept until the next exchange.
    fn endpoint<'g>(&'g mut self) -> Self::Guard<'g>
    where
        's: 'g,
        T: 'g,
        P: 'g;

    /// Sends `mine` and receives `theirs`. Over when both are done; or, if the receiver of `mine`
    /// has not taken them when `theirs` are there, when its refusal has come into `refused`, and
    /// that is [`Cause::Declined`].
    ///
    /// # Errors
    /// The errors of sends and receives, and [`Cause::Declined`] once the refusal of the receiver
    /// of `mine` has come.
    fn exchange(
        &mut self,
        exchange: &MessagePair,
        mine: &[u8],
        theirs: &mut [u8],
        refused: &mut [u8; NOTICE_BYTES],
    ) -> impl Future<Output = Result<Status, Error>>;

    /// Sends a notice to ranks, to each by a tag, as far as that goes without long waits.
    fn notify(&mut self, comm: &Comm, notice: [u8; NOTICE_BYTES], ranks: [(Rank, Tag); 2]);
}

/// A [`BlockingEndpoint`] as a messenger.
pub(super) struct Blocking<'c, C>(pub(super) &'c mut C);

impl<'s, T: Transport, P: Platform, C: BlockingEndpoint<'s, T, P>> Messenger<'s, T, P> for Blocking<'_, C> {
    fn waits(&self) -> bool {
        false
    }

    type Guard<'g>
        = &'g mut Endpoint<'s, T, P>
    where
        Self: 'g,
        's: 'g,
        T: 'g,
        P: 'g;

    fn endpoint<'g>(&'g mut self) -> &'g mut Endpoint<'s, T, P>
    where
        's: 'g,
        T: 'g,
        P: 'g,
    {
        self.0.endpoint()
    }

    /// Blocks: the future is over when it is polled first.
    async fn exchange(
        &mut self,
        &MessagePair { operation, comm, tag, to, from, refusal }: &MessagePair,
        mine: &[u8],
        theirs: &mut [u8],
        refused: &mut [u8; NOTICE_BYTES],
    ) -> Result<Status, Error> {
        self.0.enter(|scope| {
            let receiving = scope.irecv(&comm, theirs, from, tag)?;
            let mut sending = scope.isend(&comm, mine, to, tag)?;
            let received = scope.wait(receiving)?;
            if scope.test(&mut sending)?.is_some() {
                return Ok(received);
            }
            // It must be matched first: perhaps it never will.
            let mut refused = scope.irecv(&comm, refused, to, refusal)?;
            let (peer, number) = (Some(PeerId(to.0)), Some(tag.0));
            let (context, bytes) = (comm.context(), mine.len() as u64);
            let activity = Activity { operation, peer, tag: number, context, bytes };
            let is_sent = scope.wait_until(activity, |scope| match scope.result(&mut sending)? {
                None => Ok(scope.result(&mut refused)?.map(|_| false)),
                Some(_) => Ok(Some(true)),
            })?;
            scope.cancel(&mut refused);
            // By an error the scope lets go of the message.
            if is_sent { Ok(received) } else { Err(Error::new(operation, Cause::Declined)) }
        })
    }

    fn notify(&mut self, comm: &Comm, notice: [u8; NOTICE_BYTES], ranks: [(Rank, Tag); 2]) {
        let _ = self.0.endpoint().within(NOTICE_MAX).enter(|scope| {
            for (rank, tag) in ranks {
                // A dead rank needs no notice. The scope's end waits for both.
                let _ = scope.isend(comm, &notice, rank, tag);
            }
            Ok::<_, Error>(())
        });
    }
}

/// Lets other waiting futures go on, once.
pub(super) async fn rest() {
    let mut is_rested = false;
    poll_fn(|context| {
        if core::mem::replace(&mut is_rested, true) {
            return Poll::Ready(());
        }
        context.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}

/// Returns the output of a future whose exchanges block.
pub(super) fn now<R>(work: impl Future<Output = R>) -> R {
    let (mut work, mut context) = (pin!(work), Context::from_waker(Waker::noop()));
    loop {
        if let Poll::Ready(result) = work.as_mut().poll(&mut context) {
            return result;
        }
    }
}

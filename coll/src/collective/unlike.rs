//! Detection of unlike calls: ranks find out that they have made them.
//!
//! All ranks of a communicator make the same collective calls in the same order, so they number
//! them alike. A message's [tag] has that number and, above it, the root and the operation: a
//! message of another call with the same number meets no receive. Who waits in vain looks for such
//! messages now and then and at the deadline, and once more when a collective ends, also for what
//! was left of the one before, as a root is done when it has sent.
//!
//! Counts and types of unlike lengths are found by the lengths of messages
//! ([`Cause::UnlikeLength`]). What cannot be seen: element types of one length; algorithms and
//! segments that differ, if ranks give unlike options; a call that makes this rank wait for nothing
//! and is the last one; in a collective over two groups, what comes from the own one. A deadline
//! names who is missing.
//!
//! **No false alarm.** A rank is never half a round of numbers ahead of another, as those messages
//! of it that have met no receive take envelopes. When a collective is over here, all that others
//! send to this rank for it has come. So only one that is under way here during half a round of
//! numbers could be taken for a later one, and then nothing is compared. Persistent collectives
//! keep their numbers, and are compared while these are new.

use aldis_kernel::hal::{Cause, Operation, Platform, Transport};
use aldis_kernel::plane::prelude::*;
use aldis_kernel::{Error, Failed, Scope, Tag};

use super::{Collective, Progress};
use crate::tag;

/// Turns in vain between two looks for messages of unlike calls: microseconds of polls.
const LOOKS: u32 = 64;

/// Messages that are looked at when a collective ends, the newest ones.
const AT_END: u64 = 16;

/// The state of a collective that looks out for unlike calls.
#[derive(Clone, Copy, Default)]
pub(super) struct Watch {
    /// True once the collective has begun, until it has ended.
    is_open: bool,
    /// The tag of the one that began before it on the communicator.
    before: Option<Tag>,
    /// Turns in vain.
    looks: u32,
    /// Messages that had met no receive at the last look.
    seen: u64,
}

impl Watch {
    /// Opens the watch as a collective begins, after the one that has this tag.
    #[inline]
    pub(super) const fn opened(before: Option<Tag>) -> Self {
        Self { is_open: true, before, looks: 0, seen: 0 }
    }
}

/// Returns the own operation and what is wrong with calls that have these tags, on a communicator
/// of so many ranks.
pub(crate) fn cause(own: Tag, theirs: Tag, ranks: u32) -> Option<(Operation, Cause)> {
    let ((own, own_root), (theirs, their_root)) = (tag::call(own)?, tag::call(theirs)?);
    let is_exact = ranks <= tag::ROOTS;
    Some((own, Cause::UnlikeCall { own, own_root, theirs, their_root, is_exact }))
}

impl<'scope> Collective<'scope> {
    /// Looks out for unlike calls, after one turn.
    #[inline]
    pub(super) fn watch_out<T: Transport, P: Platform>(
        &mut self,
        scope: &mut Scope<'scope, '_, '_, T, P>,
        progress: Progress,
    ) -> Progress {
        let progress = match progress {
            Progress::Waiting => {
                self.watch.looks = self.watch.looks.wrapping_add(1);
                if self.watch.looks.is_multiple_of(LOOKS) {
                    self.look(scope, progress, u64::MAX)
                } else {
                    progress
                }
            }
            Progress::Done if self.watch.is_open && scope.has_unexpected_calls() => {
                self.look(scope, progress, AT_END)
            }
            // The other rank got its error first, and has taken back what was still to come.
            Progress::Failed if self.watch.is_open && self.error.cause == Cause::Withdrawn => {
                self.look(scope, progress, AT_END)
            }
            _ => progress,
        };
        if self.watch.is_open && matches!(progress, Progress::Done | Progress::Failed) {
            self.close(scope);
        }
        progress
    }

    /// The deadline has ended the wait for it, which may have had few turns: looks once more.
    #[cold]
    pub(super) fn look_at_the_deadline<T: Transport, P: Platform>(
        &mut self,
        scope: &mut Scope<'scope, '_, '_, T, P>,
        failed: Failed,
    ) -> Failed {
        let is_overdue = self.watch.is_open && scope.failure().cause == Cause::TimedOut;
        if !is_overdue || self.look_at(scope, u64::MAX).is_none() {
            return failed;
        }
        self.fail(scope);
        self.close(scope);
        scope.keep_failure(&self.error)
    }

    /// Closes the watch as the collective ends.
    #[inline]
    pub(super) fn close<T: Transport, P: Platform>(&mut self, scope: &mut Scope<'scope, '_, '_, T, P>) {
        self.watch.is_open = false;
        if !tag::is_persistent(self.tag) {
            scope.end_call(&self.comm);
        }
    }

    /// Looks at what has come and met no receive since the last look, the newest `most` messages of
    /// it.
    #[inline(never)]
    fn look<T: Transport, P: Platform>(
        &mut self,
        scope: &mut Scope<'scope, '_, '_, T, P>,
        progress: Progress,
        most: u64,
    ) -> Progress {
        let count = scope.unexpected_count();
        let new = count.wrapping_sub(core::mem::replace(&mut self.watch.seen, count)).min(most);
        if new == 0 || !scope.has_unexpected_calls() {
            return progress;
        }
        if self.look_at(scope, new).is_none() {
            return progress;
        }
        self.fail(scope);
        Progress::Failed
    }

    /// Looks for a call unlike this one or the one before among the newest messages, and sets the
    /// error if there is one.
    fn look_at<T: Transport, P: Platform>(
        &mut self,
        scope: &mut Scope<'scope, '_, '_, T, P>,
        newest: u64,
    ) -> Option<()> {
        let own = [Some(self.tag), self.watch.before];
        let unlike = |theirs: Tag| own.into_iter().flatten().find(|own| tag::are_unlike(*own, theirs));
        let (rank, theirs) =
            scope.newest_unexpected(&self.comm, newest, |_, theirs| unlike(theirs).is_some())?;
        let own = unlike(theirs)?;
        let ranks = self.comm.size().max(self.comm.remote_size());
        let (operation, cause) = cause(own, theirs, ranks)?;
        self.error = Error::new(operation, cause).with(rank, self.comm.context(), own);
        scope.raise(&self.error);
        Some(())
    }
}

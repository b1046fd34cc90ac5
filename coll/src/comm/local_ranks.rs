//! Agreement of ranks that have no communicator of their own yet.

use aldis_kernel::hal::{Cause, Operation, Platform, Transport};
use aldis_kernel::plane::prelude::*;
use aldis_kernel::{Comm, Error, Group, Rank, Tag};
use zerocopy::IntoBytes;

use super::messenger::{MessagePair, Messenger, NOTICE_BYTES};
use super::participants::{Objection, Participants};
use crate::op::Element;
use crate::tag;

/// The ranks that an exchange is with.
#[derive(Clone, Copy, Debug)]
pub(super) struct ExchangeRanks {
    pub(super) to: Rank,
    pub(super) from: Rank,
}

impl ExchangeRanks {
    /// An exchange with one rank.
    pub(super) const fn both(rank: Rank) -> Self {
        Self { to: rank, from: rank }
    }
}

/// The communicator and tag by which the messages of a call are known.
#[derive(Clone, Copy, Debug)]
pub(super) struct CallTag {
    /// The communicator, on the plane of collectives.
    pub(super) comm: Comm,
    pub(super) tag: Tag,
    pub(super) operation: Operation,
    /// The context in which notices name ranks.
    pub(super) name_context: u32,
}

impl CallTag {
    pub(super) const fn new(comm: &Comm, tag: Tag, operation: Operation) -> Self {
        let comm = comm.collective();
        Self { comm, tag, operation, name_context: comm.context() }
    }

    /// Refuses to work with a rank of the other byte order.
    fn check_alike(&self, unlike: Option<Rank>) -> Result<(), Error> {
        let refused =
            |rank| Error::new(self.operation, Cause::UnlikeOrder).with(rank, self.comm.context(), self.tag);
        unlike.map_or(Ok(()), |rank| Err(refused(rank)))
    }

    /// Sends to one rank and receives from one, as many bytes as there is room for.
    pub(super) async fn exchange<'s, E: Element, T: Transport, P: Platform>(
        &self,
        messenger: &mut impl Messenger<'s, T, P>,
        ExchangeRanks { to, from }: ExchangeRanks,
        mine: &[E],
        theirs: &mut [E],
    ) -> Result<(), Error> {
        let (right, mut refused) = (size_of_val(theirs) as u64, [0; NOTICE_BYTES]);
        let &Self { comm, tag, operation, .. } = self;
        let both = MessagePair { operation, comm, tag, to, from, refusal: tag::refusal(tag) };
        let exchanged = messenger.exchange(&both, mine.as_bytes(), theirs.as_mut_bytes(), &mut refused).await;
        if let objection @ Objection { code: 1.., name } = Objection::from_notice(refused) {
            return Err(self.raise(messenger, self.error_of(objection.cause(), name)));
        }
        let cause = match exchanged {
            Ok(status) if status.bytes == right => return Ok(()),
            Ok(status) if status.bytes == NOTICE_BYTES as u64 => {
                let notice = theirs.as_bytes().first_chunk().copied().unwrap_or_default();
                let objection = Objection::from_notice(notice);
                return Err(self.raise(messenger, self.error_of(objection.cause(), objection.name)));
            }
            Err(Error { cause: Cause::Truncated { sent, .. }, .. }) if sent == NOTICE_BYTES as u64 => {
                Cause::Declined
            }
            Ok(status) => Cause::LengthMismatch { left: status.bytes, right },
            Err(error) => return Err(error.within(self.operation)),
        };
        let error = Error::new(self.operation, cause).with(from, self.comm.context(), self.tag);
        Err(self.raise(messenger, error))
    }

    /// Returns an error that the kernel knows nothing of, after what the communicator's policy asks
    /// for.
    #[cold]
    fn raise<'s, T: Transport, P: Platform>(
        &self,
        messenger: &mut impl Messenger<'s, T, P>,
        error: Error,
    ) -> Error {
        let mut placed = error;
        placed.context = self.comm.context();
        messenger.endpoint().raise(&placed);
        error
    }

    /// Sends a notice that this rank has failed to the two ranks of an exchange: one would wait for
    /// messages of this one, and one until this one takes its messages.
    #[cold]
    pub(super) fn warn<'s, T: Transport, P: Platform>(
        &self,
        messenger: &mut impl Messenger<'s, T, P>,
        objection: Objection,
        ExchangeRanks { to, from }: ExchangeRanks,
    ) {
        let ranks = [(to, self.tag), (from, tag::refusal(self.tag))];
        messenger.notify(&self.comm, objection.notice(), ranks);
    }

    /// A failure that the rank of this name is the reason of.
    pub(super) const fn error_of(&self, cause: Cause, name: u32) -> Error {
        Error::new(self.operation, cause).with(Rank(name), self.name_context, Tag::NONE)
    }
}

/// Ranks that take part in a call, on the collective plane of a communicator that all of them are
/// in.
#[derive(Clone, Copy, Debug)]
pub(super) struct LocalRanks<'g> {
    call: CallTag,
    me: u32,
    size: u32,
    /// The group of these ranks, if they are not all ranks of the communicator.
    group: Option<Group<'g>>,
}

impl<'g> LocalRanks<'g> {
    /// All ranks of a communicator.
    pub(super) fn of_all<'s, T: Transport, P: Platform>(
        messenger: &mut impl Messenger<'s, T, P>,
        comm: &Comm,
        operation: Operation,
    ) -> Result<Self, Error> {
        let tag = messenger
            .endpoint()
            .enter(|scope| scope.collective_tag(comm))
            .map_err(|error| error.within(operation))?;
        let call = CallTag::new(comm, tag::of_call(tag, operation, 0), operation);
        call.check_alike(messenger.endpoint().unlike(comm))?;
        Ok(Self { call, me: comm.rank().0, size: comm.size(), group: None })
    }

    /// The members of a group, which this process is in and which are all in the communicator. The
    /// tag tells calls apart that are under way at a time.
    pub(super) fn of_group<'s, T: Transport, P: Platform>(
        messenger: &mut impl Messenger<'s, T, P>,
        comm: &Comm,
        group: &Group<'g>,
        tag: Tag,
        operation: Operation,
    ) -> Result<Self, Error> {
        let refused = |cause| Error::new(operation, cause);
        let tag = tag::of_user(tag).map_err(refused)?;
        if comm.is_inter() {
            return Err(refused(Cause::Intercommunicator));
        }
        let endpoint = messenger.endpoint();
        check_subset(&endpoint.comm(comm).group()?, group).map_err(refused)?;
        let process = endpoint.process();
        let outside = Cause::RankOutOfRange { rank: process.0, size: group.size() };
        let me = group.rank_of(process).ok_or(refused(outside))?.0;
        let call = CallTag::new(comm, tag, operation);
        let unlike = endpoint.unlike_among(group).and_then(|rank| group.process(rank));
        call.check_alike(unlike.and_then(|process| endpoint.comm(comm).group().ok()?.rank_of(process)))?;
        Ok(Self { call, me, size: group.size(), group: Some(*group) })
    }

    /// Its communicator, on the plane of collectives.
    pub(super) const fn comm(&self) -> &Comm {
        &self.call.comm
    }

    /// The rank in the communicator of the rank `distance` places further on.
    fn rank<'s, T: Transport, P: Platform>(
        &self,
        messenger: &mut impl Messenger<'s, T, P>,
        distance: u32,
    ) -> Result<Rank, Error> {
        let index = (u64::from(self.me) + u64::from(distance)) % u64::from(self.size.max(1));
        let Some(group) = &self.group else { return Ok(Rank(index as u32)) };
        let endpoint = messenger.endpoint();
        let parent = endpoint.comm(&self.call.comm).group()?;
        let rank = group.process(Rank(index as u32)).and_then(|process| parent.rank_of(process));
        rank.ok_or(Error::new(self.call.operation, Cause::Stale))
    }

    /// The ranks in the communicator of those `distance` places further on, and as many back.
    fn ranks_at<'s, T: Transport, P: Platform>(
        &self,
        messenger: &mut impl Messenger<'s, T, P>,
        distance: u32,
    ) -> Result<ExchangeRanks, Error> {
        let back = self.size.saturating_sub(distance);
        Ok(ExchangeRanks { to: self.rank(messenger, distance)?, from: self.rank(messenger, back)? })
    }

    /// Sends to the one `ahead` places further on, and receives from the one as many places back.
    pub(super) async fn shift<'s, E: Element, T: Transport, P: Platform>(
        &self,
        messenger: &mut impl Messenger<'s, T, P>,
        ahead: u32,
        mine: &[E],
        theirs: &mut [E],
    ) -> Result<(), Error> {
        let ranks = self.ranks_at(messenger, ahead)?;
        let shifted = self.call.exchange(messenger, ranks, mine, theirs).await;
        shifted.inspect_err(|error| self.warn(messenger, error))
    }

    /// Like [`shift`](Self::shift), but what is empty is not sent, and not waited for.
    pub(super) async fn shift_nonempty<'s, E: Element, T: Transport, P: Platform>(
        &self,
        messenger: &mut impl Messenger<'s, T, P>,
        ahead: u32,
        mine: &[E],
        theirs: &mut [E],
    ) -> Result<(), Error> {
        let mut ranks = self.ranks_at(messenger, ahead)?;
        if mine.is_empty() {
            ranks.to = Rank::NULL;
        }
        if theirs.is_empty() {
            ranks.from = Rank::NULL;
        }
        let shifted = self.call.exchange(messenger, ranks, mine, theirs).await;
        shifted.inspect_err(|error| self.warn(messenger, error))
    }

    /// Sends what the one at `root` has to all others, each of which has room for it. A binomial
    /// tree whose edges are those of [`agree`](Participants::agree).
    pub(super) async fn bcast<'s, E: Element, T: Transport, P: Platform>(
        &self,
        messenger: &mut impl Messenger<'s, T, P>,
        root: u32,
        data: &mut [E],
    ) -> Result<(), Error> {
        let place = (self.me + self.size.saturating_sub(root)) % self.size.max(1);
        let mut distance: u32 = 1;
        while distance < self.size {
            let next = distance.saturating_mul(2);
            if place < distance && place + distance < self.size {
                self.shift_nonempty(messenger, distance, data, &mut []).await?;
            } else if (distance..next).contains(&place) {
                self.shift_nonempty(messenger, distance, &[], data).await?;
            }
            distance = next;
        }
        Ok(())
    }

    /// Sends the error to all ranks that may wait for this one in the rest of the call: those 1, 2,
    /// 4, ... places further on and back. They fail by that and send it to others, so that after
    /// a death no rank waits for ever.
    #[cold]
    fn warn<'s, T: Transport, P: Platform>(&self, messenger: &mut impl Messenger<'s, T, P>, error: &Error) {
        let is_gone = Objection::is_of_another(error.cause);
        let about = error.peer().filter(|_| is_gone).map_or(self.name(), |peer| peer.0);
        let objection = Objection::new(error.cause, about);
        for bit in 0..u32::BITS - self.size.saturating_sub(1).leading_zeros() {
            let Ok(ranks) = self.ranks_at(messenger, 1 << bit) else { return };
            self.call.warn(messenger, objection, ranks);
        }
    }
}

impl Participants for LocalRanks<'_> {
    fn operation(&self) -> Operation {
        self.call.operation
    }

    fn parent(&self) -> &Comm {
        self.comm()
    }

    /// The communicator's slot, which no other one of its ranks has, and the call's place on it.
    fn order(&self) -> u32 {
        self.call.comm.context() << 16 | u32::from(tag::order(self.call.tag))
    }

    fn name(&self) -> u32 {
        self.call.comm.rank().0
    }

    fn error(&self, cause: Cause, name: u32) -> Error {
        self.call.error_of(cause, name)
    }

    /// Dissemination (Hensgen, Finkel and Manber, "Two algorithms for barrier
    /// synchronization", 1988): log2 of the ranks, rounded up, rounds for any number of ranks, if
    /// what is combined twice counts once - as with and, or, min and max.
    async fn agree<'s, const WORDS: usize, T: Transport, P: Platform>(
        &self,
        messenger: &mut impl Messenger<'s, T, P>,
        words: &mut [u64; WORDS],
        combine: impl Fn(usize, u64, u64) -> u64,
    ) -> Result<(), Error> {
        let mut distance = 1;
        while distance < self.size {
            let (mine, mut theirs) = (*words, [0; WORDS]);
            self.shift(messenger, distance, &mine, &mut theirs).await?;
            for (index, (word, theirs)) in words.iter_mut().zip(theirs).enumerate() {
                *word = combine(index, *word, theirs);
            }
            distance = distance.saturating_mul(2);
        }
        Ok(())
    }

    async fn flush<'s, T: Transport, P: Platform>(
        &self,
        messenger: &mut impl Messenger<'s, T, P>,
    ) -> Result<(), Error> {
        for distance in 1..self.size {
            self.shift::<u8, T, P>(messenger, distance, &[], &mut []).await?;
        }
        Ok(())
    }
}

/// Checks that all processes of `group` are in `parent`.
pub(super) fn check_subset(parent: &Group<'_>, group: &Group<'_>) -> Result<(), Cause> {
    let (rank, size) = match group.processes().find(|&process| !parent.contains(process)) {
        Some(process) => (process.0, parent.size()),
        None => return Ok(()),
    };
    Err(Cause::RankOutOfRange { rank, size })
}

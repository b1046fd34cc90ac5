//! Agreement of two groups: each agrees within itself, and its leader exchanges with the other's.

use aldis_kernel::hal::{Cause, Operation, PeerId, Platform, Transport};
use aldis_kernel::plane::prelude::*;
use aldis_kernel::{Comm, Error, Rank};

use super::local_ranks::{CallTag, ExchangeRanks, LocalRanks};
use super::messenger::Messenger;
use super::participants::{Objection, Participants};
use super::split::SplitChoice;
use crate::op::Element;
use crate::tag;

/// Both groups of an intercommunicator, or of one that is to be made, seen from one rank. It names
/// ranks as the world does.
#[derive(Clone, Copy, Debug)]
pub(super) struct InterLink<'c> {
    /// The ranks of this side.
    pub(super) local: LocalRanks<'static>,
    /// The one of them that exchanges messages with the other side.
    leader: u32,
    other: RemoteLeader,
    world: Comm,
    me: PeerId,
    remote: Remote<'c>,
}

/// The leader of the other side.
#[derive(Clone, Copy, Debug)]
pub(super) struct RemoteLeader {
    /// Its rank in the communicator of `call`.
    pub(super) rank: Rank,
    pub(super) process: PeerId,
    /// The communicator and tag of messages between the leaders.
    pub(super) call: CallTag,
}

/// The processes of the other side, in the order of their ranks.
#[derive(Clone, Copy, Debug)]
pub(super) enum Remote<'c> {
    /// The remote group.
    Of(Comm),
    /// The processes of these choices.
    These(&'c [SplitChoice]),
}

impl<'c> InterLink<'c> {
    /// Of the ranks of `local` and those of the other leader, once they are known.
    pub(super) fn new<'s, T: Transport, P: Platform>(
        messenger: &mut impl Messenger<'s, T, P>,
        local: LocalRanks<'static>,
        leader: Rank,
        other: RemoteLeader,
    ) -> Self {
        let endpoint = messenger.endpoint();
        let (world, me) = (endpoint.world(), endpoint.process());
        let call = CallTag { name_context: world.context(), ..other.call };
        let other = RemoteLeader { call, ..other };
        Self { local, leader: leader.0, other, world, me, remote: Remote::These(&[]) }
    }

    /// Of the ranks of an intercommunicator.
    pub(super) fn over<'s, T: Transport, P: Platform>(
        messenger: &mut impl Messenger<'s, T, P>,
        inter: &Comm,
        operation: Operation,
    ) -> Result<Self, Error> {
        let tag = messenger
            .endpoint()
            .enter(|scope| scope.inter_tag(inter))
            .map_err(|error| error.within(operation))?;
        let companion = messenger.endpoint().companion(inter)?;
        let local = LocalRanks::of_all(messenger, &companion, operation)?;
        let process = messenger.endpoint().process_of(inter, Rank(0))?;
        let call = CallTag::new(inter, tag::of_call(tag, operation, 0), operation);
        let other = RemoteLeader { rank: Rank(0), process, call };
        Ok(Self::new(messenger, local, Rank(0), other).to(Remote::Of(*inter)))
    }

    /// Sets the other side, where it is known which processes are there.
    pub(super) fn to(self, remote: Remote<'c>) -> Self {
        Self { remote, ..self }
    }

    pub(super) fn is_leader(&self) -> bool {
        self.local.comm().rank().0 == self.leader
    }

    /// Exchanges with the other leader, on the leader.
    pub(super) async fn exchange_leaders<'s, E: Element, T: Transport, P: Platform>(
        &self,
        messenger: &mut impl Messenger<'s, T, P>,
        mine: &[E],
        theirs: &mut [E],
    ) -> Result<(), Error> {
        let ranks = ExchangeRanks::both(self.other.rank);
        let crossed = self.other.call.exchange(messenger, ranks, mine, theirs).await;
        self.forward_failure(messenger, crossed)
    }

    /// Swaps what the leader has for what the other leader has, on all ranks of both sides.
    pub(super) async fn swap<'s, E: Element, T: Transport, P: Platform>(
        &self,
        messenger: &mut impl Messenger<'s, T, P>,
        mine: &[E],
        theirs: &mut [E],
    ) -> Result<(), Error> {
        let crossed =
            if self.is_leader() { self.exchange_leaders(messenger, mine, theirs).await } else { Ok(()) };
        self.settle(messenger, crossed).await?;
        let received = self.local.bcast(messenger, self.leader, theirs).await;
        self.forward_failure(messenger, received)
    }

    /// Agrees on this side whether its leader has been able to do its part.
    pub(super) async fn settle<'s, T: Transport, P: Platform>(
        &self,
        messenger: &mut impl Messenger<'s, T, P>,
        crossed: Result<(), Error>,
    ) -> Result<(), Error> {
        let mut word = [crossed.map_or_else(|error| self.blame(messenger, &error).word(), |()| 0)];
        let agreed = self.local.agree(messenger, &mut word, |_, mine, theirs| mine.max(theirs)).await;
        crossed?;
        self.forward_failure(messenger, agreed)?;
        let [word] = word;
        self.check_objection(word, None)
    }

    /// Returns the result; a failure of the leader's is sent to the other leader, which would wait
    /// for this one, unless it came from there.
    pub(super) fn forward_failure<'s, R, T: Transport, P: Platform>(
        &self,
        messenger: &mut impl Messenger<'s, T, P>,
        result: Result<R, Error>,
    ) -> Result<R, Error> {
        result.inspect_err(|error| {
            if self.is_leader() && error.context != self.other.call.name_context {
                let blame = self.blame(messenger, error);
                self.other.call.warn(messenger, blame, ExchangeRanks::both(self.other.rank));
            }
        })
    }

    /// Returns the objection that puts a failure down to a process.
    fn blame<'s, T: Transport, P: Platform>(
        &self,
        messenger: &mut impl Messenger<'s, T, P>,
        error: &Error,
    ) -> Objection {
        let is_gone = Objection::is_of_another(error.cause);
        let (local, peer) = (self.local.comm(), error.peer().unwrap_or(Rank::NULL));
        let process = match error.context {
            // An error from the other leader, which names ranks of the world.
            context if context == self.other.call.name_context => Some(PeerId(peer.0)),
            context if is_gone && context == self.other.call.comm.context() => Some(self.other.process),
            context if is_gone && context == local.context() => {
                messenger.endpoint().process_of(local, peer).ok()
            }
            _ => None,
        };
        Objection::new(error.cause, process.unwrap_or(self.me).0)
    }

    /// The process of a rank on the other side.
    fn remote<'s, T: Transport, P: Platform>(
        &self,
        messenger: &mut impl Messenger<'s, T, P>,
        rank: u32,
    ) -> Option<PeerId> {
        match self.remote {
            Remote::Of(inter) => messenger.endpoint().process_of(&inter, Rank(rank)).ok(),
            Remote::These(choices) => choices.get(rank as usize).map(|choice| PeerId(choice.process)),
        }
    }
}

impl Participants for InterLink<'_> {
    fn operation(&self) -> Operation {
        self.other.call.operation
    }

    fn parent(&self) -> &Comm {
        self.local.comm()
    }

    fn order(&self) -> u32 {
        self.local.order()
    }

    fn name(&self) -> u32 {
        self.me.0
    }

    fn error(&self, cause: Cause, name: u32) -> Error {
        self.other.call.error_of(cause, name)
    }

    async fn agree<'s, const WORDS: usize, T: Transport, P: Platform>(
        &self,
        messenger: &mut impl Messenger<'s, T, P>,
        words: &mut [u64; WORDS],
        combine: impl Fn(usize, u64, u64) -> u64,
    ) -> Result<(), Error> {
        let agreed = self.local.agree(messenger, words, &combine).await;
        self.forward_failure(messenger, agreed)?;
        let (mine, mut theirs) = (*words, [0; WORDS]);
        self.swap(messenger, &mine, &mut theirs).await?;
        for (index, (word, theirs)) in words.iter_mut().zip(theirs).enumerate() {
            *word = combine(index, *word, theirs);
        }
        Ok(())
    }

    /// Each side within itself, then each rank with each of the other side: two ranks meet in the
    /// turn that is the sum of their numbers.
    async fn flush<'s, T: Transport, P: Platform>(
        &self,
        messenger: &mut impl Messenger<'s, T, P>,
    ) -> Result<(), Error> {
        self.local.flush(messenger).await?;
        let call = CallTag { comm: self.world.collective(), tag: tag::FLUSH, ..self.other.call };
        let (me, here) = (self.local.comm().rank().0, self.local.comm().size());
        let there = match self.remote {
            Remote::Of(inter) => inter.remote_size(),
            Remote::These(choices) => choices.len() as u32,
        };
        let turns = here.max(there);
        for turn in 0..turns {
            let Some(process) = self.remote(messenger, (turn + turns - me) % turns) else { continue };
            let rank = Rank(process.0);
            call.exchange::<u8, T, P>(messenger, ExchangeRanks::both(rank), &[], &mut []).await?;
        }
        Ok(())
    }
}

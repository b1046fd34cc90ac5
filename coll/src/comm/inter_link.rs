//! Agreement of two groups: each agrees within itself, and its leader exchanges with the other's.

use aldis_kernel::hal::{Cause, Operation, PeerId, Platform, Transport};
use aldis_kernel::plane::prelude::*;
use aldis_kernel::{Comm, Error, Rank};

use super::local_ranks::{CallTag, LocalRanks};
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
    /// The line over which the leaders exchange messages.
    line: CallTag,
    /// The other leader's rank there, and its process.
    partner: (Rank, PeerId),
    world: Comm,
    me: PeerId,
    remote: Remote<'c>,
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
    /// Of the ranks of `local` and those behind `partner`, once it is known who they are.
    pub(super) fn new<'s, T: Transport, P: Platform>(
        messenger: &mut impl Messenger<'s, T, P>,
        local: LocalRanks<'static>,
        leader: Rank,
        line: CallTag,
        partner: (Rank, PeerId),
    ) -> Self {
        let endpoint = messenger.endpoint();
        let (world, me) = (endpoint.world(), endpoint.process());
        let line = CallTag { names: world.context(), ..line };
        Self { local, leader: leader.0, line, partner, world, me, remote: Remote::These(&[]) }
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
        let partner = (Rank(0), messenger.endpoint().process_of(inter, Rank(0))?);
        let line = CallTag::new(inter, tag::of_call(tag, operation, 0), operation);
        Ok(Self::new(messenger, local, Rank(0), line, partner).to(Remote::Of(*inter)))
    }

    /// Sets the other side, where it is known which processes are there.
    pub(super) fn to(self, remote: Remote<'c>) -> Self {
        Self { remote, ..self }
    }

    pub(super) fn is_leader(&self) -> bool {
        self.local.comm().rank().0 == self.leader
    }

    /// Exchanges with the other leader, on the leader.
    pub(super) async fn cross<'s, E: Element, T: Transport, P: Platform>(
        &self,
        messenger: &mut impl Messenger<'s, T, P>,
        mine: &[E],
        theirs: &mut [E],
    ) -> Result<(), Error> {
        let crossed = self.line.exchange(messenger, (self.partner.0, mine), (self.partner.0, theirs)).await;
        self.told(messenger, crossed)
    }

    /// Swaps what the leader has for what the other leader has, on all ranks of both sides.
    pub(super) async fn swap<'s, E: Element, T: Transport, P: Platform>(
        &self,
        messenger: &mut impl Messenger<'s, T, P>,
        mine: &[E],
        theirs: &mut [E],
    ) -> Result<(), Error> {
        let crossed = if self.is_leader() { self.cross(messenger, mine, theirs).await } else { Ok(()) };
        self.settle(messenger, crossed).await?;
        let spread = self.local.spread(messenger, self.leader, theirs).await;
        self.told(messenger, spread)
    }

    /// Tells this side whether its leader has been able to do its part.
    pub(super) async fn settle<'s, T: Transport, P: Platform>(
        &self,
        messenger: &mut impl Messenger<'s, T, P>,
        crossed: Result<(), Error>,
    ) -> Result<(), Error> {
        let mut word = [crossed.map_or_else(|error| self.blame(messenger, &error).word(), |()| 0)];
        let agreed = self.local.agree(messenger, &mut word, |_, mine, theirs| mine.max(theirs)).await;
        crossed?;
        self.told(messenger, agreed)?;
        let [word] = word;
        self.heed(word, None)
    }

    /// Hands a result on; if it is a failure of the leader's, the other leader gets the error, who
    /// would wait for this one - unless the failure came from there.
    pub(super) fn told<'s, R, T: Transport, P: Platform>(
        &self,
        messenger: &mut impl Messenger<'s, T, P>,
        result: Result<R, Error>,
    ) -> Result<R, Error> {
        result.inspect_err(|error| {
            if self.is_leader() && error.context != self.line.names {
                let blame = self.blame(messenger, error);
                self.line.warn(messenger, blame, (self.partner.0, self.partner.0));
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
            // An error from the other leader, who names ranks of the world.
            context if context == self.line.names => Some(PeerId(peer.0)),
            context if is_gone && context == self.line.comm.context() => Some(self.partner.1),
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
        self.line.operation
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
        self.line.error_of(cause, name)
    }

    async fn agree<'s, const WORDS: usize, T: Transport, P: Platform>(
        &self,
        messenger: &mut impl Messenger<'s, T, P>,
        words: &mut [u64; WORDS],
        combine: impl Fn(usize, u64, u64) -> u64,
    ) -> Result<(), Error> {
        let agreed = self.local.agree(messenger, words, &combine).await;
        self.told(messenger, agreed)?;
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
        let line = CallTag { comm: self.world.collective(), tag: tag::FLUSH, ..self.line };
        let (me, here) = (self.local.comm().rank().0, self.local.comm().size());
        let there = match self.remote {
            Remote::Of(inter) => inter.remote_size(),
            Remote::These(choices) => choices.len() as u32,
        };
        let turns = here.max(there);
        for turn in 0..turns {
            let Some(process) = self.remote(messenger, (turn + turns - me) % turns) else { continue };
            let rank = Rank(process.0);
            line.exchange::<u8, T, P>(messenger, (rank, &[]), (rank, &mut [])).await?;
        }
        Ok(())
    }
}

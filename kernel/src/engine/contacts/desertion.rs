//! Messages of any source that nobody is left to send, where the table has fewer rows than the job
//! has ranks: no row tells of every rank that is lost, so each is asked about, a few a poll.

use aldis_hal::{Cause, Transport};

use super::STRANGERS_A_POLL;
use crate::engine::state::Engine;
use crate::tables::active::{DesertedWalk, LostRanks, ProbedWalk};

impl Engine<'_> {
    /// Asks the transport of a few ranks that a receive of any source could be sent to by whether
    /// they are lost, where no row tells: it fails once all are. The first that is not ends the
    /// look at that receive; the next poll goes on where this one ends.
    pub(super) fn watch_wildcards<T: Transport>(&mut self, transport: &T) {
        for _ in 0..STRANGERS_A_POLL {
            let Some(walk) = self.peers.fewer().map(|table| table.walk) else { return };
            let waiting = self.requests.at(walk.slot).filter(|request| request.is_wildcard());
            let next = match waiting.map(|request| (request.order, request.key.context)) {
                None => self.next_walk(walk.slot),
                Some((order, _)) if order != walk.order => {
                    DesertedWalk { slot: walk.slot, order, ..DesertedWalk::default() }
                }
                Some((_, context)) => match self.look_on(transport, context, walk.ranks) {
                    Ok(ranks) => DesertedWalk { ranks, ..walk },
                    Err(last) => {
                        if let Some((rank, cause)) = last {
                            self.desert(walk.slot, rank, cause);
                        }
                        self.next_walk(walk.slot)
                    }
                },
            };
            if let Some(table) = self.peers.active() {
                table.walk = next;
            }
        }
    }

    /// Fails if no rank is left that could send a message of any source on a communicator, as far
    /// as the polls since the last such question have found: a probe asks between any two.
    pub(crate) fn is_deserted(&mut self, context: u32) -> Result<(), Cause> {
        let Some(table) = self.peers.active() else { return Ok(()) };
        match table.probed {
            Some(ProbedWalk { context: asked, cause, .. }) if asked == context => {
                let Some(cause) = cause else { return Ok(()) };
                // Found out anew by who asks again.
                table.probed = None;
                Err(cause)
            }
            _ => {
                table.probed = Some(ProbedWalk { context, ranks: LostRanks::default(), cause: None });
                Ok(())
            }
        }
    }

    /// Asks the transport of a few ranks that a probe of any source could find a message of by
    /// whether they are lost. The first that is not ends the look.
    pub(super) fn watch_probed<T: Transport>(&mut self, transport: &T) {
        for _ in 0..STRANGERS_A_POLL {
            let asked = self.peers.fewer().and_then(|table| table.probed);
            let Some(walk) = asked.filter(|walk| walk.cause.is_none()) else { return };
            let next = match self.look_on(transport, walk.context, walk.ranks) {
                Ok(ranks) => Some(ProbedWalk { ranks, ..walk }),
                Err(last) => last.map(|(_, cause)| ProbedWalk { cause: Some(cause), ..walk }),
            };
            if let Some(table) = self.peers.active() {
                table.probed = next;
            }
        }
    }

    /// Passes the next rank of a communicator if it is lost, or this rank.
    ///
    /// # Errors
    /// The last of its ranks and the cause, if all are lost; none if one is not, if there is no
    /// other, or if this one has messages to itself under way.
    fn look_on<T: Transport>(
        &self,
        transport: &T,
        context: u32,
        ranks: LostRanks,
    ) -> Result<LostRanks, Option<(u32, Cause)>> {
        let rank = ranks.rank.wrapping_add(1);
        match self.comms.addressed(context, ranks.rank) {
            Some(process) if process == self.me => Ok(LostRanks { rank, ..ranks }),
            Some(process) => {
                self.loss_of(transport, process).map(|_| LostRanks { rank, lost: rank }).ok_or(None)
            }
            None => Err(self.desertion(transport, context, ranks.lost)),
        }
    }

    /// The last of the ranks of a communicator that are all lost, and the cause; `lost` is its
    /// number and one more. None if there is no such rank, or this one has messages to itself under
    /// way.
    fn desertion<T: Transport>(&self, transport: &T, context: u32, lost: u32) -> Option<(u32, Cause)> {
        let rank = lost.checked_sub(1)?;
        let cause = self.loss_of(transport, self.comms.addressed(context, rank)?)?;
        let own = self.peers.get(self.me);
        let is_sending =
            own.is_some_and(|row| !row.send_queue.is_empty() || row.sequence_out != row.sequence_in);
        (!is_sending).then_some((rank, cause))
    }

    /// The look at the request after one, in turns.
    fn next_walk(&self, slot: u32) -> DesertedWalk {
        let next = slot.wrapping_add(1);
        let slot = if next < self.requests.used_end() { next } else { 0 };
        DesertedWalk { slot, ..DesertedWalk::default() }
    }

    /// Fails the receive of any source in a slot: this rank, the last that it could come from, is
    /// lost.
    fn desert(&mut self, slot: u32, rank: u32, cause: Cause) {
        self.matcher.unpost(&mut self.requests, slot);
        if let Some(request) = self.requests.at(slot) {
            request.rank = rank;
        }
        self.complete(slot, Some(cause));
    }
}

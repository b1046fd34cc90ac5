//! Agreement of the members of a new communicator on its context.

use aldis_kernel::hal::{Cause, PeerId, Platform, Resource, Transport};
use aldis_kernel::plane::prelude::*;
use aldis_kernel::{CONTEXT_WORDS, Comm, Endpoint, Error, GENERATION_MAX, Members};

use super::messenger::{Messenger, rest};
use super::participants::Participants;

/// Words of an agreement on a slot: an objection; the call's place in the order of calls, and above
/// it the least of all members' first free slots; flags, and above them the greatest of these slots
/// with its last generation; and which slots are free.
const OFFER_WORDS: usize = 3 + CONTEXT_WORDS;

/// Makes a communicator of `members`: every participant takes part, also those that will be
/// in none. A rank that cannot go on says so here instead of staying away.
pub(super) async fn make<'s, T, P, I>(
    messenger: &mut impl Messenger<'s, T, P>,
    participants: &impl Participants,
    members: Result<Option<Members<I>>, Cause>,
) -> Result<Option<Comm>, Error>
where
    T: Transport,
    P: Platform,
    I: Iterator<Item = PeerId> + Clone,
{
    make_with(messenger, participants, members, |endpoint, slot, generation, members| {
        endpoint.install(slot, generation, members)
    })
    .await
}

/// Makes a communicator of `members`, with `install` to put it into the table: slot, generation and
/// members are agreed upon.
pub(super) async fn make_with<'s, T, P, I>(
    messenger: &mut impl Messenger<'s, T, P>,
    participants: &impl Participants,
    members: Result<Option<Members<I>>, Cause>,
    install: impl FnOnce(&mut Endpoint<'s, T, P>, u32, u32, &Members<I>) -> Result<Comm, Cause>,
) -> Result<Option<Comm>, Error>
where
    T: Transport,
    P: Platform,
    I: Iterator<Item = PeerId> + Clone,
{
    let (members, objection) = match members {
        Ok(Some(members)) => {
            let objection = messenger.endpoint().check_pieces(&members).err();
            (Some(members), objection)
        }
        Ok(None) => (None, None),
        Err(cause) => (None, Some(cause)),
    };
    let mut turn = CallTurn::NONE;
    let slot = agree_on_slot(messenger, participants, &mut turn, members.is_some(), objection).await;
    let made = match slot {
        Ok(slot) => install_in(messenger, participants, slot, members, install).await,
        Err(error) => Err(error),
    };
    turn.end(messenger);
    settle(messenger, participants, made?).await
}

/// Makes a communicator of members who are listed once there is a slot for it. `is_member` is true
/// if this rank will be one of them, an error if it cannot go on.
pub(super) async fn make_listed<'s, T, P, I, M>(
    messenger: &mut M,
    participants: &impl Participants,
    is_member: Result<bool, Cause>,
    list: impl AsyncFnOnce(&mut M) -> Result<Members<I>, Error>,
) -> Result<Option<Comm>, Error>
where
    T: Transport,
    P: Platform,
    I: Iterator<Item = PeerId> + Clone,
    M: Messenger<'s, T, P>,
{
    let (is_member, objection) = (is_member == Ok(true), is_member.err());
    let mut turn = CallTurn::NONE;
    let listed = match agree_on_slot(messenger, participants, &mut turn, is_member, objection).await {
        Ok(slot) => list(messenger).await.map(|members| (slot, members)),
        Err(error) => Err(error),
    };
    let made = match listed {
        Ok((slot, members)) => {
            let install = |endpoint: &mut Endpoint<'s, T, P>, slot, generation, members: &Members<I>| {
                endpoint.install(slot, generation, members)
            };
            install_in(messenger, participants, slot, is_member.then_some(members), install).await
        }
        Err(error) => Err(error),
    };
    turn.end(messenger);
    settle(messenger, participants, made?).await
}

/// Waits until every member has the communicator in its table; if one has not, none keeps it.
async fn settle<'s, T: Transport, P: Platform>(
    messenger: &mut impl Messenger<'s, T, P>,
    participants: &impl Participants,
    made: Option<Result<Comm, Cause>>,
) -> Result<Option<Comm>, Error> {
    let Some(made) = made else {
        participants.meet(messenger, None).await?;
        return Ok(None);
    };
    let met = participants.meet(messenger, made.err()).await;
    match (made, met) {
        (Ok(comm), Err(error)) => {
            messenger.endpoint().discard(&comm)?;
            Err(error)
        }
        (made, met) => {
            met?;
            let made = made.ok();
            made.map_or(Ok(()), |made| messenger.endpoint().inherit(participants.parent(), &made))?;
            Ok(made)
        }
    }
}

/// Puts the communicator into a slot that all members have promised to it, under a generation that
/// is new on all of them; `None` on ranks that will be in none.
async fn install_in<'s, T, P, I>(
    messenger: &mut impl Messenger<'s, T, P>,
    participants: &impl Participants,
    slot: AgreedSlot,
    members: Option<Members<I>>,
    install: impl FnOnce(&mut Endpoint<'s, T, P>, u32, u32, &Members<I>) -> Result<Comm, Cause>,
) -> Result<Option<Result<Comm, Cause>>, Error>
where
    T: Transport,
    P: Platform,
    I: Iterator<Item = PeerId> + Clone,
{
    let AgreedSlot { slot, newest } = slot;
    let newest = match newest {
        Some(newest) => newest,
        None => {
            let own = if members.is_some() { messenger.endpoint().context_generation(slot) } else { 0 };
            let mut newest = [own.into()];
            participants.agree(messenger, &mut newest, |_, mine, theirs| mine.max(theirs)).await?;
            let [newest] = newest;
            newest as u32
        }
    };
    let generation = match newest {
        newest if newest < GENERATION_MAX => newest + 1,
        _ => {
            // From here on generations repeat: no message of an old one may be under way any more.
            participants.flush(messenger).await?;
            1
        }
    };
    Ok(members.map(|members| install(&mut messenger.endpoint(), slot, generation, &members)))
}

/// A slot that is free on all members.
struct AgreedSlot {
    slot: u32,
    /// The greatest of the generations that it has had on them, if the agreement on the slot has
    /// brought it.
    newest: Option<u32>,
}

/// A call's place in the order of those that are under way, as far as it is known, and whether it
/// has its process's turn.
struct CallTurn {
    order: u32,
    held: bool,
    /// A slot is promised to it before.
    early: bool,
}

impl CallTurn {
    const NONE: Self = Self { order: UNKNOWN, held: false, early: false };

    /// Gives back what it has.
    fn end<'s, T: Transport, P: Platform>(mut self, messenger: &mut impl Messenger<'s, T, P>) {
        self.end_early(messenger);
        messenger.endpoint().end_context_turn(self.order, self.held);
    }

    fn end_early<'s, T: Transport, P: Platform>(&mut self, messenger: &mut impl Messenger<'s, T, P>) {
        if core::mem::take(&mut self.early) {
            messenger.endpoint().end_context_promise();
        }
    }
}

/// No order: not all ranks are known to have begun the call.
const UNKNOWN: u32 = u32::MAX;

/// In an offer's flags: there are more slots behind those that are offered.
const MORE: u64 = 1;

/// In an offer's flags: it is one, made in this process's turn or before.
const OFFERED: u64 = 2;

/// In an offer's flags: it is of all free slots, as far as they go.
const WHOLE: u64 = 4;

/// The lower half of a word.
const LOW: u64 = u32::MAX as u64;

/// Bits of a generation, below the number of its slot.
const GENERATION_BITS: u32 = 15;
const _: () =
    assert!(GENERATION_MAX < 1 << GENERATION_BITS, "a slot and its generation fit into half a word");

/// Combines all ranks' words of an offer.
fn combine_offers(index: usize, mine: u64, theirs: u64) -> u64 {
    let (high, low) = ((mine >> 32, theirs >> 32), (mine & LOW, theirs & LOW));
    match index {
        0 => mine.max(theirs),
        1 => high.0.min(high.1) << 32 | low.0.min(low.1),
        2 => high.0.max(high.1) << 32 | (low.0 & low.1),
        _ => mine & theirs,
    }
}

/// An offer of a rank in one agreement.
struct Offer {
    flags: u64,
    free: [u64; CONTEXT_WORDS],
    /// The first slot of those, and above its last generation the slot once more.
    first: (u64, u64),
}

impl Offer {
    /// The offer of a rank that will be no member: members choose.
    const ANY: Self =
        Self { flags: MORE | OFFERED | WHOLE, free: [u64::MAX; CONTEXT_WORDS], first: (LOW, 0) };

    /// An offer of no slots, since it is not the call's turn.
    const NONE: Self = Self { flags: 0, free: [0; CONTEXT_WORDS], first: (LOW, 0) };

    /// The offer of a member that has its turn.
    fn in_turn<'s, T: Transport, P: Platform>(messenger: &mut impl Messenger<'s, T, P>, base: u32) -> Self {
        let offer = messenger.endpoint().context_offer(base);
        let flags = OFFERED | WHOLE | if offer.more { MORE } else { 0 };
        Self { flags, free: offer.free, ..Self::NONE }.with_first(messenger, base)
    }

    /// The slot that is promised to the call before its turn.
    fn early<'s, T: Transport, P: Platform>(messenger: &mut impl Messenger<'s, T, P>, slot: u32) -> Self {
        let mut free = [0; CONTEXT_WORDS];
        if let Some(word) = free.get_mut(slot as usize / 64) {
            *word = 1 << (slot % 64);
        }
        Self { flags: OFFERED, free, ..Self::NONE }.with_first(messenger, 0)
    }

    fn with_first<'s, T: Transport, P: Platform>(
        self,
        messenger: &mut impl Messenger<'s, T, P>,
        base: u32,
    ) -> Self {
        let Some(slot) = first_of(&self.free, base) else { return self };
        let newest = messenger.endpoint().context_generation(slot);
        Self { first: (slot.into(), u64::from(slot) << GENERATION_BITS | u64::from(newest)), ..self }
    }

    fn words(&self, objection: u64, order: u32) -> [u64; OFFER_WORDS] {
        let mut words = [0; OFFER_WORDS];
        let [own, place, offered, slots @ ..] = &mut words;
        (*own, *place) = (objection, self.first.0 << 32 | u64::from(order));
        (*offered, *slots) = (self.first.1 << 32 | self.flags, self.free);
        words
    }
}

/// The first slot that is free on all members: all members' free slots, combined by and, 256 at a
/// time (as MPICH does it: Gropp and Thakur, "Thread-safety in an MPI implementation", 2007). Those
/// who are no members leave the choice to them. Where it is not this call's turn, all try again. A
/// rank that does other things meanwhile offers one slot at first, if none of its calls has the
/// turn: the turn would last until the last rank has begun the call, which may wait for another
/// one.
async fn agree_on_slot<'s, T: Transport, P: Platform>(
    messenger: &mut impl Messenger<'s, T, P>,
    participants: &impl Participants,
    turn: &mut CallTurn,
    is_member: bool,
    mut own: Option<Cause>,
) -> Result<AgreedSlot, Error> {
    let mut base = 0;
    loop {
        // Others of this process are not to wait until all ranks have begun this one.
        let is_ready = is_member && (turn.order != UNKNOWN || !messenger.waits());
        turn.held = turn.held || (is_ready && messenger.endpoint().take_context_turn(turn.order));
        if is_ready && !turn.held && !messenger.waits() {
            own = own.or(Some(Cause::Busy));
        }
        let promised = if is_member && !is_ready { messenger.endpoint().promise_context() } else { None };
        turn.early = promised.is_some();
        let offer = match promised {
            _ if !is_member => Offer::ANY,
            _ if turn.held => Offer::in_turn(messenger, base),
            Some(slot) => Offer::early(messenger, slot),
            None => Offer::NONE,
        };
        let mut words = offer.words(participants.objection(own), participants.order());
        participants.agree(messenger, &mut words, combine_offers).await?;
        let [objection, order, flags, free @ ..] = words;
        participants
            .check_objection(objection, own)
            .inspect_err(|error| participants.raise(messenger, *error))?;
        let found = first_of(&free, base);
        if flags & OFFERED == 0 || (found.is_none() && flags & WHOLE == 0) {
            turn.order = order as u32;
            turn.end_early(messenger);
            messenger.endpoint().put_off_context_turn(turn.order, core::mem::take(&mut turn.held));
            rest().await;
            continue;
        }
        if let Some(slot) = found {
            // If it is the first that is free on every member, that with its greatest generation is
            // the greatest there is.
            let (least, greatest) = ((order >> 32) as u32, (flags >> 32) as u32);
            let is_common = least == slot && greatest >> GENERATION_BITS == slot;
            let newest = is_common.then_some(greatest & ((1 << GENERATION_BITS) - 1));
            return Ok(AgreedSlot { slot, newest });
        }
        if flags & MORE == 0 {
            return Err(Error::new(participants.operation(), Cause::Full(Resource::Communicators)));
        }
        base += 64 * CONTEXT_WORDS as u32;
    }
}

/// The first slot among free ones from `base` on.
fn first_of(free: &[u64; CONTEXT_WORDS], base: u32) -> Option<u32> {
    let mut words = free.iter().zip((base..).step_by(64)).filter(|&(word, _)| *word != 0);
    words.next().map(|(word, first)| first + word.trailing_zeros())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Words that are combined twice count once, and each half by itself.
    #[test]
    fn offers_are_combined_half_by_half() {
        let word = |high: u64, low: u64| high << 32 | low;
        for (index, mine, theirs, both) in [
            (0, word(1, 9), word(2, 3), word(2, 3)),
            (1, word(7, 9), word(LOW, 3), word(7, 3)),
            (2, word(5, OFFERED | MORE), word(4, OFFERED), word(5, OFFERED)),
            (2, word(5, OFFERED), word(6, 0), word(6, 0)),
            (2, word(5, OFFERED | WHOLE), word(5, OFFERED), word(5, OFFERED)),
            (3, word(7, 9), word(1, 3), word(1, 1)),
        ] {
            for (mine, theirs) in [(mine, theirs), (theirs, mine), (both, mine), (both, theirs)] {
                assert_eq!(combine_offers(index, mine, theirs), both, "word {index}");
            }
        }
    }

    #[test]
    fn a_slot_is_the_first_of_those_that_are_free() {
        assert_eq!(first_of(&[0, 0, 1 << 5, 1], 256), Some(256 + 128 + 5));
        assert_eq!(first_of(&[0; CONTEXT_WORDS], 256), None);
    }
}

//! How the members of a new communicator come to agree on its context.

use aldis_kernel::hal::{Cause, PeerId, Platform, Resource, Transport};
use aldis_kernel::{CONTEXT_WORDS, Comm, Endpoint, Error, GENERATION_MAX, Members};

use super::party::Party;
use crate::caller::Caller;

/// Words of an agreement on a slot: an objection, whether there are more slots, and which are free.
const OFFER_WORDS: usize = 2 + CONTEXT_WORDS;

/// Makes a communicator of `members`: everybody in the party takes part, also those who will be in none. A rank that
/// cannot go on says so here instead of staying away.
pub(super) fn make<'s, T, P, I>(
    caller: &mut impl Caller<'s, T, P>,
    party: &impl Party,
    members: Result<Option<Members<I>>, Cause>,
) -> Result<Option<Comm>, Error>
where
    T: Transport,
    P: Platform,
    I: Iterator<Item = PeerId> + Clone,
{
    make_with(caller, party, members, |endpoint, slot, generation, members| {
        endpoint.install(slot, generation, members)
    })
}

/// The same, with a way of its own to put the communicator into the table: slot, generation and members are agreed upon.
pub(super) fn make_with<'s, T, P, I>(
    caller: &mut impl Caller<'s, T, P>,
    party: &impl Party,
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
            let objection = caller.endpoint().check_pieces(&members).err();
            (Some(members), objection)
        }
        Ok(None) => (None, None),
        Err(cause) => (None, Some(cause)),
    };
    let slot = agree_on_slot(caller, party, members.is_some(), objection)?;
    let mut newest = [members.as_ref().map_or(0, |_| caller.endpoint().context_generation(slot).into())];
    party.agree(caller, &mut newest, |_, mine, theirs| mine.max(theirs))?;
    let generation = match newest {
        [newest] if newest < GENERATION_MAX.into() => newest as u32 + 1,
        _ => {
            // From here on generations repeat: no message of an old one may be under way any more.
            party.flush(caller)?;
            1
        }
    };
    let Some(members) = members else {
        party.meet(caller, None)?;
        return Ok(None);
    };
    let made = install(caller.endpoint(), slot, generation, &members);
    let met = party.meet(caller, made.err());
    match (made, met) {
        (Ok(comm), Err(error)) => {
            caller.endpoint().discard(&comm)?;
            Err(error)
        }
        (made, met) => {
            met?;
            let made = made.ok();
            made.map_or(Ok(()), |made| caller.endpoint().inherit(party.parent(), &made))?;
            Ok(made)
        }
    }
}

/// The first slot that is free on all members: everybody's free slots, combined by and, 256 at a time (as MPICH does it:
/// Gropp and Thakur, "Thread-safety in an MPI implementation", 2007). Those who are no members leave the choice to them.
fn agree_on_slot<'s, T: Transport, P: Platform>(
    caller: &mut impl Caller<'s, T, P>,
    party: &impl Party,
    is_member: bool,
    own: Option<Cause>,
) -> Result<u32, Error> {
    let mut base = 0;
    loop {
        let mut words = [u64::MAX; OFFER_WORDS];
        let [objection, more, free @ ..] = &mut words;
        *objection = party.objection(own);
        if is_member {
            let offer = caller.endpoint().context_offer(base);
            (*more, *free) = (offer.more.into(), offer.free);
        }
        let combine = |index, mine: u64, theirs| if index == 0 { mine.max(theirs) } else { mine & theirs };
        party.agree(caller, &mut words, combine)?;
        let [objection, more, free @ ..] = words;
        party.heed(objection, own).inspect_err(|error| party.raise(caller, *error))?;
        let mut words = free.into_iter().zip((base..).step_by(64)).filter(|&(word, _)| word != 0);
        if let Some((word, first)) = words.next() {
            return Ok(first + word.trailing_zeros());
        }
        if more & 1 == 0 {
            return Err(Error::new(party.operation(), Cause::Full(Resource::Communicators)));
        }
        base += 64 * CONTEXT_WORDS as u32;
    }
}

//! Credits are conserved: what is checked of the accounts that two ranks keep of each other.

use core::fmt;
use std::collections::BTreeMap;

use aldis_kernel::hal::{PeerId, Platform, Transport};
use aldis_kernel::{Account, Credits, Endpoint};

use super::config::SimConfig;
use super::node::Cpu;
use super::random::Random;
use super::virtual_node::Outcome;

/// Places that a rank counts as taken while it holds no message: their credits are lost.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LostCredits {
    /// The peer whose messages had been there.
    pub peer: u32,
    /// The kind of place.
    pub kind: &'static str,
    /// The account with that peer.
    pub account: Account,
}

impl fmt::Display for LostCredits {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { peer, kind, account } = self;
        let held = account.held();
        write!(
            f,
            "the invariant \"credits are conserved\" is broken: {held} {kind} of rank {peer} are taken, and no "
        )?;
        write!(f, "message is there: {account}")
    }
}

impl core::error::Error for LostCredits {}

/// Looks for lost credits of these peers on a rank on which no message is unexpected.
///
/// # Errors
/// The first peer whose places are not all free.
pub(crate) fn all_free<T, P>(
    endpoint: &Endpoint<'_, T, P>,
    peers: impl IntoIterator<Item = u32>,
) -> Result<(), LostCredits> {
    for peer in peers {
        let Some(credits) = endpoint.diagnostics().credits(PeerId(peer)) else { continue };
        for (kind, account) in [("envelopes", credits.envelopes), ("blocks", credits.blocks)] {
            if account.held() > 0 {
                return Err(LostCredits { peer, kind, account });
            }
        }
    }
    Ok(())
}

/// Accounts of two ranks that do not agree although nothing is under way between them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Imbalance {
    /// The rank that sends.
    pub from: u32,
    /// The rank that receives, and grants credit.
    pub to: u32,
    /// The kind of place.
    pub kind: &'static str,
    /// The sender's account with the receiver.
    pub sender: Account,
    /// The receiver's with the sender.
    pub receiver: Account,
}

impl fmt::Display for Imbalance {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { from, to, kind, sender, receiver } = self;
        let (available, held, unannounced) = (sender.available(), receiver.held(), receiver.unannounced());
        write!(
            f,
            "the invariant \"credits are conserved\" is broken for {kind} from rank {from} to rank {to}: "
        )?;
        write!(f, "{available} to send, {held} held, {unannounced} free and not announced, and room for ")?;
        write!(f, "{}; one side: {sender}; the other: {receiver}", receiver.room_here)
    }
}

impl core::error::Error for Imbalance {}

/// A rank that held more at a time than it has place for, or holds something at the end.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Overfull {
    /// The things that it held.
    pub what: &'static str,
    /// The number of them.
    pub held: u32,
    /// The most that there may be.
    pub bound: u32,
}

impl fmt::Display for Overfull {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { what, held, bound } = self;
        write!(f, "the invariant \"memory is bounded\" is broken: {held} {what}, and there may be {bound}")
    }
}

impl core::error::Error for Overfull {}

/// The accounts of all ranks whose programs are over, as of their last poll.
#[derive(Debug, Default)]
pub(crate) struct Ledger {
    ranks: BTreeMap<u32, LedgerEntry>,
    closed: bool,
}

#[derive(Debug, Default)]
struct LedgerEntry {
    accounts: Vec<Option<Credits>>,
    requests: u32,
}

impl Ledger {
    /// Fails unless each side of every pair has counted what the other has. Nothing may be under
    /// way.
    fn check(&self) -> Result<(), Imbalance> {
        let account = |of: u32, with: u32| *self.ranks.get(&of)?.accounts.get(with as usize)?;
        for (from, to) in self.ranks.keys().flat_map(|from| self.ranks.keys().map(move |to| (*from, *to))) {
            let (Some(sender), Some(receiver)) = (account(from, to), account(to, from)) else { continue };
            let kinds = [
                ("envelopes", sender.envelopes, receiver.envelopes),
                ("blocks", sender.blocks, receiver.blocks),
            ];
            for (kind, sender, receiver) in kinds {
                let all =
                    sender.available().wrapping_add(receiver.held()).wrapping_add(receiver.unannounced());
                let known = receiver.announced.wrapping_add(receiver.room_here);
                if sender.sent != receiver.received || sender.limit != known || all != receiver.room_here {
                    return Err(Imbalance { from, to, kind, sender, receiver });
                }
            }
        }
        Ok(())
    }
}

/// Returns true if the ranks of a run wait for each other at the end, to compare their accounts.
/// Others leave one by one, which is to be tested as well.
pub(crate) fn is_balanced(config: &SimConfig) -> bool {
    config.leave && !config.faults.kills() && Random::new(config.seed, 10).chance(50)
}

/// The longest that requests may need to come to their end when all programs are over and nothing
/// is under way, virtual ns.
const STUCK_NS: u64 = 1_000_000_000;

/// Serves the others until all programs are over and nothing is under way, and compares the
/// accounts then.
///
/// # Errors
/// [`Imbalance`]; [`Overfull`] if a rank held more than it has room for, or a request slot is never
/// free again.
pub(crate) fn balance<T: Transport, P: Platform>(
    cpu: &Cpu<'_>,
    endpoint: &mut Endpoint<'_, T, P>,
    config: &SimConfig,
    requests_max: u32,
) -> Outcome {
    let counters = endpoint.counters();
    let envelopes = u32::from(endpoint.card().room.envelopes).saturating_mul(config.ranks);
    within("unexpected messages at a time", counters.unexpected_peak, envelopes)?;
    within("requests at a time", counters.requests_peak, requests_max)?;
    let mut quiet_since = None;
    loop {
        endpoint.poll(64);
        let accounts = (0..config.ranks).map(|peer| endpoint.diagnostics().credits(PeerId(peer))).collect();
        let requests = endpoint.diagnostics().requests_in_use();
        {
            let world = &mut *cpu.world.borrow_mut();
            world.ledger.ranks.insert(cpu.node, LedgerEntry { accounts, requests });
            if world.ledger.closed {
                return Ok(());
            }
            let all_over = world.ledger.ranks.len() == config.ranks as usize;
            if all_over && world.watch.under_way() == 0 {
                world.ledger.check()?;
                world.ledger.closed = world.ledger.ranks.values().all(|entry| entry.requests == 0);
                let since = *quiet_since.get_or_insert(world.now);
                if world.now - since > STUCK_NS {
                    within("requests after the end", requests, 0)?;
                }
            }
        }
        cpu.nap(0);
    }
}

fn within(what: &'static str, held: u32, bound: u32) -> Result<(), Overfull> {
    if held <= bound { Ok(()) } else { Err(Overfull { what, held, bound }) }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two ranks with room for four: one has sent three messages, the other has received one of
    /// them and said so.
    fn ledger() -> Ledger {
        let out = Account { sent: 3, limit: 5, room_there: 4, ..Account::default() };
        let into = Account { received: 3, freed: 1, announced: 1, room_here: 4, ..Account::default() };
        let entry = |accounts: [Account; 2]| LedgerEntry {
            accounts: accounts.map(|envelopes| Some(Credits { envelopes, ..Credits::default() })).into(),
            requests: 0,
        };
        let idle = Account { limit: 4, room_there: 4, room_here: 4, ..Account::default() };
        let out = Account { room_here: 4, ..out };
        let into = Account { limit: 4, room_there: 4, ..into };
        Ledger { ranks: BTreeMap::from([(0, entry([idle, out])), (1, entry([into, idle]))]), closed: false }
    }

    #[test]
    fn what_is_sent_held_and_announced_must_agree() {
        assert_eq!(ledger().check(), Ok(()));
        let spoil = |change: fn(&mut Account)| {
            let mut ledger = ledger();
            let credits = ledger.ranks.get_mut(&1).and_then(|entry| entry.accounts[0].as_mut());
            change(&mut credits.unwrap().envelopes);
            ledger.check().map_err(|imbalance| (imbalance.from, imbalance.to, imbalance.kind))
        };
        assert_eq!(spoil(|_| {}), Ok(()));
        assert_eq!(spoil(|account| account.freed += 1), Ok(()), "it will be told");
        let broken = Err((0, 1, "envelopes"));
        assert_eq!(spoil(|account| account.received -= 1), broken, "one is lost");
        assert_eq!(spoil(|account| account.announced += 1), broken, "a credit is lost");
        assert_eq!(spoil(|account| account.room_here += 1), broken);
    }
}

//! This module holds `unsafe` code: the inboxes that this rank has. A job over shared memory: a
//! rank formats its inbox, announces itself in the memory, and attaches to each other rank as its
//! card appears.

use core::time::Duration;

use aldis_drivers::Shm;
use aldis_drivers::ivshmem::SharedMemory;
use aldis_drivers::shm::{self, Identity};
use aldis_hal::{Cause, Cost, Epoch, Instant, Nic, PeerId, Platform};
use aldis_programs::Options;
use aldis_protocols::Card;
use aldis_protocols::card::CARD_BYTES_MAX;

use crate::any_wire::AnyWire;
use crate::memory::{self, inbox};
use crate::rank::{BoardEndpoint, TAKEN, Trouble, assemble};

/// The cost of a message between two emulators on two cores.
const COST: Cost = Cost { overhead_ns: 500, latency_ns: 1_000, per_kib_ns: 1_000 };

/// The time that the ranks may take to appear: emulators start slowly on busy machines.
const SEARCH: Duration = Duration::from_secs(60);

/// The endpoint of this rank in the memory, connected to all others.
pub(crate) fn join<N: Nic, P: Platform>(
    options: &Options,
    shared: &SharedMemory,
    mut clock: P,
) -> Result<BoardEndpoint<N, P>, Trouble> {
    let &Options { job, rank, size, .. } = options;
    let me = Identity { job, owner: PeerId(rank), epoch: Epoch::from_entropy(clock.entropy()) };
    let geometry = inbox(size);
    let lanes = &mut memory::LANES.take().ok_or(TAKEN)?.0;
    // SAFETY: its owner is this rank, which has one transport, since lanes are handed out once, and
    // formats it before it is announced.
    let own = unsafe { shared.inbox(&geometry, me.owner) }?;
    shm::format(&own, geometry, me)?;
    let shm = Shm::new(me, own, lanes, COST)?;
    let deadline = clock.now().after(SEARCH);
    let mut endpoint = assemble(options, AnyWire::Inboxes(shm), clock, me.epoch)?;
    let mut buffer = [0; CARD_BYTES_MAX];
    shared.announce(&me, endpoint.card().encode(&mut buffer)?)?;
    let search = CardSearch { shared, job, deadline };
    for peer in (0..size).map(PeerId).filter(|peer| *peer != me.owner) {
        let card = search.wait_for(peer, &endpoint)?;
        let theirs = Identity { job, owner: peer, epoch: card.epoch() };
        // SAFETY: formatted, as it has been announced; this rank sends into it by its one
        // transport.
        let inbox = unsafe { shared.inbox(&geometry, peer) }?;
        endpoint.try_transport_mut()?.second_mut().inboxes_mut()?.attach(peer, inbox, theirs)?;
        endpoint.connect(&card)?;
    }
    Ok(endpoint)
}

/// A search for the cards of a job's ranks.
struct CardSearch<'a> {
    shared: &'a SharedMemory,
    job: u64,
    deadline: Instant,
}

impl CardSearch<'_> {
    /// The card of a rank, once it has formatted its inbox.
    fn wait_for<N: Nic, P: Platform>(
        &self,
        peer: PeerId,
        endpoint: &BoardEndpoint<N, P>,
    ) -> Result<Card, Trouble> {
        let mut buffer = [0; CARD_BYTES_MAX];
        loop {
            if let Some((_, card)) = self.shared.card(self.job, peer, &mut buffer) {
                return Ok(Card::decode(card)?);
            }
            if endpoint.platform().now() > self.deadline {
                return Err(Trouble::Absent(peer, Cause::TimedOut));
            }
            core::hint::spin_loop();
        }
    }
}

//! A job over frames: a rank announces itself on its device, waits for the cards of all others, and connects to them.

use core::time::Duration;

use aldis_drivers::Loopback;
use aldis_drivers::discovery::{Discovery, Setup};
use aldis_drivers::ethernet::{Config, Ethernet};
use aldis_hal::{Cause, Cost, Epoch, Nic, PeerId, Platform};
use aldis_kernel::{Composite, Endpoint};
use aldis_programs::Options;
use aldis_protocols::Card;
use aldis_protocols::card::CARD_BYTES_MAX;

use crate::memory;
use crate::rank::{TAKEN, Trouble, assemble, itself};

/// What a message costs through an emulated device and a switch: protocols are selected by it.
const COST: Cost = Cost { overhead_ns: 5_000, latency_ns: 30_000, per_kib_ns: 2_000 };

/// How long the ranks may take to find each other: emulators start slowly on busy machines.
const SEARCH: Duration = Duration::from_secs(60);

/// Frames to others, and memory to itself.
type Wire<N> = Composite<Loopback<'static>, Ethernet<'static, Discovery<'static, N>>>;

/// The endpoint of this rank on its device, connected to all others.
pub(crate) fn join<N: Nic, P: Platform>(
    options: &Options,
    nic: N,
    mut clock: P,
) -> Result<Endpoint<'static, Wire<N>, P>, Trouble> {
    let (me, epoch) = (PeerId(options.rank), Epoch::from_entropy(clock.entropy()));
    let (job, rank, size) = (options.job, options.rank, options.size);
    let deadline_ns = SEARCH.as_nanos() as u64;
    let setup = Setup { job, rank, size, epoch, deadline_ns, ..Setup::DEFAULT };
    let entries = memory::CARDS.take().ok_or(TAKEN)?;
    let too_many = Cause::TooBig { len: size.into(), max: entries.len() as u64 };
    let entries = entries.get_mut(..size as usize).ok_or(too_many)?;
    let discovery = Discovery::new(nic, setup, entries)?;
    let rings = memory::RINGS.take().ok_or(TAKEN)?.memory();
    let ethernet = Ethernet::new(discovery, rings, Config::new(me, epoch, job, COST))?;
    let mut endpoint = assemble(options, Composite::new(itself(options)?, ethernet), clock, epoch)?;
    find_the_others(&mut endpoint)?;
    Ok(endpoint)
}

/// Announces this rank, and introduces those that it finds.
fn find_the_others<N: Nic, P: Platform>(endpoint: &mut Endpoint<'_, Wire<N>, P>) -> Result<(), Trouble> {
    let mut card = endpoint.card();
    let address = endpoint.transport().second().address();
    let too_long = Cause::TooBig { len: address.len() as u64, max: card.address.capacity() as u64 };
    card.address.extend_from_slice(&address).map_err(|_| too_long)?;
    let mut buffer = [0; CARD_BYTES_MAX];
    let card = card.encode(&mut buffer)?;
    let now = endpoint.platform().now();
    endpoint.transport_mut().second_mut().nic_mut().announce(card, now)?;
    loop {
        let now = endpoint.platform().now();
        if endpoint.transport_mut().second_mut().nic_mut().poll(now)? {
            break;
        }
        core::hint::spin_loop();
    }
    while let Some(peer) = endpoint.transport_mut().second_mut().nic_mut().news() {
        if let Some(card) = endpoint.transport().second().nic().card(peer).map(Card::decode) {
            endpoint.connect(&card?)?;
        }
    }
    Ok(())
}

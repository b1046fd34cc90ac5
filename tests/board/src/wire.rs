//! A job over frames: a rank announces itself on its device, waits for the cards of all others, and
//! connects to them.

use core::fmt;
use core::time::Duration;

use aldis_drivers::authenticated::{AuthKey, AuthenticatedNic};
use aldis_drivers::discovery::{Discovery, DiscoverySetup};
use aldis_drivers::ethernet::{Config, Ethernet, Framing, Udp};
use aldis_drivers::handover::HandoverCounters;
use aldis_drivers::serial;
use aldis_hal::{Cause, Cost, Epoch, Nic, PeerId, Platform};
use aldis_programs::{Framing as Named, Options};
use aldis_protocols::card::CARD_BYTES_MAX;
use aldis_protocols::{Card, reliable};

use crate::any_nic::AnyNic;
use crate::any_wire::{AnyWire, FoundNic};
use crate::devices::{CardQueue, GigabitQueue};
use crate::memory;
use crate::rank::{BoardEndpoint, TAKEN, Trouble, Wire, assemble, core_of};

/// The cost of messages, by which protocols are selected, and how soon a frame is missed.
pub(crate) struct Pace {
    cost: Cost,
    link: reliable::LinkConfig,
}

/// Through an emulated network card and a switch.
pub(crate) const NETWORK: Pace = Pace {
    cost: Cost { overhead_ns: 5_000, latency_ns: 30_000, per_kib_ns: 2_000 },
    link: reliable::LinkConfig::DEFAULT,
};

/// Through a serial line.
pub(crate) const SERIAL: Pace = Pace { cost: serial::COST, link: serial::LINK };

/// The time that the ranks may take to find each other: emulators start slowly on busy machines.
const SEARCH: Duration = Duration::from_secs(60);

/// The endpoint of this rank on its device, connected to all others.
pub(crate) fn join<N: Nic, P: Platform>(
    options: &Options,
    nic: N,
    pace: Pace,
    mut clock: P,
) -> Result<BoardEndpoint<N, P>, Trouble> {
    let (me, epoch) = (PeerId(options.rank), Epoch::from_entropy(clock.entropy()));
    let (job, rank, size) = (options.job, options.rank, options.size);
    let deadline_ns = SEARCH.as_nanos() as u64;
    let setup = DiscoverySetup { job, rank, size, epoch, deadline_ns, ..DiscoverySetup::DEFAULT };
    let core = core_of(options);
    let entries = memory::CARDS.get(core).and_then(memory::Once::take).ok_or(TAKEN)?;
    let too_many = Cause::TooBig { len: size.into(), max: entries.len() as u64 };
    let entries = entries.get_mut(..size as usize).ok_or(too_many)?;
    let framing = match options.framing {
        Named::Ethernet => Framing::Ethernet,
        Named::Udp => Framing::Udp(Udp::of_rank(rank)),
    };
    let nic = AuthenticatedNic::new(nic, options.key.map(AuthKey::new));
    let discovery = Discovery::new(nic, setup, entries)?.framed(framing)?;
    let rings = memory::RINGS.get(core).and_then(memory::Once::take).ok_or(TAKEN)?.memory();
    let config = Config { link: pace.link, framing, ..Config::new(me, epoch, job, pace.cost) };
    let ethernet = Ethernet::new(discovery, rings, config)?;
    let mut endpoint = assemble(options, AnyWire::Frames(ethernet), clock, epoch)?;
    find_the_others(&mut endpoint)?;
    Ok(endpoint)
}

/// Announces this rank, and introduces those that it finds.
fn find_the_others<N: Nic, P: Platform>(endpoint: &mut BoardEndpoint<N, P>) -> Result<(), Trouble> {
    let mut card = endpoint.card();
    let address = endpoint.transport().second().frames()?.address();
    let too_long = Cause::TooBig { len: address.len() as u64, max: card.address.capacity() as u64 };
    card.address.extend_from_slice(&address).map_err(|_| too_long)?;
    let mut buffer = [0; CARD_BYTES_MAX];
    let card = card.encode(&mut buffer)?;
    let now = endpoint.platform().now();
    nic_of(endpoint)?.announce(card, now)?;
    loop {
        let now = endpoint.platform().now();
        if nic_of(endpoint)?.poll(now)? {
            break;
        }
        core::hint::spin_loop();
    }
    while let Some(peer) = nic_of(endpoint)?.news() {
        if let Some(card) = endpoint.transport().second().frames()?.nic().card(peer).map(Card::decode) {
            endpoint.connect(&card?)?;
        }
    }
    Ok(())
}

/// The card on which the ranks find each other.
fn nic_of<N: Nic, P: Platform>(endpoint: &mut BoardEndpoint<N, P>) -> Result<&mut FoundNic<N>, Cause> {
    Ok(endpoint.transport_mut().second_mut().frames_mut()?.nic_mut())
}

/// Writes by which queues the frames of a core have come, if it shares a card with others.
pub(crate) fn tell_of_queue<V: Nic, G: Nic, S: Nic>(
    wire: &Wire<AnyNic<V, G, S, CardQueue, GigabitQueue>>,
    out: &mut dyn fmt::Write,
) -> fmt::Result {
    let Ok(frames) = wire.second().frames() else { return Ok(()) };
    let HandoverCounters { own, handed, exchanged, lost, .. } = match frames.nic().nic().nic() {
        AnyNic::VirtioQueue(queue) => queue.counters(),
        AnyNic::GigabitQueue(queue) => queue.counters(),
        _ => return Ok(()),
    };
    // Those by which ranks find each other are handed over in any case.
    let whose = match (own, handed) {
        (0, 0) => "no frames",
        (_, 0) => "frames of this core alone",
        _ if own / 4 > *handed => "frames of this core, but for a few",
        _ => "frames of several cores",
    };
    writeln!(out, "queue: {whose}")?;
    writeln!(out, "info: {own} frames, {handed} for other cores, {exchanged} to them, {lost} lost")
}

/// Writes what a transport over frames has counted: the first thing to look at when messages are
/// missing.
pub(crate) fn tell<N: Nic>(wire: &Wire<N>, out: &mut dyn fmt::Write) -> fmt::Result {
    let Ok(frames) = wire.second().frames() else { return Ok(()) };
    writeln!(out, "frames: {}", frames.counters())?;
    match frames.nic().nic().forged() {
        0 => Ok(()),
        forged => writeln!(out, "info: {forged} frames without the job's key"),
    }
}

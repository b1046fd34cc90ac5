//! The program of a core: it joins the others, then works in rounds. Core 0 tells all how long the
//! messages of a round are, sends one to each other core and gets it back; then all add up what
//! they have counted, and wait for each other.

use aldis_coll::allreduce;
use aldis_coll::allreduce::RecursiveDoubling;
use aldis_coll::barrier;
use aldis_coll::barrier::Dissemination;
use aldis_coll::bcast;
use aldis_coll::bcast::Binomial;
use aldis_coll::op::Sum;
use aldis_drivers::Shm;
use aldis_drivers::shm::{self, Identity, Region};
use aldis_hal::{Cost, Epoch, PeerId, Platform};
use aldis_kernel::protocols::card::Card;
use aldis_kernel::{Config, Endpoint, Rank, Source, Tag, TagMatch};

use crate::board::{self, Board, BoardParts};
use crate::layout::{GEOMETRY, MESSAGE_BYTES_MAX, PEERS};

/// Per peer: messages that have arrived and are not matched, and payloads among them.
pub(crate) const ENVELOPES: usize = 4;
/// Per peer: eager payloads that are kept.
pub(crate) const BLOCKS: usize = 2;

aldis_kernel::storage! {
    static STORAGE: peers = 4, requests = 4, communicators = 2,
        envelopes = 4, blocks = 2, block_bytes = 256, pooled = 0, bins = 16
}

/// The number of the job, equal in every core's firmware: they belong together.
const JOB: u64 = 0x414C_4449_5301;

/// The rank that begins.
const ROOT: Rank = Rank(0);
/// The tag of what is sent back.
const ECHO: Tag = Tag(1);

/// The cost that a core assumes of memory that cores share.
const COST: Cost = Cost { overhead_ns: 500, latency_ns: 1_000, per_kib_ns: 4_000 };

type Core = Endpoint<'static, Shm<'static>, Board>;

/// Runs until something is wrong; a product would report it.
pub(crate) fn firmware() {
    let _ = run();
}

/// Offers an inbox to the others, waits for theirs, puts the endpoint together, and works in
/// rounds.
fn run() -> Option<()> {
    let BoardParts { mut board, lanes, message } = board::take()?;
    let me = Identity { job: JOB, owner: PeerId(board.core()), epoch: Epoch::from_entropy(board.entropy()) };
    let inbox = board::inbox(me.owner.index())?;
    shm::format(&inbox, GEOMETRY, me).ok()?;
    let Ok(transport) = Shm::new(me, inbox, lanes, COST) else { return None };
    let config = Config { me: me.owner, size: PEERS as u32, epoch: me.epoch };
    let mut made = Endpoint::new(STORAGE.take()?, transport, board, config);
    let Ok(endpoint) = &mut made else { return None };
    // All cores run this firmware: what one has set aside for a peer, all have.
    let room = endpoint.card().room;
    for peer in (0..PEERS as u32).map(PeerId).filter(|peer| *peer != me.owner) {
        let inbox = board::inbox(peer.index())?;
        let theirs = wait_for(&inbox);
        endpoint.try_transport_mut().ok()?.attach(peer, inbox, theirs).ok()?;
        endpoint.connect(&Card::new(peer, theirs.epoch, room)).ok()?;
    }
    let mut length = 1;
    loop {
        length = round(endpoint, message, length)?;
    }
}

/// Until the core has formatted its inbox. Nothing of an earlier life of it is taken for it: memory
/// that cores share is cleared by the boot loader, before any of them starts.
fn wait_for(inbox: &Region<'_>) -> Identity {
    loop {
        if let Ok((_, identity)) = &shm::inspect(inbox) {
            return *identity;
        }
        core::hint::spin_loop();
    }
}

/// Runs one round with messages of `length` bytes, if this is core 0. Returns the length for the
/// next one.
fn round(endpoint: &mut Core, message: &mut [u8], length: u32) -> Option<u32> {
    let world = endpoint.world();
    let mut length = [length];
    bcast(&mut length, ROOT).by(&Binomial).run(endpoint, &world).ok()?;
    let [length] = length;
    let mut bytes = [0];
    if world.rank() == ROOT {
        let message = message.get_mut(..length as usize)?;
        for other in (0..world.size()).map(Rank).filter(|&other| other != ROOT) {
            endpoint.send(&world, message, other, ECHO).ok()?;
            bytes = [bytes[0]
                + endpoint.recv(&world, message, Source::Rank(other), TagMatch::Tag(ECHO)).ok()?.bytes];
        }
    } else {
        bytes = [answer(endpoint, message)?];
    }
    allreduce(Sum, &mut bytes, &mut [0]).by(&RecursiveDoubling).run(endpoint, &world).ok()?;
    barrier().by(&Dissemination).run(endpoint, &world).ok()?;
    // Every length, and so every protocol.
    Some(if length as usize >= MESSAGE_BYTES_MAX { 1 } else { length + 1 })
}

/// Receives one message and sends it back; returns its bytes.
fn answer(endpoint: &mut Core, message: &mut [u8]) -> Option<u64> {
    let world = endpoint.world();
    let status = endpoint.recv(&world, message, Source::Any, TagMatch::Any).ok()?;
    let echo = message.get(..usize::try_from(status.bytes).ok()?)?;
    endpoint.send(&world, echo, status.source, status.tag).ok()?;
    Some(status.bytes)
}

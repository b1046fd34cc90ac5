//! This module holds `unsafe` code: the one scope of a rank, and the endpoint in the caller's
//! memory.
//!
//! A rank from joining to leaving.

use core::fmt;
use core::mem::MaybeUninit;

use aldis_drivers::Loopback;
use aldis_drivers::authenticated::{AuthKey, AuthenticatedNic};
use aldis_drivers::discovery::{Discovery, DiscoverySetup, Entry, Overdue};
use aldis_drivers::ethernet::{Config, Ethernet, EthernetMemory, PeerLink, PeerRow, are_sizes};
use aldis_hal::cause::Malformed;
use aldis_hal::{Cause, Epoch, PeerId, Platform};
use aldis_kernel::{Comm, Composite, Endpoint, Error, Scope, SizesError, StorageSizes};
use aldis_protocols::Card;
use aldis_protocols::card::CARD_BYTES_MAX;

use crate::arena::{MemoryArena, bytes_of};
use crate::card::CallbackCard;
use crate::clock::CallbackPlatform;
use crate::errors;
use crate::types::RankConfig;

/// Frames to others, and memory to itself.
type RankWire =
    Composite<Loopback<'static>, Ethernet<'static, Discovery<'static, AuthenticatedNic<CallbackCard>>>>;

/// The endpoint of a rank.
pub(crate) type CEndpoint = Endpoint<'static, RankWire, CallbackPlatform>;

/// The scope of a rank's requests.
pub(crate) type CScope = Scope<'static, 'static, 'static, RankWire, CallbackPlatform>;

/// Messages of a rank to itself under way at a time.
const LOOPBACK_FRAMES: usize = 4;
/// Bytes of the longest header before an eager payload, with room to spare.
const LOOPBACK_HEADER_BYTES: usize = 72;
/// Bytes that the loopback takes for a frame beside it, alignment included.
const LOOPBACK_FRAME_EXTRA: usize = 16;

/// `aldis_rank`: a rank in the memory that C has given.
#[derive(Debug)]
pub struct CRank {
    pub(crate) rank: u32,
    pub(crate) size: u32,
    /// Nothing before it has joined, and after it has failed to.
    pub(crate) joined: Option<JoinedRank>,
    /// The reason of the last error.
    pub(crate) last: Option<Trouble>,
}

/// The parts of a rank that has joined.
pub(crate) struct JoinedRank {
    pub(crate) scope: CScope,
    pub(crate) world: Comm,
    pub(crate) platform: CallbackPlatform,
}

impl fmt::Debug for JoinedRank {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("JoinedRank").field("world", &self.world).finish_non_exhaustive()
    }
}

impl JoinedRank {
    /// The endpoint, for blocking calls.
    pub(crate) fn endpoint(&mut self) -> &mut CEndpoint {
        // SAFETY: nothing in this crate replaces it.
        unsafe { self.scope.endpoint() }
    }
}

/// The reason why a rank does not join, or why a call failed.
#[derive(Clone, Debug)]
pub(crate) enum Trouble {
    /// A call, or connecting.
    Kernel(Error),
    /// A part of the rank refuses.
    Refused(Cause),
    /// Ranks are missing.
    Overdue(Overdue),
    /// Tables cannot be of these sizes.
    Sizes(SizesError),
    /// The caller's memory is too small.
    Memory,
}

impl Trouble {
    /// Returns its number in `aldis.h`.
    pub(crate) const fn number(&self) -> i32 {
        match self {
            Self::Kernel(error) => errors::number(error.cause),
            Self::Refused(cause) => errors::number(*cause),
            Self::Overdue(_) => errors::MISSING,
            Self::Sizes(SizesError::TooSmall { .. }) | Self::Memory => errors::MEMORY,
            Self::Sizes(_) => errors::ARGUMENT,
        }
    }
}

impl fmt::Display for Trouble {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Kernel(error) => error.fmt(f),
            Self::Refused(cause) => cause.fmt(f),
            Self::Overdue(report) => report.fmt(f),
            Self::Sizes(error) => error.fmt(f),
            Self::Memory => f.write_str("less memory than aldis_memory_bytes says"),
        }
    }
}

impl From<Cause> for Trouble {
    fn from(cause: Cause) -> Self {
        Self::Refused(cause)
    }
}

impl From<Overdue> for Trouble {
    fn from(report: Overdue) -> Self {
        Self::Overdue(report)
    }
}

impl From<Error> for Trouble {
    fn from(error: Error) -> Self {
        Self::Kernel(error)
    }
}

impl From<SizesError> for Trouble {
    fn from(error: SizesError) -> Self {
        Self::Sizes(error)
    }
}

/// The lengths of the tables of a rank.
struct Tables {
    storage: StorageSizes,
    storage_bytes: usize,
    loopback_bytes: usize,
    entries: usize,
    /// Other ranks; one at least, as a transport has it.
    others: usize,
    window: usize,
    message_bytes: usize,
    /// Of a ring, in words.
    ring_words: usize,
}

impl Tables {
    /// Of a configuration that is filled in; an error if there can be no such tables.
    fn of(config: &RankConfig) -> Result<Self, Trouble> {
        let storage = config.storage();
        let others = (config.size as usize - 1).max(1);
        let (window, message_bytes) = (config.window as usize, config.message_bytes as usize);
        if !are_sizes(others, window, message_bytes) {
            return Err(Trouble::Refused(Cause::Malformed(Malformed::Length)));
        }
        let ring_words = others.checked_mul(window).and_then(|frames| frames.checked_mul(message_bytes / 8));
        let frame_bytes =
            (config.block_bytes as usize).checked_add(LOOPBACK_HEADER_BYTES + LOOPBACK_FRAME_EXTRA);
        let loopback_bytes = frame_bytes.and_then(|bytes| bytes.checked_mul(LOOPBACK_FRAMES));
        Ok(Self {
            storage,
            storage_bytes: storage.bytes()?,
            loopback_bytes: loopback_bytes.ok_or(SizesError::TooLarge)?,
            entries: config.size as usize,
            others,
            window,
            message_bytes,
            ring_words: ring_words.ok_or(SizesError::TooLarge)?,
        })
    }

    /// Bytes of all of it, wherever it begins.
    fn bytes(&self) -> Option<usize> {
        let lengths = self.others * self.window;
        let tables = [
            bytes_of::<CRank>(1),
            bytes_of::<CEndpoint>(1),
            Some(self.storage_bytes),
            Some(self.loopback_bytes),
            bytes_of::<Entry>(self.entries),
            bytes_of::<PeerRow>(self.others),
            bytes_of::<PeerLink>(self.others),
            bytes_of::<u64>(self.ring_words),
            bytes_of::<u64>(self.ring_words),
            bytes_of::<u16>(lengths),
            bytes_of::<u16>(lengths),
        ];
        tables.into_iter().try_fold(0_usize, |sum, bytes| sum.checked_add(bytes?))
    }
}

/// Bytes of memory that a rank needs; `None` if there is no such rank.
pub(crate) fn memory_bytes(config: &RankConfig) -> Option<usize> {
    Tables::of(&config.filled()?).ok()?.bytes()
}

/// The parts of a rank that C brings.
pub(crate) struct RankParts {
    pub(crate) config: RankConfig,
    pub(crate) key: Option<[u8; 16]>,
    pub(crate) card: CallbackCard,
    pub(crate) platform: CallbackPlatform,
}

/// Finds all other ranks and connects to them. The configuration is filled in.
pub(crate) fn join(mut arena: MemoryArena, parts: RankParts) -> Result<JoinedRank, Trouble> {
    let (config, mut platform) = (parts.config, parts.platform);
    let tables = Tables::of(&config)?;
    let epoch = Epoch::from_entropy(platform.entropy());
    let me = PeerId(config.rank);
    let place: &'static mut MaybeUninit<CEndpoint> = arena.place().ok_or(Trouble::Memory)?;
    let memory = tables.storage.memory(arena.bytes(tables.storage_bytes).ok_or(Trouble::Memory)?)?;
    let wire = wire(&mut arena, &tables, parts, epoch)?;
    let identity = aldis_kernel::Config { me, size: config.size, epoch };
    let mut endpoint = Endpoint::new(memory, wire, platform, identity)?;
    find_the_others(&mut endpoint)?;
    let endpoint = place.write(endpoint);
    let world = endpoint.world();
    // SAFETY: a rank has one scope, and requests are made of its own handles alone, by `aldis.h`.
    let scope = unsafe { Scope::static_scope(endpoint) };
    Ok(JoinedRank { scope, world, platform })
}

/// The transports of a rank.
fn wire(
    arena: &mut MemoryArena,
    tables: &Tables,
    parts: RankParts,
    epoch: Epoch,
) -> Result<RankWire, Trouble> {
    let RankParts { config, key, card, .. } = parts;
    let me = PeerId(config.rank);
    let frame_bytes = config.block_bytes.saturating_add(LOOPBACK_HEADER_BYTES as u32);
    let loopback = arena.table(tables.loopback_bytes, &0_u8).ok_or(Trouble::Memory)?;
    let itself = Loopback::new(me, loopback, frame_bytes)?;
    let RankConfig { job, rank, size, join_timeout_ns: deadline_ns, .. } = config;
    let setup = DiscoverySetup { job, rank, size, epoch, deadline_ns, ..DiscoverySetup::DEFAULT };
    let entries = arena.table(tables.entries, &Entry::EMPTY).ok_or(Trouble::Memory)?;
    let nic = AuthenticatedNic::new(card, key.map(AuthKey::new));
    let framing = config.framing();
    let discovery = Discovery::new(nic, setup, entries)?.framed(framing)?;
    let rows = arena.table(tables.others, &PeerRow::EMPTY).ok_or(Trouble::Memory)?;
    let links = arena.table(tables.others, &PeerLink::EMPTY).ok_or(Trouble::Memory)?;
    let lengths = tables.others * tables.window;
    let mut ring = || Some((arena.table(tables.ring_words, &0_u64)?, arena.table(lengths, &0_u16)?));
    let rings = [ring().ok_or(Trouble::Memory)?, ring().ok_or(Trouble::Memory)?];
    let memory = EthernetMemory::of_slices(rows, links, rings, tables.window, tables.message_bytes)?;
    let (cost, link) = config.pace();
    let config = Config { framing, link, ..Config::new(me, epoch, job, cost) };
    let ethernet = Ethernet::new(discovery, memory, config)?;
    Ok(Composite::new(itself, ethernet))
}

/// Announces this rank, and connects to those that it finds.
fn find_the_others(endpoint: &mut CEndpoint) -> Result<(), Trouble> {
    let mut card = endpoint.card();
    let address = endpoint.transport().second().address();
    let too_long = Cause::TooBig { len: address.len() as u64, max: card.address.capacity() as u64 };
    card.address.extend_from_slice(&address).map_err(|_| too_long)?;
    let mut buffer = [0; CARD_BYTES_MAX];
    let card = card.encode(&mut buffer)?;
    let mut platform = *endpoint.platform();
    endpoint.transport_mut().second_mut().nic_mut().announce(card, platform.now())?;
    let mut idle = 0_u32;
    while !endpoint.transport_mut().second_mut().nic_mut().poll(platform.now())? {
        platform.relax(idle);
        idle = idle.saturating_add(1);
    }
    while let Some(peer) = endpoint.transport_mut().second_mut().nic_mut().news() {
        if let Some(card) = endpoint.transport().second().nic().card(peer).map(Card::decode) {
            endpoint.connect(&card?)?;
        }
    }
    Ok(())
}

//! UNSAFE: declares mapped segments as the driver's regions and as arenas. The transport of a rank:
//! itself, shared memory on its node, TCP, verbs or a network card beyond.

mod choice;

pub use choice::TransportChoice;

use core::ptr::NonNull;
use std::os::fd::OwnedFd;

use aldis_drivers::direct::{Direct, DirectTables, RegionSlots};
use aldis_drivers::shm::{
    self, Geometry, Identity, Lane, NodeRank, PairLengths, PeerReader, RecordTable, Region, SleepWords,
};
use aldis_drivers::{Loopback, Shm};
use aldis_hal::{Cause, Cost, Epoch, PeerId};
use aldis_kernel::{Composite, Endpoint};

use crate::arena::Arena;
use crate::board::Label;
use crate::calibration::{Calibration, CalibrationPair, StagingView};
use crate::cma::{self, Allowed, Cma};
use crate::copier::{self, Copier, WindowPlace};
use crate::distance;
use crate::entropy;
use crate::error::JoinError;
use crate::ethernet::{Wired, WiredIdentity};
use crate::network::Network;
use crate::platform::HostPlatform;
use crate::segment::{self, Departures, LEAST_BYTES, LeakedSegment, PAGE_BYTES, Parts, Segment};
use crate::shape::{makes_own_pages, makes_pages_of_others};
use crate::sleeper;
use crate::tcp::Tcp;
#[cfg(feature = "verbs")]
use crate::verbs::{Verbs, VerbsConfig};

/// Shared memory between the ranks of a node, long messages read where they are.
pub type HostShm = Direct<'static, Shm<'static>, Copier>;

/// The transport to ranks with which no memory is shared: TCP or a network card.
#[cfg(not(feature = "verbs"))]
pub type Far = Network;
/// The transport to ranks with which no memory is shared: TCP or a network card, or verbs; one of
/// the two is vacant.
#[cfg(feature = "verbs")]
pub type Far = Composite<Network, Verbs>;

/// The transport of a rank's messages: to itself through its own memory, to those of its node
/// through shared memory, to all others over TCP, verbs or a network card.
pub type HostTransport = Composite<Loopback<'static>, Composite<HostShm, Far>>;

/// A rank's endpoint on a host.
pub type HostEndpoint = Endpoint<'static, HostTransport, HostPlatform>;

/// The variable in which the launcher tells its ranks what it was told of transports.
pub const VARIABLE: &str = "ALDIS_TRANSPORT";

/// The transport to ranks with which no memory is shared, and its bell.
pub(crate) struct Reached {
    pub(crate) far: Far,
    /// The address by which they reach it.
    pub(crate) address: Vec<u8>,
    /// The descriptor that wakes the rank, if any does.
    pub(crate) bell: Option<OwnedFd>,
}

/// TCP for them.
pub(crate) fn over_tcp(tcp: Tcp) -> Reached {
    let (address, bell) = (tcp.address(), tcp.bell());
    let network = if tcp.is_vacant() { Network::Vacant } else { Network::Tcp(tcp) };
    Reached { far: far(network), address, bell }
}

/// A network card for them.
pub(crate) fn over_ethernet(who: WiredIdentity) -> Result<Reached, JoinError> {
    let wired = Wired::open(who)?;
    let (address, bell) = (wired.address(), wired.bell());
    Ok(Reached { far: far(Network::Ethernet(wired)), address, bell })
}

/// This network, and no verbs.
fn far(network: Network) -> Far {
    #[cfg(feature = "verbs")]
    let network = Composite::new(network, Verbs::vacant());
    network
}

/// Verbs for them, which this program does not have.
#[cfg(not(feature = "verbs"))]
pub(crate) fn over_verbs(me: PeerId, _epoch: Epoch, _ranks: u32) -> Result<Reached, JoinError> {
    let text = "this program is built without the feature `verbs` of aldis-linux".into();
    Err(JoinError::Verbs { rank: me.0, text })
}

/// Verbs for them.
#[cfg(feature = "verbs")]
pub(crate) fn over_verbs(me: PeerId, epoch: Epoch, ranks: u32) -> Result<Reached, JoinError> {
    let config = VerbsConfig::from_environment()?;
    let opened = Verbs::open(me, epoch, ranks, &config);
    let verbs = opened.map_err(|error| JoinError::Verbs { rank: me.0, text: error.to_string() })?;
    let (address, bell) = (verbs.address(), verbs.bell());
    Ok(Reached { far: Composite::new(Network::Vacant, verbs), address, bell })
}

/// The addition to a rank's report of a failure: the calls of the system that have failed here, for
/// each peer the last, and what is amiss with its network card.
pub fn failures(endpoint: &HostEndpoint) -> String {
    let far = endpoint.transport().second().second();
    #[cfg(feature = "verbs")]
    let far = far.first();
    let told = |(peer, failure)| format!("; for {peer}, {failure}");
    match far {
        Network::Vacant => String::new(),
        Network::Tcp(tcp) => tcp.failures().map(told).collect(),
        Network::Ethernet(wired) => {
            wired.trouble().map_or_else(String::new, |trouble| format!("; {trouble}"))
        }
    }
}

/// Has the network cards of a rank that ends tell what their user wants to know of them.
pub(crate) fn tell_cards(endpoint: &HostEndpoint) {
    let far = endpoint.transport().second().second();
    #[cfg(feature = "verbs")]
    let far = far.first();
    if let Network::Ethernet(wired) = far {
        wired.tell();
    }
}

/// Bytes of a loopback frame and how many there are.
pub(crate) const FRAME_BYTES: u32 = 32 << 10;
const FRAMES: usize = 8;

/// The cost of shared memory between two cores of one machine: measured on two cores of an AMD EPYC
/// (one way 150 to 250 ns for a line, 17 GB/s through blocks).
pub(crate) const COST: Cost = Cost { overhead_ns: 40, latency_ns: 160, per_kib_ns: 60 };

/// The segments of this rank and of those that it shares memory with, by rank from the `first`.
pub(crate) struct Segments {
    pub(crate) me: u32,
    pub(crate) first: u32,
    pub(crate) mapped: Vec<LeakedSegment>,
    /// Bytes of their arenas in which messages are staged.
    pub(crate) staging: usize,
    /// Ranks of each node but the last; 0 if nodes differ.
    pub(crate) per_node: u32,
    /// The table of all ranks' records, if it is in one file with the segments.
    pub(crate) records: Option<NonNull<[u8]>>,
    /// The table of the ranks that have left, if the launcher has one.
    pub(crate) departures: Option<&'static Departures>,
}

impl Segments {
    /// The rank whose segment comes next.
    pub(crate) fn next(&self) -> u32 {
        self.first + self.mapped.len() as u32
    }

    /// The segment of a rank, with the rank's number among the mapped; `None` if it shares no
    /// memory with this one.
    pub(crate) fn of(&self, rank: PeerId) -> Option<(PeerId, LeakedSegment)> {
        let number = rank.0.checked_sub(self.first)?;
        self.mapped.get(number as usize).map(|segment| (PeerId(number), *segment))
    }

    /// This rank's own.
    pub(crate) fn own(&self) -> Result<LeakedSegment, JoinError> {
        let missing = JoinError::Segments { expected: self.me + 1, found: self.next() };
        self.of(PeerId(self.me)).map(|(_, segment)| segment).ok_or(missing)
    }
}

/// The inboxes of a node as this rank sees them, while they are put together.
pub(crate) struct Inboxes<'a> {
    segments: &'a Segments,
    job: u64,
    inbox_bytes: usize,
    shm: HostShm,
}

/// The inbox part of a segment as the driver wants it.
fn region(Parts { inbox: (start, len), .. }: Parts) -> Region<'static> {
    // SAFETY: the mapping is leaked, so it is valid for 'static; its file is sealed against
    // shrinking and was zeroed when it was made; nothing else in this process reaches it (a segment
    // is taken up once per rank); all ranks of the job run this driver.
    unsafe { Region::new(start, len) }
}

/// The inbox part of this rank's own segment, which nobody has written to.
fn own_region(Parts { inbox: (start, len), .. }: Parts) -> Region<'static> {
    // SAFETY: as in `region`; its file was zeroed when it was made, for this life of the rank
    // alone, and others write there only once they are attached.
    unsafe { Region::fresh(start, len) }
}

/// The table of records as the driver wants it.
fn record_table(table: NonNull<[u8]>) -> RecordTable<'static> {
    // SAFETY: as in `own_region`, each rank's records.
    unsafe { RecordTable::new(table.cast(), table.len()) }
}

/// The arena part of this rank's own segment, for the rest of the process, with so many bytes in
/// which messages are staged.
fn arena(Parts { arena: (start, bytes), .. }: Parts, staging: usize) -> &'static Arena {
    // SAFETY: as in `region`; the others read there, and write by the system alone what is lent to
    // be written.
    Box::leak(Box::new(unsafe { Arena::new(start, bytes, staging) }))
}

/// Makes the pages of a segment that the world's long collectives and staged messages pass through:
/// made as they are used, they would cost several times what is copied.
fn make_pages(segment: LeakedSegment, parts: Parts, geometry: Geometry, staging: usize) {
    let arena_bytes = parts.arena.1;
    segment.populate(parts.inbox.0, geometry.chunks_range(0));
    segment.populate(parts.arena.0, arena_bytes.saturating_sub(staging)..arena_bytes);
}

impl<'a> Inboxes<'a> {
    /// Lays out this rank's own inbox.
    pub(crate) fn format(
        segments: &'a Segments,
        geometry: Geometry,
        job: u64,
        epoch: Epoch,
    ) -> Result<Self, JoinError> {
        let (allowed, read_cost) = (Allowed::from_environment()?, cma::read_cost()?);
        let (mapped_cost, distance) = (copier::mapped_cost()?, distance::from_environment()?);
        let refused = |cause| JoinError::Inbox { rank: segments.me, cause };
        let missing = JoinError::Segments { expected: geometry.peers, found: segments.mapped.len() as u32 };
        let (owner, own) = segments.of(PeerId(segments.me)).ok_or(missing)?;
        let identity = Identity { job, owner, epoch };
        let inbox_bytes = geometry.inbox_bytes();
        let broken = |error| JoinError::Segment { rank: segments.me, error };
        let parts = own.parts(inbox_bytes).map_err(broken)?;
        let (inbox, arena) = (own_region(parts), arena(parts, segments.staging));
        shm::format(&inbox, geometry, identity).map_err(refused)?;
        if makes_own_pages(geometry.peers) {
            make_pages(own, parts, geometry, segments.staging);
        }
        let entries = segments.first as usize + geometry.lane_entries();
        let lanes: Vec<Lane> = (0..entries).map(|_| Lane::EMPTY).collect();
        let first = PeerId(segments.first);
        let shm = Shm::of_node(NodeRank { first, identity }, inbox, lanes.leak(), COST).map_err(refused)?;
        let shm = shm.with_ranks_per_node(segments.per_node);
        let shm = match segments.records {
            Some(table) => shm.with_record_table(record_table(table)).map_err(refused)?,
            None => shm,
        };
        let shm = match distance {
            Some(distance) => shm.with_distance(distance),
            None => shm,
        };
        let shm = shm.with_alarm(sleeper::ring, Box::leak(Box::default()));
        let stand = own.stand();
        stand.take_up(Some(arena.address()).filter(|_| parts.arena.1 > 0));
        if !sleeper::take_part() {
            segments.mapped.first().copied().unwrap_or(own).stand().refuse_barriers();
        }
        let tables = (0..segments.next()).map(|_| None).collect::<Vec<_>>().leak();
        let slots = Box::leak(Box::new(RegionSlots::EMPTY));
        let table = stand.table().map_err(refused)?;
        let behind = parts.arena.0.addr().get().wrapping_sub(stand.start().addr().get());
        let place = WindowPlace { behind, bytes: parts.arena.1 };
        let copier = Copier::new(Cma::new(allowed, segments.next()), arena, place, segments.next());
        let tables = DirectTables { own: table, peers: tables, slots };
        let shm = Direct::new(shm, copier, tables, read_cost).with_mapped(mapped_cost);
        Ok(Self { segments, job, inbox_bytes, shm })
    }

    /// Joins the lanes to and from a rank in this life, one of those that share memory with this.
    /// Its memory is looked at when it is first talked to: a rank of a thousand talks to a few.
    pub(crate) fn attach(&mut self, peer: PeerId, epoch: Epoch) -> Result<(), JoinError> {
        let missing = JoinError::Segments { expected: peer.0 + 1, found: self.segments.next() };
        let (owner, segment) = self.segments.of(peer).ok_or(missing)?;
        let expect = Identity { job: self.job, owner, epoch };
        let refused = |cause| JoinError::Inbox { rank: peer.0, cause };
        let parts = segment.parts(self.inbox_bytes);
        let parts = parts.map_err(|error| JoinError::Segment { rank: peer.0, error })?;
        let geometry = self.shm.inner().geometry();
        if makes_pages_of_others(geometry.peers) {
            make_pages(segment, parts, geometry, self.segments.staging);
        }
        // SAFETY: a peer is attached to it, and it stays where it is.
        let inner = unsafe { self.shm.inner_mut() };
        inner.attach(peer, region(parts), expect).map_err(refused)?;
        let stand = segment.stand();
        // SAFETY: it is told of a peer, and stays where it is.
        let engine = unsafe { self.shm.engine_mut() };
        engine.cma_mut().introduce(peer, stand);
        // SAFETY: the mapping is leaked, and its pages are there; segments of a node are alike, so
        // that the arena is where this rank's own is.
        unsafe { engine.open(peer, stand) };
        match self.shm.attach(peer, stand.table().map_err(refused)?) {
            // Its messages are not read then; `explain` says why.
            Ok(()) | Err(Cause::Unsupported) => Ok(()),
            Err(cause) => Err(refused(cause)),
        }
    }

    /// The memory in which messages are staged, if there is any, for the one that asks first.
    pub(crate) fn take_staging(&self) -> Option<&'static mut [u8]> {
        self.shm.engine().arena().take_staging()
    }

    /// Measures with the rank beside this one how messages pass fastest between them, by `own`
    /// memory in which messages are staged, and takes the stores that were found: nothing is found
    /// if there is no such rank, or it does not come to it. Before any is attached.
    pub(crate) fn calibrate(&mut self, own: &mut [u8]) -> Option<Calibration> {
        let segments = self.segments;
        let (number, _) = segments.of(PeerId(segments.me))?;
        let partner = segments.mapped.get((number.0 ^ 1) as usize)?;
        let (start, bytes) = partner.parts(self.inbox_bytes).ok()?.arena;
        let copies = self.shm.engine().cma().allowed() == Allowed::On;
        let before = bytes.checked_sub(segments.staging)?;
        // SAFETY: the partner's memory for such messages is the end of its segment, which is mapped
        // for good and from a page on; own memory is lent by who alone may write there. Each rank
        // writes its own.
        let (own, partner) = unsafe {
            let own = StagingView::new(NonNull::new(own.as_mut_ptr())?, own.len())?;
            (own, StagingView::new(start.add(before), segments.staging)?)
        };
        let found = CalibrationPair::new(own, partner, copies).measure(number.0.is_multiple_of(2), &COST)?;
        if let Some(store) = found.far_store {
            // SAFETY: it is told of a store, and stays where it is.
            unsafe { self.shm.inner_mut() }.set_far_store(store);
        }
        if let Some(cost) = found.read_cost.filter(|_| !cma::is_cost_given()) {
            self.shm.set_read_cost(cost);
        }
        Some(found)
    }

    /// Passes long data of collectives of two ranks from now on as all ranks of the job have
    /// agreed. Once all that share memory are attached.
    pub(crate) fn pass_between_pairs(&mut self, lengths: PairLengths) {
        let segments = self.segments;
        let allowed = self.shm.engine().cma().allowed();
        let mut reader = None;
        if lengths.read_bytes_min > 0 {
            let mut cma = Cma::new(allowed, segments.next());
            for (peer, segment) in (segments.first..).map(PeerId).zip(&segments.mapped) {
                cma.introduce(peer, segment.stand());
            }
            reader = Some(Box::leak(Box::new(cma)) as &mut dyn PeerReader);
        }
        // SAFETY: it is told of lengths and of a reader, and stays where it is.
        unsafe { self.shm.inner_mut() }.pass_between_pairs(lengths, reader);
    }

    /// The words by which this rank says that it sleeps, where it can be woken: by ranks that it is
    /// attached to, if all of the node take part in barriers. Once all are there.
    ///
    /// # Errors
    /// [`JoinError::Variable`] if the environment does not say whether it may.
    pub(crate) fn sleep_words(&mut self) -> Result<Option<SleepWords<'static>>, JoinError> {
        let has_barriers = self.segments.mapped.first().is_none_or(|first| first.stand().has_barriers());
        let refused = match (sleeper::is_wanted()?, has_barriers) {
            (true, true) => {
                return Ok(self.shm.inner().sleep_words().filter(|_| self.segments.mapped.len() > 1));
            }
            (true, false) => "ranks that wait nap, as the system refuses membarrier(2) to one of them",
            (false, _) => "ranks that wait nap, as ALDIS_SLEEP says",
        };
        // SAFETY: what this rank waits for stands nowhere else, and it stays where it is.
        unsafe { self.shm.inner_mut() }.refuse_sleep(refused);
        Ok(None)
    }

    /// The finished transport, with `far` for those that share no memory with this rank.
    pub(crate) fn transport(self, far: Far) -> Result<HostTransport, JoinError> {
        let memory = vec![0; FRAMES * (FRAME_BYTES as usize + 16)].leak();
        let loopback = Loopback::new(PeerId(self.segments.me), memory, FRAME_BYTES);
        let loopback = loopback.map_err(|cause| JoinError::Inbox { rank: self.segments.me, cause })?;
        Ok(Composite::new(loopback, Composite::new(self.shm, far)))
    }
}

/// The transports of ranks that are threads of this process and share memory as processes do:
/// inboxes, and an arena of so many bytes each, in segments that stay for the rest of the process.
/// All ranks have the boot id `epoch`. For programs that try what processes do in one of them, such
/// as the trials of soundness; a job of threads is [`cores`](crate::cores)'.
///
/// # Errors
/// [`JoinError::Segment`] if there is no memory for them, or what else is amiss in what a rank of a
/// job does at its start.
pub fn in_process(ranks: u32, arena_bytes: usize, epoch: Epoch) -> Result<Vec<HostTransport>, JoinError> {
    let geometry = Geometry {
        peers: ranks,
        slots: 64,
        lanes: Geometry::LANES_MAX,
        blocks: 8,
        block_bytes: 16 << 10,
        sets: 1,
    };
    let job = entropy::random()?;
    let bytes = (LEAST_BYTES + geometry.inbox_bytes()).next_multiple_of(PAGE_BYTES) + arena_bytes;
    let whole = bytes.next_multiple_of(PAGE_BYTES);
    let label = |rank| Label { job, rank, size: ranks };
    let broken = |rank| move |error| JoinError::Segment { rank, error };
    let files = (0..ranks).map(|rank| segment::create(label(rank), whole).map_err(broken(rank)));
    let files = files.collect::<Result<Vec<_>, _>>()?;
    // Each rank maps all of them for itself, as a process does: what it reads of others no rank
    // writes where it reads.
    let map = |me| {
        let opened = files
            .iter()
            .zip(0..)
            .map(|(file, rank)| Ok(Segment::open(file, label(rank), whole).map_err(broken(rank))?.leak()));
        let mapped = opened.collect::<Result<_, JoinError>>()?;
        let (records, departures) = (None, None);
        Ok::<_, JoinError>(Segments { me, first: 0, mapped, staging: 0, per_node: 0, records, departures })
    };
    let views = (0..ranks).map(map).collect::<Result<Vec<_>, _>>()?;
    let formatted = views.iter().map(|segments| Inboxes::format(segments, geometry, job, epoch));
    let formatted = formatted.collect::<Result<Vec<_>, _>>()?;
    let joined = formatted.into_iter().zip(0..).map(|(mut inboxes, me)| {
        (0..ranks).filter(|peer| *peer != me).try_for_each(|peer| inboxes.attach(PeerId(peer), epoch))?;
        inboxes.transport(over_tcp(Tcp::vacant(PeerId(me))).far)
    });
    joined.collect()
}

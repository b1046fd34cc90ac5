//! This module holds `unsafe` code: the one flag that makes a static storage hand itself out once.
//!
//! All memory of an endpoint, sized by the user at compile time. Const-constructible, and all-zero
//! means empty, so a static one lands in `.bss`. [`storage!`](macro@crate::storage) declares one
//! from the sizes a user thinks in:
//!
//! ```
//! aldis_kernel::storage! {
//!     static STORAGE: peers = 4, requests = 16, communicators = 4,
//!         envelopes = 8, blocks = 2, block_bytes = 256, pooled = 2, bins = 64
//! }
//! let memory = STORAGE.take();
//! assert!(memory.is_some() && STORAGE.take().is_none(), "handed out once");
//! ```
//!
//! | size | what it bounds |
//! |---|---|
//! | `peers` | peers in contact at a time, this rank included: at least 3, or the job's ranks |
//! | `requests` | sends and receives under way at a time; at least 4 |
//! | `communicators` | communicators at a time, world and self included |
//! | `envelopes` | per peer: messages that have arrived and are not matched |
//! | `blocks` | per peer: eager payloads above 24 bytes among them |
//! | `block_bytes` | the largest eager message |
//! | `pooled` | messages of pooled receives that the user holds at a time |
//! | `bins` | matching bins, a power of two; O(1) with as many as receives or messages that wait |
//! | `pieces` | of groups that are no single stride, over all communicators; none if left out |
//!
//! Nothing here grows with the square of the ranks: a rank's memory is [`bytes_per_peer`] times
//! `peers`, and so on. [`sizing`](mod@crate::memory::sizing) holds the rule that every storage is
//! checked by when it is compiled, and why no rank that keeps to it waits for ever:
//!
//! ```compile_fail,E0080
//! // No place for a message that no receive waits for: "`envelopes` must be above zero".
//! aldis_kernel::storage! {
//!     static STORAGE: peers = 4, requests = 16, communicators = 4,
//!         envelopes = 0, blocks = 2, block_bytes = 256, pooled = 2, bins = 64
//! }
//! ```
//!
//! ```compile_fail,E0080
//! // A sendrecv alone needs two: "`requests` must be at least 4".
//! aldis_kernel::storage! {
//!     static STORAGE: peers = 4, requests = 1, communicators = 4,
//!         envelopes = 8, blocks = 2, block_bytes = 256, pooled = 2, bins = 64
//! }
//! ```

use core::cell::UnsafeCell;
use core::sync::atomic::{AtomicBool, Ordering};

use aldis_protocols::ACTIVE;
use aldis_protocols::card::Room;

use crate::engine::matching::{Bin, Envelope, EnvelopeEntry};
use crate::memory::sizing::Sizing;
use crate::tables::active::ActiveRow;
use crate::tables::comms::Row;
use crate::tables::group::GroupPiece;
use crate::tables::list::OptionalIndex;
use crate::tables::peer::Peer;
use crate::tables::pool::PoolEntry;
use crate::tables::request::{Request, RequestEntry};

/// Bytes that one request costs.
pub const BYTES_PER_REQUEST: usize = size_of::<RequestEntry>();
/// Bytes that one communicator costs.
pub const BYTES_PER_COMMUNICATOR: usize = size_of::<Row>();
/// Bytes that a piece of a group costs which is no single stride: a stride of it, or 32 processes.
pub const BYTES_PER_PIECE: usize = size_of::<GroupPiece>();
/// Bytes that one matching bin costs.
pub const BYTES_PER_BIN: usize = size_of::<Bin>();

/// Bytes that one peer costs: its row and all that is set aside for it.
pub const fn bytes_per_peer(envelopes: usize, blocks: usize, block_bytes: usize) -> usize {
    let row = size_of::<Peer>() + size_of::<[ActiveRow; ACTIVE as usize]>() + size_of::<u32>();
    row + envelopes * size_of::<EnvelopeEntry>() + blocks * bytes_per_block(block_bytes)
}

/// Bytes that one eager or pooled block costs.
pub const fn bytes_per_block(block_bytes: usize) -> usize {
    block_bytes + size_of::<OptionalIndex>() + size_of::<AtomicBool>()
}

/// Payload bytes, aligned for any element type and for copies of whole cache lines.
#[repr(C, align(64))]
struct Aligned<const BYTES: usize>([u8; BYTES]);

struct Tables<
    const PEERS: usize,
    const REQUESTS: usize,
    const COMMS: usize,
    const ENVELOPES: usize,
    const BLOCKS: usize,
    const BYTES: usize,
    const BINS: usize,
    const PIECES: usize,
> {
    peers: [Peer; PEERS],
    active: [[ActiveRow; ACTIVE as usize]; PEERS],
    scheduled: [u32; PEERS],
    requests: [RequestEntry; REQUESTS],
    comms: [Row; COMMS],
    pieces: [GroupPiece; PIECES],
    envelopes: [EnvelopeEntry; ENVELOPES],
    bins: [Bin; BINS],
    next_block: [OptionalIndex; BLOCKS],
    returned: [AtomicBool; BLOCKS],
    bytes: Aligned<BYTES>,
}

/// The memory of one endpoint. Declare it with [`storage!`](macro@crate::storage), whose totals
/// these parameters are: `ENVELOPES`, `BLOCKS` and `BYTES` are sums over all peers.
pub struct Storage<
    const PEERS: usize,
    const REQUESTS: usize,
    const COMMS: usize,
    const ENVELOPES: usize,
    const BLOCKS: usize,
    const POOLED: usize,
    const BYTES: usize,
    const BINS: usize,
    const PIECES: usize = 0,
> {
    taken: AtomicBool,
    tables: UnsafeCell<Tables<PEERS, REQUESTS, COMMS, ENVELOPES, BLOCKS, BYTES, BINS, PIECES>>,
}

// SAFETY: the tables, all of which are `Send`, are reached through `take`, which succeeds once, or
// through `&mut self`.
unsafe impl<
    const PEERS: usize,
    const REQUESTS: usize,
    const COMMS: usize,
    const ENVELOPES: usize,
    const BLOCKS: usize,
    const POOLED: usize,
    const BYTES: usize,
    const BINS: usize,
    const PIECES: usize,
> Sync for Storage<PEERS, REQUESTS, COMMS, ENVELOPES, BLOCKS, POOLED, BYTES, BINS, PIECES>
{
}

impl<
    const PEERS: usize,
    const REQUESTS: usize,
    const COMMS: usize,
    const ENVELOPES: usize,
    const BLOCKS: usize,
    const POOLED: usize,
    const BYTES: usize,
    const BINS: usize,
    const PIECES: usize,
> Storage<PEERS, REQUESTS, COMMS, ENVELOPES, BLOCKS, POOLED, BYTES, BINS, PIECES>
{
    /// The room set aside for each peer, worked out from the sums; a sizing that breaks the
    /// [rule](mod@crate::memory::sizing) does not compile.
    const ROOM: Room = Sizing {
        peers: PEERS,
        requests: REQUESTS,
        communicators: COMMS,
        envelopes: ENVELOPES,
        blocks: BLOCKS,
        pooled: POOLED,
        bytes: BYTES,
        bins: BINS,
    }
    .checked_room();

    /// An empty storage.
    #[expect(
        clippy::new_without_default,
        reason = "a storage is large: it is made const, not by value at run time"
    )]
    pub const fn new() -> Self {
        let _ = Self::ROOM;
        Self {
            taken: AtomicBool::new(false),
            tables: UnsafeCell::new(Tables {
                peers: [const { Peer::EMPTY }; PEERS],
                active: [[ActiveRow::EMPTY; ACTIVE as usize]; PEERS],
                scheduled: [0; PEERS],
                requests: [const { PoolEntry::new(Request::EMPTY) }; REQUESTS],
                comms: [const { Row::EMPTY }; COMMS],
                pieces: [GroupPiece::NONE; PIECES],
                envelopes: [const { PoolEntry::new(Envelope::EMPTY) }; ENVELOPES],
                bins: [const { Bin::EMPTY }; BINS],
                next_block: [OptionalIndex::NONE; BLOCKS],
                returned: [const { AtomicBool::new(false) }; BLOCKS],
                bytes: Aligned([0; BYTES]),
            }),
        }
    }

    /// The memory of a static storage, once; `None` ever after, and for one whose
    /// [`memory`](Self::memory) was used: what an endpoint has left there is not empty.
    pub fn take(&'static self) -> Option<Memory<'static>> {
        if self.taken.swap(true, Ordering::AcqRel) {
            return None;
        }
        // SAFETY: the swap lets exactly one caller come here, so this is the only reference to the
        // tables.
        Some(Self::view(unsafe { &mut *self.tables.get() }))
    }

    /// The memory of a storage of one's own, empty again: for a host, where it can live in a box.
    pub fn memory(&mut self) -> Memory<'_> {
        *self.taken.get_mut() = true;
        let tables = self.tables.get_mut();
        // Entry by entry: a storage can be larger than a stack. Payload bytes and links are written
        // before use.
        tables.peers.iter_mut().for_each(|peer| *peer = Peer::EMPTY);
        tables.active.as_flattened_mut().fill(ActiveRow::EMPTY);
        tables.requests.iter_mut().for_each(|request| *request = PoolEntry::new(Request::EMPTY));
        tables.comms.iter_mut().for_each(|row| *row = Row::EMPTY);
        tables.envelopes.iter_mut().for_each(|envelope| *envelope = PoolEntry::new(Envelope::EMPTY));
        tables.bins.iter_mut().for_each(|bin| *bin = Bin::EMPTY);
        tables.returned.iter_mut().for_each(|returned| *returned.get_mut() = false);
        Self::view(tables)
    }

    fn view(
        tables: &mut Tables<PEERS, REQUESTS, COMMS, ENVELOPES, BLOCKS, BYTES, BINS, PIECES>,
    ) -> Memory<'_> {
        Memory {
            peers: &mut tables.peers,
            active: ActiveRow::one(tables.active.as_flattened_mut()),
            scheduled: &mut tables.scheduled,
            requests: &mut tables.requests,
            comms: &mut tables.comms,
            pieces: &mut tables.pieces,
            envelopes: &mut tables.envelopes,
            bins: &mut tables.bins,
            next_block: &mut tables.next_block,
            returned: &tables.returned,
            bytes: &mut tables.bytes.0,
            pooled: POOLED as u32,
            room: Self::ROOM,
        }
    }
}

/// A storage's tables as slices: what an endpoint is made on.
pub struct Memory<'s> {
    pub(crate) peers: &'s mut [Peer],
    /// Of no size in a build without.
    pub(crate) active: [&'s mut [ActiveRow]; ACTIVE as usize],
    pub(crate) scheduled: &'s mut [u32],
    pub(crate) requests: &'s mut [RequestEntry],
    pub(crate) comms: &'s mut [Row],
    pub(crate) pieces: &'s mut [GroupPiece],
    pub(crate) envelopes: &'s mut [EnvelopeEntry],
    pub(crate) bins: &'s mut [Bin],
    pub(crate) next_block: &'s mut [OptionalIndex],
    pub(crate) returned: &'s [AtomicBool],
    pub(crate) bytes: &'s mut [u8],
    pub(crate) pooled: u32,
    pub(crate) room: Room,
}

impl Memory<'_> {
    /// Peers that the rank can be in contact with at a time, itself included.
    pub const fn peers(&self) -> u32 {
        self.peers.len() as u32
    }

    /// Takes away all but the first `peers` rows for peers; what is set aside for each stays.
    #[must_use]
    pub fn with_peers(self, peers: u32) -> Self {
        let Self { peers: rows, active, scheduled, .. } = self;
        let first = peers as usize;
        Self {
            peers: rows.split_at_mut(first.min(rows.len())).0,
            active: active.map(|rows| rows.split_at_mut(first.min(rows.len())).0),
            scheduled: scheduled.split_at_mut(first.min(scheduled.len())).0,
            ..self
        }
    }

    /// Operations that can be under way at a time.
    pub const fn requests(&self) -> u32 {
        self.requests.len() as u32
    }

    /// Returns the room set aside for each peer.
    pub const fn room(&self) -> Room {
        self.room
    }
}

/// Declares a static [`Storage`] from sizes per peer. See the [module](mod@crate::memory::storage)
/// for what each bounds.
#[macro_export]
macro_rules! storage {
    ($(#[$meta:meta])* $visibility:vis static $name:ident: peers = $peers:expr, requests = $requests:expr,
        communicators = $communicators:expr, envelopes = $envelopes:expr, blocks = $blocks:expr,
        block_bytes = $block_bytes:expr, pooled = $pooled:expr, bins = $bins:expr
        $(, pieces = $pieces:expr)? $(,)?) => {
        $(#[$meta])*
        $visibility static $name: $crate::storage_type!($peers, $requests, $communicators, $envelopes, $blocks,
            $block_bytes, $pooled, $bins $(, $pieces)?) = $crate::Storage::new();
    };
}

/// The type of a [`Storage`] from sizes per peer, in the order of
/// [`storage!`](macro@crate::storage): for one that is not static.
#[macro_export]
macro_rules! storage_type {
    ($peers:expr, $requests:expr, $communicators:expr, $envelopes:expr, $blocks:expr, $block_bytes:expr,
        $pooled:expr, $bins:expr $(, $pieces:expr)? $(,)?) => {
        $crate::Storage<
            { $peers },
            { $requests },
            { $communicators },
            { ($peers) * ($envelopes) },
            { ($peers) * ($blocks) + ($pooled) },
            { $pooled },
            { (($peers) * ($blocks) + ($pooled)) * ($block_bytes) },
            { $bins },
            $({ $pieces })?
        >
    };
}

#[cfg(test)]
mod tests {
    use std::boxed::Box;
    use std::sync::OnceLock;

    use aldis_hal::PeerId;

    use super::*;

    /// An endpoint that is gone leaves its requests in the tables, with the addresses of memory
    /// that was lent for no longer than it could be used: they are not taken for empty ones.
    #[test]
    fn a_storage_that_was_used_is_not_handed_out_as_new() {
        type Room = crate::storage_type!(1, 4, 2, 2, 1, 64, 1, 4);
        static KEPT: OnceLock<&Room> = OnceLock::new();
        let storage: &'static mut Room = Box::leak(Box::new(Storage::new()));
        assert_eq!(storage.memory().peers(), 1);
        assert_eq!(storage.memory().requests(), 4, "again, and empty");
        assert!(KEPT.get_or_init(|| storage).take().is_none());
    }

    #[test]
    fn memory_with_fewer_rows_has_the_room_of_each() {
        let mut storage: Box<crate::storage_type!(8, 4, 2, 2, 1, 64, 1, 4)> = Box::new(Storage::new());
        let room = storage.memory().room();
        let fewer = storage.memory().with_peers(3);
        assert_eq!((fewer.peers(), fewer.room(), fewer.requests()), (3, room, 4));
        assert_eq!(storage.memory().with_peers(9).peers(), 8);
    }

    /// Rows are for the peers that a rank is active with, here 32 beside itself: in a job of 65,536
    /// ranks as in any other.
    #[test]
    fn a_rank_with_32_active_peers_fits_64_kib_whatever_the_job() {
        type Room = crate::storage_type!(33, 64, 8, 4, 2, 256, 4, 64, 8);
        const { assert!(size_of::<Room>() <= 64 << 10) };
        let mut storage: Box<Room> = Box::new(Storage::new());
        let size = 65_536;
        let memory = storage.memory();
        let table = crate::tables::peers::PeerTable::new(memory.peers, memory.active, PeerId(size - 1), size);
        assert_eq!((table.is_active(), table.len()), (ACTIVE, 33));
        assert_eq!(table.owner(0), Some(PeerId(if ACTIVE { size - 1 } else { 0 })));
    }

    /// Reads the bytes of a static as the system sees them, the ones between its fields too.
    #[cfg(not(miri))]
    fn bytes_of<V>(what: &'static V) -> std::vec::Vec<u8> {
        use std::os::unix::fs::FileExt;
        let mut bytes = std::vec![0xFF; size_of::<V>()];
        let memory = std::fs::File::open("/proc/self/mem").unwrap();
        memory.read_exact_at(&mut bytes, (&raw const *what).addr() as u64).unwrap();
        bytes
    }

    /// Static storages lie in `.bss`, and `aldis-linux` takes mapped memory for empty ones.
    #[cfg(not(miri))]
    #[test]
    fn an_empty_storage_is_all_zero() {
        macro_rules! check {
            ($($room:ty),+ $(,)?) => {$({
                static STORAGE: $room = Storage::new();
                let bytes = bytes_of(&STORAGE);
                let at = bytes.iter().position(|byte| *byte != 0);
                assert_eq!(at, None, "of {} bytes, in {}", bytes.len(), stringify!($room));
                assert!(STORAGE.take().is_some());
                assert_eq!(bytes_of(&STORAGE).iter().filter(|byte| **byte != 0).count(), 1, "it is taken");
            })+};
        }
        check!(
            crate::storage_type!(1, 4, 2, 2, 1, 64, 1, 4),
            crate::storage_type!(3, 5, 7, 1, 1, 32, 1, 1, 1),
            crate::storage_type!(4, 16, 4, 8, 2, 256, 2, 64),
            crate::storage_type!(64, 256, 16, 8, 4, 1024, 8, 256, 128),
        );
    }

    /// Compares an empty table of datatypes with zero likewise.
    #[cfg(not(miri))]
    #[test]
    fn an_empty_table_of_types_is_all_zero() {
        use crate::datatype::TypeTable;
        static SMALL: TypeTable<1, 1> = TypeTable::new();
        static LARGE: TypeTable<100, 1000> = TypeTable::new();
        assert!(bytes_of(&SMALL).iter().all(|byte| *byte == 0));
        assert!(bytes_of(&LARGE).iter().all(|byte| *byte == 0));
    }
}

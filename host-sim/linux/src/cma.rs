//! This module holds `unsafe` code: copies between processes by `process_vm_readv` and
//! `process_vm_writev` (cross-memory attach, Linux 3.2), and the part of a segment that they are
//! agreed upon in.
//!
//! Whether the system allows them is found out by a copy of a word that only its owner knows: in
//! containers, under seccomp or Yama, or across PID namespaces it may not, and then messages go in
//! fragments and `explain` says why. The variable [`VARIABLE`] turns them off, or off but for
//! reads.
//!
//! A peer is asked so at the first contact with its memory. Until then what was found of the first
//! one is expected of all others, since a rank of a thousand talks to a few; a peer that differs is
//! found out by then, and its messages go in fragments.
//!
//! A peer's process id names it as long as the job lives: the launcher ends the job when a rank
//! ends, within a second, and Linux gives numbers out in turn.

use core::cell::Cell;
use core::fmt;
use core::ptr::{self, NonNull};
use core::time::Duration;
use std::io;
use std::time::Instant;

use aldis_drivers::direct::{ChunkPlace, CopyEngine, TABLE_BYTES, Table};
use aldis_drivers::shm::PeerReader;
use aldis_hal::copy::{copy_raw, is_slow_in_linux};
use aldis_hal::memory::Memory;
use aldis_hal::{Cause, Cost, PeerId};
use aldis_sys::Errno;
use aldis_sys::file::read_to_string;
use aldis_sys::process::{Pid, gettid, iovec, pid_t, process_vm_readv, process_vm_writev, sched_yield};
use aldis_sys::signal::{Signal, kill};

use crate::entropy;
use crate::error::JoinError;

use aldis_records::head::{self, Head, Told};

/// The variable that limits copies between processes: `on` (also if it is not set), `read` (no rank
/// is helped by writing into its memory), `off`.
pub const VARIABLE: &str = "ALDIS_CMA";

/// The copies that [`VARIABLE`] allows.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Allowed {
    /// No copies.
    Off,
    /// Reads.
    Read,
    /// Reads, and writes that help a reader.
    #[default]
    On,
}

impl Allowed {
    /// Reads the variable.
    ///
    /// # Errors
    /// [`JoinError::Variable`] for a value that is none.
    pub fn from_environment() -> Result<Self, JoinError> {
        match std::env::var(VARIABLE) {
            Err(_) => Ok(Self::On),
            Ok(value) => Self::parse(&value).ok_or(JoinError::Variable { name: VARIABLE, value }),
        }
    }

    fn parse(value: &str) -> Option<Self> {
        Some(match value {
            "" | "on" => Self::On,
            "read" => Self::Read,
            "off" => Self::Off,
            _ => return None,
        })
    }
}

/// Bytes of a segment that copies are agreed upon in: whole pages.
pub const STAND_BYTES: usize = (size_of::<Head>() + TABLE_BYTES).next_multiple_of(4096);

/// A rank's part of its segment for copies.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Stand {
    start: NonNull<Head>,
}

// SAFETY: a stand is shared memory by its nature, made of atomics, and bound to no thread.
unsafe impl Send for Stand {}

impl Stand {
    /// The stand at `start`.
    ///
    /// # Safety
    /// [`STAND_BYTES`] from `start`, which is aligned to 64 bytes, are valid for the rest of the
    /// process, zero at first, and used as a stand alone.
    pub(crate) unsafe fn new(start: NonNull<u8>) -> Self {
        Self { start: start.cast() }
    }

    /// The first byte of it.
    pub(crate) const fn start(&self) -> NonNull<u8> {
        self.start.cast()
    }

    fn head(&self) -> &'static Head {
        // SAFETY: `new`'s caller vouched for the memory, and a head is made of atomics.
        unsafe { self.start.as_ref() }
    }

    /// Tells the others how this process is reached, and where in its memory its arena begins, if
    /// it has one. Before they are told that it is there.
    pub(crate) fn take_up(&self, arena: Option<usize>) {
        // A word that no other code uses, and that stays.
        let word: &'static u64 = Box::leak(Box::new(entropy::distinct()));
        self.head().tell::<head::Exact>(Told {
            pid: std::process::id(),
            address: ptr::from_ref(word).addr() as u64,
            word: *word,
            arena: arena.unwrap_or(0) as u64,
        });
    }

    /// Returns the address in its own memory at which the arena of the rank that took this up
    /// begins; zero if it has none.
    pub(crate) fn arena(&self) -> u64 {
        self.head().read::<head::Exact>().arena
    }

    /// Tells all ranks of the node, whose first one's stand this is, that one takes no part in
    /// barriers. Before they are told that it is there.
    pub(crate) fn refuse_barriers(&self) {
        self.head().refuse_barriers();
    }

    /// Returns true if all ranks of the node, whose first one's stand this is, take part in
    /// barriers, once they all are there.
    pub(crate) fn has_barriers(&self) -> bool {
        self.head().has_barriers()
    }

    /// The table behind it.
    ///
    /// # Errors
    /// [`Cause::BadRegion`] if the memory is not aligned.
    pub(crate) fn table(&self) -> Result<Table<'static>, Cause> {
        // SAFETY: `new`'s caller vouched for the memory behind the head too; the code that makes a
        // rank's transport, the one user of this, has its own stand's table once, and each other's
        // once, as that rank's.
        unsafe { Table::new(self.start.add(1).cast(), TABLE_BYTES) }
    }
}

/// The way to a peer's memory.
#[derive(Clone, Copy, Debug)]
enum Reach {
    /// To be found out there, at the first contact.
    Told(Stand),
    Found(MemoryAccess),
}

/// The outcome of the first contact with a peer's memory.
#[derive(Clone, Copy, Debug)]
struct MemoryAccess {
    pid: pid_t,
    refusal: Option<ReadRefusal>,
    writes: bool,
}

impl MemoryAccess {
    /// That of a rank which is none of this node, or not known to be.
    const NONE: Self = Self { pid: 0, refusal: Some(ReadRefusal::Unknown), writes: false };
}

/// The reason why a peer's memory is not reached.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum ReadRefusal {
    Unknown,
    TurnedOff,
    ShowsNone,
    AnotherProcess,
    NotPermitted,
    Unsupported,
    Unseen,
    Fails,
}

impl ReadRefusal {
    /// The reason why a read was refused.
    const fn of(errno: Errno) -> Self {
        match errno {
            Errno::EPERM => Self::NotPermitted,
            Errno::ENOSYS => Self::Unsupported,
            Errno::ESRCH => Self::Unseen,
            _ => Self::Fails,
        }
    }

    /// The words for it.
    const fn text(self) -> &'static str {
        match self {
            Self::Unknown => "its memory is not known",
            Self::TurnedOff => "its memory is not read: ALDIS_CMA is off",
            Self::ShowsNone => "its memory is not read: it shows none",
            Self::AnotherProcess => "its memory is not read: its process id names another process here",
            Self::NotPermitted => {
                "its memory is not read: the system does not permit it (process_vm_readv: EPERM)"
            }
            Self::Unsupported => "its memory is not read: the system cannot (process_vm_readv: ENOSYS)",
            Self::Unseen => {
                "its memory is not read: its process is not seen from here (process_vm_readv: ESRCH)"
            }
            Self::Fails => "its memory is not read: process_vm_readv fails",
        }
    }
}

/// The least read that is worth a further copy where Linux is slow, and bytes of it that are read
/// at a time.
const ASIDE_BYTES_MIN: usize = 4096;
const ASIDE_BYTES: usize = 64 << 10;
const LINE_BYTES: usize = 64;

/// Bytes that are kept of each rank.
pub(crate) const BYTES_PER_PEER: usize = size_of::<Cell<Reach>>();

/// Copies between this process and the other ranks of its node.
pub struct Cma {
    allowed: Allowed,
    peers: Vec<Cell<Reach>>,
    /// True once memory of any peer has been read.
    has_read: Cell<bool>,
    /// True if the states of processes are seen here, as far as that is known: as of the first
    /// peer, so of all, since each look takes as long as the rest of what is found out of a peer.
    sees: Cell<Option<bool>>,
    /// The memory that [`read_aside`](Self::read_aside) reads to.
    aside: Vec<u8>,
}

impl fmt::Debug for Cma {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Cma").field("allowed", &self.allowed).field("peers", &self.peers.len()).finish()
    }
}

impl Cma {
    /// An engine that reaches no peer yet, in a job of so many ranks.
    pub fn new(allowed: Allowed, ranks: u32) -> Self {
        let peers = vec![Cell::new(Reach::Found(MemoryAccess::NONE)); ranks as usize];
        Self { allowed, peers, has_read: Cell::new(false), sees: Cell::new(None), aside: Vec::new() }
    }

    /// Returns the copies that are made at all.
    pub(crate) const fn allowed(&self) -> Allowed {
        self.allowed
    }

    /// Learns where `peer` tells how its memory is reached. Nothing is looked at there yet.
    pub(crate) fn introduce(&mut self, peer: PeerId, stand: Stand) {
        if let Some(reach) = self.peers.get(peer.index()) {
            reach.set(Reach::Told(stand));
        }
    }

    /// Finds out whether the memory of the rank of a stand can be read, by reading.
    #[cold]
    fn probe(&self, stand: &Stand) -> MemoryAccess {
        let Told { pid, address, word, .. } = stand.head().read::<head::Exact>();
        let pid = pid_t::try_from(pid).unwrap_or(0);
        let mut found = 0u64;
        let refusal = if self.allowed == Allowed::Off {
            Some(ReadRefusal::TurnedOff)
        } else if pid == 0 || address == 0 {
            Some(ReadRefusal::ShowsNone)
        } else {
            // SAFETY: `found` has as many bytes.
            match unsafe { read(pid, address, ptr::from_mut(&mut found).cast(), size_of::<u64>()) } {
                Ok(()) if found == word => None,
                Ok(()) => Some(ReadRefusal::AnotherProcess),
                Err(errno) => Some(ReadRefusal::of(errno)),
            }
        };
        // A rank that writes into a peer that takes its memory back must be seen by it: without
        // /proc no rank could be.
        let may_write = refusal.is_none() && self.allowed == Allowed::On;
        let sees = || self.sees.get().unwrap_or_else(|| state_of(pid, pid.unsigned_abs()).is_ok());
        let writes = may_write && sees();
        if may_write {
            self.sees.set(Some(writes));
        }
        self.has_read.set(self.has_read.get() || refusal.is_none());
        MemoryAccess { pid, refusal, writes }
    }

    /// Returns what the first contact with the memory of `peer` has brought; this may be it.
    fn contact(&self, peer: PeerId) -> Option<MemoryAccess> {
        let reach = self.peers.get(peer.index())?;
        match reach.get() {
            Reach::Found(found) => Some(found),
            Reach::Told(stand) => {
                let found = self.probe(&stand);
                reach.set(Reach::Found(found));
                Some(found)
            }
        }
    }

    fn reach(&self, peer: PeerId) -> Option<MemoryAccess> {
        self.contact(peer).filter(|found| found.refusal.is_none())
    }

    /// Does what [`read`] does, where Linux is slow to read there: to memory of this process's own,
    /// in lines as those at `from`, and on from it. Half as fast as a read elsewhere, and twice as
    /// fast as one there.
    ///
    /// # Safety
    /// As of [`read`].
    #[cold]
    unsafe fn read_aside(&mut self, pid: pid_t, from: u64, into: *mut u8, len: usize) -> Result<(), Errno> {
        self.aside.resize(ASIDE_BYTES + LINE_BYTES, 0);
        let start = (from as usize).wrapping_sub(self.aside.as_ptr().addr()) % LINE_BYTES;
        for done in (0..len).step_by(ASIDE_BYTES) {
            let count = ASIDE_BYTES.min(len - done);
            let room = self.aside.get_mut(start..start + count).unwrap_or_default();
            // SAFETY: the room is this value's own, and the caller vouches for all of `into`.
            unsafe {
                read(pid, from.wrapping_add(done as u64), room.as_mut_ptr(), room.len())?;
                copy_raw(room.as_ptr(), into.add(done), room.len());
            }
        }
        Ok(())
    }
}

/// The variable that says what a read costs: `LATENCY:PER_KIB`, in ns. It is measured if it is not
/// set.
pub const COST_VARIABLE: &str = "ALDIS_READ_COST";

/// Returns the cost of a read: as the variable says, or as measured by reading this process's own
/// memory, in about a millisecond.
pub(crate) fn read_cost() -> Result<Cost, JoinError> {
    cost_of(COST_VARIABLE, || {
        let pid = pid_t::try_from(std::process::id()).unwrap_or(0);
        let cost = measured(|from, into| {
            // SAFETY: `into` has as many bytes.
            unsafe { read(pid, from.as_ptr().addr() as u64, into.as_mut_ptr(), into.len()) }.is_ok()
        });
        // Where the owner helps, a read takes half as long.
        Cost { per_kib_ns: cost.per_kib_ns / 2, latency_ns: cost.latency_ns.saturating_mul(FOREIGN), ..cost }
    })
}

/// Returns true if the variable says what a read costs.
pub(crate) fn is_cost_given() -> bool {
    std::env::var_os(COST_VARIABLE).is_some()
}

/// So many times as long as in its own memory a read takes to begin in that of another process:
/// whose pages are looked up, whose lines come from another core, and who must be told of both
/// ends. Measured: two ranks pass a block of 16 KiB in 2.1 us through slots and in 4.9 by a read,
/// one of 48 KiB in 3.7 and some 6.
const FOREIGN: u32 = 3;

/// Returns the cost of a copy: as the variable says, or as measured.
pub(crate) fn cost_of(name: &'static str, measure: impl FnOnce() -> Cost) -> Result<Cost, JoinError> {
    match std::env::var(name) {
        Err(_) => Ok(measure()),
        Ok(value) => parse_cost(&value).ok_or(JoinError::Variable { name, value }),
    }
}

/// `LATENCY:PER_KIB`, in nanoseconds.
pub(crate) fn parse_cost(value: &str) -> Option<Cost> {
    let (latency, per_kib) = value.split_once(':')?;
    Some(Cost { overhead_ns: 0, latency_ns: latency.parse().ok()?, per_kib_ns: per_kib.parse().ok()? })
}

/// The best of a few copies of a page and of a quarter of a MiB, by what copies all bytes of one
/// slice to another; nothing if that fails.
pub(crate) fn measured(mut copy: impl FnMut(&[u8], &mut [u8]) -> bool) -> Cost {
    const PAGE: usize = 4096;
    const LONG: usize = 256 << 10;
    let (from, mut into) = (vec![1u8; LONG], vec![0u8; LONG]);
    let mut best = |len: usize| {
        let (from, into) = (from.get(..len)?, into.get_mut(..len)?);
        let times = (0..8).filter_map(|_| {
            let start = Instant::now();
            let copied = copy(from, into);
            copied.then(|| start.elapsed().as_nanos() as u64)
        });
        times.min()
    };
    let (Some(page), Some(long)) = (best(PAGE), best(LONG)) else { return Cost::default() };
    let per_kib = long.saturating_sub(page) / ((LONG - PAGE) / 1024) as u64;
    let latency = page.saturating_sub(per_kib * (PAGE / 1024) as u64);
    let number = |ns: u64| u32::try_from(ns).unwrap_or(u32::MAX);
    Cost { overhead_ns: 0, latency_ns: number(latency), per_kib_ns: number(per_kib) }
}

/// Reads `len` bytes at `from` of a process.
///
/// # Safety
/// `into` is valid for writes of `len` bytes.
pub(crate) unsafe fn read(pid: pid_t, from: u64, into: *mut u8, len: usize) -> Result<(), Errno> {
    let local = iovec { iov_base: into.cast(), iov_len: len };
    let remote = iovec { iov_base: ptr::without_provenance_mut(from as usize), iov_len: len };
    // SAFETY: the caller vouches for `into`.
    all_of(len, unsafe { process_vm_readv(pid, local, remote) })
}

/// Writes bytes to an address of a process.
///
/// # Safety
/// That process has as many bytes there, which it lets be written and reads no sooner than it is
/// told.
pub(crate) unsafe fn write(pid: pid_t, from: &[u8], to: u64) -> Result<(), Errno> {
    let local = iovec { iov_base: from.as_ptr().cast_mut().cast(), iov_len: from.len() };
    let remote = iovec { iov_base: ptr::without_provenance_mut(to as usize), iov_len: from.len() };
    // SAFETY: `local` names bytes that are borrowed, the system reads `remote` in this frame, and
    // the caller vouches for what it names.
    all_of(from.len(), unsafe { process_vm_writev(pid, local, ptr::from_ref(&remote)) })
}

/// Fails if a call has moved fewer bytes than `len`: a part of them is not there.
fn all_of(len: usize, moved: Result<usize, Errno>) -> Result<(), Errno> {
    if moved? == len { Ok(()) } else { Err(Errno::EFAULT) }
}

/// Times that the system is asked again to read what a rank lends, should it refuse: it has read
/// from there when the job began, and may be short of memory for a moment.
const RETRIES: usize = 3;

impl PeerReader for Cma {
    fn fetch(&mut self, peer: PeerId, address: u64, into: &mut [u8]) -> Result<(), Cause> {
        // SAFETY: `into` has as many bytes.
        let mut read = || unsafe { self.read(peer, address, into.as_mut_ptr(), into.len()) };
        (0..RETRIES).map(|_| read()).find(|read| *read != Err(Cause::Device)).unwrap_or_else(read)
    }
}

// SAFETY: `read` writes what it is given alone. `write` hands the shared place to the system, which
// copies it into the kernel once, when the call has begun; so a thread that is stopped or dead,
// which it can be at the boundary of a call alone, is not between looking at a place and writing
// there.
unsafe impl CopyEngine for Cma {
    fn reads(&self, peer: PeerId) -> Result<(), &'static str> {
        let found = self.contact(peer).ok_or("it is no rank of this node")?;
        found.refusal.map_or(Ok(()), |refusal| Err(refusal.text()))
    }

    /// Answers for a peer that has not been asked yet by what was found of the first that was read.
    fn expects(&self, peer: PeerId) -> bool {
        self.reads_all(peer) || self.reads(peer).is_ok()
    }

    /// A look at what is known and no more, so that a post to the peer does not make it.
    #[inline]
    fn reads_all(&self, peer: PeerId) -> bool {
        match self.peers.get(peer.index()).map(Cell::get) {
            Some(Reach::Told(_)) => self.has_read.get(),
            Some(Reach::Found(found)) => found.refusal.is_none(),
            None => false,
        }
    }

    fn shows(&self, peer: PeerId, _: Memory) -> bool {
        self.reads(peer).is_ok()
    }

    fn writes(&self, peer: PeerId) -> bool {
        self.reach(peer).is_some_and(|reach| reach.writes)
    }

    unsafe fn read(&mut self, peer: PeerId, from: u64, into: *mut u8, len: usize) -> Result<(), Cause> {
        let Some(MemoryAccess { pid, .. }) = self.reach(peer) else { return Err(Cause::Unsupported) };
        let is_slow = len >= ASIDE_BYTES_MIN && is_slow_in_linux(into.addr(), from as usize);
        // SAFETY: the caller vouches for `into`.
        let done = unsafe {
            if is_slow { self.read_aside(pid, from, into, len) } else { read(pid, from, into, len) }
        };
        done.map_err(|_| Cause::Device)
    }

    unsafe fn write(
        &mut self,
        peer: PeerId,
        from: *const u8,
        place: &ChunkPlace,
        len: usize,
    ) -> Result<(), Cause> {
        let Some(found) = self.reach(peer) else { return Err(Cause::Unsupported) };
        let local = iovec { iov_base: from.cast_mut().cast(), iov_len: len };
        // SAFETY: the caller vouches for what `local` names; a place is laid out as an iovec, and
        // it is the system that reads it, in memory that others may change.
        let moved = unsafe { process_vm_writev(found.pid, local, ptr::from_ref(place).cast()) };
        all_of(len, moved).map_err(|errno| {
            if let Some(reach) = self.peers.get(peer.index())
                && matches!(errno, Errno::EPERM | Errno::ENOSYS)
            {
                reach.set(Reach::Found(MemoryAccess { writes: false, ..found }));
            }
            Cause::Device
        })
    }

    fn thread(&self) -> u32 {
        thread_local!(static THREAD: u32 = gettid().as_raw().unsigned_abs());
        THREAD.with(|thread| *thread)
    }

    fn is_within(&mut self, peer: PeerId, thread: u32) -> bool {
        let Some(MemoryAccess { pid, .. }) = self.contact(peer) else { return false };
        // Gives it the core, if it waits for this one.
        let _ = sched_yield();
        may_run(pid, thread)
    }

    fn await_end(&mut self, peer: PeerId, thread: u32, is_over: &dyn Fn() -> bool) {
        let Some(MemoryAccess { pid, .. }) = self.contact(peer) else { return };
        let start = Instant::now();
        let mut fenced = false;
        while !is_over() && self.is_within(peer, thread) {
            match start.elapsed() {
                waited if waited > 2 * FENCE_AFTER => {
                    eprintln!(
                        "aldis: {peer} (process {pid}) is in process_vm_writev into memory of this process, which takes it \
                         back, and does not end even by SIGKILL: this process ends instead"
                    );
                    std::process::abort();
                }
                waited if waited > FENCE_AFTER && !fenced => {
                    fenced = true;
                    eprintln!(
                        "aldis: {peer} (process {pid}) has been in process_vm_writev into memory of this process, which takes \
                         it back, for {} s: it is ended by SIGKILL",
                        waited.as_secs()
                    );
                    let _ = kill(Pid::from_raw(pid), Signal::SIGKILL);
                }
                _ => core::hint::spin_loop(),
            }
        }
    }
}

/// The longest that a peer may be at one chunk of at most 128 KiB, before it is ended so that
/// memory can be taken back from it: many times what a chunk takes on a crowded machine.
const FENCE_AFTER: Duration = Duration::from_secs(30);

/// The letter of a thread's state, as `proc(5)` has them.
fn state_of(pid: pid_t, thread: u32) -> io::Result<char> {
    let stat = read_to_string(format!("/proc/{pid}/task/{thread}/stat"))?;
    // It is the first one behind the name, which stands in brackets and may hold any.
    let state = stat.rsplit_once(')').and_then(|(_, rest)| rest.trim_start().chars().next());
    state.ok_or_else(|| io::Error::from(io::ErrorKind::InvalidData))
}

/// Returns true if a thread may be within a call of the system: unless it is known to be stopped or
/// dead.
fn may_run(pid: pid_t, thread: u32) -> bool {
    match state_of(pid, thread) {
        Ok(state) => !matches!(state, 'T' | 't' | 'Z' | 'X'),
        // It is not there, if /proc is: this process's own entry tells.
        Err(error)
            if error.kind() == io::ErrorKind::NotFound
                || error.raw_os_error() == Some(Errno::ESRCH as i32) =>
        {
            let own = std::process::id();
            pid_t::try_from(own).is_ok_and(|pid| state_of(pid, own).is_err())
        }
        Err(_) => true,
    }
}

const _: () = assert!(size_of::<ChunkPlace>() == size_of::<iovec>());
const _: () = assert!(cfg!(target_endian = "little"), "a place is an iovec on little-endian machines only");

#[cfg(test)]
pub(crate) mod tests;

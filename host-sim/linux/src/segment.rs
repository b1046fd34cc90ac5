//! UNSAFE: maps shared memory. Segments: anonymous shared memory of one rank, status board first,
//! then what single copies are agreed upon in, the inbox, and the rank's arena if it has one.
//!
//! The segments of ranks that share memory stand in one file, which each of them maps at once.
//!
//! A file is a memfd: it has no name in any file system, so nothing can be left behind, whatever is
//! killed when; the kernel frees it with the last process that holds it. It is private to the
//! user (mode 0600), sealed against shrinking and growing, so that no peer can turn an access into
//! SIGBUS, and backed by memory from the first moment (`fallocate`), so that a lack of memory is
//! [`SegmentError::NoMemory`] at creation and never a fault later. A segment that comes from
//! elsewhere is checked for size, seals and label before a byte of it is believed; a peer's in the
//! same file, for the identity in its inbox, when it is attached.

mod departures;

pub use departures::{DepartureTable, Departures};

use core::mem::ManuallyDrop;
use core::num::NonZeroUsize;
use core::ops::Range;
use core::ptr::NonNull;
use core::{fmt, slice};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

use aldis_sys::file::write_all;
use aldis_sys::memory::{
    FallocateFlags, MFdFlags, MapFlags, Mode, ProtFlags, SealFlag, add_seals, fallocate, fchmod, fstat,
    ftruncate, memfd_create, mmap, munmap, off_t, populate, seals,
};
use aldis_sys::{Errno, errno_of, uninterrupted};

use crate::board::{BOARD_BYTES, Label, StatusBoard};
use crate::cma::{STAND_BYTES, Stand};
use crate::memory::{addresses_left, available_bytes, file_bytes_max};

/// Bytes of a cache line, which all parts begin at.
const LINE_BYTES: usize = 64;

/// Bytes of a page, which arenas begin at.
pub const PAGE_BYTES: usize = 4096;

/// Bytes of a segment without an inbox.
pub const LEAST_BYTES: usize = BOARD_BYTES + STAND_BYTES;

/// The seals that every segment carries.
const SEALS: SealFlag = SealFlag::F_SEAL_SHRINK.union(SealFlag::F_SEAL_GROW);

/// The seals of a file whose bytes nobody can change any more.
const CONSTANT_SEALS: SealFlag = SEALS.union(SealFlag::F_SEAL_WRITE);

/// The reason why a segment could not be made or was not accepted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum SegmentError {
    /// There is not enough memory for it.
    NoMemory {
        /// Bytes needed.
        need: u64,
        /// Bytes available.
        have: u64,
        /// The error by which the system refused them; `None` if it was not asked.
        refused: Option<Errno>,
    },
    /// The process may not have so many addresses.
    NoAddresses {
        /// Bytes needed.
        need: u64,
        /// Bytes that its limit leaves.
        have: u64,
    },
    /// Truncated or of another layout.
    Size {
        /// Bytes agreed upon.
        expected: u64,
        /// Bytes found.
        found: u64,
    },
    /// Not sealed: its owner could shrink it, or change what does not change, under our feet.
    Unsealed {
        /// Seal bits needed.
        expected: i32,
        /// Seal bits found; -1 if the file cannot be sealed at all.
        found: i32,
    },
    /// Not a segment of Aldis, or of another version.
    Foreign {
        /// The magic word of this version.
        expected: u64,
        /// The word found in its place.
        found: u64,
    },
    /// A segment of another job or another rank.
    Mislabelled {
        /// The label agreed upon.
        expected: Label,
        /// The label found.
        found: Label,
    },
    /// The system refused.
    System {
        /// The system call.
        call: &'static str,
        /// The error.
        errno: Errno,
    },
}

impl fmt::Display for SegmentError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::NoMemory { need, have, refused } => {
                if let Some(errno) = refused {
                    write!(f, "fallocate failed: {}: ", errno.desc())?;
                }
                write!(f, "not enough memory: {need} bytes needed, {have} available")
            }
            Self::NoAddresses { need, have } => write!(
                f,
                "mmap failed: Out of memory: {need} bytes of addresses needed, {have} left (ulimit -v)"
            ),
            Self::Size { expected, found } => {
                write!(f, "truncated or of another layout: {expected} bytes expected, {found} found")
            }
            Self::Unsealed { expected, found } => {
                write!(f, "not sealed as agreed: seals {expected:#x} expected, {found:#x} found by fcntl")
            }
            Self::Foreign { expected, found } => {
                write!(
                    f,
                    "a foreign segment: it begins with {found:#018x} where {expected:#018x} was expected"
                )
            }
            Self::Mislabelled { expected, found } => write!(
                f,
                "a segment of rank {} of {} of job {:016x} where rank {} of {} of job {:016x} was expected",
                found.rank, found.size, found.job, expected.rank, expected.size, expected.job
            ),
            Self::System { call, errno } => write!(f, "{call} failed: {}", errno.desc()),
        }
    }
}

impl core::error::Error for SegmentError {}

/// Names the call that failed.
fn system(call: &'static str) -> impl Fn(Errno) -> SegmentError {
    move |errno| SegmentError::System { call, errno }
}

/// The sizes of a file of segments.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FileShape {
    /// Ranks that have a segment in it.
    pub ranks: u32,
    /// Bytes of a rank's segment.
    pub segment_bytes: usize,
    /// Bytes of the table that they share, behind the segments; 0 if there is none.
    pub table_bytes: usize,
}

impl FileShape {
    /// The file of one segment.
    pub const fn of_one(segment_bytes: usize) -> Self {
        Self { ranks: 1, segment_bytes, table_bytes: 0 }
    }

    /// Returns the place of a segment: at a page.
    const fn place_of(self, place: u32) -> usize {
        self.segment_bytes.next_multiple_of(PAGE_BYTES).saturating_mul(place as usize)
    }

    /// Returns the bytes of the file.
    pub(crate) const fn bytes(self) -> usize {
        match self.table_bytes {
            0 => self.place_of(self.ranks.saturating_sub(1)).saturating_add(self.segment_bytes),
            table => self.place_of(self.ranks).saturating_add(table),
        }
    }
}

/// Fails unless there is memory for so many files of segments, before the first is made.
///
/// # Errors
/// [`SegmentError::NoMemory`] with both numbers.
pub fn check_room(files: u32, shape: FileShape) -> Result<(), SegmentError> {
    let (need, have) = (u64::from(files).saturating_mul(shape.bytes() as u64), available_bytes());
    if have < need { Err(SegmentError::NoMemory { need, have, refused: None }) } else { Ok(()) }
}

/// Makes a segment of `bytes` bytes (board included): zeroed, backed by memory, sealed and
/// labelled.
///
/// # Errors
/// [`SegmentError::NoMemory`] with both numbers, or the system call that failed.
pub fn create(label: Label, bytes: usize) -> Result<OwnedFd, SegmentError> {
    create_all(label, FileShape::of_one(bytes)).map(|(file, _)| file)
}

/// Makes the segments of several ranks, of which `label` is the first one's, in one file. Returns
/// their boards too.
///
/// # Errors
/// [`SegmentError::NoMemory`] with both numbers, where the bytes needed are those of all, or the
/// system call that failed.
pub fn create_all(label: Label, shape: FileShape) -> Result<(OwnedFd, Vec<BoardView>), SegmentError> {
    let whole = shape.bytes();
    let file = create_zeroed(&format!("aldis-{:016x}-{}", label.job, label.rank), whole)?;
    let mapping = Arc::new(Mapping::new(file.as_fd(), whole)?);
    let boards: Vec<BoardView> = (0..shape.ranks)
        .map(|place| BoardView { mapping: Arc::clone(&mapping), at: shape.place_of(place) })
        .collect();
    for (board, rank) in boards.iter().zip(label.rank..) {
        board.board().label(Label { rank, ..label }, shape.segment_bytes as u64);
    }
    Ok((file, boards))
}

/// Makes a file of so many bytes: zeroed, backed by memory and sealed.
fn create_zeroed(name: &str, bytes: usize) -> Result<OwnedFd, SegmentError> {
    let file = allocate(name, bytes)?;
    add_seals(&file, SEALS).map_err(system("fcntl(F_ADD_SEALS)"))?;
    Ok(file)
}

/// Makes a file of so many bytes: zeroed and backed by memory.
fn allocate(name: &str, bytes: usize) -> Result<OwnedFd, SegmentError> {
    let need = bytes as u64;
    let have = available_bytes().min(file_bytes_max());
    let length = off_t::try_from(bytes).map_err(|_| SegmentError::NoMemory { need, have, refused: None })?;
    if have < need {
        return Err(SegmentError::NoMemory { need, have, refused: None });
    }
    let flags = MFdFlags::MFD_CLOEXEC | MFdFlags::MFD_ALLOW_SEALING;
    let file = memfd_create(name, flags).map_err(system("memfd_create"))?;
    fchmod(&file, Mode::S_IRUSR | Mode::S_IWUSR).map_err(system("fchmod"))?;
    uninterrupted(|| ftruncate(&file, length)).map_err(system("ftruncate"))?;
    let allocated = uninterrupted(|| fallocate(&file, FallocateFlags::empty(), 0, length));
    allocated.map_err(|errno| match errno {
        Errno::ENOSPC | Errno::ENOMEM | Errno::EFBIG => {
            SegmentError::NoMemory { need, have, refused: Some(errno) }
        }
        errno => SegmentError::System { call: "fallocate", errno },
    })?;
    Ok(file)
}

/// Makes a file of these bytes, which nobody can change from then on.
///
/// # Errors
/// [`SegmentError::NoMemory`] with both numbers, or the system call that failed.
pub fn create_constant(name: &str, bytes: &[u8]) -> Result<OwnedFd, SegmentError> {
    let file = allocate(name, bytes.len())?;
    write_all(&file, bytes).map_err(|error| system("write")(errno_of(error)))?;
    add_seals(&file, CONSTANT_SEALS).map_err(system("fcntl(F_ADD_SEALS)"))?;
    Ok(file)
}

/// Maps a file that [`create_constant`] has made, of so many bytes, for the rest of the process.
///
/// # Errors
/// The causes that [`SegmentError`] names: size, seals, addresses, or the system.
pub fn map_constant(file: &OwnedFd, bytes: usize) -> Result<&'static [u8], SegmentError> {
    check_file(file.as_fd(), bytes, CONSTANT_SEALS)?;
    // A private mapping, since older systems refuse a shared one of a file that is sealed against
    // writes. Its pages are the file's all the same: none is ever written.
    let mapping = Mapping::with(file.as_fd(), bytes, ProtFlags::PROT_READ, MapFlags::MAP_PRIVATE)?;
    let Mapping { start, .. } = *ManuallyDrop::new(mapping);
    // SAFETY: as many bytes are mapped there for reading, for good, and the file can neither be
    // shortened nor changed: its seals, which cannot be taken off, were looked at above.
    Ok(unsafe { slice::from_raw_parts(start.as_ptr(), bytes) })
}

/// Checks size and seals of a file that is said to have `bytes` bytes. The seals are asked for
/// first: once they are known to be there, the size that is found stays.
fn check_file(file: BorrowedFd<'_>, bytes: usize, needed: SealFlag) -> Result<(), SegmentError> {
    let seals = seals(file);
    let found = fstat(file).map_err(system("fstat"))?.st_size;
    let (expected, found) = (bytes as u64, u64::try_from(found).unwrap_or(0));
    if expected != found {
        return Err(SegmentError::Size { expected, found });
    }
    let seals = match seals {
        // Of a file that cannot be sealed at all.
        Err(Errno::EINVAL) => -1,
        asked => asked.map_err(system("fcntl(F_GET_SEALS)"))?,
    };
    if seals < 0 || !SealFlag::from_bits_truncate(seals).contains(needed) {
        return Err(SegmentError::Unsealed { expected: needed.bits(), found: seals });
    }
    Ok(())
}

/// A mapping of a file, unmapped on drop.
#[derive(Debug)]
struct Mapping {
    start: NonNull<u8>,
    bytes: NonZeroUsize,
}

// SAFETY: the mapping is plain memory of the process, not bound to a thread, and the type hands out
// nothing but its address and, through `Segment` and `BoardView`, shared references to atomics.
unsafe impl Send for Mapping {}
// SAFETY: as above; there is no method that changes the mapping itself.
unsafe impl Sync for Mapping {}

impl Mapping {
    /// The bytes of a file that others write too.
    fn new(file: BorrowedFd<'_>, bytes: usize) -> Result<Self, SegmentError> {
        // Not populated: each rank maps the segments of all, and touches a small part of most. The
        // memory is there; what is used first takes a minor fault a page.
        Self::with(file, bytes, ProtFlags::PROT_READ | ProtFlags::PROT_WRITE, MapFlags::MAP_SHARED)
    }

    fn with(
        file: BorrowedFd<'_>,
        bytes: usize,
        protection: ProtFlags,
        flags: MapFlags,
    ) -> Result<Self, SegmentError> {
        let bytes = NonZeroUsize::new(bytes).ok_or(SegmentError::Size { expected: 1, found: 0 })?;
        // SAFETY: a new mapping at an address of the kernel's choice; it overlaps nothing that Rust
        // knows of.
        let start = unsafe { mmap(bytes, protection, flags, file) }.map_err(|errno| {
            let (need, have) = (bytes.get() as u64, addresses_left());
            match errno {
                Errno::ENOMEM if have < need => SegmentError::NoAddresses { need, have },
                _ => system("mmap")(errno),
            }
        })?;
        Ok(Self { start: start.cast(), bytes })
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: exactly the range that `with` mapped; every reference into it borrows from
        // `self`. A failure leaves it mapped, which does no harm.
        let _ = unsafe { munmap(self.start.cast(), self.bytes.get()) };
    }
}

/// The parts of a segment that are told by the job: where each begins, and its bytes.
#[derive(Clone, Copy, Debug)]
pub struct Parts {
    /// The inbox.
    pub inbox: (NonNull<u8>, usize),
    /// The arena, at a page; none if it has no bytes.
    pub arena: (NonNull<u8>, usize),
}

/// The bytes of a mapped segment.
#[derive(Clone, Copy, Debug)]
struct SegmentBytes {
    /// The first one, at a page.
    start: NonNull<u8>,
    len: usize,
}

// SAFETY: as of the mapping that they are of.
unsafe impl Send for SegmentBytes {}
// SAFETY: as above.
unsafe impl Sync for SegmentBytes {}

impl SegmentBytes {
    /// The status board.
    ///
    /// # Safety
    /// The segment stays mapped for `'a`.
    unsafe fn board<'a>(self) -> &'a StatusBoard {
        // SAFETY: the start is page-aligned and there are at least `BOARD_BYTES` (checked in
        // `open_all`), `Board` is made of atomics for which every bit pattern is valid, and all
        // processes access it as such.
        unsafe { self.start.cast::<StatusBoard>().as_ref() }
    }

    /// See [`Segment::parts`].
    fn parts(self, inbox_bytes: usize) -> Result<Parts, SegmentError> {
        let Self { start, len: bytes } = self;
        let end = LEAST_BYTES.saturating_add(inbox_bytes);
        if end > bytes {
            return Err(SegmentError::Size { expected: end as u64, found: bytes as u64 });
        }
        let arena = end.next_multiple_of(PAGE_BYTES).min(bytes);
        // SAFETY: neither offset is behind the end of the segment, which `open_all` has mapped.
        let (inbox, behind) = unsafe { (start.add(LEAST_BYTES), start.add(arena)) };
        Ok(Parts { inbox: (inbox, inbox_bytes), arena: (behind, bytes - arena) })
    }
}

/// A mapped segment, checked.
#[derive(Debug)]
pub struct Segment {
    mapping: Arc<Mapping>,
    bytes: SegmentBytes,
}

/// A segment that stays mapped for the rest of the process, so that a `'static` endpoint can stand
/// on it. Once that does, nothing is kept of it here.
///
/// Where copies are agreed upon is the business of the transport that is made of it: by a second
/// one, whose owner helps as well, memory would be written that the first one's reader has taken
/// back.
///
/// ```compile_fail,E0624
/// fn again(segment: aldis_linux::segment::LeakedSegment) {
///     let _ = segment.stand().table();
/// }
/// ```
#[derive(Clone, Copy, Debug)]
pub struct LeakedSegment(SegmentBytes);

impl Segment {
    /// Maps a segment that should be `label`'s and `bytes` long.
    ///
    /// # Errors
    /// The causes that [`SegmentError`] names: size, seals, foreign, mislabelled, or the system.
    pub fn open(file: &OwnedFd, label: Label, bytes: usize) -> Result<Self, SegmentError> {
        let opened = Self::open_all(file, label.rank, label, FileShape::of_one(bytes))?;
        let none = SegmentError::Size { expected: bytes as u64, found: 0 };
        opened.segments.into_iter().next().ok_or(none)
    }

    /// Maps the file of the segments of the ranks from `first` on, by one of them, whose label
    /// should be `own`.
    ///
    /// # Errors
    /// The causes that [`SegmentError`] names: size, seals, foreign, mislabelled, or the system.
    /// The labels of others are not looked at.
    pub fn open_all(
        file: &OwnedFd,
        first: u32,
        own: Label,
        shape: FileShape,
    ) -> Result<OpenFile, SegmentError> {
        let FileShape { ranks, segment_bytes: bytes, table_bytes } = shape;
        if bytes < LEAST_BYTES || !bytes.is_multiple_of(LINE_BYTES) {
            return Err(SegmentError::Size { expected: LEAST_BYTES as u64, found: bytes as u64 });
        }
        check_file(file.as_fd(), shape.bytes(), SEALS)?;
        let mapping = Arc::new(Mapping::new(file.as_fd(), shape.bytes())?);
        let segment = |place| {
            // SAFETY: as many bytes are mapped behind the place as the segment has.
            let start = unsafe { mapping.start.add(shape.place_of(place)) };
            Self { mapping: Arc::clone(&mapping), bytes: SegmentBytes { start, len: bytes } }
        };
        let segments: Vec<Self> = (0..ranks).map(segment).collect();
        if let Some((segment, _)) = segments.iter().zip(first..).find(|(_, rank)| *rank == own.rank) {
            segment.board().check(own, bytes as u64)?;
        }
        let table = (table_bytes > 0).then(|| SharedTable { mapping, shape });
        Ok(OpenFile { segments, table })
    }

    /// The status board.
    pub fn board(&self) -> &StatusBoard {
        // SAFETY: it stays mapped as long as this is there.
        unsafe { self.bytes.board() }
    }

    /// Returns the place of the inbox of so many bytes, and of the arena behind it, whose length is
    /// what is left. Shared with peers: not to be made references of.
    ///
    /// # Errors
    /// [`SegmentError::Size`] if there is no room for the inbox.
    pub fn parts(&self, inbox_bytes: usize) -> Result<Parts, SegmentError> {
        self.bytes.parts(inbox_bytes)
    }

    /// Keeps the mapping for the rest of the process.
    pub fn leak(self) -> LeakedSegment {
        let _leaked: *const Mapping = Arc::into_raw(self.mapping);
        LeakedSegment(self.bytes)
    }
}

/// A mapped file of segments, checked.
#[derive(Debug)]
pub struct OpenFile {
    /// The segments, in the order of their ranks.
    pub segments: Vec<Segment>,
    /// The table behind them, if there is one.
    pub table: Option<SharedTable>,
}

/// The table that the ranks of a file of segments share.
#[derive(Debug)]
pub struct SharedTable {
    mapping: Arc<Mapping>,
    shape: FileShape,
}

impl SharedTable {
    /// Keeps the mapping for the rest of the process. Returns the bytes of the table, from a page
    /// on. Shared with peers: not to be made a reference of.
    pub fn leak(self) -> NonNull<[u8]> {
        let Self { mapping, shape } = self;
        // SAFETY: `open_all` has mapped the whole file, of which the table is the end.
        let start = unsafe { mapping.start.add(shape.place_of(shape.ranks)) };
        let _leaked: *const Mapping = Arc::into_raw(mapping);
        NonNull::slice_from_raw_parts(start, shape.table_bytes)
    }
}

impl LeakedSegment {
    /// The status board.
    pub fn board(self) -> &'static StatusBoard {
        // SAFETY: it stays mapped.
        unsafe { self.0.board() }
    }

    /// See [`Segment::parts`].
    ///
    /// # Errors
    /// [`SegmentError::Size`] if there is no room for the inbox.
    pub fn parts(self, inbox_bytes: usize) -> Result<Parts, SegmentError> {
        self.0.parts(inbox_bytes)
    }

    /// Makes the pages of a stretch behind `start` now, a place in it, and changes no byte: a page
    /// that is made when it is first used costs more than to copy all of its bytes. Older systems
    /// cannot, and pages are made later then.
    pub(crate) fn populate(self, start: NonNull<u8>, stretch: Range<usize>) {
        let SegmentBytes { start: own, len } = self.0;
        let offset = start.addr().get().wrapping_sub(own.addr().get());
        let (first, end) = (offset.saturating_add(stretch.start), offset.saturating_add(stretch.end));
        let page = first / PAGE_BYTES * PAGE_BYTES;
        if first < end && end <= len {
            // SAFETY: within the segment, which is mapped.
            let _ = populate(unsafe { own.add(page) }.cast(), end - page);
        }
    }

    /// Returns the stand, where copies by the system are agreed upon.
    pub(crate) fn stand(self) -> Stand {
        // SAFETY: between the board and `LEAST_BYTES`, which `open_all` made sure of, and aligned;
        // the mapping stays, its file was zero when it was made, and the inbox begins behind it.
        unsafe { Stand::new(self.0.start.add(BOARD_BYTES)) }
    }
}

/// The launcher's view of a segment: the board alone. Outlives the rank.
#[derive(Debug)]
pub struct BoardView {
    mapping: Arc<Mapping>,
    /// The place of the segment in the mapping.
    at: usize,
}

impl BoardView {
    /// Maps the first page of a segment that this process made.
    ///
    /// # Errors
    /// The system call that failed.
    pub fn map(file: BorrowedFd<'_>) -> Result<Self, SegmentError> {
        Ok(Self { mapping: Arc::new(Mapping::new(file, BOARD_BYTES)?), at: 0 })
    }

    /// The board.
    pub fn board(&self) -> &StatusBoard {
        // SAFETY: page-aligned, `BOARD_BYTES` long, atomics of any bit pattern, and mapped by
        // `create_all` or `map`. The file is sealed against shrinking and at least that long, so no
        // access faults.
        unsafe { self.mapping.start.add(self.at).cast::<StatusBoard>().as_ref() }
    }
}

#[cfg(test)]
mod tests;

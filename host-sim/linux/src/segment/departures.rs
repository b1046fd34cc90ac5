//! UNSAFE: makes references into shared memory. The ranks of a job that have left: one bit each, in
//! a file that the launcher writes and all ranks of a node map.
//!
//! Ranks over TCP say goodbye to those alone that they have a connection with. One that waits for a
//! rank which has left without ever having met it would try to reach it until its time is up; it
//! looks here instead.
//!
//! A bit is set once and never cleared, and says nothing of a life: a rank that has left a job does
//! not come back to it. A launcher that would start one anew, in another life, needs a table of
//! lives instead.

use core::sync::atomic::{AtomicU64, Ordering};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use aldis_sys::Errno;
use aldis_sys::memory::{MapFlags, ProtFlags, SealFlag, add_seals};

use super::{Mapping, SEALS, SegmentError, check_file, create_zeroed};

/// Ranks that a word tells of.
const RANKS_A_WORD: u32 = u64::BITS;

/// Returns the bytes of a table of so many ranks.
const fn bytes_of(ranks: u32) -> usize {
    ranks.div_ceil(RANKS_A_WORD) as usize * size_of::<AtomicU64>()
}

/// The word of a rank in a mapping of the table of so many ranks.
fn word_of(mapping: &Mapping, ranks: u32, rank: u32) -> Option<&AtomicU64> {
    let place = (rank < ranks).then_some((rank / RANKS_A_WORD) as usize)?;
    // SAFETY: the mapping begins at a page and has a word for each 64 of the ranks, of which this
    // is one; it stays while it is borrowed; all processes access the words as atomics.
    Some(unsafe { mapping.start.cast::<AtomicU64>().add(place).as_ref() })
}

/// The table as the launcher writes it.
#[derive(Debug)]
pub struct DepartureTable {
    mapping: Mapping,
    file: OwnedFd,
    ranks: u32,
}

impl DepartureTable {
    /// A table of so many ranks, of which none has left. It is written through this value alone:
    /// whoever maps the file from now on can only read it.
    ///
    /// # Errors
    /// [`SegmentError::NoMemory`] with both numbers, or the system call that failed.
    pub fn create(job: u64, ranks: u32) -> Result<Self, SegmentError> {
        let file = create_zeroed(&format!("aldis-{job:016x}-left"), bytes_of(ranks))?;
        let mapping = Mapping::new(file.as_fd(), bytes_of(ranks))?;
        match add_seals(&file, SealFlag::F_SEAL_FUTURE_WRITE) {
            // Linux before 5.1 does not know this seal: ranks of the job could write then.
            Ok(()) | Err(Errno::EINVAL) => Ok(Self { mapping, file, ranks }),
            Err(errno) => Err(SegmentError::System { call: "fcntl(F_ADD_SEALS)", errno }),
        }
    }

    /// Its file, for the ranks of a node.
    pub fn file(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }

    /// Notes that a rank of the job has left, for good.
    pub fn mark(&self, rank: u32) {
        if let Some(word) = word_of(&self.mapping, self.ranks, rank) {
            word.fetch_or(1 << (rank % RANKS_A_WORD), Ordering::Relaxed);
        }
    }
}

/// The table as a rank reads it.
#[derive(Debug)]
pub struct Departures {
    mapping: Mapping,
    ranks: u32,
}

impl Departures {
    /// Maps the file of a table of so many ranks.
    ///
    /// # Errors
    /// The causes that [`SegmentError`] names: size, seals, addresses, or the system.
    pub fn map(file: &OwnedFd, ranks: u32) -> Result<Self, SegmentError> {
        let bytes = bytes_of(ranks);
        check_file(file.as_fd(), bytes, SEALS)?;
        let mapping = Mapping::with(file.as_fd(), bytes, ProtFlags::PROT_READ, MapFlags::MAP_SHARED)?;
        Ok(Self { mapping, ranks })
    }

    /// Returns true if a rank has left the job in order.
    pub fn has_left(&self, rank: u32) -> bool {
        // By itself: nothing else is read for what is found here. And no more than a relaxed load
        // may be made of memory that is mapped for reading alone.
        let word = word_of(&self.mapping, self.ranks, rank);
        word.is_some_and(|word| word.load(Ordering::Relaxed) & 1 << (rank % RANKS_A_WORD) != 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mapped(table: &DepartureTable, ranks: u32) -> Result<Departures, SegmentError> {
        Departures::map(&table.file().try_clone_to_owned().unwrap(), ranks)
    }

    #[test]
    fn who_has_left_is_seen_by_all() {
        let table = DepartureTable::create(7, 130).unwrap();
        let (one, other) = (mapped(&table, 130).unwrap(), mapped(&table, 130).unwrap());
        assert!((0..200).all(|rank| !one.has_left(rank)));
        for rank in [0, 63, 64, 129, 130, u32::MAX] {
            table.mark(rank);
        }
        let left = |seen: &Departures| (0..200).filter(|rank| seen.has_left(*rank)).collect::<Vec<_>>();
        assert_eq!(left(&one), [0, 63, 64, 129]);
        assert_eq!(left(&other), [0, 63, 64, 129]);
        assert!(!one.has_left(u32::MAX));
    }

    #[test]
    fn nobody_else_can_write_a_table() {
        use aldis_sys::file::pwrite;

        use super::super::allocate;

        let other = allocate("test", 8).unwrap();
        if add_seals(&other, SealFlag::F_SEAL_FUTURE_WRITE) == Err(Errno::EINVAL) {
            return eprintln!("not tested: this system does not know the seal");
        }
        let table = DepartureTable::create(7, 130).unwrap();
        let refused = Mapping::new(table.file(), bytes_of(130));
        let expected = SegmentError::System { call: "mmap", errno: Errno::EPERM };
        assert!(matches!(refused, Err(error) if error == expected), "{refused:?}");
        assert_eq!(pwrite(table.file(), &[1], 0), Err(Errno::EPERM));
        table.mark(3);
        assert!(mapped(&table, 130).unwrap().has_left(3));
    }

    #[test]
    fn a_table_of_another_job_size_is_refused() {
        let table = DepartureTable::create(7, 64).unwrap();
        for ranks in [65, 129] {
            let refused = mapped(&table, ranks);
            assert!(matches!(refused, Err(SegmentError::Size { .. })), "{refused:?}");
        }
    }
}

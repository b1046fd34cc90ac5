//! The memory of this process, as one rank of several that are its threads reads another's.

use core::sync::atomic::{AtomicU64, Ordering};
use std::fs::File;
use std::os::unix::fs::FileExt;

use aldis_drivers::shm::{PairLengths, PeerReader, Shm};
use aldis_hal::{Cause, PeerId};

/// A reader of this process's memory, by way of the system, which refuses what is not there.
#[derive(Debug)]
pub struct OwnMemory {
    memory: File,
    /// Bytes that were read.
    read: &'static AtomicU64,
}

impl PeerReader for OwnMemory {
    fn fetch(&mut self, _peer: PeerId, address: u64, into: &mut [u8]) -> Result<(), Cause> {
        self.read.fetch_add(into.len() as u64, Ordering::Relaxed);
        self.memory.read_exact_at(into, address).map_err(|_| Cause::Device)
    }
}

/// Has two ranks pass data by these lengths, and read from where they are; the count of bytes that
/// this one reads.
///
/// # Panics
/// If the system does not show a process its own memory.
pub fn lend_between_pairs(shm: &mut Shm<'_>, lengths: PairLengths) -> &'static AtomicU64 {
    let memory = File::open("/proc/self/mem").expect("a process sees its memory");
    let read: &AtomicU64 = Box::leak(Box::default());
    shm.pass_between_pairs(lengths, Some(Box::leak(Box::new(OwnMemory { memory, read }))));
    read
}

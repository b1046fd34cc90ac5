//! Memory as devices see it, described only: what makes accesses of it carries the `unsafe`.

use core::marker::PhantomData;
use core::ptr::NonNull;

use bitflags::bitflags;

use crate::id::RegionId;

bitflags! {
    /// The rights of peers and devices to a registered region.
    #[derive(Clone, Copy, PartialEq, Eq, Debug)]
    pub struct Access: u8 {
        /// This side's transport reads it (a send buffer).
        const LOCAL_READ = 1 << 0;
        /// This side's transport writes it (a receive buffer).
        const LOCAL_WRITE = 1 << 1;
        /// Peers may read it.
        const REMOTE_READ = 1 << 2;
        /// Peers may write it.
        const REMOTE_WRITE = 1 << 3;
        /// Peers may update words in it.
        const REMOTE_ATOMIC = 1 << 4;
        /// Its bytes are put in place after it has been registered, from the first one on: peers
        /// read no more of it than [`grow`](crate::RemoteMemory::grow) has told. With
        /// [`REMOTE_READ`](Self::REMOTE_READ) alone.
        const GROWS = 1 << 5;
    }
}

defmt_bits!(Access);

/// A stretch of this process's memory, by address. Holding one grants nothing: what gives it to a
/// transport to be read or written, [`register`](crate::RemoteMemory::register), is unsafe.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Memory {
    /// First byte.
    pub start: NonNull<u8>,
    /// Bytes.
    pub len: usize,
}

/// A piece of a registered region, for gather lists and one-sided operations.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Gather {
    /// The region.
    pub region: RegionId,
    /// Offset into it, in bytes.
    pub offset: usize,
    /// Bytes.
    pub len: usize,
}

/// Memory of a peer that is mapped here, to be read where it is.
///
/// It stays readable for `'a`, whatever its owner does, but nothing keeps the owner from writing
/// there: once he has taken the memory back, its bytes may change while they are read. So there is
/// no `&[u8]` of it.
#[derive(Clone, Copy, Debug)]
pub struct Mapped<'a> {
    start: NonNull<u8>,
    len: usize,
    memory: PhantomData<&'a [u8]>,
}

impl<'a> Mapped<'a> {
    /// The `len` bytes from `start`.
    ///
    /// # Safety
    /// They are initialised and valid for reads for `'a`, in one allocation, and nothing in this
    /// process writes to these addresses while they are read.
    pub const unsafe fn new(start: NonNull<u8>, len: usize) -> Self {
        Self { start, len, memory: PhantomData }
    }

    /// The first byte.
    pub const fn start(&self) -> NonNull<u8> {
        self.start
    }

    /// Bytes.
    pub const fn len(&self) -> usize {
        self.len
    }

    /// Returns true if there are no bytes.
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }
}

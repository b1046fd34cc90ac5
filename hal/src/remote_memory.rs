//! Memory of peers, for transports that reach it. Declares an `unsafe` function and holds no other.
//!
//! A transport that carries messages alone has an empty `impl RemoteMemory`: the kernel then sends
//! everything as messages, and has no code for what is here. One that reaches memory says so by
//! [`HAS_REMOTE_MEMORY`](RemoteMemory::HAS_REMOTE_MEMORY) and, peer by peer, by its
//! [`Features`](crate::Features); it implements the calls of the features that it declares.
//!
//! Memory is registered before it is used ([`register`](RemoteMemory::register)), for one peer; the
//! key that [`pack_key`](RemoteMemory::pack_key) makes of the region is what a peer names it by.

use crate::cause::Cause;
use crate::id::{PeerId, RegionId, Token};
use crate::memory::{Access, Gather, Mapped, Memory};
use crate::post::Post;

/// A place in a peer's registered memory.
#[derive(Clone, Copy, Debug)]
pub struct RemoteAddress<'a> {
    /// The key that the peer packed for its region.
    pub key: &'a [u8],
    /// Offset into the region, in bytes.
    pub offset: u64,
}

/// A one-sided read-modify-write on an aligned little-endian 64-bit word of a peer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub enum Atomic {
    /// Adds and fetches the old value.
    FetchAdd(u64),
    /// Stores `swap` if the word equals `compare`; fetches the old value.
    CompareSwap {
        /// The value expected.
        compare: u64,
        /// The value to store.
        swap: u64,
    },
}

/// An atomic update of a peer's word.
#[derive(Clone, Copy, Debug)]
pub struct AtomicUpdate<'a> {
    /// The update.
    pub op: Atomic,
    /// The word.
    pub word: RemoteAddress<'a>,
    /// The memory for its old value: 8 bytes, registered here.
    pub fetched: Gather,
}

/// Access to registered memory: the optional part of a [`Transport`](crate::Transport) that reaches
/// memory of peers, or sends from the user's.
///
/// Every call has a default for a transport that does not do that: it answers `Never(Unsupported)`
/// and registers nothing. Which calls are implemented must agree with the
/// [`Features`](crate::Features) that the transport declares.
///
/// | features | calls besides `register` and `deregister` |
/// |---|---|
/// | `ZCOPY` | [`zcopy`](Self::zcopy) |
/// | `GET` | [`get`](Self::get), [`pack_key`](Self::pack_key) |
/// | `PUT` | [`put`](Self::put), [`pack_key`](Self::pack_key) |
/// | `MAPPABLE` | [`mapped`](Self::mapped), [`is_mapped`](Self::is_mapped), `get` and `pack_key` |
/// | `ATOMIC_ADD`, `ATOMIC_CAS` | [`atomic`](Self::atomic), [`pack_key`](Self::pack_key) |
pub trait RemoteMemory {
    /// True if it ever touches registered memory: gathers from it, places messages in it, reads and
    /// writes it one-sided. For a transport that never does the kernel has no code for that.
    const HAS_REMOTE_MEMORY: bool = false;

    /// Registers memory for zero-copy or one-sided use between this process and `peer`. Explicit:
    /// there is no hidden cache.
    ///
    /// # Errors
    /// The table of regions is full, or the transport registers nothing.
    ///
    /// # Safety
    /// Until the region has been taken back - by [`deregister`](Self::deregister), or with the
    /// transport's end - the memory is there, valid for what `access` allows; this process writes
    /// nothing of it, but for what has not [grown](Self::grow) yet where `access` says that it
    /// does; and it reads nothing of what `access` allows to be written. The calls that
    /// name a region are safe, so any code that reaches this transport, or exchanges it for another
    /// one, can have it do all that `access` allows: until then the transport is given to no code
    /// that must not do that.
    unsafe fn register(
        &mut self,
        _peer: PeerId,
        _memory: Memory,
        _access: Access,
    ) -> Result<RegionId, Cause> {
        Err(Cause::Unsupported)
    }

    /// Takes a region back, in bounded local time and without the peers' help. The transport no
    /// longer touches it when this returns, and no peer reads anything of it that it takes for what
    /// it asked for. Whatever was queued on it is over without a completion, or with one by
    /// [`Cause::Cancelled`]. It does not panic: the implementer of [`register`](Self::register)
    /// promises that, since the memory is let go of next.
    ///
    /// # Errors
    /// [`Cause::Stale`] if the region was taken back before.
    fn deregister(&mut self, _region: RegionId) -> Result<(), Cause> {
        Err(Cause::Stale)
    }

    /// Tells that the first `len` bytes of a region that [`GROWS`](Access::GROWS) are in place, for
    /// its peer to read; never fewer than before. A transport that is never told
    /// [`is_mapped`](Self::is_mapped) of any memory need not implement it.
    fn grow(&mut self, _region: RegionId, _len: u64) {}

    /// Writes the key that lets peers reach `region` into `key` and returns its length.
    ///
    /// # Errors
    /// [`Cause::Stale`] for a region taken back, [`Cause::TooBig`] when `key` is too short.
    fn pack_key(&self, _region: RegionId, _key: &mut [u8]) -> Result<usize, Cause> {
        Err(Cause::Unsupported)
    }

    /// Sends `header` (copied) and a gather list of registered memory as one message; completed by
    /// `token`.
    fn zcopy(&mut self, _peer: PeerId, _header: &[u8], _gather: &[Gather], _token: Token) -> Post {
        Post::Never(Cause::Unsupported)
    }

    /// Reads a peer's registered memory into registered local memory, at most
    /// [`Limits::direct_bytes_max`] bytes of it. Answered by `Never(Stale)`, or completed so, if
    /// the region is not the peer's to show any more: what has been read until then may be
    /// anything. Any other failure means that it cannot be read in this way.
    ///
    /// [`Limits::direct_bytes_max`]: crate::Limits::direct_bytes_max
    fn get(&mut self, _peer: PeerId, _local: Gather, _from: RemoteAddress<'_>, _token: Token) -> Post {
        Post::Never(Cause::Unsupported)
    }

    /// Writes registered local memory to a peer's registered memory.
    fn put(&mut self, _peer: PeerId, _local: Gather, _to: RemoteAddress<'_>, _token: Token) -> Post {
        Post::Never(Cause::Unsupported)
    }

    /// Updates a word of a peer and fetches its old value.
    fn atomic(&mut self, _peer: PeerId, _update: AtomicUpdate<'_>, _token: Token) -> Post {
        Post::Never(Cause::Unsupported)
    }

    /// The `len` bytes from `from` of a peer's registered memory where they are mapped here, as
    /// long as the region is the peer's to show. Asked again after they have been read, it says
    /// whether they were that all the while: if it answers [`Cause::Stale`], what has been read may
    /// be anything.
    ///
    /// # Errors
    /// [`Cause::Stale`] as above; anything else means that they are not mapped.
    fn mapped(&self, _peer: PeerId, _from: RemoteAddress<'_>, _len: u64) -> Result<Mapped<'_>, Cause> {
        Err(Cause::Unsupported)
    }

    /// Returns true if `peer` has this memory of ours mapped, so that it reads there without a
    /// call.
    fn is_mapped(&self, _peer: PeerId, _memory: Memory) -> bool {
        false
    }
}

//! This module holds `unsafe` code: it hands memory to be registered on.
//!
//! Memory of the user: what is registered, and reads, writes and atomics between it and memory of
//! peers.

use std::rc::Rc;

use aldis_hal::memory::{Access, Gather, Memory};
use aldis_hal::remote_memory::RemoteAddress;
use aldis_hal::{Again, Caps, Cause, PeerId, Post, RegionId, Resource, Token};
use aldis_sys::Errno;

use super::super::error::VerbsError;
use super::super::sys::{DeviceRegion, DirectOperation, DirectOrder, DirectPair, DirectSpan, RegionKey};
use super::direct::Attempt;
use super::{ATOMICS, Refusal, VerbsEngine};

/// Bytes of what an atomic updates, and to what they are aligned.
const CONTROL_BYTES: usize = 8;

/// A read, write or atomic that is asked for, between memory here and memory of a peer.
#[derive(Clone, Copy)]
pub(in super::super) struct MemoryRequest<'a> {
    pub(in super::super) operation: DirectOperation,
    pub(in super::super) local: Gather,
    pub(in super::super) remote: RemoteAddress<'a>,
}

impl VerbsEngine {
    /// # Safety
    /// As of [`register`](aldis_hal::RemoteMemory::register).
    pub(in super::super) unsafe fn register(
        &mut self,
        memory: Memory,
        access: Access,
    ) -> Result<RegionId, Cause> {
        self.regions.has_room()?;
        if memory.len == 0 {
            return Err(Cause::BadRegion);
        }
        // SAFETY: the same promises, of the caller's.
        let region = unsafe { DeviceRegion::new(&self.tools.here.domain, memory, access) };
        let region = region.map_err(not_registered)?;
        self.regions.insert(region)
    }

    /// Orders that are at work on it are cut off.
    pub(in super::super) fn deregister(&mut self, region: RegionId) -> Result<(), Cause> {
        let region = self.regions.remove(region)?;
        self.let_go(&region);
        Ok(())
    }

    /// Cuts off what is at work on a region.
    pub(in super::super) fn quiesce_region(&mut self, region: RegionId) -> Result<(), Cause> {
        let region = Rc::clone(self.regions.get(region)?);
        self.let_go(&region);
        Ok(())
    }

    /// Cuts off a post, and with it all others of its peer.
    pub(in super::super) fn quiesce_post(&mut self, token: Token) -> Result<(), Cause> {
        let is_its = |pair: &DirectPair| pair.tokens(None).any(|other| other == token);
        let peer = self.peers.iter_mut().position(|row| row.direct.let_go(is_its)).ok_or(Cause::Stale)?;
        self.due.insert(peer);
        Ok(())
    }

    fn let_go(&mut self, region: &Rc<DeviceRegion>) {
        for (peer, row) in self.peers.iter_mut().enumerate() {
            if row.direct.let_go(|pair| pair.tokens(Some(region)).next().is_some()) {
                self.due.insert(peer);
            }
        }
    }

    pub(in super::super) fn pack_key(&self, region: RegionId, key: &mut [u8]) -> Result<usize, Cause> {
        self.regions.get(region)?.key().pack(key)
    }

    /// Begins a read, write or atomic.
    pub(in super::super) fn act(&mut self, peer: PeerId, request: MemoryRequest<'_>, token: Token) -> Post {
        if request.local.len == 0 && !matches!(request.operation, DirectOperation::Update(_)) {
            return Post::Done;
        }
        match self.try_act(peer, request, token) {
            Ok(()) => Post::Queued,
            Err(refusal) => refusal.into(),
        }
    }

    fn try_act(&mut self, peer: PeerId, request: MemoryRequest<'_>, token: Token) -> Result<(), Refusal> {
        let MemoryRequest { operation, local, remote } = request;
        let caps = self.reach(peer).map_err(Refusal::Never)?;
        let key = RegionKey::unpack(remote.key, remote.offset, local.len).map_err(Refusal::Never)?;
        let access = check(caps, operation, &local, key.place(remote.offset)).map_err(Refusal::Never)?;
        let Self { regions, peers, tools, manager, .. } = self;
        let region = regions.piece(&local, access).map_err(Refusal::Never)?;
        let row = peers.get_mut(peer.index()).ok_or(Refusal::Never(Cause::Unreachable))?;
        if !row.is_open() {
            // The connection of messages tells whether the peer lives.
            row.waiting = true;
            self.due.insert(peer.index());
            return Err(Refusal::Again(Again::Connecting));
        }
        let maker = tools.maker(peer, row, &**manager);
        let span = DirectSpan { here: local.offset, len: local.len, key, there: remote.offset };
        let attempt = row.direct.post(&maker, token, DirectOrder { operation, span }, region);
        self.note(peer);
        match attempt {
            Attempt::Posted => Ok(()),
            Attempt::NoRoom => Err(Refusal::Again(Again::NoSlot)),
            Attempt::Connecting => Err(Refusal::Again(Again::Connecting)),
            Attempt::Refused => Err(Refusal::Never(Cause::Device)),
        }
    }
}

/// Returns the access that `act` takes to memory here; fails if a device with such capabilities
/// cannot do it between a piece here and a `place` there.
fn check(caps: &Caps, act: DirectOperation, local: &Gather, place: u64) -> Result<Access, Cause> {
    let (len, max) = (local.len as u64, caps.limits.direct_bytes_max);
    let word = CONTROL_BYTES as u64;
    match act {
        DirectOperation::Update(_) if !caps.features.contains(ATOMICS) => Err(Cause::Unsupported),
        DirectOperation::Update(_) if len != word || !place.is_multiple_of(word) => {
            Err(Cause::Unaligned { need: CONTROL_BYTES as u32 })
        }
        _ if len > max => Err(Cause::TooBig { len, max }),
        DirectOperation::Write => Ok(Access::LOCAL_READ),
        DirectOperation::Read | DirectOperation::Update(_) => Ok(Access::LOCAL_WRITE),
    }
}

/// The reason why memory was not registered.
fn not_registered(error: VerbsError) -> Cause {
    match error {
        VerbsError::Call { errno: Errno::EFAULT | Errno::EINVAL, .. } => Cause::BadRegion,
        VerbsError::Call { errno: Errno::ENOMEM | Errno::ENOSPC, .. } => Cause::Full(Resource::Regions),
        error => cause_of(error),
    }
}

/// The reason why the device did not do what was asked of it.
pub(super) fn cause_of(error: VerbsError) -> Cause {
    match error {
        VerbsError::Locked { need, have } => Cause::TooBig { len: need, max: have },
        _ => Cause::Device,
    }
}

//! Registered memory of the ranks of a rig (`unsafe` code), and what its wire does with it: reads,
//! writes, gathers and places, at once or some polls later.

use core::cell::RefCell;
use core::ops::Range;
use core::ptr::NonNull;
use core::slice;
use std::collections::VecDeque;
use std::rc::Rc;

use aldis_kernel::hal::memory::{Access, Gather, Mapped, Memory};
use aldis_kernel::hal::{Cause, Handle, Partial, PeerId, Post, RegionId, Sink, Token};

/// The powers of the wire over registered memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Powers {
    /// A peer's memory can be read, so many bytes a post.
    pub reads: Option<u64>,
    /// A peer's memory can be written, so many bytes a post; that is what is taken then.
    pub writes: Option<u64>,
    /// Memory that can be read is mapped.
    pub maps: bool,
    /// Messages of at most so many bytes are gathered from the sender's memory.
    pub gathers: Option<u64>,
    /// Fragments are put where they belong.
    pub places: bool,
    /// Polls until a read, a write, a gathered message or a placed one is done; zero for at once.
    pub polls: u32,
    /// The read or write after so many is refused, and all after it.
    pub orders_max: Option<u32>,
    /// Regions of a rank.
    pub regions: usize,
}

impl Powers {
    /// No powers.
    pub const NONE: Self = Self {
        reads: None,
        writes: None,
        maps: false,
        gathers: None,
        places: false,
        polls: 0,
        orders_max: None,
        regions: 0,
    };
}

#[derive(Clone, Copy)]
struct RigRegion {
    owner: usize,
    generation: u32,
    memory: Memory,
    access: Access,
    /// Bytes that are in place.
    ready: u64,
}

/// The regions of all ranks, and by how many bytes what is mapped stands behind its beginning.
#[derive(Default)]
pub struct RegionTable(Vec<RigRegion>, usize);

impl RegionTable {
    /// Returns the number of regions of a rank that are registered.
    pub fn live(&self, rank: usize) -> usize {
        self.0.iter().filter(|region| region.owner == rank && region.generation % 2 == 1).count()
    }

    /// Maps regions from here on without their first bytes.
    pub fn skip(&mut self, bytes: usize) {
        self.1 = bytes;
    }

    /// Returns the number of bytes of a rank that are registered.
    pub fn bytes_of(&self, rank: usize) -> usize {
        let live = self.0.iter().filter(|region| region.owner == rank && region.generation % 2 == 1);
        live.map(|region| region.memory.len).sum()
    }

    fn find(&self, RegionId(handle): RegionId) -> Option<&RigRegion> {
        let region = self.0.get(handle.slot as usize)?;
        (region.generation == handle.generation && handle.generation % 2 == 1).then_some(region)
    }

    fn piece(&self, gather: Gather, access: Access) -> Option<(*mut u8, usize)> {
        let region = self.find(gather.region).filter(|region| region.access.contains(access))?;
        assert!(gather.offset + gather.len <= region.memory.len, "a piece outside of its region");
        Some((region.memory.start.as_ptr().wrapping_add(gather.offset), gather.len))
    }

    fn bytes(&self, gather: Gather, access: Access) -> Option<&[u8]> {
        // SAFETY: the registrant of the memory keeps it until the region is taken back.
        self.piece(gather, access).map(|(start, len)| unsafe { slice::from_raw_parts(start, len) })
    }

    fn write(&self, gather: Gather, bytes: &[u8], access: Access) -> bool {
        let Some((start, len)) = self.piece(gather, access) else { return false };
        assert_eq!(len, bytes.len());
        // SAFETY: as in `bytes`, and nothing else touches what is to be written.
        unsafe { start.copy_from_nonoverlapping(bytes.as_ptr(), len) };
        true
    }
}

/// The region that a key is for.
fn named(key: &[u8]) -> RegionId {
    let word = |at: usize| u32::from_le_bytes(key[at..at + 4].try_into().unwrap());
    RegionId(Handle { slot: word(0), generation: word(4) })
}

/// An operation that takes some polls.
enum Job {
    Read { token: Token, local: Gather, remote: Gather },
    Write { token: Token, local: Gather, remote: Gather },
    Gather { peer: usize, header: Vec<u8>, piece: Gather, token: Token },
    Land { from: PeerId, head: Vec<u8>, payload: Vec<u8> },
}

/// A rank's end of the memory.
pub(crate) struct DirectEnd {
    me: usize,
    pub(crate) powers: Powers,
    /// The addresses of its staging memory.
    pub(crate) staging: Range<usize>,
    table: Rc<RefCell<RegionTable>>,
    jobs: VecDeque<(u32, Job)>,
    orders: u32,
}

impl DirectEnd {
    pub(crate) fn new(me: usize, powers: Powers, table: Rc<RefCell<RegionTable>>) -> Self {
        Self { me, powers, staging: 0..0, table, jobs: VecDeque::new(), orders: 0 }
    }

    pub(crate) fn is_mapped(&self, memory: Memory) -> bool {
        let start = memory.start.as_ptr().addr();
        self.powers.maps || self.staging.start <= start && start + memory.len <= self.staging.end
    }

    pub(crate) fn register(&mut self, memory: Memory, access: Access) -> Result<RegionId, Cause> {
        let mut table = self.table.borrow_mut();
        if table.live(self.me) >= self.powers.regions {
            return Err(Cause::Full(aldis_kernel::hal::Resource::Regions));
        }
        // Slots are used again, so that stale names meet other regions.
        let free = table.0.iter().position(|region| region.generation % 2 == 0);
        let slot = free.unwrap_or(table.0.len());
        let generation = free.map_or(1, |slot| table.0[slot].generation + 1);
        let ready = if access.contains(Access::GROWS) { 0 } else { u64::MAX };
        let region = RigRegion { owner: self.me, generation, memory, access, ready };
        if free.is_some() {
            table.0[slot] = region
        } else {
            table.0.push(region)
        }
        Ok(RegionId(Handle { slot: slot as u32, generation }))
    }

    pub(crate) fn deregister(&mut self, region: RegionId) -> Result<(), Cause> {
        let mut table = self.table.borrow_mut();
        table.find(region).ok_or(Cause::Stale)?;
        table.0[region.0.slot as usize].generation += 1;
        Ok(())
    }

    pub(crate) fn grow(&mut self, region: RegionId, len: u64) {
        let mut table = self.table.borrow_mut();
        let is_live = table.find(region).is_some_and(|region| len > region.ready);
        assert!(is_live, "it does not grow, or grows back");
        table.0[region.0.slot as usize].ready = len;
    }

    pub(crate) fn pack_key(&self, region: RegionId, key: &mut [u8]) -> Result<usize, Cause> {
        self.table.borrow().find(region).ok_or(Cause::Stale)?;
        key[..4].copy_from_slice(&region.0.slot.to_le_bytes());
        key[4..8].copy_from_slice(&region.0.generation.to_le_bytes());
        Ok(8)
    }

    pub(crate) fn get(&mut self, local: Gather, key: &[u8], offset: u64, token: Token) -> Post {
        if !self.may_order(self.powers.reads, local.len) {
            return Post::Never(Cause::Device);
        }
        let remote = Gather { region: named(key), offset: offset as usize, len: local.len };
        if self.powers.polls > 0 {
            self.jobs.push_back((self.powers.polls, Job::Read { token, local, remote }));
            return Post::Queued;
        }
        match self.read(local, remote) {
            Ok(()) => Post::Done,
            Err(cause) => Post::Never(cause),
        }
    }

    pub(crate) fn put(&mut self, local: Gather, key: &[u8], offset: u64, token: Token) -> Post {
        if !self.may_order(self.powers.writes, local.len) {
            return Post::Never(Cause::Device);
        }
        let remote = Gather { region: named(key), offset: offset as usize, len: local.len };
        if self.powers.polls > 0 {
            self.jobs.push_back((self.powers.polls, Job::Write { token, local, remote }));
            return Post::Queued;
        }
        match self.write(local, remote) {
            Ok(()) => Post::Done,
            Err(cause) => Post::Never(cause),
        }
    }

    /// Returns true if one more read or write is done, of so many bytes.
    fn may_order(&mut self, most: Option<u64>, len: usize) -> bool {
        self.orders += 1;
        assert!(most.is_some_and(|most| len as u64 <= most), "more than is possible at a time");
        self.powers.orders_max.is_none_or(|most| self.orders <= most)
    }

    fn write(&self, local: Gather, remote: Gather) -> Result<(), Cause> {
        let table = self.table.borrow();
        let bytes = table.bytes(local, Access::LOCAL_READ).ok_or(Cause::Cancelled)?.to_vec();
        if table.write(remote, &bytes, Access::REMOTE_WRITE) { Ok(()) } else { Err(Cause::Stale) }
    }

    pub(crate) fn mapped(&self, key: &[u8], offset: u64, len: u64) -> Result<Mapped<'_>, Cause> {
        if !self.powers.maps {
            return Err(Cause::Unsupported);
        }
        let remote = Gather { region: named(key), offset: offset as usize, len: len as usize };
        let table = self.table.borrow();
        let (start, len) = table.piece(remote, Access::REMOTE_READ).ok_or(Cause::Stale)?;
        let skipped = table.1.min(len);
        let (start, len) = (start.wrapping_add(skipped), len - skipped);
        // SAFETY: the tests keep what is sent until the code that looks at it has ended.
        Ok(unsafe { Mapped::new(NonNull::new(start).unwrap(), len) })
    }

    fn read(&self, local: Gather, remote: Gather) -> Result<(), Cause> {
        let table = self.table.borrow();
        let end = (remote.offset + remote.len) as u64;
        assert!(table.find(remote.region).is_none_or(|region| end <= region.ready), "it is not in place");
        let bytes = table.bytes(remote, Access::REMOTE_READ).ok_or(Cause::Stale)?.to_vec();
        if table.write(local, &bytes, Access::LOCAL_WRITE) { Ok(()) } else { Err(Cause::Cancelled) }
    }

    /// The message, if it can be gathered at once.
    pub(crate) fn gather(
        &mut self,
        peer: usize,
        header: &[u8],
        piece: Gather,
        token: Token,
    ) -> Option<Vec<u8>> {
        if self.powers.polls > 0 {
            let header = header.to_vec();
            self.jobs.push_back((self.powers.polls, Job::Gather { peer, header, piece, token }));
            return None;
        }
        let table = self.table.borrow();
        Some([header, table.bytes(piece, Access::LOCAL_READ).expect("a live region")].concat())
    }

    /// Returns true if nothing may overtake what is being sent to `peer`.
    pub(crate) fn is_sending(&self, peer: usize) -> bool {
        self.jobs.iter().any(|(_, job)| matches!(job, Job::Gather { peer: to, .. } if *to == peer))
    }

    /// Returns true if nothing else of `from` may be delivered yet.
    pub(crate) fn is_placing(&self, from: usize) -> bool {
        self.jobs.iter().any(|(_, job)| matches!(job, Job::Land { from: of, .. } if of.index() == from))
    }

    /// Delivers a message in place if the sink knows where. False if it is to be delivered as it
    /// is.
    pub(crate) fn place<S: Sink>(&mut self, from: PeerId, message: &[u8], sink: &mut S) -> bool {
        let Some((head, payload)) = message.split_at_checked(48).filter(|_| self.powers.places) else {
            return false;
        };
        // Half of it at once.
        let half = payload.len() / 2;
        let message = Partial { head, landed: 0, length: payload.len() };
        let lent = sink.land(from, message, &mut |room| {
            assert_eq!(room.len(), payload.len());
            room[..half].copy_from_slice(&payload[..half]);
        });
        if !lent {
            return false;
        }
        let job = Job::Land { from, head: head.to_vec(), payload: payload.to_vec() };
        self.jobs.push_back((self.powers.polls, job));
        true
    }

    /// Does what is due; gives the messages that are ready to be sent.
    pub(crate) fn poll<S: Sink>(&mut self, sink: &mut S) -> (u32, Vec<(usize, Vec<u8>)>) {
        let (mut handled, mut ready) = (0, Vec::new());
        for _ in 0..self.jobs.len() {
            let Some((polls, job)) = self.jobs.pop_front() else { break };
            if polls > 0 {
                self.jobs.push_back((polls - 1, job));
                // Something happens soon: no rank is to think that all is quiet.
                handled |= u32::from(polls < 1000);
                continue;
            }
            handled += 1;
            match job {
                Job::Read { token, local, remote } => sink.completed(token, self.read(local, remote)),
                Job::Write { token, local, remote } => sink.completed(token, self.write(local, remote)),
                Job::Gather { peer, header, piece, token } => {
                    let bytes = self.table.borrow().bytes(piece, Access::LOCAL_READ).map(<[u8]>::to_vec);
                    // What was taken back is sent as zeroes: the kernel says that it is void.
                    ready.push((peer, [header, bytes.clone().unwrap_or(vec![0; piece.len])].concat()));
                    sink.completed(token, bytes.map(drop).ok_or(Cause::Cancelled));
                }
                Job::Land { from, head, payload } => {
                    let half = payload.len() / 2;
                    // If it has been let go of, the rest is dropped.
                    let message = Partial { head: &head, landed: half, length: payload.len() };
                    let _: bool = sink.land(from, message, &mut |room| {
                        room.copy_from_slice(&payload[half..]);
                    });
                    sink.landed(from, &head);
                }
            }
        }
        (handled, ready)
    }
}

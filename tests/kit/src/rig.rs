//! A rig for kernel tests: endpoints in one process over an in-memory wire whose every limit can be
//! made tiny, under a clock that moves with each idle poll.

use core::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::rc::Rc;

use aldis_kernel::hal::caps::Features;
use aldis_kernel::hal::memory::{Access, Gather, Mapped, Memory as Shared};
use aldis_kernel::hal::remote_memory::RemoteAddress;
use aldis_kernel::hal::transport::Quiesce;
use aldis_kernel::hal::{
    Activity, Again, Caps, Cause, Cost, Epoch, Extras, Instant, Limits, PeerId, Platform, Post, Refusal,
    RegionId, RemoteMemory, Sink, Slot, Token, Transport,
};
use aldis_kernel::protocols::card::ByteOrder;
use aldis_kernel::{Config, Endpoint, Error, Memory, Scope, StagingSizes, Storage, storage_type};

use self::direct::DirectEnd;
pub use self::direct::{Powers, RegionTable};

mod direct;

/// The limits of the wire.
#[derive(Clone, Copy, Debug)]
pub struct Shape {
    /// Messages under way per ordered pair.
    pub depth: usize,
    /// Bytes of a message that is copied into a slot, at most.
    pub bcopy_bytes_max: u32,
}

impl Default for Shape {
    fn default() -> Self {
        Self { depth: 4, bcopy_bytes_max: 128 }
    }
}

/// Messages from one rank to another.
pub type RigQueue = Rc<RefCell<VecDeque<Vec<u8>>>>;

/// A rank's end of the wire.
pub struct Wire {
    me: usize,
    shape: Shape,
    caps: Caps,
    /// `queues[from][to]`.
    queues: Rc<Vec<Vec<RigQueue>>>,
    waiting: Vec<bool>,
    dead: Rc<Cell<Option<u32>>>,
    /// The loss that was told last: each is told once.
    lost: Option<u32>,
    next: usize,
    direct: DirectEnd,
    told: Instant,
    expected: Vec<PeerId>,
}

/// A message that is being written.
pub struct WireSlot<'a> {
    queue: &'a RigQueue,
    bytes: Vec<u8>,
}

impl Slot for WireSlot<'_> {
    fn bytes(&mut self) -> &mut [u8] {
        &mut self.bytes
    }
    fn commit(self) {
        self.queue.borrow_mut().push_back(self.bytes);
    }
}

impl Wire {
    /// Returns the time of the last poll, as the kernel told it.
    pub fn told(&self) -> Instant {
        self.told
    }

    /// Returns the peers that the kernel has said it waits for, each once, in order.
    pub fn expected(&self) -> Vec<u32> {
        let mut peers: Vec<u32> = self.expected.iter().map(|peer| peer.0).collect();
        peers.sort_unstable();
        peers.dedup();
        peers
    }

    fn take(&mut self, peer: PeerId) -> Result<&RigQueue, Refusal> {
        if self.dead.get() == Some(peer.0) {
            return Err(Refusal::Never(Cause::PeerDead));
        }
        let queue = &self.queues[self.me][peer.index()];
        if queue.borrow().len() >= self.shape.depth || self.direct.is_sending(peer.index()) {
            self.waiting[peer.index()] = true;
            return Err(Refusal::Again(Again::NoSlot));
        }
        Ok(queue)
    }
}

impl Transport for Wire {
    type Slot<'a> = WireSlot<'a>;

    fn name(&self) -> &'static str {
        "wire"
    }
    fn features(&self) -> Features {
        self.caps.features
    }
    fn reach(&self, peer: PeerId) -> Result<&Caps, Cause> {
        match peer.index() < self.queues.len() {
            false => Err(Cause::Unreachable),
            true if self.dead.get() == Some(peer.0) => Err(Cause::PeerDead),
            true => Ok(&self.caps),
        }
    }
    fn introduce(&mut self, peer: PeerId, _: Epoch, _: &[u8]) -> Result<(), Cause> {
        if self.dead.get() == Some(peer.0) {
            self.dead.set(None);
        }
        Ok(())
    }
    fn expect(&mut self, peer: PeerId) {
        self.expected.push(peer);
    }
    fn short(&mut self, peer: PeerId, header: &[u8], payload: &[u8]) -> Post {
        assert!(header.len() + payload.len() <= 56, "a short message must be short");
        match self.take(peer) {
            Ok(queue) => {
                queue.borrow_mut().push_back([header, payload].concat());
                Post::Done
            }
            Err(refusal) => refusal.into(),
        }
    }
    fn reserve(&mut self, peer: PeerId, len: usize) -> Result<WireSlot<'_>, Refusal> {
        assert!(len <= self.shape.bcopy_bytes_max as usize, "a slot must be within the limit");
        let queue = self.take(peer)?;
        Ok(WireSlot { queue, bytes: vec![0xEE; len] })
    }
    fn quiesce(&mut self, _: Quiesce) -> Result<(), Cause> {
        Ok(())
    }
    fn poll<S: Sink>(&mut self, budget: u32, now: Instant, sink: &mut S) -> u32 {
        self.told = now;
        let dead = self.dead.get();
        if let Some(peer) = dead.filter(|_| self.lost != dead) {
            sink.lost(PeerId(peer), Cause::PeerDead);
        }
        self.lost = dead;
        let ranks = self.queues.len();
        for peer in 0..ranks {
            let full = self.queues[self.me][peer].borrow().len() >= self.shape.depth;
            if self.waiting[peer] && !full && !self.direct.is_sending(peer) {
                self.waiting[peer] = false;
                sink.ready(PeerId(peer as u32));
            }
        }
        let (mut handled, ready) = self.direct.poll(sink);
        for (peer, message) in ready {
            self.queues[self.me][peer].borrow_mut().push_back(message);
        }
        for _ in 0..ranks {
            let from = self.next % ranks;
            self.next += 1;
            while handled < budget && !self.direct.is_placing(from) {
                let Some(message) = self.queues[from][self.me].borrow_mut().pop_front() else { break };
                if !self.direct.place(PeerId(from as u32), &message, sink) {
                    sink.arrived(PeerId(from as u32), &message);
                }
                handled += 1;
            }
        }
        handled
    }
}

impl Extras for Wire {}

impl RemoteMemory for Wire {
    const HAS_REMOTE_MEMORY: bool = true;
    unsafe fn register(&mut self, _: PeerId, memory: Shared, access: Access) -> Result<RegionId, Cause> {
        self.direct.register(memory, access)
    }
    fn deregister(&mut self, region: RegionId) -> Result<(), Cause> {
        self.direct.deregister(region)
    }
    fn pack_key(&self, region: RegionId, key: &mut [u8]) -> Result<usize, Cause> {
        self.direct.pack_key(region, key)
    }
    fn put(&mut self, peer: PeerId, local: Gather, remote: RemoteAddress<'_>, token: Token) -> Post {
        match self.dead.get() == Some(peer.0) {
            true => Post::Never(Cause::PeerDead),
            false => self.direct.put(local, remote.key, remote.offset, token),
        }
    }

    fn get(&mut self, peer: PeerId, local: Gather, remote: RemoteAddress<'_>, token: Token) -> Post {
        match self.dead.get() == Some(peer.0) {
            true => Post::Never(Cause::PeerDead),
            false => self.direct.get(local, remote.key, remote.offset, token),
        }
    }
    fn mapped(&self, _: PeerId, remote: RemoteAddress<'_>, len: u64) -> Result<Mapped<'_>, Cause> {
        self.direct.mapped(remote.key, remote.offset, len)
    }
    fn is_mapped(&self, _: PeerId, memory: Shared) -> bool {
        self.direct.is_mapped(memory)
    }
    fn grow(&mut self, region: RegionId, len: u64) {
        self.direct.grow(region, len);
    }
    fn zcopy(&mut self, peer: PeerId, header: &[u8], gather: &[Gather], token: Token) -> Post {
        if let Err(refusal) = self.take(peer) {
            return refusal.into();
        }
        let &[piece] = gather else { return Post::Never(Cause::Unsupported) };
        match self.direct.gather(peer.index(), header, piece, token) {
            Some(message) => {
                self.queues[self.me][peer.index()].borrow_mut().push_back(message);
                Post::Done
            }
            None => Post::Queued,
        }
    }
}

/// A clock that moves 1 us with every idle poll, so that deadlines pass without waiting.
#[derive(Clone, Default)]
pub struct Clock {
    ns: Rc<Cell<u64>>,
    /// The activities that the ranks have last told the platform.
    pub noted: Rc<RefCell<Vec<Activity>>>,
    /// The event that happens at a certain time.
    pub event: Rc<RefCell<Option<RigEvent>>>,
}

/// A time in ns, and the event of that time.
pub type RigEvent = (u64, Box<dyn FnOnce()>);

impl Platform for Clock {
    fn now(&self) -> Instant {
        Instant(self.ns.get())
    }
    fn relax(&mut self, _: u32) {
        self.ns.set(self.ns.get() + 1000);
        let due = self.event.borrow_mut().take_if(|(at, _)| *at <= self.ns.get());
        if let Some((_, event)) = due {
            event();
        }
    }
    fn entropy(&mut self) -> u64 {
        1
    }
    fn note(&mut self, activity: Activity) {
        self.noted.borrow_mut().push(activity);
    }
}

/// An endpoint of the job.
pub type Rank<'s> = Endpoint<'s, Wire, Clock>;
/// Requests of each rank.
pub const REQUESTS: usize = 24;
/// 3 peers, 3 communicators; per peer 4 envelopes and 2 blocks of 64 bytes; 2 pooled; 4 bins.
pub type Small = storage_type!(3, REQUESTS, 3, 4, 2, 64, 2, 4);

/// Storage like [`Small`], but with the fewest envelopes and blocks.
pub type Least = storage_type!(3, REQUESTS, 3, 1, 0, 64, 2, 4);

enum Room {
    Small(Box<Small>),
    Least(Box<Least>),
    /// Of a test's own, for one time.
    Given(Option<Memory<'static>>),
}

impl Room {
    fn memory(&mut self) -> Memory<'_> {
        match self {
            Self::Small(storage) => storage.memory(),
            Self::Least(storage) => storage.memory(),
            Self::Given(memory) => memory.take().unwrap(),
        }
    }
}

/// A job of ranks in this process.
pub struct Job {
    storages: Vec<Room>,
    /// `queues[from][to]`.
    pub queues: Rc<Vec<Vec<RigQueue>>>,
    /// The rank that has died.
    pub dead: Rc<Cell<Option<u32>>>,
    /// The clock of all ranks.
    pub clock: Clock,
    /// The registered memory of all ranks.
    pub table: Rc<RefCell<RegionTable>>,
    shape: Shape,
    /// The powers of the wire over registered memory: none, if that is not changed before the ranks
    /// are made.
    pub powers: Powers,
    /// Staging memory of each rank, which has none if that is not changed before the ranks are
    /// made.
    pub staging: Vec<Vec<u8>>,
}

impl Job {
    /// Creates a job of ranks with [`Small`] storage.
    pub fn new(ranks: usize, shape: Shape) -> Self {
        Self::with(shape, (0..ranks).map(|_| Room::Small(Box::new(Storage::new()))).collect())
    }

    /// Creates a job of ranks with one envelope a peer and no block.
    pub fn least(ranks: usize, shape: Shape) -> Self {
        Self::with(shape, (0..ranks).map(|_| Room::Least(Box::new(Storage::new()))).collect())
    }

    /// Creates a job of ranks with memory of a test's own; its ranks are made once.
    pub fn of(memories: impl IntoIterator<Item = Memory<'static>>, shape: Shape) -> Self {
        Self::with(shape, memories.into_iter().map(|memory| Room::Given(Some(memory))).collect())
    }

    fn with(shape: Shape, storages: Vec<Room>) -> Self {
        let ranks = storages.len();
        let queues = (0..ranks).map(|_| (0..ranks).map(|_| RigQueue::default()).collect()).collect();
        let (dead, clock, table) = (Rc::default(), Clock::default(), Rc::default());
        Self {
            storages,
            queues: Rc::new(queues),
            dead,
            clock,
            table,
            shape,
            powers: Powers::NONE,
            staging: vec![Vec::new(); ranks],
        }
    }

    /// Returns the messages on the wire from one rank to another.
    pub fn queue(&self, from: usize, to: usize) -> RigQueue {
        self.queues[from][to].clone()
    }

    /// Creates the ranks, introduced to each other.
    pub fn ranks(&mut self) -> Vec<Rank<'_>> {
        let size = self.storages.len() as u32;
        let (queues, dead, clock, shape) = (&self.queues, &self.dead, &self.clock, self.shape);
        let (powers, table) = (self.powers, &self.table);
        let mut features = Features::SHORT | Features::BCOPY | Features::ORDERED | Features::RELIABLE;
        features.set(Features::GET, powers.reads.is_some());
        features.set(Features::PUT | Features::REMOTE_COMPLETION, powers.writes.is_some());
        let stages = self.staging.iter().any(|memory| !memory.is_empty());
        features.set(Features::MAPPABLE, powers.maps || stages);
        features.set(Features::ZCOPY, powers.gathers.is_some());
        let read_latency_ns = if powers.writes.is_some() { 100_000 } else { 10 };
        let caps = Caps {
            features,
            limits: Limits {
                short_bytes_max: 56,
                bcopy_bytes_max: shape.bcopy_bytes_max,
                zcopy_bytes_max: powers.gathers.unwrap_or(0),
                direct_bytes_max: powers.reads.into_iter().chain(powers.writes).min().unwrap_or(0),
                key_bytes: 8,
                ..Limits::default()
            },
            cost: Cost { overhead_ns: 20, latency_ns: 150, per_kib_ns: 100 },
            read_cost: Cost { overhead_ns: 0, latency_ns: read_latency_ns, per_kib_ns: 50 },
            write_cost: Cost::default(),
            mapped_cost: Cost { overhead_ns: 0, latency_ns: 0, per_kib_ns: 40 },
        };
        let mut ranks = Vec::new();
        for ((me, storage), staging) in self.storages.iter_mut().enumerate().zip(&mut self.staging) {
            let waiting = vec![false; queues.len()];
            let (queues, dead) = (queues.clone(), dead.clone());
            let mut direct = DirectEnd::new(me, powers, table.clone());
            let start = staging.as_ptr().addr();
            direct.staging = start..start + staging.len();
            let wire = Wire {
                me,
                shape,
                caps,
                queues,
                waiting,
                dead,
                lost: None,
                next: 0,
                direct,
                told: Instant(0),
                expected: Vec::new(),
            };
            let config = Config { me: PeerId(me as u32), size, epoch: Epoch(100 + me as u32) };
            let mut rank = Endpoint::new(storage.memory(), wire, clock.clone(), config).unwrap();
            if !staging.is_empty() {
                let sizes = StagingSizes { lap: staging.len() / 2, message_bytes_max: staging.len() };
                rank.send_buffer().lend_staging(staging, sizes).unwrap();
            }
            ranks.push(rank);
        }
        let cards: Vec<_> = ranks.iter().map(|rank| rank.card()).collect();
        for (me, rank) in ranks.iter_mut().enumerate() {
            for card in cards.iter().filter(|card| card.peer().index() != me) {
                rank.connect(card).unwrap();
            }
        }
        ranks
    }
}

/// Runs a scope on each of two ranks at a time.
pub fn together<'env, 's, R>(
    ranks: &'env mut [Rank<'s>],
    body: impl for<'a, 'b> FnOnce(
        &mut Scope<'a, 'env, 's, Wire, Clock>,
        &mut Scope<'b, 'env, 's, Wire, Clock>,
    ) -> Result<R, Error>,
) -> Result<R, Error> {
    let [first, second, ..] = ranks else { panic!("two ranks are needed") };
    first.scope(|one| second.scope(|other| body(one, other)))
}

/// Polls both until neither finds anything to do.
pub fn settle(one: &mut Scope<'_, '_, '_, Wire, Clock>, other: &mut Scope<'_, '_, '_, Wire, Clock>) {
    while one.poll(64) + other.poll(64) > 0 {}
}

/// The byte order that this machine does not have.
pub const UNLIKE_ORDER: ByteOrder = match ByteOrder::NATIVE {
    ByteOrder::Big => ByteOrder::Little,
    ByteOrder::Little => ByteOrder::Big,
};

/// Bytes that tell where they belong.
pub fn pattern(seed: u32, len: usize) -> Vec<u8> {
    (0..len as u32)
        .map(|index| (index.wrapping_mul(31).wrapping_add(seed.wrapping_mul(97)) >> 1) as u8)
        .collect()
}

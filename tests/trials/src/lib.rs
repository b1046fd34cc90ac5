//! Homes for the trials of "safe means sound": endpoints over memory that the trials own, alone or
//! in pairs, in one thread or in two. No trial can say `unsafe`, so whatever goes wrong is the
//! fault of the crates under trial; the tests say what each trial tries. They run as tests, and
//! under the sanitizers and Miri, which see more than a test can.
#![forbid(unsafe_code)]

#[cfg(feature = "hosts")]
pub mod host;

use core::cell::Cell;
use std::rc::Rc;
use std::thread;
use std::time;

use aldis_drivers::shm::{Cores, CoresSetup, Geometry, Lane};
use aldis_drivers::{Loopback, Shm};
use aldis_hal::transport::{Quiesce, Sink, Slot};
use aldis_hal::{
    Activity, Caps, Cause, Cost, Epoch, Extras, Features, Instant, PeerId, Platform, Post, Refusal,
    RemoteMemory, Transport,
};
use aldis_kernel::{Composite, Config, Endpoint, Scope, Storage, storage_type};

/// 24 requests, 256 bytes a block; three ranks at most.
type Room = storage_type!(3, 24, 4, 8, 2, 256, 3, 16);

/// The endpoint of a job of one.
pub type Alone<'m> = Endpoint<'m, Loopback<'m>, TrialClock>;

/// The endpoint of one of two ranks.
pub type Mate<'m> = Endpoint<'m, Composite<Loopback<'m>, Shm<'m>>, TrialClock>;

/// A scope of one of two ranks.
pub type MateScope<'scope, 'env, 's, 'm> =
    Scope<'scope, 'env, 's, Composite<Loopback<'m>, Shm<'m>>, TrialClock>;

/// The machine's clock, and patience that lets other threads run.
#[derive(Clone, Debug)]
pub struct TrialClock(time::Instant);

impl TrialClock {
    /// A clock that starts now.
    #[expect(clippy::new_without_default, reason = "a clock starts; it has no default")]
    pub fn new() -> Self {
        Self(time::Instant::now())
    }
}

impl Platform for TrialClock {
    fn now(&self) -> Instant {
        Instant(self.0.elapsed().as_nanos() as u64)
    }
    fn relax(&mut self, _: u32) {
        thread::yield_now();
    }
    fn entropy(&mut self) -> u64 {
        1
    }
}

/// The memory of an endpoint that sends to itself.
pub struct Home {
    room: Box<Room>,
    frames: Vec<u8>,
}

/// Bytes of the longest message of a loopback.
const FRAME_BYTES: u32 = 512;

const fn config(me: u32, size: u32) -> Config {
    Config { me: PeerId(me), size, epoch: Epoch(1) }
}

impl Home {
    /// Memory that nothing has used.
    #[expect(clippy::new_without_default, reason = "it is large, and made where it stays")]
    pub fn new() -> Self {
        Self { room: Box::new(Storage::new()), frames: vec![0; 4096] }
    }

    /// An endpoint on it.
    pub fn endpoint(&mut self) -> Alone<'_> {
        let transport = Loopback::new(PeerId(0), &mut self.frames, FRAME_BYTES).unwrap();
        Endpoint::new(self.room.memory(), transport, TrialClock::new(), config(0, 1)).unwrap()
    }

    /// An endpoint, and by what its transport and its platform are made to panic.
    pub fn fragile(&mut self) -> (FragileEnd<'_>, [Rc<Cell<bool>>; 2]) {
        let [posts, rests] = [(); 2].map(|()| Rc::new(Cell::new(false)));
        let fuse = Fuse::default();
        (self.breaking([&posts, &rests], &fuse), [posts, rests])
    }

    /// An endpoint whose transport and platform panic when the fuse has burnt down.
    pub fn fused(&mut self, fuse: &Fuse) -> FragileEnd<'_> {
        let [posts, rests] = [(); 2].map(|()| Rc::default());
        self.breaking([&posts, &rests], fuse)
    }

    fn breaking(&mut self, [posts, rests]: [&Rc<Cell<bool>>; 2], fuse: &Fuse) -> FragileEnd<'_> {
        let inside = Loopback::new(PeerId(0), &mut self.frames, FRAME_BYTES).unwrap();
        let transport = Fragile { inside, breaks: Rc::clone(posts), fuse: fuse.clone() };
        let platform = Restless { breaks: Rc::clone(rests), fuse: fuse.clone() };
        Endpoint::new(self.room.memory(), transport, platform, config(0, 1)).unwrap()
    }
}

/// Counts the calls of a transport and a platform down to one that panics; the next ones are well
/// again.
#[derive(Clone, Default, Debug)]
pub struct Fuse(Rc<Cell<Option<u32>>>);

impl Fuse {
    /// Panics at the call after so many; at none if that is `None`. Whether it had burnt down
    /// before.
    pub fn set(&self, calls: Option<u32>) -> bool {
        self.0.replace(calls).is_none()
    }

    fn burn(&self) {
        let left = self.0.get();
        self.0.set(left.and_then(|left| left.checked_sub(1)));
        assert_ne!(left, Some(0), "the fuse has burnt down");
    }
}

/// The memory of ranks that reach each other by rings.
pub struct Ranks<const N: usize> {
    homes: [Home; N],
    geometry: Geometry,
    memory: Vec<u8>,
    lanes: Vec<Lane>,
}

/// The memory of two ranks that reach each other by rings.
pub type Pair = Ranks<2>;

impl<const N: usize> Ranks<N> {
    /// Memory that nothing has used.
    #[expect(clippy::new_without_default, reason = "it is large, and made where it stays")]
    pub fn new() -> Self {
        Self::with_sets(0)
    }

    /// Memory that nothing has used, with so many sets of control slots.
    pub fn with_sets(sets: u32) -> Self {
        let geometry = Geometry {
            peers: N as u32,
            slots: 8,
            lanes: Geometry::LANES_MAX,
            blocks: 4,
            block_bytes: 512,
            sets,
        };
        Self {
            homes: [(); N].map(|()| Home::new()),
            geometry,
            memory: vec![0; Cores::memory_bytes(&geometry)],
            lanes: (0..Cores::lanes(&geometry)).map(|_| Lane::EMPTY).collect(),
        }
    }

    /// Endpoints that know each other.
    pub fn endpoints(&mut self) -> [Mate<'_>; N] {
        self.endpoints_of([N as u32; N])
    }

    /// Endpoints that know each other, of worlds of these sizes.
    pub fn endpoints_of(&mut self, sizes: [u32; N]) -> [Mate<'_>; N] {
        let cost = Cost { overhead_ns: 40, latency_ns: 100, per_kib_ns: 100 };
        let setup = CoresSetup { geometry: self.geometry, epoch: Epoch(1), cost };
        let mut cores = Cores::new(&mut self.memory, &mut self.lanes, setup).unwrap();
        let mut ranks = (0..).zip(sizes);
        let mut made = self.homes.each_mut().map(|home| {
            let ((me, size), end) = (ranks.next().unwrap(), cores.next().unwrap().unwrap());
            let own = Loopback::new(PeerId(me), &mut home.frames, FRAME_BYTES).unwrap();
            let transport = Composite::new(own, end);
            Endpoint::new(home.room.memory(), transport, TrialClock::new(), config(me, size)).unwrap()
        });
        let cards = made.each_ref().map(Endpoint::card);
        for ((me, end), size) in made.iter_mut().enumerate().zip(sizes) {
            for (_, card) in cards.iter().take(size as usize).enumerate().filter(|(peer, _)| *peer != me) {
                end.connect(card).unwrap();
            }
        }
        made
    }
}

/// Waits for threads by their handles. ThreadSanitizer sees that, where it does not see how the end
/// of a scope of threads waits, as that is in a library that it did not instrument.
pub fn join<R, const N: usize>(threads: [thread::ScopedJoinHandle<'_, R>; N]) {
    for thread in threads {
        assert!(thread.join().is_ok(), "a thread has panicked");
    }
}

/// A loopback whose posts panic while they are told to, and whose every call may be that of a fuse.
pub struct Fragile<'m> {
    inside: Loopback<'m>,
    breaks: Rc<Cell<bool>>,
    fuse: Fuse,
}

/// A slot of it, whose commit may be the call.
pub struct FragileSlot<S> {
    inside: S,
    fuse: Fuse,
}

impl<S: Slot> Slot for FragileSlot<S> {
    fn bytes(&mut self) -> &mut [u8] {
        self.fuse.burn();
        self.inside.bytes()
    }
    fn commit(self) {
        self.fuse.burn();
        self.inside.commit();
    }
}

impl<'m> Transport for Fragile<'m> {
    type Slot<'a>
        = FragileSlot<<Loopback<'m> as Transport>::Slot<'a>>
    where
        Self: 'a;

    fn name(&self) -> &'static str {
        self.inside.name()
    }
    fn reach(&self, peer: PeerId) -> Result<&Caps, Cause> {
        self.fuse.burn();
        self.inside.reach(peer)
    }
    fn expect(&mut self, peer: PeerId) {
        self.fuse.burn();
        self.inside.expect(peer);
    }
    fn short(&mut self, peer: PeerId, header: &[u8], payload: &[u8]) -> Post {
        assert!(!self.breaks.get(), "in the transport");
        self.fuse.burn();
        let post = self.inside.short(peer, header, payload);
        self.fuse.burn();
        post
    }
    fn reserve(&mut self, peer: PeerId, len: usize) -> Result<Self::Slot<'_>, Refusal> {
        assert!(!self.breaks.get(), "in the transport");
        self.fuse.burn();
        let fuse = self.fuse.clone();
        self.inside.reserve(peer, len).map(|inside| FragileSlot { inside, fuse })
    }
    fn quiesce(&mut self, what: Quiesce) -> Result<(), Cause> {
        self.inside.quiesce(what)
    }
    fn poll<S: Sink>(&mut self, budget: u32, now: Instant, sink: &mut S) -> u32 {
        self.fuse.burn();
        let events = self.inside.poll(budget, now, sink);
        self.fuse.burn();
        events
    }
    fn is_idle(&self) -> bool {
        self.fuse.burn();
        self.inside.is_idle()
    }
    fn features(&self) -> Features {
        self.inside.features()
    }
}

impl Extras for Fragile<'_> {
    fn cork(&mut self) {
        self.fuse.burn();
        self.inside.cork();
    }
    fn uncork(&mut self, more: bool) {
        self.fuse.burn();
        self.inside.uncork(more);
    }
    fn has_news(&self, peer: PeerId) -> bool {
        self.fuse.burn();
        self.inside.has_news(peer)
    }
}

impl RemoteMemory for Fragile<'_> {}

/// A platform whose rest panics while it is told to, and whose every call may be that of a fuse.
#[derive(Clone)]
pub struct Restless {
    breaks: Rc<Cell<bool>>,
    fuse: Fuse,
}

impl Platform for Restless {
    fn now(&self) -> Instant {
        self.fuse.burn();
        Instant(0)
    }
    fn relax(&mut self, _: u32) {
        assert!(!self.breaks.get(), "in the platform");
        self.fuse.burn();
    }
    fn entropy(&mut self) -> u64 {
        1
    }
    fn note(&mut self, _: Activity) {
        self.fuse.burn();
    }
}

/// An endpoint that is made to panic.
pub type FragileEnd<'m> = Endpoint<'m, Fragile<'m>, Restless>;

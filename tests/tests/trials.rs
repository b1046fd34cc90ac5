//! Trials of "safe means sound": what a program without `unsafe` can try on memory that it has lent, with two endpoints
//! at a time. What it must not be able to say at all does not compile: `kernel/src/buffer.rs` and `kernel/src/typed.rs` have
//! those examples.
#![forbid(unsafe_code)]
#![allow(missing_docs)]

use core::cell::Cell;
use core::future::Future;
use core::panic::AssertUnwindSafe;
use core::pin::pin;
use core::task::{Context, Waker};
use core::time::Duration;
use std::panic::catch_unwind;
use std::rc::Rc;

use aldis_drivers::Loopback;
use aldis_hal::transport::{Quiesce, Sink};
use aldis_hal::{Caps, Cause, Epoch, Features, Instant, PeerId, Platform, Post, Refusal, Transport};
use aldis_host_sim::platform::{HostPlatform, Patience};
use aldis_kernel::{Config, Endpoint, Error, Rank, Sleeper, Storage, Tag, storage_type};

type Room = storage_type!(1, 8, 2, 8, 2, 256, 2, 16);
type Alone<'m> = Endpoint<'m, Loopback<'m>, HostPlatform>;

/// The memory of a job of one.
struct Home {
    room: Box<Room>,
    frames: Vec<u8>,
}

impl Home {
    fn new() -> Self {
        Self { room: Box::new(Storage::new()), frames: vec![0; 4096] }
    }

    fn endpoint(&mut self) -> Alone<'_> {
        let transport = Loopback::new(PeerId(0), &mut self.frames, 512).unwrap();
        let config = Config { me: PeerId(0), size: 1, epoch: Epoch(1) };
        let platform = HostPlatform::unwatched(Patience::SHARED);
        Endpoint::new(self.room.memory(), transport, platform, config).unwrap()
    }
}

/// Both scopes work on what they were lent, one inside of the other, and neither sees anything of the other's.
#[test]
fn nested_scopes_of_two_endpoints_each_have_their_own_memory() {
    let (mut here, mut there) = (Home::new(), Home::new());
    let (mut one, mut two) = (here.endpoint(), there.endpoint());
    let (first, second) = (one.world(), two.world());
    let (mut left, mut right) = ([0u8; 16], [0u8; 16]);
    one.scope(|outer| {
        let left = outer.lend(&mut left);
        let mut coming = outer.irecv_part(&first, left, 0..8, Rank(0), Tag(1))?;
        two.scope(|inner| {
            let right = inner.lend(&mut right);
            let mut coming = inner.irecv_part(&second, right, 8..16, Rank(0), Tag(1))?;
            assert_eq!(inner.edit(right, 0..9, |_| ()).unwrap_err().cause, Cause::Busy);
            let mut going = inner.isend(&second, &[2u8; 8], Rank(0), Tag(1))?;
            inner.wait_for(&mut going)?;
            inner.wait_for(&mut coming)?;
            outer.edit(left, 8..16, |ours| {
                inner.edit(right, 0..8, |theirs| theirs.fill(4)).unwrap();
                ours.fill(3);
            })
        })?;
        let mut going = outer.isend(&first, &[1u8; 8], Rank(0), Tag(1))?;
        outer.wait_for(&mut going)?;
        outer.wait_for(&mut coming).map(drop)
    })
    .unwrap();
    assert_eq!(
        (left, right),
        ([1, 1, 1, 1, 1, 1, 1, 1, 3, 3, 3, 3, 3, 3, 3, 3], [4, 4, 4, 4, 4, 4, 4, 4, 2, 2, 2, 2, 2, 2, 2, 2])
    );
}

/// A loopback whose posts, and a platform whose rest, panic while they are told to.
struct Fragile<'m> {
    inside: Loopback<'m>,
    breaks: Rc<Cell<bool>>,
}

impl<'m> Transport for Fragile<'m> {
    type Slot<'a>
        = <Loopback<'m> as Transport>::Slot<'a>
    where
        Self: 'a;

    fn name(&self) -> &'static str {
        self.inside.name()
    }
    fn reach(&self, peer: PeerId) -> Result<&Caps, Cause> {
        self.inside.reach(peer)
    }
    fn short(&mut self, peer: PeerId, header: &[u8], payload: &[u8]) -> Post {
        assert!(!self.breaks.get(), "in the transport");
        self.inside.short(peer, header, payload)
    }
    fn reserve(&mut self, peer: PeerId, len: usize) -> Result<Self::Slot<'_>, Refusal> {
        assert!(!self.breaks.get(), "in the transport");
        self.inside.reserve(peer, len)
    }
    fn quiesce(&mut self, what: Quiesce) -> Result<(), Cause> {
        self.inside.quiesce(what)
    }
    fn poll<S: Sink>(&mut self, budget: u32, now: Instant, sink: &mut S) -> u32 {
        self.inside.poll(budget, now, sink)
    }
    fn features(&self) -> Features {
        self.inside.features()
    }
}

#[derive(Clone)]
struct Restless(Rc<Cell<bool>>);

impl Platform for Restless {
    fn now(&self) -> Instant {
        Instant(0)
    }
    fn relax(&mut self, _: u32) {
        assert!(!self.0.get(), "in the platform");
    }
    fn entropy(&mut self) -> u64 {
        1
    }
}

type FragileEnd<'m> = Endpoint<'m, Fragile<'m>, Restless>;

impl Home {
    /// An endpoint, and by what its transport and its platform are made to panic.
    fn fragile(&mut self) -> (FragileEnd<'_>, [Rc<Cell<bool>>; 2]) {
        let [posts, rests] = [(); 2].map(|()| Rc::new(Cell::new(false)));
        let inside = Loopback::new(PeerId(0), &mut self.frames, 512).unwrap();
        let transport = Fragile { inside, breaks: Rc::clone(&posts) };
        let config = Config { me: PeerId(0), size: 1, epoch: Epoch(1) };
        let endpoint = Endpoint::new(self.room.memory(), transport, Restless(Rc::clone(&rests)), config);
        (endpoint.unwrap(), [posts, rests])
    }
}

/// What comes with tag 1, if anything does, after everything has moved: a message that is sent now goes behind it.
fn left_behind(endpoint: &mut FragileEnd<'_>) -> Option<Vec<u8>> {
    let world = endpoint.world();
    let mut into = vec![0; 300];
    let found = endpoint.scope(|scope| {
        let mut end = scope.isend(&world, &[7u8; 100], Rank(0), Tag(2))?;
        while scope.poll(64) > 0 {}
        let found = scope.iprobe(&world, Rank(0), Tag(1))?.is_some();
        let mut first = if found {
            scope.irecv(&world, &mut into[..200], Rank(0), Tag(1))?
        } else {
            scope.irecv(&world, &mut into[..100], Rank(0), Tag(2))?
        };
        scope.wait_for(&mut first)?;
        if !found {
            scope.wait_for(&mut end)?;
        }
        Ok(found)
    });
    found.unwrap_or(true).then_some(into)
}

/// A call that is unwound has let go of what it was to send, whichever it is: what is written there later is not sent.
#[test]
fn a_transport_that_panics_keeps_no_memory_of_the_call() {
    type Call = fn(&mut FragileEnd<'_>, &[u8]) -> Result<(), Error>;
    let calls: [(&str, Call); 4] = [
        ("ssend", |end, data| end.ssend(&end.world(), data, Rank(0), Tag(1)).map(drop)),
        ("send", |end, data| end.send(&end.world(), data, Rank(0), Tag(1)).map(drop)),
        ("issend", |end, data| {
            let world = end.world();
            end.scope(|scope| scope.issend(&world, data, Rank(0), Tag(1)).map(drop))
        }),
        ("sendrecv", |end, data| {
            let (world, mut into) = (end.world(), [0u8; 200]);
            end.sendrecv(&world, data, Rank(0), Tag(1), &mut into, Rank(0), Tag(9)).map(drop)
        }),
    ];
    for (name, call) in calls {
        for len in [8, 100, 200] {
            let mut home = Home::new();
            let (mut end, [posts, _]) = home.fragile();
            let mut data = vec![1u8; len];
            posts.set(true);
            let caught = catch_unwind(AssertUnwindSafe(|| call(&mut end, &data)));
            posts.set(false);
            assert!(caught.is_err(), "{name} of {len}: nothing was posted");
            data.fill(9);
            assert_eq!(left_behind(&mut end), None, "{name} of {len} was sent after it had ended");
            assert_eq!(end.requests_in_use(), 0, "{name} of {len}");
        }
    }
}

/// A receive whose wait is unwound has let go of its buffer.
#[test]
fn a_platform_that_panics_keeps_no_memory_of_the_call() {
    for len in [8, 100, 300] {
        let mut home = Home::new();
        let (mut end, [_, rests]) = home.fragile();
        let (world, mut buffer) = (end.world(), vec![0u8; len]);
        rests.set(true);
        let caught =
            catch_unwind(AssertUnwindSafe(|| end.recv(&world, &mut buffer, Rank(0), Tag(1)).map(drop)));
        rests.set(false);
        let (out, mut into) = (vec![5u8; len], vec![0u8; len]);
        assert!(caught.is_err());
        end.scope(|scope| {
            let going = scope.isend(&world, &out, Rank(0), Tag(1))?;
            let coming = scope.irecv(&world, &mut into, Rank(0), Tag(1))?;
            scope.wait_all(&mut [going, coming])
        })
        .unwrap();
        assert_eq!((buffer, into), (vec![0; len], vec![5; len]));
    }
}

/// Futures that are forgotten, and the endpoint's futures with them, leave no pointer behind.
#[test]
fn what_forgotten_futures_borrowed_is_not_touched() {
    let mut home = Home::new();
    let mut end = home.endpoint();
    let world = end.world();
    let (mut into, mut data) = (vec![0u8; 300], vec![1u8; 300]);
    {
        let mut sleepers = [const { Sleeper::EMPTY }; 8];
        let futures = end.futures(&mut sleepers).unwrap();
        let mut context = Context::from_waker(Waker::noop());
        let mut receiving = core::mem::ManuallyDrop::new(futures.recv(&world, &mut into, Rank(0), Tag(1)));
        assert!(pin!(&mut *receiving).poll(&mut context).is_pending());
        let mut sending = core::mem::ManuallyDrop::new(futures.ssend(&world, &data, Rank(0), Tag(2)));
        assert!(pin!(&mut *sending).poll(&mut context).is_pending());
    }
    data.fill(9);
    end.scope(|scope| {
        let mut first = scope.isend(&world, &[5u8; 8], Rank(0), Tag(1))?;
        scope.wait_for(&mut first)
    })
    .unwrap();
    while end.poll(64) > 0 {}
    assert_eq!(into, [0; 300], "the receive was forgotten");
    assert!(end.iprobe(&world, Rank(0), Tag(1)).unwrap().is_some(), "nobody took what came");
    let got = end.within(Duration::from_secs(60)).recv(&world, &mut into, Rank(0), Tag(2));
    assert!(got.is_err() || into == [1; 300], "what was written after the send had ended came");
    assert_eq!(data, [9; 300]);
}

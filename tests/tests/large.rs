//! Messages beyond what 32 bits count, of memory that is mapped again and again and so costs next
//! to nothing. The window is no divisor of 2^32, so a byte that went astray by a lost bit would
//! stand in the wrong place.

use core::num::NonZeroUsize;
use core::pin::pin;
use core::task::{Context, Poll, Waker};
use std::sync::Barrier;
use std::thread;

use aldis_drivers::Loopback;
use aldis_drivers::shm::{Cores, CoresSetup, Geometry, Lane};
use aldis_hal::{Cause, Cost, Epoch, PeerId, Transport};
use aldis_kernel::{Comm, Config, Endpoint, Rank, Sleeper, Status, Tag, storage_type};
use aldis_linux::platform::{HostPlatform, Patience};
use aldis_tests::aliased::Aliased;
use aldis_tests::draw;

const BYTES: usize = (4 << 30) + 12_345;
const WINDOW: NonZeroUsize = NonZeroUsize::new(61 << 20).unwrap();
/// Large, since a debug build spends its time on calls.
const FRAGMENT: u32 = 1 << 20;
const REQUESTS: usize = 8;

/// 4 envelopes a peer and one block of 256 KiB, for the pieces of a future.
type Room = storage_type!(2, REQUESTS, 2, 4, 0, 256 << 10, 1, 16);

/// Memory with a pattern.
fn full(seed: u64) -> Aliased {
    let mut memory = Aliased::new(BYTES, WINDOW).unwrap();
    let mut seed = seed;
    for chunk in memory.window().chunks_mut(64) {
        let word = draw(&mut seed).to_le_bytes();
        let (head, _) = chunk.split_at_mut(8);
        head.copy_from_slice(&word);
    }
    memory
}

fn empty() -> Aliased {
    Aliased::new(BYTES, WINDOW).unwrap()
}

/// Returns true if two memories hold the same.
fn same(one: &mut Aliased, other: &mut Aliased) -> bool {
    one.window() == other.window()
}

fn endpoint<'s, T: Transport>(
    room: &'s mut Room,
    transport: T,
    me: u32,
    size: u32,
) -> Endpoint<'s, T, HostPlatform> {
    let config = Config { me: PeerId(me), size, epoch: Epoch(1) };
    let platform = HostPlatform::unwatched(Patience::SHARED);
    Endpoint::new(room.memory(), transport, platform, config).unwrap()
}

fn whole(from: Rank) -> Status {
    Status { source: from, tag: Tag(1), bytes: BYTES as u64 }
}

#[test]
fn a_message_to_oneself() {
    let (mut room, mut frames) = (Box::new(Room::new()), vec![0; 4 * (FRAGMENT as usize + 64)]);
    let transport = Loopback::new(PeerId(0), &mut frames, FRAGMENT + 48).unwrap();
    let mut ep = endpoint(&mut room, transport, 0, 1);
    let (world, mut data, mut buffer) = (ep.world(), full(1), empty());
    assert_ne!(data.window(), buffer.window());
    let status = ep.sendrecv(&world, data.bytes(), Rank(0), Tag(1), buffer.bytes(), Rank(0), Tag(1)).unwrap();
    assert_eq!(status, whole(Rank(0)));
    assert!(same(&mut data, &mut buffer));
    assert_eq!(ep.counters().bytes_received, BYTES as u64);
    assert_eq!(ep.counters().bytes_sent, BYTES as u64);
}

#[test]
fn a_message_between_threads_and_its_start_into_a_short_buffer() {
    const GEOMETRY: Geometry = Geometry {
        peers: 2,
        slots: 8,
        lanes: Geometry::LANES_MAX,
        blocks: 4,
        block_bytes: FRAGMENT,
        sets: 0,
    };
    const COST: Cost = Cost { overhead_ns: 40, latency_ns: 200, per_kib_ns: 100 };
    let mut memory = vec![0; Cores::memory_bytes(&GEOMETRY)];
    let mut lanes = [const { Lane::EMPTY }; Cores::lanes(&GEOMETRY)];
    let ends =
        Cores::new(&mut memory, &mut lanes, CoresSetup { geometry: GEOMETRY, epoch: Epoch(1), cost: COST })
            .unwrap();
    let mut ends = ends.map(Result::unwrap);
    let (one, other) = (ends.next().unwrap(), ends.next().unwrap());
    let met = Barrier::new(2);
    let (mut sent, mut received) = thread::scope(|scope| {
        let sender = scope.spawn(|| {
            let (mut room, mut data) = (Box::new(Room::new()), full(2));
            let mut ep = endpoint(&mut room, one, 0, 2);
            connect(&mut ep, 1);
            met.wait();
            let world = ep.world();
            ep.send(&world, data.bytes(), Rank(1), Tag(1)).unwrap();
            // Its receiver has room for a part only; a message is sent when that is filled.
            assert_eq!(ep.send(&world, data.bytes(), Rank(1), Tag(2)).unwrap().bytes, BYTES as u64);
            data
        });
        let receiver = scope.spawn(|| {
            let (mut room, mut buffer) = (Box::new(Room::new()), empty());
            let mut ep = endpoint(&mut room, other, 1, 2);
            connect(&mut ep, 0);
            met.wait();
            let world = ep.world();
            assert_eq!(ep.recv(&world, buffer.bytes(), Rank(0), Tag(1)).unwrap(), whole(Rank(0)));
            let error = ep.recv(&world, &mut [0_u8; 1000], Rank(0), Tag(2)).unwrap_err();
            assert_eq!(error.cause, Cause::Truncated { sent: BYTES as u64, room: 1000 });
            buffer
        });
        (sender.join().unwrap(), receiver.join().unwrap())
    });
    assert!(same(&mut sent, &mut received));
}

fn connect<T: Transport>(ep: &mut Endpoint<'_, T, HostPlatform>, peer: u32) {
    let room = Room::new().memory().room();
    ep.connect(&aldis_protocols::Card::new(PeerId(peer), Epoch(1), room)).unwrap();
}

/// In thousands of pieces, each of which a future asks for.
#[test]
fn a_message_between_futures() {
    let (mut room, mut frames) = (Box::new(Room::new()), vec![0; 4 * (FRAGMENT as usize + 64)]);
    let transport = Loopback::new(PeerId(0), &mut frames, FRAGMENT + 48).unwrap();
    let mut ep = endpoint(&mut room, transport, 0, 1);
    let (world, mut data, mut buffer): (Comm, _, _) = (ep.world(), full(3), empty());
    let mut sleepers = [const { Sleeper::EMPTY }; REQUESTS];
    let received = {
        let futures = ep.futures(&mut sleepers).unwrap();
        let mut sending = pin!(futures.send(&world, data.bytes(), Rank(0), Tag(1)));
        let mut receiving = pin!(futures.recv(&world, buffer.bytes(), Rank(0), Tag(1)));
        let mut context = Context::from_waker(Waker::noop());
        let mut sent = None;
        loop {
            if sent.is_none()
                && let Poll::Ready(result) = sending.as_mut().poll(&mut context)
            {
                sent = Some(result.unwrap().bytes);
            }
            if let Poll::Ready(result) = receiving.as_mut().poll(&mut context) {
                assert_eq!(sent, Some(BYTES as u64));
                break result.unwrap();
            }
        }
    };
    assert_eq!(received, whole(Rank(0)));
    assert!(same(&mut data, &mut buffer));
}

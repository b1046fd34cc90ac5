//! Futures on embassy-executor, as in a firmware: two cores, each with an executor, tasks, and an
//! endpoint of its own, joined by shared-memory rings. A task that is not woken never ends: the
//! deadlines tell.

use core::cell::Cell;
use core::time::Duration;
use std::sync::Barrier;
use std::thread;

use aldis_drivers::shm::{Cores, CoresSetup, Geometry, Lane};
use aldis_drivers::{Loopback, Shm};
use aldis_hal::{Cost, Epoch, PeerId};
use aldis_kernel::{
    Comm, Composite, Config, Endpoint, Futures, Rank, Sleeper, Source, Storage, Tag, storage_type,
};
use aldis_linux::platform::{HostPlatform, Patience};
use aldis_protocols::Card;
use aldis_tests::draw;
use embassy_executor::{Executor, Spawner};

const GEOMETRY: Geometry =
    Geometry { peers: 2, slots: 8, lanes: Geometry::LANES_MAX, blocks: 2, block_bytes: 512, sets: 0 };
const COST: Cost = Cost { overhead_ns: 40, latency_ns: 200, per_kib_ns: 100 };
const REQUESTS: usize = 16;
const CORES: usize = 2;
/// Tasks that play with one of the other core each.
const PLAYERS: u32 = 3;
const ROUNDS: u32 = 40;
const BYTES_MAX: u64 = 3000;
const LIMIT: Duration = Duration::from_secs(20);

/// 4 envelopes and 2 blocks of 256 bytes a peer; 8 pooled.
type Room = storage_type!(2, REQUESTS, 2, 4, 2, 256, 8, 16);
type Transport = Composite<Loopback<'static>, Shm<'static>>;
type RankFutures = Futures<'static, 'static, Transport, HostPlatform>;

#[embassy_executor::task(pool_size = CORES)]
async fn drive(ends: &'static RankFutures) {
    ends.drive().await;
}

/// Sends and is answered, or answers, in turn; both draw the same lengths.
#[embassy_executor::task(pool_size = CORES * PLAYERS as usize)]
async fn play(ends: &'static RankFutures, world: Comm, player: u32, over: &'static Cell<u32>) {
    let (mut seed, mut buffer) = (u64::from(player), vec![0_u8; BYTES_MAX as usize]);
    let (other, serves) = (Rank(1 - world.rank().0), world.rank() == Rank(0));
    for round in 0..ROUNDS {
        let len = (draw(&mut seed) % if round % 2 == 0 { 300 } else { BYTES_MAX }) as usize;
        let data = vec![(player * ROUNDS + round) as u8; len];
        if serves {
            ends.send(&world, &data, other, Tag(player)).within(LIMIT).await.unwrap();
        }
        let status = ends.recv(&world, &mut buffer, other, Tag(player)).within(LIMIT).await.unwrap();
        assert_eq!((status.bytes, &buffer[..len]), (len as u64, &data[..]), "player {player}, round {round}");
        if !serves {
            ends.ssend(&world, &data, other, Tag(player)).within(LIMIT).await.unwrap();
        }
    }
    over.set(over.get() + 1);
}

/// Sends to itself, and waits for what it has probed.
#[embassy_executor::task(pool_size = CORES)]
async fn muse(ends: &'static RankFutures, world: Comm, over: &'static Cell<u32>) {
    let mut word = [0_u32];
    for round in 0..ROUNDS {
        ends.send(&world, &[round], world.rank(), Tag(50)).within(LIMIT).await.unwrap();
        let found = ends.probe(&world, Source::Any, Tag(50)).within(LIMIT).await.unwrap();
        ends.recv(&world, &mut word, found.source, found.tag).within(LIMIT).await.unwrap();
        assert_eq!((found.source, word), (world.rank(), [round]));
    }
    over.set(over.get() + 1);
}

/// Runs a core: its endpoint, its executor, its tasks. Tasks live as long as the program, and so
/// does what they use.
fn core(me: u32, end: Shm<'static>, cards: &[Card], met: &Barrier) {
    let storage: &'static mut Room = Box::leak(Box::new(Storage::new()));
    let frames = vec![0; 8 << 10].leak();
    let transport = Composite::new(Loopback::new(PeerId(me), frames, 512).unwrap(), end);
    let config = Config { me: PeerId(me), size: 2, epoch: Epoch(1) };
    let platform = HostPlatform::unwatched(Patience::SHARED);
    let endpoint = Box::leak(Box::new(Endpoint::new(storage.memory(), transport, platform, config).unwrap()));
    endpoint.connect(&cards[1 - me as usize]).unwrap();
    let world = endpoint.world();
    let sleepers = Box::leak(Box::new([const { Sleeper::EMPTY }; REQUESTS]));
    let ends: &'static RankFutures = Box::leak(Box::new(endpoint.futures(sleepers).unwrap()));
    let over: &'static Cell<u32> = Box::leak(Box::default());
    met.wait();
    let spawn = |spawner: Spawner| {
        spawner.spawn(drive(ends).unwrap());
        spawner.spawn(muse(ends, world, over).unwrap());
        for player in 0..PLAYERS {
            spawner.spawn(play(ends, world, player, over).unwrap());
        }
    };
    Box::leak(Box::new(Executor::new())).run_until(spawn, || over.get() == PLAYERS + 1);
    // The other core may still wait for what this one has only put in line.
    met.wait();
}

#[test]
fn tasks_of_two_cores_talk_on_embassys_executor() {
    let memory = vec![0; Cores::memory_bytes(&GEOMETRY)].leak();
    let lanes = Box::leak(Box::new([const { Lane::EMPTY }; Cores::lanes(&GEOMETRY)]));
    let ends: Vec<_> =
        Cores::new(memory, lanes, CoresSetup { geometry: GEOMETRY, epoch: Epoch(1), cost: COST })
            .unwrap()
            .collect();
    let room = Room::new().memory().room();
    let cards: Vec<Card> = (0..2).map(|rank| Card::new(PeerId(rank), Epoch(1), room)).collect();
    let met = Barrier::new(CORES);
    thread::scope(|scope| {
        for (me, end) in (0..).zip(ends) {
            let (cards, met) = (&cards, &met);
            scope.spawn(move || core(me, end.unwrap(), cards, met));
        }
    });
}

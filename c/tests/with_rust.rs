//! This module holds `unsafe` code: calls of the interface of C, as a program in C makes them.
//!
//! A rank by `aldis.h` and one in Rust are ranks of one job.

mod cable;

use core::ptr::null_mut;

use aldis::calls::*;
use aldis::types::RankConfig;
use aldis_coll::op::Sum;
use aldis_coll::{allreduce, barrier};
use aldis_drivers::discovery::{Discovery, DiscoverySetup, Entry};
use aldis_drivers::ethernet::{Config, Ethernet, EthernetStorage};
use aldis_hal::nic::{LinkState, Mac, Nic, TxFrame};
use aldis_hal::{Cost, Epoch, Instant, PeerId, Platform};
use aldis_kernel::{Endpoint, Rank, Tag};
use aldis_protocols::Card;
use aldis_protocols::card::CARD_BYTES_MAX;

use cable::{CableBoard, FrameQueue, JOB, SECOND};

aldis_kernel::storage! {
    static STORAGE: peers = 2, requests = 16, communicators = 4,
        envelopes = 8, blocks = 4, block_bytes = 512, pooled = 0, bins = 16
}

/// The other end of the cable.
struct RustEnd {
    incoming: FrameQueue,
    outgoing: FrameQueue,
    received: Vec<u8>,
}

struct SentFrame<'a>(&'a FrameQueue, Vec<u8>);

impl TxFrame for SentFrame<'_> {
    fn bytes(&mut self) -> &mut [u8] {
        &mut self.1
    }

    fn send(self) {
        self.0.lock().unwrap().push_back(self.1);
    }
}

impl Nic for RustEnd {
    type Rx<'a> = &'a [u8];
    type Tx<'a> = SentFrame<'a>;

    fn receive(&mut self) -> Option<&[u8]> {
        self.received = self.incoming.lock().unwrap().pop_front()?;
        Some(&self.received)
    }

    fn transmit(&mut self, len: usize) -> Option<SentFrame<'_>> {
        Some(SentFrame(&self.outgoing, vec![0; len]))
    }

    fn mtu(&self) -> usize {
        1500
    }

    fn mac(&self) -> Mac {
        Mac([2, 0, 0, 0, 0, 2])
    }

    fn link(&self) -> LinkState {
        LinkState::Up
    }
}

struct WallClock(std::time::Instant);

impl Platform for WallClock {
    fn now(&self) -> Instant {
        Instant(self.0.elapsed().as_nanos() as u64 + 1)
    }

    fn relax(&mut self, _: u32) {
        std::thread::yield_now();
    }

    fn entropy(&mut self) -> u64 {
        u64::from(std::process::id()) << 20 | 5
    }
}

/// Rank 1, in Rust.
fn rust_rank(end: RustEnd) {
    let (clock, me, epoch) = (WallClock(std::time::Instant::now()), PeerId(1), Epoch(77));
    let mut entries = [Entry::EMPTY; 2];
    let setup = DiscoverySetup { job: JOB, rank: 1, size: 2, epoch, ..DiscoverySetup::DEFAULT };
    let discovery = Discovery::new(end, setup, &mut entries).unwrap();
    let mut rings = EthernetStorage::<1, 32, 1416>::new();
    let cost = Cost { overhead_ns: 1000, latency_ns: 1000, per_kib_ns: 100 };
    let ethernet = Ethernet::new(discovery, rings.memory(), Config::new(me, epoch, JOB, cost)).unwrap();
    let identity = aldis_kernel::Config { me, size: 2, epoch };
    let mut ep = Endpoint::new(STORAGE.take().unwrap(), ethernet, clock, identity).unwrap();
    let mut card = ep.card();
    card.address.extend_from_slice(&ep.transport().address()).unwrap();
    let mut buffer = [0; CARD_BYTES_MAX];
    let now = ep.platform().now();
    ep.transport_mut().nic_mut().announce(card.encode(&mut buffer).unwrap(), now).unwrap();
    loop {
        let now = ep.platform().now();
        if ep.transport_mut().nic_mut().poll(now).unwrap() {
            break;
        }
        std::thread::yield_now();
    }
    let card = Card::decode(ep.transport().nic().card(PeerId(0)).unwrap()).unwrap();
    ep.connect(&card).unwrap();
    let world = ep.world();
    let mut buffer = [0_u16; 1000];
    let status = ep.recv(&world, &mut buffer, Rank(0), Tag(1)).unwrap();
    assert_eq!((status.bytes, buffer), (2000, [513; 1000]));
    ep.send(&world, &buffer.map(|word| word + 1), Rank(0), Tag(2)).unwrap();
    let mut sum = [2.5_f64; 40];
    allreduce(Sum, &mut sum, &mut [0.0]).run(&mut ep, &world).unwrap();
    assert_eq!(sum, [4.0; 40]);
    barrier().run(&mut ep, &world).unwrap();
    ep.leave(core::time::Duration::from_secs(10)).unwrap();
}

#[test]
fn ranks_in_c_and_in_rust_are_of_one_job() {
    let (there, back) = (FrameQueue::default(), FrameQueue::default());
    let end = RustEnd { incoming: there.clone(), outgoing: back.clone(), received: Vec::new() };
    std::thread::scope(|threads| {
        threads.spawn(|| rust_rank(end));
        let mut board = CableBoard::new(&back, &there);
        assert_eq!(board.init(&RankConfig::new(JOB, 0, 2), 1500), 0, "{}", board.last_error());
        let (mine, mut theirs, mut sum) = ([513_u16; 1000], [0_u16; 1000], [1.5_f64; 40]);
        // SAFETY: the memory is there.
        unsafe {
            assert_eq!(aldis_send(board.rank, mine.as_ptr().cast(), 2000, 1, 1, 10 * SECOND), 0);
            let buffer = theirs.as_mut_ptr().cast();
            assert_eq!(aldis_recv(board.rank, buffer, 2000, 1, 2, 10 * SECOND, null_mut()), 0);
            let (data, scratch) = (sum.as_mut_ptr().cast(), [0.0_f64].as_mut_ptr().cast());
            assert_eq!(aldis_allreduce(board.rank, data, 40, scratch, 1, 10, 0, 10 * SECOND), 0);
            assert_eq!(aldis_barrier(board.rank, 10 * SECOND), 0);
            assert_eq!(aldis_finalize(board.rank, 10 * SECOND), 0);
        }
        assert_eq!((theirs, sum), ([514; 1000], [4.0; 40]));
    });
}

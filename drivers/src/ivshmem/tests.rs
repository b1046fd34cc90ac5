//! A device whose memory is this process's, and ranks that share it.

use core::alloc::Layout;
use std::alloc::alloc_zeroed;
use std::boxed::Box;
use std::vec::Vec;

use aldis_hal::{Cost, Instant, Post, Sink, Token, Transport};
use proptest::prelude::*;

use super::*;
use crate::pci::tests::{PciFunction, Space, at};
use crate::shm::{Lane, Shm, format};
use crate::sync::Ordering;

const JOB: u64 = 0xA1D1_5001_0000_0007;
const GEOMETRY: Geometry = Geometry { peers: 3, slots: 8, lanes: 2, blocks: 2, block_bytes: 256, sets: 0 };
const MEMORY_BYTES: usize = 1 << 16;

/// Memory of the host, aligned to its size, all zero.
fn memory() -> NonNull<u8> {
    let layout = Layout::from_size_align(MEMORY_BYTES, MEMORY_BYTES).unwrap();
    // SAFETY: the layout has a size; the memory is never given back.
    NonNull::new(unsafe { alloc_zeroed(layout) }).unwrap()
}

/// A guest's view of the host's memory: a bus with a device that has it, found as a guest finds it.
fn guest(memory: NonNull<u8>) -> SharedMemory {
    let address = memory.as_ptr().expose_provenance() as u64;
    let device = PciFunction { identity: 0x1110_1AF4, ..PciFunction::default() };
    let device = device.bar32(0, 0x100, 0xFEB0_0000).bar64(2, MEMORY_BYTES as u64, address);
    let network = PciFunction { identity: 0x1041_1AF4, ..PciFunction::default() };
    let space = Space::default().with(at(0, 2, 0), network).with(at(0, 4, 0), device);
    let mut root = PciRoot::new(space.clone());
    // SAFETY: the memory is valid for good, and used by these tests through `Shared` alone.
    let shared = unsafe { SharedMemory::find(&mut root, 1, &mut { AddressWindow::NONE }) }.unwrap().unwrap();
    assert_eq!(space.get(at(0, 4, 0)).command, 0b110);
    assert_eq!((shared.start, shared.len), (memory, MEMORY_BYTES));
    shared
}

/// A guest's view that has been asked for an inbox, so that it knows what ranks have cards.
fn divided(memory: NonNull<u8>) -> SharedMemory {
    let shared = guest(memory);
    // SAFETY: nothing is done with it.
    let _ = unsafe { shared.inbox(&GEOMETRY, PeerId(0)) }.unwrap();
    shared
}

#[test]
fn a_bus_without_it_has_none_and_one_without_addresses_says_so() {
    let find = |space| {
        // SAFETY: there is nothing to be used.
        unsafe { SharedMemory::find(&mut PciRoot::new(space), 1, &mut { AddressWindow::NONE }) }.map(|_| ())
    };
    assert!(matches!(find(Space::default()), Ok(())));
    let device = PciFunction { identity: 0x1110_1AF4, ..PciFunction::default() };
    let full = Err(Cause::Full(Resource::DeviceMemory));
    assert_eq!(find(Space::default().with(at(0, 1, 0), device.clone().bar64(2, 4096, 0))), full);
    assert_eq!(find(Space::default().with(at(0, 1, 0), device)), Err(Cause::Device), "no memory");
}

#[test]
fn what_does_not_fit_is_refused() {
    let shared = guest(memory());
    // SAFETY: nothing uses it.
    let inbox = |geometry: &Geometry, rank| unsafe { shared.inbox(geometry, PeerId(rank)) }.map(|_| ());
    assert_eq!(inbox(&GEOMETRY, 2), Ok(()));
    assert_eq!(inbox(&GEOMETRY, 3), Err(Cause::RankOutOfRange { rank: 3, size: 3 }));
    let large = Geometry { block_bytes: 1 << 15, ..GEOMETRY };
    let need = SharedMemory::bytes_needed(&large) as u64;
    assert_eq!(inbox(&large, 0), Err(Cause::TooBig { len: need, max: MEMORY_BYTES as u64 }));
    // SAFETY: a part of the same memory.
    let odd = unsafe { SharedMemory::new(shared.start.add(64), MEMORY_BYTES - 64) };
    // SAFETY: there is none.
    let inbox = unsafe { odd.inbox(&GEOMETRY, PeerId(0)) };
    assert!(matches!(inbox, Err(Cause::Unaligned { need: 4096 })));
    let identity = |rank, epoch| Identity { job: JOB, owner: PeerId(rank), epoch: Epoch(epoch) };
    assert_eq!(shared.announce(&identity(3, 1), b"x"), Err(Cause::Full(Resource::DeviceMemory)));
    assert_eq!(shared.announce(&identity(0, 0), b"x"), Err(Cause::Incompatible));
    let long = Cause::TooBig { len: 129, max: 128 };
    assert_eq!(shared.announce(&identity(0, 1), &[0; 129]), Err(long));
    assert_eq!(shared.card(JOB, PeerId(u32::MAX), &mut [0; CARD_BYTES_MAX]), None);
}

/// Whatever rank a card is said to be of: it is neither written to an inbox nor read from one.
#[test]
fn a_card_is_none_of_an_inboxs_bytes() {
    let memory = memory();
    let (shared, _) = boot(memory, 0);
    // SAFETY: nothing writes there meanwhile.
    let bytes = || unsafe { core::slice::from_raw_parts(memory.as_ptr(), MEMORY_BYTES) }.to_vec();
    let before = bytes();
    for rank in [3, 15, 16, 17, 100, u32::MAX] {
        let identity = Identity { job: JOB, owner: PeerId(rank), epoch: Epoch(1) };
        assert_eq!(shared.announce(&identity, b"x"), Err(Cause::Full(Resource::DeviceMemory)), "{rank}");
        assert_eq!(shared.card(JOB, PeerId(rank), &mut [0; CARD_BYTES_MAX]), None);
    }
    let first = Identity { job: JOB, owner: PeerId(1), epoch: Epoch(1) };
    assert!(guest(memory).announce(&first, b"x").is_err(), "no inbox was asked for");
    assert!(bytes() == before);
}

#[derive(Default)]
struct IvshmemLog(Vec<(u32, Vec<u8>)>);

impl Sink for IvshmemLog {
    fn arrived(&mut self, from: PeerId, message: &[u8]) {
        self.0.push((from.0, message.to_vec()));
    }
    fn completed(&mut self, _token: Token, _result: Result<(), Cause>) {}
    fn ready(&mut self, _peer: PeerId) {}
    fn lost(&mut self, peer: PeerId, cause: Cause) {
        panic!("{peer} is lost: {cause}");
    }
}

/// A rank as a guest brings it up; its own card is out.
fn boot(memory: NonNull<u8>, rank: u32) -> (SharedMemory, Shm<'static>) {
    let shared = guest(memory);
    let identity = Identity { job: JOB, owner: PeerId(rank), epoch: Epoch(rank + 70) };
    // SAFETY: its owner's, formatted before it is announced.
    let inbox = unsafe { shared.inbox(&GEOMETRY, PeerId(rank)) }.unwrap();
    format(&inbox, GEOMETRY, identity).unwrap();
    let lanes = Box::leak(Box::new([const { Lane::EMPTY }; GEOMETRY.lane_entries()]));
    let transport = Shm::new(identity, inbox, lanes, Cost::default()).unwrap();
    shared.announce(&identity, &[rank as u8; 5]).unwrap();
    (shared, transport)
}

#[test]
fn guests_find_each_others_cards_and_talk_through_the_memory() {
    let memory = memory();
    let mut guests = [0, 1, 2].map(|rank| boot(memory, rank));
    for (rank, (shared, transport)) in guests.iter_mut().enumerate() {
        for peer in (0..3).filter(|peer| *peer != rank as u32) {
            let mut buffer = [0; CARD_BYTES_MAX];
            let (epoch, card) = shared.card(JOB, PeerId(peer), &mut buffer).unwrap();
            assert_eq!((epoch, card), (Epoch(peer + 70), &[peer as u8; 5][..]));
            let identity = Identity { job: JOB, owner: PeerId(peer), epoch };
            // SAFETY: the only one that this rank sends into it by.
            let inbox = unsafe { shared.inbox(&GEOMETRY, PeerId(peer)) }.unwrap();
            transport.attach(PeerId(peer), inbox, identity).unwrap();
        }
    }
    for (rank, (_, transport)) in guests.iter_mut().enumerate() {
        for peer in (0..3).filter(|peer| *peer != rank as u32) {
            assert_eq!(transport.short(PeerId(peer), &[rank as u8], &[peer as u8; 40]), Post::Done);
        }
    }
    for (rank, (_, transport)) in guests.iter_mut().enumerate() {
        let mut log = IvshmemLog::default();
        transport.poll(16, Instant(0), &mut log);
        log.0.sort();
        let expected = (0..3_u32).filter(|peer| *peer != rank as u32).map(|peer| {
            let message = [&[peer as u8][..], &[rank as u8; 40]].concat();
            (peer, message)
        });
        assert_eq!(log.0, expected.collect::<Vec<_>>());
    }
}

#[test]
fn a_card_of_another_job_or_in_pieces_is_none() {
    let shared = divided(memory());
    let mut buffer = [0; CARD_BYTES_MAX];
    assert_eq!(shared.card(0, PeerId(1), &mut buffer), None, "memory that is all zero");
    let identity = Identity { job: JOB, owner: PeerId(1), epoch: Epoch(9) };
    shared.announce(&identity, b"a card").unwrap();
    assert_eq!(shared.card(JOB, PeerId(1), &mut buffer), Some((Epoch(9), &b"a card"[..])));
    assert_eq!(shared.card(JOB + (1 << 32), PeerId(1), &mut buffer), None);
    assert_eq!(shared.card(JOB, PeerId(0), &mut buffer), None);
    let place = shared.place(PeerId(1)).unwrap();
    place.card[1].store(7, Ordering::Relaxed);
    assert_eq!(shared.card(JOB, PeerId(1), &mut buffer), None, "a piece of another card");
    shared.announce(&identity, b"a card").unwrap();
    place.length.store(u32::MAX, Ordering::Relaxed);
    assert_eq!(shared.card(JOB, PeerId(1), &mut buffer), None);
}

proptest! {
    #[test]
    fn every_card_survives(card in proptest::collection::vec(any::<u8>(), 0..=CARD_BYTES_MAX), epoch in 1..=u32::MAX, job: u64) {
        let shared = divided(memory());
        let identity = Identity { job, owner: PeerId(2), epoch: Epoch(epoch) };
        shared.announce(&identity, &[0xFF; CARD_BYTES_MAX]).unwrap();
        shared.announce(&identity, &card).unwrap();
        let mut buffer = [0; CARD_BYTES_MAX];
        prop_assert_eq!(shared.card(job, PeerId(2), &mut buffer), Some((Epoch(epoch), &card[..])));
    }
}

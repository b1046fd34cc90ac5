//! A client and a server over one memory, and peers that lie.

mod control;

use std::boxed::Box;
use std::vec;
use std::vec::Vec;

use aldis_hal::nic::{LinkState, Mac, RxFrame, TxFrame};
use aldis_hal::{Cause, Nic, Resource};
use proptest::prelude::*;

use super::*;
use crate::adapters::{ForeignDevice, ForeignNic};
use crate::region_memory::tests::TestMemory;

const FRAME_BYTES: usize = 9014;
const LAYOUT: MemifLayout = MemifLayout::new(3).unwrap();
/// Descriptors of a ring.
const RING: usize = 8;
const ONE: Mac = Mac([2, 0, 0, 0, 0, 1]);
const TWO: Mac = Mac([2, 0, 0, 0, 0, 2]);

type MemifCard<const REGIONS: usize> = ForeignNic<'static, Memif<TestMemory, REGIONS>>;

fn room(bytes: usize) -> &'static mut [u8] {
    Box::leak(vec![0; bytes].into_boxed_slice())
}

fn card<const REGIONS: usize>(memif: Memif<TestMemory, REGIONS>) -> MemifCard<REGIONS> {
    ForeignNic::new(memif, room(FRAME_BYTES), room(FRAME_BYTES)).unwrap()
}

/// A client whose server is another's business.
fn client(memory: TestMemory) -> Memif<TestMemory> {
    let mut memif = Memif::client(memory, LAYOUT, ONE, FRAME_BYTES).unwrap();
    assert!(!memif.has_room() && memif.receive(&mut [0; 64]).is_none(), "nobody is connected");
    memif.start();
    memif
}

/// Both ends of one memory, connected.
fn pair() -> (MemifCard<1>, MemifCard<1>, TestMemory) {
    let memory = TestMemory::new(LAYOUT.bytes());
    let mut one = Memif::client(memory, LAYOUT, ONE, FRAME_BYTES).unwrap();
    let two = Memif::server([Some(memory)], LAYOUT.rings(), TWO, FRAME_BYTES).unwrap();
    one.start();
    (card(one), card(two), memory)
}

fn send<const REGIONS: usize>(card: &mut MemifCard<REGIONS>, bytes: &[u8]) -> bool {
    let Some(mut token) = card.transmit(bytes.len()) else { return false };
    token.bytes().copy_from_slice(bytes);
    token.send();
    true
}

fn received<const REGIONS: usize>(card: &mut MemifCard<REGIONS>) -> Option<Vec<u8>> {
    card.receive().map(|frame| frame.bytes().to_vec())
}

#[test]
fn frames_go_both_ways_more_often_than_there_are_descriptors() {
    let (mut one, mut two, memory) = pair();
    assert_eq!((one.mac(), one.mtu(), one.link()), (ONE, 9000, LinkState::Up));
    for round in 0..200_usize {
        let frame = vec![round as u8; 14 + 45 * round];
        assert!(send(&mut one, &frame) && send(&mut two, &frame), "{round}");
        let both = (received(&mut one), received(&mut two));
        assert_eq!(both, (Some(frame.clone()), Some(frame)), "{round}");
        assert_eq!((received(&mut one), received(&mut two)), (None, None));
    }
    assert_eq!((one.device().counters().sent, two.device().counters().received), (200, 200));
    assert!(memory.is_guarded());
}

#[test]
fn frames_that_leave_together_come_with_the_flush() {
    let (mut one, mut two, _) = pair();
    let more = |number: u8, from: &mut MemifCard<1>| {
        let mut token = from.transmit(60).unwrap();
        token.bytes().fill(number);
        token.send_more();
    };
    let both = [(&mut one, &mut two)].into_iter();
    for (from, to) in both {
        for round in 0..3 * RING as u8 {
            more(round, from);
            more(round + 1, from);
            assert_eq!(received(to), None, "they wait");
            from.flush();
            assert_eq!(received(to), Some(vec![round; 60]));
            more(round + 2, from);
            assert_eq!(received(to), Some(vec![round + 1; 60]));
            // What goes at once takes along what waits.
            assert!(send(from, &[round + 3; 60]));
            assert_eq!((received(to), received(to)), (Some(vec![round + 2; 60]), Some(vec![round + 3; 60])));
        }
    }
    let mut sent = 0;
    while let Some(token) = two.transmit(60) {
        token.send_more();
        sent += 1;
    }
    assert!(sent > 1 && received(&mut one).is_none());
    two.flush();
    assert_eq!((0..RING).filter(|_| received(&mut one).is_some()).count(), sent);
    assert!(send(&mut two, &[5; 60]));
}

/// 2^16 frames and more, so that all indices wrap.
#[test]
fn indices_wrap() {
    let (mut one, mut two, _) = pair();
    for round in 0..70_000_u32 {
        let frame = [round.to_ne_bytes(); 15].concat();
        assert!(send(&mut one, &frame) && send(&mut two, &frame));
        assert!(received(&mut one).is_some_and(|came| came == frame));
        assert!(received(&mut two).is_some_and(|came| came == frame));
    }
}

#[test]
fn full_rings_refuse_and_recover() {
    let (mut one, mut two, _) = pair();
    // A frame of the longest takes five buffers, for which there is to be room.
    let fill = |from: &mut MemifCard<1>, to: &mut MemifCard<1>| {
        let sent = (0..RING as u8).take_while(|&number| send(from, &[number; 60])).count();
        assert_eq!(sent, RING - 4);
        assert!((0..sent as u8).all(|number| received(to) == Some(vec![number; 60])));
        assert!(send(from, &[9; 60]) && received(to).is_some());
    };
    fill(&mut one, &mut two);
    fill(&mut two, &mut one);
}

#[test]
fn an_end_knows_if_all_of_its_frames_were_taken() {
    let (mut one, mut two, _) = pair();
    assert!(one.device_mut().is_drained() && two.device_mut().is_drained());
    assert!(send(&mut one, &[1; 60]) && send(&mut two, &[2; 60]));
    assert!(!one.device_mut().is_drained() && !two.device_mut().is_drained());
    assert!(received(&mut one).is_some() && received(&mut two).is_some());
    assert!(one.device_mut().is_drained() && two.device_mut().is_drained());
}

#[test]
fn a_token_that_is_dropped_sends_nothing() {
    let (mut one, mut two, _) = pair();
    for _ in 0..3 * RING {
        one.transmit(60).unwrap().bytes().fill(1);
    }
    assert!(one.transmit(FRAME_BYTES + 1).is_none());
    assert!(send(&mut one, &[5; FRAME_BYTES]));
    assert_eq!(received(&mut two), Some(vec![5; FRAME_BYTES]));
    assert_eq!(received(&mut two), None);
}

#[test]
fn a_reader_that_sleeps_is_to_be_rung_for() {
    let (one, _two, memory) = pair();
    assert!(!one.device().must_ring(), "a server of ours polls");
    memory.write(4, [0_u16]);
    assert!(one.device().must_ring());
}

#[test]
fn memory_that_does_not_suffice_is_told() {
    let made = |bytes, layout, frame_bytes| {
        Memif::<_, 1>::client(TestMemory::new(bytes), layout, ONE, frame_bytes).map(drop)
    };
    let enough = LAYOUT.bytes();
    assert_eq!(made(enough - 1, LAYOUT, 1514), Err(Cause::Full(Resource::DeviceMemory)));
    assert_eq!(made(enough, LAYOUT, 16_385), Err(Cause::TooBig { len: 16_385, max: 16_384 }));
    assert_eq!(made(enough, LAYOUT, 13), Err(Cause::TooBig { len: 13, max: 16_384 }));
    assert_eq!(made(enough, LAYOUT, 16_384), Ok(()));
    assert_eq!(MemifLayout::new(15), None);
    let longest = MemifLayout::new(14).unwrap();
    assert!(u32::try_from(longest.bytes()).is_ok());
}

#[test]
fn a_server_refuses_rings_that_cannot_be() {
    let memory = TestMemory::new(LAYOUT.bytes());
    let _client = Memif::<_, 1>::client(memory, LAYOUT, ONE, FRAME_BYTES).unwrap();
    let [good, to_client] = LAYOUT.rings();
    let served = |to_server| Memif::server([Some(memory), None], [to_server, to_client], TWO, 1514).map(drop);
    assert_eq!(served(good), Ok(()));
    let end = LAYOUT.bytes() as u32;
    for bad in [
        RingPlacement { region: 1, ..good },
        RingPlacement { region: 2, ..good },
        RingPlacement { region: u16::MAX, ..good },
        RingPlacement { offset: 2, ..good },
        RingPlacement { offset: 4, ..good },
        RingPlacement { offset: end - 255, ..good },
        RingPlacement { offset: end, ..good },
        RingPlacement { offset: u32::MAX, ..good },
        RingPlacement { log2: 15, ..good },
        RingPlacement { log2: u8::MAX, ..good },
    ] {
        assert_eq!(served(bad), Err(MemifError::Ring), "{bad:?}");
    }
    memory.write(0, [0_u32]);
    assert_eq!(served(good), Err(MemifError::Ring), "no cookie");
}

/// A client whose rings and buffers are in regions of their own, as VPP's may be.
#[test]
fn buffers_may_lie_in_another_region() {
    let (rings, buffers) = (TestMemory::new(LAYOUT.bytes()), TestMemory::new(4096));
    let _client = Memif::<_, 1>::client(rings, LAYOUT, ONE, FRAME_BYTES).unwrap();
    let mut server =
        card(Memif::server([Some(rings), Some(buffers)], LAYOUT.rings(), TWO, FRAME_BYTES).unwrap());
    buffers.write(1000, [7_u8; 100]);
    write_descriptor(rings, 0, [0, 1], [100, 1000]);
    rings.write(6, [1_u16]);
    assert_eq!(received(&mut server), Some(vec![7; 100]));
    assert_eq!(rings.read::<u16>(64), 1, "it is given back");
}

/// Writes a descriptor of the ring to the server as a client does: its flags and region, its length
/// and offset.
fn write_descriptor(memory: TestMemory, slot: usize, flags: [u16; 2], place: [u32; 2]) {
    memory.write(128 + 16 * slot, flags);
    memory.write(128 + 16 * slot + 4, place);
}

/// Returns the fault of a server whose client has written its ring so.
fn fault_of_client(lie: impl Fn(TestMemory)) -> Option<MemifError> {
    let memory = TestMemory::new(LAYOUT.bytes());
    let _client = client(memory);
    memory.write(6, [0_u16]);
    let mut server = card(Memif::server([Some(memory)], LAYOUT.rings(), TWO, FRAME_BYTES).unwrap());
    assert_eq!(server.link(), LinkState::Up);
    lie(memory);
    assert_eq!(received(&mut server), None);
    assert_eq!(
        (received(&mut server), send(&mut server, &[1; 60]), server.link()),
        (None, false, LinkState::Down)
    );
    assert!(memory.is_guarded());
    server.device().fault()
}

#[test]
fn a_client_that_lies_is_left_alone() {
    let end = LAYOUT.bytes() as u32;
    for (flags, place) in [
        ([0, 1], [60, 4096]),
        ([0, u16::MAX], [60, 4096]),
        ([0, 0], [60, end - 59]),
        ([0, 0], [u32::MAX, 0]),
        ([0, 0], [1, u32::MAX]),
        ([0, 0], [u32::MAX, u32::MAX]),
        ([0, 0], [0, 4096]),
    ] {
        let fault = fault_of_client(|memory| {
            write_descriptor(memory, 0, flags, place);
            memory.write(6, [1_u16]);
        });
        let [[_, region], [length, offset]] = [flags.map(u32::from), place];
        assert_eq!(fault, Some(MemifError::Descriptor { region: region as u16, offset, length }));
    }
    // A chain that has no end, and one that goes round.
    for head in [1, RING as u16] {
        let fault = fault_of_client(|memory| {
            (0..RING).for_each(|slot| write_descriptor(memory, slot, [1, 0], [60, 4096]));
            memory.write(6, [head]);
        });
        assert_eq!(fault, Some(MemifError::Chain));
    }
    for head in [RING as u16 + 1, 0x8000, u16::MAX] {
        let fault = fault_of_client(|memory| memory.write(6, [head]));
        assert_eq!(fault, Some(MemifError::Index { index: head, own: 0 }));
    }
    // It takes back what it has handed over.
    let memory = TestMemory::new(LAYOUT.bytes());
    let _client = client(memory);
    let mut server = card(Memif::server([Some(memory)], LAYOUT.rings(), TWO, 1514).unwrap());
    assert!(send(&mut server, &[1; 60]));
    let [_, to_client] = LAYOUT.rings();
    memory.write(to_client.offset as usize + 6, [2_u16]);
    assert!(!send(&mut server, &[1; 60]));
    assert_eq!(server.device().fault(), Some(MemifError::Index { index: 2, own: 1 }));
}

#[test]
fn buffers_of_a_client_that_are_none_are_not_written_to() {
    let [_, to_client] = LAYOUT.rings();
    let first = to_client.offset as usize + 128;
    let end = LAYOUT.bytes() as u32;
    for (region, [length, offset]) in [
        (1_u16, [2048, 4096]),
        (0, [2048, end - 2047]),
        (0, [u32::MAX, 64]),
        (0, [0, 64]),
        (0, [64, u32::MAX]),
    ] {
        let (_one, mut two, memory) = pair();
        memory.write(first + 2, [region]);
        memory.write(first + 4, [length, offset]);
        assert!(!send(&mut two, &[1; 60]));
        assert_eq!(two.device().fault(), Some(MemifError::Descriptor { region, offset, length }));
        assert!(memory.is_guarded());
    }
    // Buffers that are too short for a frame, though all of them are taken.
    let (_one, mut two, memory) = pair();
    (0..RING).for_each(|slot| memory.write(first + 16 * slot + 4, [64_u32]));
    assert!(!send(&mut two, &[1; 9000]));
    assert_eq!((two.device().fault(), two.link()), (None, LinkState::Up));
}

#[test]
fn a_server_that_lies_is_left_alone() {
    let [_, to_client] = LAYOUT.rings();
    let ring = to_client.offset as usize;
    // Frames that it cannot have written, since it had no buffers; and those that it takes back.
    for tail in [RING as u16 + 1, 0x8000, u16::MAX] {
        let (mut one, _two, memory) = pair();
        memory.write(ring + 64, [tail]);
        assert_eq!(received(&mut one), None);
        let own = RING as u16;
        assert_eq!(one.device().fault(), Some(MemifError::Index { index: tail, own }));
        assert_eq!(
            (received(&mut one), one.link(), send(&mut one, &[1; 60])),
            (None, LinkState::Down, false)
        );
    }
    let (mut one, _two, memory) = pair();
    memory.write(64, [1_u16]);
    assert!(!send(&mut one, &[1; 60]), "it has taken a frame that was not sent");
    assert_eq!(one.device().fault(), Some(MemifError::Index { index: 1, own: 0 }));
    for (length, offset) in [(u32::MAX, 0), (60, u32::MAX)] {
        let (mut one, _two, memory) = pair();
        memory.write(ring + 128 + 4, [length, offset]);
        memory.write(ring + 64, [1_u16]);
        assert_eq!(received(&mut one), None);
        assert_eq!(one.device().fault(), Some(MemifError::Descriptor { region: 0, offset, length }));
    }
}

#[test]
fn frames_that_are_too_long_or_too_short_are_dropped_and_counted() {
    let memory = TestMemory::new(LAYOUT.bytes());
    let mut one = card(client(memory));
    let mut two = card(Memif::server([Some(memory)], LAYOUT.rings(), TWO, 114).unwrap());
    one.device_mut().start();
    for bytes in [115, 9014, 13, 1] {
        assert!(send(&mut one, &vec![1; bytes]));
        assert_eq!(received(&mut two), Some(Vec::new()), "{bytes}");
        assert!(send(&mut one, &[2; 114]));
        assert_eq!(received(&mut two), Some(vec![2; 114]));
    }
    assert_eq!((two.device().counters().bad_frames, two.device().counters().received), (4, 4));
}

#[test]
fn errors_say_what_is_wrong() {
    let version = MemifError::Version { oldest: 0x0100, newest: 0x0104 };
    assert_eq!(std::format!("{version}"), "the peer speaks memif 1.0 to 1.4, and this end 2.0");
    let refused = MemifError::Refused(MemifText::new("Already connected"));
    assert_eq!(std::format!("{refused}"), "the peer refuses: Already connected");
    assert_eq!(std::format!("{}", MemifText::of_bytes(b"a\x01\xFFb\0c")), "a??b");
    let causes = [version, refused, MemifError::Chain].map(|error| error.cause());
    assert_eq!(causes, [Cause::Incompatible, Cause::Unreachable, Cause::Device]);
    assert!(size_of::<MemifError>() <= 64);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Whatever stands in the memory: no panic, no access outside of it, no endless loop, and no
    /// frame that is longer than the card's.
    #[test]
    fn any_memory_is_harmless(
        is_client: bool,
        steps in proptest::collection::vec((0..4_u8, any::<u16>(), any::<u32>(), any::<u32>()), 1..80),
    ) {
        let (mut one, mut two, memory) = pair();
        let rings = 2 * (128 + 16 * RING);
        for (what, at, word, other) in steps {
            let at = usize::from(at) % (rings - 8);
            match what {
                // Any word of the rings, and what is nearly right.
                0 => memory.write(at, [word]),
                1 => memory.write(at / 2 * 2, [(word % 16) as u16]),
                2 => memory.write(at / 16 * 16 + 4, [word % 4096, other % LAYOUT.bytes() as u32]),
                _ => {
                    let frame = vec![3; 14 + word as usize % 9000];
                    if is_client { send(&mut one, &frame) } else { send(&mut two, &frame) };
                }
            }
            let frame = if is_client { received(&mut one) } else { received(&mut two) };
            prop_assert!(frame.is_none_or(|frame| frame.len() <= FRAME_BYTES));
        }
        prop_assert!(memory.is_guarded());
    }
}

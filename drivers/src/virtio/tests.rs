//! The card on a device of the tests' own, which reads and writes the queues as a real one does.

mod device;
mod queues;

use std::sync::RwLock;
use std::vec;
use std::vec::Vec;

use aldis_hal::nic::{LinkState, Mac, RxFrame, TxFrame};
use aldis_hal::{Cause, Nic, Resource};
use proptest::prelude::*;
use virtio_drivers::transport::{DeviceStatus, DeviceType};

use self::device::{FakeDevice, Registers};
use super::*;

const QUEUE: usize = 4;
const FRAME_BYTES: usize = 114;

type TestCard = VirtioNet<Registers, QUEUE>;

/// The status of a device that is gone: all ones.
const GONE: DeviceStatus = DeviceStatus::from_bits_retain(!0);

/// Written by who measures the memory that is left.
static MAKING: RwLock<()> = RwLock::new(());

/// A card on `device`, with memory lent.
fn card(device: &FakeDevice) -> Result<TestCard, Cause> {
    device::lend_memory();
    let _making = MAKING.read().unwrap();
    VirtioNet::new(device.registers(), FRAME_BYTES)
}

fn received(card: &mut TestCard) -> Option<Vec<u8>> {
    card.receive().map(|frame| frame.bytes().to_vec())
}

fn send(card: &mut TestCard, bytes: &[u8]) -> bool {
    let Some(mut token) = card.transmit(bytes.len()) else { return false };
    token.bytes().copy_from_slice(bytes);
    token.send();
    true
}

/// Modern and legacy devices, which differ in header and layout.
fn both(test: impl Fn(&FakeDevice)) {
    test(&FakeDevice::modern());
    test(&FakeDevice::legacy());
}

#[test]
fn frames_go_both_ways_more_often_than_there_are_descriptors() {
    both(|device| {
        let mut card = card(device).unwrap();
        assert_eq!((card.mac(), card.mtu()), (Mac([2, 0, 0, 0, 0, 9]), FRAME_BYTES - 14));
        assert_eq!(received(&mut card), None);
        for round in 0..100_u8 {
            let len = usize::from(round % 100) + 15;
            assert!(device.deliver(&vec![round; len]));
            assert_eq!(received(&mut card), Some(vec![round; len]));
            assert!(send(&mut card, &vec![round; len]));
            assert_eq!(device.sent(), [vec![round; len]]);
        }
        assert_eq!((card.counters().received, card.counters().sent), (100, 100));
    });
}

#[test]
fn what_is_behind_the_headers_of_the_transport_is_aligned() {
    both(|device| {
        let mut card = card(device).unwrap();
        for _ in 0..2 * QUEUE {
            device.deliver(&[7; 60]);
            let frame = card.receive().unwrap();
            assert_eq!(frame.bytes().as_ptr().align_offset(8), 0);
        }
    });
}

#[test]
fn full_queues_refuse_and_recover() {
    both(|device| {
        let mut card = card(device).unwrap();
        device.hold(true);
        for frame in 0..QUEUE as u8 {
            assert!(send(&mut card, &[frame; 20]));
        }
        assert!(!send(&mut card, &[9; 20]), "all descriptors are the device's");
        device.hold(false);
        assert_eq!(device.sent().len(), QUEUE);
        assert!(send(&mut card, &[9; 20]));
        for frame in 0..QUEUE as u8 {
            assert!(device.deliver(&[frame; 20]));
        }
        assert!(!device.deliver(&[9; 20]), "the device has no buffer left");
        for frame in 0..QUEUE as u8 {
            assert_eq!(received(&mut card), Some(vec![frame; 20]));
        }
        assert!(device.deliver(&[9; 20]));
    });
}

#[test]
fn a_token_that_is_dropped_sends_nothing_and_returns() {
    let device = FakeDevice::modern();
    let mut card = card(&device).unwrap();
    for _ in 0..3 * QUEUE {
        drop(card.transmit(30).unwrap());
    }
    assert!(card.transmit(FRAME_BYTES + 1).is_none());
    assert!(send(&mut card, &[5; FRAME_BYTES]));
    assert_eq!(device.sent(), [vec![5; FRAME_BYTES]]);
}

#[test]
fn the_devices_mtu_and_link_are_minded() {
    let device = FakeDevice::modern();
    device.set_mtu(80);
    let mut card = card(&device).unwrap();
    assert_eq!((card.mtu(), card.link()), (80, LinkState::Up));
    assert!(card.transmit(95).is_none() && card.transmit(94).is_some());
    device.set_link(false);
    assert_eq!(card.link(), LinkState::Down);
    device.set_link(true);
    assert_eq!(card.link(), LinkState::Up);
    device.set_mtu(9000);
    drop(card);
    assert_eq!(super::tests::card(&device).unwrap().mtu(), 100, "the buffers are no longer");
}

#[test]
fn a_device_that_does_not_fit_is_refused_by_name() {
    let device = FakeDevice::modern();
    device.set_type(DeviceType::Block);
    assert_eq!(card(&device).unwrap_err(), Cause::Unsupported);
    let device = FakeDevice::modern();
    device.set_queue_max(2);
    assert_eq!(card(&device).unwrap_err(), Cause::TooBig { len: QUEUE as u64, max: 2 });
    let device = FakeDevice::modern();
    device.refuse_features();
    assert_eq!(card(&device).unwrap_err(), Cause::Device);
    let device = FakeDevice::modern();
    device.forget_mac();
    assert_eq!(card(&device).unwrap_err(), Cause::Unsupported);
    let large = VirtioNet::<_, QUEUE>::new(FakeDevice::modern().registers(), 1 << 17).unwrap_err();
    assert_eq!(large, Cause::TooBig { len: 1 << 17, max: 1 << 16 });
}

#[test]
fn what_a_card_takes_of_the_memory_is_what_is_said() {
    device::lend_memory();
    let _making = MAKING.write().unwrap();
    let before = lent_bytes_left();
    drop(VirtioNet::<_, 16>::new(FakeDevice::legacy().registers(), 1514).unwrap());
    let taken = before - lent_bytes_left();
    assert!(taken <= bytes_needed(16, 1514) && taken > bytes_needed(16, 1514) - 3 * 4096, "{taken} bytes");
}

#[test]
fn memory_that_does_not_suffice_is_told() {
    device::lend_memory();
    let _making = MAKING.write().unwrap();
    let large = VirtioNet::<_, 256>::new(FakeDevice::modern().registers(), 1 << 16).map(|_| ());
    assert_eq!(large, Err(Cause::Full(Resource::DeviceMemory)));
}

#[test]
fn a_card_that_is_dropped_resets_the_device() {
    let device = FakeDevice::modern();
    let card = card(&device).unwrap();
    assert!(device.status().contains(DeviceStatus::DRIVER_OK));
    drop(card);
    assert_eq!(device.status(), DeviceStatus::empty());
}

#[test]
fn a_card_whose_device_is_gone_or_stuck_is_dropped_all_the_same() {
    for status in [GONE, DeviceStatus::DRIVER_OK] {
        let device = FakeDevice::modern();
        let card = card(&device).unwrap();
        device.stick(status);
        drop(card);
    }
    let device = FakeDevice::modern();
    device.forget_mac();
    device.stick(GONE);
    assert!(matches!(card(&device).map(drop), Err(Cause::Unsupported)), "nor does a start that fails");
}

#[test]
fn lengths_that_cannot_be_lose_the_frame_and_nothing_else() {
    both(|device| {
        let mut card = card(device).unwrap();
        for (round, lie) in [0, 9, FRAME_BYTES as u32 + 13, 70_000, u32::MAX].into_iter().enumerate() {
            assert!(device.deliver_as(&[7; 60], lie));
            assert_eq!(received(&mut card), None);
            assert_eq!(card.counters().bad_lengths, round as u64 + 1);
            assert!(device.deliver(&[round as u8; 60]));
            assert_eq!(received(&mut card), Some(vec![round as u8; 60]));
        }
    });
}

#[test]
fn a_device_that_gives_back_what_it_does_not_hold_is_left_alone() {
    for token in [1_u32, QUEUE as u32, 0xFFFF, u32::MAX] {
        let device = FakeDevice::modern();
        let mut card = card(&device).unwrap();
        device.deliver(&[1; 60]);
        device.deliver(&[2; 60]);
        assert!(received(&mut card).is_some() && received(&mut card).is_some());
        device.hold(true);
        // Token 1 is held again; a broken device returns a transmit buffer that it never had.
        device.give_back(if token == 1 { 1 } else { 0 }, token, 20);
        let nothing = received(&mut card).is_none() & card.transmit(20).is_none();
        assert!(nothing && card.transmit(20).is_none() && received(&mut card).is_none());
        assert_eq!((card.counters().bad_tokens, card.link()), (1, LinkState::Down));
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Whatever a device writes into its rings: no panic, no frame longer than a buffer, and no
    /// endless loop.
    #[test]
    fn any_rings_are_harmless(
        legacy: bool,
        steps in proptest::collection::vec((0..5_u8, any::<u16>(), any::<u32>(), any::<u32>()), 1..60),
    ) {
        let device = if legacy { FakeDevice::legacy() } else { FakeDevice::modern() };
        let mut card = card(&device).unwrap();
        for (what, index, id, len) in steps {
            match what {
                0 => { device.deliver(&vec![1; usize::from(index) % FRAME_BYTES]); }
                1 => device.give_back(index % 2, id % 8, len % 256),
                2 => device.give_back(index % 2, id, len),
                3 => device.jump(index % 2, index),
                _ => { send(&mut card, &vec![2; usize::from(index) % FRAME_BYTES]); }
            }
            if let Some(frame) = card.receive() {
                prop_assert!(frame.bytes().len() <= FRAME_BYTES);
            }
        }
    }
}

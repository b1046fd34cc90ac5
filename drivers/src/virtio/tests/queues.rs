//! Cards of several pairs of queues, and checksums.

use std::boxed::Box;
use std::thread;

use aldis_hal::nic::Offload;

use super::device::{Answer, CHECKSUMS, CONTROL, MULTIQUEUE, RSS};
use super::*;
use crate::ethernet::{Framing, Ipv4, Port, Udp};
use crate::steering::Steering;

type TestQueues = VirtioQueues<Registers, 4, QUEUE>;
type TestPair<'a> = VirtioPair<'a, Registers, QUEUE>;

const SETUP: VirtioSetup<'_> = VirtioSetup { frame_bytes: FRAME_BYTES, checksums: false, steering: None };

fn queues_of(device: &FakeDevice, setup: VirtioSetup<'_>) -> Result<TestQueues, Cause> {
    device::lend_memory();
    let _making = MAKING.read().unwrap();
    VirtioQueues::new(device.registers(), setup)
}

fn address(rank: u32) -> Ipv4 {
    Udp::of_rank(rank).address
}

fn ranks(ranks: core::ops::Range<u32>) -> Steering {
    Steering::to(&ranks.map(address).collect::<Vec<_>>()).unwrap()
}

/// A datagram from one rank to another, whose checksum is left out or not.
fn datagram(from: u32, to: u32, offload: Offload) -> Vec<u8> {
    let framing = Framing::Udp(Udp::of_rank(from));
    let mac = Mac([2, 0, 0, 0, 0, 9]);
    let port = Port { station: framing.station(mac), offload };
    let to = Framing::Udp(Udp::of_rank(to)).station(mac);
    [&framing.heading(7, to, port, [b"odd", &[]])[..], b"odd"].concat()
}

fn taken(pair: &mut TestPair<'_>) -> Option<Vec<u8>> {
    pair.receive().map(|frame| frame.bytes().to_vec())
}

fn put(pair: &mut impl Nic, bytes: &[u8]) {
    let mut token = pair.transmit(bytes.len()).unwrap();
    token.bytes().copy_from_slice(bytes);
    token.send();
}

#[test]
fn a_datagram_comes_by_the_queue_of_its_rank_and_all_else_by_the_first() {
    let device = FakeDevice::of_pairs(4);
    let steering = ranks(126..130);
    let queues = queues_of(&device, VirtioSetup { steering: Some(&steering), ..SETUP }).unwrap();
    assert_eq!((queues.count(), queues.choice()), (4, QueueChoice::ByAddress));
    assert_eq!((device.in_use(), device.steering().unwrap().transmit), (4, 4));
    let mut pairs = [0, 1, 2, 3].map(|number| queues.pair(number).unwrap());
    for from in [0, 5, 129] {
        for (number, pair) in pairs.iter_mut().enumerate() {
            let frame = datagram(from, 126 + number as u32, Offload::empty());
            assert_eq!(device.arrive(&frame), Some(number));
            assert_eq!(taken(pair), Some(frame));
        }
    }
    let others = [datagram(0, 7, Offload::empty()), vec![0x88; 60]];
    for frame in others {
        assert_eq!(device.arrive(&frame), Some(0));
        assert_eq!(taken(&mut pairs[0]), Some(frame));
    }
    assert!(pairs.iter_mut().all(|pair| taken(pair).is_none()));
}

#[test]
fn pairs_of_one_card_work_on_threads_of_their_own() {
    const ROUNDS: usize = 500;
    let device = FakeDevice::of_pairs(4);
    let queues = Box::leak(Box::new(queues_of(&device, SETUP).unwrap()));
    assert_eq!((queues.choice(), device.in_use()), (QueueChoice::ByFlow, 4));
    thread::scope(|scope| {
        for number in 0..4_u8 {
            let (mut pair, device) = (queues.pair(number.into()).unwrap(), device.clone());
            scope.spawn(move || {
                for round in 0..ROUNDS {
                    let frame = [&[number][..], &round.to_le_bytes(), &[0; 20]].concat();
                    assert!(device.deliver_to(number.into(), &frame));
                    assert_eq!(taken(&mut pair), Some(frame.clone()));
                    put(&mut pair, &frame);
                }
                assert_eq!((pair.counters().received, pair.counters().sent), (500, 500));
            });
        }
    });
    let sent = device.sent_by_pairs();
    assert_eq!(sent.len(), 4 * ROUNDS);
    assert!(sent.iter().all(|(pair, frame)| *pair == usize::from(frame[0])));
}

#[test]
fn a_pair_is_handed_out_once_and_the_last_of_all_resets_the_device() {
    let device = FakeDevice::of_pairs(3);
    let queues = queues_of(&device, SETUP).unwrap();
    assert_eq!(queues.count(), 3, "as many as the device has");
    let pair = queues.pair(2).unwrap();
    assert!(queues.pair(2).is_none() && queues.pair(3).is_none());
    drop(pair);
    assert!(queues.pair(2).is_none() && device.status().contains(DeviceStatus::DRIVER_OK));
    drop(queues);
    assert_eq!(device.status(), DeviceStatus::empty());
}

#[test]
fn a_device_has_what_it_offers() {
    let steering = ranks(0..2);
    let steered = VirtioSetup { steering: Some(&steering), ..SETUP };
    let choice = |without: u64, setup| {
        let device = FakeDevice::of_pairs(4);
        device.offer(without, false);
        let queues = queues_of(&device, setup).map(|queues| (queues.count(), queues.choice()));
        (queues, device.accepted() & (CONTROL | MULTIQUEUE | RSS))
    };
    assert_eq!(choice(0, SETUP), (Ok((4, QueueChoice::ByFlow)), CONTROL | MULTIQUEUE));
    assert_eq!(choice(RSS, steered), (Ok((4, QueueChoice::ByFlow)), CONTROL | MULTIQUEUE));
    assert_eq!(choice(MULTIQUEUE, steered), (Ok((4, QueueChoice::ByAddress)), CONTROL | RSS));
    assert_eq!(choice(MULTIQUEUE | RSS, SETUP), (Ok((1, QueueChoice::Single)), CONTROL));
    assert_eq!(choice(MULTIQUEUE | RSS | CONTROL, SETUP), (Ok((1, QueueChoice::Single)), 0));
    // A queue that is named and not there.
    let few = (Err(Cause::TooBig { len: 2, max: 1 }), CONTROL);
    assert_eq!(choice(MULTIQUEUE | RSS, steered), few);
    // No hash of the addresses of IPv4.
    let device = FakeDevice::of_pairs(2);
    device.configure(20, &[0xFE]);
    assert_eq!(queues_of(&device, steered).unwrap().choice(), QueueChoice::ByFlow);
}

#[test]
fn limits_that_cannot_be_are_refused() {
    let steering = ranks(0..2);
    let steered = VirtioSetup { steering: Some(&steering), ..SETUP };
    let told = |at: usize, bytes: &[u8]| {
        let device = FakeDevice::of_pairs(4);
        device.configure(at, bytes);
        queues_of(&device, steered).map(drop)
    };
    for pairs in [0, 0x8001, u16::MAX] {
        assert_eq!(told(8, &pairs.to_le_bytes()), Err(Cause::Device), "{pairs} pairs");
    }
    // The queue of commands would have a number that there is not.
    assert_eq!(told(8, &0x8000_u16.to_le_bytes()), Err(Cause::Device));
    assert_eq!(told(17, &[39]), Err(Cause::Device), "a short key");
    assert_eq!(told(18, &[127, 0]), Err(Cause::Device), "a short table");
    let device = FakeDevice::of_pairs(4);
    device.offer(CONTROL, false);
    assert_eq!(queues_of(&device, steered).map(drop), Err(Cause::Device), "pairs without commands");
}

#[test]
fn a_device_that_does_not_obey_is_reset() {
    let steering = ranks(0..2);
    for setup in [SETUP, VirtioSetup { steering: Some(&steering), ..SETUP }] {
        let device = FakeDevice::of_pairs(4);
        let queues = queues_of(&device, setup).unwrap();
        device.stick(GONE);
        drop(queues);
        for (answer, cause) in [
            (Answer::Says(1), Cause::Device),
            (Answer::Says(0xFE), Cause::Device),
            (Answer::Nothing, Cause::Device),
            (Answer::Another, Cause::Device),
            (Answer::NeedsReset, Cause::Device),
            (Answer::Silent, Cause::TimedOut),
        ] {
            let device = FakeDevice::of_pairs(4);
            device.set_answer(answer);
            assert_eq!(queues_of(&device, setup).map(drop), Err(cause));
            assert_eq!(device.status(), DeviceStatus::empty());
        }
    }
}

#[test]
fn short_queues_of_several_pairs_find_room_for_their_pages() {
    // As much as memory that begins one byte past a page has to have: a page for each beginning.
    let page = virtio_drivers::PAGE_SIZE;
    for (pairs, queue, frame_bytes) in [(3, 8, 1538), (4, 4, 1538), (8, 2, 1514), (6, 16, 1538)] {
        let mut at = 1_usize;
        let mut take = |bytes: usize| at = at.next_multiple_of(page) + bytes;
        for _ in 0..pairs {
            take(super::super::pair::pair_bytes(queue, frame_bytes));
        }
        take(queues_bytes_needed(0, queue, frame_bytes) - 3 * page);
        let (needed, said) = (at - 1, queues_bytes_needed(pairs, queue, frame_bytes));
        assert!(needed <= said, "{pairs} pairs of {queue}: {needed} of {said} bytes");
    }
}

#[test]
fn what_a_card_of_several_pairs_takes_is_what_is_said() {
    device::lend_memory();
    let _making = MAKING.write().unwrap();
    let before = lent_bytes_left();
    let setup = VirtioSetup { frame_bytes: 1514, ..SETUP };
    drop(VirtioQueues::<_, 3, 16>::new(FakeDevice::of_pairs(3).registers(), setup).unwrap());
    let (taken, said) = (before - lent_bytes_left(), queues_bytes_needed(3, 16, 1514));
    assert!(taken <= said && taken > said - 4 * 4096, "{taken} of {said} bytes");
}

#[test]
fn checksums_are_left_to_a_device_that_is_asked_for_them() {
    both(|device| {
        let plain = card(device).unwrap();
        assert_eq!((plain.offload(), device.accepted() & CHECKSUMS), (Offload::empty(), 0));
        drop(plain);
        let _making = MAKING.read().unwrap();
        let mut card = VirtioNet::<_, QUEUE>::with_checksums(device.registers(), FRAME_BYTES).unwrap();
        assert_eq!(card.offload(), Offload::UDP_TX);
        // What the transport leaves out the device completes, and other frames go as they are.
        let whole = datagram(1, 2, Offload::empty());
        let left = datagram(1, 2, Offload::UDP_TX);
        assert_ne!(whole, left);
        for frame in [&left, &whole, &vec![0; 60]] {
            put(&mut card, frame);
        }
        assert_eq!(device.sent(), [whole.clone(), whole, vec![0; 60]]);
    });
    let without = FakeDevice::modern();
    without.offer(CHECKSUMS, false);
    let _making = MAKING.read().unwrap();
    let card = VirtioNet::<_, QUEUE>::with_checksums(without.registers(), FRAME_BYTES).unwrap();
    assert_eq!(card.offload(), Offload::empty());
}

#[test]
fn each_frame_says_which_checksums_the_device_has_verified() {
    device::lend_memory();
    let device = FakeDevice::modern();
    let _making = MAKING.read().unwrap();
    let mut card = VirtioNet::<_, QUEUE>::with_checksums(device.registers(), FRAME_BYTES).unwrap();
    let whole = datagram(1, 2, Offload::empty());
    let mut begun = whole.clone();
    // The sum of the addresses, the protocol and the length: what a sender leaves there.
    begun[40..42].copy_from_slice(&[0x15, 0x69]);
    let checked = |header: [u8; 10], frame: &[u8], card: &mut TestCard| {
        assert!(device.deliver_behind(header, frame));
        card.receive().map(|frame| (frame.checked(), frame.bytes().to_vec()))
    };
    let none = Offload::empty();
    assert_eq!(checked([0; 10], &whole, &mut card), Some((none, whole.clone())));
    let valid = [2, 0, 0, 0, 0, 0, 0, 0, 0, 0];
    assert_eq!(checked(valid, &whole, &mut card), Some((Offload::UDP_RX, whole.clone())));
    let partial = [1, 0, 0, 0, 0, 0, 34, 0, 6, 0];
    assert_eq!(checked(partial, &begun, &mut card), Some((Offload::UDP_RX, whole.clone())));
    for header in [[1, 0, 0, 0, 0, 0, 0xFF, 0xFF, 0, 0], [0, 3, 0, 0, 0, 0, 0, 0, 0, 0]] {
        assert_eq!(checked(header, &whole, &mut card), None);
    }
    assert_eq!((card.counters().bad_headers, card.counters().received), (2, 3));
    assert_eq!(checked([0; 10], &whole, &mut card), Some((none, whole.clone())), "their buffers came back");
    drop(card);
    // Nothing is believed that was not agreed upon.
    let mut card = VirtioNet::<_, QUEUE>::new(device.registers(), FRAME_BYTES).unwrap();
    assert_eq!(checked(partial, &whole, &mut card), Some((none, whole.clone())));
}

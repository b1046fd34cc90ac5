//! This module holds `unsafe` code: a device that reads and writes memory by itself.
//!
//! The card on a device of the tests' own, which keeps rings as a real one does.

use core::cell::RefCell;
use core::ptr::with_exposed_provenance_mut;
use std::boxed::Box;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::vec;
use std::vec::Vec;

use aldis_hal::nic::{LinkState, Mac, RxFrame, TxFrame};
use aldis_hal::{Cause, Nic, Resource};
use proptest::prelude::*;

use super::registers::{NOTHING, bits, offset};
use super::*;
use crate::ethernet::{Framing, Ipv4, Port, Udp};
use crate::handover;
use crate::steering::{self, Steering};

const QUEUE: usize = 8;
const FRAME_BYTES: usize = 1514;
/// The device finds memory so far from where the program does, as behind an IOMMU.
const MOVED: u64 = 0x10_0000_0000;

/// Whole, and as it was sent.
const GOOD: [u8; 2] = [3, 0];

#[derive(Default)]
struct DeviceState {
    registers: BTreeMap<u32, u32>,
    sent: Vec<Vec<u8>>,
    /// True if a reset never ends.
    hangs: bool,
    /// True if it does not answer any more.
    is_gone: bool,
    /// False if it has no address of its own.
    has_address: bool,
    /// True if it has no second queue.
    is_old: bool,
    resets: u32,
}

/// A device; all clones are the same one.
#[derive(Clone)]
struct FakeDevice(Rc<RefCell<DeviceState>>);

impl FakeDevice {
    fn new() -> Self {
        Self(Rc::new(RefCell::new(DeviceState { has_address: true, ..DeviceState::default() })))
    }

    fn change(&self, change: impl FnOnce(&mut DeviceState)) {
        change(&mut self.0.borrow_mut());
    }

    fn sent(&self) -> Vec<Vec<u8>> {
        core::mem::take(&mut self.0.borrow_mut().sent)
    }

    /// Writes a frame into the next buffer that it was given, and says of it what is told: its
    /// length, its status and its errors. False if it has none.
    fn deliver_as(&self, frame: &[u8], len: u16, [status, errors]: [u8; 2]) -> bool {
        let mut state = self.0.borrow_mut();
        let ring = offset::RECEIVE_RING + state.choose(frame) * offset::RING_STEP;
        let Some((descriptor, buffer)) = state.next(ring) else { return false };
        let [low, high] = len.to_le_bytes();
        let is_extended = state.get(offset::RECEIVE_FILTER) & bits::EXTENDED_DESCRIPTORS != 0;
        let words = match is_extended {
            true => [status, 0, 0, errors, low, high, 0, 0],
            false => [low, high, 0, 0, status, errors, 0, 0],
        };
        // SAFETY: the card has given it the buffer, of 2,048 bytes, and the descriptor.
        unsafe {
            core::ptr::copy_nonoverlapping(frame.as_ptr(), buffer, frame.len().min(2048));
            // Where a buffer is the device need not keep.
            descriptor.write_volatile([u64::MAX, u64::from_le_bytes(words)]);
        }
        true
    }

    fn deliver(&self, frame: &[u8]) -> bool {
        self.deliver_as(frame, frame.len() as u16, GOOD)
    }
}

impl DeviceState {
    fn get(&self, at: u32) -> u32 {
        self.registers.get(&at).copied().unwrap_or_default()
    }

    fn set(&mut self, at: u32, value: u32) {
        self.registers.insert(at, value);
    }

    /// The next descriptor of a ring that is the device's, and its buffer.
    fn next(&mut self, ring: u32) -> Option<(*mut [u64; 2], *mut u8)> {
        let (head, tail) = (self.get(ring + offset::HEAD), self.get(ring + offset::TAIL));
        if head == tail {
            return None;
        }
        let start = u64::from(self.get(ring)) | u64::from(self.get(ring + 4)) << 32;
        let count = self.get(ring + 8) / 16;
        self.registers.insert(ring + offset::HEAD, (head + 1) % count);
        let descriptor =
            with_exposed_provenance_mut::<[u64; 2]>((start - MOVED) as usize + 16 * head as usize);
        // SAFETY: the card has said that its ring is there, and left this descriptor to the device.
        let [buffer, _] = unsafe { descriptor.read_volatile() };
        Some((descriptor, with_exposed_provenance_mut((buffer - MOVED) as usize)))
    }

    /// The queue by which a frame comes, as QEMU's model and the datasheet have it.
    fn choose(&self, frame: &[u8]) -> u32 {
        let by_hash = self.get(offset::QUEUES) & 3 == 1
            && self.get(offset::QUEUES) & bits::HASH_IPV4 != 0
            && self.get(offset::RECEIVE_CHECKSUM) & bits::HASH_NOT_CHECKSUM != 0
            && self.get(offset::RECEIVE_FILTER) & bits::EXTENDED_DESCRIPTORS != 0;
        let Some(addresses) = frame.get(26..34).filter(|_| by_hash && frame[12..14] == [8, 0]) else {
            return 0;
        };
        let bytes = |at: u32, words: u32| -> Vec<u8> {
            (0..words).flat_map(|word| self.get(at + 4 * word).to_le_bytes()).collect()
        };
        let key = bytes(offset::HASH_KEY, 10).try_into().unwrap();
        let index = steering::hash(&key, addresses) % 128;
        u32::from(bytes(offset::QUEUE_TABLE, 32)[index as usize] >> 7)
    }

    /// Sends what there is to send.
    fn send(&mut self) {
        self.send_of(offset::TRANSMIT_RING);
        if self.get(offset::ARBITRATION[1]) & bits::SERVED != 0 {
            self.send_of(offset::TRANSMIT_RING + offset::RING_STEP);
        }
    }

    fn send_of(&mut self, ring: u32) {
        if self.get(ring + 8) == 0 {
            return;
        }
        while let Some((descriptor, buffer)) = self.next(ring) {
            // SAFETY: the card has filled both, and left them to the device.
            unsafe {
                let [address, words] = descriptor.read_volatile();
                let len = words as u16;
                assert_eq!(words >> 24 & 0xFF, 0b1011, "whole, with check sequence and report");
                self.sent.push(core::slice::from_raw_parts(buffer, len.into()).to_vec());
                descriptor.write_volatile([address, words | 1 << 32]);
            }
        }
    }
}

impl CardRegisters for FakeDevice {
    fn read(&self, at: u32) -> u32 {
        let state = self.0.borrow();
        match at {
            _ if state.is_gone => NOTHING,
            offset::QUEUES if state.is_old => 0,
            _ if state.registers.contains_key(&at) => state.get(at),
            offset::ADDRESS_LOW => u32::from_le_bytes([0x52, 0x54, 0, 1]),
            offset::ADDRESS_HIGH if state.has_address => 0x0302 | bits::ADDRESS_VALID,
            _ => 0,
        }
    }

    fn write(&mut self, at: u32, value: u32) {
        let mut state = self.0.borrow_mut();
        state.registers.insert(at, value);
        if at == offset::CONTROL && value & bits::RESET != 0 && !state.hangs {
            state.registers.clear();
            state.resets += 1;
        }
        if at == offset::CONTROL && value & bits::SET_LINK_UP != 0 {
            state.registers.insert(offset::STATUS, bits::LINK_UP);
        }
        let tails = [0, offset::RING_STEP].map(|step| offset::TRANSMIT_RING + step + offset::TAIL);
        if tails.contains(&at) && state.get(offset::TRANSMIT_CONTROL) & bits::TRANSMIT_ENABLE != 0 {
            state.send();
        }
    }
}

/// Memory that the device finds elsewhere.
fn memory(bytes: usize) -> DeviceMemory {
    let memory = Box::leak(vec![0xEE; bytes].into_boxed_slice());
    let address = memory.as_mut_ptr().expose_provenance() as u64 + MOVED;
    // SAFETY: the tests' device takes the same number off every address.
    unsafe { DeviceMemory::translated(memory, address) }
}

type TestCard = E1000e<FakeDevice, QUEUE>;

fn card(device: &FakeDevice) -> TestCard {
    E1000e::new(device.clone(), memory(bytes_needed(QUEUE, FRAME_BYTES)), FRAME_BYTES).unwrap()
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

#[test]
fn frames_go_both_ways_more_often_than_there_are_descriptors() {
    let device = FakeDevice::new();
    let mut card = card(&device);
    assert_eq!((card.mac(), card.mtu()), (Mac([0x52, 0x54, 0, 1, 2, 3]), 1500));
    assert_eq!((card.link(), received(&mut card)), (LinkState::Up, None));
    for round in 0..100_u8 {
        let frame = vec![round; 14 + 15 * usize::from(round)];
        assert!(device.deliver(&frame) && send(&mut card, &frame));
        assert_eq!((received(&mut card), device.sent()), (Some(frame.clone()), vec![frame]));
    }
    assert_eq!(*card.counters(), E1000eCounters { received: 100, sent: 100, bad_frames: 0 });
}

#[test]
fn as_many_frames_wait_as_there_are_descriptors_but_one() {
    let device = FakeDevice::new();
    let mut card = card(&device);
    assert_eq!((0..QUEUE).filter(|_| device.deliver(&[7; 60])).count(), QUEUE - 1);
    assert_eq!((0..QUEUE).filter(|_| received(&mut card).is_some()).count(), QUEUE - 1);
    // A device that sends nothing keeps what it was given.
    device.change(|state| state.set(offset::TRANSMIT_CONTROL, 0));
    assert_eq!((0..QUEUE).filter(|_| send(&mut card, &[8; 60])).count(), QUEUE - 1);
    device.change(|state| state.set(offset::TRANSMIT_CONTROL, bits::TRANSMIT_ENABLE));
    device.change(DeviceState::send);
    assert!(send(&mut card, &[9; 60]));
    assert_eq!(device.sent().len(), QUEUE);
}

#[test]
fn a_frame_that_is_not_sent_leaves_its_descriptor() {
    let device = FakeDevice::new();
    let mut card = card(&device);
    for _ in 0..2 * QUEUE {
        card.transmit(60).unwrap().bytes().fill(1);
    }
    assert!(send(&mut card, &[2; 60]));
    assert_eq!(device.sent(), [vec![2; 60]]);
    assert!(card.transmit(FRAME_BYTES + 1).is_none() && card.transmit(FRAME_BYTES).is_some());
}

#[test]
fn a_card_takes_frames_to_the_address_that_is_set() {
    let device = FakeDevice::new();
    let mut card = card(&device);
    card.set_mac(Mac([2, 4, 6, 8, 10, 12]));
    assert_eq!(card.mac(), Mac([2, 4, 6, 8, 10, 12]));
    let told = [offset::ADDRESS_LOW, offset::ADDRESS_HIGH].map(|at| device.read(at));
    assert_eq!(told, [0x0806_0402, 0x0C0A | bits::ADDRESS_VALID]);
    drop(card);
    assert_eq!(self::card(&device).mac(), Mac([0x52, 0x54, 0, 1, 2, 3]), "a reset forgets it");
}

#[test]
fn bad_frames_are_dropped_and_counted() {
    let device = FakeDevice::new();
    let mut card = card(&device);
    let (whole, more) = (GOOD[0], 1);
    let bad = [(60, [whole, 1]), (FRAME_BYTES as u16 + 1, GOOD), (u16::MAX, GOOD), (13, GOOD), (0, GOOD)];
    for (len, told) in bad {
        assert!(device.deliver_as(&[1; 60], len, told));
        assert!(device.deliver(&[2; 60]));
        assert_eq!((received(&mut card), received(&mut card)), (Some(vec![2; 60]), None), "{len} {told:?}");
    }
    // One frame of three descriptors, of which none is taken for a frame.
    for status in [more, more, whole] {
        assert!(device.deliver_as(&[1; 60], 60, [status, 0]));
    }
    assert!(device.deliver(&[3; 60]));
    assert_eq!((received(&mut card), received(&mut card)), (Some(vec![3; 60]), None));
    assert_eq!(*card.counters(), E1000eCounters { received: 6, sent: 0, bad_frames: 6 });
}

#[test]
fn a_device_that_is_none_is_refused() {
    let device = FakeDevice::new();
    let made = |bytes, frame_bytes| TestCard::new(device.clone(), memory(bytes), frame_bytes).map(drop);
    let enough = bytes_needed(QUEUE, FRAME_BYTES);
    assert_eq!(made(enough - 129, FRAME_BYTES), Err(Cause::Full(Resource::DeviceMemory)));
    assert_eq!(made(0, FRAME_BYTES), Err(Cause::Full(Resource::DeviceMemory)));
    assert_eq!(made(1 << 20, 9_231), Err(Cause::TooBig { len: 9_231, max: 9_230 }));
    assert_eq!(made(1 << 20, 9_230), Ok(()));
    let odd = E1000e::<_, 9>::new(device.clone(), memory(1 << 20), FRAME_BYTES).map(drop);
    assert_eq!(odd, Err(Cause::TooBig { len: 9, max: 4096 }));
    for spoil in [
        |state: &mut DeviceState| state.hangs = true,
        |state: &mut DeviceState| state.is_gone = true,
        |state: &mut DeviceState| state.has_address = false,
    ] {
        let device = FakeDevice::new();
        device.change(spoil);
        assert_eq!(TestCard::new(device, memory(enough), FRAME_BYTES).map(drop), Err(Cause::Device));
    }
}

#[test]
fn a_device_that_goes_away_has_no_link_and_one_that_is_dropped_is_reset() {
    let device = FakeDevice::new();
    let mut card = card(&device);
    device.change(|state| state.set(offset::STATUS, 0));
    assert_eq!(card.link(), LinkState::Down);
    device.change(|state| state.is_gone = true);
    assert_eq!((card.link(), received(&mut card)), (LinkState::Down, None));
    device.change(|state| state.is_gone = false);
    drop(card);
    assert!(!device.deliver(&[1; 60]), "the device has no buffers any more");
    assert_eq!(device.0.borrow().resets, 2);
}

#[test]
fn registers_end_where_they_end() {
    let registers = Box::leak(Box::new([0_u32; 4]));
    // SAFETY: memory that nothing else uses will do for registers that do nothing.
    let mut registers = unsafe { MappedRegisters::new(core::ptr::NonNull::from(registers).cast(), 16) };
    for at in [0, 4, 12, 16, 20, 2, u32::MAX - 3] {
        registers.write(at, at.wrapping_add(7));
    }
    let read = [0, 4, 8, 12, 16, 2, u32::MAX - 3].map(|at| registers.read(at));
    assert_eq!(read, [7, 11, 0, 19, NOTHING, NOTHING, NOTHING]);
}

#[test]
fn buffers_are_as_long_as_the_device_is_told() {
    for (frame_bytes, size) in [(1514, 0), (2048, 0), (2049, 3), (4096, 3), (8192, 2), (9230, 1)] {
        let device = FakeDevice::new();
        let memory = memory(bytes_needed(QUEUE, frame_bytes));
        let card = TestCard::new(device.clone(), memory, frame_bytes).unwrap();
        let control = device.read(offset::RECEIVE_CONTROL);
        let told = (control >> 16 & 3, control >> 25 & 1, control & bits::LONG_PACKETS != 0);
        assert_eq!(told, (size, u32::from(size > 0), frame_bytes > 1514), "{frame_bytes}");
        drop(card);
    }
}

type TestQueues = E1000eQueues<FakeDevice, QUEUE>;

fn queues(device: &FakeDevice, steering: &Steering) -> Result<TestQueues, Cause> {
    let memory = memory(queues_bytes_needed(QUEUE, FRAME_BYTES));
    TestQueues::new(device.clone(), memory, FRAME_BYTES, steering)
}

fn ranks(ranks: core::ops::Range<u32>) -> Steering {
    Steering::to(&ranks.map(|rank| Udp::of_rank(rank).address).collect::<Vec<Ipv4>>()).unwrap()
}

/// A datagram from one rank to another.
fn datagram(from: u32, to: u32) -> Vec<u8> {
    let framing = Framing::Udp(Udp::of_rank(from));
    let port = Port { station: framing.station(Mac([2; 6])), offload: aldis_hal::nic::Offload::empty() };
    let to = Framing::Udp(Udp::of_rank(to)).station(Mac([4; 6]));
    [&framing.heading(7, to, port, [b"body", &[]])[..], b"body"].concat()
}

#[test]
fn a_datagram_comes_by_the_queue_of_its_rank_and_all_else_by_the_first() {
    let device = FakeDevice::new();
    let queues = queues(&device, &ranks(6..8)).unwrap();
    let mut pairs = [0, 1].map(|number| queues.pair(number).unwrap());
    assert!(queues.pair(0).is_none() && queues.pair(2).is_none());
    for round in 0..3 * QUEUE as u32 {
        for (number, pair) in pairs.iter_mut().enumerate() {
            let frame = datagram(round, 6 + number as u32);
            assert!(device.deliver(&frame));
            assert_eq!(pair.receive().map(|frame| frame.bytes().to_vec()), Some(frame));
        }
    }
    for frame in [vec![0x88; 60], datagram(0, 9)] {
        assert!(device.deliver(&frame));
        assert!(pairs[1].receive().is_none());
        assert_eq!(pairs[0].receive().map(|got| got.bytes().to_vec()), Some(frame));
    }
    // Damaged frames are told of elsewhere in an extended descriptor.
    assert!(device.deliver_as(&datagram(0, 7), 52, [GOOD[0], 1]));
    assert!(pairs[1].receive().is_none());
    assert_eq!(pairs.map(|pair| pair.counters().bad_frames), [0, 1]);
}

#[test]
fn both_pairs_send_and_take_frames_to_their_addresses() {
    let device = FakeDevice::new();
    let queues = queues(&device, &ranks(0..2)).unwrap();
    let mut pairs = [0, 1].map(|number| queues.pair(number).unwrap());
    for round in 0..3 * QUEUE as u8 {
        for (number, pair) in (0..).zip(&mut pairs) {
            let mut token = pair.transmit(60).unwrap();
            token.bytes().fill(2 * round + number);
            token.send();
        }
        assert_eq!(device.sent(), [vec![2 * round; 60], vec![2 * round + 1; 60]]);
    }
    let own = pairs[0].mac();
    for number in 0..2 {
        let Mac([a, b, c, d, e, f]) = handover::address(own, number as usize);
        let told = [offset::ADDRESS_LOW, offset::ADDRESS_HIGH].map(|at| device.read(at + 8 * number));
        let high = u32::from_le_bytes([e, f, 0, 0]) | bits::ADDRESS_VALID;
        assert_eq!(told, [u32::from_le_bytes([a, b, c, d]), high]);
    }
    let [_, _] = pairs;
    assert_eq!(device.0.borrow().resets, 1);
    drop(queues);
    assert_eq!(device.0.borrow().resets, 2);
}

#[test]
fn two_queues_are_refused_where_they_are_not() {
    let device = FakeDevice::new();
    let three = Err(Cause::TooBig { len: 3, max: 2 });
    assert_eq!(queues(&device, &ranks(0..3)).map(drop), three);
    device.change(|state| state.is_old = true);
    assert_eq!(queues(&device, &ranks(0..2)).map(drop), Err(Cause::Unsupported));
    let short = memory(queues_bytes_needed(QUEUE, FRAME_BYTES) - 129);
    let made = TestQueues::new(FakeDevice::new(), short, FRAME_BYTES, &ranks(0..2)).map(drop);
    assert_eq!(made, Err(Cause::Full(Resource::DeviceMemory)));
}

#[test]
fn a_pair_may_go_to_another_core() {
    const fn goes<T: Send>() {}
    goes::<E1000ePair<'static, MappedRegisters, QUEUE>>();
    goes::<&'static E1000eQueues<MappedRegisters, QUEUE>>();
}

proptest! {
    /// Whatever the device says of its descriptors, a frame is a piece of the card's own buffer.
    #[test]
    fn what_a_device_says_leads_nowhere(words in proptest::collection::vec(any::<(u16, [u8; 2])>(), 1..60)) {
        let device = FakeDevice::new();
        let mut card = card(&device);
        for (len, told) in words {
            device.deliver_as(&[5; 100], len, told);
            if let Some(frame) = card.receive() {
                prop_assert!(frame.bytes().len() == usize::from(len) && len as usize <= FRAME_BYTES);
            }
        }
    }
}

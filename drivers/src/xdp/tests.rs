//! A card over a model of the system, and systems that lie.

use std::string::ToString;
use std::vec::Vec;

use aldis_hal::{Cause, Resource};
use proptest::prelude::*;

use super::*;
use crate::region_memory::tests::TestMemory;

/// Chunks for frames that come, and to send from.
const FILL: u32 = 8;
const SEND: u32 = 4;
const CHUNKS: usize = (FILL + SEND) as usize;
const CHUNK_BYTES: u32 = 2048;

/// The layout of a ring: each index in a line of its own, as the system has them.
const LAYOUT: XdpRingLayout =
    XdpRingLayout { producer_at: 0, consumer_at: 64, flags_at: 68, entries_at: 128 };

/// The system's side of a ring.
#[derive(Clone, Copy, Debug)]
struct SystemRing {
    memory: TestMemory,
    entries: u32,
    width: usize,
}

impl SystemRing {
    fn new(entries: u32, width: usize) -> Self {
        Self { memory: TestMemory::new(LAYOUT.entries_at + entries as usize * width), entries, width }
    }

    fn of_program(self) -> XdpRingMemory<TestMemory> {
        XdpRingMemory { memory: self.memory, layout: LAYOUT, entries: self.entries }
    }

    fn producer(self) -> u32 {
        self.memory.read(LAYOUT.producer_at)
    }

    fn consumer(self) -> u32 {
        self.memory.read(LAYOUT.consumer_at)
    }

    fn at(self, index: u32) -> usize {
        LAYOUT.entries_at + (index % self.entries) as usize * self.width
    }

    /// Takes the next address, and the length of a descriptor.
    fn take(self) -> Option<(u64, u32)> {
        let consumer = self.consumer();
        let at = self.at((self.producer() != consumer).then_some(consumer)?);
        self.memory.write(LAYOUT.consumer_at, consumer.wrapping_add(1));
        let length = if self.width == 16 { self.memory.read(at + 8) } else { 0 };
        Some((self.memory.read(at), length))
    }

    /// Puts an address, and the length of a descriptor.
    fn put(self, address: u64, length: u32) {
        let producer = self.producer();
        self.memory.write(self.at(producer), address);
        if self.width == 16 {
            self.memory.write(self.at(producer) + 8, u64::from(length));
        }
        self.memory.write(LAYOUT.producer_at, producer.wrapping_add(1));
    }
}

/// The system's side of a card.
#[derive(Clone, Copy, Debug)]
struct System {
    area: TestMemory,
    receive: SystemRing,
    transmit: SystemRing,
    fill: SystemRing,
    completion: SystemRing,
}

type XdpTestCard = XdpRings<TestMemory, CHUNKS>;

impl System {
    fn new() -> Self {
        Self {
            area: TestMemory::new(CHUNKS * CHUNK_BYTES as usize),
            receive: SystemRing::new(FILL, 16),
            transmit: SystemRing::new(SEND, 16),
            fill: SystemRing::new(2 * FILL, 8),
            completion: SystemRing::new(SEND, 8),
        }
    }

    fn rings(self) -> [SystemRing; 4] {
        [self.receive, self.transmit, self.fill, self.completion]
    }

    fn card(self) -> XdpTestCard {
        let [receive, transmit, fill, completion] = self.rings().map(SystemRing::of_program);
        let area = XdpArea { memory: self.area, chunk_bytes: CHUNK_BYTES };
        XdpRings::new(area, XdpRingSet { receive, transmit, fill, completion }).unwrap()
    }

    /// Has a frame come; false if there is no room for it in the area.
    fn deliver(self, text: &[u8]) -> bool {
        let Some((address, _)) = self.fill.take() else { return false };
        let address = address.saturating_add(HEADROOM_BYTES.into());
        if address.saturating_add(text.len() as u64) > self.area.bytes as u64 {
            return false;
        }
        text.iter().enumerate().for_each(|(at, byte)| self.area.write(address as usize + at, *byte));
        self.receive.put(address, text.len() as u32);
        true
    }

    /// Sends the next frame, and returns it.
    fn carry(self) -> Option<Vec<u8>> {
        let (address, length) = self.transmit.take()?;
        let end = address.saturating_add(length.into());
        (end <= self.area.bytes as u64).then_some(())?;
        let text = (0..length as usize).map(|at| self.area.read(address as usize + at)).collect();
        self.completion.put(address, 0);
        Some(text)
    }

    fn is_guarded(self) -> bool {
        self.area.is_guarded() && self.rings().iter().all(|ring| ring.memory.is_guarded())
    }
}

fn send(card: &mut XdpTestCard, text: &[u8]) -> bool {
    let has_room = card.reserve(text.len());
    if has_room {
        card.frame_mut(text.len()).copy_from_slice(text);
        card.send(text.len());
    }
    has_room
}

#[test]
fn frames_go_both_ways_in_place_and_chunks_are_used_again() {
    let system = System::new();
    let mut card = system.card();
    for round in 0..100_u32 {
        let text = round.to_le_bytes();
        assert!(card.receive().is_none() && system.deliver(&text));
        assert_eq!(card.receive().unwrap(), text);
        assert!(send(&mut card, &text) && !card.is_drained());
        assert_eq!(system.carry().unwrap(), text);
        assert!(card.is_drained());
    }
    assert_eq!((card.counters().received, card.counters().sent, card.fault()), (100, 100, None));
    assert!(system.is_guarded());
}

#[test]
fn a_burst_is_bounded_by_chunks_and_none_is_lost_afterwards() {
    let system = System::new();
    let mut card = system.card();
    assert!((0..FILL as u8).all(|number| system.deliver(&[number])) && !system.deliver(&[0]));
    assert!((0..FILL as u8).all(|number| card.receive().unwrap() == [number]) && card.receive().is_none());
    assert!((0..FILL as u8).all(|number| system.deliver(&[number])), "all chunks are back");
    assert!((0..SEND as u8).all(|number| send(&mut card, &[number])) && !send(&mut card, &[9]));
    assert_eq!(system.carry().unwrap(), [0]);
    assert!(send(&mut card, &[4]) && !send(&mut card, &[9]));
    assert!((1..=SEND as u8).all(|number| system.carry().unwrap() == [number]));
    assert!(card.is_drained() && card.fault().is_none() && system.is_guarded());
}

/// The system hands over the frames of a batch before it says which entries it has taken for them.
#[test]
fn a_system_that_says_late_what_it_has_taken_is_waited_for() {
    let system = System::new();
    let mut card = system.card();
    for round in 0..10_u8 {
        let taken = system.fill.consumer();
        for number in 0..FILL as u8 {
            assert!(system.deliver(&[round, number]));
        }
        let now = system.fill.consumer();
        system.fill.memory.write(LAYOUT.consumer_at, taken);
        assert!((0..FILL as u8).all(|number| card.receive().unwrap() == [round, number]));
        assert!(card.receive().is_none() && card.fault().is_none(), "{:?}", card.fault());
        system.fill.memory.write(LAYOUT.consumer_at, now);
    }
    assert!(system.is_guarded());
}

#[test]
fn a_frame_that_is_not_sent_leaves_its_chunk_free() {
    let system = System::new();
    let mut card = system.card();
    for _ in 0..10 {
        assert!(card.reserve(100));
        card.frame_mut(100).fill(1);
    }
    assert!((0..SEND).all(|_| send(&mut card, b"sent")) && !card.reserve(1));
    assert!(card.frame_mut(1).is_empty() && system.carry().unwrap() == b"sent");
    card.send(4);
    assert_eq!(card.counters().sent, u64::from(SEND), "nothing was reserved");
    // As long as a chunk without its headroom, and no longer.
    let longest = (CHUNK_BYTES - HEADROOM_BYTES) as usize;
    assert!(!card.reserve(longest + 1) && card.reserve(longest) && card.frame_mut(longest + 1).is_empty());
    assert_eq!(card.frame_mut(longest).len(), longest);
}

#[test]
fn the_system_is_woken_where_it_says_that_it_sleeps() {
    let system = System::new();
    let card = system.card();
    assert!(!card.must_wake_to_send() && !card.must_wake_to_receive());
    system.transmit.memory.write(LAYOUT.flags_at, 1_u32);
    assert!(card.must_wake_to_send() && !card.must_wake_to_receive());
    system.fill.memory.write(LAYOUT.flags_at, 1_u32);
    assert!(card.must_wake_to_receive());
}

#[test]
fn memory_that_does_not_fit_is_refused() {
    let refused = |change: fn(&mut XdpArea<TestMemory>, &mut XdpRingSet<TestMemory>)| {
        let system = System::new();
        let [receive, transmit, fill, completion] = system.rings().map(SystemRing::of_program);
        let mut rings = XdpRingSet { receive, transmit, fill, completion };
        let mut area = XdpArea { memory: system.area, chunk_bytes: CHUNK_BYTES };
        change(&mut area, &mut rings);
        XdpTestCard::new(area, rings).err()
    };
    let too_short = Some(Cause::Full(Resource::DeviceMemory));
    assert_eq!(refused(|_, _| {}), None);
    assert_eq!(refused(|area, _| area.memory.bytes -= 1), too_short);
    assert_eq!(refused(|_, rings| rings.receive.memory.bytes -= 1), too_short);
    assert_eq!(refused(|_, rings| rings.completion.layout.entries_at += 4), too_short);
    assert_eq!(refused(|_, rings| rings.fill.layout.producer_at = 2), too_short);
    assert_eq!(refused(|_, rings| rings.transmit.layout.flags_at = usize::MAX - 3), too_short);
    assert_eq!(refused(|_, rings| rings.fill.entries = FILL), Some(Cause::Unsupported));
    assert_eq!(refused(|area, _| area.chunk_bytes = HEADROOM_BYTES), Some(Cause::Unsupported));
    let no_power_of_two = refused(|_, rings| {
        (rings.receive.entries, rings.fill.entries) = (7, 14);
        (rings.transmit.entries, rings.completion.entries) = (5, 5);
    });
    assert_eq!(no_power_of_two, too_short);
}

/// The fault of a card to which a system says this after a frame was received and one sent.
fn fault_of(lie: impl FnOnce(System)) -> Option<XdpFault> {
    let system = System::new();
    let mut card = system.card();
    assert!(system.deliver(b"first") && card.receive().is_some() && send(&mut card, b"sent"));
    lie(system);
    assert!(card.receive().is_none_or(|text| text.is_empty()), "no frame comes of a lie");
    let _ = card.reserve(1);
    let fault = card.fault();
    if fault.is_some() {
        assert!(card.receive().is_none() && !card.reserve(1) && card.is_drained(), "it is left alone");
    }
    assert!(system.is_guarded());
    fault
}

#[test]
fn a_system_that_lies_is_left_alone() {
    assert_eq!(fault_of(|_| {}), None);
    let index = |ring, index, own| Some(XdpFault::Index { ring, index, own });
    let producer = |ring: SystemRing, index: u32| ring.memory.write(LAYOUT.producer_at, index);
    assert_eq!(fault_of(|system| producer(system.receive, 10)), index(XdpRing::Receive, 10, 1));
    assert_eq!(fault_of(|system| producer(system.receive, 0)), index(XdpRing::Receive, 0, 1));
    assert_eq!(fault_of(|system| producer(system.completion, 5)), index(XdpRing::Completion, 5, 0));
    let max = u32::MAX;
    assert_eq!(fault_of(|system| producer(system.completion, max)), index(XdpRing::Completion, max, 0));
    let frame = |ring, address, length| Some(XdpFault::Frame { ring, address, length });
    let chunk = u64::from(CHUNK_BYTES);
    // A chunk to send from, one behind the area, far away.
    for (address, length) in [(u64::from(FILL), 5), (CHUNKS as u64, 5), (1 << 40, 5), (u64::MAX / chunk, 0)] {
        let address = address * chunk;
        let fault = fault_of(|system| system.receive.put(address, length));
        assert_eq!(fault, frame(XdpRing::Receive, address, length));
    }
    // Out of its chunk.
    for length in [CHUNK_BYTES + 1, u32::MAX] {
        assert_eq!(
            fault_of(|system| system.receive.put(chunk, length)),
            frame(XdpRing::Receive, chunk, length)
        );
    }
    // A frame that goes on in another.
    let goes_on = |system: System| {
        system.receive.put(chunk, 5);
        system.receive.memory.write(LAYOUT.entries_at + 16 + 12, 1_u32);
    };
    assert_eq!(fault_of(goes_on), frame(XdpRing::Receive, chunk, 5));
    // A chunk that was not sent from, and one that comes back twice.
    assert_eq!(fault_of(|system| system.completion.put(0, 0)), frame(XdpRing::Completion, 0, 0));
    let sent = u64::from(CHUNKS as u32 - 1) * chunk;
    let twice = |system: System| (0..2).for_each(|_| system.completion.put(sent, 0));
    assert_eq!(fault_of(twice), frame(XdpRing::Completion, sent, 0));
}

#[test]
fn a_system_that_takes_more_room_than_there_is_is_left_alone() {
    let system = System::new();
    let mut card = system.card();
    for _ in 0..=FILL {
        assert!(system.deliver(b"frame") && card.receive().is_some());
    }
    // All entries that were seen to be free are used now.
    system.fill.memory.write(LAYOUT.consumer_at, u32::MAX);
    assert!(card.receive().is_none());
    let fault = XdpFault::Index { ring: XdpRing::Fill, index: u32::MAX, own: 2 * FILL };
    assert_eq!(card.fault(), Some(fault));
}

#[test]
fn faults_say_which_ring_lies() {
    let index = XdpFault::Index { ring: XdpRing::Completion, index: 9, own: 2 };
    assert_eq!(index.to_string(), "the completion ring's index is 9, and this end is at 2");
    let frame = XdpFault::Frame { ring: XdpRing::Receive, address: 4096, length: 9000 };
    assert_eq!(frame.to_string(), "the receive ring tells of 9000 bytes at 4096 that cannot be");
}

/// A place of a ring that the system writes to: which ring, which word, which value.
fn lies() -> impl Strategy<Value = (usize, usize, u32)> {
    let words = prop_oneof![Just(0_usize), Just(64), Just(68), (32_usize..64).prop_map(|word| word * 4)];
    let near = (0_u32..20).prop_map(|number| number * 1024);
    let values = prop_oneof![0_u32..16, near, any::<u32>(), Just(u32::MAX)];
    (0_usize..4, words, values)
}

proptest! {
    /// No number of a system makes the card touch what is not its own, or lend a frame twice.
    #[test]
    fn any_numbers_are_harmless(steps in prop::collection::vec((lies(), 0_u8..4), 1..60)) {
        let system = System::new();
        let mut card = system.card();
        for ((ring, at, value), action) in steps {
            let memory = system.rings()[ring].memory;
            if at + 4 <= memory.bytes && action != 3 {
                memory.write(at, value);
            }
            let _ = system.deliver(b"deliv").then(|| system.carry());
            if let Some(text) = card.receive() {
                let start = text.as_ptr() as usize;
                let inside = system.area.start.as_ptr() as usize;
                prop_assert!(start >= inside && start + text.len() <= inside + system.area.bytes);
            }
            let _ = send(&mut card, b"out");
        }
        prop_assert!(system.is_guarded());
    }
}

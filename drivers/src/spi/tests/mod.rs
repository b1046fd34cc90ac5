//! The two sides on a bus in memory that flips bits, shifts blocks, fails, and has a peripheral
//! that stalls.

use core::cell::RefCell;
use std::boxed::Box;
use std::rc::Rc;
use std::vec;
use std::vec::Vec;

use aldis_hal::Cause;
use aldis_hal::nic::{Mac, Nic, RxFrame, TxFrame};
use embedded_hal::digital::{InputPin, OutputPin};
use embedded_hal::spi::{ErrorKind, Operation, SpiDevice};
use proptest::prelude::{ProptestConfig, any, prop_assert, prop_assert_eq, prop_oneof, proptest};
use proptest::strategy::{Just, Strategy};

use super::{
    BlockHeader, BlockPort, Controller, HEADER_BYTES, NoPin, Peripheral, SpiCounters, SpiMemory, SpiNic,
    SpiStorage,
};

/// The fate of an exchange.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum BlockFate {
    Whole,
    /// A bit of what comes for the controller.
    FlipBack(u16),
    /// A bit of what comes for the peripheral.
    FlipThere(u16),
    /// The controller's clock came so many bits late.
    Shift(u8),
    /// The bus reports an error.
    Fail,
}

#[derive(Default)]
struct Wire {
    loaded: Option<Vec<u8>>,
    came: Option<Vec<u8>>,
    /// The contents of the peripheral's shift register when nothing is loaded.
    stale: Vec<u8>,
    pin: bool,
    fates: Vec<BlockFate>,
    exchanges: u32,
}

fn flip(block: &mut [u8], bit: u16) {
    let at = usize::from(bit) / 8 % block.len();
    block[at] ^= 1 << (bit % 8);
}

/// All bits later by so many, with ones before them.
fn shift(block: &mut [u8], bits: u8) {
    for _ in 0..bits {
        let mut carry = 1;
        for byte in block.iter_mut() {
            let next = *byte & 1;
            *byte = *byte >> 1 | carry << 7;
            carry = next;
        }
    }
}

#[derive(Clone)]
struct Bus(Rc<RefCell<Wire>>);

impl embedded_hal::spi::ErrorType for Bus {
    type Error = ErrorKind;
}

impl SpiDevice for Bus {
    fn transaction(&mut self, operations: &mut [Operation<'_, u8>]) -> Result<(), ErrorKind> {
        let [Operation::TransferInPlace(block)] = operations else { panic!("one transfer a block") };
        let mut wire = self.0.borrow_mut();
        wire.exchanges += 1;
        let fate = wire.fates.pop().unwrap_or(BlockFate::Whole);
        // Nothing loaded: the last block is sent again, and what comes is lost.
        let fresh = wire.loaded.is_some();
        let mut back = wire.loaded.take().unwrap_or_else(|| wire.stale.clone());
        wire.stale.clone_from(&back);
        back.resize(block.len(), 0);
        let mut there = block.to_vec();
        match fate {
            BlockFate::Whole | BlockFate::Fail => {}
            BlockFate::FlipBack(bit) => flip(&mut back, bit),
            BlockFate::FlipThere(bit) => flip(&mut there, bit),
            BlockFate::Shift(bits) => {
                shift(&mut back, bits);
                shift(&mut there, bits);
            }
        }
        if fresh {
            wire.came = Some(there);
        }
        if fate == BlockFate::Fail {
            return Err(ErrorKind::Overrun);
        }
        block.copy_from_slice(&back);
        Ok(())
    }
}

impl BlockPort for Bus {
    fn take(&mut self, block: &mut [u8]) -> bool {
        let Some(came) = self.0.borrow_mut().came.take() else { return false };
        block.copy_from_slice(&came);
        true
    }
    fn load(&mut self, block: &[u8]) {
        let mut wire = self.0.borrow_mut();
        assert!(wire.loaded.is_none(), "one block is loaded at a time");
        wire.loaded = Some(block.to_vec());
    }
}

impl embedded_hal::digital::ErrorType for Bus {
    type Error = core::convert::Infallible;
}

impl InputPin for Bus {
    fn is_high(&mut self) -> Result<bool, Self::Error> {
        Ok(self.0.borrow().pin)
    }
    fn is_low(&mut self) -> Result<bool, Self::Error> {
        Ok(!self.0.borrow().pin)
    }
}

impl OutputPin for Bus {
    fn set_high(&mut self) -> Result<(), Self::Error> {
        self.0.borrow_mut().pin = true;
        Ok(())
    }
    fn set_low(&mut self) -> Result<(), Self::Error> {
        self.0.borrow_mut().pin = false;
        Ok(())
    }
}

const FRAME_BYTES: usize = 200;
const BLOCK_BYTES: usize = 32;

fn memory() -> SpiMemory<'static> {
    Box::leak(Box::new(SpiStorage::<FRAME_BYTES, BLOCK_BYTES>::new())).memory()
}

/// Both sides, with a pin between them.
struct SpiPair {
    controller: SpiNic<'static, Controller<Bus, Bus>>,
    peripheral: SpiNic<'static, Peripheral<Bus, Bus>>,
    bus: Bus,
}

impl SpiPair {
    fn new() -> Self {
        let bus = Bus(Rc::default());
        let mac = |number| Mac([2, 0, 0, 0, 0, number]);
        let controller = Controller::new(bus.clone(), bus.clone());
        let peripheral = Peripheral::new(bus.clone(), bus.clone());
        let controller = SpiNic::new(controller, memory(), mac(1)).unwrap();
        let mut peripheral = SpiNic::new(peripheral, memory(), mac(2)).unwrap();
        assert!(!peripheral.step(), "the first block is loaded");
        Self { controller, peripheral, bus }
    }

    /// Both sides once, the peripheral unless it stalls: what they have received.
    fn turn(&mut self, stalls: bool) -> (Option<Vec<u8>>, Option<Vec<u8>>) {
        let there = if stalls { None } else { receive(&mut self.peripheral) };
        (receive(&mut self.controller), there)
    }

    /// Sends these frames from both sides as fast as they go: what came at the other.
    fn run(&mut self, there: &[Vec<u8>], back: &[Vec<u8>], stalls: &[bool]) -> (Vec<Vec<u8>>, Vec<Vec<u8>>) {
        let (mut there, mut back) = (there.iter().peekable(), back.iter().peekable());
        let (mut came, mut went) = (Vec::new(), Vec::new());
        let mut stalls = stalls.iter();
        let mut quiet = 0;
        while quiet < 60 {
            quiet += 1;
            if there.peek().is_some_and(|frame| send(&mut self.controller, frame)) {
                there.next();
                quiet = 0;
            }
            if back.peek().is_some_and(|frame| send(&mut self.peripheral, frame)) {
                back.next();
                quiet = 0;
            }
            let (one, other) = self.turn(stalls.next().copied().unwrap_or(false));
            went.extend(one);
            came.extend(other);
        }
        (came, went)
    }
}

fn receive<N: Nic>(nic: &mut N) -> Option<Vec<u8>> {
    nic.receive().map(|frame| frame.bytes().to_vec())
}

fn send<N: Nic>(nic: &mut N, frame: &[u8]) -> bool {
    let Some(mut token) = nic.transmit(frame.len()) else { return false };
    token.bytes().copy_from_slice(frame);
    token.send();
    true
}

/// Returns true if `some` are among `all`, in order and each once.
fn in_order(some: &[Vec<u8>], all: &[Vec<u8>]) -> bool {
    let mut all = all.iter();
    some.iter().all(|one| all.any(|other| other == one))
}

#[test]
fn a_block_is_laid_out_as_is_said() {
    let mut block = [0xEE; 16];
    BlockHeader::write(BlockHeader::FIRST | BlockHeader::ROOM, 7, b"piece", &mut block);
    assert_eq!(block, *b"\x05\x00\x05\x07\x3C\x12\x15\xD3piece\xEE\xEE\xEE");
    let (header, piece) = BlockHeader::read(&block).unwrap();
    assert_eq!((header.len.get(), header.sequence, piece), (5, 7, &b"piece"[..]));
    assert!(
        header.has(BlockHeader::FIRST) && header.has(BlockHeader::ROOM) && !header.has(BlockHeader::LAST)
    );
}

#[test]
fn no_block_is_one() {
    assert_eq!(BlockHeader::read(&[0; 32]), None);
    assert_eq!(BlockHeader::read(&[0xFF; 32]), None);
    assert_eq!(BlockHeader::read(&[]), None);
    let mut block = [0; 32];
    BlockHeader::write(1 << 3, 0, b"", &mut block);
    assert_eq!(BlockHeader::read(&block), None, "a flag of another version");
}

#[test]
fn blocks_without_room_for_a_piece_are_refused() {
    let new = |block: usize| {
        let block = Box::leak(vec![0; block].into_boxed_slice());
        let memory = SpiMemory { incoming: &mut [], outgoing: &mut [], block };
        SpiNic::new(Controller::new(Bus(Rc::default()), NoPin), memory, Mac([2; 6])).map(|_| ())
    };
    assert_eq!(new(2 * HEADER_BYTES - 1), Err(Cause::Incompatible));
    assert_eq!(new(2 * HEADER_BYTES), Ok(()));
    assert_eq!(new((1 << 16) + 1), Err(Cause::Incompatible));
}

#[test]
fn an_idle_bus_rests() {
    let mut both = SpiPair::new();
    for _ in 0..100 {
        assert_eq!((receive(&mut both.peripheral), receive(&mut both.controller)), (None, None));
    }
    assert_eq!(both.bus.0.borrow().exchanges, 0);

    let bus = Bus(Rc::default());
    let mut pinless = SpiNic::new(Controller::new(bus.clone(), NoPin), memory(), Mac([2; 6])).unwrap();
    for _ in 0..100 {
        assert_eq!(receive(&mut pinless), None);
    }
    assert_eq!(bus.0.borrow().exchanges, 100, "one each time that it is asked");
    assert_eq!(pinless.counters().damaged, 100, "no device is there");
}

#[test]
fn sizes_are_the_memorys() {
    let mut both = SpiPair::new();
    assert_eq!((both.controller.mtu(), both.peripheral.mac()), (FRAME_BYTES - 14, Mac([2, 0, 0, 0, 0, 2])));
    assert!(both.controller.transmit(FRAME_BYTES + 1).is_none());
    assert!(both.controller.transmit(FRAME_BYTES).is_some(), "and a token that is dropped is free again");
    assert!(both.controller.transmit(FRAME_BYTES).is_some());
}

#[test]
fn a_frame_that_is_not_taken_holds_up_the_next_and_loses_none() {
    let mut both = SpiPair::new();
    assert!(send(&mut both.controller, &[1; 100]));
    let mut second = false;
    for _ in 0..50 {
        // The peripheral's blocks are exchanged, but its frames wait.
        both.peripheral.step();
        both.controller.step();
        second = second || send(&mut both.controller, &[2; 100]);
    }
    assert!(second);
    assert!(!send(&mut both.controller, &[3; 100]), "the second waits for room");
    let (came, _) = both.run(&[vec![3; 100]], &[], &[]);
    assert_eq!(came, [vec![1; 100], vec![2; 100], vec![3; 100]]);
    assert_eq!(both.peripheral.counters().dropped, 0);
}

#[test]
fn a_peripheral_that_stalls_costs_time_and_no_frame() {
    let mut both = SpiPair::new();
    let frames: Vec<Vec<u8>> = (0..20).map(|number| vec![number; 150]).collect();
    let stalls: Vec<bool> = (0..400).map(|turn| turn % 7 < 3).collect();
    let (came, went) = both.run(&frames, &frames, &stalls);
    assert!(both.controller.counters().repeated > 20, "its last block comes again and again");
    assert_eq!((&came, &went), (&frames, &frames), "what it misses is said again");
}

fn fates() -> impl Strategy<Value = Vec<BlockFate>> {
    let fate = prop_oneof![
        6 => Just(BlockFate::Whole),
        1 => any::<u16>().prop_map(BlockFate::FlipBack),
        1 => any::<u16>().prop_map(BlockFate::FlipThere),
        1 => (1u8..32).prop_map(BlockFate::Shift),
        1 => Just(BlockFate::Fail),
    ];
    proptest::collection::vec(fate, 0..200)
}

fn frames() -> impl Strategy<Value = Vec<Vec<u8>>> {
    proptest::collection::vec(proptest::collection::vec(any::<u8>(), 1..FRAME_BYTES), 0..12)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(150))]

    #[test]
    fn a_good_bus_loses_nothing(there in frames(), back in frames()) {
        let mut both = SpiPair::new();
        let (came, went) = both.run(&there, &back, &[]);
        prop_assert_eq!((came, went), (there, back));
        for counters in [both.controller.counters(), both.peripheral.counters()] {
            let SpiCounters { damaged, missed, dropped, errors, .. } = counters;
            prop_assert_eq!((damaged, missed, dropped, errors), (0, 0, 0, 0));
        }
    }

    #[test]
    fn a_bad_bus_loses_frames_and_changes_none(
        there in frames(),
        back in frames(),
        fates in fates(),
        stalls in proptest::collection::vec(proptest::bool::weighted(0.2), 0..200),
    ) {
        let mut both = SpiPair::new();
        let ills = fates.iter().filter(|fate| **fate != BlockFate::Whole).count();
        both.bus.0.borrow_mut().fates = fates;
        let (came, went) = both.run(&there, &back, &stalls);
        prop_assert!(in_order(&came, &there), "{came:?}");
        prop_assert!(in_order(&went, &back), "{went:?}");
        if ills == 0 {
            prop_assert_eq!((came.len(), went.len()), (there.len(), back.len()));
        }
        // When the bus is well again nothing of that is left.
        both.bus.0.borrow_mut().fates.clear();
        let last = [vec![9; 120], vec![8; FRAME_BYTES]];
        let (came, went) = both.run(&last, &last, &[]);
        prop_assert!(came.ends_with(&last) && went.ends_with(&last));
    }

    #[test]
    fn whatever_the_controller_clocks_is_survived(blocks in proptest::collection::vec(
        (any::<u8>(), any::<u8>(), proptest::collection::vec(any::<u8>(), 0..60)), 1..60,
    )) {
        let mut both = SpiPair::new();
        let mut block = [0; BLOCK_BYTES];
        for (flags, sequence, piece) in blocks {
            // A checksum that fits, and any flags, numbers and lengths.
            BlockHeader::write(flags & 7, sequence, &piece, &mut block);
            receive(&mut both.peripheral);
            SpiDevice::transfer_in_place(&mut both.bus, &mut block).unwrap();
            if let Some(frame) = receive(&mut both.peripheral) {
                prop_assert!(frame.len() <= FRAME_BYTES);
            }
        }
        let last = [vec![9; 120]];
        let (came, went) = both.run(&last, &last, &[]);
        prop_assert!(came.ends_with(&last) && went.ends_with(&last));
    }
}

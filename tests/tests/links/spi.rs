//! Two ranks on an SPI bus: one has the clock.

use core::cell::RefCell;
use core::convert::Infallible;
use std::rc::Rc;

use aldis_drivers::spi::{BlockPort, Controller, NoPin, Peripheral, Side, SpiNic, SpiStorage};
use aldis_hal::nic::Mac;
use embedded_hal::spi::{ErrorType, Operation, SpiDevice};

use crate::rig::{Draw, FRAME_BYTES, LinkedPair};

/// A block holds a short message: 48 bytes of headers, 8 of its own.
const BLOCK_BYTES: usize = 96;

/// The blocks in the peripheral's unit; in one of `every` exchanges a bit is flipped each way.
struct Unit {
    loaded: Option<Vec<u8>>,
    came: Option<Vec<u8>>,
    draw: Draw,
    every: Option<u64>,
}

impl Unit {
    /// Returns a block as it arrives: perhaps with a bit flipped.
    fn carried(&mut self, block: &[u8]) -> Vec<u8> {
        let mut block = block.to_vec();
        if self.every.is_some_and(|every| self.draw.once_in(every)) {
            let at = self.draw.next() as usize % block.len();
            block[at] ^= 1 << (self.draw.next() % 8);
        }
        block
    }
}

#[derive(Clone)]
pub(crate) struct Bus(Rc<RefCell<Unit>>);

impl ErrorType for Bus {
    type Error = Infallible;
}

impl SpiDevice for Bus {
    fn transaction(&mut self, operations: &mut [Operation<'_, u8>]) -> Result<(), Infallible> {
        let [Operation::TransferInPlace(block)] = operations else { panic!("one transfer a block") };
        let mut unit = self.0.borrow_mut();
        let Some(loaded) = unit.loaded.take() else {
            block.fill(0xFF);
            return Ok(());
        };
        unit.came = Some(unit.carried(block));
        block.copy_from_slice(&unit.carried(&loaded));
        Ok(())
    }
}

impl BlockPort for Bus {
    fn take(&mut self, block: &mut [u8]) -> bool {
        let came = self.0.borrow_mut().came.take();
        came.inspect(|came| block.copy_from_slice(came)).is_some()
    }
    fn load(&mut self, block: &[u8]) {
        self.0.borrow_mut().loaded = Some(block.to_vec());
    }
}

/// Either side: a job has devices of one type.
pub(crate) enum Either {
    Controller(Controller<Bus>),
    Peripheral(Peripheral<Bus>),
}

impl Side for Either {
    fn step(&mut self, exchange: &mut aldis_drivers::spi::FrameExchange<'_>, block: &mut [u8]) -> bool {
        match self {
            Self::Controller(side) => side.step(exchange, block),
            Self::Peripheral(side) => side.step(exchange, block),
        }
    }
}

/// Both sides of a bus with these faults.
pub(crate) fn devices(seed: u64, every: Option<u64>) -> [SpiNic<'static, Either>; 2] {
    let bus = Bus(Rc::new(RefCell::new(Unit { loaded: None, came: None, draw: Draw(seed), every })));
    let sides = [
        Either::Controller(Controller::new(bus.clone(), NoPin)),
        Either::Peripheral(Peripheral::new(bus.clone(), NoPin)),
    ];
    let mut number = 0;
    sides.map(|side| {
        number += 1;
        let storage = Box::leak(Box::new(SpiStorage::<FRAME_BYTES, BLOCK_BYTES>::new()));
        SpiNic::new(side, storage.memory(), Mac([2, 0, 0, 0, 0, number])).unwrap()
    })
}

fn pair(seed: u64, every: Option<u64>) -> LinkedPair<SpiNic<'static, Either>> {
    LinkedPair::new(devices(seed, every))
}

#[test]
fn ping_pong_on_a_bus_that_flips_bits() {
    let (mut damaged, mut dropped) = (0, 0);
    for seed in 0..10 {
        let mut pair = pair(seed, Some(50));
        pair.ping_pong(24);
        for end in &pair.ends {
            let counters = end.transport().nic().counters();
            damaged += counters.damaged;
            dropped += counters.dropped;
            assert_eq!(end.transport().counters().checksum, 0, "blocks have a checksum of their own");
        }
    }
    assert!(damaged > 100 && dropped > 10, "the bus was bad: {damaged}, {dropped}");
}

#[test]
fn a_rendezvous_of_100_kib_on_a_bus_that_flips_bits() {
    for seed in 0..2 {
        pair(seed, Some(200)).rendezvous();
    }
}

#[test]
fn on_a_good_bus_nothing_is_sent_twice() {
    let mut pair = pair(1, None);
    pair.ping_pong(24);
    pair.rendezvous();
    for end in &pair.ends {
        let counters = end.transport().counters();
        assert_eq!((counters.retransmitted, counters.duplicates), (0, 0), "{counters:?}");
        assert_eq!(end.transport().nic().counters().dropped, 0);
    }
}

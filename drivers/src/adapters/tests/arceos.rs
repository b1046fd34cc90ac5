//! A model of ArceOS's network drivers on the hub: buffers of its own in fixed numbers, that are
//! handed out by pointer and come back or are lost; calls that find nothing or fail; lengths that
//! are not true.

use core::ptr::NonNull;
use core::sync::atomic::{AtomicPtr, Ordering};
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard};

use axdriver_net::{
    BaseDriverOps, DevError, DevResult, DeviceType, EthernetAddress, NetBufPtr, NetDriverOps,
};

use super::*;
use crate::adapters::ArceosDriver;

/// Buffers of each direction, and bytes of each.
const BUFFERS: usize = 4;
const BUFFER_BYTES: usize = MTU + 14;

/// The fault of one call of the driver.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum DriverFault {
    /// The call does what it should.
    None,
    /// Nothing is there, or no room: `Again`.
    Again,
    /// The call fails.
    Io,
    /// The call succeeds, and tells a length that the buffer does not have, or hands out a buffer
    /// of another length.
    Length(usize),
}

/// The driver's state, which the test sees too.
struct ModelState {
    nic: HubNic,
    buffers: Vec<AtomicPtr<u8>>,
    received: VecDeque<usize>,
    transmit: VecDeque<usize>,
    /// Frames that the device has not told of as sent.
    in_flight: VecDeque<usize>,
    /// Faults of the next calls; then those of the chance.
    script: VecDeque<DriverFault>,
    /// Calls in a thousand that fail, and as many that find nothing.
    permille: u64,
    seed: u64,
    /// True if the device tells of no frame as sent.
    is_stuck: bool,
    receive_calls: u32,
}

#[derive(Clone)]
struct ModelDriver(Arc<Mutex<ModelState>>);

impl ModelState {
    fn fault(&mut self) -> DriverFault {
        if let Some(fault) = self.script.pop_front() {
            return fault;
        }
        self.seed = self.seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        match self.seed >> 33 {
            drawn if drawn % 1000 < self.permille => DriverFault::Io,
            drawn if drawn % 1000 < 2 * self.permille => DriverFault::Again,
            drawn if drawn % 1000 < 3 * self.permille => DriverFault::Length(usize::MAX),
            _ => DriverFault::None,
        }
    }

    fn lend(&self, number: usize, len: usize) -> NetBufPtr {
        let start = NonNull::new(self.buffers[number].load(Ordering::Relaxed)).unwrap();
        NetBufPtr::new(start, start, len)
    }

    fn number(&self, buffer: &NetBufPtr) -> usize {
        let is_it = |own: &AtomicPtr<u8>| own.load(Ordering::Relaxed) == buffer.raw_ptr::<u8>();
        self.buffers.iter().position(is_it).expect("a buffer of this driver")
    }
}

impl ModelDriver {
    fn new(nic: HubNic, permille: u64) -> Self {
        let buffers = (0..2 * BUFFERS).map(|_| AtomicPtr::new(room(BUFFER_BYTES).as_mut_ptr()));
        Self(Arc::new(Mutex::new(ModelState {
            nic,
            buffers: buffers.collect(),
            received: (0..BUFFERS).collect(),
            transmit: (BUFFERS..2 * BUFFERS).collect(),
            in_flight: VecDeque::new(),
            script: VecDeque::new(),
            permille,
            seed: 0x0A1D_15EA,
            is_stuck: false,
            receive_calls: 0,
        })))
    }

    fn state(&self) -> MutexGuard<'_, ModelState> {
        self.0.lock().unwrap()
    }

    fn script(&self, faults: &[DriverFault]) {
        self.state().script.extend(faults);
    }
}

impl BaseDriverOps for ModelDriver {
    fn device_name(&self) -> &str {
        "model"
    }
    fn device_type(&self) -> DeviceType {
        DeviceType::Net
    }
}

impl NetDriverOps for ModelDriver {
    fn mac_address(&self) -> EthernetAddress {
        EthernetAddress(self.state().nic.mac().0)
    }
    fn can_transmit(&self) -> bool {
        !self.state().transmit.is_empty()
    }
    fn can_receive(&self) -> bool {
        !self.state().received.is_empty()
    }
    fn rx_queue_size(&self) -> usize {
        BUFFERS
    }
    fn tx_queue_size(&self) -> usize {
        BUFFERS
    }

    fn recycle_rx_buffer(&mut self, buffer: NetBufPtr) -> DevResult {
        let mut state = self.state();
        let number = state.number(&buffer);
        assert!(!state.received.contains(&number), "it is given back once");
        state.received.push_back(number);
        if state.fault() == DriverFault::Io { Err(DevError::Io) } else { Ok(()) }
    }

    fn recycle_tx_buffers(&mut self) -> DevResult {
        let mut state = self.state();
        if state.fault() == DriverFault::Io {
            return Err(DevError::Io);
        }
        if !state.is_stuck {
            let sent = core::mem::take(&mut state.in_flight);
            state.transmit.extend(sent);
        }
        Ok(())
    }

    fn transmit(&mut self, buffer: NetBufPtr) -> DevResult {
        let mut state = self.state();
        let number = state.number(&buffer);
        assert!(!state.transmit.contains(&number) && !state.in_flight.contains(&number));
        state.in_flight.push_back(number);
        if state.fault() == DriverFault::Io {
            return Err(DevError::Io);
        }
        let mut frame = state.nic.transmit(buffer.packet_len()).ok_or(DevError::Again)?;
        frame.bytes().copy_from_slice(buffer.packet());
        frame.send();
        Ok(())
    }

    fn receive(&mut self) -> DevResult<NetBufPtr> {
        let mut state = self.state();
        state.receive_calls += 1;
        let fault = state.fault();
        match fault {
            DriverFault::Io => return Err(DevError::Io),
            DriverFault::Again => return Err(DevError::Again),
            DriverFault::None | DriverFault::Length(_) => {}
        }
        let number = *state.received.front().ok_or(DevError::NoMemory)?;
        let frame = state.nic.receive().ok_or(DevError::Again)?;
        let len = frame.bytes().len();
        state.lend(number, len).packet_mut().copy_from_slice(frame.bytes());
        state.received.pop_front();
        Ok(state.lend(number, if let DriverFault::Length(len) = fault { len } else { len }))
    }

    fn alloc_tx_buffer(&mut self, size: usize) -> DevResult<NetBufPtr> {
        let mut state = self.state();
        let fault = state.fault();
        if fault == DriverFault::Io {
            return Err(DevError::NoMemory);
        }
        let number = state.transmit.pop_front().ok_or(DevError::NoMemory)?;
        Ok(state
            .lend(number, if let DriverFault::Length(len @ ..=BUFFER_BYTES) = fault { len } else { size }))
    }
}

fn nic(driver: &ModelDriver) -> ForeignNic<'static, ArceosDriver<ModelDriver>> {
    let driver = ArceosDriver::new(driver.clone()).with_mtu(MTU);
    ForeignNic::new(driver, room(MTU + 14), room(MTU + 14)).unwrap()
}

/// Has a card send a frame of so many bytes.
fn send(nic: &mut impl Nic, bytes: usize) -> bool {
    let Some(mut frame) = nic.transmit(bytes) else { return false };
    frame.bytes().fill(7);
    frame.bytes()[..6].copy_from_slice(&mac(2).0);
    frame.send();
    true
}

#[test]
fn ranks_exchange_messages_over_drivers_of_arceos_that_fail() {
    let hub = Hub::new(4);
    hub.set_faults(Faults { lose: 50, duplicate: 50, ..Faults::NONE });
    let drivers = [ModelDriver::new(hub.nic(1, MTU), 50), ModelDriver::new(hub.nic(2, MTU), 50)];
    let [one, two] = drivers.each_ref().map(nic);
    assert_eq!((one.mtu(), one.mac(), one.link()), (MTU, mac(1), LinkState::Up));
    exchange(&hub, one, two);
    for driver in drivers {
        let state = driver.state();
        assert_eq!(state.received.len(), BUFFERS, "each buffer is given back");
        assert_eq!(state.transmit.len() + state.in_flight.len(), BUFFERS);
    }
}

#[test]
fn failed_calls_are_counted_and_again_is_none() {
    let hub = Hub::new(5);
    let driver = ModelDriver::new(hub.nic(1, MTU), 0);
    let mut nic = nic(&driver);
    driver.script(&[DriverFault::Again]);
    assert!(nic.receive().is_none());
    assert_eq!((nic.device().errors(), nic.device().last_error().is_none()), (0, true));
    driver.script(&[DriverFault::Io]);
    assert!(nic.receive().is_none());
    // The buffer is told to be refused, and the frame is there.
    hub.inject(1, &[3; 60]);
    driver.script(&[DriverFault::None, DriverFault::Io]);
    assert_eq!(nic.receive().unwrap().bytes(), [3; 60]);
    assert_eq!(nic.device().errors(), 2);
    assert!(matches!(nic.device().last_error(), Some(DevError::Io)));
    // No memory for the frame, and then a device that does not take it: both are lost.
    driver.script(&[DriverFault::None, DriverFault::Io]);
    assert!(send(&mut nic, 60));
    assert!(matches!(nic.device().last_error(), Some(DevError::NoMemory)));
    driver.script(&[DriverFault::None, DriverFault::None, DriverFault::Io]);
    assert!(send(&mut nic, 60));
    assert_eq!(nic.device().errors(), 4);
    assert!(hub.waiting(1).is_empty());
}

#[test]
fn lengths_that_are_not_true_cost_a_frame() {
    let hub = Hub::new(6);
    let mut there = hub.nic(2, MTU);
    let driver = ModelDriver::new(hub.nic(1, MTU), 0);
    let mut nic = nic(&driver);
    for len in [MTU + 15, usize::MAX] {
        hub.inject(1, &[3; 60]);
        driver.script(&[DriverFault::Length(len)]);
        assert!(nic.receive().unwrap().bytes().is_empty(), "{len} B are not looked at");
    }
    assert_eq!(driver.state().received.len(), BUFFERS);
    hub.inject(1, &[4; MTU + 14]);
    assert_eq!(nic.receive().unwrap().bytes(), [4; MTU + 14]);
    // A buffer that is too short is no frame; in one that is too long, nothing of an earlier frame
    // goes along.
    for number in 0..BUFFERS {
        assert!(send(&mut nic, MTU + 14), "{number}");
        hub.advance(1_000_000);
        assert_eq!(there.receive().unwrap().bytes(), [&mac(2).0[..], &[7; MTU + 8]].concat());
    }
    driver.script(&[DriverFault::None, DriverFault::Length(59)]);
    assert!(send(&mut nic, 60));
    assert!(matches!(nic.device().last_error(), Some(DevError::BadState)));
    hub.advance(1_000_000);
    assert!(there.receive().is_none());
    driver.script(&[DriverFault::None, DriverFault::Length(100)]);
    assert!(send(&mut nic, 60));
    hub.advance(1_000_000);
    assert_eq!(there.receive().unwrap().bytes(), [&mac(2).0[..], &[7; 54], &[0; 40]].concat());
    assert_eq!(nic.device().errors(), 1);
}

#[test]
fn a_driver_without_buffers_has_no_room_until_the_device_has_sent() {
    let hub = Hub::new(7);
    let driver = ModelDriver::new(hub.nic(1, MTU), 0);
    let mut nic = nic(&driver);
    driver.state().is_stuck = true;
    for _ in 0..BUFFERS {
        assert!(send(&mut nic, 60));
    }
    assert!(!send(&mut nic, 60));
    // A frame that is filled and not sent takes no buffer.
    driver.state().is_stuck = false;
    for _ in 0..3 * BUFFERS {
        assert!(nic.transmit(60).is_some());
    }
    assert_eq!(driver.state().transmit.len(), BUFFERS);
    assert_eq!(nic.device().errors(), 0);
}

#[test]
fn a_poll_is_bounded_however_many_frames_a_driver_has() {
    let hub = Hub::new(8);
    let driver = ModelDriver::new(hub.nic(1, MTU), 0);
    let mut ethernet = transport(nic(&driver), 0);
    for _ in 0..200 {
        hub.inject(1, &[3; 60]);
    }
    // Every other one with a length that is not true.
    driver
        .state()
        .script
        .extend([DriverFault::Length(usize::MAX), DriverFault::None, DriverFault::None].repeat(100));
    let mut inbox = ArrivedMessages::default();
    ethernet.poll(8, hub.now(), &mut inbox);
    let calls = driver.state().receive_calls;
    assert!((1..=64).contains(&calls), "{calls} calls");
    assert!(inbox.0.is_empty());
}

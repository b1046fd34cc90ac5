//! A virtio network device: registers as a `Transport`, and the other end of the queues.
//!
//! It knows of the driver what a real one knows: addresses of descriptors and rings, and features.
//! It can be made to lie.

use std::boxed::Box;
use std::sync::{Arc, Mutex, MutexGuard, Once};
use std::vec;
use std::vec::Vec;

use virtio_drivers::transport::{DeviceStatus, DeviceType, InterruptStatus, Transport};
use virtio_drivers::{Error, PhysAddr};
use zerocopy::{FromBytes, Immutable, IntoBytes};

use crate::device_memory::DeviceMemory;

/// The device finds memory so far from where the program does, as on a bus of its own.
const MOVED: u64 = 0x10_0000_0000;

/// Lends memory for all tests of the process.
pub(super) fn lend_memory() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let memory = Box::leak(vec![0xEE; 16 << 20].into_boxed_slice());
        let address = memory.as_mut_ptr().expose_provenance() as u64 + MOVED;
        // SAFETY: the tests' device takes the same number off every address.
        super::super::lend_device_memory(unsafe { DeviceMemory::at(memory, address) }).unwrap();
    });
}

/// Address, length, and whether the device is to write.
type DescribedBuffer = (u64, u32, bool);

#[derive(Clone, Copy, Default)]
struct DeviceQueue {
    size: usize,
    descriptors: u64,
    available: u64,
    used: u64,
    /// Positions in the two rings.
    seen: u16,
    returned: u16,
}

struct DeviceState {
    kind: DeviceType,
    features: u64,
    accepted: u64,
    accepts: bool,
    status: DeviceStatus,
    config: [u8; 12],
    queue_max: u32,
    queues: [DeviceQueue; 2],
    hold: bool,
    sent: Vec<Vec<u8>>,
}

#[derive(Clone)]
pub(super) struct FakeDevice(Arc<Mutex<DeviceState>>);

const MTU: u64 = 1 << 3;
const MAC: u64 = 1 << 5;
const STATUS: u64 = 1 << 16;
const VERSION_1: u64 = 1 << 32;
/// Features that this driver does not know and must not accept: checksums, merged buffers, indirect
/// descriptors, event indices.
const OTHERS: u64 = 1 | 1 << 15 | 1 << 28 | 1 << 29;

const RECEIVE: usize = 0;
const TRANSMIT: usize = 1;

impl FakeDevice {
    fn new(features: u64) -> Self {
        Self(Arc::new(Mutex::new(DeviceState {
            kind: DeviceType::Network,
            features,
            accepted: 0,
            accepts: true,
            status: DeviceStatus::empty(),
            config: [2, 0, 0, 0, 0, 9, 1, 0, 1, 0, 0, 0],
            queue_max: 256,
            queues: [DeviceQueue::default(); 2],
            hold: false,
            sent: Vec::new(),
        })))
    }

    pub(super) fn modern() -> Self {
        Self::new(MAC | STATUS | VERSION_1 | OTHERS)
    }

    pub(super) fn legacy() -> Self {
        Self::new(MAC | STATUS | OTHERS)
    }

    pub(super) fn registers(&self) -> Registers {
        Registers(self.clone())
    }

    fn state(&self) -> MutexGuard<'_, DeviceState> {
        self.0.lock().unwrap()
    }

    pub(super) fn set_mtu(&self, mtu: u16) {
        let mut state = self.state();
        state.features |= MTU;
        state.config[10..].copy_from_slice(&mtu.to_le_bytes());
    }

    pub(super) fn set_link(&self, up: bool) {
        self.state().config[6] = u8::from(up);
    }

    pub(super) fn set_type(&self, kind: DeviceType) {
        self.state().kind = kind;
    }

    pub(super) fn set_queue_max(&self, max: u32) {
        self.state().queue_max = max;
    }

    pub(super) fn refuse_features(&self) {
        self.state().accepts = false;
    }

    pub(super) fn forget_mac(&self) {
        self.state().features &= !MAC;
    }

    pub(super) fn status(&self) -> DeviceStatus {
        self.state().status
    }

    /// Sets whether frames that are to be sent are left in the queue.
    pub(super) fn hold(&self, hold: bool) {
        let mut state = self.state();
        state.hold = hold;
        state.transmit();
    }

    /// The frames that were sent since the last time.
    pub(super) fn sent(&self) -> Vec<Vec<u8>> {
        core::mem::take(&mut self.state().sent)
    }

    /// A frame comes. False: there is no buffer for it.
    pub(super) fn deliver(&self, frame: &[u8]) -> bool {
        let header = self.state().header_bytes();
        self.deliver_as(frame, (header + frame.len()) as u32)
    }

    /// A frame comes, and the device says to have written `len` bytes.
    pub(super) fn deliver_as(&self, frame: &[u8], len: u32) -> bool {
        let mut state = self.state();
        let header = state.header_bytes();
        let Some((head, chain)) = state.next(RECEIVE) else { return false };
        let [(address, room, true)] = chain[..] else { panic!("one buffer to be written") };
        let bytes = [&vec![0; header][..], frame].concat();
        assert!(bytes.len() <= room as usize);
        // SAFETY: the driver says that these bytes may be written.
        unsafe { core::ptr::copy(bytes.as_ptr(), address as *mut u8, bytes.len()) };
        state.give_back(RECEIVE, u32::from(head), len);
        true
    }

    /// Gives something back, whether it was given or not.
    pub(super) fn give_back(&self, queue: u16, id: u32, len: u32) {
        self.state().give_back(usize::from(queue), id, len);
    }

    /// The used ring's index becomes any number.
    pub(super) fn jump(&self, queue: u16, index: u16) {
        let mut state = self.state();
        let queue = &mut state.queues[usize::from(queue)];
        queue.returned = index;
        // SAFETY: the driver says that this is the used ring.
        unsafe { ((queue.used + 2) as *mut u16).write_volatile(index) };
    }
}

impl DeviceState {
    fn header_bytes(&self) -> usize {
        if self.accepted & VERSION_1 == 0 { 10 } else { 12 }
    }

    /// The next chain of a queue: its head, and the address, length and direction of each
    /// descriptor.
    fn next(&mut self, index: usize) -> Option<(u16, Vec<DescribedBuffer>)> {
        let queue = &mut self.queues[index];
        if queue.size == 0 {
            return None;
        }
        let mut chain = Vec::new();
        // SAFETY: the driver says that its descriptors and its ring are there.
        let head = unsafe {
            if ((queue.available + 2) as *const u16).read_volatile() == queue.seen {
                return None;
            }
            let slot = u64::from(queue.seen) % queue.size as u64;
            let head = ((queue.available + 4 + 2 * slot) as *const u16).read_volatile();
            let mut descriptor = queue.descriptors + 16 * u64::from(head);
            loop {
                let address = (descriptor as *const u64).read_volatile() - MOVED;
                let len = ((descriptor + 8) as *const u32).read_volatile();
                let flags = ((descriptor + 12) as *const u16).read_volatile();
                chain.push((address, len, flags & 2 != 0));
                if flags & 1 == 0 {
                    break head;
                }
                let next = ((descriptor + 14) as *const u16).read_volatile();
                descriptor = queue.descriptors + 16 * u64::from(next);
            }
        };
        queue.seen = queue.seen.wrapping_add(1);
        Some((head, chain))
    }

    fn give_back(&mut self, index: usize, id: u32, len: u32) {
        let queue = &mut self.queues[index];
        let slot = u64::from(queue.returned) % queue.size as u64;
        queue.returned = queue.returned.wrapping_add(1);
        // SAFETY: the driver says that this is the used ring.
        unsafe {
            ((queue.used + 4 + 8 * slot) as *mut u32).write_volatile(id);
            ((queue.used + 8 + 8 * slot) as *mut u32).write_volatile(len);
            ((queue.used + 2) as *mut u16).write_volatile(queue.returned);
        }
    }

    fn transmit(&mut self) {
        while !self.hold
            && let Some((head, chain)) = self.next(TRANSMIT)
        {
            let mut bytes = Vec::new();
            for (address, len, write) in chain {
                assert!(!write);
                // SAFETY: the driver says that these bytes may be read.
                let piece = unsafe { core::slice::from_raw_parts(address as *const u8, len as usize) };
                bytes.extend_from_slice(piece);
            }
            let (header, frame) = bytes.split_at(self.header_bytes());
            assert!(header.iter().all(|byte| *byte == 0));
            self.sent.push(frame.to_vec());
            self.give_back(TRANSMIT, u32::from(head), 0);
        }
    }
}

/// The registers, as a driver sees them.
pub(super) struct Registers(FakeDevice);

impl Transport for Registers {
    fn device_type(&self) -> DeviceType {
        self.0.state().kind
    }

    fn read_device_features(&mut self) -> u64 {
        self.0.state().features
    }

    fn write_driver_features(&mut self, accepted: u64) {
        let mut state = self.0.state();
        assert_eq!(
            accepted & (OTHERS | !state.features),
            0,
            "what is not offered or not known is not accepted"
        );
        state.accepted = accepted;
    }

    fn max_queue_size(&mut self, _queue: u16) -> u32 {
        self.0.state().queue_max
    }

    fn notify(&mut self, queue: u16) {
        if usize::from(queue) == TRANSMIT {
            self.0.state().transmit();
        }
    }

    fn get_status(&self) -> DeviceStatus {
        self.0.state().status
    }

    fn set_status(&mut self, status: DeviceStatus) {
        let mut state = self.0.state();
        if status == DeviceStatus::empty() {
            state.queues = [DeviceQueue::default(); 2];
        }
        state.status = status;
        if !state.accepts {
            state.status.remove(DeviceStatus::FEATURES_OK);
        }
    }

    fn set_guest_page_size(&mut self, _size: u32) {}

    fn requires_legacy_layout(&self) -> bool {
        self.0.state().features & VERSION_1 == 0
    }

    fn queue_set(
        &mut self,
        queue: u16,
        size: u32,
        descriptors: PhysAddr,
        available: PhysAddr,
        used: PhysAddr,
    ) {
        let size = size as usize;
        let [descriptors, available, used] = [descriptors, available, used].map(|address| address - MOVED);
        self.0.state().queues[usize::from(queue)] =
            DeviceQueue { size, descriptors, available, used, ..DeviceQueue::default() };
    }

    fn queue_unset(&mut self, queue: u16) {
        self.0.state().queues[usize::from(queue)] = DeviceQueue::default();
    }

    fn queue_used(&mut self, queue: u16) -> bool {
        self.0.state().queues[usize::from(queue)].size != 0
    }

    fn ack_interrupt(&mut self) -> InterruptStatus {
        InterruptStatus::empty()
    }

    fn read_config_generation(&self) -> u32 {
        0
    }

    fn read_config_space<T: FromBytes + IntoBytes>(&self, offset: usize) -> Result<T, Error> {
        let state = self.0.state();
        let bytes = state.config.get(offset..offset + size_of::<T>()).ok_or(Error::ConfigSpaceTooSmall)?;
        T::read_from_bytes(bytes).map_err(|_| Error::ConfigSpaceTooSmall)
    }

    fn write_config_space<T: IntoBytes + Immutable>(
        &mut self,
        _offset: usize,
        _value: T,
    ) -> Result<(), Error> {
        Err(Error::Unsupported)
    }
}

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
use crate::steering;

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
    /// The status that it says to have, whatever it is told.
    stuck: Option<DeviceStatus>,
    config: [u8; 24],
    queue_max: u32,
    /// Those of all pairs, and that of commands.
    queues: Vec<DeviceQueue>,
    hold: bool,
    /// Frames and the pairs by which they came.
    sent: Vec<(usize, Vec<u8>)>,
    answer: Answer,
    /// Pairs that are in use.
    in_use: u16,
    steering: Option<SteeringCommand>,
}

/// The answer of a device to commands.
#[derive(Clone, Copy)]
pub(super) enum Answer {
    /// Does as it is told.
    Done,
    /// Says this, whatever it is told.
    Says(u8),
    /// Writes nothing, and gives the command back.
    Nothing,
    /// Gives back another command.
    Another,
    /// Never answers.
    Silent,
    /// Wants to be reset.
    NeedsReset,
}

/// The table and the key by which queues are chosen.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct SteeringCommand {
    pub(super) types: u32,
    mask: u16,
    other: u16,
    table: Vec<u16>,
    pub(super) transmit: u16,
    key: Vec<u8>,
}

#[derive(Clone)]
pub(super) struct FakeDevice(Arc<Mutex<DeviceState>>);

const MTU: u64 = 1 << 3;
const MAC: u64 = 1 << 5;
const STATUS: u64 = 1 << 16;
const VERSION_1: u64 = 1 << 32;
/// Checksums either way.
pub(super) const CHECKSUMS: u64 = 1 | 1 << 1;
/// Commands, pairs of queues, and their choice by a hash.
pub(super) const CONTROL: u64 = 1 << 17;
pub(super) const MULTIQUEUE: u64 = 1 << 22;
pub(super) const RSS: u64 = 1 << 60;
/// Features that this driver does not know and must not accept: merged buffers, indirect
/// descriptors, event indices.
const OTHERS: u64 = 1 << 15 | 1 << 28 | 1 << 29;

impl FakeDevice {
    fn new(features: u64) -> Self {
        Self(Arc::new(Mutex::new(DeviceState {
            kind: DeviceType::Network,
            features,
            accepted: 0,
            accepts: true,
            status: DeviceStatus::empty(),
            stuck: None,
            // Address, state, pairs, MTU, speed, duplex, key bytes, table entries, kinds of hashes.
            config: [2, 0, 0, 0, 0, 9, 1, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 40, 128, 0, 7, 0, 0, 0],
            queue_max: 256,
            queues: vec![DeviceQueue::default(); 3],
            hold: false,
            sent: Vec::new(),
            answer: Answer::Done,
            in_use: 1,
            steering: None,
        })))
    }

    pub(super) fn modern() -> Self {
        Self::new(MAC | STATUS | VERSION_1 | OTHERS | CHECKSUMS)
    }

    /// A device of so many pairs of queues, which chooses among them by a hash if it is told.
    pub(super) fn of_pairs(pairs: u16) -> Self {
        let device = Self::modern();
        device.offer(CONTROL | MULTIQUEUE | RSS, true);
        device.configure(8, &pairs.to_le_bytes());
        device.state().queues = vec![DeviceQueue::default(); 2 * usize::from(pairs) + 1];
        device
    }

    /// Offers features, or does not any more.
    pub(super) fn offer(&self, features: u64, offered: bool) {
        let mut state = self.state();
        state.features = if offered { state.features | features } else { state.features & !features };
    }

    /// Says something else at a place of its configuration.
    pub(super) fn configure(&self, at: usize, bytes: &[u8]) {
        self.state().config[at..at + bytes.len()].copy_from_slice(bytes);
    }

    pub(super) fn accepted(&self) -> u64 {
        self.state().accepted
    }

    pub(super) fn set_answer(&self, answer: Answer) {
        self.state().answer = answer;
    }

    pub(super) fn in_use(&self) -> u16 {
        self.state().in_use
    }

    pub(super) fn steering(&self) -> Option<SteeringCommand> {
        self.state().steering.clone()
    }

    /// A frame comes by the queue that the device chooses: which pair that was.
    pub(super) fn arrive(&self, frame: &[u8]) -> Option<usize> {
        let pair = self.state().choose(frame);
        self.deliver_to(pair, frame).then_some(pair)
    }

    /// A frame comes by a pair. False: there is no buffer for it.
    pub(super) fn deliver_to(&self, pair: usize, frame: &[u8]) -> bool {
        let header = [0; 12];
        let len = header.len() + frame.len();
        self.write(2 * pair, &[&header, frame], len as u32)
    }

    /// A frame comes behind this header.
    pub(super) fn deliver_behind(&self, header: [u8; 10], frame: &[u8]) -> bool {
        self.write(0, &[&header, &[0; 2], frame], (12 + frame.len()) as u32)
    }

    fn write(&self, queue: usize, parts: &[&[u8]], len: u32) -> bool {
        let mut state = self.state();
        let Some((head, chain)) = state.next(queue) else { return false };
        let [(address, room, true)] = chain[..] else { panic!("one buffer to be written") };
        let bytes = parts.concat();
        assert!(bytes.len() <= room as usize);
        // SAFETY: the driver says that these bytes may be written.
        unsafe { core::ptr::copy(bytes.as_ptr(), address as *mut u8, bytes.len()) };
        state.give_back(queue, u32::from(head), len);
        true
    }

    pub(super) fn legacy() -> Self {
        Self::new(MAC | STATUS | OTHERS | CHECKSUMS)
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
        state.config[10..12].copy_from_slice(&mtu.to_le_bytes());
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

    /// The device says to have this status from now on, whatever it is told.
    pub(super) fn stick(&self, status: DeviceStatus) {
        self.state().stuck = Some(status);
    }

    /// Sets whether frames that are to be sent are left in the queue.
    pub(super) fn hold(&self, hold: bool) {
        let mut state = self.state();
        state.hold = hold;
        state.transmit();
    }

    /// The frames that were sent since the last time.
    pub(super) fn sent(&self) -> Vec<Vec<u8>> {
        self.sent_by_pairs().into_iter().map(|(_, frame)| frame).collect()
    }

    /// The frames that were sent since the last time, and by which pair each.
    pub(super) fn sent_by_pairs(&self) -> Vec<(usize, Vec<u8>)> {
        core::mem::take(&mut self.state().sent)
    }

    /// A frame comes. False: there is no buffer for it.
    pub(super) fn deliver(&self, frame: &[u8]) -> bool {
        let header = self.state().header_bytes();
        self.deliver_as(frame, (header + frame.len()) as u32)
    }

    /// A frame comes, and the device says to have written `len` bytes.
    pub(super) fn deliver_as(&self, frame: &[u8], len: u32) -> bool {
        let header = vec![0; self.state().header_bytes()];
        self.write(0, &[&header, frame], len)
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

    /// Sends what waits in all queues.
    fn transmit(&mut self) {
        let pairs = self.queues.len() / 2;
        for pair in 0..pairs {
            while !self.hold
                && let Some((head, chain)) = self.next(2 * pair + 1)
            {
                let bytes = read(&chain);
                let (header, frame) = bytes.split_at(self.header_bytes());
                let frame = self.completed(header, frame);
                self.sent.push((pair, frame));
                self.give_back(2 * pair + 1, u32::from(head), 0);
            }
        }
    }

    /// A frame with the checksum that the device is to complete.
    fn completed(&self, header: &[u8], frame: &[u8]) -> Vec<u8> {
        let mut frame = frame.to_vec();
        if header[0] != 0 {
            assert!(self.accepted & CHECKSUMS & 1 != 0, "nothing was agreed upon");
            assert_eq!((header[0], &header[1..6]), (1, &[0; 5][..]));
            let [start, offset] = [6, 8].map(|at| usize::from(header[at]) | usize::from(header[at + 1]) << 8);
            let words = frame[start..]
                .chunks(2)
                .map(|word| u32::from(word[0]) << 8 | word.get(1).map_or(0, |low| u32::from(*low)));
            let sum = words.sum::<u32>();
            let sum = (sum & 0xFFFF) + (sum >> 16);
            let sum = !((sum & 0xFFFF) + (sum >> 16)) as u16;
            frame[start + offset..][..2].copy_from_slice(&sum.to_be_bytes());
        } else {
            assert!(header.iter().all(|byte| *byte == 0));
        }
        frame
    }

    /// The pair by which a frame comes.
    fn choose(&self, frame: &[u8]) -> usize {
        let Some(SteeringCommand { types, mask, other, table, key, .. }) = &self.steering else { return 0 };
        assert_eq!(*types, 1, "the addresses of IPv4");
        if frame[12..14] != [8, 0] {
            return usize::from(*other);
        }
        let hash = steering::hash(key[..].try_into().unwrap(), &frame[26..34]);
        usize::from(table[(hash & u32::from(*mask)) as usize])
    }

    /// Carries out what waits in the queue of commands.
    fn obey(&mut self) {
        let queue = self.queues.len() - 1;
        while !matches!(self.answer, Answer::Silent)
            && let Some((head, chain)) = self.next(queue)
        {
            let (&(answer, 1, true), command) = chain.split_last().unwrap() else { panic!("no answer") };
            let said = match self.answer {
                Answer::Done => Some(self.carry_out(&read(command))),
                Answer::Says(said) => Some(said),
                _ => None,
            };
            if let Some(said) = said {
                // SAFETY: the driver says that this byte may be written.
                unsafe { (answer as *mut u8).write_volatile(said) };
            }
            if matches!(self.answer, Answer::NeedsReset) {
                self.status |= DeviceStatus::DEVICE_NEEDS_RESET;
                return;
            }
            let other = u32::from(matches!(self.answer, Answer::Another));
            self.give_back(queue, u32::from(head) + other, 1);
        }
    }

    /// Carries out a command: zero if it can be.
    fn carry_out(&mut self, command: &[u8]) -> u8 {
        let word = |at: usize| u16::from_le_bytes(command[at..at + 2].try_into().unwrap());
        let pairs = (self.queues.len() / 2) as u16;
        match command {
            [4, 0, _, _] if self.accepted & MULTIQUEUE != 0 && (1..=pairs).contains(&word(2)) => {
                self.in_use = word(2);
                0
            }
            [4, 1, ..] if self.accepted & RSS != 0 => {
                let entries = usize::from(word(6)) + 1;
                let table: Vec<u16> = (0..entries).map(|entry| word(10 + 2 * entry)).collect();
                let behind = 10 + 2 * entries;
                let key = command[behind + 3..].to_vec();
                if table.iter().any(|queue| *queue >= pairs) || usize::from(command[behind + 2]) != key.len()
                {
                    return 1;
                }
                let types = u32::from_le_bytes(command[2..6].try_into().unwrap());
                let (mask, other, transmit) = (word(6), word(8), word(behind));
                self.in_use = transmit;
                self.steering = Some(SteeringCommand { types, mask, other, table, transmit, key });
                0
            }
            _ => 1,
        }
    }
}

/// The bytes of a chain that is to be read.
fn read(chain: &[DescribedBuffer]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for (address, len, write) in chain {
        assert!(!write);
        // SAFETY: the driver says that these bytes may be read.
        bytes.extend_from_slice(unsafe { core::slice::from_raw_parts(*address as *const u8, *len as usize) });
    }
    bytes
}

/// The registers, as a driver sees them.
pub(super) struct Registers(FakeDevice);

/// Those of PCI wait in their drop until the device says that it was reset.
impl Drop for Registers {
    fn drop(&mut self) {
        self.set_status(DeviceStatus::empty());
        let waits_for_ever = !self.get_status().is_empty();
        assert!(std::thread::panicking() || !waits_for_ever, "this wait has no end");
    }
}

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
        let mut state = self.0.state();
        if usize::from(queue) == state.queues.len() - 1 {
            state.obey();
        } else if queue % 2 == 1 {
            state.transmit();
        }
    }

    fn get_status(&self) -> DeviceStatus {
        let state = self.0.state();
        state.stuck.unwrap_or(state.status)
    }

    fn set_status(&mut self, status: DeviceStatus) {
        let mut state = self.0.state();
        if status == DeviceStatus::empty() {
            state.queues.fill(DeviceQueue::default());
            (state.in_use, state.steering) = (1, None);
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

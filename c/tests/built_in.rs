//! This module holds `unsafe` code: calls of the interface of C, as a program in C makes them, and
//! devices in memory.
//!
//! Cards with a driver of the library's: a serial line between two ranks, and what is refused.

mod cable;

use core::ffi::c_void;
use core::ptr::{null, null_mut};
use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

use aldis::calls::*;
use aldis::types::{CardCallbacks, RankConfig, SLOW, SerialCallbacks};

use cable::{CableBoard, FrameQueue, JOB, SECOND};

const OK: i32 = 0;
const ARGUMENT: i32 = -1;
const MEMORY: i32 = -2;
const FULL: i32 = -7;
const CARD: i32 = -11;

/// An address of a card on a serial line.
const MAC: [u8; 6] = [2, 0, 0, 0, 0, 7];

/// `aldis_card` as it begins.
fn no_card() -> CardCallbacks {
    CardCallbacks {
        context: null_mut(),
        mac: [0; 6],
        mtu: 0,
        receive: None,
        release: None,
        reserve: None,
        commit: None,
    }
}

/// Memory for good, whose first byte is at an odd address.
fn memory(bytes: usize) -> *mut c_void {
    let memory = Box::leak(vec![0xA5_A5_A5_A5_A5_A5_A5_A5_u64; bytes / 8 + 2].into_boxed_slice());
    memory.as_mut_ptr().cast::<u8>().wrapping_add(1).cast()
}

type ByteQueue = Arc<Mutex<VecDeque<u8>>>;

/// An end of a serial line.
struct LineEnd {
    incoming: ByteQueue,
    outgoing: ByteQueue,
}

unsafe extern "C" fn read(end: *mut c_void, bytes: *mut u8, room: usize) -> usize {
    // SAFETY: the line's context, which one thread uses.
    let mut incoming = unsafe { &*end.cast::<LineEnd>() }.incoming.lock().unwrap();
    let count = room.min(incoming.len());
    for (at, byte) in incoming.drain(..count).enumerate() {
        // SAFETY: so much room is there.
        unsafe { bytes.add(at).write(byte) };
    }
    count
}

unsafe extern "C" fn write(end: *mut c_void, bytes: *const u8, count: usize) -> usize {
    // SAFETY: as above.
    let mut outgoing = unsafe { &*end.cast::<LineEnd>() }.outgoing.lock().unwrap();
    let count = count.min(7).min(512_usize.saturating_sub(outgoing.len()));
    // SAFETY: so many bytes are there.
    outgoing.extend((0..count).map(|at| unsafe { bytes.add(at).read() }));
    count
}

fn line(end: &mut LineEnd) -> SerialCallbacks {
    SerialCallbacks { context: (&raw mut *end).cast(), read: Some(read), write: Some(write) }
}

/// Joins, passes messages of several lengths both ways and a sum, and leaves.
fn play(rank: u32, mut end: LineEnd) {
    let bytes = aldis_serial_memory_bytes(0);
    let mut card = CardCallbacks { mac: [2, 0, 0, 0, 0, rank as u8 + 1], ..no_card() };
    // SAFETY: all are there, for as long as the card is used.
    assert_eq!(unsafe { aldis_serial_card(&mut card, &line(&mut end), memory(bytes), bytes) }, OK);
    assert_eq!((card.mtu, card.mac[5]), (1500, rank as u8 + 1));
    let mut board = CableBoard::new(&FrameQueue::default(), &FrameQueue::default());
    let config = RankConfig { flags: SLOW, ..RankConfig::new(JOB, rank, 2) };
    assert_eq!(board.init_on(&config, &card), OK, "{}", board.last_error());
    let other = 1 - rank;
    for bytes in [0, 24, 1024, 20_000] {
        let mine = vec![rank as u8 + 3; bytes];
        let mut theirs = vec![0_u8; bytes];
        // SAFETY: the memory is there.
        unsafe {
            let send = || aldis_send(board.rank, mine.as_ptr().cast(), bytes, other, 1, 20 * SECOND);
            let start = if rank == 0 { send() } else { OK };
            let buffer = theirs.as_mut_ptr().cast();
            assert_eq!(aldis_recv(board.rank, buffer, bytes, other, 1, 20 * SECOND, null_mut()), OK);
            assert_eq!((start, if rank == 1 { send() } else { OK }), (OK, OK), "{}", board.last_error());
        }
        assert_eq!(theirs, vec![other as u8 + 3; bytes]);
    }
    let (mut sum, mut scratch) = ([u64::from(rank) + 1; 3], [0_u64; 1]);
    // SAFETY: as above.
    unsafe {
        let (data, scratch) = (sum.as_mut_ptr().cast(), scratch.as_mut_ptr().cast());
        assert_eq!(aldis_allreduce(board.rank, data, 3, scratch, 1, 8, 0, 20 * SECOND), OK);
        assert_eq!(aldis_finalize(board.rank, 20 * SECOND), OK);
    }
    assert_eq!(sum, [3; 3]);
}

#[test]
fn two_ranks_pass_messages_over_a_serial_line() {
    let (there, back) = (ByteQueue::default(), ByteQueue::default());
    std::thread::scope(|threads| {
        let end = LineEnd { incoming: back.clone(), outgoing: there.clone() };
        threads.spawn(|| play(0, end));
        threads.spawn(|| play(1, LineEnd { incoming: there, outgoing: back }));
    });
}

#[test]
fn lines_that_cannot_be_are_refused() {
    let mut end = LineEnd { incoming: ByteQueue::default(), outgoing: ByteQueue::default() };
    let (line, bytes) = (line(&mut end), aldis_serial_memory_bytes(0));
    let given = memory(bytes);
    let make = |card: &mut CardCallbacks, line: *const SerialCallbacks, memory, bytes| {
        // SAFETY: what is not null is there.
        let result = unsafe { aldis_serial_card(card, line, memory, bytes) };
        assert!(result == OK || card.context.is_null() && card.receive.is_none());
        result
    };
    let with_mac = || CardCallbacks { mac: MAC, ..no_card() };
    assert_eq!(make(&mut no_card(), &line, given, bytes), ARGUMENT, "no address");
    let mut to_many = CardCallbacks { mac: [3, 0, 0, 0, 0, 1], ..no_card() };
    assert_eq!(make(&mut to_many, &line, given, bytes), ARGUMENT);
    assert_eq!(make(&mut with_mac(), null(), given, bytes), ARGUMENT);
    assert_eq!(make(&mut with_mac(), &line, null_mut(), bytes), ARGUMENT);
    assert_eq!(make(&mut with_mac(), &line, given, bytes - 1), MEMORY);
    for lacking in [SerialCallbacks { read: None, ..line }, SerialCallbacks { write: None, ..line }] {
        assert_eq!(make(&mut with_mac(), &lacking, given, bytes), ARGUMENT);
    }
    // SAFETY: a null card is refused.
    assert_eq!(unsafe { aldis_serial_card(null_mut(), &line, given, bytes) }, ARGUMENT);
    assert_eq!(make(&mut with_mac(), &line, given, bytes), OK);
    let mut small = CardCallbacks { mtu: 100, ..with_mac() };
    assert_eq!(make(&mut small, &line, given, aldis_serial_memory_bytes(100)), OK);
    // Frames of a message do not fit, as on a card by callbacks.
    let mut board = CableBoard::new(&FrameQueue::default(), &FrameQueue::default());
    assert_eq!(board.init_on(&RankConfig::new(JOB, 0, 2), &small), CARD);
    assert_eq!(board.init(&RankConfig::new(JOB, 0, 2), 100), CARD);
}

/// A line that says it took or gave more than there was.
unsafe extern "C" fn lie(_: *mut c_void, bytes: *mut u8, room: usize) -> usize {
    // SAFETY: so much room is there.
    unsafe { bytes.write_bytes(1, room) };
    usize::MAX
}

unsafe extern "C" fn swallow(_: *mut c_void, _: *const u8, _: usize) -> usize {
    usize::MAX
}

#[test]
fn a_line_that_lies_about_its_bytes_costs_frames_alone() {
    let bytes = aldis_serial_memory_bytes(0);
    let mut card = CardCallbacks { mac: MAC, ..no_card() };
    let line = SerialCallbacks { context: null_mut(), read: Some(lie), write: Some(swallow) };
    // SAFETY: all are there.
    assert_eq!(unsafe { aldis_serial_card(&mut card, &line, memory(bytes), bytes) }, OK);
    let mut board = CableBoard::new(&FrameQueue::default(), &FrameQueue::default());
    let config = RankConfig { join_timeout_ns: SECOND / 10, ..RankConfig::new(JOB, 0, 2) };
    assert_eq!(board.init_on(&config, &card), -10, "nobody is there");
}

/// Registers in memory, with these words at offsets.
fn registers(bytes: usize, fill: u32, words: &[(usize, u32)]) -> *mut c_void {
    let memory = Box::leak(vec![u64::from(fill) << 32 | u64::from(fill); bytes / 8].into_boxed_slice());
    let base = memory.as_mut_ptr().cast::<u8>();
    for (offset, word) in words {
        // SAFETY: within the memory, aligned.
        unsafe { base.add(*offset).cast::<u32>().write_volatile(*word) };
    }
    base.expose_provenance();
    base.cast()
}

#[test]
fn gigabit_controllers_that_are_not_there_are_refused() {
    let bytes = aldis_e1000e_memory_bytes(0);
    assert_eq!((aldis_e1000e_memory_bytes(1500), aldis_e1000e_memory_bytes(9217)), (bytes, 0));
    let (given, silent) = (memory(bytes), registers(0x2_0000, 0, &[]));
    let make = |mtu: u16, registers: *mut c_void, memory, bytes| {
        let mut card = CardCallbacks { mtu, ..no_card() };
        // SAFETY: what is not null is there.
        let result = unsafe { aldis_e1000e_card(&mut card, registers, memory, bytes) };
        assert!(card.context.is_null() && card.receive.is_none());
        result
    };
    assert_eq!(make(0, null_mut(), given, bytes), ARGUMENT);
    assert_eq!(make(0, silent.wrapping_byte_add(2), given, bytes), ARGUMENT);
    assert_eq!(make(0, silent, null_mut(), bytes), ARGUMENT);
    assert_eq!(make(9217, silent, given, bytes), ARGUMENT);
    assert_eq!(make(0, silent, given, bytes - 1), MEMORY);
    // Neither memory, which does not end the reset, nor what no device answers to.
    assert_eq!(make(0, silent, given, bytes), CARD);
    assert_eq!(make(0, registers(0x2_0000, u32::MAX, &[]), given, bytes), CARD);
}

const SLOT_BYTES: usize = 0x200;
const STATUS_AT: usize = 0x70;

/// A virtio device of this kind that begins with a status and is otherwise nothing but memory: it
/// has features and no queues.
fn virtio_device(kind: u32) -> *mut c_void {
    let words = [(0, 0x7472_6976), (4, 2), (8, kind), (0x10, 0x21), (STATUS_AT, 4)];
    registers(SLOT_BYTES, 0, &words)
}

#[test]
fn slots_are_tried_and_other_devices_left_alone() {
    let bytes = aldis_virtio_memory_bytes(0);
    assert_eq!((aldis_virtio_memory_bytes(1500), aldis_virtio_memory_bytes(u16::MAX)), (bytes, 0));
    let given = memory(bytes);
    let make = |mtu: u16, slot: *mut c_void, memory, bytes| {
        let mut card = CardCallbacks { mtu, ..no_card() };
        // SAFETY: what is not null is there.
        let result = unsafe { aldis_virtio_card(&mut card, slot, memory, bytes) };
        assert!(card.context.is_null() && card.receive.is_none());
        result
    };
    let (empty, block, network) = (registers(SLOT_BYTES, 0, &[]), virtio_device(2), virtio_device(1));
    assert_eq!(make(0, null_mut(), given, bytes), ARGUMENT);
    assert_eq!(make(0, network.wrapping_byte_add(4), given, bytes), ARGUMENT);
    assert_eq!(make(0, network, null_mut(), bytes), ARGUMENT);
    assert_eq!(make(u16::MAX, network, given, bytes), ARGUMENT);
    assert_eq!(make(0, network, given, bytes - 1), MEMORY);
    assert_eq!((make(0, empty, given, bytes), make(0, block, given, bytes)), (CARD, CARD));
    let status = |slot: *mut c_void| {
        // SAFETY: within the slot, aligned.
        unsafe { slot.byte_add(STATUS_AT).cast::<u32>().read_volatile() }
    };
    assert_eq!((status(block), status(network)), (4, 4));
    assert_eq!(make(0, network, given, bytes), CARD, "it has no queues");
    assert_eq!(status(network), 0, "it was reset");
    let other = virtio_device(1);
    assert_eq!((make(0, other, memory(bytes), bytes), status(other)), (FULL, 4));
}

#[test]
fn memory_of_cards_is_what_the_guide_says() {
    let kib = [aldis_virtio_memory_bytes(0), aldis_e1000e_memory_bytes(0), aldis_serial_memory_bytes(0)]
        .map(|bytes| bytes.div_ceil(1024));
    assert_eq!(kib, [219, 259, 4]);
}

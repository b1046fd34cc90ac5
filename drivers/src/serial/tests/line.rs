//! Devices on lines: streams in memory with little room, that fail on request.

use core::cell::RefCell;
use std::boxed::Box;
use std::collections::VecDeque;
use std::rc::Rc;
use std::vec;
use std::vec::Vec;

use aldis_hal::nic::{Mac, Nic, RxFrame, TxFrame};
use embedded_io::ErrorKind;
use proptest::prelude::{ProptestConfig, any, prop_assert, prop_assert_eq, proptest};

use super::super::{SerialCounters, SerialNic, SerialStorage, cobs};

/// Bytes on their way in one direction.
#[derive(Default)]
struct ByteQueue {
    bytes: VecDeque<u8>,
    /// The number of bytes that it holds.
    room: usize,
    /// The error with which the next look at either end fails.
    error: Option<ErrorKind>,
}

/// An end of a line.
struct LineEnd {
    into: Rc<RefCell<ByteQueue>>,
    from: Rc<RefCell<ByteQueue>>,
}

impl embedded_io::ErrorType for LineEnd {
    type Error = ErrorKind;
}

impl embedded_io::Read for LineEnd {
    fn read(&mut self, bytes: &mut [u8]) -> Result<usize, ErrorKind> {
        let mut queue = self.from.borrow_mut();
        assert!(!queue.bytes.is_empty(), "this would block");
        let len = bytes.len().min(queue.bytes.len());
        bytes[..len].fill_with(|| queue.bytes.pop_front().unwrap());
        Ok(len)
    }
}

impl embedded_io::ReadReady for LineEnd {
    fn read_ready(&mut self) -> Result<bool, ErrorKind> {
        let mut queue = self.from.borrow_mut();
        queue.error.take().map_or(Ok(!queue.bytes.is_empty()), Err)
    }
}

impl embedded_io::Write for LineEnd {
    fn write(&mut self, bytes: &[u8]) -> Result<usize, ErrorKind> {
        let mut queue = self.into.borrow_mut();
        let len = bytes.len().min(queue.room - queue.bytes.len());
        assert!(len > 0, "this would block");
        queue.bytes.extend(&bytes[..len]);
        Ok(len)
    }
    fn flush(&mut self) -> Result<(), ErrorKind> {
        Ok(())
    }
}

impl embedded_io::WriteReady for LineEnd {
    fn write_ready(&mut self) -> Result<bool, ErrorKind> {
        let mut queue = self.into.borrow_mut();
        queue.error.take().map_or(Ok(queue.bytes.len() < queue.room), Err)
    }
}

const FRAME_BYTES: usize = 300;

type SerialEnd = SerialNic<'static, LineEnd>;

/// Two devices on a line that holds `room` bytes each way, and the direction from the first to the
/// second.
fn pair(room: usize) -> (SerialEnd, SerialEnd, Rc<RefCell<ByteQueue>>) {
    let queue = || Rc::new(RefCell::new(ByteQueue { room, ..ByteQueue::default() }));
    let (there, back) = (queue(), queue());
    let device = |into: &Rc<RefCell<ByteQueue>>, from: &Rc<RefCell<ByteQueue>>, number| {
        let storage = Box::leak(Box::new(SerialStorage::<FRAME_BYTES>::new()));
        let end = LineEnd { into: into.clone(), from: from.clone() };
        SerialNic::new(end, storage.memory(), Mac([2, 0, 0, 0, 0, number]))
    };
    (device(&there, &back, 1), device(&back, &there, 2), there)
}

fn send(nic: &mut SerialEnd, frame: &[u8]) -> bool {
    let Some(mut token) = nic.transmit(frame.len()) else { return false };
    token.bytes().copy_from_slice(frame);
    token.send();
    true
}

fn receive(nic: &mut SerialEnd) -> Option<Vec<u8>> {
    nic.receive().map(|frame| frame.bytes().to_vec())
}

/// All that comes of `frames` at the other end, and what that end has counted.
fn passed(room: usize, frames: &[Vec<u8>]) -> (Vec<Vec<u8>>, SerialCounters) {
    let (mut one, mut other, _) = pair(room);
    let mut received = Vec::new();
    for frame in frames {
        while !send(&mut one, frame) {
            received.extend(receive(&mut other));
        }
    }
    for _ in 0..2 * (FRAME_BYTES + 4) {
        one.push();
        received.extend(receive(&mut other));
    }
    assert_eq!(one.counters().frames_sent, frames.len() as u64);
    (received, other.counters())
}

#[test]
fn sizes_are_the_memorys() {
    let (mut one, ..) = pair(10_000);
    assert_eq!((one.mtu(), one.mac()), (FRAME_BYTES - 14, Mac([2, 0, 0, 0, 0, 1])));
    assert!(one.transmit(FRAME_BYTES + 1).is_none());
    assert!(one.transmit(FRAME_BYTES).is_some());
}

#[test]
fn a_token_that_is_dropped_sends_nothing() {
    let (mut one, mut other, _) = pair(10_000);
    assert_eq!(one.transmit(20).map(|mut token| token.bytes().len()), Some(20));
    assert!(send(&mut one, &[5; 30]));
    assert_eq!(receive(&mut other), Some(vec![5; 30]));
    assert_eq!(receive(&mut other), None);
}

#[test]
fn one_frame_is_on_its_way_at_a_time() {
    let (mut one, mut other, _) = pair(16);
    assert!(send(&mut one, &[5; 100]));
    assert!(!send(&mut one, &[6; 100]), "the line holds 16 bytes of the first");
    let mut calls = 0;
    let frame = loop {
        one.push();
        calls += 1;
        if let Some(frame) = receive(&mut other) {
            break frame;
        }
    };
    assert_eq!((frame, calls), (vec![5; 100], 7), "103 bytes");
    assert!(send(&mut one, &[6; 100]));
}

#[test]
fn what_is_left_of_an_earlier_life_is_no_part_of_a_frame() {
    let (mut one, mut other, line) = pair(10_000);
    line.borrow_mut().bytes.extend([9, 1, 2, 3]);
    assert!(send(&mut one, &[5; 20]));
    assert_eq!(receive(&mut other), Some(vec![5; 20]));
    assert_eq!((other.counters().truncated, other.counters().frames_received), (1, 1));
}

#[test]
fn damage_is_counted_by_kind() {
    let (mut one, mut other, line) = pair(10_000);
    let mut wire = vec![0; cobs::encoded_bytes_max(FRAME_BYTES + 1)];
    let len = cobs::encode(&[3; FRAME_BYTES + 1], &mut wire).unwrap();
    line.borrow_mut().bytes.extend(&wire[..len]);
    line.borrow_mut().bytes.extend([0, 0, 200, 1, 0]);
    assert!(send(&mut one, b"whole"));
    let whole = (0..3).find_map(|_| receive(&mut other));
    assert_eq!(whole.as_deref(), Some(&b"whole"[..]));
    let SerialCounters { too_long, truncated, errors, frames_received, .. } = other.counters();
    assert_eq!((too_long, truncated, errors, frames_received), (1, 1, 0, 1));
}

#[test]
fn a_stream_that_fails_loses_the_frame_on_its_way_and_no_other() {
    let (mut one, mut other, line) = pair(40);
    assert!(send(&mut one, &[5; 100]));
    assert_eq!(receive(&mut other), None);
    line.borrow_mut().error = Some(ErrorKind::Other);
    one.push();
    assert_eq!(one.counters().errors, 1);
    assert!(send(&mut one, &[6; 20]), "the first is given up");
    assert_eq!(receive(&mut other), Some(vec![6; 20]));
    assert_eq!((one.counters().frames_sent, other.counters().truncated), (1, 1));

    assert!(send(&mut one, &[7; 70]));
    assert_eq!(receive(&mut other), None);
    line.borrow_mut().error = Some(ErrorKind::Other);
    assert_eq!(receive(&mut other), None);
    one.push();
    assert_eq!(receive(&mut other), None, "bytes are missing");
    assert!(send(&mut one, &[8; 20]));
    assert_eq!(receive(&mut other), Some(vec![8; 20]));
    assert_eq!((other.counters().errors, other.counters().truncated), (1, 2));
}

#[test]
fn a_call_takes_a_bounded_number_of_bytes() {
    let (_, mut other, line) = pair(100_000);
    line.borrow_mut().bytes.extend(vec![7; 100_000]);
    assert_eq!(receive(&mut other), None);
    let taken = 100_000 - line.borrow().bytes.len();
    assert!(taken <= cobs::encoded_bytes_max(FRAME_BYTES) + 32, "{taken}");
    assert!(taken >= FRAME_BYTES, "{taken}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]

    #[test]
    fn frames_pass_whatever_the_line_holds(
        room in 1usize..80,
        frames in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..FRAME_BYTES), 0..8),
    ) {
        let (received, counters) = passed(room, &frames);
        prop_assert_eq!(received, frames);
        prop_assert_eq!((counters.truncated, counters.too_long, counters.errors), (0, 0, 0));
    }

    #[test]
    fn noise_costs_frames_and_nothing_else(
        noise in proptest::collection::vec(any::<u8>(), 0..1500),
        frame in proptest::collection::vec(any::<u8>(), 0..FRAME_BYTES),
    ) {
        let (mut one, mut other, line) = pair(10_000);
        line.borrow_mut().bytes.extend(&noise);
        prop_assert!(send(&mut one, &frame));
        let mut last = None;
        for _ in 0..noise.len() + 8 {
            if let Some(received) = receive(&mut other) {
                prop_assert!(received.len() <= FRAME_BYTES);
                last = Some(received);
            }
        }
        prop_assert_eq!(last, Some(frame));
    }
}

//! Two ranks on a serial line: a pipe of bytes each way.

use core::cell::RefCell;
use core::convert::Infallible;
use std::collections::VecDeque;
use std::rc::Rc;

use aldis_drivers::serial::{SerialNic, SerialStorage};
use aldis_hal::nic::Mac;

use crate::rig::{Draw, FRAME_BYTES, LinkedPair};

/// Bytes that a pipe holds: the queue of a UART.
const PIPE_BYTES: usize = 64;

/// A direction of a line. Of `every` bytes one is lost, one has a bit flipped, and one has a
/// companion; now and then there is a burst of noise.
struct SerialPipe {
    bytes: VecDeque<u8>,
    draw: Draw,
    every: Option<u64>,
}

/// Bytes of a burst of noise at most: more than the longest frame.
const BURST_BYTES: u64 = 2_000;

impl SerialPipe {
    fn carry(&mut self, byte: u8) {
        let Some(every) = self.every else { return self.bytes.push_back(byte) };
        if self.draw.once_in(every) {
            return;
        }
        let flipped = u8::from(self.draw.once_in(every)) << (self.draw.next() % 8);
        self.bytes.push_back(byte ^ flipped);
        if self.draw.once_in(every) {
            self.bytes.push_back(self.draw.next() as u8);
        }
        if self.draw.once_in(50 * every) {
            // One in two without a zero in it: a frame that is too long.
            let (len, or) = (self.draw.next() % BURST_BYTES, self.draw.next() as u8 & 1);
            let noise = core::iter::repeat_with(|| self.draw.next() as u8 | or);
            self.bytes.extend(noise.take(len as usize));
        }
    }
}

/// An end of a line.
pub(crate) struct SerialLine {
    into: Rc<RefCell<SerialPipe>>,
    from: Rc<RefCell<SerialPipe>>,
}

impl embedded_io::ErrorType for SerialLine {
    type Error = Infallible;
}

impl embedded_io::Read for SerialLine {
    fn read(&mut self, bytes: &mut [u8]) -> Result<usize, Infallible> {
        let mut pipe = self.from.borrow_mut();
        assert!(!pipe.bytes.is_empty(), "this would block");
        let len = bytes.len().min(pipe.bytes.len());
        bytes[..len].fill_with(|| pipe.bytes.pop_front().unwrap());
        Ok(len)
    }
}

impl embedded_io::ReadReady for SerialLine {
    fn read_ready(&mut self) -> Result<bool, Infallible> {
        Ok(!self.from.borrow().bytes.is_empty())
    }
}

impl embedded_io::Write for SerialLine {
    fn write(&mut self, bytes: &[u8]) -> Result<usize, Infallible> {
        let mut pipe = self.into.borrow_mut();
        let len = bytes.len().min(PIPE_BYTES.saturating_sub(pipe.bytes.len()));
        assert!(len > 0, "this would block");
        bytes[..len].iter().for_each(|byte| pipe.carry(*byte));
        Ok(len)
    }
    fn flush(&mut self) -> Result<(), Infallible> {
        Ok(())
    }
}

impl embedded_io::WriteReady for SerialLine {
    fn write_ready(&mut self) -> Result<bool, Infallible> {
        Ok(self.into.borrow().bytes.len() < PIPE_BYTES)
    }
}

/// Two devices on a line with these faults.
pub(crate) fn devices(seed: u64, every: Option<u64>) -> [SerialNic<'static, SerialLine>; 2] {
    let pipe = |seed| Rc::new(RefCell::new(SerialPipe { bytes: VecDeque::new(), draw: Draw(seed), every }));
    let (there, back) = (pipe(seed), pipe(!seed));
    let ends = [(&there, &back, 1), (&back, &there, 2)];
    ends.map(|(into, from, number)| {
        let storage = Box::leak(Box::new(SerialStorage::<FRAME_BYTES>::new()));
        let line = SerialLine { into: into.clone(), from: from.clone() };
        SerialNic::new(line, storage.memory(), Mac([2, 0, 0, 0, 0, number]))
    })
}

fn pair(seed: u64, every: Option<u64>) -> LinkedPair<SerialNic<'static, SerialLine>> {
    LinkedPair::new(devices(seed, every))
}

#[test]
fn ping_pong_on_a_line_that_damages_bytes() {
    let (mut truncated, mut too_long, mut checksum) = (0, 0, 0);
    for seed in 0..10 {
        let mut pair = pair(seed, Some(2_000));
        pair.ping_pong(24);
        for end in &pair.ends {
            let transport = end.transport();
            truncated += transport.nic().counters().truncated;
            too_long += transport.nic().counters().too_long;
            checksum += transport.counters().checksum;
        }
    }
    assert!(truncated > 10 && too_long > 0 && checksum > 10, "{truncated}, {too_long}, {checksum}");
}

#[test]
fn a_rendezvous_of_100_kib_on_a_line_that_damages_bytes() {
    for seed in 0..2 {
        pair(seed, Some(4_000)).rendezvous();
    }
}

#[test]
fn on_a_good_line_nothing_is_sent_twice() {
    let mut pair = pair(1, None);
    pair.ping_pong(24);
    pair.rendezvous();
    for end in &pair.ends {
        let counters = end.transport().counters();
        assert_eq!(
            (counters.retransmitted, counters.duplicates, counters.checksum),
            (0, 0, 0),
            "{counters:?}"
        );
        let line = end.transport().nic().counters();
        assert_eq!((line.truncated, line.too_long, line.errors), (0, 0, 0));
    }
}

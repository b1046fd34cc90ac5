//! A port: the socket, the queue before the member, and the faults of both directions.

use std::collections::VecDeque;
use std::io;
use std::path::Path;

use aldis_nic::Capture;
use aldis_sys::event::{PollFd, PollFlags};

use super::cable::{Cable, CableKind, Handed, Unreadable};
use super::direction::Direction;
use super::faults::PortFaults;
use super::statistics::PortStatistics;
use super::{BURST_FRAMES, FRAME_BYTES_MIN, QUEUE_FRAMES, RETRY_NS};

/// The places of a frame's EtherType and, in a packet of IPv4 (RFC 791), of its protocol; and their
/// values for UDP.
const ETHERTYPE: core::ops::Range<usize> = 12..14;
const ETHERTYPE_IPV4: [u8; 2] = [8, 0];
const PROTOCOL: usize = 23;
const PROTOCOL_UDP: u8 = 17;

/// Returns true if a frame carries UDP over IPv4.
fn is_udp(frame: &[u8]) -> bool {
    frame.get(ETHERTYPE) == Some(&ETHERTYPE_IPV4) && frame.get(PROTOCOL) == Some(&PROTOCOL_UDP)
}

/// The faults of a port's two directions, and the seed that draws them.
#[derive(Clone, Copy, Debug)]
pub(super) struct DrawnFaults {
    pub(super) seed: u64,
    /// Of what comes from the member, and of what goes to it.
    pub(super) from: PortFaults,
    pub(super) to: PortFaults,
}

/// A port of the switch.
#[derive(Debug)]
pub(super) struct SwitchPort {
    cable: Cable,
    queue: VecDeque<Vec<u8>>,
    /// The time at which a full socket is tried again.
    retry: Option<u64>,
    pub(super) inbound: Direction,
    outbound: Direction,
    counts: PortStatistics,
}

impl SwitchPort {
    pub(super) fn bind(folder: &Path, number: u32, kind: CableKind, faults: DrawnFaults) -> io::Result<Self> {
        let DrawnFaults { seed, from, to } = faults;
        let stream = 2 * u64::from(number);
        Ok(Self {
            cable: Cable::new(folder, number, kind)?,
            queue: VecDeque::new(),
            retry: None,
            inbound: Direction::new(from, seed, stream),
            outbound: Direction::new(to, seed, stream + 1),
            counts: PortStatistics::new(number, kind),
        })
    }

    pub(super) fn statistics(&self) -> PortStatistics {
        PortStatistics { inbound: self.inbound.counts, outbound: self.outbound.counts, ..self.counts.clone() }
    }

    /// Returns the descriptors that `poll(2)` is to wait for.
    pub(super) fn interests(&self) -> impl Iterator<Item = PollFd<'_>> {
        core::iter::once(PollFd::new(self.cable.source(), PollFlags::POLLIN))
    }

    /// The time at which something is to be done even if no frame comes.
    pub(super) fn due(&self) -> Option<u64> {
        let at_once = self.cable.has_input().then_some(0);
        [self.inbound.due(), self.outbound.due(), self.retry, at_once].into_iter().flatten().min()
    }

    /// The length of the next good frame from the member; `None` when there is none, or nothing but
    /// bad ones for now.
    pub(super) fn receive(&mut self, buffer: &mut [u8]) -> Option<usize> {
        for _ in 0..BURST_FRAMES {
            match self.cable.receive(buffer)? {
                Ok(..FRAME_BYTES_MIN) => self.counts.runts += 1,
                Ok(length) => {
                    self.counts.received += 1;
                    self.counts.udp += u64::from(buffer.get(..length).is_some_and(is_udp));
                    self.counts.received_bytes += length as u64;
                    return Some(length);
                }
                Err(Unreadable) => self.counts.unreadable += 1,
            }
        }
        None
    }

    /// A frame for the member sets out.
    pub(super) fn send(&mut self, frame: &[u8], now: u64) {
        let mut passed = Vec::new();
        self.outbound.pass(frame, now, &mut passed);
        self.enqueue(passed);
    }

    /// Lets go of what was held back for the member long enough.
    pub(super) fn release(&mut self, now: u64) {
        let mut passed = Vec::new();
        self.outbound.release(now, &mut passed);
        self.enqueue(passed);
    }

    fn enqueue(&mut self, frames: Vec<Vec<u8>>) {
        for frame in frames {
            if self.queue.len() < QUEUE_FRAMES {
                self.queue.push_back(frame);
            } else {
                self.counts.overflowed += 1;
            }
        }
    }

    /// Gives the member as much of its queue as it takes.
    pub(super) fn flush(&mut self, now: u64, mut capture: Option<&mut Capture>) -> io::Result<()> {
        self.retry = None;
        while let Some(frame) = self.queue.front() {
            match self.cable.hand(frame) {
                Handed::Sent => {
                    self.counts.sent += 1;
                    self.counts.sent_bytes += frame.len() as u64;
                    capture.as_mut().map_or(Ok(()), |capture| capture.frame_now(frame))?;
                }
                Handed::Absent => self.counts.absent += 1,
                Handed::Refused => self.counts.refused += 1,
                Handed::Full => {
                    self.retry = Some(now + RETRY_NS);
                    return Ok(());
                }
            }
            self.queue.pop_front();
        }
        if self.cable.is_behind() {
            self.retry = Some(now + RETRY_NS);
        }
        Ok(())
    }
}

//! From what is due to frames of the device.

use aldis_hal::Nic;
use aldis_hal::copy::copy;
use aldis_hal::nic::TxFrame;
use aldis_protocols::connect::{MESSAGE_BYTES_MAX, Message};
use aldis_protocols::reliable::{Frame, FrameKind, Transmit, seal};
use zerocopy::IntoBytes;

use super::engine::EthernetEngine;
use super::framing::Station;
use super::header::SUBTYPE;
use super::transport::Ethernet;

/// The outcome of a row's turn.
enum SendTurn {
    /// A frame is with the device.
    Sent,
    /// There was nothing to send.
    Idle,
    /// The device has no free descriptor.
    NoDescriptor,
}

/// The handshake message or frame that a row has to send.
enum DueFrame {
    Handshake(Message),
    Frame(Transmit),
}

impl<N: Nic> Ethernet<'_, N> {
    /// Sends at most `most` frames: one of each row that has something, in turn.
    #[inline]
    pub(super) fn pump(&mut self, most: u32) {
        let mut sent = 0;
        while sent < most
            && let Some(index) = self.engine.due.pop(self.engine.rows)
        {
            match self.turn(index) {
                SendTurn::Sent => {
                    sent += 1;
                    self.engine.due.push(self.engine.rows, index);
                }
                SendTurn::Idle => {}
                SendTurn::NoDescriptor => {
                    self.engine.counters.no_descriptor += 1;
                    self.engine.due.push(self.engine.rows, index);
                    return;
                }
            }
        }
    }
}

impl<N: Nic> Ethernet<'_, N> {
    /// Sends the first thing that a row has to send.
    fn turn(&mut self, index: u32) -> SendTurn {
        let Self { nic, engine } = self;
        let index = index as usize;
        let Some((to, due)) = engine.due(index) else { return SendTurn::Idle };
        let mut message = [0; MESSAGE_BYTES_MAX];
        let (frame, payload) = match &due {
            DueFrame::Handshake(handshake) => {
                (Frame::new(FrameKind::Handshake), handshake.encode(&mut message).unwrap_or_default())
            }
            DueFrame::Frame(Transmit { frame, payload }) => {
                (*frame, payload.map_or(&[][..], |sequence| engine.payload(index, sequence)))
            }
        };
        let Some(mut token) = nic.transmit(engine.framing.headers_bytes() + payload.len()) else {
            return SendTurn::NoDescriptor;
        };
        let Some(frame) = seal(frame, payload) else { return SendTurn::Idle };
        let parts = [frame.as_bytes(), payload];
        let heading = engine.framing.heading(SUBTYPE, to, engine.port, parts);
        fill(token.bytes(), [&heading, frame.as_bytes(), payload]);
        token.send();
        engine.transmitted(index, &due);
        SendTurn::Sent
    }
}

/// Writes the parts one after the other.
#[inline]
pub(crate) fn fill<const PARTS: usize>(mut to: &mut [u8], parts: [&[u8]; PARTS]) {
    for part in parts {
        let Some((head, rest)) = to.split_at_mut_checked(part.len()) else { return };
        copy(head, part);
        to = rest;
    }
}

impl EthernetEngine<'_> {
    /// Returns what a row has to send, and to which station. This changes nothing.
    #[inline]
    fn due(&self, index: usize) -> Option<(Station, DueFrame)> {
        let row = self.rows.get(index)?;
        let handshake = || row.connect.poll_transmit(&self.setup).map(DueFrame::Handshake);
        let due = handshake().or_else(|| row.link.poll_transmit().map(DueFrame::Frame))?;
        Some((row.station, due))
    }

    /// The payload with this number.
    #[inline]
    fn payload(&self, index: usize, sequence: u32) -> &[u8] {
        self.outgoing.message(index, self.link.slot(sequence))
    }

    /// The device has taken it.
    #[inline]
    fn transmitted(&mut self, index: usize, due: &DueFrame) {
        self.counters.frames_sent += 1;
        let Some(row) = self.rows.get_mut(index) else { return };
        match due {
            DueFrame::Handshake(message) => row.connect.transmitted(&self.setup, message, self.now),
            DueFrame::Frame(transmit) => {
                let repeated = row.link.counters().repeated;
                row.link.transmitted(&self.link, transmit, self.now);
                let repeated = row.link.counters().repeated.wrapping_sub(repeated);
                self.counters.retransmitted += u64::from(repeated);
            }
        }
        self.timers.note(row.deadline());
    }
}

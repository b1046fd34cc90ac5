//! From what is due to frames of the device.

use aldis_hal::Nic;
use aldis_hal::copy::copy;
use aldis_hal::nic::TxFrame;
use aldis_protocols::connect::{MESSAGE_BYTES_MAX, Message};
use aldis_protocols::reliable::{Frame, FrameKind, Transmit, seal};
use zerocopy::IntoBytes;

use super::engine::EthernetEngine;
use super::framing::{Framing, Port, Station};
use super::header::SUBTYPE;
use super::transport::Ethernet;

/// The outcome of a link's turn.
enum SendTurn {
    /// A frame is with the device.
    Sent,
    /// There was nothing to send.
    Idle,
    /// The device has no free descriptor.
    NoDescriptor,
}

/// The handshake message or frame that a link has to send.
enum DueFrame {
    Handshake(Message),
    Frame(Transmit),
}

/// Frames of which a device is told at once: its peer takes in the first ones while the next are
/// written, and AF_XDP sends no more in one call where it copies (Linux, `TX_BATCH_SIZE` of
/// `net/xdp/xsk.c`, 16 until it was raised to 32).
const BURST: u32 = 16;

impl<N: Nic> Ethernet<'_, N> {
    /// Sends at most `most` frames: one of each link that has something, in turn.
    #[inline]
    pub(super) fn pump(&mut self, most: u32) {
        let mut left = most;
        loop {
            let asked = left.min(BURST);
            let sent = self.send_due(asked);
            if sent > 0 {
                self.nic.flush();
            }
            left -= sent;
            if sent < asked || left == 0 {
                return;
            }
        }
    }

    /// Sends at most `most` frames, of which the device may not have been told; returns how many.
    #[inline]
    fn send_due(&mut self, most: u32) -> u32 {
        let mut sent = 0;
        while sent < most
            && let Some(index) = self.engine.due.pop(self.engine.links)
        {
            match self.turn(index) {
                SendTurn::Sent => {
                    sent += 1;
                    self.engine.due.push(self.engine.links, index);
                }
                SendTurn::Idle => {}
                SendTurn::NoDescriptor => {
                    self.engine.counters.no_descriptor += 1;
                    self.engine.due.push(self.engine.links, index);
                    break;
                }
            }
        }
        sent
    }
}

impl<N: Nic> Ethernet<'_, N> {
    /// Sends the answer to a peer without a link, if there is one and the device takes it: without
    /// it the peer asks again.
    #[inline]
    pub(super) fn answer(&mut self) {
        if let Some((to, message)) = self.engine.pool.answer.take() {
            self.send_answer(to, message);
        }
    }

    #[cold]
    fn send_answer(&mut self, to: Station, message: Message) {
        let Self { nic, engine } = self;
        let mut buffer = [0; MESSAGE_BYTES_MAX];
        let payload = message.encode(&mut buffer).unwrap_or_default();
        let frame = Frame::new(FrameKind::Handshake);
        if let SendTurn::Sent =
            send(nic, WireEnds { framing: engine.framing, port: engine.port, to }, frame, payload)
        {
            engine.counters.frames_sent += 1;
            nic.flush();
        }
    }

    /// Sends the first thing that a link has to send.
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
        let ends = WireEnds { framing: engine.framing, port: engine.port, to };
        let turn = send(nic, ends, frame, payload);
        if let SendTurn::Sent = turn {
            engine.transmitted(index, &due);
        }
        turn
    }
}

/// The two ends of a frame, and its framing.
struct WireEnds {
    framing: Framing,
    port: Port,
    to: Station,
}

/// Hands a frame to the device.
#[inline]
fn send<N: Nic>(nic: &mut N, ends: WireEnds, frame: Frame, payload: &[u8]) -> SendTurn {
    let WireEnds { framing, port, to } = ends;
    let Some(mut token) = nic.transmit(framing.headers_bytes() + payload.len()) else {
        return SendTurn::NoDescriptor;
    };
    let Some(frame) = seal(frame, payload) else { return SendTurn::Idle };
    let heading = framing.heading(SUBTYPE, to, port, [frame.as_bytes(), payload]);
    fill(token.bytes(), [&heading, frame.as_bytes(), payload]);
    token.send_more();
    SendTurn::Sent
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
    /// Returns what a link has to send, and to which station. This changes nothing.
    #[inline]
    fn due(&self, index: usize) -> Option<(Station, DueFrame)> {
        let link = self.links.get(index).filter(|link| link.taken)?;
        let handshake = || link.connect.poll_transmit(&self.setup).map(DueFrame::Handshake);
        let due = handshake().or_else(|| link.link.poll_transmit().map(DueFrame::Frame))?;
        Some((self.rows.get(link.row as usize)?.station, due))
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
        let Some(link) = self.links.get_mut(index) else { return };
        match due {
            DueFrame::Handshake(message) => {
                link.connect.transmitted(&self.setup, message, self.now);
                self.note(index);
            }
            DueFrame::Frame(transmit) => {
                let repeated = link.link.counters().repeated;
                link.link.transmitted(&self.link, transmit, self.now);
                let repeated = link.link.counters().repeated.wrapping_sub(repeated);
                self.counters.retransmitted += u64::from(repeated);
                self.timers.note(link.deadline());
            }
        }
    }
}

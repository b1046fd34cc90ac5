//! The layers between a wire and the engine: handshakes over streams, reliable links, serial lines.

use std::collections::VecDeque;

use aldis_drivers::serial::{SerialNic, SerialStorage, cobs};
use aldis_hal::nic::{Mac as Address, Nic, RxFrame};
use aldis_hal::{Epoch, Instant, PeerId};
use aldis_protocols::reliable::{
    Frame, FrameFate, FrameKind, Link as Reliable, LinkConfig, LinkEnds, open, seal,
};
use aldis_protocols::stream::{
    GREETING_BYTES, HEAD_BYTES, Handshake, Mac, Node, StreamEvent, StreamLink, StreamSetup, Tag,
};
use embedded_io::ErrorKind;
use zerocopy::little_endian::{U32, U64};
use zerocopy::{FromBytes, IntoBytes};

use crate::script::Script;

/// A tag that says little of a message, so that handshakes can succeed.
struct Weak;

impl Mac for Weak {
    fn tag(&self, message: &[u8]) -> Tag {
        [message.iter().fold(7, |sum, byte| sum ^ byte); 32]
    }
}

/// A handshake takes any bytes in any pieces; it answers with no more than one has, and ends.
pub(crate) fn streams(bytes: &[u8]) {
    let mut script = Script(bytes);
    let setup = StreamSetup { ranks: 4, links: 2, rank: PeerId(2), epoch: Epoch(5), ..StreamSetup::DEFAULT };
    let mut links = vec![StreamLink::NONE; 8];
    for link in &mut links[..4] {
        assert!(link.introduce(Epoch(9)));
    }
    let mut handshake = Handshake::accept(1, &setup, [3; 16], Instant(0));
    let (mut now, mut opened) = (0, 0);
    while !script.is_over() && !handshake.is_over() {
        let count = usize::from(script.byte() % 64);
        let mut node = Node { setup: &setup, mac: &Weak, links: &mut links };
        let event = match count {
            0 => handshake.hang_up(&mut node, Instant(now)),
            1 => {
                now += u64::from(script.word());
                handshake.handle_timeout(&mut node, Instant(now))
            }
            2 => {
                let sent = handshake.output().len().min(usize::from(script.byte()));
                handshake.transmitted(sent);
                None
            }
            _ => {
                let piece = script.bytes(count);
                let (taken, event) = handshake.handle(&mut node, piece, Instant(now));
                assert!(taken <= piece.len(), "no more than there was");
                event
            }
        };
        opened += u32::from(matches!(event, Some(StreamEvent::Opened { .. })));
        assert!(
            handshake.output().len() <= 2 * GREETING_BYTES + HEAD_BYTES,
            "no more than an answer and a word"
        );
    }
    assert!(opened <= 1, "it opens once");
}

const ENDS: LinkEnds = LinkEnds { ours: u32::MAX - 2, theirs: u32::MAX - 4, peer_window: 16 };

/// A frame of the script, near to what is acceptable.
fn frame(script: &mut Script<'_>) -> Frame {
    let near = |base: u32, script: &mut Script<'_>| {
        let offset = script.byte();
        let far = if offset == u8::MAX { script.word() } else { u32::from(offset).wrapping_sub(16) };
        U32::new(base.wrapping_add(far))
    };
    let kind = match script.byte() {
        kind if kind < 128 => {
            [FrameKind::Data, FrameKind::Ack, FrameKind::Probe][usize::from(kind) % 3] as u8
        }
        other => other,
    };
    Frame {
        kind,
        connection: if script.byte() == 0 { near(ENDS.ours, script) } else { U32::new(ENDS.ours) },
        sequence: near(ENDS.ours, script),
        cumulative: near(ENDS.theirs, script),
        limit: near(ENDS.theirs, script),
        bitmap: U64::new(u64::from(script.byte()) << (script.byte() % 64)),
        ..Frame::new(FrameKind::Ack)
    }
}

/// A link under frames that no honest peer sends, beside what its own side does: it never has more
/// under way than its window.
pub(crate) fn reliable(bytes: &[u8]) {
    let _ = open(bytes);
    let mut script = Script(bytes);
    let config = LinkConfig::DEFAULT.checked().expect("the default is sound");
    let mut link = Reliable::open(&config, ENDS, Instant(0));
    let (mut now, mut under_way) = (Instant(0), 0_i64);
    while !script.is_over() && link.is_open() {
        match script.byte() % 6 {
            0 => under_way += i64::from(link.queue(&config, now).is_some()),
            1 => {
                if let Some(transmit) = link.poll_transmit() {
                    let payload = if transmit.payload.is_some() { &[1, 2, 3][..] } else { &[] };
                    let sealed = seal(transmit.frame, payload).expect("only data have a payload");
                    assert!(open(&[sealed.as_bytes(), payload].concat()).is_ok(), "what is sealed opens");
                    link.transmitted(&config, &transmit, now);
                }
            }
            2 => now = Instant(now.0.saturating_add(u64::from(script.word()))),
            3 => drop(link.handle_timeout(&config, now)),
            _ => {
                let came = frame(&mut script);
                let counters = *link.counters();
                match link.handle_frame(&config, &came, now) {
                    Ok(taken) => {
                        under_way -= i64::from(taken.released);
                        if let FrameFate::Store = taken.fate {
                            link.stored(came.sequence.get());
                        }
                    }
                    Err(_) => {
                        assert_eq!(counters.delivered, link.counters().delivered, "nothing has changed")
                    }
                }
                while link.next_stored().is_some() {}
            }
        }
        assert!((0..=i64::from(config.window)).contains(&under_way), "{under_way} are under way");
    }
    if let Ok((read, _)) = Frame::read_from_prefix(bytes) {
        let _ = link.handle_frame(&config, &read, now);
    }
}

/// A line on which another sender writes.
struct FuzzLine(VecDeque<u8>);

impl embedded_io::ErrorType for FuzzLine {
    type Error = ErrorKind;
}

impl embedded_io::Read for FuzzLine {
    fn read(&mut self, bytes: &mut [u8]) -> Result<usize, ErrorKind> {
        let count = bytes.len().min(self.0.len());
        bytes.iter_mut().zip(self.0.drain(..count)).for_each(|(place, byte)| *place = byte);
        Ok(count)
    }
}

impl embedded_io::ReadReady for FuzzLine {
    fn read_ready(&mut self) -> Result<bool, ErrorKind> {
        Ok(!self.0.is_empty())
    }
}

impl embedded_io::Write for FuzzLine {
    fn write(&mut self, bytes: &[u8]) -> Result<usize, ErrorKind> {
        Ok(bytes.len())
    }
    fn flush(&mut self) -> Result<(), ErrorKind> {
        Ok(())
    }
}

impl embedded_io::WriteReady for FuzzLine {
    fn write_ready(&mut self) -> Result<bool, ErrorKind> {
        Ok(true)
    }
}

const FRAME_BYTES: usize = 200;

/// A device on a line takes any bytes; after them, a frame that begins and ends well arrives whole.
pub(crate) fn serial(bytes: &[u8]) {
    let mut storage = SerialStorage::<FRAME_BYTES>::new();
    let honest: Vec<u8> = (0..60).collect();
    let mut encoded = [0; cobs::encoded_bytes_max(100)];
    let length = cobs::encode(&honest, &mut encoded).expect("there is room");
    let mut line: VecDeque<u8> = bytes.iter().copied().collect();
    // Two ends: what came before is over.
    line.extend([0, 0]);
    line.extend(&encoded[..length]);
    line.push_back(0);
    let mut nic = SerialNic::new(FuzzLine(line), storage.memory(), Address([2, 0, 0, 0, 0, 1]));
    let mut last = Vec::new();
    for _ in 0..4 * (bytes.len() + 200) {
        if let Some(frame) = nic.receive() {
            assert!(frame.bytes().len() <= FRAME_BYTES);
            last = frame.bytes().to_vec();
        }
        nic.push();
    }
    assert_eq!(last, honest, "what follows noise is read");
}

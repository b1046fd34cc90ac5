//! A station of a bench: its card, and its frames.
//!
//! ```text
//!  0  destination (6)      6  source (6)
//! 12  EtherType 0x88B6    14  kind: 1 asks, 2 answers    15  number (8)    23  zeros
//! ```

use core::fmt;

use aldis_hal::nic::{Mac, Nic, RxFrame, TxFrame};
use aldis_linux::entropy;
use aldis_nic::{CardChoice, CardError, CardNic, FrameKind, local_mac};

/// The second EtherType for local experiments (IEEE Std 802a-2003, 3.2): jobs have the first.
const ETHERTYPE: u16 = 0x88B6;
/// The shortest frame that a card sends.
pub(crate) const FRAME_BYTES_MIN: usize = 64;
/// All stations.
pub(crate) const ALL: Mac = Mac([0xFF; 6]);

/// The kind of a frame.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub(crate) enum BenchFrameKind {
    Asks = 1,
    Answers = 2,
}

/// A frame that came.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BenchFrame {
    pub(crate) kind: BenchFrameKind,
    pub(crate) from: Mac,
    pub(crate) number: u64,
    pub(crate) bytes: usize,
}

/// A card with the frames of a bench.
#[derive(Debug)]
pub(crate) struct BenchStation(pub(crate) CardNic);

impl BenchStation {
    pub(crate) fn open(choice: &CardChoice) -> Result<Self, CardError> {
        let kind = FrameKind::EtherType(ETHERTYPE);
        CardNic::open(choice, local_mac(entropy::distinct()), kind).map(Self)
    }

    /// Sends a frame of so many bytes; false if the card has no room now.
    pub(crate) fn send(&mut self, to: Mac, kind: BenchFrameKind, number: u64, bytes: usize) -> bool {
        let own = self.0.mac();
        let Some(mut token) = self.0.transmit(bytes) else { return false };
        let head =
            [&to.0[..], &own.0, &ETHERTYPE.to_be_bytes(), &[kind as u8], &number.to_be_bytes()].concat();
        if let Some((front, rest)) = token.bytes().split_at_mut_checked(head.len()) {
            front.copy_from_slice(&head);
            rest.fill(0);
        }
        token.send();
        true
    }

    /// The next frame of a bench.
    pub(crate) fn receive(&mut self) -> Option<BenchFrame> {
        let frame = self.0.receive()?;
        let bytes = frame.bytes();
        let (&[_, _, _, _, _, _, a, b, c, d, e, f, high, low, kind], rest) =
            bytes.split_first_chunk::<15>()?;
        let kind = match kind {
            1 => BenchFrameKind::Asks,
            2 => BenchFrameKind::Answers,
            _ => return None,
        };
        let number = u64::from_be_bytes(*rest.first_chunk()?);
        let from = Mac([a, b, c, d, e, f]);
        let is_ours = u16::from_be_bytes([high, low]) == ETHERTYPE;
        is_ours.then_some(BenchFrame { kind, from, number, bytes: bytes.len() })
    }
}

/// An address as it is usually written.
pub(crate) struct WrittenMac(pub(crate) Mac);

impl fmt::Display for WrittenMac {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Mac([first, rest @ ..]) = self.0;
        write!(f, "{first:02x}")?;
        rest.iter().try_for_each(|byte| write!(f, ":{byte:02x}"))
    }
}

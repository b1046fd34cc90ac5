//! The device: a side of a bus, and the memory for its frames and blocks.

use core::fmt;

use aldis_hal::Cause;
use aldis_hal::nic::{LinkState, MAC_HEADER_BYTES, Mac, Nic, TxFrame};

use super::block::HEADER_BYTES;
use super::exchange::{FrameExchange, SpiCounters};
use super::side::Side;
use crate::aligned::Aligned;

/// The shortest block: half of it is its header.
pub const BLOCK_BYTES_MIN: usize = 2 * HEADER_BYTES;
/// The longest block, whose piece has a length of 16 bits.
pub const BLOCK_BYTES_MAX: usize = 1 << 16;

/// The memory of an [`SpiNic`]: a frame each way, and a block. All-zero means empty.
///
/// `FRAME_BYTES` is the longest frame: 14 more than the MTU, and 62 more than the longest message
/// of a transport above. `BLOCK_BYTES` is the same on both sides. Long blocks waste time on short
/// frames and short ones spend it on headers: what most frames need, and 8 bytes, is a good length.
pub struct SpiStorage<const FRAME_BYTES: usize, const BLOCK_BYTES: usize> {
    incoming: Aligned<FRAME_BYTES>,
    outgoing: Aligned<FRAME_BYTES>,
    block: Aligned<BLOCK_BYTES>,
}

impl<const FRAME_BYTES: usize, const BLOCK_BYTES: usize> SpiStorage<FRAME_BYTES, BLOCK_BYTES> {
    /// An empty storage.
    #[expect(clippy::new_without_default, reason = "a storage is made const, not by value at run time")]
    pub const fn new() -> Self {
        Self { incoming: Aligned::EMPTY, outgoing: Aligned::EMPTY, block: Aligned::EMPTY }
    }

    /// The memory for one device.
    pub const fn memory(&mut self) -> SpiMemory<'_> {
        SpiMemory { incoming: &mut self.incoming.0, outgoing: &mut self.outgoing.0, block: &mut self.block.0 }
    }
}

impl<const FRAME_BYTES: usize, const BLOCK_BYTES: usize> fmt::Debug for SpiStorage<FRAME_BYTES, BLOCK_BYTES> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SpiStorage<{FRAME_BYTES}, {BLOCK_BYTES}>")
    }
}

/// A storage as slices.
#[derive(Debug)]
pub struct SpiMemory<'m> {
    /// The frame that comes; 8-byte aligned, or messages above are not.
    pub incoming: &'m mut [u8],
    /// The memory of the frame that is being sent.
    pub outgoing: &'m mut [u8],
    /// The block that is exchanged.
    pub block: &'m mut [u8],
}

/// A side of an SPI bus that sends and receives Ethernet frames; see the [module](super).
#[derive(Debug)]
pub struct SpiNic<'m, S> {
    side: S,
    exchange: FrameExchange<'m>,
    block: &'m mut [u8],
    /// Most blocks that one call exchanges.
    blocks_max: usize,
    mac: Mac,
}

impl<'m, S: Side> SpiNic<'m, S> {
    /// A device with this address on a side of a bus. [`Cause::Incompatible`]: blocks that are
    /// shorter than [`BLOCK_BYTES_MIN`] or longer than [`BLOCK_BYTES_MAX`].
    pub fn new(side: S, memory: SpiMemory<'m>, mac: Mac) -> Result<Self, Cause> {
        let SpiMemory { incoming, outgoing, block } = memory;
        if !(BLOCK_BYTES_MIN..=BLOCK_BYTES_MAX).contains(&block.len()) {
            return Err(Cause::Incompatible);
        }
        let piece = block.len().saturating_sub(HEADER_BYTES).max(1);
        let blocks_max = incoming.len().max(outgoing.len()).div_ceil(piece).saturating_add(2);
        Ok(Self { side, exchange: FrameExchange::new(incoming, outgoing), block, blocks_max, mac })
    }

    /// Returns the counters.
    pub const fn counters(&self) -> SpiCounters {
        self.exchange.counters()
    }

    /// Exchanges one block if there is reason to and it can be done at once; whether the next one
    /// may follow right behind. [`receive`](Nic::receive) and [`transmit`](Nic::transmit) do it
    /// too.
    pub fn step(&mut self) -> bool {
        self.side.step(&mut self.exchange, self.block)
    }
}

impl<'m, S: Side> Nic for SpiNic<'m, S> {
    type Rx<'a>
        = &'a [u8]
    where
        Self: 'a;
    type Tx<'a>
        = SpiTx<'a, 'm, S>
    where
        Self: 'a;

    fn receive(&mut self) -> Option<&[u8]> {
        for _ in 0..self.blocks_max {
            if self.exchange.has_frame() || !self.step() || !self.exchange.wants() {
                break;
            }
        }
        self.exchange.frame()
    }

    fn transmit(&mut self, len: usize) -> Option<SpiTx<'_, 'm, S>> {
        if self.exchange.vacancy(len).is_none() {
            self.step();
        }
        self.exchange.vacancy(len).is_some().then_some(SpiTx { nic: self, len })
    }

    /// Returns the bytes that the smaller of the two frames holds behind the addresses and the
    /// EtherType.
    fn mtu(&self) -> usize {
        self.exchange.frame_bytes_max().saturating_sub(MAC_HEADER_BYTES)
    }

    fn mac(&self) -> Mac {
        self.mac
    }

    /// Always up: whether the other side runs is not known before its first block.
    fn link(&self) -> LinkState {
        LinkState::Up
    }
}

/// A frame to fill, in the memory that it is sent from.
#[derive(Debug)]
pub struct SpiTx<'a, 'm, S> {
    nic: &'a mut SpiNic<'m, S>,
    len: usize,
}

impl<S: Side> TxFrame for SpiTx<'_, '_, S> {
    fn bytes(&mut self) -> &mut [u8] {
        self.nic.exchange.vacancy(self.len).unwrap_or_default()
    }

    fn send(self) {
        self.nic.exchange.send(self.len);
        self.nic.step();
    }
}

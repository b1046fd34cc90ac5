//! The machine of either side: frames in pieces, blocks in and out, no bus.

use super::block::{BlockHeader, HEADER_BYTES};
use aldis_hal::copy::copy;

/// Counters of a side. Counts wrap.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[non_exhaustive]
pub struct SpiCounters {
    /// Blocks exchanged, idle ones too.
    pub exchanges: u64,
    /// Frames handed up.
    pub frames_received: u64,
    /// Frames whose last piece is out.
    pub frames_sent: u64,
    /// Blocks that are none: damaged, shifted, or of a peripheral that had loaded nothing.
    pub damaged: u64,
    /// Blocks that came again: the peripheral had loaded no other.
    pub repeated: u64,
    /// Blocks that never came, by the numbers of those that did.
    pub missed: u64,
    /// Frames given up for one of these reasons, or for being longer than the memory.
    pub dropped: u64,
    /// Errors of the bus.
    pub errors: u64,
}

/// A frame that comes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
enum IncomingBlocks {
    /// No frame, or one of which a piece is missing.
    #[default]
    Nothing,
    /// So many bytes of it.
    Part(usize),
    /// All of it.
    Whole(usize),
}

/// A frame that is being sent.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct OutgoingBlocks {
    /// Bytes of it that are out.
    at: usize,
    len: usize,
    /// The end of the piece that was prepared and is not known to be out.
    end: Option<usize>,
}

/// The kind of a block that came.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Came {
    /// A block that had not come before.
    New,
    /// The last one again.
    Again,
    /// No block that was whole.
    Damaged,
}

/// Frames in and out of blocks: what the two sides of a bus have in common, without the bus.
#[derive(Debug)]
pub struct FrameExchange<'m> {
    into: &'m mut [u8],
    from: &'m mut [u8],
    incoming: IncomingBlocks,
    outgoing: Option<OutgoingBlocks>,
    /// Number of the block that is being sent.
    sequence: u8,
    /// Number of the last block that came; `None` before the first.
    heard: Option<u8>,
    /// The other side had room when it wrote the last block that came.
    room: bool,
    /// The last block that is out ended a frame, which may take the room there was.
    ended: bool,
    counters: SpiCounters,
}

impl<'m> FrameExchange<'m> {
    /// Frames come `into` and go `from` these.
    pub(super) fn new(into: &'m mut [u8], from: &'m mut [u8]) -> Self {
        Self {
            into,
            from,
            incoming: IncomingBlocks::Nothing,
            outgoing: None,
            sequence: 0,
            heard: None,
            room: false,
            ended: false,
            counters: SpiCounters::default(),
        }
    }

    /// Returns the counters.
    pub(super) const fn counters(&self) -> SpiCounters {
        self.counters
    }

    /// Returns true if there is something to exchange: a frame is being sent, or has come in part.
    pub(super) const fn wants(&self) -> bool {
        self.outgoing.is_some() || matches!(self.incoming, IncomingBlocks::Part(_))
    }

    /// The longest frame that can come and go.
    pub(super) fn frame_bytes_max(&self) -> usize {
        self.into.len().min(self.from.len())
    }

    /// Writes the block to go: the same as before unless that is [out](Self::is_out), but for
    /// whether there is room.
    pub(super) fn prepare(&mut self, block: &mut [u8]) {
        let mut flags = if self.has_frame() { 0 } else { BlockHeader::ROOM };
        let mut piece = &[][..];
        let may = self.room && !self.ended;
        if let Some(frame) = self.outgoing.as_mut().filter(|frame| may || frame.end.is_some()) {
            let end = frame.len.min(frame.at.saturating_add(block.len().saturating_sub(HEADER_BYTES)));
            frame.end = Some(end);
            piece = self.from.get(frame.at..end).unwrap_or_default();
            flags |= if frame.at == 0 { BlockHeader::FIRST } else { 0 };
            flags |= if frame.len == end { BlockHeader::LAST } else { 0 };
        }
        BlockHeader::write(flags, self.sequence, piece, block);
    }

    /// The block that was prepared is with the other side, or as good as.
    pub(super) fn is_out(&mut self) {
        self.sequence = self.sequence.wrapping_add(1);
        self.ended = false;
        let Some(OutgoingBlocks { len, end: Some(end), .. }) = self.outgoing else { return };
        self.outgoing = Some(OutgoingBlocks { at: end, len, end: None });
        if end == len {
            self.outgoing = None;
            self.ended = true;
            self.counters.frames_sent += 1;
        }
    }

    /// Takes a block that came.
    pub(super) fn take(&mut self, block: &[u8]) -> Came {
        self.counters.exchanges += 1;
        // What the other side had room for is known from a block that is whole and new.
        self.room = false;
        let Some((header, piece)) = BlockHeader::read(block) else {
            self.counters.damaged += 1;
            return Came::Damaged;
        };
        if self.heard == Some(header.sequence) {
            self.counters.repeated += 1;
            return Came::Again;
        }
        if let Some(heard) = self.heard.replace(header.sequence) {
            let missed = header.sequence.wrapping_sub(heard).wrapping_sub(1);
            self.counters.missed += u64::from(missed);
            if missed != 0 {
                self.drop_part();
            }
        }
        self.room = header.has(BlockHeader::ROOM);
        self.append(&header, piece);
        Came::New
    }

    /// The bus has failed: nothing came.
    pub(super) fn fail(&mut self) {
        self.counters.errors += 1;
        self.room = false;
    }

    /// Puts a piece behind the others of its frame.
    fn append(&mut self, header: &BlockHeader, piece: &[u8]) {
        if header.has(BlockHeader::FIRST) {
            self.drop_part();
            if self.incoming == IncomingBlocks::Nothing {
                self.incoming = IncomingBlocks::Part(0);
            }
        }
        // Not begun, or one waits to be handed up, as the other side knows.
        let IncomingBlocks::Part(at) = self.incoming else { return };
        let end = at.saturating_add(piece.len());
        match self.into.get_mut(at..end) {
            Some(place) => copy(place, piece),
            None => return self.drop_part(),
        }
        self.incoming = if header.has(BlockHeader::LAST) {
            IncomingBlocks::Whole(end)
        } else {
            IncomingBlocks::Part(end)
        };
    }

    /// Gives up a frame of which a part has come.
    fn drop_part(&mut self) {
        if matches!(self.incoming, IncomingBlocks::Part(_)) {
            self.incoming = IncomingBlocks::Nothing;
            self.counters.dropped += 1;
        }
    }

    /// Returns true if a frame waits to be handed up.
    pub(super) const fn has_frame(&self) -> bool {
        matches!(self.incoming, IncomingBlocks::Whole(_))
    }

    /// The frame that has come, whose memory is free again at the next call.
    pub(super) fn frame(&mut self) -> Option<&[u8]> {
        let IncomingBlocks::Whole(len) = self.incoming else { return None };
        self.incoming = IncomingBlocks::Nothing;
        self.counters.frames_received += 1;
        self.into.get(..len)
    }

    /// The memory of a frame of `len` bytes, if no other is on its way.
    pub(super) fn vacancy(&mut self, len: usize) -> Option<&mut [u8]> {
        if self.outgoing.is_some() { None } else { self.from.get_mut(..len) }
    }

    /// Sends what is in that memory.
    pub(super) fn send(&mut self, len: usize) {
        self.outgoing = Some(OutgoingBlocks { at: 0, len, end: None });
    }
}

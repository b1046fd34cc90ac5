//! Long messages, read straight to where they belong: the sink lends the memory for each read.

use aldis_hal::{Partial, PeerId, Sink};
use aldis_protocols::header::DATA_HEADER_BYTES;

use super::connection::{Connection, ConnectionStage};
use super::wire::Moved;

/// Messages of at least so many bytes are not received whole before they are delivered, if the sink
/// wants them so.
const LANDING_BYTES_MIN: usize = 16 << 10;

/// Bytes of a read that probably begins with the head of a long message, and of what is read behind
/// one by the same call: what comes beyond the head is copied once more.
const PEEK_BYTES: usize = 512;

/// A long message whose first bytes have come.
#[derive(Debug)]
pub(super) struct Landing {
    /// The bytes by which the sink knows it.
    head: [u8; DATA_HEADER_BYTES],
    /// Bytes that follow them.
    length: usize,
    /// Bytes of those that are where they belong.
    landed: usize,
    /// Its receive has been let go of: the rest goes nowhere.
    is_dropped: bool,
}

impl Landing {
    /// Returns true if all of it has come.
    const fn is_whole(&self) -> bool {
        self.landed == self.length
    }
}

impl Connection {
    /// Begins to land the next message, if it is long, has begun to come, is the `expected` one and
    /// the sink says where to.
    pub(super) fn begin_landing<S: Sink>(&mut self, expected: u32, sink: &mut S) {
        let ConnectionStage::Open(link) = &mut self.stage else { return };
        let Some((frame, there)) = link.incoming.begun() else { return };
        let Some((head, there)) = there.split_first_chunk::<DATA_HEADER_BYTES>() else { return };
        if frame.length() < LANDING_BYTES_MIN || frame.number != expected || link.refused == Some(expected) {
            return;
        }
        // One that may not come any more is refused once it is whole, as others are.
        if !link.rest.may_receive() {
            return;
        }
        let length = frame.length() - DATA_HEADER_BYTES;
        let lent = sink.land(link.peer, Partial { head, landed: 0, length }, &mut |room| {
            if let Some(room) = room.get_mut(..there.len()) {
                room.copy_from_slice(there);
            }
        });
        if lent {
            link.landing = Some(Landing { head: *head, length, landed: there.len(), is_dropped: false });
            link.incoming.clear();
        } else {
            link.refused = Some(expected);
        }
    }

    /// Reads more of the message that is landing. `None` if there is none.
    pub(super) fn land<S: Sink>(&mut self, sink: &mut S) -> Option<Moved> {
        let Self { wire, stage: ConnectionStage::Open(link), may_read, is_assumed, at_end, .. } = self else {
            return None;
        };
        let landing = link.landing.as_mut()?;
        let (mut moved, mut asked) = (Moved::Blocked, landing.length - landing.landed);
        let behind = link.incoming.room(PEEK_BYTES);
        let mut full = asked + behind.len();
        let &mut Landing { ref head, landed, length, .. } = landing;
        let lent = !landing.is_dropped
            && sink.land(link.peer, Partial { head, landed, length }, &mut |room| {
                moved = wire.receive_both(room, behind);
            });
        if !lent {
            landing.is_dropped = true;
            let nowhere = link.incoming.room(asked);
            asked = asked.min(nowhere.len());
            full = asked;
            moved = wire.receive(nowhere.get_mut(..asked).unwrap_or_default());
        }
        *may_read = match moved {
            Moved::Bytes(bytes) => {
                landing.landed += bytes.min(asked);
                link.incoming.read(bytes.saturating_sub(asked));
                bytes == full || *at_end
            }
            Moved::Blocked | Moved::Denied(_) | Moved::Broken(_) => false,
        };
        *is_assumed = !*may_read;
        match moved {
            Moved::Denied(failure) => self.deny(failure),
            Moved::Broken(failure) => self.failed = self.failed.or(failure),
            Moved::Bytes(_) | Moved::Blocked => {}
        }
        Some(moved)
    }

    /// Tells the sink that the message has landed, if all of it has.
    pub(super) fn end_landing<S: Sink>(&mut self, peer: PeerId, sink: &mut S) -> bool {
        let ConnectionStage::Open(link) = &mut self.stage else { return false };
        let Some(landing) = link.landing.take_if(|landing| landing.is_whole()) else { return false };
        sink.landed(peer, &landing.head);
        link.read_bytes = PEEK_BYTES;
        true
    }
}

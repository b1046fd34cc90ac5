//! The transport's memory: a row, a retransmission ring and a reorder ring for each of the other
//! ranks.

use core::fmt;

use aldis_hal::Cause;
use aldis_hal::cause::Malformed;
use aldis_protocols::reliable::WINDOW_MAX;
use zerocopy::IntoBytes;

use super::peer::PeerRow;

/// The memory of one [`Ethernet`](super::Ethernet) transport. Const-constructed; all-zero means
/// empty, so a static one takes no room in an image.
///
/// * `PEERS`: ranks of the job other than this one; [`PEERS_MAX`] at most.
/// * `WINDOW`: frames that each direction of a connection can have unacknowledged; a power of two,
///   64 at most. A full rate needs at least the frames of a round trip: 10 Gbit/s and 100 µs are 83
///   frames of 1500 bytes.
/// * `MESSAGE_BYTES`: the largest message; a multiple of 8 and below 2^16. A frame is
///   [`HEADERS_BYTES`] longer, and the device's MTU must hold it less the 14 that an MTU does not
///   count: 1464 with the usual MTU of 1500, and 8960 with one of 9000. With UDP it is 32 less. All
///   ranks of a job choose the same `WINDOW` and `MESSAGE_BYTES`; others refuse to connect.
///
/// [`bytes_per_peer`] says what that costs.
///
/// [`HEADERS_BYTES`]: super::HEADERS_BYTES
pub struct EthernetStorage<const PEERS: usize, const WINDOW: usize, const MESSAGE_BYTES: usize> {
    rows: [PeerRow; PEERS],
    outgoing: Ring<PEERS, WINDOW, MESSAGE_BYTES>,
    incoming: Ring<PEERS, WINDOW, MESSAGE_BYTES>,
}

/// Most other ranks that a transport can have: connection numbers keep 16 bits to tell connections
/// apart.
pub const PEERS_MAX: usize = 1 << 16;

/// Bytes of an [`EthernetStorage`] for each peer: its row, and two rings of `window` messages with
/// their lengths.
///
/// ```
/// use aldis_drivers::ethernet::bytes_per_peer;
///
/// assert!(bytes_per_peer(8, 1464) < 24 * 1024);
/// ```
pub const fn bytes_per_peer(window: usize, message_bytes: usize) -> usize {
    size_of::<PeerRow>() + 2 * window * (message_bytes + size_of::<u16>())
}

/// Returns true if a window is a power of two, and no larger than an acknowledgement describes.
const fn is_window(window: usize) -> bool {
    window.is_power_of_two() && window <= WINDOW_MAX as usize
}

/// Returns true if a transport can have memory of these sizes, which are those of an
/// [`EthernetStorage`].
pub const fn are_sizes(peers: usize, window: usize, message_bytes: usize) -> bool {
    peers > 0 && peers <= PEERS_MAX && is_window(window) && is_message(message_bytes)
}

/// Returns true if messages can be that long.
const fn is_message(bytes: usize) -> bool {
    bytes > 0 && bytes < 1 << 16 && bytes.is_multiple_of(8)
}

/// A ring of messages for each peer, aligned for any element type.
#[repr(C, align(8))]
struct Ring<const PEERS: usize, const WINDOW: usize, const MESSAGE_BYTES: usize> {
    bytes: [[[u8; MESSAGE_BYTES]; WINDOW]; PEERS],
    lengths: [[u16; WINDOW]; PEERS],
}

impl<const PEERS: usize, const WINDOW: usize, const MESSAGE_BYTES: usize> Ring<PEERS, WINDOW, MESSAGE_BYTES> {
    const EMPTY: Self = Self { bytes: [[[0; MESSAGE_BYTES]; WINDOW]; PEERS], lengths: [[0; WINDOW]; PEERS] };

    fn view(&mut self) -> FrameSlots<'_> {
        FrameSlots {
            bytes: self.bytes.as_flattened_mut().as_flattened_mut(),
            lengths: self.lengths.as_flattened_mut(),
            window: WINDOW,
            message_bytes: MESSAGE_BYTES,
        }
    }
}

impl<const PEERS: usize, const WINDOW: usize, const MESSAGE_BYTES: usize>
    EthernetStorage<PEERS, WINDOW, MESSAGE_BYTES>
{
    /// A sizing that cannot work does not compile.
    const SOUND: () = {
        assert!(PEERS > 0 && PEERS <= PEERS_MAX, "`PEERS` is 1 to 65536");
        assert!(is_window(WINDOW), "`WINDOW` is a power of two, 64 at most");
        assert!(is_message(MESSAGE_BYTES), "`MESSAGE_BYTES` is a multiple of 8 below 65536");
    };

    /// An empty storage.
    #[expect(
        clippy::new_without_default,
        reason = "a storage is large: it is made const, not by value at run time"
    )]
    pub const fn new() -> Self {
        let () = Self::SOUND;
        Self { rows: [const { PeerRow::EMPTY }; PEERS], outgoing: Ring::EMPTY, incoming: Ring::EMPTY }
    }

    /// The memory for one transport, empty again.
    pub fn memory(&mut self) -> EthernetMemory<'_> {
        // Row by row: a storage can be larger than a stack. What is in the rings is written before
        // it is read.
        self.rows.iter_mut().for_each(|row| *row = PeerRow::EMPTY);
        EthernetMemory {
            rows: &mut self.rows,
            outgoing: self.outgoing.view(),
            incoming: self.incoming.view(),
        }
    }
}

impl<const PEERS: usize, const WINDOW: usize, const MESSAGE_BYTES: usize> fmt::Debug
    for EthernetStorage<PEERS, WINDOW, MESSAGE_BYTES>
{
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "EthernetStorage<{PEERS}, {WINDOW}, {MESSAGE_BYTES}>")
    }
}

/// A storage as slices, so that the transport is compiled once and not once per sizing.
pub struct EthernetMemory<'m> {
    pub(super) rows: &'m mut [PeerRow],
    pub(super) outgoing: FrameSlots<'m>,
    pub(super) incoming: FrameSlots<'m>,
}

impl<'m> EthernetMemory<'m> {
    /// A storage that is cut to size at run time, on a host that learns only then how many ranks
    /// there are: a row for each other rank, and for each direction, outgoing and incoming, the
    /// messages and their lengths. `window` and `message_bytes` are as in [`EthernetStorage`].
    ///
    /// ```
    /// use aldis_drivers::ethernet::{EthernetMemory, PeerRow};
    ///
    /// let (others, window, message_bytes) = (3, 4, 64);
    /// let mut rows = vec![PeerRow::EMPTY; others];
    /// let mut messages = [(); 2].map(|()| vec![0; others * window * message_bytes / 8]);
    /// let mut lengths = [(); 2].map(|()| vec![0; others * window]);
    /// let ([out, into], [out_lengths, into_lengths]) = (&mut messages, &mut lengths);
    /// let memory = EthernetMemory::of_slices(
    ///     &mut rows,
    ///     [(out, out_lengths), (into, into_lengths)],
    ///     window,
    ///     message_bytes,
    /// );
    /// assert!(memory.is_ok());
    /// ```
    ///
    /// # Errors
    /// [`Cause::Malformed`] with [`Malformed::Length`] if the slices are not of these sizes, or the
    /// sizes none.
    pub fn of_slices(
        rows: &'m mut [PeerRow],
        [outgoing, incoming]: [(&'m mut [u64], &'m mut [u16]); 2],
        window: usize,
        message_bytes: usize,
    ) -> Result<Self, Cause> {
        let peers = rows.len();
        let is_sound = are_sizes(peers, window, message_bytes);
        let ring = |(words, lengths): (&'m mut [u64], &'m mut [u16])| {
            let bytes = words.as_mut_bytes();
            let is_whole = lengths.len() == peers * window && bytes.len() == lengths.len() * message_bytes;
            (is_sound && is_whole).then_some(FrameSlots { bytes, lengths, window, message_bytes })
        };
        rows.fill(PeerRow::EMPTY);
        match (ring(outgoing), ring(incoming)) {
            (Some(outgoing), Some(incoming)) => Ok(Self { rows, outgoing, incoming }),
            _ => Err(Cause::Malformed(Malformed::Length)),
        }
    }
}

impl fmt::Debug for EthernetMemory<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let FrameSlots { window, message_bytes, .. } = self.outgoing;
        f.debug_struct("Memory")
            .field("peers", &self.rows.len())
            .field("window", &window)
            .field("message_bytes", &message_bytes)
            .finish()
    }
}

/// A ring of message slots for each row. Reading or writing outside of it gives nothing.
pub(super) struct FrameSlots<'m> {
    bytes: &'m mut [u8],
    lengths: &'m mut [u16],
    pub(super) window: usize,
    pub(super) message_bytes: usize,
}

impl FrameSlots<'_> {
    /// The first `len` bytes of a slot, to be filled.
    #[inline]
    pub(super) fn fill(&mut self, row: usize, slot: usize, len: usize) -> &mut [u8] {
        let start = (row * self.window + slot) * self.message_bytes;
        let end = start + len.min(self.message_bytes);
        self.bytes.get_mut(start..end).unwrap_or_default()
    }

    /// Makes what is in a slot a message of `len` bytes.
    #[inline]
    pub(super) fn set_len(&mut self, row: usize, slot: usize, len: usize) {
        if let Some(place) = self.lengths.get_mut(row * self.window + slot) {
            *place = len as u16;
        }
    }

    /// The message in a slot.
    #[inline]
    pub(super) fn message(&self, row: usize, slot: usize) -> &[u8] {
        let index = row * self.window + slot;
        let len = self.lengths.get(index).map_or(0, |len| usize::from(*len));
        let start = index * self.message_bytes;
        self.bytes.get(start..start + len).unwrap_or_default()
    }
}

#[cfg(test)]
#[cfg(not(loom))]
mod tests {
    use super::*;

    #[test]
    fn slots_are_apart_and_aligned() {
        let mut storage = EthernetStorage::<3, 4, 16>::new();
        let mut memory = storage.memory();
        assert_eq!((memory.rows.len(), memory.outgoing.window), (3, 4));
        let slots = (0..3).flat_map(|row| (0..4).map(move |slot| (row, slot)));
        for (row, slot) in slots.clone() {
            let bytes = memory.incoming.fill(row, slot, row + slot);
            assert_eq!(bytes.as_ptr().align_offset(8), 0);
            bytes.fill((row * 4 + slot) as u8);
            memory.incoming.set_len(row, slot, row + slot);
        }
        for (row, slot) in slots {
            assert_eq!(memory.incoming.message(row, slot), std::vec![(row * 4 + slot) as u8; row + slot]);
            assert!(memory.outgoing.message(row, slot).is_empty());
        }
        assert!(memory.incoming.fill(3, 0, 1).is_empty() && memory.incoming.message(9, 9).is_empty());
    }

    #[test]
    fn slices_of_other_sizes_are_refused() {
        let sound = |window: usize, message_bytes: usize, words: usize| {
            let (mut rows, mut words) = (std::vec![PeerRow::EMPTY; 3], [(); 2].map(|()| std::vec![0; words]));
            let mut lengths = [(); 2].map(|()| std::vec![0; 3 * window]);
            let ([out, into], [out_lengths, into_lengths]) = (&mut words, &mut lengths);
            let rings = [(&mut out[..], &mut out_lengths[..]), (&mut into[..], &mut into_lengths[..])];
            EthernetMemory::of_slices(&mut rows, rings, window, message_bytes).is_ok()
        };
        assert!(sound(4, 16, 3 * 4 * 2));
        assert!(!sound(4, 16, 3 * 4 * 2 - 1) && !sound(4, 16, 3 * 4 * 2 + 1), "messages that are not there");
        assert!(!sound(3, 16, 3 * 3 * 2) && !sound(128, 16, 3 * 128 * 2), "no window");
        assert!(!sound(4, 12, 3 * 6) && !sound(4, 0, 0) && !sound(1, 1 << 16, 3 << 13), "no message");
    }

    #[test]
    fn a_peer_costs_what_is_said() {
        const PEERS: usize = 4;
        let bytes = size_of::<EthernetStorage<PEERS, 8, 256>>();
        assert_eq!(bytes, PEERS * bytes_per_peer(8, 256));
    }
}

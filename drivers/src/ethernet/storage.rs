//! The transport's memory: a row for each of the other ranks; a link, a retransmission ring and a
//! reorder ring for each that the rank can be active with at a time.

use core::fmt;

use aldis_hal::Cause;
use aldis_hal::cause::Malformed;
use aldis_protocols::reliable::WINDOW_MAX;
use zerocopy::IntoBytes;

use super::peer::{PeerLink, PeerRow};

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
/// * `LINKS`: peers that the rank can be active with at a time; as many as there are unless it is
///   said, by [`pooled`](Self::pooled), and two at least: one for a peer that is asked, and one for
///   a peer that asks. The links are made at first contact and given back by agreement when
///   another peer wants one.
///
/// [`bytes_per_peer`] says what a peer costs, [`BYTES_PER_KNOWN_PEER`] and [`bytes_per_link`] what
/// that is made of.
///
/// ```
/// use aldis_drivers::ethernet::{BYTES_PER_KNOWN_PEER, EthernetStorage, bytes_per_link};
///
/// // 1024 ranks, each of which is active with 16 others at a time.
/// static STORAGE: EthernetStorage<1023, 8, 464, 16> = EthernetStorage::pooled();
/// assert_eq!(size_of_val(&STORAGE), 1023 * BYTES_PER_KNOWN_PEER + 16 * bytes_per_link(8, 464));
/// ```
///
/// [`HEADERS_BYTES`]: super::HEADERS_BYTES
pub struct EthernetStorage<
    const PEERS: usize,
    const WINDOW: usize,
    const MESSAGE_BYTES: usize,
    const LINKS: usize = PEERS,
> {
    rows: [PeerRow; PEERS],
    links: [PeerLink; LINKS],
    outgoing: Ring<LINKS, WINDOW, MESSAGE_BYTES>,
    incoming: Ring<LINKS, WINDOW, MESSAGE_BYTES>,
}

/// Most other ranks that a transport can have: connection numbers keep 16 bits to tell connections
/// apart.
pub const PEERS_MAX: usize = 1 << 16;

/// Fewest links of a transport that has fewer than peers: one of a peer that is asked, and one for
/// a peer that asks.
pub const LINKS_MIN: usize = 2;

/// Bytes of an [`EthernetStorage`] for each peer that is known: its row.
pub const BYTES_PER_KNOWN_PEER: usize = size_of::<PeerRow>();

/// Bytes of an [`EthernetStorage`] for each link: its state, and two rings of `window` messages
/// with their lengths.
pub const fn bytes_per_link(window: usize, message_bytes: usize) -> usize {
    size_of::<PeerLink>() + 2 * window * (message_bytes + size_of::<u16>())
}

/// Bytes of an [`EthernetStorage`] for each peer where each has a link of its own.
///
/// ```
/// use aldis_drivers::ethernet::bytes_per_peer;
///
/// assert!(bytes_per_peer(8, 1464) < 24 * 1024);
/// ```
pub const fn bytes_per_peer(window: usize, message_bytes: usize) -> usize {
    BYTES_PER_KNOWN_PEER + bytes_per_link(window, message_bytes)
}

/// Returns true if a window is a power of two, and no larger than an acknowledgement describes.
const fn is_window(window: usize) -> bool {
    window.is_power_of_two() && window <= WINDOW_MAX as usize
}

/// Returns true if a transport can have memory of these sizes, which are those of an
/// [`EthernetStorage`] with a link for each peer.
pub const fn are_sizes(peers: usize, window: usize, message_bytes: usize) -> bool {
    peers > 0 && peers <= PEERS_MAX && is_window(window) && is_message(message_bytes)
}

/// Returns true if so many links do for so many peers: one for each, or two at least.
const fn are_links(links: usize, peers: usize) -> bool {
    links <= peers && (links == peers || links >= LINKS_MIN)
}

/// Returns true if messages can be that long.
const fn is_message(bytes: usize) -> bool {
    bytes > 0 && bytes < 1 << 16 && bytes.is_multiple_of(8)
}

/// A ring of messages for each link, aligned for any element type.
#[repr(C, align(8))]
struct Ring<const LINKS: usize, const WINDOW: usize, const MESSAGE_BYTES: usize> {
    bytes: [[[u8; MESSAGE_BYTES]; WINDOW]; LINKS],
    lengths: [[u16; WINDOW]; LINKS],
}

impl<const LINKS: usize, const WINDOW: usize, const MESSAGE_BYTES: usize> Ring<LINKS, WINDOW, MESSAGE_BYTES> {
    const EMPTY: Self = Self { bytes: [[[0; MESSAGE_BYTES]; WINDOW]; LINKS], lengths: [[0; WINDOW]; LINKS] };

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
    /// An empty storage with a link for each peer.
    #[expect(
        clippy::new_without_default,
        reason = "a storage is large: it is made const, not by value at run time"
    )]
    pub const fn new() -> Self {
        Self::pooled()
    }
}

impl<const PEERS: usize, const WINDOW: usize, const MESSAGE_BYTES: usize, const LINKS: usize>
    EthernetStorage<PEERS, WINDOW, MESSAGE_BYTES, LINKS>
{
    /// A sizing that cannot work does not compile.
    const SOUND: () = {
        assert!(PEERS > 0 && PEERS <= PEERS_MAX, "`PEERS` is 1 to 65536");
        assert!(is_window(WINDOW), "`WINDOW` is a power of two, 64 at most");
        assert!(is_message(MESSAGE_BYTES), "`MESSAGE_BYTES` is a multiple of 8 below 65536");
        assert!(are_links(LINKS, PEERS), "`LINKS` is 2 to `PEERS`");
    };

    /// An empty storage with `LINKS` links, which peers take when they are active.
    pub const fn pooled() -> Self {
        let () = Self::SOUND;
        Self {
            rows: [const { PeerRow::EMPTY }; PEERS],
            links: [const { PeerLink::EMPTY }; LINKS],
            outgoing: Ring::EMPTY,
            incoming: Ring::EMPTY,
        }
    }

    /// The memory for one transport, empty again.
    pub fn memory(&mut self) -> EthernetMemory<'_> {
        // One by one: a storage can be larger than a stack. What is in the rings is written before
        // it is read.
        self.rows.iter_mut().for_each(|row| *row = PeerRow::EMPTY);
        self.links.iter_mut().for_each(|link| *link = PeerLink::EMPTY);
        EthernetMemory {
            rows: &mut self.rows,
            links: &mut self.links,
            outgoing: self.outgoing.view(),
            incoming: self.incoming.view(),
        }
    }
}

impl<const PEERS: usize, const WINDOW: usize, const MESSAGE_BYTES: usize, const LINKS: usize> fmt::Debug
    for EthernetStorage<PEERS, WINDOW, MESSAGE_BYTES, LINKS>
{
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "EthernetStorage<{PEERS}, {WINDOW}, {MESSAGE_BYTES}, {LINKS}>")
    }
}

/// A storage as slices, so that the transport is compiled once and not once per sizing.
pub struct EthernetMemory<'m> {
    pub(super) rows: &'m mut [PeerRow],
    pub(super) links: &'m mut [PeerLink],
    pub(super) outgoing: FrameSlots<'m>,
    pub(super) incoming: FrameSlots<'m>,
}

impl<'m> EthernetMemory<'m> {
    /// A storage that is cut to size at run time, on a host that learns only then how many ranks
    /// there are: a row for each other rank, as many links as the rank can be active with peers,
    /// and for each direction, outgoing and incoming, the messages of all links and their lengths.
    /// `window` and `message_bytes` are as in [`EthernetStorage`].
    ///
    /// ```
    /// use aldis_drivers::ethernet::{EthernetMemory, PeerLink, PeerRow};
    ///
    /// let (others, active, window, message_bytes) = (99, 3, 4, 64);
    /// let mut rows = vec![PeerRow::EMPTY; others];
    /// let mut links = vec![PeerLink::EMPTY; active];
    /// let mut messages = [(); 2].map(|()| vec![0; active * window * message_bytes / 8]);
    /// let mut lengths = [(); 2].map(|()| vec![0; active * window]);
    /// let ([out, into], [out_lengths, into_lengths]) = (&mut messages, &mut lengths);
    /// let memory = EthernetMemory::of_slices(
    ///     &mut rows,
    ///     &mut links,
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
        links: &'m mut [PeerLink],
        [outgoing, incoming]: [(&'m mut [u64], &'m mut [u16]); 2],
        window: usize,
        message_bytes: usize,
    ) -> Result<Self, Cause> {
        let (peers, active) = (rows.len(), links.len());
        let is_sound = are_sizes(peers, window, message_bytes) && are_links(active, peers);
        let ring = |(words, lengths): (&'m mut [u64], &'m mut [u16])| {
            let bytes = words.as_mut_bytes();
            let is_whole = lengths.len() == active * window && bytes.len() == lengths.len() * message_bytes;
            (is_sound && is_whole).then_some(FrameSlots { bytes, lengths, window, message_bytes })
        };
        rows.fill(PeerRow::EMPTY);
        links.fill(PeerLink::EMPTY);
        match (ring(outgoing), ring(incoming)) {
            (Some(outgoing), Some(incoming)) => Ok(Self { rows, links, outgoing, incoming }),
            _ => Err(Cause::Malformed(Malformed::Length)),
        }
    }
}

impl fmt::Debug for EthernetMemory<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let FrameSlots { window, message_bytes, .. } = self.outgoing;
        f.debug_struct("Memory")
            .field("peers", &self.rows.len())
            .field("links", &self.links.len())
            .field("window", &window)
            .field("message_bytes", &message_bytes)
            .finish()
    }
}

/// A ring of message slots for each link. Reading or writing outside of it gives nothing.
pub(super) struct FrameSlots<'m> {
    bytes: &'m mut [u8],
    lengths: &'m mut [u16],
    pub(super) window: usize,
    pub(super) message_bytes: usize,
}

impl FrameSlots<'_> {
    /// The first `len` bytes of a slot, to be filled.
    #[inline]
    pub(super) fn fill(&mut self, link: usize, slot: usize, len: usize) -> &mut [u8] {
        let start = (link * self.window + slot) * self.message_bytes;
        let end = start + len.min(self.message_bytes);
        self.bytes.get_mut(start..end).unwrap_or_default()
    }

    /// Makes what is in a slot a message of `len` bytes.
    #[inline]
    pub(super) fn set_len(&mut self, link: usize, slot: usize, len: usize) {
        if let Some(place) = self.lengths.get_mut(link * self.window + slot) {
            *place = len as u16;
        }
    }

    /// The message in a slot.
    #[inline]
    pub(super) fn message(&self, link: usize, slot: usize) -> &[u8] {
        let index = link * self.window + slot;
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
        assert_eq!((memory.rows.len(), memory.links.len(), memory.outgoing.window), (3, 3, 4));
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
        let sound = |[peers, active]: [usize; 2], window: usize, message_bytes: usize, words: usize| {
            let (mut rows, mut links) =
                (std::vec![PeerRow::EMPTY; peers], std::vec![PeerLink::EMPTY; active]);
            let mut words = [(); 2].map(|()| std::vec![0; words]);
            let mut lengths = [(); 2].map(|()| std::vec![0; active * window]);
            let ([out, into], [out_lengths, into_lengths]) = (&mut words, &mut lengths);
            let rings = [(&mut out[..], &mut out_lengths[..]), (&mut into[..], &mut into_lengths[..])];
            EthernetMemory::of_slices(&mut rows, &mut links, rings, window, message_bytes).is_ok()
        };
        assert!(sound([3, 3], 4, 16, 3 * 4 * 2) && sound([99, 3], 4, 16, 3 * 4 * 2));
        assert!(sound([1, 1], 4, 16, 4 * 2) && sound([9, LINKS_MIN], 4, 16, 2 * 4 * 2));
        assert!(!sound([9, 1], 4, 16, 4 * 2) && !sound([2, 3], 4, 16, 3 * 4 * 2), "too few links, too many");
        assert!(!sound([3, 3], 4, 16, 3 * 4 * 2 - 1), "messages that are not there");
        assert!(!sound([3, 3], 4, 16, 3 * 4 * 2 + 1), "messages that are not there");
        assert!(!sound([3, 3], 3, 16, 3 * 3 * 2) && !sound([3, 3], 128, 16, 3 * 128 * 2), "no window");
        let is_message =
            |bytes: usize, words: usize| sound([3, 3], if bytes == 1 << 16 { 1 } else { 4 }, bytes, words);
        assert!(!is_message(12, 3 * 6) && !is_message(0, 0) && !is_message(1 << 16, 3 << 13), "no message");
    }

    #[test]
    fn a_peer_costs_what_is_said_and_one_without_a_link_a_row() {
        const PEERS: usize = 4;
        let bytes = size_of::<EthernetStorage<PEERS, 8, 256>>();
        assert_eq!(bytes, PEERS * bytes_per_peer(8, 256));
        let pooled = size_of::<EthernetStorage<1000, 8, 256, PEERS>>();
        assert_eq!(pooled - bytes, (1000 - PEERS) * BYTES_PER_KNOWN_PEER);
    }
}

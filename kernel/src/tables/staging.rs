//! Memory of a rank's own in which messages are [staged](crate::engine::staging), and where they
//! lie there: behind each other, lap after lap, each as short as the messages in it allow.

use crate::memory::buffer::{UserBuffer, overlap};
use crate::tables::list::{InScope, List};

/// The part of the staging memory that one message takes at most: others are to find room beside
/// it, and lines that have left the caches.
const SHARE: usize = 16;

/// The messages begin at a multiple of so many bytes, so that no two share a cache line.
const ALIGN: usize = 64;

/// Memory of this rank's for copies of messages. All-zero is none.
#[derive(Debug)]
pub(crate) struct Staging {
    pub(crate) memory: UserBuffer,
    /// The messages in it, in the order in which they lie there.
    pub(crate) messages: List<InScope>,
    /// The place of the next one, as an offset.
    next: usize,
    sizes: StagingSizes,
}

/// The sizes by which messages of middle length are [staged](crate::SendBuffer::lend_staging).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct StagingSizes {
    /// Bytes of a lap, after which messages begin again at the front of the memory, if it is free:
    /// as many as the own caches of two cores hold, so that lines have left them when they are
    /// written again.
    pub lap: usize,
    /// Bytes of the longest message that is staged; a sixteenth of the memory at most.
    pub message_bytes_max: usize,
}

impl Staging {
    pub(crate) const NONE: Self = Self {
        memory: UserBuffer::NONE,
        messages: List::EMPTY,
        next: 0,
        sizes: StagingSizes { lap: 0, message_bytes_max: 0 },
    };

    /// Lends it memory, once: false if it has some already.
    pub(crate) fn lend(&mut self, memory: UserBuffer, sizes: StagingSizes) -> bool {
        let is_first = self.memory.is_scattered();
        if is_first {
            (self.memory, self.sizes) = (memory, sizes);
        }
        is_first
    }

    /// Bytes of the longest message that is staged.
    pub(crate) fn bytes_max(&self) -> usize {
        if self.memory.is_scattered() {
            0
        } else {
            self.sizes.message_bytes_max.min(self.memory.len() / SHARE)
        }
    }

    /// Returns the room for `len` bytes behind the newest message, where the oldest one is the
    /// `oldest`.
    pub(crate) fn room(&self, len: usize, oldest: Option<UserBuffer>) -> Option<UserBuffer> {
        let oldest = oldest.and_then(|oldest| oldest.address().checked_sub(self.memory.address()));
        let taken = len.checked_next_multiple_of(ALIGN)?;
        let sizes = RingSizes { lap: self.sizes.lap, whole: self.memory.len() };
        let start = place_for(taken, self.next, oldest, &sizes)?;
        self.memory.part(start..start.checked_add(len)?)
    }

    /// A message has come into this room: the next one is to lie behind it.
    pub(crate) fn take(&mut self, room: UserBuffer) {
        let start = room.address().wrapping_sub(self.memory.address());
        self.next = start.wrapping_add(room.len().next_multiple_of(ALIGN));
    }

    /// Returns true if a message lies in it.
    pub(crate) fn holds(&self, message: UserBuffer) -> bool {
        !self.memory.is_scattered() && overlap(self.memory, message)
    }
}

/// The bytes of a ring.
struct RingSizes {
    /// Bytes after which it begins again, if what is in front is free.
    lap: usize,
    /// Bytes after which it begins again in any case.
    whole: usize,
}

/// Returns where `len` bytes are free from `next` on, in a ring of these sizes whose oldest message
/// begins at `oldest`, if there is any.
const fn place_for(len: usize, next: usize, oldest: Option<usize>, sizes: &RingSizes) -> Option<usize> {
    let front = match oldest {
        // What lies there has come round: up to the oldest.
        Some(oldest) if next <= oldest => return if len <= oldest - next { Some(next) } else { None },
        Some(oldest) => oldest,
        None => sizes.whole,
    };
    let (end, fits_in_front) = (next.saturating_add(len), len <= front);
    if end <= sizes.lap && end <= sizes.whole {
        Some(next)
    } else if fits_in_front {
        Some(0)
    } else if end <= sizes.whole {
        Some(next)
    } else {
        None
    }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;
    use std::vec::Vec;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// Whatever comes, and goes in whatever order, and however long a lap is: no two messages
        /// overlap, all lie within, and one that is alone always finds room.
        #[test]
        fn messages_lie_apart(lap in 0..120usize, steps in proptest::collection::vec((any::<bool>(), 1..=50usize), 0..300)) {
            const SIZE: usize = 100;
            let sizes = RingSizes { lap, whole: SIZE };
            // In the order in which they came; gone ones are taken out wherever they are.
            let mut held: VecDeque<(usize, usize)> = VecDeque::new();
            let mut next = 0;
            for (comes, len) in steps {
                if !comes {
                    if !held.is_empty() {
                        held.remove(len % held.len());
                    }
                    continue;
                }
                let found = place_for(len, next, held.front().map(|message| message.0), &sizes);
                prop_assert!(found.is_some() || !held.is_empty());
                let Some(start) = found else { continue };
                prop_assert!(start + len <= SIZE);
                let lies_here = |(at, bytes): &&(usize, usize)| *at < start + len && start < at + bytes;
                let others: Vec<_> = held.iter().filter(lies_here).collect();
                prop_assert!(others.is_empty(), "{start} {len} over {others:?}");
                held.push_back((start, len));
                next = start + len;
            }
        }
    }

    #[test]
    fn messages_go_round() {
        let sizes = RingSizes { lap: 100, whole: 100 };
        assert_eq!(starts_of(5, &sizes), [0, 40, 0, 40, 0]);
        assert_eq!(place_for(101, 0, None, &sizes), None);
        assert_eq!(place_for(40, 80, Some(40), &sizes), Some(0), "behind the end there is no room");
        assert_eq!(place_for(41, 80, Some(40), &sizes), None);
        assert_eq!(place_for(1, 40, Some(40), &sizes), None, "it is full");
    }

    /// Lines that were used a lap ago are used again, however much memory there is.
    #[test]
    fn a_lap_ends_where_the_front_is_free() {
        let sizes = RingSizes { lap: 100, whole: 1000 };
        assert_eq!(starts_of(5, &sizes), [0, 40, 0, 40, 0]);
        assert_eq!(place_for(40, 80, Some(40), &sizes), Some(0), "the first one is over");
        assert_eq!(place_for(40, 80, Some(0), &sizes), Some(80), "the first one is not");
        assert_eq!(place_for(40, 120, Some(40), &sizes), Some(0), "it is now");
        assert_eq!(place_for(200, 40, None, &sizes), Some(0), "a message is longer than a lap");
    }

    /// The places of so many messages of 40 bytes, each of which is over before the next comes.
    fn starts_of(count: usize, sizes: &RingSizes) -> Vec<usize> {
        let mut next = 0;
        let place = |_| {
            let start = place_for(40, next, None, sizes).unwrap();
            next = start + 40;
            start
        };
        (0..count).map(place).collect()
    }
}

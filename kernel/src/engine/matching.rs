//! Matching: posted receives and unexpected messages, in hash bins with the order of posting kept
//! across wildcards.
//!
//! A posted receive stands in one bin, hashed by its own pattern - so patterns with wildcards are
//! hashed too, with the wildcard as a value. An arriving message looks under its exact key and,
//! while receives with wildcards are posted, under the three other patterns that could take it, and
//! takes the oldest of what it finds: O(1) however many are posted.
//!
//! An unexpected message stands in the bin of its exact key and in one list in order of arrival. A
//! receive without wildcards looks into its bin, O(1); one with wildcards walks the arrivals,
//! bounded by the number of envelopes. MPI 4.1 section 3.5: the order is first come, first matched,
//! per pattern.

use aldis_hal::{Handle, PeerId};
use aldis_protocols::INLINE_BYTES;
use aldis_protocols::header::Label;
use aldis_protocols::rendezvous::Announcement;

use crate::planted::{self, Planted};
use crate::rank::WILD;
use crate::tables::blocks::BlockIndex;
use crate::tables::list::{Joined, Links, List, Nodes, Queue};
use crate::tables::pool::{Pool, PoolEntry};
use crate::tables::request::{Key, Request, Requests, State};

/// The place of an unexpected message's payload. Its number is a word, so that what follows is
/// aligned and is copied in words.
#[derive(Debug)]
#[repr(u32)]
pub(crate) enum Payload {
    /// In the envelope.
    Inline([u8; INLINE_BYTES]),
    /// In a block.
    Block(BlockIndex),
    /// Still with the sender.
    Announced(Announcement),
    /// Recalled by its sender, and set aside until this request is told that it has it back.
    Recalled(Handle),
}

impl Payload {
    pub(crate) const EMPTY: Self = Self::Inline([0; INLINE_BYTES]);
}

/// A message that has arrived and has met no receive.
#[derive(Debug)]
pub(crate) struct Envelope {
    pub(crate) key: Key,
    pub(crate) peer: PeerId,
    pub(crate) length: u64,
    pub(crate) payload: Payload,
    /// The label of its data, if this endpoint looks at it.
    pub(crate) label: Label,
    bin: Links,
    arrival: Links,
}

impl Envelope {
    pub(crate) const EMPTY: Self = Self {
        key: Key::NONE,
        peer: PeerId(0),
        length: 0,
        payload: Payload::EMPTY,
        label: Label::NONE,
        bin: Links::NONE,
        arrival: Links::NONE,
    };
}

pub(crate) type EnvelopeEntry = PoolEntry<Envelope>;
type Envelopes<'s> = Pool<'s, Envelope>;

pub(crate) struct InBin;
pub(crate) struct Arrival;

impl Nodes<InBin> for Envelopes<'_> {
    #[inline]
    fn links(&mut self, index: u32) -> Option<&mut Links> {
        Some(&mut self.at(index)?.bin)
    }
}

impl Nodes<Arrival> for Envelopes<'_> {
    #[inline]
    fn links(&mut self, index: u32) -> Option<&mut Links> {
        Some(&mut self.at(index)?.arrival)
    }
}

/// A bin of the hash table; all-zero is an empty one.
pub(crate) struct Bin {
    posted: List<Queue>,
    unexpected: List<InBin>,
}

impl Bin {
    pub(crate) const EMPTY: Self = Self { posted: List::EMPTY, unexpected: List::EMPTY };
}

#[inline]
const fn is_wild(pattern: &Key) -> bool {
    pattern.source == WILD || pattern.tag == WILD
}

/// The logarithm of how many consecutive tags have bins in a row.
const TAG_RUN_LOG: u32 = 6;

/// The hash table.
struct Bins<'s> {
    slots: &'s mut [Bin],
    mask: u32,
}

impl Bins<'_> {
    /// The bin of a key. Consecutive tags go to neighbouring bins: of a series, as collectives have
    /// it, the next one is in a cache line that is here, and few pages are touched. All else is
    /// spread by factors that were searched for, so that tables of every size have patterns that
    /// programs use in at least half as many bins as there could be.
    #[inline]
    fn of(&mut self, key: &Key) -> Option<&mut Bin> {
        let mixed = key.context ^ key.source.wrapping_mul(0x85EB_CA77) ^ (key.tag >> TAG_RUN_LOG);
        let index = (mixed.wrapping_mul(0x5A9C_5A93) >> 13).wrapping_add(key.tag) & self.mask;
        self.slots.get_mut(index as usize)
    }
}

/// A posted receive at the front of its bin.
pub(crate) struct Front<'m> {
    list: &'m mut List<Queue>,
    posted: &'m mut u32,
}

impl Front<'_> {
    /// Takes it out; these are its links.
    #[inline(always)]
    pub(crate) fn take(self, requests: &mut Requests<'_>, links: Links) {
        self.list.pop_front(requests, links);
        *self.posted = self.posted.wrapping_sub(1);
    }
}

/// Both queues of one endpoint.
pub(crate) struct Matcher<'s> {
    bins: Bins<'s>,
    /// Receives posted, and how many of them have wildcards.
    posted: u32,
    posted_wild: u32,
    next_order: u32,
    envelopes: Envelopes<'s>,
    arrivals: List<Arrival>,
}

impl<'s> Matcher<'s> {
    /// `bins` should be a power of two; of another number the largest power of two below is used.
    pub(crate) fn new(bins: &'s mut [Bin], envelopes: &'s mut [EnvelopeEntry]) -> Self {
        let bits = bins.len().checked_ilog2().unwrap_or(0);
        let mask = (1u32 << bits.min(31)) - 1;
        let bins = Bins { slots: bins, mask };
        let envelopes = Pool::new(envelopes);
        Self { bins, posted: 0, posted_wild: 0, next_order: 0, envelopes, arrivals: List::EMPTY }
    }

    /// Posts the receive in slot `index`.
    #[inline]
    pub(crate) fn post(&mut self, requests: &mut Requests<'_>, index: u32) {
        let Some(request) = requests.at(index) else { return };
        let key = request.key;
        if let Some(joined) = self.join(index, request, &key) {
            joined.link(requests);
        }
    }

    /// Posts the receive in slot `index`, which is this one and takes `key`; the receive that was
    /// posted before it there is to be linked to it.
    #[inline(always)]
    pub(crate) fn join(&mut self, index: u32, request: &mut Request, key: &Key) -> Option<Joined<Queue>> {
        request.state = State::Posted;
        request.order = self.next_order();
        self.posted = self.posted.wrapping_add(1);
        if is_wild(key) {
            self.posted_wild = self.posted_wild.wrapping_add(1);
        }
        Some(self.bins.of(key)?.posted.join(index, &mut request.queue))
    }

    /// The next place in the order of posting.
    #[inline]
    pub(crate) fn next_order(&mut self) -> u32 {
        let order = self.next_order;
        self.next_order = order.wrapping_add(1);
        order
    }

    /// Returns true if nothing has been posted after this place in the order.
    pub(crate) const fn is_newest(&self, order: u32) -> bool {
        order.wrapping_add(1) == self.next_order
    }

    /// Takes a posted receive out again.
    pub(crate) fn unpost(&mut self, requests: &mut Requests<'_>, index: u32) {
        let Some(key) = requests.at(index).map(|request| request.key) else { return };
        self.posted = self.posted.wrapping_sub(1);
        self.posted_wild = self.posted_wild.wrapping_sub(is_wild(&key).into());
        if let Some(bin) = self.bins.of(&key) {
            bin.posted.remove(requests, index);
        }
    }

    /// The receive at the front of the bin of `message`, if it is posted for exactly that and none
    /// has wildcards; and what takes it out.
    #[inline(always)]
    pub(crate) fn front<'r>(
        &mut self,
        requests: &'r mut Requests<'_>,
        message: &Key,
    ) -> Option<(Front<'_>, &'r mut Request)> {
        let (0, Some(bin)) = (self.posted_wild, self.bins.of(message)) else { return None };
        let list = &mut bin.posted;
        let request = requests.at(list.front()?)?;
        let front = Front { list, posted: &mut self.posted };
        if request.key == *message { Some((front, request)) } else { None }
    }

    /// Takes out the oldest posted receive that takes a message with key `message`.
    pub(crate) fn match_posted(&mut self, requests: &mut Requests<'_>, message: &Key) -> Option<u32> {
        if self.posted == 0 {
            return None;
        }
        let index = if self.posted_wild == 0 {
            self.first_posted(requests, message)?.0
        } else {
            self.find_posted(requests, message)?
        };
        self.unpost(requests, index);
        Some(index)
    }

    /// The oldest posted receive that takes a message with key `message`.
    pub(crate) fn find_posted(&mut self, requests: &mut Requests<'_>, message: &Key) -> Option<u32> {
        let mut oldest: Option<(u32, u32)> = None;
        for wild in 0..4 {
            let pattern = Key {
                context: message.context,
                source: if wild & 1 == 0 { message.source } else { WILD },
                tag: if wild & 2 == 0 { message.tag } else { WILD },
            };
            let Some(found) = self.first_posted(requests, &pattern) else { continue };
            // Orders are compared by their distance, so that the counter may wrap.
            let older = |order| (found.1.wrapping_sub(order) as i32) < 0;
            if oldest.is_none_or(|(_, order)| older(order) && !planted::is(Planted::ForgetPostingOrder)) {
                oldest = Some(found);
            }
        }
        oldest.map(|(index, _)| index)
    }

    /// The first receive posted with exactly this pattern, and its order.
    fn first_posted(&mut self, requests: &mut Requests<'_>, pattern: &Key) -> Option<(u32, u32)> {
        let mut next = self.bins.of(pattern)?.posted.front();
        while let Some(index) = next {
            let request = requests.at(index)?;
            if request.key == *pattern {
                return Some((index, request.order));
            }
            next = List::<Queue>::after(requests, index);
        }
        None
    }

    /// The oldest unexpected message that the receive pattern takes.
    pub(crate) fn find_unexpected(&mut self, pattern: &Key) -> Option<u32> {
        if self.envelopes.in_use() == 0 {
            return None;
        }
        if !is_wild(pattern) {
            let mut next = self.bins.of(pattern)?.unexpected.front();
            while let Some(index) = next {
                if self.envelopes.at(index)?.key == *pattern {
                    return Some(index);
                }
                next = List::<InBin>::after(&mut self.envelopes, index);
            }
            return None;
        }
        let mut next = self.arrivals.front();
        while let Some(index) = next {
            if pattern.takes(&self.envelopes.at(index)?.key) {
                return Some(index);
            }
            next = List::<Arrival>::after(&mut self.envelopes, index);
        }
        None
    }

    /// The key of the newest of at most `most` messages kept, the last that arrived, that `is` what
    /// is looked for.
    pub(crate) fn seek(&mut self, most: u64, is: impl Fn(&Key) -> bool) -> Option<Key> {
        let mut next = self.arrivals.back();
        for _ in 0..most {
            let index = next?;
            let key = self.envelopes.at(index)?.key;
            if is(&key) {
                return Some(key);
            }
            next = List::<Arrival>::before(&mut self.envelopes, index);
        }
        None
    }

    /// Keeps a message that no receive waits for, and lends the place of its payload; `None` if
    /// there is no envelope.
    pub(crate) fn keep(
        &mut self,
        key: Key,
        peer: PeerId,
        length: u64,
        label: &Label,
    ) -> Option<&mut Payload> {
        let (Handle { slot, .. }, envelope) = self.envelopes.take()?;
        (envelope.key, envelope.peer, envelope.length, envelope.label) = (key, peer, length, *label);
        self.arrivals.push_back(&mut self.envelopes, slot);
        if let Some(bin) = self.bins.of(&key) {
            bin.unexpected.push_back(&mut self.envelopes, slot);
        }
        self.envelopes.at(slot).map(|envelope| &mut envelope.payload)
    }

    /// Returns what is known of a kept message.
    pub(crate) fn peek(&mut self, index: u32) -> Option<&Envelope> {
        self.envelopes.at(index).map(|envelope| &*envelope)
    }

    /// Takes a kept message out; returns its payload.
    pub(crate) fn remove(&mut self, index: u32) -> Option<Payload> {
        self.unlink(index)?;
        self.empty(index)
    }

    /// Takes a kept message out of which nothing is needed any more; it has no block.
    #[inline]
    pub(crate) fn discard(&mut self, index: u32) {
        if self.unlink(index).is_some() {
            self.envelopes.give(index);
        }
    }

    fn unlink(&mut self, index: u32) -> Option<()> {
        let key = self.envelopes.at(index)?.key;
        self.arrivals.remove(&mut self.envelopes, index);
        self.bins.of(&key)?.unexpected.remove(&mut self.envelopes, index);
        Some(())
    }

    fn empty(&mut self, index: u32) -> Option<Payload> {
        let payload = core::mem::replace(&mut self.envelopes.at(index)?.payload, Payload::EMPTY);
        self.envelopes.give(index);
        Some(payload)
    }

    /// Takes a kept message out of the queues, but leaves it in its slot: nothing finds it but by
    /// this handle.
    pub(crate) fn set_aside(&mut self, index: u32) -> Option<Handle> {
        self.unlink(index)?;
        self.envelopes.handle(index)
    }

    /// The message kept in the queues that `peer` has announced by `sender`. Bounded by the
    /// envelopes.
    pub(crate) fn find_announced(&mut self, peer: PeerId, sender: Handle) -> Option<u32> {
        let mut next = self.arrivals.front();
        while let Some(index) = next {
            let envelope = self.envelopes.at(index)?;
            if envelope.peer == peer
                && matches!(envelope.payload, Payload::Announced(announcement) if announcement.sender == sender)
            {
                return Some(index);
            }
            next = List::<Arrival>::after(&mut self.envelopes, index);
        }
        None
    }

    /// Sets an announced message aside as recalled by `sender`: nothing matches it any more.
    pub(crate) fn set_recalled(&mut self, index: u32, sender: Handle) {
        self.unlink(index);
        if let Some(envelope) = self.envelopes.at(index) {
            envelope.payload = Payload::Recalled(sender);
        }
    }

    /// Empties the slot of a message that was set aside, and has no block.
    pub(crate) fn drop_aside(&mut self, index: u32) {
        self.empty(index);
    }

    /// Takes a message that was set aside out of its slot; returns its payload.
    pub(crate) fn take_aside(&mut self, handle: Handle) -> Option<Payload> {
        self.envelopes.get(handle)?;
        self.empty(handle.slot)
    }

    /// Takes out the oldest kept message of `peer`.
    pub(crate) fn remove_from(&mut self, peer: PeerId) -> Option<Payload> {
        let mut next = self.arrivals.front();
        while let Some(index) = next {
            if self.envelopes.at(index)?.peer == peer {
                return self.remove(index);
            }
            next = List::<Arrival>::after(&mut self.envelopes, index);
        }
        None
    }

    /// The bound of a walk over all messages kept.
    pub(crate) const fn kept_end(&self) -> u32 {
        self.envelopes.used_end()
    }

    /// The message kept in an envelope, also one that is set aside.
    pub(crate) fn kept(&self, slot: u32) -> Option<&Envelope> {
        self.envelopes.handle(slot)?;
        self.envelopes.peek(slot)
    }

    /// Messages kept now, also those set aside.
    pub(crate) const fn unexpected(&self) -> u32 {
        self.envelopes.in_use()
    }

    /// Returns true if no receive is posted and no message kept.
    #[inline]
    pub(crate) const fn is_empty(&self) -> bool {
        self.posted == 0 && self.envelopes.in_use() == 0
    }

    /// Receives posted now.
    pub(crate) const fn posted(&self) -> u32 {
        self.posted
    }
}

#[cfg(test)]
mod tests;

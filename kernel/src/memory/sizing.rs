//! The sizing rule: how many of each slot a [`Storage`](crate::Storage) needs so that nothing which
//! a legal program does can wait for ever. It is checked when a storage is compiled: an illegal
//! sizing does not compile, and says which parameter is at fault; one of
//! [run time](crate::StorageSizes) is refused with the same words.
//!
//! Every pool is a sum with one term per consumer, so that no consumer ever finds another in its
//! place:
//!
//! ```text
//! pool           size               consumers, and what bounds each
//! envelopes      peers * envelopes  unmatched messages of each peer          its credits
//! blocks         peers * blocks     eager payloads among them                its credits
//!                + pooled           messages that the user holds             `pooled`; Full beyond
//! requests       OF_A_CALL          the halves of the one blocking sendrecv  one call at a time
//!                + OF_A_PROBE       the probe between calls of iprobe        one an endpoint
//!                + OF_TURNING_AWAY  announcements in a communicator freed    one after the other
//!                + the program's    its nonblocking operations               Full beyond
//! peers          peers              those in contact, this rank included     closed for others
//! scheduled      peers              peers that something is to be said to    each once
//! communicators  PREDEFINED         world and self
//!                + the program's    those it makes                           Full beyond
//! pieces         the program's      groups that are no single stride         TooSmall beyond
//! ```
//!
//! # Why no rank waits for ever
//!
//! 1. *What arrives has a place.* A peer sends a message that can be matched only with a credit,
//!    and credits are the slots set aside for it; so the transport's queue is always emptied by a
//!    poll, whatever the program has posted, and a transport whose queue is emptied takes the next
//!    message. Everything that is not matched (credits, clear-to-send, data, finish, overflow,
//!    control) needs no slot where it arrives: it changes a row or a request that exists.
//! 2. *What is to be said has a place.* A credit, a question and its answer, a refusal: one field
//!    each in the peer's row. A clear-to-send, data, a finish: the request's own slot. The FIFO of
//!    peers holds each at most once. So saying something never waits for a slot, only for the
//!    transport, and 1. empties that.
//! 3. *No operation needs a second slot on its way.* A send or receive takes its request slot when
//!    it is started, or is refused there and then; matched, deferred, announced, given up, it stays
//!    in that slot. So those under way end without new ones, and a full table is a refusal to the
//!    caller and never a cycle.
//! 4. *A receive that a message held back would satisfy gets it.* If the envelopes of a peer are
//!    full of others, it is matched at its sender
//!    ([`protocols::overflow`](aldis_protocols::overflow)): one question a pair at a time, which
//!    by 2. needs no slot; the message is then sent as if announced, into the receive's own slot.
//!
//! 5. *A peer without a row gets one.* A storage with fewer rows than the job has ranks has three
//!    at least: this rank's own, one for a peer that it asks, one for a peer that asks it. The last
//!    is never kept by a peer that has not answered, so its contact can always be closed, which
//!    takes no more than that its peer polls ([`protocols::contact`](aldis_protocols::contact)). A
//!    close takes nothing away that a message needs: envelopes and blocks of messages that are not
//!    matched stay taken until they are, and the peers of later contacts are granted what is left,
//!    which may be nothing (4.); an announcement needs no row while it waits; and what is still to
//!    be said in its request waits for the next contact, which by this rule comes.
//!
//! So the smallest legal storage runs every legal program that has no more operations under way at
//! a time than the request table holds; more slots only make it faster. `tests/tests/sizing.rs`
//! runs blocking exchanges in exactly that storage, and the simulator's `Room::Least` has it but
//! for the requests of its nonblocking workloads.

use aldis_protocols::card::Room;
use aldis_protocols::credit::WINDOW_MAX;

use crate::tables::comm::PREDEFINED;

/// Request slots of a blocking call: the send and the receive of a sendrecv.
const OF_A_CALL: usize = 2;
/// Request slots of the probe for messages held back that goes on between calls of iprobe.
const OF_A_PROBE: usize = 1;
/// Request slots of turning announcements away that came for a communicator freed here.
const OF_TURNING_AWAY: usize = 1;
/// The fewest request slots with which a program of blocking calls runs.
pub const REQUESTS_MIN: usize = OF_A_CALL + OF_A_PROBE + OF_TURNING_AWAY;
const _: () = assert!(REQUESTS_MIN == 4, "`room` and the storage's documentation say how many");

/// Slots of a storage in sum, as its type has them.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sizing {
    pub(crate) peers: usize,
    pub(crate) requests: usize,
    pub(crate) communicators: usize,
    /// Of all peers together.
    pub(crate) envelopes: usize,
    /// Of all peers together, and the pooled ones.
    pub(crate) blocks: usize,
    pub(crate) pooled: usize,
    /// Of all blocks together.
    pub(crate) bytes: usize,
    pub(crate) bins: usize,
}

impl Sizing {
    /// Returns the room that each peer is granted.
    ///
    /// # Errors
    /// The part of the rule that is broken, in words.
    pub(crate) const fn room(&self) -> Result<Room, &'static str> {
        let &Self { peers, requests, communicators, envelopes, blocks, pooled, bytes, bins } = self;
        let most = WINDOW_MAX as usize;
        let above = u32::MAX as usize;
        if peers == 0 {
            return Err("a job has at least one rank: `peers` must be above zero");
        }
        let block_bytes = match bytes.checked_div(blocks) {
            Some(bytes) => bytes,
            None => 0,
        };
        let mut rules: &[(bool, &'static str)] = &[
            (peers < above, "`peers` is above what 32 bits count"),
            (
                requests >= REQUESTS_MIN,
                "`requests` must be at least 4: two of a sendrecv, one of a probe, one of turning away",
            ),
            (requests < above, "`requests` is above what 32 bits count"),
            (
                communicators >= PREDEFINED,
                "world and self need two slots: `communicators` must be at least 2",
            ),
            (communicators < above, "`communicators` is above what 32 bits count"),
            (bins.is_power_of_two(), "`bins` must be a power of two"),
            (envelopes / peers > 0, "every peer needs a place for a message: `envelopes` must be above zero"),
            (envelopes / peers <= most, "`envelopes` is above 16384, the most that credits count"),
            (envelopes < above, "`peers * envelopes` is above what 32 bits count"),
            (blocks >= pooled && (blocks - pooled) / peers <= most, "`blocks` is above 16384"),
            (blocks < above, "`peers * blocks` and `pooled` are above what 32 bits count"),
            (block_bytes.is_multiple_of(8), "`block_bytes` must be a multiple of 8"),
            (block_bytes <= above, "`block_bytes` is above what 32 bits count"),
        ];
        while let [(is_kept, rule), tail @ ..] = rules {
            if !*is_kept {
                return Err(rule);
            }
            rules = tail;
        }
        Ok(Room {
            envelopes: (envelopes / peers) as u16,
            blocks: ((blocks - pooled) / peers) as u16,
            block_bytes: block_bytes as u32,
        })
    }

    /// Like [`room`](Self::room), but fails at compile time if the rule is broken.
    #[expect(clippy::panic, reason = "a constant is made of it: what is refused does not compile")]
    pub(crate) const fn checked_room(&self) -> Room {
        match self.room() {
            Ok(room) => room,
            Err(rule) => panic!("{}", rule),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The smallest legal storage for two ranks.
    const LEAST: Sizing = Sizing {
        peers: 2,
        requests: REQUESTS_MIN,
        communicators: PREDEFINED,
        envelopes: 2,
        blocks: 0,
        pooled: 0,
        bytes: 0,
        bins: 1,
    };

    #[test]
    fn the_least_is_granted() {
        assert_eq!(LEAST.room(), Ok(Room { envelopes: 1, blocks: 0, block_bytes: 0 }));
        let more = Sizing { blocks: 2 * 3 + 1, pooled: 1, bytes: 7 * 64, ..LEAST };
        assert_eq!(more.room(), Ok(Room { envelopes: 1, blocks: 3, block_bytes: 64 }));
    }

    #[test]
    fn one_below_is_refused_by_name() {
        let blocks = Sizing { blocks: 3, pooled: 1, bytes: 3 * 64, ..LEAST };
        for (sizing, name) in [
            (Sizing { peers: 0, ..LEAST }, "`peers`"),
            (Sizing { requests: REQUESTS_MIN - 1, ..LEAST }, "`requests`"),
            (Sizing { communicators: PREDEFINED - 1, ..LEAST }, "`communicators`"),
            (Sizing { envelopes: 1, ..LEAST }, "`envelopes`"),
            (Sizing { envelopes: 2 * (16_384 + 1), ..LEAST }, "`envelopes`"),
            (Sizing { bins: 3, ..LEAST }, "`bins`"),
            (Sizing { bins: 0, ..LEAST }, "`bins`"),
            (Sizing { bytes: 3 * 60, ..blocks }, "`block_bytes`"),
            (Sizing { pooled: 4, ..blocks }, "`blocks`"),
        ] {
            let why = sizing.room().expect_err("it must be refused");
            assert!(why.contains(name), "{sizing:?}: {why}");
        }
    }
}

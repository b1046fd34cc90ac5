//! Counters of everything that happens, readable at any time.

/// Running counts since the endpoint was made. All wrap after 2^64.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[non_exhaustive]
pub struct Counters {
    /// Calls of poll.
    pub polls: u64,
    /// Messages sent, by whatever protocol.
    pub messages_sent: u64,
    /// Messages that arrived (announcements count once).
    pub messages_received: u64,
    /// Payload bytes sent.
    pub bytes_sent: u64,
    /// Payload bytes received.
    pub bytes_received: u64,
    /// Messages sent by rendezvous for their size.
    pub rendezvous: u64,
    /// Messages received by reading the sender's memory.
    pub reads: u64,
    /// Messages sent by writing the receiver's memory.
    pub writes: u64,
    /// Messages sent by a copy in staging memory.
    pub staged: u64,
    /// Messages that were to be read or written and could not be, here or at their sender, and went
    /// in fragments.
    pub unread: u64,
    /// Messages of eager size that found no block credit and were deferred.
    pub deferrals: u64,
    /// Messages sent without an envelope credit, matched on this side for a receive that asked for
    /// them.
    pub overflows: u64,
    /// Messages that arrived before their receive.
    pub unexpected: u64,
    /// The most unexpected messages at a time.
    pub unexpected_peak: u32,
    /// The most requests in use at a time.
    pub requests_peak: u32,
    /// Posts that the transport could not take at once.
    pub retries: u64,
    /// Sends that had to wait for an envelope credit.
    pub credit_stalls: u64,
    /// Credits sent in messages of their own.
    pub credits_sent: u64,
    /// Messages from another life of a peer, or from one that has not been introduced or is lost;
    /// discarded.
    pub stale_epochs: u64,
    /// Messages of communicators that have been freed, discarded.
    pub stale_contexts: u64,
    /// Messages to requests that are over, discarded.
    pub stale_handles: u64,
    /// Messages that broke the protocol; each ends its peer.
    pub malformed: u64,
    /// Calls of poll that found nothing to do.
    pub polls_idle: u64,
    /// Messages in attached memory that buffered sends have looked at for a gap.
    pub buffer_steps: u64,
    /// Requests looked at for the next receive to ask a sender about that holds messages back.
    pub seek_steps: u64,
}

/// Counts one more.
#[cfg_attr(feature = "fast-paths", inline(always))]
#[cfg_attr(not(feature = "fast-paths"), inline(never))]
pub(crate) const fn count(counter: &mut u64) {
    *counter = counter.wrapping_add(1);
}

//! The order in which a rank exchanges with its neighbours, and the blocks that meet.
//!
//! # Which blocks meet
//!
//! A rank may be a neighbour of another several times. In a graph the k-th time that a rank
//! stands among another's destinations is the k-th time that this one stands among its sources. In
//! a grid what is sent one way along a dimension arrives as coming from the other: block s meets
//! block s ^ 1, also where a periodic dimension has two ranks or one and both neighbours are the
//! same (MPI 4.1 section 8.6; mpi-forum issue 153).
//!
//! # Why this order
//!
//! Lists may be longer than the messages that a round may have, and every rank orders its own as it
//! likes. Rounds in the order of the lists deadlock: rank 0 sends to 2, then to 3, rank 1 to 3,
//! then to 2, rank 2 receives from 1 first and rank 3 from 0. They do also where both lists are in
//! one order but are walked side by side, since one list's messages then wait for the other's.
//!
//! So all messages of a rank, sent and received, stand in one row, and all ranks order theirs by
//! one rule: by the distance from sender to receiver on the ring of ranks, then by the sender, then
//! by what comes first of the same two. A round is as many as fit, from the first on. Of all
//! messages that are not through take the first by the rule: both its ranks are through with all
//! that come before it, so both have posted it, and it gets through. Hence there is no deadlock,
//! however long the lists, even though every send waits for its receive. By distance, since then
//! most ranks have something to do in each round, as in a pairwise all-to-all.
//!
//! What a rank has for itself is copied.

/// The action that is done with a neighbour.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub(crate) enum NeighborAction {
    /// A block is received from it.
    Receive,
    /// A block is sent to it.
    Send,
    /// A block is copied, as the neighbour is the rank itself.
    Copy,
}

/// An entry of a [`NeighborList`](crate::neighbor::NeighborList): what is done with one neighbour.
/// The memory for them is the caller's.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct NeighborEntry {
    pub(crate) action: NeighborAction,
    /// The neighbour.
    pub(crate) rank: u32,
    /// The place among the sources of what is received, among the destinations of what is sent.
    pub(crate) block: u32,
    /// Of a copy, the place among the destinations.
    pub(crate) given: u32,
    /// The order of messages between the same two ranks; in a grid, the place among the sender's
    /// destinations.
    pub(crate) turn: u32,
}

impl NeighborEntry {
    /// No entry, for memory to lend.
    pub const NONE: Self = Self { action: NeighborAction::Copy, rank: u32::MAX, block: 0, given: 0, turn: 0 };

    /// A block that `rank` sends, and comes to `source`.
    pub(crate) const fn receive(rank: u32, block: u32, turn: u32) -> Self {
        Self { action: NeighborAction::Receive, rank, block, given: 0, turn }
    }

    pub(crate) const fn send(rank: u32, block: u32) -> Self {
        Self { action: NeighborAction::Send, rank, block, given: 0, turn: block }
    }

    /// Returns the key by which all ranks order their messages.
    fn key(&self, me: u32, size: u32) -> (u32, u32, u32) {
        let (from, to) =
            if self.action == NeighborAction::Receive { (self.rank, me) } else { (me, self.rank) };
        let distance = if from <= to { to - from } else { size - (from - to) };
        (distance, from, self.turn)
    }
}

/// Puts the entries of rank `me` of `size` in order, `width` messages a round, and makes one copy
/// of each block that it sends itself and the one that it receives from itself. Returns how many
/// are left; `None` if it sends itself more or less than it receives.
pub(crate) fn arrange(entries: &mut [NeighborEntry], me: u32, size: u32, width: usize) -> Option<usize> {
    // What is sent to other ranks first, then what comes from itself, then what is sent to itself.
    entries.sort_unstable_by_key(|entry| {
        (entry.rank == me, (entry.rank == me).then_some(entry.action), entry.key(me, size))
    });
    let messages = entries.iter().take_while(|entry| entry.rank != me).count();
    let (messages, own) = entries.split_at_mut_checked(messages)?;
    for round in messages.chunks_mut(width.max(1)) {
        round.sort_unstable_by_key(|entry| (entry.action, entry.key(me, size)));
    }
    let received = own.iter().take_while(|entry| entry.action == NeighborAction::Receive).count();
    let (received, sent) = own.split_at_mut_checked(received)?;
    if received.len() != sent.len() {
        return None;
    }
    for (entry, sent) in received.iter_mut().zip(sent) {
        (entry.action, entry.given) = (NeighborAction::Copy, sent.block);
    }
    messages.len().checked_add(received.len())
}

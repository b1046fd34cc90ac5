//! Shared memory: messages between ranks that can map each other's memory. No operating system
//! calls; the program that maps the regions (a host process, a hypervisor's guest, a card with a
//! window on its host) hands them in.
//!
//! # The inbox
//!
//! Each rank owns one region, its inbox, in which all other ranks write to it:
//!
//! | part | bytes | written by |
//! |---|---|---|
//! | header: magic, version, [`Geometry`], length, [`Identity`] | 56 | the owner ([`format()`]) |
//! | sleepers of the node that wait for slots, in the inbox of its rank 0 | 4 | all ranks |
//! | the word of an owner that sleeps | 4 | the owner, and who wakes it |
//! | shared inbox, if lanes are fewer than peers: flags; slots | 640; a block each | all |
//! | per lane: ring of `slots` slots, and two ping-pong slots | 128 each | the sender |
//! | per lane: credit line | 128 | the owner |
//! | per lane: `blocks` blocks | `block_bytes` each | the sender, and the owner its answers |
//! | per set: progress, slots, probe, chunks | 128; 8320 each; 512; chunk bytes | the owner |
//!
//! All control words are little-endian and 32 bits wide, so that a Cortex-M and a server can share
//! one.
//!
//! # A message's way
//!
//! A message of at most 120 bytes is written into the next slot of the ring, larger ones into a
//! block that the same ring announces: there is one order. Up to 56 bytes are in one cache line, up
//! to 120 in two neighbours. The slot's sequence is stored last. The receiver looks at one word,
//! the sequence of the slot it expects, and hands the message to the sink where it lies. Slots and
//! blocks go back by the credit line, a quarter of them at a time; every message that is sent the
//! other way returns slots too. Two ranks that answer each other so know that their rings are
//! empty, and keep to two *ping-pong slots* in each direction, whose lines stay warm; and the
//! answer to a message in a block is written into the same block.
//!
//! Poll looks at the ring of every lane that is in use, in turn.
//!
//! # More ranks than lanes
//!
//! A rank has at most [`Geometry::LANES_MAX`] lanes. Where each peer has one, that is all there is.
//! Where there are more peers each rank has one *shared inbox* besides, of 64 slots, in which all
//! may write, and lends its lanes to those that talk to it most: the memory of a node is
//! proportional to its ranks. Module `inbox` has the shared inbox, its bounds and its fairness;
//! module `path` how a pair of ranks goes over to a lane and back without a message overtaking
//! another. A sender that is killed while it writes costs the inbox a slot, and nobody waits for
//! it. The lane of a peer that is lost stays with it, since that may write there still.
//!
//! A rank keeps a cache line of its own memory for each peer. The two ends of a pair's lanes are
//! two more, of which there are as many as lanes that it grants and as many again for those that
//! it is granted, however many peers there are: a pair has them from its first lane to its last. A
//! rank that is granted a lane and has no ends left closes another, of a peer to which nothing has
//! been sent for a while; if all are in use it goes on by the inbox.
//!
//! # Control slots
//!
//! What is in an inbox so far is for one reader and many writers; the sets behind it are the other
//! way round. A collective of the ranks of a node writes what a rank contributes once, into its own
//! inbox, and all other ranks read it there ([`aldis_hal::shared_control`] has the rules). A set
//! says how far its owner has come and has [`Geometry::CONTROL_SLOTS`] slots and
//! [`Geometry::chunks`] chunks: the same memory however many ranks there are, and more where they
//! are few.
//!
//! # Sleep
//!
//! A rank that waits for long may sleep, where the program has given it a way to
//! ([`SleepWords`]): a peer that writes what it may wait for has the system wake it. A sender looks
//! at one more word for that, which changes when a receiver falls asleep or is woken, and has no
//! barrier: the sleeper makes it. What stands in these words decides on nothing else: a wrong one
//! costs a ring in vain, or a sleep to its end.
//!
//! # What is validated
//!
//! Headers when a region is opened, or before the first message to it where lanes are fewer than
//! peers; of a sender: sequence, block, length, record; of a receiver: positions and blocks
//! returned; of control slots: sequence, and how far ahead chunks are. A value that cannot be ends
//! the lane: the loss is reported to the sink and posts answer
//! [`Cause::PeerDead`](aldis_hal::Cause::PeerDead). What cannot be found is memory that changes
//! while it is read.

mod control_slots;
#[cfg(not(loom))]
mod cores;
mod cursor;
#[cfg(target_pointer_width = "64")]
mod departures;
#[cfg(not(loom))]
mod distance;
mod geometry;
mod header;
#[cfg(target_pointer_width = "64")]
mod inbox;
mod incoming;
#[cfg(not(loom))]
mod lane;
#[cfg(not(loom))]
mod lane_table;
mod memory;
mod outgoing;
mod path;
#[cfg(not(loom))]
mod poll_set;
#[cfg(not(loom))]
mod region;
mod ring;
#[cfg(not(loom))]
mod sets;
#[cfg(not(loom))]
#[cfg(target_pointer_width = "64")]
mod shared;
mod sleep;
#[cfg(not(loom))]
mod transport;

#[cfg(test)]
#[cfg(loom)]
mod answer_models;
#[cfg(test)]
#[cfg(loom)]
mod control_slot_models;
#[cfg(test)]
#[cfg(loom)]
mod header_models;
#[cfg(test)]
#[cfg(loom)]
mod inbox_models;
#[cfg(test)]
#[cfg(loom)]
mod models;
#[cfg(test)]
#[cfg(loom)]
mod sleep_models;
#[cfg(test)]
#[cfg(not(loom))]
mod tests;

#[cfg(not(loom))]
pub use cores::{Cores, CoresSetup};
#[cfg(not(loom))]
pub use distance::Distance;
pub use geometry::{Geometry, Identity};
#[cfg(not(loom))]
pub use lane::Lane;
#[cfg(all(not(loom), target_pointer_width = "64"))]
pub use region::RecordTable;
#[cfg(not(loom))]
pub use region::{Region, format, inspect};
#[cfg(not(loom))]
pub use sets::{PairLengths, PeerReader};
pub use sleep::{SleepWords, ToldSleep};
#[cfg(not(loom))]
pub use transport::{NodeRank, Shm, ShmSlot};

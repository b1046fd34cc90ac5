//! Discovery: how the ranks of a job find each other on a wire where nothing but the job's key and
//! size is known.
//!
//! ```text
//! rank 1                                                ranks 0, 2
//!   | -- hello 7 (my card; ranks 0 and 2, answer!) ----> |  to all
//!   | <- here (my card; to hello 7) -------------------- |  from each that was asked and heard it
//! ```
//!
//! A hello is repeated with back-off while any card is missing.
//!
//! Each rank has one card, some bytes that mean nothing here ([`Card`](crate::Card) is what a
//! kernel puts there). A hello carries its sender's, so ranks that start together need one hello
//! each and no answers. Who starts late, or lost what the others sent, asks the ranks that it
//! misses by name (64 of them in a hello, in turn), and those answer, also long after they have
//! found all others themselves.
//!
//! # Schedule
//!
//! A hello is sent at once and again after [`retry_first_ns`](DiscoverySetup::retry_first_ns), then
//! after intervals that double up to [`retry_max_ns`](DiscoverySetup::retry_max_ns), until every
//! card is there or [`deadline_ns`](DiscoverySetup::deadline_ns) has passed: 10 ms to 1 s and 20 s
//! by default, hence 26 hellos at most. Besides those, one message at most is sent for each that
//! came. The report of a search that failed ([`Overdue`]) names the ranks that are missing and
//! counts what was refused.
//!
//! # Lives
//!
//! Every message tells its sender's epoch. A card of another life than the one that is known, or
//! another card of the same life, is not believed at once: it may be an old frame that was long on
//! its way. Its sender is asked with a new number, and the card in an answer to that number
//! replaces the old one ([`Roster::news`]). A life that was replaced never comes back.
//!
//! # What is refused
//!
//! Bytes that are no message of this version, damaged ones, messages of another job or of a job of
//! another size; and a station that claims a rank that another station has, or this side's own: the
//! first station keeps a rank, and a rank that boots again keeps its station's address. All of that
//! is counted ([`Refused`]) and has no other effect. There is no protection from a station that
//! forges the address of another: the job's key keeps jobs apart, and is no secret.
//!
//! ```
//! use aldis_hal::nic::Mac;
//! use aldis_hal::{Epoch, Instant, PeerId};
//! use aldis_protocols::discovery::{Entry, MESSAGE_BYTES_MAX, Roster, DiscoverySetup};
//!
//! let setup = |rank| {
//!     let epoch = Epoch(71 + rank);
//!     DiscoverySetup { job: 0xA1D1, rank, size: 2, epoch, ..DiscoverySetup::DEFAULT }
//! };
//! let (mut ours, mut theirs) = ([Entry::EMPTY; 2], [Entry::EMPTY; 2]);
//! let mut zero = Roster::new(setup(0), &mut ours)?;
//! let mut one = Roster::new(setup(1), &mut theirs)?;
//! let now = Instant(0);
//! zero.announce(b"card of zero", now)?;
//! one.announce(b"card of one", now)?;
//!
//! // What the driver of the machine does with every frame:
//! let mut buffer = [0; MESSAGE_BYTES_MAX];
//! let (to, hello) = zero.poll_transmit(&mut buffer).unwrap();
//! assert_eq!(to, Mac([0xFF; 6]));
//! one.handle(Mac([2, 0, 0, 0, 0, 0]), hello);
//! zero.transmitted();
//! assert_eq!(one.card(PeerId(0)), Some(&b"card of zero"[..]));
//! assert!(one.is_complete() && !zero.is_complete());
//! let (to, here) = one.poll_transmit(&mut buffer).unwrap();
//! assert_eq!(to, Mac([2, 0, 0, 0, 0, 0]));
//! zero.handle(Mac([2, 0, 0, 0, 0, 1]), here);
//! one.transmitted();
//! assert!(zero.is_complete());
//! # Ok::<(), aldis_hal::Cause>(())
//! ```

mod entry;
mod message;
mod report;
mod roster;
#[cfg(test)]
mod tests;

pub use entry::Entry;
pub use message::{Asked, DiscoveryKind, HEADER_BYTES, MESSAGE_BYTES_MAX, Message};
pub use report::{DiscoveryCounters, NAMED_MAX, Overdue, Refused};
pub use roster::{DiscoverySetup, REPLIES_MAX, Roster};

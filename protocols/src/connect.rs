//! The handshake: how two ends of a lossy wire come to share one connection, whichever of them
//! asks, however often either of them starts anew.
//!
//! ```text
//! asks                                         answers
//!   | -- hello (number a) ---------------------> |   has been introduced to this life of the asker
//!   | <- welcome (number b, echo a) ------------ |
//!   |    open: (a, b)                            |
//!   | -- confirm (number a, echo b) -----------> |   or the first frame with number b
//!   |                                            |   open: (b, a)
//! ```
//!
//! **Numbers.** For every attempt a side chooses a fresh number for itself; the peer puts it on
//! every frame. It holds the slot of the peer in the side's table (low 16 bits, [`slot`]) and a
//! generation (high 16 bits) that starts at a value drawn from the life's epoch, so that a new life
//! repeats the number of a connection that its predecessor had once in 65,536 times, and then it
//! matters only if a frame of that connection is still on its way. Within one life they ascend, so
//! that an older attempt is distinguished from a newer one. What echoes a number was sent after
//! that number was chosen: that is the proof that its sender is alive.
//!
//! **Crossing.** If both ask at once, the attempt of the lower rank goes on and the higher rank
//! drops its own and answers ([`yields`]): both decide the same, each by itself. It answers with a
//! fresh number: no number is ever part of two pairs, so that no frame of one connection is taken
//! for one of another.
//!
//! **Lives.** A life of the peer is admitted by [`introduce`](Connect::introduce). Another is
//! refused as [`Unknown`](HandshakeRefusal::Unknown), with this side's number: if it echoes that,
//! it is alive now and so the admitted life is over ([`HandshakeEvent::Restarted`]). A hello of a
//! life that ended long ago proves nothing and changes nothing. So is a newer number of the
//! admitted life itself, or its word that it does not hold the connection any more
//! ([`Stale`](HandshakeRefusal::Stale) names both numbers): that connection is over. Either way the
//! peer has to be introduced anew.
//!
//! **Refusals.** Version, job, rank and limits end the attempt with [`HandshakeEvent::Refused`];
//! [`Unknown`](HandshakeRefusal::Unknown) and [`Stale`](HandshakeRefusal::Stale) do not, since
//! asking again may help. Messages are repeated with back-off until the attempt's deadline.
//!
//! **Close.** A side that has sent all, and knows that it has arrived, may end a connection:
//!
//! ```text
//! ends                                         follows
//!   | -- close (number a, echo b) -------------> |   sends what it has, and nothing new
//!   | <- data, and acknowledgements -----------> |
//!   | <------------- close (number b, echo a) -- |   all of it has arrived: over
//!   |    over                                    |
//! ```
//!
//! So at a side where it is over nothing is under way in either direction, and what comes later is
//! of another connection. A close is repeated until it is answered: by a close, by *stale*, which a
//! side says that does not hold the connection any more, or by a newer attempt of the peer. Closes
//! that cross are a close. Numbers go on from one connection to the next: they are in the
//! [`ConnectRecord`], which is all that is kept of a peer without one.
//!
//! **Room.** A caller that has no room for a connection answers a hello by
//! [`turn_away`](Connect::turn_away): the attempt has all its time again, and goes on.
//!
//! # How it is driven
//!
//! As [`reliable::Link`](crate::reliable::Link): messages come ([`Message::decode`], find the
//! machine by `rank`, [`handle`](Connect::handle)), time passes
//! ([`handle_timeout`](Connect::handle_timeout) at [`poll_timeout`](Connect::poll_timeout)), and
//! after either: [`poll_transmit`](Connect::poll_transmit), send in a frame of kind
//! [`Handshake`](crate::reliable::FrameKind::Handshake), [`transmitted`](Connect::transmitted).
//!
//! ```
//! use aldis_hal::{Epoch, Instant};
//! use aldis_protocols::connect::{Connect, HandshakeEvent, HandshakeSetup};
//!
//! let now = Instant(1);
//! let one = HandshakeSetup { rank: 0, epoch: Epoch(71), ..HandshakeSetup::DEFAULT };
//! let other = HandshakeSetup { rank: 1, epoch: Epoch(82), ..HandshakeSetup::DEFAULT };
//! let (mut asks, mut answers) = (Connect::new(&one, 1, 0), Connect::new(&other, 0, 0));
//! asks.introduce(other.epoch);
//! answers.introduce(one.epoch);
//!
//! assert!(asks.connect(&one, now));
//! let hello = asks.poll_transmit(&one).unwrap();
//! asks.transmitted(&one, &hello, now);
//! assert_eq!(answers.handle(&other, &hello, now), None);
//! let welcome = answers.poll_transmit(&other).unwrap();
//! answers.transmitted(&other, &welcome, now);
//! let Some(HandshakeEvent::Opened(mine)) = asks.handle(&one, &welcome, now) else { panic!() };
//! let confirm = asks.poll_transmit(&one).unwrap();
//! let event = answers.handle(&other, &confirm, now);
//! let Some(HandshakeEvent::Opened(yours)) = event else { panic!() };
//! assert_eq!((mine.ends.ours, mine.ends.theirs), (yours.ends.theirs, yours.ends.ours));
//! ```
//!
//! # What is known of it
//!
//! The tests explore two nodes through every interleaving of users that ask, kernels that
//! introduce, timers, deadlines, restarts, closes and a network that loses, repeats and reorders,
//! within several sets of counts (at most two of each): 162,134 states, up to 29 steps deep. In
//! each state: both ends of a connection agree on its numbers and lives; what both hold is ended by
//! no message; no frame is taken for one of another connection; opened lives only grow younger; no
//! peer is lost that has done nothing but to close. From each state: a fair network connects the
//! two, whichever of them asks, and their messages come to an end. States are distinguished by
//! 64-bit fingerprints. With `ALDIS_EXPLORE_DEEP` set, all of it but closes may happen in one
//! history: 21,469,014 states, up to 37 steps deep, in four minutes of a release build; and closes
//! again and again: 3,575,313.
//!
//! Deliberately absent: authentication. The job key keeps jobs apart; it is no secret from who can
//! read the wire.

mod machine;
mod message;
mod setup;
#[cfg(test)]
mod tests;

pub use machine::{Connect, ConnectRecord};
pub use message::{
    ConnectionNumbers, HandshakeKind, HandshakeRefusal, LinkOffer, MESSAGE_BYTES_MAX, Message, MessageEnds,
};
pub use setup::{HandshakeEvent, HandshakeSetup, Opened, slot, yields};

//! Connections that are ordered streams of bytes, such as TCP's: how two ranks come to share one
//! for each link, whichever of them makes it, and how they part.
//!
//! ```text
//! has made the connection                          has accepted it
//!   | -- greeting {version, job, link, who, nonce} --> |   checks it against its table
//!   | <- answer {the same of its own, tag} ----------- |   holds the key of the job
//!   | -- proof {tag} --------------------------------> |   so does the dialler
//!
//! lower rank                                       higher rank
//!   | -- select -------------------------------------> |   open
//!   | <- confirm ------------------------------------- |
//!   |    open                                          |
//! ```
//!
//! **Both prove themselves.** A tag is a [`Mac`] with the key of the job over both greetings, and
//! so over both nonces, ranks, lives, the link and the attempt; the two sides' tags have different
//! labels. A side that does not hold the key can make none, replay none and send none back. What
//! the key itself protects is the handshake alone: data needs TLS below.
//!
//! **Crossing.** Both may make connections at once, through whatever addresses, and lose them. The
//! lower rank [`chooses`]: it selects the first connection on which both have proven themselves,
//! and no second while it has the first. The higher takes what is selected. So they cannot
//! disagree, and if only one of them can reach the other, that direction serves.
//!
//! **Attempts.** Each greeting bears the number of its attempt, which ascends. A newer one replaces
//! an earlier of the same dialler that was selected and not confirmed: the peer has given that up,
//! though the message about it may never come. There is no deadline between selecting and
//! confirming but that of the [`StreamLink`]: the other side may have taken the connection already.
//!
//! **Lives.** A life of the peer is admitted by [`introduce`](StreamLink::introduce). Greetings of
//! another are refused as [`Unknown`](StreamRefusal::Unknown), greetings for another life of this
//! side as [`Epoch`](StreamRefusal::Epoch). When an open connection dies, messages may have died
//! with it: the peer is lost, [`forget`](StreamLink::forget) all its links; it has to be introduced
//! anew. If it dies when one side has opened it and the other has not, the other finds its life
//! unknown.
//!
//! **Rest.** A side that is short of descriptors may ask for the end of an open connection that is
//! idle, see [`Rest`]: once both have said that nothing follows in it, both close it and keep the
//! life of the other and the numbers of messages. Whoever wants it next connects anew.
//!
//! **Strangers.** What does not begin as a greeting does is refused after its first wrong byte,
//! without a word. A stranger can hold a connection for [`handshake_ns`](StreamSetup::handshake_ns)
//! and 144 bytes; how many such connections there are is bounded by the caller, which drops the
//! oldest that is not [proven](Handshake::is_proven) for a new one.
//!
//! # How it is driven
//!
//! For each rank and link the caller has a [`StreamLink`], for each connection in its handshake a
//! [`Handshake`], and for each that is open a [`Farewell`] and [`StreamFrame`]s. A [`StreamLink`]
//! that [`wants_dial`](StreamLink::wants_dial) gets a new connection with [`Handshake::dial`]; one
//! that is accepted gets [`Handshake::accept`]. Bytes that come go to
//! [`handle`](Handshake::handle); after it, and after a new one is made,
//! [`output`](Handshake::output) is sent. Time passes
//! ([`handle_timeout`](Handshake::handle_timeout) of both at their `poll_timeout`). A connection
//! that ends is reported by [`hang_up`](Handshake::hang_up); no handshake is dropped without that
//! or [`refuse`](Handshake::refuse) unless its link was forgotten. After [`StreamEvent::Opened`]
//! all others that [`claim`](Handshake::claim) the link are refused as
//! [`Crossed`](StreamRefusal::Crossed).
//!
//! ```
//! use aldis_hal::{Epoch, Instant, PeerId};
//! use aldis_protocols::stream::{Dial, Handshake, Mac, Node, StreamLink, Tag, job_name};
//! use aldis_protocols::stream::{StreamEvent, StreamSetup};
//!
//! struct Key([u8; 32]);
//! impl Mac for Key {
//!     fn tag(&self, message: &[u8]) -> Tag {
//!         // A stand-in for a real one.
//!         message.iter().fold(self.0, |tag, byte| tag.map(|t| t.rotate_left(3) ^ byte))
//!     }
//! }
//!
//! let (now, key) = (Instant(1), Key([7; 32]));
//! let (job, epoch) = (job_name(&key), Epoch(71));
//! let one = StreamSetup { job, ranks: 2, epoch, ..StreamSetup::DEFAULT };
//! let other = StreamSetup { rank: PeerId(1), epoch: Epoch(82), ..one };
//! let (mut links, mut others) = ([StreamLink::NONE; 2], [StreamLink::NONE; 2]);
//! links[1].introduce(other.epoch);
//! others[0].introduce(one.epoch);
//! let mut node = Node { setup: &one, mac: &key, links: &mut links };
//! let mut peer = Node { setup: &other, mac: &key, links: &mut others };
//!
//! assert!(node.links[1].want(&one, now) && node.links[1].wants_dial());
//! let dial = Dial { key: 0, peer: PeerId(1), link: 0, nonce: [1; 16] };
//! let mut dialled = Handshake::dial(&mut node, dial, now).unwrap();
//! let mut accepted = Handshake::accept(0, &other, [2; 16], now);
//! let mut opened = 0;
//! while !dialled.output().is_empty() || !accepted.output().is_empty() {
//!     let (count, event) = accepted.handle(&mut peer, dialled.output(), now);
//!     dialled.transmitted(count);
//!     opened += u32::from(event == Some(StreamEvent::Opened { peer: PeerId(0), link: 0 }));
//!     let (count, event) = dialled.handle(&mut node, accepted.output(), now);
//!     accepted.transmitted(count);
//!     opened += u32::from(event == Some(StreamEvent::Opened { peer: PeerId(1), link: 0 }));
//! }
//! assert!(opened == 2 && node.links[1].is_open() && peer.links[0].is_open());
//! ```
//!
//! # What is known of it
//!
//! The tests explore two nodes through every interleaving of users that want the link, kernels that
//! introduce, connections that are made from both sides, accepted in any order, delivered, delayed,
//! reset or impossible to make, timers, deadlines, restarts, messages, and connections that either
//! side or both want to rest, within several sets of counts (at most three of each): 105,754
//! states, up to 39 steps deep. In each state: neither node holds two connections for the link, the
//! two do not hold different ones that are whole, what one holds the other holds or has chosen,
//! only a fault or a rest ends what both hold, and no rest is taken for a death. Where nothing is
//! lost by faults, messages come in order over all connections, and all have come when one is
//! closed. From each state: once nothing goes wrong any more the two share one connection,
//! whichever of them wants it, and no other is left. With `ALDIS_EXPLORE_DEEP` set, all of it may
//! happen in one history but rests: 535,004 states, up to 27 steps deep, in 40 seconds of a release
//! build.
//!
//! Deliberately absent: sockets, addresses and which of them to try, what is in a frame, and
//! cryptography.

mod buffer;
mod frame;
mod handshake;
mod link;
mod message;
mod rest;
mod setup;
#[cfg(test)]
mod tests;

pub use frame::{End, FRAME_BYTES_MAX, FRAME_HEAD_BYTES, Farewell, StreamFrame};
pub use handshake::{Dial, Handshake};
pub use link::{Failed, StreamLink};
pub use message::{ANSWER_BYTES, GREETING_BYTES, HEAD_BYTES, MAGIC, NONCE_BYTES, PROOF_BYTES};
pub use rest::Rest;
pub use setup::{Mac, Node, StreamEvent, StreamRefusal, StreamSetup, Tag, chooses, job_name};

//! Reliable links over whatever loses, reorders, duplicates, delays or corrupts: selective repeat
//! with cumulative and bitmap acknowledgements, credits, measured round trips and a congestion
//! window.
//!
//! [`Frame`] is what is on the wire ([`seal`], [`open`]); [`Link`] is one end of one connection. A
//! link holds no payload, reads no clock and sends nothing: its state is 192 bytes, whatever the
//! window. The payload with the number `s` lies in the caller's slot [`LinkConfig::slot`]`(s)` of a
//! ring of `window` slots, from [`queue`](Link::queue) until it is released; where order is kept, a
//! ring of as many slots holds what comes too early.
//!
//! # How a link is driven
//!
//! Have something to send: [`queue`](Link::queue), then fill the slot; or fill the slot of a
//! [`vacancy`](Link::vacancy), then queue. Frames come: [`open`], find the link by `connection`,
//! [`handle_frame`](Link::handle_frame), and do with the payload as it says. Time passes:
//! [`handle_timeout`](Link::handle_timeout) at [`poll_timeout`](Link::poll_timeout). After any of
//! these, and as long as the device takes frames: [`poll_transmit`](Link::poll_transmit), [`seal`],
//! send, [`transmitted`](Link::transmitted). All links of a transport share one [`LinkConfig`],
//! which is handed in.
//!
//! ```
//! use aldis_hal::Instant;
//! use aldis_protocols::reliable::{FrameFate, Link, LinkConfig, LinkEnds, open, seal};
//! use zerocopy::IntoBytes;
//!
//! let config = LinkConfig::DEFAULT.checked().unwrap();
//! let now = Instant(1);
//! let ends = |ours, theirs| LinkEnds { ours, theirs, peer_window: config.window };
//! let mut one = Link::open(&config, ends(7, 9), now);
//! let mut other = Link::open(&config, ends(9, 7), now);
//!
//! let mut ring = [[0; 5]; LinkConfig::DEFAULT.window as usize];
//! let sequence = one.queue(&config, now).expect("the window is empty");
//! ring[config.slot(sequence)] = *b"hello";
//!
//! let transmit = one.poll_transmit().expect("there is a payload");
//! let payload = transmit.payload.map_or(&[][..], |sequence| &ring[config.slot(sequence)]);
//! let header = seal(transmit.frame, payload).expect("it is short enough");
//! let wire = [header.as_bytes(), payload].concat();
//! one.transmitted(&config, &transmit, now);
//!
//! let (frame, payload) = open(&wire).unwrap();
//! let taken = other.handle_frame(&config, frame, now).unwrap();
//! assert_eq!((taken.fate, payload), (FrameFate::Deliver, &b"hello"[..]));
//!
//! // The acknowledgement waits for company, but not for long.
//! assert_eq!(other.poll_transmit(), None);
//! let later = other.poll_timeout().unwrap();
//! other.handle_timeout(&config, later).unwrap();
//! let ack = other.poll_transmit().unwrap();
//! other.transmitted(&config, &ack, later);
//! assert_eq!(one.handle_frame(&config, &ack.frame, later).unwrap().released, 1);
//! assert!(one.is_idle());
//! ```
//!
//! # What it promises
//!
//! Whatever the network does, each payload is handed up exactly once, in order if order is kept,
//! and released exactly once, after it has arrived. If the network heals, everything queued
//! arrives. A peer that answers nothing is given up after [`LinkConfig::give_up_ns`]. What no
//! honest peer sends is refused and changes nothing. Every call takes constant time; after
//! `handle_timeout(now)` every timer lies after `now`.
//!
//! Sources: RFC 6298 (time-outs, with Karn's rule), RFC 5681 and 6928 (congestion window), RFC 6675
//! (losses seen in the bitmap), RFC 5682 (time-outs that were early, as those of a rank are that
//! waits for one that computes), RFC 9000 (connections named by their receiver).
//!
//! Deliberately absent: pacing by time, and fragmentation.

mod config;
pub mod crc;
mod frame;
mod incoming;
mod link;
mod outgoing;
mod rtt;
#[cfg(test)]
mod tests;

pub use config::{DeliveryOrder, FRAMES_PER_ACK_MAX, LinkConfig, WINDOW_MAX};
pub use crc::{Crc32c, crc32c};
pub use frame::{FRAME_BYTES, Frame, FrameKind, open, seal};
pub use link::{FrameFate, Link, LinkCounters, LinkEnds, Taken, Transmit};

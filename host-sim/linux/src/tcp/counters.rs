//! The counters of what the transport has seen. Counts wrap.

use core::fmt;

use aldis_protocols::stream::StreamRefusal;

/// Counts since the transport was made.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub struct Counters {
    /// Messages posted.
    pub messages_sent: u64,
    /// Messages delivered to the sink.
    pub messages_received: u64,
    /// Bytes handed to sockets, heads of frames included.
    pub bytes_sent: u64,
    /// Bytes read from sockets.
    pub bytes_received: u64,
    /// System calls that send.
    pub send_calls: u64,
    /// Of those, ones that took less than was there.
    pub partial_sends: u64,
    /// System calls that read.
    pub receive_calls: u64,
    /// Of those, ones that found nothing.
    pub empty_receives: u64,
    /// System calls that ask which sockets are ready.
    pub looks: u64,
    /// Connections begun by this side.
    pub begun: u64,
    /// Connections taken from a listener.
    pub accepted: u64,
    /// Links opened: connections whose handshake came to its end.
    pub opened: u64,
    /// Links closed in good order by the other side.
    pub left: u64,
    /// Links that ended between two frames without a bye.
    pub ended: u64,
    /// Links that ended inside a frame.
    pub cut: u64,
    /// Links that the other side, or something on the way, has reset or let time out.
    pub reset: u64,
    /// Links over which came what no peer sends.
    pub malformed: u64,
    /// Attempts at an address that came to nothing.
    pub failed: u64,
    /// Connections for which no descriptor was left.
    pub crowded: u64,
    /// Links closed in agreement, to make room for others.
    pub rested: u64,
    /// Handshakes that came to nothing, by [reason](StreamRefusal::index).
    pub refused: [u64; StreamRefusal::ALL.len()],
}

/// Writes what came and went, and why connections were refused, as words of `name=count` on one
/// line.
impl fmt::Display for Counters {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "sent={} received={}", self.messages_sent, self.messages_received)?;
        for (name, count) in [
            ("bytes_sent", self.bytes_sent),
            ("bytes_received", self.bytes_received),
            ("send_calls", self.send_calls),
            ("partial_sends", self.partial_sends),
            ("receive_calls", self.receive_calls),
            ("empty_receives", self.empty_receives),
            ("looks", self.looks),
            ("begun", self.begun),
            ("accepted", self.accepted),
            ("opened", self.opened),
            ("left", self.left),
            ("ended", self.ended),
            ("cut", self.cut),
            ("reset", self.reset),
            ("malformed", self.malformed),
            ("failed", self.failed),
            ("crowded", self.crowded),
            ("rested", self.rested),
        ] {
            write!(f, " {name}={count}")?;
        }
        for why in StreamRefusal::ALL {
            write!(f, " {}={}", why.name(), self.refused(why))?;
        }
        Ok(())
    }
}

impl Counters {
    /// Handshakes that came to nothing for this reason.
    pub const fn refused(&self, why: StreamRefusal) -> u64 {
        self.refused[why.index()]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_count_has_its_word() {
        let mut counters = Counters { cut: 3, ..Counters::default() };
        counters.refused[StreamRefusal::Key.index()] = 7;
        let told = counters.to_string();
        assert!(
            told.contains(" cut=3 ") && told.contains(" key=7 ") && told.ends_with(" untrusted=0"),
            "{told}"
        );
        assert_eq!(told.split(' ').count(), size_of::<Counters>() / size_of::<u64>());
    }
}

//! Counters of the transport, by kind. Counts wrap.

use core::fmt;

/// Counts since the transport was made. None of what is refused here has any other effect.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[non_exhaustive]
pub struct EthernetCounters {
    /// Frames that the device handed up, whatever they were.
    pub frames_received: u64,
    /// Frames handed to the device.
    pub frames_sent: u64,
    /// Messages delivered to the sink.
    pub messages_received: u64,
    /// Messages posted.
    pub messages_sent: u64,
    /// Frames sent again.
    pub retransmitted: u64,
    /// Times that something was due and the device had no free descriptor.
    pub no_descriptor: u64,
    /// Payloads that came again.
    pub duplicates: u64,
    /// Payloads that came before an earlier one and were kept for it.
    pub reordered: u64,
    /// Connections opened.
    pub opened: u64,
    /// Connections closed by agreement, since another peer wanted a link.
    pub closed: u64,
    /// Handshakes that found no free link, so that their senders ask again.
    pub turned_away: u64,
    /// Frames of another protocol, for another station or for all.
    pub foreign: u64,
    /// Frames shorter than their headers say.
    pub truncated: u64,
    /// Frames whose checksum is not that of their bytes.
    pub checksum: u64,
    /// Frames of another version of either header.
    pub version: u64,
    /// Frames of a connection that is over, of another life of either side, or of none.
    pub stale: u64,
    /// Frames for a connection or from a rank whose station has another address.
    pub impostor: u64,
    /// Handshakes of ranks that were not introduced or have no row here.
    pub unknown: u64,
    /// Frames with a valid checksum and nonsense in them.
    pub malformed: u64,
}

/// Writes what came and went, and why frames were refused, as words of `name=count` on one line.
impl fmt::Display for EthernetCounters {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "received={} sent={}", self.frames_received, self.frames_sent)?;
        for (name, count) in [
            ("again", self.retransmitted),
            ("duplicate", self.duplicates),
            ("early", self.reordered),
            ("foreign", self.foreign),
            ("truncated", self.truncated),
            ("checksum", self.checksum),
            ("version", self.version),
            ("stale", self.stale),
            ("impostor", self.impostor),
            ("unknown", self.unknown),
            ("malformed", self.malformed),
            ("opened", self.opened),
            ("closed", self.closed),
            ("turned-away", self.turned_away),
        ] {
            write!(f, " {name}={count}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
#[cfg(not(loom))]
mod tests {
    use std::string::ToString;

    use super::*;

    #[test]
    fn every_reason_has_its_word() {
        let counters =
            EthernetCounters { frames_received: 9, stale: 7, malformed: 1, ..EthernetCounters::default() };
        let told = "received=9 sent=0 again=0 duplicate=0 early=0 foreign=0 truncated=0 checksum=0 version=0 stale=7 \
                    impostor=0 unknown=0 malformed=1 opened=0 closed=0 turned-away=0";
        assert_eq!(counters.to_string(), told);
    }
}

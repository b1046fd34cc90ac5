//! The counts of the switch.

use serde::Serialize;

use super::cable::CableKind;
use super::malformed::Malformed;

/// The effects of the faults of one direction.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize)]
#[non_exhaustive]
pub struct FaultCounts {
    /// Frames that vanished.
    pub lost: u64,
    /// Frames that went on twice.
    pub duplicated: u64,
    /// Frames that were held back for others to overtake.
    pub reordered: u64,
    /// Frames that were late.
    pub delayed: u64,
    /// Frames with changed bytes.
    pub corrupted: u64,
    /// Malformed frames that were put in.
    pub malformed: MalformedCounts,
}

impl FaultCounts {
    fn add(&mut self, other: &Self) {
        self.lost += other.lost;
        self.duplicated += other.duplicated;
        self.reordered += other.reordered;
        self.delayed += other.delayed;
        self.corrupted += other.corrupted;
        self.malformed.add(&other.malformed);
    }
}

/// Malformed frames by kind; see [`Malformed`].
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize)]
#[non_exhaustive]
pub struct MalformedCounts {
    /// Random bytes.
    pub noise: u64,
    /// Damaged headers.
    pub header: u64,
    /// Too short.
    pub truncated: u64,
    /// Too long.
    pub giant: u64,
    /// Of a connection or life that there is not.
    pub stale: u64,
}

impl MalformedCounts {
    pub(super) const fn count(&mut self, kind: Malformed) {
        let counter = match kind {
            Malformed::Noise => &mut self.noise,
            Malformed::Header => &mut self.header,
            Malformed::Truncated => &mut self.truncated,
            Malformed::Giant => &mut self.giant,
            Malformed::Stale => &mut self.stale,
        };
        *counter += 1;
    }

    const fn add(&mut self, other: &Self) {
        self.noise += other.noise;
        self.header += other.header;
        self.truncated += other.truncated;
        self.giant += other.giant;
        self.stale += other.stale;
    }

    /// All of them.
    #[must_use]
    pub const fn sum(&self) -> u64 {
        self.noise + self.header + self.truncated + self.giant + self.stale
    }
}

/// Counts of one port.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
#[non_exhaustive]
pub struct PortStatistics {
    /// The port's number, and its member's.
    pub port: u32,
    /// The kind of its socket.
    pub kind: CableKind,
    /// Frames that came from the member.
    pub received: u64,
    /// Frames among them that carry UDP over IPv4.
    pub udp: u64,
    /// Their bytes.
    pub received_bytes: u64,
    /// Frames that the member was given.
    pub sent: u64,
    /// Their bytes.
    pub sent_bytes: u64,
    /// Frames from the member that were too short to be one.
    pub runts: u64,
    /// Frames from the member that were longer than [`FRAME_BYTES_MAX`](super::FRAME_BYTES_MAX), or
    /// damaged beyond reading on a serial line.
    pub unreadable: u64,
    /// Frames for the member that were dropped because its queue was full.
    pub overflowed: u64,
    /// Frames for the member that were dropped because it was not there.
    pub absent: u64,
    /// Frames for the member that the system would not send.
    pub refused: u64,
    /// The effects of faults on frames from the member.
    pub inbound: FaultCounts,
    /// The effects of faults on frames for it.
    pub outbound: FaultCounts,
}

impl PortStatistics {
    pub(super) fn new(port: u32, kind: CableKind) -> Self {
        Self {
            port,
            kind,
            received: 0,
            udp: 0,
            received_bytes: 0,
            sent: 0,
            sent_bytes: 0,
            runts: 0,
            unreadable: 0,
            overflowed: 0,
            absent: 0,
            refused: 0,
            inbound: FaultCounts::default(),
            outbound: FaultCounts::default(),
        }
    }
}

/// Counts of all ports.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
#[non_exhaustive]
pub struct Statistics {
    /// Frames that came from members.
    pub received: u64,
    /// Frames among them that carry UDP over IPv4.
    pub udp: u64,
    /// Frames that members were given; one that goes to many counts many times.
    pub sent: u64,
    /// Frames dropped because a queue was full.
    pub overflowed: u64,
    /// The effects of the faults, of all directions together.
    pub faults: FaultCounts,
    /// Each port.
    pub ports: Vec<PortStatistics>,
}

impl Statistics {
    pub(super) fn of(ports: impl Iterator<Item = PortStatistics>) -> Self {
        let ports: Vec<PortStatistics> = ports.collect();
        let sum = |count: fn(&PortStatistics) -> u64| ports.iter().map(count).sum();
        let mut faults = FaultCounts::default();
        for port in &ports {
            faults.add(&port.inbound);
            faults.add(&port.outbound);
        }
        Self {
            received: sum(|port| port.received),
            udp: sum(|port| port.udp),
            sent: sum(|port| port.sent),
            overflowed: sum(|port| port.overflowed),
            faults,
            ports,
        }
    }
}

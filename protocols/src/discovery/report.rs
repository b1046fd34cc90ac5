//! Counters of a roster, and the report of a search that failed.

use core::fmt;

use aldis_hal::cause::Malformed;
use heapless::Vec;

/// Messages that were refused. None of them has any other effect. Counts wrap.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[non_exhaustive]
pub struct Refused {
    /// Shorter than they say.
    pub truncated: u64,
    /// Damaged.
    pub checksum: u64,
    /// Of another version.
    pub version: u64,
    /// With nonsense in them.
    pub malformed: u64,
    /// Of another job.
    pub job: u64,
    /// Of this job by its key, and of another size.
    pub size: u64,
    /// From a station that claims a rank which another station has, or this side's own.
    pub claimed: u64,
    /// Of a life that has been replaced.
    pub stale: u64,
}

/// The reason why a message is refused.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum DiscoveryRefusal {
    Malformed(Malformed),
    Job,
    Size,
    Claimed,
    Stale,
}

impl Refused {
    pub(super) const fn count(&mut self, why: DiscoveryRefusal) {
        let counter = match why {
            DiscoveryRefusal::Malformed(Malformed::Length) => &mut self.truncated,
            DiscoveryRefusal::Malformed(Malformed::Checksum) => &mut self.checksum,
            DiscoveryRefusal::Malformed(Malformed::Version(_)) => &mut self.version,
            DiscoveryRefusal::Malformed(_) => &mut self.malformed,
            DiscoveryRefusal::Job => &mut self.job,
            DiscoveryRefusal::Size => &mut self.size,
            DiscoveryRefusal::Claimed => &mut self.claimed,
            DiscoveryRefusal::Stale => &mut self.stale,
        };
        *counter = counter.wrapping_add(1);
    }

    /// Each count with what it counts.
    fn each(&self) -> [(u64, &'static str); 8] {
        [
            (self.job, "of another job"),
            (self.size, "of a job of another size"),
            (self.claimed, "claiming a rank that another station has"),
            (self.stale, "of a life that is over"),
            (self.version, "of another version"),
            (self.checksum, "damaged"),
            (self.truncated, "truncated"),
            (self.malformed, "malformed"),
        ]
    }
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut separator = "";
        for (count, what) in self.each().into_iter().filter(|(count, _)| *count != 0) {
            write!(f, "{separator}{count} {what}")?;
            separator = ", ";
        }
        if separator.is_empty() { f.write_str("nothing") } else { Ok(()) }
    }
}

/// Counters of a roster. Counts wrap.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[non_exhaustive]
pub struct DiscoveryCounters {
    /// Messages that came, whatever they were.
    pub received: u64,
    /// Hellos sent, those among them that asked one rank whether a new card is its own included.
    pub hellos: u64,
    /// Answers sent.
    pub answers: u64,
    /// Cards that took another's place.
    pub replaced: u64,
    /// Messages of this side's that came back to it.
    pub own: u64,
    /// Answers and questions not sent, since as many were waiting as can; who wants them asks
    /// again.
    pub dropped: u64,
    /// The messages that were refused.
    pub refused: Refused,
}

/// Most missing ranks that a report names.
pub const NAMED_MAX: usize = 8;

/// A search that did not find every rank in time.
#[derive(Clone, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Overdue {
    /// The missing ranks, the lowest first, as many as can be named.
    pub named: Vec<u32, NAMED_MAX>,
    /// All ranks that are missing.
    pub missing: u32,
    /// Ranks of the job.
    pub size: u32,
    /// The time spent searching, ns.
    pub after_ns: u64,
    /// The messages that were refused meanwhile.
    pub refused: Refused,
}

impl fmt::Display for Overdue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.missing == 1 { "rank" } else { "ranks" })?;
        for (index, rank) in self.named.iter().enumerate() {
            write!(f, "{} {rank}", if index == 0 { "" } else { "," })?;
        }
        let more = u64::from(self.missing).saturating_sub(self.named.len() as u64);
        if more != 0 {
            write!(f, " and {more} more")?;
        }
        let (size, after_ms) = (self.size, self.after_ns / 1_000_000);
        write!(f, " of {size} did not answer within {after_ms} ms; refused: {}", self.refused)
    }
}

impl core::error::Error for Overdue {}

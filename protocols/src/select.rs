//! The selection of a message's protocol, from the transport's capabilities and cost and the
//! receiver's limits - and why each other protocol was not taken.
//!
//! Prices are LogGP sums over the messages a protocol sends (see [`Cost`]): eager is one message
//! and, if it comes unexpected, as every other is taken to, one more copy; rendezvous is two
//! control messages, the data in fragments that follow each other without a pause, and a finish
//! that overlaps with them; rendezvous by reading is an announcement, a read, and a word that
//! overlaps with the next message; rendezvous by writing is three control messages, of which the
//! last one waits for the write.

use core::fmt;

use aldis_hal::{Caps, Cause, Cost, Features};

use crate::INLINE_BYTES;
use crate::card::Room;
use crate::header::{CONTROL_BYTES_MAX, DATA_HEADER_BYTES, HEADER_BYTES, KEY_BYTES};

/// The ways a message can take.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub enum Protocol {
    /// Header and payload in one short message; the receiver needs an envelope and no block.
    Inline,
    /// Header and payload packed into one slot of the transport.
    Eager,
    /// Announced; data on demand, in fragments.
    Rendezvous,
    /// Announced; the receiver reads the data from the sender's memory.
    Read,
    /// Announced; the sender writes the data into the receiver's memory.
    Write,
    /// Announced; the receiver has the sender's memory mapped, and copies the data from there or
    /// looks at it there.
    Mapped,
    /// Announced; the sender copies the data to memory that the receiver has mapped, which copies
    /// them from there meanwhile.
    Staged,
}

impl Protocol {
    /// Every protocol, the leanest first.
    pub const ALL: [Self; 7] =
        [Self::Inline, Self::Eager, Self::Rendezvous, Self::Read, Self::Write, Self::Mapped, Self::Staged];
}

impl fmt::Display for Protocol {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Inline => "inline eager",
            Self::Eager => "eager",
            Self::Rendezvous => "rendezvous by fragments",
            Self::Read => "rendezvous by reading",
            Self::Write => "rendezvous by writing",
            Self::Mapped => "mapped memory",
            Self::Staged => "staging memory",
        })
    }
}

/// The sizes up to which each protocol serves one peer; worked out once, at connect.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Thresholds {
    /// Largest inline payload plus one; zero if there is no inline protocol.
    pub inline_end: u32,
    /// Largest payload plus one that the transport takes with its header in one short message.
    pub short_end: u32,
    /// Largest eager payload plus one; zero if there is no eager protocol.
    pub eager_end: u32,
    /// Payload of a data fragment, bytes.
    pub fragment_bytes_max: u32,
    /// The sizes of messages that are not copied.
    pub direct: DirectSizes,
}

/// Sizes of messages that one side's transport moves in the other side's memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct DirectSizes {
    /// Payloads that the receiver reads from the sender's memory.
    read: LengthRange,
    /// Payloads that the sender writes into the receiver's memory.
    write: LengthRange,
    /// Smallest payload that is read where it is mapped, if it is; zero if no memory is.
    mapped_start: u32,
}

impl DirectSizes {
    /// No sizes.
    pub const NONE: Self = Self { read: LengthRange::NONE, write: LengthRange::NONE, mapped_start: 0 };
}

/// The payloads of `start` bytes or more, and of fewer than `end`. There is no end if that is
/// `u32::MAX`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
struct LengthRange {
    start: u32,
    end: u32,
}

impl LengthRange {
    const NONE: Self = Self { start: 0, end: 0 };

    const fn contains(self, len: u64) -> bool {
        len >= self.start as u64 && (len < self.end as u64 || self.end == u32::MAX)
    }
}

impl Thresholds {
    /// Works the sizes out for a peer that has set `room` aside.
    ///
    /// # Errors
    /// [`Cause::Unsupported`] if the transport is not ordered and reliable or cannot carry even a
    /// clear-to-send; such a transport needs a protocol of its own in between.
    pub fn new(caps: &Caps, room: &Room) -> Result<Self, Cause> {
        let limits = &caps.limits;
        let needed = Features::SHORT | Features::BCOPY | Features::ORDERED | Features::RELIABLE;
        let control = CONTROL_BYTES_MAX as u32;
        if !caps.features.contains(needed)
            || limits.short_bytes_max < control
            || limits.bcopy_bytes_max <= DATA_HEADER_BYTES as u32
        {
            return Err(Cause::Unsupported);
        }
        let header = HEADER_BYTES as u32;
        let inline_max = (limits.short_bytes_max - header).min(INLINE_BYTES as u32);
        let mut thresholds = Self {
            inline_end: inline_max + 1,
            short_end: limits.short_bytes_max - header + 1,
            eager_end: 0,
            fragment_bytes_max: limits.bcopy_bytes_max - DATA_HEADER_BYTES as u32,
            direct: DirectSizes::NONE,
        };
        let eager_max = (limits.bcopy_bytes_max - header).min(room.block_bytes);
        let dearer = |len: &u32| thresholds.eager_ns(caps, *len) > thresholds.rendezvous_start_ns(caps, *len);
        if room.blocks > 0 && eager_max > inline_max {
            // Eager starts cheaper and grows faster: the first size at which it is dearer ends it.
            let mut end = eager_max + 1;
            let mut start = inline_max + 1;
            if dearer(&eager_max) {
                while start < end {
                    let middle = start + (end - start) / 2;
                    if dearer(&middle) { end = middle } else { start = middle + 1 }
                }
            }
            thresholds.eager_end = end;
        }
        Ok(thresholds)
    }

    /// Works out which messages are read from the sender's memory and which are written into the
    /// receiver's, if any can be: the sizes beyond eager, in powers of two, from the first one at
    /// which reading is no dearer than fragments, or writing no dearer than fragments and cheaper
    /// than reading, to the first one after it at which that is no longer so. Those from memory
    /// that is mapped begin where that is no dearer, and have no end: it spares the sender all
    /// copying.
    pub fn with_direct(self, caps: &Caps) -> Self {
        let first = self.eager_end.max(self.inline_end);
        let sizes = (0..32).map(|power| 1u32 << power).filter(|&size| size > first);
        let start = |cheaper: &dyn Fn(u32) -> bool| {
            let later = sizes.clone().find(|&size| cheaper(size));
            Some(first).filter(|&first| cheaper(first)).or(later)
        };
        let range = |pays: &dyn Fn(u32) -> bool| {
            let Some(start) = start(pays) else { return LengthRange::NONE };
            let end = sizes.clone().find(|&size| size > start && !pays(size));
            LengthRange { start, end: end.unwrap_or(u32::MAX) }
        };
        let fragments_ns = |len: u32| self.rendezvous_ns(caps, len.into());
        let read_ns = |cost: &Cost, len: u32| self.read_ns(caps, cost, len.into());
        let mapped = start(&|len| read_ns(&caps.mapped_cost, len) <= fragments_ns(len));
        let read_pays = |len| can_read(caps) && read_ns(&caps.read_cost, len) <= fragments_ns(len);
        let write_pays = |len: u32| {
            let ns = self.write_ns(caps, len.into());
            can_write(caps)
                && ns <= fragments_ns(len)
                && !(read_pays(len) && read_ns(&caps.read_cost, len) <= ns)
        };
        let mapped_start = mapped.filter(|_| can_map(caps)).unwrap_or(0);
        Self {
            direct: DirectSizes { read: range(&read_pays), write: range(&write_pays), mapped_start },
            ..self
        }
    }

    /// Returns true if a message of `len` bytes that is announced is to be read where it is mapped,
    /// if it is.
    #[inline]
    pub const fn is_mapped(&self, len: u64) -> bool {
        let DirectSizes { mapped_start, .. } = self.direct;
        mapped_start > 0 && len >= mapped_start as u64
    }

    /// Returns true if a message of `len` bytes that is announced is to be read.
    #[inline]
    pub const fn is_read(&self, len: u64) -> bool {
        self.direct.read.contains(len) && !self.is_written(len)
    }

    /// Returns true if a message of `len` bytes that is announced is to be written by its sender.
    #[inline]
    pub const fn is_written(&self, len: u64) -> bool {
        self.direct.write.contains(len)
    }

    /// The protocol for a message of `len` bytes, for all that the receiver's transport does not
    /// read.
    #[inline]
    pub const fn protocol(&self, len: u64) -> Protocol {
        if len < self.inline_end as u64 {
            Protocol::Inline
        } else if len < self.eager_end as u64 {
            Protocol::Eager
        } else {
            Protocol::Rendezvous
        }
    }

    fn eager_ns(&self, caps: &Caps, len: u32) -> u64 {
        let copy = u64::from(len) * u64::from(caps.cost.per_kib_ns) / 2048;
        caps.cost.message_ns(u64::from(len) + HEADER_BYTES as u64).saturating_add(copy)
    }

    fn read_ns(&self, caps: &Caps, cost: &Cost, len: u64) -> u64 {
        let announcement = caps.cost.message_ns(CONTROL_BYTES_MAX as u64);
        announcement.saturating_add(cost.message_ns(len))
    }

    fn write_ns(&self, caps: &Caps, len: u64) -> u64 {
        let control = caps.cost.message_ns(CONTROL_BYTES_MAX as u64);
        (3 * control).saturating_add(caps.write_cost.message_ns(len))
    }

    fn rendezvous_ns(&self, caps: &Caps, len: u64) -> u64 {
        let fragments = len.div_ceil(u64::from(self.fragment_bytes_max.max(1)));
        Self::fragments_ns(caps, len, fragments)
    }

    /// Like [`rendezvous_ns`](Self::rendezvous_ns), but for a message of eager size: small
    /// processors divide 32 bits only.
    fn rendezvous_start_ns(&self, caps: &Caps, len: u32) -> u64 {
        let fragments = len.div_ceil(self.fragment_bytes_max.max(1));
        Self::fragments_ns(caps, len.into(), fragments.into())
    }

    fn fragments_ns(caps: &Caps, len: u64, fragments: u64) -> u64 {
        let control = caps.cost.message_ns(CONTROL_BYTES_MAX as u64);
        let overheads = fragments.saturating_mul(u64::from(caps.cost.overhead_ns));
        (2 * control).saturating_add(caps.cost.message_ns(len)).saturating_add(overheads)
    }

    /// Returns the plan for a message of `len` bytes: all that decides about it. `mapped` says
    /// whether its memory is mapped at the receiver, if that is known.
    pub fn plan(&self, caps: &Caps, room: &Room, len: u64, mapped: Option<bool>) -> Plan {
        let verdict = |protocol| match protocol {
            Protocol::Inline if len < u64::from(self.inline_end) => {
                Verdict::Possible { ns: caps.cost.message_ns(len + HEADER_BYTES as u64) }
            }
            Protocol::Inline => Verdict::TooBig { max: u64::from(self.inline_end.saturating_sub(1)) },
            Protocol::Eager if room.blocks == 0 => Verdict::NoBlocks,
            Protocol::Eager => {
                let max =
                    (caps.limits.bcopy_bytes_max.saturating_sub(HEADER_BYTES as u32)).min(room.block_bytes);
                if len > u64::from(max) {
                    Verdict::TooBig { max: u64::from(max) }
                } else {
                    Verdict::Possible { ns: self.eager_ns(caps, len as u32) }
                }
            }
            Protocol::Rendezvous => Verdict::Possible { ns: self.rendezvous_ns(caps, len) },
            Protocol::Read if can_read(caps) => {
                Verdict::Possible { ns: self.read_ns(caps, &caps.read_cost, len) }
            }
            Protocol::Read => Verdict::NoReads,
            Protocol::Write if can_write(caps) => Verdict::Possible { ns: self.write_ns(caps, len) },
            Protocol::Write => Verdict::NoWrites,
            Protocol::Mapped if !can_map(caps) => Verdict::NoMemory,
            Protocol::Mapped => {
                let ns = self.read_ns(caps, &caps.mapped_cost, len);
                match mapped {
                    Some(true) => Verdict::Possible { ns },
                    Some(false) => Verdict::Elsewhere { ns },
                    None => Verdict::IfMapped { ns },
                }
            }
            Protocol::Staged => Verdict::NoStaging,
        };
        let chosen = match self.protocol(len) {
            Protocol::Rendezvous if mapped == Some(true) && self.is_mapped(len) => Protocol::Mapped,
            Protocol::Rendezvous if self.is_written(len) => Protocol::Write,
            Protocol::Rendezvous if self.is_read(len) => Protocol::Read,
            protocol => protocol,
        };
        Plan { chosen, verdicts: Protocol::ALL.map(|protocol| (protocol, verdict(protocol))) }
    }
}

/// The reason for or against a protocol at some size.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub enum Verdict {
    /// The protocol would take about this long.
    Possible {
        /// Predicted time from send to receive, ns.
        ns: u64,
    },
    /// The message does not fit.
    TooBig {
        /// The most that fits, bytes.
        max: u64,
    },
    /// The receiver has granted no eager blocks.
    NoBlocks,
    /// The transport does not read memory of this peer.
    NoReads,
    /// The transport does not write memory of this peer.
    NoWrites,
    /// No memory is shared with this peer in that way.
    NoMemory,
    /// The peer has no memory mapped in which messages are staged.
    NoStaging,
    /// The message is in other memory. From such memory it would take about this long.
    Elsewhere {
        /// Predicted time from send to receive, ns.
        ns: u64,
    },
    /// The protocol would take about this long if the message were in such memory.
    IfMapped {
        /// Predicted time from send to receive, ns.
        ns: u64,
    },
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Possible { ns } => write!(f, "about {ns} ns"),
            Self::TooBig { max } => write!(f, "at most {max} bytes fit"),
            Self::NoBlocks => f.write_str("the receiver has no eager blocks"),
            Self::NoReads => f.write_str("the transport does not read this peer's memory"),
            Self::NoWrites => f.write_str("the transport does not write this peer's memory"),
            Self::NoStaging => f.write_str("no memory to stage messages in is mapped by this peer"),
            Self::NoMemory => f.write_str("none of this process is mapped by this peer"),
            Self::Elsewhere { ns } => {
                write!(
                    f,
                    "this buffer is in memory that the peer has not mapped; about {ns} ns from an arena"
                )
            }
            Self::IfMapped { ns } => write!(f, "about {ns} ns for a buffer in an arena"),
        }
    }
}

/// The protocol for one size and the verdict on each.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Plan {
    /// The protocol taken.
    pub chosen: Protocol,
    /// Every protocol with what was found.
    pub verdicts: [(Protocol, Verdict); Protocol::ALL.len()],
}

impl Plan {
    /// This plan of a message of `len` bytes to a peer that is reached like this, and for which
    /// messages of at most `most` bytes are staged.
    #[must_use]
    pub fn with_staging(mut self, caps: &Caps, len: u64, most: u64) -> Self {
        // The two copies are made at a time.
        let ns = caps.cost.message_ns(CONTROL_BYTES_MAX as u64) + caps.mapped_cost.message_ns(len);
        let verdict = if len > most { Verdict::TooBig { max: most } } else { Verdict::Possible { ns } };
        for (protocol, found) in self.verdicts.iter_mut().filter(|_| most > 0) {
            if *protocol == Protocol::Staged {
                *found = verdict;
            }
        }
        let is_announced = matches!(self.chosen, Protocol::Rendezvous | Protocol::Read | Protocol::Write);
        if is_announced && len <= most {
            self.chosen = Protocol::Staged;
        }
        self
    }
}

/// Returns true if any memory of a peer can be read.
const fn can_read(caps: &Caps) -> bool {
    caps.features.contains(Features::GET) && has_keys(caps)
}

/// Returns true if any memory of a peer can be written, so that it is known when the bytes can be
/// seen there.
const fn can_write(caps: &Caps) -> bool {
    caps.features.contains(Features::PUT.union(Features::REMOTE_COMPLETION)) && has_keys(caps)
}

/// Returns true if memory of a peer that is mapped can be read.
const fn can_map(caps: &Caps) -> bool {
    caps.features.contains(Features::MAPPABLE) && has_keys(caps)
}

const fn has_keys(caps: &Caps) -> bool {
    let keys_fit = caps.limits.key_bytes as usize <= KEY_BYTES && caps.limits.key_bytes > 0;
    keys_fit && caps.limits.direct_bytes_max > 0
}

#[cfg(test)]
mod tests {
    use aldis_hal::Limits;

    use super::*;

    fn caps(bcopy: u32, cost: Cost) -> Caps {
        Caps {
            features: Features::SHORT | Features::BCOPY | Features::ORDERED | Features::RELIABLE,
            limits: Limits { short_bytes_max: 56, bcopy_bytes_max: bcopy, ..Limits::default() },
            cost,
            ..Caps::default()
        }
    }

    fn room(blocks: u16, block_bytes: u32) -> Room {
        Room { envelopes: 8, blocks, block_bytes }
    }

    const CHEAP: Cost = Cost { overhead_ns: 20, latency_ns: 150, per_kib_ns: 100 };

    #[test]
    fn sizes_follow_limits() {
        let thresholds = Thresholds::new(&caps(8192, CHEAP), &room(4, 1024)).unwrap();
        assert_eq!(thresholds.protocol(0), Protocol::Inline);
        assert_eq!(thresholds.protocol(24), Protocol::Inline);
        assert_eq!(thresholds.protocol(25), Protocol::Eager);
        assert_eq!(thresholds.protocol(1024), Protocol::Eager);
        assert_eq!(thresholds.protocol(1025), Protocol::Rendezvous);
        assert_eq!(thresholds.fragment_bytes_max, 8192 - 48);
    }

    #[test]
    fn a_dear_copy_ends_eager_early_and_exactly() {
        let (caps, room) = (caps(65536, Cost { per_kib_ns: 1000, ..CHEAP }), room(4, 65536));
        let thresholds = Thresholds::new(&caps, &room).unwrap();
        let end = thresholds.eager_end;
        assert!(end > 25 && end < 60_000, "{end}");
        assert!(thresholds.eager_ns(&caps, end) > thresholds.rendezvous_ns(&caps, u64::from(end)));
        assert!(thresholds.eager_ns(&caps, end - 1) <= thresholds.rendezvous_ns(&caps, u64::from(end - 1)));
        assert_eq!(thresholds.plan(&caps, &room, u64::from(end), None).chosen, Protocol::Rendezvous);
    }

    #[test]
    fn what_is_announced_is_staged_if_it_is_not_too_long() {
        let (caps, room) = (caps(8192, CHEAP), room(4, 1024));
        let thresholds = Thresholds::new(&caps, &room).unwrap();
        let plan = |len, most| thresholds.plan(&caps, &room, len, None).with_staging(&caps, len, most);
        for (len, most, chosen) in [
            (1024, 5000, Protocol::Eager),
            (1025, 5000, Protocol::Staged),
            (5001, 5000, Protocol::Rendezvous),
            (1025, 0, Protocol::Rendezvous),
        ] {
            assert_eq!(plan(len, most).chosen, chosen, "{len} of {most}");
        }
        assert_eq!(plan(5001, 5000).verdicts[6], (Protocol::Staged, Verdict::TooBig { max: 5000 }));
        assert_eq!(plan(10, 0).verdicts[6], (Protocol::Staged, Verdict::NoStaging));
    }

    #[test]
    fn without_blocks_there_is_no_eager_and_the_plan_says_so() {
        let (caps, room) = (caps(8192, CHEAP), room(0, 0));
        let thresholds = Thresholds::new(&caps, &room).unwrap();
        let plan = thresholds.plan(&caps, &room, 100, None);
        assert_eq!(plan.chosen, Protocol::Rendezvous);
        assert_eq!(plan.verdicts[0].1, Verdict::TooBig { max: 24 });
        assert_eq!(plan.verdicts[1].1, Verdict::NoBlocks);
    }

    fn reading(cost: Cost) -> Caps {
        let mut caps = caps(8192, CHEAP);
        caps.features |= Features::GET;
        (caps.limits.key_bytes, caps.limits.direct_bytes_max) = (8, u64::MAX);
        Caps { read_cost: cost, ..caps }
    }

    #[test]
    fn what_is_read_follows_the_cost_of_reading() {
        let room = room(4, 1024);
        let thresholds = |caps: &Caps| Thresholds::new(caps, &room).unwrap().with_direct(caps);
        let faster = reading(Cost { per_kib_ns: 50, ..CHEAP });
        let chosen = |caps: &Caps, len| thresholds(caps).plan(caps, &room, len, None).chosen;
        assert_eq!(chosen(&faster, 1024), Protocol::Eager, "never below");
        assert_eq!(chosen(&faster, 1025), Protocol::Read);
        assert_eq!(chosen(&faster, u64::MAX), Protocol::Read);
        let late = reading(Cost { per_kib_ns: 50, latency_ns: 2_000, ..CHEAP });
        let start = u64::from(thresholds(&late).direct.read.start);
        assert!(start > 8192, "{start}");
        assert_eq!([chosen(&late, start - 1), chosen(&late, start)], [Protocol::Rendezvous, Protocol::Read]);
        let slower = reading(Cost { per_kib_ns: 110, latency_ns: 0, overhead_ns: 0 });
        let end = u64::from(thresholds(&slower).direct.read.end);
        assert!(end > 1025 && end < 1 << 20, "{end}");
        assert_eq!([chosen(&slower, end - 1), chosen(&slower, end)], [Protocol::Read, Protocol::Rendezvous]);
        let never = reading(Cost { per_kib_ns: 110, latency_ns: 10_000, overhead_ns: 0 });
        assert_eq!(chosen(&never, 1 << 30), Protocol::Rendezvous);
    }

    /// Mapped memory has sizes of its own, whether or not any other can be read.
    #[test]
    fn what_is_mapped_is_read_from_where_that_pays() {
        let room = room(4, 1024);
        for reads in [true, false] {
            let mut caps = reading(Cost { per_kib_ns: 50, latency_ns: 2_000, ..CHEAP });
            caps.features.set(Features::GET, reads);
            caps.features |= Features::MAPPABLE;
            caps.mapped_cost = Cost { per_kib_ns: 60, latency_ns: 0, overhead_ns: 0 };
            let thresholds = Thresholds::new(&caps, &room).unwrap().with_direct(&caps);
            let plan = |len, mapped| thresholds.plan(&caps, &room, len, mapped);
            assert_eq!(thresholds.direct.read.end > 0, reads);
            assert_eq!(plan(1024, Some(true)).chosen, Protocol::Eager, "never below");
            assert_eq!(plan(1025, Some(true)).chosen, Protocol::Mapped);
            assert!(matches!(plan(1025, Some(true)).verdicts[5].1, Verdict::Possible { .. }));
            for mapped in [Some(false), None] {
                assert_eq!(plan(1025, mapped).chosen, Protocol::Rendezvous);
                let verdict = plan(1025, mapped).verdicts[5].1;
                assert_eq!(matches!(verdict, Verdict::Elsewhere { .. }), mapped.is_some());
                assert_eq!(matches!(verdict, Verdict::IfMapped { .. }), mapped.is_none());
                let far = if reads { Protocol::Read } else { Protocol::Rendezvous };
                assert_eq!(plan(1 << 30, mapped).chosen, far);
            }
            caps.mapped_cost.latency_ns = 1_000;
            let later = Thresholds::new(&caps, &room).unwrap().with_direct(&caps).direct.mapped_start;
            assert!(later > 8192 && later.is_power_of_two(), "{later}");
        }
    }

    /// Checks that the cheaper of reading and writing is taken, each in the sizes for which it is.
    #[test]
    fn what_is_written_follows_the_cost_of_writing() {
        let room = room(4, 1024);
        let writing = |mut caps: Caps, cost| {
            caps.features |= Features::PUT | Features::REMOTE_COMPLETION;
            Caps { write_cost: cost, ..caps }
        };
        let chosen = |caps: &Caps, len| {
            Thresholds::new(caps, &room).unwrap().with_direct(caps).plan(caps, &room, len, None).chosen
        };
        let both = writing(reading(Cost { per_kib_ns: 60, ..CHEAP }), Cost { per_kib_ns: 50, ..CHEAP });
        assert_eq!(chosen(&both, 1024), Protocol::Eager, "never below");
        assert_eq!(chosen(&both, 4096), Protocol::Read, "two control messages more are not worth it yet");
        assert_eq!([1 << 20, u64::MAX].map(|len| chosen(&both, len)), [Protocol::Write; 2]);
        let dear = writing(reading(Cost { per_kib_ns: 50, ..CHEAP }), Cost { per_kib_ns: 60, ..CHEAP });
        assert_eq!([4096, 1 << 30].map(|len| chosen(&dear, len)), [Protocol::Read; 2]);
        let mut alone = writing(reading(CHEAP), Cost { per_kib_ns: 50, ..CHEAP });
        alone.features.remove(Features::GET);
        assert_eq!(chosen(&alone, 1 << 20), Protocol::Write);
        alone.features.remove(Features::REMOTE_COMPLETION);
        assert_eq!(
            chosen(&alone, 1 << 20),
            Protocol::Rendezvous,
            "the receiver would not know when it is there"
        );
    }

    #[test]
    fn without_reads_or_with_a_key_that_does_not_fit_the_plan_says_so() {
        let mut long = reading(CHEAP);
        long.limits.key_bytes = 17;
        for caps in [caps(8192, CHEAP), long] {
            let thresholds = Thresholds::new(&caps, &room(4, 1024)).unwrap().with_direct(&caps);
            let plan = thresholds.plan(&caps, &room(4, 1024), 1 << 20, Some(true));
            assert_eq!(plan.chosen, Protocol::Rendezvous);
            assert_eq!(plan.verdicts[3], (Protocol::Read, Verdict::NoReads));
            assert_eq!(plan.verdicts[4], (Protocol::Write, Verdict::NoWrites));
            assert_eq!(plan.verdicts[5], (Protocol::Mapped, Verdict::NoMemory));
        }
    }

    #[test]
    fn an_unordered_or_tiny_transport_is_refused() {
        let mut unordered = caps(8192, CHEAP);
        unordered.features.remove(Features::ORDERED);
        assert_eq!(Thresholds::new(&unordered, &room(1, 64)), Err(Cause::Unsupported));
        assert_eq!(Thresholds::new(&caps(48, CHEAP), &room(1, 64)), Err(Cause::Unsupported));
    }
}

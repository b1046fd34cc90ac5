//! The causes of failures: one vocabulary from the driver to the user's error.

use core::fmt;

use crate::platform::Operation;

/// A bounded pool of the kernel or of a transport: what to enlarge when it is full.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[non_exhaustive]
pub enum Resource {
    /// Request slots of the storage.
    Requests,
    /// Envelope slots (messages that have arrived unmatched).
    Envelopes,
    /// Eager payload blocks.
    Blocks,
    /// Blocks set aside for pooled receives.
    PooledBlocks,
    /// Communicator slots.
    Communicators,
    /// Pieces that groups are kept in which are no single stride.
    GroupPieces,
    /// Peer slots: the largest job that the storage was sized for.
    Peers,
    /// Registered memory regions.
    Regions,
    /// A collective's scratch memory.
    Scratch,
    /// The memory attached for buffered sends.
    SendBuffer,
    /// Places for those who wait for futures.
    Sleepers,
    /// Descriptor slots of a table of datatypes.
    Datatypes,
    /// The words that the types of a table share.
    DatatypeWords,
    /// The memory lent for attributes of communicators.
    Attributes,
    /// The memory lent to devices, or the addresses set aside for them.
    DeviceMemory,
    /// Files that the process may have open.
    Descriptors,
    /// Sets of control slots (communicators that carry out collectives by them), or the slots of
    /// one (such collectives under way on it).
    ControlSlots,
}

impl fmt::Display for Resource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Requests => "request slots (storage parameter `requests`)",
            Self::Envelopes => "envelope slots (storage parameter `envelopes`)",
            Self::Blocks => "eager blocks (storage parameter `blocks`)",
            Self::PooledBlocks => "pooled receive blocks (storage parameter `pooled`)",
            Self::Communicators => "communicator slots (storage parameter `communicators`)",
            Self::GroupPieces => "group pieces (storage parameter `pieces`, or the memory lent to a group)",
            Self::Peers => "peer slots (storage parameter `peers`)",
            Self::Regions => "registered regions",
            Self::SendBuffer => "memory for buffered sends (`Endpoint::send_buffer`)",
            Self::Datatypes => {
                "datatype slots (a `TypeTable`'s `TYPES`; `Endpoint::attach_types` for messages)"
            }
            Self::DatatypeWords => "words for datatypes (a `TypeTable`'s `WORDS`)",
            Self::Sleepers => "sleepers of futures (the argument of `Endpoint::futures`)",
            Self::DeviceMemory => "device memory (what was lent to a driver, or its window of addresses)",
            Self::Descriptors => "file descriptors (`ulimit -n`)",
            Self::ControlSlots => "control slots (sets of them, or slots of a set for collectives under way)",
            Self::Attributes => "attribute slots (`Endpoint::lend_attributes`)",
            Self::Scratch => "scratch bytes (the collective's `scratch` argument)",
        })
    }
}

/// The defect of bytes that came from the wire.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[non_exhaustive]
pub enum Malformed {
    /// Shorter than the fixed part of its kind of header.
    Short {
        /// Bytes that came.
        got: u16,
        /// Bytes that the header needs.
        need: u16,
    },
    /// A protocol version that this build does not speak.
    Version(u8),
    /// An unknown header kind.
    Kind(u8),
    /// Reserved bits or fields that are not zero.
    Reserved,
    /// A length or offset that disagrees with the bytes that came or with what was granted.
    Length,
    /// A checksum that is not that of the bytes.
    Checksum,
    /// A sequence number other than the next one of an ordered stream.
    Sequence {
        /// The number that came.
        got: u16,
        /// The number that was next.
        need: u16,
    },
    /// More messages than credits were granted for.
    Credit,
    /// A source, context or tag outside its range.
    Envelope,
    /// A control message that does not decode.
    Control,
}

impl fmt::Display for Malformed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Short { got, need } => write!(f, "header of {got} bytes where {need} are needed"),
            Self::Version(version) => write!(f, "protocol version {version} is not spoken here"),
            Self::Kind(kind) => write!(f, "unknown header kind {kind}"),
            Self::Reserved => f.write_str("reserved bits are set"),
            Self::Length => f.write_str("a length or offset outside what was granted"),
            Self::Checksum => f.write_str("a checksum that is not that of the bytes"),
            Self::Sequence { got, need } => write!(f, "sequence {got} where {need} was next"),
            Self::Credit => f.write_str("more messages than credits"),
            Self::Envelope => f.write_str("a source, context or tag out of range"),
            Self::Control => f.write_str("a control message that does not decode"),
        }
    }
}

/// The cause of a refusal or of a failed operation. `Copy`, at most 24 bytes, so that it fits into
/// every error. Its numbers begin with one, so that "no cause" is zero and storage that holds none
/// is all zero; they are words, so that small cores move it by words.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[non_exhaustive]
#[repr(u32)]
pub enum Cause {
    /// A pool is full; nothing was lost, try again when something has completed, or size it larger.
    Full(Resource) = 1,
    /// A table of the storage is smaller than the job needs.
    TooSmall {
        /// The table that is too small.
        what: Resource,
        /// Entries needed.
        need: u32,
        /// Entries there.
        have: u32,
    },
    /// The deadline passed first.
    TimedOut,
    /// The operation was cancelled by this side.
    Cancelled,
    /// A rank outside the communicator.
    RankOutOfRange {
        /// The rank asked for.
        rank: u32,
        /// Ranks there are.
        size: u32,
    },
    /// A tag above the largest allowed.
    TagOutOfRange {
        /// The tag asked for.
        tag: u32,
        /// The largest allowed.
        max: u32,
    },
    /// The message was longer than the receive buffer; the buffer holds its first bytes.
    Truncated {
        /// Bytes that were sent.
        sent: u64,
        /// Bytes the buffer has room for.
        room: u64,
    },
    /// A received byte count that is no whole number of elements of the type asked for.
    PartialElement {
        /// Bytes received.
        bytes: u64,
        /// Bytes an element has.
        element: u32,
    },
    /// Two buffers or counts that must agree do not.
    LengthMismatch {
        /// Length of the first.
        left: u64,
        /// Length of the second.
        right: u64,
    },
    /// Bytes that do not divide into so many partitions of equal length, or no number of partitions
    /// that there can be.
    Partitions {
        /// Partitions asked for.
        partitions: u32,
        /// Bytes of the message.
        bytes: u64,
    },
    /// A partition outside the message.
    PartitionOutOfRange {
        /// The partition.
        partition: u32,
        /// The number of partitions that there are.
        partitions: u32,
    },
    /// A partition that was made ready before in this round.
    PartitionReady {
        /// The partition.
        partition: u32,
    },
    /// A persistent or partitioned request that has not been started.
    Inactive,
    /// Memory that is in use by a request, or that an operation names twice.
    Busy,
    /// A message sent in ready mode met no receive that was posted before it. It was received all
    /// the same.
    NotReady,
    /// A handle, communicator or region that has been freed.
    Stale,
    /// The peer died or cannot be reached any more.
    PeerDead,
    /// The peer ended the job in an orderly way before this operation completed.
    PeerLeft,
    /// The peer withdrew the message (its send timed out or was cancelled) after it had been
    /// matched here.
    Withdrawn,
    /// The job was aborted by a rank.
    Aborted {
        /// The rank's abort code.
        code: i32,
    },
    /// The peer broke the protocol.
    Malformed(Malformed),
    /// The transport lacks a feature.
    Unsupported,
    /// The message is larger than the transport or pool can ever take in this class.
    TooBig {
        /// Bytes asked for.
        len: u64,
        /// The most there can be.
        max: u64,
    },
    /// Memory that is not aligned as the operation needs.
    Unaligned {
        /// The alignment needed, in bytes.
        need: u32,
    },
    /// This transport has no way to that peer.
    Unreachable,
    /// The peer's build or sizing cannot work with ours.
    Incompatible,
    /// A memory region that is not what was agreed upon: foreign, truncated or of another job.
    BadRegion,
    /// A device or link reported an error.
    Device,
    /// A rank that a list of distinct ranks names twice.
    DuplicateRank {
        /// The rank.
        rank: u32,
    },
    /// A range of ranks whose stride is zero or leads away from its end.
    BadStride {
        /// The stride.
        stride: i32,
    },
    /// A communicator, datatype or attribute that every process has for good: it can be neither
    /// changed nor freed.
    Predefined,
    /// A collective call that another rank could not take part in; that rank's own error tells why.
    Declined,
    /// An intercommunicator where only ranks of one group will do.
    Intercommunicator,
    /// A communicator of one group where an intercommunicator is needed.
    Intracommunicator,
    /// Groups that must have no process in common have this one.
    Overlap {
        /// The process's rank in the world.
        rank: u32,
    },
    /// Ranks that must give the same argument gave different ones.
    Disagreement,
    /// A number that the other form of its type cannot hold: a word for a machine of narrower ones,
    /// a character beyond U+FFFF in external32.
    Unrepresentable {
        /// Its magnitude.
        magnitude: u64,
        /// True if it is below zero.
        negative: bool,
        /// Bytes of the form that is too narrow.
        bytes: u8,
    },
    /// The types that a message was sent as are not those that it was received as. Its bytes were
    /// received all the same.
    SignatureMismatch {
        /// The signature's hash at the sender, folded to 32 bits.
        sent: u32,
        /// The hash of as many bytes of the receive's types; zero if they end inside an element.
        expected: u32,
    },
    /// A message whose bytes are not those that were sent.
    Corrupt {
        /// The checksum that came with it.
        sent: u32,
        /// The checksum of what came.
        found: u32,
    },
    /// A receive or probe of any source on a communicator that was promised none.
    NoAnySource,
    /// A receive or probe of any tag on a communicator that was promised none.
    NoAnyTag,
    /// The message was shorter than the receive buffer, on a communicator where lengths were
    /// promised to be equal.
    NotExact {
        /// Bytes that were sent.
        sent: u64,
        /// Bytes the buffer has room for.
        room: u64,
    },
    /// The peer was aborted, with a communicator that this process is not in.
    PeerAborted {
        /// The code of the abort.
        code: i32,
    },
    /// The peer has the other byte order, in an operation that does not convert numbers.
    UnlikeOrder,
    /// An algorithm whose results need not have the bits of others', where that was asked for.
    Irreproducible,
    /// Ranks of a communicator have made unlike collective calls, where all must make the same ones
    /// in the same order.
    UnlikeCall {
        /// The call that this rank has made.
        own: Operation,
        /// With this root, modulo 32; zero where there is none.
        own_root: u8,
        /// The call that the peer has made instead.
        theirs: Operation,
        /// With this root, modulo 32; zero where there is none.
        their_root: u8,
        /// True if there are so few ranks that roots are given exactly.
        is_exact: bool,
    },
    /// Ranks of a communicator have made the same collective call with unlike counts, types,
    /// scratch or options.
    UnlikeLength {
        /// Bytes that this rank expects of the peer, by its own call.
        own: u64,
        /// Bytes that the peer has given.
        theirs: u64,
    },
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Full(what) => write!(f, "no free {what}"),
            Self::TooSmall { what, need, have } => write!(f, "{need} needed but only {have} there: {what}"),
            Self::TimedOut => f.write_str("the deadline passed"),
            Self::Cancelled => f.write_str("cancelled"),
            Self::RankOutOfRange { rank, size } => write!(f, "rank {rank} is outside 0..{size}"),
            Self::TagOutOfRange { tag, max } => write!(f, "tag {tag} is above {max}"),
            Self::Truncated { sent, room } => {
                write!(f, "truncated: a message of {sent} bytes met a buffer of {room}")
            }
            Self::PartialElement { bytes, element } => {
                write!(f, "{bytes} bytes are no whole number of {element}-byte elements")
            }
            Self::LengthMismatch { left, right } => write!(f, "lengths {left} and {right} must be equal"),
            Self::UnlikeLength { own, theirs } => unlike_length(f, own, theirs),
            Self::UnlikeCall { own, own_root, theirs, their_root, is_exact } => {
                let called = |operation, root| Called { operation, root, is_exact };
                unlike_call(f, called(own, own_root), called(theirs, their_root))
            }
            Self::Partitions { partitions, bytes } => {
                write!(f, "{bytes} bytes in {partitions} partitions: 1 to 64 of equal length are possible")
            }
            Self::PartitionOutOfRange { partition, partitions } => {
                write!(f, "partition {partition} is outside 0..{partitions}")
            }
            Self::PartitionReady { partition } => write!(f, "partition {partition} is ready already"),
            Self::Inactive => f.write_str("the request has not been started: start it first"),
            Self::Busy => f.write_str("memory or a request that is in use: wait for it first"),
            Self::NotReady => f.write_str("no receive was posted for a message sent in ready mode"),
            Self::Stale => f.write_str("a handle that has been freed: make a new one"),
            Self::PeerDead => f.write_str("the peer is dead"),
            Self::PeerLeft => f.write_str("the peer has left the job"),
            Self::Withdrawn => f.write_str("the sender withdrew the message"),
            Self::Aborted { code } => write!(f, "the job was aborted with code {code}"),
            Self::Malformed(what) => write!(f, "the peer broke the protocol: {what}"),
            Self::Unsupported => f.write_str("not supported by the transport"),
            Self::TooBig { len, max } => write!(f, "{len} bytes where at most {max} fit"),
            Self::Unaligned { need } => write!(f, "memory is not aligned to {need} bytes"),
            Self::Unreachable => f.write_str("the transport does not reach this peer"),
            Self::Incompatible => f.write_str("the peer's version or sizing does not fit ours"),
            Self::BadRegion => f.write_str("a foreign, truncated or stale memory region"),
            Self::Device => f.write_str("the device or link failed"),
            Self::DuplicateRank { rank } => write!(f, "rank {rank} is named twice"),
            Self::BadStride { stride } => write!(f, "a stride of {stride} does not lead to the range's end"),
            Self::Predefined => f.write_str("what is predefined can be neither changed nor freed"),
            Self::Declined => f.write_str("another rank could not take part"),
            Self::Intercommunicator => f.write_str("an intercommunicator, where only one group will do"),
            Self::Intracommunicator => f.write_str("a communicator of one group, where two are needed"),
            Self::Overlap { rank } => write!(f, "rank {rank} of the world is in both groups"),
            Self::Disagreement => f.write_str("ranks that must give the same argument gave different ones"),
            Self::Unrepresentable { magnitude, negative, bytes } => {
                let sign = if negative { "-" } else { "" };
                write!(f, "the number {sign}{magnitude} does not fit into {bytes} bytes")
            }
            Self::SignatureMismatch { sent, expected } => {
                write!(
                    f,
                    "sent as other types than received: signature {sent:08x} where {expected:08x} was expected"
                )
            }
            Self::Corrupt { sent, found } => {
                write!(f, "corrupt: a checksum of {found:08x} where {sent:08x} was sent")
            }
            Self::NoAnySource => f.write_str(
                "any source, where the hint no_any_source promised none: name the source or clear the hint",
            ),
            Self::NoAnyTag => f.write_str(
                "any tag, where the hint no_any_tag promised none: name the tag or clear the hint",
            ),
            Self::NotExact { sent, room } => write!(
                f,
                "a message of {sent} bytes met a buffer of {room}, where the hint exact_length promised as many"
            ),
            Self::PeerAborted { code } => write!(f, "the peer was aborted with code {code}"),
            Self::Irreproducible => f.write_str(
                "results by it need not have the bits of others: take the option `reproducible` back, or another algorithm",
            ),
            Self::UnlikeOrder => f.write_str(
                "the peer has the other byte order, and collectives convert no numbers: use typed messages, bytes, or a communicator of its like",
            ),
        }
    }
}

impl core::error::Error for Cause {}

fn unlike_length(f: &mut fmt::Formatter<'_>, own: u64, theirs: u64) -> fmt::Result {
    write!(
        f,
        "this rank's call expects {own} bytes, the peer's gives {theirs}: all must give the same counts, types, scratch and options"
    )
}

fn unlike_call(f: &mut fmt::Formatter<'_>, own: Called, theirs: Called) -> fmt::Result {
    write!(f, "this rank has called {own}, the peer {theirs}: all must make the same calls in the same order")
}

/// A collective call and its root: `bcast with root 3`.
struct Called {
    operation: Operation,
    root: u8,
    /// False if only the root modulo 32 is known.
    is_exact: bool,
}

impl fmt::Display for Called {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        use Operation::{Bcast, Gather, Gatherv, Reduce, Scatter, Scatterv};
        let &Self { operation, root, is_exact } = self;
        match operation {
            Bcast | Reduce | Gather | Gatherv | Scatter | Scatterv => {
                write!(f, "{operation} with root {root}{}", if is_exact { "" } else { " (modulo 32)" })
            }
            _ => write!(f, "{operation}"),
        }
    }
}

/// A byte link's error, reduced to what the layers above act upon.
impl From<embedded_io::ErrorKind> for Cause {
    fn from(kind: embedded_io::ErrorKind) -> Self {
        use embedded_io::ErrorKind as Kind;
        match kind {
            Kind::TimedOut => Self::TimedOut,
            Kind::ConnectionReset | Kind::ConnectionAborted | Kind::BrokenPipe => Self::PeerDead,
            Kind::NotConnected | Kind::ConnectionRefused | Kind::AddrNotAvailable => Self::Unreachable,
            Kind::Unsupported => Self::Unsupported,
            Kind::Interrupted => Self::Cancelled,
            _ => Self::Device,
        }
    }
}

const _: () = assert!(size_of::<Cause>() <= 24, "a cause must leave room for the rest of a 64-byte error");

#[cfg(test)]
mod tests {
    extern crate std;

    use std::string::ToString;

    use super::*;

    #[test]
    fn unlike_calls_are_told_by_name() {
        let (own, theirs) = (Operation::Bcast, Operation::Allreduce);
        let told = |is_exact| {
            let cause = Cause::UnlikeCall { own, own_root: 3, theirs, their_root: 0, is_exact };
            cause.to_string()
        };
        let rest = "the peer allreduce: all must make the same calls in the same order";
        assert_eq!(told(true), std::format!("this rank has called bcast with root 3, {rest}"));
        assert_eq!(told(false), std::format!("this rank has called bcast with root 3 (modulo 32), {rest}"));
    }

    #[test]
    fn a_byte_links_errors_keep_their_meaning() {
        assert_eq!(Cause::from(embedded_io::ErrorKind::BrokenPipe), Cause::PeerDead);
        assert_eq!(Cause::from(embedded_io::ErrorKind::TimedOut), Cause::TimedOut);
        assert_eq!(Cause::from(embedded_io::ErrorKind::Other), Cause::Device);
    }
}

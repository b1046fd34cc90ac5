//! The faults of virtual nodes and between them, in types and in words.

use core::fmt;

/// A stretch of virtual time, ns: from `start` on and before `end`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct VirtualSpan {
    /// Its first instant.
    pub start: u64,
    /// The first instant after it.
    pub end: u64,
}

impl VirtualSpan {
    /// Returns true if the instant `at` is in it.
    pub const fn contains(&self, at: u64) -> bool {
        self.start <= at && at < self.end
    }
}

impl fmt::Display for VirtualSpan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "from {} us to {} us", micros(self.start), micros(self.end))
    }
}

/// The messages that a fault of the network is about.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Ways {
    /// All of them.
    All,
    /// Messages to and from one node.
    Of(u32),
    /// Messages from one node to another.
    Way {
        /// The node that sends them.
        from: u32,
        /// The node that they are sent to.
        to: u32,
    },
    /// Messages from any of some nodes to any of others.
    Across {
        /// The nodes that send them.
        from: Vec<u32>,
        /// The nodes that they are sent to.
        to: Vec<u32>,
    },
}

impl Ways {
    /// Returns true if a message from one node to another is among them.
    pub fn contain(&self, from: u32, to: u32) -> bool {
        match self {
            Self::All => true,
            Self::Of(node) => from == *node || to == *node,
            Self::Way { from: one, to: other } => (from, to) == (*one, *other),
            Self::Across { from: some, to: others } => some.contains(&from) && others.contains(&to),
        }
    }
}

impl fmt::Display for Ways {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let list = |ranks: &[u32]| ranks.iter().map(u32::to_string).collect::<Vec<_>>().join(", ");
        match self {
            Self::All => f.write_str("between all ranks"),
            Self::Of(node) => write!(f, "to and from rank {node}"),
            Self::Way { from, to } => write!(f, "from rank {from} to rank {to}"),
            Self::Across { from, to } => write!(f, "from ranks {} to ranks {}", list(from), list(to)),
        }
    }
}

/// A fault in a run. [`Display`](fmt::Display) tells it in words.
///
/// Faults of frames are there on the wire of frames only: the wire of messages keeps its promise of
/// order and delivery.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum RunFault {
    /// Messages take up to `extra_ns` longer; on the wire of messages they keep their order.
    Clog {
        /// The messages that it is about.
        ways: Ways,
        /// The time during which it lasts.
        span: VirtualSpan,
        /// The time by which they take longer at most, ns.
        extra_ns: u64,
    },
    /// A node needs longer for each message that it sends or takes.
    Slow {
        /// The node.
        node: u32,
        /// The time during which it lasts.
        span: VirtualSpan,
        /// The factor by which it needs longer.
        factor: u64,
    },
    /// A node does nothing for a while.
    Pause {
        /// The node.
        node: u32,
        /// The time during which it lasts.
        span: VirtualSpan,
    },
    /// A node dies.
    Crash {
        /// The node.
        node: u32,
        /// The time at which it dies, ns.
        at: u64,
    },
    /// A node dies and boots again, with a new epoch and its program from the beginning.
    Restart {
        /// The node.
        node: u32,
        /// From its death to its boot.
        span: VirtualSpan,
    },
    /// Frames get lost.
    Loss {
        /// The frames that it is about.
        ways: Ways,
        /// The time during which it lasts.
        span: VirtualSpan,
        /// The share of frames, in a hundred.
        percent: u64,
    },
    /// Frames arrive twice, the second time up to 200 us later.
    Duplication {
        /// The frames that it is about.
        ways: Ways,
        /// The time during which it lasts.
        span: VirtualSpan,
        /// The share of frames, in a hundred.
        percent: u64,
    },
    /// Frames take up to `extra_ns` longer, so that others overtake them.
    Reordering {
        /// The frames that it is about.
        ways: Ways,
        /// The time during which it lasts.
        span: VirtualSpan,
        /// The share of frames, in a hundred.
        percent: u64,
        /// The time by which they take longer at most, ns.
        extra_ns: u64,
    },
    /// A few bits of a frame are turned over, or its end is cut off.
    Corruption {
        /// The frames that it is about.
        ways: Ways,
        /// The time during which it lasts.
        span: VirtualSpan,
        /// The share of frames, in a hundred.
        percent: u64,
    },
    /// All frames take `extra_ns` longer.
    Spike {
        /// The frames that it is about.
        ways: Ways,
        /// The time during which it lasts.
        span: VirtualSpan,
        /// The time by which they take longer, ns.
        extra_ns: u64,
    },
    /// All frames get lost, and those of the other direction do not.
    Partition {
        /// The frames that it is about.
        ways: Ways,
        /// The time during which it lasts.
        span: VirtualSpan,
    },
}

/// The most by which the second arrival of a frame is later than the first, ns.
pub(super) const ECHO_NS_MAX: u64 = 200_000;

impl RunFault {
    /// The time during which it lasts; a crash begins and does not end.
    pub const fn span(&self) -> VirtualSpan {
        match self {
            Self::Clog { span, .. }
            | Self::Slow { span, .. }
            | Self::Pause { span, .. }
            | Self::Restart { span, .. }
            | Self::Loss { span, .. }
            | Self::Duplication { span, .. }
            | Self::Reordering { span, .. }
            | Self::Corruption { span, .. }
            | Self::Spike { span, .. }
            | Self::Partition { span, .. } => *span,
            Self::Crash { at, .. } => VirtualSpan { start: *at, end: u64::MAX },
        }
    }
}

impl fmt::Display for RunFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Clog { ways, span, extra_ns } => {
                write!(f, "{span}: messages {ways} take up to {} us longer", micros(*extra_ns))
            }
            Self::Slow { node, span, factor } => write!(f, "{span}: rank {node} is {factor} times slower"),
            Self::Pause { node, span } => write!(f, "{span}: rank {node} stands still"),
            Self::Crash { node, at } => write!(f, "at {} us: rank {node} dies", micros(*at)),
            Self::Restart { node, span } => write!(f, "{span}: rank {node} is dead, and boots again"),
            Self::Loss { ways, span, percent } => {
                write!(f, "{span}: {percent} % of the frames {ways} get lost")
            }
            Self::Duplication { ways, span, percent } => {
                write!(f, "{span}: {percent} % of the frames {ways} arrive twice")
            }
            Self::Reordering { ways, span, percent, extra_ns } => {
                let extra = micros(*extra_ns);
                write!(f, "{span}: {percent} % of the frames {ways} are overtaken, by up to {extra} us")
            }
            Self::Corruption { ways, span, percent } => {
                write!(f, "{span}: {percent} % of the frames {ways} are damaged")
            }
            Self::Spike { ways, span, extra_ns } => {
                write!(f, "{span}: frames {ways} take {} us longer", micros(*extra_ns))
            }
            Self::Partition { ways, span } => write!(f, "{span}: all frames {ways} get lost"),
        }
    }
}

fn micros(ns: u64) -> f64 {
    ns as f64 / 1000.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn faults_are_told_in_words() {
        let span = VirtualSpan { start: 1_500, end: 20_000 };
        let clog = RunFault::Clog { ways: Ways::Way { from: 1, to: 0 }, span, extra_ns: 5_000 };
        let words = "from 1.5 us to 20 us: messages from rank 1 to rank 0 take up to 5 us longer";
        assert_eq!(clog.to_string(), words);
        let ways = Ways::Across { from: vec![0, 2], to: vec![1] };
        let words = "from 1.5 us to 20 us: all frames from ranks 0, 2 to ranks 1 get lost";
        assert_eq!(RunFault::Partition { ways, span }.to_string(), words);
    }

    #[test]
    fn a_partition_has_one_direction() {
        let ways = Ways::Across { from: vec![0, 2], to: vec![1] };
        assert!(ways.contain(2, 1) && !ways.contain(1, 2) && !ways.contain(0, 2));
        assert!(Ways::Of(1).contain(1, 2) && Ways::Of(1).contain(2, 1) && !Ways::Of(1).contain(0, 2));
    }
}

//! Phases that algorithms are made of: even parts, halving and doubling, walks around the ring,
//! pairs that act as one.
//!
//! An algorithm of several phases lists their rounds and asks [`locate`] which one a round is in; a
//! phase gives the steps of one of its rounds, and what it costs. Steps of no elements are left
//! out: [`nth`].

use crate::schedule::{Instance, Order, Span, Step, Work, divide, log2_floor};

/// The phase that `round` is in and its round there, if the phases have `lengths` rounds.
pub(crate) fn locate<const N: usize>(round: u32, lengths: [u32; N]) -> Option<(usize, u32)> {
    let mut left = round;
    for (phase, length) in lengths.into_iter().enumerate() {
        match left.checked_sub(length) {
            None => return Some((phase, left)),
            Some(rest) => left = rest,
        }
    }
    None
}

/// The step with `index` among those that have elements.
pub(crate) fn nth<const N: usize>(steps: [Step; N], index: u32) -> Option<Step> {
    let elements = |step: &Step| match step {
        Step::Recv { into, .. } | Step::Reduce { into, .. } | Step::Copy { into, .. } => into.len,
        Step::Send { from, .. } => from.len,
    };
    steps.into_iter().filter(|step| elements(step) > 0).nth(index as usize)
}

/// The place `by` places before `place` on a ring of `size`.
pub(crate) fn ring_before(place: u32, by: u32, size: u32) -> u32 {
    let by = by.checked_rem(size).unwrap_or(0);
    place.checked_sub(by).unwrap_or(size.wrapping_sub(by).wrapping_add(place))
}

/// Returns the whole data, and as much scratch.
pub(crate) fn whole(instance: &Instance) -> (Span, Span) {
    (Span::data(0, instance.count()), Span::scratch(instance.count()))
}

/// The local steps that combine `len` operands from left to right, of which the data is the one
/// with number `own` and the others are in scratch at `slot`. The operands before it are combined
/// in the first one's place.
pub(crate) fn left_fold(
    instance: &Instance,
    own: u32,
    len: u32,
    index: u32,
    slot: impl Fn(u32) -> Span,
) -> Option<Step> {
    let (data, _) = whole(instance);
    let next = index.checked_add(1).filter(|&next| next < len)?;
    Some(if next < own {
        Step::Reduce { into: slot(0), from: slot(next), order: Order::IntoFirst }
    } else if next == own {
        Step::Reduce { into: data, from: slot(0), order: Order::FromFirst }
    } else {
        Step::Reduce { into: data, from: slot(next), order: Order::IntoFirst }
    })
}

/// Sends `given` to a peer while `kept` is reduced with what the peer gives; the lower rank's
/// operand on the left.
pub(crate) fn reduce_with(instance: &Instance, peer: u32, given: Span, kept: Span) -> [Step; 3] {
    let arrived = Span::scratch(kept.len);
    [
        Step::Recv { from: peer, into: arrived },
        Step::Send { to: peer, from: given },
        Step::Reduce { into: kept, from: arrived, order: order(instance.rank(), peer) },
    ]
}

/// A round of a reduce-scatter around the ring: a chunk is sent on to the next rank, another comes
/// from the one before and is reduced, what came standing on the left.
pub(crate) fn pass_reducing(instance: &Instance, outgoing: Span, incoming: Span) -> [Step; 3] {
    let arrived = Span::scratch(incoming.len);
    [
        Step::Recv { from: instance.before(1), into: arrived },
        Step::Send { to: instance.after(1), from: outgoing },
        Step::Reduce { into: incoming, from: arrived, order: Order::FromFirst },
    ]
}

/// A round of an allgather around the ring.
pub(crate) fn pass(instance: &Instance, outgoing: Span, incoming: Span) -> [Step; 2] {
    [
        Step::Recv { from: instance.before(1), into: incoming },
        Step::Send { to: instance.after(1), from: outgoing },
    ]
}

/// Work done in phases one after another.
pub(crate) fn sum<const N: usize>(phases: [Work; N]) -> Work {
    phases.into_iter().fold(Work::default(), |all, one| Work {
        rounds: all.rounds.saturating_add(one.rounds),
        fan: all.fan.saturating_add(one.fan),
        elements: all.elements.saturating_add(one.elements),
        reduced: all.reduced.saturating_add(one.reduced),
        copied: all.copied.saturating_add(one.copied),
    })
}

/// Returns the work of `rounds` rounds of messages of `elements`, which their receivers reduce if
/// `reduces`.
pub(crate) fn messages(rounds: u32, elements: usize, reduces: bool) -> Work {
    if elements == 0 {
        return Work::default();
    }
    let rounds = u64::from(rounds);
    let elements = rounds.saturating_mul(elements as u64);
    Work { rounds, elements, reduced: if reduces { elements } else { 0 }, ..Work::default() }
}

/// Data cut into parts as even as can be: the first ones are one element longer. Parts past the
/// last are empty.
#[derive(Clone, Copy)]
pub(crate) struct Parts {
    count: usize,
    base: usize,
    longer: usize,
}

impl Parts {
    pub(crate) fn new(count: usize, parts: u32) -> Self {
        let (base, longer) = divide(count, parts as usize);
        Self { count, base, longer }
    }

    fn start(&self, part: u32) -> usize {
        let part = part as usize;
        part.saturating_mul(self.base).saturating_add(part.min(self.longer)).min(self.count)
    }

    /// The `width` parts from `first` on.
    pub(crate) fn span(&self, first: u32, width: u32) -> Span {
        let start = self.start(first);
        Span::data(start, self.start(first.saturating_add(width)).saturating_sub(start))
    }

    /// The elements of the `width` parts from `first` on.
    pub(crate) fn len(&self, first: u32, width: u32) -> usize {
        self.span(first, width).len
    }

    /// Returns the number of pieces that have elements, of `pieces` pieces of `width` parts from
    /// part `first` on.
    pub(crate) fn nonempty_pieces(&self, first: u32, width: u32, pieces: u32) -> u64 {
        let longer = (self.longer as u64).saturating_sub(first.into()).div_ceil(u64::from(width.max(1)));
        if self.base > 0 { pieces.into() } else { longer.min(pieces.into()) }
    }

    /// Returns the work of the longest messages of `rounds` rounds, each of `width` parts: from
    /// `first` on in the first round, and `stride` parts further on in each one after it.
    pub(crate) fn longest_messages(&self, first: u32, width: u32, stride: u32, rounds: u32) -> Work {
        let rounds = u64::from(rounds);
        let even = (self.base as u64).saturating_mul(width.into()).saturating_mul(rounds);
        // The longer parts among them, from `first` on: `full` rounds have nothing else, the next
        // one may have some.
        let longer = (self.longer as u64).saturating_sub(first.into());
        let (full, rest) = (longer.checked_div(stride.into()), longer.checked_rem(stride.into()));
        let (full, rest) = (full.unwrap_or(0), rest.unwrap_or(0).min(width.into()));
        let more = if full < rounds {
            full.saturating_mul(width.into()).saturating_add(rest)
        } else {
            rounds.saturating_mul(width.into())
        };
        let present = self.nonempty_pieces(first, stride, u32::try_from(rounds).unwrap_or(u32::MAX));
        Work { rounds: present, elements: even.saturating_add(more), ..Work::default() }
    }

    /// The most elements of which, cut into `parts`, the first `width` are not more than `most`.
    pub(crate) fn capacity(most: usize, parts: u32, width: u32) -> usize {
        let (full, rest) = divide(most, width as usize);
        full.saturating_mul(parts as usize).saturating_add(rest)
    }
}

/// Halving, doubling, and the binomial trees between one position and all: `2^bits` positions, each
/// with its part of the data in the end, or in the beginning.
///
/// In round k of a halving a position has `2^(bits-k)` parts and keeps the half that its own is in;
/// its partner, which keeps the other, is as many positions away. A doubling, like a gathering,
/// takes the same rounds from the last to the first. Which rank has which position is the caller's:
/// bits in reverse make the first partners neighbours.
#[derive(Clone, Copy)]
pub(crate) struct Halving {
    pub(crate) parts: Parts,
    pub(crate) bits: u32,
}

impl Halving {
    /// Of `count` elements among as many positions.
    pub(crate) fn new(count: usize, bits: u32) -> Self {
        Self { parts: Parts::new(count, power(bits)), bits }
    }

    /// The parts that a position has before round `round`.
    pub(crate) fn held(&self, position: u32, round: u32) -> Span {
        let width = self.width(round);
        self.parts.span(position & !width.wrapping_sub(1), width)
    }

    /// Its partner in `round`.
    pub(crate) fn partner(&self, position: u32, round: u32) -> u32 {
        position ^ self.width(round.saturating_add(1))
    }

    /// The parts that a position has before `round`.
    pub(crate) fn width(&self, round: u32) -> u32 {
        power(self.bits.saturating_sub(round))
    }

    /// Returns the span that a position keeps in `round`, and the one that its partner keeps.
    pub(crate) fn halves(&self, position: u32, round: u32) -> (Span, Span) {
        let after = round.saturating_add(1);
        (self.held(position, after), self.held(self.partner(position, round), after))
    }

    /// Round `round` of a reduce-scatter, with the rank of the partner.
    pub(crate) fn halve(&self, instance: &Instance, position: u32, round: u32, peer: u32) -> [Step; 3] {
        let (kept, given) = self.halves(position, round);
        reduce_with(instance, peer, given, kept)
    }

    /// An allgather undoes round `round` of the halving.
    pub(crate) fn double(&self, position: u32, round: u32, peer: u32) -> [Step; 2] {
        let (kept, given) = self.halves(position, round);
        [Step::Recv { from: peer, into: given }, Step::Send { to: peer, from: kept }]
    }

    /// Round `round` of a scatter from position 0.
    pub(crate) fn scatter(&self, position: u32, round: u32, peer: u32) -> Option<Step> {
        let (kept, given) = self.halves(position, round);
        let in_group = position & self.width(round).wrapping_sub(1);
        if in_group == 0 {
            Some(Step::Send { to: peer, from: given })
        } else if in_group == self.width(round.saturating_add(1)) {
            Some(Step::Recv { from: peer, into: kept })
        } else {
            None
        }
    }

    /// A gather to position 0 undoes round `round` of the scatter.
    pub(crate) fn gather(&self, position: u32, round: u32, peer: u32) -> Option<Step> {
        match self.scatter(position, round, peer)? {
            Step::Send { to, from } => Some(Step::Recv { from: to, into: from }),
            Step::Recv { from, into } => Some(Step::Send { to: from, from: into }),
            _ => None,
        }
    }

    /// Returns the work of the reduce-scatter (`reduces`) or the allgather: the first half is the
    /// longer one.
    pub(crate) fn exchanged(&self, reduces: bool) -> Work {
        let of = |round| messages(1, self.parts.len(0, self.width(round + 1)), reduces);
        (0..self.bits).map(of).fold(Work::default(), |all, one| sum([all, one]))
    }

    /// Returns the work of the scatter or the gather: position 0 gives and gets second halves.
    pub(crate) fn spread(&self) -> Work {
        let of = |round| {
            let width = self.width(round + 1);
            messages(1, self.parts.len(width, width), false)
        };
        (0..self.bits).map(of).fold(Work::default(), |all, one| sum([all, one]))
    }
}

/// Ranks beyond the largest power of two: as many pairs of the first ranks act as one each, so that
/// `2^bits` actors are left, numbered in the order of ranks.
#[derive(Clone, Copy)]
pub(crate) struct Pairs {
    pub(crate) bits: u32,
    excess: u32,
    root: u32,
}

impl Pairs {
    /// Of `size` ranks. In a pair acts `root`, if it is in it, else the higher rank.
    pub(crate) const fn new(size: u32, root: Option<u32>) -> Self {
        let bits = log2_floor(size);
        let root = match root {
            Some(root) => root,
            None => u32::MAX,
        };
        Self { bits, excess: size.saturating_sub(power(bits)), root }
    }

    /// The most elements that pairs can fold and actors halve with `scratch`.
    pub(crate) fn capacity(&self, scratch: usize) -> usize {
        match (self.excess, self.bits) {
            (0, 0) => usize::MAX,
            (0, bits) => Parts::capacity(scratch, power(bits), power(bits - 1)),
            _ => scratch,
        }
    }

    /// Rounds to fold the pairs, as many as to unfold them.
    pub(crate) const fn folds(&self) -> u32 {
        if self.excess > 0 { 1 } else { 0 }
    }

    /// The rank that acts under `number`.
    pub(crate) const fn rank(&self, number: u32) -> u32 {
        if number >= self.excess {
            number.saturating_add(self.excess)
        } else if number.wrapping_mul(2) == self.root {
            self.root
        } else {
            number.wrapping_mul(2) | 1
        }
    }

    /// The number under which `rank` or the other of its pair acts.
    pub(crate) const fn number(&self, rank: u32) -> u32 {
        if rank / 2 < self.excess { rank / 2 } else { rank.saturating_sub(self.excess) }
    }

    /// The first rank of the pair, or the rank, that acts under `number`; the size for the number
    /// past the last.
    pub(crate) fn first(&self, number: u32) -> u32 {
        number.saturating_add(number.min(self.excess))
    }

    /// Pairs.
    pub(crate) const fn pairs(&self) -> u32 {
        self.excess
    }

    /// The number of a rank that acts.
    pub(crate) fn actor(&self, rank: u32) -> Option<u32> {
        Some(self.number(rank)).filter(|&number| self.rank(number) == rank)
    }

    /// The rank that does not act hands its data to the other, which reduces it.
    pub(crate) fn fold(&self, instance: &Instance, index: u32) -> Option<Step> {
        let (rank, other) = (instance.rank(), instance.rank() ^ 1);
        let (data, arrived) = whole(instance);
        match (self.actor(rank), index) {
            _ if rank / 2 >= self.excess => None,
            (None, 0) => Some(Step::Send { to: other, from: data }),
            (Some(_), 0) => Some(Step::Recv { from: other, into: arrived }),
            (Some(_), 1) => Some(Step::Reduce { into: data, from: arrived, order: order(rank, other) }),
            _ => None,
        }
    }

    /// The rank that does not act gets the result from the other.
    pub(crate) fn unfold(&self, instance: &Instance, index: u32) -> Option<Step> {
        let (rank, other) = (instance.rank(), instance.rank() ^ 1);
        let (data, _) = whole(instance);
        match (self.actor(rank), index) {
            _ if rank / 2 >= self.excess => None,
            (None, 0) => Some(Step::Recv { from: other, into: data }),
            (Some(_), 0) => Some(Step::Send { to: other, from: data }),
            _ => None,
        }
    }
}

/// The lower rank's operand stands on the left.
pub(crate) const fn order(rank: u32, peer: u32) -> Order {
    if peer < rank { Order::FromFirst } else { Order::IntoFirst }
}

/// `2^bits`; 0 if that is more than a `u32` holds.
pub(crate) const fn power(bits: u32) -> u32 {
    match 1u32.checked_shl(bits) {
        Some(power) => power,
        None => 0,
    }
}

/// The lowest `bits` bits of `number` in reverse.
pub(crate) const fn reverse(number: u32, bits: u32) -> u32 {
    match number.reverse_bits().checked_shr(32u32.saturating_sub(bits)) {
        Some(reversed) => reversed,
        None => 0,
    }
}

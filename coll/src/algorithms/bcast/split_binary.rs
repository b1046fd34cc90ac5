//! The split binary tree: each half of the data is sent down one half of the tree, then the halves
//! are exchanged.

use aldis_kernel::hal::Operation;

use crate::schedule::tree::{Binary, Edge, Tree};
use crate::schedule::{Instance, Priced, Schedule, Span, Step, Work};

/// The split-binary-tree broadcast: floor(log2(p / 2)) + 2 rounds of n elements, the last of n/2,
/// any p, any root.
///
/// Counted from the root, odd places are its left subtree and even ones its right: binary trees of
/// the same form, each with pairs of neighbours at the same spot. The root sends the first half of
/// the data to the head of the left and the second half to the head of the right, every rank sends
/// its half on to two, and at last the two of a pair exchange theirs. The last odd place has no
/// partner when p is even; the root is its partner then.
#[derive(Clone, Copy, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct SplitBinary;

/// The elements of the data that the left subtree hands on, and those of the right.
fn halves(instance: &Instance) -> (Span, Span) {
    let left = instance.count().div_ceil(2);
    (Span::data(0, left), Span::data(left, instance.count() - left))
}

/// Ranks of the left subtree, which has one more if there is one more.
const fn of_left(size: u32) -> u32 {
    size / 2
}

impl SplitBinary {
    /// The root's first round.
    fn start(instance: &Instance, index: u32) -> Option<Step> {
        let (left, right) = halves(instance);
        let to = |place: u32| instance.at_place(place);
        match (instance.from_root(), index) {
            (0, 0) => Some(Step::Send { to: to(1), from: left }),
            (0, 1) if instance.size() > 2 && right.len > 0 => Some(Step::Send { to: to(2), from: right }),
            (1, 0) => Some(Step::Recv { from: instance.root(), into: left }),
            (2, 0) if right.len > 0 => Some(Step::Recv { from: instance.root(), into: right }),
            _ => None,
        }
    }

    /// A round of both subtrees, each of which is a binary tree of its own.
    fn spread(instance: &Instance, round: u32, index: u32) -> Option<Step> {
        let side = instance.from_root().checked_sub(1)?;
        let (is_right, spot) = (side % 2, side / 2);
        let spots = of_left(instance.size() - is_right);
        let span = if is_right == 1 { halves(instance).1 } else { halves(instance).0 };
        let rank_of = |spot: u32| instance.at_place(2 * spot + 1 + is_right);
        match Binary::edge_at(spots, spot, round, index).filter(|_| span.len > 0)? {
            Edge::Parent(spot) => Some(Step::Recv { from: rank_of(spot), into: span }),
            Edge::Child(spot) => Some(Step::Send { to: rank_of(spot), from: span }),
        }
    }

    /// Pairs exchange their halves; a rank without a partner gets its other half from the root.
    fn exchange(instance: &Instance, index: u32) -> Option<Step> {
        let (place, last) = (instance.from_root(), instance.size() - 1);
        let (left, right) = halves(instance);
        let (partner, own, other) = match (place, last % 2) {
            (0, 1) => (last, right, Span::EMPTY),
            (0, _) => return None,
            (_, 1) if place == last => (0, Span::EMPTY, right),
            _ if place % 2 == 1 => (place + 1, left, right),
            _ => (place - 1, right, left),
        };
        let partner = instance.at_place(partner);
        let receives = (other.len > 0).then_some(Step::Recv { from: partner, into: other });
        let sends = (own.len > 0).then_some(Step::Send { to: partner, from: own });
        receives.into_iter().chain(sends).nth(index as usize)
    }
}

impl Schedule for SplitBinary {
    fn operation(&self) -> Operation {
        Operation::Bcast
    }

    fn name(&self) -> &'static str {
        "split_binary"
    }

    fn rounds(&self, instance: &Instance) -> u32 {
        match instance.size() {
            _ if instance.count() == 0 => 0,
            1 => 0,
            size => 2 + Binary::rounds(of_left(size)),
        }
    }

    fn step(&self, instance: &Instance, round: u32, index: u32) -> Option<Step> {
        let rounds = self.rounds(instance);
        match round.checked_sub(1) {
            _ if round >= rounds => None,
            None => Self::start(instance, index),
            Some(_) if round + 1 == rounds => Self::exchange(instance, index),
            Some(level) => Self::spread(instance, level, index),
        }
    }

    fn capacity(&self, _size: u32, _scratch: usize) -> usize {
        usize::MAX
    }
}

impl Priced for SplitBinary {
    fn source(&self) -> &'static str {
        "Pjesivac-Grbovic et al. 2007, Performance analysis of MPI collective operations; Open MPI \
         ompi_coll_base_bcast_intra_split_bintree"
    }

    fn work(&self, size: u32, count: usize) -> Work {
        if count == 0 || size < 2 {
            return Work::default();
        }
        let (left, right) = (count.div_ceil(2) as u64, count as u64 / 2);
        let (rounds, turns) = (Binary::rounds(of_left(size)), Binary::turns(of_left(size)).end);
        let at_once = u64::from(size > 2 && right > 0);
        let first = left.saturating_add(right.saturating_mul(at_once));
        let last = if size == 2 { right } else { left };
        Work {
            rounds: 1 + u64::from(rounds) + u64::from(last > 0),
            fan: at_once + u64::from(turns - rounds),
            elements: first.saturating_add(last).saturating_add(u64::from(turns).saturating_mul(left)),
            ..Work::default()
        }
    }
}

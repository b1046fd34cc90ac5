//! A scatter down a binomial tree, and an allgather by recursive doubling.

use aldis_kernel::hal::Operation;

use crate::phases::{Halving, locate, messages, nth, power, sum, whole};
use crate::schedule::{Instance, Priced, Schedule, Step, Work, log2_floor};

/// The broadcast by scatter and recursive-doubling allgather: 2 log2 p rounds, 2 (p - 1)/p n
/// elements, for p a power of two; any root.
///
/// The root's data is cut into p parts, and each rank gets its own down a binomial tree; then pairs
/// at distance 1, 2, 4, .. exchange all that they have. If p is no power of two, the first
/// 2^floor(log2 p) ranks from the root on do that, and hand the whole to the others in a round
/// more. (MPICH mends what recursive doubling misses by trees of its own instead, with up to
/// floor(log2 p) rounds more.)
#[derive(Clone, Copy, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct ScatterRecursiveDoublingAllgather;

fn lengths(size: u32) -> [u32; 3] {
    let bits = log2_floor(size);
    [bits, bits, u32::from(size > power(bits))]
}

/// The places beyond the power of two get everything from those as far from the root as they are
/// from that power.
fn serve(instance: &Instance, power: u32) -> Option<Step> {
    let (place, (data, _)) = (instance.from_root(), whole(instance));
    match place.checked_sub(power) {
        Some(server) => Some(Step::Recv { from: instance.at_place(server), into: data }),
        None if place < instance.size() - power => {
            Some(Step::Send { to: instance.at_place(place + power), from: data })
        }
        None => None,
    }
}

impl Schedule for ScatterRecursiveDoublingAllgather {
    fn operation(&self) -> Operation {
        Operation::Bcast
    }

    fn name(&self) -> &'static str {
        "scatter_recursive_doubling_allgather"
    }

    fn rounds(&self, instance: &Instance) -> u32 {
        if instance.count() == 0 { 0 } else { lengths(instance.size()).iter().sum() }
    }

    fn step(&self, instance: &Instance, round: u32, index: u32) -> Option<Step> {
        let (place, bits) = (instance.from_root(), log2_floor(instance.size()));
        let halving = Halving::new(instance.count(), bits);
        let is_served = place >= power(bits);
        let partner = |round| instance.at_place(halving.partner(place, round));
        match locate(round, lengths(instance.size()))? {
            (2, _) => nth([serve(instance, power(bits))?], index),
            _ if is_served => None,
            (0, round) => nth([halving.scatter(place, round, partner(round))?], index),
            (_, done) => nth(halving.double(place, bits - 1 - done, partner(bits - 1 - done)), index),
        }
    }

    fn capacity(&self, _size: u32, _scratch: usize) -> usize {
        usize::MAX
    }
}

impl Priced for ScatterRecursiveDoublingAllgather {
    fn source(&self) -> &'static str {
        "Van de Geijn 1994; Thakur, Rabenseifner, Gropp 2005, section 4.2; MPICH \
         bcast_intra_scatter_recursive_doubling_allgather; Open MPI ompi_coll_base_bcast_intra_scatter_allgather"
    }

    fn work(&self, size: u32, count: usize) -> Work {
        let halving = Halving::new(count, log2_floor(size));
        let served = messages(u32::from(size > power(halving.bits)), count, false);
        sum([halving.spread(), halving.exchanged(false), served])
    }
}

//! A block of every rank for every rank of the other group.

use aldis_kernel::hal::Operation;

use super::groups::{Groups, half};
use crate::schedule::variant::{Pattern, Variant};
use crate::schedule::{Instance, Step, Work, exchange};

/// Exchanges with ranks of the other group, so many in a round.
pub struct Exchanges<const WIDTH: u32>;

impl<const WIDTH: u32> Pattern for Exchanges<WIDTH> {
    const OPERATION: Operation = Operation::Alltoall;
    const CROSSES: bool = true;

    fn rounds(instance: &Instance) -> u32 {
        Groups::of(instance).rounds(instance, WIDTH)
    }

    fn step(instance: &Instance, round: u32, index: u32) -> Option<Step> {
        let given = |number| instance.block(number).of_input();
        Groups::of(instance).meet::<WIDTH>(instance, round, index, given)
    }

    fn work(size: u32, count: usize) -> Work {
        exchange::work(half(size).saturating_add(1), count, WIDTH)
    }
}

/// Every rank exchanges blocks with one rank of the other group after the other: p rounds of n
/// elements for groups of p. Blocks may have unlike lengths; no scratch.
#[derive(Clone, Copy, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct PairwiseExchange;

impl Variant for PairwiseExchange {
    type Pattern = Exchanges<1>;
    const NAME: &'static str = "inter_pairwise_exchange";
    const SOURCE: &'static str = "MPICH alltoall_inter_pairwise_exchange";

    fn serves(size: u32) -> bool {
        size > 1
    }
}

/// Every rank exchanges blocks with four ranks of the other group at a time: ceil(p/4) rounds for
/// groups of p. Blocks may have unlike lengths; no scratch.
#[derive(Clone, Copy, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Linear;

impl Variant for Linear {
    type Pattern = Exchanges<{ exchange::WIDTH_MAX }>;
    const NAME: &'static str = "inter_linear";
    const SOURCE: &'static str = "Open MPI mca_coll_basic_alltoall_inter, throttled";

    fn serves(size: u32) -> bool {
        size > 1
    }
}

//! Two links under an adversarial network, what an enemy may send, and the defects that all this
//! must find.

mod defects;
mod hostile;
mod pair;
mod paths;

use pair::{CALM, CONFIG, Pair, PairPlan};
use proptest::prelude::*;

use super::{DeliveryOrder, LinkConfig};

fn plans() -> impl Strategy<Value = PairPlan> {
    let network = (0u64..40, 0u64..30, 0u64..20, 0u64..20, 0u64..50);
    let shape = ([0u32..7, 0u32..7], any::<bool>(), any::<bool>(), 1u64..30_000, 0u64..600_000);
    let numbers = prop_oneof![Just(u32::MAX), Just(0), Just(i32::MAX as u32), any::<u32>()];
    let many = (0u32..90, 0u32..90, 0u32..8, any::<u64>());
    (network, shape, [numbers.clone(), numbers], many).prop_map(|(network, shape, numbers, many)| {
        let (lost, repeated, corrupted, foreign, dropped_early) = network;
        let (windows, unordered, cramped, spread, heals_ns) = shape;
        let (one, other, before, seed) = many;
        let order = if unordered { DeliveryOrder::Unordered } else { DeliveryOrder::InOrder };
        PairPlan {
            seed,
            config: LinkConfig { order, ..CONFIG },
            windows: windows.map(|power| 1 << power),
            numbers: numbers.map(|number: u32| number.wrapping_sub(before)),
            messages: [one, other],
            lost,
            repeated,
            corrupted,
            foreign,
            dropped_early,
            cramped,
            delay_ns: (1_000, 1_000 + spread),
            heals_ns,
        }
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]

    /// Exactly once, in order, released after arrival, no timer in the past, all done soon after
    /// the network heals.
    #[test]
    fn whatever_the_network_does(plan in plans()) {
        prop_assert_eq!(Pair::new(plan).run(), Ok(()));
    }
}

#[test]
fn a_perfect_network_sees_every_payload_once() {
    for order in [DeliveryOrder::InOrder, DeliveryOrder::Unordered] {
        let mut pair = Pair::new(PairPlan { config: LinkConfig { order, ..CONFIG }, ..CALM });
        pair.run().unwrap();
        let counters = pair.sides[0].link.counters();
        assert_eq!(
            (counters.repeated, counters.timeouts, counters.duplicates, counters.probes),
            (0, 0, 0, 0)
        );
    }
}

use std::string::ToString;

use super::*;
use crate::op::Sum;
use crate::schedule::Algorithm;
use crate::{allreduce, bcast};

fn taken(rules: &'static Rules, call: Call, options: &Options) -> Option<&'static str> {
    let (_, ruling) = InForce::everywhere(rules).ruling(&call, options)?;
    Some(ruling.selected.plan.algorithm.name())
}

const fn allreduce_by(algorithm: Algorithm, least: u64, most: u64) -> Rule {
    Rule {
        operation: Some(Operation::Allreduce),
        bytes: Extent { least, most },
        choice: Choice::Named(algorithm),
        ..Rule::AUTO
    }
}

static LIST: [Rule; 4] = [
    allreduce_by(&allreduce::RecursiveDoubling, 0, 4096),
    allreduce_by(&allreduce::Ring, 4096, u64::MAX),
    allreduce_by(&allreduce::Linear, 0, u64::MAX),
    Rule { ranks: Extent { least: 4, most: 4 }, choice: Choice::Shared, ..Rule::AUTO },
];
static RULES: Rules = Rules::new("LIST", &LIST);

#[test]
fn the_first_rule_that_is_for_a_call_and_can_serve_it_decides() {
    let call = |count| Call::allreduce::<Sum, f64>(8, count, count);
    let open = Options::default();
    assert_eq!(taken(&RULES, call(512), &open), Some("recursive_doubling"), "4 KiB are in both");
    assert_eq!(taken(&RULES, call(513), &open), Some("ring"));
    let ordered = Call { commutes: false, ..call(513) };
    assert_eq!(taken(&RULES, ordered, &open), Some("linear"), "the ring does not keep the order");
    assert_eq!(taken(&RULES, Call::bcast::<u8>(8, 1), &open), None);
}

#[test]
fn control_slots_are_for_those_who_have_them() {
    let open = Options::default();
    let ruling = |call: Call| InForce::everywhere(&RULES).ruling(&call, &open);
    let (_, broadcast) = ruling(Call::bcast::<u8>(4, 1 << 20)).unwrap();
    assert!(broadcast.preference == SlotPreference::IfThere && broadcast.options.open().is_some());
    let (_, scan) = ruling(Call::scan::<Sum, f64>(4, 1024, 1)).unwrap();
    assert!(scan.preference == SlotPreference::IfThere);
    assert!(ruling(Call::scan::<Sum, f64>(4, 1025, 1)).is_none(), "a scan has no chunks");
    let among = Call { operation: Operation::NeighborAllgatherv, ..Call::bcast::<u8>(4, 1) };
    assert!(ruling(among).unwrap().1.preference == SlotPreference::IfThere);
}

#[test]
fn what_a_call_names_goes_before_rules_and_a_communicators_own_before_the_rest() {
    static OWN: [Rule; 1] = [allreduce_by(&allreduce::Bcube::<2>, 0, 100)];
    static OWN_RULES: Rules = Rules::new("OWN", &OWN);
    let both = InForce([Some(&OWN_RULES), Some(&RULES)]);
    let decided = |count| both.ruling(&Call::allreduce::<Sum, f64>(8, count, count), &Options::default());
    let (origin, ruling) = decided(1).unwrap();
    assert_eq!(ruling.selected.plan.algorithm.name(), "bcube");
    assert_eq!(origin.to_string(), "the communicator's rule 1 of OWN");
    assert_eq!(decided(100).unwrap().0.to_string(), "rule 1 of LIST");
    let named = Call::allreduce::<Sum, f64>(8, 1, 1).explain(&Options::using(&allreduce::Linear));
    let text = named.by_rules(&RULES).to_string();
    assert!(text.contains("; taken, named by the caller") && !text.contains("LIST"), "{text}");
}

#[test]
fn blocks_of_unlike_lengths_are_meant_by_rules_for_all_bytes_only() {
    static BY_BYTES: [Rule; 1] = [Rule { bytes: Extent { least: 0, most: 1 << 30 }, ..Rule::AUTO }];
    let call = |operation| Call { operation, ..Call::bcast::<u8>(4, 1) };
    assert!(BY_BYTES[0].is_for(&call(Operation::Gather)));
    assert!(!BY_BYTES[0].is_for(&call(Operation::Gatherv)));
    assert!(Rule::AUTO.is_for(&call(Operation::Gatherv)));
}

#[test]
fn segments_are_cut_as_a_rule_says_and_never_longer_than_the_scratch_allows() {
    static CUT: [Rule; 1] = [Rule {
        operation: Some(Operation::Bcast),
        choice: Choice::Named(&bcast::Chain),
        segment_bytes: NonZeroU64::new(1000),
        ..Rule::AUTO
    }];
    static CUTTING: Rules = Rules::new("CUT", &CUT);
    let plan = |call: Call| {
        InForce::everywhere(&CUTTING).ruling(&call, &Options::default()).unwrap().1.selected.plan
    };
    assert_eq!(plan(Call::bcast::<u64>(4, 1000)).segment, 125);
    assert_eq!(plan(Call::bcast::<u64>(4, 60)).segment, 60);
    assert_eq!(plan(Call::bcast::<[u8; 2048]>(4, 3)).segment, 1, "an element at least");
    static SHORT: [Rule; 1] = [Rule {
        segment_bytes: NonZeroU64::new(1 << 20),
        ..allreduce_by(&allreduce::RecursiveDoubling, 0, u64::MAX)
    }];
    static SHORTS: Rules = Rules::new("SHORT", &SHORT);
    let call = Call::allreduce::<Sum, u64>(3, 10, 4);
    let (_, ruling) = InForce::everywhere(&SHORTS).ruling(&call, &Options::default()).unwrap();
    assert_eq!(ruling.selected.plan.segment, 4);
}

#[test]
fn explanations_tell_which_rules_were_passed_over() {
    let call = Call { commutes: false, ..Call::allreduce::<Sum, f64>(8, 1000, 1000) };
    let text = call.explain(&Options::default()).by_rules(&RULES).to_string();
    assert!(text.contains("\n  rule 2 of LIST passed over: "), "{text}");
    assert!(text.contains("; taken, named by rule 3 of LIST"), "{text}");
    assert!(text.ends_with("\n  decided by rule 3 of LIST"), "{text}");
}

#[test]
fn a_reproducible_rule_rules_out_what_has_other_bits() {
    static SURE: [Rule; 2] = [
        Rule { reproducible: true, ..allreduce_by(&allreduce::Ring, 0, u64::MAX) },
        Rule { reproducible: true, ..Rule::AUTO },
    ];
    static SURELY: Rules = Rules::new("SURE", &SURE);
    for (count, name) in [(1, "recursive_doubling"), (1 << 20, "rabenseifner")] {
        let call = Call::allreduce::<Sum, f64>(7, count, count);
        assert_eq!(taken(&SURELY, call, &Options::default()), Some(name));
        let text = call.explain(&Options::default()).by_rules(&SURELY).to_string();
        assert!(text.contains("rule 1 of SURE passed over: results by it need not have the bits"), "{text}");
        assert!(text.contains("shared               refused: results by it"), "{text}");
    }
}

use std::string::ToString;

use aldis_kernel::hal::Resource;

use super::plan::ENOUGH_PART;
use super::*;
use crate::allreduce::{RecursiveDoubling, Ring};
use crate::barrier::Dissemination;
use crate::bcast::Pipeline;
use crate::op::Sum;

fn taken(call: Call) -> &'static str {
    call.select(algorithms(call.operation), &Options::default()).unwrap().plan.algorithm.name()
}

#[test]
fn small_messages_double_and_large_ones_are_shared_out() {
    assert_eq!(taken(Call::allreduce::<Sum, f64>(4, 1, 1)), "recursive_doubling");
    assert_eq!(taken(Call::allreduce::<Sum, f64>(64, 16, 16)), "recursive_doubling");
    assert_eq!(taken(Call::allreduce::<Sum, f64>(4, 1 << 20, 1 << 20)), "rabenseifner");
    assert_eq!(taken(Call::allreduce::<Sum, f64>(7, 1 << 20, 1 << 20)), "ring");
    assert_eq!(taken(Call::allreduce::<Sum, f64>(6, 1 << 10, 1 << 10)), "bcube");
    assert_eq!(taken(Call::reduce::<Sum, f64>(8, 1 << 20, 1 << 20)), "rabenseifner");
    assert_eq!(taken(Call::bcast::<f64>(8, 1 << 20)), "scatter_recursive_doubling_allgather");
    assert_eq!(taken(Call::bcast::<f64>(7, 1 << 20)), "scatter_ring_allgather");
    assert_eq!(taken(Call::allreduce::<Sum, f64>(65_536, 1, 1)), "recursive_doubling");
    // More scratch than there are data is for those that are named.
    assert_eq!(taken(Call::allreduce::<Sum, f64>(4, 1, 100)), "recursive_doubling");
    // Little scratch makes many segments of recursive doubling and few of the ring with half of it.
    assert_eq!(taken(Call::allreduce::<Sum, f64>(4, 4096, 64)), "segmented_ring");
}

#[test]
fn rounds_are_dear_where_there_is_a_socket_between() {
    let taken = |options: &Options, kib: usize| {
        let call = Call::allreduce::<Sum, f64>(4, kib * 128, kib * 128);
        call.select(algorithms(call.operation), options).unwrap().plan.algorithm.name()
    };
    let far = Options::default().for_far();
    assert_eq!([16, 1024].map(|kib| taken(&Options::default(), kib)), ["rabenseifner"; 2]);
    assert_eq!([16, 1024].map(|kib| taken(&far, kib)), ["recursive_doubling", "rabenseifner"]);
    assert!(Options::using(&Ring).open().is_none(), "what is named is taken everywhere");
}

#[test]
fn the_price_counts_rounds_bytes_and_reductions() {
    let prices =
        Prices { message: Cost { overhead_ns: 1, latency_ns: 8, per_kib_ns: 1024 }, local_per_kib_ns: 512 };
    let call = Call::allreduce::<Sum, u64>(8, 100, 100);
    let options = Options { prices, ..Options::default() };
    let price = |candidate| call.price(candidate, &options).unwrap().ns;
    assert_eq!(price(&RecursiveDoubling), 3 * 10 + 3 * 800 + 3 * 400);
    assert_eq!(price(&Ring), 14 * 10 + 14 * 13 * 8 + 7 * 13 * 4);
}

#[test]
fn segments_are_even_and_fit_the_scratch() {
    let call = Call::allreduce::<Sum, u64>(3, 10, 4);
    let plan = call.plan(&RecursiveDoubling).unwrap();
    assert_eq!((plan.segment, plan.segments(10)), (4, 3));
    let call = Call::allreduce::<Sum, u64>(3, 9, 8);
    let plan = call.plan(&RecursiveDoubling).unwrap();
    assert_eq!((plan.segment, plan.segments(9)), (5, 2));
    let plan = Call::allreduce::<Sum, u64>(3, 0, 0).plan(&Ring).unwrap();
    assert_eq!((plan.segment, plan.segments(0)), (0, 1));
    // One rank alone needs no scratch.
    assert_eq!(Call::allreduce::<Sum, u64>(1, 9, 0).plan(&Ring).unwrap().segment, 9);
}

#[test]
fn refusals_say_why() {
    let call = Call::allreduce::<Sum, u64>(3, 10, 0);
    let none = Cause::TooSmall { what: Resource::Scratch, need: 8, have: 0 };
    assert_eq!(call.select(algorithms(call.operation), &Options::default()).unwrap_err(), none);
    let mut ordered = Call::allreduce::<Sum, u64>(3, 1 << 20, 1 << 20);
    ordered.commutes = false;
    assert_eq!(taken(ordered), "allgather_reduce");
    assert_eq!(ordered.plan(&Ring).unwrap_err(), Cause::Unsupported);
    assert_eq!(ordered.plan(&Dissemination).unwrap_err(), Cause::Unsupported);
}

#[test]
fn names_choose_and_unknown_names_list_the_known_ones() {
    let Ok(Choice::Named(ring)) = Choice::named(Operation::Allreduce, "ring") else {
        panic!("ring is known")
    };
    assert_eq!(ring.name(), "ring");
    assert!(matches!(Choice::named(Operation::Bcast, "auto"), Ok(Choice::Auto)));
    assert_eq!(
        Choice::named(Operation::Allreduce, "rong").unwrap_err().to_string(),
        "no allreduce algorithm is called `rong`; known: auto, recursive_doubling, rabenseifner, ring, halving_doubling, \
         recursive_multiplying, allgather_reduce, bcube, nonoverlapping, linear, segmented_ring, inter_reduce_exchange_bcast, \
         two_level, shared"
    );
    assert!(Choice::named(Operation::Send, "ring").is_err());
}

#[test]
fn explanations_list_every_candidate() {
    let call = Call::allreduce::<Sum, f64>(4, 4096, 512);
    assert_eq!(
        call.explain(&Options::default()).to_string(),
        "\
allreduce over 4 ranks, 4096 elements of 8 bytes, scratch for 512 elements
  recursive_doubling   13440 ns: 16 rounds, 65536 bytes sent, segments of 512 (8); not taken, 5280 ns slower
  rabenseifner         9840 ns: 16 rounds, 49152 bytes sent, segments of 1024 (4); not taken, 1680 ns slower
  ring                 8880 ns: 12 rounds, 49152 bytes sent, segments of 2048 (2); not taken, 720 ns slower
  halving_doubling     9840 ns: 16 rounds, 49152 bytes sent, segments of 1024 (4); not taken, 1680 ns slower
  recursive_multiplying 22400 ns: 25 rounds, 98304 bytes sent, segments of 164 (25); not taken, 14240 ns slower
  allgather_reduce     27400 ns: 50 rounds, 98304 bytes sent, segments of 164 (25); not taken, 19240 ns slower
  bcube                9840 ns: 16 rounds, 49152 bytes sent, segments of 1024 (4); not taken, 1680 ns slower
  nonoverlapping       23680 ns: 32 rounds, 131072 bytes sent, segments of 512 (8); not taken, 15520 ns slower
  linear               32320 ns: 32 rounds, 196608 bytes sent, segments of 512 (8); not taken, 24160 ns slower
  segmented_ring       8160 ns: 9 rounds, 49152 bytes sent, segments of 4096 (1); taken, the cheapest
  shared               4640 ns: by control slots; where all ranks are on one node"
    );
    let mut ordered = call;
    ordered.commutes = false;
    let text = ordered.explain(&Options::using(&RecursiveDoubling)).to_string();
    assert!(text.contains("ring                 refused: does not keep rank order"), "{text}");
    assert!(text.contains("(8); taken, named by the caller"), "{text}");
    assert!(
        Call { scratch: 0, ..call }.explain(&Options::default()).to_string().ends_with(
            "none: 8 needed but only 0 there: scratch bytes (the collective's `scratch` argument)"
        )
    );
}

/// "The cheapest" is one than which none is cheaper; one at which the search ends before is said to
/// be that.
#[test]
fn explanations_do_not_call_the_first_that_is_good_enough_the_cheapest() {
    let mut early = 0;
    for operation in [Operation::Bcast, Operation::Reduce, Operation::Allreduce, Operation::Allgather] {
        for (size, count) in
            (2..10).flat_map(|size| [1, 100, 1000, 10_000, 100_000].map(|count| (size, count)))
        {
            let call =
                Call { operation, size, count, element_bytes: 8, scratch: usize::MAX / 8, commutes: true };
            let told = call.explain(&Options::default());
            let (text, is_beaten) = (told.to_string(), told.is_beaten());
            assert_eq!(text.contains("; taken, the cheapest"), !is_beaten, "{text}");
            assert_eq!(text.contains("; not looked at, "), is_beaten, "{text}");
            early += u32::from(is_beaten);
        }
    }
    assert!(early > 0, "nothing was tested");
}

/// The square root rule, worked out by hand: along a chain of 9 ranks a segment takes 8 messages,
/// and each further one two of the ranks between.
#[test]
fn a_chain_has_as_many_segments_as_are_cheapest() {
    let prices =
        Prices { message: Cost { overhead_ns: 5, latency_ns: 8, per_kib_ns: 1024 }, local_per_kib_ns: 512 };
    let options = Options { prices, ..Options::default() };
    let call = Call::bcast::<u8>(9, 6_000);
    let Selected { plan, ns } = call.price(&Pipeline, &options).unwrap();
    // (8 - 2) * 6000 saved, 2 * 10 paid for each: sqrt(1800) = 42.
    assert_eq!((plan.segment, plan.segments(6_000), plan.lanes()), (143, 42, 4));
    assert_eq!(ns, 8 * (18 + 143) + 41 * 2 * (10 + 143));
    let least = (1..200).map(|segments| {
        let segment = NonZeroUsize::new(6_000usize.div_ceil(segments));
        call.price(&Pipeline, &Options { segment, ..options }).unwrap().ns
    });
    assert!(ns <= least.min().unwrap() + 200, "{ns}");
    // Where a message is dear there are few.
    assert_eq!(call.price(&Pipeline, &options.for_far()).unwrap().plan.segments(6_000), 1);
    // Who names an algorithm gets the same segments, and may say others.
    let named = |options: Options| call.select(algorithms(call.operation), &options).unwrap().plan;
    let options = Options { prices, ..Options::using(&Pipeline) };
    assert_eq!((named(options).segment, named(options).lanes()), (143, 4));
    let options = Options { segment: NonZeroUsize::new(2_999), ..options };
    assert_eq!((named(options).segment, named(options).lanes()), (2_000, 3));
}

#[test]
fn lanes_share_the_scratch() {
    let cut = |scratch, segment| {
        let options = Options { segment: NonZeroUsize::new(segment), ..Options::using(&RecursiveDoubling) };
        let plan = Call::allreduce::<Sum, u64>(3, 100, scratch).select(&[], &options).unwrap().plan;
        (plan.segment, plan.lanes())
    };
    assert_eq!([cut(100, 10), cut(40, 10), cut(39, 10)], [(10, 4), (10, 4), (9, 4)]);
    assert_eq!([cut(3, 10), cut(1, 10), cut(100, 50)], [(1, 3), (1, 1), (50, 2)]);
    assert_eq!([cut(100, 99), cut(100, 100), cut(100, 1000)], [(50, 2), (100, 1), (100, 1)]);
}

/// DESIGN.md: no cliff above 2x between neighbouring sizes.
#[test]
fn no_cliffs_between_neighbouring_counts_or_sizes() {
    type Named = fn(u32, usize) -> Call;
    let calls: [Named; 3] = [
        |size, count| Call::allreduce::<Sum, f64>(size, count, 1 << 14),
        |size, count| Call::reduce::<Sum, f64>(size, count, 1 << 14),
        Call::bcast::<f64>,
    ];
    calls.into_iter().for_each(no_cliffs);
}

fn no_cliffs(call: fn(u32, usize) -> Call) {
    let options = Options::default();
    let price = |size: u32, count: usize| {
        let call = call(size, count);
        call.select(algorithms(call.operation), &options).unwrap().ns
    };
    for size in 2..=130 {
        let mut before = price(size, 1);
        for count in (2..2000).chain((2000..100_000).step_by(997)) {
            let now = price(size, count);
            assert!(now <= 2 * before && before <= 2 * now, "size {size} count {count}: {before} to {now}");
            before = now;
        }
        for count in [1, 100, 10_000] {
            let (now, next) = (price(size, count), price(size + 1, count));
            // From 2 to 3 ranks recursive doubling goes from one round to three (fold, exchange,
            // unfold) and the ring to four; one exchange with a local reduction of three operands
            // would close that gap.
            let most = if size == 2 { 3 * now + 100 } else { 2 * now + 100 };
            assert!(next <= most, "size {size} to {}: {now} to {next}", size + 1);
        }
    }
}

#[test]
fn long_data_pass_through_chunks_unless_a_root_would_reduce_all_of_several_ranks() {
    let options = Options::default();
    let shares =
        |call: Call| options.slot_preference(&call, &call.select(algorithms(call.operation), &options));
    let expected =
        if cfg!(target_pointer_width = "64") { SlotPreference::IfThere } else { SlotPreference::Never };
    for (size, bytes, taken) in [(2, 64 << 10, expected), (2, 1 << 20, expected), (4, 1 << 20, expected)] {
        assert_eq!(shares(Call::bcast::<u8>(size, bytes)), taken);
        assert_eq!(shares(Call::allreduce::<Sum, f64>(size, bytes / 8, bytes / 8)), taken);
    }
    // A root that reduces everything alone is slower than ranks that reduce their parts; but those
    // send more messages.
    for (size, bytes, taken) in [
        (2, 64 << 10, expected),
        (2, 1 << 20, expected),
        (4, 64 << 10, expected),
        (4, 1 << 20, SlotPreference::Never),
        (64, 64 << 10, SlotPreference::Never),
    ] {
        assert_eq!(shares(Call::reduce::<Sum, f64>(size, bytes / 8, bytes / 8)), taken);
    }
}

/// Ranks that wait at once and those that start what they wait for decide by different looks at one
/// call.
#[test]
fn what_stands_in_a_slot_is_for_slots_however_it_is_looked_at() {
    let options = Options::default();
    for size in 2..=64 {
        for words in (0..=slots::SLOT_BYTES as usize / 8).step_by(64).chain([1]) {
            let calls = [
                Call::barrier(size),
                Call::bcast::<u64>(size, words),
                Call::allreduce::<Sum, f64>(size, words, words.max(1)),
                Call::reduce::<Sum, f64>(size, words, words.max(1)),
            ];
            let ordered = calls.map(|call| Call { commutes: false, ..call });
            for call in calls.into_iter().chain(ordered) {
                let by_price =
                    options.slot_preference(&call, &call.select(algorithms(call.operation), &options));
                let at_once = cfg!(target_pointer_width = "64")
                    && options.tries_slots([None; 2], &call, algorithms(call.operation));
                assert_eq!(by_price != SlotPreference::Never, at_once, "{call:?}");
            }
        }
    }
}

#[test]
fn what_is_taken_costs_hardly_more_than_the_least_and_nothing_less_than_the_floor() {
    let options = Options::default();
    // A barrier has no data, and what neighbours do is not priced.
    let all = crate::catalog::COLLECTIVES.into_iter().skip(1);
    for operation in all.filter(|&operation| !crate::schedule::is_among_neighbors(operation)) {
        for (size, count) in
            [2, 3, 8, 64].into_iter().flat_map(|size| [0, 1, 32, 4096, 1 << 17].map(|count| (size, count)))
        {
            let call = Call { operation, size, count, element_bytes: 8, scratch: usize::MAX, commutes: true };
            let priced = algorithms(operation).iter().filter_map(|known| call.price(*known, &options).ok());
            let least = priced.map(|selected| selected.ns).min().unwrap();
            let taken = call.cheapest(algorithms(operation), &options).unwrap().ns;
            let floor = call.floor_ns(&options.prices);
            assert!(floor <= least, "{call:?}: {floor} and {least}");
            assert!(taken <= least + least / ENOUGH_PART, "{call:?}: {taken} and {least}");
        }
    }
}

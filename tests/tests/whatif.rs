//! The schedule-level simulation against closed formulas of the LogGP model (Alexandrov, Ionescu,
//! Schauser, Scheiman, SPAA 1995: one message of k bytes takes o + (k-1) G + L + o, and one node's
//! messages begin max(o, g) + (k-1) G apart), on a full crossbar; and against counts taken from the
//! schedules themselves.

use aldis_coll::allreduce::{RecursiveDoubling, Ring};
use aldis_coll::barrier::Dissemination;
use aldis_coll::bcast::Binomial;
use aldis_coll::catalog::algorithms;
use aldis_coll::schedule::{Algorithm, Candidate, Instance, Schedule, Span, Step, Work, log2_ceil};
use aldis_hal::{Cause, Operation};
use aldis_sim::whatif::{LogGp, Outcome, Run, RunError, ScheduleNetwork, Topology};

const COST: LogGp = LogGp::CLUSTER;
/// A network interface that is much slower than the processor.
const WIDE_GAP: LogGp = LogGp { gap_ps: 5_000_000, ..COST };
const SIZES: [u32; 12] = [1, 2, 3, 4, 5, 7, 8, 12, 31, 64, 100, 257];
const ELEMENT: u32 = 8;

fn crossbar(cost: LogGp) -> ScheduleNetwork {
    ScheduleNetwork::new(cost, Topology::Crossbar)
}

fn simulated(algorithm: Algorithm, size: u32, count: usize, cost: LogGp) -> Outcome {
    Run::new(algorithm, size).with_data(count, ELEMENT).on(&crossbar(cost)).unwrap()
}

fn bytes(count: usize) -> u64 {
    count as u64 * u64::from(ELEMENT)
}

#[test]
fn dissemination_takes_its_rounds_of_messages() {
    // Hensgen, Finkel, Manber 1988: ceil(log2 p) rounds; a round lasts 2o + L, or g where that is
    // longer.
    for cost in [COST, WIDE_GAP] {
        for size in SIZES {
            let rounds = u64::from(log2_ceil(size));
            let message = cost.message_ps(0);
            let expected = rounds.saturating_sub(1) * message.max(cost.gap_ps) + message * rounds.min(1);
            let outcome = simulated(&Dissemination, size, 0, cost);
            assert_eq!((outcome.time_ps, outcome.first_ps), (expected, expected), "{size} ranks");
        }
    }
}

/// A broadcast along the binomial tree.
struct BinomialTree<'a> {
    size: u32,
    cost: &'a LogGp,
    bytes: u64,
}

impl BinomialTree<'_> {
    /// The time at which the last place of the subtree under `place` has the data, if `place` has
    /// it at `at`.
    fn last_ps(&self, place: u32, at: u64) -> u64 {
        let &Self { size, cost, bytes } = self;
        let below = if place == 0 { log2_ceil(size) } else { place.trailing_zeros() };
        let children = (0..below).rev().map(|bit| place + (1 << bit)).filter(|child| *child < size);
        let apart = cost.overhead_ps.max(cost.gap_ps) + cost.stream_ps(bytes);
        let mut last = at;
        for (child, number) in children.zip(0..) {
            let there = at + number * apart + cost.message_ps(bytes);
            last = last.max(self.last_ps(child, there));
        }
        last
    }
}

#[test]
fn binomial_follows_its_tree() {
    for cost in [COST, WIDE_GAP] {
        for (size, count) in SIZES.iter().flat_map(|size| [(*size, 1), (*size, 1000)]) {
            let outcome = simulated(&Binomial, size, count, cost);
            let tree = BinomialTree { size, cost: &cost, bytes: bytes(count) };
            assert_eq!(outcome.time_ps, tree.last_ps(0, 0), "{size} ranks");
        }
    }
    // Every path of the tree has at most log2 p messages, and one has as many (Thakur et al. 2005,
    // section 4.2).
    assert_eq!(simulated(&Binomial, 64, 1000, COST).time_ps, 6 * COST.message_ps(bytes(1000)));
}

#[test]
fn a_broadcast_takes_as_long_from_any_root() {
    let run = Run::new(&Binomial, 12).with_data(100, ELEMENT);
    let first = run.on(&crossbar(COST)).unwrap();
    for root in 1..12 {
        let other = Run { root, ..run }.on(&crossbar(COST)).unwrap();
        assert_eq!((other.time_ps, other.messages), (first.time_ps, first.messages), "root {root}");
    }
}

#[test]
fn recursive_doubling_of_powers_of_two_takes_its_rounds() {
    // Thakur, Rabenseifner, Gropp 2005, section 4.5: log2 p (alpha + n beta + n gamma).
    for (size, count) in [(2, 1), (4, 1), (64, 1000), (1024, 3)] {
        let bytes = bytes(count);
        let round = COST.message_ps(bytes) + COST.local_byte_ps * bytes;
        let outcome = simulated(&RecursiveDoubling, size, count, COST);
        assert_eq!(outcome.time_ps, u64::from(log2_ceil(size)) * round);
        assert_eq!(outcome.first_ps, outcome.time_ps);
    }
}

/// The time of recursive doubling with `size` no power of two: when each dense number is ready,
/// round by round.
fn folded_ps(size: u32, cost: &LogGp, bytes: u64) -> u64 {
    let power = 1 << size.ilog2();
    let excess = (size - power) as usize;
    let (message, local) = (cost.message_ps(bytes), cost.local_byte_ps * bytes);
    let mut ready: Vec<u64> =
        (0..power as usize).map(|number| if number < excess { message + local } else { 0 }).collect();
    for bit in 0..size.ilog2() {
        let before = ready.clone();
        for (number, ready) in ready.iter_mut().enumerate() {
            let partner = before[number ^ (1 << bit)];
            let sent = *ready + cost.overhead_ps;
            let came = partner + message - cost.overhead_ps;
            *ready = (came.max(sent) + cost.overhead_ps).max(sent + cost.stream_ps(bytes)) + local;
        }
    }
    let unfolded = ready.iter().take(excess).map(|ready| ready + message).max().unwrap_or(0);
    ready.iter().copied().fold(unfolded, u64::max)
}

#[test]
fn recursive_doubling_of_other_sizes_folds_and_unfolds() {
    let cost = LogGp { gap_ps: 0, ..COST };
    for (size, count) in [3, 5, 6, 7, 12, 31, 100, 257].into_iter().flat_map(|size| [(size, 1), (size, 1000)])
    {
        let outcome = simulated(&RecursiveDoubling, size, count, cost);
        assert_eq!(outcome.time_ps, folded_ps(size, &cost, bytes(count)), "{size} ranks");
    }
}

#[test]
fn the_ring_goes_around_twice() {
    // Patarasuk, Yuan 2009: 2 (p-1) messages of n/p, and (p-1) n/p to reduce.
    for (size, chunk) in [(2, 1), (3, 7), (8, 64), (100, 5)] {
        let bytes = bytes(chunk);
        let steps = u64::from(size) - 1;
        let expected = steps * (2 * COST.message_ps(bytes) + COST.local_byte_ps * bytes);
        assert_eq!(simulated(&Ring, size, chunk * size as usize, COST).time_ps, expected, "{size} ranks");
    }
}

/// Counts what the schedule itself says: messages and bytes of all ranks, and the work on its
/// critical path.
fn counted(algorithm: Algorithm, size: u32, count: usize) -> (u64, u64, Work) {
    let (mut messages, mut elements, mut work) = (0, 0, Work::default());
    let instance = |rank| Instance::new(rank, size, 0, count).unwrap();
    for round in 0..algorithm.rounds(&instance(0)) {
        let (mut any, mut most) = (false, Work::default());
        for rank in 0..size {
            let mut mine = Work::default();
            for step in (0..).map_while(|index| algorithm.step(&instance(rank), round, index)) {
                match step {
                    Step::Send { from, .. } => {
                        messages += 1;
                        elements += from.len as u64;
                        mine.elements += from.len as u64;
                        any = true;
                    }
                    Step::Reduce { into, .. } => mine.reduced += into.len as u64,
                    _ => {}
                }
            }
            most.elements = most.elements.max(mine.elements);
            most.reduced = most.reduced.max(mine.reduced);
        }
        work.rounds += u64::from(any);
        work.elements += most.elements;
        work.reduced += most.reduced;
    }
    (messages, elements * u64::from(ELEMENT), work)
}

fn everything() -> impl Iterator<Item = Candidate> {
    [Operation::Barrier, Operation::Bcast, Operation::Allreduce, Operation::Reduce]
        .into_iter()
        .flat_map(algorithms)
        .copied()
        // Those for any size.
        .filter(|algorithm| algorithm.serves(3))
}

#[test]
fn messages_bytes_and_work_agree_with_the_schedule() {
    for algorithm in everything() {
        for (size, count) in SIZES.iter().flat_map(|size| [(*size, 1), (*size, 1000)]) {
            let count = if algorithm.operation() == Operation::Barrier { 0 } else { count };
            let (messages, bytes, work) = counted(algorithm, size, count);
            let outcome = simulated(algorithm, size, count, COST);
            assert_eq!((outcome.messages, outcome.bytes), (messages, bytes), "{} {size}", algorithm.name());
            // Its price is what the simulation may at most take, but for a message that comes a
            // round early and takes its receiver's time before another that is waited for.
            let said = algorithm.work(size, count);
            assert!(work.rounds <= said.rounds && work.elements <= said.elements, "{work:?} {said:?}");
            assert_eq!(work.reduced, said.reduced, "{}", algorithm.name());
            // A rank that sends several messages in a round may receive as many, which takes its
            // time as well.
            let each = said.rounds * COST.message_ps(1) + 2 * said.fan * COST.overhead_ps.max(COST.gap_ps);
            let rest = said.elements * COST.byte_ps + said.reduced * COST.local_byte_ps;
            let price = each + rest * u64::from(ELEMENT);
            let took = outcome.time_ps;
            assert!(took <= price + COST.gap_ps, "{} {size}: {took} > {price}", algorithm.name());
        }
    }
}

#[test]
fn segments_follow_one_another() {
    let run = Run::new(&RecursiveDoubling, 16).with_data(1000, ELEMENT);
    let cut = Run { scratch: 250, ..run }.on(&crossbar(COST)).unwrap();
    let one = Run { count: 250, ..run }.on(&crossbar(COST)).unwrap();
    assert_eq!((cut.time_ps, cut.messages), (4 * one.time_ps, 4 * one.messages));
    let uneven = Run { scratch: 300, ..run }.on(&crossbar(COST)).unwrap();
    assert_eq!(uneven, cut, "segments are even");
}

#[test]
fn the_same_run_has_the_same_outcome() {
    let network = ScheduleNetwork::new(COST, Topology::DRAGONFLY).with_contention().with_slow_node(7, 3);
    for algorithm in everything() {
        let run = Run::new(algorithm, 300).with_data(777, ELEMENT);
        assert_eq!(run.on(&network), run.on(&network));
    }
}

#[test]
fn more_bytes_more_cost_and_more_distance_take_longer() {
    let dearer = [
        LogGp { latency_ps: COST.latency_ps + 1, ..COST },
        LogGp { overhead_ps: COST.overhead_ps + 1, ..COST },
        LogGp { byte_ps: COST.byte_ps + 1, ..COST },
        LogGp { local_byte_ps: COST.local_byte_ps + 1, ..COST },
    ];
    for algorithm in everything() {
        for size in [2, 5, 64] {
            let base = simulated(algorithm, size, 640, COST).time_ps;
            assert!(simulated(algorithm, size, 1280, COST).time_ps >= base);
            for cost in dearer {
                assert!(simulated(algorithm, size, 640, cost).time_ps >= base);
            }
        }
    }
    for (algorithm, count) in [(&Dissemination as Algorithm, 0), (&Binomial, 10)] {
        let times: Vec<u64> = (1..70).map(|size| simulated(algorithm, size, count, COST).time_ps).collect();
        assert!(times.is_sorted(), "{} {times:?}", algorithm.name());
    }
    let far = |topology| {
        Run::new(&RecursiveDoubling, 256)
            .with_data(8, ELEMENT)
            .on(&ScheduleNetwork::new(COST, topology))
            .unwrap()
    };
    let [crossbar, torus, ring] =
        [Topology::Crossbar, Topology::Torus { columns: None }, Topology::Ring].map(|it| far(it).time_ps);
    assert!(crossbar < torus && torus < ring, "{crossbar} {torus} {ring}");
}

#[test]
fn messages_wait_for_each_other_on_a_shared_link() {
    // Two leaf switches of two nodes and one uplink: in the second round both nodes of a leaf send
    // over it.
    let topology = "fat-tree:2x1".parse().unwrap();
    let run = Run::new(&RecursiveDoubling, 4).with_data(1000, ELEMENT);
    let free = ScheduleNetwork::new(COST, topology);
    let round = COST.message_ps(8000) + COST.local_byte_ps * 8000;
    let alone = run.on(&free).unwrap();
    assert_eq!(alone.time_ps, 2 * round + 2 * COST.hop_ps);
    let shared = run.on(&free.with_contention()).unwrap();
    assert_eq!(shared.time_ps, alone.time_ps + 8000 * COST.byte_ps);
    assert_eq!((shared.messages, shared.bytes), (alone.messages, alone.bytes));
    let crossbar = crossbar(COST);
    assert_eq!(
        run.on(&crossbar).map(|it| it.time_ps),
        run.on(&crossbar.with_contention()).map(|it| it.time_ps)
    );
}

#[test]
fn everybody_waits_for_a_slow_node() {
    // Its part of each round: sending and receiving take ten times o.
    let slow = crossbar(COST).with_slow_node(3, 2).with_slow_node(3, 10);
    let outcome = Run::new(&Dissemination, 2).on(&crossbar(COST).with_slow_node(1, 10)).unwrap();
    assert_eq!(outcome.time_ps, 20 * COST.overhead_ps);
    let all = Run::new(&Dissemination, 64);
    assert!(all.on(&slow).unwrap().time_ps > all.on(&crossbar(COST)).unwrap().time_ps);
}

#[test]
fn what_cannot_be_simulated_says_why() {
    let network = crossbar(COST);
    let error = |run: Run| run.on(&network).unwrap_err();
    assert_eq!(error(Run::new(&Dissemination, 0)), RunError::Ranks(0));
    assert!(matches!(error(Run::new(&Dissemination, u32::MAX)), RunError::Ranks(_)));
    let outside = Run { root: 4, ..Run::new(&Binomial, 4).with_data(1, 1) };
    assert!(matches!(error(outside), RunError::Refused(Cause::RankOutOfRange { rank: 4, size: 4 })));
    let without = Run { scratch: 0, ..Run::new(&RecursiveDoubling, 4).with_data(1, 1) };
    assert!(matches!(error(without), RunError::Refused(Cause::TooSmall { .. })));
    let ring = Run::new(&Ring, 65_536).with_data(65_536, 1);
    assert!(matches!(error(ring), RunError::TooMuch { work: 8_589_803_520, .. }));
    assert!(error(ring).to_string().contains("8589803520 rounds of ranks"));
    let endless = Run { work_max: u64::MAX, ..Run::new(&Binomial, 2).with_data(usize::MAX, 1) };
    assert_eq!(error(endless), RunError::TooLong);
    let many = ScheduleNetwork::new(COST, "dragonfly:1x1".parse().unwrap()).with_contention();
    assert!(matches!(Run::new(&Dissemination, 1 << 20).on(&many), Err(RunError::Links(_))));
}

/// A schedule that is wrong in one way or the other.
#[derive(Debug)]
enum WrongSchedule {
    WaitsForEver,
    SendsTooMuch,
    AnotherLength,
    ToNobody,
}

impl Schedule for WrongSchedule {
    fn operation(&self) -> Operation {
        Operation::Bcast
    }

    fn name(&self) -> &'static str {
        "wrong"
    }

    fn rounds(&self, _: &Instance) -> u32 {
        1
    }

    fn step(&self, instance: &Instance, _round: u32, index: u32) -> Option<Step> {
        let (recv, send) = (Step::Recv { from: 0, into: Span::data(0, 1) }, |to, len| Step::Send {
            to,
            from: Span::data(0, len),
        });
        match (self, instance.rank(), index) {
            (Self::WaitsForEver | Self::AnotherLength, 1, 0) => Some(recv),
            (Self::SendsTooMuch, 0, 0) => Some(send(1, 1)),
            (Self::AnotherLength, 0, 0) => Some(send(1, 2)),
            (Self::ToNobody, 0, 0) => Some(send(2, 1)),
            _ => None,
        }
    }

    fn capacity(&self, _size: u32, _scratch: usize) -> usize {
        usize::MAX
    }
}

#[test]
fn a_wrong_schedule_is_found_out() {
    let error =
        |wrong: &'static WrongSchedule| Run::new(wrong, 2).with_data(2, 1).on(&crossbar(COST)).unwrap_err();
    assert_eq!(error(&WrongSchedule::WaitsForEver), RunError::Stuck { rank: 1, round: 0 });
    assert_eq!(error(&WrongSchedule::SendsTooMuch), RunError::LeftOver(1));
    assert_eq!(error(&WrongSchedule::AnotherLength), RunError::Length { rank: 1, round: 0, from: 0 });
    assert_eq!(error(&WrongSchedule::ToNobody), RunError::Broken { rank: 0, round: 0 });
}

#[test]
fn sixty_five_thousand_ranks_are_a_matter_of_seconds() {
    let barrier = simulated(&Dissemination, 65_536, 0, COST);
    assert_eq!((barrier.time_ps, barrier.messages), (16 * COST.message_ps(0), 16 * 65_536));
    assert!(barrier.memory < 65_536 * 200, "{} bytes", barrier.memory);
}

//! Segments in lanes: whatever the order in which ranks and lanes go on, and though every send
//! waits for its receive, all end, with the right numbers, if a rank has the request slots of one
//! round.
//!
//! Lanes have tags of their own, so messages of two lanes never match, and each lane by itself is a
//! run that the checker has seen to end. What could go wrong is what they share: slots. The rules
//! are those of the executor.

use std::collections::{HashMap, VecDeque};

use aldis_coll::catalog::algorithms;
use aldis_coll::collective::LANES;
use aldis_coll::schedule::{Buffer, IN_FLIGHT_MAX, Instance, Schedule, Span, Step};
use aldis_kernel::hal::Operation;
use proptest::prelude::*;

use crate::model::JobShape;

/// A segment under way.
#[derive(Clone, Default)]
struct SegmentUnderWay {
    base: usize,
    round: u32,
    /// Bits of messages by the index of their step: posted, and those of them that are under way.
    posted: u32,
    under_way: u32,
    done: bool,
}

struct Rank {
    lanes: Vec<SegmentUnderWay>,
    free: usize,
    data: Vec<u64>,
    /// A part for each lane.
    scratch: Vec<Vec<u64>>,
}

/// A message that one side has posted: its index there and, of a send, what is sent.
type Post = (u32, Span, Vec<u64>);

struct Job<'a> {
    schedule: &'a dyn Schedule,
    size: u32,
    root: u32,
    count: usize,
    segment: usize,
    slots: usize,
    ranks: Vec<Rank>,
    /// Sends and receives that wait for each other, by sender, receiver and lane.
    channels: HashMap<(u32, u32, usize), [VecDeque<Post>; 2]>,
}

fn input(rank: u32, element: usize) -> u64 {
    u64::from(rank + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15).wrapping_add(element as u64 * 0xD1B5)
}

impl<'a> Job<'a> {
    fn new(schedule: &'a dyn Schedule, shape: JobShape, segment: usize, slots: usize) -> Self {
        let JobShape { size, root, count } = shape;
        let lane = |number: usize| SegmentUnderWay {
            base: number * segment,
            done: number * segment >= count,
            ..SegmentUnderWay::default()
        };
        let ranks = (0..size).map(|rank| Rank {
            lanes: (0..LANES).map(lane).collect(),
            free: slots,
            data: (0..count).map(|element| input(rank, element)).collect(),
            scratch: vec![vec![0; (size as usize + 2) * segment]; LANES],
        });
        let (ranks, channels) = (ranks.collect(), HashMap::new());
        Self { schedule, size, root, count, segment, slots, ranks, channels }
    }

    fn steps(&self, rank: u32, lane: usize) -> Vec<Step> {
        let SegmentUnderWay { base, round, .. } = self.ranks[rank as usize].lanes[lane];
        let instance =
            Instance::new(rank, self.size, self.root, self.segment.min(self.count - base)).unwrap();
        (0..).map_while(|index| self.schedule.step(&instance, round, index)).collect()
    }

    fn memory(&mut self, rank: u32, lane: usize, span: Span) -> &mut [u64] {
        let rank = &mut self.ranks[rank as usize];
        match span.buffer {
            Buffer::Scratch => &mut rank.scratch[lane][span.start..span.end()],
            _ => &mut rank.data[rank.lanes[lane].base + span.start..][..span.len],
        }
    }

    /// Returns true if a lane may post this message now: see `collective/lane.rs` and `rounds.rs`.
    fn may_post(&self, rank: u32, lane: usize, steps: &[Step], index: usize) -> bool {
        let Rank { lanes, free, .. } = &self.ranks[rank as usize];
        let oldest = (0..LANES).filter(|lane| !lanes[*lane].done).min_by_key(|lane| lanes[*lane].base);
        let begins = lanes[lane].posted == 0 && oldest != Some(lane);
        let send_is_left = steps
            .iter()
            .enumerate()
            .any(|(other, step)| matches!(step, Step::Send { .. }) && lanes[lane].posted & (1 << other) == 0);
        let waits = matches!(steps[index], Step::Recv { .. }) && *free == 1 && send_is_left;
        *free > 0 && !waits && (!begins || *free >= (2 * IN_FLIGHT_MAX).max(self.slots / 2))
    }

    /// Drives a lane as far as it goes. Returns true if it moved at all.
    fn drive(&mut self, rank: u32, lane: usize) -> bool {
        let mut moved = false;
        while !self.ranks[rank as usize].lanes[lane].done {
            let steps = self.steps(rank, lane);
            let messages = steps.iter().filter(|step| step.is_message()).count();
            for index in 0..messages {
                let is_posted = self.ranks[rank as usize].lanes[lane].posted & (1 << index) != 0;
                if !is_posted && self.may_post(rank, lane, &steps, index) {
                    self.post(rank, lane, index as u32, steps[index]);
                    moved = true;
                }
            }
            let SegmentUnderWay { posted, under_way, .. } = self.ranks[rank as usize].lanes[lane];
            if posted.count_ones() as usize != messages || under_way != 0 {
                return moved;
            }
            moved = true;
            steps.iter().skip(messages).for_each(|step| self.work(rank, lane, *step));
            self.next_round(rank, lane);
        }
        moved
    }

    fn post(&mut self, rank: u32, lane: usize, index: u32, step: Step) {
        let (way, is_recv, span) = match step {
            Step::Recv { from, into } => ((from, rank, lane), 1, into),
            Step::Send { to, from } => ((rank, to, lane), 0, from),
            _ => unreachable!("no message"),
        };
        let values = if is_recv == 0 { self.memory(rank, lane, span).to_vec() } else { Vec::new() };
        let state = &mut self.ranks[rank as usize];
        state.free -= 1;
        state.lanes[lane].posted |= 1 << index;
        state.lanes[lane].under_way |= 1 << index;
        let channel = self.channels.entry(way).or_default();
        channel[is_recv].push_back((index, span, values));
        if channel.iter().any(VecDeque::is_empty) {
            return;
        }
        let [(sent, _, values), (received, into, _)] =
            channel.each_mut().map(|side| side.pop_front().unwrap());
        assert_eq!(values.len(), into.len, "{way:?}");
        self.memory(way.1, lane, into).copy_from_slice(&values);
        for (rank, index) in [(way.0, sent), (way.1, received)] {
            let state = &mut self.ranks[rank as usize];
            state.lanes[lane].under_way &= !(1 << index);
            state.free += 1;
        }
    }

    fn work(&mut self, rank: u32, lane: usize, step: Step) {
        let (into, from, reduces) = match step {
            Step::Reduce { into, from, .. } => (into, from, true),
            Step::Copy { into, from } => (into, from, false),
            _ => unreachable!("a message behind a local step"),
        };
        let values = self.memory(rank, lane, from).to_vec();
        for (into, value) in self.memory(rank, lane, into).iter_mut().zip(values) {
            *into = if reduces { into.wrapping_add(value) } else { value };
        }
    }

    fn next_round(&mut self, rank: u32, lane: usize) {
        let (count, segment) = (self.count, self.segment);
        let instance = Instance::new(rank, self.size, self.root, count).unwrap();
        let lane = &mut self.ranks[rank as usize].lanes[lane];
        let rounds = self.schedule.rounds(&instance.with_count(segment.min(count - lane.base)));
        (lane.round, lane.posted) = (lane.round + 1, 0);
        if lane.round >= rounds {
            (lane.round, lane.base) = (0, lane.base + LANES * segment);
            lane.done = lane.base >= count;
        }
    }

    /// Drives lanes in the order of a random walk until all are done; false if no lane can go on.
    fn run(&mut self, mut seed: u64) -> bool {
        let all = self.size as usize * LANES;
        while self.ranks.iter().any(|rank| rank.lanes.iter().any(|lane| !lane.done)) {
            seed = seed.wrapping_mul(0x5851_F42D_4C95_7F2D).wrapping_add(0x1405_7B7E_F767_814F);
            let first = (seed >> 33) as usize % all;
            // The one that the walk leads to, and if it cannot move, the first after it that can.
            let place = |step| ((first + step) % all / LANES, (first + step) % LANES);
            if !(0..all).map(place).any(|(rank, lane)| self.drive(rank as u32, lane)) {
                return false;
            }
        }
        true
    }

    fn check(&self) {
        for (rank, state) in (0..).zip(&self.ranks) {
            for (element, &value) in state.data.iter().enumerate() {
                let sum = |ranks: core::ops::Range<u32>| {
                    ranks.map(|rank| input(rank, element)).fold(0, u64::wrapping_add)
                };
                let expected = match self.schedule.operation() {
                    Operation::Bcast => input(self.root, element),
                    Operation::Allreduce => sum(0..self.size),
                    Operation::Reduce if rank == self.root => sum(0..self.size),
                    Operation::Scan => sum(0..rank + 1),
                    _ => continue,
                };
                assert_eq!(value, expected, "rank {rank} element {element}");
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]

    #[test]
    fn lanes_end_whatever_the_order(
        (size, root) in (2..=12u32).prop_flat_map(|size| (Just(size), 0..size)),
        slots in prop_oneof![Just(IN_FLIGHT_MAX), IN_FLIGHT_MAX..70],
        segment in 1..9usize,
        segments in 1..14usize,
        last in 0..9usize,
        seed: u64,
    ) {
        let count = segment * segments - last % segment;
        for operation in [Operation::Bcast, Operation::Allreduce, Operation::Reduce, Operation::Scan] {
            for &schedule in algorithms(operation).iter().filter(|schedule| schedule.serves(size)) {
                let mut job = Job::new(schedule, JobShape { size, root, count }, segment, slots);
                prop_assert!(job.run(seed), "{operation} by {} is stuck", schedule.name());
                job.check();
            }
        }
    }
}

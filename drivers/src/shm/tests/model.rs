//! Random interleavings against a queue a lane.

use std::collections::{BTreeMap, VecDeque};
use std::vec::Vec;

use aldis_hal::Post;
use proptest::prelude::{
    Just, ProptestConfig, Strategy, any, prop_assert, prop_assert_eq, prop_oneof, proptest,
};
use proptest::test_runner::TestCaseError;

use super::InboxesJob;
use crate::shm::Geometry;

#[derive(Clone, Debug)]
enum ShmStep {
    Short {
        from: u32,
        to: u32,
        len: usize,
    },
    /// Sends as many messages in a row as go, up to a number.
    Reserve {
        from: u32,
        to: u32,
        len: usize,
        most: u32,
    },
    Poll {
        rank: u32,
        budget: u32,
    },
    /// Nothing comes for so long that lanes are idle.
    Pause,
    /// Two ranks answer each other: they go home, and use one block.
    Volley {
        pair: (u32, u32),
        len: usize,
        messages: u32,
    },
}

fn geometry() -> impl Strategy<Value = Geometry> {
    let peers = prop_oneof![2u32..=4, 15u32..=19, Just(34)];
    let (lanes, blocks) = (prop_oneof![Just(32), 1u32..=3], prop_oneof![1u32..=9, Just(32)]);
    (peers, 1u32..=5, lanes, blocks, 1u32..=4).prop_map(|(peers, slots, lanes, blocks, lines)| Geometry {
        peers,
        slots: 1 << slots,
        lanes,
        blocks,
        block_bytes: 64 * lines,
        sets: 0,
    })
}

fn step(geometry: Geometry) -> impl Strategy<Value = ShmStep> {
    // Few ranks talk, so that rings fill up, and lanes change hands where there are one or two.
    let busy = [0, 1, geometry.peers - 1];
    let rank = (0usize..3).prop_map(move |index| busy[index]);
    let pair = (rank.clone(), rank.clone());
    let lengths = 0..=geometry.block_bytes.max(120) as usize;
    prop_oneof![
        (pair.clone(), 0usize..=120).prop_map(|((from, to), len)| ShmStep::Short { from, to, len }),
        (pair.clone(), lengths.clone(), prop_oneof![Just(1u32), 1u32..=40])
            .prop_map(|((from, to), len, most)| ShmStep::Reserve { from, to, len, most }),
        (pair, lengths, 1u32..=24).prop_map(|(pair, len, messages)| ShmStep::Volley { pair, len, messages }),
        (rank, prop_oneof![1u32..=3, Just(1000)]).prop_map(|(rank, budget)| ShmStep::Poll { rank, budget }),
        Just(ShmStep::Pause),
    ]
}

fn start() -> impl Strategy<Value = u32> {
    prop_oneof![Just(0), Just(u32::MAX), u32::MAX - 40..u32::MAX, any::<u32>()]
}

/// The contents of every lane, and the senders that were promised a notice of room.
#[derive(Default)]
struct LaneModel {
    lanes: BTreeMap<(u32, u32), VecDeque<Vec<u8>>>,
    promised: BTreeMap<(u32, u32), ()>,
    sent: usize,
}

impl LaneModel {
    fn post(&mut self, from: u32, to: u32, message: Vec<u8>, post: Post) -> Result<(), TestCaseError> {
        match post {
            Post::Done => self.lanes.entry((from, to)).or_default().push_back(message),
            Post::Again(_) => {
                self.promised.insert((from, to), ());
            }
            other => prop_assert!(from == to, "{other:?} from {from} to {to}"),
        }
        Ok(())
    }

    fn poll(&mut self, world: &mut InboxesJob, rank: u32, budget: u32) -> Result<usize, TestCaseError> {
        let log = world.poll(rank, budget);
        let events = log.events();
        prop_assert!(log.lost.is_empty());
        for (from, message) in log.arrived {
            let expected = self.lanes.get_mut(&(from, rank)).and_then(VecDeque::pop_front);
            prop_assert_eq!(Some(message), expected, "from {} to {}", from, rank);
        }
        for peer in log.ready {
            prop_assert!(self.promised.remove(&(rank, peer)).is_some(), "no rank asked");
        }
        Ok(events)
    }

    fn message(&mut self, len: usize) -> Vec<u8> {
        self.sent += 1;
        (0..len).map(|byte| (self.sent * 31 + byte) as u8).collect()
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn lanes_are_queues(
        (geometry, steps) in geometry().prop_flat_map(|geometry| {
            (Just(geometry), proptest::collection::vec(step(geometry), 1..400))
        }),
        start in start(),
    ) {
        let mut world = InboxesJob::new(geometry, start);
        let mut model = LaneModel::default();
        for step in steps {
            match step {
                ShmStep::Short { from, to, len } => {
                    let message = model.message(len);
                    let post = world.short(from, to, &message);
                    model.post(from, to, message, post)?;
                }
                ShmStep::Reserve { from, to, len, most } => {
                    for _ in 0..most {
                        let message = model.message(len);
                        let post = world.reserve(from, to, &message);
                        model.post(from, to, message, post)?;
                        if post != Post::Done {
                            break;
                        }
                    }
                }
                ShmStep::Poll { rank, budget } => {
                    model.poll(&mut world, rank, budget)?;
                }
                ShmStep::Pause => {
                    for _ in 0..300 {
                        for rank in [0, 1, geometry.peers - 1] {
                            model.poll(&mut world, rank, 1000)?;
                        }
                    }
                }
                ShmStep::Volley { pair: (mut from, mut to), len, messages } => {
                    for _ in 0..messages {
                        let message = model.message(len);
                        let post = world.reserve(from, to, &message);
                        model.post(from, to, message, post)?;
                        model.poll(&mut world, to, 1000)?;
                        (from, to) = (to, from);
                    }
                }
            }
        }
        // Polling alone must bring everything to every rank and every refused sender's readiness:
        // several idle rounds, as records are no events.
        let mut idle = 0;
        while idle < 6 {
            let mut events = 0;
            for rank in [0, 1, geometry.peers - 1] {
                events += model.poll(&mut world, rank, 5)?;
            }
            idle = if events == 0 { idle + 1 } else { 0 };
        }
        prop_assert!(model.lanes.values().all(VecDeque::is_empty), "a message is left behind");
        prop_assert!(model.promised.is_empty(), "a sender was never told");
    }
}

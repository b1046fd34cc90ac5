//! Random programs on two ranks over a tiny wire, against the definition of matching.
//!
//! With one source, who receives what does not depend on timing (MPI 4.1 section 3.5): each message
//! is delivered to the first receive posted that takes it, and each receive takes the first message
//! that was sent. So whatever the sizes, protocols, polls and budgets in between, the outcome must
//! be the oracle's.

use aldis_kernel::{Rank, Request, Scope, Source, Tag, TagMatch};
use aldis_kit::rig::{Clock, Job, REQUESTS, Shape, Wire, pattern, settle, together};
use proptest::prelude::*;

/// Several times what a rank of the rig has envelopes for: a receive must get its message past
/// those that stay unmatched.
const SENDS_MAX: usize = 16;
const RECEIVES_MAX: usize = REQUESTS - SENDS_MAX;

#[derive(Clone, Debug)]
enum RandomStep {
    Send { from: usize, tag: u32, len: usize },
    Receive { at: usize, any_source: bool, tag: Option<u32> },
    Poll { rank: usize, budget: u32 },
}

fn steps() -> impl Strategy<Value = Vec<RandomStep>> {
    let len = prop_oneof![0usize..100, Just(24), Just(25), Just(64), Just(65), 100usize..900];
    let step = prop_oneof![
        (0usize..2, 0u32..3, len).prop_map(|(from, tag, len)| RandomStep::Send { from, tag, len }),
        (0usize..2, any::<bool>(), proptest::option::of(0u32..3))
            .prop_map(|(at, any_source, tag)| RandomStep::Receive { at, any_source, tag }),
        (0usize..2, 1u32..6).prop_map(|(rank, budget)| RandomStep::Poll { rank, budget }),
    ];
    proptest::collection::vec(step, 0..80)
}

#[derive(Clone, Copy)]
struct Sent {
    tag: u32,
    len: usize,
    seed: u32,
}

/// Returns the message (by its index) that each receive (by its pattern) at one rank gets.
fn oracle(sends: &[Sent], receives: &[Option<u32>]) -> Vec<Option<usize>> {
    let mut free: Vec<usize> = (0..sends.len()).collect();
    let take = |wanted: &Option<u32>| {
        let position = free.iter().position(|&index| wanted.is_none_or(|tag| tag == sends[index].tag))?;
        Some(free.remove(position))
    };
    receives.iter().map(take).collect()
}

type RandomSide<'scope, 'env, 's> = Scope<'scope, 'env, 's, Wire, Clock>;

proptest! {
    #![proptest_config(ProptestConfig { cases: 512, ..ProptestConfig::default() })]
    #[test]
    fn random_programs_receive_what_the_definition_says(
        steps in steps(), depth in 1usize..6, bcopy_bytes_max in prop_oneof![Just(56u32), 57u32..200],
        least in any::<bool>(),
    ) {
        let new = if least { Job::least } else { Job::new };
        let mut job = new(2, Shape { depth, bcopy_bytes_max });
        let mut ranks = job.ranks();
        let worlds = [ranks[0].world(), ranks[1].world()];

        // What will be sent and received, laid out first so that it outlives the scopes.
        let (mut sends, mut receives) = ([vec![], vec![]], [vec![], vec![]]);
        for (seed, step) in steps.iter().enumerate() {
            match *step {
                RandomStep::Send { from, tag, len } if sends[from].len() < SENDS_MAX => {
                    sends[from].push(Sent { tag, len, seed: seed as u32 });
                }
                RandomStep::Receive { at, tag, .. } if receives[at].len() < RECEIVES_MAX => receives[at].push(tag),
                _ => {}
            }
        }
        let data = sends.each_ref().map(|sends| sends.iter().map(|sent| pattern(sent.seed, sent.len)).collect::<Vec<_>>());
        let mut buffers = receives.each_ref().map(|receives| vec![vec![0u8; 1000]; receives.len()]);
        let mut results = [vec![], vec![]];

        let end = together(&mut ranks, |one, other| {
            let [buffers_one, buffers_other] = &mut buffers;
            let mut free = [buffers_one.iter_mut(), buffers_other.iter_mut()];
            let mut sending_one = vec![];
            let mut receiving_one = vec![];
            let mut receiving_other = vec![];
            let mut sending_other = vec![];
            for step in &steps {
                match *step {
                    RandomStep::Send { from: 0, .. } if sending_one.len() < SENDS_MAX => {
                        let index = sending_one.len();
                        sending_one.push(one.isend(&worlds[0], &data[0][index], Rank(1), Tag(sends[0][index].tag))?);
                    }
                    RandomStep::Send { from: 1, .. } if sending_other.len() < SENDS_MAX => {
                        let index = sending_other.len();
                        sending_other.push(other.isend(&worlds[1], &data[1][index], Rank(0), Tag(sends[1][index].tag))?);
                    }
                    RandomStep::Receive { at, any_source, tag } => {
                        let Some(buffer) = free[at].next() else { continue };
                        let source = if any_source { Source::Any } else { Source::Rank(Rank(1 - at as u32)) };
                        let tag = tag.map_or(TagMatch::Any, |tag| TagMatch::Tag(Tag(tag)));
                        if at == 0 {
                            receiving_one.push(one.irecv(&worlds[0], buffer, source, tag)?);
                        } else {
                            receiving_other.push(other.irecv(&worlds[1], buffer, source, tag)?);
                        }
                    }
                    RandomStep::Poll { rank: 0, budget } => drop(one.poll(budget)),
                    RandomStep::Poll { budget, .. } => drop(other.poll(budget)),
                    RandomStep::Send { .. } => {}
                }
            }
            settle(one, other);
            fn finish<'scope>(side: &mut RandomSide<'scope, '_, '_>, requests: Vec<Request<'scope>>) -> Vec<Option<(u32, u64)>> {
                let status = |mut request: Request<'scope>| match side.test(&mut request).unwrap() {
                    Some(status) => Some((status.tag.0, status.bytes)),
                    None => {
                        assert!(side.cancel(&mut request), "a receive without a message can be cancelled");
                        None
                    }
                };
                requests.into_iter().map(status).collect()
            }
            results = [finish(one, receiving_one), finish(other, receiving_other)];
            // Sends whose message no receive took end with the scope: cut it short.
            Err::<(), _>(aldis_kernel::Error::new(aldis_kernel::hal::Operation::None, aldis_kernel::hal::Cause::Cancelled))
        });
        prop_assert_eq!(end.unwrap_err().cause, aldis_kernel::hal::Cause::Cancelled);
        for rank in &ranks {
            prop_assert_eq!(rank.counters().malformed, 0);
        }

        for at in 0..2 {
            let from = 1 - at;
            for (index, matched) in oracle(&sends[from], &receives[at]).into_iter().enumerate() {
                let expected = matched.map(|message| (sends[from][message].tag, sends[from][message].len as u64));
                prop_assert_eq!(results[at][index], expected, "receive {} at rank {}", index, at);
                if let Some(message) = matched {
                    let len = sends[from][message].len;
                    prop_assert_eq!(&buffers[at][index][..len], &data[from][message][..]);
                }
            }
        }
    }
}

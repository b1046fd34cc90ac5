use std::collections::HashSet;
use std::vec::Vec;

use proptest::prelude::*;

use super::*;
use crate::tables::request::Request;

const REQUESTS: usize = 12;
const ENVELOPES: usize = 12;

#[derive(Clone, Copy, Debug)]
enum MatchStep {
    /// Post a receive, which may match a kept message.
    Receive { source: u32, tag: u32 },
    /// A message arrives, which may match a posted receive.
    Arrive { source: u32, tag: u32 },
    /// Take the n-th posted receive out.
    Cancel(usize),
}

fn steps() -> impl Strategy<Value = Vec<MatchStep>> {
    let wild = |range: core::ops::Range<u32>| prop_oneof![3 => range, 1 => Just(WILD)];
    let step = prop_oneof![
        5 => (wild(0..3), wild(0..3)).prop_map(|(source, tag)| MatchStep::Receive { source, tag }),
        5 => (0u32..3, 0u32..3).prop_map(|(source, tag)| MatchStep::Arrive { source, tag }),
        1 => (0usize..REQUESTS).prop_map(MatchStep::Cancel),
    ];
    proptest::collection::vec(step, 0..200)
}

proptest! {
    /// Against the definition: two plain queues searched from the front, whatever the number of
    /// bins and wherever the order counter stands.
    #[test]
    fn matching_is_first_come_first_matched(steps in steps(), bins_log in 0u32..5, order in prop_oneof![Just(0), Just(u32::MAX - 3)]) {
        let mut entries = [const { PoolEntry::new(Request::EMPTY) }; REQUESTS];
        let mut requests = Pool::new(&mut entries);
        let mut envelopes = [const { PoolEntry::new(Envelope::EMPTY) }; ENVELOPES];
        let mut bins = [const { Bin::EMPTY }; 16];
        let mut matcher = Matcher::new(&mut bins[..1 << bins_log.min(4)], &mut envelopes);
        matcher.next_order = order;
        let mut posted: Vec<(u32, Key)> = Vec::new();
        let mut kept: Vec<(u64, Key)> = Vec::new();

        for (stamp, step) in steps.into_iter().enumerate() {
            match step {
                MatchStep::Receive { source, tag } => {
                    let pattern = Key { context: 1, source, tag };
                    let expected = kept.iter().position(|(_, key)| pattern.takes(key));
                    let found = matcher.find_unexpected(&pattern);
                    prop_assert_eq!(found.is_some(), expected.is_some());
                    if let (Some(index), Some(position)) = (found, expected) {
                        prop_assert_eq!(matcher.peek(index).unwrap().length, kept.remove(position).0);
                        prop_assert!(matcher.remove(index).is_some());
                    } else if let Some((handle, request)) = requests.take() {
                        request.key = pattern;
                        matcher.post(&mut requests, handle.slot);
                        posted.push((handle.slot, pattern));
                    }
                }
                MatchStep::Arrive { source, tag } => {
                    let message = Key { context: 1, source, tag };
                    let expected = posted.iter().position(|(_, key)| key.takes(&message));
                    let found = matcher.match_posted(&mut requests, &message);
                    prop_assert_eq!(found, expected.map(|position| posted[position].0));
                    if let Some(position) = expected {
                        requests.give(posted.remove(position).0);
                    } else if kept.len() < ENVELOPES {
                        prop_assert!(matcher.keep(message, PeerId(source), stamp as u64, &Label::NONE).is_some());
                        kept.push((stamp as u64, message));
                    } else {
                        prop_assert!(matcher.keep(message, PeerId(source), 0, &Label::NONE).is_none());
                    }
                }
                MatchStep::Cancel(position) => if position < posted.len() {
                    let (index, _) = posted.remove(position);
                    matcher.unpost(&mut requests, index);
                    requests.give(index);
                },
            }
            prop_assert_eq!(matcher.posted() as usize, posted.len());
            prop_assert_eq!(matcher.unexpected() as usize, kept.len());
        }
    }
}

#[test]
fn contexts_do_not_meet() {
    let mut entries = [const { PoolEntry::new(Request::EMPTY) }; 1];
    let mut requests = Pool::new(&mut entries);
    let mut envelopes = [const { PoolEntry::new(Envelope::EMPTY) }; 1];
    let mut bins = [const { Bin::EMPTY }; 1];
    let mut matcher = Matcher::new(&mut bins, &mut envelopes);
    let (handle, request) = requests.take().unwrap();
    request.key = Key { context: 1, source: WILD, tag: WILD };
    matcher.post(&mut requests, handle.slot);
    assert_eq!(matcher.match_posted(&mut requests, &Key { context: 2, source: 0, tag: 0 }), None);
    assert_eq!(
        matcher.match_posted(&mut requests, &Key { context: 1, source: 0, tag: 0 }),
        Some(handle.slot)
    );
}

/// Returns how many stretches of `run` bins these keys have, in a table of so many bins.
fn bins_of(count: usize, run: usize, keys: impl Iterator<Item = Key>) -> usize {
    let mut slots: Vec<Bin> = (0..count).map(|_| Bin::EMPTY).collect();
    let first = slots.as_ptr().addr();
    let mut bins = Bins { slots: &mut slots, mask: count as u32 - 1 };
    let mut place =
        |key: Key| (core::ptr::from_ref(bins.of(&key).unwrap()).addr() - first) / size_of::<Bin>();
    keys.map(|key| place(key) / run).collect::<HashSet<_>>().len()
}

#[test]
fn keys_that_programs_use_are_spread_over_the_bins() {
    let key = |context, source, tag| Key { context, source, tag };
    for bins in [64, 1024, 1 << 16] {
        let count = bins as u32;
        // Keys drawn at random have 63 of 100 bins.
        let least = bins / 2;
        assert_eq!(bins_of(bins, 1, (0..64).map(|tag| key(1, 2, tag))), 64, "tags in a row");
        assert!(bins_of(bins, 1, (0..count).map(|source| key(1, source, 0))) >= least, "sources of {bins}");
        assert!(
            bins_of(bins, 1, (0..count).map(|context| key(context, 0, 0))) >= least,
            "contexts of {bins}"
        );
        for step in [1, 2, 64, 100, 1024, 1 << 15] {
            let tags = (0..count).map(|place| key(1, 2, place.wrapping_mul(step)));
            assert!(bins_of(bins, 1, tags) >= least, "tags {step} apart of {bins}");
        }
        for mask in [7, 31] {
            let both = (0..count).map(|place| key(1, place / (mask + 1), place & mask));
            assert!(bins_of(bins, 1, both) >= least, "{mask} tags of each source of {bins}");
        }
    }
}

#[test]
fn a_series_of_tags_uses_each_stretch_of_bins_up() {
    let series = (0..1024).map(|tag| Key { context: 5, source: 1, tag: 0x4000_0000 + tag });
    // Each 64 of them have a KiB, which may lie in two pages.
    assert!(bins_of(1 << 16, 256, series) <= 2 * 1024 / 64);
}

use std::thread;

use super::*;

/// The cost of messages that both copy: 1,120 ns for the shortest.
const MESSAGES: Cost = Cost { overhead_ns: 0, latency_ns: 160, per_kib_ns: 60 };

/// The times of a machine, in ns: of the word, and of each way at 16 KiB, of which those at other
/// lengths are multiples. Reads by the receiver alone take for ever.
fn times(word: u64, ways: [u64; 3]) -> Times {
    times_with_reads(word, ways, u64::MAX)
}

fn times_with_reads(word: u64, ways: [u64; 3], reads: u64) -> Times {
    let all = ways.into_iter().chain([reads]);
    let doubled = all.flat_map(|ns| [1, 2, 4, 8, 16].map(|times| ns.saturating_mul(times)));
    let all: Vec<u64> = core::iter::once(word).chain(doubled).collect();
    Times(all.try_into().unwrap())
}

fn judge(times: Times) -> Calibration {
    times.judge(&MESSAGES)
}

/// Zeroed memory for messages that are staged.
fn staging() -> StagingView {
    let pages = vec![0u64; NEEDED_BYTES.next_multiple_of(4096) / 8 + 512].leak();
    let bytes = pages.as_mut_ptr().cast::<u8>();
    let start = bytes.wrapping_add(bytes.align_offset(4096));
    // SAFETY: it is leaked, and as long as that from a page on; one rank of a test writes there.
    unsafe { StagingView::new(NonNull::new(start).unwrap(), NEEDED_BYTES) }.unwrap()
}

#[test]
fn cores_far_apart_have_the_stores_that_took_less_time() {
    assert_eq!(judge(times(300, [10, 5, 20])).far_store, Some(Store::Past));
    assert_eq!(judge(times(300, [5, 10, 20])).far_store, Some(Store::Plain));
    assert_eq!(judge(times(60, [10, 5, 20])).far_store, None, "a pair that shares a cache says nothing");
}

#[test]
fn messages_are_staged_up_to_the_length_at_which_the_system_is_faster() {
    let all = LENGTHS[LENGTHS.len() - 1];
    assert_eq!(judge(times(300, [10, 5, 20])).staged_bytes_max, all);
    assert_eq!(judge(times(300, [10, 9, 8])).staged_bytes_max, 0);
    let mut mixed = times(300, [10, 9, 12]);
    mixed.0[12..16].copy_from_slice(&[24, 38, 40, 60]);
    assert_eq!(judge(mixed).staged_bytes_max, LENGTHS[2]);
    let mut refused = times(300, [10, 9, 12]);
    refused.0[11..].fill(u64::MAX);
    let found = judge(refused);
    assert_eq!((found.staged_bytes_max, found.read_cost), (all, None), "where the system makes no copy");
}

#[test]
fn copies_by_the_system_cost_what_they_take_beside_messages_that_both_copy() {
    let cost = |ways| judge(times(300, ways)).read_cost.unwrap();
    // 500 ns at 16 KiB and 8,000 at 256: 31 ns a KiB.
    let alike = cost([1120, 2000, 500]);
    assert_eq!((alike.latency_ns, alike.per_kib_ns), (4, 31));
    let slower = cost([2240, 4000, 500]);
    assert_eq!((slower.latency_ns, slower.per_kib_ns), (2, 15));
    for garbage in [[0; 3], [u64::MAX / 8; 3], [1, 1, u64::MAX / 8]] {
        let _ = judge(times(0, garbage));
    }
}

#[test]
fn two_ranks_read_what_is_longer_than_comes_sooner_in_chunks_and_shorter_than_in_a_message() {
    let pairs = |ways, reads| {
        let PairLengths { message_bytes_min, read_bytes_min } =
            judge(times_with_reads(300, ways, reads)).pairs;
        [read_bytes_min, message_bytes_min].map(|bytes| bytes >> 10)
    };
    // At 128 KiB a message takes 5,600 ns and 2,000, a read 7,200; at 256 KiB 13,200 and 14,400.
    assert_eq!(pairs([1250, 1250, 700], 900), [16, 256]);
    assert_eq!(pairs([1250, 1250, 700], u64::MAX), [0, 64], "without reads");
    assert_eq!(pairs([1250, 1250, 1200], 900), [16, 0], "a message is not worth what goes before it");
    assert_eq!(pairs([500, 500, 700], 600), [0, 0], "of two cores that share a cache");
    let mut crossing = times_with_reads(300, [1250, 1250, 1200], 900);
    crossing.0[16..18].copy_from_slice(&[1300, 2600]);
    assert_eq!(judge(crossing).pairs.read_bytes_min, 64 << 10, "where the first two lengths are not");
}

#[test]
fn two_ranks_find_the_same_or_give_up_in_time() {
    let (one, other) = (staging(), staging());
    // A pointer into leaked memory, which each thread uses as its rank would.
    let (one, other) = (one.0.as_ptr().expose_provenance(), other.0.as_ptr().expose_provenance());
    let view = |address: usize| {
        let start = NonNull::new(core::ptr::with_exposed_provenance_mut(address)).unwrap();
        // SAFETY: as in `staging`.
        unsafe { StagingView::new(start, NEEDED_BYTES) }.unwrap()
    };
    let begun = Instant::now();
    let leader =
        thread::spawn(move || CalibrationPair::new(view(one), view(other), true).measure(true, &MESSAGES));
    let followed = CalibrationPair::new(view(other), view(one), true).measure(false, &MESSAGES);
    let led = leader.join().unwrap();
    // One that is late at the very end may have found less than its partner.
    assert!(followed.is_none() || followed == led, "{led:?} {followed:?}");
    assert!(begun.elapsed() < Duration::from_secs(10));
}

#[test]
fn a_rank_whose_partner_never_comes_goes_on() {
    for leads in [true, false] {
        assert_eq!(CalibrationPair::new(staging(), staging(), true).measure(leads, &MESSAGES), None);
    }
}

#[test]
fn a_rank_leaves_at_once_when_its_leader_has_given_up() {
    let (own, leader) = (staging(), staging());
    leader.words().turn.store(GONE, Ordering::Release);
    let mut pair = CalibrationPair::new(own, leader, true);
    pair.partner_deadline += Duration::from_secs(1000);
    assert_eq!(pair.measure(false, &MESSAGES), None);
}

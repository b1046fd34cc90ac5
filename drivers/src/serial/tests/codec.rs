//! The codec against the paper, an oracle, and noise.

use std::vec;
use std::vec::Vec;

use proptest::prelude::{
    Just, ProptestConfig, Strategy, any, prop_assert, prop_assert_eq, prop_oneof, proptest,
};

use super::super::cobs::{DELIMITER, Damage, Decoder, Encoder, encode, encoded_bytes_max};

/// Returns what a decoder makes of a stream, with room for frames of `room` bytes.
fn decoded(wire: &[u8], room: usize) -> Vec<Result<Vec<u8>, Damage>> {
    let (mut decoder, mut frame, mut ends) = (Decoder::new(), vec![0xEE; room], Vec::new());
    for byte in wire {
        if let Some(end) = decoder.push(*byte, &mut frame) {
            ends.push(end.map(|len| frame[..len].to_vec()));
            frame.fill(0xEE);
        }
    }
    ends
}

fn encoded(frame: &[u8]) -> Vec<u8> {
    let mut wire = vec![0xEE; encoded_bytes_max(frame.len())];
    let len = encode(frame, &mut wire).unwrap();
    wire.truncate(len);
    wire
}

/// The definition, in so many words: with a zero behind it a frame is a row of runs that end with a
/// zero; a run is cut behind every 254 bytes, and a last run of nothing behind a cut is not there.
fn oracle(frame: &[u8]) -> Vec<u8> {
    let mut wire = Vec::new();
    let mut runs: Vec<&[u8]> = frame.split(|byte| *byte == 0).collect();
    let last = runs.pop().unwrap();
    let mut group = |run: &[u8], is_last: bool| {
        let mut pieces = run.chunks_exact(254);
        for piece in &mut pieces {
            wire.push(255);
            wire.extend_from_slice(piece);
        }
        let rest = pieces.remainder();
        if !(rest.is_empty() && is_last && !run.is_empty()) {
            wire.push(rest.len() as u8 + 1);
            wire.extend_from_slice(rest);
        }
    };
    runs.into_iter().for_each(|run| group(run, false));
    group(last, true);
    wire.push(DELIMITER);
    wire
}

#[test]
fn the_example_of_the_paper() {
    // Section III: the beginning of an IP header.
    let data = [0x45, 0, 0, 0x2C, 0x4C, 0x79, 0, 0, 0x40, 0x06, 0x4F, 0x37];
    let wire = [0x02, 0x45, 0x01, 0x04, 0x2C, 0x4C, 0x79, 0x01, 0x05, 0x40, 0x06, 0x4F, 0x37, 0];
    assert_eq!(encoded(&data), wire);
    assert_eq!(decoded(&wire, 12), [Ok(data.to_vec())]);
}

#[test]
fn groups_at_their_limits() {
    let ascending = |from: u8, to: u8| (from..=to).collect::<Vec<u8>>();
    let cases: [(Vec<u8>, Vec<u8>); 8] = [
        (vec![], vec![1, 0]),
        (vec![0], vec![1, 1, 0]),
        (vec![0, 0], vec![1, 1, 1, 0]),
        (vec![1, 2, 0], vec![3, 1, 2, 1, 0]),
        (ascending(1, 254), [&[255], &ascending(1, 254)[..], &[0]].concat()),
        ([ascending(1, 254), vec![0]].concat(), [&[255], &ascending(1, 254)[..], &[1, 1, 0]].concat()),
        (ascending(0, 254), [&[1, 255], &ascending(1, 254)[..], &[0]].concat()),
        (ascending(1, 255), [&[255], &ascending(1, 254)[..], &[2, 255, 0]].concat()),
    ];
    for (frame, wire) in cases {
        assert_eq!(encoded(&frame), wire);
        assert_eq!(decoded(&wire, frame.len()), [Ok(frame)]);
    }
}

#[test]
fn the_group_of_nothing_that_the_papers_own_code_ends_with_is_understood() {
    let data: Vec<u8> = (1..=254).collect();
    let wire = [&[255], &data[..], &[1, 0]].concat();
    assert_eq!(decoded(&wire, 254), [Ok(data)]);
}

#[test]
fn damage_is_told_once_and_the_next_frame_is_whole() {
    assert_eq!(decoded(&[0, 0, 0, 2, 7, 0, 0, 0], 4), [Ok(vec![7])], "delimiters in a row are one");
    assert_eq!(decoded(&[5, 1, 2, 0, 2, 7, 0], 4), [Err(Damage::Truncated), Ok(vec![7])]);
    assert_eq!(decoded(&[255, 0, 2, 7, 0], 4), [Err(Damage::Truncated), Ok(vec![7])]);
    let giant = [&[6, 1, 2, 3, 4, 5][..], &[1; 1000], &[0, 2, 7, 0]].concat();
    assert_eq!(decoded(&giant, 4), [Err(Damage::TooLong), Ok(vec![7])]);
    assert_eq!(decoded(&[2, 7, 0], 0), [Err(Damage::TooLong)]);
    assert_eq!(decoded(&[1, 0], 0), [Ok(vec![])]);
}

#[test]
fn a_spoiled_frame_is_none() {
    let (mut decoder, mut frame) = (Decoder::new(), [0; 4]);
    decoder.spoil();
    assert_eq!(decoder.push(0, &mut frame), Some(Err(Damage::Truncated)));
    assert_eq!(decoder.feed(&mut &[3, 1, 2, 0][..], &mut frame), Some(Ok(2)));
}

#[test]
fn what_does_not_fit_is_refused() {
    for len in [0, 1, 253, 254, 255, 508, 509] {
        let wire = encoded(&vec![9; len]);
        assert_eq!(wire.len(), encoded_bytes_max(len));
        assert_eq!(encode(&vec![9; len], &mut vec![0; wire.len() - 1]), None);
    }
}

/// Frames with long runs of either kind.
fn frames() -> impl Strategy<Value = Vec<u8>> {
    let run = prop_oneof![
        proptest::collection::vec(any::<u8>(), 0..40),
        (1u8.., 0usize..600).prop_map(|(byte, len)| vec![byte; len]),
        (0usize..6).prop_map(|len| vec![0; len]),
        Just(vec![0xFF; 254]),
    ];
    proptest::collection::vec(run, 0..6).prop_map(|runs| runs.concat())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn frames_come_back_as_they_were(frames in proptest::collection::vec(frames(), 0..5)) {
        let mut wire = Vec::new();
        for frame in &frames {
            let encoded = encoded(frame);
            prop_assert_eq!(&encoded, &oracle(frame));
            prop_assert!(encoded.len() <= encoded_bytes_max(frame.len()));
            prop_assert_eq!(encoded.iter().position(|byte| *byte == DELIMITER), Some(encoded.len() - 1));
            wire.extend(encoded);
        }
        let room = frames.iter().map(Vec::len).max().unwrap_or(0);
        let whole: Vec<_> = frames.into_iter().map(Ok).collect();
        prop_assert_eq!(decoded(&wire, room), whole);
    }

    #[test]
    fn one_byte_at_a_time_is_as_good_as_any_pieces(frame in frames(), cuts in proptest::collection::vec(1usize..50, 1..9)) {
        let mut encoder = Encoder::new();
        let wire: Vec<u8> = core::iter::from_fn(|| encoder.next(&frame)).collect();
        prop_assert_eq!(encoder.next(&frame), None);
        prop_assert_eq!(&wire, &encoded(&frame));
        let (mut decoder, mut buffer, mut rest, mut end) = (Decoder::new(), vec![0; frame.len()], &wire[..], None);
        for cut in cuts.iter().cycle() {
            let (mut piece, after) = rest.split_at((*cut).min(rest.len()));
            end = end.or(decoder.feed(&mut piece, &mut buffer));
            rest = after;
            if rest.is_empty() {
                break;
            }
        }
        prop_assert_eq!(end, Some(Ok(frame.len())));
        prop_assert_eq!(buffer, frame);
    }

    #[test]
    fn noise_is_survived_and_over_at_the_next_delimiter(
        noise in proptest::collection::vec(prop_oneof![any::<u8>(), Just(0), Just(255)], 0..700),
        room in 0usize..300,
        frame in proptest::collection::vec(any::<u8>(), 0..300),
    ) {
        let wire = [&noise[..], &[DELIMITER], &encoded(&frame)].concat();
        let ends = decoded(&wire, room);
        let fits = if frame.len() <= room { Ok(frame) } else { Err(Damage::TooLong) };
        prop_assert_eq!(ends.last(), Some(&fits));
        let pieces = noise.split(|byte| *byte == DELIMITER).filter(|piece| !piece.is_empty()).count();
        prop_assert_eq!(ends.len(), pieces + 1, "each run of noise is told once");
    }
}

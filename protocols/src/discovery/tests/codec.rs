//! The bytes of messages.

use aldis_hal::cause::Malformed;
use proptest::prelude::*;

use super::super::HEADER_BYTES;
use super::*;
use crate::card::CARD_BYTES_MAX;
use crate::reliable::crc32c;

fn sample() -> Message<'static> {
    let kind = DiscoveryKind::Hello(Asked { first: 0x0605, ranks: 0x8000_0000_0000_0003 });
    let (job, epoch) = (0x0807_0605_0403_0201, Epoch(0x0D0C_0B0A));
    Message { kind, job, size: 0x0901, rank: 0x0704, epoch, number: 0x1413_1211, card: b"card" }
}

/// The message with some of its bytes changed, and its checksum right again.
fn changed(change: fn(&mut [u8])) -> Vec<u8> {
    let mut buffer = [0; MESSAGE_BYTES_MAX];
    let mut bytes = sample().encode(&mut buffer).unwrap().to_vec();
    change(&mut bytes);
    let sum = crc32c(&bytes[4..]).to_le_bytes();
    bytes[..4].copy_from_slice(&sum);
    bytes
}

#[test]
fn golden_bytes() {
    let mut golden = std::vec![crate::VERSION, 1, 4, 0, 1, 2, 3, 4, 5, 6, 7, 8];
    golden.extend([1, 9, 0, 0, 4, 7, 0, 0, 0x0A, 0x0B, 0x0C, 0x0D, 0x11, 0x12, 0x13, 0x14]);
    golden.extend([5, 6, 0, 0, 0, 0, 0, 0, 3, 0, 0, 0, 0, 0, 0, 0x80]);
    golden.extend(b"card");
    let mut buffer = [0; MESSAGE_BYTES_MAX];
    let bytes = sample().encode(&mut buffer).unwrap();
    assert_eq!(bytes[4..], golden);
    assert_eq!(bytes[..4], crc32c(&golden).to_le_bytes());
    assert_eq!(Message::decode(bytes), Ok(sample()));
}

#[test]
fn padding_is_ignored_and_what_is_wrong_is_named() {
    let mut padded = changed(|_| ());
    assert_eq!(Message::decode(&padded[..padded.len() - 1]), Err(Malformed::Length));
    assert_eq!(Message::decode(&padded[..HEADER_BYTES - 1]), Err(Malformed::Length));
    padded.resize(90, 0xEE);
    assert_eq!(Message::decode(&padded), Ok(sample()));
    padded[50] ^= 1;
    assert_eq!(Message::decode(&padded), Err(Malformed::Checksum));
    type CodecChange = fn(&mut [u8]);
    let wrong: [(CodecChange, Malformed); 7] = [
        (|bytes| bytes[4] = 9, Malformed::Version(9)),
        (|bytes| bytes[5] = 3, Malformed::Kind(3)),
        (|bytes| bytes[5] = 2, Malformed::Reserved),
        (|bytes| bytes[36] = 1, Malformed::Reserved),
        (|bytes| bytes[17] = 7, Malformed::Envelope),
        (|bytes| bytes[24..28].fill(0), Malformed::Envelope),
        (|bytes| bytes[22] = 1, Malformed::Envelope),
    ];
    for (change, why) in wrong {
        assert_eq!(Message::decode(&changed(change)), Err(why));
    }
}

#[test]
fn a_card_that_is_too_long_is_refused_on_both_sides() {
    let mut buffer = [0; 2 * MESSAGE_BYTES_MAX];
    let most = Message { card: &[7; CARD_BYTES_MAX], ..sample() };
    assert_eq!(most.encode(&mut buffer).map(<[u8]>::len), Some(MESSAGE_BYTES_MAX));
    assert_eq!(most.encode(&mut buffer[..MESSAGE_BYTES_MAX - 1]), None);
    assert_eq!(Message { card: &[7; CARD_BYTES_MAX + 1], ..sample() }.encode(&mut buffer), None);
    let mut longer = changed(|bytes| bytes[6] = CARD_BYTES_MAX as u8 + 1);
    longer.resize(MESSAGE_BYTES_MAX + 1, 0);
    let sum = crc32c(&longer[4..]).to_le_bytes();
    longer[..4].copy_from_slice(&sum);
    assert_eq!(Message::decode(&longer), Err(Malformed::Envelope));
}

#[test]
fn whom_a_hello_asks() {
    let asked = Asked { first: 5, ranks: 1 | 1 << 63 };
    let ranks: Vec<u32> = (0..200).filter(|rank| asked.includes(*rank)).collect();
    assert_eq!(ranks, [5, 68]);
    assert!(Asked { first: u32::MAX, ranks: 1 }.includes(u32::MAX));
}

proptest! {
    #[test]
    fn total_on_any_bytes(bytes: Vec<u8>) {
        let _ = Message::decode(&bytes);
    }

    #[test]
    fn what_is_encoded_decodes_and_one_flipped_bit_does_not(
        job: u64, epoch in 1..=u32::MAX, rank in 0..100_u32, number: u32, hello: bool, asked: (u32, u64),
        card in proptest::collection::vec(any::<u8>(), 0..=CARD_BYTES_MAX), at: prop::sample::Index, bit in 0..8,
    ) {
        let kind = if hello { DiscoveryKind::Hello(Asked { first: asked.0, ranks: asked.1 }) } else { DiscoveryKind::Here };
        let message = Message { kind, job, size: 100, rank, epoch: Epoch(epoch), number, card: &card };
        let mut buffer = [0; MESSAGE_BYTES_MAX];
        let mut bytes = message.encode(&mut buffer).unwrap().to_vec();
        prop_assert_eq!(Message::decode(&bytes), Ok(message));
        let at = at.index(bytes.len());
        bytes[at] ^= 1_u8 << bit;
        prop_assert!(Message::decode(&bytes).is_err());
    }
}

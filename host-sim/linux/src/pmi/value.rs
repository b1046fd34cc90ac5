//! Values of any bytes in a store of short words: in hexadecimal digits, and cut into pieces.
//!
//! The pieces of `KEY` stand under `KEY-0`, `KEY-1` and so on; the first begins with the number of
//! pieces and a colon.

use super::error::AnswerFault;

/// The longest value, in bytes.
pub const VALUE_BYTES_MAX: usize = 4096;

/// The shortest piece that a store must have room for, in characters: the number of pieces, the
/// colon, and something.
pub(super) const PIECE_MIN: usize = 8;

/// The most pieces of a value.
const PIECES_MAX: usize = 2 * VALUE_BYTES_MAX / (PIECE_MIN - 1) + 1;

/// The key of a piece.
pub(super) fn key(key: &str, piece: usize) -> String {
    format!("{key}-{piece}")
}

/// The pieces of a value for a store with room for `room` characters each; `None` if it has too
/// little, or the value is too long.
pub(super) fn pieces(value: &[u8], room: usize) -> Option<Vec<String>> {
    if value.len() > VALUE_BYTES_MAX || room < PIECE_MIN {
        return None;
    }
    let digits: String = value.iter().map(|byte| format!("{byte:02x}")).collect();
    // The number in front takes room from the first piece, and depends on how many there are.
    let with_front = |count: usize| format!("{count}:{digits}");
    let mut count = 1;
    while with_front(count).len().div_ceil(room) > count {
        count += 1;
    }
    let text = with_front(count);
    let mut rest = text.as_str();
    let mut pieces = Vec::new();
    while !rest.is_empty() {
        let (piece, after) = rest.split_at(room.min(rest.len()));
        pieces.push(piece.to_owned());
        rest = after;
    }
    (pieces.len() == count).then_some(pieces)
}

/// The number of pieces that the first one tells.
pub(super) fn count(first: &str) -> Option<usize> {
    let (count, _) = first.split_once(':')?;
    count.parse().ok().filter(|count| (1..=PIECES_MAX).contains(count))
}

/// The value of all pieces, one behind the other.
pub(super) fn value(all: &str) -> Option<Vec<u8>> {
    let (_, digits) = all.split_once(':')?;
    let (pairs, []) = digits.as_bytes().as_chunks::<2>() else { return None };
    let digit = |byte: u8| char::from(byte).to_digit(16).and_then(|digit| u8::try_from(digit).ok());
    let bytes = pairs.iter().map(|[high, low]| Some((digit(*high)? << 4) | digit(*low)?));
    bytes.collect::<Option<Vec<u8>>>().filter(|value| value.len() <= VALUE_BYTES_MAX)
}

/// Returns the fault of a key whose value is wrong.
pub(super) fn unsound(key: &str) -> AnswerFault {
    AnswerFault::Value { key: key.to_owned() }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn golden_pieces() {
        assert_eq!(pieces(b"", 8).unwrap(), ["1:"]);
        assert_eq!(pieces(b"abc", 8).unwrap(), ["1:616263"]);
        assert_eq!(pieces(b"abcd", 8).unwrap(), ["2:616263", "64"]);
        assert_eq!(pieces(b"abcd", 7), None, "no room");
        assert_eq!(pieces(&[0; VALUE_BYTES_MAX + 1], 1024), None, "too long");
    }

    #[test]
    fn a_key_that_was_never_put_is_refused() {
        for first in ["", "616263", "0:", "-1:", "99999:", "x:61", ":"] {
            assert_eq!(count(first), None, "{first}");
        }
        for all in ["", "61", "1:6", "1:6x", "1:+6", "1:\u{e4}"] {
            assert_eq!(value(all), None, "{all}");
        }
        assert_eq!(value(&format!("1:{}", "00".repeat(VALUE_BYTES_MAX + 1))), None);
    }

    proptest! {
        #[test]
        fn values_come_back(bytes in prop::collection::vec(any::<u8>(), 0..=VALUE_BYTES_MAX), room in PIECE_MIN..2000) {
            let pieces = pieces(&bytes, room).unwrap();
            prop_assert!(pieces.iter().all(|piece| piece.len() <= room));
            prop_assert_eq!(count(&pieces[0]), Some(pieces.len()));
            prop_assert_eq!(value(&pieces.concat()), Some(bytes));
        }

        #[test]
        fn any_text_is_read_without_harm(text in "\\PC{0,60}") {
            let _ = (count(&text), value(&text));
        }
    }
}

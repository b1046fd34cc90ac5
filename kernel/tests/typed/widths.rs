//! Words between machines whose addresses differ in width: here each endpoint takes the other for
//! one with words of four bytes. On a machine that has such words itself there is nothing to
//! convert, and the same must come out.

use aldis_kernel::datatype::{Basic, Committed, Field, Form, TypeTable, Types};
use aldis_kernel::hal::Cause;
use aldis_kernel::plane::prelude::*;
use aldis_kernel::protocols::card::WordWidth;
use aldis_kernel::protocols::header::{HEADER_BYTES, Header, Kind};
use aldis_kernel::{Error, Rank, Status, Tag, Typed, TypedMut};
use aldis_kit::rig::{self, Job, Shape, settle, together};

type Table = TypeTable<8, 256>;

/// A job of two with their tables, each with a peer of narrow words.
fn unlike<R>(run: impl for<'a, 's> FnOnce(&'a mut [rig::Rank<'s>], &rig::RigQueue) -> R) -> R {
    let (mut job, mut tables) = (Job::new(2, Shape::default()), [Table::new(), Table::new()]);
    let queue = job.queue(0, 1);
    let mut ranks = job.ranks();
    let mut cards = [ranks[1].card(), ranks[0].card()];
    for ((rank, card), table) in ranks.iter_mut().zip(&mut cards).zip(&mut tables) {
        card.words = WordWidth::Four;
        rank.connect(card).unwrap();
        rank.attach_types(table.types()).unwrap();
    }
    run(&mut ranks, &queue)
}

/// Words in a message that is inline, eager, and of several fragments.
const COUNTS: [usize; 3] = [3, 9, 100];

/// Sends words and receives them with room for some more; the receive is there first if `expected`.
fn exchange(
    words: &[isize],
    buffer: &mut [isize],
    expected: bool,
) -> (Result<Status, Error>, Result<Status, Error>) {
    unlike(|ranks, _| {
        let world = ranks[0].world();
        let (count, room) = (words.len() as u64, buffer.len() as u64);
        together(ranks, |one, other| {
            let into = TypedMut::new(buffer, room, Basic::Isize);
            let data = Typed::new(words, count, Basic::Isize).checked();
            let (sending, receiving);
            if expected {
                receiving = other.irecv_typed(&world, into, Rank(0), Tag(1))?;
                settle(one, other);
                sending = one.isend_typed(&world, data, Rank(1), Tag(1))?;
            } else {
                sending = one.isend_typed(&world, data, Rank(1), Tag(1))?;
                settle(one, other);
                receiving = other.irecv_typed(&world, into, Rank(0), Tag(1))?;
            }
            settle(one, other);
            Ok((one.wait(sending), other.wait(receiving)))
        })
        .unwrap()
    })
}

#[test]
fn words_keep_their_values_and_statuses_count_elements() {
    for count in COUNTS {
        for expected in [true, false] {
            let edges = [0, 1, -1, i32::MAX as isize, i32::MIN as isize, 0x1234_5678];
            let words: Vec<isize> =
                (0..count).map(|index| edges[index % edges.len()] ^ (index as isize / 6)).collect();
            let mut buffer = vec![7; count + 2];
            let (sent, received) = exchange(&words, &mut buffer, expected);
            sent.unwrap();
            assert_eq!(received.unwrap().bytes, size_of_val(&words[..]) as u64, "as many as memory has");
            assert_eq!((&buffer[..count], &buffer[count..]), (&words[..], &[7, 7][..]));
        }
    }
}

#[test]
fn a_word_that_does_not_fit_is_refused_by_name_at_both_ends() {
    if size_of::<usize>() == 4 {
        return;
    }
    let wide: [i64; 4] = [1 << 31, -(1 << 31) - 1, i64::MAX, i64::MIN];
    for (count, value) in COUNTS.into_iter().flat_map(|count| wide.map(|value| (count, value as isize))) {
        for expected in [true, false] {
            let mut words = vec![1isize; count];
            words[count - 1] = value;
            let mut buffer = vec![0; count];
            let (sent, received) = exchange(&words, &mut buffer, expected);
            let sent = sent.unwrap_err();
            let cause = Cause::Unrepresentable {
                magnitude: value.unsigned_abs() as u64,
                negative: value < 0,
                bytes: 4,
            };
            assert_eq!((sent.cause, sent.peer()), (cause, Some(Rank(1))));
            assert!(
                sent.to_string().contains(&format!("the number {value} does not fit into 4 bytes")),
                "{sent}"
            );
            assert_eq!(received.unwrap_err().cause, Cause::Withdrawn);
            assert!(buffer.iter().all(|word| *word == 0 || *word == 1), "nothing is cut off");
        }
    }
}

#[test]
fn a_copy_is_refused_at_once() {
    let (mut memory, wide) = ([0u8; 400], isize::MIN);
    let (mut job, mut table) = (Job::new(2, Shape::default()), Table::new());
    let mut ranks = job.ranks();
    let mut card = ranks[1].card();
    card.words = WordWidth::Four;
    ranks[0].connect(&card).unwrap();
    ranks[0].attach_types(table.types()).unwrap();
    ranks[0].send_buffer().attach(&mut memory).unwrap();
    let world = ranks[0].world();
    let sent = ranks[0].bsend_typed(&world, Typed::new(&[wide], 1, Basic::Isize), Rank(1), Tag(1));
    if size_of::<usize>() == 8 {
        let cause = Cause::Unrepresentable { magnitude: 1 << 63, negative: true, bytes: 4 };
        assert_eq!(sent.unwrap_err().cause, cause);
    }
}

#[test]
fn a_persistent_pair_and_a_matched_receive_convert_too() {
    unlike(|ranks, _| {
        let world = ranks[0].world();
        let (words, mut buffer) = ([-5isize, 6, 1 << 30], [0isize; 3]);
        together(ranks, |one, other| {
            let data = Typed::new(&words, 3, Basic::Isize);
            let mut sending = one.send_init_typed(&world, data, Rank(1), Tag(1))?;
            let into = TypedMut::new(&mut buffer, 3, Basic::Isize);
            let mut receiving = other.recv_init_typed(&world, into, Rank(0), Tag(1))?;
            for _ in 0..3 {
                one.start(&mut sending)?;
                other.start(&mut receiving)?;
                settle(one, other);
                one.wait_for(&mut sending)?;
                assert_eq!(other.wait_for(&mut receiving)?.bytes, size_of_val(&words) as u64);
            }
            Ok(())
        })
        .unwrap();
        assert_eq!(buffer, words);
        let long = [-7isize; 70];
        let mut buffer = [0isize; 70];
        together(ranks, |one, other| {
            let sending = one.isend_typed(&world, Typed::new(&long, 70, Basic::Isize), Rank(1), Tag(2))?;
            settle(one, other);
            let message = other.mprobe(&world, Rank(0), Tag(2))?;
            let form = other.form_from(&world, Rank(0))?;
            assert_eq!(other.types()?.count(Basic::Isize, form, message.status().bytes), Ok(70));
            let receiving = other.imrecv_typed(message, TypedMut::new(&mut buffer, 70, Basic::Isize))?;
            settle(one, other);
            one.wait(sending)?;
            assert_eq!(other.wait(receiving)?.bytes, size_of_val(&long) as u64);
            Ok(())
        })
        .unwrap();
        assert_eq!(buffer, long);
    });
}

#[test]
fn a_receive_that_is_too_small_keeps_whole_words() {
    for (count, expected) in COUNTS.into_iter().flat_map(|count| [(count, true), (count, false)]) {
        let (words, mut buffer) = (vec![-2isize; count], vec![0; count - 1]);
        let (sent, received) = exchange(&words, &mut buffer, expected);
        sent.unwrap();
        let Cause::Truncated { sent, room } = received.unwrap_err().cause else { panic!("it is cut off") };
        assert_eq!((sent, room), (4 * count as u64, 4 * (count as u64 - 1)));
        assert_eq!(buffer, words[1..]);
    }
}

/// Bytes that are no typed message are taken as they are, and never more of them than there is room
/// for.
#[test]
fn untyped_bytes_are_not_converted() {
    for bytes in [8usize, 24, 40, 72, 200, 399, 400] {
        let (data, mut buffer) = (rig::pattern(9, bytes), [0usize; 50]);
        let received = unlike(|ranks, _| {
            let world = ranks[0].world();
            together(ranks, |one, other| {
                let sending = one.isend(&world, &data, Rank(1), Tag(1))?;
                settle(one, other);
                let into = TypedMut::new(&mut buffer, 50, Basic::Usize);
                let receiving = other.irecv_typed(&world, into, Rank(0), Tag(1))?;
                settle(one, other);
                one.wait(sending)?;
                other.wait(receiving)
            })
        });
        let memory: Vec<u8> = buffer.iter().flat_map(|word| word.to_ne_bytes()).collect();
        let arrived = match received.map_err(|error| error.cause) {
            Ok(status) => status.bytes as usize,
            // What is announced is asked for as the words of a narrow machine.
            Err(Cause::Truncated { sent, room }) => {
                assert_eq!((sent, room), (bytes as u64, 200));
                200
            }
            Err(cause) => panic!("{cause}"),
        };
        assert_eq!((&memory[..arrived], bytes <= 200), (&data[..arrived], arrived == bytes));
    }
}

/// A peer that says it has narrow words may send anything.
#[test]
fn no_length_does_harm() {
    for (len, count) in (0..40).flat_map(|len| (0..6).map(move |count| (len, count))) {
        let mut buffer = [usize::MAX; 6];
        let received = unlike(|ranks, queue| {
            let world = ranks[0].world();
            // The label of bytes says what it likes of their types.
            let bytes = vec![1u8; len];
            ranks[0].send_typed(&world, Typed::new(&bytes, len as u64, Basic::U8), Rank(1), Tag(1))?;
            assert_eq!(queue.borrow().len(), 1);
            ranks[1].recv_typed(
                &world,
                TypedMut::new(&mut buffer, count as u64, Basic::Usize),
                Rank(0),
                Tag(1),
            )
        });
        assert_eq!(received.is_ok(), len == 0, "{len} bytes");
        assert!(buffer[count..].iter().all(|word| *word == usize::MAX));
    }
}

#[test]
fn a_card_of_narrow_words_says_so_of_forms() {
    unlike(|ranks, _| {
        let world = ranks[0].world();
        let form = ranks[0].form_from(&world, Rank(1)).unwrap();
        let is_wide = size_of::<usize>() == 8;
        assert_eq!(form, if is_wide { Form::Narrow } else { Form::Native });
        assert_eq!(ranks[0].form_from(&world, Rank(0)), Ok(Form::Native));
        assert!(ranks[0].form_from(&world, Rank(2)).is_err());
    });
}

/// A structure of words and others, and the same without gaps.
fn mixed(types: &mut Types<'_>) -> Committed {
    let word = size_of::<usize>();
    let fields =
        [Field::new(0, Basic::U16), Field::array(word, 2, Basic::Usize), Field::new(3 * word, Basic::F32)];
    let mixed = types.structure(&fields).unwrap();
    types.commit(mixed).unwrap()
}

#[test]
fn words_travel_in_the_width_of_the_narrower_machine() {
    let (sent, bytes) = unlike(|ranks, queue| {
        let world = ranks[0].world();
        let mixed = mixed(ranks[0].types().unwrap());
        let word = size_of::<usize>();
        let mut memory = vec![0u8; 4 * word];
        memory[..2].copy_from_slice(&0x0102u16.to_ne_bytes());
        memory[word..2 * word].copy_from_slice(&0x0a0b_0c0dusize.to_ne_bytes());
        memory[2 * word..3 * word].copy_from_slice(&0xfffe_fdfcusize.to_ne_bytes());
        memory[3 * word..3 * word + 4].copy_from_slice(&1f32.to_ne_bytes());
        ranks[0].send_typed(&world, Typed::new(&memory, 1, mixed), Rank(1), Tag(1)).unwrap();
        (memory, queue.borrow()[0].clone())
    });
    let mut expected = Vec::new();
    expected.extend(0x0102u16.to_ne_bytes());
    expected.extend(0x0a0b_0c0du32.to_ne_bytes());
    expected.extend(0xfffe_fdfcu32.to_ne_bytes());
    expected.extend(1f32.to_ne_bytes());
    assert_eq!(bytes[HEADER_BYTES..], expected, "{sent:?}");
    let (header, _) = Header::parse(&bytes).unwrap();
    // The signature is as on every other machine.
    assert_eq!((header.kind, header.length), (Kind::Signed, 0x6aed_38b8 << 32 | 14));
}

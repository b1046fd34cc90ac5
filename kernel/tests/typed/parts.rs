//! Partitioned messages of datatypes (MPI 4.1 chapter 4): parts go as they get ready, from memory
//! in pieces to memory in other pieces, between machines of any kind.

use aldis_kernel::datatype::{Basic, TypeTable};
use aldis_kernel::hal::Cause;
use aldis_kernel::protocols::card::WordWidth;
use aldis_kernel::{Rank, Tag, Typed, TypedMut};
use aldis_kit::rig::{self, Job, Shape, UNLIKE_ORDER, settle, together};
use proptest::prelude::*;

const TAG: Tag = Tag(3);

type Table = TypeTable<8, 256>;

#[derive(Clone, Debug)]
struct PartsPlan {
    own: u32,
    theirs: u32,
    /// Elements in each of `own * theirs` pieces.
    scale: u32,
    basic: Basic,
    depth: usize,
    is_swapped: bool,
    is_narrow: bool,
    receiver_first: bool,
    /// The order in which partitions get ready, for each round.
    orders: Vec<Vec<u32>>,
}

fn plans() -> impl Strategy<Value = PartsPlan> {
    let basic = prop::sample::select(vec![Basic::U8, Basic::U16, Basic::U64, Basic::Isize, Basic::Usize]);
    (1u32..=8, 1u32..=8, 0u32..5, basic, 1usize..6, any::<[bool; 3]>()).prop_flat_map(
        |(own, theirs, scale, basic, depth, [is_swapped, is_narrow, receiver_first])| {
            let order = Just((0..own).collect::<Vec<_>>()).prop_shuffle();
            proptest::collection::vec(order, 1..3).prop_map(move |orders| PartsPlan {
                own,
                theirs,
                scale,
                basic,
                depth,
                is_swapped,
                is_narrow,
                receiver_first,
                orders,
            })
        },
    )
}

fn introduce(ranks: &mut [rig::Rank<'_>], is_swapped: bool, is_narrow: bool) {
    let mut cards = [ranks[1].card(), ranks[0].card()];
    for (rank, card) in ranks.iter_mut().zip(&mut cards) {
        if is_narrow {
            card.words = WordWidth::Four;
        }
        if is_swapped && card.peer().0 == 0 {
            card.order = UNLIKE_ORDER;
        }
        rank.connect(card).unwrap();
    }
}

/// The bytes of element `index` of a round: a small number.
fn element(basic: Basic, round: usize, index: usize) -> Vec<u8> {
    let number = (round * 50 + index) % 120;
    match basic.size() {
        1 => vec![number as u8],
        2 => (number as u16).to_ne_bytes().into(),
        4 => (number as u32).to_ne_bytes().into(),
        _ => (number as u64).to_ne_bytes().into(),
    }
}

/// Returns the bytes that arrive, if the bytes on the wire are taken for those of the other order.
fn turned(plan: &PartsPlan, mut bytes: Vec<u8>) -> Vec<u8> {
    if !plan.is_swapped {
        return bytes;
    }
    let is_narrow = plan.is_narrow && matches!(plan.basic, Basic::Isize | Basic::Usize) && bytes.len() == 8;
    if is_narrow {
        let word = (u64::from_ne_bytes(bytes.try_into().unwrap()) as u32).swap_bytes();
        let is_signed = plan.basic == Basic::Isize;
        let wide = if is_signed { i64::from(word.cast_signed()).cast_unsigned() } else { word.into() };
        return wide.to_ne_bytes().into();
    }
    bytes.reverse();
    bytes
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(150))]

    #[test]
    fn parts_of_a_column_come_as_a_row(plan in plans()) {
        let PartsPlan { own, theirs, scale, basic, depth, is_swapped, is_narrow, receiver_first, ref orders } = plan;
        let (count, size) = ((own * theirs * scale) as usize, basic.size());
        // Every third place of the sender's memory; one after the other at the receiver.
        let (mut out, mut into) = (vec![0u8; 3 * size * count.max(1)], vec![0u8; size * count]);
        let (mut job, mut tables) = (Job::new(2, Shape { depth, bcopy_bytes_max: 96 }), [Table::new(), Table::new()]);
        let mut ranks = job.ranks();
        for (rank, table) in ranks.iter_mut().zip(&mut tables) {
            rank.attach_types(table.types()).unwrap();
        }
        introduce(&mut ranks, is_swapped, is_narrow);
        let worlds = [ranks[0].world(), ranks[1].world()];
        let types = ranks[0].types().unwrap();
        let every_third = types.resized(basic, 0, 3 * size as i64).unwrap();
        let every_third = types.commit(every_third).unwrap();
        together(&mut ranks, |one, other| {
            let (out, into) = (one.lend(&mut out), other.lend(&mut into));
            let room = || TypedMut::lent(into, count as u64, basic);
            let mut receive = None;
            if receiver_first {
                receive = Some(other.precv_init_typed(&worlds[1], room(), theirs, Rank(0), TAG)?);
            }
            let data = Typed::lent(out, count as u64, every_third);
            let mut send = one.psend_init_typed(&worlds[0], data, own, Rank(1), TAG)?;
            settle(one, other);
            let mut receive = match receive {
                Some(receive) => receive,
                None => other.precv_init_typed(&worlds[1], room(), theirs, Rank(0), TAG)?,
            };
            for (round, order) in orders.iter().enumerate() {
                one.start(&mut send)?;
                other.start(&mut receive)?;
                let each = count / own as usize;
                for (turn, &partition) in order.iter().enumerate() {
                    let first = partition as usize * each;
                    let bytes = 3 * size * first..3 * size * (first + each);
                    one.edit(out, bytes.clone(), |memory| {
                        for (index, place) in memory.chunks_mut(3 * size).enumerate() {
                            place[..size].copy_from_slice(&element(basic, round, first + index));
                        }
                    })?;
                    one.partitions(&send).ready(partition)?;
                    if count > 0 && turn + 1 < order.len() {
                        assert_eq!(one.edit(out, bytes, |_| {}).unwrap_err().cause, Cause::Busy);
                    }
                    settle(one, other);
                    for part in 0..theirs {
                        let whole = (0..own).all(|one| {
                            let overlaps = one * theirs < (part + 1) * own && part * own < (one + 1) * theirs;
                            order[..=turn].contains(&one) || !overlaps
                        });
                        let whole = if count == 0 { turn + 1 == order.len() } else { whole };
                        assert_eq!(other.partitions(&receive).has_arrived(part)?, whole);
                        let each = count / theirs as usize;
                        let (first, end) = (part as usize * each, (part as usize + 1) * each);
                        let read = other.edit(into, first * size..end * size, |memory| {
                            for (index, place) in (first..).zip(memory.chunks(size)) {
                                assert_eq!(place, turned(&plan, element(basic, round, index)));
                            }
                        });
                        assert_eq!(read.is_ok(), whole || count == 0);
                    }
                }
                assert_eq!(other.wait_for(&mut receive)?.source, Rank(0));
                one.wait_for(&mut send)?;
            }
            Ok(())
        })
        .unwrap();
        for rank in &mut ranks {
            while rank.poll(64) > 0 {}
        }
        prop_assert_eq!((ranks[0].diagnostics().requests_in_use(), ranks[1].diagnostics().requests_in_use()), (0, 0));
    }
}

#[test]
fn a_word_that_does_not_fit_ends_the_channel_by_name() {
    if size_of::<usize>() == 4 {
        return;
    }
    let (words, mut buffer) = ([3isize, 4, isize::MIN, 5], [0isize; 4]);
    let (mut job, mut tables) = (Job::new(2, Shape::default()), [Table::new(), Table::new()]);
    let mut ranks = job.ranks();
    for (rank, table) in ranks.iter_mut().zip(&mut tables) {
        rank.attach_types(table.types()).unwrap();
    }
    introduce(&mut ranks, false, true);
    let world = ranks[0].world();
    together(&mut ranks, |one, other| {
        let data = Typed::new(&words, 4, Basic::Isize);
        let mut send = one.psend_init_typed(&world, data, 4, Rank(1), TAG)?;
        let into = TypedMut::new(&mut buffer, 4, Basic::Isize);
        let mut receive = other.precv_init_typed(&world, into, 4, Rank(0), TAG)?;
        one.start(&mut send)?;
        other.start(&mut receive)?;
        settle(one, other);
        one.partitions(&send).ready_range(0..4)?;
        settle(one, other);
        let cause = Cause::Unrepresentable { magnitude: 1 << 63, negative: true, bytes: 4 };
        assert_eq!(one.wait_for(&mut send).unwrap_err().cause, cause);
        assert_eq!(one.start(&mut send).unwrap_err().cause, cause);
        assert_eq!(other.wait_for(&mut receive).unwrap_err().cause, Cause::Withdrawn);
        Ok(())
    })
    .unwrap();
    for rank in &mut ranks {
        while rank.poll(64) > 0 {}
    }
    assert_eq!((ranks[0].diagnostics().requests_in_use(), ranks[1].diagnostics().requests_in_use()), (0, 0));
    assert_eq!(buffer, [3, 4, 0, 0]);
}

#[test]
fn bad_arguments_have_names() {
    let (mut job, mut table) = (Job::new(2, Shape::default()), Table::new());
    let mut ranks = job.ranks();
    let (words, world) = ([0u64; 4], ranks[0].world());
    let cause = |rank: &mut rig::Rank<'_>, data: Typed<'_>, partitions, tag| {
        rank.scope(|s| s.psend_init_typed(&world, data, partitions, Rank(1), tag).map(drop))
            .unwrap_err()
            .cause
    };
    let data = |count| Typed::new(&words, count, Basic::U64);
    assert!(matches!(cause(&mut ranks[0], data(4), 2, TAG), Cause::TooSmall { .. }), "no table of types");
    ranks[0].attach_types(table.types()).unwrap();
    assert_eq!(cause(&mut ranks[0], data(3), 2, TAG), Cause::Partitions { partitions: 2, bytes: 24 });
    assert_eq!(cause(&mut ranks[0], data(4), 0, TAG), Cause::Partitions { partitions: 0, bytes: 32 });
    assert_eq!(cause(&mut ranks[0], data(4).checked(), 2, TAG), Cause::Unsupported);
    assert_eq!(cause(&mut ranks[0], data(5), 1, TAG), Cause::TooBig { len: 40, max: 32 });
    assert!(matches!(cause(&mut ranks[0], data(4), 2, Tag::MAX), Cause::TagOutOfRange { .. }));
    // To no process, rounds are over at once.
    let done = ranks[0].scope(|s| {
        let mut nobodys = s.psend_init_typed(&world, data(4), 2, Rank::NULL, TAG)?;
        s.start(&mut nobodys)?;
        s.partitions(&nobodys).ready_range(0..2)?;
        s.wait_for(&mut nobodys)
    });
    assert_eq!(done.unwrap().bytes, 0);
}

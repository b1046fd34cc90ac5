//! Typed operations that are set up once, and those that copy: persistent, buffered, replacing.

use aldis_kernel::datatype::{Basic, Committed, TypeTable};
use aldis_kernel::hal::{Cause, Resource};
use aldis_kernel::plane::prelude::*;
use aldis_kernel::{Rank, Source, Tag, TagMatch, Typed, TypedMut};
use aldis_kit::rig::{self, Job, Shape, settle, together};

type Table = TypeTable<8, 256>;

fn ranks<'s>(job: &'s mut Job, tables: &'s mut [Table; 2]) -> Vec<rig::Rank<'s>> {
    let mut ranks = job.ranks();
    for (rank, table) in ranks.iter_mut().zip(tables) {
        rank.attach_types(table.types()).unwrap();
    }
    ranks
}

fn column(rank: &mut rig::Rank<'_>, rows: u64) -> Committed {
    let types = rank.types().unwrap();
    let column = types.vector(rows, 1, 2, Basic::U32).unwrap();
    types.commit(column).unwrap()
}

#[test]
fn a_persistent_request_holds_its_type_and_starts_again_and_again() {
    for (rows, checked) in [(0u64, true), (2, true), (10, false), (100, true)] {
        let (mut job, mut tables) = (Job::new(2, Shape::default()), [Table::new(), Table::new()]);
        let mut ranks = ranks(&mut job, &mut tables);
        let world = ranks[0].world();
        let columns = [column(&mut ranks[0], rows), column(&mut ranks[1], rows)];
        let (mut from, mut into) = (vec![0u32; rows as usize * 2], vec![0u32; rows as usize * 2]);
        together(&mut ranks, |one, other| {
            let (from, into) = (one.lend(&mut from), other.lend(&mut into));
            let data = Typed::lent(from, 1, columns[0]);
            let data = if checked { data.checked() } else { data };
            let mut sending = one.send_init_typed(&world, data, Rank(1), Tag(1))?;
            let mut receiving = other.recv_init_typed(
                &world,
                TypedMut::lent(into, 1, columns[1]),
                Source::Any,
                TagMatch::Any,
            )?;
            one.types()?.free(columns[0])?;
            other.types()?.free(columns[1])?;
            for turn in 1..6u8 {
                one.edit(from, 0..from.len(), |bytes| bytes.fill(turn))?;
                let (first, second) = (turn % 2 == 0, turn % 2 != 0);
                if first {
                    other.start(&mut receiving)?;
                }
                one.start(&mut sending)?;
                settle(one, other);
                if second {
                    other.start(&mut receiving)?;
                }
                settle(one, other);
                one.wait_for(&mut sending)?;
                assert_eq!(other.wait_for(&mut receiving)?.bytes, rows * 4);
                other.edit(into, 0..into.len(), |bytes| {
                    let whole =
                        bytes.iter().enumerate().all(|(at, byte)| *byte == if at % 8 < 4 { turn } else { 0 });
                    assert!(whole, "{rows} rows, turn {turn}");
                })?;
                assert_eq!(one.types()?.room().0, 7, "the request holds its type");
            }
            Ok(())
        })
        .unwrap();
        assert_eq!(ranks[0].types().unwrap().room().0, 8);
    }
}

#[test]
fn the_null_rank_is_sent_to_and_received_from_persistently() {
    let (mut job, mut tables) = (Job::new(2, Shape::default()), [Table::new(), Table::new()]);
    let mut ranks = ranks(&mut job, &mut tables);
    let world = ranks[0].world();
    let (data, mut buffer) = ([1u32; 4], [0u32; 4]);
    ranks[0]
        .scope(|s| {
            let sending = s.send_init_typed(&world, Typed::new(&data, 4, Basic::U32), Rank::NULL, Tag(1))?;
            let into = TypedMut::new(&mut buffer, 4, Basic::U32);
            let receiving = s.recv_init_typed(&world, into, Rank::NULL, Tag(1))?;
            let mut both = [sending, receiving];
            s.start_all(&mut both)?;
            assert_eq!(s.wait_for(&mut both[1])?.bytes, 0);
            s.wait_for(&mut both[0]).map(drop)
        })
        .unwrap();
}

#[test]
fn a_buffered_send_is_a_copy_and_takes_the_packed_bytes_of_room() {
    for rows in [2u64, 10, 30] {
        let mut memory = vec![0; rows as usize * 8];
        let (mut job, mut tables) = (Job::new(2, Shape::default()), [Table::new(), Table::new()]);
        let mut ranks = ranks(&mut job, &mut tables);
        let world = ranks[0].world();
        let column = column(&mut ranks[0], rows);
        let mut matrix: Vec<u32> = (0..rows as u32 * 2).collect();
        let none = ranks[0].bsend_typed(&world, Typed::new(&matrix, 1, column), Rank(1), Tag(1)).unwrap_err();
        assert_eq!(none.cause, Cause::Full(Resource::SendBuffer));
        ranks[0].send_buffer().attach(&mut memory).unwrap();
        let mut sent = 0;
        // Those that leave at once give their room back; the others fill it.
        let full = loop {
            match ranks[0].bsend_typed(&world, Typed::new(&matrix, 1, column).checked(), Rank(1), Tag(1)) {
                Ok(status) => assert_eq!(status.bytes, rows * 4),
                Err(error) => break error,
            }
            sent += 1;
        };
        assert_eq!(full.cause, Cause::Full(Resource::SendBuffer));
        assert!(sent >= 2);
        matrix.fill(77);
        ranks[0].types().unwrap().free(column).unwrap();
        let (one, other) = ranks.split_at_mut(1);
        for _ in 0..sent {
            let mut row = vec![0u32; rows as usize];
            other[0]
                .scope(|s| {
                    let into = TypedMut::new(&mut row, rows, Basic::U32);
                    let mut receiving = s.irecv_typed(&world, into, Rank(0), Tag(1))?;
                    while s.test(&mut receiving)?.is_none() {
                        one[0].poll(8);
                    }
                    Ok(())
                })
                .unwrap();
            assert!(row.iter().zip(0..).all(|(number, row)| *number == 2 * row), "it was copied");
        }
        one[0].send_buffer().detach().unwrap();
        assert_eq!(one[0].types().unwrap().room().0, 8);
    }
}

#[test]
fn what_is_sent_is_replaced_by_what_is_received() {
    let mut memory = [0; 64];
    let (mut job, mut tables) = (Job::new(1, Shape::default()), [Table::new(), Table::new()]);
    let mut rank = ranks(&mut job, &mut tables).remove(0);
    let world = rank.world();
    let mut numbers = [1u32, 2, 3];
    let error = rank.sendrecv_replace(&world, &mut numbers, Rank(0), Tag(5), Rank(0), Tag(5)).unwrap_err();
    assert_eq!(error.cause, Cause::Full(Resource::SendBuffer));
    rank.sendrecv_replace(&world, &mut numbers, Rank::NULL, Tag(5), Rank::NULL, Tag(5)).unwrap();
    rank.send_buffer().attach(&mut memory).unwrap();
    rank.send(&world, &[7u32, 8, 9], Rank(0), Tag(5)).unwrap();
    let status = rank.sendrecv_replace(&world, &mut numbers, Rank(0), Tag(5), Rank(0), Tag(5)).unwrap();
    assert_eq!((status.bytes, numbers), (12, [7, 8, 9]));
    let column = column(&mut rank, 3);
    let mut matrix = [10u32, 11, 12, 13, 14, 15];
    let short = TypedMut::new(&mut matrix, 1, column).with_origin(8);
    let error = rank.sendrecv_replace_typed(&world, short, Rank(0), Tag(5), Rank(0), Tag(5)).unwrap_err();
    assert_eq!(error.cause, Cause::TooBig { len: 28, max: 24 });
    let buffer = TypedMut::new(&mut matrix, 1, column).with_origin(4);
    let status = rank.sendrecv_replace_typed(&world, buffer, Rank(0), Tag(5), Rank(0), Tag(5)).unwrap();
    assert_eq!((status.bytes, matrix), (12, [10, 1, 12, 2, 14, 3]));
    rank.recv(&world, &mut numbers, Rank(0), Tag(5)).unwrap();
    assert_eq!(numbers, [11, 13, 15]);
}

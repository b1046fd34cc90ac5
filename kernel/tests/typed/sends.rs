//! Every call, every protocol, every end.

use aldis_kernel::datatype::{Basic, Committed, Form, Order, Slice, TypeTable};
use aldis_kernel::hal::{Cause, Resource};
use aldis_kernel::plane::prelude::*;
use aldis_kernel::{Rank, Source, Status, Tag, TagMatch, Typed, TypedMut};
use aldis_kit::rig::{self, Job, Shape, pattern, settle, together};
use core::time::Duration;

type Table = TypeTable<8, 256>;

/// A column of one number of a matrix with `rows` rows of `width`.
fn column(rank: &mut rig::Rank<'_>, rows: u64, width: i64) -> Committed {
    let types = rank.types().unwrap();
    let column = types.vector(rows, 1, width, Basic::U32).unwrap();
    types.commit(column).unwrap()
}

fn with_tables<'s>(job: &'s mut Job, tables: &'s mut [Table]) -> Vec<rig::Rank<'s>> {
    let mut ranks = job.ranks();
    for (rank, table) in ranks.iter_mut().zip(tables) {
        rank.attach_types(table.types()).unwrap();
    }
    ranks
}

/// Rows that make a column inline, eager, and of several fragments; the borders by the byte are the
/// random tests'.
const ROWS: [u64; 6] = [0, 1, 3, 4, 13, 300];

#[test]
fn a_column_becomes_a_row_by_every_protocol_expected_or_not() {
    let (mut job, mut tables) = (Job::new(2, Shape::default()), [Table::new(), Table::new()]);
    let mut ranks = with_tables(&mut job, &mut tables);
    let worlds = [ranks[0].world(), ranks[1].world()];
    for rows in ROWS {
        for expected in [true, false] {
            let matrix: Vec<u32> = (0..rows as u32 * 5).collect();
            let mut row = vec![0u32; rows as usize];
            let column = column(&mut ranks[0], rows, 5);
            together(&mut ranks, |one, other| {
                let data = || Typed::new(&matrix[rows.min(1) as usize * 2..], 1, column);
                let mut sending = None;
                if !expected {
                    sending = Some(one.isend_typed(&worlds[0], data(), Rank(1), Tag(4))?);
                    settle(one, other);
                }
                let row = TypedMut::new(&mut row, rows, Basic::U32);
                let receiving = other.irecv_typed(&worlds[1], row, Source::Any, TagMatch::Any)?;
                if expected {
                    settle(one, other);
                    sending = Some(one.isend_typed(&worlds[0], data(), Rank(1), Tag(4))?);
                }
                settle(one, other);
                one.wait(sending.unwrap())?;
                let status = other.wait(receiving)?;
                assert_eq!(status, Status { source: Rank(0), tag: Tag(4), bytes: 4 * rows });
                Ok(())
            })
            .unwrap();
            assert!(row.iter().zip(0..).all(|(number, row)| *number == row * 5 + 2), "{rows} rows");
            ranks[0].types().unwrap().free(column).unwrap();
        }
    }
    assert_eq!(ranks[0].types().unwrap().room().0, 8, "nothing is left in the table");
}

#[test]
fn typed_and_untyped_calls_understand_each_other() {
    let (mut job, mut tables) = (Job::new(2, Shape::default()), [Table::new(), Table::new()]);
    let mut ranks = with_tables(&mut job, &mut tables);
    let worlds = [ranks[0].world(), ranks[1].world()];
    for rows in ROWS {
        let matrix: Vec<u32> = (0..rows as u32 * 3).collect();
        let flat: Vec<u32> = (0..rows as u32).map(|row| row * 3).collect();
        let (mut bytes, mut spread) = (vec![0u32; rows as usize], vec![7u32; matrix.len()]);
        let columns = [column(&mut ranks[0], rows, 3), column(&mut ranks[1], rows, 3)];
        for expected in [true, false] {
            together(&mut ranks, |one, other| {
                let send = Typed::new(&matrix, 1, columns[0]).checked();
                let (first, second);
                if expected {
                    first = other.irecv(&worlds[1], &mut bytes, Rank(0), Tag(1))?;
                    second = other.irecv_typed(
                        &worlds[1],
                        TypedMut::new(&mut spread, 1, columns[1]),
                        Rank(0),
                        Tag(2),
                    )?;
                    one.isend_typed(&worlds[0], send, Rank(1), Tag(1)).map(drop)?;
                    one.isend(&worlds[0], &flat, Rank(1), Tag(2)).map(drop)?;
                } else {
                    one.isend_typed(&worlds[0], send, Rank(1), Tag(1)).map(drop)?;
                    one.isend(&worlds[0], &flat, Rank(1), Tag(2)).map(drop)?;
                    settle(one, other);
                    first = other.irecv(&worlds[1], &mut bytes, Rank(0), Tag(1))?;
                    second = other.irecv_typed(
                        &worlds[1],
                        TypedMut::new(&mut spread, 1, columns[1]),
                        Rank(0),
                        Tag(2),
                    )?;
                }
                settle(one, other);
                assert_eq!(other.wait(first)?.elements::<u32>(), Ok(rows));
                other.wait(second).map(drop)
            })
            .unwrap();
        }
        assert_eq!(bytes, flat);
        let whole =
            spread.iter().zip(0..).all(|(&number, place)| number == if place % 3 == 0 { place } else { 7 });
        assert!(whole, "{rows} rows, and what lies between is not touched");
    }
}

#[test]
fn blocking_calls_send_to_oneself_to_the_null_rank_and_both_ways() {
    let (mut job, mut tables) = (Job::new(1, Shape::default()), [Table::new()]);
    let mut ranks = with_tables(&mut job, &mut tables);
    let rank = &mut ranks[0];
    let world = rank.world();
    let column = column(rank, 4, 4);
    let matrix: [u32; 16] = core::array::from_fn(|place| place as u32);
    let mut row = [0u32; 4];
    let sending = Typed::new(&matrix, 1, column).with_origin(12);
    let into = TypedMut::new(&mut row, 4, Basic::U32);
    let status = rank.sendrecv_typed(&world, sending, Rank(0), Tag(1), into, Rank(0), Tag(1)).unwrap();
    assert_eq!((status.bytes, row), (16, [3, 7, 11, 15]));

    assert_eq!(rank.send_typed(&world, sending, Rank::NULL, Tag(1)).unwrap().source, Rank::NULL);
    let into = TypedMut::new(&mut row, 4, Basic::U32);
    assert_eq!(rank.recv_typed(&world, into, Rank::NULL, Tag(1)).unwrap().bytes, 0);

    rank.send_typed(&world, sending, Rank(0), Tag(2)).unwrap();
    let probed = rank.probe(&world, Rank(0), Tag(2)).unwrap();
    let types = rank.types().unwrap();
    assert_eq!(types.count(column, Form::Native, probed.bytes), Ok(1));
    assert_eq!(types.elements(column, Form::Native, probed.bytes), Ok(4));
    let mut square = [9u32; 4];
    rank.recv_typed(&world, TypedMut::new(&mut square, 4, Basic::U32), Rank(0), Tag(2)).unwrap();
    assert_eq!(square, [3, 7, 11, 15]);

    let error =
        rank.within(Duration::from_millis(1)).send_typed(&world, sending.synchronous(), Rank(0), Tag(3));
    assert_eq!(error.unwrap_err().cause, Cause::TimedOut);
    let into = TypedMut::new(&mut row, 4, Basic::U32);
    let error = rank.recv_typed(&world, into, Rank(0), Tag(3)).unwrap_err();
    assert_eq!(error.cause, Cause::Withdrawn);
}

#[test]
fn modes_keep_their_promises() {
    let (mut job, mut tables) = (Job::new(2, Shape::default()), [Table::new(), Table::new()]);
    let mut ranks = with_tables(&mut job, &mut tables);
    let worlds = [ranks[0].world(), ranks[1].world()];
    for rows in ROWS {
        let data = vec![5u32; rows as usize];
        let mut buffer = vec![0u32; rows as usize];
        let typed = Typed::new(&data, rows, Basic::U32);
        together(&mut ranks, |one, other| {
            let mut sending = one.isend_typed(&worlds[0], typed.synchronous(), Rank(1), Tag(1))?;
            let ready = one.isend_typed(&worlds[0], typed.ready(), Rank(1), Tag(2))?;
            settle(one, other);
            assert_eq!(one.test(&mut sending)?, None, "it has not been received");
            let into = TypedMut::new(&mut buffer, rows, Basic::U32);
            let receiving = other.irecv_typed(&worlds[1], into, Rank(0), Tag(1))?;
            let late = other.irecv_typed(
                &worlds[1],
                TypedMut::new(&mut [] as &mut [u32], 0, Basic::U32),
                Rank(0),
                Tag(2),
            )?;
            settle(one, other);
            assert!(one.test(&mut sending)?.is_some());
            assert_eq!(one.wait(ready).unwrap_err().cause, Cause::NotReady);
            let truncated = other.wait(late).map_err(|error| error.cause);
            let expected = Cause::Truncated { sent: 4 * rows, room: 0 };
            assert_eq!(truncated.map(|status| status.bytes), if rows > 0 { Err(expected) } else { Ok(0) });
            other.wait(receiving).map(drop)
        })
        .unwrap();
        assert_eq!(buffer, data);
    }
}

#[test]
fn what_does_not_fit_is_cut_between_elements() {
    let (mut job, mut tables) = (Job::new(2, Shape::default()), [Table::new(), Table::new()]);
    let mut ranks = with_tables(&mut job, &mut tables);
    let worlds = [ranks[0].world(), ranks[1].world()];
    for (rows, room) in [(2u64, 1u64), (10, 3), (100, 40)] {
        let data: Vec<u32> = (1..=rows as u32).collect();
        let mut spread = vec![0u32; room as usize * 2];
        let column = column(&mut ranks[1], room, 2);
        let error = together(&mut ranks, |one, other| {
            let into = TypedMut::new(&mut spread, 1, column);
            let receiving = other.irecv_typed(&worlds[1], into, Rank(0), Tag(1))?;
            let sending =
                one.isend_typed(&worlds[0], Typed::new(&data, rows, Basic::U32), Rank(1), Tag(1))?;
            settle(one, other);
            one.wait(sending)?;
            Ok(other.wait(receiving).unwrap_err())
        })
        .unwrap();
        assert_eq!(error.cause, Cause::Truncated { sent: 4 * rows, room: 4 * room });
        assert_eq!(error.bytes_done, 4 * room);
        assert!(spread.chunks(2).zip(1..).all(|(pair, number)| pair == [number, 0]));
        ranks[1].types().unwrap().free(column).unwrap();
    }
}

#[test]
fn a_type_lives_as_long_as_a_message_of_it_is_under_way() {
    let (mut job, mut tables) = (Job::new(2, Shape::default()), [Table::new(), Table::new()]);
    let mut ranks = with_tables(&mut job, &mut tables);
    let worlds = [ranks[0].world(), ranks[1].world()];
    let matrix: Vec<u32> = (0..1000).collect();
    let mut row = vec![0u32; 500];
    let first = column(&mut ranks[0], 500, 2);
    together(&mut ranks, |one, other| {
        let sending = one.isend_typed(&worlds[0], Typed::new(&matrix, 1, first), Rank(1), Tag(1))?;
        let types = one.types()?;
        types.free(first)?;
        assert_eq!(types.free(first), Err(Cause::Stale), "the message's hold is not the user's to free");
        assert_eq!(types.room().0, 7);
        // Another type does not take its slot.
        let other_type = types.contiguous(3, Basic::U8)?;
        let stale = one.isend_typed(&worlds[0], Typed::new(&matrix, 1, first), Rank(1), Tag(1));
        assert_eq!(stale.unwrap_err().cause, Cause::Stale);
        one.types()?.free(other_type)?;
        let receiving = other.irecv(&worlds[1], &mut row, Rank(0), Tag(1))?;
        settle(one, other);
        one.wait(sending)?;
        assert_eq!(one.types()?.room().0, 8);
        other.wait(receiving).map(drop)
    })
    .unwrap();
    assert!(row.iter().zip(0..).all(|(number, place)| *number == 2 * place));
}

#[test]
fn lent_memory_is_sent_from_and_received_to_at_a_time_and_guarded() {
    let (mut job, mut tables) = (Job::new(2, Shape::default()), [Table::new(), Table::new()]);
    let mut ranks = with_tables(&mut job, &mut tables);
    let worlds = [ranks[0].world(), ranks[1].world()];
    let (mut cells, mut row, numbers) = ([[0u32; 4]; 4], [0u32; 4], [100u32, 101, 102, 103]);
    cells.iter_mut().flatten().zip(0..).for_each(|(cell, number)| *cell = number);
    let slice = |start| [Slice { size: 4, count: 4, start: 0 }, Slice { size: 4, count: 1, start }];
    let types = ranks[0].types().unwrap();
    let [west, east] = [0, 3].map(|start| types.subarray(&slice(start), Order::C, Basic::U32).unwrap());
    let (west, east) = (types.commit(west).unwrap(), types.commit(east).unwrap());
    together(&mut ranks, |one, other| {
        let loan = one.lend(cells.as_flattened_mut());
        let receiving = one.irecv_typed(&worlds[0], TypedMut::lent(loan, 1, east), Rank(1), Tag(1))?;
        let sending = one.isend_typed(&worlds[0], Typed::lent(loan, 1, west), Rank(1), Tag(1))?;
        assert_eq!(one.edit(loan, 20..24, |_| ()).unwrap_err().cause, Cause::Busy);
        let back = other.isend(&worlds[1], &numbers, Rank(0), Tag(1))?;
        let there = other.irecv(&worlds[1], &mut row, Rank(0), Tag(1))?;
        settle(one, other);
        one.wait(sending)?;
        one.wait(receiving)?;
        one.edit(loan, 20..24, |_| ())?;
        other.wait_all(&mut [back, there])
    })
    .unwrap();
    assert_eq!(row, [0, 4, 8, 12]);
    assert_eq!(cells.map(|row| row[3]), [100, 101, 102, 103]);
}

#[test]
fn a_matched_message_is_received_by_its_types() {
    let (mut job, mut tables) = (Job::new(2, Shape::default()), [Table::new(), Table::new()]);
    let mut ranks = with_tables(&mut job, &mut tables);
    let worlds = [ranks[0].world(), ranks[1].world()];
    for rows in ROWS {
        let data: Vec<u32> = (0..rows as u32).collect();
        let mut spread = vec![9u32; rows as usize * 2];
        let column = column(&mut ranks[1], rows, 2);
        let (one, other) = ranks.split_at_mut(1);
        one[0]
            .scope(|one| {
                let typed = Typed::new(&data, rows, Basic::U32).checked();
                let sending = one.isend_typed(&worlds[0], typed, Rank(1), Tag(1))?;
                let refused = one.isend_typed(&worlds[0], typed, Rank(1), Tag(2))?;
                other[0].poll(64);
                other[0].scope(|other| {
                    let message = other.mprobe(&worlds[1], Source::Any, TagMatch::Any)?;
                    let into = TypedMut::new(&mut spread, 1, column);
                    let mut receiving = other.imrecv_typed(message, into)?;
                    while other.test(&mut receiving)?.is_none() {
                        one.poll(64);
                    }
                    other.types()?.free(column)?;
                    Ok(())
                })?;
                let message = other[0].mprobe(&worlds[1], Rank(0), Tag(2))?;
                let mut nothing = [0u32; 0];
                let stale = TypedMut::new(&mut nothing, 1, column);
                assert_eq!(other[0].mrecv_typed(message, stale).unwrap_err().cause, Cause::Stale);
                for _ in 0..9 {
                    one.poll(64);
                    other[0].poll(64);
                }
                one.wait_all(&mut [sending, refused])
            })
            .unwrap();
        assert!(spread.chunks(2).zip(0..).all(|(pair, row)| pair == [row, 9]), "{rows} rows");
        assert_eq!(ranks[1].types().unwrap().room().0, 8);
        assert_eq!(ranks[1].diagnostics().queue_depths(), (0, 0));
    }
}

#[test]
fn bad_arguments_have_names() {
    let (mut job, mut tables) = (Job::new(2, Shape::default()), [Table::new(), Table::new()]);
    let mut ranks = job.ranks();
    let rank = &mut ranks[0];
    let world = rank.world();
    let memory = pattern(1, 40);
    let none = rank.send_typed(&world, Typed::new(&memory, 1, Basic::F64), Rank(1), Tag(0)).unwrap_err();
    assert_eq!(none.cause, Cause::TooSmall { what: Resource::Datatypes, need: 1, have: 0 });
    assert_eq!(rank.types().unwrap_err().cause, none.cause);
    let [table, second] = &mut tables;
    rank.attach_types(table.types()).unwrap();
    assert_eq!(rank.attach_types(second.types()).unwrap_err().cause, Cause::Busy);
    let short = rank.send_typed(&world, Typed::new(&memory, 6, Basic::F64), Rank(1), Tag(0)).unwrap_err();
    assert_eq!(short.cause, Cause::TooBig { len: 48, max: 40 });
    let types = rank.types().unwrap();
    let below = types.hindexed_block(1, &[-8], Basic::F64).unwrap();
    let below = types.commit(below).unwrap();
    let mut into = [0u64; 2];
    let error = rank.recv_typed(&world, TypedMut::new(&mut into, 1, below), Rank(1), Tag(0)).unwrap_err();
    assert_eq!(error.cause, Cause::TooBig { len: 8, max: 0 });
    let range = rank.send_typed(&world, Typed::new(&memory, 1, Basic::F64), Rank(7), Tag(0)).unwrap_err();
    assert_eq!(range.cause, Cause::RankOutOfRange { rank: 7, size: 2 });
    rank.types().unwrap().free(below).unwrap();
    let stale = rank.send_typed(&world, Typed::new(&memory, 1, below), Rank(1), Tag(0)).unwrap_err();
    assert_eq!(stale.cause, Cause::Stale);
    assert_eq!(rank.types().unwrap().free(Basic::F64), Err(Cause::Predefined));
}

//! Use of datatypes in communication, section 5.1.11, and type matching, 3.3.

use aldis_hal::{Cause, Platform, Transport};
use aldis_kernel::datatype::{Basic, Committed, Field, Form, Order, Slice, TypeTable};
use aldis_kernel::plane::prelude::*;
use aldis_kernel::{Endpoint, Error, Rank, Source, Tag, TagMatch, Typed, TypedMut};

use super::super::Outcome;

cases! {
    "5.1.11", 2: a_column_is_received_as_a_row_whatever_its_length;
    "5.1.11", 2: what_is_between_the_elements_is_neither_sent_nor_touched;
    "5.1.11", 4: faces_of_a_box_are_exchanged_in_place;
    "5.1.11", 1: a_transposed_matrix_is_a_message_to_oneself;
    "3.3.1", 2: other_types_than_were_sent_are_an_error_and_the_next_is_none;
    "3.3.1", 2: bytes_are_received_as_anything_and_anything_as_bytes;
    "3.2.5", 2: a_count_of_what_came_is_of_whole_elements;
    "5.1.11", 2: a_receive_of_too_few_elements_says_so;
    "3.5", 2: typed_and_untyped_messages_share_one_order;
    "3.4", 2: a_typed_send_may_be_synchronous;
    "5.1.9", 2: a_type_may_be_freed_while_a_message_of_it_is_under_way;
    "3.3", 2: a_checksum_travels_with_a_message;
}

/// Gives the endpoint a table of datatypes, unless the simulator has given it one. It lives as long
/// as the endpoint, whatever that is.
pub(crate) fn attach<T: Transport, P: Platform>(ep: &mut Endpoint<'_, T, P>) -> Result<(), Error> {
    match ep.attach_types(Box::leak(Box::new(TypeTable::<8, 192>::new())).types()) {
        Err(error) if error.cause == Cause::Busy => Ok(()),
        attached => attached,
    }
}

/// A column of `rows` elements of a matrix with so many columns.
fn column<T: Transport, P: Platform>(
    ep: &mut Endpoint<'_, T, P>,
    rows: u64,
    columns: i64,
) -> Result<Committed, Box<dyn core::error::Error>> {
    let types = ep.types()?;
    let column = types.vector(rows, 1, columns, Basic::U32)?;
    Ok(types.commit(column)?)
}

fn a_column_is_received_as_a_row_whatever_its_length<T: Transport, P: Platform>(
    ep: &mut Endpoint<'_, T, P>,
) -> Outcome {
    let world = ep.world();
    attach(ep)?;
    for rows in [0, 1, 2, 6, 7, 40, 900] {
        let column = column(ep, rows, 5)?;
        let matrix: Vec<u32> = (0..5 * rows as u32).collect();
        if world.rank() == Rank(0) {
            let data = Typed::new(&matrix, 1, column).with_origin(if rows > 0 { 8 } else { 0 });
            ep.send_typed(&world, data, Rank(1), Tag(1))?;
        } else {
            let mut row = vec![0_u32; rows as usize];
            let status = ep.recv_typed(&world, TypedMut::new(&mut row, rows, Basic::U32), Rank(0), Tag(1))?;
            assert_eq!(status.bytes, 4 * rows);
            assert!((0..).zip(&row).all(|(at, element)| *element == 5 * at + 2));
        }
        ep.types()?.free(column)?;
    }
    Ok(())
}

fn what_is_between_the_elements_is_neither_sent_nor_touched<T: Transport, P: Platform>(
    ep: &mut Endpoint<'_, T, P>,
) -> Outcome {
    let world = ep.world();
    attach(ep)?;
    let types = ep.types()?;
    let particle = types.structure(&[Field::new(0, Basic::U8), Field::array(4, 3, Basic::U32)])?;
    let particle = types.commit(particle)?;
    for count in [1_u64, 3, 30, 200] {
        let bytes = 16 * count as usize;
        if world.rank() == Rank(0) {
            let memory: Vec<u8> = (0..bytes).map(|at| at as u8).collect();
            let sent = ep.send_typed(&world, Typed::new(&memory, count, particle), Rank(1), Tag(1))?;
            assert_eq!(sent.bytes, 13 * count);
            continue;
        }
        let mut memory = vec![0xEE_u8; bytes];
        ep.recv_typed(&world, TypedMut::new(&mut memory, count, particle), Rank(0), Tag(1))?;
        for (at, byte) in memory.into_iter().enumerate() {
            assert_eq!(byte, if (1..4).contains(&(at % 16)) { 0xEE } else { at as u8 }, "byte {at}");
        }
    }
    Ok(())
}

/// Boxes of 12 x 12 with a rim of one, in a ring: each sends its eastern edge straight into its
/// neighbour's western rim.
fn faces_of_a_box_are_exchanged_in_place<T: Transport, P: Platform>(ep: &mut Endpoint<'_, T, P>) -> Outcome {
    let world = ep.world();
    let (me, size) = (world.rank().0, world.size());
    let (east, west) = (Rank((me + 1) % size), Rank((me + size - 1) % size));
    attach(ep)?;
    let types = ep.types()?;
    let column = |start| [Slice { size: 12, count: 10, start: 1 }, Slice { size: 12, count: 1, start }];
    let (edge, rim) = (
        types.subarray(&column(10), Order::C, Basic::F64)?,
        types.subarray(&column(0), Order::C, Basic::F64)?,
    );
    let (edge, rim) = (types.commit(edge)?, types.commit(rim)?);
    let mut cells: Vec<f64> = (0..144).map(|at| f64::from(1000 * me + at)).collect();
    ep.scope(|scope| {
        let cells = scope.lend(&mut cells);
        let mut requests = [
            scope.irecv_typed(&world, TypedMut::lent(cells, 1, rim), west, Tag(1))?,
            scope.isend_typed(&world, Typed::lent(cells, 1, edge), east, Tag(1))?,
        ];
        scope.wait_all(&mut requests)
    })?;
    for (at, cell) in (0..).zip(cells) {
        let is_rim = at % 12 == 0 && (1..11).contains(&(at / 12));
        assert_eq!(cell, f64::from(if is_rim { 1000 * west.0 + at + 10 } else { 1000 * me + at }));
    }
    Ok(())
}

fn a_transposed_matrix_is_a_message_to_oneself<T: Transport, P: Platform>(
    ep: &mut Endpoint<'_, T, P>,
) -> Outcome {
    let world = ep.world();
    attach(ep)?;
    let types = ep.types()?;
    let column = types.vector(20, 1, 30, Basic::U32)?;
    let column = types.resized(column, 0, 4)?;
    let columns = types.commit(column)?;
    let matrix: Vec<u32> = (0..600).collect();
    let mut turned = vec![0_u32; 600];
    let (data, into) = (Typed::new(&matrix, 30, columns), TypedMut::new(&mut turned, 600, Basic::U32));
    ep.sendrecv_typed(&world, data, Rank(0), Tag(1), into, Rank(0), Tag(1))?;
    assert!((0..).zip(turned).all(|(at, element)| element == at % 20 * 30 + at / 20));
    Ok(())
}

fn other_types_than_were_sent_are_an_error_and_the_next_is_none<T: Transport, P: Platform>(
    ep: &mut Endpoint<'_, T, P>,
) -> Outcome {
    let world = ep.world();
    attach(ep)?;
    for count in [2, 50, 700] {
        let mut numbers = vec![7_u32; count];
        let elements = count as u64;
        if world.rank() == Rank(0) {
            for _ in 0..2 {
                ep.send_typed(&world, Typed::new(&numbers, elements, Basic::U32), Rank(1), Tag(1))?;
            }
            continue;
        }
        let wrong = TypedMut::new(&mut numbers, elements, Basic::F32);
        let error = ep.recv_typed(&world, wrong, Rank(0), Tag(1)).expect_err("they are no floats");
        assert!(matches!(error.cause, Cause::SignatureMismatch { .. }), "{error}");
        let right = TypedMut::new(&mut numbers, elements, Basic::U32);
        assert_eq!(ep.recv_typed(&world, right, Rank(0), Tag(1))?.bytes, 4 * elements);
    }
    Ok(())
}

fn bytes_are_received_as_anything_and_anything_as_bytes<T: Transport, P: Platform>(
    ep: &mut Endpoint<'_, T, P>,
) -> Outcome {
    let world = ep.world();
    attach(ep)?;
    let column = column(ep, 30, 2)?;
    let (mut bytes, mut comb) = (vec![0_u32; 30], vec![0_u32; 60]);
    if world.rank() == Rank(0) {
        ep.send(&world, &(0..30).collect::<Vec<u32>>(), Rank(1), Tag(1))?;
        let source: Vec<u32> = (0..60).collect();
        ep.send_typed(&world, Typed::new(&source, 1, column), Rank(1), Tag(1))?;
        return Ok(());
    }
    ep.recv_typed(&world, TypedMut::new(&mut comb, 1, column), Rank(0), Tag(1))?;
    ep.recv(&world, &mut bytes, Rank(0), Tag(1))?;
    assert!((0..).zip(comb).all(|(at, element)| element == if at % 2 == 0 { at / 2 } else { 0 }));
    assert!((0..).zip(bytes).all(|(at, element)| element == 2 * at));
    Ok(())
}

fn a_count_of_what_came_is_of_whole_elements<T: Transport, P: Platform>(
    ep: &mut Endpoint<'_, T, P>,
) -> Outcome {
    let world = ep.world();
    attach(ep)?;
    let types = ep.types()?;
    let pair = types.contiguous(2, Basic::U16)?;
    let pair = types.commit(pair)?;
    let mut memory = [0_u16; 12];
    if world.rank() == Rank(0) {
        ep.send_typed(&world, Typed::new(&[9_u16; 6], 3, pair), Rank(1), Tag(1))?;
        ep.send_typed(&world, Typed::new(&[9_u16; 7], 7, Basic::U16), Rank(1), Tag(1))?;
        return Ok(());
    }
    let status = ep.recv_typed(&world, TypedMut::new(&mut memory, 6, pair), Rank(0), Tag(1))?;
    assert_eq!(ep.types()?.count(pair, Form::Native, status.bytes)?, 3);
    assert_eq!(memory, [9, 9, 9, 9, 9, 9, 0, 0, 0, 0, 0, 0]);
    let status = ep.recv_typed(&world, TypedMut::new(&mut memory, 6, pair), Rank(0), Tag(1))?;
    assert_eq!(ep.types()?.elements(pair, Form::Native, status.bytes)?, 7);
    assert!(ep.types()?.count(pair, Form::Native, status.bytes).is_err(), "three and a half");
    Ok(())
}

fn a_receive_of_too_few_elements_says_so<T: Transport, P: Platform>(ep: &mut Endpoint<'_, T, P>) -> Outcome {
    let world = ep.world();
    attach(ep)?;
    for count in [3_usize, 40, 500] {
        let column = column(ep, count as u64 - 1, 2)?;
        if world.rank() == Rank(0) {
            let numbers: Vec<u32> = (1..=count as u32).collect();
            ep.send_typed(&world, Typed::new(&numbers, count as u64, Basic::U32), Rank(1), Tag(1))?;
        } else {
            let mut memory = vec![0_u32; 2 * count];
            let into = TypedMut::new(&mut memory, 1, column);
            let error = ep.recv_typed(&world, into, Rank(0), Tag(1)).expect_err("there is one too many");
            let (sent, room) = (4 * count as u64, 4 * (count as u64 - 1));
            assert_eq!(error.cause, Cause::Truncated { sent, room });
            let came: Vec<u32> = memory.iter().copied().step_by(2).take(count - 1).collect();
            assert!(
                came == (1..count as u32).collect::<Vec<_>>()
                    && memory.iter().skip(1).step_by(2).all(|gap| *gap == 0)
            );
        }
        ep.types()?.free(column)?;
    }
    Ok(())
}

fn typed_and_untyped_messages_share_one_order<T: Transport, P: Platform>(
    ep: &mut Endpoint<'_, T, P>,
) -> Outcome {
    let world = ep.world();
    attach(ep)?;
    let length = |number: u32| [1, 30, 6, 400][number as usize % 4];
    if world.rank() == Rank(0) {
        let data: Vec<_> = (0..24).map(|number| vec![number; length(number)]).collect();
        ep.scope(|scope| {
            let mut sends = Vec::new();
            for (number, data) in data.iter().enumerate() {
                sends.push(if number % 3 == 0 {
                    scope.isend(&world, data, Rank(1), Tag(1))?
                } else {
                    let typed = Typed::new(data, data.len() as u64, Basic::U32);
                    scope.isend_typed(&world, typed, Rank(1), Tag(1))?
                });
            }
            scope.wait_all(&mut sends)
        })?;
        return Ok(());
    }
    for number in 0..24 {
        let mut buffer = vec![99_u32; length(number)];
        if number % 2 == 0 {
            ep.recv(&world, &mut buffer, Source::Any, TagMatch::Any)?;
        } else {
            let into = TypedMut::new(&mut buffer, length(number) as u64, Basic::U32);
            ep.recv_typed(&world, into, Rank(0), Tag(1))?;
        }
        assert!(buffer.iter().all(|element| *element == number), "message {number}");
    }
    Ok(())
}

fn a_typed_send_may_be_synchronous<T: Transport, P: Platform>(ep: &mut Endpoint<'_, T, P>) -> Outcome {
    let world = ep.world();
    attach(ep)?;
    for rows in [1, 50, 700] {
        let column = column(ep, rows, 3)?;
        let mut matrix: Vec<u32> = (0..3 * rows as u32).collect();
        if world.rank() == Rank(0) {
            ep.send_typed(&world, Typed::new(&matrix, 1, column).synchronous(), Rank(1), Tag(1))?;
            ep.send::<u8>(&world, &[], Rank(1), Tag(2))?;
        } else {
            ep.probe(&world, Rank(0), Tag(1))?;
            for _ in 0..10 {
                assert_eq!(
                    ep.iprobe(&world, Rank(0), Tag(2))?,
                    None,
                    "it is sent after the first is matched"
                );
            }
            matrix.fill(0);
            ep.recv_typed(&world, TypedMut::new(&mut matrix, 1, column), Rank(0), Tag(1))?;
            assert!((0..).zip(&matrix).all(|(at, element)| *element == if at % 3 == 0 { at } else { 0 }));
            ep.recv::<u8>(&world, &mut [], Rank(0), Tag(2))?;
        }
        ep.types()?.free(column)?;
    }
    Ok(())
}

fn a_type_may_be_freed_while_a_message_of_it_is_under_way<T: Transport, P: Platform>(
    ep: &mut Endpoint<'_, T, P>,
) -> Outcome {
    let world = ep.world();
    attach(ep)?;
    for _ in 0..10 {
        let column = column(ep, 300, 2)?;
        let mut matrix: Vec<u32> = (0..600).collect();
        ep.scope(|scope| {
            let memory = scope.lend(&mut matrix);
            let request = if world.rank() == Rank(0) {
                scope.isend_typed(&world, Typed::lent(memory, 1, column), Rank(1), Tag(1))?
            } else {
                scope.irecv_typed(&world, TypedMut::lent(memory, 1, column), Rank(0), Tag(1))?
            };
            let freed = scope.types()?.free(column);
            assert_eq!(freed, Ok(()));
            assert_eq!(scope.types()?.size(column), Err(Cause::Stale));
            scope.wait(request)
        })?;
        assert!((0..).zip(&matrix).all(|(at, element)| *element == at));
    }
    Ok(())
}

fn a_checksum_travels_with_a_message<T: Transport, P: Platform>(ep: &mut Endpoint<'_, T, P>) -> Outcome {
    let world = ep.world();
    attach(ep)?;
    for rows in [0_u64, 1, 6, 40, 900] {
        let column = column(ep, rows, 2)?;
        let matrix: Vec<u32> = (0..2 * rows as u32).map(|at| at.wrapping_mul(0x9E37_79B9)).collect();
        let mut into = vec![0_u32; 2 * rows as usize];
        if world.rank() == Rank(0) {
            ep.send_typed(&world, Typed::new(&matrix, 1, column).checked(), Rank(1), Tag(1))?;
        } else {
            ep.recv_typed(&world, TypedMut::new(&mut into, 1, column), Rank(0), Tag(1))?;
            let same = |(at, (came, sent)): (usize, (&u32, &u32))| at % 2 == 1 || came == sent;
            assert!(into.iter().zip(&matrix).enumerate().all(same));
        }
        ep.types()?.free(column)?;
    }
    Ok(())
}

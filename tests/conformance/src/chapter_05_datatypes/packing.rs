//! Constructors, extents, pack and unpack: sections 5.1 to 5.3.

use aldis_hal::{Cause, Platform, Transport};
use aldis_kernel::datatype::{Basic, Convertor, Field, Form, IndexedBlock, Order, Slice, TypeTable};
use aldis_kernel::{Endpoint, Rank, Tag};

use super::super::Outcome;

cases! {
    "5.1.2", 2: a_column_is_sent_and_received_as_a_row;
    "5.1.2", 2: scattered_blocks_arrive_where_they_belong;
    "5.1.2", 2: structures_travel_without_their_padding;
    "5.1.3", 4: the_rim_of_a_block_is_its_neighbours_edge;
    "5.1.7", 1: extents_are_where_the_next_element_begins;
    "5.1.9", 1: a_freed_type_is_stale_and_what_was_made_of_it_is_not;
    "5.1.11", 1: a_convertor_starts_at_any_byte_of_the_stream;
    "5.2", 2: parts_are_packed_one_behind_the_other_and_unpacked_so;
    "5.2", 1: what_does_not_fit_is_not_packed;
    "5.3", 2: external32_is_the_same_bytes_everywhere;
}

/// The result of a call whose failure is told by its cause alone.
type PackingResult = Result<(), Cause>;

fn a_column_is_sent_and_received_as_a_row<T: Transport, P: Platform>(ep: &mut Endpoint<'_, T, P>) -> Outcome {
    let world = ep.world();
    let mut table = TypeTable::<8, 128>::new();
    let mut types = table.types();
    let column = types.vector(20, 1, 7, Basic::U8)?;
    let column = types.commit(column)?;
    let matrix: Vec<u8> = (0..140).collect();
    let mut row = [0_u8; 20];
    if world.rank() == Rank(0) {
        types.pack(Form::Native, &matrix[3..], 1, column, &mut row, &mut 0)?;
        ep.send(&world, &row, Rank(1), Tag(1))?;
        return Ok(());
    }
    ep.recv(&world, &mut row, Rank(0), Tag(1))?;
    assert!((0..).zip(row).all(|(index, byte)| byte == 7 * index + 3));
    Ok(())
}

fn scattered_blocks_arrive_where_they_belong<T: Transport, P: Platform>(
    ep: &mut Endpoint<'_, T, P>,
) -> Outcome {
    let world = ep.world();
    let mut table = TypeTable::<8, 128>::new();
    let mut types = table.types();
    let blocks =
        [(3, 10), (1, 0), (2, 5)].map(|(length, displacement)| IndexedBlock { length, displacement });
    let scattered = types.indexed(&blocks, Basic::U16)?;
    let scattered = types.commit(scattered)?;
    let numbers: Vec<u8> = (0..13_u16).flat_map(|number| (100 + number).to_ne_bytes()).collect();
    let mut stream = [0_u8; 12];
    if world.rank() == Rank(0) {
        types.pack(Form::Native, &numbers, 1, scattered, &mut stream, &mut 0)?;
        ep.send(&world, &stream, Rank(1), Tag(1))?;
        return Ok(());
    }
    ep.recv(&world, &mut stream, Rank(0), Tag(1))?;
    let mut memory = [0_u8; 26];
    types.unpack(Form::Native, &stream, &mut 0, &mut memory, 1, scattered)?;
    for (at, pair) in memory.chunks(2).enumerate() {
        let due = if [10, 11, 12, 0, 5, 6].contains(&at) { 100 + at as u16 } else { 0 };
        assert_eq!(u16::from_ne_bytes([pair[0], pair[1]]), due, "element {at}");
    }
    Ok(())
}

fn structures_travel_without_their_padding<T: Transport, P: Platform>(
    ep: &mut Endpoint<'_, T, P>,
) -> Outcome {
    let world = ep.world();
    let mut table = TypeTable::<8, 128>::new();
    let mut types = table.types();
    let particle = types.structure(&[Field::new(0, Basic::U8), Field::array(8, 2, Basic::F64)])?;
    let particle = types.commit(particle)?;
    assert_eq!((types.size(particle)?, types.extent(particle)?.extent), (17, 24));
    let mut stream = [0_u8; 3 * 17];
    if world.rank() == Rank(0) {
        let memory: Vec<u8> = (0..72).collect();
        types.pack(Form::Native, &memory, 3, particle, &mut stream, &mut 0)?;
        ep.send(&world, &stream, Rank(1), Tag(1))?;
        return Ok(());
    }
    let status = ep.recv(&world, &mut stream, Rank(0), Tag(1))?;
    assert_eq!(types.count(particle, Form::Native, status.bytes)?, 3);
    let mut memory = [0xEE_u8; 72];
    types.unpack(Form::Native, &stream, &mut 0, &mut memory, 3, particle)?;
    for (at, byte) in (0..).zip(memory) {
        assert_eq!(byte, if (1..8).contains(&(at % 24)) { 0xEE } else { at }, "byte {at}");
    }
    Ok(())
}

/// Blocks of 6 x 6 with a rim of one, in a ring from west to east.
fn the_rim_of_a_block_is_its_neighbours_edge<T: Transport, P: Platform>(
    ep: &mut Endpoint<'_, T, P>,
) -> Outcome {
    let world = ep.world();
    let (me, size) = (world.rank().0, world.size());
    let (east, west) = (Rank((me + 1) % size), Rank((me + size - 1) % size));
    let mut table = TypeTable::<8, 128>::new();
    let mut types = table.types();
    let column = |start| [Slice { size: 6, count: 4, start: 1 }, Slice { size: 6, count: 1, start }];
    let edge = types.subarray(&column(4), Order::C, Basic::U8)?;
    let rim = types.subarray(&column(0), Order::C, Basic::U8)?;
    let (edge, rim) = (types.commit(edge)?, types.commit(rim)?);
    let mut cells: Vec<u8> = (0..36).map(|at| (36 * me) as u8 + at).collect();
    let (mut out, mut into) = ([0_u8; 4], [0_u8; 4]);
    types.pack(Form::Native, &cells, 1, edge, &mut out, &mut 0)?;
    ep.sendrecv(&world, &out, east, Tag(1), &mut into, west, Tag(1))?;
    types.unpack(Form::Native, &into, &mut 0, &mut cells, 1, rim)?;
    for (at, cell) in (0..).zip(&cells) {
        let is_rim = at % 6 == 0 && (1..5).contains(&(at / 6));
        let due = if is_rim { (36 * west.0) as u8 + at + 4 } else { (36 * me) as u8 + at };
        assert_eq!(*cell, due, "cell {at}");
    }
    Ok(())
}

fn extents_are_where_the_next_element_begins<T: Transport, P: Platform>(
    _: &mut Endpoint<'_, T, P>,
) -> Outcome {
    let mut table = TypeTable::<8, 128>::new();
    let mut types = table.types();
    let column = types.vector(3, 1, 4, Basic::U8)?;
    assert_eq!((types.extent(column)?.extent, types.size(column)?), (9, 3));
    let column = types.resized(column, 0, 1)?;
    let bounds = (types.extent(column)?.extent, types.true_extent(column)?.extent);
    assert_eq!(bounds, (1, 9));
    let column = types.commit(column)?;
    let (matrix, mut packed): (Vec<u8>, _) = ((0..12).collect(), [0; 12]);
    types.pack(Form::Native, &matrix, 4, column, &mut packed, &mut 0)?;
    assert_eq!(packed, [0, 4, 8, 1, 5, 9, 2, 6, 10, 3, 7, 11], "the matrix on its side");
    Ok(())
}

fn a_freed_type_is_stale_and_what_was_made_of_it_is_not<T: Transport, P: Platform>(
    _: &mut Endpoint<'_, T, P>,
) -> Outcome {
    let mut table = TypeTable::<4, 128>::new();
    let mut types = table.types();
    let pair = types.contiguous(2, Basic::U8)?;
    let pairs = types.vector(2, 1, 2, pair)?;
    types.free(pair)?;
    assert_eq!(types.size(pair), Err(Cause::Stale));
    let pairs = types.commit(pairs)?;
    let mut packed = [0; 4];
    types.pack(Form::Native, &[1, 2, 3, 4, 5, 6], 1, pairs, &mut packed, &mut 0)?;
    assert_eq!(packed, [1, 2, 5, 6]);
    // Made and freed again and again, types take no room for good.
    for _ in 0..50 {
        let made = types.contiguous(3, Basic::U32)?;
        let more = types.contiguous(2, made)?;
        types.free(made)?;
        types.free(more)?;
    }
    Ok(())
}

fn a_convertor_starts_at_any_byte_of_the_stream<T: Transport, P: Platform>(
    _: &mut Endpoint<'_, T, P>,
) -> Outcome {
    let mut table = TypeTable::<8, 128>::new();
    let mut types = table.types();
    let column = types.vector(10, 3, 5, Basic::U8)?;
    let column = types.commit(column)?;
    let memory: Vec<u8> = (0..50).collect();
    let whole: Vec<u8> = (0..50).filter(|at| at % 5 < 3).collect();
    let mut convertor = Convertor::new(&types, column, 1, Form::Native)?;
    assert_eq!(convertor.packed_len(), 30);
    for (start, len) in [(17, 5), (0, 30), (29, 1), (4, 11)] {
        let mut piece = vec![0; len];
        convertor.set_position(start as u64)?;
        assert_eq!(convertor.pack(&types, &memory, &mut piece)?, len);
        assert_eq!(piece, whole[start..start + len]);
    }
    Ok(())
}

fn parts_are_packed_one_behind_the_other_and_unpacked_so<T: Transport, P: Platform>(
    ep: &mut Endpoint<'_, T, P>,
) -> Outcome {
    let world = ep.world();
    let mut table = TypeTable::<8, 128>::new();
    let mut types = table.types();
    let comb = types.vector(4, 1, 2, Basic::U8)?;
    let comb = types.commit(comb)?;
    let bytes = types.pack_size(Basic::U32, 1, Form::Native)? + types.pack_size(comb, 2, Form::Native)?;
    assert_eq!(bytes, 12);
    let (mut packed, mut position) = ([0_u8; 12], 0);
    if world.rank() == Rank(0) {
        let teeth: Vec<u8> = (0..14).collect();
        types.pack(Form::Native, &77_u32.to_ne_bytes(), 1, Basic::U32, &mut packed, &mut position)?;
        types.pack(Form::Native, &teeth, 2, comb, &mut packed, &mut position)?;
        assert_eq!(position, 12);
        ep.send(&world, &packed, Rank(1), Tag(1))?;
        return Ok(());
    }
    ep.recv(&world, &mut packed, Rank(0), Tag(1))?;
    let (mut number, mut teeth) = ([0; 4], [0_u8; 14]);
    types.unpack(Form::Native, &packed, &mut position, &mut number, 1, Basic::U32)?;
    types.unpack(Form::Native, &packed, &mut position, &mut teeth, 2, comb)?;
    assert_eq!((u32::from_ne_bytes(number), position), (77, 12));
    assert_eq!(teeth, [0, 0, 2, 0, 4, 0, 6, 7, 0, 9, 0, 11, 0, 13]);
    Ok(())
}

fn what_does_not_fit_is_not_packed<T: Transport, P: Platform>(_: &mut Endpoint<'_, T, P>) -> Outcome {
    let mut table = TypeTable::<8, 128>::new();
    let types = table.types();
    let (mut packed, mut position) = ([0xEE_u8; 8], 3);
    let refused: PackingResult = types.pack(Form::Native, &[1; 8], 6, Basic::U8, &mut packed, &mut position);
    assert_eq!((refused.is_err(), packed, position), (true, [0xEE; 8], 3));
    let mut memory = [0xEE_u8; 8];
    let refused: PackingResult =
        types.unpack(Form::Native, &packed, &mut position, &mut memory, 6, Basic::U8);
    assert_eq!((refused.is_err(), memory, position), (true, [0xEE; 8], 3));
    Ok(())
}

fn external32_is_the_same_bytes_everywhere<T: Transport, P: Platform>(
    ep: &mut Endpoint<'_, T, P>,
) -> Outcome {
    let world = ep.world();
    let mut table = TypeTable::<8, 128>::new();
    let mut types = table.types();
    let record = types.structure(&[
        Field::new(0, Basic::U16),
        Field::new(4, Basic::I32),
        Field::new(8, Basic::F64),
    ])?;
    let record = types.commit(record)?;
    let mut memory = [0_u8; 16];
    memory[..2].copy_from_slice(&0x0102_u16.to_ne_bytes());
    memory[4..8].copy_from_slice(&(-2_i32).to_ne_bytes());
    memory[8..].copy_from_slice(&1.5_f64.to_ne_bytes());
    let mut stream = [0_u8; 14];
    if world.rank() == Rank(0) {
        types.pack(Form::External32, &memory, 1, record, &mut stream, &mut 0)?;
        ep.send(&world, &stream, Rank(1), Tag(1))?;
        return Ok(());
    }
    ep.recv(&world, &mut stream, Rank(0), Tag(1))?;
    assert_eq!(stream, [1, 2, 0xFF, 0xFF, 0xFF, 0xFE, 0x3F, 0xF8, 0, 0, 0, 0, 0, 0]);
    let mut back = [0_u8; 16];
    types.unpack(Form::External32, &stream, &mut 0, &mut back, 1, record)?;
    assert_eq!(back, memory);
    Ok(())
}

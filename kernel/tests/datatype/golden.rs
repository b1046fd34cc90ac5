//! Bytes, shapes and sizes that are known without the kernel.

use aldis_kernel::datatype::{
    Basic, Combiner, Committed, Contents, Convertor, DataSpan, Distribution, Extent, Field, Form,
    IndexedBlock, Order, Slice, Spread, TypeTable, Types,
};
use aldis_kernel::hal::Cause;

/// MPI 4.1, I/O, "External Data Representation": big-endian, IEEE, two's complement; wide
/// characters of two bytes, addresses of eight.
#[test]
fn external32_is_what_the_standard_says() {
    let mut table = TypeTable::<4, 100>::new();
    let mut types = table.types();
    let parts: [(Basic, Vec<u8>, &[u8]); 10] = [
        (Basic::U16, 0x0102u16.to_ne_bytes().into(), &[1, 2]),
        (Basic::I32, (-2i32).to_ne_bytes().into(), &[0xff, 0xff, 0xff, 0xfe]),
        (Basic::F32, 1.5f32.to_ne_bytes().into(), &[0x3f, 0xc0, 0, 0]),
        (Basic::F64, (-2f64).to_ne_bytes().into(), &[0xc0, 0, 0, 0, 0, 0, 0, 0]),
        (Basic::Byte, vec![7], &[7]),
        (Basic::WideChar, u32::from('λ').to_ne_bytes().into(), &[0x03, 0xbb]),
        (Basic::Isize, (-3isize).to_ne_bytes().into(), &[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xfd]),
        (Basic::U64, 0x0102_0304_0506_0708u64.to_ne_bytes().into(), &[1, 2, 3, 4, 5, 6, 7, 8]),
        (Basic::Long, (-2i64).to_ne_bytes().into(), &[0xff, 0xff, 0xff, 0xfe]),
        (Basic::UnsignedLong, 0xfedc_ba98u64.to_ne_bytes().into(), &[0xfe, 0xdc, 0xba, 0x98]),
    ];
    let (mut memory, mut fields, mut expected) = (Vec::new(), Vec::new(), Vec::new());
    for (basic, native, external) in &parts {
        fields.push(Field::new(memory.len(), *basic));
        memory.extend(native);
        expected.extend_from_slice(external);
    }
    let all = types.structure(&fields).unwrap();
    let all = types.commit(all).unwrap();
    let mut stream = vec![0; expected.len() + 1];
    let mut position = 1;
    types.pack(Form::External32, &memory, 1, all, &mut stream, &mut position).unwrap();
    assert_eq!((&stream[1..], position), (&expected[..], stream.len()));
    let mut back = vec![0; memory.len()];
    types.unpack(Form::External32, &stream, &mut 1, &mut back, 1, all).unwrap();
    assert_eq!(back, memory);
}

/// Arrays of what is alike in messages and not in external32, and of both.
#[test]
fn long_numbers_are_short_in_external32_in_any_array() {
    let mut table = TypeTable::<8, 200>::new();
    let mut types = table.types();
    for parts in
        [[Basic::Long; 2], [Basic::I64; 2], [Basic::Long, Basic::I64], [Basic::U64, Basic::UnsignedLong]]
    {
        let both = types.structure(&[Field::new(0, parts[0]), Field::new(8, parts[1])]).unwrap();
        let rows = types.contiguous(3, both).unwrap();
        let rows = types.commit(rows).unwrap();
        let numbers: [u64; 6] = core::array::from_fn(|at| 0x0102_0304 + at as u64);
        let memory: Vec<u8> = numbers.iter().flat_map(|number| number.to_ne_bytes()).collect();
        let expected: Vec<u8> = numbers
            .iter()
            .zip(parts.iter().cycle())
            .flat_map(|(number, part)| number.to_be_bytes()[8 - part.external_size()..].to_vec())
            .collect();
        let (mut stream, mut back) = (vec![0; expected.len()], vec![0; memory.len()]);
        types.pack(Form::External32, &memory, 1, rows, &mut stream, &mut 0).unwrap();
        assert_eq!(stream, expected, "{parts:?}");
        types.unpack(Form::External32, &stream, &mut 0, &mut back, 1, rows).unwrap();
        assert_eq!(back, memory);
        types.free(rows).unwrap();
        types.free(both).unwrap();
    }
    let wide = (1_u64 << 32).to_ne_bytes();
    let refused = Cause::Unrepresentable { magnitude: 1 << 32, negative: false, bytes: 4 };
    let packed = types.pack(Form::External32, &wide, 1, Basic::UnsignedLong, &mut [0; 4], &mut 0);
    assert_eq!(packed, Err(refused));
}

/// MPI 4.1, 5.1, first example: a double and a character have an extent of two doubles.
#[test]
fn a_structure_is_padded_to_its_alignment() {
    let mut table = TypeTable::<4, 100>::new();
    let mut types = table.types();
    let datatype = types.structure(&[Field::new(0, Basic::F64), Field::new(8, Basic::Char)]).unwrap();
    let padded = 8 + Basic::F64.alignment() as i64;
    assert_eq!(types.extent(datatype), Ok(Extent { lower_bound: 0, extent: padded }));
    assert_eq!(types.true_extent(datatype), Ok(Extent { lower_bound: 0, extent: 9 }));
    assert_eq!(types.size(datatype), Ok(9));
}

#[test]
fn what_is_one_run_of_bytes_is_known_as_such() {
    let mut table = TypeTable::<12, 200>::new();
    let mut types = table.types();
    let row = types.contiguous(4, Basic::F32).unwrap();
    let rows = types.vector(3, 1, 1, row).unwrap();
    let halves = [IndexedBlock { length: 1, displacement: 1 }, IndexedBlock { length: 2, displacement: 2 }];
    let joined = types.indexed(&halves, rows).unwrap();
    let mixed = types.structure(&[Field::new(0, Basic::U32), Field::new(4, Basic::F32)]).unwrap();
    let gap = types.structure(&[Field::new(0, Basic::U32), Field::new(8, Basic::F32)]).unwrap();
    // Three bytes from the first to the end of the last, but not in order.
    let ends = types.hvector(2, 1, 2, Basic::U8).unwrap();
    let woven = types.structure(&[Field::new(0, ends), Field::new(1, Basic::U8)]).unwrap();
    // As long as what comes before its second part, but with a gap in it.
    let apart = types.hvector(2, 1, 3, Basic::U8).unwrap();
    let loose = types.structure(&[Field::new(0, apart), Field::new(2, Basic::U8)]).unwrap();
    let two = [(joined, Some(48..336)), (mixed, Some(0..16)), (gap, None), (woven, None)];
    let one = [(joined, Some(48..192)), (mixed, Some(0..8)), (gap, None), (woven, None), (loose, None)];
    for (count, ranges) in [(2, &two[..]), (1, &one)] {
        for (datatype, range) in ranges {
            let committed = types.commit(*datatype).unwrap();
            let convertor = Convertor::new(&types, committed, count, Form::Native).unwrap();
            assert_eq!(convertor.contiguous(&types).unwrap(), *range, "{count}");
        }
    }
    // Regular types in each other, and regular blocks, are one level.
    assert_eq!([row, rows, joined, mixed].map(|datatype| types.depth(datatype).unwrap()), [1, 1, 1, 1]);
}

/// Neighbouring columns of a matrix are interleaved, which is not overlap; and that takes no look
/// at each element.
#[test]
fn columns_are_seen_to_keep_clear_of_each_other() {
    let mut table = TypeTable::<4, 100>::new();
    let mut types = table.types();
    let column = types.vector(1000, 1, 5, Basic::F64).unwrap();
    let next = |types: &mut Types<'_>, bytes| types.resized(column, 0, bytes).unwrap();
    let (column, half) = (next(&mut types, 8), next(&mut types, 4));
    assert_eq!(types.overlaps(column, 5, &mut []), Ok(false));
    let mut spans = [DataSpan::default(); 6000];
    assert_eq!(types.overlaps(column, 6, &mut spans), Ok(true), "the sixth is the first, a row below");
    assert_eq!(types.overlaps(half, 2, &mut spans), Ok(true));
    assert_eq!(types.overlaps(half, 2, &mut spans[..1999]), Err(Cause::TooBig { len: 2000, max: 1999 }));
}

#[test]
fn a_type_tells_what_it_was_made_of() {
    let mut table = TypeTable::<16, 400>::new();
    let mut types = table.types();
    let blocks = [IndexedBlock { length: 2, displacement: -3 }, IndexedBlock { length: 0, displacement: 9 }];
    let indexed = types.indexed(&blocks, Basic::U16).unwrap();
    let Contents::Indexed(told) = types.contents(indexed).unwrap() else { panic!("an indexed type") };
    assert!(told.iter().eq(blocks));
    let fields = [Field::new(4, indexed), Field::array(0, 3, Basic::F64)];
    let structure = types.structure(&fields).unwrap();
    let envelope = types.envelope(structure).unwrap();
    assert_eq!((envelope.combiner, envelope.components), (Combiner::Struct, 2));
    assert_eq!(types.component(structure, 1), Ok(Basic::F64.into()));

    let slices = [Slice { size: 5, count: 2, start: 1 }, Slice { size: 7, count: 7, start: 0 }];
    let subarray = types.subarray(&slices, Order::Fortran, structure).unwrap();
    let Contents::Subarray { order: Order::Fortran, slices: told } = types.contents(subarray).unwrap() else {
        panic!("a subarray in Fortran's order")
    };
    assert!(told.iter().eq(slices));
    let spreads = [
        Spread { size: 9, distribution: Distribution::Cyclic(Some(2)), processes: 2 },
        Spread { size: 3, distribution: Distribution::Block(None), processes: 3 },
        Spread { size: 4, distribution: Distribution::None, processes: 1 },
    ];
    let darray = types.darray(5, &spreads, Order::C, Basic::Byte).unwrap();
    let Contents::Darray { rank: 5, order: Order::C, spreads: told } = types.contents(darray).unwrap() else {
        panic!("the sixth process of a darray in C's order")
    };
    assert!(told.iter().eq(spreads));
    let resized = types.resized(darray, -4, -8).unwrap();
    assert!(matches!(types.contents(resized), Ok(Contents::Resized { lower_bound: -4, extent: -8 })));
    assert_eq!(types.extent(resized), Ok(Extent { lower_bound: -4, extent: -8 }));
}

/// MPI 4.1, 5.1.9: freeing a type does not affect those that were made of it; its parts can be
/// asked for again.
#[test]
fn a_part_lives_as_long_as_the_whole() {
    let mut table = TypeTable::<3, 100>::new();
    let mut types = table.types();
    let pair = types.hvector(2, 1, 12, Basic::U32).unwrap();
    let pairs = types.contiguous(3, pair).unwrap();
    types.free(pair).unwrap();
    assert_eq!(types.free(pair), Err(Cause::Stale));
    assert_eq!(types.room().0, 1, "the slot of the pair is still in use");
    let again = types.component(pairs, 0).unwrap();
    assert_ne!(again, pair, "a freed handle does not come back to life");
    assert_eq!(types.size(pair), Err(Cause::Stale));
    types.free(pairs).unwrap();
    assert_eq!(types.extent(again), Ok(Extent { lower_bound: 0, extent: 16 }));
    types.retain(again).unwrap();
    types.free(again).unwrap();
    assert_eq!(types.size(again), Ok(8));
    types.free(again).unwrap();
    assert_eq!(types.room(), (3, 100));
}

#[test]
fn a_pending_convertor_notices_that_its_type_was_freed() {
    let mut table = TypeTable::<1, 20>::new();
    let mut types = table.types();
    let datatype = types.vector(2, 1, 2, Basic::Byte).unwrap();
    let committed = types.commit(datatype).unwrap();
    let mut convertor = Convertor::new(&types, committed, 1, Form::Native).unwrap();
    types.free(datatype).unwrap();
    types.contiguous(7, Basic::F64).unwrap();
    assert_eq!(convertor.pack(&types, &[0; 3], &mut [0; 2]), Err(Cause::Stale));
    assert_eq!(types.commit(datatype), Err(Cause::Stale));
}

#[test]
fn basic_types_need_no_table() {
    let mut table = TypeTable::<0, 0>::new();
    let types = table.types();
    let numbers = [1u16, 2, 3].map(u16::to_ne_bytes);
    let mut stream = [0; 6];
    types.pack(Form::External32, numbers.as_flattened(), 3, Basic::U16, &mut stream, &mut 0).unwrap();
    assert_eq!(stream, [0, 1, 0, 2, 0, 3]);
    assert_eq!(types.pack_size(Committed::from(Basic::U16), 3, Form::Native), Ok(6));
}

//! Arguments that no honest caller would give: a typed error, never a panic, and the table as it
//! was.

use aldis_kernel::datatype::{
    Basic, Convertor, DEPTH_MAX, DIMENSIONS_MAX, DataSpan, Datatype, Distribution, Field, Form, IndexedBlock,
    Order, Slice, Spread, TypeTable, Types,
};
use aldis_kernel::hal::Cause;
use proptest::prelude::*;

/// Numbers at the edges of what can be counted, and some small ones.
fn edge() -> impl Strategy<Value = u64> {
    let edges = [0, 1, 2, 3, 1 << 31, 1 << 32, 1 << 62, i64::MAX as u64, (1 << 63) + 1, u64::MAX];
    prop_oneof![3 => prop::sample::select(edges.to_vec()), 1 => any::<u64>()]
}

fn signed() -> impl Strategy<Value = i64> {
    edge().prop_map(u64::cast_signed)
}

/// A call of a constructor with anything.
#[derive(Clone, Debug)]
struct ConstructorCall {
    kind: u8,
    counts: [u64; 3],
    numbers: [i64; 3],
    of: prop::sample::Index,
}

fn calls() -> impl Strategy<Value = Vec<ConstructorCall>> {
    let call =
        (0u8..14, [edge(), edge(), edge()], [signed(), signed(), signed()], any::<prop::sample::Index>())
            .prop_map(|(kind, counts, numbers, of)| ConstructorCall { kind, counts, numbers, of });
    prop::collection::vec(call, 1..12)
}

fn make(types: &mut Types<'_>, call: &ConstructorCall, of: Datatype) -> Result<Datatype, Cause> {
    let ([a, b, c], [x, y, z]) = (call.counts, call.numbers);
    let blocks = [IndexedBlock { length: a, displacement: x }, IndexedBlock { length: b, displacement: y }];
    let slices = [Slice { size: a, count: b, start: c }, Slice { size: b, count: c, start: a }];
    let order = if a & 1 == 0 { Order::C } else { Order::Fortran };
    match call.kind {
        0 => types.contiguous(a, of),
        1 => types.vector(a, b, x, of),
        2 => types.hvector(a, b, x, of),
        3 => types.indexed(&blocks, of),
        4 => types.hindexed(&blocks, of),
        5 => types.indexed_block(a, &[x, y, z], of),
        6 => types.hindexed_block(a, &[x, y, z], of),
        7 => types.structure(&[
            Field { length: a, displacement: x, datatype: of },
            Field { length: b, displacement: y, datatype: Basic::WideChar.into() },
        ]),
        8 => types.subarray(&slices, order, of),
        9 => types.subarray(&[Slice { size: a, count: b, start: 0 }; 17], order, of),
        10 => types.resized(of, x, y),
        11 => types.duplicate(of),
        _ => {
            let distribution = match b % 5 {
                0 => Distribution::None,
                1 => Distribution::Block(None),
                2 => Distribution::Block(Some(c)),
                3 => Distribution::Cyclic(None),
                _ => Distribution::Cyclic(Some(c)),
            };
            types.darray(x as u32, &[Spread { size: a, distribution, processes: y as u64 }; 2], order, of)
        }
    }
}

/// Does all that can be done with a type that may be absurd.
fn use_it(types: &Types<'_>, datatype: Datatype, count: u64, position: u64) {
    let committed = types.commit(datatype).unwrap();
    let (extent, data) = (types.extent(datatype).unwrap(), types.true_extent(datatype).unwrap());
    assert!(data.extent >= 0);
    assert!(extent.lower_bound.checked_add(extent.extent).is_some());
    let _ = types.signature(datatype, count);
    let _ =
        (types.count(datatype, Form::Native, position), types.elements(datatype, Form::External32, position));
    let _ = types.overlaps(datatype, count, &mut [DataSpan::default(); 8]);
    assert!(types.type_map(datatype, count).into_iter().flatten().take(50).count() <= 50);
    for form in [Form::Native, Form::External32] {
        let Ok(mut convertor) = Convertor::new(types, committed, count, form) else { continue };
        let _ = convertor.contiguous(types);
        let position = position.checked_rem(convertor.packed_len()).unwrap_or(0);
        convertor.set_position(position).unwrap();
        assert_eq!(
            convertor.set_position(convertor.packed_len() + 1),
            Err(Cause::TooBig { len: convertor.packed_len() + 1, max: convertor.packed_len() })
        );
        let mut memory = [0; 64];
        let _ = convertor.pack(types, &memory, &mut [0; 40]);
        let _ = convertor.with_origin(isize::MIN).unpack(types, &mut memory, &[0; 40]);
        let _ = convertor.with_origin(32).unpack(types, &mut memory, &[0; 40]);
        let _ = convertor.with_origin(isize::MAX).unpack(types, &mut memory, &[0; 40]);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1500))]

    #[test]
    fn no_argument_makes_it_panic(calls in calls(), count in edge(), position in any::<u64>()) {
        let mut table = TypeTable::<8, 150>::new();
        let mut types = table.types();
        let mut made: Vec<Datatype> = vec![Basic::U8.into(), Basic::F64.into(), Basic::WideChar.into()];
        for call in &calls {
            let before = types.room();
            match make(&mut types, call, made[call.of.index(made.len())]) {
                Ok(datatype) => made.push(datatype),
                Err(_) => prop_assert_eq!(types.room(), before),
            }
        }
        for datatype in &made {
            use_it(&types, *datatype, count, position);
        }
        for datatype in made {
            let freed = types.free(datatype);
            prop_assert_eq!(freed.is_ok(), datatype.basic().is_none());
        }
        prop_assert_eq!(types.room(), (8, 150));
    }
}

#[test]
fn handles_that_name_nothing_are_stale() {
    let mut table = TypeTable::<2, 20>::new();
    let mut types = table.types();
    let nothing = Datatype::default();
    assert_eq!(types.size(nothing), Err(Cause::Stale));
    assert_eq!(types.contiguous(1, nothing), Err(Cause::Stale));
    assert_eq!(types.free(nothing), Err(Cause::Stale));
    assert_eq!(types.commit(nothing), Err(Cause::Stale));
    assert_eq!(types.room(), (2, 20));
}

/// A handle of one table names something in another one, too: never anything outside the memory,
/// and not less than was promised.
#[test]
fn a_convertor_that_meets_another_table_moves_nothing_wrong() {
    let (mut table, mut other) = (TypeTable::<2, 20>::new(), TypeTable::<2, 20>::new());
    let mut types = table.types();
    let datatype = types.contiguous(5, Basic::U32).unwrap();
    let datatype = types.commit(datatype).unwrap();
    let mut convertor = Convertor::new(&types, datatype, 1, Form::Native).unwrap();
    let mut others = other.types();
    others.contiguous(4, Basic::U32).unwrap();
    assert_eq!(convertor.pack(&others, &[7; 20], &mut [0; 20]), Err(Cause::Stale));
    assert_eq!(convertor.position(), 0);
}

#[test]
fn a_full_table_says_so_and_stays_as_it_is() {
    let mut table = TypeTable::<2, 20>::new();
    let mut types = table.types();
    let one = types.contiguous(2, Basic::U8).unwrap();
    let room = types.room();
    assert!(matches!(types.indexed_block(1, &[0, 5, 7, 11, 12, 19], one), Err(Cause::Full(_))));
    assert_eq!(types.room(), room);
    types.contiguous(2, one).unwrap();
    assert!(matches!(types.contiguous(2, one), Err(Cause::Full(_))));
}

/// A list in a list in a list, as irregular as can be so that nothing is simplified.
#[test]
fn nesting_ends_where_it_is_said_to() {
    let mut table = TypeTable::<{ DEPTH_MAX + 1 }, 500>::new();
    let mut types = table.types();
    let mut datatype: Datatype = Basic::U8.into();
    for depth in 0..DEPTH_MAX {
        assert_eq!(types.depth(datatype), Ok(depth));
        let second = types.extent(datatype).unwrap().extent + 1;
        let fields = [Field::new(0, datatype), Field::new(second as usize, Basic::U16)];
        datatype = types.structure(&fields).unwrap();
    }
    let (len, max) = (DEPTH_MAX as u64 + 1, DEPTH_MAX as u64);
    let fields = [Field::new(0, datatype), Field::new(1 << 40, Basic::U16)];
    assert_eq!(types.structure(&fields), Err(Cause::TooBig { len, max }));
    let committed = types.commit(datatype).unwrap();
    let size = types.size(datatype).unwrap();
    let memory: Vec<u8> = (0..types.true_extent(datatype).unwrap().extent).map(|byte| byte as u8).collect();
    for position in 0..size {
        let mut convertor = Convertor::new(&types, committed, 1, Form::Native).unwrap();
        convertor.set_position(position).unwrap();
        let mut byte = [0];
        convertor.pack(&types, &memory, &mut byte).unwrap();
        let map = types.type_map(datatype, 1).unwrap();
        let bytes =
            map.flat_map(|entry| (0..entry.basic.size() as i64).map(move |byte| entry.displacement + byte));
        assert_eq!(i64::from(byte[0]), bytes.into_iter().nth(position as usize).unwrap() & 0xff);
    }
}

#[test]
fn arrays_of_wrong_shape_are_refused() {
    let mut table = TypeTable::<2, 200>::new();
    let mut types = table.types();
    let outside = Slice { size: 4, count: 3, start: 2 };
    assert_eq!(types.subarray(&[outside], Order::C, Basic::U8), Err(Cause::TooBig { len: 5, max: 4 }));
    assert!(types.subarray(&[], Order::C, Basic::U8).is_err());
    assert!(
        types
            .subarray(&[Slice { size: 1, count: 1, start: 0 }; DIMENSIONS_MAX + 1], Order::C, Basic::U8)
            .is_err()
    );
    let spread = |distribution, processes| [Spread { size: 10, distribution, processes }];
    for wrong in [
        spread(Distribution::None, 2),
        spread(Distribution::Block(Some(4)), 2),
        spread(Distribution::Cyclic(Some(0)), 2),
        spread(Distribution::Cyclic(None), 0),
    ] {
        assert!(types.darray(0, &wrong, Order::C, Basic::U8).is_err(), "{wrong:?}");
    }
    assert_eq!(
        types.darray(2, &spread(Distribution::Block(None), 2), Order::C, Basic::U8),
        Err(Cause::RankOutOfRange { rank: 2, size: 2 })
    );
    assert_eq!(types.room(), (2, 200));
}

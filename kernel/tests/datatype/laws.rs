//! Type maps, bounds, sizes, signatures and overlap are what MPI defines them to be.

use aldis_kernel::datatype::{
    Basic, Convertor, DataSpan, Distribution, Form, Order, Signature, Spread, TypeTable,
};
use aldis_kit::datatypes::{Recipe, recipes};
use proptest::prelude::*;

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn a_type_is_its_type_map(recipe in recipes(), count in 0u64..4) {
        let mut table = Box::new(TypeTable::<40, 2000>::new());
        let mut types = table.types();
        let datatype = recipe.build(&mut types).unwrap();
        let one = recipe.map();
        let map: Vec<_> = types.type_map(datatype, 1).unwrap().map(|entry| (entry.displacement, entry.basic)).collect();
        prop_assert_eq!(&map, &one.entries);
        let all: Vec<_> =
            types.type_map(datatype, count).unwrap().map(|entry| (entry.displacement, entry.basic)).collect();
        prop_assert_eq!(&all, &one.times(count).entries);

        let bounds = types.extent(datatype).unwrap();
        prop_assert_eq!((bounds.lower_bound, bounds.lower_bound + bounds.extent), one.bounds());
        let data = types.true_extent(datatype).unwrap();
        prop_assert_eq!((data.lower_bound, data.lower_bound + data.extent), one.true_bounds());
        prop_assert_eq!(types.size(datatype).unwrap(), one.size());
        let committed = types.commit(datatype).unwrap();
        prop_assert_eq!(types.pack_size(committed, count, Form::Native).unwrap(), count * one.size());
        let external: usize = one.entries.iter().map(|(_, basic)| basic.external_size()).sum();
        prop_assert_eq!(types.pack_size(committed, count, Form::External32).unwrap(), count * external as u64);
    }

    #[test]
    fn a_signature_is_that_of_the_sequence(recipe in recipes(), count in 0u64..4) {
        let mut table = Box::new(TypeTable::<40, 2000>::new());
        let mut types = table.types();
        let datatype = recipe.build(&mut types).unwrap();
        let mut expected = Signature::EMPTY;
        for (_, basic) in recipe.map().times(count).entries {
            expected = expected.then(types.signature(basic, 1).unwrap());
        }
        prop_assert_eq!(types.signature(datatype, count).unwrap(), expected);
    }

    #[test]
    fn a_part_of_a_stream_is_counted(recipe in recipes(), external in any::<bool>()) {
        let form = if external { Form::External32 } else { Form::Native };
        let mut table = Box::new(TypeTable::<40, 2000>::new());
        let mut types = table.types();
        let datatype = recipe.build(&mut types).unwrap();
        let (mut bytes, mut elements) = (0, 0);
        for count in 0..3 {
            prop_assert_eq!(types.elements(datatype, form, bytes), Ok(elements));
            let counted = types.count(datatype, form, bytes);
            prop_assert_eq!(counted, Ok(if recipe.map().entries.is_empty() { 0 } else { count }));
            for (_, basic) in recipe.map().entries {
                let width = if external { basic.external_size() } else { basic.size() } as u64;
                for within in 1..width {
                    prop_assert!(types.elements(datatype, form, bytes + within).is_err());
                    prop_assert!(types.count(datatype, form, bytes + within).is_err());
                }
                (bytes, elements) = (bytes + width, elements + 1);
                prop_assert_eq!(types.elements(datatype, form, bytes), Ok(elements));
            }
        }
    }

    #[test]
    fn overlap_is_found_exactly(recipe in recipes(), count in 1u64..4) {
        let mut table = Box::new(TypeTable::<40, 2000>::new());
        let mut types = table.types();
        let datatype = recipe.build(&mut types).unwrap();
        let mut scratch = vec![DataSpan::default(); 2000];
        prop_assert_eq!(types.overlaps(datatype, count, &mut scratch).unwrap(), recipe.map().times(count).overlaps());
    }

    /// Whatever was made is freed: all slots and words come back, in whatever order.
    #[test]
    fn a_freed_type_leaves_nothing(recipes in prop::collection::vec(recipes(), 1..5), order in any::<prop::sample::Index>()) {
        let mut table = Box::new(TypeTable::<80, 8000>::new());
        let mut types = table.types();
        let mut live: Vec<_> = recipes.iter().map(|recipe| (recipe.build(&mut types).unwrap(), recipe)).collect();
        while !live.is_empty() {
            let (gone, _) = live.remove(order.index(live.len()));
            if gone.basic().is_none() {
                types.free(gone).unwrap();
                prop_assert!(types.free(gone).is_err());
            }
            for (datatype, recipe) in &live {
                let map: Vec<_> =
                    types.type_map(*datatype, 1).unwrap().map(|entry| (entry.displacement, entry.basic)).collect();
                prop_assert_eq!(map, recipe.map().entries);
            }
        }
        prop_assert_eq!(types.room(), (80, 8000));
    }
}

/// Every small distribution beside a cyclic one: each piece is what its definition says, byte for
/// byte from every position, and all pieces together are the array.
#[test]
fn the_pieces_of_an_array_make_the_array() {
    for (size, processes, block) in
        (0..10).flat_map(|s| (1..4).flat_map(move |p| (1..5).map(move |b| (s, p, b))))
    {
        let distribution = match block {
            4 => Distribution::Block(None),
            _ => Distribution::Cyclic(Some(block)),
        };
        let other = Spread { size: 5, distribution: Distribution::Cyclic(Some(2)), processes: 2 };
        let spreads = [Spread { size, distribution, processes }, other];
        let mut bytes = Vec::new();
        for rank in 0..2 * processes as u32 {
            let order = if rank % 2 == 0 { Order::C } else { Order::Fortran };
            let all = if order == Order::C { spreads } else { [other, spreads[0]] };
            // The same process, whichever way the grid is numbered.
            let (place, of_other) = (u64::from(rank) / 2, u64::from(rank) % 2);
            let rank = if order == Order::C { rank } else { (of_other * processes + place) as u32 };
            bytes.extend(check_piece(&Recipe::Darray(
                rank,
                all.to_vec(),
                order,
                Recipe::Basic(Basic::U8).into(),
            )));
        }
        bytes.sort_unstable();
        assert!(bytes.into_iter().eq(0..5 * size as u8), "{spreads:?}");
    }
}

/// Checks a piece of an array of bytes, and tells where its bytes lie.
fn check_piece(recipe: &Recipe) -> Vec<u8> {
    let mut table = TypeTable::<1, 32>::new();
    let mut types = table.types();
    let datatype = recipe.build(&mut types).unwrap();
    let entries = recipe.map().entries;
    let map = types.type_map(datatype, 1).unwrap().map(|entry| (entry.displacement, entry.basic));
    assert!(map.eq(entries.iter().copied()), "{recipe:?}");
    let committed = types.commit(datatype).unwrap();
    let mut convertor = Convertor::new(&types, committed, 1, Form::Native).unwrap();
    let memory: [u8; 45] = core::array::from_fn(|place| place as u8);
    let expected: Vec<u8> = entries.iter().map(|(place, _)| *place as u8).collect();
    for position in 0..expected.len() {
        let mut rest = vec![0; expected.len() - position];
        convertor.set_position(position as u64).unwrap();
        convertor.pack(&types, &memory, &mut rest).unwrap();
        assert_eq!(rest, expected[position..], "{recipe:?} from {position}");
    }
    expected
}

/// Loops in loops at every small distance: what joins, what interleaves and what overlaps.
#[test]
fn loops_in_loops_are_what_they_say() {
    for (outer, inner) in (-9..10).flat_map(|outer| (-9..10).map(move |inner| (outer, inner))) {
        let pair = Recipe::Hvector(2, 1, inner, Recipe::Basic(Basic::U16).into());
        check_loops(&Recipe::Hvector(3, 2, outer, pair.into()));
        let spread = Spread { size: 7, distribution: Distribution::Cyclic(Some(2)), processes: 2 };
        let piece = Recipe::Darray(1, vec![spread], Order::C, Recipe::Basic(Basic::U8).into());
        let piece = Recipe::Resized(inner, outer, piece.into());
        check_loops(&Recipe::Contiguous(3, piece.into()));
    }
}

fn check_loops(recipe: &Recipe) {
    let mut table = TypeTable::<3, 64>::new();
    let mut types = table.types();
    let datatype = recipe.build(&mut types).unwrap();
    for count in 1..3 {
        let expected = recipe.map().times(count);
        let map = types.type_map(datatype, count).unwrap().map(|entry| (entry.displacement, entry.basic));
        assert!(map.eq(expected.entries.iter().copied()), "{count} of {recipe:?}");
        let overlaps = types.overlaps(datatype, count, &mut [DataSpan::default(); 24]).unwrap();
        assert_eq!(overlaps, expected.overlaps(), "{count} of {recipe:?}");
    }
}

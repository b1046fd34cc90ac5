//! Type maps, bounds, sizes, signatures and overlap are what MPI defines them to be.

use aldis_kernel::datatype::{Form, Signature, Span, TypeTable};
use proptest::prelude::*;

use crate::recipes::recipes;

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
    fn overlap_is_found_exactly(recipe in recipes(), count in 1u64..4) {
        let mut table = Box::new(TypeTable::<40, 2000>::new());
        let mut types = table.types();
        let datatype = recipe.build(&mut types).unwrap();
        let mut scratch = vec![Span::default(); 2000];
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

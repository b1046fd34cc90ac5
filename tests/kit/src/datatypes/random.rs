//! Random types: all constructors, nested; strides and bounds of both signs, counts and lengths of
//! zero.

use aldis_kernel::datatype::{Basic, Distribution, Order, Slice, Spread};
use proptest::collection::vec;
use proptest::prelude::*;

use super::Recipe;

/// Entries that a map may have for the tests to take it.
pub const ENTRIES_MAX: u64 = 600;

/// Draws types of at most [`ENTRIES_MAX`] entries.
pub fn recipes() -> impl Strategy<Value = Recipe> {
    let basic = prop::sample::select(Basic::ALL.to_vec()).prop_map(Recipe::Basic);
    let nested = basic.prop_recursive(4, 10, 3, |of| {
        prop_oneof![
            3 => strided(of.clone()),
            3 => scattered(of.clone()),
            2 => vec((0u64..3, -40i64..80, of.clone()), 0..4).prop_map(Recipe::Struct),
            1 => arrays(of.clone()),
            1 => (-20i64..20, -30i64..60, of.clone()).prop_map(|(low, extent, of)| Recipe::Resized(low, extent, of.into())),
            1 => of.prop_map(|of| Recipe::Dup(of.into())),
        ]
    });
    nested.prop_filter("too many entries", |recipe| recipe.entries() <= ENTRIES_MAX)
}

fn strided(of: impl Strategy<Value = Recipe> + Clone) -> impl Strategy<Value = Recipe> {
    (0..3, 0u64..5, 0u64..4, -6i64..7, of).prop_map(|(kind, count, length, stride, of)| match kind {
        0 => Recipe::Contiguous(count, of.into()),
        1 => Recipe::Vector(count, length, stride, of.into()),
        _ => Recipe::Hvector(count, length, stride * 5, of.into()),
    })
}

fn scattered(of: impl Strategy<Value = Recipe> + Clone) -> impl Strategy<Value = Recipe> {
    (0..4, 0u64..3, vec((0u64..4, -6i64..7), 0..5), of).prop_map(|(kind, length, blocks, of)| {
        let displacements = blocks.iter().map(|(_, at)| *at).collect();
        match kind {
            0 => Recipe::Indexed(blocks, of.into()),
            1 => {
                Recipe::Hindexed(blocks.into_iter().map(|(length, at)| (length, at * 7)).collect(), of.into())
            }
            2 => Recipe::IndexedBlock(length, displacements, of.into()),
            _ => Recipe::HindexedBlock(length, displacements.iter().map(|at| at * 9).collect(), of.into()),
        }
    })
}

fn arrays(of: impl Strategy<Value = Recipe> + Clone + 'static) -> impl Strategy<Value = Recipe> {
    let order = prop::bool::ANY.prop_map(|c| if c { Order::C } else { Order::Fortran });
    let slice = (0u64..5).prop_flat_map(|size| {
        (0..=size).prop_flat_map(move |start| {
            (0..=size - start).prop_map(move |count| Slice { size, count, start })
        })
    });
    let subarray = (vec(slice, 1..4), order.clone(), of.clone())
        .prop_map(|(slices, order, of)| Recipe::Subarray(slices, order, of.into()));
    let darray = (vec(spread(), 1..4), 0u32..100, order, of).prop_map(|(spreads, rank, order, of)| {
        let processes: u64 = spreads.iter().map(|spread| spread.processes).product();
        Recipe::Darray(rank % processes as u32, spreads, order, of.into())
    });
    prop_oneof![subarray, darray]
}

fn spread() -> impl Strategy<Value = Spread> {
    (0u64..7, 1u64..4, 0..5, 1u64..4).prop_map(|(size, processes, kind, block)| {
        let (distribution, processes) = match kind {
            0 => (Distribution::None, 1),
            1 => (Distribution::Block(None), processes),
            2 => (Distribution::Block(Some(size.div_ceil(processes) + block - 1)), processes),
            3 => (Distribution::Cyclic(None), processes),
            _ => (Distribution::Cyclic(Some(block)), processes),
        };
        Spread { size, distribution, processes }
    })
}

//! All-to-all of datatypes: random types against the naive interpreter of type maps, and blocks
//! that lie between each other.

mod neighbors;
mod refusals;

use aldis_coll::alltoall::Linear;
use aldis_coll::catalog::algorithms;
use aldis_coll::layout::{Block, TypedBlock};
use aldis_coll::{Options, alltoallw, alltoallw_typed, wait_all};
use aldis_kernel::datatype::{Basic, Committed, Datatype, TypeTable, Types};
use aldis_kernel::hal::{Cause, Operation};
use proptest::prelude::*;

use aldis_kit::datatypes::{Recipe, TypeMap, recipes};
use aldis_tests::thread_jobs::{Endpoint, run, run_with_requests};

type Table = TypeTable<48, 8000>;

/// The byte that no data is.
const GAP: u8 = 0xA5;
/// Entries of a block at most.
const ENTRIES_MAX: usize = 60;

fn attach(endpoint: &mut Endpoint<'_, '_>) {
    endpoint.attach_types(Box::leak(Box::new(Table::new())).types()).unwrap();
}

/// Every algorithm that can, and the one that selection takes.
fn each(size: u32) -> impl Iterator<Item = Options> {
    let known = algorithms(Operation::Alltoallw).iter().filter(move |known| known.serves(size));
    known.map(|known| Options::using(*known)).chain([Options::default()])
}

/// The data that one rank has for another.
#[derive(Clone, Debug)]
struct Given {
    recipe: Recipe,
    count: u64,
    /// True if it is received as it was sent, or element by element elsewhere.
    as_sent: bool,
}

/// Every element by itself, the last one lowest, with gaps between them: of the same signature.
fn backwards(map: &TypeMap) -> Recipe {
    let place = |at: usize| map.entries[at + 1..].iter().map(|(_, basic)| basic.size() as i64 + 1).sum();
    let field = |(at, (_, basic)): (usize, &(i64, Basic))| (1, place(at), Recipe::Basic(*basic));
    Recipe::Struct(map.entries.iter().enumerate().map(field).collect())
}

impl Given {
    /// Returns the types and counts of the sender and of the receiver.
    fn sides(&self) -> [(Recipe, u64); 2] {
        let map = self.recipe.map().times(self.count);
        let sent = (self.recipe.clone(), self.count);
        let came = if self.as_sent && !map.overlaps() { sent.clone() } else { (backwards(&map), 1) };
        [sent, came]
    }
}

/// A buffer of blocks with their type maps.
#[derive(Default)]
struct BlockSide {
    blocks: Vec<TypedBlock>,
    maps: Vec<TypeMap>,
    memory: Vec<u8>,
}

impl BlockSide {
    /// Blocks behind each other, with gaps between.
    fn new(parts: impl Iterator<Item = (Recipe, u64)>, types: &mut Types<'_>) -> Self {
        let mut side = Self::default();
        for (recipe, count) in parts {
            let datatype = recipe.build(types).unwrap();
            let map = recipe.map().times(count);
            assert_eq!(types.size(datatype).unwrap() * count, map.size());
            let (low, high) = map.true_bounds();
            let origin = (side.memory.len() as i64 + 3 - low) as isize;
            side.memory.resize((origin as i64 + high) as usize, GAP);
            side.blocks.push(TypedBlock::new(origin, count, types.commit(datatype).unwrap()));
            side.maps.push(map);
        }
        side
    }

    /// Sets the elements of a block, in the order of its type map.
    fn fill(&mut self, block: usize, mut byte: impl FnMut() -> u8) {
        for (at, basic) in &self.maps[block].entries {
            let place = self.blocks[block].origin + *at as isize;
            self.memory[place.cast_unsigned()..][..basic.size()].fill_with(&mut byte);
        }
    }
}

/// Bytes of what `from` has for `to`.
fn bytes(seed: u32, from: usize, to: usize) -> impl FnMut() -> u8 {
    let mut state = seed ^ (from as u32) << 16 ^ (to as u32) << 8 ^ 1;
    move || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (state >> 24) as u8
    }
}

fn given() -> impl Strategy<Value = Given> {
    (recipes(), 0u64..3, any::<bool>())
        .prop_filter("too many entries", |(recipe, count, _)| {
            (recipe.entries() * count) as usize <= ENTRIES_MAX
        })
        .prop_map(|(recipe, count, as_sent)| Given { recipe, count, as_sent })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    /// By every algorithm, nonblocking two at a time, and persistent, started again with other
    /// input.
    #[test]
    fn blocks_of_random_types_arrive_element_by_element(
        (size, all) in (1..=4usize).prop_flat_map(|size| (Just(size), prop::collection::vec(given(), size * size))),
        seed: u32,
    ) {
        run(size as u32, |endpoint| {
            attach(endpoint);
            let (world, rank) = (endpoint.world(), endpoint.world().rank().0 as usize);
            let types = endpoint.types().unwrap();
            let mut input = BlockSide::new(
                (0..size).map(|to| { let [sent, _] = all[rank * size + to].sides(); sent }), types);
            let mut data = BlockSide::new(
                (0..size).map(|from| { let [_, came] = all[from * size + rank].sides(); came }), types);
            let blank = data.memory.clone();
            let mut fill = |seed: u32| {
                for other in 0..size {
                    // Entries of what is sent may overlap: the last one counts, here and in the
                    // message.
                    input.fill(other, bytes(seed, rank, other));
                }
                input.memory.clone()
            };
            let inputs = [fill(seed), fill(!seed)];
            // What others send, as their memory has it.
            let expected = [seed, !seed].map(|seed| {
                data.memory.clone_from(&blank);
                for from in 0..size {
                    let [sent, _] = all[from * size + rank].sides();
                    let elements = elements(&sent, bytes(seed, from, rank));
                    let mut elements = elements.into_iter();
                    data.fill(from, || elements.next().unwrap());
                }
                data.memory.clone()
            });
            for options in each(size as u32) {
                let mut came = blank.clone();
                alltoallw_typed(&inputs[0], &input.blocks, &mut came, &data.blocks)
                    .with(&options).run(endpoint, &world).unwrap();
                assert_eq!(came, expected[0], "{options:?}");
            }
            let (mut one, mut other, mut again) = (blank.clone(), blank.clone(), blank.clone());
            let mut edited = inputs[0].clone();
            let (a, b, c, edited) = (&mut one, &mut other, &mut again, &mut edited);
            endpoint.scope(|scope| {
                let mut made =
                    alltoallw_typed(edited, &input.blocks, c, &data.blocks).persistent(scope, &world)?;
                let mut flying = [
                    alltoallw_typed(&inputs[0], &input.blocks, a, &data.blocks).start(scope, &world)?,
                    alltoallw_typed(&inputs[1], &input.blocks, b, &data.blocks).start(scope, &world)?,
                ];
                for start in 0..2 {
                    made.edit_input(scope, |bytes: &mut [u8]| bytes.copy_from_slice(&inputs[start]))?;
                    made.start(scope)?;
                    made.wait(scope)?;
                    made.edit(scope, |came: &mut [u8]| assert_eq!(came, &expected[start][..]))?;
                }
                wait_all(scope, &mut flying)
            }).unwrap();
            assert_eq!([one, other], expected);
        });
    }
}

/// The bytes of a block's elements in the order of its type map, as they are in memory after all
/// are written there.
fn elements((recipe, count): &(Recipe, u64), mut byte: impl FnMut() -> u8) -> Vec<u8> {
    let map = recipe.map().times(*count);
    let (low, high) = map.true_bounds();
    let mut memory = vec![0; (high - low) as usize];
    let place = |at: i64, basic: Basic| (at - low) as usize..(at - low) as usize + basic.size();
    for (at, basic) in &map.entries {
        memory[place(*at, *basic)].fill_with(&mut byte);
    }
    map.entries.iter().flat_map(|(at, basic)| memory[place(*at, *basic)].to_vec()).collect()
}

fn commit(types: &mut Types<'_>, made: Result<Datatype, Cause>) -> Committed {
    types.commit(made.unwrap()).unwrap()
}

/// The types by which ranks that have `edge` rows each of a square matrix get as many columns of
/// it: what is given, rows of `edge` numbers, and one column of what comes, a count of which are
/// columns side by side.
fn turned(endpoint: &mut Endpoint<'_, '_>, edge: usize, side: usize) -> [Committed; 2] {
    let types = endpoint.types().unwrap();
    let given = types.vector(edge as u64, edge as u64, side as i64, Basic::F64);
    let given = commit(types, given);
    let column = types.vector(edge as u64, 1, side as i64, Basic::F64).unwrap();
    let column = types.resized(column, 0, size_of::<f64>() as i64);
    [given, commit(types, column)]
}

/// Rows become columns: the blocks of all ranks lie between each other, on both sides, and are
/// short or long.
fn turn(endpoint: &mut Endpoint<'_, '_>, edge: usize) {
    let (world, rank) = (endpoint.world(), endpoint.world().rank().0 as usize);
    let size = world.size() as usize;
    let side = edge * size;
    let [part, column] = turned(endpoint, edge, side);
    let number = |row: usize, column: usize| (row * side + column) as f64;
    let rows: Vec<f64> = (0..edge * side).map(|at| number(rank * edge + at / side, at % side)).collect();
    let columns: Vec<f64> = (0..edge * side).map(|at| number(at % side, rank * edge + at / side)).collect();
    let places = (0..size).map(|other| (other * edge * size_of::<f64>()).cast_signed());
    let given: Vec<_> = places.clone().map(|origin| TypedBlock::new(origin, 1, part)).collect();
    let blocks: Vec<_> = places.map(|origin| TypedBlock::new(origin, edge as u64, column)).collect();
    for options in each(size as u32) {
        let mut data = vec![0.0; edge * side];
        alltoallw_typed(&rows, &given, &mut data, &blocks).with(&options).run(endpoint, &world).unwrap();
        assert_eq!(data, columns, "{options:?}");
    }
}

#[test]
fn a_matrix_of_rows_becomes_one_of_columns() {
    for size in [1, 2, 3, 5, 9] {
        run(size, |endpoint| {
            attach(endpoint);
            [0, 1, 4, 40].into_iter().for_each(|edge| turn(endpoint, edge));
        });
    }
}

/// Typed messages take a request slot each, also short ones.
#[test]
fn few_request_slots_are_enough() {
    for size in [2, 5, 7] {
        let turn = |endpoint: &mut Endpoint<'_, '_>| {
            attach(endpoint);
            [3, 40].into_iter().for_each(|edge| turn(endpoint, edge));
        };
        run_with_requests::<4, _>(size, turn);
        run_with_requests::<5, _>(size, turn);
    }
}

/// A rank that has no bytes for another sends nothing, whatever types both say it by.
#[test]
fn blocks_without_bytes_take_no_messages() {
    let left = run(4, |endpoint| {
        attach(endpoint);
        let (world, rank) = (endpoint.world(), endpoint.world().rank().0);
        let types = endpoint.types().unwrap();
        let nothing = types.structure(&[]);
        let nothing = commit(types, nothing);
        // Only the next rank gets something.
        let something = TypedBlock::new(2, 3, Basic::U16);
        let mut given = vec![TypedBlock::empty(); 4];
        // Where it would lie does not matter.
        let mut blocks = vec![TypedBlock::new(99, 7, nothing); 4];
        given[(rank as usize + 1) % 4] = something;
        blocks[(rank as usize + 3) % 4] = something;
        let (input, mut data) = ([rank as u16; 4], [9; 4]);
        alltoallw_typed(&input, &given, &mut data, &blocks).run(endpoint, &world).unwrap();
        let before = (rank as u16 + 3) % 4;
        assert_eq!(data, [9, before, before, before]);
        // What rank 0 sends here comes after all that it has sent before.
        aldis_coll::barrier()
            .with(&Options::using(&aldis_coll::barrier::Linear))
            .run(endpoint, &world)
            .unwrap();
        endpoint.diagnostics().queue_depths()
    });
    assert_eq!(left, [(0, 0); 4]);
}

#[test]
fn named_algorithms_are_taken() {
    run(3, |endpoint| {
        attach(endpoint);
        let world = endpoint.world();
        let list = [TypedBlock::new(0, 1, Basic::U8); 3];
        let (given, mut data) = ([1_u8], [0_u8]);
        endpoint
            .scope(|scope| {
                let options = Options::using(&Linear);
                let mut started =
                    alltoallw_typed(&given, &list, &mut data, &list).with(&options).start(scope, &world)?;
                assert_eq!(started.plan().algorithm.name(), "linear");
                started.wait(scope)
            })
            .unwrap();
    });
}

/// Whatever the others' bytes would take: a control slot, messages, or chunks. More calls than
/// there are control slots.
#[test]
fn a_rank_of_datatypes_meets_ranks_of_bytes() {
    for (size, len) in [(2, 3), (2, 9_000), (2, 100_000), (3, 3), (3, 9_000)] {
        run(size, |endpoint| {
            attach(endpoint);
            let (world, me) = (endpoint.world(), endpoint.world().rank().0 as usize);
            let own = |place: usize| Block { start: place * len, len };
            let list: Vec<Block> = (0..size as usize).map(own).collect();
            let typed =
                |block: &Block| TypedBlock::new(block.start.cast_signed(), block.len as u64, Basic::U8);
            let typed: Vec<TypedBlock> = list.iter().map(typed).collect();
            let (input, mut data) = (vec![me as u8; size as usize * len], vec![GAP; size as usize * len]);
            for turn in 0..20 {
                data.fill(GAP);
                // None, one of them, all.
                if turn % (size as usize + 1) > me {
                    alltoallw_typed(&input, &typed, &mut data, &typed).run(endpoint, &world).unwrap();
                } else {
                    alltoallw(&input, &list, &mut data, &list).run(endpoint, &world).unwrap();
                }
                let came = |from: usize| data[from * len..][..len].iter().all(|byte| *byte == from as u8);
                assert!((0..size as usize).all(came), "turn {turn} of {size} ranks");
            }
        });
    }
}

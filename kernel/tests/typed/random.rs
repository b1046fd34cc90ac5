//! Random types against the naive interpreter of type maps: both sides with equal signatures and
//! layouts of their own, sizes around every limit of the protocols, fragments that end inside
//! elements, peers of either byte order and of words of either width.

use aldis_kernel::datatype::{Basic, Committed, TypeTable, Types};
use aldis_kernel::protocols::card::WordWidth;
use aldis_kernel::{Rank, Tag, Typed, TypedMut};
use proptest::prelude::*;

use aldis_kit::datatypes::{Recipe, TypeMap, recipes};
use aldis_kit::rig::{Job, Shape, UNLIKE_ORDER, pattern, settle, together};

/// Entries of all elements of a message: above, the test takes too long.
const ENTRIES_MAX: usize = 300;

type Table = TypeTable<48, 8000>;

/// A type, a count, and memory that its data just fits into.
struct TypedSide {
    recipe: Recipe,
    count: u64,
    map: TypeMap,
    origin: isize,
    memory: Vec<u8>,
}

impl TypedSide {
    fn new(recipe: Recipe, count: u64, memory: impl FnOnce(usize) -> Vec<u8>) -> Self {
        let map = recipe.map().times(count);
        let (low, high) = map.true_bounds();
        Self { recipe, count, map, origin: -low as isize, memory: memory((high - low) as usize) }
    }

    fn datatype(&self, types: &mut Types<'_>) -> Committed {
        let datatype = self.recipe.build(types).unwrap();
        types.commit(datatype).unwrap()
    }

    fn place(&self, displacement: i64) -> usize {
        (self.origin + displacement as isize).try_into().unwrap()
    }

    /// The elements' bytes in the order of the type map.
    fn elements(&self) -> Vec<Vec<u8>> {
        self.map
            .entries
            .iter()
            .map(|(at, basic)| self.memory[self.place(*at)..][..basic.size()].to_vec())
            .collect()
    }

    /// Makes every word one that fits four bytes.
    fn tame(&mut self) {
        let words = self.map.entries.iter().filter(|(_, basic)| matches!(basic, Basic::Isize | Basic::Usize));
        for (at, basic) in words {
            let place = self.place(*at);
            let number: [u8; 4] = self.memory[place..place + 4].try_into().unwrap();
            let word = match basic {
                Basic::Isize => i32::from_ne_bytes(number) as usize,
                _ => u32::from_ne_bytes(number) as usize,
            };
            self.memory[place..place + size_of::<usize>()].copy_from_slice(&word.to_ne_bytes());
        }
    }

    /// The memory with every byte of data blanked: what lies between.
    fn gaps(&self) -> Vec<u8> {
        let mut gaps = self.memory.clone();
        for (at, basic) in &self.map.entries {
            gaps[self.place(*at)..][..basic.size()].fill(GAP);
        }
        gaps
    }
}

const GAP: u8 = 0xA5;

/// Every element by itself, the last one lowest, with gaps between them.
fn backwards(map: &TypeMap) -> Recipe {
    let mut end = 0;
    let mut fields: Vec<_> = map
        .entries
        .iter()
        .rev()
        .map(|(_, basic)| {
            let at = end;
            end += basic.size() as i64 + i64::from(*basic as u8 % 3);
            (1, at, Recipe::Basic(*basic))
        })
        .collect();
    fields.reverse();
    Recipe::Struct(fields)
}

#[derive(Clone, Debug)]
struct TypedWay {
    shape: Shape,
    is_expected: bool,
    is_checked: bool,
    is_synchronous: bool,
    is_swapped: bool,
    is_narrow: bool,
}

fn ways() -> impl Strategy<Value = TypedWay> {
    let bytes = prop_oneof![Just(56u32), 49u32..60, 76u32..180];
    (1usize..5, bytes, any::<[bool; 5]>()).prop_map(
        |(depth, bcopy_bytes_max, [is_expected, is_checked, is_synchronous, is_swapped, is_narrow])| {
            TypedWay {
                shape: Shape { depth, bcopy_bytes_max },
                is_expected,
                is_checked,
                is_synchronous,
                is_swapped,
                is_narrow,
            }
        },
    )
}

/// Sends, receives; the bytes that arrived.
fn exchange(way: &TypedWay, from: &TypedSide, to: &mut TypedSide) -> u64 {
    let (mut job, mut tables) = (Job::new(2, way.shape), [Box::new(Table::new()), Box::new(Table::new())]);
    let mut ranks = job.ranks();
    for (rank, table) in ranks.iter_mut().zip(&mut tables) {
        rank.attach_types(table.types()).unwrap();
    }
    if way.is_narrow {
        // Each takes the other for a machine with words of four bytes.
        let mut cards = [ranks[1].card(), ranks[0].card()];
        for (rank, card) in ranks.iter_mut().zip(&mut cards) {
            card.words = WordWidth::Four;
            rank.connect(card).unwrap();
        }
    }
    if way.is_swapped {
        let mut card = ranks[0].card();
        card.order = UNLIKE_ORDER;
        if way.is_narrow {
            card.words = WordWidth::Four;
        }
        ranks[1].connect(&card).unwrap();
    }
    let worlds = [ranks[0].world(), ranks[1].world()];
    let (sent, received) = (from.datatype(ranks[0].types().unwrap()), to.datatype(ranks[1].types().unwrap()));
    let mut data = Typed::new(&from.memory, from.count, sent).with_origin(from.origin);
    if way.is_checked {
        data = data.checked();
    }
    if way.is_synchronous {
        data = data.synchronous();
    }
    let TypedSide { memory, count, origin, .. } = to;
    together(&mut ranks, |one, other| {
        let into = TypedMut::new(memory, *count, received).with_origin(*origin);
        let (receiving, sending);
        if way.is_expected {
            receiving = other.irecv_typed(&worlds[1], into, Rank(0), Tag(3))?;
            settle(one, other);
            sending = one.isend_typed(&worlds[0], data, Rank(1), Tag(3))?;
        } else {
            sending = one.isend_typed(&worlds[0], data, Rank(1), Tag(3))?;
            settle(one, other);
            receiving = other.irecv_typed(&worlds[1], into, Rank(0), Tag(3))?;
        }
        settle(one, other);
        one.wait(sending)?;
        Ok(other.wait(receiving)?.bytes)
    })
    .unwrap()
}

/// Turns an element into what it becomes if its bytes are taken for those of the other order, where
/// words travel in so many bytes.
fn turn(element: &mut [u8], basic: Basic, is_narrow: bool) {
    let is_word = matches!(basic, Basic::Isize | Basic::Usize);
    if !(is_word && is_narrow && size_of::<usize>() == 8) {
        return element.reverse();
    }
    let word = u64::from_ne_bytes(element.try_into().unwrap());
    let turned = (word as u32).swap_bytes();
    let word =
        if basic == Basic::Isize { i64::from(turned.cast_signed()).cast_unsigned() } else { turned.into() };
    element.copy_from_slice(&word.to_ne_bytes());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(600))]

    #[test]
    fn what_is_sent_is_received_element_by_element(
        recipe in recipes(), count in 0u64..4, more in 0u64..2, backward in any::<bool>(), way in ways(), seed in any::<u32>(),
    ) {
        let mut from = TypedSide::new(recipe.clone(), count, |len| pattern(seed, len));
        prop_assume!(from.map.entries.len() <= ENTRIES_MAX);
        if way.is_narrow && from.map.overlaps() {
            return Ok(());
        }
        if way.is_narrow {
            from.tame();
        }
        let blank = |len| vec![GAP; len];
        // The same type, with room for more elements perhaps; or another one of the same signature.
        let mut to = TypedSide::new(recipe, count + more, blank);
        if backward || to.map.overlaps() {
            to = TypedSide::new(backwards(&from.map), 1, blank);
        }
        let bytes = exchange(&way, &from, &mut to);
        prop_assert_eq!(bytes, from.map.size());
        let mut expected = from.elements();
        if way.is_swapped {
            for (element, (_, basic)) in expected.iter_mut().zip(&from.map.entries) {
                turn(element, *basic, way.is_narrow);
            }
        }
        let received = to.elements();
        prop_assert_eq!(&received[..expected.len()], &expected[..]);
        prop_assert!(received[expected.len()..].iter().flatten().all(|byte| *byte == GAP));
        prop_assert!(to.gaps().iter().all(|byte| *byte == GAP), "what lies between is touched");
    }
}

//! The packed stream: whole, and in random pieces in random order, in all forms and both
//! directions.

use aldis_kernel::datatype::{Basic, Convertor, Form, TypeTable, Types};
use aldis_kit::datatypes::{TypeMap, recipes};
use proptest::prelude::*;

const FORMS: [Form; 5] = [Form::Native, Form::Swapped, Form::Narrow, Form::NarrowSwapped, Form::External32];

/// Memory that the data just fits into, with its origin.
struct FittingMemory {
    bytes: Vec<u8>,
    origin: isize,
}

impl FittingMemory {
    /// Random bytes, but for wide characters and words: those that every form can tell.
    fn random(map: &TypeMap, seed: u64) -> Self {
        let (low, high) = map.true_bounds();
        let origin = -low as isize;
        let mut state = seed | 1;
        let bytes = (0..(high - low) as usize).map(|_| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 56) as u8
        });
        let mut memory = Self { bytes: bytes.collect(), origin };
        for (at, basic) in &map.entries {
            let place = memory.place(*at);
            let number: [u8; 4] =
                core::array::from_fn(|byte| memory.bytes.get(place + byte).copied().unwrap_or(0));
            match basic {
                Basic::WideChar => memory.put(place, (u32::from_ne_bytes(number) >> 16).to_ne_bytes()),
                Basic::Isize => memory.put(place, (i32::from_ne_bytes(number) as isize).to_ne_bytes()),
                Basic::Usize => memory.put(place, (u32::from_ne_bytes(number) as usize).to_ne_bytes()),
                Basic::Long => memory.put(place, i64::from(i32::from_ne_bytes(number)).to_ne_bytes()),
                Basic::UnsignedLong => memory.put(place, u64::from(u32::from_ne_bytes(number)).to_ne_bytes()),
                _ => {}
            }
        }
        memory
    }

    fn put<const N: usize>(&mut self, place: usize, bytes: [u8; N]) {
        self.bytes[place..place + N].copy_from_slice(&bytes);
    }

    fn place(&self, displacement: i64) -> usize {
        (self.origin + displacement as isize).try_into().unwrap()
    }

    /// The stream by the definition; `None` if a number that others overlap cannot be told.
    fn stream(&self, map: &TypeMap, form: Form) -> Option<Vec<u8>> {
        let is_narrow = matches!(form, Form::Narrow | Form::NarrowSwapped);
        let turns = match form {
            Form::Native | Form::Narrow => false,
            Form::Swapped | Form::NarrowSwapped => true,
            Form::External32 => cfg!(target_endian = "little"),
        };
        let mut stream = Vec::new();
        for (at, basic) in &map.entries {
            let native = &self.bytes[self.place(*at)..][..basic.size()];
            let word = || native.try_into().unwrap();
            let mut element = match basic {
                Basic::Isize if is_narrow => {
                    i32::try_from(isize::from_ne_bytes(word())).ok()?.to_ne_bytes().to_vec()
                }
                Basic::Usize if is_narrow => {
                    u32::try_from(usize::from_ne_bytes(word())).ok()?.to_ne_bytes().to_vec()
                }
                Basic::Isize if form == Form::External32 => {
                    (isize::from_ne_bytes(word()) as i64).to_ne_bytes().to_vec()
                }
                Basic::Usize if form == Form::External32 => {
                    (usize::from_ne_bytes(word()) as u64).to_ne_bytes().to_vec()
                }
                Basic::Long if form == Form::External32 => {
                    i32::try_from(i64::from_ne_bytes(native.try_into().unwrap())).ok()?.to_ne_bytes().to_vec()
                }
                Basic::UnsignedLong if form == Form::External32 => {
                    u32::try_from(u64::from_ne_bytes(native.try_into().unwrap())).ok()?.to_ne_bytes().to_vec()
                }
                Basic::WideChar if form == Form::External32 => {
                    let value = u32::from_ne_bytes(native.try_into().unwrap());
                    u16::try_from(value).ok()?.to_ne_bytes().to_vec()
                }
                _ => native.to_vec(),
            };
            if turns {
                element.reverse();
            }
            stream.extend(element);
        }
        Some(stream)
    }
}

/// Pieces of a stream, in an order of their own.
fn pieces(len: usize, cuts: &[prop::sample::Index], turn: usize) -> Vec<core::ops::Range<usize>> {
    let mut ends: Vec<usize> = cuts.iter().map(|cut| cut.index(len + 1)).chain([0, len]).collect();
    ends.sort_unstable();
    let mut pieces: Vec<_> = ends.windows(2).map(|pair| pair[0]..pair[1]).collect();
    let middle = turn % pieces.len();
    pieces.rotate_left(middle);
    pieces[..middle].reverse();
    pieces
}

fn pack(
    types: &Types<'_>,
    mut convertor: Convertor,
    memory: &[u8],
    pieces: &[core::ops::Range<usize>],
) -> Vec<u8> {
    let mut stream = vec![0; convertor.packed_len() as usize];
    for piece in pieces {
        convertor.set_position(piece.start as u64).unwrap();
        let into = &mut stream[piece.clone()];
        assert_eq!(convertor.pack(types, memory, into).unwrap(), piece.len());
        assert_eq!(convertor.position(), piece.end as u64);
    }
    stream
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(500))]

    #[test]
    fn any_pieces_in_any_order_make_the_same_stream(
        recipe in recipes(),
        count in 0u64..4,
        form in prop::sample::select(FORMS.to_vec()),
        cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..12),
        turn in any::<usize>(),
        seed in any::<u64>(),
    ) {
        let map = recipe.map().times(count);
        let memory = FittingMemory::random(&map, seed);
        let mut table = Box::new(TypeTable::<40, 2000>::new());
        let mut types = table.types();
        let datatype = recipe.build(&mut types).unwrap();
        let datatype = types.commit(datatype).unwrap();
        let mut convertor = Convertor::new(&types, datatype, count, form).unwrap().with_origin(memory.origin);
        let Some(expected) = memory.stream(&map, form) else {
            let mut stream = vec![0; convertor.packed_len() as usize];
            prop_assert!(convertor.pack(&types, &memory.bytes, &mut stream).is_err());
            return Ok(());
        };
        prop_assert_eq!(convertor.packed_len(), expected.len() as u64);
        let all = 0..expected.len();
        let whole = pack(&types, convertor, &memory.bytes, core::slice::from_ref(&all));
        prop_assert_eq!(&whole, &expected);
        let pieces = pieces(expected.len(), &cuts, turn);
        let parts = pack(&types, convertor, &memory.bytes, &pieces);
        prop_assert_eq!(&parts, &expected);
        if let Some(range) = convertor.contiguous(&types).unwrap() {
            prop_assert_eq!(&memory.bytes[range], &expected[..]);
        }

        // Back again. The gaps keep what was in them; and where entries overlap, no order but that
        // of the map counts.
        if map.overlaps() {
            return Ok(());
        }
        let mut other = vec![0xa5; memory.bytes.len()];
        for piece in &pieces {
            convertor.set_position(piece.start as u64).unwrap();
            prop_assert_eq!(convertor.unpack(&types, &mut other, &expected[piece.clone()]).unwrap(), piece.len());
        }
        let mut wanted = vec![0xa5; memory.bytes.len()];
        for (at, basic) in &map.entries {
            let range = memory.place(*at)..memory.place(*at) + basic.size();
            wanted[range.clone()].copy_from_slice(&memory.bytes[range]);
        }
        prop_assert_eq!(other, wanted);
    }

    /// Memory that is a byte too short at either end is refused, and not a byte of it is written.
    #[test]
    fn memory_that_is_too_short_is_refused(recipe in recipes(), count in 1u64..4) {
        let map = recipe.map().times(count);
        let memory = FittingMemory::random(&map, 0);
        let mut table = Box::new(TypeTable::<40, 2000>::new());
        let mut types = table.types();
        let datatype = recipe.build(&mut types).unwrap();
        let datatype = types.commit(datatype).unwrap();
        let convertor = Convertor::new(&types, datatype, count, Form::Native).unwrap();
        let stream = vec![1; convertor.packed_len() as usize];
        if !memory.bytes.is_empty() {
            let mut short = vec![0; memory.bytes.len() - 1];
            let mut convertor = convertor.with_origin(memory.origin);
            prop_assert!(convertor.unpack(&types, &mut short, &stream).is_err());
            prop_assert!(short.iter().all(|byte| *byte == 0) && convertor.position() == 0);
        }
        if !memory.bytes.is_empty() {
            let mut bytes = vec![0; memory.bytes.len()];
            let mut convertor = convertor.with_origin(memory.origin - 1);
            prop_assert!(convertor.unpack(&types, &mut bytes, &stream).is_err());
            prop_assert!(bytes.iter().all(|byte| *byte == 0));
        }
    }
}

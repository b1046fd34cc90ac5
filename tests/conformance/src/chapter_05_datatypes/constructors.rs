//! Messages of every constructor, sections 5.1.2 to 5.1.10, in every call that takes a datatype,
//! section 5.1.11.

use aldis_hal::{Cause, Platform, Transport};
use aldis_kernel::datatype::{
    Basic, Committed, Datatype, Distribution, Field, IndexedBlock, Order, Slice, Spread, Types,
};
use aldis_kernel::{Endpoint, Rank, Source, Tag, TagMatch, Typed, TypedMut};

use super::super::Outcome;
use super::messages::attach;

cases! {
    "5.1.2", 2: elements_in_a_row_and_in_equal_steps_arrive;
    "5.1.2", 2: blocks_anywhere_arrive;
    "5.1.2", 2: structures_of_several_types_arrive;
    "5.1.3", 2: boxes_of_arrays_arrive;
    "5.1.4", 2: pieces_of_distributed_arrays_arrive;
    "5.1.7", 2: elements_with_other_bounds_arrive;
    "5.1.10", 2: a_duplicate_of_a_type_is_as_good;
    "5.1.1", 2: types_of_types_of_types_arrive;
    "5.1.11", 2: typed_messages_in_every_mode;
    "5.1.11", 2: persistent_typed_messages;
    "5.1.11", 2: matched_typed_messages;
    "3.10", 2: typed_messages_that_replace_what_was_sent;
    "5.1.9", 1: what_is_no_type_any_more_is_refused;
}

/// A type, made anew on each rank, and where its data lie: the displacement of each byte, in the
/// order of the type map.
struct MadeType {
    make: fn(&mut Types<'_>) -> Result<Datatype, Cause>,
    bytes: fn() -> Vec<usize>,
    /// From one element to the next: rounded up to the alignment of the elements.
    extent: usize,
}

/// The bytes of `u32`s at some displacements.
fn words(displacements: impl IntoIterator<Item = usize>) -> Vec<usize> {
    displacements.into_iter().flat_map(|start| start..start + 4).collect()
}

fn block(length: u64, displacement: i64) -> IndexedBlock {
    IndexedBlock { length, displacement }
}

/// The byte at a place of the sender's memory.
fn byte(at: usize) -> u8 {
    (at.wrapping_mul(0x9E37_79B9) >> 9) as u8
}

/// The byte that no message writes.
const UNTOUCHED: u8 = 0xA5;

/// Messages of the type, sent as it lies and received as bytes, sent as bytes and received to where
/// it lies, and both ways; in lengths for which messages are eager and in many fragments.
fn arrive<T: Transport, P: Platform>(ep: &mut Endpoint<'_, T, P>, made: &[MadeType]) -> Outcome {
    let world = ep.world();
    attach(ep)?;
    for MadeType { make, bytes, extent } in made {
        let types = ep.types()?;
        let datatype = make(types)?;
        let datatype = types.commit(datatype)?;
        let one = bytes();
        for count in [1, 3, 40] {
            let places: Vec<usize> =
                (0..count).flat_map(|element| one.iter().map(move |at| element * extent + at)).collect();
            let length = places.iter().max().map_or(0, |last| last + 1).max(count * extent);
            let memory: Vec<u8> = (0..length).map(byte).collect();
            let stream: Vec<u8> = places.iter().map(|at| memory[*at]).collect();
            if world.rank() == Rank(0) {
                let data = || Typed::new(&memory, count as u64, datatype);
                ep.send_typed(&world, data(), Rank(1), Tag(1))?;
                ep.send(&world, &stream, Rank(1), Tag(2))?;
                let sent = ep.send_typed(&world, data(), Rank(1), Tag(3))?;
                assert_eq!(sent.bytes, stream.len() as u64);
                continue;
            }
            let mut got = vec![0; stream.len()];
            ep.recv(&world, &mut got, Rank(0), Tag(1))?;
            assert_eq!(got, stream, "as it lies, {count} elements");
            for tag in [2, 3] {
                let mut into = vec![UNTOUCHED; length];
                let place = TypedMut::new(&mut into, count as u64, datatype);
                let status = ep.recv_typed(&world, place, Rank(0), Tag(tag))?;
                assert_eq!(status.bytes, stream.len() as u64);
                let mut due = vec![UNTOUCHED; length];
                places.iter().for_each(|at| due[*at] = memory[*at]);
                assert_eq!(into, due, "to where it lies, {count} elements");
            }
        }
        ep.types()?.free(datatype)?;
    }
    Ok(())
}

fn elements_in_a_row_and_in_equal_steps_arrive<T: Transport, P: Platform>(
    ep: &mut Endpoint<'_, T, P>,
) -> Outcome {
    arrive(
        ep,
        &[
            MadeType {
                make: |types| types.contiguous(5, Basic::U32),
                bytes: || (0..20).collect(),
                extent: 20,
            },
            MadeType {
                make: |types| types.vector(3, 2, 4, Basic::U32),
                bytes: || words([0, 4, 16, 20, 32, 36]),
                extent: 40,
            },
            MadeType {
                make: |types| types.hvector(3, 1, 13, Basic::U32),
                bytes: || words([0, 13, 26]),
                extent: 32,
            },
            // Blocks that come in falling order.
            MadeType {
                make: |types| {
                    let falling = types.hvector(3, 1, -8, Basic::U32)?;
                    let list = types.hindexed(&[block(1, 16)], falling)?;
                    types.free(falling)?;
                    let bounded = types.resized(list, 0, 24)?;
                    types.free(list)?;
                    Ok(bounded)
                },
                bytes: || words([16, 8, 0]),
                extent: 24,
            },
        ],
    )
}

fn blocks_anywhere_arrive<T: Transport, P: Platform>(ep: &mut Endpoint<'_, T, P>) -> Outcome {
    arrive(
        ep,
        &[
            MadeType {
                make: |types| {
                    types.indexed(&[block(2, 5), block(0, 9), block(1, 0), block(1, 3)], Basic::U32)
                },
                bytes: || words([20, 24, 0, 12]),
                extent: 28,
            },
            MadeType {
                make: |types| types.hindexed(&[block(1, 7), block(2, 15), block(1, 0)], Basic::U32),
                bytes: || words([7, 15, 19, 0]),
                extent: 24,
            },
            MadeType {
                make: |types| types.indexed_block(2, &[4, 0, 9], Basic::U32),
                bytes: || words([16, 20, 0, 4, 36, 40]),
                extent: 44,
            },
            MadeType {
                make: |types| types.hindexed_block(1, &[9, 0, 22], Basic::U32),
                bytes: || words([9, 0, 22]),
                extent: 28,
            },
        ],
    )
}

fn structures_of_several_types_arrive<T: Transport, P: Platform>(ep: &mut Endpoint<'_, T, P>) -> Outcome {
    arrive(
        ep,
        &[
            MadeType {
                make: |types| {
                    types.structure(&[
                        Field::new(0, Basic::U8),
                        Field::array(4, 2, Basic::U16),
                        Field::new(8, Basic::F64),
                        Field::array(16, 3, Basic::U8),
                    ])
                },
                bytes: || (0..1).chain(4..8).chain(8..16).chain(16..19).collect(),
                extent: 24,
            },
            // A field that lies before another in memory and comes after it in the message.
            MadeType {
                make: |types| types.structure(&[Field::new(8, Basic::U32), Field::new(0, Basic::U64)]),
                bytes: || (8..12).chain(0..8).collect(),
                extent: 16,
            },
        ],
    )
}

fn boxes_of_arrays_arrive<T: Transport, P: Platform>(ep: &mut Endpoint<'_, T, P>) -> Outcome {
    const BOX: [Slice; 3] = [
        Slice { size: 3, count: 2, start: 1 },
        Slice { size: 4, count: 2, start: 0 },
        Slice { size: 5, count: 3, start: 2 },
    ];
    arrive(
        ep,
        &[
            MadeType {
                make: |types| types.subarray(&BOX, Order::C, Basic::U32),
                bytes: || {
                    let at = |i: usize, j: usize, k: usize| 4 * (20 * (1 + i) + 5 * j + 2 + k);
                    words((0..2).flat_map(|i| (0..2).flat_map(move |j| (0..3).map(move |k| at(i, j, k)))))
                },
                extent: 240,
            },
            MadeType {
                make: |types| types.subarray(&BOX, Order::Fortran, Basic::U32),
                bytes: || {
                    let at = |i: usize, j: usize, k: usize| 4 * (1 + i + 3 * j + 12 * (2 + k));
                    words((0..3).flat_map(|k| (0..2).flat_map(move |j| (0..2).map(move |i| at(i, j, k)))))
                },
                extent: 240,
            },
        ],
    )
}

fn pieces_of_distributed_arrays_arrive<T: Transport, P: Platform>(ep: &mut Endpoint<'_, T, P>) -> Outcome {
    const fn spread(size: u64, distribution: Distribution, processes: u64) -> Spread {
        Spread { size, distribution, processes }
    }
    arrive(
        ep,
        &[
            // The second process of two: elements 4 to 6 of seven.
            MadeType {
                make: |types| {
                    types.darray(1, &[spread(7, Distribution::Block(None), 2)], Order::C, Basic::U32)
                },
                bytes: || words([16, 20, 24]),
                extent: 28,
            },
            // The first of three, which gets two at a time: 0, 1, 6, 7 of eleven.
            MadeType {
                make: |types| {
                    types.darray(0, &[spread(11, Distribution::Cyclic(Some(2)), 3)], Order::C, Basic::U32)
                },
                bytes: || words([0, 4, 24, 28]),
                extent: 44,
            },
            // The last of a grid of two by three over four rows and six columns: rows 2 and 3,
            // columns 2 and 5.
            MadeType {
                make: |types| {
                    let rows = spread(4, Distribution::Block(None), 2);
                    let columns = spread(6, Distribution::Cyclic(None), 3);
                    types.darray(5, &[rows, columns], Order::C, Basic::U32)
                },
                bytes: || words([2 * 6 + 2, 2 * 6 + 5, 3 * 6 + 2, 3 * 6 + 5].map(|at| 4 * at)),
                extent: 96,
            },
        ],
    )
}

fn elements_with_other_bounds_arrive<T: Transport, P: Platform>(ep: &mut Endpoint<'_, T, P>) -> Outcome {
    arrive(
        ep,
        &[
            MadeType { make: |types| types.resized(Basic::U32, 0, 9), bytes: || (0..4).collect(), extent: 9 },
            // Each element begins inside the one before: its second word is where the other's gap
            // is.
            MadeType {
                make: |types| {
                    let pair = types.vector(2, 1, 81, Basic::U32)?;
                    let narrow = types.resized(pair, 0, 4)?;
                    types.free(pair)?;
                    Ok(narrow)
                },
                bytes: || words([0, 324]),
                extent: 4,
            },
        ],
    )
}

fn a_duplicate_of_a_type_is_as_good<T: Transport, P: Platform>(ep: &mut Endpoint<'_, T, P>) -> Outcome {
    arrive(
        ep,
        &[MadeType {
            make: |types| {
                let comb = types.vector(4, 1, 2, Basic::U32)?;
                let copy = types.duplicate(comb)?;
                types.free(comb)?;
                Ok(copy)
            },
            bytes: || words([0, 8, 16, 24]),
            extent: 28,
        }],
    )
}

fn types_of_types_of_types_arrive<T: Transport, P: Platform>(ep: &mut Endpoint<'_, T, P>) -> Outcome {
    arrive(
        ep,
        &[MadeType {
            // Pairs of (a byte, a padded word), every other one of three, twice with 40 bytes
            // between.
            make: |types| {
                let particle = types.structure(&[Field::new(0, Basic::U8), Field::new(4, Basic::U32)])?;
                let comb = types.vector(2, 1, 2, particle)?;
                let twice = types.hindexed_block(1, &[64, 0], comb)?;
                types.free(particle)?;
                types.free(comb)?;
                Ok(twice)
            },
            bytes: || {
                [64, 80, 0, 16].into_iter().flat_map(|at| [at].into_iter().chain(at + 4..at + 8)).collect()
            },
            extent: 88,
        }],
    )
}

/// Every other word.
fn comb<T: Transport, P: Platform>(
    ep: &mut Endpoint<'_, T, P>,
    words: u64,
) -> Result<Committed, Box<dyn core::error::Error>> {
    attach(ep)?;
    let types = ep.types()?;
    let comb = types.vector(words, 1, 2, Basic::U32)?;
    Ok(types.commit(comb)?)
}

/// Words of which every other one is sent, and what they come to where the message was received
/// with the same type.
fn source(words: usize, first: u32) -> Vec<u32> {
    (0..2 * words as u32).map(|at| first + at).collect()
}

fn is_comb(got: &[u32], first: u32, between: u32) -> bool {
    (0..).zip(got).all(|(at, word)| *word == if at % 2 == 0 { first + at } else { between })
}

const WORDS: [usize; 4] = [1, 6, 20, 700];

fn typed_messages_in_every_mode<T: Transport, P: Platform>(ep: &mut Endpoint<'_, T, P>) -> Outcome {
    let world = ep.world();
    ep.send_buffer().attach(vec![0; 2800].leak())?;
    for words in WORDS {
        let (comb, memory) = (comb(ep, words as u64)?, source(words, 5));
        if world.rank() == Rank(0) {
            let data = || Typed::new(&memory, 1, comb);
            ep.send_typed(&world, data(), Rank(1), Tag(1))?;
            ep.send_typed(&world, data().synchronous(), Rank(1), Tag(1))?;
            ep.send_typed(&world, data().checked(), Rank(1), Tag(1))?;
            ep.bsend_typed(&world, data(), Rank(1), Tag(1))?;
            ep.send_buffer().flush()?;
            // The receive that it needs has been posted.
            ep.recv::<u8>(&world, &mut [], Rank(1), Tag(2))?;
            ep.send_typed(&world, data().ready(), Rank(1), Tag(3))?;
        } else {
            let mut got = vec![7_u32; 2 * words];
            for _ in 0..4 {
                got.fill(7);
                ep.recv_typed(&world, TypedMut::new(&mut got, 1, comb), Rank(0), Tag(1))?;
                assert!(is_comb(&got, 5, 7), "{words} words");
            }
            got.fill(7);
            ep.scope(|scope| {
                let receiving =
                    scope.irecv_typed(&world, TypedMut::new(&mut got, 1, comb), Rank(0), Tag(3))?;
                let telling = scope.isend::<u8>(&world, &[], Rank(0), Tag(2))?;
                scope.wait(telling)?;
                scope.wait(receiving)
            })?;
            assert!(is_comb(&got, 5, 7), "{words} words, ready");
        }
        ep.types()?.free(comb)?;
    }
    ep.send_buffer().detach()?;
    Ok(())
}

fn persistent_typed_messages<T: Transport, P: Platform>(ep: &mut Endpoint<'_, T, P>) -> Outcome {
    let world = ep.world();
    for words in WORDS {
        let comb = comb(ep, words as u64)?;
        let (is_sender, mut memory) = (world.rank() == Rank(0), vec![7_u32; 2 * words]);
        ep.scope(|scope| {
            let all = 0..8 * words;
            let memory = scope.lend(&mut memory);
            let mut request = match is_sender {
                true => scope.send_init_typed(&world, Typed::lent(memory, 1, comb), Rank(1), Tag(1))?,
                false => scope.recv_init_typed(
                    &world,
                    TypedMut::lent(memory, 1, comb),
                    Source::Any,
                    TagMatch::Any,
                )?,
            };
            for round in 0..3_u32 {
                if is_sender {
                    let due: Vec<u8> =
                        source(words, 10 * round).iter().flat_map(|word| word.to_ne_bytes()).collect();
                    scope.edit(memory, all.clone(), |bytes| bytes.copy_from_slice(&due))?;
                }
                scope.start(&mut request)?;
                assert_eq!(scope.wait_for(&mut request)?.bytes, 4 * words as u64);
                if !is_sender {
                    scope.edit(memory, all.clone(), |bytes| {
                        let got: Vec<u32> =
                            bytes.as_chunks::<4>().0.iter().map(|word| u32::from_ne_bytes(*word)).collect();
                        assert!(is_comb(&got, 10 * round, 7), "{words} words, round {round}");
                    })?;
                }
            }
            Ok(())
        })?;
        ep.types()?.free(comb)?;
    }
    Ok(())
}

fn matched_typed_messages<T: Transport, P: Platform>(ep: &mut Endpoint<'_, T, P>) -> Outcome {
    let world = ep.world();
    for words in WORDS {
        let (comb, memory) = (comb(ep, words as u64)?, source(words, 3));
        if world.rank() == Rank(0) {
            for _ in 0..2 {
                ep.send_typed(&world, Typed::new(&memory, 1, comb), Rank(1), Tag(1))?;
            }
        } else {
            let mut got = vec![7_u32; 2 * words];
            let matched = ep.mprobe(&world, Rank(0), Tag(1))?;
            assert_eq!(matched.status().bytes, 4 * words as u64);
            ep.mrecv_typed(matched, TypedMut::new(&mut got, 1, comb))?;
            assert!(is_comb(&got, 3, 7), "{words} words");
            got.fill(8);
            let matched = ep.mprobe(&world, Source::Any, TagMatch::Any)?;
            ep.scope(|scope| {
                let receiving = scope.imrecv_typed(matched, TypedMut::new(&mut got, 1, comb))?;
                scope.wait(receiving)
            })?;
            assert!(is_comb(&got, 3, 8), "{words} words");
        }
        ep.types()?.free(comb)?;
    }
    Ok(())
}

fn typed_messages_that_replace_what_was_sent<T: Transport, P: Platform>(
    ep: &mut Endpoint<'_, T, P>,
) -> Outcome {
    let world = ep.world();
    let (me, other) = (world.rank().0, Rank(1 - world.rank().0));
    ep.send_buffer().attach(vec![0; 2800].leak())?;
    for words in WORDS {
        let (comb, mut memory) = (comb(ep, words as u64)?, source(words, 1000 * me));
        let place = TypedMut::new(&mut memory, 1, comb);
        ep.sendrecv_replace_typed(&world, place, other, Tag(1), other, Tag(1))?;
        for (at, word) in (0..).zip(memory) {
            assert_eq!(word, at + 1000 * if at % 2 == 0 { other.0 } else { me });
        }
        ep.send_buffer().flush()?;
        ep.types()?.free(comb)?;
    }
    ep.send_buffer().detach()?;
    Ok(())
}

fn what_is_no_type_any_more_is_refused<T: Transport, P: Platform>(ep: &mut Endpoint<'_, T, P>) -> Outcome {
    let (world, mut memory) = (ep.world(), vec![0_u32; 8]);
    let comb = comb(ep, 4)?;
    ep.types()?.free(comb)?;
    let error =
        ep.send_typed(&world, Typed::new(&memory, 1, comb), Rank(0), Tag(1)).expect_err("it is freed");
    assert_eq!(error.cause, Cause::Stale);
    let error = ep.recv_typed(&world, TypedMut::new(&mut memory, 1, comb), Rank(0), Tag(1));
    assert_eq!(error.expect_err("it is freed").cause, Cause::Stale);
    assert!(ep.iprobe(&world, Source::Any, TagMatch::Any)?.is_none(), "nothing was sent");
    Ok(())
}

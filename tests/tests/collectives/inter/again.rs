//! Calls on blocks of unlike lengths between groups, made once and started again with other data.

use aldis_coll::layout::Block;
use aldis_coll::{Collective, InputBlocks, inter, op::Sum, wait_all};
use aldis_kernel::Error;
use aldis_tests::thread_jobs::Scope;
use zerocopy::IntoBytes;

use super::{OLD, Root, block, in_halves, layout, memory};

const STARTS: u32 = 3;

/// Elements as they are at a start.
fn at(start: u32, elements: Vec<u32>) -> Vec<u32> {
    elements.into_iter().map(|element| element.wrapping_add(start * 77)).collect()
}

/// Starts all of them, in an order of this rank's own, and waits for all.
fn carry_out<'scope>(
    scope: &mut Scope<'scope, '_, '_, '_>,
    made: &mut [Collective<'scope>],
    turn: u32,
) -> Result<(), Error> {
    for index in 0..made.len() {
        let index = (index + turn as usize) % made.len();
        made[index].start(scope)?;
    }
    wait_all(scope, made)
}

#[test]
fn blocks_for_a_root_and_from_it_are_started_again() {
    in_halves(|endpoint, sides| {
        let (between, own) = (sides.between, sides.between.rank().0);
        let len = |rank: u32| (rank as usize * 3) % 4 * 50;
        for (upper, rank) in sides.roots() {
            let (root, others) = (sides.root(upper, rank), sides.size(!upper));
            let list = layout((0..others).map(len));
            let all = |start| memory(&list, |from| at(start, block(!upper, from, rank, len(from))));
            let mine = |start| at(start, block(!upper, own, rank, len(own)));
            let elements = match root {
                Root::This => list.1,
                Root::Beside => 0,
                Root::Remote(_) => len(own),
            };
            let (mut one, mut other) = (vec![OLD; elements], vec![OLD; elements]);
            let (gathered, scattered, list) = (&mut one, &mut other, &list.0);
            endpoint
                .scope(|scope| {
                    let mut made = [
                        inter::gatherv(gathered, list, root).persistent(scope, &between)?,
                        inter::scatterv(scattered, list, root).persistent(scope, &between)?,
                    ];
                    for start in 0..STARTS {
                        // What each rank has before: something of its own, or nothing.
                        let given = match root {
                            Root::This => [None, Some(all(start))],
                            Root::Beside => [None, None],
                            Root::Remote(_) => [Some(mine(start)), None],
                        };
                        for (call, given) in made.iter_mut().zip(given) {
                            call.edit(scope, |data: &mut [u32]| match given {
                                Some(given) => data.copy_from_slice(&given),
                                None => data.fill(OLD),
                            })?;
                        }
                        carry_out(scope, &mut made, own + start)?;
                        let expected = match root {
                            Root::This => [all(start), all(start)],
                            Root::Beside => [vec![], vec![]],
                            Root::Remote(_) => [mine(start), mine(start)],
                        };
                        for (call, expected) in made.iter_mut().zip(expected) {
                            call.edit(scope, |data: &mut [u32]| assert_eq!(data, expected, "{root:?}"))?;
                        }
                    }
                    Ok::<_, Error>(())
                })
                .unwrap();
        }
    });
}

/// The places of blocks in bytes.
fn in_bytes(blocks: &[Block]) -> Vec<Block> {
    let of = |elements: usize| elements * size_of::<u32>();
    blocks.iter().map(|block| Block { start: of(block.start), len: of(block.len) }).collect()
}

#[test]
fn blocks_for_every_rank_are_started_again() {
    in_halves(|endpoint, sides| {
        let (between, own, others) = (sides.between, sides.between.rank().0, sides.between.remote_size());
        let (here, there) = (sides.is_upper, !sides.is_upper);
        let len =
            |upper: bool, from: u32, to: u32| (from as usize * 3 + to as usize + usize::from(upper)) % 4 * 50;
        let given = layout((0..others).map(|to| len(here, own, to)));
        let list = layout((0..others).map(|from| len(there, from, own)));
        let alike = layout((0..others).map(|from| len(there, from, 0)));
        let input = |start| memory(&given, |to| at(start, block(here, own, to, len(here, own, to))));
        let own_block = |start| at(start, block(here, own, 0, len(here, own, 0)));
        let (mut first, mut second, mut third) = (own_block(0), input(0), input(0));
        let (mut one, mut other, mut bytes) = (vec![OLD; alike.1], vec![OLD; list.1], vec![OLD; list.1]);
        let inputs = (&mut first, &mut second, third.as_mut_bytes());
        let (gathered, swapped, moved) = (&mut one, &mut other, bytes.as_mut_bytes());
        let (to, from) = (in_bytes(&given.0), in_bytes(&list.0));
        endpoint
            .scope(|scope| {
                let mut made = [
                    inter::allgatherv(inputs.0, gathered, &alike.0).persistent(scope, &between)?,
                    inter::alltoallv(inputs.1, &given.0, swapped, &list.0).persistent(scope, &between)?,
                    inter::alltoallw(inputs.2, &to, moved, &from).persistent(scope, &between)?,
                ];
                for start in 0..STARTS {
                    let inputs = [own_block(start), input(start), input(start)];
                    for (call, given) in made.iter_mut().zip(inputs) {
                        call.edit_input(scope, |input: &mut [u32]| input.copy_from_slice(&given))?;
                        call.edit(scope, |data: &mut [u32]| data.fill(OLD))?;
                    }
                    carry_out(scope, &mut made, own + start)?;
                    let all = memory(&list, |from| at(start, block(there, from, own, len(there, from, own))));
                    let gathered =
                        memory(&alike, |from| at(start, block(there, from, 0, len(there, from, 0))));
                    for (call, expected) in made.iter_mut().zip([gathered, all.clone(), all]) {
                        call.edit(scope, |data: &mut [u32]| assert_eq!(data, expected))?;
                    }
                }
                Ok::<_, Error>(())
            })
            .unwrap();
    });
}

/// Elements in all that both groups reduce.
const ALL: usize = 60;

/// The block of a rank in a group of so many.
fn share(size: u32, rank: u32) -> usize {
    let before = |rank: u32| (0..rank).map(|rank| rank as usize % 3 * 5).sum::<usize>();
    if rank + 1 < size { before(rank + 1) - before(rank) } else { ALL - before(rank) }
}

#[test]
fn reductions_that_are_scattered_unevenly_are_started_again() {
    in_halves(|endpoint, sides| {
        let (between, own) = (sides.between, sides.between.rank().0);
        let (here, others) = (between.size(), between.remote_size());
        let given = layout((0..others).map(|to| share(others, to)));
        // What rank `from` gives for element `at` of the block of rank `to`.
        let worth = |start: u32, from: u32, to: u32, at: usize| start + from * 1000 + to * 100 + at as u32;
        let input =
            |start| memory(&given, |to| (0..share(others, to)).map(|at| worth(start, own, to, at)).collect());
        let len = share(here, own);
        let (mut elements, mut data, mut scratch) = (input(0), vec![OLD; len], [0; 8]);
        let (shown, came, scratch) = (&mut elements, &mut data, &mut scratch);
        endpoint
            .scope(|scope| {
                let call = inter::reduce_scatter(Sum, InputBlocks::new(shown, &given.0), came, scratch);
                let mut made = [call.persistent(scope, &between)?];
                for start in 0..STARTS {
                    made[0]
                        .edit_input(scope, |elements: &mut [u32]| elements.copy_from_slice(&input(start)))?;
                    carry_out(scope, &mut made, 0)?;
                    let sum = |at| (0..others).map(|from| worth(start, from, own, at)).sum();
                    let expected: Vec<u32> = (0..len).map(sum).collect();
                    made[0].edit(scope, |data: &mut [u32]| assert_eq!(data, expected))?;
                }
                Ok::<_, Error>(())
            })
            .unwrap();
    });
}

//! Collectives over two groups of all sizes and orders, by every algorithm.

mod again;

use core::num::NonZeroUsize;
use core::sync::atomic::{AtomicU32, Ordering};

use aldis_coll::comm::inter::Leaders;
use aldis_coll::comm::{self, SplitChoice};
use aldis_coll::inter::{self, InterCall, Root, algorithms};
use aldis_coll::layout::Block;
use aldis_coll::schedule::Candidate;
use aldis_coll::{InputBlocks, Options, allreduce, op::Sum, reduce, wait_all};
use aldis_kernel::hal::{Cause, Operation};
use aldis_kernel::plane::prelude::*;
use aldis_kernel::{Comm, Error, Rank, Tag};
use aldis_tests::thread_jobs::{Endpoint, run};
use zerocopy::IntoBytes;

use crate::oracle::{Affine, Compose, fold, inputs};

/// A number that was in memory before.
const OLD: u32 = u32::MAX;
const COUNTS: [usize; 3] = [0, 1, 700];

/// Element `at` of what rank `from` of a group has for rank `to` of the other.
fn element(is_upper: bool, from: u32, to: u32, at: usize) -> u32 {
    u32::from(is_upper) << 30 ^ from << 20 ^ to << 12 ^ at as u32
}

fn block(is_upper: bool, from: u32, to: u32, len: usize) -> Vec<u32> {
    (0..len).map(|at| element(is_upper, from, to, at)).collect()
}

/// The two groups as a rank knows them.
pub(crate) struct Sides {
    pub(crate) between: Comm,
    is_upper: bool,
}

impl Sides {
    /// Splits the world at `middle`. Ranks of the lower group stand backwards in it, so that its
    /// first process is the highest.
    pub(crate) fn new(endpoint: &mut Endpoint<'_, '_>, middle: u32) -> Self {
        let (world, mut scratch) = (endpoint.world(), [SplitChoice::NONE; 9]);
        let is_upper = world.rank().0 >= middle;
        let key = world.rank().0.cast_signed() * if is_upper { 1 } else { -1 };
        let half = comm::split(endpoint, &world, Some(is_upper.into()), key, &mut scratch).unwrap().unwrap();
        let other = Rank(if is_upper { middle - 1 } else { middle });
        let leaders = Leaders { local: &half, leader: Rank(0), peer: &world, remote: other, tag: Tag(1) };
        let between = comm::inter::create(endpoint, leaders, &mut scratch);
        comm::free(endpoint, half).unwrap();
        Self { between: between.unwrap(), is_upper }
    }

    /// The root as this rank sees it, if it is this rank of the upper or the lower group.
    fn root(&self, of_upper: bool, rank: u32) -> Root {
        match (self.is_upper == of_upper, self.between.rank() == Rank(rank)) {
            (true, true) => Root::This,
            (true, false) => Root::Beside,
            (false, _) => Root::Remote(Rank(rank)),
        }
    }

    fn size(&self, of_upper: bool) -> u32 {
        if of_upper == self.is_upper { self.between.size() } else { self.between.remote_size() }
    }

    /// Every first and last rank of either group, as a root.
    fn roots(&self) -> Vec<(bool, u32)> {
        [false, true].into_iter().flat_map(|upper| [(upper, 0), (upper, self.size(upper) - 1)]).collect()
    }
}

/// Runs `body` with every algorithm of an operation for so many places, and with the one that
/// selection takes.
fn each(operation: Operation, places: u32, mut body: impl FnMut(&Options)) {
    let serves = |known: &&Candidate| known.serves(places);
    let named = algorithms(operation).iter().filter(serves).map(|known| Options::using(*known));
    named.chain([Options::default()]).for_each(|options| body(&options));
}

/// Runs `body` on every rank of jobs that are split in two in many ways.
fn in_halves(body: impl Fn(&mut Endpoint<'_, '_>, &Sides) + Sync) {
    for (size, middle) in [(2, 1), (3, 1), (3, 2), (5, 2), (6, 3), (7, 6), (8, 4), (9, 1), (9, 5)] {
        run(size, |endpoint| {
            let sides = Sides::new(endpoint, middle);
            body(endpoint, &sides);
            comm::inter::free(endpoint, sides.between).unwrap();
        });
    }
}

/// Returns true if a call was refused for its scratch.
fn is_refused(result: Result<(), Error>) -> bool {
    result.is_err_and(|error| {
        assert!(matches!(error.cause, Cause::TooSmall { .. }), "{error}");
        true
    })
}

#[test]
fn no_rank_leaves_a_barrier_before_both_groups_have_entered() {
    for (size, middle) in [(2, 1), (5, 1), (6, 2), (9, 5)] {
        let entered = AtomicU32::new(0);
        run(size, |endpoint| {
            let sides = Sides::new(endpoint, middle);
            for round in 1..=5 {
                each(Operation::Barrier, size, |options| {
                    entered.fetch_add(1, Ordering::SeqCst);
                    inter::barrier().with(options).run(endpoint, &sides.between).unwrap();
                    assert!(entered.load(Ordering::SeqCst) >= round * size);
                    inter::barrier().with(options).run(endpoint, &sides.between).unwrap();
                });
            }
        });
    }
}

#[test]
fn a_broadcast_reaches_the_other_group_and_no_one_of_its_own() {
    in_halves(|endpoint, sides| {
        for (upper, rank) in sides.roots() {
            let root = sides.root(upper, rank);
            each(Operation::Bcast, sides.size(!upper) + 1, |options| {
                for count in COUNTS {
                    let told = block(upper, rank, 0, count);
                    let mut data = if root == Root::This { told.clone() } else { vec![OLD; count] };
                    inter::bcast(&mut data, root).with(options).run(endpoint, &sides.between).unwrap();
                    let expected = if root == Root::Beside { vec![OLD; count] } else { told };
                    assert_eq!(data, expected, "{options:?} {root:?}");
                }
            });
        }
    });
}

/// Blocks of every rank of a group for the root, and back.
#[test]
fn blocks_of_one_group_meet_at_a_rank_of_the_other() {
    in_halves(|endpoint, sides| {
        let own = sides.between.rank().0;
        for (upper, rank) in sides.roots() {
            let (root, others) = (sides.root(upper, rank), sides.size(!upper));
            let all =
                |count| (0..others).flat_map(|from| block(!upper, from, rank, count)).collect::<Vec<_>>();
            let lens = |count: usize| [others as usize * count, count.div_ceil(2), 0];
            for (count, scratch) in COUNTS.into_iter().flat_map(|count| lens(count).map(|len| (count, len))) {
                each(Operation::Gather, others + 1, |options| {
                    let (mut data, expected) = match root {
                        Root::This => (vec![OLD; others as usize * count], all(count)),
                        Root::Beside => (vec![], vec![]),
                        Root::Remote(_) => (block(!upper, own, rank, count), block(!upper, own, rank, count)),
                    };
                    let call = inter::gather(&mut data, &mut vec![0; scratch], root)
                        .with(options)
                        .run(endpoint, &sides.between);
                    if !is_refused(call) {
                        assert_eq!(data, expected, "{options:?} {root:?}");
                    }
                });
                each(Operation::Scatter, others + 1, |options| {
                    let (mut data, expected) = match root {
                        Root::This => (all(count), all(count)),
                        Root::Beside => (vec![], vec![]),
                        Root::Remote(_) => (vec![OLD; count], block(!upper, own, rank, count)),
                    };
                    let call = inter::scatter(&mut data, &mut vec![0; scratch], root)
                        .with(options)
                        .run(endpoint, &sides.between);
                    if !is_refused(call) {
                        assert_eq!(data, expected, "{options:?} {root:?}");
                    }
                });
            }
        }
    });
}

#[test]
fn blocks_of_unlike_lengths_meet_at_a_rank_of_the_other_group() {
    in_halves(|endpoint, sides| {
        let own = sides.between.rank().0;
        let len = |rank: u32| (rank as usize * 3) % 4 * 50;
        for (upper, rank) in sides.roots() {
            let (root, others) = (sides.root(upper, rank), sides.size(!upper));
            let list = layout((0..others).map(len));
            let all = memory(&list, |from| block(!upper, from, rank, len(from)));
            let mine = block(!upper, own, rank, len(own));
            each(Operation::Gatherv, others + 1, |options| {
                let mut data = match root {
                    Root::This => vec![OLD; list.1],
                    Root::Beside => vec![],
                    Root::Remote(_) => mine.clone(),
                };
                inter::gatherv(&mut data, &list.0, root).with(options).run(endpoint, &sides.between).unwrap();
                if root == Root::This {
                    assert_eq!(data, all, "{options:?}");
                }
            });
            each(Operation::Scatterv, others + 1, |options| {
                let mut data = match root {
                    Root::This => all.clone(),
                    Root::Beside => vec![],
                    Root::Remote(_) => vec![OLD; len(own)],
                };
                inter::scatterv(&mut data, &list.0, root)
                    .with(options)
                    .run(endpoint, &sides.between)
                    .unwrap();
                if matches!(root, Root::Remote(_)) {
                    assert_eq!(data, mine, "{options:?}");
                }
            });
        }
    });
}

/// Every rank's block on every rank of the other group, also where those of the two groups have
/// unlike lengths, or one has none.
#[test]
fn blocks_go_to_every_rank_of_the_other_group() {
    in_halves(|endpoint, sides| {
        let (own, others) = (sides.between.rank().0, sides.between.remote_size());
        let (here, there) = (sides.is_upper, !sides.is_upper);
        let nominal = 2 * others.max(sides.between.size());
        for (of_lower, of_upper) in [(0, 0), (1, 1), (700, 700), (5, 300), (0, 4)] {
            let len = |upper: bool| if upper { of_upper } else { of_lower };
            let input = block(here, own, 0, len(here));
            let all: Vec<u32> = (0..others).flat_map(|from| block(there, from, 0, len(there))).collect();
            for scratch in [nominal as usize * 350, 351, 0] {
                each(Operation::Allgather, nominal, |options| {
                    let mut data = vec![OLD; all.len()];
                    let mut spare = vec![0; scratch];
                    let call = inter::allgather(&input, &mut data, &mut spare).with(options);
                    match call.run(endpoint, &sides.between) {
                        Ok(()) => assert_eq!(data, all, "{options:?}"),
                        // It needs scratch, or blocks of one length.
                        Err(error) if of_lower != of_upper => assert_eq!(error.cause, Cause::Unsupported),
                        refused => assert!(is_refused(refused)),
                    }
                });
            }
            let input: Vec<u32> = (0..others).flat_map(|to| block(here, own, to, len(here))).collect();
            let all: Vec<u32> = (0..others).flat_map(|from| block(there, from, own, len(there))).collect();
            each(Operation::Alltoall, nominal, |options| {
                let mut data = vec![OLD; all.len()];
                inter::alltoall(&input, &mut data).with(options).run(endpoint, &sides.between).unwrap();
                assert_eq!(data, all, "{options:?}");
            });
        }
    });
}

/// Blocks of these lengths with a gap before each, backwards.
fn layout(lens: impl DoubleEndedIterator<Item = usize> + ExactSizeIterator) -> (Vec<Block>, usize) {
    let mut end = 0;
    let mut list: Vec<Block> = lens
        .rev()
        .map(|len| {
            let block = Block { start: end + 2, len };
            end += 2 + len;
            block
        })
        .collect();
    list.reverse();
    (list, end)
}

/// Memory of such a layout, old but for what `of` tells.
fn memory((list, end): &(Vec<Block>, usize), of: impl Fn(u32) -> Vec<u32>) -> Vec<u32> {
    let mut all = vec![OLD; *end];
    for (rank, at) in list.iter().enumerate() {
        all[at.start..][..at.len].copy_from_slice(&of(rank as u32));
    }
    all
}

#[test]
fn blocks_of_unlike_lengths_go_to_every_rank_of_the_other_group() {
    in_halves(|endpoint, sides| {
        let (own, others) = (sides.between.rank().0, sides.between.remote_size());
        let (here, there) = (sides.is_upper, !sides.is_upper);
        let nominal = 2 * others.max(sides.between.size());
        let len =
            |upper: bool, from: u32, to: u32| (from as usize * 3 + to as usize + usize::from(upper)) % 4 * 50;
        let list = layout((0..others).map(|from| len(there, from, 0)));
        let input = block(here, own, 0, len(here, own, 0));
        each(Operation::Allgatherv, nominal, |options| {
            let mut data = vec![OLD; list.1];
            let call = inter::allgatherv(&input, &mut data, &list.0).with(options);
            call.run(endpoint, &sides.between).unwrap();
            assert_eq!(data, memory(&list, |from| block(there, from, 0, len(there, from, 0))), "{options:?}");
        });
        let given = layout((0..others).map(|to| len(here, own, to)));
        let input = memory(&given, |to| block(here, own, to, len(here, own, to)));
        let list = layout((0..others).map(|from| len(there, from, own)));
        each(Operation::Alltoallv, nominal, |options| {
            let mut data = vec![OLD; list.1];
            let call = inter::alltoallv(&input, &given.0, &mut data, &list.0).with(options);
            call.run(endpoint, &sides.between).unwrap();
            assert_eq!(
                data,
                memory(&list, |from| block(there, from, own, len(there, from, own))),
                "{options:?}"
            );
        });
        // The same as bytes.
        let bytes = |blocks: &[Block]| -> Vec<Block> {
            let of = |elements: usize| elements * size_of::<u32>();
            blocks.iter().map(|block| Block { start: of(block.start), len: of(block.len) }).collect()
        };
        let (to, from) = (bytes(&given.0), bytes(&list.0));
        each(Operation::Alltoallw, nominal, |options| {
            let mut data = vec![OLD; list.1];
            let call = inter::alltoallw(input.as_bytes(), &to, data.as_mut_bytes(), &from).with(options);
            call.run(endpoint, &sides.between).unwrap();
            assert_eq!(data, memory(&list, |from| block(there, from, own, len(there, from, own))));
        });
    });
}

/// Also of an operation that does not commute, with scratch for all and for little.
#[test]
fn a_reduction_is_of_the_other_group_in_the_order_of_its_ranks() {
    in_halves(|endpoint, sides| {
        let (own, between) = (sides.between.rank().0, sides.between);
        let nominal = 2 * between.size().max(between.remote_size());
        let seed = |upper: bool| 5 + u64::from(upper);
        for (count, scratch) in [(0, 1), (1, 1), (40, 7), (40, 40)] {
            let mine: Vec<Affine> = inputs(seed(sides.is_upper), own, count);
            let of = |upper: bool| fold::<Affine, _>(Compose, seed(upper), sides.size(upper), count);
            let mut spare = vec![Affine { a: 1, b: 0 }; scratch];
            each(Operation::Allreduce, nominal, |options| {
                let mut data = mine.clone();
                let call = inter::allreduce(Compose, &mut data, &mut spare).with(options);
                call.run(endpoint, &between).unwrap();
                assert_eq!(data, of(!sides.is_upper), "{options:?}");
            });
            for (upper, rank) in sides.roots() {
                let root = sides.root(upper, rank);
                each(Operation::Reduce, sides.size(!upper) + 1, |options| {
                    let mut data = mine.clone();
                    let call = inter::reduce(Compose, &mut data, &mut spare, root).with(options);
                    call.run(endpoint, &between).unwrap();
                    if root == Root::This {
                        assert_eq!(data, of(!upper), "{options:?}");
                    }
                });
            }
        }
    });
}

/// So many elements cut into blocks of unlike lengths, of which some have none.
fn cuts(total: usize, ranks: u32) -> Vec<usize> {
    let end = |rank: u32| match rank {
        rank if rank == ranks => total,
        rank => total * (rank / 2) as usize / ranks as usize,
    };
    (0..ranks).map(|rank| end(rank + 1) - end(rank)).collect()
}

/// Blocks of one length, of another one for each group, and of unlike ones; with scratch for all,
/// for little, and for nothing.
#[test]
fn a_reduction_of_the_other_group_is_scattered_in_the_order_of_its_ranks() {
    in_halves(|endpoint, sides| {
        let (between, own) = (sides.between, sides.between.rank().0 as usize);
        let (here, there) = (between.size(), between.remote_size());
        let nominal = 2 * here.max(there);
        let seed = |upper: bool| 11 + u64::from(upper);
        let all = (here * there) as usize;
        for total in [0, all, 30 * all] {
            let input: Vec<Affine> = inputs(seed(sides.is_upper), own as u32, total);
            let reduced = fold::<Affine, _>(Compose, seed(!sides.is_upper), there, total);
            let (blocks, lens) = (cuts(total, there), cuts(total, here));
            let before: usize = lens[..own].iter().sum();
            // Backwards, with gaps.
            let given = layout(blocks.iter().copied());
            let mut apart = vec![Affine { a: 1, b: 1 }; given.1];
            let mut from = 0;
            for at in &given.0 {
                apart[at.start..][..at.len].copy_from_slice(&input[from..][..at.len]);
                from += at.len;
            }
            for scratch in [2 * nominal as usize * total, 2 * nominal as usize + 1, 2, 0] {
                let mut spare = vec![Affine { a: 1, b: 0 }; scratch];
                let mut check = |options: &Options| {
                    let count = total / here as usize;
                    let mut data = vec![Affine { a: 7, b: 7 }; count];
                    let call = inter::reduce_scatter_block(Compose, &input, &mut data, &mut spare);
                    if !is_refused(call.with(options).run(endpoint, &between)) {
                        assert_eq!(data, reduced[own * count..][..count], "{options:?}");
                    }
                    let mut data = vec![Affine { a: 7, b: 7 }; lens[own]];
                    let call = inter::reduce_scatter(
                        Compose,
                        InputBlocks::new(&apart, &given.0),
                        &mut data,
                        &mut spare,
                    );
                    if !is_refused(call.with(options).run(endpoint, &between)) {
                        assert_eq!(data, reduced[before..][..lens[own]], "{options:?}");
                    }
                };
                each(Operation::ReduceScatterBlock, nominal, &mut check);
                check(&Options { segment: NonZeroUsize::new(7), ..Options::default() });
            }
        }
    });
}

/// Two nonblocking at a time, and one that is started three times.
#[test]
fn scattered_reductions_are_started_again() {
    run(5, |endpoint| {
        let sides = Sides::new(endpoint, 2);
        let (between, rank) = (sides.between, sides.between.rank().0);
        let (here, there) = (between.size(), between.remote_size());
        let sum = |of: u32| (0..of).sum::<u32>();
        let mut input = [rank; 6];
        let mut parts = [vec![0; 6 / here as usize], vec![0; 6 / here as usize], vec![0; 6 / here as usize]];
        let (mut bytes, blocks) = (vec![0; there as usize], vec![Block { start: 0, len: 1 }; there as usize]);
        let blocks: Vec<Block> = (0..).zip(blocks).map(|(at, block)| Block { start: at, ..block }).collect();
        let given = vec![rank as u8; there as usize];
        let mut scratch = [[0; 24]; 3];
        let ([one, two, three], [first, second, third]) = (&mut parts, &mut scratch);
        let (input, swapped, same) = (&mut input, &mut bytes, [rank; 6]);
        endpoint
            .scope(|scope| {
                let again = inter::reduce_scatter_block(Sum, input, three, third);
                let mut again = again.persistent(scope, &between)?;
                let mut flying = vec![
                    inter::reduce_scatter_block(Sum, &same, one, first).start(scope, &between)?,
                    inter::alltoallw(&given, &blocks, swapped, &blocks).start(scope, &between)?,
                    inter::reduce_scatter_block(Sum, &same, two, second).start(scope, &between)?,
                ];
                wait_all(scope, &mut flying)?;
                for start in 0..3 {
                    again.edit_input(scope, |input: &mut [u32]| input.fill(rank + start))?;
                    again.start(scope)?;
                    again.wait(scope)?;
                    again.edit(scope, |got: &mut [u32]| {
                        assert!(got.iter().all(|got| *got == sum(there) + start * there));
                    })?;
                }
                Ok::<_, Error>(())
            })
            .unwrap();
        assert!(parts[..2].iter().flatten().all(|got| *got == sum(there)));
        assert!((0..).zip(&bytes).all(|(from, got): (u32, _)| u32::from(*got) == from));
    });
}

/// Collectives over both groups, of a group alone, and calls that make communicators, all on one
/// intercommunicator.
#[test]
fn several_are_in_flight_and_meet_no_others() {
    run(7, |endpoint| {
        let sides = Sides::new(endpoint, 3);
        let (between, own) = (sides.between, sides.between.rank().0);
        let companion = endpoint.companion(&between).unwrap();
        for _ in 0..5 {
            let (up, down) = (sides.root(true, 1), sides.root(false, 2));
            let mut first = if up == Root::This { [7; 300] } else { [OLD; 300] };
            let mut second = if down == Root::This { [8; 2] } else { [OLD; 2] };
            let mut third = vec![own; if up == Root::This { 3 } else { 1 }];
            let (mut sum, mut scratch) = ([own], [0; 8]);
            let (a, b, c) = (&mut first, &mut second, &mut third);
            let (one, two) = (&mut sum, &mut scratch);
            endpoint
                .scope(|scope| {
                    let mut flying = vec![
                        inter::bcast(a, up).start(scope, &between)?,
                        inter::barrier().start(scope, &between)?,
                        aldis_coll::allreduce(Sum, one, two).start(scope, &companion)?,
                        inter::bcast(b, down).start(scope, &between)?,
                        inter::gather(c, &mut [], up).start(scope, &between)?,
                    ];
                    wait_all(scope, &mut flying)
                })
                .unwrap();
            assert_eq!(first, if up == Root::Beside { [OLD; 300] } else { [7; 300] });
            assert_eq!(second, if down == Root::Beside { [OLD; 2] } else { [8; 2] });
            assert_eq!(sum[0], (0..between.size()).sum::<u32>());
            if up == Root::This {
                assert_eq!(third, [0, 1, 2]);
            }
            let copy = comm::inter::dup(endpoint, &between).unwrap();
            inter::barrier().run(endpoint, &copy).unwrap();
            comm::inter::free(endpoint, copy).unwrap();
        }
    });
}

#[test]
fn what_does_not_fit_is_refused_by_name() {
    run(5, |endpoint| {
        let (world, sides) = (endpoint.world(), Sides::new(endpoint, 2));
        let cause = |error: Error| error.cause;
        let of = |endpoint: &mut Endpoint, call: InterCall<'_>, comm: &Comm| {
            call.run(endpoint, comm).map_err(cause)
        };
        let one = of(endpoint, inter::barrier(), &world);
        assert_eq!(one, Err(Cause::Intracommunicator));
        let two = allreduce(Sum, &mut [0], &mut [0]).run(endpoint, &sides.between).map_err(cause);
        assert_eq!(two, Err(Cause::Intercommunicator));
        let size = sides.between.remote_size();
        let beyond = of(endpoint, inter::bcast(&mut [0_u8], Root::Remote(Rank(size))), &sides.between);
        assert_eq!(beyond, Err(Cause::RankOutOfRange { rank: size, size }));
        let uneven = of(endpoint, inter::gather(&mut [0_u8; 7], &mut [], Root::This), &sides.between);
        assert_eq!(uneven, Err(Cause::LengthMismatch { left: 7, right: 6 }));
        let (here, six) = (sides.between.size(), [0_u32; 6]);
        let mut long = vec![0; 6 / here as usize + 1];
        let mut spare = [0; 24];
        let uneven = inter::reduce_scatter_block(Sum, &six, &mut long, &mut spare);
        let right = 6 + u64::from(here);
        let mismatch = Cause::LengthMismatch { left: 6, right };
        assert_eq!(of(endpoint, uneven, &sides.between), Err(mismatch));
        let shared = of(endpoint, inter::barrier().with(&Options::shared()), &sides.between);
        assert_eq!(shared, Err(Cause::Unsupported));
        // An algorithm for one group reduces what the root has as well, and one for two groups what
        // it has not.
        let one = Options::using(&aldis_coll::reduce::Linear);
        let (mut data, mut spare) = ([1_u32], [0]);
        let one = inter::reduce(Sum, &mut data, &mut spare, sides.root(true, 0)).with(&one);
        assert_eq!(of(endpoint, one, &sides.between), Err(Cause::Unsupported));
        let two = Options::using(&inter::reduce::Linear);
        let two =
            reduce(Sum, &mut [1_u32], &mut [0], Rank(0)).with(&two).run(endpoint, &world).map_err(cause);
        assert_eq!(two, Err(Cause::Unsupported));
        // All ranks are still in step.
        inter::barrier().run(endpoint, &sides.between).unwrap();
    });
}

//! Random programs of collectives by control slots, beside the oracle.

use aldis_coll::layout::Block;
use aldis_coll::op::Sum;
use aldis_coll::{InputBlocks, allreduce, barrier, bcast, comm, exscan, reduce_scatter, scan};
use aldis_kernel::{Comm, Rank, Tag};
use aldis_tests::thread_jobs::{Endpoint, run};
use proptest::prelude::*;

use super::super::oracle::{Affine, Compose, fold, inputs, noise};

/// A step of a random program: its communicator, operation, length, and root.
type ProgramStep = (usize, u8, usize, u32);

proptest! {
    #![proptest_config(ProptestConfig { cases: 16, ..ProptestConfig::default() })]

    /// Blocking calls on world and on communicators of their own, some with control slots and one
    /// without, with messages between the same ranks in between. Sizes from nothing to several laps
    /// of the chunks; numbers go round the control slots.
    #[test]
    fn programs_on_several_communicators_agree_with_the_oracle(
        size in 2..=8u32,
        steps in prop::collection::vec((0..5usize, 0..11u8, prop_oneof![0..20usize, 20..5000usize], 0..8u32), 1..40),
        seed: u64,
    ) {
        run(size, |endpoint| program(endpoint, size, &steps, seed));
    }
}

fn program(endpoint: &mut Endpoint<'_, '_>, size: u32, steps: &[ProgramStep], seed: u64) {
    let world = endpoint.world();
    let mut comms = vec![world];
    for _ in 0..3 {
        comms.push(comm::dup(endpoint, &world).unwrap());
    }
    // One of half of the ranks, in the other order.
    let (me, mut scratch) = (world.rank().0, [comm::SplitChoice::NONE; 9]);
    let half = comm::split(endpoint, &world, Some(me % 2), -(me as i32), &mut scratch).unwrap().unwrap();
    comms.push(half);
    for (index, &(which, what, count, root)) in steps.iter().enumerate() {
        let (on, seed) = (comms[which], seed.wrapping_add(index as u64));
        let (rank, members) = (on.rank().0, on.size());
        let root = root % members;
        match what {
            0 => barrier().run(endpoint, &on).unwrap(),
            1 => {
                let mut data = inputs::<u64>(seed, rank, count);
                bcast(&mut data, Rank(root)).run(endpoint, &on).unwrap();
                assert_eq!(data, inputs::<u64>(seed, root, count));
            }
            2 => {
                let (mut data, mut spare) = (inputs::<Affine>(seed, rank, count), inputs(seed, 0, count));
                allreduce(Compose, &mut data, &mut spare).run(endpoint, &on).unwrap();
                assert_eq!(data, fold::<Affine, _>(Compose, seed, members, count));
            }
            3 => {
                let (mut data, mut spare) = (inputs::<u16>(seed, rank, count), inputs(seed, 0, count));
                aldis_coll::reduce(Sum, &mut data, &mut spare, Rank(root)).run(endpoint, &on).unwrap();
                assert!(rank != root || data == fold::<u16, _>(Sum, seed, members, count));
            }
            5..11 => {
                let most = count / members as usize;
                portions(endpoint, &on, PortionsCall { what, seed, most, root });
            }
            _ => {
                let (out, mut into) = ([rank; 3], [0; 3]);
                let (to, from) = (Rank((rank + 1) % members), Rank((rank + members - 1) % members));
                endpoint.sendrecv(&on, &out, to, Tag(1), &mut into, from, Tag(1)).unwrap();
                assert_eq!(into, [from.0; 3]);
            }
        }
    }
    for made in comms.drain(1..).rev() {
        comm::free(endpoint, made).unwrap();
    }
    assert_eq!(size, world.size());
}

/// A call on blocks of unlike lengths, up to `most` elements, or a scan.
#[derive(Clone, Copy)]
struct PortionsCall {
    what: u8,
    seed: u64,
    most: usize,
    root: u32,
}

/// Makes the call: in control slots, by messages, or both.
fn portions(endpoint: &mut Endpoint<'_, '_>, on: &Comm, call: PortionsCall) {
    let PortionsCall { what, seed, most, root } = call;
    let (rank, members) = (on.rank().0, on.size());
    let len = |from: u32, to: u32| noise(seed, from, to as usize) as usize % (most + 1);
    let block = |from: u32, to: u32| inputs::<u64>(seed ^ u64::from(to), from, len(from, to));
    let of_all = |block: &dyn Fn(u32) -> Vec<u64>| {
        let all: Vec<Vec<u64>> = (0..members).map(block).collect();
        let mut end = 0;
        let list = all.iter().map(|part| Block { start: (end, end += part.len()).0, len: part.len() });
        (list.collect::<Vec<_>>(), all.concat())
    };
    let own = |all: &dyn Fn(u32) -> Vec<u64>, mine: u32| {
        of_all(&|from| if from == mine { all(from) } else { vec![0; all(from).len()] })
    };
    match what {
        5 => {
            let ((list, mut data), (_, all)) =
                (own(&|from| block(from, 0), rank), of_all(&|from| block(from, 0)));
            aldis_coll::allgatherv(&mut data, &list).run(endpoint, on).unwrap();
            assert_eq!(data, all);
        }
        6 => {
            let ((list, mut data), (_, all)) =
                (own(&|from| block(from, 0), rank), of_all(&|from| block(from, 0)));
            if rank != root {
                data = block(rank, 0);
            }
            aldis_coll::gatherv(&mut data, &list, Rank(root)).run(endpoint, on).unwrap();
            assert!(rank != root || data == all);
        }
        7 => {
            let (list, mut data) = of_all(&|to| block(root, to));
            if rank != root {
                data = vec![0; len(root, rank)];
            }
            aldis_coll::scatterv(&mut data, &list, Rank(root)).run(endpoint, on).unwrap();
            assert!(rank == root || data == block(root, rank));
        }
        8 => {
            let ((given, input), (list, all)) =
                (of_all(&|to| block(rank, to)), of_all(&|from| block(from, rank)));
            let mut data = vec![0; all.len()];
            aldis_coll::alltoallv(&input, &given, &mut data, &list).run(endpoint, on).unwrap();
            assert_eq!(data, all);
        }
        9 => {
            let (list, all) = of_all(&|to| block(0, to));
            let input = inputs::<Affine>(seed, rank, all.len());
            let Block { start, len } = list[rank as usize];
            let mut data = inputs(seed, 0, len);
            let mut scratch = inputs(seed, 0, 2 * all.len() + 1);
            reduce_scatter(Compose, InputBlocks::new(&input, &list), &mut data, &mut scratch)
                .run(endpoint, on)
                .unwrap();
            assert_eq!(data, fold::<Affine, _>(Compose, seed, members, all.len())[start..][..len]);
        }
        _ => {
            let (mut upto, mut before) =
                (inputs::<Affine>(seed, rank, most), inputs::<Affine>(seed, rank, most));
            let mut scratch = inputs(seed, 0, most + 1);
            scan(Compose, &mut upto, &mut scratch).run(endpoint, on).unwrap();
            exscan(Compose, &mut before, &mut scratch).run(endpoint, on).unwrap();
            assert_eq!(upto, fold::<Affine, _>(Compose, seed, rank + 1, most));
            assert!(rank == 0 || before == fold::<Affine, _>(Compose, seed, rank, most));
        }
    }
}

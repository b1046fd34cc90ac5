//! What two ranks hand each other in chunks, when no control slot holds it.

use aldis_coll::op::Sum;
use aldis_coll::select::Call as Selected;
use aldis_coll::{
    Options, exscan, gather, reduce_scatter_block, reduce_scatter_block_in_place, scan, scatter,
};
use aldis_kernel::Rank;
use aldis_kernel::hal::{Cause, Operation};
use aldis_tests::thread_jobs::run;

use super::oracle::{Affine, Compose, fold, inputs};

/// Elements of 8 bytes: just more than a slot holds, and lengths that end within a segment.
const COUNTS: [usize; 4] = [1025, 2048, 5003, 40_011];

#[test]
fn rooted_blocks_come_from_and_go_to_either_rank() {
    run(2, |endpoint| {
        let (world, me) = (endpoint.world(), endpoint.world().rank());
        for (count, root) in COUNTS.into_iter().flat_map(|count| [(count, Rank(0)), (count, Rank(1))]) {
            let all: Vec<u64> = [inputs(1, 0, count), inputs(1, 1, count)].concat();
            let own = all[me.0 as usize * count..][..count].to_vec();
            let mut data = own.clone();
            if me == root {
                data = vec![9; 2 * count];
                data[me.0 as usize * count..][..count].copy_from_slice(&own);
            }
            gather(&mut data, &mut [], root).run(endpoint, &world).unwrap();
            assert!(data == if me == root { all.clone() } else { own.clone() }, "gather of {count}");
            let mut data = if me == root { all } else { vec![9; count] };
            scatter(&mut data, &mut [], root).run(endpoint, &world).unwrap();
            let scattered = if me == root { &data[me.0 as usize * count..][..count] } else { &data };
            assert!(scattered == own, "scatter of {count}");
        }
    });
}

#[test]
fn reductions_keep_the_order_of_ranks() {
    run(2, |endpoint| {
        let (world, me) = (endpoint.world(), endpoint.world().rank().0);
        for count in COUNTS {
            let both = fold(Compose, 3, 2, 2 * count);
            let part = &both[me as usize * count..][..count];
            let given: Vec<Affine> = inputs(3, me, 2 * count);
            let (mut data, mut spare) = (vec![given[0]; count], vec![given[0]; 2 * count]);
            reduce_scatter_block(Compose, &given, &mut data, &mut spare).run(endpoint, &world).unwrap();
            assert!(data == part, "reduce_scatter_block of {count}");
            let mut data = given.clone();
            reduce_scatter_block_in_place(Compose, &mut data, &mut spare).run(endpoint, &world).unwrap();
            assert!(
                &data[me as usize * count..][..count] == part,
                "reduce_scatter_block in place of {count}"
            );
            let mut data = given.clone();
            scan(Compose, &mut data, &mut spare).run(endpoint, &world).unwrap();
            assert!(data == if me == 0 { given.clone() } else { both.clone() }, "scan of {count}");
            let mut data = given.clone();
            exscan(Compose, &mut data, &mut spare).run(endpoint, &world).unwrap();
            let before: Vec<Affine> = if me == 0 { given } else { inputs(3, 0, 2 * count) };
            assert!(data == before, "exscan of {count}");
        }
    });
}

/// The length that one rank has is told to the other, and the next call is in step.
#[test]
fn another_length_than_expected_is_found() {
    let errors = run(2, |endpoint| {
        let (world, me) = (endpoint.world(), endpoint.world().rank().0 as usize);
        // Rank 1 gives so many bytes to the root, which expects 30,000.
        let causes = [40_000, 20_000].map(|theirs| {
            let mut data = vec![me as u8; [60_000, theirs][me]];
            let done = gather(&mut data, &mut [], Rank(0)).run(endpoint, &world);
            let mut data = vec![me as u8; [30_000, 60_000][me]];
            scatter(&mut data, &mut [], Rank(1)).run(endpoint, &world).unwrap();
            assert!(data.iter().all(|byte| *byte == 1));
            done.err().map(|error| (error.operation, error.cause, error.peer()))
        });
        let told = Selected::scan::<Sum, u64>(2, 5000, 1).explain(&Options::default()).on(endpoint, &world);
        assert!(told.is_shared(), "{told}");
        causes
    });
    let of = |theirs| Some((Operation::Gather, Cause::UnlikeLength { own: 30_000, theirs }, Some(Rank(1))));
    assert_eq!(errors, [[of(40_000), of(20_000)], [None; 2]]);
}

//! Data that ranks hand each other in chunks, when no control slot holds them.

use aldis_coll::layout::Block;
use aldis_coll::op::Sum;
use aldis_coll::select::Call as Selected;
use aldis_coll::{
    Options, allgather, allgather_from, allgatherv, alltoall, bcast, exscan, gather, reduce_scatter_block,
    reduce_scatter_block_in_place, scan, scatter,
};
use aldis_drivers::shm::PairLengths;
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

#[test]
fn blocks_for_all_of_several_ranks_are_right() {
    for size in [2, 3, 5, 8] {
        run(size, |endpoint| {
            let (world, me) = (endpoint.world(), endpoint.world().rank().0);
            let mine = me as usize;
            for count in [1025, 2049, 9001] {
                let all: Vec<u64> = (0..size).flat_map(|rank| inputs(1, rank, count)).collect();
                let mut data = vec![9; all.len()];
                data[mine * count..][..count].copy_from_slice(&all[mine * count..][..count]);
                allgather(&mut data).run(endpoint, &world).unwrap();
                assert!(data == all, "allgather of {count} on {size} ranks");
                let total = count * size as usize;
                let given: Vec<u64> = inputs(2, me, total);
                alltoall(&given, &mut data, &mut []).run(endpoint, &world).unwrap();
                let of = |rank| inputs::<u64>(2, rank, total)[mine * count..][..count].to_vec();
                assert!(
                    data == (0..size).flat_map(of).collect::<Vec<_>>(),
                    "alltoall of {count} on {size} ranks"
                );
                let given: Vec<Affine> = inputs(3, me, total);
                let (mut data, mut spare) = (vec![given[0]; count], vec![given[0]; total]);
                reduce_scatter_block(Compose, &given, &mut data, &mut spare).run(endpoint, &world).unwrap();
                let part = fold(Compose, 3, size, total)[mine * count..][..count].to_vec();
                assert!(data == part, "reduce_scatter_block of {count} on {size} ranks");
                let mut data = given;
                reduce_scatter_block_in_place(Compose, &mut data, &mut spare).run(endpoint, &world).unwrap();
                assert!(data[mine * count..][..count] == part, "the same in place");
            }
        });
    }
}

#[test]
fn a_rank_of_several_with_another_length_is_named() {
    let errors = run(3, |endpoint| {
        let (world, me) = (endpoint.world(), endpoint.world().rank().0 as usize);
        let mut data = vec![me as u8; 3 * [20_000, 20_000, 10_000][me]];
        let done = allgather(&mut data).run(endpoint, &world);
        let mut data = vec![0_u8; 60_000];
        data[me * 20_000..][..20_000].fill(me as u8 + 1);
        allgather(&mut data).run(endpoint, &world).unwrap();
        assert!(
            (0..3).all(|rank| data[rank * 20_000..][..20_000].iter().all(|byte| *byte == rank as u8 + 1))
        );
        let error = done.unwrap_err();
        (error.cause, error.peer())
    });
    let unlike = |own, theirs, peer| (Cause::UnlikeLength { own, theirs }, Some(Rank(peer)));
    let expected = [unlike(20_000, 10_000, 2), unlike(20_000, 10_000, 2), unlike(10_000, 20_000, 0)];
    assert_eq!(errors, expected);
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

/// Two ranks may have measured that a message is the sooner one from so many bytes on: then calls
/// of which all know the length go so, unless somebody names the slots.
#[test]
fn two_ranks_send_messages_where_these_are_sooner() {
    const LEAST: usize = 16 << 10;
    run(2, |endpoint| {
        let shm = endpoint.try_transport_mut().unwrap().second_mut();
        shm.pass_between_pairs(PairLengths { message_bytes_min: LEAST as u32, read_bytes_min: 0 }, None);
        let (world, me) = (endpoint.world(), endpoint.world().rank());
        let is_shared = |endpoint: &mut _, operation, bytes, options: Options| {
            let call = Selected { operation, ..Selected::bcast::<u8>(2, bytes) };
            let explained = call.explain(&options).on(endpoint, &world);
            let told = explained.to_string().contains("two ranks pass so much sooner in a message");
            assert!(explained.is_shared() || told, "{explained}");
            explained.is_shared()
        };
        use Operation::{Allgather, Allgatherv, Alltoall, Bcast, Gather, ReduceScatterBlock, Scatter};
        for operation in [Bcast, Gather, Scatter, Allgather, Allgatherv, Alltoall] {
            assert!(is_shared(endpoint, operation, LEAST - 1, Options::default()), "{operation}");
            assert!(!is_shared(endpoint, operation, LEAST, Options::default()), "{operation}");
            assert!(is_shared(endpoint, operation, LEAST, Options::shared()), "{operation}");
        }
        assert!(
            is_shared(endpoint, ReduceScatterBlock, LEAST, Options::default()),
            "nobody has measured that"
        );
        for (count, options) in [
            (LEAST / 8, Options::default()),
            (LEAST / 8 - 1, Options::default()),
            (40_011, Options::shared()),
        ] {
            let all: Vec<u64> = [inputs(1, 0, count), inputs(1, 1, count)].concat();
            let own = all[me.0 as usize * count..][..count].to_vec();
            let root = Rank(1);
            let mut data = if me == root { all.clone() } else { own.clone() };
            gather(&mut data, &mut [], root).with(&options).run(endpoint, &world).unwrap();
            assert!(data == if me == root { all.clone() } else { own.clone() }, "gather of {count}");
            let mut data = if me == root { all.clone() } else { vec![9; count] };
            scatter(&mut data, &mut [], root).with(&options).run(endpoint, &world).unwrap();
            let scattered = if me == root { &data[me.0 as usize * count..][..count] } else { &data };
            assert!(scattered == own, "scatter of {count}");
            let mut data = if me == root { own.clone() } else { vec![9; count] };
            bcast(&mut data, root).with(&options).run(endpoint, &world).unwrap();
            assert!(data == all[count..], "bcast of {count}");
            let mut data = vec![9; 2 * count];
            data[me.0 as usize * count..][..count].copy_from_slice(&own);
            allgather(&mut data).with(&options).run(endpoint, &world).unwrap();
            assert!(data == all, "allgather of {count}");
            data.fill(9);
            allgather_from(&own, &mut data).with(&options).run(endpoint, &world).unwrap();
            assert!(data == all, "allgather of {count}, of a block apart");
            // One of the two gives less, and its own length is below the least.
            let blocks = Block::packed([count, 5]);
            let listed = [&all[..count], &all[count..][..5]].concat();
            let Block { start, len } = blocks[me.0 as usize];
            let mut data = vec![9; count + 5];
            data[start..][..len].copy_from_slice(&listed[start..][..len]);
            allgatherv(&mut data, &blocks).with(&options).run(endpoint, &world).unwrap();
            assert!(data == listed, "allgatherv of {count} and 5");
            let (given, mut data) = ([own.clone(), own.clone()].concat(), vec![9; 2 * count]);
            alltoall(&given, &mut data, &mut []).with(&options).run(endpoint, &world).unwrap();
            assert!(data == all, "alltoall of {count}");
        }
    });
}

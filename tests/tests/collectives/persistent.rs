//! Collectives that are made once and started many times.

use core::sync::atomic::{AtomicU32, Ordering};

use aldis_coll::allreduce::RecursiveDoubling;
use aldis_coll::bcast;
use aldis_coll::comm;
use aldis_coll::layout::Block;
use aldis_coll::op::Sum;
use aldis_coll::scan;
use aldis_coll::{
    Collective, Options, StartMode, allgather, allgatherv, allreduce, alltoall, alltoall_in_place, alltoallv,
    barrier, gather, gatherv, scatter, scatterv, start_all, wait_all,
};
use aldis_kernel::hal::{Cause, Operation, Resource};
use aldis_kernel::{Comm, Error, Rank, Tag};
use aldis_tests::thread_jobs::{Endpoint, Scope, run, run_with_requests};
use proptest::prelude::*;

use crate::calls;
use crate::oracle::Data;

/// Starts of each collective.
const STARTS: u64 = 3;

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    /// Made in one order, started in an order of each rank's own (MPI 4.1 section 6.13), with data
    /// of each start's own.
    #[test]
    fn any_mix_started_in_any_order_agrees_with_the_oracle(
        (size, calls) in (1..=9u32).prop_flat_map(|size| (Just(size), calls(size))),
        seed: u64,
    ) {
        run(size, |endpoint| {
            let (world, rank) = (endpoint.world(), endpoint.world().rank().0);
            let seed_of = |index: usize, start: u64| seed.wrapping_add(index as u64 * STARTS + start);
            let mut data: Vec<Data> = calls.iter().map(|call| call.data(seed, rank)).collect();
            let buffers = &mut data;
            endpoint.scope(|scope| {
                let mut made = Vec::new();
                for (call, data) in calls.iter().zip(buffers.iter_mut()) {
                    made.push(call.persistent(scope, &world, data, call.options(size, false))?);
                }
                for start in 0..STARTS {
                    let turn = rank as usize + start as usize;
                    for index in (0..calls.len()).map(|index| (index + turn) % calls.len()) {
                        calls[index].refill(scope, &mut made[index], seed_of(index, start), rank)?;
                        made[index].start(scope)?;
                    }
                    wait_all(scope, &mut made)?;
                }
                Ok::<_, Error>(())
            }).unwrap();
            for (index, (call, data)) in calls.iter().zip(&data).enumerate() {
                call.check(seed_of(index, STARTS - 1), rank, size, data);
            }
        });
    }
}

/// Every start gives its own result, also where a rank has started the next before others are
/// through the last.
#[test]
fn each_start_has_its_own_result() {
    for size in 1..=9 {
        run(size, |endpoint| {
            let (world, rank) = (endpoint.world(), endpoint.world().rank().0);
            let (mut data, mut scratch) = ([0; 700], [0; 100]);
            let (data, scratch) = (&mut data, &mut scratch);
            endpoint
                .scope(|scope| {
                    let mut sum = allreduce(Sum, data, scratch).persistent(scope, &world)?;
                    for start in 0..20 {
                        sum.edit(scope, |data: &mut [u32]| data.fill(rank + start))?;
                        sum.start(scope)?;
                        sum.wait(scope)?;
                        let expected = (0..size).map(|rank| rank + start).sum::<u32>();
                        let all =
                            sum.edit(scope, |data: &mut [u32]| data.iter().all(|it| *it == expected))?;
                        assert!(all, "start {start}");
                    }
                    Ok(())
                })
                .unwrap();
        });
    }
}

/// On communicators of their own short ones go by control slots and a long one by messages, and
/// each rank starts them in an order of its own.
#[test]
fn dedicated_ones_start_in_any_order_by_control_slots() {
    for size in [2, 3] {
        run(size, |endpoint| {
            let (world, rank) = (endpoint.world(), endpoint.world().rank().0);
            let lens = [1, 400, 3000];
            let comms: Vec<Comm> = lens.iter().map(|_| comm::dup(endpoint, &world).unwrap()).collect();
            let mut data: Vec<Vec<u64>> = lens.iter().map(|len| vec![0; *len]).collect();
            let mut scratch = data.clone();
            let sums = |start: u64| (0..u64::from(size)).map(|rank| rank + start).sum::<u64>();
            let buffers = &mut data;
            endpoint
                .scope(|scope| {
                    let mut made = Vec::new();
                    for ((data, scratch), comm) in buffers.iter_mut().zip(&mut scratch).zip(&comms) {
                        made.push(allreduce(Sum, data, scratch).begin(scope, comm, StartMode::Dedicated)?);
                    }
                    let are_in_slots: Vec<bool> = made.iter().map(Collective::is_in_slots).collect();
                    assert_eq!(are_in_slots, [true, true, false]);
                    for start in 0..STARTS * 5 {
                        for turn in 0..made.len() {
                            let index = (turn + rank as usize + start as usize) % made.len();
                            let fill = |data: &mut [u64]| data.fill(u64::from(rank) + start);
                            made[index].edit(scope, fill)?;
                            made[index].start(scope)?;
                            assert!(
                                made[index].is_complete()
                                    || made[index].start(scope).unwrap_err().cause == Cause::Busy
                            );
                        }
                        wait_all(scope, &mut made)?;
                        for sum in &mut made {
                            let is_sum = |data: &mut [u64]| data.iter().all(|it| *it == sums(start));
                            assert!(sum.edit(scope, is_sum)?, "start {start}");
                        }
                    }
                    Ok::<_, Error>(())
                })
                .unwrap();
        });
    }
}

/// The root of a broadcast is ahead of the others by a few starts.
#[test]
fn dedicated_ones_of_a_root_run_ahead() {
    run(2, |endpoint| {
        let world = endpoint.world();
        let copy = comm::dup(endpoint, &world).unwrap();
        let mut data = [0_u32; 3];
        endpoint
            .scope(|scope| {
                let mut sent = bcast(&mut data, Rank(0)).begin(scope, &copy, StartMode::Dedicated)?;
                for start in 0..100 {
                    if copy.rank() == Rank(0) {
                        sent.edit(scope, |data: &mut [u32]| data.fill(start))?;
                    }
                    sent.start(scope)?;
                    while !sent.watch(scope, 3)? {
                        scope.poll(1);
                    }
                    assert!(sent.edit(scope, |data: &mut [u32]| *data == [start; 3])?);
                }
                Ok::<_, Error>(())
            })
            .unwrap();
    });
}

type MadePersistent<'scope> = Result<Collective<'scope>, Error>;

/// The memory of an operation on blocks; blocks of two elements with a gap between them where they
/// are listed.
struct ListedMemory<'scope> {
    data: &'scope mut Vec<u32>,
    input: &'scope mut Vec<u32>,
    scratch: &'scope mut Vec<u32>,
    listed: &'scope [Block],
}

/// Makes one of each operation on blocks.
fn of_blocks<'scope>(
    scope: &mut Scope<'scope, '_, '_, '_>,
    world: &Comm,
    memory: ListedMemory<'scope>,
    operation: Operation,
) -> MadePersistent<'scope> {
    let ListedMemory { data, input, scratch, listed } = memory;
    let (root, at_root, size) = (Rank(0), world.rank() == Rank(0), world.size() as usize);
    let even = 2 * size;
    let rooted = if at_root { even } else { 2 };
    match operation {
        Operation::Gather => gather(&mut data[..rooted], scratch, root).persistent(scope, world),
        Operation::Scatter => scatter(&mut data[..rooted], scratch, root).persistent(scope, world),
        Operation::Gatherv if !at_root => gatherv(&mut data[..2], &[], root).persistent(scope, world),
        Operation::Gatherv => gatherv(data, listed, root).persistent(scope, world),
        Operation::Scatterv if !at_root => scatterv(&mut data[..2], &[], root).persistent(scope, world),
        Operation::Scatterv => scatterv(data, listed, root).persistent(scope, world),
        Operation::Allgather => allgather(&mut data[..even]).persistent(scope, world),
        Operation::Allgatherv => allgatherv(data, listed).persistent(scope, world),
        Operation::Alltoall => {
            alltoall(&mut input[..even], &mut data[..even], scratch).persistent(scope, world)
        }
        _ => alltoallv(input, listed, data, listed).persistent(scope, world),
    }
}

/// Returns the element that rank `from` has for rank `to` at a start.
fn element(from: u32, to: u32, start: u32, at: usize) -> u32 {
    (from << 20) ^ (to << 12) ^ (start << 4) ^ at as u32
}

#[test]
fn operations_on_blocks_are_started_again_with_what_was_edited() {
    use Operation::{Allgather, Allgatherv, Alltoall, Alltoallv, Gather, Gatherv, Scatter, Scatterv};
    for size in [1, 2, 3, 5, 8] {
        for operation in [Gather, Gatherv, Scatter, Scatterv, Allgather, Allgatherv, Alltoall, Alltoallv] {
            run(size, |endpoint| {
                let (world, rank) = (endpoint.world(), endpoint.world().rank().0);
                let is_listed = matches!(operation, Gatherv | Scatterv | Allgatherv | Alltoallv);
                let stride = if is_listed { 3 } else { 2 };
                let listed: Vec<Block> =
                    (0..size as usize).map(|at| Block { start: at * 3, len: 2 }).collect();
                let mut memory = [const { Vec::new() }; 3].map(|mut memory: Vec<u32>| {
                    memory.resize(3 * size as usize + 9, 0);
                    memory
                });
                let gathers = matches!(operation, Gather | Gatherv | Allgather | Allgatherv);
                let rooted = matches!(operation, Gather | Gatherv | Scatter | Scatterv);
                let all_here = !rooted || rank == 0;
                let place = |other: u32| if all_here { other as usize * stride } else { 0 };
                let ([data, input, scratch], listed) = (memory.each_mut(), &listed);
                let memory = ListedMemory { data, input, scratch, listed };
                endpoint
                    .scope(|scope| {
                        let mut made = of_blocks(scope, &world, memory, operation)?;
                        for start in 0..4 {
                            let own = |data: &mut [u32]| {
                                for other in 0..size {
                                    let (to, is_given) = match operation {
                                        Alltoall | Alltoallv => (other, true),
                                        Scatter | Scatterv => (other, rank == 0),
                                        _ => (0, other == rank),
                                    };
                                    for at in 0..if is_given { 2 } else { 0 } {
                                        data[place(other) + at] = element(rank, to, start, at);
                                    }
                                }
                            };
                            if let Alltoall | Alltoallv = operation {
                                made.edit_input(scope, own)?;
                            } else {
                                made.edit(scope, own)?;
                            }
                            made.start(scope)?;
                            made.wait(scope)?;
                            made.edit(scope, |data: &mut [u32]| {
                                let sources = if gathers && !all_here { 0..0 } else { 0..size };
                                for from in sources {
                                    let (from, to, at) = match operation {
                                        Scatter | Scatterv => (0, rank, place(rank)),
                                        Alltoall | Alltoallv => (from, rank, place(from)),
                                        _ => (from, 0, place(from)),
                                    };
                                    let expected = [0, 1].map(|at| element(from, to, start, at));
                                    assert_eq!(data[at..][..2], expected, "{operation} from {from}");
                                }
                            })?;
                        }
                        Ok(())
                    })
                    .unwrap();
            });
        }
    }
}

#[test]
fn an_all_to_all_in_place_is_started_again() {
    run(5, |endpoint| {
        let (world, rank) = (endpoint.world(), endpoint.world().rank().0);
        let (mut data, mut scratch) = ([0; 10], [0; 2]);
        let (lent, scratch) = (&mut data, &mut scratch);
        endpoint
            .scope(|scope| {
                let mut swap = alltoall_in_place(lent, scratch).persistent(scope, &world)?;
                swap.edit(scope, |data: &mut [u32]| {
                    data.iter_mut().enumerate().for_each(|(at, it)| *it = 10 * rank + at as u32 / 2);
                })?;
                for _ in 0..3 {
                    swap.start(scope)?;
                    swap.wait(scope)?;
                }
                Ok(())
            })
            .unwrap();
        // Twice is as never.
        assert_eq!(data, core::array::from_fn(|at| 10 * (at as u32 / 2) + rank));
    });
}

#[test]
fn each_wrong_state_has_its_error_and_harms_nothing() {
    let late = AtomicU32::new(0);
    run(3, |endpoint| {
        let (world, rank) = (endpoint.world(), endpoint.world().rank().0);
        let (mut data, mut scratch) = ([0u32; 4], [0; 4]);
        let (lent, spare) = (&mut data, &mut scratch);
        endpoint
            .scope(|scope| {
                let mut sum = allreduce(Sum, lent, spare).persistent(scope, &world)?;
                // Waiting for what was not started is no error (MPI 4.1 section 3.7.3).
                sum.wait(scope)?;
                assert!(sum.is_complete() && sum.test(scope)?);
                let refused = |error: Error| (error.operation, error.cause);
                let odd = sum.edit(scope, |_: &mut [[u8; 3]]| ()).unwrap_err();
                let cause = Cause::PartialElement { bytes: 16, element: 3 };
                assert_eq!(refused(odd), (Operation::Allreduce, cause));
                let none = sum.edit_input(scope, |_: &mut [u32]| ()).unwrap_err();
                assert_eq!(refused(none), (Operation::Allreduce, Cause::Unsupported));
                sum.edit(scope, |data: &mut [u32]| data.fill(rank))?;
                if rank == 0 {
                    while late.load(Ordering::SeqCst) < 2 {
                        std::thread::yield_now();
                    }
                    sum.start(scope)?;
                } else {
                    sum.start(scope)?;
                    assert_eq!(refused(sum.start(scope).unwrap_err()), (Operation::Allreduce, Cause::Busy));
                    let edited = sum.edit(scope, |_: &mut [u32]| ()).unwrap_err();
                    assert_eq!(refused(edited), (Operation::Allreduce, Cause::Busy));
                    assert!(!sum.is_complete());
                    late.fetch_add(1, Ordering::SeqCst);
                }
                sum.wait(scope)
            })
            .unwrap();
        assert_eq!(data, [3; 4]);
        // Control slots follow each other in one order on all ranks.
        let shared =
            endpoint.scope(|scope| barrier().with(&Options::shared()).persistent(scope, &world).map(|_| ()));
        assert_eq!(shared.unwrap_err().cause, Cause::Unsupported);
        let again = endpoint.scope(|scope| {
            let mut barrier = barrier().with(&Options::shared()).start(scope, &world)?;
            barrier.wait(scope)?;
            barrier.start(scope)
        });
        assert_eq!(again.unwrap_err().cause, Cause::Unsupported);
        barrier().run(endpoint, &world).unwrap();
    });
}

#[test]
fn a_failed_one_is_not_started_again() {
    run(2, |endpoint| {
        let (world, rank) = (endpoint.world(), endpoint.world().rank().0 as usize);
        let (mut data, mut scratch) = ([0u8; 2], [0u8; 2]);
        let (data, scratch) = (&mut data[..=rank], &mut scratch);
        let failed = endpoint.scope(|scope| {
            let options = Options::using(&RecursiveDoubling);
            let mut sum = allreduce(Sum, data, scratch).with(&options).persistent(scope, &world)?;
            let started = sum.start(scope);
            let error = started.and_then(|()| sum.wait(scope)).unwrap_err();
            assert_eq!(sum.start(scope), Err(error));
            Ok::<_, Error>(())
        });
        failed.unwrap();
    });
}

/// A persistent collective takes its place among all others when it is made, whenever it is started
/// and whether it ever is.
#[test]
fn others_go_between_and_some_are_never_started() {
    run(4, |endpoint| {
        let (world, rank) = (endpoint.world(), endpoint.world().rank().0);
        let mut data = [[rank; 2]; 3];
        let mut scratch = [[0; 2]; 4];
        let mut between = [0; 2];
        let [first, second, third] = data.each_mut();
        let ([one, two, _, four], between) = (scratch.each_mut(), &mut between);
        endpoint
            .scope(|scope| {
                let mut never = bcast(third, Rank(1)).persistent(scope, &world)?;
                let mut set = [
                    allreduce(Sum, first, one).persistent(scope, &world)?,
                    scan(Sum, second, two).persistent(scope, &world)?,
                ];
                start_all(scope, &mut set)?;
                between.fill(rank);
                let mut sum = allreduce(Sum, between, four).start(scope, &world)?;
                sum.wait(scope)?;
                wait_all(scope, &mut set)?;
                never.wait(scope)?;
                drop(never);
                // Also one that was started at once.
                sum.start(scope)?;
                start_all(scope, &mut set)?;
                wait_all(scope, &mut set)?;
                sum.wait(scope)
            })
            .unwrap();
        let once: Vec<u32> = (0..4).map(|rank| (0..=rank).sum()).collect();
        let scanned = once[..=rank as usize].iter().sum();
        assert_eq!((data, *between), ([[24; 2], [scanned; 2], [rank; 2]], [24; 2]));
        let mut sum = [1];
        allreduce(Sum, &mut sum, &mut [0]).run(endpoint, &world).unwrap();
        assert_eq!(sum, [4]);
    });
}

/// A start for which there is no slot is one all the same: it goes on when there is.
#[test]
fn a_start_without_a_request_slot_goes_on_later() {
    let starved = AtomicU32::new(0);
    run_with_requests::<4, ()>(2, |endpoint: &mut Endpoint<'_, '_>| {
        let world = endpoint.world();
        let other = Rank(1 - world.rank().0);
        let mut held = [[0u8; 1]; 4];
        let (mut data, mut scratch) = ([1u32; 2], [0; 2]);
        let (held, data_ref, scratch_ref) = (&mut held, &mut data, &mut scratch);
        endpoint
            .scope(|scope| {
                let options = Options::using(&RecursiveDoubling);
                let mut sum =
                    allreduce(Sum, data_ref, scratch_ref).with(&options).persistent(scope, &world)?;
                let mut held = (1..).zip(held.iter_mut());
                for round in 1..=2 {
                    // In the second round there are none left.
                    let mut holding = Vec::new();
                    for (tag, memory) in held.by_ref() {
                        holding.push(scope.irecv(&world, memory, other, Tag(tag))?);
                    }
                    sum.start(scope)?;
                    if round == 1 {
                        assert_eq!(sum.test(scope).unwrap_err().cause, Cause::Full(Resource::Requests));
                        starved.fetch_add(1, Ordering::SeqCst);
                        while starved.load(Ordering::SeqCst) < 2 {
                            std::thread::yield_now();
                        }
                    }
                    holding.iter_mut().for_each(|request| assert!(scope.cancel(request)));
                    sum.wait(scope)?;
                }
                Ok(())
            })
            .unwrap();
        assert_eq!(data, [4; 2]);
    });
}

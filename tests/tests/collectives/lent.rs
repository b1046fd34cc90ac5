//! Data that one of two ranks lends, and the other reads from where they are.

use core::num::NonZeroU32;
use core::sync::atomic::{AtomicU64, Ordering};
use core::time::Duration;

use aldis_coll::comm::dup;
use aldis_coll::dyn_op::{DynReduction, reduce_by, reduce_by_from};
use aldis_coll::layout::Block;
use aldis_coll::op::{Function, Kernel, Reduce, Sum};
use aldis_coll::{
    StartMode, allgatherv, allgatherv_from, allreduce, alltoall, barrier, bcast, gather, reduce, reduce_from,
    scatter,
};
use aldis_drivers::shm::{PairLengths, PeerReader};
use aldis_kernel::hal::shared_control::{Note, Start};
use aldis_kernel::hal::{Cause, Operation, PeerId};
use aldis_kernel::plane::prelude::*;
use aldis_kernel::{Rank, Tag};
use aldis_tests::own_memory::lend_between_pairs;
use aldis_tests::thread_jobs::{Endpoint, run};

use super::oracle::{Affine, Compose, noise};
use super::waited::{CallCase, call_all, call_listed};

/// Bytes from which on data are lent.
const LEAST: u32 = 16 << 10;

const LENT: PairLengths = PairLengths { read_bytes_min: LEAST, message_bytes_min: 0 };

fn lend(endpoint: &mut Endpoint<'_, '_>) -> &'static AtomicU64 {
    lend_between_pairs(endpoint.try_transport_mut().unwrap().second_mut(), LENT)
}

/// Elements of 8 bytes: the last that are in chunks, the first that are lent, and several reads.
#[test]
fn what_is_lent_is_right_in_calls_that_block_and_in_those_that_are_waited_for() {
    for len in [2047, 2048, 3000, 8192, 20_011] {
        let read = run(2, |endpoint| {
            let read = lend(endpoint);
            let (world, me) = (endpoint.world(), endpoint.world().rank().0);
            for turn in 0..4 {
                let case = CallCase { is_started: (me + turn) % 3 != 0, root: turn % 2, len };
                call_all(endpoint, &world, case).unwrap();
                call_listed(endpoint, &world, case, turn).unwrap();
            }
            read.load(Ordering::Relaxed)
        });
        assert!(read.iter().sum::<u64>() > 0, "{len}: no bytes read");
    }
}

/// That data are for a message is decided alike by both, also where the root alone knows all
/// lengths.
#[test]
fn what_is_longer_is_for_messages_however_a_call_begins() {
    for len in [2047, 2048, 4095, 4096, 9000] {
        run(2, |endpoint| {
            let shm = endpoint.try_transport_mut().unwrap().second_mut();
            let _ = lend_between_pairs(shm, PairLengths { message_bytes_min: 2 * LEAST, ..LENT });
            let (world, me) = (endpoint.world(), endpoint.world().rank().0);
            for turn in 0..4 {
                let case = CallCase { is_started: (me + turn) % 3 != 0, root: turn % 2, len };
                call_all(endpoint, &world, case).unwrap();
                call_listed(endpoint, &world, case, turn).unwrap();
            }
        });
    }
}

/// The lengths of both are known to both: each lends what it gives if that is long.
#[test]
fn of_two_that_give_each_other_one_may_lend_and_the_other_not() {
    let read = run(2, |endpoint| {
        let read = lend(endpoint);
        let (world, me) = (endpoint.world(), endpoint.world().rank().0 as usize);
        for lens in [[40_000, 9_000], [9_000, 40_000], [40_000, 5], [100_000, 0], [20_000, 90_000]] {
            let blocks = Block::packed(lens);
            let all: Vec<u8> = (0..lens[0] + lens[1]).map(|at| (at % 251) as u8).collect();
            let Block { start, len } = blocks[me];
            let (own, mut data) = (all[start..][..len].to_vec(), vec![9; all.len()]);
            allgatherv_from(&own, &mut data, &blocks).run(endpoint, &world).unwrap();
            assert!(data == all, "{lens:?}, of a block apart");
            data.fill(9);
            data[start..][..len].copy_from_slice(&own);
            if me == 0 {
                allgatherv(&mut data, &blocks).run(endpoint, &world).unwrap();
            } else {
                allgatherv_from(&own, &mut data, &blocks).run(endpoint, &world).unwrap();
            }
            assert!(data == all, "{lens:?}, in place at one of them");
        }
        let refused =
            allgatherv_from(&[0u8; 4], &mut [0u8; 10], &Block::packed([5, 5])).run(endpoint, &world);
        (read.load(Ordering::Relaxed), refused.map_err(|error| error.cause))
    });
    let lent = |from: [u64; 5]| 2 * from.iter().filter(|bytes| **bytes >= LEAST.into()).sum::<u64>();
    assert_eq!(read[0].0, lent([9_000, 40_000, 5, 0, 90_000]));
    assert_eq!(read[1].0, lent([40_000, 9_000, 40_000, 100_000, 20_000]));
    assert_eq!(read[1].1, Err(Cause::LengthMismatch { left: 4, right: 5 }), "its block is listed longer");
}

#[test]
fn another_length_than_is_lent_is_found_and_the_next_call_is_in_step() {
    let causes = run(2, |endpoint| {
        lend(endpoint);
        let (world, me) = (endpoint.world(), endpoint.world().rank().0 as usize);
        // Rank 1 gives so many bytes to the root, which expects 30,000.
        [40_000, 20_000].map(|theirs| {
            let mut data = vec![me as u8; [60_000, theirs][me]];
            let done = gather(&mut data, &mut [], Rank(0)).run(endpoint, &world);
            let mut data = vec![me as u8; [30_000, 60_000][me]];
            scatter(&mut data, &mut [], Rank(1)).run(endpoint, &world).unwrap();
            assert!(data.iter().all(|byte| *byte == 1));
            done.err().map(|error| (error.cause, error.peer()))
        })
    });
    let of = |theirs| Some((Cause::UnlikeLength { own: 30_000, theirs }, Some(Rank(1))));
    assert_eq!(causes, [[of(40_000), of(20_000)], [None; 2]]);
}

/// Three maps: no power of two of bytes holds whole elements.
type Maps = [Affine; 3];

impl Reduce<Maps> for Compose {
    const COMMUTES: bool = false;

    fn reduce(left: Maps, right: Maps) -> Maps {
        [0, 1, 2].map(|at| Compose::reduce(left[at], right[at]))
    }
}

fn maps(rank: u32, len: usize) -> Vec<Maps> {
    let map = |at: usize| Affine { a: noise(1, rank, at) as u32, b: noise(2, rank, at) as u32 };
    (0..len).map(|at| [3 * at, 3 * at + 1, 3 * at + 2].map(map)).collect()
}

/// Elements of 24 bytes: what stands in a slot, in chunks, what is lent, and several reads. Both
/// roots, by an operand apart or in place, and calls that block or are waited for.
#[test]
fn an_operand_is_reduced_in_the_order_of_ranks_wherever_it_stands() {
    for (len, is_long) in [(300, false), (400, false), (683, true), (2731, true), (9000, true)] {
        let read = run(2, |endpoint| {
            let read = lend(endpoint);
            let (world, me) = (endpoint.world(), endpoint.world().rank().0);
            let [first, second] = [maps(0, len), maps(1, len)];
            let both = first.into_iter().zip(second);
            let result: Vec<Maps> = both.map(|(first, second)| Compose::reduce(first, second)).collect();
            for turn in 0..16_u32 {
                let (root, is_apart) = (turn % 2, (turn >> (1 + me)) % 2 == 1);
                let own = maps(me, len);
                let mut data = if is_apart { maps(7, len) } else { own.clone() };
                let (mut scratch, rank) = (maps(8, 1), Rank(root));
                let call = match is_apart {
                    true => reduce_from(Compose, &own, &mut data, &mut scratch, rank),
                    false => reduce(Compose, &mut data, &mut scratch, rank),
                };
                let is_started = (turn >> 3) % 2 == 1 && (turn + me) % 2 == 1;
                CallCase { is_started, root, len }.stretch(endpoint, &world, call).unwrap();
                assert!(me != root || data == result, "{len} elements, root {root}, apart: {is_apart}");
            }
            read.load(Ordering::Relaxed)
        });
        let lent = if is_long { 8 * 24 * len as u64 } else { 0 };
        assert_eq!(read, [lent, lent], "{len}");
    }
}

/// The sum of bytes, by a function that refuses to be called for none.
const SUM_OF_SOME: Function = |_, into, from, _| {
    if from.is_empty() {
        return Err(Cause::Unsupported);
    }
    into.iter_mut().zip(from).for_each(|(into, from)| *into = into.wrapping_add(*from));
    Ok(())
};

#[test]
fn a_function_of_the_program_is_called_for_elements_alone() {
    run(2, |endpoint| {
        let read = lend(endpoint);
        let (world, me) = (endpoint.world(), endpoint.world().rank().0);
        let kernel = Kernel::of_function(SUM_OF_SOME, 0, NonZeroU32::MIN, true);
        let sum = DynReduction { operation: Operation::Reduce, kernel, root: Rank(0) };
        for len in [16_384, 65_536, 65_537, 131_072] {
            let (own, mut data, mut scratch) = (vec![me as u8 + 1; len], vec![me as u8 + 1; len], [0; 1]);
            reduce_by(sum, &mut data, &mut scratch).run(endpoint, &world).unwrap();
            assert!(me == 1 || data.iter().all(|sum| *sum == 3), "{len} in place");
            data.fill(7);
            reduce_by_from(sum, &own, &mut data, &mut scratch).run(endpoint, &world).unwrap();
            assert!(me == 1 || data.iter().all(|sum| *sum == 3), "{len} apart");
        }
        assert_eq!(read.load(Ordering::Relaxed) > 0, me == 0);
    });
}

#[test]
fn an_operand_of_another_length_is_told_to_the_root_and_the_next_call_is_in_step() {
    let causes = run(2, |endpoint| {
        lend(endpoint);
        let (world, me) = (endpoint.world(), endpoint.world().rank().0 as usize);
        [4000, 3000, 500].map(|theirs| {
            let (own, mut scratch) = (vec![1u64; [3500, theirs][me]], [0; 1]);
            let mut data = own.clone();
            let done = reduce_from(Sum, &own, &mut data, &mut scratch, Rank(0)).run(endpoint, &world);
            let mut data = vec![me as u64; 5000];
            reduce(Sum, &mut data, &mut scratch, Rank(1)).run(endpoint, &world).unwrap();
            assert!(me == 0 || data.iter().all(|sum| *sum == 1));
            done.err().map(|error| (error.cause, error.peer()))
        })
    });
    let of = |theirs| Some((Cause::UnlikeLength { own: 28_000, theirs }, Some(Rank(1))));
    assert_eq!(causes, [[of(32_000), of(24_000), of(4000)], [None; 3]]);
}

#[test]
fn an_operand_that_does_not_fit_the_result_is_refused_and_one_of_a_persistent_call() {
    run(1, |endpoint| {
        let (world, own, mut data) = (endpoint.world(), [1u32; 4], [0; 5]);
        let error = reduce_from(Sum, &own, &mut data, &mut [], Rank(0)).run(endpoint, &world).unwrap_err();
        assert_eq!(error.cause, Cause::LengthMismatch { left: 16, right: 20 });
        let data = &mut data[..4];
        let made = endpoint.scope(|scope| {
            reduce_from(Sum, &own, data, &mut [], Rank(0)).persistent(scope, &world).map(drop)
        });
        assert_eq!(made.unwrap_err().cause, Cause::Unsupported);
        let (mut data, own) = ([0; 4], [3u32; 4]);
        reduce_from(Sum, &own, &mut data, &mut [], Rank(0)).run(endpoint, &world).unwrap();
        assert_eq!(data, own, "of a rank alone");
    });
}

/// A root may read to where the result goes, or to a chunk.
#[test]
fn a_late_root_is_told_that_an_operand_was_withdrawn() {
    for is_apart in [false, true] {
        let causes = run(2, |endpoint| {
            lend(endpoint);
            let (world, me) = (endpoint.world(), endpoint.world().rank().0);
            let (own, mut data, mut scratch) = (vec![1u64; 9000], vec![1u64; 9000], [0; 1]);
            let cause = if me == 1 {
                let call = reduce_from(Sum, &own, &mut data, &mut scratch, Rank(0));
                let lent = call.run(&mut endpoint.within(Duration::from_millis(20)), &world);
                endpoint.send(&world, &[0u8], Rank(0), Tag(1)).unwrap();
                lent.map_err(|error| error.cause)
            } else {
                endpoint.recv(&world, &mut [0u8], Rank(1), Tag(1)).unwrap();
                let call = match is_apart {
                    true => reduce_from(Sum, &own, &mut data, &mut scratch, Rank(0)),
                    false => reduce(Sum, &mut data, &mut scratch, Rank(0)),
                };
                call.run(endpoint, &world).map_err(|error| error.cause)
            };
            barrier().run(endpoint, &world).unwrap();
            cause
        });
        assert_eq!(causes, [Err(Cause::Withdrawn), Err(Cause::TimedOut)]);
    }
}

/// A root whose deadline is over takes its memory back: who comes late learns of it, and has no
/// bytes that it takes for the root's.
#[test]
fn a_late_rank_is_told_that_the_lender_has_withdrawn() {
    let causes = run(2, |endpoint| {
        lend(endpoint);
        let (world, me) = (endpoint.world(), endpoint.world().rank().0);
        let mut data = vec![me as u8 + 1; 50_000];
        let cause = if me == 0 {
            let mut within = endpoint.within(Duration::from_millis(20));
            let lent = bcast(&mut data, Rank(0)).run(&mut within, &world);
            data.fill(7);
            endpoint.send(&world, &[0u8], Rank(1), Tag(1)).unwrap();
            lent.map_err(|error| error.cause)
        } else {
            endpoint.recv(&world, &mut [0u8], Rank(0), Tag(1)).unwrap();
            bcast(&mut data, Rank(0)).run(endpoint, &world).map_err(|error| error.cause)
        };
        barrier().run(endpoint, &world).unwrap();
        cause
    });
    assert_eq!(causes[1], Err(Cause::Withdrawn));
    assert_eq!(causes[0], Err(Cause::TimedOut));
}

/// A note as no rank of this program writes it: nothing is read, and nothing taken for a number.
#[test]
fn what_is_lent_to_be_reduced_by_all_is_refused() {
    let causes = run(2, |endpoint| {
        let read = lend(endpoint);
        let (world, me) = (endpoint.world(), endpoint.world().rank().0);
        let mut data = vec![5u64; 5000];
        if me == 1 {
            let (operation, bytes) = (Operation::Allreduce as u32 as u8, 40_000 | 1 << 47);
            let mut slots = endpoint.control_slots(&world).unwrap();
            let number = slots.begin();
            let start = Start { position: 0, address: data.as_ptr().addr() as u64 };
            slots.publish(number, Note { operation, root: 0, bytes }, &start.emit()).unwrap();
            slots.finish(number);
            return Ok(());
        }
        let done = allreduce(Sum, &mut data, &mut [0; 5000]).run(endpoint, &world);
        assert_eq!(read.load(Ordering::Relaxed), 0);
        done.map_err(|error| error.cause)
    });
    assert_eq!(causes[0], Err(Cause::Incompatible));
}

/// A reader that the system refuses.
#[derive(Debug)]
struct Refused;

impl PeerReader for Refused {
    fn fetch(&mut self, _: PeerId, _: u64, _: &mut [u8]) -> Result<(), Cause> {
        Err(Cause::Device)
    }
}

#[test]
fn a_rank_that_is_not_let_read_says_so_and_the_others_go_on() {
    let causes = run(2, |endpoint| {
        lend(endpoint);
        let (world, me) = (endpoint.world(), endpoint.world().rank().0);
        if me == 1 {
            let shm = endpoint.try_transport_mut().unwrap().second_mut();
            shm.pass_between_pairs(LENT, Some(Box::leak(Box::new(Refused))));
        }
        let (given, mut data) = (vec![me as u8; 40_000], vec![9; 40_000]);
        let done = alltoall(&given, &mut data, &mut []).run(endpoint, &world);
        barrier().run(endpoint, &world).unwrap();
        done.map_err(|error| (error.cause, error.peer()))
    });
    // It may have been reading when the other gave up.
    assert!(matches!(causes[0], Ok(()) | Err((Cause::Withdrawn, Some(Rank(1))))), "{:?}", causes[0]);
    assert_eq!(causes[1], Err((Cause::Device, Some(Rank(0)))));
}

/// Several of a rank's own under way: only the oldest is lent, as the others could not be seen to
/// be given up.
#[test]
fn started_calls_and_those_with_slots_of_their_own_lend_as_well() {
    for mode in [StartMode::Driven, StartMode::Dedicated, StartMode::Persistent, StartMode::Nonblocking] {
        run(2, |endpoint| {
            lend(endpoint);
            let (world, me) = (endpoint.world(), endpoint.world().rank().0);
            let comm = dup(endpoint, &world).unwrap();
            let (given, mut data) = (vec![me as u8; 60_000], vec![9; 60_000]);
            let mut other = vec![me as u8 + 3; 20_000];
            let done = endpoint.scope(|scope| {
                let mut one = alltoall(&given, &mut data, &mut []).begin(scope, &comm, mode)?;
                let mut two = bcast(&mut other, Rank(1)).begin(scope, &world, mode)?;
                if matches!(mode, StartMode::Dedicated | StartMode::Persistent) {
                    one.start(scope)?;
                    two.start(scope)?;
                }
                one.wait(scope)?;
                two.wait(scope)
            });
            done.unwrap();
            assert!(
                data[..30_000].iter().all(|byte| *byte == 0) && data[30_000..].iter().all(|byte| *byte == 1)
            );
            assert!(other.iter().all(|byte| *byte == 4), "{mode:?}");
        });
    }
}

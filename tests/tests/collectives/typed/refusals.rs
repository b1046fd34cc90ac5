//! Faults in blocks of datatypes: refused before anything is sent, or told by the receiver.

use core::time::Duration;

use aldis_coll::alltoall::{Bruck, InPlace};
use aldis_coll::layout::TypedBlock;
use aldis_coll::{Options, alltoallw_typed};
use aldis_kernel::datatype::Basic;
use aldis_kernel::hal::{Cause, Operation, Resource};
use aldis_kernel::plane::prelude::*;
use aldis_kernel::{Comm, Error, Rank};
use aldis_tests::thread_jobs::{Endpoint, run};

use super::{attach, commit};

fn refused(
    endpoint: &mut Endpoint<'_, '_>,
    world: &Comm,
    given: &[TypedBlock],
    blocks: &[TypedBlock],
) -> (Operation, Option<Rank>, Cause) {
    let mut data = [0_u8; 12];
    let error = alltoallw_typed(&[1; 12], given, &mut data, blocks).run(endpoint, world).unwrap_err();
    (error.operation, error.peer(), error.cause)
}

#[test]
fn what_cannot_be_sent_is_refused_before_anything_is_and_names_whose_it_is() {
    run(3, |endpoint| {
        let world = endpoint.world();
        let good: Vec<_> = (0..3).map(|place| TypedBlock::new(4 * place, 1, Basic::U32)).collect();
        let without = Cause::TooSmall { what: Resource::Datatypes, need: 1, have: 0 };
        let told = refused(endpoint, &world, &good, &good);
        assert_eq!(told, (Operation::Alltoallw, Some(Rank(0)), without));
        attach(endpoint);
        let types = endpoint.types().unwrap();
        let freed = types.vector(2, 1, 2, Basic::U8);
        let freed = commit(types, freed);
        types.free(freed).unwrap();
        let below = types.hindexed_block(1, &[-5], Basic::U8);
        let below = commit(types, below);
        let wrong = |at: usize, block: TypedBlock| {
            let mut list = good.clone();
            list[at] = block;
            list
        };
        let cases = [
            (1, TypedBlock::new(9, 1, Basic::U32), Cause::TooBig { len: 13, max: 12 }),
            (2, TypedBlock::new(0, 13, Basic::Byte), Cause::TooBig { len: 13, max: 12 }),
            (0, TypedBlock::new(isize::MAX, 1, Basic::Byte), Cause::TooBig { len: 1 << 63, max: 12 }),
            (2, TypedBlock::new(4, 1, below), Cause::TooBig { len: 5, max: 4 }),
            (1, TypedBlock::new(0, 1, freed), Cause::Stale),
        ];
        for (at, block, cause) in cases {
            let rank = Some(Rank(at as u32));
            let of_given = refused(endpoint, &world, &wrong(at, block), &good);
            let of_data = refused(endpoint, &world, &good, &wrong(at, block));
            match cause {
                // Sums past the end of memory are not told exactly.
                Cause::TooBig { len: 0x8000_0000_0000_0000, .. } => {
                    assert!(matches!(of_given.2, Cause::TooBig { max: 12, .. }), "{of_given:?}");
                    assert!(matches!(of_data.2, Cause::TooBig { max: 12, .. }), "{of_data:?}");
                }
                _ => {
                    assert_eq!(of_given, (Operation::Alltoallw, rank, cause));
                    assert_eq!(of_data, (Operation::Alltoallw, rank, cause));
                }
            }
        }
        let few = refused(endpoint, &world, &good[..2], &good);
        assert_eq!(few, (Operation::Alltoallw, None, Cause::LengthMismatch { left: 2, right: 3 }));
        let mut data = [0_u8; 12];
        for options in [Options::using(&Bruck::<2>), Options::using(&InPlace)] {
            let error = alltoallw_typed(&[1; 12], &good, &mut data, &good)
                .with(&options)
                .run(endpoint, &world)
                .unwrap_err();
            assert!(matches!(error.cause, Cause::Unsupported | Cause::TooSmall { .. }), "{error}");
        }
        // All ranks are still in step, and the same lists work.
        alltoallw_typed(&[1; 12], &good, &mut data, &good).run(endpoint, &world).unwrap();
        assert_eq!(data, [1; 12]);
    });
}

/// A type that is freed between two starts is told at the second one; that of another rank is not
/// its business.
#[test]
fn a_type_that_is_gone_is_told_when_a_call_is_started_again() {
    run(2, |endpoint| {
        attach(endpoint);
        let world = endpoint.world();
        let types = endpoint.types().unwrap();
        let pair = types.contiguous(2, Basic::U16);
        let pair = commit(types, pair);
        let blocks = [TypedBlock::new(0, 1, pair), TypedBlock::new(4, 1, pair)];
        let (given, mut data) = ([5_u16; 4], [0; 4]);
        let data_ref = &mut data;
        endpoint
            .scope(|scope| {
                let mut made =
                    alltoallw_typed(&given, &blocks, data_ref, &blocks).persistent(scope, &world)?;
                made.start(scope)?;
                made.wait(scope)?;
                scope.types()?.free(pair)?;
                let error = made.start(scope).unwrap_err();
                assert_eq!((error.cause, error.peer()), (Cause::Stale, Some(Rank(0))));
                Ok::<_, Error>(())
            })
            .unwrap();
        assert_eq!(data, [5; 4]);
    });
}

/// Returns the error of each of two ranks whose lists do not fit each other: of rank 0 what it
/// gives, of rank 1 what it takes.
fn told(given: TypedBlock, taken: TypedBlock) -> Vec<Option<Error>> {
    run(2, |endpoint| {
        attach(endpoint);
        let (world, nothing) = (endpoint.world(), TypedBlock::empty());
        let lists = match world.rank() {
            Rank(0) => ([nothing, given], [nothing; 2]),
            _ => ([nothing; 2], [taken, nothing]),
        };
        let mut within = endpoint.within(Duration::from_millis(200));
        alltoallw_typed(&[1_u8; 16], &lists.0, &mut [0; 16], &lists.1).run(&mut within, &world).err()
    })
}

#[test]
fn blocks_that_are_unlike_at_the_other_rank_are_told_by_who_receives() {
    let eight = TypedBlock::new(0, 1, Basic::U64);
    for (given, taken, cause) in [
        (eight, TypedBlock::new(0, 1, Basic::U32), Cause::UnlikeLength { own: 4, theirs: 8 }),
        (eight, TypedBlock::new(0, 2, Basic::U64), Cause::UnlikeLength { own: 16, theirs: 8 }),
    ] {
        let told = told(given, taken);
        assert_eq!(told[1].map(|error| (error.cause, error.peer())), Some((cause, Some(Rank(0)))));
    }
    let other = told(eight, TypedBlock::new(0, 1, Basic::F64));
    let error = other[1].unwrap();
    assert_eq!((error.operation, error.peer()), (Operation::Alltoallw, Some(Rank(0))));
    assert!(matches!(error.cause, Cause::SignatureMismatch { .. }), "{error}");
    let waits = told(TypedBlock::empty(), eight);
    assert_eq!(waits[1].map(|error| (error.cause, error.peer())), Some((Cause::TimedOut, Some(Rank(0)))));
}

#[test]
fn what_a_rank_has_for_itself_must_fit_as_well() {
    run(1, |endpoint| {
        attach(endpoint);
        let world = endpoint.world();
        let of = |basic: Basic, count| [TypedBlock::new(0, count, basic)];
        let (two, one) = (of(Basic::U16, 2), of(Basic::U32, 1));
        let told = refused(endpoint, &world, &two, &of(Basic::U16, 3));
        let differ = Cause::LengthMismatch { left: 4, right: 6 };
        assert_eq!(told, (Operation::Alltoallw, Some(Rank(0)), differ));
        let told = refused(endpoint, &world, &two, &one);
        assert!(matches!(told.2, Cause::SignatureMismatch { .. }), "{told:?}");
    });
}

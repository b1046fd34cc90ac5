//! Bad input: every mistake has a cause of its own, and is reported with who made it, where, and
//! what to do about it.

use core::iter::Empty;
use core::time::Duration;

use aldis_kernel::datatype::{Basic, TypeTable};
use aldis_kernel::hal::{Cause, PeerId, Resource};
use aldis_kernel::plane::prelude::*;
use aldis_kernel::{
    Comm, Error, Hints, LentRange, Members, Rank, Request, Scope, Source, Tag, TagMatch, Typed, TypedMut,
};
use aldis_kit::rig::{self, Clock, Job, REQUESTS, Shape, Wire};

/// A mistake, what it is called, and what its message must name.
type Mistake = (fn(&mut rig::Rank<'_>, Comm) -> Error, Cause, &'static [&'static str]);

const TOO_HIGH: u32 = Tag::MAX.0 + 1;

/// Made on rank 1 of two, with a communicator of both in slot 2; rank 0 has sent 8 bytes with tag 1
/// there.
const MISTAKES: [Mistake; 26] = [
    (
        |ep, comm| ep.send(&comm, &[1_u8], Rank(5), Tag(3)).unwrap_err(),
        Cause::RankOutOfRange { rank: 5, size: 2 },
        &["send with rank 5", "tag 3", "communicator 2", "outside 0..2"],
    ),
    (
        |ep, comm| ep.probe(&comm, Rank(2), TagMatch::Any).unwrap_err(),
        Cause::RankOutOfRange { rank: 2, size: 2 },
        &["probe with rank 2", "communicator 2", "outside 0..2"],
    ),
    (
        |ep, comm| ep.ssend(&comm, &[1_u8], Rank(0), Tag(TOO_HIGH)).unwrap_err(),
        Cause::TagOutOfRange { tag: TOO_HIGH, max: Tag::MAX.0 },
        &["send with rank 0", "tag 2147483648", "above 2147483647"],
    ),
    (
        |ep, comm| ep.recv(&comm, &mut [0_u8; 3], Rank(0), Tag(1)).unwrap_err(),
        Cause::Truncated { sent: 8, room: 3 },
        &["recv with rank 0", "tag 1", "8 bytes met a buffer of 3", "after 3 bytes"],
    ),
    (
        |ep, comm| {
            ep.comm_mut(&comm).set_hints(Hints::EXACT_LENGTH).unwrap();
            ep.recv(&comm, &mut [0_u8; 9], Rank(0), Tag(1)).unwrap_err()
        },
        Cause::NotExact { sent: 8, room: 9 },
        &["recv with rank 0", "8 bytes met a buffer of 9", "hint exact_length"],
    ),
    (
        |ep, comm| {
            ep.comm_mut(&comm).set_hints(Hints::NO_ANY_SOURCE).unwrap();
            ep.recv(&comm, &mut [0_u8; 8], Source::Any, Tag(1)).unwrap_err()
        },
        Cause::NoAnySource,
        &["recv", "communicator 2", "hint no_any_source", "name the source"],
    ),
    (
        |ep, comm| {
            ep.comm_mut(&comm).set_hints(Hints::NO_ANY_TAG).unwrap();
            ep.recv(&comm, &mut [0_u8; 8], Rank(0), TagMatch::Any).unwrap_err()
        },
        Cause::NoAnyTag,
        &["recv with rank 0", "communicator 2", "hint no_any_tag", "name the tag"],
    ),
    (
        |ep, comm| {
            ep.discard(&comm).unwrap();
            ep.send(&comm, &[1_u8], Rank(0), Tag(0)).unwrap_err()
        },
        Cause::Stale,
        &["send with rank 0", "communicator 2", "freed", "make a new one"],
    ),
    (
        |ep, comm| {
            ep.discard(&comm).unwrap();
            ep.discard(&comm).unwrap_err()
        },
        Cause::Stale,
        &["free", "communicator 2", "freed"],
    ),
    (
        |ep, _| {
            let world = ep.world();
            ep.discard(&world).unwrap_err()
        },
        Cause::Predefined,
        &["free", "communicator 0", "predefined"],
    ),
    (
        |ep, comm| {
            let mut memory = [0_u8; 8];
            let twice = ep.scope(|scope| {
                let lent = scope.lend(&mut memory);
                let mut request = scope.recv_init(&comm, lent, 0..8, Rank(0), Tag(2))?;
                scope.start(&mut request)?;
                let twice = scope.start(&mut request);
                assert!(scope.cancel(&mut request));
                twice
            });
            twice.unwrap_err()
        },
        Cause::Busy,
        &["recv with rank 0", "tag 2", "communicator 2", "in use", "wait for it first"],
    ),
    (
        |ep, comm| {
            let mut buffer = [0_u8; 8];
            let plain = ep.scope(|scope| {
                let mut request = scope.irecv(&comm, &mut buffer, Rank(0), Tag(2))?;
                let plain = scope.start(&mut request);
                assert!(scope.cancel(&mut request));
                plain
            });
            plain.unwrap_err()
        },
        Cause::Stale,
        &["freed"],
    ),
    (
        |ep, comm| {
            let mut memory = [0_u8; 8];
            let outside = ep.scope(|scope| {
                let lent = scope.lend(&mut memory);
                scope.isend_part(&comm, lent, 4..9, Rank(0), Tag(2)).map(drop)
            });
            outside.unwrap_err()
        },
        Cause::TooBig { len: 9, max: 8 },
        &["send with rank 0", "9 bytes where at most 8 fit"],
    ),
    (
        |ep, _| {
            let mut memory = [0_u8; 8];
            let overlapping = ep.scope(|scope| {
                let lent = scope.lend(&mut memory);
                scope.combine(LentRange::new(lent, 0..5), LentRange::new(lent, 4..8), |_, _| {
                    panic!("they overlap")
                })
            });
            overlapping.unwrap_err()
        },
        Cause::Busy,
        &["in use"],
    ),
    (
        |ep, comm| {
            let mut buffers = [[0_u8; 1]; REQUESTS + 1];
            let full = ep.scope(|scope| {
                for buffer in &mut buffers {
                    let _ = scope.irecv(&comm, buffer, Rank(0), Tag(9))?;
                }
                Ok(())
            });
            full.unwrap_err()
        },
        Cause::Full(Resource::Requests),
        &["recv with rank 0", "request slots", "storage parameter `requests`"],
    ),
    (
        |ep, comm| ep.bsend(&comm, &[0_u8; 8], Rank(0), Tag(4)).unwrap_err(),
        Cause::Full(Resource::SendBuffer),
        &["send with rank 0", "buffered sends", "send_buffer"],
    ),
    (
        |ep, comm| {
            let late = ep.within(Duration::from_millis(1)).recv(&comm, &mut [0_u8; 8], Rank(0), Tag(7));
            late.unwrap_err()
        },
        Cause::TimedOut,
        &["recv with rank 0", "tag 7", "the deadline passed", "ms after the call"],
    ),
    (
        |ep, comm| {
            ep.comm_mut(&comm).abort(12).unwrap();
            ep.send(&comm, &[0_u8; 8], Rank(0), Tag(4)).unwrap_err()
        },
        Cause::Aborted { code: 12 },
        &["send with rank 0", "aborted with code 12"],
    ),
    (
        |ep, _| {
            let waited = ep.scope(|scope| scope.wait_for(&mut Request::null()));
            waited.unwrap_err()
        },
        Cause::Stale,
        &["wait", "freed"],
    ),
    (
        |ep, comm| {
            let table = Box::leak(Box::new(TypeTable::<2, 16>::new()));
            ep.attach_types(table.types()).unwrap();
            let (words, mut floats) = ([1_u32; 2], [0_f32; 2]);
            let (sent, into) = (Typed::new(&words, 2, Basic::U32), TypedMut::new(&mut floats, 2, Basic::F32));
            ep.sendrecv_typed(&comm, sent, Rank(1), Tag(3), into, Rank(1), Tag(3)).unwrap_err()
        },
        // Its numbers are the hashes of the types, which the message is to tell.
        Cause::SignatureMismatch { sent: 0, expected: 0 },
        &["with rank 1", "tag 3", "communicator 2", "sent as other types than received", "was expected"],
    ),
    (
        |ep, comm| parts(ep, comm, |scope, request| scope.partitions(request).ready_range(1..3)),
        Cause::Inactive,
        &["send with rank 0", "tag 5", "communicator 2", "start it first"],
    ),
    (
        |ep, comm| {
            parts(ep, comm, |scope, request| {
                scope.start(request)?;
                let twice = scope.start(request);
                scope.partitions(request).ready_range(0..4)?;
                twice
            })
        },
        Cause::Busy,
        &["send with rank 0", "tag 5", "communicator 2", "in use"],
    ),
    (
        |ep, comm| {
            parts(ep, comm, |scope, request| {
                scope.start(request)?;
                scope.partitions(request).ready_range(0..3)?;
                scope.partitions(request).ready_range(2..4)
            })
        },
        Cause::PartitionReady { partition: 2 },
        &["send with rank 0", "tag 5", "communicator 2", "partition 2 is ready already"],
    ),
    (
        |ep, comm| {
            parts(ep, comm, |scope, request| {
                scope.start(request)?;
                scope.partitions(request).ready(4)
            })
        },
        Cause::PartitionOutOfRange { partition: 4, partitions: 4 },
        &["send with rank 0", "tag 5", "partition 4 is outside 0..4"],
    ),
    (
        |ep, comm| {
            let mut memory = [0_u8; 8];
            let uneven = ep.scope(|scope| {
                let lent = scope.lend(&mut memory);
                scope.precv_init(&comm, lent, 0..8, 3, Rank(0), Tag(5)).map(drop)
            });
            uneven.unwrap_err()
        },
        Cause::Partitions { partitions: 3, bytes: 8 },
        &["recv with rank 0", "tag 5", "communicator 2", "8 bytes in 3 partitions"],
    ),
    (
        |ep, comm| {
            let mut memory = [0_u8; 8];
            let edited = ep.scope(|scope| {
                let lent = scope.lend(&mut memory);
                let mut request = scope.recv_init(&comm, lent, 0..8, Rank(0), Tag(2))?;
                scope.start(&mut request)?;
                let edited = scope.edit(lent, 7..8, |_| panic!("a message is to come there"));
                assert!(scope.cancel(&mut request));
                edited
            });
            edited.unwrap_err()
        },
        Cause::Busy,
        &["in use", "wait for it first"],
    ),
];

/// Returns what is wrong with `misuse` of a partitioned send of four parts to rank 0, which no rank
/// receives.
fn parts(
    ep: &mut rig::Rank<'_>,
    comm: Comm,
    misuse: impl for<'scope> FnOnce(
        &mut Scope<'scope, '_, '_, Wire, Clock>,
        &mut Request<'scope>,
    ) -> Result<(), Error>,
) -> Error {
    let (mut memory, mut error) = ([0_u8; 8], None);
    let soon = Duration::from_millis(1);
    let left = ep.within(soon).scope(|scope| {
        let lent = scope.lend(&mut memory);
        let mut request = scope.psend_init(&comm, lent, 0..8, 4, Rank(0), Tag(5))?;
        error = misuse(scope, &mut request).err();
        Ok(())
    });
    assert!(left.is_ok() || matches!(left, Err(Error { cause: Cause::TimedOut, .. })), "{left:?}");
    error.unwrap()
}

#[test]
fn every_mistake_has_its_own_cause_and_names_who_and_what() {
    for (index, (mistake, cause, named)) in MISTAKES.into_iter().enumerate() {
        let mut job = Job::new(2, Shape::default());
        let mut ranks = job.ranks();
        let comms: Vec<Comm> = ranks
            .iter_mut()
            .map(|rank| rank.install(2, 1, &Members::<Empty<PeerId>>::Of(rank.world())).unwrap())
            .collect();
        ranks[0].send(&comms[0], &[7_u8; 8], Rank(1), Tag(1)).unwrap();
        let error = mistake(&mut ranks[1], comms[1]);
        let found = match error.cause {
            Cause::SignatureMismatch { .. } => Cause::SignatureMismatch { sent: 0, expected: 0 },
            cause => cause,
        };
        assert_eq!(found, cause, "mistake {index}: {error}");
        let told = error.to_string();
        for part in named {
            assert!(told.contains(part), "mistake {index}: {told:?} does not name {part:?}");
        }
    }
}

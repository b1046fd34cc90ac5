//! Scopes that end early, by error, deadline or panic, with requests of every kind under way whose
//! memory is then freed.

use core::mem::ManuallyDrop;
use core::panic::AssertUnwindSafe;
use core::time::Duration;
use std::panic::catch_unwind;

use aldis_hal::Cause;
use aldis_kernel::plane::prelude::*;
use aldis_kernel::{Comm, Error, LentRange, Rank, Request, Tag};
use aldis_trials::{Home, Mate, MateScope, Pair};

/// Both scopes work on what they were lent, one inside of the other, and neither sees anything of
/// the other's.
#[test]
fn nested_scopes_of_two_endpoints_each_have_their_own_memory() {
    let (mut here, mut there) = (Home::new(), Home::new());
    let (mut one, mut two) = (here.endpoint(), there.endpoint());
    let (first, second) = (one.world(), two.world());
    let (mut left, mut right) = ([0u8; 16], [0u8; 16]);
    one.scope(|outer| {
        let left = outer.lend(&mut left);
        let mut coming = outer.irecv_part(&first, left, 0..8, Rank(0), Tag(1))?;
        two.scope(|inner| {
            let right = inner.lend(&mut right);
            let mut coming = inner.irecv_part(&second, right, 8..16, Rank(0), Tag(1))?;
            assert_eq!(inner.edit(right, 0..9, |_| ()).unwrap_err().cause, Cause::Busy);
            let mut going = inner.isend(&second, &[2u8; 8], Rank(0), Tag(1))?;
            inner.wait_for(&mut going)?;
            inner.wait_for(&mut coming)?;
            outer.edit(left, 8..16, |ours| {
                inner.edit(right, 0..8, |theirs| theirs.fill(4)).unwrap();
                ours.fill(3);
            })
        })?;
        let mut going = outer.isend(&first, &[1u8; 8], Rank(0), Tag(1))?;
        outer.wait_for(&mut going)?;
        outer.wait_for(&mut coming).map(drop)
    })
    .unwrap();
    assert_eq!(
        (left, right),
        ([1, 1, 1, 1, 1, 1, 1, 1, 3, 3, 3, 3, 3, 3, 3, 3], [4, 4, 4, 4, 4, 4, 4, 4, 2, 2, 2, 2, 2, 2, 2, 2])
    );
}

/// A way to have a request on memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum ScopeKind {
    Receive,
    Part,
    Persistent,
    Partitioned,
    Detached,
    Matched,
    Send,
    SynchronousSend,
    PersistentSend,
    PartitionedSend,
}

const RECEIVES: [ScopeKind; 6] = [
    ScopeKind::Receive,
    ScopeKind::Part,
    ScopeKind::Persistent,
    ScopeKind::Partitioned,
    ScopeKind::Detached,
    ScopeKind::Matched,
];
const SENDS: [ScopeKind; 4] =
    [ScopeKind::Send, ScopeKind::SynchronousSend, ScopeKind::PersistentSend, ScopeKind::PartitionedSend];

/// A way for a scope to end.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum CutOffEnd {
    Error,
    Panic,
    Deadline,
}

const OTHER: Tag = Tag(7);
const TAG: Tag = Tag(1);

/// Starts one request on all of `memory` and forgets it.
fn start<'scope>(
    kind: ScopeKind,
    scope: &mut MateScope<'scope, '_, '_, '_>,
    world: &Comm,
    memory: &'scope mut [u8],
) -> Result<(), Error> {
    let (all, mate) = (0..memory.len(), Rank(1 - world.rank().0));
    let request = match kind {
        ScopeKind::Receive => scope.irecv(world, memory, mate, TAG)?,
        ScopeKind::Part => {
            let lent = scope.lend(memory);
            scope.irecv_part(world, lent, all, mate, TAG)?
        }
        ScopeKind::Persistent => {
            let lent = scope.lend(memory);
            let mut request = scope.recv_init(world, lent, all, mate, TAG)?;
            scope.start(&mut request)?;
            request
        }
        ScopeKind::Partitioned => {
            let lent = scope.lend(memory);
            let mut request = scope.precv_init(world, lent, all, 2, mate, TAG)?;
            scope.start(&mut request)?;
            request
        }
        ScopeKind::Detached => {
            let request = scope.irecv(world, memory, mate, TAG)?;
            scope.detach(request);
            Request::null()
        }
        ScopeKind::Matched => match scope.improbe(world, mate, TAG)? {
            Some(message) => scope.imrecv(message, memory)?,
            None => Request::null(),
        },
        ScopeKind::Send => scope.isend(world, memory, mate, TAG)?,
        ScopeKind::SynchronousSend => scope.issend(world, memory, mate, TAG)?,
        ScopeKind::PersistentSend => {
            let lent = scope.lend(memory);
            let mut request = scope.send_init(world, lent, all, mate, TAG)?;
            scope.start(&mut request)?;
            request
        }
        ScopeKind::PartitionedSend => {
            let lent = scope.lend(memory);
            let mut request = scope.psend_init(world, lent, all, 2, mate, TAG)?;
            scope.start(&mut request)?;
            scope.partitions(&request).ready_list(&[1, 0])?;
            request
        }
    };
    let _forgotten = ManuallyDrop::new(request);
    Ok(())
}

/// Has both start what meets, moves them a few times, and ends both scopes at once. All memory is
/// freed by then.
fn cut_off(
    [one, two]: &mut [Mate<'_>; 2],
    [left, right]: [ScopeKind; 2],
    end: CutOffEnd,
    moment: ScopeMoment,
) {
    let ScopeMoment { len, polls } = moment;
    let [mut ours, mut theirs] = [1, 2].map(|byte| vec![byte; len]);
    let limit = if end == CutOffEnd::Deadline { Duration::ZERO } else { Duration::from_secs(3600) };
    let worlds = [one.world(), two.world()];
    let ended = catch_unwind(AssertUnwindSafe(|| {
        one.within(limit).scope(|here| {
            two.within(limit).scope(|there| {
                // What is matched by a probe has to be there.
                if left == ScopeKind::Matched {
                    start(right, there, &worlds[1], &mut theirs)?;
                    (0..4).for_each(|_| assert!(there.poll(64) + here.poll(64) < 128));
                    start(left, here, &worlds[0], &mut ours)?;
                } else {
                    start(left, here, &worlds[0], &mut ours)?;
                    start(right, there, &worlds[1], &mut theirs)?;
                }
                (0..polls).for_each(|_| assert!(here.poll(2) + there.poll(2) < 5));
                assert_ne!(end, CutOffEnd::Panic, "the program has had enough");
                match end {
                    CutOffEnd::Error => there.isend(&worlds[1], &[0u8; 0], Rank(99), TAG).map(drop),
                    _ => Ok(()),
                }
            })
        })
    }));
    assert_eq!(ended.is_err(), end == CutOffEnd::Panic, "{left:?} {right:?} {end:?} {len} {polls}");
    drop((ours, theirs));
    // Whatever is still on its way arrives now.
    for _ in 0..32 {
        one.poll(64);
        two.poll(64);
    }
}

/// The endpoints still serve, each the other.
fn still_talk([one, two]: &mut [Mate<'_>; 2]) {
    let worlds = [one.world(), two.world()];
    let (out, mut into) = ([3u8; 700], [0u8; 700]);
    one.scope(|here| {
        two.scope(|there| {
            let sending = there.isend(&worlds[1], &out, Rank(0), OTHER)?;
            let mut receiving = here.irecv(&worlds[0], &mut into, Rank(1), OTHER)?;
            while here.result(&mut receiving)?.is_none() {
                here.poll(64);
                there.poll(64);
            }
            there.wait(sending).map(drop)
        })
    })
    .unwrap();
    assert_eq!(into, out);
}

/// Lengths that go inline, in a block and in fragments, and the moments at which the scopes end.
const MOMENTS: [ScopeMoment; 7] = [
    moment(8, 0),
    moment(8, 4),
    moment(200, 0),
    moment(200, 1),
    moment(2000, 0),
    moment(2000, 2),
    moment(2000, 5),
];

/// The moment at which scopes end: after so many polls with messages of so many bytes.
#[derive(Clone, Copy)]
struct ScopeMoment {
    len: usize,
    polls: u32,
}

const fn moment(len: usize, polls: u32) -> ScopeMoment {
    ScopeMoment { len, polls }
}

/// The ends and moments that are tried. Miri has time for few.
fn ends() -> Vec<(CutOffEnd, ScopeMoment)> {
    if cfg!(miri) {
        return vec![(CutOffEnd::Error, moment(2000, 3)), (CutOffEnd::Panic, moment(8, 0))];
    }
    let each = |end| MOMENTS.map(|moment| (end, moment));
    [CutOffEnd::Error, CutOffEnd::Panic, CutOffEnd::Deadline].into_iter().flat_map(each).collect()
}

fn cut_off_all(kinds: impl IntoIterator<Item = [ScopeKind; 2]>) {
    for kinds in kinds {
        for (end, moment) in ends() {
            let mut pair = Pair::new();
            let mut ends = pair.endpoints();
            cut_off(&mut ends, kinds, end, moment);
            if end != CutOffEnd::Panic {
                still_talk(&mut ends);
            }
        }
    }
}

#[test]
fn scopes_that_end_early_have_let_go_of_what_they_receive_into() {
    let sender =
        |kind| if kind == ScopeKind::Partitioned { ScopeKind::PartitionedSend } else { ScopeKind::Send };
    cut_off_all(RECEIVES.map(|kind| [kind, sender(kind)]));
}

#[test]
fn scopes_that_end_early_have_let_go_of_what_they_send() {
    let receiver =
        |kind| if kind == ScopeKind::PartitionedSend { ScopeKind::Partitioned } else { ScopeKind::Receive };
    cut_off_all(SENDS.map(|kind| [receiver(kind), kind]));
}

/// A request whose other side never does anything.
#[test]
fn scopes_that_end_early_have_let_go_of_unmatched_operations() {
    cut_off_all(RECEIVES.into_iter().chain(SENDS).map(|kind| [kind, kind]));
}

/// Two receives into the same bytes, and a send of them, are no sensible program; yet nothing but
/// bytes can be wrong.
#[test]
fn requests_may_overlap_each_other_in_one_loan() {
    for len in [8usize, 200, 2000] {
        let mut pair = Pair::new();
        let [mut one, mut two] = pair.endpoints();
        let worlds = [one.world(), two.world()];
        let (mut memory, first, second, mut echo) =
            (vec![0u8; len], vec![1u8; len], vec![2u8; len], vec![0u8; len]);
        one.scope(|here| {
            let lent = here.lend(&mut memory);
            two.scope(|there| {
                let half = len / 2;
                let mut ours = [
                    here.irecv_part(&worlds[0], lent, 0..len, Rank(1), TAG)?,
                    here.irecv_part(&worlds[0], lent, 0..half, Rank(1), OTHER)?,
                    here.isend_part(&worlds[0], lent, 0..len, Rank(1), TAG)?,
                ];
                let mut theirs = [
                    there.isend(&worlds[1], &first, Rank(0), TAG)?,
                    there.isend(&worlds[1], &second[..half], Rank(0), OTHER)?,
                    there.irecv(&worlds[1], &mut echo, Rank(0), TAG)?,
                ];
                while !(here.test_all(&ours) & there.test_all(&theirs)) {}
                here.wait_all(&mut ours)?;
                there.wait_all(&mut theirs)
            })
        })
        .unwrap();
        assert!(memory.iter().chain(&echo).all(|byte| *byte < 3));
    }
}

/// Memory that is looked at while requests are under way is left alone by them.
#[test]
fn ranges_in_use_are_not_given_out() {
    let mut home = Home::new();
    let mut end = home.endpoint();
    let world = end.world();
    let mut memory = [0u8; 64];
    let ended = end.within(Duration::ZERO).scope(|scope| {
        let lent = scope.lend(&mut memory);
        let _receiving = scope.irecv_part(&world, lent, 8..16, Rank(0), TAG)?;
        for range in [0..9, 15..16, 8..16, 0..64] {
            assert_eq!(scope.edit(lent, range.clone(), |_| ()).unwrap_err().cause, Cause::Busy);
            assert_eq!(
                scope
                    .combine(LentRange::new(lent, 32..33), LentRange::new(lent, range), |_, _| ())
                    .unwrap_err()
                    .cause,
                Cause::Busy
            );
        }
        assert_eq!(
            scope
                .combine(LentRange::new(lent, 20..30), LentRange::new(lent, 29..32), |_, _| ())
                .unwrap_err()
                .cause,
            Cause::Busy
        );
        scope.edit(lent, 0..8, |bytes| bytes.fill(1))?;
        scope.edit(lent, 16..64, |bytes| bytes.fill(1))
    });
    assert_eq!(ended.unwrap_err().cause, Cause::TimedOut);
    assert_eq!(memory[8..16], [0; 8]);
}

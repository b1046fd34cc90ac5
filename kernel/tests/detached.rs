//! Detached requests, which no call waits for (MPI 4.1 section 3.7.3).

use core::time::Duration;

use aldis_kernel::hal::{Cause, Resource};
use aldis_kernel::{Comm, Rank, Tag};
use aldis_kit::rig::{self, Job, REQUESTS, Shape, pattern, settle, together};

fn worlds(ranks: &[rig::Rank<'_>]) -> [Comm; 2] {
    [ranks[0].world(), ranks[1].world()]
}

/// Five times as many as there are slots, by rendezvous, so that each needs a slot on both sides.
#[test]
fn their_slots_are_used_again() {
    let mut job = Job::new(2, Shape::default());
    let mut ranks = job.ranks();
    let [here, there] = worlds(&ranks);
    let data: Vec<_> = (0..5 * REQUESTS as u32).map(|number| pattern(number, 300)).collect();
    let mut buffers = vec![[0_u8; 300]; data.len()];
    together(&mut ranks, |one, other| {
        for (buffer, data) in buffers.iter_mut().zip(&data) {
            let receiving = other.irecv(&there, buffer, Rank(0), Tag(1))?;
            other.detach(receiving);
            let sending = one.isend(&here, data, Rank(1), Tag(1))?;
            one.detach(sending);
            settle(one, other);
        }
        Ok(())
    })
    .unwrap();
    assert!(buffers.iter().zip(&data).all(|(buffer, data)| buffer[..] == data[..]));
    assert!(ranks.iter().all(|rank| rank.diagnostics().requests_in_use() == 0));
}

#[test]
fn those_under_way_keep_their_slots_and_memory() {
    let mut job = Job::new(2, Shape::default());
    let mut ranks = job.ranks();
    let [here, _] = worlds(&ranks);
    let mut buffers = [[0_u8; 8]; REQUESTS + 1];
    let soon = Duration::from_millis(1);
    let late = ranks[0].within(soon).scope(|scope| {
        let [last, buffers @ ..] = &mut buffers;
        for buffer in buffers {
            let lent = scope.lend(buffer);
            let receiving = scope.irecv_part(&here, lent, 0..8, Rank(1), Tag(1))?;
            scope.detach(receiving);
            assert_eq!(scope.edit(lent, 0..8, |_| ()).unwrap_err().cause, Cause::Busy);
        }
        let full = scope.irecv(&here, last, Rank(1), Tag(1)).unwrap_err();
        assert_eq!(full.cause, Cause::Full(Resource::Requests), "none of them is over");
        Ok(())
    });
    assert_eq!(late.unwrap_err().cause, Cause::TimedOut, "its end waits for them");
    assert_eq!(
        (ranks[0].diagnostics().requests_in_use(), ranks[0].diagnostics().queue_depths()),
        (0, (0, 0))
    );
}

#[test]
fn the_scope_has_their_failure() {
    let mut job = Job::new(2, Shape::default());
    let mut ranks = job.ranks();
    let [here, there] = worlds(&ranks);
    let (mut short, mut buffers) = ([0_u8; 4], [[0_u8; 8]; 2 * REQUESTS]);
    let failed = together(&mut ranks, |one, other| {
        let receiving = other.irecv(&there, &mut short, Rank(0), Tag(1))?;
        other.detach(receiving);
        one.isend(&here, &[1_u8; 8], Rank(1), Tag(1)).map(drop)?;
        // The failure is kept, however many slots are needed meanwhile.
        for buffer in &mut buffers {
            let receiving = other.irecv(&there, buffer, Rank(0), Tag(2))?;
            other.detach(receiving);
            one.isend(&here, &[2_u8; 8], Rank(1), Tag(2)).map(drop)?;
            settle(one, other);
        }
        Ok(())
    });
    assert_eq!(failed.unwrap_err().cause, Cause::Truncated { sent: 8, room: 4 });
    assert_eq!((buffers, ranks[1].diagnostics().requests_in_use()), ([[2; 8]; 2 * REQUESTS], 0));
}

#[test]
fn persistent_and_partitioned_ones_are_freed_after_their_round() {
    let mut job = Job::new(2, Shape::default());
    let mut ranks = job.ranks();
    let [here, there] = worlds(&ranks);
    let (mut out, mut into) = ([7_u8; 16], [0_u8; 16]);
    let mut buffers = [[0_u8; 8]; REQUESTS];
    together(&mut ranks, |one, other| {
        let (out, into) = (one.lend(&mut out), other.lend(&mut into));
        let idle = one.send_init(&here, out, 0..8, Rank(1), Tag(1))?;
        one.detach(idle);
        let mut sending = one.send_init(&here, out, 0..8, Rank(1), Tag(1))?;
        let mut receiving = other.recv_init(&there, into, 0..8, Rank(0), Tag(1))?;
        let mut parts = one.psend_init(&here, out, 8..16, 2, Rank(1), Tag(1))?;
        let mut whole = other.precv_init(&there, into, 8..16, 1, Rank(0), Tag(1))?;
        one.start(&mut sending)?;
        other.start(&mut receiving)?;
        one.start(&mut parts)?;
        other.start(&mut whole)?;
        one.partitions(&parts).ready_range(0..2)?;
        for request in [sending, parts] {
            one.detach(request);
        }
        for request in [receiving, whole] {
            other.detach(request);
        }
        settle(one, other);
        // All slots are there.
        for buffer in &mut buffers {
            other.irecv(&there, buffer, Rank(0), Tag(2)).map(drop)?;
            one.isend(&here, &[2_u8; 8], Rank(1), Tag(2)).map(drop)?;
        }
        settle(one, other);
        Ok(())
    })
    .unwrap();
    assert_eq!((into, buffers), ([7; 16], [[2; 8]; REQUESTS]));
    assert!(ranks.iter().all(|rank| rank.diagnostics().requests_in_use() == 0));
}

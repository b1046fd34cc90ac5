//! Point-to-point communication between groups: section 7.6, where a rank of the other group is
//! meant by every rank that is named or told.

use aldis_coll::comm::inter;
use aldis_hal::{Cause, Platform, Transport};
use aldis_kernel::{Endpoint, Error, Rank, Source, Tag, TagMatch};

use super::super::Outcome;
use super::between::{free, halves};

cases! {
    "7.6", 5: wildcards_tell_ranks_of_the_other_group;
    "7.6", 4: messages_of_every_mode_go_between_groups;
    "7.6", 5: messages_between_groups_keep_their_order;
    "7.6", 4: probes_between_groups_find_and_match;
    "7.6", 4: persistent_and_partitioned_requests_go_between_groups;
    "7.6", 4: an_exchange_between_groups_is_one_call;
    "7.6", 5: a_rank_of_ones_own_group_is_no_rank_there;
    "7.6.2", 4: unreceived_messages_go_with_an_intercommunicator;
}

fn wildcards_tell_ranks_of_the_other_group<T: Transport, P: Platform>(
    ep: &mut Endpoint<'_, T, P>,
) -> Outcome {
    let made = halves(ep)?;
    let between = made.1;
    let (me, remote) = (between.rank().0, between.remote_size());
    let data: Vec<_> = (0..remote).map(|to| [100 * me + to; 20]).collect();
    let mut got = vec![[0_u32; 20]; remote as usize];
    let mut from = Vec::new();
    ep.scope(|scope| {
        let mut sends = Vec::new();
        for (to, data) in (0..).zip(&data) {
            sends.push(scope.isend(&between, data, Rank(to), Tag(me))?);
        }
        let mut receives = Vec::new();
        for got in &mut got {
            receives.push(scope.irecv(&between, got, Source::Any, TagMatch::Any)?);
        }
        for receive in receives {
            let status = scope.wait(receive)?;
            assert_eq!(status.tag.0, status.source.0);
            from.push(status.source.0);
        }
        scope.wait_all(&mut sends)
    })?;
    assert!(from.iter().zip(&got).all(|(from, got)| *got == [100 * from + me; 20]));
    from.sort_unstable();
    assert_eq!(from, (0..remote).collect::<Vec<_>>());
    free(ep, made.0, made.1)
}

/// Each rank of the lower group exchanges messages with the one of its number in the upper.
fn messages_of_every_mode_go_between_groups<T: Transport, P: Platform>(
    ep: &mut Endpoint<'_, T, P>,
) -> Outcome {
    let made = halves(ep)?;
    let (between, is_upper) = (made.1, ep.world().rank().0 >= 2);
    let other = between.rank();
    ep.send_buffer().attach(vec![0; 2000].leak())?;
    for len in [0_usize, 8, 60, 2000] {
        let (data, mut got) = (vec![len as u8; len], vec![0_u8; len]);
        if is_upper {
            ep.send(&between, &data, other, Tag(1))?;
            ep.ssend(&between, &data, other, Tag(1))?;
            ep.bsend(&between, &data, other, Tag(1))?;
            ep.send_buffer().flush()?;
            ep.recv::<u8>(&between, &mut [], other, Tag(2))?;
            ep.rsend(&between, &data, other, Tag(3))?;
            continue;
        }
        for _ in 0..3 {
            assert_eq!(ep.recv(&between, &mut got, other, Tag(1))?.source, other);
            assert_eq!(got, data);
        }
        got.fill(0);
        ep.scope(|scope| {
            let receiving = scope.irecv(&between, &mut got, Source::Any, Tag(3))?;
            let telling = scope.isend::<u8>(&between, &[], other, Tag(2))?;
            scope.wait(telling)?;
            scope.wait(receiving)
        })?;
        assert_eq!(got, data);
    }
    ep.send_buffer().detach()?;
    free(ep, made.0, made.1)
}

fn messages_between_groups_keep_their_order<T: Transport, P: Platform>(
    ep: &mut Endpoint<'_, T, P>,
) -> Outcome {
    let made = halves(ep)?;
    let (between, is_upper) = (made.1, ep.world().rank().0 >= 2);
    let length = |number: u32| [3, 500, 0, 64, 1][number as usize % 5];
    if is_upper {
        // To each of the two, in turn.
        for number in 0..20_u32 {
            let data = vec![number as u8; length(number / 2)];
            ep.send(&between, &data, Rank(number % 2), Tag(1))?;
        }
        return free(ep, made.0, made.1);
    }
    let mut next = [0; 3];
    for _ in 0..30 {
        let mut buffer = [0_u8; 500];
        let status = ep.recv(&between, &mut buffer, Source::Any, Tag(1))?;
        let (from, number) =
            (status.source.0 as usize, 2 * next[status.source.0 as usize] + between.rank().0);
        assert_eq!(status.bytes as usize, length(number / 2), "message {number} of rank {from}");
        assert!(buffer[..length(number / 2)].iter().all(|byte| *byte == number as u8));
        next[from] += 1;
    }
    assert_eq!(next, [10; 3]);
    free(ep, made.0, made.1)
}

fn probes_between_groups_find_and_match<T: Transport, P: Platform>(ep: &mut Endpoint<'_, T, P>) -> Outcome {
    let made = halves(ep)?;
    let (between, is_upper) = (made.1, ep.world().rank().0 >= 2);
    let other = between.rank();
    for len in [0_usize, 9, 800] {
        if is_upper {
            let data = [vec![1_u8; len], vec![2_u8; len]];
            ep.scope(|scope| {
                let mut sends = [
                    scope.isend(&between, &data[0], other, Tag(1))?,
                    scope.isend(&between, &data[1], other, Tag(1))?,
                ];
                scope.wait_all(&mut sends)
            })?;
            continue;
        }
        let (mut first, mut second) = (vec![0_u8; len], vec![0_u8; len]);
        let found = ep.probe(&between, Source::Any, TagMatch::Any)?;
        assert_eq!((found.source, found.tag, found.bytes), (other, Tag(1), len as u64));
        let matched = ep.mprobe(&between, other, Tag(1))?;
        assert_eq!(matched.status().source, other);
        ep.recv(&between, &mut second, other, Tag(1))?;
        ep.mrecv(matched, &mut first)?;
        assert_eq!((first, second), (vec![1; len], vec![2; len]));
    }
    free(ep, made.0, made.1)
}

fn persistent_and_partitioned_requests_go_between_groups<T: Transport, P: Platform>(
    ep: &mut Endpoint<'_, T, P>,
) -> Outcome {
    let made = halves(ep)?;
    let (between, is_upper) = (made.1, ep.world().rank().0 >= 2);
    let (other, mut memory) = (between.rank(), vec![0_u8; 500]);
    ep.scope(|scope| {
        let memory = scope.lend(&mut memory);
        let mut requests = match is_upper {
            true => [
                scope.send_init(&between, memory, 0..200, other, Tag(1))?,
                scope.psend_init(&between, memory, 200..500, 3, other, Tag(1))?,
            ],
            false => [
                scope.recv_init(&between, memory, 0..200, Source::Any, Tag(1))?,
                scope.precv_init(&between, memory, 200..500, 2, other, Tag(1))?,
            ],
        };
        for round in 1..4 {
            if is_upper {
                scope.edit(memory, 0..500, |bytes| bytes.fill(round))?;
            }
            scope.start_all(&mut requests)?;
            if is_upper {
                scope.partitions(&requests[1]).ready_list(&[2, 0, 1])?;
            }
            scope.wait_all(&mut requests)?;
            scope.edit(memory, 0..500, |bytes| assert!(bytes.iter().all(|byte| *byte == round)))?;
        }
        Ok(())
    })?;
    free(ep, made.0, made.1)
}

fn an_exchange_between_groups_is_one_call<T: Transport, P: Platform>(ep: &mut Endpoint<'_, T, P>) -> Outcome {
    let made = halves(ep)?;
    let (world, between) = (ep.world(), made.1);
    let (me, other) = (world.rank().0, between.rank());
    let theirs = (me + 2) % 4;
    ep.send_buffer().attach(vec![0; 900].leak())?;
    for len in [1_usize, 900] {
        let (out, mut into) = (vec![me as u8; len], vec![9; len]);
        ep.sendrecv(&between, &out, other, Tag(1), &mut into, other, Tag(1))?;
        assert_eq!(into, vec![theirs as u8; len]);
        let status = ep.sendrecv_replace(&between, &mut into, other, Tag(2), Source::Any, Tag(2))?;
        assert_eq!((status.source, into), (other, out), "what this rank has sent comes back");
        ep.send_buffer().flush()?;
    }
    ep.send_buffer().detach()?;
    free(ep, made.0, made.1)
}

fn a_rank_of_ones_own_group_is_no_rank_there<T: Transport, P: Platform>(
    ep: &mut Endpoint<'_, T, P>,
) -> Outcome {
    let made = halves(ep)?;
    let between = made.1;
    let remote = between.remote_size();
    let outside = Cause::RankOutOfRange { rank: remote, size: remote };
    let cause = |result: Result<(), Error>| result.expect_err("there are so many only").cause;
    assert_eq!(cause(ep.ssend(&between, &[0_u8], Rank(remote), Tag(1)).map(drop)), outside);
    assert_eq!(cause(ep.recv(&between, &mut [0_u8], Rank(remote), Tag(1)).map(drop)), outside);
    assert_eq!(cause(ep.probe(&between, Rank(remote), Tag(1)).map(drop)), outside);
    assert_eq!(cause(ep.improbe(&between, Rank(remote), Tag(1)).map(drop)), outside);
    ep.send(&between, &[0_u8], Rank::NULL, Tag(1))?;
    assert_eq!(ep.recv(&between, &mut [0_u8], Rank::NULL, Tag(1))?.source, Rank::NULL);
    free(ep, made.0, made.1)
}

fn unreceived_messages_go_with_an_intercommunicator<T: Transport, P: Platform>(
    ep: &mut Endpoint<'_, T, P>,
) -> Outcome {
    let made = halves(ep)?;
    let copy = inter::dup(ep, &made.1)?;
    let mut got = [0_u8];
    if ep.world().rank().0 >= 2 {
        // Small, so that it leaves wherever there is room for it, and no rank has to wait.
        ep.send_buffer().attach(vec![0; 1].leak())?;
        ep.bsend(&copy, &[1_u8], copy.rank(), Tag(1))?;
        ep.send_buffer().flush()?;
        ep.send_buffer().detach()?;
    }
    inter::free(ep, copy)?;
    let again = inter::dup(ep, &made.1)?;
    if ep.world().rank().0 >= 2 {
        ep.send(&again, &[2_u8], again.rank(), Tag(1))?;
    } else {
        ep.recv(&again, &mut got, Source::Any, TagMatch::Any)?;
        assert_eq!(got, [2], "of this one");
    }
    inter::free(ep, again)?;
    free(ep, made.0, made.1)
}

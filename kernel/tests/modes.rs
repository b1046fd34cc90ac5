//! Send modes (MPI 4.1 section 3.4 and 3.6), the null process (3.10), and completion of several
//! requests (3.7.5).

use core::time::Duration;

use aldis_kernel::hal::{Cause, Resource};
use aldis_kernel::{Comm, Rank, Request, Status, Tag, TagMatch};
use aldis_kit::rig::{self, Job, Shape, pattern, settle, together};

fn worlds(ranks: &[rig::Rank<'_>]) -> Vec<Comm> {
    ranks.iter().map(|rank| rank.world()).collect()
}

#[test]
fn a_synchronous_send_is_complete_when_it_is_matched_and_not_before() {
    let mut job = Job::new(2, Shape::default());
    let mut ranks = job.ranks();
    let worlds = worlds(&ranks);
    for len in [0, 8, 60, 500] {
        let (data, mut buffer) = (pattern(1, len), vec![0; len]);
        together(&mut ranks, |one, other| {
            let mut sending = one.issend(&worlds[0], &data, Rank(1), Tag(1))?;
            settle(one, other);
            assert_eq!(one.test(&mut sending)?, None, "it has not been received");
            let receiving = other.irecv(&worlds[1], &mut buffer, Rank(0), Tag(1))?;
            settle(one, other);
            assert_eq!(one.test(&mut sending)?.map(|status| status.bytes), Some(len as u64));
            other.wait(receiving)
        })
        .unwrap();
        assert_eq!(buffer, data);
    }
    let error =
        ranks[0].within(Duration::from_millis(1)).ssend(&worlds[0], &[1u8], Rank(1), Tag(9)).unwrap_err();
    assert_eq!(error.cause, Cause::TimedOut);
}

#[test]
fn a_ready_send_fails_by_name_if_its_receive_was_late_and_arrives_all_the_same() {
    let mut job = Job::new(2, Shape::default());
    let mut ranks = job.ranks();
    let worlds = worlds(&ranks);
    for len in [0, 8, 500] {
        for late in [false, true] {
            let (data, mut buffer) = (pattern(2, len), vec![0; len]);
            let sent = together(&mut ranks, |one, other| {
                let mut receiving = Request::null();
                let mut receive = Some(&mut buffer);
                if !late {
                    receiving = other.irecv(&worlds[1], receive.take().unwrap(), Rank(0), TagMatch::Any)?;
                }
                let sending = one.irsend(&worlds[0], &data, Rank(1), Tag(1))?;
                settle(one, other);
                if let Some(buffer) = receive.take() {
                    receiving = other.irecv(&worlds[1], buffer, Rank(0), TagMatch::Any)?;
                    settle(one, other);
                }
                other.wait(receiving)?;
                Ok(one.wait(sending).map_err(|error| error.cause))
            });
            assert_eq!(sent.unwrap().err(), late.then_some(Cause::NotReady));
            assert_eq!(buffer, data);
        }
    }
}

#[test]
fn buffered_sends_take_the_attached_memory_and_give_it_back() {
    let mut memory = [0u8; 1000];
    let mut job = Job::new(2, Shape::default());
    let mut ranks = job.ranks();
    let worlds = worlds(&ranks);
    let full = Cause::Full(Resource::SendBuffer);
    let [first, second] = &mut ranks[..] else { unreachable!() };
    assert_eq!(first.bsend(&worlds[0], &[1u8; 8], Rank(1), Tag(1)).unwrap_err().cause, full);
    first.send_buffer().attach(&mut memory).unwrap();
    assert_eq!(first.send_buffer().attach(&mut []).unwrap_err().cause, Cause::Busy);
    let data: Vec<_> = (0..6).map(|seed| pattern(seed, 300)).collect();
    for data in &data[..3] {
        first.bsend(&worlds[0], &data.clone(), Rank(1), Tag(1)).unwrap();
    }
    assert_eq!(first.bsend(&worlds[0], &data[3], Rank(1), Tag(1)).unwrap_err().cause, full);
    assert_eq!(
        first.within(Duration::from_millis(1)).send_buffer().detach().unwrap_err().cause,
        Cause::TimedOut
    );
    let mut receive = |first: &mut rig::Rank<'_>, due: &[u8]| {
        let mut buffer = vec![0; due.len()];
        second
            .scope(|other| {
                let receiving = other.irecv(&worlds[1], &mut buffer, Rank(0), Tag(1))?;
                while first.poll(64) + other.poll(64) > 0 {}
                other.wait(receiving)
            })
            .unwrap();
        assert_eq!(buffer, due);
    };
    receive(first, &data[0]);
    first.bsend(&worlds[0], &data[3], Rank(1), Tag(1)).unwrap();
    for due in &data[1..4] {
        receive(first, due);
    }
    assert_eq!(first.send_buffer().detach().unwrap().len(), 1000);
    assert_eq!(first.send_buffer().detach().unwrap().len(), 0, "nothing is attached");
}

#[test]
fn the_null_rank_takes_and_gives_nothing_at_once() {
    let mut job = Job::new(2, Shape::default());
    let mut ranks = job.ranks();
    let (world, mut buffer) = (ranks[0].world(), [7u8; 4]);
    let null = Status { source: Rank::NULL, tag: Tag::NONE, bytes: 0 };
    let rank = &mut ranks[0];
    assert_eq!(rank.send(&world, &[1u8; 600], Rank::NULL, Tag(1)).unwrap().bytes, 0);
    assert_eq!(rank.ssend(&world, &[1u8; 600], Rank::NULL, Tag(1)).unwrap().bytes, 0);
    assert_eq!(rank.recv(&world, &mut buffer, Rank::NULL, TagMatch::Any), Ok(null));
    assert_eq!(rank.sendrecv(&world, &[1u8], Rank::NULL, Tag(0), &mut buffer, Rank::NULL, Tag(0)), Ok(null));
    assert_eq!(rank.probe(&world, Rank::NULL, Tag(1)), Ok(null));
    assert_eq!(rank.iprobe(&world, Rank::NULL, Tag(1)), Ok(Some(null)));
    rank.scope(|scope| {
        let receiving = scope.irecv(&world, &mut buffer, Rank::NULL, Tag(1))?;
        assert_eq!(scope.wait(receiving), Ok(null));
        Ok(())
    })
    .unwrap();
    assert_eq!(buffer, [7; 4]);
    assert!(matches!(
        rank.send(&world, &[1u8], Rank(2), Tag(1)).unwrap_err().cause,
        Cause::RankOutOfRange { .. }
    ));
}

#[test]
fn any_some_and_all_of_several_requests() {
    let mut job = Job::new(2, Shape::default());
    let mut ranks = job.ranks();
    let worlds = worlds(&ranks);
    let mut buffers = [[0u8; 8]; 4];
    together(&mut ranks, |one, other| {
        let mut receiving = Vec::new();
        for (tag, buffer) in buffers.iter_mut().enumerate() {
            receiving.push(other.irecv(&worlds[1], buffer, Rank(0), Tag(tag as u32))?);
        }
        assert_eq!(other.test_any(&mut receiving)?, None);
        assert_eq!(other.test_some(&mut receiving, |_, _| unreachable!()), 0);
        assert!(!other.test_all(&receiving));
        for tag in [2, 0] {
            one.isend(&worlds[0], &[9u8; 8], Rank(1), Tag(tag)).map(drop)?;
        }
        settle(one, other);
        let mut seen = Vec::new();
        let count =
            other.wait_some(&mut receiving, |index, result| seen.push((index, result.unwrap().tag)))?;
        assert_eq!((count, &seen[..]), (2, &[(0, Tag(0)), (2, Tag(2))][..]));
        one.isend(&worlds[0], &[9u8; 16], Rank(1), Tag(1)).map(drop)?;
        settle(one, other);
        let truncated = other.test_any(&mut receiving).unwrap_err();
        assert_eq!(truncated.cause, Cause::Truncated { sent: 16, room: 8 });
        assert!(!other.test_all(&receiving));
        one.isend(&worlds[0], &[9u8; 8], Rank(1), Tag(3)).map(drop)?;
        settle(one, other);
        assert!(other.test_all(&receiving) && other.test_all(&receiving), "it takes nothing");
        other.wait_all(&mut receiving)?;
        assert!(receiving.iter().all(Request::is_null));
        assert_eq!(other.wait_some(&mut receiving, |_, _| unreachable!())?, 0);
        Ok(())
    })
    .unwrap();
}

//! Memory for buffered sends of each communicator (MPI 4.1 section 3.6).

use core::iter::Empty;
use core::time::Duration;

use aldis_kernel::hal::{Cause, PeerId, Resource};
use aldis_kernel::plane::prelude::*;
use aldis_kernel::{Comm, Members, Rank, Tag};
use aldis_kit::rig::{self, Job, Shape, pattern};

fn copy(rank: &mut rig::Rank<'_>) -> Comm {
    rank.install(2, 1, &Members::<Empty<PeerId>>::Of(rank.world())).unwrap()
}

#[test]
fn what_is_sent_on_a_communicator_lies_in_its_own_memory() {
    let (mut of_all, mut own) = ([0_u8; 200], [0_u8; 100]);
    let mut job = Job::new(2, Shape::default());
    let mut ranks = job.ranks();
    let [one, other] = &mut ranks[..] else { panic!("two ranks are needed") };
    let (ours, world, theirs, their_world) = (copy(one), one.world(), copy(other), other.world());
    let full = Cause::Full(Resource::SendBuffer);
    one.send_buffer().of(&ours).attach(&mut own).unwrap();
    assert_eq!(one.send_buffer().of(&ours).attach(&mut []).unwrap_err().cause, Cause::Busy);
    let data = pattern(1, 60);
    assert_eq!(one.bsend(&world, &data, Rank(1), Tag(1)).unwrap_err().cause, full, "it is the other's");
    one.send_buffer().attach(&mut of_all).unwrap();
    for _ in 0..3 {
        one.bsend(&world, &data, Rank(1), Tag(1)).unwrap();
    }
    let on_its_own = loop {
        match one.bsend(&ours, &data, Rank(1), Tag(1)) {
            Ok(_) => {}
            Err(error) => break error,
        }
    };
    assert_eq!(on_its_own.cause, full, "although the endpoint's has room");
    one.bsend(&world, &pattern(1, 20), Rank(1), Tag(1)).unwrap();
    assert_eq!(
        (one.send_buffer().is_flushed().unwrap(), one.send_buffer().of(&ours).is_flushed()),
        (false, Ok(false))
    );
    let soon = Duration::from_millis(1);
    let late = one.within(soon).send_buffer().of(&ours).flush().unwrap_err();
    assert_eq!((late.cause, late.context), (Cause::TimedOut, ours.context()));
    assert_eq!(one.within(soon).send_buffer().of(&ours).detach().unwrap_err().cause, Cause::TimedOut);
    assert_eq!(one.within(soon).send_buffer().flush().unwrap_err().cause, Cause::TimedOut);
    // Whatever is sent on its own communicator is received first: that memory is free before the
    // endpoint's is.
    let mut buffer = [0_u8; 60];
    while !one.send_buffer().of(&ours).is_flushed().unwrap() {
        other
            .scope(|there| {
                let mut receiving = there.irecv(&theirs, &mut buffer, Rank(0), Tag(1))?;
                while one.poll(64) + there.poll(64) > 0 {}
                there.test(&mut receiving)?.map_or(Ok(()), |status| {
                    assert_eq!(status.bytes, 60);
                    Ok(())
                })
            })
            .unwrap();
        assert_eq!(buffer[..], data[..]);
    }
    assert!(!one.send_buffer().is_flushed().unwrap());
    assert_eq!(one.send_buffer().of(&ours).detach().unwrap().len(), 100);
    assert_eq!(one.send_buffer().of(&ours).detach().unwrap().len(), 0, "once");
    for len in [60, 60, 60, 20] {
        other
            .scope(|there| {
                let receiving = there.irecv(&their_world, &mut buffer, Rank(0), Tag(1))?;
                while one.poll(64) + there.poll(64) > 0 {}
                assert_eq!(there.wait(receiving)?.bytes, len);
                Ok(())
            })
            .unwrap();
    }
    one.send_buffer().flush().unwrap();
    assert!(one.send_buffer().is_flushed().unwrap());
    let detached = one.send_buffer().detach().unwrap();
    assert_eq!(detached.len(), 200);
    one.send_buffer().of(&ours).attach(detached).unwrap();
    one.bsend(&ours, &[1_u8; 200], Rank(1), Tag(2)).unwrap();
    let leaving = one.leave(soon).unwrap_err();
    assert_eq!(leaving.cause, Cause::TimedOut, "a rank that leaves waits for what is in it");
}

#[test]
fn a_freed_communicator_has_no_memory() {
    let (mut memory, mut more) = ([0_u8; 16], [0_u8; 16]);
    let mut job = Job::new(2, Shape::default());
    let mut ranks = job.ranks();
    let one = &mut ranks[0];
    let ours = copy(one);
    one.send_buffer().of(&ours).attach(&mut memory).unwrap();
    one.discard(&ours).unwrap();
    assert_eq!(one.send_buffer().of(&ours).attach(&mut more).unwrap_err().cause, Cause::Stale);
    assert_eq!(one.send_buffer().of(&ours).detach().unwrap_err().cause, Cause::Stale);
    assert_eq!(one.send_buffer().of(&ours).flush().unwrap_err().cause, Cause::Stale);
    assert_eq!(one.send_buffer().of(&ours).is_flushed().unwrap_err().cause, Cause::Stale);
    let next = one.install(2, 2, &Members::<Empty<PeerId>>::Of(one.world())).unwrap();
    let full = one.bsend(&next, &[1_u8], Rank(1), Tag(0)).unwrap_err();
    assert_eq!(full.cause, Cause::Full(Resource::SendBuffer));
}

/// The wire is full when the third is sent and empty when the fourth is, which so is over before
/// its call is.
#[test]
fn one_that_is_over_at_once_keeps_no_request() {
    let mut memory = [0_u8; 64];
    let mut job = Job::new(2, Shape { depth: 2, ..Shape::default() });
    let queue = job.queue(0, 1);
    let mut ranks = job.ranks();
    let one = &mut ranks[0];
    let world = one.world();
    one.send_buffer().attach(&mut memory).unwrap();
    for number in 0..3_u8 {
        one.bsend(&world, &[number; 8], Rank(1), Tag(1)).unwrap();
    }
    assert_eq!(one.diagnostics().requests_in_use(), 1, "the third waits");
    queue.borrow_mut().clear();
    one.bsend(&world, &[3_u8; 8], Rank(1), Tag(1)).unwrap();
    assert_eq!((queue.borrow().len(), one.diagnostics().requests_in_use()), (2, 0));
    assert!(one.send_buffer().is_flushed().unwrap());
}

/// Receives a message with a tag of the other's, whatever is in front of it.
fn receive(one: &mut rig::Rank<'_>, other: &mut rig::Rank<'_>, tag: Tag) -> Vec<u8> {
    let world = other.world();
    let mut buffer = [0_u8; 100];
    let status = other.scope(|there| {
        let mut receiving = there.irecv(&world, &mut buffer, Rank(0), tag)?;
        loop {
            one.poll(64);
            if let Some(status) = there.test(&mut receiving)? {
                return Ok(status);
            }
        }
    });
    buffer[..status.unwrap().bytes as usize].to_vec()
}

/// Neither what is sent nor what is received costs more the more there is; the receiver that drains
/// it chooses the order.
#[test]
fn ten_thousand_messages_at_a_time_cost_each_the_same() {
    const MESSAGES: u32 = 10_000;
    let mut memory = vec![0; MESSAGES as usize * 100];
    aldis_kernel::storage! {
        static ONE: peers = 2, requests = 1 << 14, communicators = 3, envelopes = 4, blocks = 2, block_bytes = 64,
            pooled = 2, bins = 4
    }
    aldis_kernel::storage! {
        static OTHER: peers = 2, requests = 1 << 14, communicators = 3, envelopes = 4, blocks = 2, block_bytes = 64,
            pooled = 2, bins = 4
    }
    let mut job = Job::of([ONE.take(), OTHER.take()].map(Option::unwrap), Shape::default());
    let mut ranks = job.ranks();
    let [one, other] = &mut ranks[..] else { panic!("two ranks are needed") };
    let world = one.world();
    one.send_buffer().attach(&mut memory).unwrap();
    let mut steps = 0;
    for round in [0, 1] {
        for number in 0..MESSAGES {
            one.bsend(&world, &pattern(number, 100), Rank(1), Tag(number)).unwrap();
        }
        assert!(one.diagnostics().requests_in_use() > MESSAGES - 100, "those wait for their receives");
        // Those that are under way stay so in the order of sending; the others as they are asked
        // for.
        for number in (0..MESSAGES).map(|turn| turn * 7919 % MESSAGES).take(100) {
            assert_eq!(receive(one, other, Tag(number)), pattern(number, 100));
        }
        let rest = (0..MESSAGES).filter(|number| !(0..100).any(|turn| turn * 7919 % MESSAGES == *number));
        for number in rest {
            assert_eq!(receive(one, other, Tag(number)), pattern(number, 100));
        }
        one.send_buffer().flush().unwrap();
        let looked_at = one.counters().buffer_steps - steps;
        assert!(looked_at <= u64::from(MESSAGES) * 2, "{looked_at} steps in round {round}");
        steps += looked_at;
    }
    assert_eq!(one.send_buffer().detach().unwrap().len(), MESSAGES as usize * 100);
}

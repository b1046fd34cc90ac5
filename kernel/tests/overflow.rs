//! More messages than envelopes: what a receive waits for reaches it past those that no receive
//! waits for.

use aldis_kernel::hal::{Cause, Operation};
use aldis_kernel::{Comm, Error, Rank, Source, Tag, TagMatch};
use aldis_kit::rig::{self, Job, REQUESTS, Shape, pattern, settle, together};
use aldis_protocols::header::{Header, Kind};

fn worlds(ranks: &[rig::Rank<'_>]) -> Vec<Comm> {
    ranks.iter().map(|rank| rank.world()).collect()
}

/// Ten times the envelopes are outstanding with one tag; a receive of another tag gets the one
/// message that has it, which its sender still holds back. Then all others follow in order.
#[test]
fn a_message_behind_a_full_receiver_is_matched_at_its_sender() {
    let mut job = Job::new(2, Shape::default());
    let mut ranks = job.ranks();
    let worlds = worlds(&ranks);
    let data: Vec<_> = (0..REQUESTS as u32 - 1).map(|index| pattern(index, 40 * index as usize)).collect();
    let (wanted, last) = (pattern(99, 300), data.len() - 1);
    let mut buffers: Vec<_> = data.iter().map(|data| vec![0; data.len()]).collect();
    let (mut buffer, mut late) = ([0u8; 300], [0u8; 8]);
    together(&mut ranks, |one, other| {
        let mut sending = Vec::new();
        for data in &data {
            sending.push(one.isend(&worlds[0], data, Rank(1), Tag(1))?);
        }
        settle(one, other);
        let late_receiving = other.irecv(&worlds[1], &mut late, Rank(0), Tag(3))?;
        settle(one, other);
        let receiving = other.irecv(&worlds[1], &mut buffer, Source::Any, Tag(2))?;
        settle(one, other);
        let wanted = one.isend(&worlds[0], &wanted, Rank(1), Tag(2))?;
        settle(one, other);
        let status = other.wait(receiving)?;
        assert_eq!((status.source, status.tag, status.bytes), (Rank(0), Tag(2), 300));
        one.wait(wanted)?;
        for (index, buffer) in buffers.iter_mut().enumerate() {
            let receiving = other.irecv(&worlds[1], buffer, Rank(0), TagMatch::Any)?;
            settle(one, other);
            assert_eq!(other.wait(receiving)?.bytes, 40 * index as u64);
        }
        one.wait_all(&mut sending)?;
        let sending = one.isend(&worlds[0], &[7u8; 8], Rank(1), Tag(3))?;
        settle(one, other);
        other.wait(late_receiving)?;
        one.wait(sending)?;
        Ok(())
    })
    .unwrap();
    assert_eq!((&buffer[..], late), (&wanted[..], [7; 8]));
    assert!(buffers == data, "the last of {last} too");
    assert_eq!(ranks[0].counters().overflows, 1, "everything else found its envelope");
}

/// Receives are posted for all messages, and the receiver looks when their sender has run out of
/// credit: what new credits carry is sent before an answer, for which all others would be looked
/// through in vain.
#[test]
fn what_credits_carry_goes_before_answers() {
    const MESSAGES: usize = REQUESTS - 1;
    let mut job = Job::new(2, Shape { depth: 64, ..Shape::default() });
    let wire = job.queue(0, 1);
    let mut ranks = job.ranks();
    let worlds = worlds(&ranks);
    let (mut buffers, mut nothings) = ([[0u8; 8]; MESSAGES], 0);
    together(&mut ranks, |one, other| {
        let (mut receiving, mut sending) = (Vec::new(), Vec::new());
        for (tag, buffer) in (0..).map(Tag).zip(&mut buffers) {
            receiving.push(other.irecv(&worlds[1], buffer, Rank(0), tag)?);
        }
        for tag in (0..MESSAGES as u32).map(Tag) {
            sending.push(one.isend(&worlds[0], &[7u8; 8], Rank(1), tag)?);
        }
        // The receiver looks at few at a time: it asks while there are others on the wire.
        loop {
            let heard = other.poll(2) + other.poll(2);
            let before = wire.borrow().len();
            let sent = one.poll(64);
            let said: Vec<_> = wire.borrow().iter().skip(before).map(|message| is_nothing(message)).collect();
            nothings += said.iter().filter(|is_nothing| **is_nothing).count();
            assert!(said.is_sorted(), "an answer went before a message that had credit");
            if heard + sent == 0 {
                return Ok(());
            }
        }
    })
    .unwrap();
    assert_eq!(buffers, [[7; 8]; MESSAGES]);
    assert!(nothings > 0, "nothing was asked");
}

fn is_nothing(message: &[u8]) -> bool {
    Header::parse(message).is_ok_and(|(header, _)| header.kind == Kind::Nothing)
}

/// The next receive to ask about is found from the one before it, wherever a loop's requests come
/// to lie, and if there are several with one tag.
#[test]
fn questions_about_many_receives_take_few_looks_each() {
    const MESSAGES: usize = 3000;
    aldis_kernel::storage! {
        static ONE: peers = 2, requests = 1 << 13, communicators = 3, envelopes = 4, blocks = 2, block_bytes = 64,
            pooled = 2, bins = 1 << 12
    }
    aldis_kernel::storage! {
        static OTHER: peers = 2, requests = 1 << 13, communicators = 3, envelopes = 4, blocks = 2, block_bytes = 64,
            pooled = 2, bins = 1 << 12
    }
    let mut job =
        Job::of([ONE.take(), OTHER.take()].map(Option::unwrap), Shape { depth: 64, ..Shape::default() });
    let mut ranks = job.ranks();
    let worlds = worlds(&ranks);
    let tags = || (0..MESSAGES as u32).map(|number| Tag(number % 1000));
    let mut steps = 0;
    // The slots of the second round are those of the first from the last one on; in the third, the
    // receiver's own sends lie in between.
    for round in 0..4 {
        let (mut buffers, mut back) = (vec![[0u8; 8]; MESSAGES], vec![[0u8; 8]; MESSAGES]);
        together(&mut ranks, |one, other| {
            let (mut receiving, mut sending) = (Vec::new(), Vec::new());
            let mut returns = back.iter_mut();
            for (tag, buffer) in tags().zip(&mut buffers) {
                receiving.push(other.irecv(&worlds[1], buffer, Rank(0), tag)?);
                if round > 1 {
                    receiving.push(other.isend(&worlds[1], &[8u8; 8], Rank(0), tag)?);
                }
            }
            for tag in tags() {
                sending.push(one.isend(&worlds[0], &[7u8; 8], Rank(1), tag)?);
            }
            // The receiver looks at few at a time: it asks while there are others on the wire.
            while other.poll(2) + other.poll(2) + one.poll(64) > 0 {}
            for tag in tags().filter(|_| round > 1) {
                let buffer = returns.next().expect("there are as many");
                let receive = one.irecv(&worlds[0], buffer, Rank(1), tag)?;
                settle(one, other);
                one.wait(receive)?;
            }
            one.wait_all(&mut sending)?;
            other.wait_all(&mut receiving)
        })
        .unwrap();
        assert!(buffers.iter().all(|buffer| *buffer == [7; 8]));
        let looked_at = ranks[1].counters().seek_steps - steps;
        assert!(looked_at <= MESSAGES as u64 * 8, "{looked_at} steps in round {round}");
        steps += looked_at;
    }
    assert!(steps > 0, "nothing was asked");
}

#[test]
fn a_probe_finds_what_its_sender_holds_back() {
    let mut job = Job::new(2, Shape::default());
    let mut ranks = job.ranks();
    let worlds = worlds(&ranks);
    let [first, second] = &mut ranks[..] else { unreachable!() };
    let (world, mut buffer) = (worlds[1], [0u8; 8]);
    first
        .scope(|one| {
            let mut sending = Vec::new();
            for _ in 0..6 {
                sending.push(one.isend(&worlds[0], &[1u8; 8], Rank(1), Tag(1))?);
            }
            sending.push(one.isend(&worlds[0], &[2u8; 8], Rank(1), Tag(2))?);
            while one.poll(64) + second.poll(64) > 0 {}
            assert_eq!(second.iprobe(&world, Source::Any, Tag(3))?, None);
            assert_eq!(second.iprobe(&world, Source::Any, Tag(2))?, None, "it has not been answered yet");
            while one.poll(64) + second.poll(64) > 0 {}
            for _ in 0..2 {
                let status = second.iprobe(&world, Source::Any, Tag(2))?.expect("it is held back");
                assert_eq!((status.source, status.tag, status.bytes), (Rank(0), Tag(2), 8));
            }
            second.scope(|other| {
                let receiving = other.irecv(&world, &mut buffer, Rank(0), Tag(2))?;
                while one.poll(64) + other.poll(64) > 0 {}
                other.wait(receiving)
            })?;
            for _ in 0..2 {
                assert_eq!(second.iprobe(&world, Source::Any, Tag(2))?, None, "it has been received");
                while one.poll(64) + second.poll(64) > 0 {}
            }
            let mut rest = [[0u8; 8]; 6];
            second.scope(|other| {
                for rest in &mut rest {
                    let _receiving = other.irecv(&world, rest, Rank(0), Tag(1))?;
                }
                while one.poll(64) + other.poll(64) > 0 {}
                Ok(())
            })
        })
        .unwrap();
    assert_eq!(buffer, [2; 8]);
}

/// A send that is given up while it is offered keeps its slot, and not its memory, until the
/// receiver has answered.
#[test]
fn an_offered_send_can_be_given_up() {
    let mut job = Job::new(2, Shape::default());
    let mut ranks = job.ranks();
    let worlds = worlds(&ranks);
    let [first, second] = &mut ranks[..] else { unreachable!() };
    let mut buffer = [0u8; 8];
    let withdrawn = second.scope(|other| {
        let mut receiving = None;
        let given_up = first.scope(|one| {
            for _ in 0..4 {
                let _sending = one.isend(&worlds[0], &[1u8; 8], Rank(1), Tag(1))?;
            }
            let mut wanted = one.isend(&worlds[0], &[2u8; 8], Rank(1), Tag(2))?;
            settle(one, other);
            receiving = Some(other.irecv(&worlds[1], &mut buffer, Rank(0), Tag(2))?);
            // The question is sent, the offer comes back, and is not yet looked at.
            other.poll(64);
            one.poll(64);
            assert!(!one.cancel(&mut wanted), "it may have been taken already");
            Err::<(), _>(Error::new(Operation::None, Cause::Cancelled))
        });
        assert_eq!(given_up.unwrap_err().cause, Cause::Cancelled);
        while first.poll(64) + other.poll(64) > 0 {}
        Ok(other.wait(receiving.unwrap()))
    });
    assert_eq!(withdrawn.unwrap().unwrap_err().cause, Cause::Withdrawn);
}

//! Receives of any source when no peer is left on their communicator that could send.

use core::time::Duration;

use aldis_kernel::hal::{Cause, PeerId};
use aldis_kernel::plane::prelude::*;
use aldis_kernel::{Comm, Members, Rank, Source, Tag, TagMatch};
use aldis_kit::rig::{self, Job, Shape};

/// The communicator of ranks 1 and 0, in this order, in slot 2.
fn pair(rank: &mut rig::Rank<'_>) -> Comm {
    rank.install(2, 1, &Members::These([PeerId(1), PeerId(0)].into_iter())).unwrap()
}

#[test]
fn only_the_communicators_of_those_who_are_gone_are_deserted() {
    let mut job = Job::new(3, Shape::default());
    let mut ranks = job.ranks();
    let [one, other, third] = &mut ranks[..] else { panic!("three ranks are needed") };
    let (pair, world, itself, theirs) = (pair(one), one.world(), one.itself(), third.world());
    let mut buffers = [[0_u8; 4]; 3];
    let [on_pair, on_world, on_self] = &mut buffers;
    one.scope(|scope| {
        let on_pair = scope.irecv(&pair, on_pair, Source::Any, Tag(1))?;
        let mut on_world = scope.irecv(&world, on_world, Source::Any, Tag(1))?;
        let mut on_self = scope.irecv(&itself, on_self, Source::Any, TagMatch::Any)?;
        other.leave(Duration::from_millis(1))?;
        while scope.poll(64) > 0 {}
        let error = scope.wait(on_pair).unwrap_err();
        // It is rank 0 of the pair.
        assert_eq!((error.cause, error.peer(), error.tag()), (Cause::PeerLeft, Some(Rank(0)), Some(Tag(1))));
        assert_eq!((scope.test(&mut on_world)?, scope.test(&mut on_self)?), (None, None));
        third.send(&theirs, &[3_u8; 4], Rank(0), Tag(1))?;
        assert_eq!(scope.wait(on_world)?.source, Rank(2));
        scope.cancel(&mut on_self);
        Ok(())
    })
    .unwrap();
    let mut buffer = [0_u8; 4];
    let refused = one.recv(&pair, &mut buffer, Source::Any, Tag(1)).unwrap_err();
    assert_eq!(refused.cause, Cause::PeerLeft);
    assert_eq!(one.probe(&pair, Source::Any, Tag(1)).unwrap_err().cause, Cause::PeerLeft);
    assert_eq!(one.iprobe(&world, Source::Any, Tag(1)), Ok(None));
    // By its name it can still talk to itself there.
    one.send(&pair, &[9_u8; 4], Rank(1), Tag(1)).unwrap();
    one.recv(&pair, &mut buffer, Rank(1), Tag(1)).unwrap();
    assert_eq!(buffer, [9; 4]);
}

#[test]
fn what_has_arrived_is_received_from_those_who_are_gone() {
    let mut job = Job::new(2, Shape::default());
    let mut ranks = job.ranks();
    let [one, other] = &mut ranks[..] else { panic!("two ranks are needed") };
    let (ours, theirs) = (pair(one), pair(other));
    other.send(&theirs, &[5_u8; 4], Rank(1), Tag(1)).unwrap();
    other.leave(Duration::from_millis(1)).unwrap();
    while one.poll(64) > 0 {}
    let mut buffer = [0_u8; 4];
    one.recv(&ours, &mut buffer, Source::Any, TagMatch::Any).unwrap();
    assert_eq!(buffer, [5; 4]);
    let error = one.recv(&ours, &mut buffer, Source::Any, TagMatch::Any).unwrap_err();
    assert_eq!(error.cause, Cause::PeerLeft);
}

/// The loss is reported before what this rank has sent to itself arrives.
#[test]
fn what_a_rank_has_sent_to_itself_keeps_a_receive_of_any_source_alive() {
    for (tag, is_for_it) in [(Tag(1), true), (Tag(2), false)] {
        let mut job = Job::new(2, Shape::default());
        let dead = job.dead.clone();
        let mut ranks = job.ranks();
        let pair = pair(&mut ranks[0]);
        let (mut buffer, mut again) = ([0_u8; 4], [0_u8; 4]);
        ranks[0]
            .scope(|scope| {
                let receiving = scope.irecv(&pair, &mut buffer, Source::Any, Tag(1))?;
                let sending = scope.isend(&pair, &[8_u8; 4], Rank(1), tag)?;
                scope.wait(sending)?;
                dead.set(Some(1));
                match scope.wait(receiving) {
                    Ok(status) => assert!(is_for_it && status.source == Rank(1)),
                    Err(error) => {
                        assert_eq!((error.cause, error.peer()), (Cause::PeerDead, Some(Rank(0))));
                        assert!(!is_for_it);
                    }
                }
                if !is_for_it {
                    scope.irecv(&pair, &mut again, Source::Any, tag).map(|request| scope.wait(request))??;
                }
                Ok(())
            })
            .unwrap();
        assert_eq!(if is_for_it { buffer } else { again }, [8; 4]);
        assert_eq!(ranks[0].recv(&pair, &mut buffer, Source::Any, tag).unwrap_err().cause, Cause::PeerDead);
        assert_eq!(ranks[0].diagnostics().queue_depths(), (0, 0));
    }
}

#[test]
fn a_peer_that_comes_back_can_be_waited_for() {
    let mut job = Job::new(2, Shape::default());
    let dead = job.dead.clone();
    let mut ranks = job.ranks();
    let [one, other] = &mut ranks[..] else { panic!("two ranks are needed") };
    let world = one.world();
    dead.set(Some(1));
    let mut buffer = [0_u8; 4];
    let error = one.recv(&world, &mut buffer, Source::Any, Tag(1)).unwrap_err();
    assert_eq!(error.cause, Cause::PeerDead);
    let cards = (one.card(), other.card());
    one.connect(&cards.1).unwrap();
    other.connect(&cards.0).unwrap();
    let theirs = other.world();
    other.send(&theirs, &[4_u8; 4], Rank(0), Tag(1)).unwrap();
    one.recv(&world, &mut buffer, Source::Any, Tag(1)).unwrap();
    assert_eq!(buffer, [4; 4]);
}

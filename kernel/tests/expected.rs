//! The peers that the kernel tells its transport it waits for: a transport of connections makes one
//! to each, so nobody else may be among them, and nobody may be missing.
#![cfg(target_pointer_width = "64")]

use core::time::Duration;

use aldis_kernel::hal::Cause;
use aldis_kernel::{Rank, Source, Tag, TagMatch};
use aldis_kit::rig::{Job, Shape};

/// Polls of a caller that only looks, until every peer must have been told of.
const POLLS: u32 = 2 * 4096;

#[test]
fn a_wait_for_several_named_peers_is_for_them_alone() {
    let mut job = Job::new(3, Shape::default());
    let mut ranks = job.ranks();
    let world = ranks[0].world();
    let [one, other] = &mut [[0_u8; 8]; 2];
    let late = ranks[0].within(Duration::from_millis(20)).scope(|scope| {
        let mut requests = [one, other].map(|buffer| scope.irecv(&world, buffer, Rank(2), Tag(1)).unwrap());
        scope.wait_all(&mut requests).map(drop)
    });
    assert_eq!(late.unwrap_err().cause, Cause::TimedOut);
    assert_eq!(ranks[0].transport().expected(), [2]);
}

#[test]
fn a_wait_for_any_source_among_others_is_for_all() {
    let mut job = Job::new(3, Shape::default());
    let mut ranks = job.ranks();
    let world = ranks[0].world();
    let [one, other] = &mut [[0_u8; 8]; 2];
    let late = ranks[0].within(Duration::from_millis(20)).scope(|scope| {
        let named = scope.irecv(&world, one, Rank(2), Tag(1))?;
        let any = scope.irecv(&world, other, Source::Any, Tag(1))?;
        scope.wait_any(&mut [named, any]).map(drop)
    });
    assert_eq!(late.unwrap_err().cause, Cause::TimedOut);
    assert_eq!(ranks[0].transport().expected(), [0, 1, 2]);
}

#[test]
fn who_tests_a_receive_of_any_source_or_probes_for_one_comes_to_wait_for_all() {
    let mut job = Job::new(3, Shape::default());
    let mut ranks = job.ranks();
    let world = ranks[0].world();
    let buffer = &mut [0_u8; 8];
    ranks[0]
        .scope(|scope| {
            let mut request = scope.irecv(&world, buffer, Source::Any, Tag(1))?;
            for _ in 0..POLLS {
                assert!(scope.test(&mut request)?.is_none());
            }
            assert!(scope.cancel(&mut request));
            Ok(())
        })
        .unwrap();
    assert_eq!(ranks[0].transport().expected(), [0, 1, 2]);
    for _ in 0..POLLS {
        assert!(ranks[1].iprobe(&world, Rank(0), Tag(1)).unwrap().is_none());
    }
    assert_eq!(ranks[1].transport().expected(), [0]);
    for _ in 0..POLLS {
        assert!(ranks[1].iprobe(&world, Source::Any, TagMatch::Any).unwrap().is_none());
    }
    assert_eq!(ranks[1].transport().expected(), [0, 1, 2]);
}

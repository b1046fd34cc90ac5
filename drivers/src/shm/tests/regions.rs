//! Regions that are not what they should be, and the arithmetic of geometries.

use core::ptr::NonNull;

use aldis_hal::{Cause, Cost, Epoch, PeerId, Resource};
use std::vec::Vec;

use super::{InboxesJob, SMALL, formats_zeros_alike, identity, lanes, memory, region};
use crate::shm::geometry::place_of;
use crate::shm::{Geometry, Identity, Shm, format, inspect};

#[test]
fn a_formatted_inbox_tells_what_it_is() {
    let inbox = memory(SMALL.inbox_bytes());
    format(&region(inbox), SMALL, identity(1)).unwrap();
    assert_eq!(inspect(&region(inbox)), Ok((SMALL, identity(1))));
}

#[test]
fn a_foreign_or_truncated_region_is_refused() {
    let inbox = memory(SMALL.inbox_bytes());
    assert_eq!(inspect(&region(inbox)), Err(Cause::BadRegion), "arbitrary bytes");
    format(&region(inbox), SMALL, identity(1)).unwrap();
    let (start, len) = (inbox.cast::<u8>(), inbox.len());
    let part = NonNull::slice_from_raw_parts;
    for short in [0, 1, 63, 64, len - 1] {
        assert_eq!(inspect(&region(part(start, short))), Err(Cause::BadRegion), "{short} of {len} bytes");
    }
    let skewed = part(start.map_addr(|address| address.saturating_add(4)), len - 4);
    assert_eq!(inspect(&region(skewed)), Err(Cause::BadRegion), "not on a line");
    assert_eq!(format(&region(skewed), SMALL, identity(1)), Err(Cause::BadRegion));
    assert_eq!(format(&region(part(start, len - 1)), SMALL, identity(1)), Err(Cause::BadRegion));
}

#[test]
fn no_single_bit_of_the_header_can_be_wrong_unseen() {
    let world = InboxesJob::apart(SMALL, 0);
    for word in 0..16 {
        for bit in 0..32 {
            let old = world.word(0, word * 4);
            world.set_word(0, word * 4, old ^ (1 << bit));
            let got = inspect(&region(world.inboxes[0]));
            world.set_word(0, word * 4, old);
            match word {
                1 => assert_eq!(got, Err(Cause::Incompatible), "version"),
                8 | 9 | 11 => {
                    assert!(got.is_ok_and(|got| got != (SMALL, identity(0))), "job, epoch: compared")
                }
                10 if bit == 0 => {
                    assert!(got.is_ok_and(|got| got != (SMALL, identity(0))), "owner: compared")
                }
                12 => assert!(got.is_ok(), "any first position is right"),
                14 => assert!(got.is_ok(), "ranks that sleep now"),
                15 => assert!(got.is_ok(), "the owner sleeps now, and waits for a rank"),
                _ => assert_eq!(got, Err(Cause::BadRegion), "word {word} bit {bit}"),
            }
        }
    }
}

#[test]
fn only_the_expected_peer_is_attached() {
    let mut world = InboxesJob::apart(SMALL, 0);
    let good = identity(1);
    for wrong in [
        Identity { job: 7, ..good },
        Identity { owner: PeerId(0), ..good },
        Identity { epoch: Epoch(9), ..good },
    ] {
        let inbox = region(world.inboxes[1]);
        assert_eq!(world.ranks[0].attach(PeerId(1), inbox, wrong), Err(Cause::BadRegion));
    }
    let own = region(world.inboxes[0]);
    assert_eq!(world.ranks[0].attach(PeerId(0), own, identity(0)), Err(Cause::Unreachable));
    world.attach(0, 1).unwrap();
    assert_eq!(world.attach(0, 1), Err(Cause::Stale), "twice");
}

#[test]
fn another_geometry_or_job_is_not_attached() {
    let mut world = InboxesJob::apart(SMALL, 0);
    let other = memory(8192);
    let wide = Geometry { slots: 8, ..SMALL };
    format(&region(other), wide, identity(1)).unwrap();
    assert_eq!(world.ranks[0].attach(PeerId(1), region(other), identity(1)), Err(Cause::Incompatible));
    let stranger = Identity { job: 7, ..identity(1) };
    format(&region(other), SMALL, stranger).unwrap();
    assert_eq!(world.ranks[0].attach(PeerId(1), region(other), stranger), Err(Cause::BadRegion));
}

#[test]
fn a_transport_needs_its_own_inbox_and_enough_lanes() {
    let inbox = memory(SMALL.inbox_bytes());
    format(&region(inbox), SMALL, identity(1)).unwrap();
    let make = |who, count| Shm::new(who, region(inbox), lanes(count), Cost::default()).err();
    assert_eq!(make(identity(0), 6), Some(Cause::BadRegion));
    let small = Cause::TooSmall { what: Resource::Peers, need: 6, have: 5 };
    assert_eq!(make(identity(1), 5), Some(small));
    assert_eq!(make(identity(1), 7), None);
}

#[test]
fn an_inbox_in_fresh_memory_is_like_one_that_was_cleared() {
    let shared = Geometry { peers: 40, sets: 6, ..SMALL };
    for geometry in [SMALL, Geometry { peers: 3, ..shared }, shared] {
        assert!(formats_zeros_alike(geometry), "{geometry:?}");
    }
}

#[test]
fn format_refuses_owners_and_epochs_that_cannot_be() {
    let inbox = region(memory(SMALL.inbox_bytes()));
    let beyond = Cause::RankOutOfRange { rank: 2, size: 2 };
    assert_eq!(format(&inbox, SMALL, identity(2)), Err(beyond));
    let unborn = Identity { epoch: Epoch(0), ..identity(0) };
    assert_eq!(format(&inbox, SMALL, unborn), Err(Cause::Incompatible));
}

#[test]
fn geometries_are_checked() {
    let huge = u32::MAX;
    assert_eq!(Geometry { peers: 0, ..SMALL }.check(), Err(Cause::Incompatible));
    assert_eq!(
        Geometry { peers: huge, ..SMALL }.check(),
        Err(Cause::TooBig { len: huge.into(), max: 1 << 16 })
    );
    assert_eq!(Geometry { slots: 1, ..SMALL }.check(), Err(Cause::Incompatible));
    assert_eq!(Geometry { slots: 12, ..SMALL }.check(), Err(Cause::Incompatible));
    assert_eq!(
        Geometry { slots: 1 << 16, ..SMALL }.check(),
        Err(Cause::TooBig { len: 1 << 16, max: 1 << 14 })
    );
    assert_eq!(Geometry { blocks: 0, ..SMALL }.check(), Err(Cause::Incompatible));
    assert_eq!(Geometry { blocks: 33, ..SMALL }.check(), Err(Cause::TooBig { len: 33, max: 32 }));
    assert_eq!(Geometry { block_bytes: 0, ..SMALL }.check(), Err(Cause::Incompatible));
    assert_eq!(Geometry { block_bytes: 100, ..SMALL }.check(), Err(Cause::Unaligned { need: 64 }));
    assert_eq!(Geometry { sets: 33, ..SMALL }.check(), Err(Cause::TooBig { len: 33, max: 32 }));
    let with = Geometry { sets: 2, ..SMALL }.inbox_bytes() - SMALL.inbox_bytes();
    assert_eq!(
        with,
        2 * (9 * 128 + 10 * 8320 + 512 + 8 * 128),
        "a set's records, bodies with two places, and chunks as large as blocks"
    );
    for (peers, block_bytes, chunks, chunk_bytes) in [
        (2, 32 << 10, 256, 8 << 10),
        (8, 32 << 10, 64, 32 << 10),
        (3, (8 << 10) + 64, 128, (8 << 10) + 64),
        (9, 32 << 10, 8, 32 << 10),
        (2, (8 << 10) - 64, 8, (8 << 10) - 64),
        (4, 1 << 25, 8, 1 << 25),
    ] {
        let geometry = Geometry { peers, block_bytes, sets: 1, ..SMALL };
        let without = Geometry { sets: 0, ..geometry };
        assert_eq!((geometry.chunks(3), geometry.chunk_bytes()), (chunks, chunk_bytes), "{geometry:?}");
        assert_eq!(geometry.chunks(4), 8, "more sets have fewer");
        let set = geometry.inbox_bytes() - without.inbox_bytes();
        assert_eq!(set, 9 * 128 + 10 * 8320 + 512 + chunks as usize * chunk_bytes as usize);
    }
    let max =
        Geometry { peers: 1 << 16, slots: 1 << 14, lanes: 32, blocks: 32, block_bytes: 1 << 25, sets: 0 };
    assert_eq!(max.check().is_ok(), usize::BITS == 64);
    let absurd = Geometry { peers: huge, slots: huge, lanes: 32, blocks: huge, block_bytes: huge, sets: 0 };
    assert_eq!(absurd.inbox_bytes(), usize::MAX, "saturates");
    assert_eq!(Geometry { peers: 1, ..SMALL }.inbox_bytes(), 128, "a job of one has a header");
    assert_eq!(SMALL.inbox_bytes(), 128 + (4 + 2) * 128 + 128 + 2 * 128);
    assert_eq!(Geometry { peers: 17, ..SMALL }.inbox_bytes(), 128 + 16 * (7 * 128 + 2 * 128));
    assert_eq!(
        Geometry { blocks: 1, block_bytes: 64, ..SMALL }.inbox_bytes(),
        128 + 8 * 128,
        "by pairs of lines"
    );
}

#[test]
fn every_sender_has_a_place_of_its_own() {
    for owner in 0..8 {
        let senders = (0..8).filter(|sender| *sender != owner);
        let places: Vec<_> = senders.map(|sender| place_of(PeerId(owner), PeerId(sender))).collect();
        assert_eq!(places, Vec::from_iter(0..7));
    }
}

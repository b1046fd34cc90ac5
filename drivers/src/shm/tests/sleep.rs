//! This module holds `unsafe` code: ranks that open sets. Sleepers, and who rings for them.

use core::sync::atomic::{AtomicU32, Ordering};
use std::boxed::Box;

use aldis_hal::shared_control::{Note, SharedControl};
use aldis_hal::{Instant, PeerId, Transport};

use super::{InboxesJob, ShmLog};
use crate::shm::Geometry;

const GEOMETRY: Geometry = Geometry { peers: 4, slots: 4, lanes: 32, blocks: 2, block_bytes: 128, sets: 2 };
const NOTE: Note = Note { operation: 1, root: 0, bytes: 4 };

fn ring(_: &AtomicU32) {}

/// A node whose ranks can wake each other, in two communicators: of all, and of ranks 2 and 3.
fn node() -> InboxesJob {
    let mut world = InboxesJob::new(GEOMETRY, 0);
    world.ranks = world.ranks.drain(..).map(|shm| shm.with_alarm(ring, Box::leak(Box::default()))).collect();
    for (rank, shm) in world.ranks.iter_mut().enumerate() {
        // SAFETY: opened once, on all ranks alike.
        unsafe { shm.open(0, 6, 0b1111) }.unwrap();
        assert_eq!(shm.begin(0), 0);
        if rank >= 2 {
            // SAFETY: as above.
            unsafe { shm.open(1, 8, 0b1100) }.unwrap();
            assert_eq!(shm.begin(1), 0);
        }
    }
    world
}

/// Returns true if rank 1 is woken by what another does, having looked for what it waits for.
fn wakes(world: &mut InboxesJob, wait: fn(&mut InboxesJob), act: fn(&mut InboxesJob)) -> bool {
    let words = world.ranks[1].sleep_words().unwrap();
    wait(world);
    words.forget();
    wait(world);
    let mut told = words.lie_down();
    wait(world);
    assert!(words.confirm(&mut told));
    act(world);
    let (word, asleep) = words.word(&told);
    let is_rung = word.load(Ordering::Relaxed) != asleep;
    assert_eq!(words.get_up(told), is_rung);
    is_rung
}

/// Looks for slots of rank 0 in the first set.
fn wait_for_0(world: &mut InboxesJob) {
    assert!(world.ranks[1].look(0, 0, PeerId(0)).unwrap().is_none());
}

fn wait_for_2_and_3(world: &mut InboxesJob) {
    for peer in [2, 3] {
        assert!(world.ranks[1].look(0, 0, PeerId(peer)).unwrap().is_none());
    }
}

fn wait_for_messages(world: &mut InboxesJob) {
    assert_eq!(world.ranks[1].poll(8, Instant(0), &mut ShmLog::default()), 0);
}

/// Publishes the slot of a rank, which then waits, or is done.
fn publish<const RANK: u32>(world: &mut InboxesJob) {
    let shm = &mut world.ranks[RANK as usize];
    assert_eq!(shm.publish(0, 0, NOTE, b"note"), Ok(true));
    if RANK == 2 { shm.finish(0, 0) } else { assert!(shm.look(0, 0, PeerId(1)).unwrap().is_none()) }
}

#[test]
fn a_sleeper_is_woken_by_the_ranks_whose_slots_it_waits_for() {
    assert!(wakes(&mut node(), wait_for_0, publish::<0>));
    assert!(!wakes(&mut node(), wait_for_0, publish::<2>));
    assert!(!wakes(&mut node(), wait_for_0, |world| world.ranks[3].finish(1, 0)));
    assert!(wakes(&mut node(), wait_for_2_and_3, publish::<2>));
    assert!(wakes(&mut node(), wait_for_2_and_3, publish::<3>));
}

#[test]
fn a_sleeper_that_waits_for_messages_is_woken_by_no_slot() {
    assert!(!wakes(&mut node(), wait_for_messages, publish::<0>));
    let send = |world: &mut InboxesJob| assert_eq!(world.short(3, 1, b"message"), aldis_hal::Post::Done);
    assert!(wakes(&mut node(), wait_for_messages, send));
    assert!(wakes(&mut node(), wait_for_0, send), "and one that waits for slots by any message");
}

/// A rank that leaves, or has finished with a slot or a chunk, is what a writer may wait for.
#[test]
fn a_sleeper_is_woken_by_what_gives_its_slots_back() {
    let wait = |world: &mut InboxesJob| {
        world.ranks[1].progress(0, PeerId(0)).unwrap();
    };
    let ahead = || {
        let mut world = node();
        world.ranks[1].finish(0, 0);
        world
    };
    assert!(wakes(&mut ahead(), wait, |world| world.ranks[0].finish(0, 0)));
    assert!(wakes(&mut ahead(), wait, |world| world.ranks[0].leave(0)));
    assert!(wakes(&mut ahead(), wait, |world| world.ranks[0].abandon()));
    assert!(!wakes(&mut ahead(), wait, |world| world.ranks[2].finish(0, 0)));
    let wait = |world: &mut InboxesJob| assert!(world.ranks[1].chunk(0, 0, PeerId(0)).unwrap().is_none());
    assert!(wakes(&mut node(), wait, |world| world.ranks[0].filled(0, 0)));
    assert!(wakes(&mut ahead(), wait, |world| world.ranks[0].done(0, 0)));
}

/// Others are told anew when something else is missing than they were told, and then of both.
#[test]
fn a_sleeper_tells_what_it_finds_missing_last() {
    let mut world = node();
    let words = world.ranks[1].sleep_words().unwrap();
    words.forget();
    wait_for_messages(&mut world);
    let mut told = words.lie_down();
    wait_for_0(&mut world);
    assert!(!words.confirm(&mut told));
    wait_for_0(&mut world);
    assert!(words.confirm(&mut told));
    wait_for_2_and_3(&mut world);
    assert!(!words.confirm(&mut told));
    publish::<3>(&mut world);
    assert!(words.get_up(told));
}

/// A rank has to know a way to wake others, and the place where sleepers are counted.
#[test]
fn a_rank_that_cannot_be_woken_has_no_words() {
    let mut world = InboxesJob::apart(GEOMETRY, 0);
    assert!(world.ranks[0].sleep_words().is_none());
    world.ranks = world.ranks.drain(..).map(|shm| shm.with_alarm(ring, Box::leak(Box::default()))).collect();
    assert!(world.ranks[0].sleep_words().is_some());
    assert!(world.ranks[1].sleep_words().is_none());
    world.attach(1, 2).unwrap();
    assert!(world.ranks[1].sleep_words().is_none());
    world.attach(1, 0).unwrap();
    assert!(world.ranks[1].sleep_words().is_some());
}

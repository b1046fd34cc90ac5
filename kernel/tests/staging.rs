//! Messages that are copied in staging memory: their sends are over before they are received.

use core::time::Duration;

use aldis_kernel::hal::Cause;
use aldis_kernel::{Comm, Rank as R, StagingSizes, Tag};
use aldis_kit::rig::{Job, Powers, Rank, Shape, pattern, settle, together};
use proptest::prelude::*;

const READING: Powers = Powers { reads: Some(300), regions: 8, ..Powers::NONE };

/// Two ranks with so many bytes of staging memory.
fn job(powers: Powers, bytes: usize) -> Job {
    let mut job = Job::new(2, Shape::default());
    (job.powers, job.staging) = (powers, vec![vec![0; bytes]; 2]);
    job
}

fn worlds(ranks: &[Rank<'_>]) -> Vec<Comm> {
    ranks.iter().map(|rank| rank.world()).collect()
}

#[test]
fn a_send_is_over_before_its_message_is_received() {
    for polls in [0, 3] {
        let mut job = job(Powers { polls, ..READING }, 16 * 1000);
        let table = job.table.clone();
        let mut ranks = job.ranks();
        let worlds = worlds(&ranks);
        let (mut data, mut buffer) = (pattern(1, 1000), vec![0; 1000]);
        // Nobody polls for the receiver.
        ranks[0].send(&worlds[0], &data, R(1), Tag(3)).unwrap();
        data.fill(0xEE);
        assert_eq!((ranks[0].counters().staged, table.borrow().live(0)), (1, 1));
        let status =
            ranks[1].within(Duration::from_millis(1)).recv(&worlds[1], &mut buffer, R(0), Tag(3)).unwrap();
        assert_eq!((status.bytes, &buffer), (1000, &pattern(1, 1000)));
        ranks[0].poll(64);
        assert_eq!((table.borrow().live(0), table.borrow().live(1)), (0, 0), "its room is free again");
        assert_eq!(ranks[1].counters().reads, 1);
    }
}

/// Messages that are longer than their share, shorter than what is announced, or synchronous.
#[test]
fn what_cannot_be_staged_goes_its_usual_way() {
    let mut job = job(READING, 16 * 1000);
    let mut ranks = job.ranks();
    let worlds = worlds(&ranks);
    let (long, short) = (pattern(1, 1001), pattern(2, 60));
    let mut buffers = [vec![0; 1001], vec![0; 60], vec![0; 1001]];
    together(&mut ranks, |one, other| {
        let sends = [
            one.isend(&worlds[0], &long, R(1), Tag(0))?,
            one.isend(&worlds[0], &short, R(1), Tag(1))?,
            one.issend(&worlds[0], &long[..900], R(1), Tag(2))?,
        ];
        settle(one, other);
        for (buffer, tag) in buffers.iter_mut().zip(0..) {
            let receiving = other.irecv(&worlds[1], buffer, R(0), Tag(tag))?;
            settle(one, other);
            other.wait(receiving)?;
        }
        sends.into_iter().try_for_each(|send| one.wait(send).map(drop))
    })
    .unwrap();
    assert_eq!(ranks[0].counters().staged, 0);
    assert_eq!((&buffers[0], &buffers[1], &buffers[2][..900]), (&long, &short, &long[..900]));
}

#[test]
fn explain_says_that_a_message_is_staged() {
    let mut job = job(READING, 16 * 1000);
    let mut ranks = job.ranks();
    let mut explained = |len| ranks[0].explain(R(1), len).unwrap().to_string();
    assert!(
        explained(1000).lines().any(|line| line.contains("staging memory: about") && line.ends_with("taken"))
    );
    let text = explained(1001);
    assert!(text.contains("protocol staging memory: at most 1000 bytes fit"), "{text}");
}

#[test]
fn memory_is_lent_once_and_to_the_endpoint() {
    let (mut one, mut other) = (vec![0; 100], vec![0; 100]);
    let mut job = job(READING, 0);
    let mut ranks = job.ranks();
    let (world, sizes) = (ranks[0].world(), StagingSizes { lap: 100, message_bytes_max: 100 });
    let refused = ranks[0].send_buffer().of(&world).lend_staging(&mut other, sizes);
    assert_eq!(refused.unwrap_err().cause, Cause::Unsupported);
    let mut third = vec![0; 100];
    ranks[0].send_buffer().lend_staging(&mut one, sizes).unwrap();
    assert_eq!(ranks[0].send_buffer().lend_staging(&mut third, sizes).unwrap_err().cause, Cause::Busy);
}

/// A peer that is lost holds nothing.
#[test]
fn the_room_of_a_lost_peer_is_free_again() {
    let mut job = job(READING, 16 * 1000);
    let (table, dead) = (job.table.clone(), job.dead.clone());
    let mut ranks = job.ranks();
    let worlds = worlds(&ranks);
    ranks[0].send(&worlds[0], &pattern(1, 1000), R(1), Tag(3)).unwrap();
    assert_eq!(table.borrow().live(0), 1);
    dead.set(Some(1));
    ranks[0].send(&worlds[0], &pattern(1, 10), R(1), Tag(3)).unwrap_err();
    (0..100).for_each(|_| _ = ranks[0].poll(64));
    assert_eq!(table.borrow().live(0), 0);
}

proptest! {
    /// Windows of messages of all lengths, in whatever order they are received, and with little
    /// room: each arrives as it was sent, in order, and nothing is left in the memory.
    #[test]
    fn every_message_arrives_as_it_was_sent(
        lens in proptest::collection::vec(0usize..400, 1..10), bytes in 0usize..8000, unexpected in any::<bool>(),
        regions in 0usize..6, polls in 0u32..3, reads in proptest::option::of(50u64..500),
    ) {
        let mut job = job(Powers { reads, regions, polls, ..Powers::NONE }, bytes);
        let table = job.table.clone();
        let mut ranks = job.ranks();
        let worlds = worlds(&ranks);
        let data: Vec<_> = lens.iter().zip(0..).map(|(len, seed)| pattern(seed, *len)).collect();
        let mut buffers: Vec<_> = lens.iter().map(|len| vec![0; *len]).collect();
        let bytes: Result<Vec<usize>, _> = together(&mut ranks, |one, other| {
            let mut sends = Vec::new();
            for data in &data {
                sends.push(one.isend(&worlds[0], data, R(1), Tag(1))?);
                if unexpected {
                    settle(one, other);
                }
            }
            let mut receives = Vec::new();
            for buffer in &mut buffers {
                receives.push(other.irecv(&worlds[1], buffer, R(0), Tag(1))?);
            }
            settle(one, other);
            sends.into_iter().try_for_each(|send| one.wait(send).map(drop))?;
            receives.into_iter().map(|receive| other.wait(receive).map(|status| status.bytes as usize)).collect()
        });
        prop_assert_eq!(bytes.unwrap(), lens);
        prop_assert_eq!(buffers, data);
        ranks[0].poll(64);
        ranks[1].poll(64);
        prop_assert_eq!([table.borrow().live(0), table.borrow().live(1)], [0, 0]);
    }
}

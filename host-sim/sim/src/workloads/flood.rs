//! More than there is room for: many to one, and all to all.

use aldis_kernel::hal::{Platform, Transport};
use aldis_kernel::{Endpoint, Rank, Source, Tag, TagMatch};

use super::{DueMessage, Outcome, Random, expect, fill, length, message};

const FLOOD: u32 = 30;
const ALL_TO_ALL: Tag = Tag(31);
/// Receives under way at a time; the storage has a slot for each and for as many sends.
const AT_ONCE: usize = 32;

/// All send to one rank, which receives from any source. From each the messages must come in
/// order.
pub(super) fn many_to_one<T: Transport, P: Platform>(ep: &mut Endpoint<'_, T, P>, seed: u64) -> Outcome {
    let world = ep.world();
    let (me, size) = (world.rank().0, world.size());
    let mut random = Random::new(seed, 22);
    let (root, count) = (random.below(u64::from(size)) as u32, random.within(1, 12));
    let plan: Vec<usize> = (0..count).map(|_| length(&mut random)).collect();
    // A tag of its own, for messages of the next flood may come early.
    let tag = FLOOD + ((seed & 0xFFFF) << 8) as u32;
    if me != root {
        for (number, len) in (seed..).zip(&plan) {
            ep.send(&world, &message(me, number, *len), Rank(root), Tag(tag))?;
        }
        return Ok(());
    }
    let mut taken = vec![0; size as usize];
    let mut buffer = vec![0_u8; 3000];
    for _ in 0..plan.len() * (size as usize - 1) {
        let status = ep.recv(&world, &mut buffer, Source::Any, Tag(tag))?;
        let number = &mut taken[status.source.0 as usize];
        let Some(len) = plan.get(*number) else {
            return Err(format!("rank {} has sent too often", status.source).into());
        };
        let (from, named) = (status.source.0, seed.wrapping_add(*number as u64));
        expect(&status, &buffer, DueMessage { from, tag, number: named, len: *len })?;
        *number += 1;
    }
    Ok(())
}

/// Every rank sends one message to every rank, itself included, so many at a time.
pub(super) fn all_to_all<T: Transport, P: Platform>(ep: &mut Endpoint<'_, T, P>, seed: u64) -> Outcome {
    let world = ep.world();
    let (me, size) = (world.rank().0, world.size());
    let len = length(&mut Random::new(seed, 23));
    let data = message(me, seed, len);
    let mut buffers = vec![vec![0_u8; len]; size as usize];
    // Distance by distance, so that the ranks do not all send to the same one first.
    let at = |distance: usize| Rank((me + distance as u32) % size);
    for (first, buffers) in (0..).step_by(AT_ONCE).zip(buffers.chunks_mut(AT_ONCE)) {
        let statuses = ep.scope(|scope| {
            let (mut receives, mut sends) = (Vec::new(), Vec::new());
            for (distance, buffer) in (first..).zip(buffers.iter_mut()) {
                let from = Rank((me + size - distance as u32) % size);
                receives.push(scope.irecv(&world, buffer, from, TagMatch::Tag(ALL_TO_ALL))?);
                sends.push(scope.isend(&world, &data, at(distance), ALL_TO_ALL)?);
            }
            scope.wait_all(&mut sends)?;
            receives.into_iter().map(|receive| scope.wait(receive)).collect::<Result<Vec<_>, _>>()
        })?;
        for (status, buffer) in statuses.iter().zip(buffers.iter()) {
            let (from, tag) = (status.source.0, ALL_TO_ALL.0);
            expect(status, buffer, DueMessage { from, tag, number: seed, len })?;
        }
    }
    let sources = (0..size).all(|from| {
        let mut due = vec![0; len];
        fill(&mut due, from, seed);
        buffers[((me + size - from) % size) as usize] == due
    });
    if sources { Ok(()) } else { Err("a message of another rank than was asked for".into()) }
}

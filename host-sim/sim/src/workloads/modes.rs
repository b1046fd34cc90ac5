//! Synchronous and ready sends, the null process as a partner, and requests that are taken as they
//! come.

use aldis_kernel::hal::{Platform, Transport};
use aldis_kernel::{Endpoint, Rank, Status, Tag};

use super::{DueMessage, Outcome, Random, expect, length, message};

/// Tags of a round: its messages, and the word that a receive is posted.
const MESSAGES: u32 = 40;
const GO: Tag = Tag(60);

#[derive(Clone, Copy, PartialEq, Eq)]
enum WorkloadMode {
    Standard,
    Synchronous,
    Ready,
}

/// In each round every rank sends a few messages to one `distance` ahead, or all but the last few
/// do, in one mode.
pub(super) fn run<T: Transport, P: Platform>(ep: &mut Endpoint<'_, T, P>, seed: u64) -> Outcome {
    let mut random = Random::new(seed, 27);
    for round in 0..random.within(1, 5) {
        let mode = *random.pick(&[WorkloadMode::Standard, WorkloadMode::Synchronous, WorkloadMode::Ready]);
        let (open, distance) = (random.chance(40), random.below(8) as u32);
        let lengths: Vec<usize> = (0..random.within(1, 6)).map(|_| length(&mut random)).collect();
        exchange(ep, &ModeRound { mode, open, distance, lengths, number: seed ^ round << 8 })?;
    }
    Ok(())
}

/// A round, as all ranks draw it.
struct ModeRound {
    mode: WorkloadMode,
    /// True for a chain, at whose ends stands the null process; false for a ring.
    open: bool,
    distance: u32,
    lengths: Vec<usize>,
    /// Of the first message.
    number: u64,
}

/// A chain or a ring of exchanges.
fn exchange<T: Transport, P: Platform>(ep: &mut Endpoint<'_, T, P>, round: &ModeRound) -> Outcome {
    let &ModeRound { mode, open, distance, ref lengths, number } = round;
    let world = ep.world();
    let (me, size) = (world.rank().0, world.size());
    let distance = distance % size;
    let to = if open && me + distance >= size { Rank::NULL } else { Rank((me + distance) % size) };
    let from = if open && me < distance { Rank::NULL } else { Rank((me + size - distance) % size) };
    let data: Vec<_> = (number..).zip(lengths).map(|(number, len)| message(me, number, *len)).collect();
    let mut buffers: Vec<_> = lengths.iter().map(|len| vec![0_u8; *len]).collect();
    let mut statuses: Vec<Option<Status>> = vec![None; lengths.len()];
    ep.scope(|scope| {
        let (mut sending, mut receiving) = (Vec::new(), Vec::new());
        for (tag, buffer) in (MESSAGES..).zip(&mut buffers) {
            receiving.push(scope.irecv(&world, buffer, from, Tag(tag))?);
        }
        let go = scope.isend(&world, &[] as &[u8], from, GO)?;
        let told = scope.irecv(&world, &mut [] as &mut [u8], to, GO)?;
        scope.wait(told)?;
        for (tag, data) in (MESSAGES..).zip(&data) {
            sending.push(match mode {
                WorkloadMode::Standard => scope.isend(&world, data, to, Tag(tag))?,
                WorkloadMode::Synchronous => scope.issend(&world, data, to, Tag(tag))?,
                WorkloadMode::Ready => scope.irsend(&world, data, to, Tag(tag))?,
            });
        }
        let mut failed = Ok(());
        while scope.wait_some(&mut receiving, |index, result| match result {
            Ok(status) => statuses[index] = Some(status),
            Err(error) => failed = Err(error),
        })? > 0
        {}
        failed?;
        scope.wait_all(&mut sending)?;
        scope.wait(go)?;
        Ok(())
    })?;
    for (index, (status, buffer)) in statuses.iter().zip(&buffers).enumerate() {
        let Some(status) = status else { return Err("a request that is neither over nor under way".into()) };
        if from == Rank::NULL {
            if (status.source, status.bytes) != (Rank::NULL, 0) || buffer.iter().any(|byte| *byte != 0) {
                return Err("something was received from the null rank".into());
            }
            continue;
        }
        let (tag, number) = (MESSAGES + index as u32, number + index as u64);
        expect(status, buffer, DueMessage { from: from.0, tag, number, len: lengths[index] })?;
    }
    Ok(())
}

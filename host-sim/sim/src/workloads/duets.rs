//! Every call that there is, between two ranks at a time. All ranks draw the same pairs and calls;
//! those that are not of a pair go on to the next, so that many pairs are at it at a time.

use aldis_kernel::hal::{Cause, Platform, Resource, Transport};
use aldis_kernel::plane::prelude::*;
use aldis_kernel::{Comm, Endpoint, Error, LentRange, Rank, Source, Tag};

use super::{DueMessage, Outcome, Random, expect, length, message};

/// Longest message with some to spare.
const BUFFER_BYTES: usize = 3200;
/// Messages of one call at most.
const MESSAGES_MAX: u64 = 5;
/// The most times that a rank looks for a message before it waits for it.
const LOOKS_MAX: u32 = 200;
/// Tags that one call may use.
const TAGS_A_CALL: u32 = 16;

/// The two ranks that play, and what they play with.
#[derive(Clone, Copy)]
pub(super) struct Duet {
    pub(super) world: Comm,
    /// The one that sends first, and the one that receives.
    pub(super) from: Rank,
    pub(super) to: Rank,
    /// The first of the call's tags; no other call of this run has it.
    pub(super) tag: u32,
    pub(super) number: u64,
}

impl Duet {
    pub(super) const fn tag(&self, of: u32) -> Tag {
        Tag(self.tag + of)
    }

    fn data(&self, of: u64, len: usize) -> Vec<u8> {
        message(self.from.0, self.number ^ of, len)
    }

    /// A message of `len` bytes under the call's first tag.
    const fn due(&self, number: u64, len: usize) -> DueMessage {
        DueMessage { from: self.from.0, tag: self.tag, number, len }
    }

    /// Draws the source that the receiver names.
    fn source(&self, random: &mut Random) -> Source {
        if random.chance(50) { Source::Any } else { Source::Rank(self.from) }
    }
}

/// Makes some calls.
pub(super) fn run<T: Transport, P: Platform>(ep: &mut Endpoint<'_, T, P>, seed: u64) -> Outcome {
    in_pairs(ep, seed, 28, |ep, duet, random| match random.below(7) {
        0 => probed(ep, duet, random),
        1 => pooled(ep, duet, random),
        2 => truncated(ep, duet, random),
        3 => backwards(ep, duet, random),
        4 => both_ways(ep, duet, random),
        5 => in_parts(ep, duet, random),
        _ => alone(ep, duet, random),
    })
}

/// Lets pairs of ranks play; each gets the same numbers on both ranks.
pub(super) fn in_pairs<T: Transport, P: Platform>(
    ep: &mut Endpoint<'_, T, P>,
    seed: u64,
    stream: u64,
    play: impl Fn(&mut Endpoint<'_, T, P>, Duet, &mut Random) -> Outcome,
) -> Outcome {
    let world = ep.world();
    let size = u64::from(world.size());
    let mut random = Random::new(seed, stream);
    let first = 1 << 30 | (seed as u32 & 0x7FFF) << 12;
    for call in 0..random.within(1, 2 * size).min(64) as u32 {
        let from = random.below(size) as u32;
        let to = (from + 1 + random.below(size - 1) as u32) % world.size();
        let number = random.draw();
        let duet = Duet { world, from: Rank(from), to: Rank(to), tag: first + call * TAGS_A_CALL, number };
        if from != to && [duet.from, duet.to].contains(&world.rank()) {
            play(ep, duet, &mut Random::new(number, 0))?;
        }
    }
    Ok(())
}

/// Messages that are looked at before they are received.
fn probed<T: Transport, P: Platform>(
    ep: &mut Endpoint<'_, T, P>,
    duet: Duet,
    random: &mut Random,
) -> Outcome {
    let (len, blocking, source) = (length(random), random.chance(50), duet.source(random));
    if duet.world.rank() == duet.from {
        ep.send(&duet.world, &duet.data(0, len), duet.to, duet.tag(0))?;
        return Ok(());
    }
    let mut found = None;
    for _ in 0..if blocking { 0 } else { LOOKS_MAX } {
        found = ep.iprobe(&duet.world, source, duet.tag(0))?;
        if found.is_some() {
            break;
        }
    }
    let found = found.map_or_else(|| ep.probe(&duet.world, source, duet.tag(0)), Ok)?;
    if (found.source, found.tag, found.bytes) != (duet.from, duet.tag(0), len as u64) {
        return Err(format!("a probe found {found:?}, and {len} bytes of rank {} were due", duet.from).into());
    }
    let mut buffer = vec![0; len];
    let status = ep.recv(&duet.world, &mut buffer, found.source, found.tag)?;
    expect(&status, &buffer, duet.due(duet.number, len))
}

/// Messages that the storage keeps until they are dropped.
fn pooled<T: Transport, P: Platform>(
    ep: &mut Endpoint<'_, T, P>,
    duet: Duet,
    random: &mut Random,
) -> Outcome {
    let block_bytes = ep.card().room.block_bytes as usize;
    let lens = [0, 1].map(|_| length(random).min(block_bytes));
    if duet.world.rank() == duet.from {
        for (of, len) in (0..).zip(lens) {
            ep.send(&duet.world, &duet.data(of, len), duet.to, duet.tag(0))?;
        }
        return Ok(());
    }
    // The first is held while the second comes.
    let mut held = Vec::new();
    for (of, len) in (0..).zip(lens) {
        let number = duet.number ^ of;
        match ep.recv_pooled(&duet.world, duet.source(random), duet.tag(0)) {
            Ok(message) => {
                expect(&message.status(), &message, duet.due(number, len))?;
                held.push((message, number, len));
            }
            Err(Error { cause: Cause::Full(Resource::PooledBlocks), .. }) => {
                let mut buffer = vec![0; len];
                let status = ep.recv(&duet.world, &mut buffer, duet.from, duet.tag(0))?;
                expect(&status, &buffer, duet.due(number, len))?;
            }
            Err(error) => return Err(error.into()),
        }
    }
    for (message, number, len) in held {
        expect(&message.status(), &message, duet.due(number, len))?;
    }
    Ok(())
}

/// Buffers that are too short, just long enough and too long.
fn truncated<T: Transport, P: Platform>(
    ep: &mut Endpoint<'_, T, P>,
    duet: Duet,
    random: &mut Random,
) -> Outcome {
    let (len, other) = (length(random), length(random));
    let room = *random.pick(&[0, len / 2, len.saturating_sub(1), len, len + 1, other]);
    if duet.world.rank() == duet.from {
        ep.send(&duet.world, &duet.data(0, len), duet.to, duet.tag(0))?;
        return Ok(());
    }
    let mut buffer = vec![0xA5; room];
    let result = ep.recv(&duet.world, &mut buffer, duet.source(random), duet.tag(0));
    let right = duet.data(0, len);
    match result {
        Ok(status) if len <= room => {
            if buffer[len..].iter().any(|byte| *byte != 0xA5) {
                return Err(format!("a message of {len} bytes has written more").into());
            }
            expect(&status, &buffer, duet.due(duet.number, len))
        }
        Err(Error { cause: Cause::Truncated { sent, room: has }, .. })
            if len > room && (sent, has) == (len as u64, room as u64) =>
        {
            if buffer == right[..room] {
                Ok(())
            } else {
                Err("the start of a message is wrong".into())
            }
        }
        Err(error) => Err(error.into()),
        Ok(status) => Err(format!("{len} bytes in a buffer of {room}: {status:?}").into()),
    }
}

/// Messages that are received in another order than they were sent in, the last tag first.
fn backwards<T: Transport, P: Platform>(
    ep: &mut Endpoint<'_, T, P>,
    duet: Duet,
    random: &mut Random,
) -> Outcome {
    let lens: Vec<usize> = (0..random.within(2, MESSAGES_MAX)).map(|_| length(random)).collect();
    let mut order: Vec<usize> = (0..lens.len()).rev().collect();
    if random.chance(50) {
        random.shuffle(&mut order);
    }
    if duet.world.rank() == duet.from {
        let data: Vec<Vec<u8>> = (0..).zip(&lens).map(|(of, len)| duet.data(of, *len)).collect();
        ep.scope(|scope| {
            let mut sending = Vec::new();
            for (of, data) in (0..).zip(&data) {
                sending.push(scope.isend(&duet.world, data, duet.to, duet.tag(of))?);
            }
            scope.wait_all(&mut sending)
        })?;
        return Ok(());
    }
    for of in order {
        let (mut buffer, tag) = (vec![0; lens[of]], duet.tag(of as u32));
        if random.chance(30) {
            ep.probe(&duet.world, duet.from, tag)?;
        }
        let status = ep.recv(&duet.world, &mut buffer, duet.source(random), tag)?;
        let due = duet.due(duet.number ^ of as u64, lens[of]);
        expect(&status, &buffer, DueMessage { tag: tag.0, ..due })?;
    }
    Ok(())
}

/// Messages that pass each other.
fn both_ways<T: Transport, P: Platform>(
    ep: &mut Endpoint<'_, T, P>,
    duet: Duet,
    random: &mut Random,
) -> Outcome {
    let lens = [length(random), length(random)];
    let (me, peer, mine) = match duet.world.rank() == duet.from {
        true => (duet.from, duet.to, 0),
        false => (duet.to, duet.from, 1),
    };
    let (data, mut buffer) = (message(me.0, duet.number, lens[mine]), vec![0; lens[1 - mine]]);
    let status = ep.sendrecv(&duet.world, &data, peer, duet.tag(0), &mut buffer, peer, duet.tag(0))?;
    expect(&status, &buffer, DueMessage { from: peer.0, ..duet.due(duet.number, lens[1 - mine]) })
}

/// Lent memory that is sent in parts, received in others' places, and combined.
fn in_parts<T: Transport, P: Platform>(
    ep: &mut Endpoint<'_, T, P>,
    duet: Duet,
    random: &mut Random,
) -> Outcome {
    let (len, parts) = (length(random) + 1, random.within(1, MESSAGES_MAX) as usize);
    let step = len.div_ceil(parts);
    let ranges: Vec<_> = (0..parts).map(|at| (at * step).min(len)..((at + 1) * step).min(len)).collect();
    let sends = duet.world.rank() == duet.from;
    // The second half is what comes, or scratch.
    let own = message(duet.world.rank().0, duet.number, len);
    let mut memory = [own.clone(), vec![0; len]].concat();
    ep.scope(|scope| {
        let loan = scope.lend(&mut memory);
        let mut requests = Vec::new();
        for (of, range) in (0..).zip(&ranges) {
            requests.push(if sends {
                scope.isend_part(&duet.world, loan, range.clone(), duet.to, duet.tag(of))?
            } else {
                let range = len + range.start..len + range.end;
                scope.irecv_part(&duet.world, loan, range, duet.from, duet.tag(of))?
            });
        }
        scope.wait_all(&mut requests)?;
        let xor = |into: &mut [u8], from: &[u8]| into.iter_mut().zip(from).for_each(|(a, b)| *a ^= b);
        scope.combine(LentRange::new(loan, 0..len), LentRange::new(loan, len..2 * len), xor)
    })?;
    let theirs = if sends { vec![0; len] } else { duet.data(0, len) };
    let right = own.iter().zip(&theirs).zip(&memory).all(|((own, theirs), is)| own ^ theirs == *is);
    if right && memory[len..] == theirs { Ok(()) } else { Err("lent memory was combined wrong".into()) }
}

/// Each rank with itself: on the world, and on the communicator of itself alone.
fn alone<T: Transport, P: Platform>(ep: &mut Endpoint<'_, T, P>, duet: Duet, random: &mut Random) -> Outcome {
    let (len, world) = (length(random), duet.world);
    // On the world no rank but this one may be left, and a receive from any source is refused then.
    let (comm, source) =
        if random.chance(50) { (world, world.rank().into()) } else { (ep.itself(), Source::Any) };
    let (me, tag) = (comm.rank(), duet.tag(0));
    let (data, mut buffers) = (message(me.0, duet.number, len), [vec![0; len], vec![0; BUFFER_BYTES]]);
    let [one, other] = &mut buffers;
    let first = ep.sendrecv(&comm, &data, me, tag, one, me, tag)?;
    let second = ep.scope(|scope| {
        let sending = scope.isend(&comm, &data, me, tag)?;
        let receiving = scope.irecv(&comm, other, source, tag)?;
        scope.wait(sending)?;
        scope.wait(receiving)
    })?;
    for (status, buffer) in [first, second].iter().zip(&buffers) {
        expect(status, buffer, DueMessage { from: me.0, tag: tag.0, number: duet.number, len })?;
    }
    Ok(())
}

//! Random messages and random receives, against the definition of matching.
//!
//! With one source, which receive gets which message does not depend on timing (MPI 4.1 section
//! 3.5): each message goes to the first receive posted that takes it, and each receive takes the
//! first message that was sent. From many sources it does, but the messages of each still come in
//! the order in which they were sent.

use aldis_kernel::hal::{Platform, Transport};
use aldis_kernel::{Endpoint, Rank, Request, Source, Tag, TagMatch};

use super::{DueMessage, Outcome, Random, expect, length, message};

/// Messages that one rank gets at most, for each a request slot.
const INCOMING_MAX: usize = 24;
const TAGS: u64 = 3;
/// Longer than any message.
const BUFFER_BYTES: usize = 3000;

#[derive(Clone, Copy, Debug)]
struct Sent {
    from: u32,
    to: u32,
    tag: u32,
    len: usize,
    number: u64,
}

/// A receive: the source and the tag that it takes, and which message it must get, if that is
/// settled.
#[derive(Clone, Copy, Debug)]
struct Receive {
    from: Option<u32>,
    tag: Option<u32>,
    due: Option<Sent>,
}

/// A few rounds. A round ends when all of its messages are received; ranks do not wait for each
/// other in between.
pub(super) fn run<T: Transport, P: Platform>(ep: &mut Endpoint<'_, T, P>, seed: u64) -> Outcome {
    let mut random = Random::new(seed, 26);
    for _ in 0..random.within(1, 3) {
        let wild = random.chance(40);
        round(ep, &mut random, wild)?;
        if wild {
            // What wildcards take must not be of another round.
            aldis_coll::barrier().run(ep, &ep.world())?;
        }
    }
    Ok(())
}

fn round<T: Transport, P: Platform>(ep: &mut Endpoint<'_, T, P>, random: &mut Random, wild: bool) -> Outcome {
    let world = ep.world();
    let (me, size) = (world.rank().0, world.size());
    let sends = draw_messages(random, size);
    let own = random.draw();
    let incoming: Vec<Sent> = sends.iter().filter(|sent| sent.to == me).copied().collect();
    let random = &mut Random::new(own, u64::from(me));
    let receives = if wild { wild_receives(&incoming) } else { exact_receives(random, size, &incoming) };
    let outgoing: Vec<Sent> = sends.into_iter().filter(|sent| sent.from == me).collect();
    let data: Vec<Vec<u8>> = outgoing.iter().map(|sent| message(me, sent.number, sent.len)).collect();
    let mut buffers = vec![vec![0_u8; BUFFER_BYTES]; receives.len()];
    let statuses = ep.scope(|scope| {
        let (mut sending, mut receiving): (Vec<Request<'_>>, Vec<Request<'_>>) = Default::default();
        let mut free = receives.iter().zip(buffers.iter_mut());
        let mut left = outgoing.iter().zip(&data);
        loop {
            // Sends and receives in random turns, with polls in between.
            let sends_next = random.chance(50);
            if let Some((sent, bytes)) = if sends_next { left.next() } else { None } {
                sending.push(scope.isend(&world, bytes, Rank(sent.to), Tag(sent.tag))?);
            } else if let Some((receive, buffer)) = free.next() {
                let from = receive.from.map_or(Source::Any, |from| Source::Rank(Rank(from)));
                let tag = receive.tag.map_or(TagMatch::Any, |tag| TagMatch::Tag(Tag(tag)));
                receiving.push(scope.irecv(&world, buffer, from, tag)?);
            } else if left.len() == 0 {
                break;
            }
            if random.chance(20) {
                scope.poll(random.within(1, 5) as u32);
            }
        }
        let statuses =
            receiving.into_iter().map(|receive| scope.wait(receive)).collect::<Result<Vec<_>, _>>()?;
        scope.wait_all(&mut sending)?;
        Ok(statuses)
    })?;
    let mut streams: Vec<_> =
        (0..size).map(|from| incoming.iter().filter(move |sent| sent.from == from)).collect();
    for ((receive, status), buffer) in receives.iter().zip(&statuses).zip(&buffers) {
        let next = || streams.get_mut(status.source.0 as usize).and_then(Iterator::next).copied();
        let Some(due) = receive.due.or_else(next) else {
            return Err(format!("rank {} has sent too often", status.source).into());
        };
        let Sent { from, tag, number, len, .. } = due;
        expect(status, buffer, DueMessage { from, tag, number, len })?;
    }
    Ok(())
}

/// The messages of a round, the same on every rank.
fn draw_messages(random: &mut Random, size: u32) -> Vec<Sent> {
    let mut incoming = vec![0; size as usize];
    let mut outgoing = vec![0; size as usize];
    let count = random.within(1, 6 * u64::from(size));
    let mut messages = Vec::new();
    for _ in 0..count {
        let (from, to) = (random.below(u64::from(size)) as u32, random.below(u64::from(size)) as u32);
        let (tag, len, number) = (random.below(TAGS) as u32, length(random), random.draw());
        if incoming[to as usize] < INCOMING_MAX && outgoing[from as usize] < INCOMING_MAX {
            incoming[to as usize] += 1;
            outgoing[from as usize] += 1;
            messages.push(Sent { from, to, tag, len, number });
        }
    }
    messages
}

/// Returns as many receives as messages, which take anything.
fn wild_receives(incoming: &[Sent]) -> Vec<Receive> {
    vec![Receive { from: None, tag: None, due: None }; incoming.len()]
}

/// Receives that name their source and may or may not name a tag, so that all messages are taken.
fn exact_receives(random: &mut Random, size: u32, incoming: &[Sent]) -> Vec<Receive> {
    let mut receives = Vec::new();
    for from in 0..size {
        let stream: Vec<Sent> = incoming.iter().filter(|sent| sent.from == from).copied().collect();
        let mut tags: Vec<Option<u32>> =
            stream.iter().map(|sent| random.chance(70).then_some(sent.tag)).collect();
        random.shuffle(&mut tags);
        let due = oracle(&stream, &tags).unwrap_or_else(|| {
            // A receive without a tag took what another one needed: in the order sent, with tags,
            // none can.
            tags = stream.iter().map(|sent| Some(sent.tag)).collect();
            stream.clone()
        });
        receives.extend(tags.into_iter().zip(due).map(|(tag, due)| Receive {
            from: Some(from),
            tag,
            due: Some(due),
        }));
    }
    // Receives of different sources do not meet: any order that keeps each source's will do.
    let mut order: Vec<u32> = receives.iter().filter_map(|receive| receive.from).collect();
    random.shuffle(&mut order);
    let mut streams: Vec<_> = (0..size)
        .map(|from| receives.clone().into_iter().filter(move |receive| receive.from == Some(from)))
        .collect();
    order.into_iter().filter_map(|from| streams[from as usize].next()).collect()
}

/// The message that each receive of one source gets; `None` if some gets none.
fn oracle(stream: &[Sent], tags: &[Option<u32>]) -> Option<Vec<Sent>> {
    let mut free = stream.to_vec();
    let take = |wanted: &Option<u32>| {
        let position = free.iter().position(|sent| wanted.is_none_or(|tag| tag == sent.tag))?;
        Some(free.remove(position))
    };
    tags.iter().map(take).collect()
}

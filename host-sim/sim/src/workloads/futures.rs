//! Random messages by futures: every rank sends all of its messages at a time, while one or two
//! tasks receive and probe. All wait in one place, so a wake-up or a poll that is missing leaves
//! the rank there for ever.

use core::cell::{Cell, RefCell};
use core::future::{Future, poll_fn};
use core::pin::{Pin, pin};
use core::task::Poll;
use core::time::Duration;

use aldis_kernel::hal::{Cause, Platform, Resource, Transport};
use aldis_kernel::{Comm, Endpoint, Error, Futures, Rank, Sleeper, Source, Status, Tag, TagMatch};

use super::{Outcome, Random, length, message};

/// Messages that one rank sends at most, for each a request slot.
const OUTGOING_MAX: u64 = 16;
const TAGS: u64 = 3;
/// Longer than any message, and than any block.
const BUFFER_BYTES: usize = 3000;
/// At least the request slots of every storage here.
const SLEEPERS: usize = 96;
/// The longest that a probe waits, in virtual time: now and then too short.
const PATIENCE: Duration = Duration::from_micros(20);

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct SentFuture {
    to: u32,
    tag: u32,
    len: usize,
    number: u64,
    synchronous: bool,
}

/// A few rounds, apart from each other, since what wildcards take must not be of another round.
pub(super) fn run<T: Transport, P: Platform>(ep: &mut Endpoint<'_, T, P>, seed: u64) -> Outcome {
    let mut random = Random::new(seed, 31);
    for _ in 0..random.within(1, 4) {
        round(ep, random.draw())?;
        aldis_coll::barrier().run(ep, &ep.world())?;
    }
    Ok(())
}

/// Draws the messages that rank `from` sends in a round.
fn plan(seed: u64, from: u32, size: u32) -> Vec<SentFuture> {
    let mut random = Random::new(seed, u64::from(from));
    let mut draw = || SentFuture {
        to: random.below(u64::from(size)) as u32,
        tag: random.below(TAGS) as u32,
        len: length(&mut random),
        number: random.draw(),
        synchronous: random.chance(30),
    };
    let count = seed % OUTGOING_MAX;
    (0..count).map(|_| draw()).collect()
}

fn round<T: Transport, P: Platform>(ep: &mut Endpoint<'_, T, P>, seed: u64) -> Outcome {
    let world = ep.world();
    let (me, size) = (world.rank().0, world.size());
    let outgoing = plan(seed, me, size);
    let incoming: Vec<(u32, SentFuture)> = (0..size)
        .flat_map(|from| plan(seed, from, size).into_iter().map(move |sent| (from, sent)))
        .filter(|(_, sent)| sent.to == me)
        .collect();
    let mut sleepers = [const { Sleeper::EMPTY }; SLEEPERS];
    let futures = match ep.futures(&mut sleepers) {
        // A storage without pooled blocks has no futures; it is the same on every rank.
        Err(Error { cause: Cause::TooSmall { what: Resource::PooledBlocks, .. }, .. }) => return Ok(()),
        futures => futures?,
    };
    let due = DueMessages { left: Cell::new(incoming.len()), messages: RefCell::new(incoming) };
    let task = |number: u64| receive(&futures, world, &due, Random::new(seed, 1000 + number));
    futures.block_on(all(send(&futures, world, &outgoing), all(task(0), task(1))))?;
    match due.messages.borrow().len() {
        0 => Ok(()),
        lost => Err(format!("{lost} messages were not received").into()),
    }
}

/// The messages that are still to come.
struct DueMessages {
    /// Messages that no receive has been started for.
    left: Cell<usize>,
    /// Messages that have not been received, with their source.
    messages: RefCell<Vec<(u32, SentFuture)>>,
}

impl DueMessages {
    /// Takes the message that has come off the list: one of that source, tag and length, with those
    /// bytes. The first of several such need not be complete first.
    fn take(&self, status: &Status, buffer: &[u8]) -> Outcome {
        let (source, tag, len) = (status.source.0, status.tag.0, status.bytes as usize);
        let is_it = |(from, sent): &(u32, SentFuture)| {
            (*from, sent.tag, sent.len) == (source, tag, len)
                && buffer.starts_with(&message(*from, sent.number, len))
        };
        let mut messages = self.messages.borrow_mut();
        match messages.iter().position(is_it) {
            Some(index) => {
                messages.swap_remove(index);
                Ok(())
            }
            None => Err(format!(
                "a message of rank {source}, tag {tag}, {len} bytes was not sent, or not like this"
            )
            .into()),
        }
    }
}

/// Receives until nothing is left; probes first now and then.
async fn receive<T: Transport, P: Platform>(
    futures: &Futures<'_, '_, T, P>,
    world: Comm,
    due: &DueMessages,
    mut random: Random,
) -> Outcome {
    let mut buffer = vec![0_u8; BUFFER_BYTES];
    while let Some(left) = due.left.get().checked_sub(1) {
        due.left.set(left);
        if random.chance(30) {
            match futures.probe(&world, Source::Any, TagMatch::Any).within(PATIENCE).await {
                Ok(_) | Err(Error { cause: Cause::TimedOut, .. }) => {}
                Err(error) => return Err(error.into()),
            }
        }
        match futures.recv(&world, &mut buffer, Source::Any, TagMatch::Any).await {
            Ok(status) => due.take(&status, &buffer)?,
            Err(Error { cause: Cause::Full(Resource::PooledBlocks), .. }) => {
                // The other task has the only block: it receives this one too.
                due.left.set(due.left.get() + 1);
                return Ok(());
            }
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

/// Sends all at a time, in order.
async fn send<T: Transport, P: Platform>(
    futures: &Futures<'_, '_, T, P>,
    world: Comm,
    outgoing: &[SentFuture],
) -> Outcome {
    let data: Vec<Vec<u8>> =
        outgoing.iter().map(|sent| message(world.rank().0, sent.number, sent.len)).collect();
    let mut sending: Vec<_> = outgoing
        .iter()
        .zip(&data)
        .map(|(sent, data)| match sent.synchronous {
            true => futures.ssend(&world, data, Rank(sent.to), Tag(sent.tag)),
            false => futures.send(&world, data, Rank(sent.to), Tag(sent.tag)),
        })
        .map(Some)
        .collect();
    poll_fn(|context| {
        for slot in &mut sending {
            if let Some(future) = slot
                && let Poll::Ready(result) = Pin::new(future).poll(context)
            {
                result?;
                *slot = None;
            }
        }
        if sending.iter().all(Option::is_none) { Poll::Ready(Ok(())) } else { Poll::Pending }
    })
    .await
}

/// Both, to their end; or the first failure.
async fn all(one: impl Future<Output = Outcome>, other: impl Future<Output = Outcome>) -> Outcome {
    let (mut one, mut other) = (pin!(one), pin!(other));
    let mut over = [false; 2];
    poll_fn(|context| {
        if !over[0]
            && let Poll::Ready(result) = one.as_mut().poll(context)
        {
            result?;
            over[0] = true;
        }
        if !over[1]
            && let Poll::Ready(result) = other.as_mut().poll(context)
        {
            result?;
            over[1] = true;
        }
        if over == [true; 2] { Poll::Ready(Ok(())) } else { Poll::Pending }
    })
    .await
}

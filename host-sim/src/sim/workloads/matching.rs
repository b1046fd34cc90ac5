//! Receives with all kinds of wildcards from many sources at a time. Who gets what depends on who is faster, so the whole
//! history of each round is judged by the [oracle].

use aldis_kernel::hal::{Cause, Platform, Transport};
use aldis_kernel::{Endpoint, Error, Rank, Request, Scope, Source, Status, Tag, TagMatch};

use super::{Outcome, Random, length, message};
use crate::sim::oracle::{self, Envelope, Receive};

/// Messages from and to one rank in a round at most: each has a request slot, and so has the last word of each pair.
const MESSAGES_MAX: usize = 20;
/// Messages of one pair at most.
const PAIR_MAX: usize = 6;
const TAGS: u64 = 3;
/// Longer than any message.
const BUFFER_BYTES: usize = 3000;
/// A message is known by so many first bytes; none is shorter.
const NAME_BYTES: usize = 8;

#[derive(Clone, Copy, Debug)]
struct Sent {
    from: u32,
    to: u32,
    tag: u32,
    len: usize,
    number: u64,
}

/// How a request ended; `None` if it was cancelled.
type Ended = Option<Result<Status, Error>>;

/// A few rounds, with a barrier after each: what wildcards take must not be of another.
pub(super) fn run<T: Transport, P: Platform>(ep: &mut Endpoint<'_, T, P>, seed: u64) -> Outcome {
    let mut random = Random::new(seed, 27);
    for _ in 0..random.within(1, 4) {
        round(ep, &mut random)?;
        aldis_coll::barrier(ep, &ep.world())?;
    }
    Ok(())
}

fn round<T: Transport, P: Platform>(ep: &mut Endpoint<'_, T, P>, random: &mut Random) -> Outcome {
    let world = ep.world();
    let (me, size) = (world.rank().0, world.size());
    // A message that no receive takes keeps its envelope to the round's end, and the last word needs one too.
    let pair_max = usize::from(ep.card().room.envelopes.saturating_sub(1)).min(PAIR_MAX);
    let all = draw(random, size, pair_max);
    let random = &mut Random::new(random.draw(), u64::from(me));
    let incoming: Vec<Sent> = all.iter().filter(|sent| sent.to == me).copied().collect();
    let outgoing: Vec<Sent> = all.into_iter().filter(|sent| sent.from == me).collect();
    let mut receives = patterns(random, world.context(), &incoming);
    // Twice: one for each pattern, one for each message that none of them takes.
    let mut buffers: Vec<Vec<u8>> = incoming.iter().map(|_| vec![0; room(random)]).collect();
    buffers.resize(2 * incoming.len(), vec![0; BUFFER_BYTES]);
    let ended = exchange(ep, random, &incoming, &outgoing, &receives, &mut buffers)?;
    let anything = Receive { context: world.context(), source: None, tag: None, got: None };
    receives.resize(ended.len(), anything);
    for ((receive, end), buffer) in receives.iter_mut().zip(&ended).zip(&buffers) {
        receive.got = end.as_ref().map(|result| identify(&incoming, result, buffer)).transpose()?;
    }
    let envelope = |sent: &Sent| Envelope { context: world.context(), source: sent.from, tag: sent.tag };
    let envelopes: Vec<Envelope> = incoming.iter().map(envelope).collect();
    oracle::judge(&envelopes, &receives)
        .map_err(|violation| format!("{violation}; messages {envelopes:?}, receives {receives:?}").into())
}

/// The messages of a round, the same on every rank.
fn draw(random: &mut Random, size: u32, pair_max: usize) -> Vec<Sent> {
    let mut messages: Vec<Sent> = Vec::new();
    for _ in 0..random.within(1, 8 * u64::from(size)) {
        let (from, to) = (random.below(u64::from(size)) as u32, random.below(u64::from(size)) as u32);
        let (tag, number) = (random.below(TAGS) as u32, random.draw());
        let len = length(random).max(NAME_BYTES);
        let count = |matches: fn(&Sent, u32, u32) -> bool| {
            messages.iter().filter(|sent| matches(sent, from, to)).count()
        };
        if count(|sent, from, to| (sent.from, sent.to) == (from, to)) < pair_max
            && count(|sent, from, _| sent.from == from) < MESSAGES_MAX
            && count(|sent, _, to| sent.to == to) < MESSAGES_MAX
        {
            messages.push(Sent { from, to, tag, len, number });
        }
    }
    messages
}

/// As many receives as messages, each made for one of them and perhaps for others too. What they leave depends on timing.
fn patterns(random: &mut Random, context: u32, incoming: &[Sent]) -> Vec<Receive> {
    let (source_wild, tag_wild) = (random.below(100), random.below(100));
    let pattern = |random: &mut Random, sent: &Sent| Receive {
        context,
        source: (!random.chance(source_wild)).then_some(sent.from),
        tag: (!random.chance(tag_wild)).then_some(sent.tag),
        got: None,
    };
    let mut receives: Vec<Receive> = incoming.iter().map(|sent| pattern(random, sent)).collect();
    random.shuffle(&mut receives);
    receives
}

/// A buffer's bytes: room for any message, or too little for some.
fn room(random: &mut Random) -> usize {
    if random.chance(80) { BUFFER_BYTES } else { NAME_BYTES + length(random) }
}

/// Sends and receives in random turns, until every source has had its last word: then all of its messages are here, and
/// what still waits is cancelled. What is left is received after that. How the receives ended, in the order posted.
fn exchange<T: Transport, P: Platform>(
    ep: &mut Endpoint<'_, T, P>,
    random: &mut Random,
    incoming: &[Sent],
    outgoing: &[Sent],
    receives: &[Receive],
    buffers: &mut [Vec<u8>],
) -> Result<Vec<Ended>, Error> {
    let world = ep.world();
    let data: Vec<Vec<u8>> = outgoing.iter().map(|sent| message(sent.from, sent.number, sent.len)).collect();
    let (pattern_buffers, rest_buffers) = buffers.split_at_mut(receives.len());
    ep.scope(|scope| {
        // On the plane of collectives no wildcard of this round takes it; the kernel keeps its order all the same.
        let (plane, last) = (world.collective(), scope.collective_tag(&world)?);
        let mut requests = Vec::new();
        for from in ranks(incoming.iter().map(|sent| sent.from)) {
            requests.push(scope.irecv(&plane, &mut [0_u8; 0], from, last)?);
        }
        let words = requests.len();
        let mut sending = Vec::new();
        let mut unsent = outgoing.iter().zip(&data);
        let mut free = receives.iter().zip(pattern_buffers);
        loop {
            if let Some((sent, bytes)) = if random.chance(50) { unsent.next() } else { None } {
                sending.push(scope.isend(&world, bytes, Rank(sent.to), Tag(sent.tag))?);
            } else if let Some((receive, buffer)) = free.next() {
                let source = receive.source.map_or(Source::Any, |source| Source::Rank(Rank(source)));
                let tag = receive.tag.map_or(TagMatch::Any, |tag| TagMatch::Tag(Tag(tag)));
                requests.push(scope.irecv(&world, buffer, source, tag)?);
            } else if unsent.len() == 0 {
                break;
            }
            if random.chance(20) {
                scope.poll(random.within(1, 5) as u32);
            }
        }
        for to in ranks(outgoing.iter().map(|sent| sent.to)) {
            sending.push(scope.isend(&plane, &[0_u8; 0], to, last)?);
        }
        let mut ended = settle(scope, random, &mut requests, words)?;
        let missing = incoming.len() - ended.iter().flatten().count();
        let mut rest = Vec::new();
        for buffer in rest_buffers.iter_mut().take(missing) {
            rest.push(scope.irecv(&world, buffer, Source::Any, TagMatch::Any)?);
        }
        for request in rest {
            ended.push(Some(Ok(scope.wait(request)?)));
        }
        scope.wait_all(&mut sending)?;
        Ok(ended)
    })
}

/// The ranks among `all`, each once.
fn ranks(all: impl Iterator<Item = u32>) -> impl Iterator<Item = Rank> {
    all.collect::<std::collections::BTreeSet<u32>>().into_iter().map(Rank)
}

/// Waits, by one call or another, until the first `words` requests are over, then ends the others. How those ended.
fn settle<'scope, T: Transport, P: Platform>(
    scope: &mut Scope<'scope, '_, '_, T, P>,
    random: &mut Random,
    requests: &mut [Request<'scope>],
    words: usize,
) -> Result<Vec<Ended>, Error> {
    let mut ended: Vec<Ended> = vec![None; requests.len()];
    while !requests.iter().take(words).all(Request::is_null) {
        let at = random.below(requests.len() as u64) as usize;
        match random.below(3) {
            0 => {
                let result = scope.wait_any(requests).map(|found| found.map(|(_, status)| status));
                // A failure does not come with its place, but its request is null now.
                let over = |at: &usize| requests[*at].is_null() && ended[*at].is_none();
                let at = (0..requests.len()).find(over).unwrap_or(at);
                ended[at] = tolerated(result)?;
            }
            1 if !requests[at].is_null() => ended[at] = tolerated(scope.test(&mut requests[at]))?,
            _ => {
                scope.poll(random.within(1, 5) as u32);
            }
        }
    }
    for (request, end) in requests.iter_mut().zip(&mut ended).skip(words) {
        if end.is_none() && !scope.cancel(request) {
            let taken = core::mem::replace(request, Request::null());
            *end = tolerated(scope.wait(taken).map(Some))?;
        }
    }
    Ok(ended.split_off(words))
}

/// What a request came to, if it is over. Buffers may be too short here; nothing else may be wrong.
fn tolerated(result: Result<Option<Status>, Error>) -> Result<Ended, Error> {
    match result {
        Err(error) if matches!(error.cause, Cause::Truncated { .. }) => Ok(Some(Err(error))),
        result => result.map(|status| status.map(Ok)),
    }
}

/// Which message a receive got: known by its first bytes, and then all of it must be as sent.
fn identify(
    incoming: &[Sent],
    result: &Result<Status, Error>,
    buffer: &[u8],
) -> Result<usize, Box<dyn core::error::Error>> {
    let (source, tag, bytes) = match result {
        Ok(status) => (Some(status.source), Some(status.tag), status.bytes),
        Err(Error { cause: Cause::Truncated { sent, room }, .. }) if *room != buffer.len() as u64 => {
            return Err(format!("{sent} bytes truncated at {room}, not at {}", buffer.len()).into());
        }
        Err(error) => match error.cause {
            Cause::Truncated { sent, .. } => (error.peer(), error.tag(), sent),
            _ => return Err((*error).into()),
        },
    };
    let named = |sent: &Sent| buffer.starts_with(&message(sent.from, sent.number, NAME_BYTES));
    let Some(place) = incoming.iter().position(named) else {
        return Err(format!("a message of {bytes} bytes that nobody has sent in this round").into());
    };
    let sent = incoming[place];
    let envelope = (Some(Rank(sent.from)), Some(Tag(sent.tag)), sent.len as u64);
    if (source, tag, bytes) != envelope {
        return Err(format!("a status says {:?} of {sent:?}", (source, tag, bytes)).into());
    }
    let right = message(sent.from, sent.number, sent.len);
    match buffer.iter().zip(&right).position(|(is, due)| is != due) {
        Some(at) => Err(format!("byte {at} of {sent:?} is wrong").into()),
        None => Ok(place),
    }
}

//! Receives with all kinds of wildcards from many sources at a time. The receive that gets a
//! message depends on which rank is faster, so the whole history of each round is judged by the
//! [oracle].

use aldis_kernel::hal::{Cause, Platform, Transport};
use aldis_kernel::{Endpoint, Error, Rank, Request, Scope, Source, Status, Tag, TagMatch};

use super::{Outcome, Random, length, message};
use crate::oracle::{self, OracleMessage, OracleReceive};

/// Messages from and to one rank in a round at most: for each a request slot, and two for receives.
const MESSAGES_MAX: usize = 24;
const TAGS: u64 = 3;
/// Longer than any message.
const BUFFER_BYTES: usize = 3000;
/// A message is known by so many first bytes; none is shorter.
const NAME_BYTES: usize = 8;

#[derive(Clone, Copy, Debug)]
struct SentMatch {
    from: u32,
    to: u32,
    tag: u32,
    len: usize,
    number: u64,
}

/// A receive that is over, and its buffer.
struct EndedReceive {
    end: RequestEnd,
    buffer: Vec<u8>,
}

/// The end of a request; `None` if it was cancelled.
type RequestEnd = Option<Result<Status, Error>>;

/// A few rounds, with a barrier after each: what wildcards take must not be of another.
pub(super) fn run<T: Transport, P: Platform>(ep: &mut Endpoint<'_, T, P>, seed: u64) -> Outcome {
    let mut random = Random::new(seed, 27);
    for _ in 0..random.within(1, 4) {
        round(ep, &mut random)?;
        aldis_coll::barrier().run(ep, &ep.world())?;
    }
    Ok(())
}

fn round<T: Transport, P: Platform>(ep: &mut Endpoint<'_, T, P>, random: &mut Random) -> Outcome {
    let world = ep.world();
    let (me, size) = (world.rank().0, world.size());
    let all = draw(random, size);
    let random = &mut Random::new(random.draw(), u64::from(me));
    let incoming: Vec<SentMatch> = all.iter().filter(|sent| sent.to == me).copied().collect();
    let outgoing: Vec<SentMatch> = all.into_iter().filter(|sent| sent.from == me).collect();
    let mut receives = patterns(random, world.context(), &incoming);
    // What the first half leaves goes to these.
    let anything = OracleReceive { context: world.context(), source: None, tag: None, got: None };
    receives.resize(2 * incoming.len(), anything);
    let ended = exchange(ep, random, &outgoing, &receives)?;
    for (receive, EndedReceive { end, buffer }) in receives.iter_mut().zip(&ended) {
        receive.got = end.as_ref().map(|result| identify(&incoming, result, buffer)).transpose()?;
    }
    let envelope =
        |sent: &SentMatch| OracleMessage { context: world.context(), source: sent.from, tag: sent.tag };
    let envelopes: Vec<OracleMessage> = incoming.iter().map(envelope).collect();
    oracle::judge(&envelopes, &receives)
        .map_err(|violation| format!("{violation}; {}", history(&envelopes, &receives)).into())
}

/// A history in short: `source/tag` of each message, and of each receive with what it got.
fn history(messages: &[OracleMessage], receives: &[OracleReceive]) -> String {
    let or_any = |value: Option<u32>| value.map_or("*".into(), |value| value.to_string());
    let messages: Vec<String> = messages.iter().map(|one| format!("{}/{}", one.source, one.tag)).collect();
    let receive = |one: &OracleReceive| {
        let got = one.got.map_or("nothing".into(), |got| got.to_string());
        format!("{}/{}={got}", or_any(one.source), or_any(one.tag))
    };
    let receives: Vec<String> = receives.iter().map(receive).collect();
    format!("messages {}; receives {}", messages.join(" "), receives.join(" "))
}

/// The messages of a round, the same on every rank.
fn draw(random: &mut Random, size: u32) -> Vec<SentMatch> {
    let mut messages: Vec<SentMatch> = Vec::new();
    for _ in 0..random.within(1, 8 * u64::from(size)) {
        let (from, to) = (random.below(u64::from(size)) as u32, random.below(u64::from(size)) as u32);
        let (tag, number) = (random.below(TAGS) as u32, random.draw());
        let len = length(random).max(NAME_BYTES);
        let outgoing = messages.iter().filter(|sent| sent.from == from).count();
        let incoming = messages.iter().filter(|sent| sent.to == to).count();
        if outgoing.max(incoming) < MESSAGES_MAX {
            messages.push(SentMatch { from, to, tag, len, number });
        }
    }
    messages
}

/// Draws as many receives as messages, each made for one of them and perhaps for others too. What
/// they leave depends on timing.
fn patterns(random: &mut Random, context: u32, incoming: &[SentMatch]) -> Vec<OracleReceive> {
    let (source_wild, tag_wild) = (random.below(100), random.below(100));
    let pattern = |random: &mut Random, sent: &SentMatch| OracleReceive {
        context,
        source: (!random.chance(source_wild)).then_some(sent.from),
        tag: (!random.chance(tag_wild)).then_some(sent.tag),
        got: None,
    };
    let mut receives: Vec<OracleReceive> = incoming.iter().map(|sent| pattern(random, sent)).collect();
    random.shuffle(&mut receives);
    receives
}

/// A buffer's bytes: room for any message, or too little for some.
fn room(random: &mut Random) -> usize {
    if random.chance(80) { BUFFER_BYTES } else { NAME_BYTES + length(random) }
}

/// Sends and receives in random turns: first those receives that may not take all messages, a while
/// later those that take what is left, until all messages are there. What still waits then is
/// cancelled. How the receives ended, in the order posted.
fn exchange<T: Transport, P: Platform>(
    ep: &mut Endpoint<'_, T, P>,
    random: &mut Random,
    outgoing: &[SentMatch],
    receives: &[OracleReceive],
) -> Result<Vec<EndedReceive>, Error> {
    let world = ep.world();
    let data: Vec<Vec<u8>> = outgoing.iter().map(|sent| message(sent.from, sent.number, sent.len)).collect();
    let count = receives.len() / 2;
    let mut buffers: Vec<Vec<u8>> = (0..count).map(|_| vec![0; room(random)]).collect();
    buffers.resize(receives.len(), vec![0; BUFFER_BYTES]);
    let ended = ep.scope(|scope| {
        let (mut sending, mut requests) = (Vec::new(), Vec::new());
        let mut ended: Vec<RequestEnd> = vec![None; receives.len()];
        let mut unsent = outgoing.iter().zip(&data);
        let mut free = receives.iter().zip(&mut buffers);
        while requests.len() < receives.len() || unsent.len() > 0 {
            if requests.len() == count {
                // With all of these posted, some time for messages that none of them takes.
                for _ in 0..random.below(20) {
                    look(scope, random, &mut requests, &mut ended)?;
                }
            }
            if let Some((sent, bytes)) = if random.chance(50) { unsent.next() } else { None } {
                sending.push(scope.isend(&world, bytes, Rank(sent.to), Tag(sent.tag))?);
            } else if let Some((receive, buffer)) = free.next() {
                let source = receive.source.map_or(Source::Any, |source| Source::Rank(Rank(source)));
                let tag = receive.tag.map_or(TagMatch::Any, |tag| TagMatch::Tag(Tag(tag)));
                requests.push(scope.irecv(&world, buffer, source, tag)?);
            }
            if random.chance(20) {
                look(scope, random, &mut requests, &mut ended)?;
            }
        }
        while ended.iter().flatten().count() < count {
            if random.chance(70) {
                look(scope, random, &mut requests, &mut ended)?;
                continue;
            }
            let result =
                tolerated(scope.wait_any(&mut requests).map(|found| found.map(|(_, status)| status)))?;
            // A failure does not come with its place, but its request is null from then on.
            let over = |(request, end): &(&Request<'_>, &mut RequestEnd)| request.is_null() && end.is_none();
            if let Some((_, end)) = requests.iter().zip(&mut ended).find(over) {
                *end = result;
            }
        }
        for (request, end) in requests.iter_mut().zip(&mut ended) {
            if end.is_none() && !scope.cancel(request) {
                let taken = core::mem::replace(request, Request::null());
                *end = tolerated(scope.wait(taken).map(Some))?;
            }
        }
        scope.wait_all(&mut sending)?;
        Ok(ended)
    })?;
    Ok(ended.into_iter().zip(buffers).map(|(end, buffer)| EndedReceive { end, buffer }).collect())
}

/// Polls, or tests some request.
fn look<'scope, T: Transport, P: Platform>(
    scope: &mut Scope<'scope, '_, '_, T, P>,
    random: &mut Random,
    requests: &mut [Request<'scope>],
    ended: &mut [RequestEnd],
) -> Result<(), Error> {
    let at = random.below(requests.len() as u64) as usize;
    match requests.get_mut(at) {
        Some(request) if !request.is_null() && random.chance(60) => {
            ended[at] = tolerated(scope.test(request))?;
        }
        _ => {
            scope.poll(random.within(1, 5) as u32);
        }
    }
    Ok(())
}

/// Returns the end of a request, if it is over. Buffers may be too short here; nothing else may be
/// wrong.
fn tolerated(result: Result<Option<Status>, Error>) -> Result<RequestEnd, Error> {
    match result {
        Err(error) if matches!(error.cause, Cause::Truncated { .. }) => Ok(Some(Err(error))),
        result => result.map(|status| status.map(Ok)),
    }
}

/// The message that a receive got: known by its first bytes, and then all of it must be as sent.
fn identify(
    incoming: &[SentMatch],
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
    let named = |sent: &SentMatch| buffer.starts_with(&message(sent.from, sent.number, NAME_BYTES));
    let Some(place) = incoming.iter().position(named) else {
        return Err(format!("a message of {bytes} bytes that no rank has sent in this round").into());
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

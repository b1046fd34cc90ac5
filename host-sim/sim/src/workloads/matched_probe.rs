//! Matched probes of all kinds among receives and plain probes, of more messages than there are
//! envelopes.
//!
//! Each rank sends to all, itself included, and takes what is for it by turns: receives posted
//! before and after, matched probes that name a source, a tag, both or neither. What a token says
//! must be what it gives, nothing comes twice, and of the messages of one source that a pattern
//! takes the first comes first, whatever is taken by other means meanwhile.

use aldis_kernel::hal::{Platform, Transport};
use aldis_kernel::{Comm, Endpoint, Error, Matched, Rank, Request, Scope, Source, Status, Tag, TagMatch};

use super::{DueMessage, Outcome, Random, expect, length, message};

const TAGS: u64 = 3;
/// Messages that a rank gets, and sends, at most in a round.
const MESSAGES_MAX: usize = 20;
/// Receives and tokens that a rank has at a time, at most.
const UNDER_WAY_MAX: usize = 10;
/// Matched probes in a row that do not wait.
const LOOKS_MAX: u64 = 6;
/// Longer than any message.
const BUFFER_BYTES: usize = 3000;

#[derive(Clone, Copy, Debug)]
struct SentProbe {
    from: u32,
    to: u32,
    tag: u32,
    len: usize,
    number: u64,
}

/// A few rounds, with barriers in between: what wildcards find must not be of another round.
pub(super) fn run<T: Transport, P: Platform>(ep: &mut Endpoint<'_, T, P>, seed: u64) -> Outcome {
    let mut random = Random::new(seed, 31);
    for _ in 0..random.within(1, 3) {
        round(ep, &mut random)?;
        aldis_coll::barrier().run(ep, &ep.world())?;
    }
    Ok(())
}

/// The messages of a round, the same on every rank.
fn draw(random: &mut Random, size: u32) -> Vec<SentProbe> {
    let mut counts = vec![[0; 2]; size as usize];
    let mut messages = Vec::new();
    for _ in 0..random.within(1, 6 * u64::from(size)) {
        let (from, to) = (random.below(u64::from(size)) as u32, random.below(u64::from(size)) as u32);
        let (tag, len, number) = (random.below(TAGS) as u32, length(random), random.draw());
        if counts[from as usize][0] < MESSAGES_MAX && counts[to as usize][1] < MESSAGES_MAX {
            counts[from as usize][0] += 1;
            counts[to as usize][1] += 1;
            messages.push(SentProbe { from, to, tag, len, number });
        }
    }
    messages
}

fn round<T: Transport, P: Platform>(ep: &mut Endpoint<'_, T, P>, random: &mut Random) -> Outcome {
    let world = ep.world();
    let (me, size) = (world.rank().0, world.size());
    let sends = draw(random, size);
    let own = random.draw();
    let random = &mut Random::new(own, u64::from(me));
    let left: Vec<SentProbe> = sends.iter().filter(|sent| sent.to == me).copied().collect();
    let outgoing: Vec<SentProbe> = sends.into_iter().filter(|sent| sent.from == me).collect();
    let data: Vec<Vec<u8>> = outgoing.iter().map(|sent| message(me, sent.number, sent.len)).collect();
    let mut buffers = vec![vec![0_u8; BUFFER_BYTES]; left.len()];
    let got = ep.scope(|scope| {
        let mut taker = Taker { left, tokens: Vec::new(), receiving: Vec::new(), got: Vec::new() };
        let mut free = buffers.iter_mut();
        let mut unsent = outgoing.iter().zip(&data);
        let mut sending = Vec::new();
        while unsent.len() + taker.left.len() + taker.tokens.len() > 0 {
            if (taker.left.is_empty() || random.chance(40))
                && let Some((sent, bytes)) = unsent.next()
            {
                sending.push(scope.isend(&world, bytes, Rank(sent.to), Tag(sent.tag))?);
            }
            // No rank waits while it has something to send: all messages are on their way in the
            // end.
            let may_wait = unsent.len() == 0;
            let crowded = taker.receiving.len() + taker.tokens.len() >= UNDER_WAY_MAX;
            if !taker.tokens.is_empty() && (crowded || taker.left.is_empty() || random.chance(30)) {
                let (token, sent) = taker.tokens.remove(random.below(taker.tokens.len() as u64) as usize);
                let receiving = scope.imrecv(token, free.next().expect("one for each message"))?;
                taker.receiving.push((receiving, sent));
            } else if crowded && may_wait {
                taker.wait_for_one(scope)?;
            } else if !crowded && !taker.left.is_empty() {
                let pattern = taker.pattern(random);
                match pattern.source {
                    Source::Rank(_) if random.chance(25) => {
                        let sent = taker.claim(&pattern, None);
                        let buffer = free.next().expect("one for each message");
                        let receiving = scope.irecv(&world, buffer, pattern.source, pattern.tag)?;
                        taker.receiving.extend(sent.map(|sent| (receiving, sent)));
                    }
                    _ => {
                        if let Some(token) = pattern.look(scope, random, &world, may_wait)? {
                            let sent = taker.claim(&pattern, Some(token.status().source));
                            taker.tokens.extend(sent.map(|sent| (token, sent)));
                        }
                    }
                }
            }
        }
        while !taker.receiving.is_empty() {
            taker.wait_for_one(scope)?;
        }
        scope.wait_all(&mut sending)?;
        Ok(taker.got)
    })?;
    // Buffers were handed out in the order of the receives, and these were waited for in that
    // order.
    for ((sent, status), buffer) in got.iter().zip(&buffers) {
        let &SentProbe { from, tag, number, len, .. } = sent;
        expect(status, buffer, DueMessage { from, tag, number, len })?;
    }
    if got.len() < buffers.len() {
        return Err("a message was found that no rank had sent".into());
    }
    Ok(())
}

#[derive(Clone, Copy)]
struct Pattern {
    source: Source,
    tag: TagMatch,
}

impl Pattern {
    fn takes(&self, sent: &SentProbe) -> bool {
        (self.source == Source::Any || self.source == Source::Rank(Rank(sent.from)))
            && (self.tag == TagMatch::Any || self.tag == TagMatch::Tag(Tag(sent.tag)))
    }

    /// A matched probe, which waits only if it may; before it now and then a plain one that must
    /// see the same.
    fn look<'scope, T: Transport, P: Platform>(
        &self,
        scope: &mut Scope<'scope, '_, '_, T, P>,
        random: &mut Random,
        world: &Comm,
        may_wait: bool,
    ) -> Result<Option<Matched>, Error> {
        let &Self { source, tag } = self;
        for _ in 0..random.below(LOOKS_MAX) {
            if random.chance(20) {
                scope.iprobe(world, source, tag)?;
            }
            if random.chance(30) {
                scope.poll(random.within(1, 5) as u32);
            }
            if let Some(token) = scope.improbe(world, source, tag)? {
                return Ok(Some(token));
            }
        }
        if may_wait { scope.mprobe(world, source, tag).map(Some) } else { Ok(None) }
    }
}

/// The messages that a rank has taken, and is to take.
struct Taker<'scope> {
    /// Messages that are due and not claimed, those of each source in the order sent.
    left: Vec<SentProbe>,
    tokens: Vec<(Matched, SentProbe)>,
    receiving: Vec<(Request<'scope>, SentProbe)>,
    got: Vec<(SentProbe, Status)>,
}

impl<'scope> Taker<'scope> {
    /// A pattern that takes some message that is left.
    fn pattern(&self, random: &mut Random) -> Pattern {
        let sent = random.pick(&self.left);
        let source = if random.chance(40) { Source::Any } else { Source::Rank(Rank(sent.from)) };
        let tag = if random.chance(40) { TagMatch::Any } else { TagMatch::Tag(Tag(sent.tag)) };
        Pattern { source, tag }
    }

    /// The message that the pattern gets: of `from`, if it may come from any source, the first that
    /// it takes.
    fn claim(&mut self, pattern: &Pattern, from: Option<Rank>) -> Option<SentProbe> {
        let due = |sent: &SentProbe| pattern.takes(sent) && from.is_none_or(|from| from.0 == sent.from);
        let place = self.left.iter().position(due)?;
        Some(self.left.remove(place))
    }

    /// Waits for the oldest receive.
    fn wait_for_one<T: Transport, P: Platform>(
        &mut self,
        scope: &mut Scope<'scope, '_, '_, T, P>,
    ) -> Result<(), Error> {
        let (request, sent) = self.receiving.remove(0);
        self.got.push((sent, scope.wait(request)?));
        Ok(())
    }
}

//! Messages in parts: channels to a neighbour, some with the same tag, over a few rounds, with
//! parts that get ready in any order, while so many messages pass beside them that there is no
//! envelope left.

use aldis_kernel::hal::{Platform, Transport};
use aldis_kernel::{Comm, Endpoint, Error, LentMut, Rank, Request, Scope, Tag};

use super::{Outcome, Random, fill};

/// The tag of all channels, and that of the messages beside them.
const CHANNEL: Tag = Tag(70);
const BESIDE: Tag = Tag(71);

/// A channel: how both sides cut it, and its place in memory.
struct PartitionedChannel {
    own: u32,
    theirs: u32,
    start: usize,
    len: usize,
}

/// The plan that all ranks draw alike.
struct PartitionPlan {
    number: u64,
    rounds: u64,
    channels: Vec<PartitionedChannel>,
    beside: usize,
    /// True if receives are set up before sends.
    receives_first: bool,
}

impl PartitionPlan {
    fn draw(seed: u64) -> (Self, u32) {
        let mut random = Random::new(seed, 31);
        let distance = random.below(8) as u32;
        let mut start = 0;
        let mut channels = Vec::new();
        for _ in 0..random.within(1, 4) {
            let (own, theirs) = (random.within(1, 17) as u32, random.within(1, 17) as u32);
            let scale = if random.chance(70) { random.below(4) } else { random.below(16) };
            let len = (own * theirs) as usize * scale as usize;
            channels.push(PartitionedChannel { own, theirs, start, len });
            start += len;
        }
        let (rounds, beside) = (random.within(1, 4), random.below(7) as usize);
        let plan = Self { number: seed, rounds, channels, beside, receives_first: random.chance(50) };
        (plan, distance)
    }

    fn bytes(&self) -> usize {
        self.channels.iter().map(|channel| channel.len).sum()
    }

    /// Returns the bytes that rank `from` sends in a channel in a round.
    fn due(&self, from: u32, round: u64, channel: usize) -> Vec<u8> {
        let mut bytes = vec![0; self.channels[channel].len];
        fill(&mut bytes, from, self.number ^ round << 16 ^ (channel as u64) << 8);
        bytes
    }
}

/// Every rank sends in parts to one `distance` ahead.
pub(super) fn run<T: Transport, P: Platform>(ep: &mut Endpoint<'_, T, P>, seed: u64) -> Outcome {
    let world = ep.world();
    let (plan, distance) = PartitionPlan::draw(seed);
    let (me, size) = (world.rank().0, world.size());
    let distance = distance % size;
    let (to, from) = (Rank((me + distance) % size), Rank((me + size - distance) % size));
    let (mut out, mut into) = (vec![0; plan.bytes()], vec![0; plan.bytes()]);
    let mut wrongs = Vec::new();
    let (words, mut heard) = (vec![[me]; plan.beside], vec![[0_u32]; plan.beside]);
    ep.scope(|scope| {
        let (out, into) = (scope.lend(&mut out), scope.lend(&mut into));
        let side = PartitionSide { plan: &plan, me, out, to, into, from };
        let mut plain = Vec::new();
        for word in &words {
            plain.push(scope.isend(&world, word, to, BESIDE)?);
        }
        let mut requests = side.set_up(scope, &world)?;
        for round in 0..plan.rounds {
            side.play(scope, round, &mut requests)?;
            wrongs.extend(side.wrong(scope, round)?);
        }
        for word in &mut heard {
            plain.push(scope.irecv(&world, word, from, BESIDE)?);
        }
        scope.wait_all(&mut plain)
    })?;
    if !wrongs.is_empty() || heard.iter().any(|word| *word != [from.0]) {
        return Err(
            format!("wrong from rank {from}: channels {wrongs:?}, or words beside them: {heard:?}").into()
        );
    }
    Ok(())
}

/// This rank's side of a plan: its memory, and its partners.
struct PartitionSide<'a, 'scope> {
    plan: &'a PartitionPlan,
    me: u32,
    out: LentMut<'scope>,
    to: Rank,
    into: LentMut<'scope>,
    from: Rank,
}

/// The requests of all channels.
struct PartitionRequests<'scope> {
    sends: Vec<Request<'scope>>,
    receives: Vec<Request<'scope>>,
}

impl<'scope> PartitionSide<'_, 'scope> {
    fn set_up<T: Transport, P: Platform>(
        &self,
        scope: &mut Scope<'scope, '_, '_, T, P>,
        world: &Comm,
    ) -> Result<PartitionRequests<'scope>, Error> {
        let &Self { plan, out, to, into, from, .. } = self;
        let mut requests = PartitionRequests { sends: Vec::new(), receives: Vec::new() };
        for receiving in [plan.receives_first, !plan.receives_first] {
            for &PartitionedChannel { own, theirs, start, len } in &plan.channels {
                let range = start..start + len;
                if receiving {
                    requests.receives.push(scope.precv_init(world, into, range, theirs, from, CHANNEL)?);
                } else {
                    requests.sends.push(scope.psend_init(world, out, range, own, to, CHANNEL)?);
                }
            }
        }
        Ok(requests)
    }

    /// Plays one round: parts of all channels get ready in an order of this rank's own.
    fn play<T: Transport, P: Platform>(
        &self,
        scope: &mut Scope<'scope, '_, '_, T, P>,
        round: u64,
        requests: &mut PartitionRequests<'scope>,
    ) -> Result<(), Error> {
        let &Self { plan, me, out, .. } = self;
        let PartitionRequests { sends, receives } = requests;
        let mut random = Random::new(plan.number ^ round, u64::from(me) + 7000);
        let early = random.chance(50);
        if early {
            scope.start_all(receives)?;
        }
        scope.start_all(sends)?;
        let parts =
            |(channel, cut): (usize, &PartitionedChannel)| (0..cut.own).map(move |part| (channel, part));
        let mut left: Vec<(usize, u32)> = plan.channels.iter().enumerate().flat_map(parts).collect();
        while !left.is_empty() {
            let (channel, part) = left.swap_remove(random.below(left.len() as u64) as usize);
            let &PartitionedChannel { own, start, len, .. } = &plan.channels[channel];
            let each = len / own as usize;
            let first = part as usize * each;
            let due = plan.due(me, round, channel);
            scope.edit(out, start + first..start + first + each, |bytes| {
                bytes.copy_from_slice(&due[first..first + each]);
            })?;
            scope.partitions(&sends[channel]).ready(part)?;
            if random.chance(10) {
                scope.poll(8);
            }
        }
        if !early {
            scope.start_all(receives)?;
        }
        scope.wait_all(receives)?;
        scope.wait_all(sends)
    }

    /// The first channel that holds something else than it must.
    fn wrong<T: Transport, P: Platform>(
        &self,
        scope: &mut Scope<'scope, '_, '_, T, P>,
        round: u64,
    ) -> Result<Option<usize>, Error> {
        for (index, channel) in self.plan.channels.iter().enumerate() {
            let due = self.plan.due(self.from.0, round, index);
            let mut is_due = false;
            scope.edit(self.into, channel.start..channel.start + channel.len, |bytes| {
                is_due = *bytes == due
            })?;
            if !is_due {
                return Ok(Some(index));
            }
        }
        Ok(None)
    }
}

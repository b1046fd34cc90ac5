//! Chapter 6, drawn: sequences of collective calls, several in flight at a time and messages among
//! them on the same communicator, against what one rank can work out for all. The seed draws
//! operations, algorithms, roots, lengths and scratch; every rank waits in an order of its own.

use aldis_coll::allreduce;
use aldis_coll::barrier;
use aldis_coll::bcast;
use aldis_coll::catalog::algorithms;
use aldis_coll::exscan;
use aldis_coll::op::{Reduce, Sum};
use aldis_coll::reduce;
use aldis_coll::scan;
use aldis_coll::schedule::{Candidate, least_scratch};
use aldis_coll::{Collective, Options, allgather, alltoall, gather, scatter, wait_all, wait_for};
use aldis_hal::{Operation, Platform, Transport};
use aldis_kernel::{Comm, Endpoint, Error, Rank, Scope, Source, Tag, TagMatch};

use super::Outcome;
use super::chapter::Case;

/// Rounds of a sequence; all calls of a round are in flight together.
const ROUNDS: u64 = 3;
/// Calls of a round, and messages to the next rank.
const CALLS_MAX: u64 = 4;
const MESSAGES_MAX: u64 = 3;

/// The operations that a sequence is made of.
const OPERATIONS: [Operation; 10] = [
    Operation::Barrier,
    Operation::Bcast,
    Operation::Gather,
    Operation::Scatter,
    Operation::Allgather,
    Operation::Alltoall,
    Operation::Reduce,
    Operation::Allreduce,
    Operation::Scan,
    Operation::Exscan,
];

/// The cases, for jobs of four sizes.
pub(super) fn cases<T: Transport, P: Platform>() -> Vec<Case<T, P>> {
    [
        ("any_sequence_of_collectives_of_a_rank_alone_agrees_with_the_oracle", 1),
        ("any_sequence_of_collectives_of_two_agrees_with_the_oracle", 2),
        ("any_sequence_of_collectives_of_five_agrees_with_the_oracle", 5),
        ("any_sequence_of_collectives_of_eight_agrees_with_the_oracle", 8),
    ]
    .map(|(name, ranks)| Case { name, section: "6", ranks, is_drawn: true, run: sequence })
    .into()
}

fn sequence<T: Transport, P: Platform>(ep: &mut Endpoint<'_, T, P>, seed: u64) -> Outcome {
    let world = ep.world();
    let mut draw = Draw(seed);
    for _ in 0..ROUNDS {
        let calls: Vec<SequenceCall> =
            (0..=draw.below(CALLS_MAX)).map(|_| SequenceCall::draw(&mut draw, world.size())).collect();
        let messages: Vec<usize> = (0..draw.below(MESSAGES_MAX + 1)).map(|_| draw.length()).collect();
        round(ep, &world, &calls, &messages)?;
    }
    Ok(())
}

/// Everything at once: messages around the ring of ranks, and the calls.
fn round<T: Transport, P: Platform>(
    ep: &mut Endpoint<'_, T, P>,
    world: &Comm,
    calls: &[SequenceCall],
    messages: &[usize],
) -> Outcome {
    let (me, size) = (world.rank().0, world.size());
    let (next, previous) = ((me + 1) % size, (me + size - 1) % size);
    let sent: Vec<Vec<u64>> = messages.iter().map(|&len| noises(!0, me, len)).collect();
    let mut got: Vec<Vec<u64>> = messages.iter().map(|&len| vec![0; len]).collect();
    let mut buffers: Vec<Buffers> = calls.iter().map(|call| call.buffers(me, size)).collect();
    let (lent, into) = (&mut buffers, &mut got);
    ep.scope(|scope| {
        let mut requests = Vec::new();
        for (number, message) in into.iter_mut().enumerate() {
            // Every second one would take any tag, every third one any sender.
            let from = if number % 3 == 2 { Source::Any } else { Source::Rank(Rank(previous)) };
            let tag = if number % 2 == 1 { TagMatch::Any } else { TagMatch::Tag(Tag(number as u32)) };
            requests.push(scope.irecv(world, message, from, tag)?);
        }
        for (number, message) in sent.iter().enumerate() {
            requests.push(scope.isend(world, message, Rank(next), Tag(number as u32))?);
        }
        let mut flying = Vec::new();
        for (call, buffers) in calls.iter().zip(lent) {
            flying.push(call.start(scope, world, buffers)?);
        }
        // Some wait for messages first, some for one of the calls.
        if me % 2 == 0 {
            scope.wait_all(&mut requests)?;
        }
        wait_for(scope, &mut flying, me as usize % calls.len())?;
        wait_all(scope, &mut flying)?;
        scope.wait_all(&mut requests)
    })?;
    for (call, buffers) in calls.iter().zip(&buffers) {
        call.check(me, size, &buffers.data);
    }
    let expected: Vec<Vec<u64>> = messages.iter().map(|&len| noises(!0, previous, len)).collect();
    assert_eq!(got, expected, "messages of rank {previous}");
    Ok(())
}

/// The numbers that a seed draws, alike on all ranks: SplitMix64 (Steele, Lea, Flood 2014).
struct Draw(u64);

impl Draw {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound
    }

    /// Elements: often few, sometimes none, seldom many.
    fn length(&mut self) -> usize {
        let most = if self.below(8) == 0 { 600 } else { 40 };
        self.below(most) as usize
    }
}

/// Element `index` of what rank `rank` gives.
fn noise(seed: u64, rank: u32, index: usize) -> u64 {
    Draw(seed ^ (u64::from(rank) << 40) ^ ((index as u64) << 8)).next()
}

fn noises(seed: u64, rank: u32, len: usize) -> Vec<u64> {
    (0..len).map(|index| noise(seed, rank, index)).collect()
}

/// Composition of maps x -> a x + b, of which the halves of a word are a and b: associative, does
/// not commute.
struct ComposeAffine;

impl Reduce<u64> for ComposeAffine {
    const COMMUTES: bool = false;
    fn reduce(left: u64, right: u64) -> u64 {
        let ([a, b], [c, d]) = ([left >> 32, left & 0xFFFF_FFFF], [right >> 32, right & 0xFFFF_FFFF]);
        let halves = [a.wrapping_mul(c), a.wrapping_mul(d).wrapping_add(b)];
        (halves[0] << 32) | (halves[1] & 0xFFFF_FFFF)
    }
}

/// A call, the same on all ranks.
#[derive(Debug)]
struct SequenceCall {
    operation: Operation,
    options: Options,
    commutes: bool,
    root: u32,
    count: usize,
    scratch: usize,
    seed: u64,
}

/// A rank's buffers of a call.
struct Buffers {
    input: Vec<u64>,
    data: Vec<u64>,
    scratch: Vec<u64>,
}

impl SequenceCall {
    fn draw(draw: &mut Draw, size: u32) -> Self {
        let operation = OPERATIONS[draw.below(OPERATIONS.len() as u64) as usize];
        let (commutes, root, count) = (draw.below(3) > 0, draw.below(size.into()) as u32, draw.length());
        // Enough for one element at the least by whatever is chosen; often for all.
        let scratch = 1 + draw.below(1 + 2 * (count * size as usize) as u64) as usize;
        let known = algorithms(operation);
        let fits = |one: &&Candidate| {
            one.serves(size) && (commutes || one.keeps_rank_order()) && least_scratch(**one, size) <= scratch
        };
        let chosen = known.get(draw.below(known.len() as u64 + 3) as usize).filter(fits);
        let options = chosen.map_or_else(Options::default, |&known| Options::using(known));
        Self { operation, options, commutes, root, count, scratch, seed: draw.next() }
    }

    fn given(&self, rank: u32, len: usize) -> Vec<u64> {
        noises(self.seed, rank, len)
    }

    fn buffers(&self, me: u32, size: u32) -> Buffers {
        let all = self.count * size as usize;
        let own_in_place = || {
            let mut data = vec![0; all];
            data[me as usize * self.count..][..self.count].copy_from_slice(&self.given(me, self.count));
            data
        };
        let data = match self.operation {
            Operation::Allgather => own_in_place(),
            Operation::Gather if me == self.root => own_in_place(),
            Operation::Scatter if me == self.root => self.given(me, all),
            Operation::Alltoall => vec![0; all],
            _ => self.given(me, self.count),
        };
        let input = if self.operation == Operation::Alltoall { self.given(me, all) } else { Vec::new() };
        Buffers { input, data, scratch: vec![0; self.scratch] }
    }

    fn start<'scope, T: Transport, P: Platform>(
        &self,
        scope: &mut Scope<'scope, '_, '_, T, P>,
        comm: &Comm,
        buffers: &'scope mut Buffers,
    ) -> Result<Collective<'scope>, Error> {
        let (options, root) = (&self.options, Rank(self.root));
        let Buffers { input, data, scratch } = buffers;
        macro_rules! reduced_by {
            ($op:ident) => {
                match self.operation {
                    Operation::Reduce => reduce($op, data, scratch, root).with(&options).start(scope, comm),
                    Operation::Scan => scan($op, data, scratch).with(&options).start(scope, comm),
                    Operation::Exscan => exscan($op, data, scratch).with(&options).start(scope, comm),
                    _ => allreduce($op, data, scratch).with(&options).start(scope, comm),
                }
            };
        }
        match self.operation {
            Operation::Barrier => barrier().with(options).start(scope, comm),
            Operation::Bcast => bcast(data, root).with(options).start(scope, comm),
            Operation::Gather => gather(data, scratch, root).with(options).start(scope, comm),
            Operation::Scatter => scatter(data, scratch, root).with(options).start(scope, comm),
            Operation::Allgather => allgather(data).with(options).start(scope, comm),
            Operation::Alltoall => alltoall(input, data, scratch).with(options).start(scope, comm),
            _ if self.commutes => reduced_by!(Sum),
            _ => reduced_by!(ComposeAffine),
        }
    }

    /// Returns the `count` elements that the data of the first `ranks` ranks reduce to.
    fn reduced(&self, ranks: u32) -> Vec<u64> {
        let reduce = |index| {
            let operands = (0..ranks).map(|rank| noise(self.seed, rank, index));
            operands.reduce(if self.commutes { u64::wrapping_add } else { ComposeAffine::reduce })
        };
        (0..self.count).filter_map(reduce).collect()
    }

    /// Looks at what a rank has in the end, where that is defined.
    fn check(&self, me: u32, size: u32, data: &[u64]) {
        let (all, own) = (self.count * size as usize, me as usize * self.count);
        let blocks = |of: &dyn Fn(u32) -> Vec<u64>| (0..size).flat_map(of).collect::<Vec<_>>();
        let is_root = me == self.root;
        let (data, expected) = match self.operation {
            Operation::Bcast => (data, self.given(self.root, self.count)),
            Operation::Gather | Operation::Reduce if !is_root => return,
            Operation::Gather | Operation::Allgather => (data, blocks(&|rank| self.given(rank, self.count))),
            Operation::Scatter => {
                let mine = if is_root { &data[own..][..self.count] } else { data };
                (mine, self.given(self.root, all)[own..][..self.count].to_vec())
            }
            Operation::Alltoall => {
                (data, blocks(&|rank| self.given(rank, all)[own..][..self.count].to_vec()))
            }
            Operation::Scan => (data, self.reduced(me + 1)),
            Operation::Exscan => (data, self.reduced(me.max(1))),
            Operation::Reduce | Operation::Allreduce => (data, self.reduced(size)),
            _ => return,
        };
        assert_eq!(data, expected, "rank {me} of {size}: {self:?}");
    }
}

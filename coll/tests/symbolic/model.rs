//! A job of all ranks of a schedule on symbolic values.
//!
//! Every ordered pair of ranks has a FIFO channel on which a send completes only together with its
//! receive, the strictest reading of the contract: what completes here completes under any
//! buffering. A value is a leaf (an element that a rank started with) or an expression of two
//! values; expressions are interned, so that equal numbers mean the same operands combined in the
//! same order: the same bits in floating point.

mod ends;

use std::collections::{HashMap, VecDeque};

use aldis_coll::schedule::{Buffer, IN_FLIGHT_MAX, Instance, Order, Schedule, Span, Step, Work};
use rustc_hash::FxBuildHasher;

pub(crate) use self::ends::RankExpressions;
use crate::{blocks, inter};

/// The fault of a schedule.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum ScheduleFault {
    /// The job stopped with this rank still in this round.
    Deadlock { rank: u32, round: u32 },
    /// A message that no rank received, or a receive that no rank served, when all ranks were done.
    Unmatched { from: u32, to: u32 },
    /// A message met a receive of another length.
    Length { from: u32, to: u32, sent: usize, room: usize },
    /// A peer outside the job, or the rank itself.
    Peer { rank: u32, round: u32, peer: u32 },
    /// A span outside its buffer.
    Range { rank: u32, round: u32, span: Span },
    /// Two spans of a round that must not share an element.
    Overlap { rank: u32, round: u32 },
    /// A value used before it was written.
    Undefined { rank: u32, round: u32 },
    /// Receives, sends and local steps out of that order, or too many messages.
    Form { rank: u32, round: u32 },
    /// Ranks that disagree about the number of rounds.
    Rounds { rank: u32 },
    /// An element that ended wrong.
    Wrong { rank: u32, element: usize },
    /// Operands not in the order of their ranks, although the schedule promises it.
    RankOrder { element: usize },
    /// A rank that left a barrier without a signal of this one.
    Unheard { rank: u32, of: u32 },
    /// Blocks that are taken for others where they are reduced.
    Block { rank: u32 },
}

/// The messages and elements counted while the job ran.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct JobCount {
    pub(crate) messages: u64,
    pub(crate) elements: u64,
}

/// The heaviest rank of a round.
#[derive(Clone, Copy, Default)]
pub(crate) struct Heaviest {
    /// Sent, or received, whichever are more; so are elements.
    pub(crate) messages: u64,
    pub(crate) elements: u64,
    pub(crate) reduced: u64,
    pub(crate) copied: u64,
}

/// A value's number: leaves first (rank * count + element), then expressions.
pub(crate) type Value = usize;
pub(crate) const UNDEFINED: Value = usize::MAX;

pub(crate) struct Rank {
    pub(crate) instance: Instance,
    round: u32,
    pending: usize,
    pub(crate) data: Vec<Value>,
    input: Vec<Value>,
    scratch: Vec<Value>,
    /// Bit set of the ranks that this one has a signal of.
    heard: Vec<u64>,
    /// The work that it has done in all rounds.
    share: Work,
}

struct Message {
    /// Elements before the end of the circle of blocks, if it goes past that.
    cut: Option<usize>,
    block: Option<usize>,
    values: Vec<Value>,
    heard: Vec<u64>,
}

#[derive(Default)]
struct ModelChannel {
    sends: VecDeque<Message>,
    recvs: VecDeque<Span>,
}

pub(crate) struct Job<'a> {
    pub(crate) schedule: &'a dyn Schedule,
    pub(crate) size: u32,
    pub(crate) count: usize,
    pub(crate) root: u32,
    /// True if the data are the input of an operation that reads one.
    pub(crate) in_place: bool,
    pub(crate) ranks: Vec<Rank>,
    channels: HashMap<(u32, u32), ModelChannel, FxBuildHasher>,
    expressions: Vec<(Value, Value)>,
    interned: HashMap<(Value, Value), Value, FxBuildHasher>,
    /// Elements that all ranks start with.
    leaves: usize,
    runnable: VecDeque<u32>,
    pub(crate) total: JobCount,
    pub(crate) rounds: Vec<Heaviest>,
}

/// The ranks of a job, its root, and the elements of a rank.
#[derive(Clone, Copy)]
pub(crate) struct JobShape {
    pub(crate) size: u32,
    pub(crate) root: u32,
    pub(crate) count: usize,
}

impl<'a> Job<'a> {
    /// Runs the schedule to its end on `scratch` elements of scratch a rank.
    pub(crate) fn run(
        schedule: &'a dyn Schedule,
        shape: JobShape,
        scratch: usize,
    ) -> Result<Self, ScheduleFault> {
        Self::new(schedule, shape, scratch, false)?.run_on()
    }

    /// Runs the schedule in place to its end on `scratch` elements of scratch a rank.
    pub(crate) fn run_in_place(
        schedule: &'a dyn Schedule,
        size: u32,
        count: usize,
        scratch: usize,
    ) -> Result<Self, ScheduleFault> {
        Self::new(schedule, JobShape { size, root: 0, count }, scratch, true)?.run_on()
    }

    fn run_on(self) -> Result<Self, ScheduleFault> {
        let mut job = self;
        while let Some(rank) = job.runnable.pop_front() {
            job.advance(rank)?;
        }
        job.check_ended()?;
        Ok(job)
    }

    fn new(
        schedule: &'a dyn Schedule,
        shape: JobShape,
        scratch: usize,
        in_place: bool,
    ) -> Result<Self, ScheduleFault> {
        let JobShape { size, root, count } = shape;
        let words = (size as usize).div_ceil(64);
        let ranks = (0..size).map(|rank| {
            let mut heard = vec![0; words];
            heard[rank as usize / 64] = 1 << (rank % 64);
            let instance = inter::instance(schedule, rank, shape);
            let (data, input) = blocks::initial(schedule, &instance, in_place);
            Rank {
                instance,
                round: 0,
                pending: 0,
                data,
                input,
                scratch: vec![UNDEFINED; scratch],
                heard,
                share: Work::default(),
            }
        });
        let ranks: Vec<_> = ranks.collect();
        let rounds = schedule.rounds(&ranks[0].instance);
        if let Some(odd) = ranks.iter().find(|rank| schedule.rounds(&rank.instance) != rounds) {
            return Err(ScheduleFault::Rounds { rank: odd.instance.rank() });
        }
        let mut job = Self {
            schedule,
            size,
            count,
            root,
            in_place,
            ranks,
            channels: HashMap::default(),
            expressions: Vec::new(),
            interned: HashMap::default(),
            leaves: blocks::leaves(schedule, size, count),
            runnable: (0..size).collect(),
            total: JobCount::default(),
            rounds: vec![Heaviest::default(); rounds as usize],
        };
        for rank in 0..size {
            job.post(rank)?;
        }
        Ok(job)
    }

    fn rounds_max(&self) -> u32 {
        self.rounds.len() as u32
    }

    fn steps(&self, rank: u32) -> Vec<Step> {
        let Rank { instance, round, .. } = &self.ranks[rank as usize];
        (0..).map_while(|index| self.schedule.step(instance, *round, index)).collect()
    }

    /// Posts the messages of the round that `rank` has entered.
    fn post(&mut self, rank: u32) -> Result<(), ScheduleFault> {
        let round = self.ranks[rank as usize].round;
        if round >= self.rounds_max() {
            return Ok(());
        }
        let steps = self.steps(rank);
        self.check_form(rank, round, &steps)?;
        let (mut sent, mut received) = (Heaviest::default(), Heaviest::default());
        for step in &steps {
            match *step {
                Step::Recv { from, into } => {
                    self.check_message(rank, round, from, into)?;
                    received.messages += 1;
                    received.elements += into.len as u64;
                    self.channels.entry((from, rank)).or_default().recvs.push_back(into);
                    self.matched(from, rank)?;
                }
                Step::Send { to, from } => {
                    self.check_message(rank, round, to, from)?;
                    sent.messages += 1;
                    sent.elements += from.len as u64;
                    let (cut, values) = (self.cut(from), self.read(rank, from)?);
                    let heard = self.ranks[rank as usize].heard.clone();
                    let message = Message { cut, block: self.block(rank, from), values, heard };
                    self.channels.entry((rank, to)).or_default().sends.push_back(message);
                    self.matched(rank, to)?;
                }
                Step::Reduce { into, .. } => sent.reduced += into.len as u64,
                Step::Copy { into, .. } => sent.copied += into.len as u64,
            }
        }
        self.total.messages += sent.messages;
        self.total.elements += sent.elements;
        let (messages, elements) =
            (sent.messages.max(received.messages), sent.elements.max(received.elements));
        let heaviest = &mut self.rounds[round as usize];
        heaviest.messages = heaviest.messages.max(messages);
        heaviest.elements = heaviest.elements.max(elements);
        heaviest.reduced = heaviest.reduced.max(sent.reduced);
        heaviest.copied = heaviest.copied.max(sent.copied);
        let share = &mut self.ranks[rank as usize].share;
        share.rounds += u64::from(messages > 0);
        share.fan += messages.saturating_sub(1);
        share.elements += elements;
        share.reduced += sent.reduced;
        share.copied += sent.copied;
        Ok(())
    }

    /// Receives, then sends, then local steps; few enough; no overlaps.
    fn check_form(&mut self, rank: u32, round: u32, steps: &[Step]) -> Result<(), ScheduleFault> {
        let class = |step: &Step| match step {
            Step::Recv { .. } => 0,
            Step::Send { .. } => 1,
            _ => 2,
        };
        let messages = steps.iter().filter(|step| step.is_message()).count();
        if !steps.is_sorted_by_key(class) || messages > IN_FLIGHT_MAX {
            return Err(ScheduleFault::Form { rank, round });
        }
        self.ranks[rank as usize].pending += messages;
        for (index, step) in steps.iter().enumerate() {
            let overlap = match step {
                Step::Recv { into, .. } => steps.iter().take(messages).enumerate().any(|(other, step)| {
                    other != index
                        && match step {
                            Step::Recv { into: span, .. } | Step::Send { from: span, .. } => {
                                self.overlap(span, into)
                            }
                            _ => false,
                        }
                }),
                Step::Copy { into, from } if self.is_idle(into, from) => false,
                Step::Reduce { into, from, .. } | Step::Copy { into, from } => self.overlap(into, from),
                Step::Send { .. } => false,
            };
            if overlap {
                return Err(ScheduleFault::Overlap { rank, round });
            }
        }
        Ok(())
    }

    fn check_message(&self, rank: u32, round: u32, peer: u32, span: Span) -> Result<(), ScheduleFault> {
        if peer >= self.size || peer == rank {
            return Err(ScheduleFault::Peer { rank, round, peer });
        }
        self.check_range(rank, span)
    }

    fn check_range(&self, rank: u32, span: Span) -> Result<(), ScheduleFault> {
        let state = &self.ranks[rank as usize];
        let len = match span.buffer {
            Buffer::Data => state.data.len(),
            Buffer::Scratch => state.scratch.len(),
            Buffer::Input if self.in_place => state.data.len(),
            Buffer::Input => state.input.len(),
            _ => 0,
        };
        let is_inside = self.parts(span).iter().all(|part| part.end() <= len) && self.is_there(rank, span);
        if is_inside { Ok(()) } else { Err(ScheduleFault::Range { rank, round: state.round, span }) }
    }

    fn buffer(&mut self, rank: u32, buffer: Buffer) -> &mut Vec<Value> {
        let state = &mut self.ranks[rank as usize];
        match buffer {
            Buffer::Data => &mut state.data,
            Buffer::Input if self.in_place => &mut state.data,
            Buffer::Input => &mut state.input,
            _ => &mut state.scratch,
        }
    }

    fn read(&mut self, rank: u32, span: Span) -> Result<Vec<Value>, ScheduleFault> {
        self.check_range(rank, span)?;
        let round = self.ranks[rank as usize].round;
        let parts = self.parts(span);
        let values =
            parts.map(|part| self.buffer(rank, span.buffer)[part.start..part.end()].to_vec()).concat();
        if values.contains(&UNDEFINED) { Err(ScheduleFault::Undefined { rank, round }) } else { Ok(values) }
    }

    /// Puts values where they go.
    fn put(&mut self, rank: u32, into: Span, values: &[Value]) {
        let mut values = values;
        for part in self.parts(into) {
            let (now, later) = values.split_at(part.len);
            self.buffer(rank, into.buffer)[part.start..part.end()].copy_from_slice(now);
            values = later;
        }
    }

    /// Delivers what can be delivered from `from` to `to`.
    fn matched(&mut self, from: u32, to: u32) -> Result<(), ScheduleFault> {
        let channel = self.channels.get_mut(&(from, to)).unwrap();
        if channel.sends.is_empty() || channel.recvs.is_empty() {
            return Ok(());
        }
        let (message, into) = (channel.sends.pop_front().unwrap(), channel.recvs.pop_front().unwrap());
        let (sent, room) = (message.values.len(), into.len);
        if sent != room || message.cut != self.cut(into) || into.buffer == Buffer::Input {
            return Err(ScheduleFault::Length { from, to, sent, room });
        }
        if message.block != self.block(to, into) {
            return Err(ScheduleFault::Block { rank: to });
        }
        self.put(to, into, &message.values);
        let heard = &mut self.ranks[to as usize].heard;
        heard.iter_mut().zip(&message.heard).for_each(|(word, more)| *word |= more);
        for rank in [from, to] {
            let state = &mut self.ranks[rank as usize];
            state.pending -= 1;
            if state.pending == 0 {
                self.runnable.push_back(rank);
            }
        }
        Ok(())
    }

    /// Ends the round of a rank whose messages are complete, and enters the next ones.
    fn advance(&mut self, rank: u32) -> Result<(), ScheduleFault> {
        while self.ranks[rank as usize].pending == 0 {
            if self.ranks[rank as usize].round >= self.rounds_max() {
                return Ok(());
            }
            for step in self.steps(rank) {
                if let Step::Reduce { into, from, .. } | Step::Copy { into, from } = step
                    && self.block(rank, into) != self.block(rank, from)
                {
                    return Err(ScheduleFault::Block { rank });
                }
                match step {
                    Step::Reduce { into, from, order } => self.reduce(rank, into, from, order)?,
                    Step::Copy { into, from } => {
                        let values = self.read(rank, from)?;
                        self.write(rank, into, values)?;
                    }
                    Step::Recv { .. } | Step::Send { .. } => {}
                }
            }
            self.ranks[rank as usize].round += 1;
            self.post(rank)?;
        }
        Ok(())
    }

    fn write(&mut self, rank: u32, into: Span, values: Vec<Value>) -> Result<(), ScheduleFault> {
        self.check_range(rank, into)?;
        let (sent, room) = (values.len(), into.len);
        if sent != room {
            return Err(ScheduleFault::Length { from: rank, to: rank, sent, room });
        }
        self.put(rank, into, &values);
        Ok(())
    }

    fn reduce(&mut self, rank: u32, into: Span, from: Span, order: Order) -> Result<(), ScheduleFault> {
        let own = self.read(rank, into)?;
        let other = self.read(rank, from)?;
        let (left, right) = if order == Order::IntoFirst { (own, &other) } else { (other, &own) };
        if left.len() != right.len() {
            return Err(ScheduleFault::Length { from: rank, to: rank, sent: from.len, room: into.len });
        }
        let combined = left.iter().zip(right).map(|(&left, &right)| self.intern(left, right)).collect();
        self.write(rank, into, combined)
    }

    fn intern(&mut self, left: Value, right: Value) -> Value {
        let (leaves, expressions) = (self.leaves, &mut self.expressions);
        *self.interned.entry((left, right)).or_insert_with(|| {
            expressions.push((left, right));
            leaves + expressions.len() - 1
        })
    }

    /// The work on the critical path.
    pub(crate) fn work(&self) -> Work {
        let sum = |of: fn(&Heaviest) -> u64| self.rounds.iter().map(of).sum();
        Work {
            rounds: sum(|round| round.messages.min(1)),
            fan: sum(|round| round.messages.saturating_sub(1)),
            elements: sum(|round| round.elements),
            reduced: sum(|round| round.reduced),
            copied: sum(|round| round.copied),
        }
    }

    /// The most that any one rank has done over all rounds.
    pub(crate) fn share(&self) -> Work {
        let most = |of: fn(&Work) -> u64| self.ranks.iter().map(|rank| of(&rank.share)).max().unwrap_or(0);
        Work {
            rounds: most(|share| share.rounds),
            fan: most(|share| share.fan),
            elements: most(|share| share.elements),
            reduced: most(|share| share.reduced),
            copied: most(|share| share.copied),
        }
    }

    fn check_ended(&self) -> Result<(), ScheduleFault> {
        let stuck = |rank: &&Rank| rank.round < self.rounds_max();
        // The rank that is furthest behind names the cause; the others wait for it.
        if let Some(rank) = self.ranks.iter().filter(stuck).min_by_key(|rank| rank.round) {
            return Err(ScheduleFault::Deadlock { rank: rank.instance.rank(), round: rank.round });
        }
        let left = |channel: &ModelChannel| !channel.sends.is_empty() || !channel.recvs.is_empty();
        match self.channels.iter().find(|(_, channel)| left(channel)) {
            Some((&(from, to), _)) => Err(ScheduleFault::Unmatched { from, to }),
            None => Ok(()),
        }
    }
}

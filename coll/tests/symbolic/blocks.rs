//! Operations on blocks: what each rank starts and ends with, and spans that go around the circle
//! of blocks.

use aldis_coll::schedule::{Buffer, Instance, Schedule, Span, on_blocks};
use aldis_kernel::hal::Operation;

use crate::inter;
use crate::model::{Job, ScheduleFault, UNDEFINED, Value};

/// Returns true if an algorithm works on its data alone although its operation has input.
fn is_in_place(schedule: &dyn Schedule) -> bool {
    schedule.name() == "in_place"
}

/// Returns true if the algorithm reduces blocks: then each span of them says which they are.
pub(crate) fn reduces(schedule: &dyn Schedule) -> bool {
    schedule.operation() == Operation::ReduceScatterBlock
}

/// The elements that ranks start with, in all.
pub(crate) fn leaves(schedule: &dyn Schedule, size: u32, count: usize) -> usize {
    let blocks = if reduces(schedule) { size as usize } else { 1 };
    blocks * size as usize * count
}

/// Data and input that a rank starts with. In place, data are the input of an operation that reads
/// one.
pub(crate) fn initial(
    schedule: &dyn Schedule,
    instance: &Instance,
    in_place: bool,
) -> (Vec<Value>, Vec<Value>) {
    let (rank, size, count) = (instance.rank() as usize, instance.size() as usize, instance.count());
    let first = rank * count;
    let own = || (0..size * count).map(|at| if at / count == rank { at } else { UNDEFINED }).collect();
    let all = |first: usize| (first..first + size * count).collect::<Vec<_>>();
    match schedule.operation() {
        operation if schedule.crosses() && on_blocks(operation) => inter::initial(schedule, instance),
        Operation::Gather | Operation::Allgather => (own(), vec![]),
        Operation::Scatter if instance.rank() == instance.root() => (all(0), vec![]),
        Operation::Scatter => (vec![UNDEFINED; size * count], vec![]),
        Operation::Alltoall if is_in_place(schedule) => (all(first * size), vec![]),
        Operation::ReduceScatterBlock if in_place => (all(first * size), vec![]),
        Operation::ReduceScatterBlock => (vec![UNDEFINED; size * count], all(first * size)),
        Operation::Alltoall => (vec![UNDEFINED; size * count], all(first * size)),
        _ => ((first..first + count).collect(), vec![]),
    }
}

impl Job<'_> {
    /// Elements of the circle of blocks.
    fn circle(&self) -> Option<usize> {
        on_blocks(self.schedule.operation()).then_some(self.size as usize * self.count)
    }

    /// Returns the place on the circle where a span begins.
    fn begin(&self, span: Span) -> usize {
        if span.buffer == Buffer::Scratch { span.first_held() as usize * self.count } else { span.start }
    }

    /// The block that a span of a rank begins with, where blocks are reduced: of two groups, the
    /// rank that it is for.
    pub(crate) fn block(&self, rank: u32, span: Span) -> Option<usize> {
        if !reduces(self.schedule) || span.len == 0 {
            return None;
        }
        let [_, others] = self.ranks[rank as usize].instance.groups();
        let before = match span.buffer {
            Buffer::Data if self.schedule.crosses() => rank as usize,
            Buffer::Input if self.schedule.crosses() => others.start as usize,
            _ => 0,
        };
        Some(before + self.begin(span) / self.count)
    }

    /// Elements of a span before the end of the circle, if it goes past that.
    pub(crate) fn cut(&self, span: Span) -> Option<usize> {
        let (circle, begin) = (self.circle()?, self.begin(span));
        (begin + span.len > circle && begin < circle).then(|| circle - begin)
    }

    /// A span's stretches.
    pub(crate) fn parts(&self, span: Span) -> [Span; 2] {
        match self.cut(span) {
            None => [span, Span { start: 0, len: 0, ..span }],
            Some(cut) => {
                // Before the start of scratch there is nothing.
                let again = span.start.checked_sub(self.begin(span)).unwrap_or(usize::MAX / 2);
                [Span { len: cut, ..span }, Span { start: again, len: span.len - cut, ..span }]
            }
        }
    }

    /// Returns the place of a span of the input: in the data, if the operation is in place.
    fn at(&self, span: Span) -> Span {
        let is_data = self.in_place && span.buffer == Buffer::Input;
        if is_data { Span::data(span.start, span.len) } else { span }
    }

    pub(crate) fn overlap(&self, one: &Span, other: &Span) -> bool {
        let others = self.parts(self.at(*other));
        self.parts(self.at(*one)).iter().any(|one| others.iter().any(|other| one.overlaps(other)))
    }

    /// Returns true if a copy is of what stands there already.
    pub(crate) fn is_idle(&self, into: &Span, from: &Span) -> bool {
        self.in_place && from.buffer == Buffer::Input && self.at(*from) == *into
    }

    /// Returns true if a rank has all that a span names: in a gather and a scatter only the root
    /// has others' blocks, and a reduction that is scattered writes its own.
    pub(crate) fn is_there(&self, rank: u32, span: Span) -> bool {
        let operation = self.schedule.operation();
        let rooted = matches!(operation, Operation::Gather | Operation::Scatter) && rank != self.root;
        let scattered = reduces(self.schedule) && !self.schedule.crosses();
        if !(rooted || scattered) || span.buffer != Buffer::Data || span.len == 0 {
            return true;
        }
        (span.start, span.len) == (rank as usize * self.count, self.count)
    }

    /// Every rank ends with what the operation says.
    pub(crate) fn check_blocks(&self) -> Result<(), ScheduleFault> {
        let (count, size) = (self.count, self.size as usize);
        for state in &self.ranks {
            let rank = state.instance.rank() as usize;
            // Of each block that the rank ends with, the value that it begins with; they rise.
            let begins_with = |block: usize| match self.schedule.operation() {
                Operation::Gather if rank != self.root as usize => None,
                Operation::Gather | Operation::Allgather => Some(block * count),
                Operation::Scatter => (block == rank).then_some(block * count),
                _ => Some((block * size + rank) * count),
            };
            for block in 0..size {
                let Some(first) = begins_with(block) else { continue };
                let values = &state.data[block * count..][..count];
                if let Some(at) = values.iter().zip(first..).position(|(value, expected)| *value != expected)
                {
                    return Err(ScheduleFault::Wrong { rank: rank as u32, element: block * count + at });
                }
            }
        }
        Ok(())
    }
}

//! Messages of datatypes: scattered at the sender in one way and at the receiver in another, freed
//! while they are under way, probed, cut off, and received as bytes.

use aldis_kernel::datatype::{Basic, Committed, Field, Form, Types};
use aldis_kernel::hal::{Cause, Platform, Transport};
use aldis_kernel::plane::prelude::*;
use aldis_kernel::{Comm, Endpoint, Error, Rank, Request, Scope, Status, Tag, Typed, TypedMut};

use super::{Outcome, Random, message};

/// Tag of the first message of a round.
const MESSAGES: u32 = 70;
/// Elements of the longest scattered message: each takes words of the table.
const SCATTERED_MAX: usize = 40;
/// The byte in memory that no data comes to.
const GAP: u8 = 0xA5;

/// The kind of an element: fields with offset and size, as far apart as the extent.
#[derive(Clone, Copy)]
enum ElementKind {
    Basic(Basic),
    /// A byte, a word and a double with padding between.
    Cell,
}

impl ElementKind {
    fn fields(self) -> Vec<(usize, usize)> {
        match self {
            Self::Basic(basic) => vec![(0, basic.size())],
            Self::Cell => vec![(0, 1), (4, 4), (8, 8)],
        }
    }

    fn extent(self) -> usize {
        match self {
            Self::Basic(basic) => basic.size(),
            Self::Cell => 16,
        }
    }

    fn size(self) -> usize {
        self.fields().iter().map(|(_, size)| size).sum()
    }
}

/// The places of elements, in extents from the start of the memory.
#[derive(Clone)]
enum ElementShape {
    /// Each behind the one before.
    Row,
    /// A column of a matrix of this width.
    Column { width: usize },
    /// Wherever they are.
    Scattered(Vec<i64>),
}

impl ElementShape {
    fn random(random: &mut Random, count: usize) -> Self {
        match random.below(if count <= SCATTERED_MAX { 3 } else { 2 }) {
            0 => Self::Row,
            1 => Self::Column { width: random.within(1, 5) as usize },
            _ => {
                let mut places: Vec<i64> = (0..count as i64).map(|place| place * 2).collect();
                for last in (1..places.len()).rev() {
                    places.swap(last, random.below(last as u64 + 1) as usize);
                }
                Self::Scattered(places)
            }
        }
    }

    fn place(&self, index: usize) -> usize {
        match self {
            Self::Row => index,
            Self::Column { width } => index * width,
            Self::Scattered(places) => places[index] as usize,
        }
    }

    /// The type of `count` elements, and nothing else that is left in the table.
    fn make(&self, types: &mut Types<'_>, element: ElementKind, count: usize) -> Result<Committed, Cause> {
        let cell = match element {
            ElementKind::Basic(basic) => basic.into(),
            ElementKind::Cell => types.structure(&[
                Field::new(0, Basic::U8),
                Field::new(4, Basic::U32),
                Field::new(8, Basic::F64),
            ])?,
        };
        let made = match self {
            Self::Row => types.contiguous(count as u64, cell),
            Self::Column { width } => types.vector(count as u64, 1, *width as i64, cell),
            Self::Scattered(places) => types.indexed_block(1, &places[..count], cell),
        };
        if cell.basic().is_none() {
            types.free(cell)?;
        }
        types.commit(made?)
    }
}

/// A message, as all ranks draw it.
struct TypedPlan {
    element: ElementKind,
    count: usize,
    from: ElementShape,
    into: ElementShape,
    /// The receiver has room for that many elements.
    room: usize,
    as_bytes: bool,
    checked: bool,
    synchronous: bool,
    number: u64,
}

impl TypedPlan {
    fn random(random: &mut Random, number: u64) -> Self {
        let basics = [Basic::Byte, Basic::I16, Basic::F32, Basic::U64];
        let element =
            if random.chance(30) { ElementKind::Cell } else { ElementKind::Basic(*random.pick(&basics)) };
        let count = match random.below(3) {
            0 => random.below(4),
            1 => random.below(40),
            _ => random.below(300),
        } as usize;
        let (from, into) = (ElementShape::random(random, count), ElementShape::random(random, count));
        let room = if random.chance(20) { random.below(count as u64 + 1) as usize } else { count };
        let [as_bytes, checked, synchronous] = [25, 40, 30].map(|percent| random.chance(percent));
        Self { element, count, from, into, room, as_bytes, checked, synchronous, number }
    }

    /// Memory that the elements fit into, shaped like that.
    fn memory(&self, shape: &ElementShape, count: usize) -> usize {
        (0..count).map(|index| (shape.place(index) + 1) * self.element.extent()).max().unwrap_or(0)
    }

    fn sent(&self, from: u32) -> Vec<u8> {
        message(from, self.number, self.memory(&self.from, self.count))
    }

    /// Returns element `index` of the sender's `memory`, field by field.
    fn fields<'m>(&self, memory: &'m [u8], index: usize) -> impl Iterator<Item = &'m [u8]> {
        let start = self.from.place(index) * self.element.extent();
        self.element.fields().into_iter().map(move |(at, size)| &memory[start + at..][..size])
    }

    /// Returns the bytes that the receiver's memory is to hold.
    fn received(&self, from: u32) -> Vec<u8> {
        let sent = self.sent(from);
        if self.as_bytes {
            let fields = (0..self.room).flat_map(|index| self.fields(&sent, index));
            return fields.flatten().copied().collect();
        }
        let mut memory = self.blank();
        for index in 0..self.room {
            let start = self.into.place(index) * self.element.extent();
            for (field, (at, size)) in self.fields(&sent, index).zip(self.element.fields()) {
                memory[start + at..][..size].copy_from_slice(field);
            }
        }
        memory
    }

    fn blank(&self) -> Vec<u8> {
        let bytes = self.room * self.element.size();
        vec![GAP; if self.as_bytes { bytes } else { self.memory(&self.into, self.room) }]
    }

    /// Returns the status of the receive, if it has room for the message.
    fn due(&self, from: Rank, tag: Tag) -> Status {
        Status { source: from, tag, bytes: (self.count * self.element.size()) as u64 }
    }

    /// Checks how the receive of the message that is `due` has ended.
    fn judge<T: Transport, P: Platform>(
        &self,
        ep: &mut Endpoint<'_, T, P>,
        due: Status,
        buffer: &[u8],
        result: Result<Status, Error>,
    ) -> Outcome {
        let (from, bytes) = (due.source, due.bytes);
        let room = (self.room * self.element.size()) as u64;
        match result {
            Ok(status) if bytes <= room => {
                let elements = ep.types()?.count(Basic::Byte, Form::Native, status.bytes)?;
                if status != due || elements != bytes {
                    return Err(format!("{due:?} was due, {status:?} came").into());
                }
            }
            Err(error) if error.cause == (Cause::Truncated { sent: bytes, room }) && bytes > room => {}
            Ok(status) => return Err(format!("{status:?} came into a room of {room} bytes").into()),
            Err(error) => return Err(error.into()),
        }
        let due = self.received(from.0);
        match buffer.iter().zip(&due).position(|(is, due)| is != due) {
            Some(at) => Err(format!("message {:x} of rank {from}: byte {at} is wrong", self.number).into()),
            None if buffer.len() == due.len() => Ok(()),
            None => Err("a buffer of another size".into()),
        }
    }
}

/// In each round every rank sends messages to one some way ahead, and receives those of the one as
/// far behind.
pub(super) fn run<T: Transport, P: Platform>(ep: &mut Endpoint<'_, T, P>, seed: u64) -> Outcome {
    let mut random = Random::new(seed, 31);
    let room = ep.types()?.room();
    for round in 0..random.within(1, 5) {
        let (distance, first) = (random.below(8) as u32, seed ^ round << 8);
        let plans: Vec<_> =
            (0..random.within(1, 5)).map(|index| TypedPlan::random(&mut random, first + index)).collect();
        let probed = random.chance(30);
        exchange(ep, distance, &plans, probed)?;
        if ep.types()?.room() != room {
            return Err("a type is left in the table".into());
        }
    }
    Ok(())
}

fn exchange<T: Transport, P: Platform>(
    ep: &mut Endpoint<'_, T, P>,
    distance: u32,
    plans: &[TypedPlan],
    probed: bool,
) -> Outcome {
    let world = ep.world();
    let (me, size) = (world.rank().0, world.size());
    let distance = distance % size;
    let (to, from) = (Rank((me + distance) % size), Rank((me + size - distance) % size));
    let data: Vec<_> = plans.iter().map(|plan| plan.sent(me)).collect();
    let mut buffers: Vec<_> = plans.iter().map(TypedPlan::blank).collect();
    let mut results = Vec::new();
    ep.scope(|scope| {
        let mut sending = Vec::new();
        if probed {
            sending = send_all(scope, &world, to, plans.iter().zip(&data))?;
        }
        let mut receiving = Vec::new();
        for ((tag, plan), buffer) in (MESSAGES..).zip(plans).zip(&mut buffers) {
            if plan.as_bytes {
                receiving.push(scope.irecv(&world, buffer, from, Tag(tag))?);
                continue;
            }
            let types = scope.types()?;
            let datatype = plan.into.make(types, plan.element, plan.room)?;
            receiving.push(scope.irecv_typed(&world, TypedMut::new(buffer, 1, datatype), from, Tag(tag))?);
            scope.types()?.free(datatype)?;
        }
        if !probed {
            sending = send_all(scope, &world, to, plans.iter().zip(&data))?;
        }
        results = receiving.into_iter().map(|request| scope.wait(request)).collect();
        scope.wait_all(&mut sending)
    })?;
    for (((tag, plan), buffer), result) in (MESSAGES..).zip(plans).zip(&buffers).zip(results) {
        plan.judge(ep, plan.due(from, Tag(tag)), buffer, result)?;
    }
    Ok(())
}

/// Starts to send messages, each with its data.
fn send_all<'scope, 'p, T: Transport, P: Platform>(
    scope: &mut Scope<'scope, '_, '_, T, P>,
    world: &Comm,
    to: Rank,
    messages: impl Iterator<Item = (&'p TypedPlan, &'scope Vec<u8>)>,
) -> Result<Vec<Request<'scope>>, Error> {
    let mut sending = Vec::new();
    for (tag, (plan, data)) in (MESSAGES..).zip(messages) {
        let types = scope.types()?;
        let datatype = plan.from.make(types, plan.element, plan.count)?;
        let mut typed = Typed::new(data, 1, datatype);
        if plan.checked {
            typed = typed.checked();
        }
        if plan.synchronous {
            typed = typed.synchronous();
        }
        sending.push(scope.isend_typed(world, typed, to, Tag(tag))?);
        scope.types()?.free(datatype)?;
    }
    Ok(sending)
}

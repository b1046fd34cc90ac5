//! Blocks of datatypes, which the kernel packs and unpacks: each is sent as a whole, and copied
//! without a message.

use aldis_kernel::hal::{Cause, Operation, Platform, Transport};
use aldis_kernel::plane::prelude::*;
use aldis_kernel::{Comm, Error, Failed, Lent, LentMut, Rank, Request, Scope, Typed, TypedMut};

use super::peers::MessageRoute;
use super::{Collective, CollectiveMemory};
use crate::layout::{Layout, TypedBlock};
use crate::schedule::{Buffer, Instance, Schedule, Span, Step};

/// A block by its number, and the buffer that it is of.
#[derive(Clone, Copy)]
pub(super) struct BlockPlace {
    pub(super) buffer: Buffer,
    pub(super) number: usize,
}

impl<'scope> CollectiveMemory<'scope> {
    /// Returns true if data and input are blocks of datatypes.
    #[inline]
    pub(super) fn is_typed(&self) -> bool {
        matches!(self.blocks.layouts, [Layout::Typed(_), _])
    }

    /// The blocks of a buffer.
    fn typed_blocks(&self, buffer: Buffer) -> &'scope [TypedBlock] {
        let [data, input] = self.blocks.layouts;
        match (buffer, data, input) {
            (Buffer::Data, Layout::Typed(blocks), _) | (Buffer::Input, _, Layout::Typed(blocks)) => blocks,
            _ => &[],
        }
    }

    fn typed_block(&self, BlockPlace { buffer, number }: BlockPlace) -> Result<TypedBlock, Cause> {
        self.typed_blocks(buffer).get(number).copied().ok_or(Cause::Unsupported)
    }

    /// Returns the typed memory that is read at this place.
    fn typed_source(&self, place: BlockPlace) -> Result<Typed<'scope, Lent<'scope>>, Cause> {
        let TypedBlock { origin, count, datatype } = self.typed_block(place)?;
        Ok(Typed::lent(self.source(place.buffer), count, datatype).with_origin(origin))
    }

    /// Returns the typed memory that is written at this place.
    fn typed_target(&self, place: BlockPlace) -> Result<TypedMut<'scope, LentMut<'scope>>, Cause> {
        let TypedBlock { origin, count, datatype } = self.typed_block(place)?;
        let loan = self.target(place.buffer).ok_or(Cause::Unsupported)?;
        Ok(TypedMut::lent(loan, count, datatype).with_origin(origin))
    }

    /// Bytes of a block's data.
    pub(super) fn typed_bytes<T: Transport, P: Platform>(
        &self,
        scope: &mut Scope<'scope, '_, '_, T, P>,
        place: BlockPlace,
    ) -> Result<u64, Cause> {
        let data = self.typed_source(place)?;
        scope.typed_bytes(&data)
    }

    /// Checks that every block is of a type that is there, and lies inside of its buffer. The error
    /// names the rank whose block is not.
    #[inline]
    pub(super) fn check_types<T: Transport, P: Platform>(
        &self,
        scope: &mut Scope<'scope, '_, '_, T, P>,
        comm: &Comm,
        operation: Operation,
    ) -> Result<(), Failed> {
        for buffer in [Buffer::Input, Buffer::Data] {
            for number in 0..self.typed_blocks(buffer).len() {
                let place = BlockPlace { buffer, number };
                if let Err(cause) = self.typed_bytes(scope, place) {
                    let error = self.wrong_block(comm, Error::new(operation, cause), place);
                    return Err(scope.keep_failure(&error));
                }
            }
        }
        Ok(())
    }

    /// The error of a block, with the rank that it is for or from.
    #[cold]
    fn wrong_block(&self, comm: &Comm, error: Error, place: BlockPlace) -> Error {
        let whose = match self.blocks.own {
            None => Some(place.number as u32),
            // Among neighbours, blocks have the numbers of these.
            Some(schedule) => neighbor(schedule, comm, place),
        };
        whose.map_or(error.on(comm), |rank| error.about_rank(Rank(rank), comm))
    }

    /// Starts the message of a block; none if it has no bytes, as no rank waits for it.
    pub(super) fn start_typed<T: Transport, P: Platform>(
        &self,
        scope: &mut Scope<'scope, '_, '_, T, P>,
        MessageRoute { comm, tag, peer }: MessageRoute<'_>,
        place: BlockPlace,
        receives: bool,
    ) -> Result<Option<Request<'scope>>, Failed> {
        let data = self.typed_source(place).and_then(|data| Ok((scope.typed_bytes(&data)?, data)));
        let started = match data {
            Ok((0, _)) => return Ok(None),
            Ok((_, data)) if !receives => scope.start_send_typed(comm, &data, peer, tag),
            Ok(_) => match self.typed_target(place) {
                Ok(into) => scope.start_recv_typed(comm, into, peer, tag),
                Err(cause) => Err(scope.keep_failure(&Error::new(Operation::None, cause).on(comm))),
            },
            Err(cause) => {
                let error = Error::new(Operation::None, cause).with(peer, comm.context(), tag);
                Err(scope.keep_failure(&error))
            }
        };
        started.map(Some)
    }

    /// Copies a block to where another one is.
    fn copy_typed<T: Transport, P: Platform>(
        &self,
        scope: &mut Scope<'scope, '_, '_, T, P>,
        into: BlockPlace,
        from: BlockPlace,
    ) -> Result<(), Cause> {
        let (into, from) = (self.typed_target(into)?, self.typed_source(from)?);
        scope.copy_typed(&into, &from)
    }
}

impl<'scope> Collective<'scope> {
    /// Copies what a rank has for itself.
    pub(super) fn copy_own<T: Transport, P: Platform>(
        &mut self,
        scope: &mut Scope<'scope, '_, '_, T, P>,
        into: BlockPlace,
        from: BlockPlace,
    ) -> Result<(), Failed> {
        self.memory.copy_typed(scope, into, from).map_err(|cause| {
            let failed = self.refuse(cause);
            self.error = self.error.about_rank(self.comm.rank(), &self.comm);
            scope.raise(&self.error);
            failed
        })
    }
}

/// The neighbour that a block is for or from, if it is there.
fn neighbor(schedule: &dyn Schedule, comm: &Comm, place: BlockPlace) -> Option<u32> {
    let instance = Instance::new(comm.rank().0, comm.size(), 0, 1).ok()?;
    let mut steps = (0..schedule.rounds(&instance))
        .flat_map(|round| (0..).map_while(move |index| schedule.step(&instance, round, index)));
    let is_it = |span: Span| span.buffer == place.buffer && span.start == place.number;
    steps.find_map(|step| match step {
        Step::Recv { from: rank, into: span } | Step::Send { to: rank, from: span } => {
            is_it(span).then_some(rank)
        }
        Step::Copy { into, from } => (is_it(into) || is_it(from)).then_some(instance.rank()),
        Step::Reduce { .. } => None,
    })
}

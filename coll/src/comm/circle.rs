//! Agreement of ranks that have no communicator of their own yet.

use aldis_kernel::hal::{Cause, Operation, Platform, Resource, Transport};
use aldis_kernel::{Comm, Error, Group, Rank, Tag};

use crate::collective::Caller;
use crate::op::Element;

/// Tags of calls that name their own are told apart from the numbers of collective calls by this bit.
const OWN_TAG: u32 = 1 << 30;

/// Ranks that take part in a call, on the collective plane of a communicator that all of them are in.
#[derive(Clone, Copy, Debug)]
pub(super) struct Circle<'g> {
    comm: Comm,
    tag: Tag,
    operation: Operation,
    me: u32,
    size: u32,
    /// Who they are, if not all ranks of the communicator.
    group: Option<Group<'g>>,
}

impl<'g> Circle<'g> {
    /// All ranks of a communicator.
    pub(super) fn of_all<'s, T: Transport, P: Platform>(
        caller: &mut impl Caller<'s, T, P>,
        comm: &Comm,
        operation: Operation,
    ) -> Result<Self, Error> {
        let tag =
            caller.enter(|scope| scope.collective_tag(comm)).map_err(|error| error.within(operation))?;
        let (me, size) = (comm.rank().0, comm.size());
        Ok(Self { comm: comm.collective(), tag, operation, me, size, group: None })
    }

    /// The members of a group, which this process is in and which are all in the communicator. The tag tells calls apart
    /// that are under way at a time.
    pub(super) fn of_group<'s, T: Transport, P: Platform>(
        caller: &mut impl Caller<'s, T, P>,
        comm: &Comm,
        group: &Group<'g>,
        tag: Tag,
        operation: Operation,
    ) -> Result<Self, Error> {
        let refused = |cause| Error::new(operation, cause);
        if tag.0 >= OWN_TAG {
            return Err(refused(Cause::TagOutOfRange { tag: tag.0, max: OWN_TAG - 1 }));
        }
        let endpoint = caller.endpoint();
        check_subset(&endpoint.group(comm)?, group).map_err(refused)?;
        let process = endpoint.process();
        let outside = Cause::RankOutOfRange { rank: process.0, size: group.size() };
        let me = group.rank_of(process).ok_or(refused(outside))?.0;
        let (comm, tag, size) = (comm.collective(), Tag(tag.0 | OWN_TAG), group.size());
        Ok(Self { comm, tag, operation, me, size, group: Some(*group) })
    }

    pub(super) const fn operation(&self) -> Operation {
        self.operation
    }

    /// The rank in the communicator of the one who sits `distance` places further on.
    fn rank<'s, T: Transport, P: Platform>(
        &self,
        caller: &mut impl Caller<'s, T, P>,
        distance: u32,
    ) -> Result<Rank, Error> {
        let index = (u64::from(self.me) + u64::from(distance)) % u64::from(self.size.max(1));
        let Some(group) = &self.group else { return Ok(Rank(index as u32)) };
        let parent = caller.endpoint().group(&self.comm)?;
        let rank = group.process(Rank(index as u32)).and_then(|process| parent.rank_of(process));
        rank.ok_or(Error::new(self.operation, Cause::Stale))
    }

    /// Sends to the one `ahead` places further on, and receives from the one as many places back.
    pub(super) fn pass<'s, E: Element, T: Transport, P: Platform>(
        &self,
        caller: &mut impl Caller<'s, T, P>,
        ahead: u32,
        mine: &[E],
        theirs: &mut [E],
    ) -> Result<(), Error> {
        let (to, from) = (self.rank(caller, ahead)?, self.rank(caller, self.size.saturating_sub(ahead))?);
        let (right, operation) = (size_of_val(theirs) as u64, self.operation);
        let passed = caller.enter(|scope| {
            let receiving = scope.irecv(&self.comm, theirs, from, self.tag)?;
            let sending = scope.isend(&self.comm, mine, to, self.tag)?;
            scope.wait(sending)?;
            scope.wait(receiving)
        });
        match passed.map_err(|error| error.within(operation))?.bytes {
            bytes if bytes == right => Ok(()),
            left => {
                let error = Error::new(operation, Cause::LengthMismatch { left, right });
                Err(error.with(from, self.comm.context(), self.tag))
            }
        }
    }

    /// Combines everybody's words, the same result for all. Dissemination (Hensgen, Finkel and Manber, "Two algorithms for
    /// barrier synchronization", 1988): log2 of the ranks, rounded up, rounds for any number of ranks, if what is combined
    /// twice counts once - as with and, or, min and max.
    pub(super) fn agree<'s, const WORDS: usize, T: Transport, P: Platform>(
        &self,
        caller: &mut impl Caller<'s, T, P>,
        words: &mut [u64; WORDS],
        combine: impl Fn(usize, u64, u64) -> u64,
    ) -> Result<(), Error> {
        let mut distance = 1;
        while distance < self.size {
            let (mine, mut theirs) = (*words, [0; WORDS]);
            self.pass(caller, distance, &mine, &mut theirs)?;
            for (index, (word, theirs)) in words.iter_mut().zip(theirs).enumerate() {
                *word = combine(index, *word, theirs);
            }
            distance = distance.saturating_mul(2);
        }
        Ok(())
    }

    /// Waits until everybody is here. If anybody cannot go on, nobody does: it fails there with its own cause, elsewhere
    /// with what [`objection`](Self::objection) was raised.
    pub(super) fn meet<'s, T: Transport, P: Platform>(
        &self,
        caller: &mut impl Caller<'s, T, P>,
        own: Option<Cause>,
    ) -> Result<(), Error> {
        let mut words = [self.objection(own)];
        self.agree(caller, &mut words, |_, mine, theirs| mine.max(theirs))?;
        let [objection] = words;
        self.heed(objection, own)
    }

    /// Has everything taken in that the others had sent to this rank before they came here, in whatever context:
    /// messages between two ranks stay in order. A message to each.
    pub(super) fn flush<'s, T: Transport, P: Platform>(
        &self,
        caller: &mut impl Caller<'s, T, P>,
    ) -> Result<(), Error> {
        (1..self.size).try_for_each(|distance| self.pass::<u8, T, P>(caller, distance, &[], &mut []))
    }

    /// A rank's objection to going on, as a word of which the greatest wins; zero is none.
    pub(super) fn objection(&self, own: Option<Cause>) -> u64 {
        let code: u64 = match own {
            None => return 0,
            Some(Cause::TooSmall { what: Resource::GroupPieces, .. }) => 3,
            Some(Cause::TooSmall { what: Resource::Scratch, .. }) => 2,
            Some(_) => 1,
        };
        code << 32 | u64::from(self.me)
    }

    /// Turns the greatest objection into an error that names its rank.
    pub(super) fn heed(&self, objection: u64, own: Option<Cause>) -> Result<(), Error> {
        let cause = match (own, objection >> 32) {
            (None, 0) => return Ok(()),
            (Some(cause), _) => return Err(Error::new(self.operation, cause)),
            (None, 3) => Cause::Full(Resource::GroupPieces),
            (None, 2) => Cause::Full(Resource::Scratch),
            (None, _) => Cause::Declined,
        };
        let error = Error::new(self.operation, cause);
        Err(error.with(Rank(objection as u32), self.comm.context(), self.tag))
    }
}

/// Whether all processes of `group` are in `parent`.
pub(super) fn check_subset(parent: &Group<'_>, group: &Group<'_>) -> Result<(), Cause> {
    let (rank, size) = match group.processes().find(|&process| !parent.contains(process)) {
        Some(process) => (process.0, parent.size()),
        None => return Ok(()),
    };
    Err(Cause::RankOutOfRange { rank, size })
}

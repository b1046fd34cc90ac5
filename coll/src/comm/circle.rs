//! Agreement of ranks that have no communicator of their own yet.

use aldis_kernel::hal::{Cause, Operation, Platform, Transport};
use aldis_kernel::{Comm, Error, Group, Rank, Tag};
use zerocopy::IntoBytes;

use super::party::{Objection, Party};
use crate::collective::Caller;
use crate::op::Element;

/// Tags of calls that name their own are told apart from the numbers of collective calls by this bit.
pub(super) const OWN_TAG: u32 = 1 << 30;

/// What the messages of a call are known by.
#[derive(Clone, Copy, Debug)]
pub(super) struct Line {
    /// The communicator, on the plane of collectives.
    pub(super) comm: Comm,
    pub(super) tag: Tag,
    pub(super) operation: Operation,
    /// The context in which notices name ranks.
    pub(super) names: u32,
}

impl Line {
    pub(super) const fn new(comm: &Comm, tag: Tag, operation: Operation) -> Self {
        let comm = comm.collective();
        Self { comm, tag, operation, names: comm.context() }
    }

    /// Sends to one rank and receives from one, as many bytes as there is room for.
    pub(super) fn exchange<'s, E: Element, T: Transport, P: Platform>(
        &self,
        caller: &mut impl Caller<'s, T, P>,
        (to, mine): (Rank, &[E]),
        (from, theirs): (Rank, &mut [E]),
    ) -> Result<(), Error> {
        let right = size_of_val(theirs) as u64;
        let exchanged = caller.enter(|scope| {
            let receiving = scope.irecv(&self.comm, theirs, from, self.tag)?;
            let sending = scope.isend(&self.comm, mine, to, self.tag)?;
            let received = scope.wait(receiving)?;
            scope.wait(sending)?;
            Ok(received)
        });
        let cause = match exchanged {
            Ok(status) if status.bytes == right => return Ok(()),
            Ok(status) if status.bytes == Objection::BYTES as u64 => {
                let notice = theirs.as_bytes().first_chunk().copied().unwrap_or_default();
                let objection = Objection::from_notice(notice);
                return Err(self.error_of(objection.cause(), objection.name));
            }
            Err(Error { cause: Cause::Truncated { sent, .. }, .. }) if sent == Objection::BYTES as u64 => {
                Cause::Declined
            }
            Ok(status) => Cause::LengthMismatch { left: status.bytes, right },
            Err(error) => return Err(error.within(self.operation)),
        };
        Err(Error::new(self.operation, cause).with(from, self.comm.context(), self.tag))
    }

    /// Tells these ranks that this one has failed, so that they do not wait for it: what can be sent at once, is.
    pub(super) fn warn<'s, T: Transport, P: Platform>(
        &self,
        caller: &mut impl Caller<'s, T, P>,
        objection: Objection,
        ranks: impl Iterator<Item = Rank>,
    ) {
        let notice = objection.notice();
        let _ = caller.enter(|scope| {
            for rank in ranks {
                // Who is dead need not be told.
                let _ = scope.isend(&self.comm, &notice, rank, self.tag);
            }
            // An error, so that nothing is waited for.
            Err::<(), Error>(Error::new(self.operation, objection.cause()))
        });
    }

    /// A failure that the rank of this name is the reason of.
    pub(super) const fn error_of(&self, cause: Cause, name: u32) -> Error {
        Error::new(self.operation, cause).with(Rank(name), self.names, Tag::NONE)
    }
}

/// Ranks that take part in a call, on the collective plane of a communicator that all of them are in.
#[derive(Clone, Copy, Debug)]
pub(super) struct Circle<'g> {
    line: Line,
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
        let line = Line::new(comm, tag, operation);
        Ok(Self { line, me: comm.rank().0, size: comm.size(), group: None })
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
        let tag = own_tag(tag).map_err(refused)?;
        if comm.is_inter() {
            return Err(refused(Cause::Intercommunicator));
        }
        let endpoint = caller.endpoint();
        check_subset(&endpoint.group(comm)?, group).map_err(refused)?;
        let process = endpoint.process();
        let outside = Cause::RankOutOfRange { rank: process.0, size: group.size() };
        let me = group.rank_of(process).ok_or(refused(outside))?.0;
        let line = Line::new(comm, tag, operation);
        Ok(Self { line, me, size: group.size(), group: Some(*group) })
    }

    /// Its communicator, on the plane of collectives.
    pub(super) const fn comm(&self) -> &Comm {
        &self.line.comm
    }

    /// The rank in the communicator of the one who sits `distance` places further on.
    fn rank<'s, T: Transport, P: Platform>(
        &self,
        caller: &mut impl Caller<'s, T, P>,
        distance: u32,
    ) -> Result<Rank, Error> {
        let index = (u64::from(self.me) + u64::from(distance)) % u64::from(self.size.max(1));
        let Some(group) = &self.group else { return Ok(Rank(index as u32)) };
        let parent = caller.endpoint().group(&self.line.comm)?;
        let rank = group.process(Rank(index as u32)).and_then(|process| parent.rank_of(process));
        rank.ok_or(Error::new(self.line.operation, Cause::Stale))
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
        let passed = self.line.exchange(caller, (to, mine), (from, theirs));
        passed.inspect_err(|error| self.warn(caller, error))
    }

    /// Sends what the one at `root` has to all others, each of which has room for it. A binomial tree whose edges are those
    /// of [`agree`](Party::agree).
    pub(super) fn spread<'s, E: Element, T: Transport, P: Platform>(
        &self,
        caller: &mut impl Caller<'s, T, P>,
        root: u32,
        data: &mut [E],
    ) -> Result<(), Error> {
        let place = (self.me + self.size.saturating_sub(root)) % self.size.max(1);
        let mut distance: u32 = 1;
        while distance < self.size {
            let (next, nobody) = (distance.saturating_mul(2), (Rank::NULL, &mut [][..]));
            if place < distance && place + distance < self.size {
                let to = self.rank(caller, distance)?;
                self.spread_on(caller, (to, data), nobody)?;
            } else if (distance..next).contains(&place) {
                let from = self.rank(caller, self.size - distance)?;
                self.spread_on(caller, (Rank::NULL, &[]), (from, data))?;
            }
            distance = next;
        }
        Ok(())
    }

    fn spread_on<'s, E: Element, T: Transport, P: Platform>(
        &self,
        caller: &mut impl Caller<'s, T, P>,
        mine: (Rank, &[E]),
        theirs: (Rank, &mut [E]),
    ) -> Result<(), Error> {
        self.line.exchange(caller, mine, theirs).inspect_err(|error| self.warn(caller, error))
    }

    /// Tells all who may wait for this one in the rest of the call that it has failed, and why: they sit 1, 2, 4, ... places
    /// further on. They fail by that and tell others, so that after a death nobody waits for ever.
    #[cold]
    fn warn<'s, T: Transport, P: Platform>(&self, caller: &mut impl Caller<'s, T, P>, error: &Error) {
        let dead = matches!(error.cause, Cause::PeerDead | Cause::PeerLeft);
        let about = error.peer().filter(|_| dead).map_or(self.name(), |peer| peer.0);
        for bit in 0..u32::BITS - self.size.saturating_sub(1).leading_zeros() {
            let Ok(rank) = self.rank(caller, 1 << bit) else { return };
            self.line.warn(caller, Objection::new(error.cause, about), Some(rank).into_iter());
        }
    }
}

impl Party for Circle<'_> {
    fn operation(&self) -> Operation {
        self.line.operation
    }

    fn name(&self) -> u32 {
        self.line.comm.rank().0
    }

    fn error(&self, cause: Cause, name: u32) -> Error {
        self.line.error_of(cause, name)
    }

    /// Dissemination (Hensgen, Finkel and Manber, "Two algorithms for barrier synchronization", 1988): log2 of the ranks,
    /// rounded up, rounds for any number of ranks, if what is combined twice counts once - as with and, or, min and max.
    fn agree<'s, const WORDS: usize, T: Transport, P: Platform>(
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

    fn flush<'s, T: Transport, P: Platform>(&self, caller: &mut impl Caller<'s, T, P>) -> Result<(), Error> {
        (1..self.size).try_for_each(|distance| self.pass::<u8, T, P>(caller, distance, &[], &mut []))
    }
}

/// The tag of a call that names its own.
pub(super) const fn own_tag(tag: Tag) -> Result<Tag, Cause> {
    if tag.0 < OWN_TAG {
        Ok(Tag(tag.0 | OWN_TAG))
    } else {
        Err(Cause::TagOutOfRange { tag: tag.0, max: OWN_TAG - 1 })
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

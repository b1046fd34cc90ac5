//! Groups: ordered sets of processes (MPI 4.1 section 7.3), in bounded memory that the user lends.
//!
//! | form | when | memory | rank to process | process to rank |
//! |---|---|---|---|---|
//! | dense, strided | the processes are `first + i * stride` | none | O(1) | O(1) |
//! | ranges | fewer strides than bitmap words | a [`GroupPiece`] a stride | O(log n) | O(n) |
//! | bitmap | ascending, fewer words than strides | 32 processes a piece | O(log n) | O(log n) |
//!
//! *n* is the number of pieces.
//!
//! The form is the one that takes the least memory; the caller does not choose it. The idea of
//! several forms is Open MPI's (dense, sporadic, strided and bitmap groups: Chaarawi and Gabriel,
//! "Evaluating Sparse Data Storage Techniques for MPI Groups and Communicators", ICCS 2008); here
//! both sparse ones are lists of the same small pieces, found by the same search.
//!
//! ```
//! use aldis_kernel::hal::PeerId;
//! use aldis_kernel::{Group, GroupPiece, Rank};
//!
//! let mut memory = [GroupPiece::NONE; 4];
//! let group = Group::of(&[7, 3, 4, 5].map(PeerId), &mut memory)?;
//! assert_eq!((group.size(), group.rank_of(PeerId(4))), (4, Some(Rank(2))));
//! # Ok::<(), aldis_kernel::hal::Cause>(())
//! ```

mod form;
mod operations;

use aldis_hal::{Cause, PeerId};
pub(crate) use form::GroupForm;
pub use form::GroupPiece;
use form::{measure, write};
pub use operations::{Comparison, RankRange};

use crate::rank::Rank;

/// Process numbers end here, so that strides have a sign.
const PROCESSES_MAX: u32 = i32::MAX as u32;

/// An ordered set of processes. Small, `Copy`, and borrowed from the memory that its pieces are in.
#[derive(Clone, Copy, Debug)]
pub struct Group<'m> {
    size: u32,
    form: GroupForm<'m>,
}

impl<'m> Group<'m> {
    /// The group without processes (MPI_GROUP_EMPTY).
    pub const EMPTY: Group<'static> = Group { size: 0, form: GroupForm::Strided { first: 0, stride: 1 } };

    pub(crate) const fn new(size: u32, form: GroupForm<'m>) -> Self {
        Self { size, form }
    }

    /// The group of these processes of the job, in this order.
    ///
    /// # Errors
    /// [`Cause::DuplicateRank`] for a process that is named twice (it tells the process),
    /// [`Cause::RankOutOfRange`] for a number above 2^31, [`Cause::TooSmall`] if `memory` has too
    /// few pieces; it tells how many are needed.
    pub fn of(processes: &[PeerId], memory: &'m mut [GroupPiece]) -> Result<Self, Cause> {
        if let Some(process) = processes.iter().find(|process| process.0 >= PROCESSES_MAX) {
            return Err(Cause::RankOutOfRange { rank: process.0, size: PROCESSES_MAX });
        }
        let group = Self::collect(processes.iter().map(|process| process.0), memory)?;
        match group.repeated() {
            Some(process) => Err(Cause::DuplicateRank { rank: process.0 }),
            None => Ok(group),
        }
    }

    /// The group of `members`, which are distinct and in order.
    pub(crate) fn collect(
        members: impl Iterator<Item = u32> + Clone,
        memory: &'m mut [GroupPiece],
    ) -> Result<Self, Cause> {
        let plan = measure(members.clone());
        Ok(Self { size: plan.size, form: write(plan, members, memory)? })
    }

    /// Pieces that a group of these members takes.
    pub(crate) fn pieces_for(members: impl Iterator<Item = u32> + Clone) -> u32 {
        measure(members).pieces
    }

    pub(crate) const fn form(&self) -> &GroupForm<'m> {
        &self.form
    }

    /// Returns the number of its processes (MPI_Group_size).
    #[inline]
    pub const fn size(&self) -> u32 {
        self.size
    }

    /// Pieces of memory that it takes: none if it is a single stride.
    pub const fn pieces(&self) -> usize {
        match self.form {
            GroupForm::Strided { .. } => 0,
            GroupForm::Ranges(pieces) | GroupForm::Bitmap(pieces) => pieces.len(),
        }
    }

    /// The process with this rank.
    pub fn process(&self, rank: Rank) -> Option<PeerId> {
        (rank.0 < self.size).then(|| self.form.process(rank.0)).flatten().map(PeerId)
    }

    /// The rank of a process, if it is a member (MPI_Group_rank).
    pub fn rank_of(&self, process: PeerId) -> Option<Rank> {
        self.form.rank_of(process.0, self.size).map(Rank)
    }

    /// Returns true if the process is a member.
    pub fn contains(&self, process: PeerId) -> bool {
        self.rank_of(process).is_some()
    }

    /// Its processes in the order of their ranks.
    pub fn processes(&self) -> impl Iterator<Item = PeerId> + Clone + use<'m> {
        let group = *self;
        (0..group.size).filter_map(move |rank| group.process(Rank(rank)))
    }

    /// Returns the number of its ranks on each node, where `every` processes have a node of their
    /// own and the last one has what is left: if those of a node are neighbours, and as many on
    /// each but the last. 0 if they are not, if it is not known, and for a group of several
    /// strides.
    pub(crate) fn ranks_per_node(&self, every: u32) -> u32 {
        let GroupForm::Strided { first, stride } = self.form else { return 0 };
        let starts_a_node = first.checked_rem(every).is_some_and(|place| place < stride);
        let fits = starts_a_node && every.is_multiple_of(stride);
        every.checked_div(stride).filter(|_| fits).unwrap_or(0)
    }

    fn members(&self) -> impl Iterator<Item = u32> + Clone + use<'m> {
        self.processes().map(|process| process.0)
    }

    /// A process that has two ranks, if its list was not of distinct ones.
    fn repeated(&self) -> Option<PeerId> {
        let mut ranks = (0..self.size).map(Rank);
        self.processes().find(|&process| self.rank_of(process) != ranks.next())
    }
}

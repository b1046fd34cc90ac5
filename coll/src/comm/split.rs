//! Splitting: the ranks of one colour make a communicator, in the order of their keys.

use aldis_kernel::hal::{Cause, Operation, PeerId, Platform, Resource, Transport};
use aldis_kernel::{Comm, Error, Members, Rank};
use zerocopy::{FromBytes, Immutable, IntoBytes};

use super::creation::make_listed;
use super::local_ranks::LocalRanks;
use super::messenger::{Blocking, Messenger, now};
use crate::blocking_endpoint::BlockingEndpoint;

/// The choice of a rank in a split. A split needs one for each rank, as scratch.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, FromBytes, IntoBytes, Immutable)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[repr(C)]
pub struct SplitChoice {
    colour: u32,
    /// Set if there is a colour: 0 or 1.
    is_in: u32,
    key: i32,
    pub(super) rank: u32,
    pub(super) process: u32,
}

impl SplitChoice {
    /// No choice, for memory to lend.
    pub const NONE: Self = Self { colour: 0, is_in: 0, key: 0, rank: 0, process: 0 };

    /// Makes the choice of this process.
    pub(super) fn new(colour: Option<u32>, key: i32, rank: Rank, process: PeerId) -> Self {
        let (colour, is_in) = (colour.unwrap_or(0), colour.is_some().into());
        Self { colour, is_in, key, rank: rank.0, process: process.0 }
    }

    /// Returns true if there is a colour.
    pub(super) const fn is_in(&self) -> bool {
        self.is_in == 1
    }

    /// Returns true if both go to the same communicator.
    const fn is_with(&self, other: &Self) -> bool {
        self.is_in == 1 && other.is_in == 1 && self.colour == other.colour
    }

    /// By key, and by rank where keys are equal.
    const fn order(&self) -> (i32, u32) {
        (self.key, self.rank)
    }
}

/// Splits `comm`: ranks that give the same colour are in a communicator together, in the order of
/// their keys and, where these are equal, of their ranks; a rank without a colour is in none
/// (MPI_Comm_split, MPI 4.1 section 7.4.2). `scratch` has an entry for each rank of `comm`.
///
/// # Errors
/// On all ranks [`Cause::Full`] if any has too little scratch, too few pieces or no free slot in
/// common with the others (on the rank itself [`Cause::TooSmall`] says how much is needed); else as
/// [`Collective::wait`](crate::Collective::wait).
pub fn split<'s, T: Transport, P: Platform>(
    ep: &mut impl BlockingEndpoint<'s, T, P>,
    comm: &Comm,
    colour: Option<u32>,
    key: i32,
    scratch: &mut [SplitChoice],
) -> Result<Option<Comm>, Error> {
    now(isplit(&mut Blocking(ep), comm, colour, key, scratch))
}

/// Splits a communicator like [`split`](split()), by a [`Messenger`].
///
/// # Errors
/// [`Cause::Full`] on all ranks if any has too little scratch, too few pieces or no free slot in
/// common with the others; the rest as [`split`](split()).
pub async fn isplit<'s, T: Transport, P: Platform>(
    messenger: &mut impl Messenger<'s, T, P>,
    comm: &Comm,
    colour: Option<u32>,
    key: i32,
    scratch: &mut [SplitChoice],
) -> Result<Option<Comm>, Error> {
    let local_ranks = LocalRanks::of_all(messenger, comm, Operation::Split)?;
    let own = SplitChoice::new(colour, key, comm.rank(), messenger.endpoint().process());
    let (what, need, have) = (Resource::Scratch, comm.size(), scratch.len() as u32);
    let choices = scratch.get_mut(..need as usize).ok_or(Cause::TooSmall { what, need, have });
    let is_member = choices.as_ref().map(|_| own.is_in()).map_err(|cause| *cause);
    let list = async |messenger: &mut _| {
        let choices = choices.map_err(|cause| Error::new(Operation::Split, cause))?;
        gather(messenger, &local_ranks, own, choices).await?;
        Ok(Members::These(processes(select(choices, &own))))
    };
    make_listed(messenger, &local_ranks, is_member, list).await
}

/// Splits `comm` into groups of ranks that share something - memory, a node, a board: what,
/// `shares` tells for each process of the job, as the transport or the launcher knows it
/// (MPI_Comm_split_type with MPI_COMM_TYPE_SHARED, MPI 4.1 section 7.4.2). It must be true between
/// all ranks of a group in both directions.
///
/// # Errors
/// [`Cause::Full`] on all ranks if any has too little scratch, too few pieces or no free slot in
/// common with the others; the rest as [`split`].
pub fn split_type<'s, T: Transport, P: Platform>(
    ep: &mut impl BlockingEndpoint<'s, T, P>,
    comm: &Comm,
    key: i32,
    shares: impl Fn(PeerId) -> bool,
    scratch: &mut [SplitChoice],
) -> Result<Option<Comm>, Error> {
    now(isplit_type(&mut Blocking(ep), comm, key, shares, scratch))
}

/// Splits a communicator like [`split_type`], by a [`Messenger`].
///
/// # Errors
/// [`Cause::Full`] on all ranks if any has too little scratch, too few pieces or no free slot in
/// common with the others; the rest as [`split_type`].
pub async fn isplit_type<'s, T: Transport, P: Platform>(
    messenger: &mut impl Messenger<'s, T, P>,
    comm: &Comm,
    key: i32,
    shares: impl Fn(PeerId) -> bool,
    scratch: &mut [SplitChoice],
) -> Result<Option<Comm>, Error> {
    let me = messenger.endpoint().process();
    let shares = |process: &PeerId| *process == me || shares(*process);
    let lowest = messenger.endpoint().comm(comm).group()?.processes().filter(shares).min();
    isplit(messenger, comm, Some(lowest.unwrap_or(me).0), key, scratch).await
}

/// Every rank's choice, in the order of ranks from this one downwards: the all-gather of Bruck et
/// al. ("Efficient algorithms for all-to-all communications in multiport message-passing systems",
/// 1997), whose last rotation is not needed.
pub(super) async fn gather<'s, T: Transport, P: Platform>(
    messenger: &mut impl Messenger<'s, T, P>,
    local_ranks: &LocalRanks<'_>,
    own: SplitChoice,
    choices: &mut [SplitChoice],
) -> Result<(), Error> {
    if let Some(first) = choices.first_mut() {
        *first = own;
    }
    let mut known = 1;
    while let Some((have, rest)) = choices.split_at_mut_checked(known).filter(|(_, rest)| !rest.is_empty()) {
        let count = known.min(rest.len());
        let (Some(mine), Some(theirs)) = (have.get(..count), rest.get_mut(..count)) else { break };
        local_ranks.shift(messenger, known as u32, mine, theirs).await?;
        known += count;
    }
    Ok(())
}

/// The choices that belong with `own`, in order. They are brought to the front.
pub(super) fn select<'c>(choices: &'c mut [SplitChoice], own: &SplitChoice) -> &'c [SplitChoice] {
    let mut selected = 0;
    for index in 0..choices.len() {
        if choices.get(index).is_some_and(|choice| choice.is_with(own)) {
            choices.swap(selected, index);
            selected += 1;
        }
    }
    let selected = choices.get_mut(..selected).unwrap_or_default();
    sort(selected);
    selected
}

/// The processes that made the choices.
pub(super) fn processes(choices: &[SplitChoice]) -> impl Iterator<Item = PeerId> + Clone {
    choices.iter().map(|choice| PeerId(choice.process))
}

/// Heap sort (Williams 1964; Floyd 1964): neither memory nor recursion.
fn sort(choices: &mut [SplitChoice]) {
    for root in (0..choices.len() / 2).rev() {
        sift_down(choices, root);
    }
    for end in (1..choices.len()).rev() {
        choices.swap(0, end);
        if let Some(heap) = choices.get_mut(..end) {
            sift_down(heap, 0);
        }
    }
}

fn sift_down(heap: &mut [SplitChoice], mut root: usize) {
    let order = |heap: &[SplitChoice], index: usize| heap.get(index).map(SplitChoice::order);
    loop {
        let (left, right) = (2 * root + 1, 2 * root + 2);
        // An index outside is less than any within.
        let child = if order(heap, right) > order(heap, left) { right } else { left };
        if order(heap, child) <= order(heap, root) {
            return;
        }
        heap.swap(root, child);
        root = child;
    }
}

#[cfg(test)]
mod tests {
    use std::vec::Vec;

    use super::*;

    #[test]
    fn choices_are_selected_and_sorted_by_key_then_rank() {
        let choice = |rank: u32| SplitChoice {
            colour: rank % 3,
            is_in: u32::from(!rank.is_multiple_of(7)),
            key: -((rank * 37 % 5).cast_signed()),
            rank,
            process: rank,
        };
        for size in 0..60 {
            let mut choices: Vec<SplitChoice> = (0..size).rev().map(choice).collect();
            let own = choice(size / 2);
            let mut expected: Vec<SplitChoice> =
                (0..size).map(choice).filter(|one| one.is_with(&own)).collect();
            expected.sort_by_key(|choice| choice.key);
            assert_eq!(select(&mut choices, &own), expected, "size {size}");
        }
    }
}

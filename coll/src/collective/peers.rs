//! The ranks that the places of a schedule stand for.
//!
//! A schedule names *places*, from 0 on. On a communicator place n is rank n. Over the groups of an
//! intercommunicator the places are a [row](super::row) of ranks of both. A schedule sees none of
//! that.

use aldis_kernel::{Comm, Rank, Tag};

use super::row::Row;

/// The root of a collective over two groups, as a rank sees it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub enum Root {
    /// This rank is the root (MPI_ROOT).
    This,
    /// Another rank of this rank's group is the root; this rank takes no part but calls as well
    /// (MPI_PROC_NULL).
    Beside,
    /// The root is this rank of the other group.
    Remote(Rank),
}

/// The ranks that a collective is over.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Over {
    /// The ranks of a communicator.
    Ranks,
    /// Both groups of an intercommunicator.
    Groups,
    /// A rank of one of its groups, and the other group.
    Rooted(Root),
}

impl Over {
    /// The root's rank in its group, as all who take part know it.
    pub(super) fn root(self, inter: &Comm) -> u32 {
        match self {
            Self::Rooted(Root::This) => inter.rank().0,
            Self::Rooted(Root::Remote(root)) => root.0,
            Self::Rooted(Root::Beside) | Self::Ranks | Self::Groups => 0,
        }
    }
}

/// The ranks that places stand for.
#[derive(Clone, Copy, Debug)]
pub(super) enum Peers {
    /// The ranks of the communicator.
    Ranks,
    /// The ranks of an intercommunicator's groups.
    Row(Row),
}

/// The communicator and the tag by which a message reaches its peer, or comes from there.
#[derive(Clone, Copy)]
pub(super) struct MessageRoute<'c> {
    pub(super) comm: &'c Comm,
    pub(super) tag: Tag,
    pub(super) peer: Rank,
}

impl Peers {
    /// Returns the route of messages to a place; `comm` and `tag` are those of messages among a
    /// communicator's ranks.
    #[inline]
    pub(super) fn way<'c>(&'c self, comm: &'c Comm, tag: Tag, place: u32) -> MessageRoute<'c> {
        match self {
            Self::Ranks => MessageRoute { comm, tag, peer: Rank(place) },
            Self::Row(row) => row.way(comm, tag, place),
        }
    }
}

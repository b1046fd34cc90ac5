//! Ranks of both groups of an intercommunicator in a row, as the places of a schedule.
//!
//! Of a collective with a root: the group that it is not in, then the root. What an ordinary
//! algorithm does among these is what such a collective is (MPI 4.1 section 6.2.3). Of one without:
//! both groups, first the one whose first process is lower in the world, which both sides know.
//!
//! Local ranks are reached by the companion. A call has a number in either communicator, as calls
//! that make communicators number the companion too.

use aldis_kernel::hal::{Cause, Platform, Transport};
use aldis_kernel::plane::prelude::*;
use aldis_kernel::{Comm, Rank, Scope, Tag};

use super::Root;
use super::peers::{MessageRoute, Over, Peers};
use super::{Planned, Ready};
use crate::route::{Beginning, RouteQuery, StartMode};
use crate::schedule::Instance;
use crate::select::{CallSpec, Options, Plan};
use crate::tag;

/// Some ranks of one group, then some of the other.
#[derive(Clone, Copy, Debug)]
pub(super) struct Row {
    /// Of the local group.
    companion: Comm,
    /// The distance of the call's tag there above the one here, modulo 2^32: its number is another,
    /// the rest is the same.
    ahead: u32,
    seats: Seats,
}

/// The ranks of the local group, and of the other one.
#[derive(Clone, Copy)]
struct GroupSizes {
    here: u32,
    there: u32,
}

/// The order of the ranks of both groups in a row.
#[derive(Clone, Copy, Debug)]
struct Seats {
    /// True if ranks of the local group come first.
    local_first: bool,
    /// The number of ranks that come first.
    cut: u32,
    /// The rank of the first one behind them.
    then: u32,
    size: u32,
    own: u32,
    root: u32,
}

impl Row {
    #[inline]
    pub(super) fn way<'c>(&'c self, inter: &'c Comm, tag: Tag, place: u32) -> MessageRoute<'c> {
        match self.seats.at(place) {
            (true, peer) => {
                let tag = Tag(tag.0.wrapping_add(self.ahead));
                MessageRoute { comm: &self.companion, tag, peer }
            }
            (false, peer) => MessageRoute { comm: inter, tag, peer },
        }
    }
}

impl Seats {
    /// Returns true for a place of the local group, and the rank there.
    #[inline]
    fn at(&self, place: u32) -> (bool, Rank) {
        match place.checked_sub(self.cut) {
            None => (self.local_first, Rank(place)),
            Some(behind) => (!self.local_first, Rank(behind.saturating_add(self.then))),
        }
    }

    /// Builds the seats as a rank of a group sees them, which is of the local one of these.
    fn new(over: Over, rank: u32, groups: GroupSizes, local_is_lower: bool) -> Result<Self, Cause> {
        let GroupSizes { here, there } = groups;
        let with_root = |cut: u32| Self {
            local_first: true,
            cut,
            then: 0,
            size: cut.saturating_add(1),
            own: rank,
            root: cut,
        };
        match over {
            Over::Rooted(Root::This) => {
                Ok(Self { local_first: false, then: rank, own: there, ..with_root(there) })
            }
            // Alone, and with nothing to do.
            Over::Rooted(Root::Beside) => Ok(Self { own: 0, ..with_root(0) }),
            Over::Rooted(Root::Remote(root)) if root.0 < there => {
                Ok(Self { then: root.0, ..with_root(here) })
            }
            Over::Rooted(Root::Remote(Rank(rank))) => Err(Cause::RankOutOfRange { rank, size: there }),
            Over::Ranks | Over::Groups => {
                let (cut, before) = if local_is_lower { (here, 0) } else { (there, there) };
                let (size, own) = (here.saturating_add(there), before.saturating_add(rank));
                Ok(Self { local_first: local_is_lower, cut, then: 0, size, own, root: 0 })
            }
        }
    }
}

impl Planned {
    /// Over both groups of an intercommunicator: by messages.
    pub(crate) fn across(spec: &CallSpec, over: Over, options: &Options) -> Self {
        let CallSpec { call, candidates, .. } = spec;
        // An ordinary algorithm serves where ordinary ones are among the candidates.
        let crosses = candidates.iter().all(|known| known.crosses());
        let plan = match call.select(candidates, options).map(|selected| selected.plan) {
            Ok(plan) if plan.algorithm.crosses() != crosses => Err(Cause::Unsupported),
            plan => plan,
        };
        let beginning = Beginning::Started(StartMode::Nonblocking);
        let query = RouteQuery { spec: *spec, options: *options, beginning };
        Self { query, over, settled: Some(plan) }
    }

    /// Like [`ready`](Self::ready), but over both groups. The call is numbered even if it is
    /// refused here: a rank beside the root would not refuse it.
    pub(super) fn ready_in_row<T: Transport, P: Platform>(
        &self,
        scope: &mut Scope<'_, '_, '_, T, P>,
        inter: &Comm,
        plan: Result<Plan, Cause>,
    ) -> Result<Ready, Cause> {
        let over = self.over;
        self.tags(scope, inter).and_then(|(companion, tag, ahead)| {
            let first = |comm| scope.process_of(comm, Rank(0)).map_err(|error| error.cause);
            let sizes = GroupSizes { here: inter.size(), there: inter.remote_size() };
            let seats = Seats::new(over, inter.rank().0, sizes, first(&companion)? < first(inter)?)?;
            let whole =
                Instance::new(seats.own, seats.size, seats.root, self.call().count)?.with_cut(seats.cut);
            let row = Row { companion: companion.collective(), ahead, seats };
            Ok(Ready { whole, plan: plan?, tag, peers: Peers::Row(row) })
        })
    }

    /// The companion, the call's tag, and how much higher it is there.
    fn tags<T: Transport, P: Platform>(
        &self,
        scope: &mut Scope<'_, '_, '_, T, P>,
        inter: &Comm,
    ) -> Result<(Comm, Tag, u32), Cause> {
        let (operation, root) = (self.call().operation, self.over.root(inter));
        let companion = scope.companion(inter).map_err(|error| error.cause)?;
        let [here, there] = if self.is_persistent() {
            let numbers =
                [scope.persistent_number(inter, true)?, scope.persistent_number(&companion, false)?];
            numbers.map(|number| tag::of_persistent(number, operation, root))
        } else {
            let number = scope.inter_tag(inter).map_err(|error| error.cause)?;
            [number, scope.collective_number(&companion)?].map(|number| tag::of_call(number, operation, root))
        };
        Ok((companion, here, there.0.wrapping_sub(here.0)))
    }
}

#[cfg(test)]
mod tests {
    use std::vec::Vec;

    use super::*;

    /// The processes at all places, as a group's number and a rank there, and which of them a rank
    /// of a group is itself.
    fn row(over: Over, group: u32, rank: u32, sizes: [u32; 2]) -> (Vec<(u32, u32)>, Seats) {
        let (here, there) = (sizes[group as usize], sizes[1 - group as usize]);
        let seats = Seats::new(over, rank, GroupSizes { here, there }, group == 0).unwrap();
        let process = |place| match seats.at(place) {
            (true, Rank(rank)) => (group, rank),
            (false, Rank(rank)) => (1 - group, rank),
        };
        ((0..seats.size).map(process).collect(), seats)
    }

    fn check(sizes: [u32; 2], over: impl Fn(u32, u32) -> Over, expected: &[(u32, u32)], root: u32) {
        for (group, size) in (0..2).zip(sizes) {
            for rank in 0..size {
                let over = over(group, rank);
                let (row, seats) = row(over, group, rank, sizes);
                if matches!(over, Over::Rooted(Root::Beside)) {
                    assert_eq!((seats.own, seats.size), (0, 1));
                    continue;
                }
                assert_eq!((row.as_slice(), seats.root), (expected, root));
                assert_eq!(expected[seats.own as usize], (group, rank));
            }
        }
    }

    #[test]
    fn all_ranks_of_both_groups_see_one_row() {
        for sizes in (1..=9).flat_map(|lower| (1..=9).map(move |upper| [lower, upper])) {
            let [lower, upper] = sizes;
            let both: Vec<_> =
                (0..lower).map(|rank| (0, rank)).chain((0..upper).map(|rank| (1, rank))).collect();
            check(sizes, |_, _| Over::Groups, &both, 0);
            for root in (0..2).flat_map(|group| (0..sizes[group as usize]).map(move |rank| (group, rank))) {
                let over = |group, rank| {
                    Over::Rooted(match (group == root.0, (group, rank) == root) {
                        (true, true) => Root::This,
                        (true, false) => Root::Beside,
                        (false, _) => Root::Remote(Rank(root.1)),
                    })
                };
                let others = 1 - root.0;
                let size = sizes[others as usize];
                let row: Vec<_> = (0..size).map(|rank| (others, rank)).chain([root]).collect();
                check(sizes, over, &row, size);
            }
        }
    }

    #[test]
    fn a_root_that_the_other_group_has_not_is_refused() {
        let beyond = Over::Rooted(Root::Remote(Rank(3)));
        let refused = Seats::new(beyond, 0, GroupSizes { here: 2, there: 3 }, true).err();
        assert_eq!(refused, Some(Cause::RankOutOfRange { rank: 3, size: 3 }));
    }
}

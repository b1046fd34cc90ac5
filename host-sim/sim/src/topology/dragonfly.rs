//! Dragonflies (Kim, Dally, Scott, Abts: Technology-Driven, Highly-Scalable Dragonfly Topology,
//! ISCA 2008).

use core::num::NonZeroU32;

/// Groups of routers: every two routers of a group are connected, and every two groups once.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Dragonfly {
    /// Routers of a group.
    pub routers: NonZeroU32,
    /// Nodes at a router.
    pub nodes: NonZeroU32,
}

/// A router: its group, and its number there.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Router {
    group: u32,
    number: u32,
}

/// Nodes at a router of the size that is chosen at most.
const NODES_MAX: u32 = 8;

impl Dragonfly {
    /// The smallest balanced one that has room for `size` nodes, up to 16 routers of 8 nodes a
    /// group: with p nodes at a router and 2 p routers in a group, a router has p links to other
    /// groups, so there are 2 p p + 1 groups.
    pub fn of(size: u32) -> Self {
        let room = |nodes: u32| 2 * nodes * nodes * (2 * nodes * nodes + 1);
        let nodes = (1..NODES_MAX).find(|nodes| room(*nodes) >= size).unwrap_or(NODES_MAX);
        let number = |number: u32| NonZeroU32::MIN.saturating_add(number - 1);
        Self { routers: number(2 * nodes), nodes: number(nodes) }
    }

    /// Without what `size` nodes leave unused.
    pub(super) fn cut(self, size: u32) -> Self {
        let most = |count: u32| NonZeroU32::new(count).unwrap_or(NonZeroU32::MIN);
        let nodes = self.nodes.min(most(size));
        Self { routers: self.routers.min(most(size.div_ceil(nodes.get()))), nodes }
    }

    fn router(self, node: u32) -> Router {
        let router = node / self.nodes;
        Router { group: router / self.routers, number: router % self.routers }
    }

    fn groups(self, size: u32) -> u64 {
        u64::from(size).div_ceil(u64::from(self.routers.get()) * u64::from(self.nodes.get()))
    }

    /// The router of group `here` that has the link to group `there`: the other groups are dealt
    /// out in turn.
    fn gateway(self, here: u32, there: u32) -> Router {
        Router { group: here, number: (there - u32::from(there > here)) % self.routers }
    }

    /// Routers on the way.
    pub(super) fn routers_between(self, from: u32, to: u32) -> u32 {
        let (here, there) = (self.router(from), self.router(to));
        if here.group == there.group {
            return 1 + u32::from(here != there);
        }
        let exit = u32::from(here != self.gateway(here.group, there.group));
        2 + exit + u32::from(there != self.gateway(there.group, here.group))
    }

    /// From router to router in each group, then from group to group.
    pub(super) fn links(self, size: u32) -> u64 {
        let groups = self.groups(size);
        let local = groups.saturating_mul(u64::from(self.routers.get()).saturating_pow(2));
        local.saturating_add(groups.saturating_mul(groups))
    }

    pub(super) fn route(self, size: u32, from: u32, to: u32, mut visit: impl FnMut(usize)) {
        let (here, there) = (self.router(from), self.router(to));
        let routers = self.routers.get() as usize;
        let local = |from: Router, to: Router| {
            let first = (from.group as usize * routers + from.number as usize) * routers;
            (from != to).then_some(first + to.number as usize)
        };
        if here.group == there.group {
            return local(here, there).into_iter().for_each(visit);
        }
        let (exit, entry) = (self.gateway(here.group, there.group), self.gateway(there.group, here.group));
        let groups = self.groups(size) as usize;
        let global = groups * routers * routers + here.group as usize * groups + there.group as usize;
        local(here, exit).into_iter().for_each(&mut visit);
        visit(global);
        local(entry, there).into_iter().for_each(visit);
    }
}

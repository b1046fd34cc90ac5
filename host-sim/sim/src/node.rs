//! A node as its program's coroutine sees it, and what the kernel is given of it: [`SimPlatform`].

use core::cell::RefCell;
use core::fmt;
use std::rc::Rc;

use aldis_kernel::hal::{Activity, Instant, Platform};
use corosensei::Yielder;

use super::world::World;

/// The longest that an idle node rests, unless something arrives: first and in the long run, ns.
const NAP_NS: u64 = 50_000;
const NAP_NS_MIN: u64 = 500;
const NAP_DOUBLINGS: u32 = 5;
/// Idle polls after which it rests twice as long.
const NAPS_A_DOUBLING: u32 = 16;

/// A node as its program's coroutine sees it.
#[derive(Clone)]
pub(crate) struct Cpu<'a> {
    pub(crate) world: Rc<RefCell<World>>,
    pub(crate) node: u32,
    pub(crate) yielder: &'a Yielder<(), ()>,
}

impl Cpu<'_> {
    /// Lets the others run: until something arrives here or `ns` have passed.
    pub(crate) fn rest(&self, ns: u64) {
        self.world.borrow_mut().rest(self.node, ns);
        self.yielder.suspend(());
    }

    /// Keeps count of polls that find nothing. The second in a row, with no rest in between, is a
    /// rest: programs that only test and poll let the others run too.
    pub(crate) fn polled(&self, events: u32) {
        let idle = {
            let node = &mut self.world.borrow_mut().nodes[self.node as usize];
            node.idle_polls = if events == 0 { node.idle_polls + 1 } else { 0 };
            node.idle_polls
        };
        if idle > 1 {
            self.rest(1_000);
        }
    }

    /// Rests after so many polls that found nothing, at most until the transport's next timer.
    pub(crate) fn nap(&self, idle: u32) {
        let timer_ns = self.world.borrow().until_timer_ns(self.node);
        self.rest((NAP_NS << (idle / NAPS_A_DOUBLING).min(NAP_DOUBLINGS)).min(timer_ns).max(NAP_NS_MIN));
    }
}

/// A node's clock, rest and entropy. [`relax`](Platform::relax) is where the other nodes get their
/// turn.
pub struct SimPlatform<'a> {
    pub(crate) cpu: Cpu<'a>,
}

impl Platform for SimPlatform<'_> {
    fn now(&self) -> Instant {
        Instant(self.cpu.world.borrow_mut().clock(self.cpu.node))
    }

    fn relax(&mut self, idle: u32) {
        self.cpu.nap(idle);
    }

    fn entropy(&mut self) -> u64 {
        self.cpu.world.borrow_mut().nodes[self.cpu.node as usize].entropy.draw()
    }

    fn note(&mut self, activity: Activity) {
        self.cpu.world.borrow_mut().nodes[self.cpu.node as usize].activity = activity;
    }
}

impl fmt::Debug for SimPlatform<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SimPlatform").field("node", &self.cpu.node).finish()
    }
}

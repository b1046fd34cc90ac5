//! The hosts of a job as the launcher sees them: a node of its own, or an agent with one, spoken to
//! alike.

use std::os::fd::BorrowedFd;
use std::time::Instant;

use aldis_run::hosts::{HostPlace, Share};
use aldis_sys::event::PollFlags;

use crate::branch::{Branch, BranchPart};
use crate::host_fault::HostFault;
use crate::messages::{HostEvent, NodeOrder, OutputKind, ToNode};
use crate::node::{Node, NodePart};
use crate::relay::Relay;
use crate::remote::AgentCommands;

/// The process that runs the ranks of a host.
#[derive(Debug)]
enum HostProcess {
    /// The launcher itself, once they are to start.
    Here(Option<Box<Node>>),
    /// An agent of the launcher's.
    There(Box<Branch>),
    /// An agent that the agent of another host starts.
    Behind,
    /// No process any more.
    Gone,
}

/// A part of a host that can be ready.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Ready {
    /// A part of the launcher's own node.
    Part(NodePart),
    /// A part of a branch.
    Branch(BranchPart),
}

/// A host and its ranks.
#[derive(Debug)]
pub(crate) struct JobHost {
    /// The place of the host, and its ranks.
    pub(crate) share: Share,
    /// The host whose agent starts this one's, by place; `None` if the launcher does.
    pub(crate) starter: Option<usize>,
    process: HostProcess,
    /// True while it can be given its order.
    pub(crate) ready: bool,
    /// True once its agent has sent its first message.
    is_greeted: bool,
    /// True once all that it has to tell is told.
    pub(crate) over: bool,
    /// The fault that was found with it.
    pub(crate) fault: Option<HostFault>,
    /// Output taken and not yet granted again.
    owed: u32,
}

impl JobHost {
    /// The host of a share, at this place; its agent, if the launcher starts that, is started.
    pub(crate) fn new(share: Share, number: u32, starter: Option<usize>, ways: &AgentCommands) -> Self {
        let (process, fault) = match (&share.place, starter) {
            (HostPlace::Here, _) => (HostProcess::Here(None), None),
            (_, Some(_)) => (HostProcess::Behind, None),
            (place, None) => match Branch::start(number, place, ways) {
                Ok(branch) => (HostProcess::There(Box::new(branch)), None),
                Err(fault) => (HostProcess::Gone, Some(fault)),
            },
        };
        let (ready, over) = (share.place == HostPlace::Here, fault.is_some());
        Self { share, starter, process, ready, is_greeted: false, over, fault, owed: 0 }
    }

    /// Returns true if the launcher itself runs its ranks.
    pub(crate) fn is_here(&self) -> bool {
        self.share.place == HostPlace::Here
    }

    /// The descriptors to be watched.
    pub(crate) fn watched<'a>(
        &'a self,
        relay: &Relay,
    ) -> Box<dyn Iterator<Item = (Ready, BorrowedFd<'a>, PollFlags)> + 'a> {
        match &self.process {
            HostProcess::Here(Some(node)) => {
                let (out, err) = (relay.has_room(OutputKind::Out), relay.has_room(OutputKind::Err));
                let parts = node.watched(move |kind| if kind == OutputKind::Out { out } else { err });
                Box::new(parts.map(|(part, file, events)| (Ready::Part(part), file, events)))
            }
            HostProcess::There(branch) => {
                Box::new(branch.watched().map(|(part, file, events)| (Ready::Branch(part), file, events)))
            }
            HostProcess::Here(None) | HostProcess::Behind | HostProcess::Gone => {
                Box::new(core::iter::empty())
            }
        }
    }

    /// The latest time to look at it again.
    pub(crate) fn deadline(&self) -> Option<Instant> {
        match &self.process {
            HostProcess::Here(Some(node)) => node.deadline(),
            HostProcess::There(branch) => branch.deadline(),
            HostProcess::Here(None) | HostProcess::Behind | HostProcess::Gone => None,
        }
    }

    /// Returns true if its agent, which the launcher has started, has missed signs of life, and is
    /// not given up yet.
    pub(crate) fn is_in_doubt(&self, now: Instant) -> bool {
        matches!(&self.process, HostProcess::There(branch) if branch.is_in_doubt(now))
    }

    /// Returns true if there is more to do without waiting for anything.
    pub(crate) fn hurries(&self, relay: &Relay) -> bool {
        let room = relay.has_room(OutputKind::Out) && relay.has_room(OutputKind::Err);
        matches!(&self.process, HostProcess::Here(Some(node)) if room && node.hurries())
    }

    /// Starts its ranks if the launcher runs them; else returns the order for its agent.
    pub(crate) fn start(&mut self, order: NodeOrder) -> Option<ToNode> {
        self.ready = false;
        let HostProcess::Here(node) = &mut self.process else {
            return Some(ToNode::Start(Box::new(order)));
        };
        match Node::start(&order) {
            Ok(started) => *node = Some(Box::new(started)),
            Err(refusal) => self.lose(HostFault::Refused(refusal)),
        }
        None
    }

    /// Sends a message to the launcher's node or agent that this host's process is; one behind
    /// another is not reached so.
    pub(crate) fn say(&mut self, command: &ToNode) {
        match &mut self.process {
            HostProcess::Here(Some(node)) => node.obey(command.clone()),
            HostProcess::There(branch) => branch.say(command),
            HostProcess::Here(None) | HostProcess::Behind | HostProcess::Gone => {}
        }
    }

    /// A child of the launcher has ended.
    pub(crate) fn look_after(&mut self) {
        if let HostProcess::Here(Some(node)) = &mut self.process {
            node.look_after();
        }
    }

    /// Deals with what is ready of it; returns the messages of this host and of those below.
    pub(crate) fn take(&mut self, ready: Ready) -> Vec<HostEvent> {
        match (&mut self.process, ready) {
            (HostProcess::Here(Some(node)), Ready::Part(part)) => node.look(part),
            (HostProcess::There(branch), Ready::Branch(part)) => return branch.take(part),
            _ => {}
        }
        Vec::new()
    }

    /// After what was ready has been dealt with: the messages of this host and of those below.
    pub(crate) fn step(&mut self, relay: &Relay) -> Vec<HostEvent> {
        match &mut self.process {
            HostProcess::Here(Some(node)) => {
                node.step(|kind| relay.has_room(kind));
                node.events().into_iter().map(|event| HostEvent { host: None, event }).collect()
            }
            HostProcess::There(branch) => branch.step(),
            HostProcess::Here(None) | HostProcess::Behind | HostProcess::Gone => Vec::new(),
        }
    }

    /// Its agent has sent its first message; returns false if it has done so before.
    pub(crate) fn greet(&mut self) -> bool {
        let is_first = !core::mem::replace(&mut self.is_greeted, true);
        self.ready |= is_first && !self.over;
        is_first
    }

    /// Output of its ranks was taken from its agent, if it has one.
    pub(crate) fn note_output(&mut self, bytes: u32) {
        if !self.is_here() {
            self.owed += bytes;
        }
    }

    /// Returns the grant that it is owed, once there is room again.
    pub(crate) fn grant(&mut self, relay: &Relay) -> Option<ToNode> {
        let has_room = relay.has_room(OutputKind::Out) && relay.has_room(OutputKind::Err);
        (self.owed > 0 && has_room && !self.over).then(|| ToNode::Room(core::mem::take(&mut self.owed)))
    }

    /// Gives the host up: it takes no part from here on.
    pub(crate) fn lose(&mut self, fault: HostFault) {
        if !self.over {
            self.fault.get_or_insert(fault);
        }
        self.dismiss();
    }

    /// Ends what is left of it, but for the way to the hosts below.
    pub(crate) fn dismiss(&mut self) {
        (self.over, self.ready) = (true, false);
        if self.is_here() {
            self.process = HostProcess::Gone;
        }
    }

    /// Returns true if there is a process of it, or may be one.
    pub(crate) const fn is_there(&self) -> bool {
        !matches!(self.process, HostProcess::Gone)
    }

    /// Lets go of its process; returns the branch that is to be ended, if it is the launcher's.
    pub(crate) fn cut(&mut self) -> Option<Branch> {
        match core::mem::replace(&mut self.process, HostProcess::Gone) {
            HostProcess::There(branch) => Some(*branch),
            _ => None,
        }
    }
}

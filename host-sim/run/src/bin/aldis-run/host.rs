//! The hosts of a job as the launcher sees them: a node of its own, or an agent with one, spoken to
//! alike.

use core::fmt;
use core::time::Duration;
use std::os::fd::BorrowedFd;
use std::time::Instant;

use aldis_run::hosts::{HostPlace, Share};
use aldis_sys::Errno;
use aldis_sys::event::PollFlags;

use crate::link::LinkError;
use crate::messages::{FromNode, NodeOrder, OutputKind, StartRefusal, ToNode, VERSION};
use crate::node::{Node, NodePart};
use crate::relay::Relay;
use crate::remote::{Agent, AgentCommands};

/// The time that the reason of an agent's end may take to show after its pipe has ended.
const REASON_LIMIT: Duration = Duration::from_millis(500);

/// The reason why a host takes no part, or no longer.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum HostFault {
    /// Its agent never sent a message.
    Unreachable { why: String },
    /// Its agent did not send a message in time.
    Silent { after: Duration },
    /// Its agent ended before its ranks.
    Lost { why: String },
    /// Its ranks cannot be started.
    Refused(StartRefusal),
    /// Its agent is of another build, or no agent.
    Foreign,
}

impl fmt::Display for HostFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unreachable { why } => write!(f, "cannot be reached: {why}"),
            Self::Silent { after } => {
                write!(f, "did not answer within {:.1} s (--join-timeout)", after.as_secs_f64())
            }
            Self::Lost { why } => write!(f, "is lost with its ranks: {why}"),
            Self::Refused(refusal) => f.write_str(&refusal.text),
            Self::Foreign => f.write_str(
                "runs an aldis-run of another build, or prints before it starts (a shell's profile?); --agent says where the right one is",
            ),
        }
    }
}

/// The process that runs the ranks of a host.
#[derive(Debug)]
enum HostProcess {
    /// The launcher itself, once they are to start.
    Here(Option<Box<Node>>),
    /// An agent.
    There(Agent),
    /// No process any more.
    Gone,
}

/// A part of a host that can be ready.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Ready {
    /// A part of the launcher's own node.
    Part(NodePart),
    /// The agent's link.
    Link,
    /// The agent's errors.
    Errors,
}

/// A host and its ranks.
#[derive(Debug)]
pub(crate) struct JobHost {
    /// The place of the host, and its ranks.
    pub(crate) share: Share,
    process: HostProcess,
    /// True while it can be given its order.
    pub(crate) ready: bool,
    /// True once all that it has to tell is told.
    pub(crate) over: bool,
    /// The fault that was found with it.
    pub(crate) fault: Option<HostFault>,
    /// The time at which its link ended too early.
    closed: Option<Instant>,
    /// Output taken and not yet granted again.
    owed: u32,
}

impl JobHost {
    /// The host of a share; its agent, if it needs one, is started.
    pub(crate) fn new(share: Share, ways: &AgentCommands) -> Self {
        let (process, fault) = match &share.place {
            HostPlace::Here => (HostProcess::Here(None), None),
            place => match Agent::start(place, ways) {
                Ok(agent) => (HostProcess::There(agent), None),
                Err(why) => (HostProcess::Gone, Some(HostFault::Unreachable { why })),
            },
        };
        let (ready, over) = (share.place == HostPlace::Here, fault.is_some());
        Self { share, process, ready, over, fault, closed: None, owed: 0 }
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
            HostProcess::There(agent) => {
                Box::new(agent.watched().map(|(link, file, events)| {
                    (if link { Ready::Link } else { Ready::Errors }, file, events)
                }))
            }
            HostProcess::Here(None) | HostProcess::Gone => Box::new(core::iter::empty()),
        }
    }

    /// The latest time to look at it again.
    pub(crate) fn deadline(&self) -> Option<Instant> {
        match &self.process {
            HostProcess::Here(Some(node)) => node.deadline(),
            _ => self.closed.filter(|_| self.fault.is_none()).map(|at| at + REASON_LIMIT),
        }
    }

    /// Returns true if there is more to do without waiting for anything.
    pub(crate) fn hurries(&self, relay: &Relay) -> bool {
        let room = relay.has_room(OutputKind::Out) && relay.has_room(OutputKind::Err);
        matches!(&self.process, HostProcess::Here(Some(node)) if room && node.hurries())
    }

    /// Starts its ranks.
    pub(crate) fn start(&mut self, order: NodeOrder) {
        self.ready = false;
        match &mut self.process {
            HostProcess::Here(node) => match Node::start(&order) {
                Ok(started) => *node = Some(Box::new(started)),
                Err(refusal) => self.lose(HostFault::Refused(refusal)),
            },
            HostProcess::There(agent) => agent.say(&ToNode::Start(Box::new(order))),
            HostProcess::Gone => {}
        }
    }

    /// Sends its node a message.
    pub(crate) fn say(&mut self, command: &ToNode) {
        match &mut self.process {
            HostProcess::Here(Some(node)) => node.obey(command.clone()),
            HostProcess::There(agent) => agent.say(command),
            HostProcess::Here(None) | HostProcess::Gone => {}
        }
    }

    /// A child of the launcher has ended.
    pub(crate) fn look_after(&mut self) {
        if let HostProcess::Here(Some(node)) = &mut self.process {
            node.look_after();
        }
    }

    /// Deals with what is ready of it.
    pub(crate) fn take(&mut self, ready: Ready) -> Vec<FromNode> {
        match (&mut self.process, ready) {
            (HostProcess::Here(Some(node)), Ready::Part(part)) => node.look(part),
            (HostProcess::There(agent), Ready::Link) => match agent.hear() {
                Ok(events) => return self.heard(events),
                Err(LinkError::Malformed) => self.lose(HostFault::Foreign),
                Err(LinkError::System { call, errno }) if errno != Errno::EPIPE => {
                    self.lose(HostFault::Lost { why: format!("{call} failed: {}", errno.desc()) });
                }
                Err(LinkError::Closed | LinkError::System { .. }) => self.closed = Some(Instant::now()),
            },
            (HostProcess::There(agent), Ready::Errors) => agent.read_errors(),
            _ => {}
        }
        Vec::new()
    }

    /// Keeps to itself what is between launcher and agent.
    fn heard(&mut self, mut events: Vec<FromNode>) -> Vec<FromNode> {
        events.retain(|event| match event {
            FromNode::Hello { version } if *version == VERSION => {
                self.ready = true;
                false
            }
            FromNode::Hello { .. } => {
                self.lose(HostFault::Foreign);
                false
            }
            FromNode::Refused(refusal) => {
                self.lose(HostFault::Refused(refusal.clone()));
                false
            }
            FromNode::Output { bytes, .. } => {
                self.owed += bytes.len() as u32;
                true
            }
            _ => true,
        });
        events
    }

    /// After what was ready has been dealt with: the messages of its node. `spoken` says whether a
    /// message of its agent ever came.
    pub(crate) fn step(&mut self, relay: &mut Relay, spoken: bool) -> Vec<FromNode> {
        match &mut self.process {
            HostProcess::Here(Some(node)) => {
                node.step(|kind| relay.has_room(kind));
                return node.events();
            }
            HostProcess::There(agent) => {
                if spoken {
                    let place = &self.share.place;
                    agent.lines().iter().for_each(|line| relay.note(&format!("[{place}] {line}")));
                }
                if self.owed > 0 && relay.has_room(OutputKind::Out) && relay.has_room(OutputKind::Err) {
                    agent.say(&ToNode::Room(core::mem::take(&mut self.owed)));
                }
            }
            HostProcess::Here(None) | HostProcess::Gone => {}
        }
        if self.closed.is_some() && self.fault.is_none() && !self.over {
            self.find_reason(spoken);
        }
        Vec::new()
    }

    /// Its link has ended: reports the reason, as soon as its process has ended too or has been
    /// waited for.
    fn find_reason(&mut self, spoken: bool) {
        let HostProcess::There(agent) = &mut self.process else { return };
        let late = self.closed.is_some_and(|at| Instant::now() >= at + REASON_LIMIT);
        let why = match agent.ended() {
            Some(why) => why,
            None if late => "its agent has closed the connection".to_owned(),
            None => return,
        };
        self.lose(if spoken { HostFault::Lost { why } } else { HostFault::Unreachable { why } });
    }

    /// Gives the host up: it takes no part from here on.
    pub(crate) fn lose(&mut self, fault: HostFault) {
        self.fault.get_or_insert(fault);
        self.dismiss();
    }

    /// Ends what is left of it.
    pub(crate) fn dismiss(&mut self) {
        self.process = HostProcess::Gone;
        (self.over, self.ready) = (true, false);
    }
}

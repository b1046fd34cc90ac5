//! A host whose agent this process has started: what comes over its link from it and from the hosts
//! that its agent has started in turn, and why that ended.

use core::time::Duration;
use std::os::fd::BorrowedFd;
use std::time::Instant;

use aldis_run::hosts::HostPlace;
use aldis_sys::Errno;
use aldis_sys::event::PollFlags;

use crate::host_fault::HostFault;
use crate::link::LinkError;
use crate::messages::{FromNode, HostEvent, ToNode, VERSION};
use crate::remote::{Agent, AgentCommands};

/// The time that the reason of an agent's end may take to show after its pipe has ended.
const REASON_LIMIT: Duration = Duration::from_millis(500);

/// A part of a branch that can be ready.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum BranchPart {
    /// The agent's link.
    Link,
    /// The agent's errors.
    Errors,
}

/// An agent of this process's own, and through it the hosts below. When dropped, all of them end.
#[derive(Debug)]
pub(crate) struct Branch {
    /// The host's number in the job.
    host: u32,
    agent: Agent,
    /// True once its agent has said that it is of this build.
    has_spoken: bool,
    /// The time at which its link ended.
    closed: Option<Instant>,
    /// True once nothing more is to be told of it.
    is_lost: bool,
}

impl Branch {
    /// Starts the agent of the host of this number.
    ///
    /// # Errors
    /// [`HostFault::Unreachable`] if there is no process for it.
    pub(crate) fn start(host: u32, place: &HostPlace, ways: &AgentCommands) -> Result<Self, HostFault> {
        let agent = Agent::start(place, ways).map_err(|why| HostFault::Unreachable { why })?;
        Ok(Self { host, agent, has_spoken: false, closed: None, is_lost: false })
    }

    /// The host's number in the job.
    pub(crate) const fn host(&self) -> u32 {
        self.host
    }

    /// The descriptors to be watched.
    pub(crate) fn watched(&self) -> impl Iterator<Item = (BranchPart, BorrowedFd<'_>, PollFlags)> {
        self.agent.watched()
    }

    /// The latest time to look at it again.
    pub(crate) fn deadline(&self) -> Option<Instant> {
        let closed = self.closed.map(|at| at + REASON_LIMIT);
        let watch = self.agent.watch_time().filter(|_| self.has_spoken);
        closed.or(watch).filter(|_| !self.is_lost)
    }

    /// Returns true if its agent has missed signs of life, and is not given up yet.
    pub(crate) fn is_in_doubt(&self, now: Instant) -> bool {
        self.has_spoken && !self.is_lost && self.agent.is_in_doubt(now)
    }

    /// Sends its agent a message.
    pub(crate) fn say(&mut self, message: &ToNode) {
        self.agent.say(message);
    }

    /// Receives what is ready, of whichever host it is.
    pub(crate) fn take(&mut self, part: BranchPart) -> Vec<HostEvent> {
        if part == BranchPart::Errors {
            self.agent.read_errors();
        }
        if part == BranchPart::Errors || self.is_lost {
            return Vec::new();
        }
        match self.agent.hear() {
            Ok(events) => events.into_iter().map(|event| self.heard(event)).collect(),
            Err(LinkError::Malformed) => self.lose(HostFault::Foreign),
            Err(LinkError::System { call, errno }) if errno != Errno::EPIPE => {
                self.lose(HostFault::Lost { why: format!("{call} failed: {}", errno.desc()) })
            }
            Err(LinkError::Closed | LinkError::System { .. }) => {
                self.closed = Some(Instant::now());
                Vec::new()
            }
        }
    }

    /// Puts the host's number to what its agent says of itself.
    fn heard(&mut self, HostEvent { host, event }: HostEvent) -> HostEvent {
        let event = match event {
            FromNode::Hello { version } if host.is_none() && version != VERSION => {
                self.is_lost = true;
                FromNode::Fault(HostFault::Foreign)
            }
            event => event,
        };
        self.has_spoken |= host.is_none() && matches!(event, FromNode::Hello { .. });
        HostEvent { host: host.or(Some(self.host)), event }
    }

    /// After what was ready has been dealt with: the lines that its agent has printed, and why it
    /// is lost, as soon as its process has ended too or has been waited for.
    pub(crate) fn step(&mut self) -> Vec<HostEvent> {
        let mut events = Vec::new();
        if self.has_spoken {
            let lines = self.agent.lines().into_iter().map(FromNode::Line);
            events.extend(lines.map(|event| HostEvent { host: Some(self.host), event }));
        }
        // Before it has sent a message, `--join-timeout` rules.
        if self.has_spoken
            && !self.is_lost
            && let Some(silent) = self.agent.keep_watch()
        {
            events.extend(self.lose(HostFault::Hung { silent, from: None }));
        }
        let Some(closed) = self.closed.filter(|_| !self.is_lost) else { return events };
        let why = match self.agent.ended() {
            Some(why) => why,
            None if Instant::now() >= closed + REASON_LIMIT => {
                "its agent has closed the connection".to_owned()
            }
            None => return events,
        };
        events.extend(self.lose(if self.has_spoken {
            HostFault::Lost { why }
        } else {
            HostFault::Unreachable { why }
        }));
        events
    }

    /// Tells of its fault, once.
    fn lose(&mut self, fault: HostFault) -> Vec<HostEvent> {
        if core::mem::replace(&mut self.is_lost, true) {
            return Vec::new();
        }
        vec![HostEvent { host: Some(self.host), event: FromNode::Fault(fault) }]
    }
}

/// Branches whose agents are to end, side by side and without being waited for until this is
/// dropped.
#[derive(Debug, Default)]
pub(crate) struct EndingBranches(Vec<Branch>);

impl EndingBranches {
    /// Closes the pipe of a branch's agent, upon which all that is below ends.
    pub(crate) fn take(&mut self, mut branch: Branch) {
        branch.agent.hang_up();
        self.0.push(branch);
    }

    /// Forgets those that have ended, and ends those that have had their time.
    pub(crate) fn reap(&mut self) {
        let now = Instant::now();
        self.0.retain_mut(|branch| {
            let is_late = branch.agent.farewell_ends().is_none_or(|end| now >= end);
            !is_late && !branch.agent.has_ended()
        });
    }

    /// The time at which the next of them has had its time.
    pub(crate) fn deadline(&self) -> Option<Instant> {
        self.0.iter().filter_map(|branch| branch.agent.farewell_ends()).min()
    }
}

//! The hosts of a job in the tree of their agents: messages to them, and what becomes of those
//! below a host that is lost.

use core::ops::{Deref, DerefMut};
use std::time::Instant;

use aldis_run::hosts::Share;

use crate::branch::EndingBranches;
use crate::host::JobHost;
use crate::host_fault::HostFault;
use crate::messages::ToNode;
use crate::remote::AgentCommands;
use crate::tree;

/// The hosts of a job, by their numbers.
#[derive(Debug)]
pub(crate) struct JobHosts {
    hosts: Vec<JobHost>,
    ways: AgentCommands,
    /// The launcher's own branches that are over.
    ending: EndingBranches,
}

impl JobHosts {
    /// The hosts of these shares; the agents that the launcher starts are started, at most `fanout`
    /// of other machines and as many of this one.
    pub(crate) fn new(shares: Vec<Share>, fanout: u32, ways: AgentCommands) -> Self {
        let starters = tree::starters(&shares, fanout);
        let hosts = shares.into_iter().zip(starters).zip(0..);
        let hosts = hosts.map(|((share, starter), number)| JobHost::new(share, number, starter, &ways));
        Self { hosts: hosts.collect(), ways, ending: EndingBranches::default() }
    }

    /// Sends all hosts a message: agents pass it on to those that they have started.
    pub(crate) fn say_all(&mut self, command: &ToNode) {
        self.iter_mut().for_each(|host| host.say(command));
    }

    /// Sends one host a message, through the agents on the way there.
    pub(crate) fn say_to(&mut self, mut place: usize, mut message: ToNode) {
        while let Some(starter) = self.hosts.get(place).and_then(|host| host.starter) {
            message = ToNode::Below { host: place as u32, message: Box::new(message) };
            place = starter;
        }
        self.hosts.get_mut(place).into_iter().for_each(|host| host.say(&message));
    }

    /// Has an agent start those of the hosts below it.
    pub(crate) fn grow(&mut self, place: usize) {
        let below = (0..).zip(&self.hosts).filter(|(_, host)| host.starter == Some(place) && !host.over);
        let below: Vec<_> = below.map(|(number, host)| (number, host.share.place.clone())).collect();
        let ways = self.ways.below(self.above(place).count() as u32);
        for (host, at) in below {
            self.say_to(place, ToNode::Grow { host, place: at, ways: ways.clone() });
        }
    }

    /// A host takes no part, and none whose messages come through it.
    pub(crate) fn lose(&mut self, place: usize, fault: HostFault) {
        let below: Vec<usize> =
            (0..self.hosts.len()).filter(|below| *below != place && self.is_below(*below, place)).collect();
        let starter = self.hosts.get(place).and_then(|host| self.hosts.get(host.starter?));
        let starter = starter.map(|host| host.share.place.to_string());
        let fault = match (fault, starter) {
            (HostFault::Unreachable { why }, Some(starter)) => {
                let all = self.hosts.len();
                let remedy = format!("tried from {starter}; with --fanout {all} the launcher starts all");
                HostFault::Unreachable { why: format!("{why} ({remedy})") }
            }
            (HostFault::Hung { silent, .. }, from) => HostFault::Hung { silent, from },
            (fault, _) => fault,
        };
        let Some(host) = self.hosts.get_mut(place) else { return };
        let why = format!("it was reached through {}, which {fault}", host.share.place);
        host.lose(fault);
        for host in below {
            let Some(host) = self.hosts.get_mut(host) else { continue };
            host.lose(HostFault::Lost { why: why.clone() });
        }
    }

    /// Returns true if the messages of the host at `place` pass by the agent of that at `above`.
    pub(crate) fn is_below(&self, place: usize, above: usize) -> bool {
        self.above(place).any(|at| at == above)
    }

    /// The host at `place`, and those by whose agents its messages pass.
    fn above(&self, place: usize) -> impl Iterator<Item = usize> {
        let starter = |place: &usize| self.hosts.get(*place).and_then(|host| host.starter);
        core::iter::successors(Some(place), starter)
    }

    /// Ends the processes of hosts that are over, once all below them are.
    pub(crate) fn cut(&mut self) {
        for place in (0..self.hosts.len()).rev() {
            let is_done = |host: &JobHost| host.over && host.is_there();
            let is_needed = |host: &JobHost| host.starter == Some(place) && host.is_there();
            if !self.hosts.get(place).is_some_and(is_done) || self.hosts.iter().any(is_needed) {
                continue;
            }
            let Some(host) = self.hosts.get_mut(place) else { continue };
            let (branch, starter) = (host.cut(), host.starter);
            branch.into_iter().for_each(|branch| self.ending.take(branch));
            if let Some(starter) = starter {
                self.say_to(starter, ToNode::Cut { host: place as u32 });
            }
        }
        self.ending.reap();
    }

    /// The time at which an agent that is over has had its time.
    pub(crate) fn deadline(&self) -> Option<Instant> {
        self.ending.deadline()
    }
}

impl Deref for JobHosts {
    type Target = [JobHost];

    fn deref(&self) -> &[JobHost] {
        &self.hosts
    }
}

impl DerefMut for JobHosts {
    fn deref_mut(&mut self) -> &mut [JobHost] {
        &mut self.hosts
    }
}

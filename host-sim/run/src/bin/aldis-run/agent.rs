//! An agent: a node of another place, which receives the launcher's messages on standard input and
//! sends its own on standard output. When the input ends, for whatever reason, so does every rank;
//! so it does when nothing comes any more, from a machine that is frozen or cut off.
//! It starts the agents of other hosts when it is told to, and passes messages on to and from them.

use core::time::Duration;
use std::os::fd::AsFd;
use std::time::Instant;

use aldis_sys::Errno;
use aldis_sys::event::{PollFd, PollFlags, poll};
use aldis_sys::file::dup;
use aldis_sys::signal::Signal;

use crate::branch::{Branch, BranchPart, EndingBranches};
use crate::error::{LaunchError, system};
use crate::heartbeat::{self, Heartbeat};
use crate::link::{ControlLink, LinkError};
use crate::messages::{FromNode, HostEvent, NodeOrder, OUTPUT_WINDOW, ToNode, VERSION};
use crate::node::{Node, NodePart};
use crate::signals::{Signals, ends_a_job};
use crate::supervise::timeout_until;

/// The kind of a polled descriptor.
#[derive(Clone, Copy)]
enum AgentSource {
    Signals,
    Link,
    Node(NodePart),
    /// By place.
    Branch(usize, BranchPart),
}

/// The cause for which an agent ends by itself.
enum AgentEnd {
    /// A signal.
    Signal(Signal),
    /// The process that has started it has been silent for too long.
    Deserted { silent: Duration },
}

/// Serves the launcher until it is gone, or has been silent for so long, if that is not zero;
/// returns the exit code.
pub(crate) fn run(silence: Duration) -> Result<u8, LaunchError> {
    let signals = Signals::take_over()?;
    let input = dup(std::io::stdin()).map_err(system("dup"))?;
    let output = dup(std::io::stdout()).map_err(system("dup"))?;
    let link = ControlLink::new(input, output).map_err(system("fcntl"))?;
    let mut agent = Agent {
        signals,
        link,
        heartbeat: Heartbeat::over_starter(silence, Instant::now()),
        node: None,
        room: OUTPUT_WINDOW,
        branches: Vec::new(),
        ending: EndingBranches::default(),
    };
    match agent.serve() {
        Ok(AgentEnd::Signal(signal)) => Ok(128 + signal as i32 as u8),
        Ok(AgentEnd::Deserted { silent }) => Err(LaunchError::Deserted { silent }),
        // The launcher has seen the end, or is gone.
        Err(LinkError::Closed) => Ok(0),
        Err(LinkError::Malformed) => Err(LaunchError::Nonsense),
        Err(LinkError::System { call, errno }) => Err(LaunchError::System { call, errno }),
    }
}

fn signals_failed(errno: Errno) -> LinkError {
    LinkError::System { call: "read of signals", errno }
}

struct Agent {
    signals: Signals,
    link: ControlLink<ToNode>,
    /// The watch over that link.
    heartbeat: Heartbeat,
    /// Once there is an order.
    node: Option<Node>,
    /// Bytes of output that the launcher will take.
    room: u32,
    /// The hosts whose agents this one has started.
    branches: Vec<Branch>,
    /// Those that are over.
    ending: EndingBranches,
}

impl Agent {
    fn serve(&mut self) -> Result<AgentEnd, LinkError> {
        self.tell(FromNode::Hello { version: VERSION })?;
        loop {
            let sources = self.wait()?;
            if sources.is_empty() {
                self.node.iter_mut().for_each(Node::look_after);
            }
            for source in sources {
                match source {
                    AgentSource::Signals => {
                        if let Some(signal) = self.take_signals()? {
                            return Ok(AgentEnd::Signal(signal));
                        }
                    }
                    AgentSource::Link => self.listen()?,
                    AgentSource::Node(part) => self.node.iter_mut().for_each(|node| node.look(part)),
                    AgentSource::Branch(place, part) => {
                        let events = self.branches.get_mut(place).map(|branch| branch.take(part));
                        self.pass_up(events.unwrap_or_default())?;
                    }
                }
            }
            self.report()?;
            if let Some(silent) = self.keep_watch()? {
                return Ok(AgentEnd::Deserted { silent });
            }
        }
    }

    /// Gives a sign of life when one is due; returns for how long nothing has come, if that is too
    /// long.
    fn keep_watch(&mut self) -> Result<Option<Duration>, LinkError> {
        let now = Instant::now();
        // What waits already will be one.
        if self.heartbeat.is_due(now) && self.link.output().is_none() {
            self.tell(FromNode::Alive)?;
        }
        Ok(self.heartbeat.judge(now))
    }

    /// Starts the ranks of an order. No other message is sent or read meanwhile, which those on
    /// either side are told.
    fn start(&mut self, order: &NodeOrder) -> Result<(), LinkError> {
        let ms = heartbeat::start_ms(Duration::from_millis(order.join_ms.into()));
        self.tell(FromNode::Busy(ms))?;
        self.branches.iter_mut().for_each(|branch| branch.say(&ToNode::Busy(ms)));
        match Node::start(order) {
            Ok(node) => self.node = Some(node),
            Err(refusal) => self.tell(FromNode::Refused(refusal))?,
        }
        Ok(())
    }

    fn wait(&self) -> Result<Vec<AgentSource>, LinkError> {
        let mut watched = vec![
            (AgentSource::Signals, PollFd::new(self.signals.as_fd(), PollFlags::POLLIN)),
            (AgentSource::Link, PollFd::new(self.link.input(), PollFlags::POLLIN)),
        ];
        let output = self.link.output().map(|output| PollFd::new(output, PollFlags::POLLOUT));
        watched.extend(output.map(|output| (AgentSource::Link, output)));
        let room = self.room > 0;
        if let Some(node) = &self.node {
            let parts = node.watched(move |_| room);
            watched.extend(
                parts.map(|(part, file, events)| (AgentSource::Node(part), PollFd::new(file, events))),
            );
        }
        for (place, branch) in self.branches.iter().enumerate() {
            let parts = branch.watched();
            watched.extend(
                parts.map(|(part, file, events)| {
                    (AgentSource::Branch(place, part), PollFd::new(file, events))
                }),
            );
        }
        let hurries = room && self.node.as_ref().is_some_and(Node::hurries);
        let deadlines = self
            .branches
            .iter()
            .filter_map(Branch::deadline)
            .chain(self.ending.deadline())
            .chain(self.heartbeat.deadline());
        let next = self.node.as_ref().and_then(Node::deadline).into_iter().chain(deadlines).min();
        let patience = timeout_until(next, hurries);
        let (sources, mut files): (Vec<_>, Vec<_>) = watched.into_iter().unzip();
        match poll(&mut files, patience) {
            Ok(_) | Err(Errno::EINTR) => {}
            Err(errno) => return Err(LinkError::System { call: "poll", errno }),
        }
        let ready = sources.into_iter().zip(files).filter(|(_, file)| file.any().unwrap_or(false));
        Ok(ready.map(|(source, _)| source).collect())
    }

    /// Looks after ended ranks; returns a signal that ends the agent itself.
    fn take_signals(&mut self) -> Result<Option<Signal>, LinkError> {
        while let Some(signal) = self.signals.next().map_err(signals_failed)? {
            if signal == Signal::SIGCHLD {
                self.node.iter_mut().for_each(Node::look_after);
            } else if ends_a_job(signal) {
                return Ok(Some(signal));
            }
        }
        Ok(None)
    }

    fn listen(&mut self) -> Result<(), LinkError> {
        self.link.flush()?;
        if self.link.hear()? {
            self.heartbeat.hear(Instant::now());
        }
        while let Some(command) = self.link.next()? {
            self.heartbeat.excuse(match command {
                ToNode::Busy(ms) => Some(Duration::from_millis(ms.into())),
                _ => None,
            });
            if command.is_for_all() {
                self.branches.iter_mut().for_each(|branch| branch.say(&command));
            }
            match (command, &mut self.node) {
                (ToNode::Start(order), None) => self.start(&order)?,
                (ToNode::Grow { host, place, ways }, _) => match Branch::start(host, &place, &ways) {
                    Ok(branch) => self.branches.push(branch),
                    Err(fault) => {
                        self.link.say(&HostEvent { host: Some(host), event: FromNode::Fault(fault) })?;
                    }
                },
                (ToNode::Below { host, message }, _) => {
                    let branch = self.branches.iter_mut().find(|branch| branch.host() == host);
                    branch.into_iter().for_each(|branch| branch.say(&message));
                }
                (ToNode::Cut { host }, _) => {
                    let cut = self.branches.extract_if(.., |branch| branch.host() == host);
                    cut.for_each(|branch| self.ending.take(branch));
                }
                (ToNode::Room(bytes), _) => self.room = self.room.saturating_add(bytes).min(OUTPUT_WINDOW),
                (command, Some(node)) => node.obey(command),
                // There was a refusal, and there are no ranks.
                (_, None) => {}
            }
        }
        Ok(())
    }

    /// Sends a message of this agent's own node.
    fn tell(&mut self, event: FromNode) -> Result<(), LinkError> {
        self.link.say(&HostEvent { host: None, event })
    }

    /// Passes on the messages of hosts below.
    fn pass_up(&mut self, events: Vec<HostEvent>) -> Result<(), LinkError> {
        events.iter().try_for_each(|event| self.link.say(event))
    }

    /// Sends the launcher what is new.
    fn report(&mut self) -> Result<(), LinkError> {
        self.ending.reap();
        for place in 0..self.branches.len() {
            let events = self.branches.get_mut(place).map(Branch::step);
            self.pass_up(events.unwrap_or_default())?;
        }
        let Some(node) = &mut self.node else { return Ok(()) };
        let room = self.room > 0;
        node.step(|_| room);
        for event in node.events() {
            if let FromNode::Output { bytes, .. } = &event {
                self.room = self.room.saturating_sub(bytes.len() as u32);
            }
            self.tell(event)?;
        }
        Ok(())
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        self.branches.drain(..).for_each(|branch| self.ending.take(branch));
    }
}

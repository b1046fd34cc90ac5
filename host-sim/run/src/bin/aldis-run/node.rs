//! A node: the ranks of one machine, from their start to the end of whatever they have left behind.
//! The launcher has one of its own for the ranks of its machine; an agent is one behind a pipe.

use core::time::Duration;
use std::ffi::OsString;
use std::os::fd::{AsFd, BorrowedFd};
use std::time::Instant;

use aldis_linux::board::Label;
use aldis_linux::copier;
use aldis_linux::segment::{self, DepartureTable, SegmentError};
use aldis_linux::shape::NodePlan;
use aldis_linux::wireup::{self, CardTable, Channel, WireError};
use aldis_sys::Errno;
use aldis_sys::event::PollFlags;
use aldis_sys::file::{AccessFlags, access, chdir, metadata};
use aldis_sys::limits::{Resource, getrlimit, setrlimit};
use aldis_sys::signal::Signal;

use crate::cores::{self, CoreClaim};
use crate::messages::{FromNode, Moment, NodeOrder, OutputKind, StartRefusal, ToNode};
use crate::pipes::{Came, Pipes};
use crate::rank::Rank;
use crate::spawn;
use crate::wire::{Conversation, WireUpJob};

/// The time from the polite end (SIGTERM) to the certain one (SIGKILL).
pub(crate) const GRACE: Duration = Duration::from_millis(300);

/// A part of a node that can be ready.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum NodePart {
    /// A rank's wire-up socket, by place.
    Rank(usize),
    /// A rank's output, by place.
    Pipe(usize),
}

/// The progress of a node.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum NodePhase {
    /// Ranks run.
    Running,
    /// All ranks have ended; their output is being taken.
    Draining,
    /// All is told.
    Over,
}

/// The ranks of this machine.
#[derive(Debug)]
pub(crate) struct Node {
    job: WireUpJob,
    ranks: Vec<Rank>,
    pipes: Pipes,
    phase: NodePhase,
    /// The time at which the ranks that are still there are killed.
    kill_at: Option<Instant>,
    /// Events that the launcher is to be told.
    events: Vec<FromNode>,
    /// The cores that this launcher's ranks alone are bound to.
    claim: CoreClaim,
}

impl Node {
    /// Makes all segments, then all processes.
    pub(crate) fn start(order: &NodeOrder) -> Result<Self, StartRefusal> {
        let mut node = Self::prepare(order)?;
        let mut boards = Vec::new();
        let bytes = node.job.plan.segment_bytes;
        let refused = |error| no_segments(order.ranks, bytes, error);
        // The ranks of a file.
        let shape = node.job.plan.file();
        let firsts = (order.first..order.first + order.ranks).step_by(shape.ranks as usize);
        check_descriptors(order.ranks, firsts.len() + usize::from(order.tcp.is_some()))?;
        segment::check_room(firsts.len() as u32, shape).map_err(refused)?;
        for rank in firsts {
            let label = Label { job: order.job, rank, size: order.size };
            let (file, mut some) = segment::create_all(label, shape).map_err(refused)?;
            node.job.segments.push(file);
            boards.append(&mut some);
        }
        if order.tcp.is_some() {
            node.job.departures = Some(DepartureTable::create(order.job, order.size).map_err(refused)?);
        }
        let (sets, claim) = cores::of_ranks(order.binding, order.ranks as usize);
        node.claim = claim;
        let mut sets = sets.iter().cycle();
        let is_crowded = order.ranks > node.job.node.cores;
        let measured = if is_crowded { copier::measured_costs() } else { Vec::new() };
        for (rank, board) in (order.first..).zip(boards) {
            let (ours, theirs) = Channel::pair().map_err(no_channel)?;
            let (cores, measured) = (sets.next(), &measured[..]);
            let plan = spawn::SpawnPlan { order, rank, socket: &theirs, cores, measured };
            let spawned = spawn::spawn(&plan)
                .map_err(|error| StartRefusal { text: error.to_string(), code: error.exit_code() })?;
            node.ranks.push(Rank::new(rank, board, spawned.pid, Conversation::new(rank, ours)));
            if let Some((out, err)) = spawned.streams {
                node.pipes.add(rank, out, err).map_err(system("fcntl"))?;
            }
        }
        node.events.push(FromNode::Started { cores: node.job.node.cores });
        Ok(node)
    }

    /// Checks the order and goes to its folder.
    fn prepare(order: &NodeOrder) -> Result<Self, StartRefusal> {
        let shares_memory = order.shares_memory;
        let plan = NodePlan::of(if shares_memory { order.ranks } else { 1 });
        let nonsense =
            || StartRefusal { text: format!("no plan for {} ranks on a node", order.ranks), code: 1 };
        let arena_bytes = usize::try_from(order.arena_bytes).unwrap_or(usize::MAX);
        let plan = plan.filter(|_| order.ranks > 0).ok_or_else(nonsense)?.with_arena(arena_bytes);
        let refused = |folder: &OsString, errno: Errno| StartRefusal {
            text: format!("cannot work in {}: chdir failed: {}; see --wdir", folder.display(), errno.desc()),
            code: 1,
        };
        if let Some(folder) = &order.folder {
            chdir(folder.as_os_str()).map_err(|errno| refused(folder, errno))?;
        }
        for folder in order.programs.iter().filter_map(|program| program.folder.as_ref()) {
            access(folder.as_os_str(), AccessFlags::X_OK).map_err(|errno| refused(folder, errno))?;
            if !metadata(folder).is_ok_and(|data| data.is_dir()) {
                return Err(refused(folder, Errno::ENOTDIR));
            }
        }
        let cores = cores::in_order().len() as u32;
        let NodeOrder { first, ranks, .. } = *order;
        let per_node = if shares_memory { order.per_node } else { 0 };
        let node = wireup::Node { first, ranks, cores, shares_memory, per_node };
        let join_deadline = Instant::now() + Duration::from_millis(u64::from(order.join_ms));
        let (key, size) = (order.job, order.size);
        let job = WireUpJob {
            key,
            size,
            node,
            plan,
            join_deadline,
            segments: Vec::new(),
            tcp: order.tcp.clone(),
            cards: None,
            departures: None,
        };
        Ok(Self {
            job,
            ranks: Vec::new(),
            pipes: Pipes::default(),
            phase: NodePhase::Running,
            kill_at: None,
            events: Vec::new(),
            claim: CoreClaim::default(),
        })
    }

    /// The descriptors to be watched; of pipes those for whose output there is `room`.
    pub(crate) fn watched(
        &self,
        room: impl Fn(OutputKind) -> bool,
    ) -> impl Iterator<Item = (NodePart, BorrowedFd<'_>, PollFlags)> {
        let ranks = self.ranks.iter().enumerate().filter_map(|(place, rank)| {
            let (channel, speaks) = rank.conversation.socket()?;
            let events = if speaks { PollFlags::POLLIN | PollFlags::POLLOUT } else { PollFlags::POLLIN };
            Some((NodePart::Rank(place), channel.as_fd(), events))
        });
        let pipes = self.pipes.open().filter(move |(_, kind, _)| room(*kind));
        ranks.chain(pipes.map(|(place, _, file)| (NodePart::Pipe(place), file, PollFlags::POLLIN)))
    }

    /// The latest time to look again.
    pub(crate) const fn deadline(&self) -> Option<Instant> {
        self.kill_at
    }

    /// A child of this process may have ended.
    pub(crate) fn look_after(&mut self) {
        self.ranks.iter_mut().for_each(Rank::look_after);
    }

    /// Reads from a rank's pipe that is ready, or has the rank listened to in the next
    /// [`step`](Self::step).
    pub(crate) fn look(&mut self, part: NodePart) {
        match part {
            NodePart::Rank(place) => {
                self.ranks.get_mut(place).into_iter().for_each(|rank| rank.is_ready = true)
            }
            NodePart::Pipe(place) => {
                let came = self.pipes.read(place);
                self.take(came);
            }
        }
    }

    /// Passes on what came through a pipe; returns false if nothing did.
    fn take(&mut self, came: Came) -> bool {
        match came {
            Came::Output { rank, kind, bytes } => self.events.push(FromNode::Output { rank, kind, bytes }),
            Came::Lost { rank, errno } => {
                let text =
                    format!("read of what rank {rank} prints failed: {}; the rest is lost", errno.desc());
                self.events.push(FromNode::Unheard { text });
            }
            Came::Nothing => return false,
        }
        true
    }

    /// Carries out a message of the launcher.
    pub(crate) fn obey(&mut self, command: ToNode) {
        match command {
            ToNode::Cards(cards) => {
                // A rank that has sent a card has mapped all segments.
                self.job.segments.clear();
                self.job.cards = Some(CardTable::of(&cards).share(self.job.key));
                self.ranks.iter_mut().for_each(|rank| rank.conversation.introduce());
            }
            ToNode::Departed(ranks) => {
                let table = self.job.departures.as_ref();
                table.into_iter().for_each(|table| ranks.iter().for_each(|rank| table.mark(*rank)));
            }
            ToNode::TakeNotes(moment) => self.note(moment),
            ToNode::Signal(number) => {
                if let Ok(signal) = Signal::try_from(number) {
                    self.ranks.iter().for_each(|rank| rank.signal(signal));
                }
            }
            ToNode::End { spared } => {
                let others = self.ranks.iter().filter(|rank| Some(rank.number()) != spared);
                others.for_each(|rank| rank.signal(Signal::SIGTERM));
                self.kill_at = Some(Instant::now() + GRACE);
            }
            ToNode::Shut(kind) => self.pipes.shut(kind),
            // What an agent deals with by itself.
            ToNode::Start(_)
            | ToNode::Room(_)
            | ToNode::Grow { .. }
            | ToNode::Below { .. }
            | ToNode::Cut { .. }
            | ToNode::Alive
            | ToNode::Busy(_) => {}
        }
    }

    /// Receives from every rank that is ready, or has ended, and answers, after what was ready has
    /// been dealt with; `room` as in [`watched`](Self::watched).
    pub(crate) fn step(&mut self, room: impl Fn(OutputKind) -> bool) {
        for rank in &mut self.ranks {
            // A rank's last message is received before its end is judged.
            if core::mem::take(&mut rank.is_ready) || rank.state.exit.is_some() {
                rank.listen();
            }
            if let Some(bytes) = rank.conversation.card.take() {
                self.events.push(FromNode::Card { rank: rank.number(), bytes });
            }
            rank.speak(&self.job);
        }
        for rank in &mut self.ranks {
            if let Some(state) = rank.news() {
                self.events.push(FromNode::Rank { rank: rank.number(), state });
            }
        }
        if self.kill_at.is_some_and(|at| Instant::now() >= at) {
            self.obey(ToNode::Signal(Signal::SIGKILL as i32));
            self.kill_at = None;
        }
        if self.phase == NodePhase::Running && self.ranks.iter().all(|rank| rank.state.exit.is_some()) {
            self.note(Moment::Ended);
            // Ends what they have left behind.
            self.end_ranks();
            (self.phase, self.kill_at) = (NodePhase::Draining, None);
        }
        if self.phase == NodePhase::Draining {
            self.drain(room);
        }
    }

    /// Ends all ranks: each is waited for once all are told, so that one which does not end, as a
    /// debugger or a device can have it, keeps no other running.
    fn end_ranks(&mut self) {
        self.ranks.iter().for_each(Rank::kill);
        self.ranks.clear();
    }

    /// Takes what is left in the pipes. What holds one open now has left its rank's process group,
    /// and is let go.
    fn drain(&mut self, room: impl Fn(OutputKind) -> bool) {
        let ready = self.pipes.open().filter(|(_, kind, _)| room(*kind)).map(|(place, ..)| place);
        for place in ready.collect::<Vec<_>>() {
            let came = self.pipes.read(place);
            if !self.take(came) {
                self.pipes.close(place);
            }
        }
        if self.pipes.open().next().is_none() {
            self.phase = NodePhase::Over;
            self.events.push(FromNode::Over);
        }
    }

    /// Returns true if there is more to do without waiting for anything.
    pub(crate) fn hurries(&self) -> bool {
        self.phase == NodePhase::Draining
    }

    fn note(&mut self, moment: Moment) {
        self.events.push(FromNode::Notes(moment, self.ranks.iter().map(Rank::note).collect()));
    }

    /// Takes what there is to tell since it was last asked.
    pub(crate) fn events(&mut self) -> Vec<FromNode> {
        core::mem::take(&mut self.events)
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        self.end_ranks();
    }
}

fn no_channel(error: WireError) -> StartRefusal {
    match error {
        WireError::System { call, errno } => system(call)(errno),
        _ => StartRefusal { text: error.to_string(), code: 1 },
    }
}

fn system(call: &'static str) -> impl Fn(Errno) -> StartRefusal {
    move |errno| {
        let remedy = if errno == Errno::EMFILE { spawn::remedy(errno) } else { "" };
        StartRefusal { text: format!("{call} failed: {}{remedy}", errno.desc()), code: 1 }
    }
}

fn remedy(error: SegmentError) -> &'static str {
    match error {
        SegmentError::NoMemory { .. } => {
            "; try fewer ranks, a smaller --arena, free some memory, or raise ulimit -f or the control group's memory limit"
        }
        SegmentError::System { errno: Errno::EMFILE, .. } => "; try ulimit -n 1024",
        _ => "",
    }
}

/// Descriptors that the start of a rank takes: its socket, and a pipe each for output and errors.
const DESCRIPTORS_A_RANK: u64 = 3;

/// Descriptors that are open beside them: standard ones, signals, and those of the rank that is
/// being started.
const DESCRIPTORS_BESIDE: u64 = 16;

/// Fails unless this process may open what so many ranks take, with so many files for them, before
/// the first is made. Where only the soft limit is in the way it is raised, for the ranks too.
fn check_descriptors(ranks: u32, files: usize) -> Result<(), StartRefusal> {
    let need = u64::from(ranks) * DESCRIPTORS_A_RANK + files as u64 + DESCRIPTORS_BESIDE;
    let (soft, have) = getrlimit(Resource::RLIMIT_NOFILE).unwrap_or((u64::MAX, u64::MAX));
    let raise = || setrlimit(Resource::RLIMIT_NOFILE, need.next_multiple_of(1024).min(have), have);
    if soft >= need || have >= need && raise().is_ok() {
        return Ok(());
    }
    let most = need.next_multiple_of(1024);
    let text = format!(
        "Too many open files: {ranks} ranks need {need} descriptors, {have} are allowed; try ulimit -n {most}"
    );
    Err(StartRefusal { text, code: 1 })
}

fn no_segments(ranks: u32, bytes: usize, error: SegmentError) -> StartRefusal {
    let remedy = remedy(error);
    StartRefusal { text: format!("no segments of {bytes} bytes for {ranks} ranks: {error}{remedy}"), code: 1 }
}
